"""Every notebook: how it is written, that it runs from top to bottom in a kernel of its own, and what it then shows."""

import ast
import functools
import itertools
import json
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from lntutor import lessons
from lntutor.claims import CLAIMS, stored
from lntutor.ledger import command

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LESSONS = [path for path in NOTEBOOKS if path.stem != "00_start_here"]
MOST_LINES, MOST_STARTER_LINES = 15, 20  # of a code cell, without blank lines
SLIDES = {"slide", "subslide", "fragment", "skip", "notes", "-"}
A_SLIDE = 360  # words of prose that fill 1280 × 720 pixels in a lecture's type; measured in a browser
A_LINE, A_PICTURE = 14, 120  # words that a line of code takes the room of, and a figure or a question at least
PICTURES = r"\b(?:Predict|live_plot|\w+Explorer|readiness|inventory|show_ledger|whole_ledger)\("  # their code is hidden
AFTER = """\
import json

from lntutor.claims import CLAIMS
from lntutor.lesson import page, reveal_all
from lntutor.notes import NOTES

reveal_all()
pages = {name: reference() for name, reference in page._ON_PAGE.items()}
answers = {name: p._result[1] for name, p in sorted(pages.items()) if hasattr(p, "_result")}
records = {key: NOTES.get("records", key) for key in CLAIMS if NOTES.get("records", key)}
print(json.dumps({"answers": answers, "records": records}))
"""  # what a reader finds who runs all cells first and guesses after; run behind the last cell
WIDGET = "application/vnd.jupyter.widget-view+json"

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def markdown(path: Path) -> str:
    """All prose, without fenced code."""
    text = "\n\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


# How it is written ---------------------------------------------------------------------------------------------


@each_notebook
def test_headings_are_in_order(path):
    """Oracle: Markdown's headings; a level is never skipped on the way down."""
    levels = [len(marks) for marks in re.findall(r"^(#+) \S", markdown(path), re.MULTILINE)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), levels


@each_notebook
def test_code_cells_are_small(path):
    """Oracle: lines that are not blank; the starter of an exercise may have a few more."""
    for cell in (cell for cell in read(path).cells if cell.cell_type == "code"):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        starter = re.search(r"^check\(", cell.source, re.MULTILINE)
        assert len(lines) <= (MOST_STARTER_LINES if starter else MOST_LINES), cell.source


@each_notebook
def test_it_also_presents(path):
    """Oracle: the slide types that JupyterLab knows; the title is a slide."""
    cells = read(path).cells
    types = [cell.metadata.get("slideshow", {}).get("slide_type", "-") for cell in cells]
    assert set(types) <= SLIDES
    assert types[0] == "slide"
    assert types.count("slide") >= 4
    assert len({cell.id for cell in cells}) == len(cells)


def slides(path: Path) -> list[list[nbformat.NotebookNode]]:
    """The cells of each slide, without those that are not shown."""
    found = []
    for cell in read(path).cells:
        kind = cell.metadata.get("slideshow", {}).get("slide_type", "-")
        if kind in ("slide", "subslide"):
            found.append([])
        if kind not in ("skip", "notes"):
            found[-1].append(cell)
    return found


def room(cell: nbformat.NotebookNode) -> int:
    """What a cell takes of a slide, in words of prose; a fold is closed."""
    if cell.cell_type == "markdown":
        return len(re.sub(r"<details>.*?</details>", "", cell.source, flags=re.DOTALL).split())
    if re.search(PICTURES, cell.source):
        return A_PICTURE
    return A_LINE * sum(bool(line.strip()) for line in cell.source.splitlines())


@each_notebook
def test_a_slide_has_about_a_screen_and_one_figure_or_question(path):
    """Oracle: a count of words and lines, whose limit is what was seen to fit at 1280 × 720."""
    for slide in slides(path):
        pictures = sum(cell.cell_type == "code" and bool(re.search(PICTURES, cell.source)) for cell in slide)
        assert pictures <= 1, slide[0].source
        assert sum(map(room, slide)) <= A_SLIDE, slide[0].source


@each_notebook
def test_a_lecture_shows_questions_and_leaves_out_starters_and_folds(path):
    """Oracle: what each cell is for; ten questions at once are for the reader's own screen."""
    shown = [cell.source for slide in slides(path) for cell in slide]
    hidden = [cell.source for cell in read(path).cells if cell.source not in shown]
    assert not [source for source in shown if re.search(r"\A<details|^check\(|inventory\(", source, re.MULTILINE)]
    assert not [source for source in hidden if re.search(r"^(?:Predict|\w+Explorer)\(", source, re.MULTILINE)]


@each_notebook
def test_nothing_is_loaded_from_elsewhere(path):
    """Oracle: no address inside an image, a script, a style or code; links for a reader to click are prose."""
    for cell in read(path).cells:
        if cell.cell_type == "code":
            assert "http" not in cell.source
        else:
            assert not re.search(r"!\[[^\]]*\]\(\w+:|<(?:img|script|link|iframe)\b|@import", cell.source), cell.source


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
    names = [name for cell in read(path).cells if cell.cell_type == "code" for name in predictions(cell.source)]
    assert len(names) >= 3
    assert len(set(names)) == len(names)


