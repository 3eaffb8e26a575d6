"""Light and dark: every kind of figure is legible in both, and pages follow their theme at once."""

import base64
from collections.abc import Iterator
from functools import cache

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page
from plotly.offline import get_plotlyjs

from lntutor import figures
from lntutor.figures.style import STYLES
from lntutor.page.live import FIT, HEIGHT, encode, static_twin
from lntutor.publish.site import put
from lntutor.publish.site.pages import page as site_page
from tests.figures.registry import EVERY, gradients, luminance

DRAW = """async ([picture, theme, width]) => {
    await drawThemed(Plotly, document.querySelector("#plot"), fitted(picture, width), theme)
}"""
# What lies beneath is what the page paints earlier and is filled there, up to the paper; cells of a heat map are asked
# for their pixels. WCAG's formula stands here once more. Faint by intent, and left out: pinned curves, seeds, bands.
SEEN = """async () => {
    const plot = document.querySelector("#plot")
    const rgba = (text) => {
        const [r, g, b, a = 1] = (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number)
        return [r, g, b, a]
    }
    const over = ([r, g, b, a], below) => [r, g, b].map((v, i) => v * a + below[i] * (1 - a))
    const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4)
    const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
    const ratio = (a, b) => {
        const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y)
        return (high + 0.05) / (low + 0.05)
    }
    const opacities = new Map([[plot, 1]])
    const opacityOf = (node) => {
        if (!opacities.has(node)) opacities.set(node, getComputedStyle(node).opacity * opacityOf(node.parentNode))
        return opacities.get(node)
    }
    const paint = (node, kind) => {
        const look = getComputedStyle(node)
        const [r, g, b, a] = rgba(look[kind])
        return [r, g, b, a * look[`${kind}Opacity`] * opacityOf(node)]
    }
    const boxes = new Map()
    const box = (node) => boxes.get(node) ?? boxes.set(node, node.getBoundingClientRect()).get(node)
    const images = new Map()
    for (const image of plot.querySelectorAll("image")) {
        const loaded = Object.assign(new Image(), { src: image.href.baseVal })
        await loaded.decode()
        const { width, height } = loaded
        const context = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d")
        context.drawImage(loaded, 0, 0)
        images.set(image, (x, y) => {
            const { left, top, width: wide, height: high } = box(image)
            const at = [Math.floor(width * (x - left) / wide), Math.floor(height * (y - top) / high)]
            return [...context.getImageData(...at, 1, 1).data].map((v, i) => (i === 3 ? v / 255 : v))
        })
    }
    const filled = [...plot.querySelectorAll("path, rect, image")].filter((node) =>
        !node.closest("defs, .drag, .draglayer, .gridlayer") && box(node).width &&
        (images.has(node) || paint(node, "fill")[3]))
    const paper = rgba(getComputedStyle(plot.querySelector(".main-svg")).backgroundColor).slice(0, 3)
    const beneath = (node) => {
        const [x, y] = [(box(node).left + box(node).right) / 2, (box(node).top + box(node).bottom) / 2]
        const holds = ({ left, right, top, bottom }) => left <= x && x <= right && top <= y && y <= bottom
        const before = filled.filter((one) => holds(box(one)) && !one.contains(node)
            && one.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING
            && (node.closest(".scatterlayer") || !one.closest(".scatterlayer")))
        return before.reduce((ground, one) => over(images.get(one)?.(x, y) ?? paint(one, "fill"), ground), paper)
    }
    const seen = (node) => box(node).width || box(node).height
    const there = (selector) => [...plot.querySelectorAll(selector)].filter(seen)
    const words = there("text").filter((node) => node.textContent.trim()).map((node) => {
        const ground = beneath(node)
        return [node.textContent, ratio(over(paint(node, "fill"), ground), ground)]
    })
    const marks = there(".scatterlayer :is(.js-line, .point, .xerror, .yerror), .barlayer path").flatMap((node) => {
        const paints = [paint(node, "fill"), paint(node, "stroke")].filter((colour) => colour[3] > 0.9)
        const best = Math.max(...paints.map((colour) => ratio(colour, paper)))
        return paints.length ? [[node.getAttribute("class"), best]] : []
    })
    return [words, marks]
}"""
BARE = """() => {
    const box = (node) => node.getBoundingClientRect()
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
    const buttons = [...document.querySelectorAll("#plot .modebar-btn")].map(box)
    const inside = buttons.every((one) => one.right <= box(document.querySelector("#plot")).right + 1)
    const words = [...document.querySelectorAll("#plot :is(.gtitle, .gtitle-subtitle)")].map(box)
    return [buttons.length, inside, words.length, words.filter((word) => buttons.some((one) => meet(one, word))).length]
}"""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    """A page with plotly.js and what prepares figures for it; it must not complain."""
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content('<!DOCTYPE html><html><body><div id="plot"></div></body></html>')
    page.add_script_tag(content=get_plotlyjs())
    page.add_script_tag(content=FIT)
    yield page
    page.close()
    assert not complaints


