// What pictures share: a sheet of few nodes that is rewritten in place, and log axes.

// Shapes of one class are one path; texts are reused. So a picture of 48 layers is some 20 nodes and its labels.
class Sheet {
  // `layers` are the classes from back to front; "others" is where the curves of other models stand.
  constructor(svg, layers) {
    this.svg = svg
    this.paths = new Map()
    this.others = svgNode("g")
    this.labels = svgNode("g")
    const nodes = layers.map((name) => (name === "others" ? this.others : this.pathOf(name, name)))
    svg.append(...nodes, this.labels)
  }

  pathOf(name, look) {
    const path = svgNode("path", { class: `lnp-${look}` })
    this.paths.set(name, path)
    return path
  }

  // `others` are the models whose curves are drawn besides; each has a line, a thin one for theory, and marks.
  begin(width, height, others = [], theme = "light") {
    setAll(this.svg, { viewBox: `0 0 ${width} ${height}`, width, height })
    others.forEach(({ style }, i) => {
      const parts = ["otherline", "othertheory", "othermark"]
      if (!this.paths.has(`otherline${i}`)) this.others.append(...parts.map((part) => this.pathOf(`${part}${i}`, part)))
      const colour = legible(style.color, theme)
      const [line, thin, mark] = parts.map((part) => this.paths.get(`${part}${i}`))
      setAll(line, { stroke: colour, "stroke-dasharray": dashArray(style.dash) || false })
      setAll(thin, { stroke: colour })
      setAll(mark, { stroke: colour })
    })
    this.shapes = new Map([...this.paths.keys()].map((name) => [name, []]))
    this.used = 0
  }

  shape(name, d) {
    this.shapes.get(name).push(d)
  }

  rect(name, x, y, width, height, radius = 0) {
    const r = Math.min(radius, width / 2, height / 2)
    const [w, h] = [width - 2 * r, height - 2 * r]
    const turn = (dx, dy) => (r ? `a${r} ${r} 0 0 1 ${dx * r} ${dy * r}` : "")
    this.shape(name, `M${x + r} ${y}h${w}${turn(1, 1)}v${h}${turn(-1, 1)}h${-w}${turn(-1, -1)}v${-h}${turn(1, -1)}z`)
  }

  line(name, ...points) {
    this.shape(name, `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`)
  }

  text(x, y, words, name = "", anchor = "start") {
    const node = this.labels.childNodes[this.used++] ?? this.labels.appendChild(svgNode("text"))
    setAll(node, { x: x.toFixed(1), y: y.toFixed(1), class: `lnp-label ${name}`, "text-anchor": anchor })
    if (node.textContent !== words) node.textContent = words
  }

  end() {
    for (const [name, shapes] of this.shapes) this.paths.get(name).setAttribute("d", shapes.join(""))
    while (this.labels.childNodes.length > this.used) this.labels.lastChild.remove()
  }
}

const superscript = (power) => String(power).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]))

function tickText(value) {
  const power = Math.round(Math.log10(value))
  return value > 0.99e-3 && value < 1.01e4 ? String(Number(value.toPrecision(3))) : `10${superscript(power)}`
}

// From the value on 1, 2, 5, 10, … below `low` to just above `high`; `room` is how many labels fit.
function logScale(values, start, end, room, least = 10, above = 1.06) {
  const kept = values.filter((value) => value > 0 && Number.isFinite(value))
  const high = kept.length ? Math.max(...kept) * above : 1
  const wanted = kept.length ? Math.min(Math.min(...kept) / 1.25, high / least) : 0.1
  const power = Math.floor(Math.log10(wanted))
  const low = [5, 2, 1].map((lead) => lead * 10 ** power).find((value) => value <= wanted * 1.0001) ?? wanted
  const span = Math.log(high / low)
  const at = (value) => start + (end - start) * (Math.log(value / low) / span)
  return { at, low, ticks: logTicks(low, high, room).map((value) => ({ at: at(value), text: tickText(value) })) }
}

// From `low` to 1, for cosines
function cosineScale(values, start, end, room) {
  const low = Math.min(0, Math.floor(Math.min(...values, 0) * 10) / 10)
  const at = (value) => start + ((end - start) * (value - low)) / (1.02 - low)
  const steps = room >= 6 ? [0, 0.2, 0.4, 0.6, 0.8, 1] : [0, 0.5, 1]
  return { at, low, ticks: steps.map((value) => ({ at: at(value), text: String(value) })) }
}

function logTicks(low, high, room) {
  const first = Math.floor(Math.log10(low)) - 1
  const powers = Array.from({ length: Math.ceil(Math.log10(high)) - first + 2 }, (_, i) => first + i)
  const inside = (value) => value >= low * 0.999 && value <= high
  const every = (leads) => powers.flatMap((power) => leads.map((lead) => lead * 10 ** power)).filter(inside)
  for (const leads of [[1, 2, 5], [1, 3], [1]]) if (every(leads).length <= room) return every(leads)
  const step = Math.ceil(every([1]).length / room)
  return powers.filter((power) => power % step === 0).map((power) => 10 ** power).filter(inside)
}

