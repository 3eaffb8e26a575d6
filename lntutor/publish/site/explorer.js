// The gradient explorer without Python: the figures of lntutor/figures/layers.py and scaling.py, drawn from a fixed grid.
// tests/browser/test_site.py compares what is drawn here with what those functions draw.

const about = JSON.parse(document.getElementById("about").textContent)
const STATISTICS = 4 // mean, least, greatest, theory
const INK = "#222222"
const BLOCKS = { self: "self-attention", cross: "cross-attention", ffn: "FFN" }
const SIDES = ["encoder", "decoder"]
const MOST_PINS = 4
const nearest = (list, value) => list.reduce((a, b) => (Math.abs(b - value) < Math.abs(a - value) ? b : a))
const START = {
  depth: nearest(about.depths, 6),
  width: nearest(about.widths, 128),
  placements: about.placements.slice(0, 2),
  view: "by layer",
  parameter: "W_2",
  theory: true,
  lecture: false,
}

const form = document.getElementById("controls")
const plot = document.getElementById("plot")
const element = (id) => document.getElementById(id)
let state = { ...START }
let pinned = [] // states
let numbers = null // Uint16Array

// Numbers --------------------------------------------------------------------------------------------------------

async function inflate(id) {
  const bytes = Uint8Array.from(atob(element(id).textContent.trim()), (letter) => letter.charCodeAt(0))
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")))
}

const starts = (() => {
  // where a cell begins, by placement, width and depth
  const places = new Map()
  let at = 0
  for (const placement of about.placements)
    for (const width of about.widths)
      for (const depth of about.depths) {
        places.set(`${placement} ${width} ${depth}`, at)
        at += about.curves.length * STATISTICS * depth
      }
  return places
})()

const decode = (step) =>
  step ? 10 ** (about.low + ((step - 1) / (about.levels - 1)) * (about.high - about.low)) : null

// One curve of one cell: {at, mean, low, high, theory}, layer by layer; layers without a measurement are left out.
function curve(placement, width, depth, side, block, parameter) {
  const index = about.curves.findIndex((c) => c[0] === side && c[1] === block && c[2] === parameter)
  if (index < 0) return null
  const begin = starts.get(`${placement} ${width} ${depth}`) + index * STATISTICS * depth
  const read = (statistic) =>
    Array.from(numbers.subarray(begin + statistic * depth, begin + (statistic + 1) * depth), decode)
  const [mean, low, high, theory] = [0, 1, 2, 3].map(read)
  const layers = mean.map((_, i) => i + 1)
  return { placement, side, block, at: layers, mean, low, high, theory }
}

// Every curve of a view: by layer for both sides; by depth and by width, the last layer of the decoder.
function curves({ placements, width, depth, view, parameter }) {
  const found = []
  for (const placement of about.placements.filter((key) => placements.includes(key)))
    for (const side of view === "by layer" ? SIDES : ["decoder"])
      for (const block of Object.keys(BLOCKS)) {
        const one = (w, d) => curve(placement, w, d, side, block, parameter)
        if (!one(width, depth)) continue
        if (view === "by layer") found.push(one(width, depth))
        else {
          const along =
            view === "by depth" ? about.depths.filter((d) => d <= depth) : about.widths.filter((w) => w <= width)
          const tops = along.map((n) => (view === "by depth" ? one(width, n) : one(n, depth)))
          const last = (name) => tops.map((top) => top[name].at(-1))
          found.push({
            placement,
            side,
            block,
            at: along,
            mean: last("mean"),
            low: last("low"),
            high: last("high"),
            theory: last("theory"),
          })
        }
      }
  return found.filter((c) => c.mean.some((v) => v !== null))
}

// {at, mean, low, high} of the places that were measured, or {at, mean} of those that are predicted.
function drawn(c, theory = false) {
  const keep = c.at.map((_, i) => i).filter((i) => (theory ? c.theory : c.mean)[i] !== null)
  const pick = (list) => keep.map((i) => list[i])
  return theory
    ? { at: pick(c.at), mean: pick(c.theory) }
    : { at: pick(c.at), mean: pick(c.mean), low: pick(c.low), high: pick(c.high) }
}

