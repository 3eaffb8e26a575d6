"""Assumptions as switches, the seesaw and the transplant, in process."""

from itertools import combinations
from math import log, sqrt

import numpy as np
import pandas as pd
import pytest

import lntutor as ln
from lntutor.experiments import stored, transplant
from lntutor.explore import AssumptionExplorer, SeesawExplorer, TransplantExplorer
from lntutor.explore.assumptions import SWITCHES, fed
from lntutor.explore.theorem import probe
from lntutor.page.kit.panel import Layers, Panel
from lntutor.text import corpus
from lntutor.training import trainer
from tests.explore.explorers import finish, status_text

pytestmark = pytest.mark.usefixtures("no_pause")

SIZES = {"depth": 4, "width": 32, "tokens": 8, "seeds": 2}
THEOREM = {"heads": 1, "ffn": 32, "stack": "encoder", "attention": "uniform", "init": "theory"}
IN_PRACTICE = {  # switch → the model, written out
    "softmax": {"attention": "softmax"},
    "heads": {"attention": "softmax", "heads": 4},
    "w_o": {"output_projection": True},
    "ffn": {"ffn": 128},
    "init": {"init": "torch"},
    "norm": {"norm": "rms"},
    "causal": {"stack": "decoder"},
    "cross": {"stack": "encoder-decoder"},
    "words": {},
    "loss": {},
}


# Assumptions -------------------------------------------------------------------------------------------------------


def model(placement, **changes):
    """The theorem's model, with these fields changed."""
    return ln.ModelConfig(placement, 4, 32, **{**THEOREM, "output_projection": False, **changes})


@pytest.mark.parametrize("view", ["depth", "layer"])
@pytest.mark.parametrize("name", SWITCHES)
def test_each_switch_measures_its_own_model_and_changes_what_is_measured(name, view):
    """Oracle: the model written out, measured directly; the measurement with everything as in the proof."""
    before = {"softmax": True} if name == "heads" else {}
    e = AssumptionExplorer(view=view, **SIZES, **before)
    e.settle()
    first = e.tables["measured"]["value"].to_numpy()
    e.set(**{name: True})
    e.settle()
    measured = e.tables["measured"]
    assert not np.allclose(measured["value"], first, rtol=1e-4)
    inputs = ln.Inputs(tokens=8, loss="cross_entropy" if name == "loss" else "probe")
    if name == "words":
        inputs = ln.Inputs(corpus.load_corpus().batch("val", 16, task="masked_words"), loss="probe")
    for key in ("post", "pre"):
        cfg, same = model(key, **IN_PRACTICE[name]), {"seeds": range(2), "inputs": inputs}
        direct = ln.gradient_norms(cfg, parameters=("W_2",), **same).query("side == @cfg.sides[-1]")
        if view == "depth":
            direct = ln.last_layer_gradients(cfg, range(1, 5), **same)
        np.testing.assert_allclose(measured[measured["placement"] == key]["value"], direct["value"], rtol=1e-6)


def test_the_line_is_that_of_the_theorems_own_model_whatever_is_switched():
    """Oracle: √(d/3n) for Post-LN, and with one token √(d/(2 + 3L)) for Pre-LN."""
    e = AssumptionExplorer(**{**SIZES, "tokens": 1}, **dict.fromkeys(SWITCHES, True))
    e.settle()
    line = e.tables["model"].set_index(["placement", "depth"])["value"]
    for depth in range(1, 5):
        assert line["post", depth] == pytest.approx(sqrt(32 / 3), rel=1e-4)
        assert line["pre", depth] == pytest.approx(sqrt(32 / (2 + 3 * depth)), rel=1e-4)


