"""Mean-field figures: what is drawn equals the table, and titles say what numpy says."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from lntutor import figures
from lntutor.boundedness import least_delta
from lntutor.theory import theorem_probability
from tests import pictures
from tests.pictures import title, trace


def gradients(along="depth", values=(1, 2, 4, 8), seeds=3, noise=0.05):
    """Post-LN flat, Pre-LN a power law of exponent −½."""
    rows = []
    for (i, key), v, seed in product(enumerate(("post", "pre")), values, range(seeds)):
        depth, width = (v, 64) if along == "depth" else (6, v)
        rows.append((key, depth, width, "ffn", seed, 3.0 * v ** (-0.5 * i) * (1 + noise * seed)))
    return pd.DataFrame(rows, columns=["placement", "depth", "width", "block", "seed", "value"])


def norms(keys=("post", "pre"), count=400):
    random = np.random.default_rng(0)
    parts = [pd.DataFrame({"placement": k, "value": random.chisquare(32 * (i + 1), count)}) for i, k in enumerate(keys)]
    return pd.concat(parts, ignore_index=True)


def side(**more):
    left = gradients().rename(columns={"depth": "layer"})
    options = {"names": ("one", "many"), "along": ("layer", "depth"), "value": "size", "title": "Same top", "chosen": 8}
    return figures.side_by_side(left, gradients(), **{**options, **more})


EVERY = [
    lambda **more: figures.theorem(gradients(), gradients(noise=0), gradients(), gradients(), chosen=8, **more),
    lambda **more: figures.theorem(gradients("width"), along="width", **more),
    lambda **more: side(**more),
    lambda **more: side(left_theory=gradients().rename(columns={"depth": "layer"}), **more),
    lambda **more: figures.bounded(norms(), **more),
]


@pytest.mark.parametrize("lecture", [False, True])
@pytest.mark.parametrize("make", EVERY)
def test_every_figure_is_one_that_plotly_accepts_and_has_words(make, lecture):
    """Oracle: plotly's own validation; title and note stand in the text alternative."""
    pictures.accepted(make, lecture)


def test_the_theorems_marks_are_the_means_and_its_slopes_those_of_numpy():
    """Oracle: means by pandas, slopes by np.polyfit."""
    table = gradients(noise=0.2)
    fig = figures.theorem(table, gradients(noise=0))
    for key in ("post", "pre"):
        means = table[table["placement"] == key].groupby("depth")["value"].mean()
        mark = trace(fig, f"measured/{key}")
        np.testing.assert_allclose(mark.y, means)
        np.testing.assert_allclose(mark.x, means.index)
        np.testing.assert_allclose(
            np.array(mark.y) + mark.error_y.array, table.query("placement == @key").groupby("depth")["value"].max()
        )
    assert "Post-LN 0.00 (recursion 0.00), Pre-LN −0.50 (recursion −0.50)" in title(fig)


def test_the_bound_and_the_closed_form_are_drawn_when_given():
    """Oracle: the tables handed over; a table that is left out leaves no trace."""
    bound = gradients().assign(value=lambda t: 100 * t["value"])
    fig = figures.theorem(gradients(), closed=gradients(noise=0), bound=bound, chosen=8)
    np.testing.assert_allclose(trace(fig, "bound/pre").y, 100 * np.array(trace(fig, "measured/pre").y))
    assert len(trace(fig, "closed").x) == 8
    assert trace(fig, "chosen").x == (8, 8)
    assert "bound lies above" in figures.alt_text(fig)
    assert {t.uid for t in figures.theorem(gradients()).data} == {"measured/post", "measured/pre"}


def test_one_depth_alone_has_no_slope():
    """Oracle: the title names the values; the bound is a mark, since a line of one point is not seen."""
    fig = figures.theorem(gradients(values=(3,)), bound=gradients(values=(3,)))
    assert "Last layer at L = 3: gradient norm Post-LN" in title(fig)
    assert trace(fig, "bound/post").mode == "markers"


def test_both_columns_share_the_axis_of_values_and_the_chosen_place():
    """Oracle: plotly's `matches`, and the same value ringed in both."""
    fig = side()
    assert fig.layout.xaxis2.matches == "x"
    assert trace(fig, "chosen/1").x == trace(fig, "chosen/2").x
    assert set(trace(fig, "chosen/1").y) == {8}
    assert "one, Post-LN: 3.15 at layer 1" in figures.alt_text(fig)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.37])
def test_delta_and_promise_are_those_of_the_table(epsilon):
    """Oracle: least_delta and theorem_probability called directly; the histogram's shares sum to one."""
    table = norms()
    fig = figures.bounded(table, epsilon=epsilon)
    for key, label in (("post", "Post-LN"), ("pre", "Pre-LN")):
        values = table[table["placement"] == key]["value"]
        delta = least_delta(values, epsilon)
        promise = theorem_probability(epsilon, delta)
        assert f"{label} δ = {delta:.3f}, promise {promise:.3f}" in title(fig)
        assert trace(fig, f"here/{key}").y == (promise,)
        assert sum(trace(fig, f"histogram/{key}").y[::2]) == pytest.approx(1)
        assert trace(fig, f"beyond/{key}").x[0] == 1 + epsilon


@pytest.mark.parametrize("make", [figures.theorem, figures.bounded])
def test_empty_tables_say_so(make):
    """Oracle: a sentence in place of the plot."""
    for table in (None, pd.DataFrame(), gradients().head(0), gradients().assign(value=np.nan)):
        assert "There are no" in figures.alt_text(make(table))
    assert "nothing to compare" in figures.alt_text(
        figures.side_by_side(gradients().head(0), gradients(), names=("a", "b"), value="v", title="t")
    )
