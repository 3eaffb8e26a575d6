"""Figures of training: what is drawn equals the table, and titles say what pandas says."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lntutor import figures
from lntutor.figures import style
from lntutor.figures.training import thinned
from lntutor.model.placements import PLACEMENTS
from tests.figures.registry import LOST, ended, grid, rates, runs, title, trace, trained


def test_training_curves_draw_what_there_is():
    """Oracle: the table's columns; the last validation loss is in the title."""
    table = runs()
    fig = figures.training_curves(table)
    assert {t.uid.split("/")[0] for t in fig.data} == {"loss", "lr", "gradient", "val_loss"}
    np.testing.assert_allclose(trace(fig, "loss/post").y, table[table["run"] == "post"]["loss"])
    assert title(fig) == "After 20 steps, validation loss: Post-LN 5.3; mine <b> 1.5"
    bare = figures.training_curves(table[["run", "step", "loss"]])
    assert {t.uid.split("/")[0] for t in bare.data} == {"loss"}
    lost = table.assign(loss=table["loss"].where(table["step"] < 5))
    assert "Diverged" in figures.alt_text(figures.training_curves(lost))


def many_runs(steps=500, **columns):
    """Runs of two placements with noise and one spike, long enough to be thinned and averaged."""
    at = np.arange(1, steps + 1)
    parts = []
    for i, (run, key) in enumerate((("a", "pre"), ("b", "post"), ("c", "post"), ("d", "post"), ("e", "post"))):
        noise = np.random.default_rng(i).normal(size=steps)
        loss = 5 / np.sqrt(at) + 0.1 * noise
        gradient = np.where(at == 123, 50.0, 1 + 0.1 * np.abs(noise))
        parts.append(pd.DataFrame({"run": run, "placement": key, "step": at, "loss": loss, "gradient": gradient}))
    return pd.concat(parts, ignore_index=True).assign(lr=0.01, **columns)


def test_long_runs_are_thinned_but_keep_their_spikes_and_their_average():
    """Oracle: the largest gradient of the table; numpy's mean of the 21 losses around a step."""
    table = many_runs()
    fig = figures.training_curves(table)
    assert max(len(t.x) for t in fig.data) <= 250
    for run, part in table.groupby("run"):
        drawn = trace(fig, f"gradient/{run}")
        assert dict(zip(drawn.x, drawn.y, strict=True))[123] == 50
        assert (drawn.x[0], drawn.x[-1]) == (1, 500)
        loss, mean = part["loss"].to_numpy(), trace(fig, f"mean/{run}")
        known = dict(zip(mean.x, mean.y, strict=True))
        assert known[1] == pytest.approx(loss[0])
        assert known[500] == pytest.approx(loss[489:].mean())
        inner = [step for step in known if 11 <= step <= 490]
        np.testing.assert_allclose([known[s] for s in inner], [loss[s - 11 : s + 10].mean() for s in inner])


@settings(max_examples=50)
@given(st.lists(st.floats(-1e6, 1e6) | st.just(np.nan), min_size=1, max_size=400), st.integers(10, 60))
def test_thinning_keeps_ends_and_extremes(values, most):
    """Oracle: numpy's least and greatest value."""
    values = np.array(values)
    x, y = thinned(np.arange(len(values)), values, most)
    assert len(x) <= most
    assert x == sorted(set(x))
    assert (x[0], x[-1]) == (0, len(values) - 1)
    kept = [v for v in y if v is not None]
    if kept:
        assert (min(kept), max(kept)) == (np.nanmin(values), np.nanmax(values))


def test_runs_of_one_placement_share_its_hue_and_differ_in_line_and_mark():
    """Oracle: the placement's own style for its first run; no two of four alike in dash or in mark."""
    table = many_runs()
    fig = figures.training_curves(table.assign(val_loss=table["loss"].where(table["step"] % 100 == 0)))
    names = [t.name for t in fig.data if t.showlegend]
    assert names == ["b", "c", "d", "e", "a"]  # placements in their order, and runs as they come
    own = style.placement_style("post")
    assert trace(fig, "mean/b").line.dash == own["dash"]
    assert trace(fig, "mean/b").line.color == own["color"]
    assert trace(fig, "mean/c").line.color == style.darker(own["color"], 0.6)
    assert len({trace(fig, f"mean/{run}").line.dash for run in "bcde"}) == 4
    assert len({trace(fig, f"val_loss/{run}").marker.symbol for run in "bcde"}) == 4


