"""Figures and explorers for readers who see no colour, or no picture: a second cue, and the finding in words."""

import re
from collections.abc import Iterator
from itertools import combinations

import pytest

from lntutor import explore, figures
from lntutor.figures.style import INK
from tests.explore.explorers import NAMES, WORKING, choose, small, some_values
from tests.figures.registry import EVERY, luminance

RING = 18  # pixels: so wide that it stands around a mark
BROAD = 4  # pixels: so much wider than a thin line that nobody takes one for the other


@pytest.fixture(scope="module")
def pictures() -> list[dict]:
    """Every figure as a dict; some have all placements, theory and a pinned curve."""
    return [make().to_dict() for make in EVERY.values()]


def alt(picture: dict) -> str:
    return picture["layout"]["meta"]["alt"]


def series(picture: dict) -> list[dict]:
    """What is drawn: no cells, no words, no entries of the legend alone, no shade under an outline."""
    drawn = [t for t in picture["data"] if t["type"] in ("scatter", "bar") and t.get("mode") != "text"]
    return [t for t in drawn if any(v is not None for v in t["x"]) and not ("fill" in t and t["line"]["width"] == 0)]


def colour(trace: dict) -> str:
    return trace["line" if "lines" in trace.get("mode", "") else "marker"]["color"]


def cues(trace: dict) -> tuple:
    """All that tells a series from another in a grey print: dash, breadth, symbol, ring, pattern, faintness."""
    mode, line, marker = trace.get("mode", ""), trace.get("line", {}), trace.get("marker", {})
    dash = (line.get("dash", "solid"), line.get("width", 2) >= BROAD) if "lines" in mode else ()
    ring = isinstance(marker.get("size"), float | int) and marker["size"] >= RING
    symbol = (marker.get("symbol", "circle"), ring) if "markers" in mode else ()
    pattern = marker.get("pattern", {}).get("shape") if trace["type"] == "bar" else ()
    return dash, symbol, pattern, trace.get("opacity", 1) == 1


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


def fonts(part) -> Iterator[dict]:
    """Every font in a figure's dict."""
    if isinstance(part, dict):
        yield from (part[key] for key in ("font", "tickfont", "textfont") if isinstance(part.get(key), dict))
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, (list, tuple)) else ():
        yield from fonts(value)


def test_words_in_figures_stand_out_from_white(pictures):
    """Oracle: WCAG's contrast ratio, at least 4.5:1 for text; white words are for dark cells alone."""
    colours = (font.get("color") for font in fonts(pictures))
    found = {c for c in colours if isinstance(c, str)} - {"white", "#FFFFFF", "#ffffff"}
    assert INK in found
    assert not {c: 1.05 / (luminance(c) + 0.05) for c in found if 1.05 / (luminance(c) + 0.05) < 4.5}


def test_the_words_of_every_figure_have_numbers_no_markup_and_an_end(pictures):
    """Oracle: the text alternative; a screen reader needs some ten seconds for 150 characters."""
    for picture in pictures:
        text = alt(picture).replace("mine <b>", "mine")  # a name that a reader gave
        assert re.search(r"\d", text), text
        assert not re.search(r"</?\w|&\w+;", text), text
        assert text.endswith("."), text
        assert 40 < len(text) < 500 + 70 * len(series(picture)), (len(text), text)


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("kind", [name for name in NAMES if name not in WORKING])
def test_words_change_with_the_picture(kind):
    """Oracle: what is drawn before and after each move of each control; the words differ where it does."""
    e = small(getattr(explore, kind))
    for control in e.controls:
        before = drawn(e), figures.alt_text(e.figure)
        start = e.controls[control].value
        for value in some_values(e.controls[control])[:2]:
            e.controls[control].value = value
            if e.error is None and drawn(e) != before[0]:
                assert figures.alt_text(e.figure) != before[1], (control, value)
                assert e.plot.alt == figures.alt_text(e.figure)
        e.controls[control].value = start


def drawn(explorer) -> list:
    """Every number on screen, to four digits: more, nobody sees."""
    parts = [(t.uid, t.x, t.y, getattr(t, "z", "")) for t in explorer.figure.data]
    return [re.sub(r"\d+\.\d+(e-?\d+)?", lambda found: f"{float(found[0]):.4g}", str(part)) for part in parts]


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("kind", NAMES)
def test_controls_have_names_and_tooltips_and_tables_scroll_by_keys(kind):
    """Oracle: the parts; what scrolls has a name and takes the focus."""
    e = getattr(explore, kind)()
    assert all(part.description and part.tooltip for part in (*e.controls.values(), *e.buttons.values()))
    choose(e, "Show or hide the table")
    assert e.table_area.value.startswith('<div tabindex="0" role="region" aria-label="The numbers of the picture"')