function slope(x, y) {
  if (x.length < 2) return null
  const [a, b] = [x.map(Math.log), y.map(Math.log)]
  const mean = (v) => v.reduce((s, n) => s + n, 0) / v.length
  const [p, q] = [mean(a), mean(b)]
  const up = a.reduce((s, v, i) => s + (v - p) * (b[i] - q), 0)
  return up / a.reduce((s, v) => s + (v - p) ** 2, 0)
}

// Words ----------------------------------------------------------------------------------------------------------

const label = (key) => about.labels[key]
const minus = (text) => text.replace("-", "−")
const general = (value, digits) => {
  // as Python's format "g"
  const power = Math.floor(Math.log10(Math.abs(Number(value.toExponential(digits - 1)))))
  if (power < -4 || power >= digits) {
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e")
    return `${Number(mantissa)}e${Number(exponent)}`
  }
  return String(Number(value.toPrecision(digits)))
}
const number = (value, digits = 3) => minus(general(value, digits))
const fixed = (value) => minus((Math.abs(value) < 0.005 ? 0 : value).toFixed(2))
const times = (ratio) =>
  `${ratio >= 0.1 && ratio < 100 ? ratio.toFixed(1) : ratio >= 100 && ratio < 1e4 ? Number(ratio.toPrecision(2)) : number(ratio, 2)}×`
const lowered = (parameter) => parameter.replace(/_(.)/, "<sub>$1</sub>")
const capital = (text) => text[0].toUpperCase() + text.slice(1)
const name = (c, several) => label(c.placement) + (several ? `, ${BLOCKS[c.block]}` : "")

function listed(pairs, show, most = 3) {
  if (pairs.length <= most) return pairs.map(([who, value]) => `${who} ${show(value)}`).join("; ")
  const order = [...pairs].sort((a, b) => a[1] - b[1])
  const [low, high] = [order[0], order.at(-1)]
  return `from ${show(low[1])} (${low[0]}) to ${show(high[1])} (${high[0]})`
}

function layerFinding(found) {
  const here = found.filter((c) => c.side === "decoder").map((c) => ({ ...c, ...drawn(c) }))
  const blocks = [...new Set(here.map((c) => c.block))]
  const several = blocks.length > 1
  const block = Object.keys(BLOCKS).find((b) => blocks.includes(b))
  const first = here.filter((c) => c.block === block)
  const where = "decoder" + (several ? ` ${BLOCKS[block]}` : "")
  const ends = here.map(
    (c) =>
      `${name(c, several)} decoder: ${number(c.mean[0])} in layer ${c.at[0]}, ${number(c.mean.at(-1))} in layer ${c.at.at(-1)}`,
  )
  const bottom = Math.min(...here.map((c) => c.at[0])),
    top = Math.max(...here.map((c) => c.at.at(-1)))
  if (bottom === top)
    return [
      `${capital(where)}, layer ${top} alone: gradient norm ${listed(
        first.map((c) => [label(c.placement), c.mean.at(-1)]),
        number,
      )}`,
      ends,
    ]
  const spans = new Set(first.map((c) => `${c.at[0]} ${c.at.at(-1)}`))
  const [low, high] = spans.size === 1 ? [...spans][0].split(" ").map(Number) : [bottom, top]
  const isAlone = (c) => c.at[0] === c.at.at(-1)
  const pairs = first.filter((c) => !isAlone(c)).map((c) => [label(c.placement), c.mean.at(-1) / c.mean[0]])
  if (!pairs.length || pairs.length > 3 || spans.size > 1) {
    const alone = first.filter(isAlone).map((c) => `${label(c.placement)} has one layer above round-off`)
    const told = [...(pairs.length ? [listed(pairs, times)] : []), ...alone].join("; ")
    return [`${capital(where)}, highest layer over lowest: ${told}`, ends]
  }
  const span = (ratio) =>
    low === bottom && high === top ? `top layer ${ratio} the bottom` : `layer ${high} ${ratio} layer ${low}`
  const [[who, ratio], ...others] = pairs
  return [`${who} ${where}: ${span(times(ratio))}` + others.map(([n, r]) => `; ${n} ${times(r)}`).join(""), ends]
}