def test_the_sentence_says_how_far_off_the_theorem_is():
    """Oracle: the ratios, worked out from the tables by pandas, and the bound's formula."""
    e = AssumptionExplorer(**SIZES, ffn=True)
    e.settle()
    means = {
        name: e.tables[name].groupby(["placement", "depth"])["value"].mean().unstack() for name in ("measured", "model")
    }
    change = {name: table[4] / table[1] for name, table in means.items()}
    off = change["measured"] / change["model"]
    percent = [f"{100 * (max(off[key], 1 / off[key]) - 1):.0f} %" for key in ("post", "pre")]
    size = means["measured"][4] / means["model"][4]
    text = status_text(e)
    assert f"off by {percent[0]} (Post-LN) and {percent[1]} (Pre-LN) over depth" in text
    assert f"over depth, by {size['post']:.1f}× and {size['pre']:.1f}× in size" in text
    bound = 32 * sqrt(40 / 3 * log(3200)) / means["measured"].loc["post", 4]
    assert f"its bound is {float(f'{bound:.2g}'):.0f}× and" in text
    assert f"Post-LN {change['measured']['post']:.2f}× (theorem 1.00×)" in e.figure.layout.title.text


def test_a_decoder_on_an_encoder_is_what_breaks_the_line_from_layer_to_layer():
    """Oracle: the fall per layer of a decoder, 1/√(1 + A), with A between 1/n and 1 (uniform attention, gain 1)."""
    e = AssumptionExplorer(view="layer", cross=True, depth=6, width=64, tokens=8, seeds=4)
    e.settle()
    means = e.tables["measured"].groupby(["placement", "layer"])["value"].mean()
    fall = (means["post", 1] / means["post", 6]) ** (1 / 5)
    assert 1 / sqrt(2) - 0.05 < fall < 1 / sqrt(1 + 1 / 8) + 0.05
    claimed = e.tables["claimed"].set_index(["placement", "layer"])["value"]
    assert claimed["post", 1] / claimed["post", 6] == pytest.approx((2 / 3) ** 2.5)
    assert claimed["pre", 1] == claimed["pre", 6]


def test_what_would_change_nothing_is_locked():
    """Oracle: heads do the same where attention is a mean; a decoder on an encoder is causal anyway."""
    e = AssumptionExplorer(**SIZES)
    assert (e.controls["heads"].disabled, e.controls["causal"].disabled) == (True, False)
    e.set(softmax=True, cross=True)
    assert (e.controls["heads"].disabled, e.controls["causal"].disabled) == (False, True)


def test_sentences_are_what_each_stack_is_trained_on():
    """Oracle: the corpus: masked words, the next word, a translation."""
    text, state = corpus.load_corpus(), AssumptionExplorer(words=True, **SIZES).state()
    pairs = text.batch("val", 16)
    encoder, decoder, both = (
        fed(model("post", stack=stack), state).kind for stack in ("encoder", "decoder", "encoder-decoder")
    )
    np.testing.assert_array_equal(encoder.labels, text.batch("val", 16, task="masked_words").labels)
    np.testing.assert_array_equal(decoder.source, pairs.target)
    words = decoder.source[:, 1:] != decoder.pad
    np.testing.assert_array_equal(decoder.labels[:, :-1][words], decoder.source[:, 1:][words])
    np.testing.assert_array_equal(both.source, pairs.source)


# The seesaw --------------------------------------------------------------------------------------------------------


def test_the_seesaw_is_two_measurements_and_their_product_seed_by_seed():
    """Oracle: ln.signal_norms and ln.backward_norms called directly; g = 1 where the loss has ‖∂L/∂x‖ = 1."""
    e = SeesawExplorer(depth=3, width=32, tokens=4, seeds=2)
    e.settle()
    rows = e.tables["measured"].set_index(["placement", "kind", "layer", "seed"])["value"]
    same = {"seeds": range(2), "inputs": probe(4)}
    for key in ("post", "pre"):
        cfg = ln.ModelConfig.theorem(key, 3, 32)
        q, g = (f(cfg, **same).query("site in ('in', 'out')") for f in (ln.signal_norms, ln.backward_norms))
        for at, signal, gradient in zip(q.itertuples(), q["value"], g["value"], strict=True):
            parts = [rows[key, kind, at.layer, at.seed] for kind in ("q", "g", "qg")]
            np.testing.assert_allclose(parts, [signal, 16 * gradient, 16 * signal * gradient], rtol=1e-6)
    np.testing.assert_allclose([rows["post", "g", 3, seed] for seed in range(2)], 1, rtol=1e-5)


