// Numbers and sentences.

const SLOT_WORDS = { A: "before the sub-layer", B: "after the sub-layer", C: "after the sum", D: "at the very end" }
const BLOCK_WORDS = { self: "self-attention", cross: "cross-attention", ffn: "FFN" }
const KIND_WORDS = { zero: "exactly 0", "round-off": "only round-off", overflow: "overflow" }
const KEY_WORDS = {
  depth: "depth", width: "width", stack: "stack", heads: "heads", tokens: "tokens", attention: "attention",
  init: "init", ffn: "FFN", output_projection: "W_O", norm: "norm", seeds: "networks",
}

const trueMinus = (text) => text.replace("-", "−")

// A number with so many digits: 0.312, 12.3, 4.1e−7.
function numberText(value, digits = 3) {
  const power = Math.floor(Math.log10(Math.abs(value)))
  if (value === 0 || (power >= -3 && power < 5)) return trueMinus(String(Number(value.toPrecision(digits))))
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e")
  return trueMinus(`${Number(mantissa)}e${Number(exponent)}`)
}

// The same with zeros at the end, for columns: 1.50.
function columnText(value, digits) {
  return value >= 0.001 && value < 10 ** digits ? value.toPrecision(digits) : numberText(value, digits)
}

const fixedText = (value) => trueMinus((Math.abs(value) < 0.005 ? 0 : value).toFixed(2))
const timesText = (ratio) =>
  `${ratio < 99.5 ? ratio.toFixed(1) : ratio < 1e4 ? String(Number(ratio.toPrecision(2))) : numberText(ratio, 2)}×`
