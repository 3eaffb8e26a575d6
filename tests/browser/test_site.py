"""The static site in a real browser, from disk, with the network cut off: on a screen, a telephone and paper."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import nbformat
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from lntutor import figures, lesson
from lntutor.lesson import ledger
from lntutor.lesson import run_notebook as lessons
from lntutor.lesson.exercises import check
from lntutor.page import lecture_mode, live
from lntutor.page.document import render
from lntutor.page.kit.panel import Panel
from lntutor.page.playground.page import page as playground_page
from lntutor.publish import server, site
from lntutor.publish.site import pages
from tests.browser.jupyter import HERE, SECONDS

NOTEBOOKS = sorted((Path(site.ROOT) / "notebooks").glob("*.ipynb"))
SERIOUS = {"serious", "critical"}
MOVING = """() => [...document.querySelectorAll('body, body *')].filter(node => {
    const look = getComputedStyle(node)
    const long = times => times.split(', ').some(time => parseFloat(time) > 0)
    return (look.animationName !== 'none' && long(look.animationDuration)) || long(look.transitionDuration)
}).map(node => node.className?.baseVal ?? node.className)"""  # what moves by itself, or glides


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with its start page, playground, ledger and guides; tests put lessons beside them."""
    out = tmp_path_factory.mktemp("site") / "site"
    texts = {"playground.html": playground_page([site.ALL]), "ledger.html": site.ledger_page()}
    for name, page in site.addresses().items():
        if name in site.GUIDES:
            texts[page] = site.guide_page(lessons.FOLDER / name)
    texts["index.html"] = site.start_page([*texts, *(f"{path.stem}.html" for path in NOTEBOOKS)])
    texts["claims.html"] = ledger.page()
    texts["door.html"] = render(server.TEMPLATES / "door.html")
    texts["error.html"] = render(server.TEMPLATES / "error.html", status_code=503, message="No memory is left.")
    texts["small.html"] = small_lesson()
    site.put(out, {name: text.encode() for name, text in texts.items()})
    return out


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page without a network; the test fails if it asks for anything that is not on disk, or complains."""
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(f"uncaught: {error}"))
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on(
        "request",
        lambda r: (
            None if r.url.startswith(("file:", "data:", "blob:")) else complaints.append(f"left the disk: {r.url}")
        ),
    )
    yield page
    context.close()
    assert not complaints


def address(folder: Path, name: str) -> str:
    return (folder / name).as_uri()


def open_folds(page: Page) -> None:
    """Show what is folded: a figure in there is drawn when it comes into view."""
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")


def violations(page: Page, *beside: str) -> list[tuple[str, str]]:
    """What axe-core finds that keeps somebody out, `beside` these elements; (rule, first place)."""
    inside = {"exclude": [".main-svg", *beside]}  # the parts of a picture, hidden from readers; thousands of them
    options = {"preload": False, "resultTypes": ["violations"]}  # a list of all that is in order takes axe far longer
    found = Axe().run(page, context=inside, options=options).response["violations"]
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in SERIOUS]


# Lessons and guides --------------------------------------------------------------------------------------------


@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lesson_reads_as_a_page(page: Page, folder: Path, path: Path):
    """Oracle: the browser draws every formula and every figure; axe-core; no dollar sign or backslash in prose.

    Lessons with odd numbers are read on a telephone.
    """
    html = site.lesson_page(path.stem, lessons.run(path))
    (folder / f"{path.stem}.html").write_text(html, encoding="utf-8")
    page.set_viewport_size({"width": 390 if int(path.stem[:2]) % 2 else 1280, "height": 900})
    page.goto(address(folder, f"{path.stem}.html"))
    open_folds(page)
    figures = page.locator("figure.lntutor-static")
    assert figures.count() == html.count('<figure class="lntutor-static"') >= 3
    for i in range(figures.count()):
        figures.nth(i).scroll_into_view_if_needed()
        figures.nth(i).locator(".main-svg").first.wait_for(timeout=30 * SECONDS)
    assert page.locator(".math").count() == page.locator(".math math").count()
    assert page.locator(".temml-error, merror").count() == 0
    prose = page.evaluate(
        """() => [...document.querySelectorAll('section')].map(one => {
            const copy = one.cloneNode(true)
            copy.querySelectorAll('code, pre, .math').forEach(part => part.remove())
            return copy.textContent
        })"""
    )
    for text in prose:
        assert "$" not in text, text
        assert "\\" not in text, text
    alike = () if path == NOTEBOOKS[0] else ("pre", "math")  # the same colours in every lesson, half of axe's time
    assert not violations(page, *alike)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=HERE / "screenshots" / f"site_{path.stem}.png")


@pytest.mark.timeout(900)
def test_a_lesson_can_be_enlarged_and_keeps_still(page: Page, folder: Path):
    """Oracle: the browser's own measure of width, axe-core and the computed times; 640 pixels are 1280 at 200 %."""
    path = NOTEBOOKS[0]
    (folder / "enlarged.html").write_text(site.lesson_page(path.stem, lessons.run(path)), encoding="utf-8")
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": 640, "height": 450})
    page.goto(address(folder, "enlarged.html"))
    open_folds(page)
    page.locator("figure.lntutor-static").first.scroll_into_view_if_needed()
    page.locator("figure.lntutor-static .main-svg").first.wait_for(timeout=30 * SECONDS)
    course = page.locator("figure.lntutor-static[aria-label^='Drawing of an encoder and a decoder']")
    course.scroll_into_view_if_needed()
    course.locator(".main-svg").first.wait_for(timeout=30 * SECONDS)
    assert course.locator(".main-svg").first.bounding_box()["width"] == 900  # it scrolls: its words need the room
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not violations(page)
    assert page.evaluate(MOVING) == []


