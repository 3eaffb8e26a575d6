// The playground as one sees it: what is chosen, what is shown of it, and what was there before.

const PATIENCE_OF_EYE = 80 // ms after which a picture that waits for its numbers is dimmed
const GESTURE = 1200 // ms: moves of one slider closer than this are one change
const MOST_PINS = 4
const ONE_TOKEN = "The likeness of tokens needs two tokens or more: set Tokens to 2 or more"
const HINT = "Drag a norm to another slot, click a slot, or move a slider: every layer answers."

class PlaygroundView {
  constructor(root, { data, state, onState, onTable, link = null }) {
    Object.assign(this, { data, onState, onTable, link })
    this.placements = new Placements(data.placements, data.slots)
    this.state = this.placements.next(data.defaults, { placement: data.defaults.placement })
    Object.assign(this, { preview: null, shown: null, settled: null, before: null, pins: [], layer: 1, several: false })
    Object.assign(this, { request: 0, asked: "", edition: 0, lastSlots: "C" })
    this.model = this.textOf(this.state)
    this.build(root)
    this.watch()
    this.client = new Client(data)
    const onError = (sentence) => this.refuse(sentence)
    this.company = new Company(data, { onNews: () => this.companyCame(), onError })
    const problem = this.take(state ?? {})
    this.ask()
    if (problem) this.fail(problem)
    this.draw()
  }

  // What is there -------------------------------------------------------------------------------------------------

  build(root) {
    const change = (part) => this.change(part)
    this.finding = htmlNode("p", { class: "lnp-finding" })
    this.ago = htmlNode("p", { class: "lnp-ago" })
    this.voice = htmlNode("p", { class: "lnp-hidden", role: "status" })
    const press = (key) => change(this.placements.pressed(this.state, key, this.several))
    this.chips = chipRow({ onPress: press, onCompare: (on) => this.compare(on) })
    this.slots = slotDrawing({ onSlots: (slots) => change({ slots }), onPreview: (slots) => this.hover(slots) })
    this.diagram = htmlNode("div", { class: "lnp-diagrams", hidden: true })
    this.rule = htmlNode("p", { class: "lnp-rule" })
    this.name = htmlNode("p", { class: "lnp-name" })
    this.buildControls(change)
    this.picture = svgNode("svg", { class: "lnp-picture", role: "img" })
    this.curves = svgNode("svg", { class: "lnp-picture lnp-curves", role: "img", hidden: true })
    this.sheet = new Sheet(this.picture, NETWORK_LAYERS)
    this.sizeSheet = new Sheet(this.curves, SIZE_LAYERS)
    this.busy = htmlNode("span", { class: "lnp-busy", "aria-hidden": "true" })
    this.frame = htmlNode("div", { class: "lnp-frame-of-picture" }, this.picture, this.curves)
    this.readout = htmlNode("p", { class: "lnp-readout" })
    this.legend = htmlNode("div", { class: "lnp-legend" })
    this.error = htmlNode("p", { class: "lnp-error", role: "alert", hidden: true })
    const about = { class: "lnp-table", role: "region", "aria-label": "The numbers of the picture", tabindex: 0 }
    this.table = htmlNode("div", { ...about, hidden: true })
    const { depth, width, view } = this.controls
    const part = (name, ...children) => htmlNode("div", { class: `lnp-${name}` }, ...children)
    const card = (name, label, ...children) =>
      htmlNode("section", { class: `lnp-card lnp-${name}`, "aria-label": label }, ...children)
    const layer = [this.chips.element, this.slots.element, this.diagram, part("words", this.rule, this.name)]
    const sliders = part("sliders", depth.element, width.element)
    const above = part("bar-of-picture", view.element, this.busy)
    const head = part("head", this.finding, this.ago, this.voice)
    const left = card("layer", "The layer", ...layer)
    const right = card("network", "The network", sliders, above, this.frame, this.readout, this.legend, this.error)
    this.element = htmlNode("div", {}, part("body", head, left, right, this.foot, this.copied, this.table))
    const marks = { class: "lnp lnk", "data-lntutor": "playground" }
    setAll(this.element, marks)
    Object.defineProperty(this.element, "state", { get: () => ({ ...this.state }), set: (state) => this.set(state) })
    Object.defineProperty(this.element, "table", { get: () => this.rows() })
    root.append(this.element)
  }

