"""Every notebook: how it is written, that it runs from top to bottom in a fresh kernel, and what it then shows.

The same in JupyterLab and Voilà, with nothing revealed: tests/browser/test_notebooks.py.
"""

import ast
import itertools
import json
import re
from pathlib import Path

import nbformat
import pytest

from lntutor.lesson.claims import CLAIMS, stored
from lntutor.lesson.ledger import command
from tests.notebooks.runs import NOTEBOOKS, run

LESSONS = [path for path in NOTEBOOKS if path.stem != "00_start_here"]
MOST_LINES, MOST_STARTER_LINES = 15, 20  # of a code cell, without blank lines
SLIDES = {"slide", "subslide", "fragment", "skip", "notes", "-"}
A_SLIDE = 360  # words of prose that fill 1280 × 720 pixels in lecture mode; measured in a browser
A_LINE, A_PICTURE = 14, 120  # words that take the room of a line of code, and of a figure or a question
PICTURES = (  # their code is hidden
    r"\b(?:Predict|live_plot|Playground|\w+Explorer|readiness|inventory|show_ledger|whole_ledger)\("
)
FOLDS = r"\A<details>(?!<summary>After your guess)|^check\(|inventory\("
WIDGET = "application/vnd.jupyter.widget-view+json"

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def sources(path: Path, kind: str) -> list[str]:
    """Of all cells of this kind."""
    return [cell.source for cell in read(path).cells if cell.cell_type == kind]


def markdown(path: Path) -> str:
    """All prose, without fenced code."""
    text = "\n\n".join(sources(path, "markdown"))
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


# How it is written ---------------------------------------------------------------------------------------------


@each_notebook
def test_headings_are_in_order_and_folds_are_closed(path):
    """Oracle: Markdown: no level is skipped on the way down; folds end, and begin with the blank line they need."""
    levels = [len(marks) for marks in re.findall(r"^(#+) \S", markdown(path), re.MULTILINE)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), levels
    for source in sources(path, "markdown"):
        assert source.count("<details>") == source.count("</details>") == source.count("<summary>")
        assert source.count("</summary>\n\n") == source.count("</summary>"), source


@each_notebook
def test_code_cells_are_small_import_from_four_places_of_the_package_and_load_nothing_from_elsewhere(path):
    """Oracle: lines that are not blank; imports, also of solutions; no address but in links for a reader to click."""
    for source in sources(path, "code"):
        lines = [line for line in source.splitlines() if line.strip()]
        starter = re.search(r"^check\(", source, re.MULTILINE)
        assert len(lines) <= (MOST_STARTER_LINES if starter else MOST_LINES), source
        assert "http" not in source
    for source in sources(path, "markdown"):
        assert not re.search(r"!\[[^\]]*\]\(\w+:|<(?:img|script|link|iframe)\b|@import", source), source
    places = {"lntutor", "lntutor.explore", "lntutor.figures", "lntutor.lesson"}
    text = "\n".join(cell.source for cell in read(path).cells)
    found = set(re.findall(r"^ *(?:from|import) (lntutor[\w.]*)", text, re.MULTILINE))
    assert found <= places, found - places


def slides(path: Path) -> list[list[nbformat.NotebookNode]]:
    """The visible cells of each slide."""
    found = []
    for cell in read(path).cells:
        kind = cell.metadata.get("slideshow", {}).get("slide_type", "-")
        if kind in ("slide", "subslide"):
            found.append([])
        if kind not in ("skip", "notes"):
            found[-1].append(cell)
    return found


def room(cell: nbformat.NotebookNode) -> int:
    """The room of a cell on a slide, in words of prose; folds are closed."""
    if cell.cell_type == "markdown":
        return len(re.sub(r"<details>.*?</details>", "", cell.source, flags=re.DOTALL).split())
    if re.search(PICTURES, cell.source):
        return A_PICTURE
    return A_LINE * sum(bool(line.strip()) for line in cell.source.splitlines())


@each_notebook
def test_it_also_presents_and_a_slide_has_about_a_screen_and_one_figure_or_question(path):
    """Oracle: the slide types that JupyterLab knows; a count of words and lines, as many as fit at 1280 × 720."""
    cells = read(path).cells
    types = [cell.metadata.get("slideshow", {}).get("slide_type", "-") for cell in cells]
    assert set(types) <= SLIDES
    assert types[0] == "slide"
    assert types.count("slide") >= 4
    assert len({cell.id for cell in cells}) == len(cells)
    for slide in slides(path):
        pictures = sum(cell.cell_type == "code" and bool(re.search(PICTURES, cell.source)) for cell in slide)
        assert pictures <= 1, slide[0].source
        assert sum(map(room, slide)) <= A_SLIDE, slide[0].source


@each_notebook
def test_a_lecture_shows_questions_and_leaves_out_starters_and_folds(path):
    """Oracle: what a cell is for; ten questions at once are for the reader's own screen. What follows a guess stays."""
    shown = [cell.source for slide in slides(path) for cell in slide]
    hidden = [cell.source for cell in read(path).cells if cell.source not in shown]
    assert not [source for source in shown if re.search(FOLDS, source, re.MULTILINE)]
    asks = re.compile(r"^(?:Predict|Playground|\w+Explorer)\(", re.MULTILINE)
    assert not [source for source in hidden if asks.search(source)]


