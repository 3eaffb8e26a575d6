// The page's side of the workers: one per seed. The newest request wins; its first seed comes alone, then the others.

const MOST_BYTES = 512 * 2 ** 20 // of one network's weights and signals
const PAUSE = 80 // ms after the first seed until the others are asked for
const MOST_READY = 8 // results that were measured ahead
const NO_WORKERS = "This browser runs no workers here, so the page cannot compute. Open it in a current browser, as a page of its own."
const NO_KERNEL =
  "This browser cannot run the playground's arithmetic (WebAssembly with SIMD). Firefox, Chrome and Edge have it since 2021, Safari since 2023."

// The model that a worker runs: the config with its rule's programs at its depth
function modelOf(config) {
  const { graph, stack, depth, width, heads, attention, init, output_projection, norm, tokens } = config
  const sides = Object.fromEntries(STACKS[stack].map((side) => [side, programsOf(graph, stack, side, depth)]))
  const skip = Object.values(sides).every(hasSkip)
  const ffn = config.ffn * width
  return { stack, depth, width, heads, ffn, attention, init, output_projection, norm, tokens, sides, skip }
}

// Bytes of the weights and of what one pass keeps, forward and back
function bytesOf({ stack, depth, width, ffn, heads, tokens }) {
  const rows = (tokens + 3) & ~3
  let layer = 0
  for (const side of STACKS[stack]) {
    const attentions = blocksOf(stack, side).length - 1
    const weights = attentions * 4 * Math.max(width, 64) ** 2 + 2 * Math.max(width, 64) * Math.max(ffn, 64)
    const signals = rows * ((attentions + 1) * 24 * width + 4 * ffn) + attentions * heads * tokens ** 2 + 60 * rows ** 2
    layer += weights + signals
  }
  return 4 * (depth * layer + 1024 * (width + 2 * rows))
}

class Client {
  // `alone`: nothing is measured ahead, and no seed waits for a hand to rest.
  constructor({ sample }, { alone = false } = {}) {
    Object.assign(this, { sample, alone, workers: [], unable: "", id: 0, asked: null, ready: new Map(), depth: 0, step: 1 })
    try {
      this.source = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }))
    } catch {
      this.unable = NO_WORKERS
    }
  }

  request(config, { onResult, onError }) {
    const asked = { id: ++this.id, config, onResult, onError, parts: [], ended: 0 }
    this.asked = asked
    const problem = this.unable || this.prepare(asked)
    if (problem) return queueMicrotask(() => onError(problem))
    this.send(0)
    if (asked.known) queueMicrotask(() => asked === this.asked && this.take(0, asked.known))
  }

  // The job of a request; a sentence if it cannot be done.
  prepare(asked) {
    const { config } = asked
    asked.model = modelOf(config)
    asked.known = this.ready.get(JSON.stringify(asked.model))
    asked.ahead = this.aheadOf(config)
    asked.models = config.along?.values.map((value) => modelOf({ ...config, [config.along.key]: value })) ?? null
    const bytes = Math.max(...[asked.model, ...(asked.models ?? [])].map(bytesOf))
    if (bytes <= MOST_BYTES) return ""
    const [need, most] = [bytes, MOST_BYTES].map((count) => Math.round(count / 2 ** 20))
    return `Depth ${config.depth}, width ${config.width} needs ${need} MB for each network, and the page takes at most ${most}. Make one of them smaller.`
  }

  // The models one layer deeper and one less deep that are not known, first the one that the depth goes towards
  aheadOf(config) {
    const { depth, graph } = config
    if (depth !== this.depth) this.step = depth < this.depth ? -1 : 1
    this.depth = depth
    const next = [depth + this.step, depth - this.step].filter((other) => other >= 1 && other <= graph.deepest)
    const models = config.along || this.alone ? [] : next.map((other) => modelOf({ ...config, depth: other }))
    return models.filter((model) => bytesOf(model) <= MOST_BYTES && !this.ready.has(JSON.stringify(model)))
  }

  send(seed) {
    const { id, config, model, models, ahead, known } = this.asked
    const worker = (this.workers[seed] ??= this.hire(seed))
    const own = seed ? { ahead: [], known: false } : { ahead, known: !!known }
    worker?.postMessage({ id, model, models, theory: config.theory, ...own })
  }

  // The other seeds, once the hand rests: they would take the processor from the next move
  sendOthers(asked) {
    if (asked === this.asked) for (let seed = 1; seed < asked.config.seeds; seed++) this.send(seed)
  }

  hire(seed) {
    try {
      const worker = new Worker(this.source)
      worker.onmessage = ({ data }) => this.hear(seed, data)
      worker.onerror = (event) => {
        event.preventDefault()
        this.fail(seed, event.message ? `The page's worker stopped: ${event.message}` : NO_WORKERS)
      }
      worker.postMessage({ wasm: KERNEL, sample: this.sample, seed })
      return worker
    } catch {
      queueMicrotask(() => this.fail(seed, NO_WORKERS))
      return null
    }
  }

  hear(seed, message) {
    if (message.stage === "unable") {
      this.unable = NO_KERNEL
      return this.fail(seed, NO_KERNEL)
    }
    if (message.stage === "ahead") return this.keep(message)
    const { asked } = this
    if (!asked || message.id !== asked.id) return
    if (message.stage === "failed") return this.fail(seed, `The page could not compute this: ${message.message}. Make the model smaller, or load the page again.`)
    this.take(seed, message)
  }

  keep({ text, ...result }) {
    this.ready.set(text, { ...result, stage: "measured" })
    if (this.ready.size > MOST_READY) this.ready.delete(this.ready.keys().next().value)
  }

  take(seed, message) {
    const { asked } = this
    const part = (asked.parts[seed] ??= { sizes: [] })
    if (message.stage === "done") part.ended = true
    else if (message.stage === "size") part.sizes.push(message)
    else part[message.stage] = message
    if (message.stage === "measured" && seed === 0) setTimeout(() => this.sendOthers(asked), this.alone ? 0 : PAUSE)
    asked.onResult(resultOf(asked))
  }

  // Give up the request, and the worker that failed: its memory is lost with it.
  fail(seed, sentence) {
    this.workers[seed]?.terminate()
    delete this.workers[seed]
    const { asked } = this
    this.asked = null
    asked?.onError(sentence)
  }

  close() {
    for (const worker of this.workers) worker?.terminate()
    URL.revokeObjectURL(this.source)
    Object.assign(this, { workers: [], asked: null })
  }
}