  buildControls(change) {
    const one = (key) => (value) => change({ [key]: value })
    const segment = (key, label, words) => segmentControl({ label, values: ALLOWED[key], words, onChange: one(key) })
    this.controls = {
      depth: sliderControl({ label: "Depth", values: ALLOWED.depth, onChange: one("depth") }),
      width: sliderControl({ label: "Width", values: ALLOWED.width, onChange: one("width") }),
      seeds: sliderControl({ label: "Networks", values: ALLOWED.seeds, onChange: one("seeds") }),
      view: segment("view", "Picture", (view) => VIEWS[view]),
    }
    for (const [key, label, words] of FOLD) this.controls[key] = segment(key, label, words)
    for (const [key, label] of SWITCHES) this.controls[key] = switchControl({ label, onChange: one(key) })
    const inFold = [...FOLD, ...SWITCHES].map(([key]) => this.controls[key].element)
    const settings = htmlNode("div", { class: "lnp-settings" }, ...inFold, this.controls.seeds.element)
    const fold = htmlNode("details", { class: "lnp-fold" }, htmlNode("summary", {}, "More settings"), settings)
    this.menu = menuControl("Data", [
      ["Copy as Python", () => this.copy(pythonLine(this.state, this.data.defaults))],
      ...(this.link ? [["Copy link", () => this.copy(this.link(this.state))]] : []),
      ["Show or hide the table", () => this.toggleTable()],
      ["Save numbers (CSV)", () => this.shown && saveFile(csvOf(tableOf(this.shown)), "text/csv", "playground.csv")],
      ["Save picture (PNG)", () => this.save("png")],
      ["Save picture (SVG)", () => this.save("svg")],
    ])
    const title = "Keep this state in the picture while you change things"
    this.pinButton = buttonNode("Pin", () => this.pin(), { title })
    const reset = buttonNode("Reset", () => this.reset(), { title: "Back to the start" })
    const preset = (values) => () => this.change({ ...this.data.defaults, ...values, lecture: this.state.lecture })
    const named = Object.entries(this.data.presets).map(([name, values]) => [name, preset(values)])
    this.presets = menuControl("Presets", named)
    const buttons = htmlNode("div", { class: "lnp-buttons" }, this.presets.element, this.pinButton, reset, this.menu.element)
    this.foot = htmlNode("div", { class: "lnp-foot" }, fold, buttons)
    this.copyText = htmlNode("input", { type: "text", readonly: true, "aria-label": "Copied text" })
    this.copied = htmlNode("p", { class: "lnp-copied", hidden: true }, htmlNode("span", {}, "Copied:"), this.copyText)
  }

  watch() {
    this.ends = new AbortController()
    const { signal } = this.ends
    keepKeys()
    const redraw = () => this.invalidate()
    this.stopTheme = onTheme(redraw)
    this.sizes = new ResizeObserver(redraw)
    this.sizes.observe(this.frame)
    this.frame.addEventListener("pointermove", (event) => this.point(event), { signal })
    this.frame.addEventListener("pointerdown", (event) => this.point(event, true), { signal })
    this.frame.addEventListener("pointerleave", () => this.point(null), { signal })
  }

  // Changes -------------------------------------------------------------------------------------------------------

  // Take a change over into the state; what was settled until now is "before". Returns why it cannot be, or "".
  take(change) {
    const problem = this.placements.problem(change)
    if (problem) return problem
    const next = this.placements.next(this.state, change)
    const key = Object.keys(change).length === 1 ? Object.keys(change)[0] : ""
    const now = performance.now()
    const same = key && key === this.gesture?.key && now - this.gesture.time < GESTURE && ALLOWED[key]
    const model = this.textOf(next)
    if (model !== this.model) {
      if (!same) this.before = this.settled
      this.gesture = { key, time: now }
    }
    Object.assign(this, { state: next, model })
    if (next.slots !== null) this.lastSlots = next.slots
    if ("compare" in change && next.compare.length) this.several = true
    return ""
  }

