"""What training does to a network, layer by layer: against a forward and a backward pass written out."""

import numpy as np
import pytest
import torch

import lntutor as ln
from lntutor.experiments import stored_training
from lntutor.text.corpus import PAD, load_corpus
from lntutor.training.network import Learner

CFG = ln.ModelConfig("pre", depth=2, width=16, heads=2, ffn=32)


@pytest.mark.parametrize("placement", ["post", "pre", "admin", "residual", "hybrid"])
def test_stream_and_gradient_are_those_of_the_learner(placement):
    """Oracle: the layers run one by one, and autograd's own gradient of W_2; the learner's weights stay."""
    corpus = load_corpus("captions")
    learner = Learner(CFG.with_(placement=placement), (len(corpus.source), len(corpus.target)), pad=PAD)
    batch = corpus.batch("val", 6)
    before = {name: w.detach().clone() for name, w in learner.weights.items()}
    table = stored_training.layer_sizes(learner, batch).set_index(["side", "layer"])
    assert list(table.index) == [("encoder", 1), ("encoder", 2), ("decoder", 1), ("decoder", 2)]
    names = [(side, layer, "ffn", "W_2") for side, layer in table.index]
    grads = torch.autograd.grad(learner.loss(batch)[0], [learner.weights[name] for name in names])
    np.testing.assert_allclose(table["gradient"], [float(g.norm()) for g in grads], rtol=1e-4)
    model, ids = learner.model(), torch.from_numpy(batch.source)
    sequence = learner.embed("encoder", ids)
    with torch.no_grad():
        state = model.start("encoder", sequence.x)
        for layer in (1, 2):
            state = model.layer("encoder", layer, state, sequence)
            x = state[0] if isinstance(state, tuple) else state
            assert table.loc[("encoder", layer), "signal"] == pytest.approx(float(x.square().mean()), rel=1e-4)
    assert all(torch.equal(before[name], w.detach()) for name, w in learner.weights.items())


def test_a_cell_has_a_look_before_and_a_look_after(monkeypatch):
    """Oracle: a run of three steps, which moves every number; one that diverges has only its start."""
    monkeypatch.setattr(stored_training, "SIX_LAYERS", CFG)
    monkeypatch.setattr(stored_training, "HOW", stored_training.HOW.with_(steps=3, warmup=0))
    table = stored_training.trained(load_corpus("captions"), "pre", 0)
    wide = table.pivot(index=["side", "layer"], columns="step", values=["signal", "gradient"])
    assert wide.shape == (4, 4)
    assert (wide["signal", 0] != wide["signal", 3]).all()
    assert table.groupby("step")["loss"].nunique().to_dict() == {0: 0, 3: 1}
    monkeypatch.setattr(stored_training, "HOW", stored_training.HOW.with_(lr=100.0, steps=40))
    lost = stored_training.trained(load_corpus("captions"), "none", 0)
    assert set(lost["step"]) == {0}
