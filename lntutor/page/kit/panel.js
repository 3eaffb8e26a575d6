// The view of lntutor.page.kit.panel.Panel: its parts, and whether the picture beside it is up to date.

const PATIENCE_OF_EYE = 80 // ms after a move in which nothing is said: most pictures are there by then
const LONG = 3000 // ms after which it is said that the answer is still to come

const makers = {
  slider: ({ description, values, captions, between, allowed }, send, refuse) => {
    const inRange = (value) => values.includes(value) || (between && value >= values[0] && value <= values.at(-1))
    const onChange = (value) => (inRange(value) ? send(value) : refuse(`${description} must be ${allowed}, got ${value}`))
    return sliderControl({ label: description, values, captions: captions.length ? captions : null, onChange })
  },
  segments: ({ description, captions }, send) => {
    const values = captions.map((_, i) => i)
    return segmentControl({ label: description, values, words: (i) => captions[i], onChange: send })
  },
  switch: ({ description }, send) => switchControl({ label: description, onChange: send }),
  text: ({ description }, send) => textControl({ label: description, onChange: send }),
  chips: ({ description, chips, several }, send) => chipsControl({ label: description, chips, several, onChange: send }),
  layers: ({ description, ...network }, send) => layersControl({ label: description, ...network, onChange: send }),
  button: ({ description, primary }, send) => {
    const element = buttonNode(description, () => send(null), { class: primary ? "lnk-primary" : null })
    return { element, show: () => {} }
  },
  menu: ({ description, items }, send) => {
    return { ...menuControl(description, items.map((item) => [item, () => send(item)])), show: () => {} }
  },
  options: ({ description, captions }, send) => optionsControl({ label: description, captions, onChange: send }),
  hands: ({ description, captions }, send) => handsControl({ label: description, captions, onChange: send }),
  guess: ({ description, values, unit, allowed }, send, refuse) => {
    const inRange = (value) => value >= values[0] && value <= values.at(-1)
    const onChange = (value) => (inRange(value) ? send(value) : refuse(`${description} must be ${allowed}, got ${value}`))
    return guessControl({ label: description, values, unit, onChange })
  },
  curve: ({ description, ...plot }, send) => curveControl({ label: description, ...plot, onChange: send }),
  submit: ({ description, primary }, send) => submitControl({ description, primary, onPress: () => send(null) }),
  words: () => wordsControl(),
  handle: ({ description, ...place }, send) => handleControl({ label: description, ...place, onChange: send }),
  progress: ({ description }) => {
    const element = htmlNode("progress", { max: 1, "aria-label": description })
    return { element, show: (value) => (element.value = value) }
  },
}
const WITH_VALUE = new Set(["slider", "segments", "switch", "text", "chips", "options", "hands", "guess", "curve", "layers"])
const equal = (a, b) => JSON.stringify(a) === JSON.stringify(b)