  // Let chips be pressed one by one beside each other, or leave the chosen one alone again.
  compare(on) {
    this.several = on
    this.change({ compare: [] })
  }

  change(change) {
    this.preview = null
    const problem = this.take(change)
    this.problem = problem
    if (!problem) {
      if (this.shown?.text === this.model) this.settled = this.shown
      this.ask()
      this.onState?.({ ...this.state })
    }
    if (problem) this.fail(problem)
    this.invalidate()
  }

  set(state) {
    this.change(state)
  }

  // While a norm is over a slot, the network answers as if it were dropped there.
  hover(slots) {
    this.preview = slots
    this.problem = ""
    this.ask()
    this.invalidate()
  }

  // Equal texts mean equal results; a rule that was written anew is another model.
  textOf(state) {
    return JSON.stringify([this.edition, state.placement, state.slots, ...MODEL_KEYS.map((key) => state[key])])
  }

  get wanted() {
    return this.preview === null ? this.state : this.placements.next(this.state, { slots: this.preview })
  }

  // Results -------------------------------------------------------------------------------------------------------

  ask() {
    const state = this.wanted
    const text = this.textOf(state)
    const along = alongOf(state)
    const asked = JSON.stringify([text, along])
    clearTimeout(this.waiting)
    this.waiting = setTimeout(() => this.dim("computing…"), PATIENCE_OF_EYE)
    if (asked !== this.asked) this.askOne(state, text, along, asked)
    this.company.ask(this.placements.beside(state).map((one) => this.member(one, along)))
    this.fresh()
  }

  askOne(state, text, along, asked) {
    this.asked = asked
    const request = ++this.request
    const graph = this.placements.graphOf(state)
    if (!graph) return this.refuse(this.data.placements[state.placement].error)
    if (state.view === "similarity" && state.tokens === 1) return this.refuse(ONE_TOKEN)
    if (!along && this.shown?.text === text && this.shown.result.done) return
    const current = (act) => (given) => request === this.request && act(given)
    this.client.request(configOf(state, graph, along), {
      onResult: current((result) => this.receive({ state, text, graph, along }, result)),
      onError: current((sentence) => this.refuse(sentence)),
    })
  }

  member(state, along) {
    const graph = this.placements.graphOf(state)
    const style = this.placements.styleOf(state)
    return { state, text: this.textOf(state), graph, style, config: configOf(state, graph, along) }
  }

  receive({ state, text, graph, along }, result) {
    if (this.bySize && along && !everySizeIn(result)) return // one curve gives way to another at once
    this.shown = { state, text, result, shapes: shapesOf(graph, state) }
    this.fresh()
    if (text === this.model) this.settled = this.shown
    this.tellTable()
    if (result.seeds === 1) this.draw() // at once: a hand waits
    else this.invalidate()
  }

  // A placement beside the chosen one has been measured.
  companyCame() {
    this.fresh()
    this.tellTable()
    this.invalidate()
  }

  tellTable() {
    const rows = this.settled?.result.done && this.company.done ? this.rows() : []
    if (rows.length) this.onTable?.(rows)
  }

  refuse(sentence) {
    this.fail(sentence || "This placement cannot be computed in the page")
    this.asked = ""
    this.invalidate()
  }

  // The last good picture stays, and says that it is not the one that was asked for.
  fail(sentence) {
    this.problem = sentence
    clearTimeout(this.waiting)
    this.dim(this.shown ? "the last good picture" : "")
  }

  dim(words) {
    this.busy.textContent = words
    this.element.dataset.stale = "true"
  }

  // Whether something in view is still of another state.
  get isBehind() {
    const { wanted, shown } = this
    const sizes = alongOf(wanted)
    const sized = !sizes || (this.bySize && everySizeIn(shown.result))
    return shown?.text !== this.textOf(wanted) || !sized || this.company.behind
  }

