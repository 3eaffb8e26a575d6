// The named placements as chips.

// The usual placements and the reader's own in view, the others behind "more". With "Compare", several are on.
function chipRow({ onPress, onCompare }) {
  const element = htmlNode("div", { class: "lnk-chips", role: "group", "aria-label": "Placement" })
  const more = htmlNode("button", { type: "button", class: "lnk-more", "aria-expanded": "false" }, "more")
  const compare = switchControl({ label: "Compare", onChange: onCompare })
  setAll(compare.element, { title: "Draw several placements at once" })
  const chips = new Map()
  let open = false
  let last = null
  more.addEventListener("click", () => {
    open = !open
    more.setAttribute("aria-expanded", String(open))
    more.textContent = open ? "fewer" : "more"
    show(...last)
  })
  function show(state, theme, placements, several) {
    last = [state, theme, placements, several]
    if (placements !== element.placements) fill(placements)
    compare.show(several)
    for (const [key, chip] of chips) {
      const chosen = key === state.placement
      const pressed = chosen || (several && state.compare.includes(key))
      const shown = open || pressed || USUAL.includes(key) || placements[key].own
      setAll(chip, { "aria-pressed": String(pressed), "data-first": several && chosen, hidden: !shown })
      chip.style.setProperty("--chip", legible(placements[key].color, theme))
    }
  }
  function fill(placements) {
    element.placements = placements
    chips.clear()
    for (const [key, one] of Object.entries(placements)) {
      const press = () => onPress(key)
      const title = [one.formula, referenceOf(one)].filter(Boolean).join(" · ")
      const about = { type: "button", class: "lnk-chip", title, "data-key": key, onclick: press }
      chips.set(key, htmlNode("button", about, swatch(one), one.label))
    }
    const rest = [...chips.keys()].some((key) => !USUAL.includes(key) && !placements[key].own)
    const order = [...USUAL.filter((key) => chips.has(key)), ...[...chips.keys()].filter((key) => !USUAL.includes(key))]
    element.replaceChildren(...order.map((key) => chips.get(key)), ...(rest ? [more] : []), compare.element)
  }
  return { element, show }
}
