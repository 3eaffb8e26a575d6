// Answers to a question: numbered choices, a show of hands, a number, a curve. Each starts empty and has show(value)
// and missing(value), which says what is still to be done.

const round3 = (value) => Number(value.toPrecision(3))

// Choices one below the other; the keys 1 to 9 choose.
function optionsControl({ label, captions, onChange }) {
  const name = `lnk-${Math.random().toString(36).slice(2)}`
  const inputs = captions.map((_, i) => htmlNode("input", { type: "radio", name, onchange: () => onChange(i) }))
  const rows = captions.map((caption, i) =>
    htmlNode("label", { class: "lnk-option" }, inputs[i], numberBadge(i), textNode(caption)))
  const element = htmlNode("fieldset", { class: "lnk-options", "aria-label": label }, ...rows)
  element.addEventListener("keydown", (event) => {
    const input = inputs[Number(event.key) - 1]
    if (!input || event.ctrlKey || event.metaKey || event.altKey) return
    input.focus()
    if (!input.checked) input.click()
  })
  return {
    element,
    show: (value) => inputs.forEach((input, i) => (input.checked = i === value)),
    missing: (value) => (value === null ? "Choose an answer first" : ""),
  }
}

const numberBadge = (i) => htmlNode("span", { class: "lnk-number", "aria-hidden": "true" }, String(i + 1))

// How many hands each choice got: type a number, Enter goes to the next.
function handsControl({ label, captions, onChange }) {
  const limits = { type: "number", min: 0, max: 9999, step: 1, inputmode: "numeric", placeholder: "0" }
  const inputs = captions.map((caption) => htmlNode("input", { ...limits, "aria-label": `Hands for: ${caption}` }))
  const rows = captions.map((caption, i) =>
    htmlNode("label", { class: "lnk-option" }, numberBadge(i), inputs[i], textNode(caption)))
  const element = htmlNode("fieldset", { class: "lnk-options lnk-hands", "aria-label": label }, ...rows)
  const count = (input) => Math.min(9999, Math.max(0, Math.floor(Number(input.value) || 0)))
  element.addEventListener("input", () => onChange(inputs.map(count)))
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return
    event.preventDefault() // the button that gets the focus is not pressed by this key
    const next = inputs[inputs.indexOf(event.target) + 1]
    ;(next ?? element.closest(".lnk-panel").querySelector(".lnk-primary")).focus()
  })
  return {
    element,
    show: (value) => inputs.forEach((input, i) => count(input) !== value[i] && (input.value = value[i] || "")),
    missing: (value) => (value.some((hands) => hands) ? "" : "Enter the hands first"),
  }
}

// A number on a slider without a thumb until it is set; a digit typed on the slider goes to the field.
function guessControl({ label, values, unit, onChange }) {
  const { element, show } = sliderControl({ label, values, onChange })
  const [range, field] = element.querySelectorAll("input")
  const [low, high] = [values[0], values.at(-1)].map((end) => htmlNode("span", { class: "lnk-end" }, String(end)))
  const middle = Math.floor(values.length / 2)
  range.before(low)
  range.after(high)
  element.classList.add("lnk-guess")
  if (unit) field.after(htmlNode("span", { class: "lnk-unit" }, unit))
  setAll(field, { placeholder: "?" })
  const isUnset = () => element.hasAttribute("data-unset")
  range.addEventListener("pointerup", () => isUnset() && onChange(values[range.value])) // a click on the middle
  range.addEventListener("keydown", (event) => {
    if (/^[-\d]$/.test(event.key)) field.focus(), field.select()
    if (isUnset() && event.key === "Enter" && !event.shiftKey) onChange(values[middle])
  })
  return {
    element,
    show(value) {
      setAll(element, { "data-unset": value === null })
      if (value !== null) return show(value)
      setAll(range, { "aria-valuetext": "not set" })
      range.value = middle
      field.value = ""
    },
    missing: (value) => (value === null ? "Set the slider first" : ""),
  }
}

