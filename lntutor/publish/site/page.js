// Formulas as MathML, at once; figures when they come into view.

for (const place of document.querySelectorAll(".math")) {
  const display = "display" in place.dataset
  temml.render(place.textContent, place, { displayMode: display, annotate: true, throwOnError: false })
  if (display) place.tabIndex = 0 // a long formula scrolls
}

async function draw(figure) {
  const picture = figure.querySelector("script").textContent
  const plot = document.createElement("div")
  figure.querySelector("p").hidden = true
  figure.append(plot)
  figure.dataset.drawn = true
  figure.removeAttribute("role") // an image has no buttons in it; its name stays
  const least = JSON.parse(picture).layout.meta?.["drawn for"] ?? 0 // pixels across that the labels of a drawing need
  plot.style.minWidth = `${least}px`
  const paint = (more) => {
    const made = fitted(picture, Math.max(figure.clientWidth || 700, least), more) // fit.js stands before this file
    plot.style.height = `${made.layout.height}px`
    return drawThemed(Plotly, plot, made)
  }
  const redraw = async () => {
    await paint(0)
    const more = lacking(plot)
    if (more) await paint(more)
    for (const part of plot.querySelectorAll(".main-svg, .modebar-container")) part.setAttribute("aria-hidden", "true")
    if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0 // on a narrow screen it scrolls
  }
  let width = figure.clientWidth
  onTheme(redraw)
  await redraw()
  new ResizeObserver(() => {
    if (!figure.clientWidth || figure.clientWidth === width) return
    width = figure.clientWidth
    redraw()
  }).observe(figure)
}

const waiting = new Set(document.querySelectorAll("figure.lntutor-static"))
const room = (figure) => {
  // what it will take, so that nothing jumps
  const height = figure.querySelector("script").textContent.match(/"height":(\d+)\}?$/)
  figure.style.minHeight = `${height ? height[1] : 420}px`
}
const observer = new IntersectionObserver(
  (seen) => {
    for (const { isIntersecting, target } of seen) {
      if (!isIntersecting || !waiting.delete(target)) continue
      observer.unobserve(target)
      draw(target)
    }
  },
  { rootMargin: "600px" },
)
for (const figure of waiting) {
  room(figure)
  observer.observe(figure)
}
// A playground says how high it is: of a file in a frame, this page cannot ask.
addEventListener("message", ({ data, source }) => {
  const frames = [...document.querySelectorAll("iframe.playground")]
  const frame = frames.find(({ contentWindow }) => contentWindow === source)
  if (frame && Number.isFinite(data?.lntutor)) frame.style.height = `${Math.ceil(data.lntutor) + 2}px`
})

addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true
  for (const figure of waiting) draw(figure)
  waiting.clear()
})