function scalingFinding(found, along) {
  const parts = found.map((c) => ({ ...c, ...drawn(c), predicted: drawn(c, true) }))
  const several = new Set(parts.map((c) => c.block)).size > 1
  const ends = parts.map(
    (c) =>
      `${name(c, several)}: ${number(c.mean[0])} at ${c.at[0]}` +
      (c.at.length > 1 ? `, ${number(c.mean.at(-1))} at ${c.at.at(-1)}` : ""),
  )
  const every = parts.flatMap((c) => c.at)
  const first = new Map()
  for (const c of parts) {
    const fitted = slope(c.at, c.mean)
    if (fitted !== null && !first.has(c.placement)) first.set(c.placement, [label(c.placement), fitted])
  }
  if (!first.size)
    return [
      `Last decoder layer at ${along} ${every[0]}: gradient norm ${listed(
        parts.map((c) => [label(c.placement), c.mean.reduce((a, b) => a + b) / c.mean.length]),
        number,
      )}`,
      ends,
    ]
  return [
    `Last decoder layer, ${along} ${Math.min(...every)} to ${Math.max(...every)}, log–log slope: ${listed([...first.values()], fixed)}`,
    ends,
  ]
}

// Traces ---------------------------------------------------------------------------------------------------------

const size = () => about.sizes[state.lecture ? 1 : 0]

function marks(c, { upright, joined, faint, ...more }) {
  const { at, mean, low, high } = drawn(c)
  const style = about.styles[c.placement],
    { thin, line, marker } = size()
  const bar = {
    type: "data",
    symmetric: false,
    array: high.map((v, i) => v - mean[i]),
    arrayminus: low.map((v, i) => mean[i] - v),
    width: 0,
    color: style.color,
    thickness: line,
    visible: !faint,
  }
  const crowd = mean.length * marker
  const shrink = crowd <= 220 ? 1 : crowd <= 320 ? 0.7 : 0.5
  return {
    type: "scatter",
    x: upright ? mean : at,
    y: upright ? at : mean,
    [upright ? "error_x" : "error_y"]: bar,
    mode: joined ? "lines+markers" : "markers",
    line: { color: style.color, dash: style.dash, width: thin },
    marker: {
      symbol: style.symbol + (c.block === "cross" ? "-open" : ""),
      color: style.color,
      size: marker * shrink * (faint ? 0.8 : 1),
      line: { width: thin, color: style.color },
    },
    opacity: faint ? 0.35 : 1,
    ...more,
  }
}

function theoryLine(c, upright, more) {
  const { at, mean } = drawn(c, true)
  const style = about.styles[c.placement]
  return {
    type: "scatter",
    x: upright ? mean : at,
    y: upright ? at : mean,
    mode: "lines",
    line: { color: style.dark, dash: style.dash, width: size().thin },
    showlegend: false,
    name: "theory",
    ...more,
  }
}

const theoryKey = () => ({
  type: "scatter",
  x: [null],
  y: [null],
  mode: "lines",
  line: { color: INK, width: size().thin },
  name: "theory",
  hoverinfo: "skip",
})

function logAxis(values, room) {
  const logs = values.map(Math.log10)
  let low = Math.min(...logs),
    high = Math.max(...logs)
  const pad = Math.max(0.05 * (high - low), 0.04)
  low -= pad
  high += pad
  const powers = Array.from({ length: Math.ceil(high) - Math.floor(low) + 3 }, (_, i) => Math.floor(low) - 1 + i)
  let ticks = null
  for (const leads of [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5], [1, 3], [1]]) {
    const all = powers.flatMap((power) => leads.map((lead) => lead * 10 ** power))
    if (all.filter((t) => low <= Math.log10(t) && Math.log10(t) <= high).length > room) continue
    ticks = all
    break
  }
  const step = Math.ceil(Math.trunc(high - low) / room)
  ticks ??= powers.filter((power) => power % step === 0).map((power) => 10 ** power)
  const words = (t) =>
    t >= 1e-3 * 0.999 && t < 1e4 * 0.999
      ? String(Number(t.toPrecision(6)))
      : minus(`10<sup>${Math.round(Math.log10(t))}</sup>`)
  return { type: "log", range: [low, high], tickvals: ticks, ticktext: ticks.map(words) }
}

// All measured values, and those of the theory that are not far beyond them.
function reach(found, pins) {
  const every = [...found, ...pins].flatMap((c) => drawn(c)).flatMap((c) => [...c.mean, ...c.low, ...c.high])
  const low = Math.min(...every) / 10,
    high = Math.max(...every) * 10
  const predicted = state.theory ? found.flatMap((c) => drawn(c, true).mean) : []
  return [...every, ...predicted.filter((v) => low <= v && v <= high)]
}

