// One network in a worker: forward, back, and the norm of every matrix's gradient, over the products of kernel.c.
//
// It mirrors lntutor/model/transformer.py and lntutor/measure/: the same steps, from the same random numbers.

const TILE = 64
const TABLE = 256 // the most tiles of a matrix
const ROUND = 1e-5 // a norm below this share of ‖X‖‖G‖ is round-off: recorder.TOLERANCE["float32"]
const EPSILON = 2 ** -23
const WEIGHTS = 320 * 2 ** 20 // bytes of samples that a worker keeps
const WORDS = 1024
const BLOCK = 2 ** 20
const TINY = 1e-300

class Memory {
  // The kernel's memory: what is kept, and what lives for one pass.
  constructor(kernel) {
    this.memory = kernel.memory
    this.top = (kernel.__heap_base.value + 15) & ~15
    this.blocks = []
    this.reset()
  }

  keep(bytes) {
    const start = this.top
    this.top += (bytes + 15) & ~15
    const missing = this.top - this.memory.buffer.byteLength
    if (missing > 0) this.memory.grow(Math.ceil(Math.max(missing, BLOCK) / 65536))
    return start
  }

  reset() {
    this.block = -1
    this.end = this.at = 0
  }

  pass(bytes) {
    bytes = (bytes + 15) & ~15
    while (this.at + bytes > this.end) {
      if (++this.block === this.blocks.length) {
        const size = Math.max(BLOCK, bytes)
        this.blocks.push([this.keep(size), size])
      }
      const [start, size] = this.blocks[this.block]
      this.at = start
      this.end = start + size
    }
    const start = this.at
    this.at += bytes
    return start
  }

  floats(start, count) {
    return new Float32Array(this.memory.buffer, start, count)
  }

  words(start, count) {
    return new Uint32Array(this.memory.buffer, start, count)
  }
}

class Bank {
  // Unit samples by name, in tiles that are drawn when first needed (lntutor/model/weight_bank.py).
  constructor(kernel, memory, sample) {
    Object.assign(this, { kernel, memory, sample, kept: new Map(), free: [], used: 0 })
    this.name = memory.keep(1024)
  }

  // The repr of a name's tuple, as random_stream hashes it, written to the kernel's memory: [place, length]
  named(...parts) {
    const text = new TextEncoder().encode(`(${this.sample ? [this.sample, ...parts].join(", ") : this.tuple(parts)})`)
    new Uint8Array(this.memory.memory.buffer, this.name, text.length).set(text)
    return [this.name, text.length]
  }

  tuple(parts) {
    return parts.length === 1 ? `${parts[0]},` : parts.join(", ")
  }

  // A table of pointers to the tiles of a rows × columns corner.
  table(seed, name, rows, columns) {
    const key = `${seed}, ${name}`
    let found = this.kept.get(key)
    if (!found) this.kept.set(key, (found = { tiles: new Map(), table: this.memory.keep(4 * TABLE), shape: "" }))
    if (found.shape === `${rows} ${columns}`) return found.table
    const pointers = []
    for (let i = 0; i < rows; i += TILE) {
      for (let j = 0; j < columns; j += TILE) pointers.push(this.tile(found, key, i / TILE, j / TILE))
    }
    this.memory.words(found.table, pointers.length).set(pointers)
    found.shape = `${rows} ${columns}`
    return found.table
  }

  tile({ tiles }, key, i, j) {
    const place = `${i}, ${j}`
    if (!tiles.has(place)) {
      const start = this.free.pop() ?? this.memory.keep(4 * TILE * TILE)
      this.kernel.normals(...this.named(key, place), start, TILE * TILE)
      tiles.set(place, start)
      this.used += 4 * TILE * TILE
    }
    return tiles.get(place)
  }

  // Between two networks: forget all samples if they have become too many.
  tidy() {
    if (this.used <= WEIGHTS) return
    for (const { tiles } of this.kept.values()) this.free.push(...tiles.values())
    for (const found of this.kept.values()) Object.assign(found, { tiles: new Map(), shape: "" })
    this.used = 0
  }

  // numpy's permutation of the first `count` numbers
  permutation(seed, name, count) {
    const out = this.memory.pass(4 * count)
    this.kernel.permutation(...this.named(seed, name), out, count)
    return out
  }
}

