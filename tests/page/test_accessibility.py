"""Figures and explorers for readers who see no colour, or no picture: a second cue for every colour, and the finding
in words."""

import re
from itertools import combinations

import pytest

from lntutor import explore, figures
from lntutor.figures import lesson
from lntutor.figures.style import INK
from tests import test_figures, test_figures_lanczos, test_figures_mean_field, test_figures_overview, test_figures_runs
from tests.test_explore import SMALL, values_of
from tests.test_figures import BY_PLACEMENTS, KEYS, TABLES, luminance

OTHERS = (test_figures_lanczos, test_figures_mean_field, test_figures_overview, test_figures_runs)
WORKING = ("TrainingExplorer", "CurvatureExplorer")  # their figures are those of training_curves and spectrum
BROAD = 4  # pixels: so much wider than a thin line that nobody takes one for the other


@pytest.fixture(scope="module")
def pictures() -> list[dict]:
    """A figure of every kind as a dict, and those of placements with all there are, theory and a pinned curve."""
    made = [*test_figures.every_figure(False), *(make() for module in OTHERS for make in module.EVERY)]
    for function in BY_PLACEMENTS:
        table = TABLES[function](placements=KEYS)
        more = {} if function is figures.spectrum else {"theory": table, "pinned": [("before", table)]}
        made.append(function(table, **more))
    made += [
        lesson.guess_on_line(2.0, 3.0, (0, 10)),
        lesson.guess_on_curve([1, 2], [1.0, 2.0], [2.0, 3.0]),
        lesson.votes(["a", "b"], [[1, 2], [3, 0]], "a"),
    ]
    return [fig.to_dict() for fig in made]


def alt(picture: dict) -> str:
    return picture["layout"]["meta"]["alt"]


def series(picture: dict) -> list[dict]:
    """What is drawn: no cells, no words, no entries of the legend alone, no shade under an outline."""
    drawn = [t for t in picture["data"] if t["type"] in ("scatter", "bar") and t.get("mode") != "text"]
    return [t for t in drawn if any(v is not None for v in t["x"]) and not ("fill" in t and t["line"]["width"] == 0)]


def colour(trace: dict) -> str:
    return trace["line" if "lines" in trace.get("mode", "") else "marker"]["color"]


def cues(trace: dict) -> tuple:
    """All that tells a series from another in a grey print: dash, breadth, symbol, pattern, faintness."""
    mode, line, marker = trace.get("mode", ""), trace.get("line", {}), trace.get("marker", {})
    dash = (line.get("dash", "solid"), line.get("width", 2) >= BROAD) if "lines" in mode else ()
    symbol = marker.get("symbol", "circle") if "markers" in mode else ()
    pattern = marker.get("pattern", {}).get("shape") if trace["type"] == "bar" else ()
    return dash, symbol, pattern, trace.get("opacity", 1) == 1


# Colour is never alone ---------------------------------------------------------------------------------------------


def test_no_two_series_of_a_panel_are_told_apart_by_colour_alone(pictures):
    """Oracle: the traces of every kind of figure, with all placements at once, as a grey print would show them."""
    seen = 0
    for picture in pictures:
        for one, other in combinations(series(picture), 2):
            if all(one.get(axis) == other.get(axis) for axis in ("xaxis", "yaxis")) and colour(one) != colour(other):
                assert cues(one) != cues(other), (alt(picture), one["uid"], other["uid"])
                seen += 1
    assert seen > 1000


def test_cells_carry_their_numbers_or_a_scale_that_only_grows_darker(pictures):
    """Oracle: WCAG's luminance along every colour scale; the text in the cells."""
    cells = [t for picture in pictures for t in picture["data"] if t["type"] in ("heatmap", "contour")]
    assert {t["type"] for t in cells} == {"heatmap", "contour"}
    for trace in cells:
        if not {"text", "texttemplate"} & trace.keys():
            lights = [luminance(c) for _, c in trace["colorscale"]]
            assert lights in (sorted(lights), sorted(lights, reverse=True)), trace["colorscale"]


def colours_of_words(part, found: set) -> set:
    """Every colour of a font in a figure's dict."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key in ("font", "tickfont", "textfont") and isinstance(value, dict) and "color" in value:
                found.add(value["color"])
            colours_of_words(value, found)
    elif isinstance(part, (list, tuple)):
        for value in part:
            colours_of_words(value, found)
    return found


def test_words_in_figures_stand_out_from_white(pictures):
    """Oracle: WCAG's contrast ratio, at least 4.5:1 for text; white words are for dark cells alone."""
    found = set().union(*(colours_of_words(picture, set()) for picture in pictures))
    found = {c for c in found if isinstance(c, str)} - {"white", "#FFFFFF", "#ffffff"}
    assert INK in found
    assert not {c: 1.05 / (luminance(c) + 0.05) for c in found if 1.05 / (luminance(c) + 0.05) < 4.5}


# The finding in words ----------------------------------------------------------------------------------------------


def test_the_words_of_every_figure_have_numbers_no_markup_and_an_end(pictures):
    """Oracle: the text alternative; a screen reader needs some ten seconds for 150 characters."""
    for picture in pictures:
        words = alt(picture).replace("mine <b>", "mine")  # a name that a reader gave
        assert re.search(r"\d", words), words
        assert not re.search(r"</?\w|&\w+;", words), words
        assert words.endswith("."), words
        assert 40 < len(words) < 500 + 70 * len(series(picture)), (len(words), words)


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("kind", [name for name in explore.__all__ if name not in WORKING])
def test_words_change_with_the_picture(kind):
    """Oracle: what is drawn before and after each move of each control; the words differ where it does."""
    make = getattr(explore, kind)
    e = make(**{name: value for name, value in SMALL.items() if name in make().controls})
    for control in e.controls:
        before = drawn(e), figures.alt_text(e.figure)
        start = e.controls[control].value
        for value in values_of(e.controls[control])[:2]:
            e.controls[control].value = value
            if e.error is None and drawn(e) != before[0]:
                assert figures.alt_text(e.figure) != before[1], (control, value)
                assert e.plot.alt == figures.alt_text(e.figure)
        e.controls[control].value = start


def drawn(explorer) -> list:
    """Every number on screen."""
    return [(t.uid, str(t.x), str(t.y), str(getattr(t, "z", ""))) for t in explorer.figure.data]


# What keys reach ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("kind", explore.__all__)
def test_the_fold_is_a_button_and_tables_scroll_by_keys(kind):
    """Oracle: the widgets; what scrolls has a name and takes the focus."""
    e = getattr(explore, kind)()
    assert e.fold.layout.display == "none"
    for words, shown in (("Fewer", None), ("More", "none")):
        e.opener.click()
        assert (e.opener.description, e.fold.layout.display) == (words, shown)
    e.buttons["table"].click()
    assert e.shown.value.startswith('<div tabindex="0" role="region" aria-label="The numbers of the picture"')
