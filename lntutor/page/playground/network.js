// The network upright, input at the bottom: a row per layer with its norms, and beside it a bar for its number.

const NETWORK_LAYERS = [
  "grid", "layerbox", "wire", "branchwire", "sub", "normbar", "dot", "shadow", "shadowedge", "bar", "baropen",
  "lemma", "range", "mark", "theory", "others",
]
const MOST_ROW = 1 / 6 // a layer is at most this share of the height, so that a shallow network is a low one

// Where everything stands, in pixels.
function networkLayout({ sides, depth, width, height, unit }) {
  const gap = width > 560 ? 36 : 10
  const side = (width - gap * (sides.length - 1)) / sides.length
  const wide = side > 280 * unit
  const glyph = wide ? 96 : side > 200 ? 60 : 27
  const number = (wide ? 52 : 37) * unit
  const top = 46 * unit
  const base = height - 48 * unit
  const row = Math.min((base - top) * MOST_ROW, (base - top) / depth)
  const columns = Object.fromEntries(sides.map((name, i) => {
    const left = i * (side + gap)
    const box = left + (wide ? 26 : 20) * unit
    return [name, { left, box, bars: box + glyph + (wide ? 14 : 6), end: left + side - number, right: left + side }]
  }))
  const end = 22 * unit
  const heightOf = (n) => (n === 0 || n > depth ? end : row)
  const topOf = (n) => (n === 0 ? base : n > depth ? base - depth * row - end - 3 : base - n * row)
  return { columns, glyph, wide, row, top, base, depth, heightOf, topOf, unit, width, height }
}

function networkPicture(sheet, { shown, before, others, state, width, height, unit, style, theme }) {
  const sides = sidesOf(shown.state)
  const place = networkLayout({ sides, depth: shown.state.depth, width, height, unit })
  sheet.begin(width, height, others, theme)
  for (const side of sides) drawColumn(sheet, place, shown, side, state)
  if (shown.result) drawBars(sheet, place, { shown, before, others, state, style })
  sheet.end()
  return place
}

// The layers of one side -----------------------------------------------------------------------------------------

function drawColumn(sheet, place, { state, shapes }, side, drawn) {
  const { columns, glyph, row, base, depth, topOf, unit, wide } = place
  const { left, box } = columns[side]
  const stream = box + glyph * 0.17
  const ends = topOf(depth + 1) + 4
  sheet.line("wire", [stream, base + 20 * unit], [stream, base])
  sheet.line("wire", [stream, topOf(depth)], [stream, ends])
  sheet.line("wire", [stream - 4, ends + 5], [stream, ends], [stream + 4, ends + 5])
  const read = state.stack === "encoder-decoder" && side === "encoder" && place.width > 760 * unit
  sheet.text(left, 14 * unit, capitalised(side) + (read ? ": the decoder reads its output" : ""), "lnp-side")
  if (wide || !ofStream(drawn)) sheet.text(box + glyph * 0.3, base + 17 * unit, "input", "lnp-tick")
  const step = layerStep(row, unit)
  for (let layer = 1; layer <= depth; layer++) {
    drawLayer(sheet, place, shapes[side].layers[layer - 1], box, stream, layer)
    const lowest = layer === 1 && (step - 1) * row >= 14 * unit
    if (layer === depth || ((layer % step === 0 || lowest) && depth - layer >= step))
      sheet.text(box - 5, topOf(layer) + row / 2 + 4 * unit, String(layer), "lnp-tick", "end")
  }
  if (shapes[side].end) sheet.rect("normbar", stream - glyph * 0.13, topOf(depth + 1) + 13, glyph * 0.26, 5, 1.5)
}

const layerStep = (row, unit) => [1, 2, 4, 8, 16].find((n) => n * row >= 14 * unit) ?? 16

function drawLayer(sheet, { glyph, row, topOf }, subs, box, stream, layer) {
  const pad = row > 12 ? 2 : row > 5 ? 1 : 0.5
  const [y, height] = [topOf(layer) + pad, row - 2 * pad]
  sheet.rect("layerbox", box, y, glyph, height, row > 12 ? 6 : 2)
  if (subs.skip) sheet.line("wire", [stream, topOf(layer) + row], [stream, topOf(layer)])
  const parts = row >= 22 ? subs : [mergedSubs(subs)]
  const tall = height / parts.length
  parts.forEach((sub, i) => {
    const top = y + height - (i + 1) * tall
    const [low, high] = [top + tall * 0.66, top + tall * (sub.C ? 0.34 : 0.22)]
    const thick = Math.max(2, Math.min(5, glyph * 0.05))
    const [a, f, b] = [0.3, 0.42, 0.78].map((share) => box + glyph * share)
    const right = box + glyph * 0.93
    const bar = Math.max(2, tall * 0.5)
    const branch = [[stream, low], [right, low], [right, high], [stream, high]]
    if (!subs.skip) // all that flows goes through the sub-layer
      sheet.line("wire", [stream, top + tall + pad], ...branch, [stream, top - pad])
    else if (tall >= 12) sheet.line("branchwire", ...branch)
    else sheet.line("branchwire", [stream, low], [b, low])
    sheet.rect("sub", f, low - bar / 2, b - f - glyph * 0.03, bar, 2)
    if (sub.inside) sheet.rect("dot", (f + b) / 2 - thick / 2, low - bar / 4, thick, bar / 2)
    if (sub.A) sheet.rect("normbar", a, low - bar / 2, thick, bar, 1)
    if (sub.B) sheet.rect("normbar", b + glyph * 0.02, low - bar / 2, thick, bar, 1)
    const flat = Math.max(1.5, Math.min(thick, tall * 0.25))
    if (sub.C) sheet.rect("normbar", stream - glyph * 0.11, top + tall * 0.06, glyph * 0.22, flat, 1)
  })
}

