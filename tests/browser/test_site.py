"""The static site in a real browser, from disk, with the network cut off."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

import lntutor as ln
from lntutor import figures
from lntutor.lesson import run_notebook as lessons
from lntutor.publish import site
from lntutor.publish.site import explorer
from tests.browser.jupyter import HERE, SECONDS

NOTEBOOKS = sorted((Path(site.ROOT) / "notebooks").glob("*.ipynb"))
GRID = {"placements": ("post", "pre", "none", "no_residual"), "widths": (32, 64), "depths": (1, 2, 3, 6, 32)}
SERIOUS = {"serious", "critical"}
MOVING = """() => [...document.querySelectorAll('body, body *')].filter(node => {
    const look = getComputedStyle(node)
    const long = times => times.split(', ').some(time => parseFloat(time) > 0)
    return (look.animationName !== 'none' && long(look.animationDuration)) || long(look.transitionDuration)
}).map(node => node.className?.baseVal ?? node.className)"""  # what moves by itself, or glides
DATA = """() => document.getElementById('plot').data.map(({ type, mode, name, x, y, error_x, error_y, xaxis }) =>
    ({ type, mode, name, x, y, bar: (error_x ?? error_y)?.array, xaxis: xaxis ?? 'x' }))"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with its start page, ledger, guides and explorer; tests put lessons beside them."""
    out = tmp_path_factory.mktemp("site") / "site"
    texts = {
        "gradients.html": explorer.page('<a href="index.html">All pages</a>', **GRID),
        "ledger.html": site.ledger_page(),
    }
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


def address(folder: Path, name: str, view: str = "") -> str:
    return (folder / name).as_uri() + view


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


@pytest.mark.parametrize("name", ["index.html", "ledger.html", "teaching.html", "server.html"])
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


# The gradient explorer -----------------------------------------------------------------------------------------


def opened(page: Page, folder: Path, view: str = "") -> Page:
    """The explorer's page with its picture drawn."""
    page.goto("about:blank")
    page.goto(address(folder, "gradients.html", view))
    page.locator("#plot .main-svg").first.wait_for(timeout=30 * SECONDS)
    return page


def measured_and_predicted(placements, depth: int, width: int, view: str, parameter: str) -> tuple:
    """The tables of the live explorer for the same view."""
    tables = []
    for key in placements:
        if view == "layer":
            cfg = ln.ModelConfig(key, depth=depth, width=width, ffn=4 * width)
            tables.append((ln.gradient_norms(cfg), ln.predict(cfg, "gradient")))
        else:
            widths = [w for w in GRID["widths"] if w <= width] if view == "width" else [width]
            depths = [d for d in GRID["depths"] if d <= depth] if view == "depth" else [depth]
            for one in widths:
                cfg = ln.ModelConfig(key, depth=depth, width=one, ffn=4 * one)
                last = {"parameter": parameter, "seeds": range(3)}
                predicted = ln.predict(cfg, "last_layer", depths=depths, **last)
                tables.append((ln.last_layer_gradients(cfg, depths, **last), predicted))
    return tuple(pd.concat(part, ignore_index=True) for part in zip(*tables, strict=True))


def wanted(placements, depth, width, view, parameter, theory=True):
    """The figure of lntutor.figures for a view."""
    measured, predicted = measured_and_predicted(placements, depth, width, view, parameter)
    draw = {"layer": figures.gradient_by_layer, "depth": figures.gradient_by_depth, "width": figures.gradient_by_width}
    more = {"depth": depth} if view == "depth" else {}
    return draw[view](measured, predicted if theory else None, parameter=parameter, **more)


@pytest.mark.parametrize(
    ("placements", "depth", "width", "view", "parameter", "theory"),
    [
        (("post", "pre"), 6, 64, "layer", "W_2", True),
        (("post", "pre", "none"), 3, 32, "layer", "W_V", False),
        (("pre",), 1, 64, "layer", "W_Q", True),
        (("post", "no_residual"), 6, 64, "layer", "W_2", False),
        (("post", "pre"), 6, 64, "depth", "W_2", True),
        (("post",), 32, 32, "depth", "W_O", True),
        (("post", "pre"), 2, 64, "width", "W_1", True),
    ],
)
def test_it_draws_what_the_live_explorer_draws(page, folder, placements, depth, width, view, parameter, theory):
    """Oracle: the figure that lntutor.figures makes of fresh measurements: title, names, marks, bars and lines."""
    view_of = f"#view={depth},{width},{'+'.join(placements)},{view},{parameter}" + ("" if theory else "&theory=off")
    opened(page, folder, view_of)
    figure = wanted(placements, depth, width, view, parameter, theory)
    drawn = {(t["name"], t["mode"], t["xaxis"]): t for t in page.evaluate(DATA)}
    expected = {(t.name, t.mode, t.xaxis): t for t in figure.data}
    assert drawn.keys() == expected.keys()
    for name, trace in expected.items():
        for axis in "xy":
            got = np.array(drawn[name][axis], float)
            np.testing.assert_allclose(got, np.array(trace[axis], float), rtol=2e-3, err_msg=str(name))
        bar = trace.error_x if trace.error_x.array is not None else trace.error_y
        if bar.array is not None:
            size = np.max(np.array(trace.x if trace.error_x.array is not None else trace.y, float))
            np.testing.assert_allclose(drawn[name]["bar"], bar.array, rtol=2e-2, atol=2e-3 * size)
    title = page.evaluate("document.getElementById('plot').layout.title.text")
    assert title.replace("<br>", " ") == figure.layout.title.text.replace("<br>", " ")


