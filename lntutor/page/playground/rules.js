// Rules as graphs (graph.py writes them): which programs make up a network.

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
