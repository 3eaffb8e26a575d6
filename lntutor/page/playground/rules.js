// Rules as graphs (graph.py writes them): which programs make up a network, and the graph of any choice of slots.

const STACKS = { encoder: ["encoder"], decoder: ["decoder"], "encoder-decoder": ["encoder", "decoder"] }
const PARAMETERS = ["W_Q", "W_K", "W_V", "W_O", "W_1", "W_2"]

function blocksOf(stack, side) {
  return stack === "encoder-decoder" && side === "decoder" ? ["self", "cross", "ffn"] : ["self", "ffn"]
}

// The programs of one side at one depth: { start, embedding, layers: [{ program, gains, taps }], finish }
function programsOf(graph, stack, side, depth) {
  const { parts, deepest, sides } = graph
  const found = sides[stack][side][depth] ?? sides[stack][side][deepest]
  const layers = found.layers.flatMap(([count, program, gains, taps]) => {
    const named = Object.fromEntries(Object.entries(parts[taps]).map(([name, place]) => [name, parts[place]]))
    return Array(count).fill({ program: parts[program], gains: parts[gains], taps: named })
  })
  const { start, embedding, finish } = found
  return { start: parts[start], embedding, layers: layers.slice(0, depth), finish: parts[finish] }
}

// Whether a path leads through the first layer and the end of a side around all sub-layers.
function hasSkip({ start, layers, finish }) {
  const through = ({ inputs, steps, out }, from) => {
    const free = [...from]
    for (const [kind, a, b] of steps) {
      free.push(kind !== "sub" && (free[a] || (kind === "sum" && free[b])))
    }
    return out.map((register) => free[register])
  }
  return through(finish, through(layers[0].program, through(start, [true])))[0]
}

// The rule with a norm in each of these slots: A before the sub-layer, B after it, C after the sum, D at the very end.
function slotProgram(slots, subs) {
  const steps = []
  let sum = null // of the last norm that reads a sum
  let x = 0
  const step = (...details) => steps.push(details) // and its register
  const norm = (from) => {
    if (steps[from - 1]?.[0] === "sum") sum = from
    return step("norm", from)
  }
  for (let place = 0; place < subs; place++) {
    let y = step("sub", slots.includes("A") ? norm(x) : x, place)
    if (slots.includes("B")) y = norm(y)
    x = step("sum", x, y)
    if (slots.includes("C")) x = norm(x)
  }
  return { inputs: 1, steps, out: [x], sum }
}

function slotGraph(slots) {
  const end = { inputs: 1, steps: slots.includes("D") ? [["norm", 0]] : [], out: [slots.includes("D") ? 1 : 0], sum: null }
  const parts = [slotProgram(slots, 2), slotProgram(slots, 3), Array(6).fill(1), {}, { inputs: 1, steps: [], out: [0], sum: null }, end]
  const side = (program) => ({ 48: { start: 4, embedding: 1, layers: [[48, program, 2, 3]], finish: 5 } })
  const sides = {
    encoder: { encoder: side(0) },
    decoder: { decoder: side(0) },
    "encoder-decoder": { encoder: side(0), decoder: side(1) },
  }
  return { deepest: 48, parts, sides }
}

// A graph as text, the same for two graphs that compute the same by the same steps; null if it depends on the depth.
function canonical(graph) {
  const sides = []
  for (const [stack, names] of Object.entries(STACKS)) {
    for (const side of names) {
      if (Object.keys(graph.sides[stack][side]).length > 1) return null
      sides.push(programsOf(graph, stack, side, graph.deepest))
    }
  }
  return JSON.stringify(sides, (key, value) => {
    if (key === "sum") return undefined
    return Array.isArray(value) && value[0] === "sum" ? ["sum", ...value.slice(1).sort((a, b) => a - b)] : value
  })
}

const ALL_SLOTS = Array.from({ length: 16 }, (_, i) => [..."ABCD"].filter((_, k) => i & (1 << k)).join(""))
const slotTexts = new Map(ALL_SLOTS.map((slots) => [canonical(slotGraph(slots)), slots]))

// The slots that make this graph, "" for none of them; null where slots cannot express it.
function slotsOf(graph) {
  return slotTexts.get(canonical(graph)) ?? null
}