function mergedSubs(subs) {
  const any = (slot) => subs.some((sub) => sub[slot])
  return { A: any("A"), B: any("B"), C: any("C"), inside: any("inside") }
}

// Bars -----------------------------------------------------------------------------------------------------------

function drawBars(sheet, place, { shown, before, others, state, style }) {
  const read = (one) => barsOf(one.result, { ...one.state, view: state.view, parameter: state.parameter })
  const bars = read(shown)
  const old = before ? read(before).filter((bar) => place.columns[bar.side]) : []
  const kept = others.map((one) => read(one).filter((bar) => place.columns[bar.side]))
  const lemma = state.view === "signal" && state.lemma2 ? lemmaOf([shown, ...others], place) : []
  const reach = [...reachOf(bars, [...old, ...kept.flat()], state.theory), ...lemma.flatMap(({ low, high }) => [low, high])]
  const { bars: start, end } = Object.values(place.columns)[0]
  const room = Math.max(3, (end - start) / (46 * place.unit))
  const scale = (state.view === "similarity" ? cosineScale : logScale)(reach, 0, end - start, room)
  for (const { bars: left } of Object.values(place.columns)) drawAxis(sheet, place, scale, left)
  const depthOf = (one) => one.state.depth
  const fits = (bar) => bar.row <= place.depth || depthOf(before) === place.depth // a final norm stands at its height
  for (const bar of old.filter(fits)) drawShadow(sheet, place, scale, bar)
  for (const part of lemma) drawLemma(sheet, place, scale, part)
  kept.forEach((list, i) => drawOther(sheet, place, scale, list, others[i], i, state))
  for (const bar of bars) drawBar(sheet, place, scale, bar, state, style)
  drawOdd(sheet, place, state, bars)
}

function drawAxis(sheet, { top, base, unit, heightOf, topOf, depth }, scale, left) {
  const high = Math.min(top, topOf(depth + 1))
  let free = -Infinity
  for (const { at, text } of scale.ticks) {
    sheet.line("grid", [left + at, Math.max(high, 24 * unit)], [left + at, base + heightOf(0) + 2])
    if (at < free) continue
    sheet.text(left + at, base + heightOf(0) + 16 * unit, text, "lnp-tick", "middle")
    free = at + 28 * unit
  }
}

// The strip of a bar: [x of the axis' start, top, height].
function strip({ columns, heightOf, topOf }, { side, row, lane, lanes }) {
  const whole = heightOf(row)
  const pad = whole > 12 ? 2 : whole > 5 ? 1 : 0.5
  const each = (whole - 2 * pad) / lanes
  return [columns[side].bars, topOf(row) + pad + lane * each, each]
}

function drawShadow(sheet, place, scale, bar) {
  if (bar.kind !== "number") return
  const [x, y, height] = strip(place, bar)
  const width = Math.max(1, scale.at(bar.mean))
  sheet.rect("shadow", x, y, width, height, 2)
  sheet.rect("shadowedge", x + width - 1.5, y, 2, height)
}

// The curve of another model through its layers; small strokes are its theory.
function drawOther(sheet, place, scale, bars, { state: { depth }, style, live }, i, { theory }) {
  const drawn = bars.filter((bar) => !bar.lane && bar.kind === "number" && bar.row <= Math.min(depth, place.depth))
  const step = Math.ceil(11 / place.row)
  for (const side of distinct(drawn.map((bar) => bar.side))) {
    const own = drawn.filter((bar) => bar.side === side).sort((a, b) => a.row - b.row)
    const points = own.map((bar) =>
      [strip(place, bar)[0] + scale.at(bar.mean), place.topOf(bar.row) + place.heightOf(bar.row) / 2])
    if (points.length > 1) sheet.line(`otherline${i}`, ...points)
    else if (points.length) sheet.line(`otherline${i}`, [points[0][0], points[0][1] - 8], [points[0][0], points[0][1] + 8])
    own.forEach((bar, at) => {
      const [x, y] = points[at]
      if ((bar.row - own[0].row) % step === 0) sheet.shape(`othermark${i}`, markerPath(style.marker, x, y, 3.6))
      const expected = theory && live && bar.theory !== null ? scale.at(bar.theory) : -1
      const reach = Math.min(6, place.heightOf(bar.row) * 0.4)
      const left = strip(place, bar)[0]
      if (expected >= 0 && left + expected <= place.columns[side].right)
        sheet.line(`othertheory${i}`, [left + expected, y - reach], [left + expected, y + reach])
    })
  }
}