  fresh() {
    if (this.isBehind && !this.problem) return
    clearTimeout(this.waiting)
    if (this.problem) return this.dim("the last good picture")
    this.busy.textContent = ""
    delete this.element.dataset.stale
  }

  // The bars of the picture as it is now.
  get bars() {
    return this.shown ? barsOf(this.shown.result, { ...this.shown.state, ...pictureKeys(this.state) }) : []
  }

  // Whether the picture is that of the last layer by depth or by width.
  get bySize() {
    return this.shown?.result.config.along?.key === this.state.view && this.shown.result.lastLayer.length > 0
  }

  // The numbers of the state as it is; none while they are being computed.
  rows() {
    if (this.settled?.text !== this.model || this.company.behind) return []
    return [this.settled, ...this.company.shown].flatMap(tableOf)
  }

  // Drawing -------------------------------------------------------------------------------------------------------

  invalidate() {
    this.frameAsked ??= requestAnimationFrame(() => this.draw())
  }

  draw() {
    cancelAnimationFrame(this.frameAsked)
    this.frameAsked = null
    const theme = themeOf()
    const { wanted } = this
    setAll(this.element, { "data-theme": theme, "data-lecture": this.state.lecture && "true" })
    this.chips.show(wanted, theme, this.placements.all, this.several)
    this.presets.element.firstChild.textContent = this.presetInForce ? `Preset: ${this.presetInForce}` : "Presets"
    for (const [key, control] of Object.entries(this.controls)) control.show(this.state[key])
    this.drawLayer(wanted)
    this.drawPicture(theme)
    this.drawWords()
  }

  drawLayer(state) {
    const named = this.data.placements[state.placement]
    const norm = state.norm === "rms" ? "RMS norm" : "layer norm"
    setAll(this.slots.element, { hidden: state.slots === null })
    setAll(this.diagram, { hidden: state.slots !== null })
    if (state.slots !== null) this.slots.show(state.slots, norm)
    else this.drawDiagram(state, norm, named)
    writeMaths(this.rule, state.slots === null ? named.formula : ruleOf(state.slots))
    const reference = named ? referenceOf(named) : ""
    writeText(this.name, named ? [named.label, reference].filter(Boolean).join(", ") : "a placement without a name yet")
  }

  drawDiagram(state, norm, { graph }) {
    const layer = Math.min(this.layer, state.depth)
    const text = JSON.stringify([state.placement, state.depth, state.stack, layer, norm])
    if (this.diagram.text === text && this.diagram.graph === graph) return
    Object.assign(this.diagram, { text, graph })
    const back = buttonNode("Back to the slots", () => this.change({ slots: this.lastSlots }))
    if (!graph) return this.diagram.replaceChildren(htmlNode("p", {}, back))
    const side = sidesOf(state)[0]
    const programs = programsOf(graph, state.stack, side, state.depth)
    const svg = blockDiagram(programs, layer, blocksOf(state.stack, side), norm)
    const varies = new Set(programs.layers.map(({ program }) => JSON.stringify(program.steps))).size > 1
    const step = (by) => () => this.chooseLayer(Math.min(state.depth, Math.max(1, layer + by)))
    const below = buttonNode("‹", step(-1), { "aria-label": "The layer below" })
    const above = buttonNode("›", step(1), { "aria-label": "The layer above" })
    const chooser = varies ? [below, htmlNode("span", {}, `layer ${layer} of ${state.depth}`), above] : []
    const held = this.diagram.contains(document.activeElement) && document.activeElement.getAttribute("aria-label")
    this.diagram.replaceChildren(svg, htmlNode("p", {}, ...chooser, back))
    if (held) this.diagram.querySelector(`[aria-label="${held}"]`)?.focus()
  }

