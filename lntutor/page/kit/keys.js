// Keys. JupyterLab hears every key first and acts by selectors: b on a slider inserts a cell, x cuts the slider.

const OURS = ".lnk, .lntutor-explorer, .lntutor-ask"
const FIELDS = "input, button, select, summary, textarea, [tabindex='0']"
const SUPPRESS = "data-lm-suppress-shortcuts" // JupyterLab does nothing for a key on an element with this
const DECK = ".jp-Deck.jp-NotebookPanel .jp-Notebook"
const presenting = () => document.body.dataset.jpDeckMode === "presenting"

// Whether a key on one of our controls is JupyterLab's: chords, Escape and Tab are; Space is where it presses nothing.
function isForPage({ key, target, ctrlKey, metaKey, altKey, shiftKey }) {
  if (ctrlKey || metaKey || altKey || (shiftKey && key === "Enter")) return true
  if (key === " ") return target.matches("input[type=range], [role=slider]")
  return ["Escape", "Tab", "PageUp", "PageDown"].includes(key)
}

// A presenter's remote sends PageDown, and a slide hears no key while nothing has the focus.
function hearSlides(event) {
  const key = { PageDown: " ", PageUp: " " }[event.key] ?? event.key
  const lost = document.activeElement === document.body
  if (!presenting() || !event.isTrusted || (key === event.key && !lost)) return
  const deck = document.querySelector(DECK)
  const place = lost ? (deck?.querySelector(".jp-Cell.jp-mod-active") ?? deck) : event.target
  if (!place || place.matches("textarea, [contenteditable=true]")) return
  const code = key === " " ? { code: "Space", keyCode: 32 } : { code: event.code, keyCode: event.keyCode }
  const shiftKey = event.shiftKey || event.key === "PageUp"
  event.preventDefault()
  event.stopImmediatePropagation()
  const target = place.matches(FIELDS) ? place.closest(".jp-Cell") : place
  target.focus({ preventScroll: true }) // JupyterLab hears no such key from a field, and the field leaves the screen
  target.dispatchEvent(new KeyboardEvent("keydown", { key, ...code, shiftKey, bubbles: true, cancelable: true }))
}

function hearKey(event) {
  const { target } = event
  if (target.matches?.(FIELDS) && target.closest(OURS)) {
    setAll(target, { [SUPPRESS]: !isForPage(event) && "true" })
    // JupyterLab takes the line break by which a field would say that it has changed.
    if (event.key === "Enter" && target.matches("[type=number]")) target.dispatchEvent(new Event("change"))
  }
  hearSlides(event)
}

// From now on, for all modules of the page.
function keepKeys() {
  const mark = Symbol.for("lntutor.keys")
  if (globalThis[mark]) return
  globalThis[mark] = true
  window.addEventListener("keydown", hearKey, true) // before JupyterLab, which listens at the document
}