function layerTicks(depth) {
  const step = [1, 2, 3, 4, 6, 8, 12, 16].find((s) => (depth - 1) / s <= 12)
  const ticks = Array.from({ length: depth }, (_, i) => i + 1).filter((t) => t % step === 0 && depth - t >= step / 2)
  const all = [...new Set([...ticks, depth])].sort((a, b) => a - b)
  const pad = 0.02 * (depth - 1)
  return { tickvals: all, ticktext: all.map(String), range: [0.5 - pad, depth + 0.5 + pad] }
}

function measuredTicks(values) {
  const every = [...new Set(values)].sort((a, b) => a - b)
  const low = Math.log10(every[0]),
    high = Math.log10(every.at(-1)),
    gap = Math.max((high - low) * 0.05, 0.02),
    kept = []
  for (const value of every) if (!kept.length || Math.log10(value) - Math.log10(kept.at(-1)) >= gap) kept.push(value)
  const pad = Math.max((high - low) * 0.05, 0.05)
  return { type: "log", tickvals: kept, ticktext: kept.map(String), range: [low - pad, high + pad] }
}

// Figures --------------------------------------------------------------------------------------------------------

const narrow = () => plot.clientWidth < 600
const spread = `mean and range over ${about.seeds} seeds`
const pinName = (other) => {
  const changed = ["depth", "width", "placements"].filter((key) => String(other[key]) !== String(START[key]))
  return changed.map((key) => `${key} ${[other[key]].flat().join(", ")}`).join("; ") || "as at the start"
}
// [number, words, curves] of each pin of this view; the matrix is that of the controls.
const pins = () =>
  pinned
    .filter((other) => other.view === state.view)
    .map((other, i) => [i, pinName(other), curves({ ...other, parameter: state.parameter })])

function byLayer(found) {
  const data = [],
    axes = { encoder: ["x", "y"], decoder: ["x2", "y2"] },
    named = new Set()
  const several = (list) => new Set(list.map((c) => c.block)).size > 1
  const put = (c, group, words, more) => {
    const [xaxis, yaxis] = axes[c.side]
    data.push(
      marks(c, {
        upright: true,
        name: words,
        legendgroup: group,
        showlegend: !named.has(group),
        xaxis,
        yaxis,
        hovertemplate: "layer %{y}: %{x:.4g}<extra>%{fullData.name}</extra>",
        ...more,
      }),
    )
    named.add(group)
  }
  const old = pins()
  for (const [i, words, list] of old)
    for (const side of SIDES)
      for (const c of list.filter((c) => c.side === side))
        put(c, `pin${i}/${c.placement}/${c.block}`, `${words}: ${name(c, several(list))}`, {
          joined: true,
          faint: true,
        })
  for (const side of SIDES)
    for (const c of found.filter((c) => c.side === side))
      put(c, `${c.placement}/${c.block}`, name(c, several(found)), { joined: !state.theory })
  if (state.theory) {
    for (const c of found)
      data.push(
        theoryLine(c, true, {
          xaxis: axes[c.side][0],
          yaxis: axes[c.side][1],
          legendgroup: `${c.placement}/${c.block}`,
          hovertemplate: "layer %{y}: %{x:.4g}<extra>%{fullData.name}</extra>",
        }),
      )
    data.push(theoryKey())
  }
  const pinnedCurves = old.flatMap(([, , list]) => list)
  const values = logAxis(reach(found, pinnedCurves), 5 + (state.lecture ? 0 : 1))
  const layers = layerTicks(Math.max(...[...found, ...pinnedCurves].flatMap((c) => c.at)))
  const title = { text: `‖∂L/∂${lowered(state.parameter)}‖${narrow() ? "" : `<br>(${spread})`}` }
  const heading = (text, x) => ({
    text,
    x,
    y: 1,
    xref: "paper",
    yref: "paper",
    xanchor: "center",
    yanchor: "bottom",
    showarrow: false,
  })
  const [finding, ends] = layerFinding(found)
  return [
    data,
    {
      xaxis: { ...values, title, domain: [0, 0.475], anchor: "y" },
      yaxis: { ...layers, title: { text: "Layer (input at the bottom)" }, anchor: "x" },
      xaxis2: { ...values, title, domain: [0.525, 1], anchor: "y2", matches: "x" },
      yaxis2: { ...layers, anchor: "x2", matches: "y", showticklabels: false },
      annotations: [heading("Encoder", 0.2375), heading("Decoder", 0.7625)],
    },
    finding,
    ends,
  ]
}

