"""Lecture mode: one switch for the type of all figures, explorers and questions."""

import re
from functools import partial

import pytest

from lntutor import figures
from lntutor.__main__ import main
from lntutor.explore import LayerNormExplorer
from lntutor.figures import lecture_type
from lntutor.lesson import Predict, lecture, readiness
from lntutor.lesson import question as page
from lntutor.page import lecture_mode, live
from lntutor.publish import lab
from tests.explore.explorers import EXPLORERS
from tests.figures.registry import EVERY

LARGE = "lntutor-lecture"

pytestmark = pytest.mark.usefixtures("no_pause")


@pytest.fixture(autouse=True)
def switch(monkeypatch):
    """Nobody has turned it on or off, and the page has no widgets."""
    monkeypatch.delenv(lecture_type.LECTURE, raising=False)
    monkeypatch.setattr(lecture_type, "_switch", [])
    monkeypatch.setattr(lecture_mode, "FOLLOWERS", type(lecture_mode.FOLLOWERS)())


def type_of(fig) -> int:
    """Pixels of a figure's type."""
    return fig.layout.template.layout.font.size


def test_the_environment_turns_it_on_and_what_a_cell_says_wins_over_it(monkeypatch):
    """Oracle: type in the layout of a figure without a `lecture` of its own."""
    for value, size in (("0", 14), ("", 14), ("yes", 20), ("1", 20)):
        monkeypatch.setenv(lecture_type.LECTURE, value)
        assert type_of(figures.course_map()) == size
    lecture(False)
    assert type_of(figures.course_map()) == 14
    lecture()
    monkeypatch.setenv(lecture_type.LECTURE, "0")
    assert type_of(figures.course_map()) == 20


@pytest.mark.parametrize("name", [*EVERY, "an empty one"])
def test_every_figure_follows_the_switch_and_an_explicit_value_wins(name):
    """Oracle: the same figure with `lecture` given, as JSON."""
    make = EVERY.get(name, partial(figures.spectrum, None))
    small, large = (make(lecture=on).to_json() for on in (False, True))
    assert make().to_json() == small
    lecture()
    assert make().to_json() == large
    assert make(lecture=False).to_json() == small


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_an_explorer_starts_as_the_switch_says_and_its_code_says_only_what_was_changed(explorer):
    """Oracle: the control, type in the figure, and the line that rebuilds the view."""
    lecture()
    e = explorer()
    assert e.controls["lecture"].value is e.start["lecture"] is True
    assert type_of(e.figure) == 20
    assert LARGE in e._dom_classes
    assert e.code() == f"{explorer.__name__}()"
    e.set(lecture=False)
    assert e.code() == f"{explorer.__name__}(lecture=False)"
    assert LARGE not in e._dom_classes
    assert explorer(lecture=False).state()["lecture"] is False


def test_explorers_on_the_page_change_with_the_switch_and_measure_nothing_anew(monkeypatch):
    """Oracle: control, figure and class after each word; a count of the measurements."""
    e, measured = LayerNormExplorer(k=2.0), []
    monkeypatch.setattr(e, "measure", lambda *given: measured.append(given))
    for on in (True, False):
        lecture(on)
        assert e.controls["lecture"].value is on
        assert type_of(e.figure) == (20 if on else 14)
        assert (LARGE in e._dom_classes) is on
        assert e.code() == "LayerNormExplorer(k=2.0)"
        assert e.start["lecture"] is on  # where Reset leads
    assert not measured


def test_questions_on_the_page_change_with_the_switch():
    """Oracle: the class that CSS enlarges, before and after, and the type of the guess beside the measurement."""
    asked = Predict("lecture.test", "How many?", value=(0, 4), reveal=lambda: 3.0)
    asked.skip()
    quiz = readiness()
    for on in (True, False):
        lecture(on)
        assert (LARGE in asked._dom_classes) is (LARGE in quiz._dom_classes) is on
        assert type_of(asked._revealed_area.children[1].figure) == (20 if on else 14)
    asked.again()


def test_a_plot_of_its_own_is_marked_when_it_is_drawn_in_a_lecture():
    """Oracle: the class, by which slides hide the cell's code."""
    assert LARGE not in live.live_plot(figures.course_map())._dom_classes
    lecture()
    assert LARGE in live.live_plot(figures.course_map())._dom_classes


def test_type_for_the_back_row_has_at_least_18_pixels_and_text_20():
    """Oracle: every size in the CSS, and the page that brings it: questions and plots."""
    sizes = [int(size) for size in re.findall(r"font-size\d?: (\d+)px", lecture_mode.CSS)]
    assert len(sizes) >= 5
    assert min(sizes) >= 18
    for part in (".lntutor-lecture { font-size", "--jp-content-font-size1", ".widget-html-content { font-size"):
        assert re.search(rf"{re.escape(part)}: 20px", lecture_mode.CSS), part
    assert lecture_mode.CSS in page.CSS
    assert lecture_mode.CSS in live.LivePlot._css


def test_the_command_line_turns_it_on_and_says_how_to_present(monkeypatch, capsys):
    """Oracle: the variable that kernels inherit, and a line on the screen, with the extension and without."""
    monkeypatch.setenv(lecture_type.LECTURE, "")
    monkeypatch.setattr("jupyterlab.labapp.LabApp.launch_instance", lambda arguments: None)
    for found, message in ((None, r"pip install -e '\.\[slides\]'"), (object(), "Space: next")):
        monkeypatch.setattr(lab, "find_spec", lambda name, found=found: found)
        assert main(["lab", "--lecture", "--no-browser"]) == 0
        assert re.search(message, capsys.readouterr().out)
    assert lecture_type.lecturing()
