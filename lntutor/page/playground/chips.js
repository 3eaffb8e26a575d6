// The named placements as chips.

// The named placements: the usual ones and the reader's own in view, the others behind "more".
function chipRow(onChange) {
  const element = htmlNode("div", { class: "lnk-chips", role: "group", "aria-label": "Placement" })
  const more = htmlNode("button", { type: "button", class: "lnk-more", "aria-expanded": "false" }, "more")
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
      const about = { type: "button", class: "lnk-chip", title, "data-key": key, onclick: press }
      chips.set(key, htmlNode("button", about, swatch(one), one.label))
    }
    const rest = [...chips.keys()].some((key) => !USUAL.includes(key) && !placements[key].own)
    const order = [...USUAL.filter((key) => chips.has(key)), ...[...chips.keys()].filter((key) => !USUAL.includes(key))]
    element.replaceChildren(...order.map((key) => chips.get(key)), ...(rest ? [more] : []))
  }
  return { element, show }
}
