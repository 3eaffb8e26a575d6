// Sliders, segmented buttons, switches, chips, text and the menu: plain elements, each with show(value).

// A long slider over a list of values with the number beside it, which can be typed over; where the values have
// captions, the caption stands there. A number between two values is shown, and the thumb is near it.
function sliderControl({ label, values, captions = null, onChange }) {
  const most = values.length - 1
  const range = htmlNode("input", { type: "range", min: 0, max: most, step: 1, "aria-label": label })
  const limits = { min: values[0], max: values[most], step: "any" }
  const field = { type: "number", ...limits, "aria-label": `${label}, as a number` }
  const number = captions ? htmlNode("output") : htmlNode("input", field)
  const name = htmlNode("span", { "aria-hidden": "true" }, label)
  const longest = Math.max(...values.map((value) => String(value).length))
  if (longest > 5) number.style.width = `${Math.min(longest, 8) + 1.5}ch`
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
    element: htmlNode("div", { class: "lnk-slider" }, name, range, number),
    show(value) {
      const place = nearest(values, value)
      const text = captions ? captions[place] : String(value)
      if (range.getAttribute("aria-valuetext") === text) return
      range.value = place
      range.setAttribute("aria-valuetext", text)
      number.value = text
    },
  }
}

function nearest(values, value) {
  const away = values.map((one) => Math.abs(one - value))
  return away.indexOf(Math.min(...away))
}


function segmentControl({ label, values, words, onChange }) {
  const name = `lnk-${Math.random().toString(36).slice(2)}` // its own: a page has many modules like this one
  const inputs = values.map((value) => htmlNode("input", { type: "radio", name, onchange: () => onChange(value) }))
  const labels = values.map((value, i) => {
    return htmlNode("label", {}, inputs[i], textNode(words(value)))
  })
  const row = htmlNode("div", {}, ...labels)
  return {
    element: htmlNode("fieldset", { class: "lnk-segments" }, htmlNode("legend", {}, label), row),
    show(value) {
      inputs.forEach((input, i) => (input.checked = values[i] === value))
    },
  }
}

function switchControl({ label, onChange }) {
  const input = htmlNode("input", { type: "checkbox", role: "switch", onchange: () => onChange(input.checked) })
  return {
    element: htmlNode("label", { class: "lnk-switch" }, input, textNode(label)),
    show(value) {
      input.checked = value
    },
  }
}

function textControl({ label, onChange }) {
  const input = htmlNode("input", { type: "text", autocomplete: "off", spellcheck: "false" })
  input.addEventListener("input", () => onChange(input.value))
  return {
    element: htmlNode("label", { class: "lnk-text" }, htmlNode("span", {}, label), input),
    show(value) {
      if (input.value !== value) input.value = value
    },
  }
}

// Placements as chips in their colour and second cue: one click on or off; the rare ones behind "more".
function chipsControl({ label, chips, several, onChange }) {
  const element = htmlNode("div", { class: "lnk-chips", role: "group", "aria-label": label })
  const more = htmlNode("button", { type: "button", class: "lnk-more", "aria-expanded": "false" }, "more")
  let chosen = []
  let open = false
  const toggle = (key) => (chosen.includes(key) ? chosen.filter((one) => one !== key) : [...chosen, key])
  const nodes = chips.map((chip) => {
    const press = () => onChange(several ? toggle(chip.key) : [chip.key])
    const about = { type: "button", class: "lnk-chip", title: chip.title, "data-key": chip.key, onclick: press }
    return htmlNode("button", about, swatch(chip), chip.label)
  })
  const order = [...nodes.filter((_, i) => chips[i].usual), ...nodes.filter((_, i) => !chips[i].usual)]
  element.append(...order, ...(chips.every((chip) => chip.usual) ? [] : [more]))
  const look = (theme) =>
    nodes.forEach((node, i) => {
      const { key, color, usual } = chips[i]
      const pressed = chosen.includes(key)
      setAll(node, { "aria-pressed": String(pressed), hidden: !(open || pressed || usual) })
      node.style.setProperty("--chip", legible(color, theme))
    })
  more.addEventListener("click", () => {
    open = !open
    more.setAttribute("aria-expanded", String(open))
    more.textContent = open ? "fewer" : "more"
    look(themeOf())
  })
  return {
    element,
    show(keys, theme) {
      chosen = keys
      look(theme)
    },
  }
}

// Buttons behind one button; it closes after a choice, on Escape and on a click elsewhere.
function menuControl(label, items) {
  const list = htmlNode("div", { class: "lnk-menu-list" })
  const details = htmlNode("details", { class: "lnk-menu" }, htmlNode("summary", {}, label), list)
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
