// The playground as a page of its own: its state is what stands behind the # of the address.

const PAUSE_OF_LINK = 300 // ms; browsers refuse an address that changes with every step of a slider

// The state as text, without what is as at the start; of placement and slots, one says both.
function linkOf(state, start) {
  const shown = new URLSearchParams()
  for (const [name, value] of Object.entries(state)) {
    const said = state.placement ? "slots" : "placement"
    if (name !== said && !sameValue(value, start[name])) shown.set(name, value)
  }
  return shown.toString()
}

// The state that an address asks for, in the types of the start; whether it makes sense is for the view to say.
function stateOf(hash, start) {
  const valueOf = (name, text) => {
    if (Array.isArray(start[name])) return text.split(",").filter(Boolean)
    if (typeof start[name] === "number") return /^-?\d+$/.test(text) ? Number(text) : text
    return typeof start[name] === "boolean" ? { true: true, false: false }[text] ?? text : text
  }
  const pairs = [...new URLSearchParams(hash.replace(/^#/, ""))]
  const asked = Object.fromEntries(pairs.map(([name, text]) => [name, valueOf(name, text)]))
  const { placement, slots, ...rest } = start
  if ("placement" in asked || !("slots" in asked)) return { ...rest, placement, ...asked }
  return { ...rest, slots, ...asked }
}

function openPage(root) {
  const data = JSON.parse(document.getElementById("playground-data").textContent)
  let timer = 0
  const keep = (state) => {
    clearTimeout(timer)
    timer = setTimeout(() => {
      const link = linkOf(state, data.defaults)
      try {
        history.replaceState(null, "", link ? `#${link}` : location.pathname + location.search)
      } catch {} // a frame or a file whose address may not be changed
    }, PAUSE_OF_LINK)
  }
  root.replaceChildren()
  const state = stateOf(location.hash, data.defaults)
  const link = (shown) => `${location.href.split("#")[0]}#${linkOf(shown, data.defaults)}`
  const playground = mountPlayground(root, { data, state, onState: keep, link })
  addEventListener("hashchange", () => playground.set(stateOf(location.hash, data.defaults)))
  if (parent !== window) { // the page around this one gives it as much room as it needs
    const tell = () => parent.postMessage({ lntutor: document.body.offsetHeight }, "*")
    new ResizeObserver(tell).observe(document.body)
  }
}

openPage(document.getElementById("playground"))
