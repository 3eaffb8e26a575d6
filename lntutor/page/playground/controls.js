// Sliders, segmented buttons, switches, chips and the menu: plain elements, each with show(value).

// A long slider over a list of values with the number beside it, which can be typed over.
function sliderControl({ label, values, onChange }) {
  const most = values.length - 1
  const range = htmlNode("input", { type: "range", min: 0, max: most, step: 1, "aria-label": label })
  const limits = { min: values[0], max: values[most], step: "any" }
  const number = htmlNode("input", { type: "number", ...limits, "aria-label": `${label}, as a number` })
  const name = htmlNode("span", { "aria-hidden": "true" }, label)
  range.addEventListener("input", () => onChange(values[range.value]))
  number.addEventListener("change", () => number.value !== "" && onChange(Number(number.value)))
  number.addEventListener("blur", () => (number.value = range.getAttribute("aria-valuetext")))
  number.addEventListener("keydown", (event) => {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key]
    if (!step) return
    event.preventDefault()
    onChange(values[Math.min(most, Math.max(0, Number(range.value) + step))])
    number.value = range.getAttribute("aria-valuetext")
  })
  return {
    element: htmlNode("div", { class: "lnp-slider" }, name, range, number),
    show(value) {
      const text = String(value)
      if (range.getAttribute("aria-valuetext") === text) return
      range.value = values.indexOf(value)
      range.setAttribute("aria-valuetext", text)
      number.value = text
    },
  }
}

let groups = 0

function segmentControl({ label, values, words, onChange }) {
  const name = `lnp-group-${++groups}` // a name of its own: two playgrounds share a page
  const inputs = values.map((value) => htmlNode("input", { type: "radio", name, onchange: () => onChange(value) }))
  const labels = values.map((value, i) => {
    return htmlNode("label", {}, inputs[i], textNode(words(value)))
  })
  const row = htmlNode("div", {}, ...labels)
  return {
    element: htmlNode("fieldset", { class: "lnp-segments" }, htmlNode("legend", {}, label), row),
    show(value) {
      inputs.forEach((input, i) => (input.checked = values[i] === value))
    },
  }
}

function switchControl({ label, onChange }) {
  const input = htmlNode("input", { type: "checkbox", role: "switch", onchange: () => onChange(input.checked) })
  return {
    element: htmlNode("label", { class: "lnp-switch" }, input, textNode(label)),
    show(value) {
      input.checked = value
    },
  }
}

// The named placements: the usual ones and the reader's own in view, the others behind "more".
function chipRow(onChange) {
  const element = htmlNode("div", { class: "lnp-chips", role: "group", "aria-label": "Placement" })
  const more = htmlNode("button", { type: "button", class: "lnp-more", "aria-expanded": "false" }, "more")
  const chips = new Map()
  let open = false
  let last = null
  more.addEventListener("click", () => {
    open = !open
    more.setAttribute("aria-expanded", String(open))
    more.textContent = open ? "fewer" : "more"
    show(...last)
  })
  function show(state, theme, placements) {
    last = [state, theme, placements]
    if (placements !== element.placements) fill(placements)
    for (const [key, chip] of chips) {
      const pressed = key === state.placement
      const shown = open || pressed || USUAL.includes(key) || placements[key].own
      setAll(chip, { "aria-pressed": String(pressed), hidden: !shown })
      chip.style.setProperty("--chip", legible(placements[key].color, theme))
    }
  }
  function fill(placements) {
    element.placements = placements
    chips.clear()
    for (const [key, one] of Object.entries(placements)) {
      const press = () => onChange({ placement: key })
      const title = [one.formula, referenceOf(one)].filter(Boolean).join(" · ")
      const about = { type: "button", class: "lnp-chip", title, "data-key": key, onclick: press }
      chips.set(key, htmlNode("button", about, swatch(one), one.label))
    }
    const rest = [...chips.keys()].some((key) => !USUAL.includes(key) && !placements[key].own)
    const order = [...USUAL.filter((key) => chips.has(key)), ...[...chips.keys()].filter((key) => !USUAL.includes(key))]
    element.replaceChildren(...order.map((key) => chips.get(key)), ...(rest ? [more] : []))
  }
  return { element, show }
}

// Buttons behind one button; it closes after a choice, on Escape and on a click elsewhere.
function menuControl(label, items) {
  const list = htmlNode("div", { class: "lnp-menu-list" })
  const details = htmlNode("details", { class: "lnp-menu" }, htmlNode("summary", {}, label), list)
  const close = () => details.open && (details.open = false)
  const leave = () => [close(), details.firstChild.focus()]
  for (const [words, act] of items) list.append(buttonNode(words, () => [leave(), act()]))
  details.addEventListener("keydown", (event) => event.key === "Escape" && leave())
  const left = ({ relatedTarget }) => relatedTarget && !details.contains(relatedTarget) && close()
  details.addEventListener("focusout", left)
  const outside = ({ target }) => details.contains(target) || close()
  document.addEventListener("pointerdown", outside)
  return { element: details, destroy: () => document.removeEventListener("pointerdown", outside) }
}
