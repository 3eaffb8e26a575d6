// The playground under a kernel: the kernel is told of every move, and the page waits for none of its answers.

const PAUSE_OF_TABLE = 500 // ms without a move after which the numbers are sent
const MOST_ROWS = 6000 // a larger table is left to Python

// The rows as columns; null where a number is too large for JSON, so that Python measures these itself.
function columnsOf(rows) {
  if (!rows.length || rows.length > MOST_ROWS || !rows.every(({ value }) => Number.isFinite(value))) return null
  const names = ["side", "layer", "block", "parameter", "seed", "value", "below_floor"]
  return Object.fromEntries(names.map((name) => [name, rows.map((row) => row[name])]))
}

function sameState(a, b) {
  return JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort())
}

// Mounts once the element stands in the page, as it has no width and no type before; returns what takes it away.
function onceAttached(el, mount) {
  let remove = null
  const watch = new ResizeObserver(() => {
    if (!el.isConnected) return
    watch.disconnect()
    remove = mount()
  })
  watch.observe(el)
  return () => {
    watch.disconnect()
    remove?.()
  }
}

function mountWidget(model, el) {
  let timer = 0
  let data = model.get("data")
  const tell = (name, value) => {
    try {
      model.set(name, value)
      model.save_changes()
    } catch {} // the kernel is gone, which changes nothing here
  }
  const sendTable = (rows) => {
    clearTimeout(timer)
    const { state } = playground
    const { edition } = data
    timer = setTimeout(() => {
      const columns = columnsOf(rows)
      if (columns) tell("rows", { edition, state, columns })
    }, PAUSE_OF_TABLE)
  }
  const playground = mountPlayground(el, {
    data,
    state: model.get("value"),
    onState: (state) => sameState(state, model.get("value")) || tell("value", state),
    onTable: sendTable,
  })
  const follow = () => {
    const [known, value] = [data, model.get("value")] // of a new rule and a new state, the rule comes first
    data = model.get("data")
    if (data !== known) playground.setPlacements(data.placements)
    if (!sameState(value, playground.state)) playground.set(value)
  }
  for (const name of ["change:data", "change:value"]) model.on(name, follow)
  return () => {
    clearTimeout(timer)
    for (const name of ["change:data", "change:value"]) model.off(name, follow)
    playground.destroy()
  }
}

function render({ model, el }) {
  return onceAttached(el, () => mountWidget(model, el))
}
