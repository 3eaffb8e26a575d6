// A figure that fits the page: the one place where text, panels and drawings are fitted to the width that the page has.
// live.js and the pages of the site both begin with this file.

// The picture at so many pixels across, `more` pixels higher than it asks for: data and layout for Plotly.react.
function fitted(picture, width, more = 0) {
  const { data, layout, height: asked } = JSON.parse(picture)
  identify(data)
  const given = shrink(data, layout, asked, width) + more
  const height = given + fit(data, layout, given, width)
  return { data, layout: { ...layout, width, height, autosize: false } }
}

// Names, not positions, say which trace is which, so that a hidden one stays hidden when another comes before it.
function identify(data) {
  const seen = new Map()
  for (const trace of data) {
    const parts = [trace.type, trace.mode, trace.name, trace.legendgroup, trace.xaxis, trace.yaxis]
    const name = parts.map((part) => part ?? "").join("-")
    const count = seen.get(name) ?? 0
    seen.set(name, count + 1)
    trace.uid = (trace.uid ?? `${name}-${count}`).replace(/[^A-Za-z0-9-]/g, inCode)
  }
  return data
}

const inCode = (letter) => `_${letter.charCodeAt(0).toString(16)}` // plotly.js uses a uid as the name of a class

const ruler = document.createElement("canvas").getContext("2d")

// Whether a line of a marked-up text is wider than so many pixels, in the font that the ruler has.
function isLong(line, room) {
  const words = line.replace(/<[^<>]*>/g, "")
  const seen = words.includes("&") ? new DOMParser().parseFromString(words, "text/html").body.textContent : words
  return ruler.measureText(seen).width > room
}

// A text with its long lines broken between words, as wide as this page measures them. Python (`wrapped` in
// figures/style.py) has broken it at the usual width already, for what plotly draws without this file.
function wrapped(text, room) {
  const lines = []
  for (const long of text.split("<br>")) {
    const [first, ...words] = isLong(long, room) ? long.split(/ (?![^<]*>)/) : [long]
    lines.push(first)
    for (const word of words) {
      const line = `${lines.at(-1)} ${word}`
      if (isLong(line, room)) lines.push(word)
      else lines[lines.length - 1] = line
    }
  }
  return lines.join("<br>")
}

const LINE = 1.3 // a line's height over its type
const NARROW = 26 // letters across: with less room, panels stand over one another
const LEGEND = 620 // pixels across for which a figure counts the lines of its legend
const SIDES = 110 // pixels about that the numbers and names of the axes take
const SMALLEST = 9 // pixels of type
const LARGE = 18 // pixels of type that is read from the back row
const breaks = (text) => text.split("<br>").length - 1

// The axes of a letter, each with its place: "x" → xaxis, xaxis2 …
function axes(layout, letter) {
  const names = Object.keys(layout).filter((name) => name.startsWith(`${letter}axis`))
  return names.map((name) => (layout[name].domain ??= [0, 1]) && layout[name])
}

// Put panels that stand side by side over one another; how many pixels higher the figure becomes by it.
function stack(layout, height, size) {
  const [across, upright] = [axes(layout, "x"), axes(layout, "y")]
  const rows = new Set(upright.map((axis) => axis.domain[0])).size
  if (across.length < 2 || across.length !== upright.length || rows === across.length) return 0
  const each = (height - (layout.margin?.t ?? 60) - 4 * size) / rows
  const between = 7.5 * size // for numbers and a name below a panel, and a name above the next
  const whole = across.length * each + (across.length - 1) * between
  across.forEach((axis, i) => {
    const other = upright[i]
    const top = 1 - (i * (each + between)) / whole
    for (const note of layout.annotations ?? []) {
      const middle = (axis.domain[0] + axis.domain[1]) / 2
      if (note.xref === "paper" && Math.abs(note.x - middle) < 1e-6 && note.y === other.domain[1]) {
        Object.assign(note, { x: 0.5, y: top })
      }
    }
    Object.assign(axis, { domain: [0, 1], showticklabels: true })
    Object.assign(other, { domain: [top - each / whole, top], showticklabels: true })
    other.title ??= upright[0].title
    if (across[i + 1]?.matches) delete axis.title // the last one says it for all
  })
  return whole - each * rows
}