const counted = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`
const capitalised = (text) => text.slice(0, 1).toUpperCase() + text.slice(1)

// x ← N(x + f(x)), for a subset of the four slots.
function ruleOf(slots) {
  const has = (slot) => slots.includes(slot)
  const inner = has("A") ? "f(N(x))" : "f(x)"
  const branch = has("B") ? `N(${inner})` : inner
  return `x ← ${has("C") ? `N(x + ${branch})` : `x + ${branch}`}${has("D") ? ", then N at the end" : ""}`
}

function placementName(state, placements) {
  if (placements[state.placement]) return placements[state.placement].label
  if (!state.slots) return "No norm"
  const short = { A: "before f", B: "after f", C: "after the sum", D: "at the end" }
  return `Norm ${[...state.slots].map((slot) => short[slot]).join(", ").replace(/, ([^,]*)$/, " and $1")}`
}

function referenceOf({ reference, year }) {
  if (!reference) return ""
  return !year || /\d{4}/.test(reference) ? reference : `${reference} ${year}`
}

// What differs between two states, for "before: …": the placement, else the settings that changed.
function differenceText(old, now, placements) {
  const parts = MODEL_KEYS.filter((key) => old[key] !== now[key]).map((key) => settingText(key, old[key]))
  const moved = old.placement !== now.placement || old.slots !== now.slots
  return [...(moved || !parts.length ? [placementName(old, placements)] : []), ...parts].join(", ")
}

function settingText(key, value) {
  if (key === "output_projection") return value ? "with W_O" : "without W_O"
  if (key === "ffn") return `FFN ${value}×`
  if (key === "norm") return value === "rms" ? "RMS norm" : "layer norm"
  if (typeof value === "number") return `${KEY_WORDS[key]} ${value}`
  return key === "stack" ? value : `${value} ${KEY_WORDS[key]}`
}

// One sentence per picture, and one on what was there before ------------------------------------------------------

function findingText(shown, before, company, state, placements) {
  const name = placementName(shown.state, placements)
  const beside = company.length ? companyText(company, state, placements) : ""
  if (alongOf(state))
    return [`${name}: ${sizeFinding(shown, state)}`, beside || beforeBySize(before, shown, state, placements)]
  const [now, old] = [shown, before].map((one) => one && profileOf(one.result, { ...one.state, ...pictureKeys(state) }))
  const tell = { signal: signalFinding, similarity: similarityFinding }[state.view] ?? gradientFinding
  const told = tell(now, state, networksText(shown))
  const ago = state.view === "similarity" ? similarityBefore : beforeText
  return [`${name}: ${told}.`, beside || ago(now, old, before, shown, placements)]
}

// The placements beside the chosen one, in a few words each
function companyText(company, state, placements) {
  if (company.length > 3) return `Beside it: ${company.length} other placements.`
  return company.map((one) => {
    const told = alongOf(state) ? slopeWords(sizeCurves(one.result, state)[0]?.slope)
      : profileWords(profileOf(one.result, { ...one.state, ...pictureKeys(state) }), state)
    return `${placementName(one.state, placements)}: ${told}.`
  }).join(" ")
}

const slopeWords = (slope) => (Number.isFinite(slope) ? `slope ${fixedText(slope)}` : "no slope")

function profileWords({ layers, numbers, ratio, spread }, { view }) {
  if (!numbers.length) return oddText(layers) || "no such matrix"
  const [first, top] = [numbers[0], numbers.at(-1)]
  if (view === "similarity") return `cosine ${fixedText(first.mean)} to ${fixedText(top.mean)}`
  if (ratio === null) return `${numberText(top.mean)} in layer ${top.row}`
  if (view === "signal") return ratio < 1 ? `shrinks ${timesText(1 / ratio)}` : `grows ${timesText(ratio)}`
  if (spread < 1.25) return "nearly equal in all layers"
  return ratio >= 1 ? `the top is ${timesText(ratio)} the bottom` : `the bottom is ${timesText(1 / ratio)} the top`
}

const pictureKeys = ({ view, parameter }) => ({ view, parameter })
const networksText = ({ result, state }) =>
  result.seeds < state.seeds ? `${result.seeds} of ${counted(state.seeds, "network")}`
    : counted(result.seeds, "network")

// The last side's first block, from bottom to top, and how much its top is of its bottom.
function profileOf(result, state) {
  const side = sidesOf(state).at(-1)
  const bars = barsOf(result, state).filter((bar) => bar.side === side && bar.lane === 0)
  bars.sort((a, b) => a.row - b.row)
  const layers = bars.filter((bar) => bar.row <= state.depth)
  const numbers = layers.filter((bar) => bar.kind === "number")
  const ratio = numbers.length > 1 ? numbers.at(-1).mean / numbers[0].mean : null
  return { side, layers, numbers, ratio, spread: spreadOf(numbers) }
}

const spreadOf = (bars) => Math.max(...bars.map((bar) => bar.mean)) / Math.min(...bars.map((bar) => bar.mean))

function layersText(bars) {
  const rows = bars.map((bar) => bar.row)
  const whole = rows.every((row, i) => row === rows[0] + i)
  if (rows.length === 1) return `layer ${rows[0]}`
  return `layers ${whole ? `${rows[0]} to ${rows.at(-1)}` : rows.join(", ")}`
}

// "exactly 0 in layers 1 to 4; only round-off in layer 5": what cannot be drawn as a number.
function oddText(layers) {
  const parts = Object.keys(KIND_WORDS).map((kind) => [kind, layers.filter((bar) => bar.kind === kind)])
  return parts
    .filter(([, bars]) => bars.length)
    .map(([kind, bars]) => `${KIND_WORDS[kind]} in ${bars.length === layers.length ? "every layer" : layersText(bars)}`)
    .join("; ")
}

function gradientFinding({ side, layers, numbers, ratio, spread }, { parameter }, networks) {
  const where = layers[0]?.lanes > 1 ? `${side} ${BLOCK_WORDS[layers[0].block]}` : side
  const odd = oddText(layers)
  const tail = odd ? `; it is ${odd}` : ""
  if (!layers.length) return `there is no ${parameter} in this model`
  const it = `the gradient of ${parameter}`
  if (!numbers.length) {
    const what = odd.replace(/^overflow/, "too large a number (overflow)")
    return `${it} in the ${where} is ${what}${reasonText(layers)} (${networks})`
  }
  const [first, last] = [numbers[0], numbers.at(-1)]
  if (ratio === null) return `${it} in ${where} layer ${first.row} is ${numberText(first.mean)}${tail} (${networks})`
  if (spread < 1.25) {
    const all = odd ? layersText(numbers) : `all ${layers.length} ${where} layers`
    return `${it} is nearly equal in ${all} (largest ${timesText(spread)} the smallest, ${networks})${tail}`
  }
  const [bottom, top] = odd ? [`layer ${first.row}`, `layer ${last.row}`] : ["bottom", "top"]
  return ratioText(ratio, bottom, top, where, parameter, odd) + `${tail} (${networks})`
}

function ratioText(ratio, bottom, top, where, parameter, odd) {
  const [high, low] = ratio >= 1 ? [top, bottom] : [bottom, top]
  const size = timesText(ratio >= 1 ? ratio : 1 / ratio)
  return odd
    ? `in the ${where}, the gradient of ${parameter} in ${high} is ${size} that in ${low}`
    : `the ${high} ${where} layer's gradient of ${parameter} is ${size} the ${low}'s`
}

const reasonText = (layers) =>
  layers.every((bar) => bar.kind === "zero") ? ": no path leads from it to the loss" : ""

function signalFinding({ side, layers, numbers, ratio }, state, networks) {
  const odd = oddText(layers.filter((bar) => bar.row > 0))
  const tail = odd ? `; it is ${odd}` : ""
  if (ratio === null) return `the stream of the ${side} has no size to compare${tail} (${networks})`
  const end = numbers.at(-1).row
  const span = `from the input to layer ${end}`
  if (ratio > 0.9 && ratio < 1.1) return `the ${side}'s stream keeps its size ${span}${tail} (${networks})`
  const word = ratio > 1 ? "grows" : "shrinks"
  return `the ${side}'s stream ${word} ${timesText(ratio > 1 ? ratio : 1 / ratio)} ${span}${tail} (${networks})`
}

