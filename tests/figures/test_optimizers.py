"""Figures of the learning rate and of Adam's step: what is drawn equals the table, and titles say what it says."""

import numpy as np
import pytest

from lntutor import figures
from lntutor.figures.optimizers import round_above
from tests.figures.registry import adam_steps, schedule, title, trace


def test_a_schedule_is_read_at_a_step_and_its_area_is_the_sum():
    """Oracle: the table by hand: 1/4 + 2/4 + 3/4 + 1 + 1 + 1 is 4.5, three quarters of 6; the trapezes of the area."""
    fig = figures.rate_by_step(schedule(), warmup=4, peak=1.0, at=6)
    assert title(fig) == "Step 6: rate 1; distance allowed 4.5, 75% of a constant rate's"
    assert (trace(fig, "chosen").x, trace(fig, "chosen").y) == ((6,), (1,))
    np.testing.assert_allclose(trace(fig, "rate").y, schedule()["value"])
    assert max(trace(fig, "sum").x) == 6
    assert trace(fig, "warm-up").x == (4, 4)
    assert fig.layout.xaxis.range == (0, 10)
    assert fig.layout.yaxis.range == (0, 2)
    late = figures.rate_by_step(schedule(), warmup=40, peak=10.0)
    assert title(late).endswith("; the warm-up of 40 steps does not end in this run")
    assert not [t for t in late.data if t.uid == "warm-up"]


@pytest.mark.parametrize(("value", "top"), [(0.9, 1), (1, 2), (1.7, 2), (4e-4, 5e-4), (0.0095, 0.02), (30, 50)])
def test_the_axis_of_rates_ends_at_a_round_number_with_some_room(value, top):
    """Oracle: by hand."""
    assert round_above(value) == pytest.approx(top)


def test_adams_steps_are_those_of_the_table_and_the_uncorrected_ones_only_on_request():
    """Oracle: the table."""
    table = adam_steps()
    fig = figures.adam_by_step(table, limit=0.5, runs=3)
    assert title(fig) == "First step ÷ peak rate: ±1; spread over runs: 1, at step 5 0.2"
    assert trace(fig, "limit").y == (0.5, 0.5)
    assert {t.uid.split("/")[-1] for t in fig.data} == {"with", "limit"}
    both = figures.adam_by_step(table, uncorrected=True)
    part = table[table["correction"] == "without"]
    for column in ("mean", "first", "spread"):
        np.testing.assert_allclose(trace(both, f"{column}/without").y, part[column])
    np.testing.assert_allclose(trace(both, "band/without").y, [*part["high"], *part["low"][::-1]])
    assert "±1 (without correction ±0.2)" in title(both)
    dashes = {trace(both, f"mean/{name}").line.dash for name in ("with", "without")}
    assert len(dashes) == 2  # never by colour alone