OTHERS = ("index", "ledger", "claims", "teaching", "server", "playground", "door", "error")


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_other_pages_open_from_disk_fit_a_telephone_and_follow_the_theme(page: Page, folder: Path, name, width, theme):
    """Oracle: the browser's own measure of width and colour; axe-core, contrast and all; every link leads somewhere."""
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=theme)
    page.goto(address(folder, f"{name}.html"))
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for anchor in page.locator("a[href^='#']").evaluate_all(
        "links => links.map(link => decodeURIComponent(link.hash))"
    ):
        assert page.evaluate("name => document.getElementById(name) !== null", anchor[1:]), anchor
    assert (max(ground(page)) < 60) if theme == "dark" else (min(ground(page)) > 240)
    assert not violations(page)
    page.screenshot(path=HERE / "screenshots" / f"site_{name}_{width}.png")


def ground(page: Page) -> list[float]:
    """Red, green and blue of what the page stands on."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [float(number) for number in re.findall(r"[\d.]+", colour)[:3]]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_that_a_lesson_may_hold_stands_out_in_both_themes(
    page: Page, folder: Path, theme: Literal["light", "dark"]
):
    """Oracle: axe-core's contrast of text on its ground, with every fold open."""
    page.emulate_media(color_scheme=theme)
    page.goto(address(folder, "small.html"))
    open_folds(page)
    page.locator("figure.lntutor-static .main-svg").first.wait_for(timeout=30 * SECONDS)
    assert not violations(page)


# On a telephone ------------------------------------------------------------------------------------------------


def test_the_ledger_is_a_table_on_a_screen_and_cards_on_a_telephone(page: Page, folder: Path):
    """Oracle: the browser's boxes: six columns beside one another, or all that a row says below its claim."""
    row = """() => [...document.querySelector('.lntutor-ledger tbody tr').children]
        .map(cell => cell.getBoundingClientRect().toJSON())"""
    page.goto(address(folder, "ledger.html"))
    cells = page.evaluate(row)
    assert len(cells) == len({cell["left"] for cell in cells}) == 6
    assert len({cell["top"] for cell in cells}) == 1
    page.set_viewport_size({"width": 390, "height": 844})
    cells = page.evaluate(row)
    assert len({cell["left"] for cell in cells}) == 1
    assert [cell["top"] for cell in cells] == sorted(cell["top"] for cell in cells)
    assert min(cell["width"] for cell in cells) > 300
    table = page.locator(".lntutor-ledger table").first
    said = "cells => cells.slice(0, 5).map(cell => getComputedStyle(cell, '::before').content)"
    names = table.locator("td").evaluate_all(said)
    heads = table.locator("thead th").all_text_contents()
    assert names == [f'"{head}: "' for head in heads[1:]]


