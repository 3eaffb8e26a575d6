// A figure in the colours of the dark theme. Its own data stay: only what is about to be drawn changes, so what is saved
// and printed is light.

// What plotly takes where a figure says nothing: the same for every figure in the dark.
const UNSAID = { paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff", font: { color: "#444444" } }
const reader = document.createElement("canvas").getContext("2d")

// The data and the layout of a figure, freshly read, in the colours of the dark theme.
function darken(data, layout) {
  layout.template ??= {}
  layout.template.layout = { ...UNSAID, ...layout.template.layout }
  layout.template.layout.font = { ...UNSAID.font, ...layout.template.layout.font }
  for (const axis of ["xaxis", "yaxis"]) {
    layout.template.layout[axis] = { color: layout.template.layout.font.color, ...layout.template.layout[axis] }
  }
  recolour([data, layout])
}

// Every colour in there, in place; numbers, words and what is computed from numbers stay.
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