@cache
def pictures() -> dict[str, str]:
    """Every kind of figure, as a live plot gets it."""
    made = {name: make(lecture=False) for name, make in EVERY.items()}
    return {name: encode(figure, "", figure.layout.height or HEIGHT) for name, figure in made.items()}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_and_marks_of_every_figure_stand_out_in_both_themes(page: Page, theme: str):
    """Oracle: WCAG's contrast of the colours that the browser has for them, 4.5:1 for words and 3:1 for marks."""
    faint = {}
    for name, picture in pictures().items():
        page.evaluate(DRAW, [picture, theme, 760])
        words, marks = page.evaluate(SEEN)
        assert words
        found = [(text, ratio) for text, ratio in words if not ratio >= 4.5]
        found += [(kind, ratio) for kind, ratio in marks if not ratio >= 3]
        faint |= {name: found} if found else {}
    assert not faint


def test_two_colours_have_the_contrast_in_the_dark_that_they_have_on_paper(page: Page):
    """Oracle: WCAG's luminance in Python; two steps of 255 may be off, and nothing is lighter than white."""
    colours = ["#FFFFFF", *(colour for colour, *_ in STYLES.values()), "#CFE3F2", "#FBDCC4", "#E4E4E4", "#555555"]
    ground, *dark = page.evaluate("colours => colours.map(inTheDark)", colours)
    assert ground == page.evaluate("GROUNDS.dark")
    most = contrast("#FFFFFF", ground)
    for light, twin in zip(colours[1:], dark, strict=True):
        assert contrast(twin, ground) == pytest.approx(min(most, contrast(light, "#FFFFFF")), rel=0.03)
        assert page.evaluate("([one]) => legible(one, 'dark') === inTheDark(one)", [light]) == (
            contrast(light, "#FFFFFF") >= 3
        )
    assert page.evaluate("['rgba(255, 255, 255, 0.8)', 'white', 'Viridis'].map(darkened)") == [
        "rgba(27,32,40,0.8)", ground, "Viridis",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [390, 1000, 1280])
def test_buttons_of_a_plot_cover_no_title(page: Page, width: int):
    """Oracle: the browser's boxes of the buttons, there whether shown or not, and of titles."""
    for name in ("gradient_by_layer", "block_map", "overview with theory", "training_curves", "attention_map"):
        page.evaluate(DRAW, [pictures()[name], "light", width])
        buttons, inside, words, covered = page.evaluate(BARE)
        assert buttons >= 5
        assert inside
        assert words
        assert not covered, name


def test_a_picture_that_is_saved_in_the_dark_is_light_and_has_the_zoom_and_the_hidden_traces(page: Page):
    """Oracle: the figure that was given; the range and the trace that plotly.js was asked to show and to hide."""
    page.evaluate(DRAW, [pictures()["gradient_by_layer"], "dark", 760])
    visible, colour, ground, layout = page.evaluate("""async () => {
        const plot = document.querySelector("#plot")
        await Plotly.update(plot, { visible: "legendonly" }, { "xaxis.range": [0, 1] }, [0])
        let given
        await savePng({ toImage: async (figure) => ((given = figure), "data:,") }, plot, "figure.png")
        const shown = given.data.map((trace) => trace.visible ?? true)
        return [shown, given.data[0].marker.color, given.layout.template.layout.paper_bgcolor, given.layout]
    }""")
    light = EVERY["gradient_by_layer"](lecture=False)
    assert visible == ["legendonly", *[True] * (len(light.data) - 1)]
    assert (colour, ground) == (light.data[0].marker.color, "white")
    assert layout["xaxis"]["range"] == [0, 1]
    assert layout["width"] == 760