@pytest.mark.parametrize(("width", "opened"), [(1280, True), (390, False)])
def test_what_is_on_the_page_is_listed_and_folded_on_a_telephone(page: Page, folder: Path, width: int, opened: bool):
    """Oracle: the headings of the page; a page without headings has no list."""
    page.set_viewport_size({"width": width, "height": 844})
    for name in ("ledger", "small"):
        page.goto(address(folder, f"{name}.html"))
        contents = page.locator("nav.contents")
        assert contents.locator("a").all_text_contents() == page.locator("main h2").all_text_contents()
        assert len(contents.locator("a").all()) >= 3
        assert contents.locator("a").first.is_visible() is opened
    assert "On this page" not in pages.page("<h1>Alone</h1>", [])


def test_nothing_moves_a_page_sideways_on_a_telephone(page: Page, folder: Path):
    """Oracle: the browser's measure; a drawing, a wide table and a long line of code scroll within themselves."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address(folder, "small.html"))
    open_folds(page)
    page.locator("figure.lntutor-static .main-svg").first.wait_for(timeout=30 * SECONDS)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    scrolling = page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter(node => node.scrollWidth > node.clientWidth + 1
            && getComputedStyle(node).overflowX === 'auto').map(node => node.tagName.toLowerCase())"""
    )
    assert {"figure", "div", "pre"} <= set(scrolling)


def test_type_for_the_back_row_is_not_for_a_telephone(page: Page, folder: Path):
    """Oracle: computed sizes of the same explorer, question and figure in a window of 1280 and of 390 pixels."""
    figure = live.static_twin(figures.gradient_by_layer(GRADIENTS, lecture=True))
    styles = f"<style>{Panel._css}{lecture_mode.CSS}</style>"
    widgets = [f'<div class="{name} lnk lntutor-lecture">x</div>' for name in ("lntutor-explorer", "lntutor-ask")]
    html = pages.page(f"<h1>Large</h1>{styles}{''.join(widgets)}{figure}", [])
    (folder / "large.html").write_text(html, encoding="utf-8")
    sizes = """() => [...document.querySelectorAll('.lntutor-lecture, .main-svg .xtick text')]
        .map(node => parseFloat(getComputedStyle(node).fontSize))"""
    for width, least, most in ((1280, 18, 24), (390, 11, 16)):
        page.set_viewport_size({"width": width, "height": 844})
        page.goto(address(folder, "large.html"))
        page.locator("figure.lntutor-static .main-svg").first.wait_for(timeout=30 * SECONDS)
        found = page.evaluate(sizes)
        assert len(found) > 3
        assert least <= min(found) <= max(found) <= most, width


# On paper ------------------------------------------------------------------------------------------------------

ASKED = ["Predict. What happens to it?", "it grows", "it stays", "Exercise 1", "return ...", "Text of the lesson"]
TOLD = [
    "● measured",
    "The skip is why",
    "0.5432",
    "3.2500",
    "Look closer",
    "return 2 * x",
    "It was found",
    "large d pushes the softmax",
]
WORKED = ["Not attempted", "Skip to the text", "without answers", "On this page", "import lntutor", "this is live"]
# In the page: what stands on paper when the browser lays it out, how far it goes beyond the edge, the room to write.
ON_PAPER = """() => {
    window.papers = []
    matchMedia('print').addEventListener('change', ({ matches }) => matches && papers.push({
        text: document.body.innerText,
        over: Math.max(...[...document.querySelectorAll('main svg, main table, main pre')].map(
            node => node.getBoundingClientRect().right - document.querySelector('main').getBoundingClientRect().right)),
        pictures: [...document.querySelectorAll('figure')].filter(node => node.checkVisibility()).length,
        drawn: [...document.querySelectorAll('figure:has(.main-svg)')].filter(node => node.checkVisibility()).length,
        room: [...document.querySelectorAll('.lntutor-ask')].map(
            node => parseFloat(getComputedStyle(node, '::after').height) || 0),
        light: getComputedStyle(document.body).backgroundColor,
    }))
}"""