def test_a_first_block_with_one_layer_above_round_off_has_a_title(page: Page, folder: Path):
    """Oracle: the sentence written by hand; the next block has two layers, so the picture has a top and a bottom."""
    opened(page, folder)
    title, _ = page.evaluate(
        """() => layerFinding([["self", [null, 3]], ["cross", [1, 2]]].map(([block, mean]) =>
        ({ placement: "post", side: "decoder", block, at: [1, 2], mean, low: mean, high: mean, theory: mean })))"""
    )
    assert title == "Decoder self-attention, highest layer over lowest: Post-LN has one layer above round-off"


def test_keys_move_the_picture_and_the_address_brings_it_back(page: Page, folder: Path):
    """Oracle: what is drawn after the keys equals what is drawn from the copied link in a fresh page."""
    opened(page, folder)
    assert page.locator("output").all_text_contents() == ["6", "64"]
    page.locator("[name=depth]").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => document.querySelector('output').value === '3'")
    page.locator("#pin").press("Enter")
    page.locator("[name=depth]").press("End")
    page.wait_for_function("() => document.getElementById('plot').data.some(t => Math.max(...t.y) === 32)")
    page.get_by_label("no LN").check()
    page.locator("#copy").click()
    link, before = page.locator("#link").input_value(), page.evaluate(DATA)
    assert any(trace["name"].startswith("depth 3") for trace in before)
    page.goto("about:blank")
    page.goto(link)
    page.locator("#plot .main-svg").first.wait_for()
    assert page.evaluate(DATA) == before
    page.screenshot(path=HERE / "screenshots" / "site_gradients.png")


def test_theory_table_reset_and_an_empty_choice(page: Page, folder: Path):
    """Oracle: what stands in the page; nothing vanishes in silence."""
    opened(page, folder, "#view=6,64,post+pre,layer,W_2")
    page.get_by_label("Theory").uncheck()
    page.wait_for_function("() => document.getElementById('plot').data.every(t => t.name !== 'theory')")
    page.locator("#show").click()
    rows = page.locator("#table tbody tr")
    assert rows.count() == 2 * 2 * 6
    first = dict(
        zip(page.locator("#table th").all_text_contents(), rows.first.locator("td").all_text_contents(), strict=True)
    )
    cfg = ln.ModelConfig("post", depth=6, width=64, ffn=256)
    table = ln.gradient_norms(cfg).query("side == 'encoder' and layer == 1 and parameter == 'W_2'")
    assert float(first["mean"]) == pytest.approx(table["value"].mean(), rel=5e-3)
    for name in ("Post-LN", "Pre-LN"):
        page.get_by_label(name, exact=True).uncheck()
    assert "Pick at least one LN position" in page.locator("#status").inner_text()
    assert page.locator("#plot .main-svg").count()
    page.locator("#reset").click()
    page.wait_for_function("() => /top layer/.test(document.getElementById('status').textContent)")
    assert page.get_by_label("Post-LN", exact=True).is_checked()


def test_an_address_that_makes_no_sense_is_said_and_the_page_works(page: Page, folder: Path):
    """Oracle: a sentence that names what is wrong; the picture of the start."""
    opened(page, folder, "#view=7,abc,nonsense,sideways,W_9&pin=%E0,<b>")
    said = page.locator("#status").inner_text()
    for name in ("depth", "width", "view", "parameter"):
        assert name in said
    assert page.locator("#status b").count() == 0


def test_everyone_can_use_it(page: Page, folder: Path):
    """Oracle: axe-core; the picture in words; computed times of motion; no sideways scroll on a telephone."""
    opened(page, folder)
    assert not violations(page)
    alt = page.locator("#figure").get_attribute("aria-label")
    assert re.search(r"Post-LN decoder: .* in layer 1", alt)
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(MOVING) == []
    for width in (400, 640):  # 640 is 1280 at 200 %
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"() => document.getElementById('plot')._fullLayout.width < {width}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert not violations(page)


def test_files_can_be_saved(page: Page, folder: Path, tmp_path: Path):
    """Oracle: pandas reads the CSV; the PNG begins as one does."""
    opened(page, folder, "#view=6,64,post,depth,W_2")
    with page.expect_download() as csv:
        page.locator("#csv").click()
    csv.value.save_as(tmp_path / "table.csv")
    table = pd.read_csv(tmp_path / "table.csv")
    assert list(table["depth"]) == [1, 2, 3, 6]
    assert (table["low"] <= table["mean"]).all()
    assert (table["mean"] <= table["high"]).all()
    with page.expect_download() as png:
        page.locator("#png").click()
    png.value.save_as(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
