// Formulas as MathML, at once; figures when they come into view.

for (const place of document.querySelectorAll(".math")) {
  const display = "display" in place.dataset
  temml.render(place.textContent, place, { displayMode: display, annotate: true, throwOnError: false })
  if (display) place.tabIndex = 0 // a long formula scrolls
}
// On a telephone a long formula within a line scrolls, too; in a fold, from when it opens.
function reachFormulas() {
  for (const place of document.querySelectorAll("span.math")) if (place.scrollWidth > place.clientWidth) place.tabIndex = 0
}
reachFormulas()
for (const event of ["toggle", "resize"]) addEventListener(event, reachFormulas, true)

const PAPER = 640 // pixels across that A4 and Letter have between their margins
const root = document.documentElement
let printing = false

function draw(figure) {
  const picture = figure.querySelector("script").textContent
  const plot = document.createElement("div")
  figure.querySelector("p").hidden = true
  figure.append(plot)
  figure.dataset.drawn = true
  figure.removeAttribute("role") // an image has no buttons in it; its name stays
  const least = JSON.parse(picture).layout.meta?.["drawn for"] ?? 0 // pixels across that the labels of a drawing need
  plot.style.minWidth = `${least}px`
  const paint = (more) => {
    const made = fitted(picture, printing ? PAPER : Math.max(width, least), more) // fit.js stands before this file
    plot.style.height = `${made.layout.height}px`
    return drawThemed(Plotly, plot, made)
  }
  const redraw = () => {
    width = figure.clientWidth
    if (!width) return // in a closed fold
    paint(0) // at once: what is printed waits for nothing
    const { more } = lacking(plot)
    if (more) paint(more)
    for (const part of plot.querySelectorAll(".main-svg, .modebar-container")) part.setAttribute("aria-hidden", "true")
    if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0 // on a narrow screen it scrolls
  }
  let width = 0
  onTheme(redraw) // paper is light
  redraw()
  new ResizeObserver(() => figure.clientWidth === width || printing || redraw()).observe(figure)
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

// Paper: a lesson without its answers, unless the button asks for them; any other page with every fold open.
let opened = []

addEventListener("beforeprint", () => {
  const covered = document.querySelector(".lesson") && !("answers" in root.dataset)
  opened = [...document.querySelectorAll(covered ? ".exercise:not([open])" : "details:not([open])")]
  for (const fold of opened) fold.open = true
  printing = true
  for (const figure of waiting) {
    if (!figure.clientWidth) continue
    waiting.delete(figure)
    draw(figure)
  }
})
addEventListener("afterprint", () => {
  printing = false
  delete root.dataset.answers
  for (const fold of opened) fold.open = false
})
for (const button of document.querySelectorAll("[data-print]")) {
  button.closest("p").hidden = false
  button.addEventListener("click", () => {
    if (button.dataset.print === "answers") root.dataset.answers = ""
    print()
  })
}
