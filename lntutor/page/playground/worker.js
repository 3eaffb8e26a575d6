// The worker of one seed: it runs the newest job and drops an older one between two layers.

const SUPERSEDED = Symbol("a newer job has come")
const SLICE = 12 // ms of work between two looks for a newer job
const SHORT_SLICE = 2 // the same while nobody waits
const SLOW = 60 // ms of a network that is too slow to be measured ahead

let newest = null
let working = false
let shop = null // the kernel, its memory and its samples

async function open({ wasm, sample, seed }) {
  const bytes = Uint8Array.from(atob(wasm), (letter) => letter.charCodeAt(0))
  const { exp, log, log1p, tanh } = Math
  const kernel = (await WebAssembly.instantiate(bytes, { math: { exp, log, log1p, tanh } })).instance.exports
  kernel.init()
  const memory = new Memory(kernel)
  shop = { kernel, memory, bank: new Bank(kernel, memory, sample), seed, doubles: new Float64Array(0) }
}

// A function to await now and then: it lets messages in, and ends the job if one brought a newer job.
function breather(slice = SLICE) {
  const { port1, port2 } = new MessageChannel()
  let last = performance.now()
  return async () => {
    if (performance.now() - last < slice) return
    await new Promise((resolve) => {
      port1.onmessage = resolve
      port2.postMessage(0)
    })
    last = performance.now()
    if (newest) throw SUPERSEDED
  }
}

// The numbers of theory's samples, random_stream("overlap") in float64
function overlapNormals(count) {
  if (shop.doubles.length < count) {
    const start = shop.memory.pass(8 * count)
    shop.kernel.normal_doubles(...shop.bank.named("'overlap'"), start, count)
    shop.doubles = new Float64Array(shop.memory.memory.buffer, start, count).slice()
  }
  return shop.doubles
}

async function measure(model, breathe) {
  const { kernel, memory, bank, seed } = shop
  memory.reset()
  bank.tidy()
  const network = new Network(kernel, memory, bank, model, seed)
  const out = await network.run(breathe)
  network.back(out, network.slope(out))
  return network
}

async function predict(network, names, breathe) {
  const { model } = network
  const streams = new Streams(model, (name) => network.weights(name))
  const out = await streams.run(breathe)
  await streams.back(out, lossGram(out.mixture.cov, model.tokens, overlapNormals), breathe)
  return { squares: names.map((name) => streams.square(name)), sites: streams.sites }
}

// The last layer of the last side, at each size
async function everySize({ models, theory }, breathe, tell) {
  for (const model of models) {
    const last = STACKS[model.stack].at(-1)
    const names = matricesOf(model).filter(([side, layer]) => side === last && layer === model.depth)
    const network = await measure(model, breathe)
    const found = network.gradients(matricesOf(model)).slice(-names.length)
    const squares = theory ? (await predict(network, names, breathe)).squares : null
    tell({ stage: "size", names, found, squares })
  }
}

// A network, and what is told of it first
async function measured(model, breathe) {
  const start = performance.now()
  const network = await measure(model, breathe)
  const names = matricesOf(model)
  const found = network.gradients(names)
  return [network, { names, found, sites: network.sites, ms: performance.now() - start }]
}

async function perform(job) {
  const breathe = breather()
  const tell = (result) => postMessage({ id: job.id, ...result })
  if (!job.known || job.theory) {
    const [network, result] = await measured(job.model, breathe)
    if (!job.known) tell({ stage: "measured", ...result })
    if (job.theory) await theoryOf(network, result.names, breathe, tell)
  }
  if (job.models) await everySize(job, breathe, tell)
  tell({ stage: "done" })
}

async function theoryOf(network, names, breathe, tell) {
  try {
    tell({ stage: "theory", ...(await predict(network, names, breathe)) })
  } catch (error) {
    if (!(error instanceof NoTheory)) throw error
    tell({ stage: "theory", note: error.message })
  }
}

// While nobody waits: the networks that the next key on the depth slider would ask for
async function lookAhead({ ahead }) {
  for (const model of ahead) {
    if (shop.bank.used > WEIGHTS / 2) return
    const [, result] = await measured(model, breather(SHORT_SLICE))
    postMessage({ stage: "ahead", text: JSON.stringify(model), ...result })
    if (result.ms > SLOW) return
  }
}

async function work() {
  working = true
  while (newest) {
    const job = newest
    newest = null
    try {
      await perform(job)
      if (!newest) await lookAhead(job).catch(() => {}) // whatever goes wrong there, nobody has asked for it
    } catch (error) {
      if (error !== SUPERSEDED) postMessage({ id: job.id, stage: "failed", message: String(error?.message ?? error) })
    }
  }
  working = false
}

onmessage = async ({ data }) => {
  if (data.wasm) {
    try {
      await open(data)
    } catch (error) {
      postMessage({ stage: "unable", message: String(error?.message ?? error) })
      return
    }
    if (newest && !working) work()
    return
  }
  newest = data
  if (shop && !working) work()
}