def test_a_lesson_prints_as_a_handout_without_answers_and_with_them_by_its_button(page: Page, folder: Path):
    """Oracle: the page as Chromium lays it out for a PDF, in words and boxes; afterwards it stands as before."""
    page.emulate_media(color_scheme="dark")
    page.goto(address(folder, "small.html"))
    page.locator(".lntutor-ask details").first.evaluate("fold => { fold.open = true }")  # the reader has looked it up
    page.locator("figure.lntutor-static .main-svg").first.wait_for(timeout=30 * SECONDS)
    page.evaluate(ON_PAPER)
    before = page.locator("details[open]").count()
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert page.locator("details[open]").count() == before
    page.evaluate("window.print = () => { window.asked = true }")  # headless, it would do nothing
    page.get_by_role("button", name="with answers", exact=True).click()
    page.wait_for_function("window.asked")
    page.pdf(format="A4")
    page.pdf(format="Letter")  # the button was for once
    handout, answered, again = page.evaluate("papers")
    assert handout == again
    for paper in (handout, answered):
        assert paper["light"] == "rgb(255, 255, 255)"
        assert paper["over"] <= 1
        assert paper["drawn"] == paper["pictures"]
        for words in ASKED:
            assert words in paper["text"], words
        for words in WORKED:
            assert words not in paper["text"], words
    for words in TOLD:
        assert words not in handout["text"], words
        assert words in answered["text"], words
    assert (handout["pictures"], answered["pictures"]) == (2, 3)
    assert min(handout["room"][:2]) > 60  # pixels: half an inch and more below each question
    assert not any(answered["room"])


GRADIENTS = pd.DataFrame(
    [
        {"placement": "post", "depth": 6, "width": 32, "side": side, "layer": layer, "block": "ffn", "parameter": "W_2",
         "seed": 0, "value": layer / 3}
        for side in ("encoder", "decoder") for layer in range(1, 7)
    ]
)  # fmt: skip


def small_lesson() -> str:
    """A page with one of each that a lesson may hold; no cell of it was run."""
    lesson.reveal_all()
    try:
        asked = lesson.Predict(
            "site.small", "What happens to it?", choices=["it grows", "it stays"], because="The skip is why.",
            reveal=lambda: (figures.gradient_by_layer(GRADIENTS), "it stays"),
        ).static()  # fmt: skip
        quiz = lesson.readiness().static()
    finally:
        lesson.reveal_all(False)
    table = pd.DataFrame({f"column {i}": [3.25] for i in range(12)}).style.format(precision=4).to_html()
    exercise = "def twice(x):\n    return ...\n\n\n" + 'check("softmax_backward", twice)'
    folds = [f"<details><summary>{name}</summary>\n\n{text}\n\n</details>" for name, text in
             (("Hint", "Look closer."), ("Solution", "```python\nreturn 2 * x\n```"))]  # fmt: skip
    return pages.notebook_page(
        nbformat.v4.new_notebook(
            cells=[
                md("# Small\n\n## Questions\n\nText of the lesson, $x^2$ and `code`."),
                md("| a | b |\n|---|---|\n| 1 | 2 |"),
                code("import lntutor as ln  # " + 40 * "long ", live.static_twin(figures.course_map())),
                code("Predict(…)", asked),
                code("print(…)", text="0.5432 over all " + 30 * "and more "),
                code("table", table),
                code("TheoremExplorer()", live.static_twin(figures.gradient_by_layer(GRADIENTS))),
                code("readiness()", quiz),
                md("## Exercises\n\n### Exercise 1\n\nTwice as much."),
                code(exercise, check("softmax_backward", ...)._repr_html_()),
                *map(md, folds),
                md("## What we found"),
                code("show_ledger('01')", lesson.show_ledger("01")._repr_html_()),
                md("It was found."),
                md("## Further reading\n\nMore."),
            ]
        ),
        {},
        [site.ALL],
    )


def md(text: str):
    return nbformat.v4.new_markdown_cell(text)


def code(source: str, html: str = "", text: str = ""):
    cell = nbformat.v4.new_code_cell(source)
    cell.outputs = [
        nbformat.v4.new_output("stream", name="stdout", text=text)
        if text
        else nbformat.v4.new_output("display_data", data={"text/html": html})
    ]
    return cell
