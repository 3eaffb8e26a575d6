// The view of lntutor.page.live.LivePlot: draws `picture` (JSON: data, layout, alt, height) with Plotly.react.

const PATIENCE = 8000 // ms after which a view that still has no plotly.js asks for it, whoever asked before
const STATUS = 26 // pixels of a line of status
const MARGIN = 6 // pixels around it

// One shelf a page, shared by every plot of every kernel: version → plotly.js, there or on its way.
const shelf = (globalThis[Symbol.for("lntutor.plotly")] ??= new Map())

function place(version) {
  if (!shelf.has(version)) {
    const entry = { page: crypto.getRandomValues(new Uint32Array(4)).join("-"), asked: new Set(), arrived: false }
    entry.ready = new Promise((resolve, reject) => {
      entry.deliver = (buffer) => {
        if (entry.arrived) return
        entry.arrived = true
        load(buffer).then(resolve, reject)
      }
    })
    shelf.set(version, entry)
  }
  return shelf.get(version)
}

// A module has a scope of its own: `module` below is what plotly.js exports to, and no `define` of the page is met.
async function load(buffer) {
  const source = new Blob([buffer]).stream().pipeThrough(new DecompressionStream("gzip"))
  const parts = ["const module = { exports: {} };\n", await new Response(source).blob(), "\nexport default module.exports;"]
  const url = URL.createObjectURL(new Blob(parts, { type: "text/javascript" }))
  const other = Object.getOwnPropertyDescriptor(globalThis, "Plotly")
  try {
    return (await import(url)).default
  } finally {
    URL.revokeObjectURL(url)
    if (other) Object.defineProperty(globalThis, "Plotly", other)
    else delete globalThis.Plotly // leave the page's own plotly alone
  }
}

// The promise of plotly.js: from the shelf, else from the kernel, which is asked once for all its plots.
function library(model, signal) {
  const [version, kernel] = model.get("plotlyjs").split(" ")
  const entry = place(version)
  if (entry.arrived) return entry.ready
  model.on("msg:custom", (content, buffers) => {
    if (content.type === "plotly") entry.deliver(buffers[0])
  })
  const ask = () => {
    entry.asked.add(kernel)
    model.send({ type: "plotly", page: entry.page })
  }
  if (!entry.asked.has(kernel)) ask()
  const timer = setInterval(ask, PATIENCE)
  const stop = () => clearInterval(timer)
  entry.ready.then(stop, stop)
  signal.addEventListener("abort", () => {
    stop()
    entry.asked.delete(kernel) // the answer may be lost with this view
  })
  return entry.ready
}

const total = (numbers) => numbers.reduce((sum, one) => sum + one, 0)

// The panels of an explorer: those over its picture, those beside it and those below.
const controlsAround = (frame) => frame.closest(".lntutor-explorer")?.querySelectorAll(".lnk-panel") ?? []

// How many pixels of the screen the controls around leave for a picture; what comes and goes does not count.
function roomFor(frame) {
  const view = frame.closest(".lntutor-view")
  if (!view) return Infinity
  const screen = frame.closest(".jp-WindowedPanel-outer")?.clientHeight ?? innerHeight
  const [top, bottom] = [view.offsetTop, view.offsetTop + view.offsetHeight]
  const isBeside = (part) => !view.contains(part) && part.offsetTop < bottom && part.offsetTop + part.offsetHeight > top
  const heights = [...controlsAround(frame)].map((part) => {
    const passing = [...part.querySelectorAll(".lnk-fold[open] > .lnk-rest, .lnk-copied, .lnk-wrong")]
    return isBeside(part) ? 0 : part.offsetHeight - total(passing.map((one) => one.offsetHeight))
  })
  const lines = view.closest(".lntutor-working") ? 2 : 1
  const said = total([...view.querySelectorAll(".lntutor-status")].map((status) => status.offsetHeight))
  return screen - Math.max(lines * STATUS, said + MARGIN) - total(heights)
}

// While a hand holds a handle of the kit on the plot, the axes stay.
function keepAxes(layout, plot) {
  for (const name of Object.keys(layout).filter((name) => /^[xy]axis/.test(name))) {
    const range = plot._fullLayout?.[name]?.range
    if (range) layout[name].range = [...range]
  }
}