function scaling(found, along) {
  const data = [],
    several = (list) => new Set(list.map((c) => c.block)).size > 1
  const put = (c, group, words, more) => {
    const measured = drawn(c),
      predicted = drawn(c, true),
      fitted = slope(measured.at, measured.mean)
    const shared = predicted.at.map((at, i) => i).filter((i) => measured.at.includes(predicted.at[i]))
    const expected = state.theory
      ? slope(
          shared.map((i) => predicted.at[i]),
          shared.map((i) => predicted.mean[i]),
        )
      : null
    const tail =
      fitted === null ? "" : `, slope ${fixed(fitted)}` + (expected === null ? "" : ` (theory ${fixed(expected)})`)
    data.push(
      marks(c, {
        name: words + tail,
        legendgroup: group,
        hovertemplate: `${along} %{x}: %{y:.4g}<extra>%{fullData.name}</extra>`,
        ...more,
      }),
    )
  }
  const old = pins()
  for (const [i, words, list] of old)
    for (const c of list)
      put(c, `pin${i}/${c.placement}/${c.block}`, `${words}: ${name(c, several(list))}`, { joined: true, faint: true })
  for (const c of found) put(c, `${c.placement}/${c.block}`, name(c, several(found)), { joined: !state.theory })
  if (state.theory) {
    for (const c of found) data.push(theoryLine(c, false, { legendgroup: `${c.placement}/${c.block}` }))
    data.push(theoryKey())
  }
  if (along === "depth") {
    const ringed = found.map(drawn_at(state.depth)).filter((v) => v !== null)
    const { marker, thin } = size()
    data.push({
      type: "scatter",
      x: ringed.map(() => state.depth),
      y: ringed,
      mode: "markers",
      marker: { symbol: "circle-open", size: marker * 2.1, color: INK, line: { width: thin } },
      name: `depth ${state.depth}`,
      hoverinfo: "skip",
    })
  }
  const pinnedCurves = old.flatMap(([, , list]) => list)
  const [finding, ends] = scalingFinding(found, along)
  return [
    data,
    {
      xaxis: {
        ...measuredTicks([...found, ...pinnedCurves].flatMap((c) => drawn(c).at)),
        title: { text: capital(along) + (along === "depth" ? " L" : " d") },
        anchor: "y",
      },
      yaxis: {
        ...logAxis(reach(found, pinnedCurves), 8),
        title: { text: `‖∂L/∂${lowered(state.parameter)}‖ of the last layer${narrow() ? "" : `<br>(${spread})`}` },
        anchor: "x",
      },
    },
    finding,
    ends,
  ]
}

const drawn_at = (place) => (c) => c.mean[c.at.indexOf(place)]

// A title broken into lines that fit.
function wrapped(text, columns) {
  const lines = [""]
  for (const word of text.split(" ")) {
    if (lines.at(-1) && (lines.at(-1) + " " + word).length > columns) lines.push(word)
    else lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word
  }
  return lines
}

