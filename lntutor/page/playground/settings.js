// What a state may hold, and how placement and slots follow each other.

const wholeNumbers = (low, high) => Array.from({ length: high - low + 1 }, (_, i) => low + i)
const ALLOWED = {
  depth: wholeNumbers(1, 48),
  width: [16, 32, 48, 64, 96, 128, 192, 256, 384, 512],
  stack: ["encoder-decoder", "encoder", "decoder"],
  heads: [1, 2, 4, 8],
  tokens: [1, 2, 4, 8, 16, 32, 64],
  attention: ["softmax", "uniform"],
  init: ["xavier", "torch", "theory"],
  ffn: [1, 2, 4],
  output_projection: [true, false],
  norm: ["layer", "rms"],
  parameter: ["W_Q", "W_K", "W_V", "W_O", "W_1", "W_2"],
  seeds: wholeNumbers(1, 10),
  view: ["gradient", "depth", "width", "signal", "similarity"],
  theory: [true, false],
  lemma2: [true, false],
  lecture: [true, false],
}
const RANGES = { depth: "1..48", seeds: "1..10" }
const FOLD = [ // name, legend, words for the values
  ["parameter", "Matrix", (value) => value],
  ["stack", "Stack", (value) => ({ "encoder-decoder": "both sides", encoder: "encoder", decoder: "decoder" })[value]],
  ["attention", "Attention", (value) => value],
  ["norm", "Norm", (value) => ({ layer: "layer norm", rms: "RMS norm" })[value]],
  ["init", "Initial weights", (value) => ({ xavier: "Xavier", torch: "PyTorch", theory: "N(0, 1/n)" })[value]],
  ["ffn", "FFN width", (value) => `${value}×`],
  ["heads", "Heads", String],
  ["tokens", "Tokens", String],
]
const SWITCHES = [
  ["output_projection", "W_O after attention"], ["theory", "Theory"], ["lemma2", "Lemma 2"], ["lecture", "Large type"],
]
const VIEWS = { gradient: "Gradient", depth: "By depth", width: "By width", signal: "Signal", similarity: "Likeness" }
const USUAL = ["post", "pre", "peri", "res_post", "none"]

// The placements of the page: their slots, the graph of any choice of slots, and the name of one.
class Placements {
  constructor(all, slotGraphs) {
    this.all = all
    this.slotGraphs = slotGraphs
    this.slots = Object.fromEntries(Object.entries(all).map(([key, { slots }]) => [key, slots]))
    this.names = new Map()
    for (const [key, slots] of Object.entries(this.slots).reverse()) if (slots !== null) this.names.set(slots, key)
  }

  graphOf({ placement, slots }) {
    return placement ? this.all[placement].graph : this.slotGraphs[slots]
  }

  styleOf({ placement }) {
    return this.all[placement] ?? UNNAMED
  }

  // The state after a change: a placement sets the slots; slots alone set the placement.
  next(state, change) {
    const next = { ...state, ...change }
    if (change.placement) next.slots = this.slots[change.placement] ?? null
    else if (typeof change.slots === "string") {
      next.slots = [..."ABCD"].filter((slot) => change.slots.includes(slot)).join("")
      next.placement = this.names.get(next.slots) ?? ""
    }
    return next
  }

  // The states of the placements that stand beside the chosen one
  beside(state) {
    const keys = distinct(state.compare).filter((key) => key !== state.placement && this.all[key]?.graph)
    return keys.map((placement) => ({ ...state, placement, slots: this.slots[placement] }))
  }

  // The change of a press on a chip: it is chosen, or put beside the chosen one, or taken away again.
  pressed({ placement, compare }, key, several) {
    if (!several) return { placement: key }
    if (key !== placement) {
      return { compare: compare.includes(key) ? compare.filter((one) => one !== key) : [...compare, key] }
    }
    const [next, ...rest] = compare.filter((one) => one !== key)
    return next ? { placement: next, compare: rest } : {}
  }

  // Why a change makes no sense, in one sentence; "" if it does.
  problem(change) {
    for (const [key, value] of Object.entries(change)) {
      const shown = typeof value === "string" ? `'${value}'` : String(value)
      const listed = (values) => `${key} must be ${RANGES[key] ?? `one of ${values.join(", ")}`}, got ${shown}`
      if (key === "compare") {
        const wrong = Array.isArray(value) ? value.find((one) => !Object.hasOwn(this.all, one)) : shown
        if (wrong !== undefined) return `compare must be placements out of ${Object.keys(this.all).join(", ")}, got '${wrong}'`
        const unable = value.find((one) => !this.all[one].graph)
        if (unable !== undefined) return this.all[unable].error
      } else if (key === "placement") {
        if (value && !Object.hasOwn(this.all, value)) return listed(Object.keys(this.all))
      } else if (key === "slots") {
        const good = value === null || (typeof value === "string" && /^[ABCD]*$/.test(value))
        if (!good) return `slots must be letters out of A, B, C, D, got ${shown}`
      } else if (!Object.hasOwn(ALLOWED, key)) {
        return `there is no setting ${key}; there are ${Object.keys(ALLOWED).join(", ")}`
      } else if (!ALLOWED[key].includes(value)) return listed(ALLOWED[key])
    }
    return ""
  }
}
