// The theme of the page, and colours on its ground: a colour for white paper, and the same one in the dark.

const GROUNDS = { light: "#ffffff", dark: "#1b2028" }

let onPaper = false // what is printed is light
for (const event of ["beforeprint", "afterprint"]) addEventListener(event, () => (onPaper = event === "beforeprint"))

// The page's theme: JupyterLab's, elsewhere the system's.
function themeOf() {
  const jupyter = document.body.dataset.jpThemeLight
  const dark = jupyter ? jupyter === "false" : matchMedia("(prefers-color-scheme: dark)").matches
  return dark && !onPaper ? "dark" : "light"
}

// Calls back whenever the theme changes; returns what ends that.
function onTheme(callback) {
  const system = matchMedia("(prefers-color-scheme: dark)")
  const observer = new MutationObserver(callback)
  const calls = [[system, "change"], [window, "beforeprint"], [window, "afterprint"]]
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] })
  for (const [target, event] of calls) target.addEventListener(event, callback)
  return () => {
    observer.disconnect()
    for (const [target, event] of calls) target.removeEventListener(event, callback)
  }
}

const channels = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16))
const hexOf = (rgb) => `#${rgb.map((v) => Math.round(v).toString(16).padStart(2, "0")).join("")}`
const mixed = (colour, other, share) =>
  hexOf(channels(colour).map((v, i) => v + (channels(other)[i] - v) * share))

function luminance(colour) {
  const [r, g, b] = channels(colour).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b)
  return (high + 0.05) / (low + 0.05)
}

// The colour itself, or darker, until it stands out from white; in the dark, what stands out as much there.
function legible(colour, theme, least = 3) {
  const start = /^#[0-9a-f]{6}$/i.test(colour) ? colour : "#767676"
  let now = start
  for (let share = 0; contrast(now, GROUNDS.light) < least; share += 0.05) now = mixed(start, "#000000", share)
  return theme === "dark" ? inTheDark(now) : now
}

// A colour of the same hue that has to the dark ground the contrast that this one has to white. So any two colours
// keep the contrast between them as well: a word on its box, a mark on the grid. White becomes the ground itself.
const twins = new Map()
function inTheDark(colour) {
  if (!twins.has(colour)) {
    const grey = new Set(channels(colour)).size === 1
    const shade = (light) => (grey ? mixed(GROUNDS.dark, "#ffffff", light) : atLightness(colour, light))
    const wanted = contrast(colour, GROUNDS.light) * (luminance(GROUNDS.dark) + 0.05)
    let [low, high] = [0, 1]
    for (let step = 0; step < 16; step++) {
      const middle = (low + high) / 2
      if (luminance(shade(middle)) + 0.05 < wanted) low = middle
      else high = middle
    }
    twins.set(colour, shade(high))
  }
  return twins.get(colour)
}

// The colour at another lightness of HSL, from 0 to 1.
function atLightness(colour, lightness) {
  const rgb = channels(colour).map((v) => v / 255)
  const own = (Math.min(...rgb) + Math.max(...rgb)) / 2
  const room = (1 - Math.abs(2 * lightness - 1)) / (1 - Math.abs(2 * own - 1) || 1)
  return hexOf(rgb.map((v) => 255 * Math.min(1, Math.max(0, lightness + (v - own) * room))))
}
