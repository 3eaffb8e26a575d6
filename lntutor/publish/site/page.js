// Formulas as MathML, at once; figures when they come into view.

for (const place of document.querySelectorAll(".math")) {
  const display = "display" in place.dataset
  temml.render(place.textContent, place, { displayMode: display, annotate: true, throwOnError: false })
  if (display) place.tabIndex = 0 // a long formula scrolls
}

const CONFIG = {
  responsive: true,
  displaylogo: false,
  showTips: false,
  modeBarButtonsToRemove: ["lasso2d", "select2d"],
}

function draw(figure) {
  const picture = JSON.parse(figure.querySelector("script").textContent)
  const plot = document.createElement("div")
  for (const trace of picture.data) if (trace.uid) trace.uid = trace.uid.replaceAll("/", "_2f")
  figure.querySelector("p").hidden = true
  figure.append(plot)
  const wide = picture.layout.meta?.["drawn for"] // pixels across, which the words of a drawing need
  if (wide) plot.style.minWidth = `${wide}px`
  figure.dataset.drawn = true
  figure.removeAttribute("role") // an image has no buttons in it; its name stays
  Plotly.newPlot(plot, picture.data, { ...picture.layout, height: picture.height }, CONFIG).then(() => {
    for (const part of plot.querySelectorAll(".main-svg, .modebar-container")) part.setAttribute("aria-hidden", "true")
    for (const button of plot.querySelectorAll(".modebar-btn")) button.tabIndex = -1
    if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0 // on a narrow screen it scrolls
  })
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
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true
  for (const figure of waiting) draw(figure)
  waiting.clear()
})
