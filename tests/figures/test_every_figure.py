"""What holds for every figure there is: plotly accepts it, it says in words what its title says, and it fits."""

import json
from functools import cache

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from lntutor import figures
from lntutor.figures import style
from tests.figures.registry import BY_PLACEMENTS, EVERY, FIGURES, KEYS, TABLES, UNTITLED, of_table, title

EACH = pytest.mark.parametrize("name", EVERY)
BY_TABLE = pytest.mark.parametrize("function", TABLES, ids=lambda f: f.__name__)
TALL = {"four runs", "block_map", "curvature_over_training"}  # two rows of panels: they scroll on a slide


@cache
def made(name: str, lecture: bool) -> go.Figure:
    """A figure of the registry, with a note where it takes one."""
    return EVERY[name](lecture=lecture, **({"note": "At this size."} if name in FIGURES else {}))


def test_every_public_figure_is_in_the_registry():
    """Oracle: the public names that draw, by what they return."""
    hints = {n: getattr(getattr(figures, n), "__annotations__", {}).get("return") for n in figures.__all__}
    drawing = {name for name, hint in hints.items() if hint == "go.Figure"}
    assert len(drawing) > 30
    assert drawing <= set(EVERY)


@EACH
@pytest.mark.parametrize("lecture", [False, True])
def test_plotly_accepts_it_and_every_trace_has_its_own_name(name, lecture):
    """Oracle: plotly's own checks, which drawing leaves out for speed."""
    fig = made(name, lecture)
    assert json.loads(go.Figure(fig.to_dict()).to_json()) == json.loads(fig.to_json())
    if name in FIGURES:
        assert len({t.uid for t in fig.data}) == len(fig.data)
    assert all(t.type != "scatter" or len(t.x) == len(t.y) > 0 for t in fig.data if t.name != "branches")


@EACH
def test_title_and_note_are_in_the_text_alternative(name):
    """Oracle: the title, without markup, after the kind of plot."""
    fig = made(name, lecture=False)
    alt, first = figures.alt_text(fig).replace("\u00a0", " "), title(fig).partition(" x ←")[0]
    assert first or name in UNTITLED
    assert first.rstrip(".") in alt
    assert not first or not alt.startswith(first)
    assert ("At this size." in alt) == (name in FIGURES)


@EACH
def test_the_lecture_variant_has_larger_type_and_marks_and_fits_on_a_slide(name):
    """Oracle: type and marks of the two variants; a slide has 720 pixels."""
    small, large = (made(name, lecture) for lecture in (False, True))
    assert small.layout.template.layout.font.size >= 14
    assert large.layout.template.layout.font.size >= 20
    assert large.layout.height <= 680 or name in TALL or "all placements" in name
    pairs = [pair for pair in zip(small.data, large.data, strict=True) if pair[0].type == "scatter"]
    sizes = [[np.max(t.marker.size) for t in pair] for pair in pairs if pair[0].marker.size is not None]
    assert all(b > a for a, b in sizes)


@EACH
def test_titles_fit_at_700_pixels_and_in_a_lecture_at_900_and_width_is_left_to_the_page(name):
    """Oracle: at most 80 visible characters per line, 72 in the lecture variant; the layout; no TeX for MathJax."""
    for lecture, most in ((False, 80), (True, 72)):
        fig = made(name, lecture)
        assert all(len(style.plain(line)) <= most for line in (fig.layout.title.text or "").split("<br>"))
        assert fig.layout.width is fig.layout.autosize is None
        assert "$" not in fig.to_json()


@BY_TABLE
def test_a_table_without_rows_or_columns_gives_a_sentence_and_what_is_no_table_is_refused(function):
    """Oracle: no traces, one sentence, the same in the text alternative; a ValueError that says what was given."""
    with pytest.raises(ValueError, match=r"a figure draws a pandas table .*, got 3"):
        of_table(function, 3)
    for table in (TABLES[function]()[:0], pd.DataFrame()):
        fig = of_table(function, table, note="a note")
        assert not fig.data
        assert len(fig.layout.annotations) == 1
        assert figures.alt_text(fig).startswith("There ")
        assert figures.alt_text(fig).startswith(fig.layout.annotations[0].text)


@BY_TABLE
def test_one_row_is_drawn_and_tables_are_left_as_they_were(function):
    """Oracle: a row taken alone gives a title and a text alternative; a copy of the table made before."""
    table = TABLES[function]()
    before = table.copy(deep=True)
    of_table(function, table)
    pd.testing.assert_frame_equal(table, before)
    for i in (0, len(table) // 2, len(table) - 1):
        fig = of_table(function, table[i : i + 1])
        assert title(fig) or not fig.data
        assert figures.alt_text(fig)


@BY_TABLE
def test_values_that_are_not_finite_do_not_stop_a_figure(function):
    """Oracle: a table whose numbers are partly nan and infinite is drawn, and one of nan alone is a sentence."""
    table = TABLES[function]()
    columns = {"value", "loss", "density", "gradient", "entropy", "lambda_max", "val_loss"} & set(table.columns)
    for column in columns:
        numbers = table[column].to_numpy(float, copy=True)
        numbers[::3], numbers[1::7] = np.nan, np.inf
        table[column] = numbers
    assert figures.alt_text(of_table(function, table))
    assert figures.alt_text(of_table(function, table.assign(**dict.fromkeys(columns, np.nan))))


@pytest.mark.parametrize("function", BY_PLACEMENTS, ids=lambda f: f.__name__)
def test_all_placements_and_invented_ones_are_drawn_in_a_fixed_order(function):
    """Oracle: traces of a shuffled table are those of the table."""
    table = TABLES[function](placements=(*KEYS, "mine", "yours"))
    fig, other = function(table), function(table.sample(frac=1, random_state=0))
    assert [(t.uid, t.name) for t in fig.data] == [(t.uid, t.name) for t in other.data]
    assert {"mine", "yours"} <= {t.name.partition(",")[0] for t in fig.data}
    assert "from" in title(fig)