def test_seeds_of_a_run_are_a_line_each_and_the_title_has_their_mean():
    """Oracle: two seeds whose last losses are 1 and 2."""
    parts = [pd.DataFrame({"run": "pre", "seed": s, "step": [1, 2], "loss": [5.0, 1.0 + s]}) for s in (0, 1)]
    fig = figures.training_curves(pd.concat(parts))
    assert [t.uid for t in fig.data] == ["loss/pre/0", "loss/pre/1"]
    assert [t.showlegend for t in fig.data] == [True, False]
    assert title(fig) == "After 2 steps, loss: Pre-LN 1.5"


def test_a_loss_that_runs_away_is_marked_and_does_not_stretch_the_axis():
    """Oracle: the axis ends at 1.5 times the first loss and a little room; the last finite step is marked."""
    losses = [6.0, 5.0, 4000.0, np.nan]
    lost = pd.DataFrame({"run": "post", "step": [1, 2, 3, 4], "loss": losses})
    fig = figures.training_curves(pd.concat([lost, lost.assign(run="pre", loss=[6.0, 4.0, 3.0, 2.0])]))
    low, high = fig.layout.yaxis.range
    assert low < 2
    assert 9 < high < 10
    assert (trace(fig, "diverged/post").x, trace(fig, "diverged/post").text) == ((3,), ("diverged",))
    assert title(fig) == "After 4 steps, loss: Pre-LN 2; diverged: Post-LN"
    assert fig.layout.xaxis.range[1] < figures.training_curves(lost, steps=100).layout.xaxis.range[1] == 102


def test_heat_maps_share_a_scale_and_carry_the_numbers():
    """Oracle: the table, averaged over seeds."""
    table = pd.concat([grid(), grid().assign(value=grid()["value"] + 2)])
    fig = figures.warmup_heatmap(table)
    assert {t.coloraxis for t in fig.data} == {"coloraxis"}
    np.testing.assert_allclose(np.array(trace(fig, "heat/post").z, float), [[2.01, 3.01], [2.1, 3.1]])
    assert trace(fig, "heat/post").text[0][1] == "3"
    assert "Post-LN 2.01; Pre-LN 3.01" in title(fig)
    assert "Post-LN 3.1; Pre-LN 4.1" in title(figures.warmup_heatmap(table, lower_is_better=False))


def test_outcomes_show_every_seed_and_the_mean_of_each_case():
    """Oracle: the table itself, and means by pandas; the first case is on top; a score is best where highest."""
    table = ended()
    fig = figures.outcomes(table)
    assert list(fig.layout.yaxis.ticktext) == ["bold", "mild"]
    for key in ("post", "pre"):
        here = table[table["placement"] == key]
        assert sorted(trace(fig, f"seeds/{key}").x) == sorted(here["val_loss"])
        means = here.groupby("case")["val_loss"].mean()
        np.testing.assert_allclose(trace(fig, f"mean/{key}").x, means.loc[["bold", "mild"]])
    assert "Post-LN (mild) 1.1; Pre-LN (mild) 2.1" in title(fig)
    fig = figures.outcomes(ended(), value="bleu", what="BLEU", lower_is_better=False)
    assert title(fig) == "Highest BLEU: Post-LN (mild) 50; Pre-LN (mild) 50"


def test_many_placements_keep_their_cases():
    """Oracle: pandas: the case with the lowest mean of each of seven placements."""
    keys = list(PLACEMENTS)[:7]
    rows = [(c, k, 0, 10.0 * i + (j + i) % 3) for (i, c), (j, k) in product(enumerate("abc"), enumerate(keys))]
    table = pd.DataFrame(rows, columns=["case", "placement", "seed", "val_loss"])
    fig = figures.outcomes(table)
    for key, part in table.groupby("placement"):
        cases = ", ".join(f"{v:g} ({c})" for c, v in zip("cba", part["val_loss"][::-1], strict=True))
        assert f"{PLACEMENTS[key].label}: {cases}" in figures.alt_text(fig)
        drawn = dict(zip(trace(fig, f"mean/{key}").x, trace(fig, f"mean/{key}").y, strict=True))
        assert [round(drawn[v]) for v in part["val_loss"]] == [2, 1, 0]


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


def test_gradients_over_training_have_a_panel_per_run_and_a_curve_per_step():
    """Oracle: means by pandas of the rows of one matrix and side; marks and dashes of the legend differ by step."""
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
    fig = figures.gradient_over_training(trained())
    keys = [t for t in fig.data if t.uid.startswith("step/")]
    assert [t.name for t in keys] == ["step 1", "step 50", "step 100"]
    assert len({t.marker.symbol for t in keys}) == len({t.line.dash for t in keys}) == 3
    assert trace(fig, "one/post/50").marker.symbol == keys[1].marker.symbol