class Signal {
  // One row of numbers per token in the kernel's memory, rows of zeros to a multiple of 4, and the gradient there. A
  // signal that is not live gets none: it depends on the inputs alone, not on weights.
  constructor(start, tokens, width, live = true) {
    Object.assign(this, { start, tokens, rows: (tokens + 3) & ~3, width, live, grad: 0 })
  }

  get count() {
    return this.rows * this.width
  }
}

// The number that a factor stands for; `growth(place)` is 1 + the variances of the sub-layers before one.
function factorOf(factor, growth) {
  if (typeof factor === "number") return factor
  const [sign, a, b] = factor
  if (sign === "growth") return growth(a)
  const [x, y] = [factorOf(a, growth), factorOf(b, growth)]
  return sign === "+" ? x + y : sign === "*" ? x * y : x ** y
}

function deviation(init, parameter, fanIn, fanOut) {
  if (init === "theory") return 1 / Math.sqrt(fanIn)
  const packed = init === "torch" && "W_Q W_K W_V".includes(parameter) ? 3 : 1
  return Math.sqrt(2 / (fanIn + packed * fanOut))
}

function shapeOf(model, parameter) {
  if (parameter === "W_1") return [model.width, model.ffn]
  return parameter === "W_2" ? [model.ffn, model.width] : [model.width, model.width]
}

function parametersOf(model, block) {
  if (block === "ffn") return ["W_1", "W_2"]
  return [...(model.attention === "softmax" ? ["W_Q", "W_K"] : []), "W_V", ...(model.output_projection ? ["W_O"] : [])]
}

// [side, layer, block, parameter] of every matrix, from the input to the output
function matricesOf(model) {
  const names = []
  for (const side of STACKS[model.stack]) {
    for (let layer = 1; layer <= model.depth; layer++) {
      for (const block of blocksOf(model.stack, side)) {
        for (const parameter of parametersOf(model, block)) names.push([side, layer, block, parameter])
      }
    }
  }
  return names
}

// The walk through the layers that networks and streams share (lntutor/model/rule.py). A subclass says what the steps
// of a program do: norm, tanh, scale, sum, attention, ffn; and what is noted of a signal: site, variance.
class Reading {
  constructor(model) {
    this.model = model
  }

  async run(breathe) {
    let memory = null
    for (const side of STACKS[this.model.stack]) {
      const rule = this.model.sides[side]
      this.here = { side, layer: 0, memory, before: 0, variances: [] }
      let state = this.apply(rule.start, [this.input(side, rule.embedding)])
      this.site("in", state[0])
      for (let layer = 1; layer <= this.model.depth; layer++) {
        Object.assign(this.here, { layer, ...rule.layers[layer - 1], variances: [] })
        state = this.apply(this.here.program, state)
        this.site("out", state[0])
        this.here.before += this.here.variances.reduce((a, b) => a + (b ?? 0), 0)
        await breathe()
      }
      memory = this.apply(rule.finish, state)[0]
      this.site("final", memory)
    }
    return memory
  }

  // The signals that a program makes of these; `group` is how many numbers a norm sees together, 0 for all.
  apply(program, inputs, group = 0) {
    const registers = [...inputs]
    const watched = program === this.here.program ? program.sum : null
    for (const [kind, a, b] of program.steps) {
      const x = registers[a]
      if (kind === "norm") registers.push(this.norm(x, group))
      else if (kind === "tanh") registers.push(this.tanh(x))
      else if (kind === "sum") registers.push(this.sum(x, registers[b]))
      else if (kind === "scale") registers.push(this.scale(x, factorOf(b, (place) => this.growth(place))))
      else registers.push(this.sub(x, b))
    }
    if (watched !== null) this.site("sum", registers[watched])
    return program.out.map((register) => registers[register])
  }

  growth(place) {
    return this.here.variances.slice(0, place).reduce((a, b) => a + (b ?? 0), 1 + this.here.before)
  }

  sub(x, place) {
    const block = blocksOf(this.model.stack, this.here.side)[place]
    const y = block === "ffn" ? this.ffn(x) : this.attention(x, block)
    this.here.variances[place] = this.variance(y)
    return y
  }

  tap(name, x, group) {
    const program = this.here.taps[name]
    return program ? this.apply(program, [x], group)[0] : x
  }

