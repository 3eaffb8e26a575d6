// From a result of the engine to what is drawn: one bar per layer and block (or site of the stream).

const MODEL_KEYS = [
  "depth", "width", "stack", "heads", "tokens", "attention", "init", "ffn", "output_projection", "norm", "seeds",
]
const GRADIENT_COLUMNS = [
  "placement", "depth", "width", "side", "layer", "block", "parameter", "seed", "value", "below_floor",
]

const sidesOf = (state) => state.stack.split("-")
const distinct = (list) => [...new Set(list)]
const meanOf = (list) => list.reduce((sum, value) => sum + value, 0) / list.length

// What several networks say of one number. kind: "number", "zero" (no path), "round-off" or "overflow".
function reading(values, below = []) {
  const all = [...values]
  if (all.some((value) => !Number.isFinite(value))) return { kind: "overflow", values: [] }
  if (all.every((value, i) => value === 0 && !below[i])) return { kind: "zero", values: [] }
  const kept = all.filter((value, i) => value > 0 && !below[i])
  if (!kept.length) return { kind: "round-off", values: [] }
  return { kind: "number", values: kept, mean: meanOf(kept), low: Math.min(...kept), high: Math.max(...kept) }
}

const predicted = (theory) => (Number.isFinite(theory) && theory > 0 ? theory : null)

// Bars of the gradient of one matrix; where two blocks have it (self, cross), each has a lane of its own.
function gradientBars(result, parameter) {
  const found = result.gradients.filter((one) => one.parameter === parameter)
  const lanes = {}
  for (const side of distinct(found.map((one) => one.side)))
    lanes[side] = distinct(found.filter((one) => one.side === side).map((one) => one.block))
  return found.map((one) => ({
    side: one.side,
    row: one.layer,
    lane: lanes[one.side].indexOf(one.block),
    lanes: lanes[one.side].length,
    block: one.block,
    theory: predicted(one.theory),
    ...reading(one.values, one.below),
  }))
}

// Bars of the stream's sites: row 0 is the input, the row after the last layer is what leaves the side.
function siteBars(result, sites, read) {
  const top = result.config.depth + 1
  const lanes = new Set(sites.some((one) => one.site === "sum") ? ["out", "sum"] : ["out"])
  return sites.map((one) => ({
    side: one.side,
    row: one.site === "in" ? 0 : one.site === "final" ? top : one.layer,
    lane: one.site === "sum" ? 1 : 0,
    lanes: one.site === "in" || one.site === "final" ? 1 : lanes.size,
    block: one.site,
    ...read(one),
  }))
}

const sizeReading = ({ values, theory }) => ({ theory: predicted(theory), ...reading(values) })

function cosineReading({ values, theory }) {
  const kept = [...values]
  const expected = Number.isFinite(theory) ? theory : null
  if (!kept.every(Number.isFinite)) return { theory: expected, kind: "overflow", values: [] }
  const [low, high] = [Math.min(...kept), Math.max(...kept)]
  return { theory: expected, kind: "number", values: kept, mean: meanOf(kept), low, high }
}

function barsOf(result, { view, parameter }) {
  if (view === "signal") return siteBars(result, result.signals, sizeReading)
  return view === "similarity" ? siteBars(result, result.cosines.filter(({ site }) => site !== "sum"), cosineReading) : gradientBars(result, parameter)
}

const ofStream = ({ view }) => view === "signal" || view === "similarity"

// The last layer of models of several sizes: one curve per block.
function sizeCurves(result, state) {
  const found = result.lastLayer.filter((one) => one.parameter === state.parameter)
  return distinct(found.map((one) => one.block)).map((block) => {
    const points = found
      .filter((one) => one.block === block)
      .map((one) => ({ at: one.at, theory: predicted(one.theory), ...reading(one.values, one.below) }))
    return { block, points, slope: slopeOf(points, "mean"), predicted: slopeOf(points, "theory") }
  })
}

// Least squares in log–log, over the points that are measured (and predicted, where theory is asked for).
function slopeOf(points, key) {
  const kept = points.filter((p) => p.kind === "number" && p[key] > 0)
  if (distinct(kept.map((p) => p.at)).length < 2) return null
  const x = kept.map((p) => Math.log(p.at))
  const y = kept.map((p) => Math.log(p[key]))
  const [mx, my] = [meanOf(x), meanOf(y)]
  return x.reduce((sum, v, i) => sum + (v - mx) * (y[i] - my), 0) / x.reduce((sum, v) => sum + (v - mx) ** 2, 0)
}

// The sizes of the views by depth and by width: doubling, up to that of the slider, and that itself; else null.
function alongOf(state) {
  const { view: key } = state
  if (key !== "depth" && key !== "width") return null
  const [first, least] = key === "depth" ? [1, 8] : [16, 64]
  const top = Math.max(state[key], least)
  const doubled = Array.from({ length: 6 }, (_, i) => first * 2 ** i)
  const values = distinct([...doubled, state[key]]).filter((size) => size <= top)
  return { key, values: values.sort((a, b) => a - b) }
}

// Whether the first network of every size has answered.
const everySizeIn = ({ config, lastLayer }) =>
  distinct(lastLayer.map(({ at }) => at)).length === (config.along?.values ?? []).length

// All matrices and seeds of a result, as rows with the columns of ln.gradient_norms.
function tableOf({ state, result }) {
  const { depth, width } = state
  const placement = state.placement || `slots_${state.slots}`
  return result.gradients.flatMap(({ side, layer, block, parameter, values, below }) =>
    Array.from(values, (value, seed) => ({
      placement, depth, width, side, layer, block, parameter, seed, value, below_floor: Boolean(below[seed]),
    })),
  )
}
