// Layers of a drawn network, chosen by a click, by a stroke over several, with Shift from the last one, or by keys.

function layersControl({ label, sides, depth, below, onChange }) {
  const boxes = new Map() // name → button, from the input up
  const box = (name, words, about = {}) => {
    const node = htmlNode("button", { type: "button", "data-layer": name, "aria-label": name.replace(".", " "), ...about }, words)
    boxes.set(name, node)
    return node
  }
  const under = below ? [box(below, below)] : []
  const columns = sides.map((side, i) => {
    const all = Array.from({ length: depth }, (_, i) => `${side}.${i + 1}`)
    const nodes = all.map((name, i) => box(name, String(i + 1)))
    const head = buttonNode(i < sides.length - 1 ? `${side} →` : side, () => turn(all, !all.every(isOn)), { class: "lnk-layers-side", "aria-label": `All of the ${side}` })
    return { nodes, element: htmlNode("div", { class: "lnk-layers-column" }, head, ...[...nodes].reverse()) }
  })
  const network = htmlNode("div", { class: "lnk-layers-network" }, ...columns.map(({ element }) => element), ...under)
  network.style.gridTemplateColumns = `repeat(${sides.length}, minmax(5.5em, 8em))`
  const name = htmlNode("span", { class: "lnk-layers-label", "aria-hidden": "true" }, label)
  const element = htmlNode("div", { class: "lnk-layers", role: "group", "aria-label": label }, name, network)
  const names = [...boxes.keys()]
  let chosen = []
  let last = names[0] // from which Shift reaches, and where Tab leads

  const isOn = (name) => chosen.includes(name)
  const nameAt = (node) => node?.closest?.("[data-layer]")?.dataset.layer
  function turn(some, on) {
    const next = names.filter((name) => (some.includes(name) ? on : isOn(name)))
    if (next.length !== chosen.length || next.some((name) => !isOn(name))) onChange(next)
  }
  function between(one, other) {
    const [from, to] = [one, other].map((name) => names.indexOf(name)).sort((a, b) => a - b)
    return names.slice(from, to + 1)
  }
  function hold(name) {
    last = name
    for (const [key, node] of boxes) setAll(node, { tabindex: key === name ? 0 : -1 })
  }
  // One layer on or off; with Shift all from the last one to this, as the last one is.
  function press(name, shift) {
    shift ? turn(between(last, name), isOn(last)) : turn([name], !isOn(name))
    hold(name)
  }

  let stroke = null // { on, seen } while the pointer is down
  network.addEventListener("pointerdown", (event) => {
    const name = nameAt(event.target)
    if (!name || boxes.get(name).disabled || event.button) return
    event.preventDefault()
    boxes.get(name).focus({ preventScroll: true })
    press(name, event.shiftKey)
    stroke = { on: isOn(name), seen: [name] }
    network.setPointerCapture(event.pointerId)
  })
  network.addEventListener("pointermove", (event) => {
    const name = stroke && nameAt(document.elementFromPoint(event.clientX, event.clientY))
    if (!boxes.has(name) || !network.contains(boxes.get(name)) || stroke.seen.includes(name)) return
    stroke.seen.push(name)
    turn([name], stroke.on)
    hold(name)
  })
  for (const end of ["pointerup", "pointercancel"]) network.addEventListener(end, () => (stroke = null))
  network.addEventListener("click", (event) => {
    const name = nameAt(event.target)
    if (name && event.detail === 0) press(name, event.shiftKey) // by a key or by software; a pointer has done it already
  })

  function neighbour(name, key) {
    const column = columns.findIndex(({ nodes }) => nodes.includes(boxes.get(name)))
    const up = { ArrowUp: 1, ArrowDown: -1 }[key]
    const aside = { ArrowRight: 1, ArrowLeft: -1 }[key]
    if (column < 0) return up === 1 || aside ? columns.at(aside === 1 ? -1 : 0).nodes[0] : null
    const { nodes } = columns[column]
    const place = nodes.indexOf(boxes.get(name))
    return up ? (nodes[place + up] ?? (up < 0 ? under[0] : null)) : columns[column + aside]?.nodes[place]
  }
  network.addEventListener("keydown", (event) => {
    const name = nameAt(event.target)
    if (!name || !event.key.startsWith("Arrow")) return
    event.preventDefault()
    const next = neighbour(name, event.key)
    if (!next) return
    if (event.shiftKey) turn([nameAt(next)], isOn(name))
    hold(nameAt(next))
    next.focus()
  })
  hold(last)
  return {
    element,
    show(value) {
      chosen = names.filter((name) => value.includes(name))
      for (const [name, node] of boxes) setAll(node, { "aria-pressed": String(isOn(name)) })
    },
  }
}