// A curve drawn on a plot: a stroke over the plot sets the points it passes, keys move the one in focus.
function curveControl({ label, places, low, high, log, unit, onChange }) {
  const [left, right, top, bottom, height] = [52, 16, 14, 26, 260]
  const scale = log ? Math.log : (value) => value
  const [from, to] = [scale(low), scale(high)]
  const valueAt = (share) => {
    const value = from + (to - from) * Math.min(1, Math.max(0, share))
    return Math.min(high, Math.max(low, round3(log ? Math.exp(value) : value)))
  }
  const shareOf = (value) => (value === null ? 0.5 : (scale(value) - from) / (to - from))
  const y = (share) => top + (1 - share) * (height - top - bottom)
  const x = (i) => left + ((i + 0.5) / places.length) * (width - left - right)
  const grid = svgNode("g", { class: "lnk-grid", "aria-hidden": "true" })
  const line = svgNode("path", { class: "lnk-drawn" })
  const read = svgNode("text", { class: "lnk-read", "text-anchor": "middle", "aria-hidden": "true" })
  const points = places.map((place, i) => {
    const range = { "aria-valuemin": low, "aria-valuemax": high, "aria-label": `${label} at ${place}` }
    const keys = (event) => press(event, i)
    const about = { role: "slider", tabindex: 0, "aria-orientation": "vertical", ...range }
    return svgNode("path", { class: "lnk-point", ...about, onkeydown: keys, onfocus: () => draw(), onblur: () => draw() })
  })
  const svg = svgNode("svg", { height, role: "group", "aria-label": label }, grid, line, ...points, read)
  const element = htmlNode("div", { class: "lnk-curve" }, svg)
  let width = 0
  let values = places.map(() => null)

  function set(i, share) {
    values = values.map((value, place) => (place === i ? valueAt(share) : value))
    onChange(values)
  }
  function press(event, i) {
    const step = { ArrowUp: 0.02, ArrowDown: -0.02 }[event.key]
    const end = { Home: 0, End: 1 }[event.key]
    const next = points[i + ({ ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? NaN)]
    if (step) set(i, shareOf(values[i]) + step)
    else if (end !== undefined) set(i, end)
    else if (event.key === "Enter" && !event.shiftKey) set(i, shareOf(values[i]))
    else if (next) next.focus()
    else if (!event.key.startsWith("Arrow")) return
    event.preventDefault()
  }
  let last = null // the stroke's last point; those between two events of the pointer are set, too
  function stroke(event) {
    const box = svg.getBoundingClientRect()
    const at = ((event.clientX - box.left - left) / (width - left - right)) * places.length - 0.5
    const now = { i: Math.min(places.length - 1, Math.max(0, Math.round(at))) }
    now.share = 1 - (event.clientY - box.top - top) / (height - top - bottom)
    const before = last ?? now
    const steps = Math.max(1, Math.abs(now.i - before.i))
    for (let k = steps === 1 ? 1 : 0; k <= steps; k++) {
      const part = k / steps
      set(Math.round(before.i + part * (now.i - before.i)), before.share + part * (now.share - before.share))
    }
    last = now
    if (event.type === "pointerdown") points[now.i].focus({ preventScroll: true })
  }
  svg.addEventListener("pointerdown", (event) => {
    event.preventDefault()
    svg.setPointerCapture(event.pointerId)
    stroke(event)
  })
  svg.addEventListener("pointermove", (event) => last && stroke(event))
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => (last = null))

  function drawGrid() {
    const across = ticksBetween(low, high, log).flatMap((tick) => {
      const height = y(shareOf(tick))
      const words = svgNode("text", { x: left - 8, y: height + 4, "text-anchor": "end" }, String(tick))
      return [svgNode("path", { d: `M${left} ${height}H${width - right}` }), words]
    })
    const names = places.map((place, i) => svgNode("text", { x: x(i), y: height - 6, "text-anchor": "middle" }, place))
    const title = svgNode("text", { x: left + 6, y: top + 10 }, unit)
    grid.replaceChildren(...across, ...names, title)
  }
  function draw() {
    const at = values.map((value, i) => [x(i), y(shareOf(value))])
    const known = at.filter((_, i) => values[i] !== null)
    setAll(line, { d: known.length ? `M${known.map((point) => point.map(Math.round).join(" ")).join("L")}` : null })
    points.forEach((point, i) => {
      const unset = values[i] === null
      const value = { "aria-valuenow": values[i] ?? valueAt(0.5), "aria-valuetext": unset ? "not set" : String(values[i]) }
      setAll(point, { d: markerPath("diamond", ...at[i], 9), "data-unset": unset, ...value })
    })
    const held = points.indexOf(document.activeElement)
    read.textContent = held < 0 || values[held] === null ? "" : String(values[held])
    if (read.textContent) setAll(read, { x: at[held][0], y: at[held][1] + (at[held][1] < top + 30 ? 30 : -20) })
  }
  const resized = new ResizeObserver(() => {
    width = Math.round(element.clientWidth)
    if (!width) return
    setAll(svg, { width })
    drawGrid()
    draw()
  })
  resized.observe(element)
  return {
    element,
    show(given) {
      values = given
      if (width) draw()
    },
    missing(given) {
      const open = given.filter((value) => value === null).length
      if (open === places.length) return "Draw the curve first"
      return open ? `Draw ${open} more point${open > 1 ? "s" : ""}` : ""
    },
    destroy: () => resized.disconnect(),
  }
}

// Round numbers from low to high, for an axis.
function ticksBetween(low, high, log) {
  if (log) {
    const powers = Array.from({ length: 40 }, (_, i) => [1, 2, 5].map((m) => round3(m * 10 ** (i - 20)))).flat()
    const within = powers.filter((tick) => tick >= low && tick <= high)
    const tens = within.filter((tick) => Number.isInteger(round3(Math.log10(tick))))
    return within.length > 6 && tens.length > 1 ? tens : within
  }
  const rough = (high - low) / 5
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((m) => m * power).find((one) => one >= rough)
  const first = Math.ceil(low / step)
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => round3((first + i) * step))
}

// A button that says what is missing and leads there, until nothing is.
function submitControl({ description, primary, onPress }) {
  const element = buttonNode(description, () => press(), { class: primary ? "lnk-primary" : null })
  let press = onPress
  return {
    element,
    show: () => {},
    lack(words, lead) {
      press = words ? lead : onPress
      element.textContent = words || description
      setAll(element, { "data-missing": words !== "" })
    },
  }
}

// Text in HTML between the parts.
function wordsControl() {
  const element = htmlNode("div", { class: "lnk-words" })
  return {
    element,
    show(html) {
      if (element.dataset.html !== html) element.innerHTML = element.dataset.html = html
      element.hidden = !html
    },
  }
}