@each_lesson
def test_a_lesson_opens_and_closes_as_all_do(path):
    """Oracle: the shape that the course promises."""
    cells, text = read(path).cells, markdown(path)
    opening = cells[0].source
    assert opening.startswith("# ")
    assert "You will be able to" in opening or "you will be able to" in opening
    assert "**Time:** about " in opening
    assert "**Needs:** " in opening.replace("\n", " ")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    for wanted in ("Exercises", "What we found", "Further reading", "The next question"):
        assert wanted in headings, wanted
    assert len(re.findall(r"^### Exercise \d", text, re.MULTILINE)) >= 3
    assert "!" not in re.sub(r"\$.*?\$|!=|!\[", "", re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL))


@each_lesson
def test_the_minutes_at_the_top_are_those_of_sections_and_exercises(path):
    """Oracle: the sums of what stands at sections and exercises, to five minutes."""
    text = markdown(path)
    promised = re.search(r"about (\d+) minutes.*?(\d+)(?: more)? for the exercises", text, re.DOTALL)
    parts = r"^\*(\d+) minutes\.\*", r"^### Exercise \d.*\((\d+) minutes\)$"
    for minutes, part in zip(promised.groups(), parts, strict=True):
        assert abs(int(minutes) - sum(map(int, re.findall(part, text, re.MULTILINE)))) <= 5


def test_every_lesson_leads_to_the_next():
    """Oracle: the order of the numbers; the link stands in the last section."""
    for path, after in itertools.pairwise(NOTEBOOKS):
        assert f"({after.name})" in markdown(path).rpartition("## The next question")[2], path.name


@each_lesson
def test_a_lesson_asks_before_it_shows(path):
    """Oracle: at least three predictions, each under a name of its own."""
    names = [name for source in sources(path, "code") for name in predictions(source)]
    assert len(names) >= 3
    assert len(set(names)) == len(names)


def predictions(source: str) -> list[str]:
    """The names under which guesses are stored."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [call.args[0].value for call in calls if getattr(call.func, "id", "") == "Predict"]


# That it runs --------------------------------------------------------------------------------------------------


def outputs(path: Path) -> list[nbformat.NotebookNode]:
    return [output for cell in run(path)[0].cells for output in cell.get("outputs", [])]


@pytest.mark.notebook
@pytest.mark.timeout(1800)
@each_notebook
def test_notebook_runs_without_errors_or_warnings(path):
    """Oracle: the kernel reports no error and nothing on the error stream."""
    before = path.read_bytes()
    assert outputs(path)
    for output in outputs(path):
        assert output.output_type != "error"
        assert output.get("name") != "stderr", output.text
    assert path.read_bytes() == before


@pytest.mark.notebook
@pytest.mark.timeout(1800)
@each_notebook
def test_every_widget_has_a_twin_for_pages_without_a_kernel_and_every_figure_its_words(path):
    """Oracle: the HTML beside each widget; a figure in it has a text alternative, and no plotly figure stands alone."""
    figures = 0
    for output in outputs(path):
        data = output.get("data", {})
        assert "application/vnd.plotly.v1+json" not in data
        if WIDGET not in data:
            continue
        for figure in re.findall(r'<figure class="lntutor-static".*?</figure>', data["text/html"], re.DOTALL):
            figures += 1
            alt = re.search(r'aria-label="([^"]*)"', figure)[1]
            assert len(alt) > 40, alt
            picture = json.loads(re.search(r'<script type="application/json">(.*?)</script>', figure, re.DOTALL)[1])
            assert picture["data"] or picture["layout"].get("annotations")
    assert figures >= 3


@pytest.mark.notebook
@pytest.mark.timeout(1800)
@each_lesson
def test_beside_a_drawn_curve_no_picture_has_its_axes_the_other_way_round(path):
    """Oracle: the titles of the axes; a curve has its places from left to right, layers stand upright."""
    for cell in run(path)[0].cells:
        if cell.cell_type == "code" and re.search(r"\bPredict\(.*\bcurve=", cell.source, re.DOTALL):
            assert "Layer (input" not in cell.outputs[-1]["data"]["text/html"]


@pytest.mark.notebook
@pytest.mark.timeout(1800)
@each_lesson
def test_a_lesson_fills_its_rows_of_the_ledger(path):
    """Oracle: the claims of its number, each with a verdict, in the table at its end."""
    wanted = sum(claim.notebook == path.stem[:2] for claim in CLAIMS.values())
    shown = [output.get("data", {}).get("text/html", "") for output in outputs(path)]
    assert any("<caption" in html and f"{wanted} of {wanted} measured" in html for html in shown)


@pytest.mark.notebook
@pytest.mark.timeout(1800)
@each_lesson
def test_a_lesson_comes_to_the_verdicts_that_the_stored_ledger_has(path):
    """Oracle: data/results/claims.csv, which `python -m lntutor claims` wrote; its commands name the same tables."""
    rows, records = stored().query("notebook == @path.stem[:2]"), run(path)[1]["records"]
    assert {key: entry["verdict"] for key, entry in records.items()} == dict(rows["verdict"])
    commands = {key: command(path.stem[:2], entry.get("tables", ())) for key, entry in records.items()}
    assert commands == dict(rows["command"])


def test_the_first_notebook_opens_with_the_playground():
    """Oracle: its first three cells, and no other code before them."""
    first = read(NOTEBOOKS[0]).cells[:3]
    assert [cell.cell_type for cell in first] == ["markdown", "markdown", "code"]
    assert first[2].source.endswith("\n\nPlayground()")
    assert "**Your task:**" in first[1].source


@pytest.mark.notebook
def test_the_first_notebook_says_that_the_environment_works():
    """Oracle: the doctor's lines, run inside a kernel."""
    printed = "".join(output.get("text", "") for output in outputs(NOTEBOOKS[0]))
    assert "ok    torch computes" in printed
    assert "FAIL" not in printed