def predictions(source: str) -> list[str]:
    """The names under which guesses are stored."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [call.args[0].value for call in calls if getattr(call.func, "id", "") == "Predict"]


@each_notebook
def test_folds_are_closed(path):
    """Oracle: as many ends as beginnings in a cell, and a blank line after the summary, without which Markdown is not
    rendered inside.
    """
    for cell in (cell for cell in read(path).cells if cell.cell_type == "markdown"):
        assert cell.source.count("<details>") == cell.source.count("</details>") == cell.source.count("<summary>")
        assert len(re.findall(r"</summary>\n\n", cell.source)) == cell.source.count("</summary>"), cell.source


# That it runs --------------------------------------------------------------------------------------------------


@functools.cache
def run_notebook(path: Path, reveal: bool = True) -> nbformat.NotebookNode:
    """The notebook with its outputs; nothing is written. A cell that raises, raises here."""
    notebook = read(path)
    notebook.cells.append(nbformat.v4.new_code_cell(AFTER))
    environment = {"LNTUTOR_REVEAL": "1" if reveal else "0", "LNTUTOR_STRICT": "1"}
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=1200,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        client.execute()
    if reveal:  # for the static pages, which browsers open later
        lessons.remember(path, nbformat.from_dict({**notebook, "cells": notebook.cells[:-1]}))
    return notebook


def outputs(path: Path, reveal: bool = True) -> list[nbformat.NotebookNode]:
    return [output for cell in run_notebook(path, reveal).cells for output in cell.get("outputs", [])]


@pytest.mark.notebook
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("reveal", [True, False], ids=["revealed", "covered"])
@each_notebook
def test_notebook_runs_without_errors_or_warnings(path, reveal):
    """Oracle: the kernel reports no error and nothing on the error stream, with all answers shown and with none."""
    before = path.read_bytes()
    assert outputs(path, reveal)
    for output in outputs(path, reveal):
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
def test_a_lesson_fills_its_rows_of_the_ledger(path):
    """Oracle: the claims of its number, each with a verdict, in the table at its end."""
    number = path.stem[:2]
    tables = [
        output.data["text/html"]
        for output in outputs(path)
        if "<caption" in output.get("data", {}).get("text/html", "")
    ]
    assert tables
    wanted = sum(claim.notebook == number for claim in CLAIMS.values())
    assert any(f"{wanted} of {wanted} measured" in table for table in tables)  # the last lesson shows all of them, too


@pytest.mark.notebook
@pytest.mark.timeout(1800)
@each_notebook
def test_while_covered_nothing_is_given_away(path):
    """Oracle: without a guess, the twin of a prediction has no picture and no measurement."""
    covered = [
        output.data["text/html"]
        for output in outputs(path, reveal=False)
        if "<b>Predict.</b>" in output.get("data", {}).get("text/html", "")
    ]
    assert covered
    for html in covered:
        assert "lntutor-static" not in html
        assert "shown after a guess" in html


@pytest.mark.notebook
@pytest.mark.timeout(1800)
@each_notebook
def test_who_guesses_after_running_all_sees_the_same(path):
    """Oracle: the measurements of a run in which nothing was covered; a name that a later cell reuses would differ."""
    at_once, later = (found(path, reveal)["answers"] for reveal in (True, False))
    assert at_once
    assert set(later) == set(at_once)
    for name, value in at_once.items():
        if isinstance(value, str | None):
            assert later[name] == value, name
        else:
            np.testing.assert_allclose(later[name], value, rtol=1e-4, err_msg=name)


@pytest.mark.notebook
@pytest.mark.timeout(1800)
@each_lesson
def test_a_lesson_comes_to_the_verdicts_that_the_stored_ledger_has(path):
    """Oracle: data/results/claims.csv, which `python -m lntutor claims` wrote; its commands name the same tables."""
    rows = stored().query("notebook == @path.stem[:2]")
    for reveal in (True, False):
        records = found(path, reveal)["records"]
        assert {key: entry["verdict"] for key, entry in records.items()} == dict(rows["verdict"])
        commands = {key: command(path.stem[:2], entry.get("tables", ())) for key, entry in records.items()}
        assert commands == dict(rows["command"])


def found(path: Path, reveal: bool = True) -> dict:
    """What the last cell printed, in one line that may come in several pieces: prediction → what was measured, and
    claim → its record.
    """
    cell = run_notebook(path, reveal).cells[-1]
    return json.loads("".join(output.text for output in cell.outputs if output.get("name") == "stdout"))


@pytest.mark.notebook
def test_the_first_notebook_says_that_the_environment_works():
    """Oracle: the doctor's lines, run inside a kernel."""
    printed = "".join(output.get("text", "") for output in outputs(NOTEBOOKS[0]))
    assert "ok    torch computes" in printed
    assert "FAIL" not in printed