def contrast(one: str, other: str) -> float:
    """WCAG's ratio."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


# In pages ----------------------------------------------------------------------------------------------------------

LESSON = """\
from lntutor import lesson
from lntutor.lesson.claims import record, show_ledger

record("attention.variance", [63.1, 64.9, 66.0], verdict="holds", size="d = 64")
show_ledger("01")"""
CHECK = "lesson.check('attention', lambda q, k, v, mask=None: (q @ k.T).softmax(-1) @ v)"
GROUND = "getComputedStyle(document.querySelector('.js-plotly-plot .main-svg')).backgroundColor"
WHITE, DARK = "rgb(255, 255, 255)", "rgb(27, 32, 40)"
CORNER = """async (png) => {
    const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob())
    const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d")
    context.drawImage(bitmap, 0, 0)
    return [...context.getImageData(2, 2, 1, 1).data]
}"""


def faint_words(page: Page, *parts: str) -> list[str]:
    """Where axe-core finds words that do not stand out within these parts."""
    options = {"runOnly": ["color-contrast"], "preload": False, "resultTypes": ["violations"]}
    inside = {"include": [[part] for part in parts], "exclude": [".main-svg"]}
    found = Axe().run(page, context=inside, options=options).response["violations"]
    return [node["html"][:200] for one in found for node in one["nodes"]]


def wait_for_ground(page: Page, colour: str) -> None:
    """Wait until the first plot of the page is drawn on this."""
    page.wait_for_function(f"() => document.querySelector('.main-svg') && {GROUND} === '{colour}'", timeout=60_000)


def test_jupyterlabs_theme_reaches_plots_controls_questions_and_tables_at_once(in_lab):
    """Oracle: the ground of the plot, axe-core's contrast; a corner of the picture that is saved in the dark."""
    explorer = "from lntutor.explore import TheoremExplorer\n\nTheoremExplorer()"
    notebook = in_lab(explorer, LESSON, "lesson.readiness()", CHECK)
    page = notebook.page
    page.set_viewport_size({"width": 1280, "height": 2100})
    page.locator(".main-svg").first.wait_for(timeout=60_000)
    notebook.choose("Show or hide the table")
    page.locator(".lntutor-explorer td").first.wait_for()
    page.locator(".lnk-fold > summary").click()
    parts = (".lntutor-explorer", ".lntutor-ask", ".jp-RenderedHTML")
    for name, ground in (("Light", WHITE), ("Dark", DARK), ("Light", WHITE)):  # another test may have left it dark
        page.locator(".lm-MenuBar-item", has_text="Settings").first.click()
        page.locator(".lm-Menu-item", has_text="Theme").first.hover()
        page.locator(".lm-Menu-item", has_text=f"JupyterLab {name}").first.click()
        wait_for_ground(page, ground)
        page.wait_for_timeout(500)
        assert faint_words(page, *parts) == []
        notebook.screenshot(f"theme_lab_{name.lower()}")
        if ground == DARK:
            with page.expect_download() as waiting:
                notebook.choose("Save picture (PNG)")
            png = base64.b64encode(waiting.value.path().read_bytes()).decode()
            assert page.evaluate(CORNER, png) == [255, 255, 255, 255]


def test_a_page_of_the_site_draws_its_figures_in_the_systems_theme(page: Page, tmp_path):
    """Oracle: the ground of the figure, before and after the system's change, and while the page is printed."""
    figure = static_twin(figures.gradient_by_layer(gradients()))
    put(tmp_path / "site", {"one.html": site_page(figure, []).encode()})
    page.emulate_media(color_scheme="dark")
    page.goto((tmp_path / "site" / "one.html").as_uri())
    wait_for_ground(page, DARK)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    wait_for_ground(page, WHITE)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    wait_for_ground(page, DARK)
    page.emulate_media(color_scheme="light")
    wait_for_ground(page, WHITE)
