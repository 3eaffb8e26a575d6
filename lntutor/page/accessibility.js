// The view of lntutor.page.accessibility.Accessibility: adds to the controls around it what ipywidgets leaves out.

const REST = 1000 // ms without a change after which the news is read out,
const LONGEST = 10000 // and no later than this while changes go on
const SOON = 100 // ms after a change at which new controls are looked for
const ROOTS = ".lntutor-explorer, .lntutor-ask"

function set(node, name, value) {
  if (node && value && node.getAttribute(name) !== value) node.setAttribute(name, value)
}

// A slider's name stands beside it, and its value is a word where noUiSlider counts places.
function tellSlider(slider) {
  const label = slider.querySelector(".widget-label")
  const handle = slider.querySelector(".noUi-handle")
  const readout = slider.querySelector(".widget-readout")
  const name = label?.textContent.trim()
  set(handle, "aria-label", name)
  set(handle, "aria-description", label?.title)
  set(handle, "aria-valuetext", readout?.textContent.trim())
  if (slider.classList.contains("lntutor-steps")) set(readout, "contenteditable", "false") // typing there does nothing
  else {
    set(readout, "role", "textbox")
    set(readout, "aria-label", `${name}, to type`)
  }
}

function tend(root, tended) {
  for (const slider of root.querySelectorAll(".widget-slider")) {
    if (tended.has(slider)) continue
    tended.add(slider)
    const what = { subtree: true, childList: true, characterData: true }
    const observer = new MutationObserver(() => tellSlider(slider))
    observer.observe(slider, { ...what, attributeFilter: ["aria-valuetext", "contenteditable"] })
    tellSlider(slider)
  }
  for (const field of root.querySelectorAll("select, input")) {
    if (field.labels[0]?.textContent.trim()) continue
    set(field, "aria-label", field.title || field.closest(".widget-hbox")?.innerText.trim())
  }
  // JupyterLab would mark cells by the keys that mark options.
  for (const list of root.querySelectorAll("select[multiple]")) set(list, "data-lm-suppress-shortcuts", "true")
  for (const button of root.querySelectorAll(".widget-toggle-button")) {
    set(button, "aria-pressed", String(button.classList.contains("mod-active")))
  }
}

// What has come of the last move: a mistake, or the finding, and with it how far long work is.
function news(root) {
  const title = root.querySelector(".lntutor-live .js-plotly-plot")?.layout?.title?.text ?? ""
  const page = new DOMParser().parseFromString(title.replace(/<br ?\/?>/g, " "), "text/html")
  const status = root.querySelector(".lntutor-status .widget-html-content")
  const wrong = status?.querySelector(".wrong")
  const work = root.classList.contains("lntutor-working") ? status?.innerText : ""
  return wrong?.innerText ?? [page.body.textContent, work].filter(Boolean).join(". ")
}

// ipywidgets keeps back what is set while the kernel answers, and a click or a choice would overtake it: a guess of
// 51 would be stored where the slider stands at 53. So before either is heard, all that was set is sent.
function sendAll(manager) {
  for (const model of manager?._modelsSync?.values() ?? []) {
    if (!model._msg_buffer || !model.comm_live) continue
    model.rememberLastUpdateFor(model.send_sync_message(model._msg_buffer, model._msg_buffer_callbacks))
    model._msg_buffer = model._msg_buffer_callbacks = null
  }
}

function render({ model, el, signal }) {
  const line = document.createElement("div")
  const tended = new WeakSet()
  let root = null
  let looking = 0
  let saying = 0
  let since = 0
  let last = null // nothing is news when the page opens
  line.setAttribute("role", "status")
  line.className = "lntutor-aloud"
  el.append(line)

  const say = () => {
    since = saying = 0
    const text = news(root)
    if (last !== null && last !== text) line.textContent = text
    last = text
  }
  const look = () => {
    looking = 0
    tend(root, tended)
    if (!root.matches(".lntutor-explorer")) return // a question says its own
    since ||= performance.now()
    clearTimeout(saying)
    saying = setTimeout(say, Math.max(0, Math.min(REST, since + LONGEST - performance.now())))
  }
  const observer = new MutationObserver((records) => {
    if (!looking && records.some(({ target }) => target !== line)) looking = setTimeout(look, SOON)
  })
  // The boxes around stand in the page only once this has been put there.
  const arrival = new ResizeObserver(() => {
    root = el.closest(ROOTS)
    if (!root) return
    arrival.disconnect()
    for (const act of ["click", "change"]) {
      root.addEventListener(act, () => sendAll(model.widget_manager), { capture: true, signal })
    }
    look()
    observer.observe(root, { childList: true, subtree: true, characterData: true })
  })
  arrival.observe(el)
  signal.addEventListener("abort", () => {
    arrival.disconnect()
    observer.disconnect()
    clearTimeout(looking)
    clearTimeout(saying)
  })
}

export default { render }
