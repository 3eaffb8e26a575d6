"""Every notebook as its reader sees it, all answers shown: in JupyterLab and in Voilà."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.jupyter import ROOT, SECONDS, Notebook, Server, jupyterlab, project_command, voila

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
STEP = 2000  # pixels of the notebook in one picture
LOOK = """() => {
    const seen = []
    for (const plot of document.querySelectorAll('.lntutor-live')) {
        if (!plot.checkVisibility()) continue
        const box = plot.getBoundingClientRect(), drawn = plot.querySelector('.js-plotly-plot .main-svg')
        const svg = drawn?.getBoundingClientRect()
        seen.push([Boolean(drawn), svg ? Math.round(svg.right - box.right) : 0])
    }
    return seen
}"""
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
def revealed() -> Iterator[None]:
    """Servers that start from here on uncover every answer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LNTUTOR_REVEAL", "1")
        yield


@pytest.fixture(scope="module")
def revealed_lab(revealed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with jupyterlab(tmp_path_factory.mktemp("home"), project_command()) as server:
        yield server


@pytest.fixture(scope="module")
def revealed_voila(revealed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with voila(tmp_path_factory.mktemp("home"), ROOT / "notebooks") as server:
        yield server


@pytest.mark.timeout(600)
@pytest.mark.parametrize("where", ["lab", "voila"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_draws_every_plot_and_renders_its_maths(notebook: Notebook, request, path: Path, where: str):
    """Oracle: no error output; an SVG within its cell for every plot; no dollar sign or backslash left in prose."""
    server = request.getfixturevalue(f"revealed_{where}")
    if where == "lab":
        server.end_kernels()
        notebook.open(server, path.stem)
        notebook.run_all()
    else:
        notebook.page.goto(f"{server.url}voila/render/{path.name}", timeout=360 * SECONDS)
    assert not notebook.errors()
    wait_for_plots(notebook)
    assert notebook.page.evaluate(PROSE)
    assert unset_formulas(notebook) == []
    assert notebook.page.locator("mjx-merror, mjx-container [data-mjx-error]").count() == 0
    if os.environ.get("CI") != "true":
        picture_all(notebook, f"{path.stem}_{where}")


def wait_for_plots(notebook: Notebook, least: int = 3) -> None:
    """Wait until every plot in the page is drawn within its cell; JupyterLab may put more of them there any time."""
    fits = "seen.every(([drawn, beyond]) => drawn && beyond <= 1)"
    notebook.page.wait_for_function(
        f"() => {{ const seen = ({LOOK})(); return seen.length >= {least} && {fits} }}", timeout=120 * SECONDS
    )


def unset_formulas(notebook: Notebook) -> list[str]:
    """Paragraphs with a dollar sign or a backslash, once MathJax has had its time with what came into the page last."""
    for _ in range(40):
        left = [text for text in notebook.page.evaluate(PROSE) if "$" in text or "\\" in text]
        if not left:
            break
        notebook.page.wait_for_timeout(500)
    return left


def picture_all(notebook: Notebook, name: str) -> None:
    """Pictures from top to bottom, for people to look at; nobody does where CI=true."""
    notebook.page.set_viewport_size({"width": 1280, "height": STEP + 200})
    notebook.page.evaluate(SCROLL, 0)
    for number in range(40):
        notebook.page.wait_for_timeout(300)
        notebook.screenshot(f"{name}_{number:02d}")
        if not notebook.page.evaluate(SCROLL, STEP):
            return