  drawPicture(theme) {
    const shown = this.shown ?? { state: this.state, result: null, shapes: this.skeleton() }
    const { bySize } = this
    const width = Math.max(220, this.frame.clientWidth)
    const unit = (parseFloat(getComputedStyle(this.element).fontSize) || 15) / 15 // there is none outside the document
    const height = Math.round(Math.min(520, Math.max(width < 520 ? 310 : 340, width * 0.48)) * Math.sqrt(unit))
    const style = this.placements.styleOf(shown.state)
    const series = legible(style.color, theme)
    this.element.style.setProperty("--series", series)
    this.element.style.setProperty("--strong", mixed(series, theme === "dark" ? "#ffffff" : "#000000", 0.45))
    setAll(this.picture, { hidden: bySize })
    setAll(this.curves, { hidden: !bySize })
    const { shadow: before, others, state } = this
    const given = { shown, before, others, state, width, height, unit, style, theme }
    if (bySize) sizePicture(this.sizeSheet, given)
    else this.place = networkPicture(this.sheet, given)
  }

  // The curves of other models: the placements beside the chosen one, and what is pinned
  get others() {
    return [...this.company.shown, ...this.pins]
  }

  get presetInForce() {
    const { lecture, slots, ...state } = this.state
    const isOf = (values) => Object.entries(state).every(([key, value]) => sameValue(value, values[key]))
    return Object.entries(this.data.presets).find(([, values]) => isOf({ ...this.data.defaults, ...values }))?.[0] ?? ""
  }

  // What was there before; nothing where that is the same model, or where others stand beside it.
  get shadow() {
    if (this.company.shown.length) return null
    const old = this.preview === null ? this.before : this.settled
    return old && old.text !== this.shown?.text ? old : null
  }

  skeleton() {
    return shapesOf(this.placements.graphOf(this.state) ?? this.placements.slotGraphs[""], this.state)
  }

  drawWords() {
    const { shown } = this
    setAll(this.error, { hidden: !this.problem })
    const rest = shown ? " The last good picture stays." : ""
    if (this.problem) writeText(this.error, `${this.problem.replace(/\.$/, "")}.${rest}`)
    const name = placementName(this.wanted, this.data.placements)
    const sentences = shown ? findingText(shown, this.shadow, this.company.shown, this.state, this.data.placements)
      : [`${name}: ${this.problem ? "no numbers" : "computing…"}`, ""]
    writeText(this.finding, sentences[0])
    writeText(this.ago, sentences[1] || HINT)
    const finding = sentences.join(" ")
    if (!this.pointed) writeText(this.readout, this.caption())
    for (const svg of [this.picture, this.curves]) svg.setAttribute("aria-label", `${finding} ${this.caption()}`)
    this.drawLegend()
    if (!this.table.hidden && shown) this.fillTable()
    clearTimeout(this.speaking)
    this.speaking = setTimeout(() => writeText(this.voice, finding), 700)
  }

  caption() {
    const { view, parameter } = this.state
    const all = this.shown?.state.seeds ?? 1
    const seeds = this.shown?.result.seeds ?? 1
    const what = { signal: "size of the stream, ‖x‖²/d", similarity: "mean cosine between two tokens of a sentence" }[view]
      ?? `size of the gradient, ‖∂L/∂${parameter}‖`
    const draft = `, a draft: ${seeds} of ${all} networks`
    const mean = seeds < all ? draft : seeds > 1 ? `, mean of ${seeds} networks` : ""
    if (this.bySize) return `Last layer, ${what}${mean}; both axes logarithmic`
    return `Bars: ${what}${mean}${view === "similarity" ? "" : "; logarithmic"}`
  }

