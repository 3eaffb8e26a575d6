"""What 05_gradients brings: its dot plot, and the measurements behind two of its exercises."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

import lntutor as ln
from lntutor import figures
from lntutor.exercises import gradients
from lntutor.placements import PLACEMENTS

ROWS = ("first", "second <b>", "third")


def dots(row="setting", names=ROWS, placements=("post", "pre"), seeds=3):
    rows = [
        (key, name, seed, 2.0**i * (1 + j) * (1 + 0.1 * seed))
        for j, key in enumerate(placements)
        for i, name in enumerate(names)
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=["placement", row, "seed", "value"])


def marks_of(figure):
    return [trace for trace in figure.data if trace.mode == "markers"]


@pytest.mark.parametrize("lecture", [False, True])
def test_every_row_has_its_mean_and_range(lecture):
    """Oracle: pandas; words stand in the table's order, the first on top."""
    table = dots()
    figure = figures.values_by_row(table, row="setting", what="ratio", lecture=lecture)
    go.Figure(figure.to_dict())  # plotly checks every value
    assert list(figure.layout.yaxis.ticktext) == ["third", "second &lt;b&gt;", "first"]
    for key, trace in zip(("post", "pre"), marks_of(figure), strict=True):
        groups = table[table["placement"] == key].groupby("setting", sort=False)["value"]
        np.testing.assert_allclose(trace.x, groups.mean()[::-1])
        np.testing.assert_allclose(np.add(trace.x, trace.error_x.array), groups.max()[::-1])
        np.testing.assert_array_equal(np.round(trace.y), [0, 1, 2])


def test_layers_stand_with_the_input_at_the_bottom():
    """Oracle: the order of the ticks, whatever the table's."""
    figure = figures.values_by_row(dots("layer", (2, 0, 1)), row="layer", what="ratio")
    assert list(figure.layout.yaxis.ticktext) == ["0", "1", "2"]
    assert "input at the bottom" in figure.layout.yaxis.title.text


def test_the_title_and_the_words_say_what_is_drawn():
    """Oracle: the least and the greatest mean by hand: 1.1 to 4.4 for Post-LN, twice that for Pre-LN."""
    figure = figures.values_by_row(dots(), row="setting", what="ratio", line=3.0)
    assert figure.layout.title.text == "ratio: Post-LN 1.1 to 4.4; Pre-LN 2.2 to 8.8"
    assert "2.2 (second <b>)" in figures.alt_text(figure)
    line = next(trace for trace in figure.data if trace.uid == "line")
    assert set(line.x) == {3.0}


@pytest.mark.parametrize("table", [None, pd.DataFrame(), dots().drop(columns="setting"), dots().assign(value=-1.0)])
def test_without_rows_the_figure_says_so(table):
    """Oracle: the sentence."""
    assert "nothing to show by setting" in figures.alt_text(figures.values_by_row(table, row="setting", what="ratio"))


def test_any_placement_has_a_mark():
    """Oracle: the labels, one of a reader's own included; without a line there is none."""
    keys = (*list(PLACEMENTS)[:3], "mine")
    figure = figures.values_by_row(dots(placements=keys), row="setting", what="ratio", line=None)
    assert [trace.name for trace in figure.data] == ["Post-LN", "Pre-LN", "no LN", "mine"]


def test_a_setting_is_judged_by_what_is_measured():
    """Oracle: gradient_norms of the same two models, in the explorer's defaults but for what is named."""
    cfg = ln.ModelConfig("pre", depth=3, width=32, ffn=128)
    low = [
        ln.gradient_norms(one, parameters=("W_2",)).query("side == 'decoder' and layer == 1")["value"].to_numpy()
        for one in (cfg, cfg.with_(placement="post"))
    ]
    expected = np.exp(np.log(low[0] / low[1]).mean())
    assert gradients.pre_over_post({"depth": 3, "width": 32, "view": "by layer"}) == pytest.approx(expected, rel=1e-6)
    assert gradients.how_far({"depth": 3, "width": 32}) == pytest.approx(min(expected / gradients.TIMES, 1))
    assert gradients.how_far(...) is None
    with pytest.raises(ValueError, match="no control 'deep'; it has depth, width"):
        gradients.how_far({"deep": 3})


def test_what_is_read_off_the_explorer_is_what_it_shows():
    """Oracle: Fig. 3's model measured, one seed after the other; the tolerance leaves room for either."""
    table = ln.gradient_norms(ln.ModelConfig.figure3("post"), seeds=range(2), parameters=("W_2",))
    by_layer = table.query("side == 'decoder'").pivot_table(index="layer", columns="seed", values="value")
    factor = (by_layer.loc[1] / by_layer.loc[6]) ** (1 / 5)
    task = gradients.FALL_PER_LAYER
    np.testing.assert_allclose(factor, task.reference, atol=task.tolerance)


def test_marks_stand_in_their_rows_however_many_placements_there_are():
    """Oracle: the places of the rows; one placement a row stands on it, several stay within it."""
    keys = list(ln.PLACEMENTS)[:10]
    alone = pd.DataFrame([(key, key, seed, 1.0 + i) for i, key in enumerate(keys) for seed in (0, 1)],
                         columns=["placement", "name", "seed", "value"])  # fmt: skip
    figure = figures.values_by_row(alone, row="name", what="ratio")
    assert {t.uid: t.y[0] for t in figure.data if t.uid != "line"} == {
        f"measured/{k}": 9 - i for i, k in enumerate(keys)
    }
    together = figures.values_by_row(alone.assign(name="one"), row="name", what="ratio")
    assert max(abs(t.y[0]) for t in together.data if t.uid != "line") < 0.35