def test_with_one_token_the_product_is_the_same_in_every_layer():
    """Oracle: the closed forms: q = 1 and g = 1 in Post-LN, q = 1 + 3l/2 in Pre-LN, 1 + 2l in Peri-LN, and qg = 1."""
    e = SeesawExplorer(placements=["post", "pre", "peri"], depth=6, width=64)
    e.settle()
    theory = e.tables["theory"].set_index(["placement", "kind", "layer"])["value"]
    for layer in range(7):
        for key, growth in (("post", 0), ("pre", 1.5), ("peri", 2)):
            assert theory[key, "q", layer] == pytest.approx(1 + growth * layer, rel=1e-4)
            assert theory[key, "qg", layer] == pytest.approx(1, rel=1e-3)
    measured = e.tables["measured"].groupby(["placement", "kind"])["value"].mean()
    assert measured["pre", "qg"] == pytest.approx(1, abs=0.3)
    assert "q·g at the top over the bottom: Post-LN" in e.figure.layout.title.text


def test_the_layer_that_is_read_stands_below_the_picture_and_not_above_the_network():
    """Oracle: the means of the table; the highest layer where there are not so many."""
    e = SeesawExplorer(placements=["pre"], layer=2, depth=3, width=32, seeds=2)
    e.settle()
    rows = e.tables["measured"].query("layer == 2").groupby("kind")["value"].mean()
    assert f"Layer 2: Pre-LN q = {rows['q']:.3g}, g = {rows['g']:.3g}, q·g = {rows['qg']:.3g}." in status_text(e)
    e.set(layer=9)
    assert "Layer 3:" in status_text(e)
    assert [shape.y0 for shape in e.figure.layout.shapes] == [3]
    e.set(placements=[])
    assert "Choose at least one placement." in status_text(e)


# The picker of layers ----------------------------------------------------------------------------------------------


def picker(value=(), depth=2):
    return Layers(value, ("encoder", "decoder"), depth, 6, "embeddings", description="Warmed up")


def test_a_picker_keeps_the_networks_order_and_takes_names_alone():
    """Oracle: the order from the input up."""
    part = picker(["decoder.1", "embeddings", "encoder.2", "decoder.1"])
    assert part.value == ("embeddings", "encoder.2", "decoder.1")
    assert part.drawn == ("embeddings", "encoder.1", "encoder.2", "decoder.1", "decoder.2")
    part.value = ("decoder.6",)  # of a deeper network, which may be asked for in the same breath
    with pytest.raises(
        Exception, match=r"Warmed up must be a list of names such as 'encoder.1' and 'decoder.2', or 'emb"
    ):
        part.value = ("decoder.7",)


def test_a_picker_on_the_page_and_in_python_have_one_value():
    """Oracle: what the page sends and receives; nonsense from the page is put back."""
    part = picker()
    panel = Panel({"warmed": part})
    panel.values = {"warmed": ["decoder.2", "encoder.1"]}
    assert part.value == ("encoder.1", "decoder.2")
    assert panel.values == {"warmed": ["encoder.1", "decoder.2"]}
    panel.values = {"warmed": ["decoder.9"]}
    assert panel.values == {"warmed": ["encoder.1", "decoder.2"]}
    part.depth = 6
    assert panel.looks["warmed"]["depth"] == 6
    panel.close()


# The transplant ----------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(quick_work, monkeypatch):
    """Runs of twenty steps in a small model."""
    cases = transplant._cases
    cfg, how = {"width": 16, "heads": 2, "ffn": 32}, {"steps": 20, "validate_every": 10}

    def small(network):
        return {name: (one.with_(**cfg), run.with_(**how)) for name, (one, run) in cases(network).items()}

    monkeypatch.setattr(transplant, "_cases", small)


def test_every_set_of_parts_is_the_run_that_warms_up_these_alone():
    """Oracle: the optimiser's own groups, read by `parts_of`; the names of the stored table."""
    every = transplant.parts(transplant.case_of("post, 2-2", ())[0])
    assert every == ("embeddings", "encoder.1", "encoder.2", "decoder.1", "decoder.2")
    sets = [some for size in range(6) for some in combinations(every, size)]
    assert len(sets) == 32
    assert all(transplant.parts_of(transplant.case_of("post, 2-2", some)) == some for some in sets)
    names = {some: transplant.way("post, 2-2", some) for some in sets}
    assert len(set(names.values())) == 32
    assert names[()] == "nothing"
    assert names["decoder.2",] == "decoder.2 alone"
    assert names["encoder.1", "encoder.2"] == "the encoder"
    assert names["embeddings", "encoder.1", "encoder.2", "decoder.1"] == "all but decoder.2"
    assert names["encoder.1", "encoder.2", "decoder.1"] == "the encoder + decoder.1"
    assert names["encoder.2", "decoder.1"] == "encoder.2 + decoder.1"


