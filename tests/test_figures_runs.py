"""Figures of ended runs: what is drawn equals the table, and titles say what pandas says."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from lntutor import figures
from tests import pictures
from tests.pictures import title, trace


def ended(diverged=()):
    """Two cases, two placements, three seeds; runs named in `diverged` as (case, placement, seed) are lost."""
    rows = [
        (case, key, seed, np.inf if (case, key, seed) in diverged else 1.0 + 2 * i + j + 0.1 * seed, 50.0 - 20 * i)
        for (i, case), (j, key), seed in product(enumerate(("mild", "bold")), enumerate(("post", "pre")), range(3))
    ]
    return pd.DataFrame(rows, columns=["case", "placement", "seed", "val_loss", "bleu"])


def rates():
    """Two schedules over ten steps: constant, and a straight line."""
    parts = {"constant": lambda t: 0.5, "line": lambda t: t / 10}
    return pd.DataFrame({"run": name, "step": t, "value": f(t)} for name, f in parts.items() for t in range(1, 11))


def trained(runs=("one", "two")):
    """Gradients of three layers at three steps that fall by half each time; both sides, two matrices, two seeds."""
    places = product(runs, (1, 50, 100), ("encoder", "decoder"), (1, 2, 3), ("W_1", "W_2"), (0, 1))
    rows = [
        (run, step, "post" if run == "one" else "pre", side, layer, matrix, seed, layer / (1 + step // 50) + 0.1 * seed)
        for run, step, side, layer, matrix, seed in places
    ]
    columns = ["run", "step", "placement", "side", "layer", "parameter", "seed", "value"]
    return pd.DataFrame(rows, columns=columns)


LOST = (("bold", "post", 1),)
EVERY = [
    lambda **more: figures.outcomes(ended(), **more),
    lambda **more: figures.outcomes(ended(LOST), line=2.0, **more),
    lambda **more: figures.outcomes(ended(), value="bleu", what="BLEU", lower_is_better=False, **more),
    lambda **more: figures.schedules(rates(), **more),
    lambda **more: figures.gradient_over_training(trained(), **more),
    lambda **more: figures.gradient_over_training(trained(("one", "two", "three", "four")), **more),
]


@pytest.mark.parametrize("lecture", [False, True])
@pytest.mark.parametrize("make", EVERY)
def test_every_figure_is_one_that_plotly_accepts_and_has_words(make, lecture):
    """Oracle: plotly's own validation; title and note stand in the text alternative."""
    pictures.accepted(make, lecture)


@pytest.mark.parametrize("make", [figures.outcomes, figures.schedules, figures.gradient_over_training])
def test_an_empty_table_is_said_in_a_sentence(make):
    """Oracle: the sentence stands in the picture and in its text alternative."""
    pictures.empty(make)


def test_outcomes_show_every_seed_and_the_mean_of_each_case():
    """Oracle: the table itself, and means by pandas; the first case stands on top."""
    table = ended()
    fig = figures.outcomes(table)
    assert list(fig.layout.yaxis.ticktext) == ["bold", "mild"]
    for key in ("post", "pre"):
        here = table[table["placement"] == key]
        assert sorted(trace(fig, f"seeds/{key}").x) == sorted(here["val_loss"])
        means = here.groupby("case")["val_loss"].mean()
        np.testing.assert_allclose(trace(fig, f"mean/{key}").x, means.loc[["bold", "mild"]])
    assert "Post-LN (mild) 1.1; Pre-LN (mild) 2.1" in title(fig)


def test_the_best_case_of_a_score_is_the_highest():
    """Oracle: the table's BLEU."""
    fig = figures.outcomes(ended(), value="bleu", what="BLEU", lower_is_better=False)
    assert title(fig) == "Highest BLEU: Post-LN (mild) 50; Pre-LN (mild) 50"


def test_a_run_that_diverged_stands_at_the_edge_and_its_case_has_no_mean():
    """Oracle: all finite losses are left of its mark; the words say it."""
    table = ended(LOST)
    fig = figures.outcomes(table)
    lost = trace(fig, "diverged/post")
    assert len(lost.x) == 1
    assert lost.x[0] > table["val_loss"][np.isfinite(table["val_loss"])].max()
    assert lost.x[0] < fig.layout.xaxis.range[1]
    assert len(trace(fig, "mean/post").x) == 1
    assert "diverged (bold)" in figures.alt_text(fig)


def test_schedules_draw_the_rates_and_say_where_they_end():
    """Oracle: the table."""
    table = rates()
    fig = figures.schedules(table, what="Share")
    for run, part in table.groupby("run"):
        np.testing.assert_allclose(trace(fig, f"schedule/{run}").y, part["value"])
    assert title(fig) == "Share at step 10: 0.5 (constant); 1 (line)"
    assert len({t.line.dash for t in fig.data}) == len({t.line.color for t in fig.data}) == 2


def test_gradients_over_training_have_a_panel_a_run_and_a_curve_a_step():
    """Oracle: means by pandas of the rows of one matrix and side."""
    table = trained()
    fig = figures.gradient_over_training(table, steps=(1, 100), parameter="W_1", side="encoder")
    rows = table.query("parameter == 'W_1' and side == 'encoder'")
    for run, key in (("one", "post"), ("two", "pre")):
        for step in (1, 100):
            mark = trace(fig, f"{run}/{key}/{step}")
            means = rows[(rows["run"] == run) & (rows["step"] == step)].groupby("layer")["value"].mean()
            np.testing.assert_allclose(mark.x, means)
            np.testing.assert_allclose(mark.y, means.index)
    assert not [t for t in fig.data if t.uid.endswith("/50")]
    change = rows.query("layer == 3").groupby(["run", "step"])["value"].mean()["one"]
    assert f"one {change[100] / change[1]:.1f}×" in title(fig)


def test_the_legend_tells_steps_apart_without_colour():
    """Oracle: marks and dashes differ between steps, and are those of the curves."""
    fig = figures.gradient_over_training(trained())
    keys = [t for t in fig.data if t.uid.startswith("step/")]
    assert [t.name for t in keys] == ["step 1", "step 50", "step 100"]
    assert len({t.marker.symbol for t in keys}) == len({t.line.dash for t in keys}) == 3
    assert trace(fig, "one/post/50").marker.symbol == keys[1].marker.symbol
