"""Figures: what is drawn equals the table, titles say what numpy says, and nothing fails on odd tables."""

import json
import re
import subprocess
import sys
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lntutor import figures
from lntutor.figures import graph, lesson, style
from lntutor.figures.training import thinned
from lntutor.placements import PLACEMENTS, At, Placement, draw, final_norm

KEYS = tuple(PLACEMENTS)
STACKS = ("encoder", "decoder", "encoder-decoder")


# Tables, made here -------------------------------------------------------------------------------------------------


def gradients(placements=("post", "pre"), layers=6, seeds=3, sides=("encoder", "decoder"), parameter="W_2", **more):
    """A gradient table with known numbers: 2^(layer · i) times a factor a seed."""
    blocks = {
        "W_2": {"encoder": ["ffn"], "decoder": ["ffn"]},
        "W_V": {"encoder": ["self"], "decoder": ["self", "cross"]},
    }
    rows = [
        (key, layers, 64, side, layer, block, parameter, seed, (1 + i) * 2.0 ** (layer * (i - 0.5)) * (1 + 0.1 * seed))
        for i, key in enumerate(placements)
        for side in sides
        for block in blocks[parameter][side]
        for layer in range(1, layers + 1)
        for seed in range(seeds)
    ]
    names = ["placement", "depth", "width", "side", "layer", "block", "parameter", "seed", "value"]
    return pd.DataFrame(rows, columns=names).assign(below_floor=False, **more)


def scaling(along="depth", placements=("post", "pre"), values=(1, 2, 4, 8), seeds=3):
    rows = []
    for i, key in enumerate(placements):
        for v, seed in product(values, range(seeds)):
            depth, width = (v, 64) if along == "depth" else (6, v)
            value = 3.0 * v ** (-0.5 * i) * (1 + 0.05 * seed * v)
            rows.append((key, depth, width, "encoder", depth, "ffn", "W_2", seed, value, False))
    names = ["placement", "depth", "width", "side", "layer", "block", "parameter", "seed", "value", "below_floor"]
    return pd.DataFrame(rows, columns=names)


def signals(placements=("post", "pre"), layers=4, seeds=2, top=1.0):
    rows = []
    for i, key in enumerate(placements):
        for side, seed in product(("encoder", "decoder"), range(seeds)):
            for layer in range(layers + 1):
                value = top * (1 + i * layer) * (1 + 0.01 * seed)
                rows.append((key, layers, 64, side, layer, "out" if layer else "in", seed, value))
                if layer:
                    rows.append((key, layers, 64, side, layer, "sum", seed, 1.5 * value))
            rows.append((key, layers, 64, side, layers, "final", seed, top))
    return pd.DataFrame(rows, columns=["placement", "depth", "width", "side", "layer", "site", "seed", "value"])


def softmaxes():
    rows = [
        (d, s, 2.0 if s else 2.0 / d, 0.5 if s else 0.5 / d, seed)
        for d in (4, 64)
        for s in (True, False)
        for seed in (0, 1)
    ]
    return pd.DataFrame(rows, columns=["d", "scaled", "entropy", "gradient", "seed"])