// Values that set the axis: all that is drawn, and theory only where it is not far beyond.
function reachOf(bars, others, theory) {
  const drawn = [...bars, ...others].filter((bar) => bar.kind === "number").flatMap((bar) => [bar.low, bar.high])
  const [low, high] = [Math.min(...drawn) / 10, Math.max(...drawn) * 10]
  const expected = theory ? bars.map((bar) => bar.theory).filter((value) => value > low && value < high) : []
  return [...drawn, ...expected]
}

// The last layer by depth or by width ----------------------------------------------------------------------------

const SIZE_LAYERS = [
  "grid", "shadowline", "shadowmark", "others", "theoryline", "seriesline", "range", "mark", "markopen", "ring",
]

function sizePicture(sheet, { shown, before, others, state, width, height, unit, style, theme }) {
  sheet.begin(width, height, others, theme)
  setAll(sheet.paths.get("seriesline"), { "stroke-dasharray": dashArray(style.dash) || false })
  const { key } = shown.result.config.along
  const curves = sizeCurves(shown.result, state)
  const sizes = distinct(curves.flatMap(({ points }) => points.map(({ at }) => at))).sort((a, b) => a - b)
  const [least, most] = [Math.min(...sizes), Math.max(...sizes, 2)]
  const within = ({ points }) => ({ points: points.filter(({ at }) => at <= most) })
  const readCurves = (one) => (one?.result.config.along?.key === key ? sizeCurves(one.result, state).map(within) : [])
  const [old, ...kept] = [before, ...others].map(readCurves)
  const [left, right, top, bottom] = [58 * unit, width - 20, 16 * unit, height - 42 * unit]
  const points = (list) => list.flatMap((curve) => curve.points)
  const reach = reachOf(points(curves), points([...old, ...kept.flat()]), state.theory)
  const y = logScale(reach, bottom, top, (bottom - top) / (30 * unit), 6, 1.6)
  const x = (size) => left + 14 + ((right - left - 28) * Math.log(size / least)) / (Math.log(most / least) || 1)
  for (const tick of y.ticks) {
    sheet.line("grid", [left, tick.at], [right, tick.at])
    sheet.text(left - 8, tick.at + 4 * unit, tick.text, "lnp-tick", "end")
  }
  let free = -Infinity
  for (const size of sizes) {
    if (x(size) < free) continue
    sheet.text(x(size), bottom + 18 * unit, String(size), "lnp-tick", "middle")
    free = x(size) + 24 * unit
  }
  const long = key === "depth" ? "depth of the model (layers on each side)" : "width of the model (features of a token)"
  const title = width > 420 * unit ? long : `${key} of the model`
  sheet.text((left + right) / 2, height - 6, title, "lnp-tick", "middle")
  const theoryOf = ({ points }) => points.filter((point) => point.theory).map((p) => [x(p.at), y.at(p.theory)])
  for (const curve of old) sizeCurve(sheet, curve, x, y, { line: "shadowline", mark: "shadowmark", marker: "circle" })
  kept.forEach((list, i) => list.forEach((curve) => {
    sizeCurve(sheet, curve, x, y, { line: `otherline${i}`, mark: `othermark${i}`, marker: others[i].style.marker })
    const line = theoryOf(curve)
    if (state.theory && others[i].live && line.length > 1) sheet.line(`othertheory${i}`, ...line)
  }))
  for (const curve of curves) {
    const mark = curve === curves[0] ? "mark" : "markopen"
    sizeCurve(sheet, curve, x, y, { line: "seriesline", mark, marker: style.marker, range: true })
    const line = theoryOf(curve)
    if (state.theory && line.length > 1) sheet.line("theoryline", ...line)
    const here = curve.points.find((p) => p.at === shown.state[key] && p.kind === "number")
    if (here) sheet.shape("ring", markerPath("circle", x(here.at), y.at(here.mean), 11))
  }
  for (const [i, size] of sizes.entries()) {
    const odd = points(curves).find((point) => point.at === size && point.kind !== "number")
    if (odd) sheet.text(x(size), bottom - 8 - (i % 2) * 16 * unit, KIND_WORDS[odd.kind], "lnp-odd", "middle")
  }
  sheet.end()
}

function sizeCurve(sheet, { points }, x, y, { line, mark, marker, range = false }) {
  const kept = points.filter((point) => point.kind === "number")
  if (kept.length > 1) sheet.line(line, ...kept.map((point) => [x(point.at), y.at(point.mean)]))
  for (const { at, low, high, mean } of kept) {
    if (range) sheet.line("range", [x(at), y.at(low)], [x(at), y.at(high)])
    sheet.shape(mark, markerPath(marker, x(at), y.at(mean), range ? 5.5 : 4))
  }
}
