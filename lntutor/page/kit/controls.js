// Sliders, segmented buttons, switches and the menu: plain elements, each with show(value).

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
    element: htmlNode("div", { class: "lnk-slider" }, name, range, number),
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
