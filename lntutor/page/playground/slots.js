// The layer as a drawing whose norms one takes in the hand: dragged, clicked, or moved with the arrow keys.

const SHEET = { width: 380, height: 312 }
const PLACES = { A: [300, 238], B: [300, 158], C: [150, 82], D: [150, 30] }
const SLOT_SIZE = { width: 112, height: 30 }
const REACH = 70 // farther from every slot than this, a norm is dropped out
const START_OF_DRAG = 5

const withSlot = (slots, slot) => [..."ABCD"].filter((one) => slots.includes(one) || one === slot).join("")
const withoutSlot = (slots, slot) => slots.replace(slot, "")

// onSlots(slots): a new choice. onPreview(slots | null): what a drag would make, null where it is given up.
function slotDrawing({ onSlots, onPreview }) {
  let slots = ""
  let norm = "layer norm"
  const nodes = {}
  const svg = svgNode("svg", {
    viewBox: `0 0 ${SHEET.width} ${SHEET.height}`, class: "lnp-slots", role: "group",
    "aria-label": "One sub-layer of the network. Each slot is a switch; the arrow keys move a norm to the next slot.",
  })
  svg.append(...backdrop())
  for (const slot of "DCBA") svg.append((nodes[slot] = slotNode(slot)))
  let held = false
  const noScrolling = (event) => held && event.cancelable && event.preventDefault()
  svg.addEventListener("touchmove", noScrolling, { passive: false })
  const spare = spareNorm()
  const ghost = normShape("lnp-ghost")
  svg.append(spare, ghost)

  const choose = (next) => {
    slots = next // the next key may come before the next frame
    onSlots(next)
  }
  const toggle = (slot) => choose(slots.includes(slot) ? withoutSlot(slots, slot) : withSlot(slots, slot))

  // Up and down take the norm along to the next free slot; from an empty slot they only move the focus.
  function keyed(slot, event) {
    const step = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }[event.key]
    const toggles = event.key === " " || event.key === "Enter"
    if (!step && !toggles) return
    event.preventDefault()
    if (toggles) return event.repeat || toggle(slot)
    const filled = slots.includes(slot)
    let next = "ABCD".indexOf(slot) + step
    while (filled && slots.includes("ABCD"[next])) next += step
    const target = "ABCD"[next]
    if (!target) return
    if (filled) choose(withSlot(withoutSlot(slots, slot), target))
    nodes[target].focus()
  }

  function slotNode(slot) {
    const node = normShape("lnp-slot", ...PLACES[slot])
    setAll(node, { role: "switch", tabindex: 0, "aria-label": `Norm ${SLOT_WORDS[slot]}`, "data-slot": slot })
    node.addEventListener("click", () => toggle(slot))
    node.addEventListener("keydown", (event) => keyed(slot, event))
    node.addEventListener("pointerdown", (event) => slots.includes(slot) && grab(event, slot))
    return node
  }

  function spareNorm() {
    const node = normShape("lnp-spare lnp-hand", 44, 158, 84)
    node.setAttribute("aria-hidden", "true")
    node.addEventListener("pointerdown", (event) => grab(event, ""))
    return node
  }

  const place = (event) => {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse())
    return [x, y]
  }

  function nearest([x, y]) {
    const far = (slot) => Math.hypot((x - PLACES[slot][0]) / 1.6, y - PLACES[slot][1])
    const slot = [..."ABCD"].sort((a, b) => far(a) - far(b))[0]
    return far(slot) < REACH / 1.6 ? slot : ""
  }

  function grab(event, source) {
    if (event.button || held) return
    held = true
    event.preventDefault()
    nodes[source]?.focus({ preventScroll: true })
    const { pointerId } = event
    const first = place(event)
    const rest = source ? withoutSlot(slots, source) : slots
    let over = null
    const stop = new AbortController()
    const listen = (type, act) => svg.ownerDocument.addEventListener(type, act, { signal: stop.signal, capture: true })
    const end = () => {
      stop.abort()
      held = false
      delete svg.dataset.drag
      for (const slot of "ABCD") nodes[slot].classList.remove("lnp-over")
    }
    const move = (event) => {
      if (event.pointerId !== pointerId) return
      const [x, y] = place(event)
      if (over === null && Math.hypot(x - first[0], y - first[1]) < START_OF_DRAG) return
      if (over === null) svg.setPointerCapture(pointerId) // from here on, what follows is no click
      svg.dataset.drag = source || "new"
      ghost.setAttribute("transform", `translate(${x} ${y})`)
      const slot = nearest([x, y])
      if (slot === over) return
      over = slot
      for (const one of "ABCD") nodes[one].classList.toggle("lnp-over", one === slot)
      onPreview(slot ? withSlot(rest, slot) : rest)
    }
    const drop = (event) => {
      if (event.pointerId !== pointerId) return
      end()
      if (over !== null) choose(over ? withSlot(rest, over) : rest)
    }
    const giveUp = (event) => {
      if (event.type === "keydown" && event.key !== "Escape") return
      end()
      onPreview(null)
    }
    listen("pointermove", move)
    listen("pointerup", drop)
    listen("pointercancel", giveUp)
    listen("keydown", giveUp)
  }

  return {
    element: svg,
    show(next, normName) {
      slots = next
      norm = normName
      for (const slot of "ABCD") {
        const on = slots.includes(slot)
        setAll(nodes[slot], { "aria-checked": String(on) })
        nodes[slot].lastChild.textContent = on ? norm : svg.dataset.drag ? "drop here" : "+ norm"
      }
      spare.lastChild.textContent = ghost.lastChild.textContent = norm
    },
  }
}

function normShape(name, x = 0, y = 0, width = SLOT_SIZE.width) {
  const { height } = SLOT_SIZE
  const box = { x: -width / 2, y: -height / 2, width, height, rx: 8 }
  const parts = [svgNode("rect", { ...box, class: "lnp-ground" }), svgNode("rect", { ...box, class: "lnp-norm" })]
  return svgNode("g", { class: name, transform: `translate(${x} ${y})` }, ...parts, svgNode("text", { y: 5 }))
}

// What does not move: the frame, the stream, the branch, f and the sum.
function backdrop() {
  const line = (d, more = {}) => svgNode("path", { d, class: "lnp-wire", ...more })
  const text = (x, y, words, name = "lnp-note") => svgNode("text", { x, y, class: name }, words)
  return [
    svgNode("rect", { x: 86, y: 56, width: 290, height: 240, rx: 12, class: "lnp-frame" }),
    line("M150 310V3"), line("M145 9L150 2L155 9"),
    line("M150 274H300V120H170"), line("M175 115L167 120L175 125"),
    svgNode("circle", { cx: 150, cy: 120, r: 14, class: "lnp-sum" }), text(150, 126, "+", "lnp-plus"),
    svgNode("rect", { x: 230, y: 180, width: 140, height: 36, rx: 8, class: "lnp-f" }),
    text(300, 203, "f: attention, FFN", "lnp-flabel"),
    text(214, 35, "once, at the end", "lnp-note lnp-left"), text(366, 76, "in every sub-layer", "lnp-note lnp-right"),
    text(142, 292, "stream", "lnp-note lnp-right"), text(308, 290, "branch", "lnp-note lnp-left"),
    text(44, 192, "drag one", "lnp-note lnp-hand"), text(44, 208, "into a slot", "lnp-note lnp-hand"),
  ]
}
