"""Lecture mode: one switch for the type of all figures, explorers and questions."""

import re

import pytest

from lntutor import explore, figures, lab, lecturing, live
from lntutor.__main__ import main
from lntutor.explore import LayerNormExplorer
from lntutor.figures.lesson import guess_on_line
from lntutor.lesson import Predict, lecture, page, readiness
from tests.test_figures import TABLES

EXPLORERS = [getattr(explore, name) for name in explore.__all__]
LARGE = "lntutor-lecture"

pytestmark = pytest.mark.usefixtures("no_pause")


@pytest.fixture(autouse=True)
def switch(monkeypatch):
    """Nothing said yet, by nobody, and a page without widgets."""
    monkeypatch.delenv(lecturing.LECTURE, raising=False)
    monkeypatch.setattr(lecturing, "_switch", [])
    monkeypatch.setattr(lecturing, "FOLLOWERS", type(lecturing.FOLLOWERS)())


def type_of(fig) -> int:
    """Pixels of a figure's type."""
    return fig.layout.template.layout.font.size


@pytest.mark.parametrize(("said", "on"), [("1", True), ("0", False), ("", False), ("yes", True)])
def test_the_environment_turns_it_on(monkeypatch, said, on):
    """Oracle: type in the layout, of a figure that was not told."""
    monkeypatch.setenv(lecturing.LECTURE, said)
    assert type_of(figures.course_map()) == (20 if on else 14)


def test_what_a_cell_says_wins_over_the_environment(monkeypatch):
    """Oracle: type in the layout, after each word."""
    monkeypatch.setenv(lecturing.LECTURE, "1")
    lecture(False)
    assert type_of(figures.course_map()) == 14
    lecture()
    monkeypatch.setenv(lecturing.LECTURE, "0")
    assert type_of(figures.course_map()) == 20


@pytest.mark.parametrize("function", TABLES, ids=lambda function: function.__name__)
def test_every_figure_follows_the_switch_and_an_explicit_value_wins(function):
    """Oracle: the same figure with `lecture` given, as JSON."""
    table = TABLES[function]()
    small, large = (function(table, lecture=on).to_json() for on in (False, True))
    assert function(table).to_json() == small
    lecture()
    assert function(table).to_json() == large
    assert function(table, lecture=False).to_json() == small


def test_other_figures_follow_too():
    """Oracle: the same figures with `lecture` given: a diagram, a map of attention, a guess, an empty figure."""
    makes = [
        lambda **more: figures.block_diagram("pre", **more),
        lambda **more: figures.attention_map([[[0.5, 0.5], [0.1, 0.9]]], ["a", "b"], **more),
        lambda **more: guess_on_line(1.0, 2.0, (0.0, 4.0), **more),
        lambda **more: figures.spectrum(None, **more),
    ]
    lecture()
    for make in makes:
        assert make().to_json() == make(lecture=True).to_json() != make(lecture=False).to_json()


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
        assert type_of(asked._shown.children[1].figure) == (20 if on else 14)
    asked.again()


def test_a_plot_of_its_own_is_marked_when_it_is_drawn_in_a_lecture():
    """Oracle: the class, by which slides hide the cell's code."""
    assert LARGE not in live.live_plot(figures.course_map())._dom_classes
    lecture()
    assert LARGE in live.live_plot(figures.course_map())._dom_classes


def test_type_for_the_back_row_has_at_least_18_pixels_and_text_20():
    """Oracle: every size in the CSS, and the page that brings it: questions and plots."""
    sizes = [int(size) for size in re.findall(r"font-size\d?: (\d+)px", lecturing.CSS)]
    assert len(sizes) >= 8
    assert min(sizes) >= 18
    for part in ("--jp-widgets-font-size", "--jp-content-font-size1", ".widget-html-content { font-size"):
        assert re.search(rf"{re.escape(part)}: 20px", lecturing.CSS), part
    assert lecturing.CSS in page.CSS
    assert lecturing.CSS in live.LivePlot._css


def test_the_command_line_turns_it_on_and_says_how_to_present(monkeypatch, capsys):
    """Oracle: the variable that kernels inherit, and a line on the screen, with the extension and without."""
    monkeypatch.setenv(lecturing.LECTURE, "")
    monkeypatch.setattr("jupyterlab.labapp.LabApp.launch_instance", lambda arguments: None)
    for found, words in ((None, r"pip install -e '\.\[slides\]'"), (object(), "Space: on")):
        monkeypatch.setattr(lab, "find_spec", lambda name, found=found: found)
        assert main(["lab", "--lecture", "--no-browser"]) == 0
        assert re.search(words, capsys.readouterr().out)
    assert lecturing.lecturing()