function save(address, name) {
  const link = document.createElement("a")
  link.href = address
  link.download = name
  link.click()
}

function render({ model, el, signal }) {
  const frame = document.createElement("div") // of our own: ipywidgets sets the size of `el`
  const image = document.createElement("div") // what a screen reader meets, in place of the plot's many parts
  const plot = document.createElement("div")
  const wait = document.createElement("p")
  image.setAttribute("role", "img")
  for (const part of [plot, wait]) part.setAttribute("aria-hidden", "true")
  frame.append(image, wait)
  el.classList.add("lntutor-live")
  el.append(frame)

  let Plotly = null
  let picture = null
  let drawn = { picture: null, width: 0 }
  let busy = false

  const read = () => {
    picture = model.get("picture")
    const { alt, height } = JSON.parse(picture)
    image.setAttribute("aria-label", alt)
    if (Plotly) return
    frame.style.height = `${height}px`
    wait.textContent = alt
  }

  // The picture at this width, so many pixels higher than it asks for; names of upright axes have `upright` pixels.
  const paint = async ({ width, most }, more, upright) => {
    const figure = fitted(drawn.picture, width, more, most + more, upright)
    frame.style.height = `${figure.layout.height}px`
    figure.layout.uirevision ??= "lntutor"
    if ("held" in frame.dataset) keepAxes(figure.layout, plot)
    const first = plot.parentNode !== frame
    if (first) frame.replaceChildren(image, plot)
    await drawThemed(Plotly, plot, figure)
    const tell = () => frame.dispatchEvent(new Event("lntutor-drawn", { bubbles: true }))
    if (first) plot.on("plotly_afterplot", tell)
    if (first) tell()
  }

  // Draws what is on the model at the width of the cell; a change that comes meanwhile is drawn next, only the last.
  const draw = async () => {
    if (busy || !Plotly) return
    busy = true
    try {
      for (;;) {
        const width = frame.clientWidth
        const most = roomFor(frame)
        if (!width || signal.aborted) break
        if (drawn.picture === picture && drawn.width === width && drawn.most === most) break
        drawn = { picture, width, most }
        await paint(drawn, 0)
        const { more, upright } = lacking(plot)
        if (!more) continue
        await paint(drawn, 0, upright)
        const still = lacking(plot).more
        if (still) await paint(drawn, still, upright)
      }
    } finally {
      busy = false
    }
  }

  // What the kernel wants done in the page, once, also where the plot is shown twice.
  const obey = async (content, buffers) => {
    if (content.done || !["png", "download", "copy"].includes(content.type)) return
    if (content.type === "png" && !plot.inLight) return
    content.done = true
    if (content.type === "copy") {
      await navigator.clipboard?.writeText(content.text).catch(() => {}) // the text stands in the page as well
    } else if (content.type === "png") {
      await savePng(Plotly, plot, content.name)
    } else {
      const url = URL.createObjectURL(new Blob([buffers[0]], { type: content.mime }))
      save(url, content.name)
      setTimeout(() => URL.revokeObjectURL(url), 60000)
    }
  }

  const observer = new ResizeObserver(() => {
    for (const part of controlsAround(frame)) observer.observe(part)
    draw()
  })
  read()
  observer.observe(frame)
  addEventListener("resize", draw, { signal })
  model.on("change:picture", () => {
    read()
    draw()
  })
  model.on("msg:custom", obey)
  frame.addEventListener("lntutor-released", () => {
    drawn = { picture: null, width: 0 } // the axes, which a held handle kept, may move now
    draw()
  })
  const stopTheme = onTheme(() => {
    drawn = { picture: drawn.picture }
    draw()
    requestAnimationFrame(draw) // JupyterLab hides its page while it changes the theme
  })
  signal.addEventListener("abort", stopTheme)
  library(model, signal).then(
    (loaded) => {
      Plotly = loaded
      draw()
    },
    (error) => {
      wait.textContent = `plotly.js does not load in this page (${error.message}). ${wait.textContent}`
    },
  )
  return () => {
    observer.disconnect()
    Plotly?.purge(plot)
  }
}

export default { render }
