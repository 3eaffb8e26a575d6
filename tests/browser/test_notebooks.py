"""Every notebook as its reader sees it: all cells run first, then all answers are revealed.

JupyterLab and Voilà take turns: one opens the even numbers, the other the odd ones, and `test_lecture` presents 00. So
a lesson runs twice in all, once here and once in a kernel. LNTUTOR_BROWSERS=all opens every notebook in both.
"""

import json
import os
from collections.abc import Iterator

import numpy as np
import pytest

from tests.browser.jupyter import ROOT, SECONDS, Notebook, Server, jupyterlab, project_command, voila
from tests.notebooks import runs

PLACES = ("lab", "voila")
OPENED = [
    pytest.param(path, place, id=f"{path.stem}-{place}")
    for number, path in enumerate(runs.NOTEBOOKS)
    for place in (PLACES if os.environ.get("LNTUTOR_BROWSERS") == "all" else PLACES[number % 2 :][:1] * (number > 0))
]
STEP = 2000  # pixels of the notebook in one picture
LOOK = """() => {
    const seen = []
    for (const plot of document.querySelectorAll('.lntutor-live')) {
        if (!plot.checkVisibility()) continue
        const box = plot.getBoundingClientRect(), drawn = plot.querySelector('.js-plotly-plot .main-svg')
        const svg = drawn?.getBoundingClientRect()
        const alt = plot.querySelector('[role=img]')?.getAttribute('aria-label')
        seen.push([Boolean(drawn), svg ? Math.round(svg.right - box.right) : 0, alt])
    }
    return seen
}"""
SCROLL_TO_UNDRAWN = """() => [...document.querySelectorAll('.lntutor-live')]
    .find(plot => plot.checkVisibility() && !plot.querySelector('.js-plotly-plot .main-svg'))?.scrollIntoView()"""
PROSE = """() => [...document.querySelectorAll('.jp-RenderedMarkdown')].map(node => {
    const copy = node.cloneNode(true)
    copy.querySelectorAll('code, pre, mjx-container').forEach(part => part.remove())
    return copy.textContent
})"""
SCROLL = """step => {
    const room = node => node.scrollHeight - node.clientHeight
    const scrolls = node => /auto|scroll/.test(getComputedStyle(node).overflowY) || node === document.scrollingElement
    const panel = [...document.querySelectorAll('*')].filter(scrolls).sort((a, b) => room(b) - room(a))[0]
    const before = panel.scrollTop
    panel.scrollTop = step ? before + step : 0
    return panel.scrollTop > before
}"""


@pytest.fixture(scope="module")
def lab(strict, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with jupyterlab(tmp_path_factory.mktemp("home"), project_command()) as server:
        yield server


@pytest.fixture(scope="module")
def voila_of_lessons(strict, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with voila(tmp_path_factory.mktemp("home"), ROOT / "notebooks") as server:
        yield server


@pytest.fixture(scope="module")
def strict() -> Iterator[None]:
    """Kernels of servers that start from here on raise what goes wrong in a measurement."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LNTUTOR_STRICT", "1")
        yield


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("path", "place"), OPENED)
def test_it_runs_covered_and_then_shows_every_plot_formula_and_answer(notebook: Notebook, request, path, place):
    """Oracle: the browser: no error output, an SVG within its cell for every plot, no dollar sign or backslash in
    prose; the answers and verdicts of a kernel in which nothing was covered: a name that a later cell uses again, and
    whatever else depends on the moment of the guess, would change them.
    """
    before, page = path.read_bytes(), notebook.page
    if place == "lab":
        server = request.getfixturevalue("lab")
        server.end_kernels()
        notebook.open(server, path.stem)
        notebook.run_all()
        assert page.locator(".Toastify__toast").count() == 0
    else:
        server = request.getfixturevalue("voila_of_lessons")
        page.goto(f"{server.url}voila/render/{path.name}", timeout=360 * SECONDS)
    assert not notebook.errors()
    assert path.read_bytes() == before
    assert_covered(page, server)
    if place == "lab":
        server.ask("from lntutor.lesson import reveal_all; reveal_all()")
    else:  # a page of Voilà draws all plots, in view or not: all at once, it may give some up
        for name in json.loads(server.ask(runs.COVERED)):
            server.ask(runs.REVEAL.format(name=name))
            page.wait_for_timeout(500)
    same_as_in_a_kernel(json.loads(server.ask(runs.FOUND)), runs.run(path)[1])
    wait_for_plots(notebook)
    assert page.evaluate(PROSE)
    assert unset_formulas(notebook) == []
    assert page.locator("mjx-merror, mjx-container [data-mjx-error]").count() == 0
    assert not notebook.errors()
    if os.environ.get("CI") != "true":
        picture_all(notebook, f"{path.stem}_{place}")


def assert_covered(page, server: Server) -> None:
    """Before a guess, a question shows no picture and no measurement, neither in the page nor in its HTML."""
    questions = page.locator(".lntutor-ask", has_text="Predict.")
    questions.first.wait_for(state="attached", timeout=60 * SECONDS)
    assert questions.locator(".lntutor-live").count() == 0
    predictions = [html for html in json.loads(server.ask(runs.COVERED)).values() if "<b>Predict.</b>" in html]
    assert predictions
    for html in predictions:
        assert "lntutor-static" not in html
        assert "shown after a guess" in html


def same_as_in_a_kernel(found: dict, wanted: dict) -> None:
    """The same measured answers, to 1e-4, and the same verdicts of the same tables."""
    assert wanted["answers"]
    assert set(found["answers"]) == set(wanted["answers"])
    for name, value in wanted["answers"].items():
        if isinstance(value, str | None):
            assert found["answers"][name] == value, name
        else:
            np.testing.assert_allclose(found["answers"][name], value, rtol=1e-4, err_msg=name)
    judged = [
        {key: (entry["verdict"], entry.get("tables")) for key, entry in run["records"].items()}
        for run in (found, wanted)
    ]
    assert judged[0] == judged[1]


def wait_for_plots(notebook: Notebook, least: int = 3) -> None:
    """Wait until every plot of the page is drawn within its cell.

    The browser lays out only what is near the window (`content-visibility`), so a plot that came far from it is drawn
    when a reader scrolls there: so does this test.
    """
    for _ in range(240):
        seen = notebook.page.evaluate(LOOK)
        unfit = [plot for plot in seen if not plot[0] or plot[1] > 1]
        if len(seen) >= least and not unfit:
            return
        notebook.page.evaluate(SCROLL_TO_UNDRAWN)
        notebook.page.wait_for_timeout(500)
    pytest.fail(f"{len(unfit)} of {len(seen)} plots are not drawn or too wide: {unfit}; {notebook.complaints}")


def unset_formulas(notebook: Notebook) -> list[str]:
    """Paragraphs with a dollar sign or a backslash, once MathJax has had its time with what came into the page last."""
    for _ in range(40):
        left = [text for text in notebook.page.evaluate(PROSE) if "$" in text or "\\" in text]
        if not left:
            break
        notebook.page.wait_for_timeout(500)
    return left


def picture_all(notebook: Notebook, name: str) -> None:
    """Pictures from top to bottom, for people to look at; none where CI=true."""
    notebook.page.set_viewport_size({"width": 1280, "height": STEP + 200})
    notebook.page.evaluate(SCROLL, 0)
    for number in range(40):
        notebook.page.wait_for_timeout(300)
        notebook.screenshot(f"{name}_{number:02d}")
        if not notebook.page.evaluate(SCROLL, STEP):
            return