// Lemma 2 on the first side: Pre-LN's stream between 1 + l/2 and 1 + 3l/2, Post-LN's sum before its norm at 3/2
function lemmaOf(models, place) {
  const keys = new Set(models.map(({ state }) => state.placement))
  const rows = Array.from({ length: place.depth }, (_, i) => i + 1)
  const pre = keys.has("pre") ? rows.map((row) => ({ row, low: 1 + row / 2, high: 1 + (3 * row) / 2 })) : []
  return [...pre, ...(keys.has("post") ? rows.map((row) => ({ row, low: 1.5, high: 1.5 })) : [])]
}

function drawLemma(sheet, place, scale, { row, low, high }) {
  const { bars } = Object.values(place.columns)[0]
  const width = Math.max(2.5, scale.at(high) - scale.at(low))
  sheet.rect("lemma", bars + scale.at(low), place.topOf(row), width, place.heightOf(row))
}

function drawBar(sheet, place, scale, bar, state, style) {
  if (bar.kind !== "number") return
  const [x, y, height] = strip(place, bar)
  const open = bar.lane > 0
  const middle = y + height / 2
  const thick = Math.max(1.2, height * (height > 8 ? 0.5 : 0.66))
  sheet.rect(open ? "baropen" : "bar", x, middle - thick / 2, Math.max(1, scale.at(bar.mean)), thick, 2)
  const radius = Math.min(4.4, height * 0.2)
  if (bar.values.length > 1) sheet.line("range", [x + scale.at(bar.low), middle], [x + scale.at(bar.high), middle])
  if (radius > 1.4 && bar.values.length > 1)
    for (const value of bar.values) sheet.shape("mark", markerPath(style.marker, x + scale.at(value), middle, radius))
  const theory = state.theory && bar.theory !== null ? scale.at(bar.theory) : -1
  if (theory >= 0 && theory <= place.columns[bar.side].end - x + 4) sheet.rect("theory", x + theory - 1, y, 2.2, height)
  if (height < 12.5 * place.unit) return
  const words = state.view === "similarity" ? fixedText(bar.mean) : columnText(bar.mean, place.wide ? 3 : 2)
  const lane = bar.lanes > 1 && place.wide && !ofStream(state) ? `${bar.block} ` : ""
  const name = place.wide ? "lnp-number" : "lnp-number lnp-narrow"
  sheet.text(place.columns[bar.side].right, middle + 4.2 * place.unit, lane + words, name, "end")
}

// What is no number is written once for each run of layers.
function drawOdd(sheet, place, state, bars) {
  for (const side of Object.keys(place.columns))
    for (const lane of distinct(bars.map((bar) => bar.lane))) {
      const own = bars.filter((bar) => bar.side === side && bar.lane === lane).sort((a, b) => a.row - b.row)
      own.forEach((bar, i) => {
        if (bar.kind === "number" || own[i - 1]?.kind === bar.kind) return
        let last = i
        while (own[last + 1]?.kind === bar.kind) last++
        writeOdd(sheet, place, state, bar, own[last])
      })
    }
}

function writeOdd(sheet, place, state, first, last) {
  const [x, low, height] = strip(place, first)
  const [, high] = strip(place, last)
  const block = first.lanes > 1 && place.wide && !ofStream(state) ? `${first.block}: ` : ""
  const words = block + KIND_WORDS[first.kind]
  if (place.row >= 20 || last.row === first.row) {
    for (let row = first.row; row <= last.row; row++) {
      const [, y, each] = strip(place, { ...first, row })
      sheet.text(x + 6, y + each / 2 + 4 * place.unit, words, "lnp-odd")
    }
    return
  }
  const long = `${words} in layers ${first.row} to ${last.row}`
  const fits = 6.7 * place.unit * long.length < place.columns[first.side].right - x
  sheet.text(x + 6, (low + height + high) / 2 + 4 * place.unit, fits ? long : words, "lnp-odd")
}

// The side and row under a point of the picture.
function rowAt({ columns, depth, topOf, heightOf }, x, y) {
  const side = Object.keys(columns).findLast((name) => x >= columns[name].left)
  for (let row = 0; row <= depth + 1; row++)
    if (side && y >= topOf(row) && y < topOf(row) + heightOf(row)) return { side, row }
  return null
}