const rootMean = (numbers) => Math.sqrt(numbers.reduce((a, b) => a + b, 0) / numbers.length)

// What is known of a request so far, over the seeds that have answered
function resultOf({ config, parts }) {
  const heard = parts.filter((part) => part.measured)
  const measured = heard.map((part) => part.measured)
  const predicted = heard.map((part) => part.theory).filter((theory) => theory?.squares)
  const { names, sites, ms } = measured[0]
  return {
    config,
    seeds: measured.length,
    done: measured.length === config.seeds && heard.every((part) => part.ended),
    ms,
    gradients: rowsOf(names, measured, predicted),
    signals: sitesOf(sites, measured, predicted, "value"),
    cosines: config.tokens > 1 ? sitesOf(sites, measured, predicted, "cosine") : [],
    lastLayer: (config.along?.values ?? []).flatMap((at, i) => {
      const found = heard.map((part) => part.sizes[i]).filter(Boolean)
      return found.length ? rowsOf(found[0].names, found, found.filter((part) => part.squares)).map((row) => ({ at, ...row })) : []
    }),
    theoryNote: heard.map((part) => part.theory?.note).find(Boolean) ?? "",
  }
}

// One row per site of the stream; theory is the mean over the networks whose attention it took.
function sitesOf(sites, measured, predicted, what) {
  return sites.map(({ side, layer, site }, i) => ({
    side, layer, site, values: Float64Array.from(measured, (part) => part.sites[i][what]),
    theory: predicted.length ? predicted.reduce((sum, part) => sum + part.sites[i][what], 0) / predicted.length : null,
  }))
}

// One row per matrix; theory is √ of the mean square over the networks whose attention it took.
function rowsOf(names, measured, predicted) {
  return names.map(([side, layer, block, parameter], i) => ({
    side, layer, block, parameter,
    values: Float64Array.from(measured, (part) => part.found[i].value),
    below: Uint8Array.from(measured, (part) => part.found[i].below),
    theory: predicted.length ? rootMean(predicted.map((part) => part.squares[i])) : null,
  }))
}