  drawLegend() {
    const { shown, shadow, state } = this
    const items = []
    const drawn = ({ result }) => !this.bySize || result.config.along?.key === state.view
    const add = (key, words, ...more) => items.push([key, words, ...more])
    if (shown) add("bar", placementName(shown.state, this.data.placements))
    const lanes = distinct(this.bars.filter((bar) => bar.lane).map((bar) => bar.block))
    if (lanes.length) add("open", lanes.map((block) => BLOCK_WORDS[block] ?? "sum before the last norm").join(", "))
    if (shadow && drawn(shadow)) add("old", `before: ${differenceText(shadow.state, shown.state, this.data.placements)}`)
    const note = shown?.result.done && shown.result.theoryNote
    if (state.theory) add("theory", note ? `no theory: ${note}` : "theory")
    if (shown?.result.seeds > 1) add("range", `${shown.result.seeds} networks`)
    if (state.view === "signal" && state.lemma2) add("lemma", `Lemma 2${this.inTheorem ? "" : ", which is about another setting (Presets: lemma 2)"}`)
    const pinned = (pin) => `pinned: ${pin.words}${drawn(pin) ? "" : " (in the other pictures)"}`
    const { company: { shown: beside } } = this
    beside.forEach((one, i) => add(`other${i}`, placementName(one.state, this.data.placements), () => this.leave(one)))
    this.pins.forEach((pin, i) => add(`other${beside.length + i}`, pinned(pin), () => this.unpin(pin)))
    const text = JSON.stringify([items, themeOf()])
    if (this.legend.text === text) return
    this.legend.text = text
    this.legend.replaceChildren(...items.map(([key, words, remove]) => this.legendItem(key, words, remove)))
  }

  legendItem(key, words, remove) {
    const style = this.others[key.slice(5)]?.style ?? this.placements.styleOf(this.shown?.state ?? this.state)
    const sample = remove || key === "range" ? swatch(style) : htmlNode("i", { class: `lnp-key-${key}` })
    if (remove) sample.style.setProperty("--chip", legible(style.color, themeOf()))
    const button = remove ? [buttonNode("×", remove, { "aria-label": `Remove ${words}` })] : []
    return htmlNode("span", { class: "lnp-item" }, sample, textNode(words), ...button)
  }

  // Whether the setting is the theorem's, whatever the width and the number of tokens
  get inTheorem() {
    const { width, ...theorem } = this.data.presets.theorem
    const is = (key) => this.state[key] === { ...this.data.defaults, ...theorem }[key]
    return ["stack", "heads", "attention", "init", "ffn", "output_projection", "norm"].every(is)
  }

  // The numbers of the row under the pointer; a press also chooses the layer of the block diagram.
  point(event, press = false) {
    const found = event && this.place && !this.picture.hasAttribute("hidden") && this.rowUnder(event)
    const bars = found ? this.bars.filter((bar) => bar.side === found.side && bar.row === found.row) : []
    this.pointed = bars.length > 0
    writeText(this.readout, this.pointed ? rowText(bars, this.state, this.shown.state.depth) : this.caption())
    const inside = this.pointed && found.row >= 1 && found.row <= this.shown.state.depth
    if (press && inside && this.state.slots === null) this.chooseLayer(found.row)
  }

  // The layer whose boxes are drawn.
  chooseLayer(layer) {
    this.layer = layer
    this.invalidate()
  }

  rowUnder({ clientX, clientY }) {
    const box = this.picture.getBoundingClientRect()
    return rowAt(this.place, clientX - box.left, clientY - box.top)
  }

  // Buttons -------------------------------------------------------------------------------------------------------

  pin() {
    if (!this.settled) return
    const { state, text, result } = this.settled
    const changed = MODEL_KEYS.filter((key) => state[key] !== this.data.defaults[key])
    const settings = changed.map((key) => settingText(key, state[key]))
    const words = [placementName(state, this.data.placements), ...settings].join(", ")
    const kept = this.pins.filter((pin) => pin.text !== text)
    this.pins = [...kept, { state, text, result, words, style: this.placements.styleOf(state) }].slice(-MOST_PINS)
    this.invalidate()
  }

  leave({ state: { placement } }) {
    this.change({ compare: this.state.compare.filter((key) => key !== placement) })
    this.chips.element.querySelector("[data-first]")?.focus()
  }

  unpin(pin) {
    this.pins = this.pins.filter((one) => one !== pin)
    this.pinButton.focus()
    this.invalidate()
  }

  reset() {
    Object.assign(this, { pins: [], layer: 1, several: false })
    setAll(this.copied, { hidden: true })
    this.change({ ...this.data.defaults })
    this.before = null
  }

