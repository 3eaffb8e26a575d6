// The view of lntutor.page.accessibility.Accessibility: says what is new, and keeps clicks behind what was set before.

const REST = 1000 // ms without a change after which the news is read out,
const LONGEST = 10000 // and no later than this while changes go on
const ROOTS = ".lntutor-explorer, .lntutor-ask"

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
  let root = null
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
  const listen = () => {
    since ||= performance.now()
    clearTimeout(saying)
    saying = setTimeout(say, Math.max(0, Math.min(REST, since + LONGEST - performance.now())))
  }
  const observer = new MutationObserver((records) => {
    if (records.some(({ target }) => target !== line)) listen()
  })
  // The boxes around stand in the page only once this has been put there.
  const arrival = new ResizeObserver(() => {
    root = el.closest(ROOTS)
    if (!root) return
    arrival.disconnect()
    for (const act of ["click", "change"]) {
      root.addEventListener(act, () => sendAll(model.widget_manager), { capture: true, signal })
    }
    if (!root.matches(".lntutor-explorer")) return // a question says its own
    listen()
    observer.observe(root, { childList: true, subtree: true, characterData: true })
  })
  arrival.observe(el)
  signal.addEventListener("abort", () => {
    arrival.disconnect()
    observer.disconnect()
    clearTimeout(saying)
  })
}

export default { render }
