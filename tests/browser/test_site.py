"""The static site in a real browser, from disk, with the network cut off."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from lntutor.lesson import run_notebook as lessons
from lntutor.page.playground.page import page as playground_page
from lntutor.publish import site
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
    """Oracle: the browser draws every formula and every figure; axe-core; no dollar sign or backslash in prose."""
    html = site.lesson_page(path.stem, lessons.run(path))
    (folder / f"{path.stem}.html").write_text(html, encoding="utf-8")
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


@pytest.mark.parametrize("name", ["index.html", "ledger.html", "teaching.html", "server.html", "playground.html"])
@pytest.mark.parametrize("width", [1280, 400])
def test_other_pages_open_from_disk_and_fit_a_telephone(page: Page, folder: Path, name: str, width: int):
    """Oracle: the browser's own measure of width; axe-core; every link within the page leads somewhere."""
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(address(folder, name))
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for anchor in page.locator("a[href^='#']").evaluate_all(
        "links => links.map(link => decodeURIComponent(link.hash))"
    ):
        assert page.evaluate("name => document.getElementById(name) !== null", anchor[1:]), anchor
    assert not violations(page)
    page.screenshot(path=HERE / "screenshots" / f"site_{name[:-5]}_{width}.png")
