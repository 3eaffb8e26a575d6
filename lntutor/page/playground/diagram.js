// One layer of a placement that slots cannot express, as boxes: the main chain in one column.

const PITCH = 40
const BOX = { sub: [128, 32], norm: [112, 28], tanh: [60, 28], scale: [58, 26], sum: [26, 26], input: [30, 22] }
const COLUMN = { left: -112, right: 118 }
const SUB_WORDS = { self: "attention", cross: "cross-attention", ffn: "FFN" }

// Where the norms of one layer stand, sub-layer by sub-layer: the same letters as the slots; taps are inside f.
function normsOf({ program, taps }, count) {
  const subs = Array.from({ length: count }, () => ({ A: false, B: false, C: false, inside: false }))
  const { inputs, steps } = program
  const stepOf = (register) => steps[register - inputs]
  const behind = (register) => stepOf(register)?.[0] === "scale" ? behind(stepOf(register)[1]) : stepOf(register)
  let last = 0
  steps.forEach(([kind, from, place], i) => {
    if (kind === "sub") last = place
    if (kind !== "norm" && kind !== "tanh") return
    const source = behind(from)?.[0]
    const fed = feeds(program, i + inputs)
    if (source === "sum" && !(fed && last < fed.place && !fed.skips)) subs[last].C = true
    else if (source === "sub") subs[last].B = true
    else if (fed) subs[fed.place].A = true
    else subs[last].C = true
  })
  subs.skip = steps.some(([kind]) => kind === "sum")
  for (const name of Object.keys(taps)) subs[name === "hidden" ? count - 1 : 0].inside = true
  return subs
}

// The sub-layer that reads a register, or its multiple, and whether anything else reads it too.
function feeds(program, register) {
  const { inputs, steps } = program
  const readers = steps.filter(([kind, a, b]) => a === register || (kind === "sum" && b === register))
  const [first] = readers
  if (readers.length === 1 && first[0] === "scale") return feeds(program, inputs + steps.indexOf(first))
  const sub = readers.find(([kind]) => kind === "sub")
  return sub ? { place: sub[2], skips: readers.length > 1 } : null
}

const hasNorm = ({ steps }) => steps.some(([kind]) => kind === "norm" || kind === "tanh")

// Nodes with ranks, of one layer and of what follows the last layer.
function diagramNodes({ layers, finish }, layer, blocks, normName) {
  const nodes = []
  let floor = 0
  const add = (kind, inputs, more) => {
    const rank = Math.max(floor, ...inputs.map((one) => one.rank + 1))
    const node = { kind, inputs, rank, x: null, note: "", ...more }
    nodes.push(node)
    return node
  }
  const run = ({ steps, out }, state, part, taps) => {
    const registers = [...state]
    for (const [kind, a, b] of steps) {
      const inputs = [registers[a], ...(kind === "sum" ? [registers[b]] : [])]
      const scale = `× ${factorText(b)}`
      const text = { norm: normName, sum: "+", tanh: "tanh", sub: SUB_WORDS[blocks[b]], scale }[kind]
      registers.push(add(kind, inputs, { text, part, note: kind === "sub" ? tapsText(taps, blocks[b]) : "" }))
    }
    return out.map((register) => registers[register])
  }
  const { program, taps } = layers[layer - 1]
  const input = (_, i) => add("input", [], { text: "xryz"[i] ?? "x", part: "layer" })
  const state = Array.from({ length: program.inputs }, input)
  const ends = run(program, state, "layer", taps)
  floor = Math.max(...nodes.map((node) => node.rank)) + 1
  const out = run(finish, ends, "finish", {})[0]
  return { nodes, ends, out }
}

const factorText = (factor) => (typeof factor === "number" ? numberText(factor, 3) : "ω")

function tapsText(taps, block) {
  const names = Object.keys(taps).filter((name) => (name === "hidden") === (block === "ffn"))
  const steps = distinct(names.flatMap((name) => taps[name].steps.map(([kind]) =>
    (kind === "scale" ? "factor" : kind))))
  return names.length && steps.length ? `${steps.join(", ")} on ${names.join(", ")}` : ""
}

// The longest way to the output is the main column; numbers stand left of it, other chains right.
function placeNodes({ nodes, ends, out }) {
  const preference = ({ kind }) => ["sub", "norm", "tanh", "sum", "scale", "input"].indexOf(kind)
  const walk = (node) => {
    for (; node && node.x === null; ) {
      node.x = 0
      const order = (a, b) => (b.x === 0) - (a.x === 0) || b.rank - a.rank || preference(a) - preference(b)
      node = [...node.inputs].sort(order)[0]
    }
  }
  walk(ends[0])
  walk(out)
  for (const node of nodes) node.x ??= COLUMN[["scale", "tanh"].includes(node.kind) ? "left" : "right"]
  return nodes
}

