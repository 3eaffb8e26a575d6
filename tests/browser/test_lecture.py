"""A lecture: JupyterLab with large type, presenting on a projector of 1280 × 720."""

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from lntutor.figures.lecture_type import LECTURE
from tests.browser.jupyter import SECONDS, Notebook, Server, jupyterlab, scratch_command, write_notebook
from tests.browser.test_lesson import CHOICE, SETUP

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
def lecture_lab(tmp_path_factory: pytest.TempPathFactory, scratch: Path) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LECTURE, "1")
        with jupyterlab(tmp_path_factory.mktemp("home"), scratch_command(scratch)) as server:
            yield server


def present(notebook: Notebook, server: Server, name: str, folder: str = "notebooks/") -> None:
    """Run a notebook and show its title slide; tools/slides.py does so for all."""
    notebook.page.set_viewport_size(SCREEN)
    notebook.open(server, name, folder)
    notebook.run_all()
    assert not notebook.errors()
    notebook.page.wait_for_function(TOP, polling=0.5 * SECONDS)
    notebook.page.locator(".jp-MarkdownCell h1").click()
    notebook.page.locator('[data-jp-item-name="deck"]').click()
    notebook.page.wait_for_function(PRESENTING)
    notebook.page.locator(f"{ON_SCREEN} h1").wait_for()


def write_deck(folder: Path) -> str:
    """A title, a question, an explorer and an end, a slide each; the name of the notebook."""
    path = write_notebook(
        folder / "deck.ipynb",
        SETUP,
        CHOICE,
        "from lntutor.explore import TheoremExplorer\n\nTheoremExplorer(depth=4, width=32)",
    )
    deck = nbformat.read(path, 4)
    deck.cells.insert(0, nbformat.v4.new_markdown_cell("# A lecture\n\nWords for the back row"))
    deck.cells.append(nbformat.v4.new_markdown_cell("## The end"))
    for cell, kind in zip(deck.cells, ("slide", "skip", "slide", "slide", "slide"), strict=True):
        cell.metadata["slideshow"] = {"slide_type": kind}
    nbformat.write(deck, path)
    return path.stem


def test_a_notebook_presents_and_neither_the_mouse_nor_a_remote_loses_a_slide(notebook, lecture_lab, scratch):
    """Oracle: sizes that the browser computed, a plot within the screen; what a click on the left edge of a choice,
    the keys after each button and those of a presenter's remote do.
    """
    present(notebook, lecture_lab, write_deck(scratch), folder="")
    page = notebook.page
    assert page.locator(f"{ON_SCREEN} p").first.evaluate(TYPE) >= 20
    question, explorer = page.locator(f"{ON_SCREEN} .lntutor-ask"), page.locator(f"{ON_SCREEN} .lntutor-explorer")
    end = page.locator(f"{ON_SCREEN} h2", has_text="The end")

    page.keyboard.press("Space")
    question.wait_for()
    assert question.locator("p").first.evaluate(TYPE) >= 20
    box = question.locator(".lnk-option").nth(2).bounding_box()
    page.mouse.click(box["x"] + 8, box["y"] + box["height"] / 2)
    question.locator(".lnk-option:has(:checked)", has_text="it explodes").wait_for()
    question.get_by_role("button", name="Store my guess").click()
    question.locator(".main-svg").first.wait_for()
    notebook.screenshot("lecture_question")
    page.keyboard.press("Space")
    explorer.wait_for()
    page.keyboard.press("Shift+Space")
    question.wait_for()
    question.get_by_role("button", name="Guess again").click()
    question.get_by_role("radio").first.wait_for()
    page.keyboard.press("PageDown")
    explorer.wait_for()
    explorer.get_by_role("slider", name="Depth L").focus()
    page.keyboard.press("PageDown")
    end.wait_for()
    page.keyboard.press("PageUp")
    explorer.wait_for()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("PageDown")
    end.wait_for()
    page.keyboard.press("PageUp")
    explorer.wait_for()

    page.wait_for_timeout(500)
    notebook.screenshot("lecture_explorer")
    assert page.locator(ON_SCREEN).evaluate_all(HEIGHT) <= SCREEN["height"]
    for part in (".lnk-slider span", ".lntutor-status .widget-html-content", ".lntutor-foot button", ".xtick text"):
        assert page.locator(f"{ON_SCREEN} {part}").first.evaluate(TYPE) >= 18, part
    plot = explorer.locator(".main-svg").first.bounding_box()
    assert plot["width"] > 600
    assert plot["x"] + plot["width"] <= SCREEN["width"]
    title = page.locator(f"{ON_SCREEN} .gtitle").first
    before = title.text_content()
    slider = explorer.get_by_role("slider", name="Depth L").bounding_box()
    page.mouse.click(slider["x"] + 0.8 * slider["width"], slider["y"] + slider["height"] / 2)
    page.wait_for_function(
        "([selector, before]) => document.querySelector(selector).textContent !== before",
        arg=[f"{ON_SCREEN} .gtitle", before],
        timeout=60 * SECONDS,
    )

    code = page.locator(f"{ON_SCREEN}:has(.lntutor-explorer) .jp-Cell-inputWrapper")
    assert not code.is_visible()
    page.locator(f"{ON_SCREEN} .lntutor-status").click()
    page.keyboard.press("Enter")
    code.wait_for(state="visible")
    page.keyboard.press("Escape")
    code.wait_for(state="hidden")
    page.keyboard.press("Escape")
    page.wait_for_function(f"() => !({PRESENTING})()")