// Break words that are wider than the page has room for, in place; how many pixels higher the figure becomes by it.
function fit(data, layout, height, width) {
  const base = layout.template?.layout ?? {}
  const family = base.font?.family ?? "sans-serif"
  const type = base.font?.size ?? 12
  const within = (part, size, room, key = "text") => {
    ruler.font = `${size}px ${family}`
    const before = part[key]
    if (before.split("<br>").some((line) => isLong(line, room))) part[key] = wrapped(before.replaceAll("<br>", " "), room)
    return (breaks(part[key]) - breaks(before)) * size * LINE
  }
  const stacked = width < NARROW * type ? stack(layout, height, type) : 0
  const sides = width < LEGEND ? Math.max(SIDES, 8.5 * type) : SIDES
  const room = ({ domain: [from, to] }) => (to - from) * (width - sides)

  const titled = axes(layout, "x").filter((axis) => axis.title?.text)
  const below = titled.map((axis) => within(axis.title, axis.title.font?.size ?? type, room(axis)))
  if (width < LEGEND || type >= LARGE) {
    const tall = height - (layout.margin?.t ?? 0) - 9 * type // without what stands below
    for (const { title, domain } of axes(layout, "y")) {
      if (title?.text) within(title, title.font?.size ?? type, (domain[1] - domain[0]) * tall)
    }
  }
  if (width < LEGEND) {
    const beyond = data.some((trace) => trace.text && trace.cliponaxis === false) // words that may leave the axes
    if (beyond) layout.margin = { ...layout.margin, r: (layout.margin?.r ?? base.margin?.r ?? 0) + 2 * type }
  }
  const names = (layout.annotations ?? []).filter((note) => note.xref === "paper" && !note.showarrow && note.text)
  const above = names.map((note) => {
    const panel = axes(layout, "x").find(({ domain: [from, to] }) => from <= note.x && note.x <= to)
    const more = within(note, note.font?.size ?? type, panel ? room(panel) : width - sides)
    return note.yanchor === "bottom" ? more : 0
  })
  fitCells(data, layout, width, type)
  const legend = fitLegend(data, layout, width, type, within)

  const { title } = layout
  const line = title?.text ? within(title, base.title?.font?.size ?? 17, 0.97 * width) : 0
  const note = title?.subtitle?.text ? within(title.subtitle, title.subtitle.font?.size ?? 12, 0.97 * width) : 0
  const top = line + note + Math.max(0, ...above)
  const upright = axes(layout, "y").some((axis) => axis.title?.text)
  const spare = upright && width < LEGEND ? 3 * type : 0 // such names have no less to say
  const added = Math.round(top + Math.max(0, ...below) + legend + stacked + spare)
  if (added && title) {
    const y = (1 - (title.y ?? 1)) * height + line * (0.6 / LINE) // plotly centres the lines of a title
    title.y = 1 - y / (height + added)
    if (layout.margin?.t) layout.margin.t += Math.round(top)
  }
  return added
}

// A drawing keeps its proportions: on a page narrower than it was made for, all of it is smaller. Its new height.
function shrink(data, layout, height, width) {
  const scale = Math.min(1, width / (layout.meta?.["drawn for"] ?? width))
  if (scale === 1) return height
  const less = (part, key) => {
    if (part?.[key]) part[key] = Array.isArray(part[key]) ? part[key].map((size) => size * scale) : part[key] * scale
  }
  for (const note of layout.annotations ?? []) {
    less(note.font, "size")
    less(note, "xshift")
  }
  for (const trace of data) {
    less(trace.marker, "size")
    less(trace.textfont, "size")
    less(trace.line, "width")
  }
  const top = layout.margin?.t ?? 0
  const lower = Math.round(top + (height - top) * scale)
  if (layout.title?.y) layout.title.y = 1 - ((1 - layout.title.y) * height) / lower
  return lower
}

// Numbers in cells are as small as the cells ask for, and left out where nobody could read them.
function fitCells(data, layout, width, type) {
  for (const trace of data) {
    const columns = trace.x?.length ?? trace.z?.[0]?.length
    if (trace.type !== "heatmap" || !trace.texttemplate || !columns) continue
    const [from, to] = layout[`xaxis${(trace.xaxis ?? "x").slice(1)}`]?.domain ?? [0, 1]
    const most = ((to - from) * (width - SIDES - 6 * type)) / columns / 2.4 // a number is some 2.4 letters wide
    if (most < SMALLEST) delete trace.texttemplate
    else if (most < (trace.textfont?.size ?? type)) trace.textfont = { ...trace.textfont, size: most }
  }
}

// Break names in the legend; how many pixels more it needs than at the width for which figures leave it room.
function fitLegend(data, layout, width, type, within) {
  const entries = data.filter((trace) => trace.name && trace.showlegend !== false && trace.type === "scatter")
  if (layout.showlegend === false || entries.length < 2 || width >= LEGEND) return 0
  const lines = entries.map((trace) => within(trace, type, width - 80, "name"))
  const longest = (name) => Math.max(...name.split("<br>").map((line) => ruler.measureText(line).width))
  const widest = Math.max(...entries.map((trace) => longest(trace.name))) + 50
  const rows = (room) => Math.max(2, Math.ceil(entries.length / Math.max(1, Math.floor(room / widest))))
  return (rows(width - 20) - rows(LEGEND)) * type * 1.45 + lines.reduce((sum, more) => sum + more, 0)
}

// How many pixels the panels lack for the names of their upright axes, which are as long as their words.
function lacking(plot) {
  const lacks = Object.values(plot._fullLayout._plots ?? {}).map(({ yaxis }) => {
    const name = plot.querySelector(`.${yaxis._id}title`)
    return name ? name.getBoundingClientRect().height - yaxis._length : 0
  })
  return Math.max(0, ...lacks.map(Math.ceil))
}
