// Elements, and the markers of placements.

const UNNAMED = { color: "#7A5230", marker: "star", dash: "6px,6px" }
const DASHES = {
  solid: "", dash: "8,5", dot: "2,3", dashdot: "8,3,2,3", longdash: "13,5", longdashdot: "13,4,2,4",
}

function setAll(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value)
    else if (value === false || value === null || value === undefined) node.removeAttribute(name)
    else node.setAttribute(name, value === true ? "" : value)
  }
  return node
}

function htmlNode(tag, attributes = {}, ...children) {
  const node = setAll(document.createElement(tag), attributes)
  node.append(...children)
  return node
}

function svgNode(tag, attributes = {}, ...children) {
  const node = setAll(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes)
  node.append(...children)
  return node
}

function buttonNode(words, onclick, attributes = {}) {
  return htmlNode("button", { type: "button", onclick, ...attributes }, words)
}

// Text in which W_2 is W with a lowered 2; nothing is written where the text stays.
function writeText(node, text) {
  if (node.dataset.text === text) return
  node.dataset.text = text
  const parts = text.split(/W_([QKVO12])/)
  node.replaceChildren(...parts.flatMap((part, i) => (i % 2 ? ["W", htmlNode("sub", {}, part)] : [part])))
}

function textNode(text) {
  const node = htmlNode("span")
  writeText(node, text)
  return node
}

// A line of maths: norms in their colour, variables slanted.
function writeMaths(node, text) {
  if (node.dataset.text === text) return
  node.dataset.text = text
  const parts = text.split(/(\b[A-Za-z]+\b)/)
  const letter = (part) =>
    part === "N" ? htmlNode("b", {}, part) : part.length === 1 ? htmlNode("i", {}, part) : part
  node.replaceChildren(...parts.map((part, i) => (i % 2 ? letter(part) : part)))
}

// Markers and dashes ---------------------------------------------------------------------------------------------

function polygon(corners, { turn = 0, inner = 1, wide = 1, tall = 1 } = {}) {
  const count = inner === 1 ? corners : 2 * corners
  return Array.from({ length: count }, (_, i) => {
    const radius = i % 2 && inner !== 1 ? inner : 1
    const angle = Math.PI * ((2 * i) / count - 0.5 + turn / 180)
    return [wide * radius * Math.cos(angle), tall * radius * Math.sin(angle)]
  })
}

const plus = [[-0.3, -1], [0.3, -1], [0.3, -0.3], [1, -0.3], [1, 0.3], [0.3, 0.3], [0.3, 1], [-0.3, 1], [-0.3, 0.3],
  [-1, 0.3], [-1, -0.3], [-0.3, -0.3]]
const MARKERS = { // plotly's names, as points around 0 with radius 1
  circle: polygon(16),
  square: polygon(4, { turn: 45, wide: 1.2, tall: 1.2 }),
  x: plus.map(([x, y]) => [0.75 * (x - y), 0.75 * (x + y)]),
  cross: plus,
  diamond: polygon(4, { wide: 1.15, tall: 1.15 }),
  "diamond-wide": polygon(4, { wide: 1.4, tall: 0.8 }),
  "diamond-tall": polygon(4, { wide: 0.8, tall: 1.4 }),
  "triangle-up": polygon(3, { wide: 1.2, tall: 1.2 }),
  "triangle-down": polygon(3, { turn: 180, wide: 1.2, tall: 1.2 }),
  "triangle-right": polygon(3, { turn: 90, wide: 1.2, tall: 1.2 }),
  "triangle-left": polygon(3, { turn: 270, wide: 1.2, tall: 1.2 }),
  "triangle-ne": [[-1, -1], [1, -1], [1, 1]],
  "triangle-sw": [[-1, -1], [1, 1], [-1, 1]],
  pentagon: polygon(5),
  hexagon2: polygon(6, { turn: 30 }),
  octagon: polygon(8, { turn: 22.5 }),
  star: polygon(5, { inner: 0.4, wide: 1.25, tall: 1.25 }),
  hexagram: polygon(6, { inner: 0.55, wide: 1.2, tall: 1.2 }),
  "star-triangle-up": polygon(3, { inner: 0.3, wide: 1.4, tall: 1.4 }),
  "star-triangle-down": polygon(3, { inner: 0.3, turn: 180, wide: 1.4, tall: 1.4 }),
  "star-square": polygon(4, { inner: 0.4, turn: 45, wide: 1.4, tall: 1.4 }),
  "star-diamond": polygon(4, { inner: 0.4, wide: 1.4, tall: 1.4 }),
  bowtie: [[-1, -0.8], [1, 0.8], [1, -0.8], [-1, 0.8]],
  hourglass: [[-0.8, -1], [0.8, -1], [-0.8, 1], [0.8, 1]],
}

function markerPath(name, x, y, radius) {
  const points = (MARKERS[name] ?? MARKERS.circle).map(([a, b]) =>
    `${(x + radius * a).toFixed(1)} ${(y + radius * b).toFixed(1)}`)
  return `M${points.join("L")}Z`
}

const dashArray = (dash) => DASHES[dash] ?? String(dash).replaceAll("px", "")

// A short line in a placement's dash with its marker on it.
function swatch(style) {
  const line = svgNode("path", { d: "M0 7H30", "stroke-dasharray": dashArray(style.dash), class: "lnk-stroke" })
  const mark = svgNode("path", { d: markerPath(style.marker, 15, 7, 4.6), class: "lnk-fill" })
  return svgNode("svg", { viewBox: "0 0 30 14", width: 30, height: 14, "aria-hidden": "true" }, line, mark)
}

function saveFile(content, type, name) {
  const url = URL.createObjectURL(new Blob([content], { type }))
  htmlNode("a", { href: url, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(url), 60000)
}
