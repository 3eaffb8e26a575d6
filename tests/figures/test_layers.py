"""Figures by layer, depth and width: what is drawn equals the table, titles say what numpy says."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from lntutor import figures
from tests.figures.registry import gradients, luminance, signals, sized, title, trace


def decoder_means(table):
    """(placement, layer) → mean over seeds."""
    return table[table["side"] == "decoder"].groupby(["placement", "layer"])["value"].mean()


def test_marks_by_layer_are_the_means_with_the_least_and_greatest_value_and_the_title_has_the_ratio_of_the_ends():
    """Oracle: numpy on the table's rows; the axes' ranges rise, and encoder and decoder side by side share them."""
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
    post, pre = (decoder_means(table)[key, 6] / decoder_means(table)[key, 1] for key in ("post", "pre"))
    assert title(fig) == f"Post-LN decoder: top layer {post:.1f}× the bottom; Pre-LN {pre:.1f}×"
    low, high = fig.layout.yaxis.range
    assert low < 1 < 6 < high
    assert [a.text for a in fig.layout.annotations] == ["Encoder", "Decoder"]
    assert fig.layout.xaxis.domain[1] < fig.layout.xaxis2.domain[0]
    assert fig.layout.xaxis.range == fig.layout.xaxis2.range


def test_a_placement_or_a_first_block_with_one_layer_above_round_off_has_no_ratio():
    """Oracle: the rows marked here, of W_V all of self-attention but layer 6; a layer over itself would be 1.0×."""
    table = gradients()
    post, pre = ((table["placement"] == key) & (table["layer"] != kept) for key, kept in (("post", 6), ("pre", 5)))
    start, alone = "Decoder, highest layer over lowest: ", "has one layer above round-off"
    ratio = decoder_means(table)["pre", 6] / decoder_means(table)["pre", 1]
    one = figures.gradient_by_layer(table.assign(below_floor=post))
    assert title(one) == f"{start}Pre-LN {ratio:.1f}×; Post-LN {alone}"
    both = figures.gradient_by_layer(table.assign(below_floor=post | pre))
    assert title(both) == f"{start}Post-LN {alone}; Pre-LN {alone}"
    table = gradients(["post"], parameter="W_V")
    table["below_floor"] = (table["block"] == "self") & (table["layer"] < 6)
    fig = figures.gradient_by_layer(table, parameter="W_V")
    assert title(fig) == "Decoder self-attention, highest layer over lowest: Post-LN has one layer above round-off"


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
    for function, table in ((figures.gradient_by_layer, gradients()), (figures.gradient_by_depth, sized())):
        fig = function(table, pinned=pinned)
        assert fig.data[0].uid.startswith("pin0/")
        assert fig.data[0].opacity < 0.5
        assert fig.data[0].name.startswith("before &lt;i&gt;: Post-LN")
    drawn = trace(figures.gradient_by_layer(gradients(), pinned=pinned), "pin0/measured/post/encoder/ffn")
    np.testing.assert_allclose(drawn.x, pinned[0][1].query("side == 'encoder'").groupby("layer")["value"].mean())


@pytest.mark.parametrize("along", ["depth", "width"])
def test_slopes_are_those_of_numpy_for_measurement_and_theory_at_the_same_points(along):
    """Oracle: numpy.polyfit on the logarithms of the means; the theory's further points do not count."""
    table, theory = sized(along), sized(along, values=(1, 2, 4, 8, 16), seeds=1)
    fig = getattr(figures, f"gradient_by_{along}")(table, theory)
    for key in ("post", "pre"):
        means = table[table["placement"] == key].groupby(along)["value"].mean()
        fitted = np.polyfit(np.log(means.index), np.log(means), 1)[0]
        line = theory[(theory["placement"] == key) & (theory[along] <= 8)]
        predicted = np.polyfit(np.log(line[along]), np.log(line["value"]), 1)[0]
        legend = f"slope {fitted:.2f} (theory {predicted + 0.0:.2f})".replace("-", "−").replace("−0.00", "0.00")
        assert legend in trace(fig, f"measured/{key}/ffn").name
        assert f"LN {fitted:.2f}".replace("-", "−") in title(fig)