  deviation(parameter) {
    const gain = this.here.gains[PARAMETERS.indexOf(parameter)]
    return deviation(this.model.init, parameter, ...shapeOf(this.model, parameter)) * gain
  }
}

class Network extends Reading {
  constructor(kernel, memory, bank, model, seed) {
    super(model)
    Object.assign(this, { kernel, memory, bank, seed, tape: [], uses: new Map(), maps: new Map(), sites: [] })
  }

  // Signals and their gradients

  signal(tokens, width, live) {
    const y = new Signal(0, tokens, width, live)
    y.start = this.memory.pass(4 * y.count)
    return y
  }

  // A signal made from others; `back` passes its gradient on.
  made(y, back) {
    if (y.live) this.tape.push([y, back])
    return y
  }

  // Call give(place, add) with the place of x's gradient, and whether it has one already that must be added to.
  receive(x, give) {
    if (!x.live) return
    const add = x.grad ? 1 : 0
    x.grad ||= this.memory.pass(4 * x.count)
    give(x.grad, add)
  }

  cleared(x) {
    if (!x.grad) {
      x.grad = this.memory.pass(4 * x.count)
      this.memory.floats(x.grad, x.count).fill(0)
    }
    return x.grad
  }

  back(out, slope) {
    out.grad = slope
    for (const [y, pass] of this.tape.reverse()) if (y.grad) pass(y)
  }

  // What a rule may do

  sum(a, b) {
    const y = this.signal(a.tokens, a.width, a.live || b.live)
    this.kernel.sum(y.start, a.start, b.start, y.count)
    return this.made(y, () => {
      for (const x of [a, b]) this.receive(x, (grad, add) => this.kernel.scale(grad, y.grad, 1, y.count, add))
    })
  }

  scale(x, factor) {
    const y = this.signal(x.tokens, x.width, x.live && factor !== 0) // 0: no path leads back, an exact zero
    this.kernel.scale(y.start, x.start, factor, y.count, 0)
    return this.made(y, () =>
      this.receive(x, (grad, add) => this.kernel.scale(grad, y.grad, factor, y.count, add)),
    )
  }

  tanh(x) {
    const y = this.signal(x.tokens, x.width, x.live)
    this.kernel.squash(y.start, x.start, y.count)
    return this.made(y, () =>
      this.receive(x, (grad, add) => this.kernel.squash_back(grad, y.start, y.grad, y.count, add)),
    )
  }

  norm(x, group) {
    const d = group || x.width
    const rows = x.count / d
    const centred = this.model.norm === "layer" ? 1 : 0
    const y = this.signal(x.tokens, x.width, x.live)
    const size = this.memory.pass(4 * rows)
    this.kernel.norm(y.start, x.start, size, rows, d, centred)
    return this.made(y, () =>
      this.receive(x, (grad, add) => this.kernel.norm_back(grad, y.start, y.grad, size, rows, d, centred, add)),
    )
  }

  // Sub-layers

  input(side, gain) {
    const { tokens, width } = this.model
    const x = this.signal(tokens, width, false)
    const table = this.bank.table(this.seed, `'input', '${side}', 0`, tokens, width)
    this.kernel.unpack(x.start, table, x.rows, tokens, width, gain)
    return x
  }

  linear(x, block, parameter) {
    const { side, layer } = this.here
    const [p, q] = shapeOf(this.model, parameter)
    const table = this.bank.table(this.seed, `'${side}', ${layer}, '${block}', '${parameter}'`, p, q)
    const factor = this.deviation(parameter)
    const y = this.signal(x.tokens, q)
    this.kernel.product(y.start, x.start, table, x.rows, p, q, factor)
    const name = [side, layer, block, parameter].join()
    this.uses.set(name, [...(this.uses.get(name) ?? []), [x, y]])
    return this.made(y, () =>
      this.receive(x, (grad, add) => this.kernel.product_back(grad, y.grad, table, x.rows, p, q, factor, add)),
    )
  }

  ffn(x) {
    const hidden = this.linear(x, "ffn", "W_1")
    this.kernel.relu(hidden.start, hidden.count)
    const after = new Signal(hidden.start, hidden.tokens, hidden.width)
    this.made(after, () => {
      this.kernel.relu_back(after.grad, after.start, after.count)
      hidden.grad = after.grad
    })
    return this.linear(this.tap("hidden", after, after.width), "ffn", "W_2")
  }

