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

// Bars of the size of the stream: row 0 is the input, the row after the last layer is what leaves the side.
function signalBars(result) {
  const top = result.config.depth + 1
  const lanes = new Set(result.signals.some((one) => one.site === "sum") ? ["out", "sum"] : ["out"])
  return result.signals.map((one) => ({
    side: one.side,
    row: one.site === "in" ? 0 : one.site === "final" ? top : one.layer,
    lane: one.site === "sum" ? 1 : 0,
    lanes: one.site === "in" || one.site === "final" ? 1 : lanes.size,
    block: one.site,
    theory: predicted(one.theory),
    ...reading(one.values),
  }))
}

const barsOf = (result, state) =>
  state.view === "signal" ? signalBars(result) : gradientBars(result, state.parameter)

// The last layer of models of several depths: one curve per block.
function depthCurves(result, state) {
  const found = result.lastLayer.filter((one) => one.parameter === state.parameter)
  return distinct(found.map((one) => one.block)).map((block) => {
    const points = found
      .filter((one) => one.block === block)
      .map((one) => ({ depth: one.depth, theory: predicted(one.theory), ...reading(one.values, one.below) }))
    return { block, points, slope: slopeOf(points, "mean"), predicted: slopeOf(points, "theory") }
  })
}

// Least squares in log–log, over the points that are measured (and predicted, where theory is asked for).
function slopeOf(points, key) {
  const kept = points.filter((p) => p.kind === "number" && p[key] > 0)
  if (distinct(kept.map((p) => p.depth)).length < 2) return null
  const x = kept.map((p) => Math.log(p.depth))
  const y = kept.map((p) => Math.log(p[key]))
  const [mx, my] = [meanOf(x), meanOf(y)]
  return x.reduce((sum, v, i) => sum + (v - mx) * (y[i] - my), 0) / x.reduce((sum, v) => sum + (v - mx) ** 2, 0)
}

// The depths of the by-depth view: doubling, up to the depth of the slider, and that depth itself.
function depthsOf(depth) {
  const top = Math.max(depth, 8)
  return distinct([1, 2, 4, 8, 16, 32, depth]).filter((d) => d <= top).sort((a, b) => a - b)
}

// Whether the first network of every depth has answered.
const everyDepthIn = ({ config, lastLayer }) =>
  distinct(lastLayer.map(({ depth }) => depth)).length === (config.depths ?? []).length

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