def test_the_chosen_depth_is_ringed_at_its_mean():
    """Oracle: the means at that depth."""
    table = sized()
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


def test_the_title_of_the_signal_says_where_each_placement_starts_and_the_axis_is_logarithmic_for_hundredfold_growth():
    """Oracle: one number where all start alike, the least and the most where not; axes for growth by 5 and by 1000."""
    table = signals()
    fig = figures.signal_by_layer(table)
    assert ", 1 at the input" in title(fig)
    assert fig.layout.xaxis.type == "linear"
    table.loc[(table.placement == "pre") & (table.layer == 0), "value"] = 0.25
    assert ", 0.25 to 1 at the input" in title(figures.signal_by_layer(table))
    grown = table.assign(value=1000.0 ** (table["layer"] / 4))
    assert figures.signal_by_layer(grown).layout.xaxis.type == "log"
    assert figures.signal_by_layer(grown, log=False).layout.xaxis.type == "linear"


def test_gradients_that_are_all_exactly_zero_are_not_called_round_off():
    """Oracle: the table, in which every number of a placement is 0, as of ReZero at α = 0, and none below the floor."""
    table = gradients(("post", "none"))
    table["value"] = table["value"].where(table["placement"] == "post", 0.0)
    for draw, rows in ((figures.gradient_by_layer, table), (figures.gradient_by_depth, table.assign(layer=6))):
        alone, both = draw(rows[rows["placement"] == "none"]), draw(rows)
        assert "gradients of W_2 are exactly 0: a log axis cannot show them" in figures.alt_text(alone)
        assert title(both).endswith("; no LN: all gradients are exactly 0")
        for fig in (alone, both):
            assert "exactly 0" in figures.alt_text(fig)
            assert "round-off" not in figures.alt_text(fig) + title(fig)


def test_gradients_that_are_exactly_zero_in_some_layers_are_counted():
    """Oracle: 3 of 6 layers on each of two sides, with 3 seeds; a zero that is flagged as round-off stays round-off."""
    table = gradients(("post", "none"))
    table.loc[(table["placement"] == "none") & (table["layer"] <= 3), "value"] = 0.0
    table.loc[table.index[:2], "below_floor"] = True
    fig = figures.gradient_by_layer(table)
    assert "no LN: gradients are exactly 0 in 6 of 12 layers" in title(fig)
    assert "20 values are left out: 18 exactly 0, 2 below round-off." in figures.alt_text(fig)
    flagged = figures.gradient_by_layer(gradients(["post"]).assign(value=0.0, below_floor=True))
    assert figures.alt_text(flagged) == "All 36 gradients of W_2 are below round-off."


def test_a_title_does_not_call_exact_zeros_round_off_and_counts_those_of_single_seeds():
    """Oracle: one layer of six that is not 0, on each side; then one number of 36 that is 0."""
    table = gradients(("post", "none"))
    lower = (table["placement"] == "none") & (table["layer"] < 6)
    fig = figures.gradient_by_layer(table.assign(value=table["value"].mask(lower, 0.0)))
    assert "; no LN has one layer above 0; no LN: gradients are exactly 0 in 10 of 12 layers" in title(fig)
    table = gradients(["post"])
    table.loc[table.index[0], "value"] = 0.0
    assert title(figures.gradient_by_layer(table)).endswith("; Post-LN: 1 of 36 gradients are exactly 0")


def test_signals_that_are_exactly_zero_are_drawn_on_a_linear_axis():
    """Oracle: the table, in which Pre-LN's stream is 0 above the input; a log axis has no room for it and counts it."""
    table = signals()
    table.loc[(table["placement"] == "pre") & (table["layer"] > 0), "value"] = 0.0
    fig = figures.signal_by_layer(table)
    assert fig.layout.xaxis.type == "linear"
    assert list(trace(fig, "measured/pre/decoder/").x)[1:] == [0, 0, 0, 0]
    assert title(fig).endswith("Pre-LN 0")
    assert "exactly 0" in figures.alt_text(figures.signal_by_layer(table, log=True))