function render({ model, el, signal }) {
  const parts = new Map() // name → { control, look }
  const wrong = htmlNode("p", { class: "lnk-wrong", role: "alert", hidden: true })
  const fold = htmlNode("details", { class: "lnk-fold" }, htmlNode("summary", {}, "More settings"))
  const copied = htmlNode("input", { type: "text", readonly: true, "aria-label": "Copied text" })
  const copy = htmlNode("p", { class: "lnk-copied", hidden: true }, htmlNode("span", {}, "Copied:"), copied)
  const rest = fold.appendChild(htmlNode("div", { class: "lnk-rest" }))
  el.classList.add("lnk-panel")

  const refuse = (sentence) => {
    setAll(wrong, { hidden: !sentence })
    wrong.textContent = sentence
  }
  const moveAll = (changes) => {
    refuse("")
    model.set("values", { ...model.get("values"), ...changes })
    model.save_changes()
    show()
  }
  const move = (name) => (value) => moveAll({ [name]: value })
  const press = (name) => (item) => model.send({ press: name, item })

  function build() {
    const looks = Object.entries(model.get("looks"))
    const held = el.contains(document.activeElement) && document.activeElement.closest("[data-part]")?.dataset.part
    const first = []
    const more = []
    for (const [name, look] of looks) {
      const { disabled, hidden, ...shape } = look
      const known = parts.get(name)
      const same = known && equal(known.shape, shape)
      const send = look.kind === "handle" ? moveAll : WITH_VALUE.has(look.kind) ? move(name) : press(name)
      if (known && !same) known.control.destroy?.()
      const control = same ? known.control : makers[look.kind](shape, send, refuse)
      if (!same) setAll(control.element, { "data-part": name, title: look.tooltip || null })
      parts.set(name, { control, shape })
      if (look.kind === "handle") continue // it stands on the plot
      setAll(control.element, { hidden })
      enable(control.element, !disabled)
      ;(model.get("folded").includes(name) ? more : first).push(control.element)
    }
    arrange(el, [...first, ...(more.length ? [fold] : []), wrong, copy])
    arrange(rest, more)
    show()
    meet()
    if (held) keepFocus(held)
  }

  // After a button: what it asks for next, the answer that it has uncovered, or what has come in its place.
  function keepFocus(held) {
    const { control, shape } = parts.get(held) ?? {}
    if (control && isThere(control.element)) {
      const asked = shape.needs && parts.get(shape.needs).control
      if (asked?.missing(model.get("values")[shape.needs])) focusPart(asked.element)
      else if (!el.contains(document.activeElement)) focusPart(control.element)
      return
    }
    const there = [...parts.values()].filter(({ control }) => isThere(control.element))
    const next = there.find(({ shape }) => WITH_VALUE.has(shape.kind))
    const answer = el.closest(".lntutor-ask")?.querySelector(".lntutor-answer")
    if (!next && answer) setAll(answer, { tabindex: -1, role: "region", "aria-label": "Answer" }).focus({ preventScroll: true })
    else focusPart((next ?? there.find(({ shape }) => shape.kind !== "words"))?.control.element)
  }

  // What is shown, and whether the picture is that of what is shown.
  function show() {
    const values = model.get("values")
    const [theme, looks] = [themeOf(), model.get("looks")]
    for (const [name, { control }] of parts) control.show(values[name], theme, values, looks)
    for (const { control, shape } of parts.values()) {
      const asked = shape.needs && parts.get(shape.needs).control
      if (asked) control.lack(asked.missing(values[shape.needs]), () => focusPart(asked.element))
    }
    const text = model.get("copied")
    setAll(copy, { hidden: !text })
    if (copied.value !== text) {
      copied.value = text
      if (text) copied.focus({ preventScroll: true }), copied.select()
    }
    judge()
  }

  // When the hand first asked for something that is not drawn yet. What is a moment late is not worth a word.
  let asked = [] // { values, time } of every move since the one that is drawn
  let timers = []
  function judge() {
    const view = el.closest(".lntutor-explorer")?.querySelector(".lntutor-view")
    if (!view) return
    const [drawn, values] = [model.get("drawn"), model.get("values")]
    const isDrawn = (some) => Object.keys(drawn).every((name) => equal(drawn[name], some[name]))
    timers.forEach(clearTimeout)
    if (isDrawn(values)) asked = []
    else if (asked.at(-1)?.values !== values) asked.push({ values, time: performance.now() })
    asked = asked.slice(asked.findLastIndex((move) => isDrawn(move.values)) + 1)
    const since = asked[0]?.time
    const waited = performance.now() - since
    mark(view, waited >= LONG ? "still computing …" : waited >= PATIENCE_OF_EYE ? "updating …" : "")
    const due = asked.length ? [PATIENCE_OF_EYE, LONG].filter((wait) => wait > waited) : []
    timers = due.map((wait) => setTimeout(judge, wait - waited + 1))
  }

  function mark(view, words) {
    setAll(view, { "data-stale": words !== "" || model.get("failed"), "data-note": words || model.get("draft") || null })
  }

  // Handles stand on the plot, which says whenever it has been drawn.
  let home = null
  function meet() {
    const plot = home?.querySelector(".lntutor-view .js-plotly-plot")
    if (plot?._fullLayout) for (const { control } of parts.values()) control.meet?.(plot)
  }
  function arrive() {
    judge()
    const now = el.closest(".lntutor-explorer")
    if (!now || now === home) return
    home = now
    home.addEventListener("lntutor-drawn", meet, { signal })
    meet()
  }

  const arrival = new ResizeObserver(arrive) // the boxes around stand in the page only once this has been put there
  arrival.observe(el)
  const stopTheme = onTheme(show)
  keepKeys()
  build()
  model.on("change:looks", build)
  for (const name of ["values", "drawn", "draft", "failed", "copied"]) model.on(`change:${name}`, show)
  signal.addEventListener("abort", () => {
    timers.forEach(clearTimeout)
    arrival.disconnect()
    stopTheme()
    for (const { control } of parts.values()) control.destroy?.()
  })
}

// The children of a box, without moving those that stand where they should: a moved element loses the focus.
function arrange(box, nodes) {
  if (nodes.length === box.childNodes.length && nodes.every((node, i) => node === box.childNodes[i])) return
  box.replaceChildren(...nodes)
}

function enable(element, on) {
  for (const one of [element, ...element.querySelectorAll("button, input, summary")]) {
    if ("disabled" in one) one.disabled = !on
  }
}

const focusPart = (element) =>
  (element?.matches("button") ? element : element?.querySelector("input, button, summary, [tabindex]"))?.focus()

const isThere = (element) => !element.hidden && !element.disabled

export default { render }