def runs():
    steps = np.arange(1, 21)
    parts = [
        pd.DataFrame({"run": run, "step": steps, "loss": 5 - rate * steps, "lr": 0.01, "gradient": 1.0 + rate})
        for run, rate in (("post", 0.01), ("mine <b>", 0.2))
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(val_loss=np.where(table["step"] % 10 == 0, table["loss"] + 0.5, np.nan))


def grid():
    rows = [
        (p, lr, w, 1 + i + lr * 10 + w / 100)
        for i, p in enumerate(("post", "pre"))
        for lr in (0.001, 0.01)
        for w in (0, 100)
    ]
    return pd.DataFrame(rows, columns=["placement", "lr", "warmup", "value"])


def spectra(placements=("post", "pre")):
    x = np.linspace(-5, 5, 41)
    parts = [
        pd.DataFrame({"placement": p, "seed": s, "x": x, "density": np.exp(-(x**2))}).assign(
            lambda_max=4.0 / (i + 1) + 0.1 * s, lambda_min=-2.0
        )
        for i, p in enumerate(placements)
        for s in range(2)
    ]
    return pd.concat(parts, ignore_index=True)


def jacobians():
    return pd.DataFrame({"name": ["LN"] * 4, "index": [1, 2, 3, 4], "value": [0.5, 0.5, 1e-17, 0.0]})


def norms():
    return pd.DataFrame({"size": [1.0, 2.0, 4.0], "value": [3.0, 1.5, 0.75], "predicted": [3.0, 1.5, 0.75]})


TABLES = {
    figures.gradient_by_layer: gradients,
    figures.gradient_by_depth: scaling,
    figures.gradient_by_width: lambda **more: scaling("width", **more),
    figures.signal_by_layer: signals,
    figures.similarity_by_layer: lambda **more: signals(top=0.1, **more),
    figures.softmax_saturation: softmaxes,
    figures.jacobian_spectrum: jacobians,
    figures.jacobian_norm: norms,
    figures.training_curves: runs,
    figures.warmup_heatmap: grid,
    figures.spectrum: spectra,
}
BY_TABLE = pytest.mark.parametrize("function", TABLES, ids=lambda f: f.__name__)
BY_PLACEMENTS = [
    figures.gradient_by_layer,
    figures.gradient_by_depth,
    figures.gradient_by_width,
    figures.signal_by_layer,
    figures.similarity_by_layer,
    figures.spectrum,
]


def vector(lecture=False):
    x = np.array([1.0, 2.0, 4.0, 9.0])
    y = x - x.mean()
    outputs = {"right": y / x.std(), "the talk's σ": y / (np.sqrt((y**2).sum()) / 4)}
    return figures.layer_norm_before_after(x, outputs, lecture=lecture)


def attention(lecture=False):
    return figures.attention_map(np.full((2, 3, 3), 1 / 3), ["a", "b", "c"], lecture=lecture)


def every_figure(lecture):
    yield from (function(make(), lecture=lecture) for function, make in TABLES.items())
    yield from (vector(lecture), attention(lecture), figures.block_diagram("post", lecture=lecture))
    yield figures.course_map(lecture=lecture)


def trace(fig, uid):
    return next(t for t in fig.data if t.uid == uid)


def title(fig):
    return style.plain((fig.layout.title.text or "").replace("<br>", " ").replace("\u00a0", " "))


def test_the_map_has_a_stop_for_every_notebook_but_the_first():
    """Oracle: the map in the README."""
    readme = Path(__file__).resolve().parent.parent / "README.md"
    numbers = re.findall(r"^\| \[?(\d\d)_", readme.read_text(encoding="utf-8"), re.MULTILINE)
    assert [style.plain(text) for text in trace(figures.course_map(), "notebooks").text] == numbers[1:]


# What is drawn -----------------------------------------------------------------------------------------------------


def test_marks_by_layer_are_the_means_with_the_least_and_greatest_value():
    """Oracle: numpy on the table's rows."""
    table = gradients()
    fig = figures.gradient_by_layer(table)
    for key, side in product(("post", "pre"), ("encoder", "decoder")):
        rows = table[(table["placement"] == key) & (table["side"] == side)]
        values = rows.sort_values(["layer", "seed"])["value"].to_numpy().reshape(6, 3)
        drawn = trace(fig, f"measured/{key}/{side}/ffn")
        assert list(drawn.y) == [1, 2, 3, 4, 5, 6]
        np.testing.assert_allclose(drawn.x, values.mean(1))
        np.testing.assert_allclose(np.array(drawn.x) + drawn.error_x.array, values.max(1))
        np.testing.assert_allclose(np.array(drawn.x) - drawn.error_x.arrayminus, values.min(1))


def test_input_is_at_the_bottom_and_encoder_and_decoder_stand_side_by_side():
    """Oracle: the axes' ranges rise, and the two panels share them."""
    fig = figures.gradient_by_layer(gradients())
    low, high = fig.layout.yaxis.range
    assert low < 1 < 6 < high
    assert [a.text for a in fig.layout.annotations] == ["Encoder", "Decoder"]
    assert fig.layout.xaxis.domain[1] < fig.layout.xaxis2.domain[0]
    assert fig.layout.xaxis.range == fig.layout.xaxis2.range


def test_title_of_gradient_by_layer_has_the_ratio_of_the_top_to_the_bottom():
    """Oracle: the ratio of means, computed here."""
    table = gradients()
    means = table[table["side"] == "decoder"].groupby(["placement", "layer"])["value"].mean()
    post, pre = (means[key, 6] / means[key, 1] for key in ("post", "pre"))
    assert (
        title(figures.gradient_by_layer(table))
        == f"Post-LN decoder: top layer {post:.1f}× the bottom; Pre-LN {pre:.1f}×"
    )


def test_a_placement_with_one_layer_above_round_off_has_no_ratio():
    """Oracle: the rows marked here; a layer over itself would be 1.0×."""
    table = gradients()
    means = table[table["side"] == "decoder"].groupby(["placement", "layer"])["value"].mean()
    lost = {
        key: (table["placement"] == key) & (table["layer"] != layer) for key, layer in {"post": 6, "pre": 5}.items()
    }
    start, alone = "Decoder, highest layer over lowest: ", "has one layer above round-off"
    ratio = means["pre", 6] / means["pre", 1]
    one = figures.gradient_by_layer(table.assign(below_floor=lost["post"]))
    assert title(one) == f"{start}Pre-LN {ratio:.1f}×; Post-LN {alone}"
    both = figures.gradient_by_layer(table.assign(below_floor=lost["post"] | lost["pre"]))
    assert title(both) == f"{start}Post-LN {alone}; Pre-LN {alone}"


def test_rows_below_the_floor_are_not_drawn_and_the_words_count_them():
    """Oracle: the rows marked here."""
    table = gradients(["post"])
    table["below_floor"] = table["layer"] <= 2
    fig = figures.gradient_by_layer(table)
    assert list(trace(fig, "measured/post/decoder/ffn").y) == [3, 4, 5, 6]
    assert f"{2 * 2 * 3} values are left out" in figures.alt_text(fig)
    table["below_floor"] = True
    assert "below round-off" in figures.alt_text(figures.gradient_by_layer(table))


def test_theory_is_a_thin_dark_line_after_the_marks():
    """Oracle: the theory's table, and the order of the traces."""
    table = gradients(seeds=1).assign(seed=pd.NA)
    fig = figures.gradient_by_layer(gradients(), table)
    kinds = [t.uid.split("/")[0] for t in fig.data]
    assert kinds == sorted(kinds, key=["measured", "theory"].index)
    line = trace(fig, "theory/pre/decoder/ffn")
    rows = table[(table["placement"] == "pre") & (table["side"] == "decoder")]
    assert (line.mode, list(line.x)) == ("lines", rows["value"].tolist())
    assert line.line.dash == figures.placement_style("pre")["dash"]
    assert luminance(line.line.color) < luminance(figures.placement_style("pre")["color"])
    assert trace(fig, "measured/pre/decoder/ffn").mode == "markers"


def test_self_and_cross_attention_are_told_apart_by_fill_and_name():
    """Oracle: the blocks of the table."""
    fig = figures.gradient_by_layer(gradients(parameter="W_V"), parameter="W_V")
    own, cross = (trace(fig, f"measured/post/decoder/{block}") for block in ("self", "cross"))
    assert cross.marker.symbol == own.marker.symbol + "-open"
    assert (own.name, cross.name) == ("Post-LN, self-attention", "Post-LN, cross-attention")
    assert "self-attention" in title(fig)


def test_pinned_curves_are_faint_below_the_others_and_named():
    """Oracle: the pinned table."""
    pinned = [("before <i>", gradients(["post"], layers=3)), ("nothing", gradients()[:0])]
    for function, table in ((figures.gradient_by_layer, gradients()), (figures.gradient_by_depth, scaling())):
        fig = function(table, pinned=pinned)
        assert fig.data[0].uid.startswith("pin0/")
        assert fig.data[0].opacity < 0.5
        assert fig.data[0].name.startswith("before &lt;i&gt;: Post-LN")
    drawn = trace(figures.gradient_by_layer(gradients(), pinned=pinned), "pin0/measured/post/encoder/ffn")
    np.testing.assert_allclose(
        drawn.x, gradients(["post"], layers=3).query("side == 'encoder'").groupby("layer")["value"].mean()
    )


@pytest.mark.parametrize("along", ["depth", "width"])
def test_slopes_are_those_of_numpy_for_measurement_and_theory_at_the_same_points(along):
    """Oracle: numpy.polyfit on the logarithms of the means; the theory's further points do not count."""
    table, theory = scaling(along), scaling(along, values=(1, 2, 4, 8, 16), seeds=1)
    fig = getattr(figures, f"gradient_by_{along}")(table, theory)
    for key in ("post", "pre"):
        means = table[table["placement"] == key].groupby(along)["value"].mean()
        fitted = np.polyfit(np.log(means.index), np.log(means), 1)[0]
        line = theory[(theory["placement"] == key) & (theory[along] <= 8)]
        predicted = np.polyfit(np.log(line[along]), np.log(line["value"]), 1)[0]
        words = f"slope {fitted:.2f} (theory {predicted + 0.0:.2f})".replace("-", "−").replace("−0.00", "0.00")
        assert words in trace(fig, f"measured/{key}/ffn").name
        assert f"LN {fitted:.2f}".replace("-", "−") in title(fig)


def test_the_chosen_depth_is_ringed_at_its_mean():
    """Oracle: the means at that depth."""
    table = scaling()
    ring = trace(figures.gradient_by_depth(table, depth=4), "chosen")
    assert list(ring.x) == [4, 4]
    np.testing.assert_allclose(sorted(ring.y), sorted(table[table["depth"] == 4].groupby("placement")["value"].mean()))


def test_by_width_shows_the_last_layer_only():
    """Oracle: the rows of the deepest layer of the last side."""
    table = pd.concat([gradients().assign(width=w) for w in (16, 32)])
    last = table[(table["layer"] == 6) & (table["side"] == "decoder") & (table["placement"] == "post")]
    drawn = trace(figures.gradient_by_width(table), "measured/post/ffn")
    np.testing.assert_allclose(drawn.y, last.groupby("width")["value"].mean())


def test_signals_are_drawn_from_the_input_up_with_the_output_apart():
    """Oracle: the table's rows at the sites in, out and final."""
    table = signals()
    fig = figures.signal_by_layer(table, signals(seeds=1), lemma2=True)
    rows = table[(table["placement"] == "pre") & (table["side"] == "decoder")]
    drawn = trace(fig, "measured/pre/decoder/")
    assert list(drawn.y) == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(drawn.x, rows[rows["site"].isin(["in", "out"])].groupby("layer")["value"].mean())
    final = trace(fig, "final/pre/decoder")
    assert (list(final.y), final.marker.symbol) == ([5], "square-open")
    np.testing.assert_allclose(final.x, rows[rows["site"] == "final"]["value"].mean())


def test_lemma_2_is_a_band_from_one_plus_half_to_one_plus_three_halves_a_layer():
    """Oracle: the lemma's two formulas, written out; it does not speak of a decoder with cross-attention."""
    fig = figures.signal_by_layer(signals(), lemma2=True)
    band = trace(fig, "lemma/pre/encoder")
    assert not any(t.uid.startswith("lemma") and t.uid.endswith("decoder") for t in fig.data)
    corners = set(zip(np.round(band.x, 9), band.y, strict=True))
    assert corners == {(1 + f * l, l) for l in range(5) for f in (0.5, 1.5)}
    assert set(trace(fig, "lemma/post/encoder").x) == {1.5}
    assert "3 to 7 after layer 4" in figures.alt_text(fig)
    assert not any(t.uid.startswith("lemma") for t in figures.signal_by_layer(signals()).data)


def test_the_title_of_the_signal_says_where_each_placement_starts():
    """Oracle: one number where all start alike, the least and the most where they do not."""
    table = signals()
    assert ", 1 at the input" in title(figures.signal_by_layer(table))
    table.loc[(table.placement == "pre") & (table.layer == 0), "value"] = 0.25
    assert ", 0.25 to 1 at the input" in title(figures.signal_by_layer(table))


def test_the_signal_axis_is_logarithmic_where_growth_is_hundredfold():
    """Oracle: the axis type for growth by 5 and by 1000."""
    assert figures.signal_by_layer(signals()).layout.xaxis.type == "linear"
    grown = signals()
    grown["value"] = 1000.0 ** (grown["layer"] / 4)
    assert figures.signal_by_layer(grown).layout.xaxis.type == "log"
    assert figures.signal_by_layer(grown, log=False).layout.xaxis.type == "linear"


def test_attention_map_shows_the_chosen_head_with_its_entropy():
    """Oracle: −Σ p ln p in numpy, zeros counting nothing."""
    weights = np.stack([np.full((3, 4), 0.25), np.eye(3, 4)])
    fig = figures.attention_map(weights, (["x", "y", "z"], list("abcd")), head=0)
    np.testing.assert_allclose(np.array(fig.data[0].z, float), weights[0])
    assert f"entropy {np.log(4):.2f} nats, 100 % of the most possible, ln 4" in title(fig)
    mask = np.tril(np.ones((1, 4, 4)))
    fig = figures.attention_map(mask / mask.sum(-1, keepdims=True), list("abcd"))
    assert f"entropy {np.log([1, 2, 3, 4]).mean():.2f} nats, 100 % of the most possible under the mask" in title(fig)
    assert "Head 2 of 2: entropy 0.00 nats, 0 %" in title(
        figures.attention_map(weights, (["x"] * 3, ["a"] * 4), head=1)
    )
    assert "entropy 1.25" in title(figures.attention_map(weights, (["x"] * 3, ["a"] * 4), entropy=[1.25, 0]))
    assert fig.layout.yaxis.autorange == "reversed"
    with pytest.raises(ValueError, match="3 queries and 4 keys"):
        figures.attention_map(weights, list("abcd"))


def test_markup_in_tokens_labels_notes_and_names_is_shown_and_not_interpreted():
    """Oracle: the characters that plotly reads as markup, entities or TeX do not reach it."""
    token = "<b>&amp;$x$ <img a>"
    figs = [
        figures.attention_map(np.eye(2), [token, "b"]),
        figures.gradient_by_layer(gradients([token]), pinned=[(token, gradients())], note=token),
        figures.layer_norm_before_after(np.arange(3.0), {token: np.arange(3.0)}),
        figures.jacobian_spectrum(jacobians().assign(name=token)),
        figures.training_curves(runs().assign(run=token)),
        figures.block_diagram(Placement(token, token, PLACEMENTS["post"].layer)),
        figures.warmup_heatmap(grid(), what=token),
    ]
    for fig in figs:
        shown = fig.to_json().replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&")
        visible = shown[: shown.rindex('"meta"')]
        visible = visible.replace('"legendgroup":"' + token, "").replace(f"{token}/", "").replace(f"/{token}", "")
        assert "&lt;b&gt;&amp;amp;&#36;x&#36;" in shown
        assert "<img" not in visible
    assert figs[0].layout.xaxis.ticktext[0] == "&lt;b&gt;&amp;amp;&#36;x&#36; &lt;img a&gt;"
    assert token in figures.alt_text(figs[0])


def test_saturation_title_compares_the_largest_d():
    """Oracle: the numbers put into the table: 2/64 nats, and 1/64 of the gradient."""
    assert "d = 64 without 1/√d: entropy 0.03 nats instead of 2.00, gradient 1.6 %" in title(
        figures.softmax_saturation(softmaxes())
    )


def test_before_and_after_give_mean_and_variance_of_each():
    """Oracle: the slide's σ gives variance d = 4, the right formula 1."""
    names = [t.name for t in vector().data]
    assert names[1:] == ["right: mean 0.00, variance 1.00", "the talk's σ: mean 0.00, variance 4.00"]
    np.testing.assert_allclose(vector().data[0].y, [1, 2, 4, 9])


def test_jacobian_titles_count_lost_directions_and_fit_the_power():
    """Oracle: two of the four singular values vanish; values halve as the size doubles."""
    assert "2 of 4 directions get no gradient; the others are multiplied by 0.5" in title(
        figures.jacobian_spectrum(jacobians())
    )
    assert "to the power −1.00" in title(figures.jacobian_norm(norms()))


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


def test_spectrum_marks_both_ends_and_the_stable_rate():
    """Oracle: λ of the table, mean over seeds, and their least and greatest."""
    fig = figures.spectrum(spectra(), two_over_eta=3.5)
    marks = trace(fig, "ends/post")
    np.testing.assert_allclose(marks.x, [-2, 4.05])
    np.testing.assert_allclose(marks.error_x.array, [0, 0.05])
    np.testing.assert_allclose(marks.error_x.arrayminus, [0, 0.05])
    assert [text.strip() for text in trace(fig, "numbers/post").text] == ["−2", "4.05"]
    assert set(trace(fig, "two_over_eta").x) == {3.5}
    assert title(fig) == "Post-LN: λ from −2 to 4.05; Pre-LN: λ from −2 to 2.05; above 2/η = 3.5: Post-LN"
    assert np.isnan(trace(fig, "density/post").x).sum() == 1
    assert "Eigenvalues from −5 to 5" in title(figures.spectrum(spectra().drop(columns=["lambda_max", "lambda_min"])))
    assert title(figures.spectrum(spectra(), two_over_eta=1)).endswith("above 2/η = 1: both")
    assert title(figures.spectrum(spectra(), two_over_eta=9)).endswith("above 2/η = 9: none")
    assert "λmax from 1 (" in title(figures.spectrum(spectra(("post", "pre", "peri", "none")).assign(seed=0)))


def test_a_stable_rate_that_is_far_away_does_not_squeeze_the_spectrum():
    """Oracle: the view without the line, and with one just beyond the last eigenvalue."""
    view, near, far = (figures.spectrum(spectra(), two_over_eta=v) for v in (None, 6.0, 2000.0))
    assert far.layout.xaxis.range == view.layout.xaxis.range
    assert far.layout.annotations[0].text == "2/η = 2,000 →"
    assert near.layout.xaxis.range[1] > 6 > view.layout.xaxis.range[1] - 1
    assert near.layout.annotations[0].text == "2/η = 6"


def test_spectra_of_one_placement_are_told_apart_by_their_names_and_looks():
    """Oracle: the names given, and as many looks as names."""
    table = pd.concat([spectra(("post",)).assign(run=name) for name in ("Post-LN, 2+2 layers", "Post-LN, 6+6 layers")])
    fig = figures.spectrum(table, matrix="the <i>matrix</i>")
    lines = [t for t in fig.data if t.uid.startswith("density/")]
    assert [t.name for t in lines] == ["Post-LN, 2+2 layers", "Post-LN, 6+6 layers"]
    assert len({(t.line.color, t.line.dash) for t in lines}) == 2
    assert lines[0].line.color == figures.placement_style("post")["color"]
    assert "the &lt;i&gt;matrix" in fig.layout.xaxis2.title.text


def test_the_hills_at_both_ends_are_in_sight_however_low():
    """Oracle: the density at the ends of a spectrum whose last eigenvalue has a share of 1e-9; 1e-30 is too little."""
    x = np.linspace(-5, 5, 401)
    for share, seen in ((1e-9, True), (1e-30, False)):
        density = np.exp(-((x / 0.2) ** 2)) + share * np.exp(-(((x + 4) / 0.2) ** 2))
        table = pd.DataFrame({"placement": "post", "x": x, "density": density, "lambda_min": -4.0, "lambda_max": 0.5})
        fig = figures.spectrum(table)
        drawn = dict(zip(*(trace(fig, "density/post")[name] for name in "xy"), strict=True))
        assert np.isfinite(drawn[-4.0]) == seen
        if seen:
            assert 10 ** fig.layout.yaxis.range[0] < drawn[-4.0]


# Block diagrams ----------------------------------------------------------------------------------------------------


def parallel(x, subs, N, at):
    h = N(x)
    for f in subs:
        x = x + f(h)
    return x


def dense(x, subs, N, at):
    y = total = x
    for f in subs:
        y = N(0.5 * total + f(y))
        total = total + y
    return N(total)


def tangled(state, subs, N, at):
    a, b, c = state
    for f in subs:
        a, b, c = N(a + f(b)), b + 0.3 * a, c + N(b)
    return a, b, c


INVENTED = {
    "parallel": Placement("Parallel", "x + Σ f(N(x))", parallel, finish=final_norm),
    "dense": Placement("Dense", "sums of all before", dense),
    "tangled": Placement(
        "Tangled", "three streams", tangled,
        start=lambda x, N, at: (x, N(x), x), finish=lambda s, N, at: N(s[0] + s[2]),
    ),
    "nothing": Placement("Nothing", "x ← x", lambda x, subs, N, at: x),
}  # fmt: skip
DRAWN = [(key, PLACEMENTS[key]) for key in KEYS] + list(INVENTED.items())


def test_post_ln_is_drawn_as_written_by_hand():
    """Oracle: the edges of Table 1's left column, spelled out."""
    edges = {tuple(edge) for edge in figures.block_diagram("post").layout.meta["edges"]}
    assert edges == {
        ("input", "self"), ("input", "sum 1"), ("self", "sum 1"), ("sum 1", "norm 1"),
        ("norm 1", "ffn"), ("norm 1", "sum 2"), ("ffn", "sum 2"), ("sum 2", "norm 2"),
    }  # fmt: skip


def test_pre_ln_is_drawn_as_written_by_hand_with_its_final_norm():
    """Oracle: the edges of Table 1's right column, spelled out."""
    edges = {tuple(edge) for edge in figures.block_diagram("pre").layout.meta["edges"]}
    assert edges == {
        ("input", "norm 1"), ("norm 1", "self"), ("input", "sum 1"), ("self", "sum 1"), ("sum 1", "norm 2"),
        ("norm 2", "ffn"), ("sum 1", "sum 2"), ("ffn", "sum 2"), ("sum 2", "norm 3"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "norms"), [("post", "2 norms"), ("pre", "no norm"), ("b2t", "a norm"), ("residual", "no norm")]
)
def test_title_of_a_diagram_counts_the_norms_that_no_path_avoids(key, norms):
    """Oracle: the paths through each rule, counted by hand."""
    assert f"meets {norms}" in title(figures.block_diagram(key))


@pytest.mark.parametrize(("key", "placement"), DRAWN, ids=[key for key, _ in DRAWN])
def test_lines_of_a_diagram_meet_no_box_and_end_at_their_boxes(key, placement):
    """Oracle: geometry on a fine sampling of each line."""
    for stack, layer in product(STACKS, (1, 6)):
        laid = graph.layout(draw(placement, At(stack.split("-")[-1], layer, 6, stack)))
        for a, b in combinations(laid.nodes, 2):
            assert abs(a.x - b.x) >= a.width + b.width or abs(a.rank - b.rank) >= a.half + b.half
        for edge in laid.edges:
            points = [np.linspace(p, q, 60) for p, q in pairwise(edge.points)]
            for node in laid.nodes:
                inside = [
                    (abs(xy[:, 0] - node.x) < node.width - 0.03) & (abs(xy[:, 1] - node.rank) < node.half - 0.03)
                    for xy in points
                ]
                assert not np.any(inside), f"{key} in {stack}: {edge.source.name} to {edge.target.name} at {node.name}"
            assert edge.points[0] == pytest.approx((edge.source.x, edge.source.rank + edge.source.half))
            x, y = edge.points[-1]
            end = edge.target
            below = (abs(x - end.x) < 1e-9) and y == pytest.approx(end.rank - end.half)
            beside = abs(x - end.x) == pytest.approx(end.width) and abs(y - end.rank) < end.half
            assert below or beside


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(("key", "placement"), DRAWN, ids=[key for key, _ in DRAWN])
def test_a_diagram_has_every_box_of_the_rule(key, placement, stack):
    """Oracle: the norms and sub-layers that the rule called."""
    called = draw(placement, At(stack.split("-")[-1], 1, 6, stack))
    fig = figures.block_diagram(placement, stack=stack)
    texts = [a.text for a in fig.layout.annotations]
    assert [t for t in ("self-attention", "cross-attention", "FFN") if t in texts] == [
        {"self": "self-attention", "cross": "cross-attention", "ffn": "FFN"}[b.kind] for b in called.subs
    ] or key in ("parallel", "tangled")
    assert texts.count("dynamic tanh" if key == "dyt" else "layer norm") >= len(called.norms)
    assert len(fig.layout.meta["edges"]) == sum(t.uid not in ("branches",) and "→" in t.name for t in fig.data) - sum(
        t.name.endswith("output") or t.name.startswith("encoder") for t in fig.data
    )


def test_a_diagram_says_what_happens_inside_a_sub_layer_and_shows_what_learns_as_a_letter():
    """Oracle: the papers' own words: norms on q, k, v and in the FFN, a gain γ on each head, ω on the skip."""
    said = {
        "hybrid": ["norm on q, k, v"] * 2,
        "normformer": ["×γ on heads"] * 2 + ["norm on hidden"],
        "admin": ["×ω"] * 3,
    }
    twice = Placement("Twice", "", PLACEMENTS["post"].layer, taps={"v": lambda x, N, at: 2 * N(x)})
    for placement, expected in [*said.items(), (twice, ["norm ×2 on v"] * 2)]:
        fig = figures.block_diagram(placement, stack="encoder-decoder")
        texts = [a.text for a in fig.layout.annotations]
        assert [t for t in texts if " on " in t or "×" in t] == expected
        assert all(t.removeprefix("×") in figures.alt_text(fig) for t in expected)


def test_the_side_of_a_diagram_decides_whether_it_reads_the_encoder():
    """Oracle: cross-attention is on the decoder's side of an encoder-decoder, and nowhere else."""
    sides = [("encoder", None), ("decoder", None), ("encoder-decoder", "encoder"), ("encoder-decoder", None)]
    figs = {place: figures.block_diagram("post", stack=place[0], side=place[1]) for place in sides}
    with_cross = [place for place, fig in figs.items() if "cross-attention" in [a.text for a in fig.layout.annotations]]
    assert with_cross == [("encoder-decoder", None)]


# Odd tables --------------------------------------------------------------------------------------------------------


@BY_TABLE
def test_an_empty_table_gives_a_sentence(function):
    """Oracle: no traces, one sentence, the same in the text alternative."""
    for table in (TABLES[function]()[:0], pd.DataFrame()):
        fig = function(table, note="a note")
        assert not fig.data
        assert len(fig.layout.annotations) == 1
        assert figures.alt_text(fig).startswith(fig.layout.annotations[0].text)


def test_an_empty_sentence_or_vector_gives_a_sentence_too():
    """Oracle: no traces."""
    assert not figures.attention_map(np.zeros((1, 0, 0)), []).data
    assert not figures.layer_norm_before_after(np.zeros(0), {}).data


@BY_TABLE
def test_one_row_is_drawn(function):
    """Oracle: every row of each table taken alone gives a title and a text alternative."""
    table = TABLES[function]()
    for i in (0, len(table) // 2, len(table) - 1):
        fig = function(table[i : i + 1])
        assert title(fig) or not fig.data
        assert figures.alt_text(fig)


@pytest.mark.parametrize("function", BY_PLACEMENTS, ids=lambda f: f.__name__)
def test_all_placements_and_invented_ones_are_drawn_in_a_fixed_order(function):
    """Oracle: traces of a shuffled table are those of the table."""
    table = TABLES[function](placements=(*KEYS, "mine", "yours"))
    fig, other = function(table), function(table.sample(frac=1, random_state=0))
    assert [t.uid for t in fig.data] == [t.uid for t in other.data]
    assert len({t.uid for t in fig.data}) == len(fig.data)
    assert [t.name for t in fig.data] == [t.name for t in other.data]
    assert {"mine", "yours"} <= {t.name.partition(",")[0] for t in fig.data}
    assert "from" in title(fig)


@BY_TABLE
def test_values_that_are_not_finite_do_not_stop_a_figure(function):
    """Oracle: a table whose numbers are partly nan and infinite is drawn."""
    table = TABLES[function]()
    for column in {"value", "loss", "density", "gradient", "entropy"} & set(table.columns):
        numbers = table[column].to_numpy(float, copy=True)
        numbers[::3], numbers[1::7] = np.nan, np.inf
        table[column] = numbers
    assert figures.alt_text(function(table))


@BY_TABLE
def test_tables_are_left_as_they_were(function):
    """Oracle: a copy made before."""
    table = TABLES[function]()
    before = table.copy(deep=True)
    function(table)
    pd.testing.assert_frame_equal(table, before)


# The look ----------------------------------------------------------------------------------------------------------


def luminance(colour):
    """Relative luminance as WCAG 2 defines it."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("key", [*KEYS, *(f"mine_{i}" for i in range(40))])
def test_marks_stand_out_from_white(key):
    """Oracle: WCAG's contrast ratio, at least 3:1 for graphics."""
    assert 1.05 / (luminance(figures.placement_style(key)["color"]) + 0.05) >= 3


def test_every_built_in_placement_has_its_own_colour_dash_and_marker():
    """Oracle: no two are equal in any of the three."""
    styles = [figures.placement_style(key) for key in KEYS]
    for part in ("color", "dash", "symbol"):
        assert len({s[part] for s in styles}) == len(KEYS)


def test_a_new_placement_has_a_stable_style_unlike_the_built_in_ones():
    """Oracle: the same name in another process, and no part shared with a built-in placement."""
    code = "from lntutor.figures import placement_style; print(placement_style('mine'))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == str(figures.placement_style("mine"))
    built_in = [figures.placement_style(key) for key in KEYS]
    new = [figures.placement_style(f"mine_{i}") for i in range(20)]
    for part in ("color", "dash", "symbol"):
        assert not {s[part] for s in built_in} & {s[part] for s in new}
    assert len({tuple(s.values()) for s in new}) >= 18


def test_placements_of_a_reader_have_markers_of_their_own_and_keep_them(monkeypatch):
    """Oracle: eight names whose hash asks for one and the same marker; the first ones look as they did when alone."""
    names = (f"mine_{i}" for i in range(1000))
    alike = [name for name in names if figures.placement_style(name)["symbol"] == "bowtie"][:9]
    seen = []
    for name in alike:
        monkeypatch.setitem(PLACEMENTS, name, PLACEMENTS["post"])
        seen.append(figures.placement_style(name))
        assert [figures.placement_style(other) for other in alike[: len(seen)]] == seen
    assert len({style["symbol"] for style in seen[:8]}) == 8
    assert seen[8]["symbol"] == "bowtie"  # there are no more


def test_every_figure_says_in_words_what_its_title_says():
    """Oracle: the title, without markup, is in the text alternative, with the kind of plot before it."""
    for fig in every_figure(lecture=False):
        first = title(fig).partition(" x ←")[0]
        assert first
        assert first in figures.alt_text(fig).replace("\u00a0", " ")
        assert not figures.alt_text(fig).startswith(first)
        assert "<" not in figures.alt_text(fig).replace("mine <b>", "")


def test_plotly_accepts_every_figure():
    """Oracle: plotly's own checks, which drawing leaves out for speed."""
    theory = gradients(seeds=1).assign(seed=pd.NA)
    more = [
        figures.gradient_by_layer(gradients(), theory, pinned=[("before", gradients())], note="a note"),
        figures.gradient_by_depth(scaling(), scaling(seeds=1), depth=2),
        figures.signal_by_layer(signals(), signals(seeds=1), lemma2=True),
        figures.spectrum(spectra(), two_over_eta=1.0),
        figures.jacobian_norm(norms(), size=2),
        figures.block_diagram(INVENTED["tangled"], stack="encoder-decoder"),
        figures.gradient_by_layer(gradients()[:0]),
        lesson.guess_on_line(2.0, 3.0, (0, 10)),
        lesson.guess_on_line(None, 3.0, (1, 10), log=True),
        lesson.guess_on_curve([1, 2], [1.0, 2.0], [2.0, 3.0]),
        lesson.votes(["a", "b"], [[1, 2], [3, 0]], "a"),
    ]
    for fig in (*every_figure(False), *every_figure(True), *more):
        assert json.loads(go.Figure(fig.to_dict()).to_json()) == json.loads(fig.to_json())


def test_the_lecture_variant_has_larger_type_and_marks_and_fits_on_a_slide():
    """Oracle: type and marks of the two variants; a slide has 720 pixels."""
    for small, large in zip(every_figure(False), every_figure(True), strict=True):
        assert small.layout.template.layout.font.size >= 14
        assert large.layout.template.layout.font.size >= 20
        assert large.layout.height <= 680
        pairs = [pair for pair in zip(small.data, large.data, strict=True) if pair[0].type == "scatter"]
        sizes = [[np.max(t.marker.size) for t in pair] for pair in pairs if pair[0].marker.size is not None]
        assert all(b > a for a, b in sizes)


def test_titles_fit_at_700_pixels_and_in_a_lecture_at_900():
    """Oracle: at most 80 visible characters a line, 72 in the lecture variant."""
    for lecture, most in ((False, 80), (True, 72)):
        for fig in every_figure(lecture):
            assert all(len(style.plain(line)) <= most for line in fig.layout.title.text.split("<br>"))


def test_in_a_lecture_titles_of_axes_are_as_long_as_their_panel():
    """Oracle: at 900 × 450 px and 20 px type, 84 characters share a row of panels and 24 stand along a side."""
    for fig in every_figure(lecture=True):
        columns = len({tuple(axis.domain) for axis in fig.select_xaxes()})
        for axes, most in ((fig.select_xaxes(), 84 // columns), (fig.select_yaxes(), 24)):
            for axis in axes:
                lines = (axis.title.text or "").split("<br>")
                assert all(len(style.plain(line)) <= most for line in lines), lines


def test_figures_leave_width_to_the_page_and_need_no_mathjax():
    """Oracle: the layout, and the absence of TeX."""
    for fig in every_figure(lecture=False):
        assert fig.layout.width is None
        assert fig.layout.autosize is None
        assert "$" not in fig.to_json()


def test_nothing_global_changes_and_torch_is_not_needed():
    """Oracle: plotly's templates and the loaded modules in a fresh process."""
    code = """
import sys, plotly.io as pio
before = pio.templates.default, set(pio.templates)
import lntutor.figures
assert before == (pio.templates.default, set(pio.templates))
assert "torch" not in sys.modules and "ipywidgets" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