// How the same ratio was in the state before.
function beforeText(now, old, before, shown, placements) {
  if (!old?.numbers.length) return ""
  const who = differenceText(before.state, shown.state, placements)
  const top = old.numbers.at(-1)
  if (old.ratio === null || now.ratio === null) return `Before (${who}): ${numberText(top.mean)} in layer ${top.row}.`
  const turn = old.ratio >= 1 ? `the top was ${timesText(old.ratio)} the bottom`
    : `the bottom was ${timesText(1 / old.ratio)} the top`
  return `Before (${who}): ${old.spread < 1.25 ? "nearly equal in all layers" : turn}.`
}

// Cosines between tokens: from what enters the first layer to what leaves the last.
function similarityFinding({ side, numbers }, state, networks) {
  if (!numbers.length) return `there is nothing to compare in the ${side} (${networks})`
  const [first, last] = [numbers[0], numbers.at(-1)]
  const [low, high] = [first, last].map(({ mean }) => fixedText(mean))
  const word = last.mean > 0.95 ? "nearly one" : last.mean > first.mean + 0.1 ? "more alike" : "no more alike"
  return `the ${side}'s tokens become ${word}: mean cosine ${low} at the input, ${high} after layer ${last.row} (${networks})`
}

function similarityBefore(now, old, before, shown, placements) {
  const last = old?.numbers.at(-1)
  return last ? `Before (${differenceText(before.state, shown.state, placements)}): ${fixedText(last.mean)} after layer ${last.row}.` : ""
}

function sizeFinding({ state: { stack }, result }, state) {
  const { key } = alongOf(state)
  const curves = sizeCurves(result, state)
  const side = stack.split("-").at(-1)
  if (!curves.length) return `models of other ${key}s are being measured`
  const [{ block, points, slope, predicted }] = curves
  const which = curves.length > 1 ? `${side} layer's ${BLOCK_WORDS[block]}` : `${side} layer's`
  const it = `the last ${which} gradient of ${state.parameter}`
  if (slope === null) return `${it} cannot be compared: ${oddSizes(points, key)}.`
  const course = Math.abs(slope) < 0.1 ? "hardly changes" : slope < 0 ? "falls" : "grows"
  const theory = state.theory && predicted !== null ? `, theory ${fixedText(predicted)}` : ""
  const odd = oddSizes(points.filter((point) => point.kind !== "number"), key)
  return `${it} ${course} with ${key}: slope ${fixedText(slope)} in log–log${theory}${odd && `; ${odd}`}.`
}

function beforeBySize(before, shown, state, placements) {
  const same = before?.result.config.along?.key === state.view
  const slope = same ? sizeCurves(before.result, state)[0]?.slope : null
  if (!Number.isFinite(slope)) return ""
  return `Before (${differenceText(before.state, shown.state, placements)}): slope ${fixedText(slope)}.`
}

const oddSizes = (points, key) =>
  points.map((point) => `${KIND_WORDS[point.kind] ?? numberText(point.mean)} at ${key} ${point.at}`).join("; ")

// What a screen reader hears of the picture, and what the line under it says of one row.
function rowText(bars, state, total) {
  const [{ side, row }] = bars
  const place = row === 0 ? `${side} input` : row > total ? `${side} output` : `${side} layer ${row}`
  const names = { ...BLOCK_WORDS, out: "after it", sum: "sum before the last norm" }
  const parts = bars.map((bar) => {
    const lane = bar.lanes > 1 || ofStream(state) ? `${names[bar.block] ?? ""} ` : ""
    if (bar.kind !== "number") return lane + KIND_WORDS[bar.kind]
    const range = bar.values.length > 1 ? ` (${numberText(bar.low)} to ${numberText(bar.high)})` : ""
    const theory = state.theory && bar.theory !== null ? `, theory ${numberText(bar.theory)}` : ""
    return `${lane}${numberText(bar.mean)}${range}${theory}`
  })
  return `${place}: ${parts.join("; ")}`
}

// Playground(depth=12, placement="peri")
function pythonLine(state, defaults) {
  const texts = { true: "True", false: "False" }
  const quoted = (value) => (/^[\w ]*$/.test(value) ? `'${value}'` : JSON.stringify(value))
  const python = (value) => {
    if (Array.isArray(value)) return `[${value.map(quoted).join(", ")}]`
    return texts[value] ?? (typeof value === "string" ? quoted(value) : String(value))
  }
  const pairs = settingsText(state, defaults).map(([key, value]) => `${key}=${python(value)}`)
  return `Playground(${pairs.join(", ")})`
}

const sameValue = (a, b) => String(a) === String(b) // also of lists

// The settings that differ from the defaults; a placement without a name is given by its slots.
function settingsText(state, defaults) {
  const keys = Object.keys(state).filter((key) => key !== (state.placement ? "slots" : "placement"))
  return keys.filter((key) => !sameValue(state[key], defaults[key]) || key === "slots").map((key) => [key, state[key]])
}