def test_what_is_stored_is_shown_with_its_share_of_the_gain():
    """Oracle: the stored file, read by pandas, and the share worked out from its last losses."""
    e = TransplantExplorer(preset="last layer alone")
    file = pd.read_csv(stored.FOLDER / "transplant_captions.csv", comment="#")
    last = file[file["placement"] == "post"].query("step == 300").set_index(["run", "seed"])["val_loss"]
    nothing, everything, alone = (last[f"post, {name}"] for name in ("nothing", "everything", "decoder.2 alone"))
    rows = e.table().query("case == 'decoder.2 alone'")
    np.testing.assert_allclose(rows["val_loss"], alone)
    shares = (nothing.mean() - alone) / (nothing.mean() - everything.mean())
    np.testing.assert_allclose(rows["gain"], shares)
    assert f"Loss {alone.mean():.2f}, {100 * shares.mean():.0f} % of the gain" in e.figure.layout.title.text
    assert status_text(e).startswith("Stored with the course: decoder.2 alone, 4 runs.")
    assert e.buttons["run"].disabled
    assert list(dict.fromkeys(e.table()["case"])) == ["nothing", "decoder.2 alone", "everything"]
    e.set(everything=True)
    assert set(e.table()["case"]) == set(transplant.stored_ways("post, 2-2"))


def test_what_is_not_stored_is_said_and_can_be_run(tiny):
    """Oracle: `train` called directly with the same layers."""
    e = TransplantExplorer(warmed=["encoder.2", "decoder.1"])
    assert "“encoder.2 + decoder.1” is not stored; stored are nothing, everything, the encoder," in status_text(e)
    assert "Run trains it here: 1 run of 20 steps, about " in status_text(e)
    assert "No loss is known yet" in e.figure.layout.title.text
    finish(e)
    cfg, how = transplant.case_of("post, 2-2", ())
    wanted = how.with_(warmup=100, warmup_only=("encoder.2", "decoder.1"))
    direct = trainer.train(cfg, wanted, corpus.load_corpus(), pairs=0, progress=False)
    [run] = e.runs.values()
    pd.testing.assert_frame_equal(*(one.table.drop(columns="tokens_per_second") for one in (run, direct)))
    row = e.table().query("here").iloc[0]
    assert (row["case"], row["val_loss"]) == ("encoder.2 + decoder.1", direct.val_loss)
    assert e.buttons["run"].disabled
    e.set(seeds=2)
    assert "Run trains it here: 1 run of 20 steps (1 of 2 on screen already)" in status_text(e)
    e.buttons["clear"].click()
    assert not e.table()["here"].any()


def test_a_run_that_is_stopped_is_dropped(tiny, gate):
    """Oracle: the rows before."""
    e = TransplantExplorer(warmed=["decoder.1"])
    before = e.table()
    e.run()
    gate.release(3)
    e.buttons["stop"].click()
    gate.release(100)
    e.wait(60)
    assert status_text(e).startswith("Stopped.")
    pd.testing.assert_frame_equal(e.table(), before)


def test_another_network_keeps_the_way_where_it_has_it():
    """Oracle: the last layer of each network, and the layers that there are."""
    e = TransplantExplorer(warmed=["decoder.2"])
    e.controls["network"].value = "post, 6-6"
    assert e.state()["warmed"] == ["decoder.6"]
    assert e.picker.depth == 6
    e.set(warmed=["encoder.1", "decoder.5"])
    e.controls["network"].value = "pre, 2-2"
    assert e.state()["warmed"] == ["encoder.1"]
    e.set(warmed=["decoder.6"])
    assert "Pre-LN, 2-2 has no decoder.6; it has embeddings, encoder.1" in status_text(e)
    assert TransplantExplorer(network="post, 6-6", warmed=["decoder.6"]).error is None
