"""Mean-field figures: what is drawn equals the table, and titles say what numpy says."""

import numpy as np
import pytest

from lntutor import figures
from lntutor.theory.paper import least_delta, theorem_probability
from tests.figures.registry import of_table, power_laws, title, trace, vector_norms


def test_the_theorems_marks_are_the_means_and_its_slopes_those_of_numpy():
    """Oracle: means by pandas, slopes by np.polyfit."""
    table = power_laws(noise=0.2)
    fig = figures.theorem(table, power_laws(noise=0))
    for key in ("post", "pre"):
        means = table[table["placement"] == key].groupby("depth")["value"].mean()
        mark = trace(fig, f"measured/{key}")
        np.testing.assert_allclose(mark.y, means)
        np.testing.assert_allclose(mark.x, means.index)
        most = table[table["placement"] == key].groupby("depth")["value"].max()
        np.testing.assert_allclose(np.array(mark.y) + mark.error_y.array, most)
    assert "Post-LN 0.00 (recursion 0.00), Pre-LN −0.50 (recursion −0.50)" in title(fig)


def test_the_bound_and_the_closed_form_are_drawn_when_given_and_one_depth_alone_has_no_slope():
    """Oracle: the tables given; a table that is left out leaves no trace; one point is a mark, not a line."""
    bound = power_laws().assign(value=lambda t: 100 * t["value"])
    fig = figures.theorem(power_laws(), closed=power_laws(noise=0), bound=bound, chosen=8)
    np.testing.assert_allclose(trace(fig, "bound/pre").y, 100 * np.array(trace(fig, "measured/pre").y))
    assert len(trace(fig, "closed").x) == 8
    assert trace(fig, "chosen").x == (8, 8)
    assert "bound lies above" in figures.alt_text(fig)
    assert {t.uid for t in figures.theorem(power_laws()).data} == {"measured/post", "measured/pre"}
    fig = figures.theorem(power_laws(values=(3,)), bound=power_laws(values=(3,)))
    assert "Last layer at L = 3: gradient norm Post-LN" in title(fig)
    assert trace(fig, "bound/post").mode == "markers"


def test_both_columns_share_the_axis_of_values_and_the_chosen_place():
    """Oracle: plotly's `matches`, and the same value ringed in both."""
    fig = of_table(figures.side_by_side, chosen=8)
    assert fig.layout.xaxis2.matches == "x"
    assert trace(fig, "chosen/1").x == trace(fig, "chosen/2").x
    assert set(trace(fig, "chosen/1").y) == {8}
    assert "one, Post-LN: 3.15 at layer 1" in figures.alt_text(fig)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.37])
def test_delta_and_promise_are_those_of_the_table(epsilon):
    """Oracle: least_delta and theorem_probability called directly; the histogram's shares sum to one."""
    table = vector_norms()
    fig = figures.bounded(table, epsilon=epsilon)
    for key, label in (("post", "Post-LN"), ("pre", "Pre-LN")):
        values = table[table["placement"] == key]["value"]
        delta = least_delta(values, epsilon)
        promise = theorem_probability(epsilon, delta)
        assert f"{label} δ = {delta:.3f}, promise {promise:.3f}" in title(fig)
        assert trace(fig, f"here/{key}").y == (promise,)
        assert sum(trace(fig, f"histogram/{key}").y[::2]) == pytest.approx(1)
        assert trace(fig, f"beyond/{key}").x[0] == 1 + epsilon