async function draw() {
  const found = curves(state)
  element("show").disabled = element("csv").disabled = !found.length
  if (!state.placements.length || !found.length) {
    say(
      state.placements.length
        ? "All values are below round-off. The last picture stays."
        : "Pick at least one LN position. The last picture stays.",
    )
    return
  }
  const [data, layout, finding, ends] = state.view === "by layer" ? byLayer(found) : scaling(found, state.view.slice(3))
  const width = plot.clientWidth,
    s = size()
  const lines = wrapped(finding, Math.max(24, Math.floor(width / (s.title * 0.6))))
  const top = 16 + lines.length * s.title * 1.3 + (state.view === "by layer" ? s.text * 1.6 : 0)
  const rows = Math.ceil(
    data.filter((t) => t.showlegend !== false).length /
      Math.max(1, Math.floor(width / (state.view === "by layer" && !pins().length ? 190 : 330))),
  )
  const height = Math.round(370 * s.tall + top + Math.max(0, rows - 2) * s.text * 1.4)
  const total = {
    ...layout,
    template: about.templates[state.lecture ? 1 : 0],
    width,
    height,
    margin: { t: Math.round(top) },
    uirevision: state.view,
    showlegend: true,
    title: { text: lines.join("<br>"), y: 1 - (12 + 0.6 * s.title * (lines.length - 1)) / height },
  }
  const axis =
    state.view === "by layer"
      ? `Vertical axis: layer, input at the bottom. Horizontal axis: norm of the gradient of ${state.parameter}, logarithmic, ${spread}`
      : `Log axes. Horizontal axis: ${state.view.slice(3)}. Vertical axis: norm of the gradient of ${state.parameter} in the last layer, ${spread}`
  element("figure").setAttribute("aria-label", `Scatter plot. ${axis}. ${finding}. ${ends.join("; ")}.`)
  await Plotly.react(plot, data, total, {
    displaylogo: false,
    showTips: false,
    responsive: false,
    modeBarButtonsToRemove: ["lasso2d", "select2d"],
  })
  for (const part of plot.querySelectorAll(".main-svg, .modebar-container")) part.setAttribute("aria-hidden", "true")
  for (const button of plot.querySelectorAll(".modebar-btn")) button.tabIndex = -1
  say(`${finding}.`)
  if (!element("table").hidden) fillTable()
}

const say = (words) => (element("status").textContent = words)

// Table ----------------------------------------------------------------------------------------------------------

const COLUMNS = ["placement", "depth", "width", "side", "layer", "block", "parameter", "mean", "low", "high", "theory"]
const rows = () =>
  curves(state).flatMap((c) =>
    c.at.map((at, i) => ({
      placement: c.placement,
      depth: state.view === "by depth" ? at : state.depth,
      width: state.view === "by width" ? at : state.width,
      side: c.side,
      layer: state.view === "by layer" ? at : state.view === "by depth" ? at : state.depth,
      block: c.block,
      parameter: state.parameter,
      mean: c.mean[i],
      low: c.low[i],
      high: c.high[i],
      theory: c.theory[i],
    })),
  )
const shown = (value) => (typeof value === "number" && !Number.isInteger(value) ? number(value) : (value ?? ""))

function fillTable() {
  const body = rows()
    .map((row) => `<tr>${COLUMNS.map((c) => `<td>${shown(row[c])}</td>`).join("")}</tr>`)
    .join("")
  element("table").innerHTML =
    `<table><thead><tr>${COLUMNS.map((c) => `<th scope="col">${c}</th>`).join("")}</tr></thead><tbody>${body}</tbody></table>`
}

function save(address, file) {
  const link = document.createElement("a")
  link.href = address
  link.download = file
  link.click()
}

// State ----------------------------------------------------------------------------------------------------------

const write = (one) =>
  [one.depth, one.width, one.placements.join("+") || "none-picked", one.view.slice(3), one.parameter].join(",")

// A view from an address; what makes no sense there is left as it was at the start, and said.
function read(text) {
  const [depth, width, placements, view, parameter] = text.split(",")
  const wanted = {
    depth: Number(depth),
    width: Number(width),
    placements: (placements ?? "").split("+").filter((k) => about.placements.includes(k)),
    view: `by ${view}`,
    parameter,
  }
  const allowed = {
    depth: about.depths,
    width: about.widths,
    view: ["by layer", "by depth", "by width"],
    parameter: about.parameters,
  }
  const wrong = Object.keys(allowed).filter((key) => !allowed[key].includes(wanted[key]))
  for (const key of wrong) wanted[key] = START[key]
  if (!wanted.placements.length) wanted.placements = START.placements
  return [wanted, wrong]
}

function address() {
  const parts = [`view=${write(state)}`, ...pinned.map((one) => `pin=${write(one)}`)]
  if (!state.theory) parts.push("theory=off")
  if (state.lecture) parts.push("type=large")
  return `#${parts.join("&")}`
}

function restore() {
  const asked = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"))
  const [view, wrong] = asked.has("view") ? read(asked.get("view")) : [START, []]
  state = { ...START, ...view, theory: asked.get("theory") !== "off", lecture: asked.get("type") === "large" }
  pinned = asked
    .getAll("pin")
    .slice(0, MOST_PINS)
    .map((text) => read(text)[0])
  return wrong
}

