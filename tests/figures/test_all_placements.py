"""Figures of all placements: what is drawn equals the table, off the axis is said, and ranks are SciPy's definition."""

import numpy as np
import pandas as pd
import pytest

from lntutor import figures
from tests import pictures
from tests.pictures import title, trace

KEYS = ("post", "pre", "peri", "none", "mine")


def measures():
    """Two measures; the first at two depths, with a value that overflows and one that is missing."""
    rows = [
        (key, "gradient", depth, seed, depth * (i + 1) + seed)
        for i, key in enumerate(KEYS)
        for depth in (6, 48)
        for seed in (0, 1)
    ]
    rows += [(key, "rate", np.nan, 0, 0.001 * 2**i) for i, key in enumerate(KEYS)]
    table = pd.DataFrame(rows, columns=["placement", "measure", "depth", "seed", "value"])
    off = (table["placement"] == "none") & (table["depth"] == 48)
    table.loc[off, "value"] = np.inf
    table.loc[(table["placement"] == "mine") & (table["measure"] == "rate"), "value"] = np.nan
    return table


def theory():
    """One value, of the first measure."""
    return pd.DataFrame([("post", "gradient", 48, 47.0)], columns=["placement", "measure", "depth", "value"])


EVERY = [
    lambda **more: figures.overview(measures(), **more),
    lambda **more: figures.overview(measures(), theory(), **more),
    lambda **more: figures.against(measures(), "gradient", "rate", **more),
]


@pytest.mark.parametrize("lecture", [False, True])
@pytest.mark.parametrize("make", EVERY)
def test_every_figure_is_one_that_plotly_accepts_and_has_words(make, lecture):
    """Oracle: plotly's own validation; title and note stand in the text alternative."""
    pictures.accepted(make, lecture)


@pytest.mark.parametrize("make", [figures.overview, lambda table: figures.against(table, "a", "b")])
def test_an_empty_table_is_said_in_a_sentence(make):
    """Oracle: the sentence stands in the picture and in its text alternative."""
    pictures.empty(make)


def test_every_measure_has_its_panel_and_every_depth_its_mark():
    """Oracle: means and ranges by hand; the first placement stands on top, the shallow network is hollow."""
    fig = figures.overview(measures(), theory())
    shallow, deep = trace(fig, "1/post/6.0"), trace(fig, "1/post/48.0")
    assert list(shallow.x) == [6.5]
    assert list(shallow.error_x.array) == [0.5]
    assert list(deep.x) == [48.5]
    assert shallow.marker.symbol.endswith("-open")
    assert not deep.marker.symbol.endswith("-open")
    assert list(deep.y) == [len(KEYS) - 1]
    assert list(trace(fig, "1/theory").x) == [47.0]
    assert list(trace(fig, "2/pre/None").x) == [0.002]
    assert list(fig.layout.yaxis.ticktext)[::-1] == ["Post-LN", "Pre-LN", "no LN", "Peri-LN", "mine"]


def test_what_no_axis_shows_is_said():
    """Oracle: the word at the row of the value that overflows, and of the one that is missing."""
    fig = figures.overview(measures())
    said = {(a.text, a.y) for a in fig.layout.annotations if a.yref == "y"}
    assert said == {("≫", 2), ("none", 0)}
    assert not any(t.uid == "1/none/48.0" for t in fig.data)
    assert title(fig) == "Rate: from 0.001 (Post-LN) to 0.008 (no LN)"
    assert "gradient: from 48.5 (Post-LN) to 240 (mine)" in figures.alt_text(fig)


def test_one_measure_against_another_has_the_placements_that_have_both():
    """Oracle: means by hand at the larger depth; ranks of three that agree are perfectly correlated."""
    fig = figures.against(measures(), "gradient", "rate")
    assert {t.uid for t in fig.data} == {"point/post", "point/pre", "point/peri"}
    assert (list(trace(fig, "point/pre").x), list(trace(fig, "point/pre").y)) == ([96.5], [0.002])
    assert title(fig) == "Rate against gradient: rank correlation 1, 3 placements"


@pytest.mark.parametrize(
    ("x", "y", "rho"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 99], 1.0),
        ([1, 2, 3, 4], [9, 7, 3, 1], -1.0),
        ([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], 1 - 6 * 4 / (5 * 24)),  # 1 − 6Σd²/(n(n² − 1)), without ties
        ([1, 1, 2, 2], [1, 2, 1, 2], 0.0),
    ],
)
def test_the_rank_correlation_is_spearmans(x, y, rho):
    """Oracle: the textbook's formula, and symmetry where there are ties."""
    assert figures.rank_correlation(x, y) == pytest.approx(rho)
