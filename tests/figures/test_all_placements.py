"""Figures of all placements: what is drawn equals the table, what is off the axis is said, and ranks are Spearman's."""

import pytest

from lntutor import figures
from tests.figures.registry import expected, measures, title, trace


def test_every_measure_has_its_panel_and_every_depth_its_mark():
    """Oracle: means and ranges by hand; the first placement stands on top, the shallow network is hollow."""
    fig = figures.overview(measures(), expected())
    shallow, deep = trace(fig, "1/post/6.0"), trace(fig, "1/post/48.0")
    assert list(shallow.x) == [6.5]
    assert list(shallow.error_x.array) == [0.5]
    assert list(deep.x) == [48.5]
    assert shallow.marker.symbol.endswith("-open")
    assert not deep.marker.symbol.endswith("-open")
    assert list(deep.y) == [5 - 1]
    assert list(trace(fig, "1/theory").x) == [47.0]
    assert list(trace(fig, "2/pre/None").x) == [0.002]
    assert list(fig.layout.yaxis.ticktext)[::-1] == ["Post-LN", "Pre-LN", "no LN", "Peri-LN", "mine"]


def test_what_no_axis_shows_is_said():
    """Oracle: the word at the row of the value that overflows, of one that is missing, and of one that is exactly 0."""
    table = measures()
    fig = figures.overview(table)
    assert {(a.text, a.y) for a in fig.layout.annotations if a.yref == "y"} == {("≫", 2), ("none", 0)}
    assert not any(t.uid == "1/none/48.0" for t in fig.data)
    assert title(fig) == "Rate: from 0.001 (Post-LN) to 0.008 (no LN)"
    assert "gradient: from 48.5 (Post-LN) to 240 (mine)" in figures.alt_text(fig)
    table.loc[(table["placement"] == "pre") & (table["measure"] == "rate"), "value"] = 0.0
    fig = figures.overview(table)
    assert ("0", 3) in {(a.text, a.y) for a in fig.layout.annotations if a.yref == "y"}
    assert "rate is exactly 0: Pre-LN" in figures.alt_text(fig)


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