  copy(text) {
    setAll(this.copied, { hidden: false })
    this.copyText.value = text
    this.copyText.focus()
    this.copyText.select()
    const stay = () => {} // the text stands in the page, selected
    if (navigator.clipboard) navigator.clipboard.writeText(text).catch(stay)
    else document.execCommand("copy")
  }

  toggleTable() {
    setAll(this.table, { hidden: !this.table.hidden })
    this.invalidate()
  }

  fillTable() {
    const { text: model, result } = this.shown
    const company = this.company.shown
    const { view, parameter } = this.state
    const known = [model, result.seeds, result.done, this.bySize, view, parameter]
    const text = [...known, ...company.map((one) => [one.text, one.result.seeds])].join()
    if (this.table.text === text) return
    this.table.text = text
    const rowsOfOne = ({ state, result }) => this.bySize ? sizeRows(result, this.state)
      : barRows(barsOf(result, { ...state, ...pictureKeys(this.state) }), this.state)
    const named = [this.shown, ...company].map((one) => [placementName(one.state, this.data.placements), rowsOfOne(one)])
    this.table.replaceChildren(tableNode(company.length ? namedRows(named) : named[0][1], this.state))
  }

  async save(kind) {
    const look = getComputedStyle(this.element)
    const colours = { card: GROUNDS[themeOf()], ink: look.color }
    const drawing = this.state.slots === null ? this.diagram.querySelector("svg") : this.slots.element
    const picture = this.picture.hasAttribute("hidden") ? this.curves : this.picture
    const legend = [...this.legend.children].map((item) => item.innerText.replace("×", "").trim()).join(" · ")
    const notes = [`${this.rule.innerText} (${this.name.innerText})`, `${this.caption()}. ${legend}`]
    const title = `${this.finding.dataset.text} ${this.ago.dataset.text}`
    const saved = savedPicture({ drawing, picture, title, notes, colours, family: look.fontFamily })
    if (kind === "svg") saveFile(saved.text, "image/svg+xml", "playground.svg")
    else saveFile(await asPng(saved), "image/png", "playground.png")
  }

  setPlacements(all) {
    const known = this.data.placements
    this.data = { ...this.data, placements: all }
    const compare = this.state.compare.filter((key) => all[key]?.graph)
    this.placements = new Placements(all, this.data.slots)
    const { placement, slots } = this.state
    if (JSON.stringify(all[placement]?.graph) !== JSON.stringify(known[placement]?.graph)) this.edition++
    if (placement) this.change({ compare, placement: all[placement] ? placement : this.data.defaults.placement })
    else this.change({ compare, slots })
  }

  destroy() {
    this.ends.abort()
    this.stopTheme()
    this.sizes.disconnect()
    this.menu.destroy()
    this.presets.destroy()
    for (const timer of [this.waiting, this.speaking]) clearTimeout(timer)
    cancelAnimationFrame(this.frameAsked)
    this.client.close()
    this.company.close()
    this.element.remove()
  }
}

// What the engine is asked for.
function configOf(state, graph, along) {
  const config = { graph, theory: true, along }
  for (const key of MODEL_KEYS) config[key] = state[key]
  return config
}

// The norms of every layer of every side, for the drawing of the network.
function shapesOf(graph, { stack, depth }) {
  const known = new Map()
  const shape = (layer, count) => {
    const key = layer.program
    if (!known.has(key)) known.set(key, normsOf(layer, count))
    return known.get(key)
  }
  return Object.fromEntries(stack.split("-").map((side) => {
    const { layers, finish } = programsOf(graph, stack, side, depth)
    const count = blocksOf(stack, side).length
    return [side, { layers: layers.map((layer) => shape(layer, count)), end: hasNorm(finish) }]
  }))
}

function mountPlayground(root, options) {
  const view = new PlaygroundView(root, options)
  const { element } = view
  return {
    element,
    set: (state) => view.set(state),
    get state() {
      return element.state
    },
    get table() {
      return element.table
    },
    setPlacements: (placements) => view.setPlacements(placements),
    destroy: () => view.destroy(),
  }
}
