// What pictures share: a sheet of few nodes that is rewritten in place, and log axes.

// Shapes of one class are one path; texts are reused. So a picture of 48 layers is some 20 nodes and its labels.
class Sheet {
  constructor(svg, layers) {
    this.svg = svg
    this.paths = new Map(layers.map((name) => [name, svgNode("path", { class: `lnp-${name}` })]))
    this.labels = svgNode("g")
    svg.append(...this.paths.values(), this.labels)
  }

  begin(width, height) {
    setAll(this.svg, { viewBox: `0 0 ${width} ${height}`, width, height })
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

// The last layer by depth ----------------------------------------------------------------------------------------

const DEPTH_LAYERS = [
  "grid", "shadowline", "shadowmark", "pin0", "pin1", "pin2", "pin3", "theoryline", "seriesline", "range", "mark",
  "markopen", "ring",
]

function depthPicture(sheet, { shown, before, pins, state, width, height, unit, style }) {
  sheet.begin(width, height)
  setAll(sheet.paths.get("seriesline"), { "stroke-dasharray": dashArray(style.dash) || false })
  const curves = depthCurves(shown.result, state)
  const depths = distinct(curves.flatMap(({ points }) => points.map(({ depth }) => depth))).sort((a, b) => a - b)
  const most = Math.max(...depths, 2)
  const within = ({ points }) => ({ points: points.filter(({ depth }) => depth <= most) })
  const [old, ...kept] = [before, ...pins].map((one) => (one ? depthCurves(one.result, state).map(within) : []))
  const [left, right, top, bottom] = [58 * unit, width - 20, 16 * unit, height - 42 * unit]
  const points = (list) => list.flatMap((curve) => curve.points)
  const reach = reachOf(points(curves), points([...old, ...kept.flat()]), state.theory)
  const y = logScale(reach, bottom, top, (bottom - top) / (30 * unit), 6, 1.6)
  const x = (depth) => left + 14 + ((right - left - 28) * Math.log(depth)) / Math.log(most)
  for (const tick of y.ticks) {
    sheet.line("grid", [left, tick.at], [right, tick.at])
    sheet.text(left - 8, tick.at + 4 * unit, tick.text, "lnp-tick", "end")
  }
  let free = -Infinity
  for (const depth of depths) {
    if (x(depth) < free) continue
    sheet.text(x(depth), bottom + 18 * unit, String(depth), "lnp-tick", "middle")
    free = x(depth) + 24 * unit
  }
  const title = width > 420 * unit ? "depth of the model (layers on each side)" : "depth of the model"
  sheet.text((left + right) / 2, height - 6, title, "lnp-tick", "middle")
  for (const curve of old) depthCurve(sheet, curve, x, y, style, "shadowline", "shadowmark")
  kept.forEach((list, i) => list.forEach((curve) => depthCurve(sheet, curve, x, y, style, `pin${i}`, null)))
  for (const curve of curves) {
    const mark = curve === curves[0] ? "mark" : "markopen"
    depthCurve(sheet, curve, x, y, style, null, mark)
    const expected = curve.points.filter((point) => point.theory)
    const line = expected.map((p) => [x(p.depth), y.at(p.theory)])
    if (state.theory && line.length > 1) sheet.line("theoryline", ...line)
    const here = curve.points.find((p) => p.depth === shown.state.depth && p.kind === "number")
    if (here) sheet.shape("ring", markerPath("circle", x(here.depth), y.at(here.mean), 11))
  }
  for (const [i, depth] of depths.entries()) {
    const odd = points(curves).find((point) => point.depth === depth && point.kind !== "number")
    if (odd) sheet.text(x(depth), bottom - 8 - (i % 2) * 16 * unit, KIND_WORDS[odd.kind], "lnp-odd", "middle")
  }
  sheet.end()
}

function depthCurve(sheet, { points }, x, y, style, line, mark) {
  const kept = points.filter((point) => point.kind === "number")
  if (kept.length > 1) sheet.line(line ?? "seriesline", ...kept.map((point) => [x(point.depth), y.at(point.mean)]))
  for (const { depth, low, high, mean } of kept) {
    if (!line) sheet.line("range", [x(depth), y.at(low)], [x(depth), y.at(high)])
    if (mark) sheet.shape(mark, markerPath(line ? "circle" : style.marker, x(depth), y.at(mean), line ? 3.5 : 5.5))
  }
}