// The points of a line between two nodes; `track` is how far left a skip runs.
function edgePoints(from, to, track) {
  const y = (node) => -PITCH * node.rank
  const [, tall] = BOX[from.kind]
  const [wide, high] = BOX[to.kind]
  const split = y(from) - tall / 2 - 6
  if (from.x === to.x && to.rank === from.rank + 1) return [[from.x, y(from) - tall / 2], [to.x, y(to) + high / 2]]
  if (from.x === to.x && from.x !== 0) return [[from.x, y(from) - tall / 2], [to.x, y(to) + high / 2]]
  const begin = [from.x, y(from) - tall / 2]
  if (to.x !== 0 && to.kind !== "sum") return [begin, [from.x, split], [to.x, split], [to.x, y(to) + high / 2]]
  const side = to.x !== 0 ? -1 : from.x > 0 ? 1 : -1
  const edge = to.x + side * (wide / 2)
  if (from.x !== 0) return [begin, [from.x, y(to)], [edge, y(to)]]
  const lane = to.x !== 0 ? to.x - 36 : -78 - 15 * track
  return [begin, [0, split], [lane, split], [lane, y(to)], [edge, y(to)]]
}

// Skips that overlap run beside each other.
function trackOf(taken, low, high) {
  let track = 0
  while (taken.some((one) => one.track === track && one.low < high && low < one.high)) track++
  taken.push({ track, low, high })
  return track
}

function blockDiagram(programs, layer, blocks, normName) {
  const graph = diagramNodes(programs, layer, blocks, normName)
  const nodes = placeNodes(graph)
  const svg = svgNode("svg", { class: "lnp-diagram", role: "img" })
  const taken = []
  const wires = nodes.flatMap((to) => to.inputs.map((from) => {
    const skips = from.x === 0 && to.x === 0 && to.rank > from.rank + 1
    return edgePoints(from, to, skips ? trackOf(taken, from.rank, to.rank) : 0)
  }))
  const top = -PITCH * (Math.max(...nodes.map((node) => node.rank)) + 1)
  const open = (end) => end.kind !== "input" && !nodes.some((node) => node.inputs.includes(end))
  for (const end of distinct([graph.out, ...graph.ends.filter(open)]))
    wires.push([[end.x, -PITCH * end.rank - BOX[end.kind][1] / 2], [end.x, top]])
  const edges = [...wires.flat().map(([x]) => x), ...nodes.map((node) => node.x - BOX[node.kind][0] / 2)]
  const left = Math.min(-70, ...edges) - 6
  const right = Math.max(70, ...nodes.map((node) => node.x + BOX[node.kind][0] / 2)) + 6
  svg.setAttribute("viewBox", `${left} ${top - 8} ${right - left} ${24 - top}`)
  const lasts = nodes.filter((node) => node.part === "layer").map((node) => node.rank)
  const height = PITCH * (Math.max(...lasts) + 0.5)
  const frame = { x: left + 1, y: -height, width: right - left - 2, height: height + 14, rx: 10 }
  svg.append(svgNode("rect", { ...frame, class: "lnp-frame" }))
  const wire = (points) => svgNode("path", { d: `M${points.join("L")}`, class: "lnp-wire" })
  for (const points of wires) svg.append(wire(points), arrowHead(points))
  for (const node of nodes) svg.append(nodeShape(node))
  svg.setAttribute("aria-label", diagramText(nodes))
  return svg
}

function arrowHead(points) {
  const [[x0, y0], [x, y]] = points.slice(-2)
  const [dx, dy] = [Math.sign(x - x0), Math.sign(y - y0)]
  const wing = (side) => `${x - 6 * dx + 4 * side * dy} ${y - 6 * dy + 4 * side * dx}`
  return svgNode("path", { d: `M${wing(1)}L${x} ${y}L${wing(-1)}`, class: "lnp-wire" })
}

function nodeShape({ kind, text, x, rank, note }) {
  const [width, height] = BOX[kind]
  const y = -PITCH * rank
  const name = { sub: "lnp-f", norm: "lnp-norm lnp-on", tanh: "lnp-norm lnp-on" }[kind] ?? "lnp-sum"
  const box = { x: x - width / 2, y: y - height / 2, width, height, rx: kind === "sum" ? 13 : 7 }
  const words = [svgNode("text", { x, y: y + (note ? 0 : 5), class: "lnp-flabel" }, text)]
  if (note) words.push(svgNode("text", { x, y: y + 12, class: "lnp-small" }, note))
  const boxes = [svgNode("rect", { ...box, class: "lnp-ground" }), svgNode("rect", { ...box, class: name })]
  return svgNode("g", {}, ...boxes, ...words)
}

function diagramText(nodes) {
  const steps = nodes.filter((node) => node.kind !== "input")
  const words = steps.map(({ text, note }) => text + (note ? ` (${note})` : ""))
  return `Block diagram of one layer, from the input up: ${words.join(", ")}.`
}
