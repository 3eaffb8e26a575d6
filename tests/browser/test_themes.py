"""Figures in both themes: what plotly draws of every kind of figure stands out from what lies beneath it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from plotly.offline import get_plotlyjs

from lntutor.page.live import FIT, HEIGHT, encode
from tests.figures.registry import EVERY

DRAW = """async ([picture, theme, width]) => {
    const { data, layout } = fitted(picture, width, 0, theme)
    const plot = document.querySelector("#plot")
    await Plotly.newPlot(plot, data, layout, settings(Plotly, () => {}))
    finishPlot(plot)
}"""
# What lies beneath is what the page paints earlier and is filled there, up to the paper; cells of a heat map are asked
# for their pixels. WCAG's formula stands here once more.
SEEN = """async () => {
    const plot = document.querySelector("#plot")
    const rgba = (text) => {
        const [r, g, b, a = 1] = (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number)
        return [r, g, b, text === "none" ? 0 : a]
    }
    const over = ([r, g, b, a], below) => [r, g, b].map((v, i) => v * a + below[i] * (1 - a))
    const luminance = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0)
    const ratio = (a, b) => {
        const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y)
        return (high + 0.05) / (low + 0.05)
    }
    const paint = (node, kind) => {
        const look = getComputedStyle(node)
        const [r, g, b, a] = rgba(look[kind])
        let opacity = a * look[`${kind}Opacity`]
        for (let one = node; one !== plot; one = one.parentNode) opacity *= getComputedStyle(one).opacity
        return [r, g, b, opacity]
    }
    const images = new Map()
    for (const image of plot.querySelectorAll("image")) {
        const loaded = new Image()
        loaded.src = image.getAttribute("href") ?? image.getAttribute("xlink:href")
        await loaded.decode()
        const { width, height } = loaded
        const context = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d")
        context.drawImage(loaded, 0, 0)
        images.set(image, (x, y) => {
            const box = image.getBoundingClientRect()
            const at = [Math.floor(width * (x - box.left) / box.width), Math.floor(height * (y - box.top) / box.height)]
            return [...context.getImageData(...at, 1, 1).data].map((v, i) => (i === 3 ? v / 255 : v))
        })
    }
    const filled = [...plot.querySelectorAll("path, rect, image")].filter((node) =>
        !node.closest("defs, .drag, .draglayer, .gridlayer") && node.getBoundingClientRect().width &&
        (images.has(node) || paint(node, "fill")[3]))
    const paper = rgba(getComputedStyle(plot.querySelector(".main-svg")).backgroundColor).slice(0, 3)
    const beneath = (node) => {
        const { left, right, top, bottom } = node.getBoundingClientRect()
        const [x, y] = [(left + right) / 2, (top + bottom) / 2]
        const holds = (box) => box.left <= x && x <= box.right && box.top <= y && y <= box.bottom
        const before = filled.filter((one) => one.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING
            && !one.contains(node) && (node.closest(".scatterlayer") || !one.closest(".scatterlayer")) && holds(one.getBoundingClientRect()))
        return before.reduce((ground, one) => over(images.get(one)?.(x, y) ?? paint(one, "fill"), ground), paper)
    }
    const found = []
    const note = (what, node, ...kinds) => {
        const ground = what === "mark" ? paper : beneath(node)
        const paints = kinds.map((kind) => paint(node, kind))
        if (what === "mark" && paints.every((colour) => colour[3] < 0.9)) return // a pinned memory, a seed, a band
        const best = Math.max(...paints.map((colour) => ratio(over(colour, ground), ground)))
        found.push([what, node.textContent || node.getAttribute("class") || node.closest("[class]").getAttribute("class"), best])
    }
    const there = (node) => node.getBoundingClientRect().width + node.getBoundingClientRect().height > 0
    for (const node of plot.querySelectorAll("text")) if (node.textContent.trim() && there(node)) note("text", node, "fill")
    const marks = ".scatterlayer :is(.js-line, .point, .xerror, .yerror), .barlayer path"
    for (const node of plot.querySelectorAll(marks)) if (there(node)) note("mark", node, "fill", "stroke")
    return found
}"""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """A page with plotly.js and what prepares figures for it; it must not complain."""
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content('<!DOCTYPE html><html><body><div id="plot"></div></body></html>')
    page.add_script_tag(content=get_plotlyjs())
    page.add_script_tag(content=FIT)
    yield page
    page.close()
    assert not complaints


def pictures(lecture: bool = False) -> dict[str, str]:
    """Every kind of figure, as a live plot gets it."""
    figures = {name: make(lecture=lecture) for name, make in EVERY.items()}
    return {name: encode(figure, "", figure.layout.height or HEIGHT) for name, figure in figures.items()}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_and_marks_of_every_figure_stand_out_in_both_themes(page: Page, theme: str):
    """Oracle: WCAG's contrast of the colours that the browser has for them, 4.5:1 for words and 3:1 for marks."""
    bad = {}
    for name, picture in pictures().items():
        page.evaluate(DRAW, [picture, theme, 760])
        for what, text, ratio in page.evaluate(SEEN):
            if not ratio >= (4.5 if what == "text" else 3):
                bad.setdefault(name, set()).add((what, text, round(ratio, 2)))
    assert not bad
