// The view of lntutor.page.live.LivePlot: draws `picture` (JSON: data, layout, alt, height) with Plotly.react.

const PATIENCE = 8000 // ms after which a view that still has no plotly.js asks for it, whoever asked before

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

  // The picture at this width, so many pixels higher than it asks for.
  const paint = async (width, more) => {
    const figure = fitted(drawn.picture, width, more)
    frame.style.height = `${figure.layout.height}px`
    figure.layout.uirevision ??= "lntutor"
    if (plot.parentNode !== frame) frame.replaceChildren(image, plot)
    await drawThemed(Plotly, plot, figure)
  }

  // Draws what is on the model at the width of the cell; a change that comes meanwhile is drawn next, only the last.
  const draw = async () => {
    if (busy || !Plotly) return
    busy = true
    try {
      for (;;) {
        const width = frame.clientWidth
        if (!width || signal.aborted || (drawn.picture === picture && drawn.width === width)) break
        drawn = { picture, width }
        await paint(width, 0)
        const more = lacking(plot)
        if (more) await paint(width, more)
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

  const observer = new ResizeObserver(draw)
  read()
  observer.observe(frame)
  model.on("change:picture", () => {
    read()
    draw()
  })
  model.on("msg:custom", obey)
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