function showControls() {
  form.depth.value = about.depths.indexOf(state.depth)
  form.width.value = about.widths.indexOf(state.width)
  for (const [slider, value] of [
    [form.depth, state.depth],
    [form.width, state.width],
  ]) {
    slider.nextElementSibling.value = value
    slider.setAttribute("aria-valuetext", String(value))
  }
  form.view.value = state.view
  form.parameter.value = state.parameter
  form.theory.checked = state.theory
  form.lecture.checked = state.lecture
  for (const box of form.querySelectorAll("fieldset input")) box.checked = state.placements.includes(box.value)
  document.body.classList.toggle("large", state.lecture)
}

let busy = false,
  dirty = false
async function update() {
  // one picture at a time; what moves meanwhile is drawn next, only the last
  showControls()
  try {
    history.replaceState(null, "", address())
  } catch {
    /* some browsers refuse it to pages from disk */
  }
  if (!element("shared").hidden) element("link").value = location.href.split("#")[0] + address()
  dirty = true
  if (busy) return
  busy = true
  try {
    while (dirty) {
      dirty = false
      await draw()
    }
  } catch (error) {
    say(`This view could not be drawn (${error.message}). The last picture stays.`)
    throw error
  } finally {
    busy = false
  }
}

function build() {
  form.depth.max = about.depths.length - 1
  form.width.max = about.widths.length - 1
  form.parameter.replaceChildren(...about.parameters.map((key) => new Option(key)))
  const list = form.querySelector("fieldset")
  for (const key of about.placements) {
    const row = document.createElement("label"),
      box = document.createElement("input")
    Object.assign(box, { type: "checkbox", name: "placements", value: key })
    row.append(box, label(key))
    list.append(row)
  }
  form.addEventListener("input", () => {
    state = {
      ...state,
      depth: about.depths[form.depth.value],
      width: about.widths[form.width.value],
      view: form.view.value,
      parameter: form.parameter.value,
      theory: form.theory.checked,
      lecture: form.lecture.checked,
      placements: [...form.querySelectorAll("fieldset input:checked")].map((box) => box.value),
    }
    update()
  })
  form.addEventListener("submit", (event) => event.preventDefault())
  element("pin").onclick = () => {
    pinned = [...pinned, { ...state }].slice(-MOST_PINS)
    update()
  }
  element("reset").onclick = () => {
    state = { ...START }
    pinned = []
    update()
  }
  element("copy").onclick = async () => {
    element("shared").hidden = false
    element("link").value = location.href.split("#")[0] + address()
    element("link").select()
    await navigator.clipboard?.writeText(element("link").value).catch(() => {})
  }
  element("show").onclick = () => {
    const hidden = (element("table").hidden = !element("table").hidden)
    element("show").textContent = hidden ? "Show table" : "Hide table"
    element("show").setAttribute("aria-expanded", String(!hidden))
    if (!hidden) fillTable()
  }
  element("png").onclick = async () => save(await Plotly.toImage(plot, { format: "png", scale: 2 }), "gradients.png")
  element("csv").onclick = () => {
    const text = [
      COLUMNS.join(","),
      ...rows().map((row) =>
        COLUMNS.map((c) => (typeof row[c] === "number" ? Number(row[c].toPrecision(4)) : (row[c] ?? ""))).join(","),
      ),
    ].join("\n")
    save(URL.createObjectURL(new Blob([text + "\n"], { type: "text/csv" })), "gradients.csv")
  }
  addEventListener("hashchange", () => {
    restore()
    update()
  })
  new ResizeObserver(() => {
    if (plot.clientWidth !== plot._fullLayout?.width) update()
  }).observe(plot)
}

async function start() {
  say("Unpacking …")
  const script = document.createElement("script")
  script.textContent = await (await inflate("library")).text()
  document.head.append(script)
  const bytes = new Uint8Array(await (await inflate("numbers")).arrayBuffer()),
    half = bytes.length / 2
  numbers = Uint16Array.from({ length: half }, (_, i) => bytes[i] + 256 * bytes[half + i])
  const wrong = restore()
  build()
  await update()
  if (wrong.length) say(`The address has no known ${wrong.join(", ")}; shown is what the page starts with.`)
}

start().catch((error) => say(`This page could not start: ${error.message}. It needs a browser of 2023 or later.`))