  attention(x, block) {
    const keys = block === "self" ? x : this.here.memory
    const causal = block === "self" && this.here.side === "decoder"
    const heads = this.model.attention === "uniform" ? this.uniform(keys, block, causal) : this.softmax(x, keys, block, causal)
    const y = this.model.output_projection ? this.linear(heads, block, "W_O") : heads
    return y.tokens === x.tokens ? y : this.blend(y, x.tokens, () => 1)
  }

  softmax(x, keys, block, causal) {
    const { width, heads, tokens } = this.model
    const head = width / heads
    const [q, k, v] = [...["Q", "K", "V"]].map((letter) => {
      return this.tap(letter.toLowerCase(), this.linear(letter === "Q" ? x : keys, block, `W_${letter}`), head)
    })
    const y = this.signal(tokens, width)
    const P = this.memory.pass(4 * heads * tokens * tokens)
    const factor = 1 / Math.sqrt(head)
    this.kernel.attend(y.start, P, q.start, k.start, v.start, tokens, tokens, y.rows, width, head, factor, causal ? 1 : 0)
    this.maps.set([this.here.side, this.here.layer, block].join(), { q, k, v, P, y })
    this.made(y, () => {
      const to = [q, k, v].map((t) => (tokens > 1 || t === v ? this.cleared(t) : 0)) // one key: its score is idle
      this.kernel.attend_back(
        ...to, y.grad, P, q.start, k.start, v.start, tokens, tokens, width, head, factor,
      )
    })
    return this.tap("heads", y, head)
  }

  // The mean of the values: one row, or a row per token where each sees others. It is taken first, unless a tap comes.
  uniform(keys, block, causal) {
    const { width, heads, tokens } = this.model
    const mean = (x) => (causal ? this.blend(x, tokens, (i, j) => (j <= i) / (i + 1)) : this.blend(x, 1, () => 1 / tokens))
    const values = (x) => this.linear(x, block, "W_V")
    const y = this.here.taps.v ? mean(this.tap("v", values(keys), width / heads)) : values(mean(keys))
    return this.tap("heads", y, width / heads)
  }

  // Rows that are sums of x's rows: share(i, j) of row j in row i
  blend(x, tokens, share) {
    const y = this.signal(tokens, x.width, x.live)
    const P = this.memory.pass(4 * y.rows * x.rows)
    const shares = this.memory.floats(P, y.rows * x.rows).fill(0)
    for (let i = 0; i < tokens; i++) for (let j = 0; j < x.tokens; j++) shares[i * x.rows + j] = share(i, j)
    this.kernel.blend(y.start, P, x.start, y.rows, x.rows, x.width, 0, 0)
    return this.made(y, () =>
      this.receive(x, (grad, add) => this.kernel.blend(grad, P, y.grad, x.rows, y.rows, x.width, 1, add)),
    )
  }

  // The loss: cross-entropy against an independent head N(0, 1/d); labels are drawn without replacement

  slope(out) {
    const { width, tokens } = this.model
    const table = this.bank.table(this.seed, "'head'", width, WORDS)
    const factor = 1 / Math.sqrt(width)
    const logits = this.memory.pass(4 * out.rows * WORDS)
    this.kernel.product(logits, out.start, table, out.rows, width, WORDS, factor)
    this.kernel.loss_slope(logits, this.bank.permutation(this.seed, "'labels'", WORDS), out.rows, tokens, WORDS)
    const slope = this.memory.pass(4 * out.count)
    this.kernel.product_back(slope, logits, table, out.rows, width, WORDS, factor, 0)
    return slope
  }

  // What is measured

  site(name, x) {
    const { side, layer } = this.here
    this.sites.push({ side, layer, site: name, value: this.variance(x), cosine: this.cosine(x) })
  }

  // The mean cosine between two different tokens; NaN where there is only one
  cosine({ start, tokens, width }) {
    const sum = new Float64Array(width)
    const numbers = this.memory.floats(start, tokens * width)
    let count = 0
    for (let at = 0; at < numbers.length; at += width) {
      let square = 0
      for (let i = 0; i < width; i++) square += numbers[at + i] ** 2
      const size = Math.max(Math.sqrt(square), TINY)
      for (let i = 0; i < width; i++) sum[i] += numbers[at + i] / size
      count += square / size ** 2
    }
    return (sum.reduce((all, x) => all + x * x, 0) - count) / (count * (count - 1))
  }

