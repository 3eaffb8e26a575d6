// Handles on the plot beside a panel: a mark, or a square of a heat map, that moves the panel's controls.

const GRIP = 44 // pixels across, for a finger; the mark is smaller

// The axes of a panel of the plot, 0 for the first.
const axesOf = (plot, panel) => ["x", "y"].map((letter) => plot._fullLayout[`${letter}axis${panel ? panel + 1 : ""}`])

// Where a control's value stands on an axis, the values that it can have, and the control's value at a place.
function scaleOf(look) {
  const values = look.values ?? look.captions.map((_, i) => i)
  const near = (value) => values[nearest(values, value)]
  const free = (value) => Math.min(values.at(-1), Math.max(values[0], round3(value)))
  const words = (value) => look.captions?.[look.values ? nearest(values, value) : value] ?? String(value)
  return { values, at: look.between ? free : near, words, name: look.description }
}

function handleControl({ label, x, y, edge, panel, cell, onChange }) {
  const about = { role: "slider", tabindex: 0, "aria-label": label, "aria-orientation": y ? "vertical" : "horizontal" }
  const element = htmlNode("div", { class: cell ? "lnk-handle lnk-cell" : "lnk-handle", ...about, hidden: true })
  if (!cell) element.append(handleMark(y ? "both" : edge))
  const names = [x, y, panel].filter(Boolean)
  let values = {}
  let scales = {}
  let plot = null

  const inAxes = () => axesOf(plot, panel ? values[panel] : 0)
  const pixel = (axis, value) => axis.d2p(value)
  const place = () => {
    const [across, upright] = plot ? inAxes() : []
    if (!across || !upright) return setAll(element, { hidden: true })
    const left = pixel(across, values[x])
    const top = y ? pixel(upright, values[y]) : edge === "top" ? 0 : upright._length
    const outside = left < -1 || left > across._length + 1 || top < -1 || top > upright._length + 1
    const [width, height] = [across, upright].map((axis) => (cell ? Math.abs(pixel(axis, 1) - pixel(axis, 0)) : GRIP))
    setAll(element, { hidden: outside })
    const at = { left: across._offset + left - width / 2, top: upright._offset + top - height / 2, width, height }
    for (const [name, pixels] of Object.entries(at)) element.style[name] = `${pixels}px`
  }
  const show = () => {
    const all = scales[y || x].values
    const range = { "aria-valuemin": all[0], "aria-valuemax": all.at(-1), "aria-valuenow": values[y || x] }
    const words = names.map((name) => `${scales[name].name} ${scales[name].words(values[name])}`)
    setAll(element, { ...range, "aria-valuetext": words.join(", ") })
    place()
  }
  const send = (changes) => {
    const moved = Object.entries(changes).filter(([name, value]) => name && value !== values[name])
    if (moved.length) onChange(Object.fromEntries(moved))
  }

  // Keys: the arrows go from value to value as far as the axis goes, and on to the next map where there are several.
  function reach(name) {
    const [across] = inAxes()
    const isSeen = (value) => pixel(across, value) <= across._length + 1
    return name === x && !cell ? scales[name].values.filter(isSeen) : scales[name].values
  }
  const beside = (name, step) => {
    const within = reach(name)
    return within[nearest(within, values[name]) + step]
  }
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const main = y || x
    const arrows = { ArrowRight: [x, 1], ArrowLeft: [x, -1], ArrowUp: [main, 1], ArrowDown: [main, -1] }
    const [name, step] = arrows[event.key] ?? []
    const end = { Home: 0, End: -1 }[event.key]
    if (!step && end === undefined) return
    event.preventDefault()
    if (end !== undefined) return send({ [main]: reach(main).at(end) })
    const next = beside(name, step)
    const map = next === undefined && panel && name === x ? beside(panel, step) : undefined
    if (next !== undefined) send({ [name]: next })
    else if (map !== undefined) send({ [panel]: map, [x]: reach(x).at(step > 0 ? 0 : -1) })
  })

  // The hand: what it holds stays under it, and the axes stay while it is held (live.js).
  let grip = null
  const hold = (on) => {
    grip = on
    const frame = plot.parentNode
    if (on) frame.dataset.held = ""
    else delete frame.dataset.held
    if (!on) frame.dispatchEvent(new Event("lntutor-released"))
  }
  const valueAt = (name, axis, pixels) => scales[name].at(axis.p2d(Math.min(axis._length, Math.max(0, pixels))))
  function drag(event) {
    const [across, upright] = inAxes()
    const box = plot.getBoundingClientRect()
    const left = event.clientX - grip.left - box.left - across._offset
    const top = event.clientY - grip.top - box.top - upright._offset
    send({ [x]: valueAt(x, across, left), ...(y && { [y]: valueAt(y, upright, top) }) })
  }
  if (!cell) {
    element.addEventListener("pointerdown", (event) => {
      if (event.button) return
      event.preventDefault()
      element.setPointerCapture(event.pointerId)
      element.focus({ preventScroll: true })
      const box = element.getBoundingClientRect()
      hold({ left: event.clientX - box.left - GRIP / 2, top: event.clientY - box.top - GRIP / 2 })
    })
    element.addEventListener("pointermove", (event) => grip && drag(event))
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
      element.addEventListener(end, () => grip && hold(null))
    }
  }
  // A click on a square of a map; a finger that scrolls the page chooses nothing.
  let pressed = null
  const press = (event) => (pressed = event.button ? null : event)
  function release(event) {
    const still = pressed && Math.hypot(event.clientX - pressed.clientX, event.clientY - pressed.clientY) < 8
    pressed = null
    if (!still) return
    const box = plot.getBoundingClientRect()
    for (const index of scales[panel].values) {
      const [across, upright] = axesOf(plot, index)
      const [left, top] = [event.clientX - box.left - across._offset, event.clientY - box.top - upright._offset]
      if (left < 0 || left > across._length || top < 0 || top > upright._length) continue
      send({ [panel]: index, [x]: valueAt(x, across, left), [y]: valueAt(y, upright, top) })
      element.focus({ preventScroll: true })
    }
  }
  const listening = new AbortController()
  return {
    element,
    show(_value, _theme, panelValues, looks) {
      values = panelValues
      scales = Object.fromEntries(names.map((name) => [name, scaleOf(looks[name])]))
      show()
    },
    // The plot has been drawn, in this frame.
    meet(drawn) {
      plot = drawn
      const frame = plot.parentNode
      if (element.parentNode !== frame) {
        frame.append(element)
        if (cell) {
          frame.addEventListener("pointerdown", press, { capture: true, signal: listening.signal })
          window.addEventListener("pointerup", release, { capture: true, signal: listening.signal })
        }
      }
      show()
    },
    destroy() {
      listening.abort()
      element.remove()
    },
  }
}

// A mark that says which way it goes: a diamond for both, a triangle that stands on its edge.
function handleMark(way) {
  const d = markerPath({ both: "diamond", bottom: "triangle-up", top: "triangle-down" }[way], 11, 11, 9)
  return svgNode("svg", { viewBox: "0 0 22 22", width: 22, height: 22, "aria-hidden": "true" }, svgNode("path", { d }))
}
