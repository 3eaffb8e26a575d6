// The picture as one SVG or PNG, the numbers as a table or CSV.

const SAVED_STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "font-size",
  "font-weight", "font-style", "text-anchor", "opacity", "visibility"]

// A copy of an SVG that looks the same without the style sheet.
function frozen(svg, x, y, width) {
  const [, , wide, high] = svg.getAttribute("viewBox").split(" ").map(Number)
  const copy = svg.cloneNode(true)
  const originals = svg.querySelectorAll("*")
  copy.querySelectorAll("*").forEach((node, i) => {
    const look = getComputedStyle(originals[i])
    if (look.display === "none") node.setAttribute("display", "none")
    for (const name of SAVED_STYLES) node.setAttribute(name, look.getPropertyValue(name))
  })
  for (const node of copy.querySelectorAll(".lnp-hand")) node.remove()
  return setAll(copy, { x, y, width, height: (width * high) / wide, class: null, style: null })
}

function savedPicture({ drawing, picture, title, notes, colours, family }) {
  const [, , wide, high] = picture.getAttribute("viewBox").split(" ").map(Number)
  const lines = brokenLines(title, (340 + wide) / 10.5)
  const top = 20 + 24 * lines.length
  const height = top + Math.max(high, 330) + 24 * notes.length + 24
  const size = { width: 400 + wide, height, viewBox: `0 0 ${400 + wide} ${height}` }
  const svg = svgNode("svg", { xmlns: "http://www.w3.org/2000/svg", ...size, "font-family": family })
  svg.append(svgNode("rect", { width: "100%", height: "100%", fill: colours.card }))
  const lowered = (words) => words.replaceAll("W_1", "W₁").replaceAll("W_2", "W₂")
  const text = (y, words, more) => svgNode("text", { x: 20, y, fill: colours.ink, ...more }, lowered(words))
  lines.forEach((line, i) => svg.append(text(32 + 24 * i, line, { "font-size": 17, "font-weight": 600 })))
  svg.append(frozen(drawing, 20, top, 340), frozen(picture, 380, top, wide))
  notes.forEach((note, i) => svg.append(text(top + Math.max(high, 330) + 20 + 24 * i, note, { "font-size": 13 })))
  return { text: new XMLSerializer().serializeToString(svg), width: 400 + wide, height }
}

function brokenLines(text, columns) {
  const lines = [""]
  for (const word of text.split(" ")) {
    if (lines.at(-1) && (lines.at(-1) + word).length >= columns) lines.push("")
    lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word
  }
  return lines
}

async function asPng({ text, width, height }) {
  const image = new Image()
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`
  await image.decode()
  const canvas = htmlNode("canvas", { width: 2 * width, height: 2 * height })
  canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height)
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"))
}

const csvOf = (rows) =>
  [GRADIENT_COLUMNS, ...rows.map((row) => GRADIENT_COLUMNS.map((name) => row[name]))].map((cells) =>
    cells.join(",")).join("\n") + "\n"

// The numbers of the picture -------------------------------------------------------------------------------------

const readings = ({ kind, mean, low, high }) =>
  kind === "number" ? [mean, low, high].map((value) => numberText(value, 4)) : [KIND_WORDS[kind], "", ""]
const expectation = ({ theory }) => (theory === null ? "" : numberText(theory, 4))

function barRows(bars, state) {
  const rows = bars.map((bar) => [bar.side, String(bar.row), bar.block, ...readings(bar), expectation(bar)])
  return { heads: ["side", "layer", ofStream(state) ? "site" : "block"], rows }
}

function sizeRows(result, state) {
  const row = (block) => (point) => [String(point.at), block, ...readings(point), expectation(point)]
  const rows = sizeCurves(result, state).flatMap(({ block, points }) => points.map(row(block)))
  return { heads: [result.config.along.key, "block"], rows }
}

// The tables of several models below each other, each row with the name of its model
function namedRows(tables) {
  const [{ heads }] = tables.map(([, table]) => table)
  return { heads: ["placement", ...heads], rows: tables.flatMap(([name, { rows }]) => rows.map((row) => [name, ...row])) }
}

function tableNode({ heads, rows }, state) {
  const line = (tag, attributes) => (cells) =>
    htmlNode("tr", {}, ...cells.map((words) => htmlNode(tag, attributes, words)))
  const words = { signal: "Size of the stream, ‖x‖²/d", similarity: "Mean cosine between two tokens" }[state.view]
    ?? `Gradient norm of ${state.parameter}${alongOf(state) ? " in the last layer" : ""}`
  const head = line("th", { scope: "col" })([...heads, "mean", "lowest", "highest", "theory"])
  const body = htmlNode("tbody", {}, ...rows.map(line("td")))
  return htmlNode("table", {}, htmlNode("caption", {}, words), htmlNode("thead", {}, head), body)
}