  variance(x) {
    return this.kernel.square_sum(x.start, x.count) / (this.model.tokens * x.width)
  }

  // ‖∂L/∂W‖ of each matrix, and whether it is only round-off
  gradients(names) {
    const grams = new Map()
    const found = names.map((name) => this.gradient(name, grams))
    const most = Math.max(...found.map(({ value }) => value))
    return found.map(({ value, size, reached = true }, i) => {
      let floor = ROUND * size
      if (reached && value < 1e-3 * most) floor = Math.max(floor, this.softmaxFloor(names[i]))
      if (reached && !this.model.skip) floor = Math.max(floor, EPSILON * most)
      return { value, below: value < floor }
    })
  }

  gradient(name, grams) {
    const uses = (this.uses.get(name.join()) ?? []).filter(([, y]) => y.grad)
    if (!uses.length) return { value: 0, size: 0, reached: false } // an exact zero
    const [X, G, rows] = this.joined(uses)
    const [p, q] = [uses[0][0].width, uses[0][1].width]
    const gram = (start, width) => {
      if (!grams.has(start)) {
        const S = this.memory.pass(4 * rows * rows)
        this.kernel.gram(S, start, rows, width)
        grams.set(start, S)
      }
      return grams.get(start)
    }
    const tokens = uses.reduce((sum, [x]) => sum + x.tokens, 0)
    const product = () => Math.sqrt(this.kernel.product_norm(X, G, rows, p, q))
    if (tokens * (p + q) > p * q) {
      return { value: product(), size: Math.sqrt(this.kernel.square_sum(X, rows * p) * this.kernel.square_sum(G, rows * q)) }
    }
    const [A, B] = [gram(X, p), gram(G, q)]
    const size = Math.sqrt(this.kernel.trace(A, rows) * this.kernel.trace(B, rows))
    const value = Math.sqrt(Math.max(0, this.kernel.gram_dot(A, B, rows)))
    return { value: value < 0.02 * size ? product() : value, size }
  }

  // Inputs and gradients of a matrix that a rule uses once or more, one after the other: [X, G, rows]
  joined(uses) {
    if (uses.length === 1) return [uses[0][0].start, uses[0][1].grad, uses[0][0].rows]
    const places = [0, 1].map((which) => {
      const parts = uses.map((pair) => [which ? pair[which].grad : pair[which].start, pair[which].count])
      const place = this.memory.pass(4 * parts.reduce((sum, [, count]) => sum + count, 0))
      let at = place
      for (const [start, count] of parts) {
        this.memory.floats(at, count).set(this.memory.floats(start, count))
        at += 4 * count
      }
      return place
    })
    return [...places, uses.reduce((sum, [x]) => sum + x.rows, 0)]
  }

  // The round-off of W_Q's or W_K's gradient, where much cancels in the softmax's
  softmaxFloor([side, layer, block, parameter]) {
    const map = this.maps.get([side, layer, block].join())
    if (!map?.y.grad || !(parameter === "W_Q" || parameter === "W_K")) return 0
    const { q, k, v, y } = map
    const norm = (start, count) => Math.sqrt(this.kernel.square_sum(start, count))
    const rms = (t) => norm(t.start, t.count) / Math.sqrt(this.model.heads * this.model.tokens)
    const [[x]] = this.uses.get([side, layer, block, parameter].join())
    const size = norm(x.start, x.count) * norm(y.grad, y.count) * rms(v) * rms(parameter === "W_Q" ? k : q)
    return ((EPSILON / 2) * size) / Math.sqrt(this.model.width / this.model.heads)
  }

  // Attention weights (heads, n, n) in float64, with rows that sum to one there
  weights(name) {
    const { P } = this.maps.get(name)
    const n = this.model.tokens
    const p = Float64Array.from(this.memory.floats(P, this.model.heads * n * n))
    for (let row = 0; row < p.length; row += n) {
      const sum = p.subarray(row, row + n).reduce((a, b) => a + b, 0)
      for (let j = row; j < row + n; j++) p[j] /= sum
    }
    return p
  }
}
