"""A lecture: JupyterLab as `python -m lntutor lab --lecture` starts it, presenting on a projector of 1280 × 720."""

from collections.abc import Iterator

import pytest

from tests.browser.jupyter import SECONDS, Notebook, Server, jupyterlab, project_command

pytest.importorskip("jupyterlab_slideshow", reason="slides need: pip install -r requirements-dev.txt")

SCREEN = {"width": 1280, "height": 720}
ON_SCREEN = ".jp-Deck .jp-Cell.jp-deck-mod-onscreen"
PRESENTING = "() => document.body.dataset.jpDeckMode === 'presenting'"
TOP = """() => {  // JupyterLab may scroll back to the cell that has run last
    document.querySelector('.jp-Notebook .jp-WindowedPanel-outer').scrollTo(0, 0)
    return document.querySelector('.jp-MarkdownCell h1')?.checkVisibility()
}"""
TYPE = "node => parseFloat(getComputedStyle(node).fontSize)"
HEIGHT = "cells => cells.reduce((sum, cell) => sum + cell.getBoundingClientRect().height, 0)"


@pytest.fixture(scope="module")
def lecture_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LNTUTOR_REVEAL", "1")
        with jupyterlab(tmp_path_factory.mktemp("home"), [*project_command(), "--lecture"]) as server:
            yield server


@pytest.fixture
def presented(notebook: Notebook, lecture_lab: Server) -> Notebook:
    """The first notebook, run without errors, at its title slide."""
    present(notebook, lecture_lab, "00_start_here")
    return notebook


def present(notebook: Notebook, server: Server, name: str) -> None:
    """Run a notebook and show its title slide; tools/slides.py does so for all."""
    notebook.page.set_viewport_size(SCREEN)
    notebook.open(server, name)
    notebook.run_all()
    assert not notebook.errors()
    assert name != "00_start_here" or "ok    server: runs in the same environment" in notebook.outputs()
    notebook.page.wait_for_function(TOP, polling=0.5 * SECONDS)
    notebook.page.locator(".jp-MarkdownCell h1").click()
    notebook.page.locator('[data-jp-item-name="deck"]').click()
    notebook.page.wait_for_function(PRESENTING)
    notebook.page.locator(f"{ON_SCREEN} h1").wait_for()


def go_to(notebook: Notebook, selector: str) -> None:
    """Press the space bar until a slide has this."""
    for _ in range(40):
        if notebook.page.locator(f"{ON_SCREEN} {selector}").count():
            return
        notebook.page.keyboard.press("Space")
        notebook.page.wait_for_timeout(200)
    pytest.fail(f"no slide has {selector}")


@pytest.mark.timeout(600)
def test_a_notebook_presents_with_live_plots_in_type_for_the_back_row(presented: Notebook):
    """Oracle: sizes that the browser computed, a drawn plot within the screen, and what the keys do."""
    page = presented.page
    assert page.locator(f"{ON_SCREEN} p").first.evaluate(TYPE) >= 20

    go_to(presented, ".lntutor-ask .main-svg")
    presented.screenshot("lecture_question")
    assert page.locator(f"{ON_SCREEN} .lntutor-ask p").first.evaluate(TYPE) >= 20
    assert page.locator(ON_SCREEN).evaluate_all(HEIGHT) <= SCREEN["height"]

    go_to(presented, ".widget-slider")
    page.wait_for_timeout(500)
    presented.screenshot("lecture_explorer")
    assert page.locator(ON_SCREEN).evaluate_all(HEIGHT) <= SCREEN["height"] + 40
    for part in (
        ".widget-slider .widget-label",
        ".lntutor-status .widget-html-content",
        ".jupyter-button",
        ".xtick text",
    ):
        assert page.locator(f"{ON_SCREEN} {part}").first.evaluate(TYPE) >= 19, part
    plot = page.locator(f"{ON_SCREEN} .main-svg").first.bounding_box()
    assert plot["width"] > 900
    assert plot["x"] + plot["width"] <= SCREEN["width"]

    title = page.locator(f"{ON_SCREEN} .gtitle").first
    before = title.text_content()
    handle = page.locator(f"{ON_SCREEN} .noUi-handle").first.bounding_box()
    page.mouse.move(handle["x"] + 8, handle["y"] + 8)
    page.mouse.down()
    page.mouse.move(handle["x"] + 60, handle["y"] + 8, steps=4)
    page.mouse.up()
    page.wait_for_function(
        "([selector, before]) => document.querySelector(selector).textContent !== before",
        arg=[f"{ON_SCREEN} .gtitle", before],
        timeout=60 * SECONDS,
    )

    code = page.locator(f"{ON_SCREEN}:has(.widget-slider) .jp-Cell-inputWrapper")
    assert not code.is_visible()
    page.locator(f"{ON_SCREEN} .lntutor-status").click()
    page.keyboard.press("Enter")
    code.wait_for(state="visible")
    page.keyboard.press("Escape")
    code.wait_for(state="hidden")
    page.keyboard.press("Escape")
    page.wait_for_function(f"() => !({PRESENTING})()")
