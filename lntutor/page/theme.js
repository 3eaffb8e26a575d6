// How every plot is drawn, in live plots and on the site's pages: in the colours of the page's theme, with buttons that
// stand below the title. What is saved is light.

const settings = (Plotly) => ({
  responsive: false, // the size follows the cell
  displaylogo: false,
  displayModeBar: "hover",
  showTips: false, // they would cover the toolbar of the page
  showLink: false,
  showSendToCloud: false,
  plotlyServerURL: "",
  modeBarButtonsToRemove: ["toImage", "lasso2d", "select2d", "autoScale2d", "sendDataToCloud"],
  modeBarButtonsToAdd: [{ ...CAMERA, icon: Plotly.Icons.camera, click: (plot) => savePng(Plotly, plot, "figure.png") }],
})
const CAMERA = { name: "png", title: "Save picture" } // plotly's own would save the colours of the dark theme

async function drawThemed(Plotly, plot, figure, theme = themeOf()) {
  plot.inLight = figure
  plot.settings ??= settings(Plotly) // the same ones again, or plotly.js begins anew
  const { data, layout } = theme === "dark" ? darken(structuredClone(figure)) : figure
  await Plotly.react(plot, data, { ...layout, modebar: { orientation: "v", ...layout.modebar } }, plot.settings)
  placeButtons(plot)
  writeCells(plot)
}

// plotly's buttons stand below the title, which they would cover, and out of the way of the Tab key.
function placeButtons(plot) {
  const { _size: size, height } = plot._fullLayout
  const style = plot.querySelector(".modebar-container").style
  style.setProperty("top", `${size.t}px`, "important")
  Object.assign(style, { height: `${height - size.t}px`, pointerEvents: "none" })
  for (const bar of plot.querySelectorAll(".modebar")) bar.style.pointerEvents = "auto"
  for (const button of plot.querySelectorAll(".modebar-btn")) button.tabIndex = -1
}

// Numbers in cells are black or white, whichever stands out more: plotly has dark grey in place of black.
function writeCells(plot) {
  for (const label of plot.querySelectorAll(".heatmap-label")) {
    const { trace } = label.closest(".hm").__data__[0]
    const own = { colorscale: trace.colorscale, cmin: trace.zmin, cmax: trace.zmax }
    const scale = plot._fullLayout[trace.coloraxis] ?? own
    if (trace.textfont.color !== "auto" || !Number.isFinite(label.__data__.z)) continue
    const at = (label.__data__.z - scale.cmin) / (scale.cmax - scale.cmin || 1)
    const above = Math.max(1, scale.colorscale.findIndex(([stop]) => stop >= Math.min(at, 1)))
    const [[from, one], [to, other]] = scale.colorscale.slice(above - 1, above + 1)
    const cell = mixed(hexed(one), hexed(other), Math.max(0, (at - from) / (to - from)))
    const [colour] = ["#000000", "#ffffff"].sort((a, b) => contrast(b, cell) - contrast(a, cell))
    for (const text of label.querySelectorAll("text")) text.style.fill = colour
  }
}

// In light colours, with the zoom and the hidden traces of what is drawn.
async function savePng(Plotly, plot, name) {
  const { data, layout } = structuredClone(plot.inLight)
  data.forEach((trace, i) => (trace.visible = plot.data[i].visible))
  for (const [axis, { range, autorange }] of Object.entries(plot.layout)) {
    if (/^[xy]axis\d*$/.test(axis)) layout[axis] = { ...layout[axis], range, autorange }
  }
  const href = await Plotly.toImage({ data, layout }, { format: "png", scale: 2 })
  Object.assign(document.createElement("a"), { href, download: name }).click()
}

// The dark theme -------------------------------------------------------------------------------------------------

// What plotly takes where a figure says nothing: the same for every figure in the dark.
const UNSAID = { paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff", font: { color: "#444444" } }
const reader = document.createElement("canvas").getContext("2d")

// A figure with the twin of every colour, in place.
function darken(figure) {
  const { layout } = figure
  layout.template ??= {}
  layout.template.layout = { ...UNSAID, ...layout.template.layout }
  layout.template.layout.font = { ...UNSAID.font, ...layout.template.layout.font }
  for (const axis of ["xaxis", "yaxis"]) {
    layout.template.layout[axis] = { color: layout.template.layout.font.color, ...layout.template.layout[axis] }
  }
  return recolour(figure)
}

// Numbers, words and what is computed from numbers stay.
function recolour(part, key = "") {
  if (typeof part === "string") return /color(way|scale)?$/.test(key) ? darkened(part) : part
  if (Array.isArray(part)) {
    if (typeof part[0] === "number" && !key.endsWith("colorscale")) return part
    return part.forEach((one, i) => (part[i] = recolour(one, key))), part
  }
  if (!part || typeof part !== "object") return part
  for (const [name, value] of Object.entries(part)) {
    if (name !== "meta" && name !== "customdata") part[name] = recolour(value, key === "colorscale" ? key : name)
  }
  return part
}

// A colour in any of CSS's ways as #rrggbb and opacity; what is none, such as the name of a colour scale, is null.
function parsed(colour) {
  const read = (before) => Object.assign(reader, { fillStyle: before }, { fillStyle: colour }).fillStyle
  const seen = read("#000000")
  if (seen !== read("#ffffff")) return null
  if (seen.startsWith("#")) return [seen, 1]
  const [r, g, b, opacity] = seen.match(/[\d.]+/g).map(Number)
  return [hexOf([r, g, b]), opacity]
}

function darkened(colour) {
  const [hex, opacity] = parsed(colour) ?? []
  if (!hex) return colour
  return opacity === 1 ? inTheDark(hex) : `rgba(${channels(inTheDark(hex))},${opacity})`
}

const hexed = (colour) => parsed(colour)?.[0] ?? "#767676"
