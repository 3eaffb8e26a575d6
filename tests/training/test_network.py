"""A model that learns, against torch's own Transformer with the same weights."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.optim import SGD, Adam

from lntutor.model.config import Batch, ModelConfig, TrainConfig
from lntutor.model.placements import PLACEMENTS, Placement, each
from lntutor.training.network import Learner
from lntutor.training.optimizers import optimizer, set_rates
from tests.reference import Twin

PAD = 1
VOCAB = (23, 19)


def text(seed: int, encoder_only: bool = False) -> Batch:
    """Random sentences of unequal lengths."""
    rng = np.random.default_rng(seed)

    def ids(words, longest):
        rows = np.full((5, longest), PAD)
        for row in rows:
            n = rng.integers(2, longest + 1)
            row[:n] = rng.integers(5, words, n)
        rows[0] = rng.integers(5, words, longest)
        return rows

    source, full = ids(VOCAB[0], 7), ids(VOCAB[1], 9)
    if encoder_only:
        return Batch(source, labels=source, pad=PAD, vocab=(VOCAB[0], VOCAB[0]))
    return Batch(source, full[:, :-1], full[:, 1:], PAD, VOCAB)


@pytest.mark.parametrize("name", ["adam", "sgd"])
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_twenty_steps_give_the_losses_of_torchs_own_transformer(placement, name):
    """Oracle: nn.TransformerEncoderLayer and -DecoderLayer with copied weights, F.cross_entropy, torch.optim."""
    cfg = ModelConfig(placement, depth=2, width=16, heads=2, ffn=24)
    how = TrainConfig(name, lr=1e-2, warmup=5, steps=20)
    learner = Learner(cfg, VOCAB, pad=PAD, seed=3, dtype=torch.float64)
    twin = Twin(learner)
    ours = optimizer(how, learner.flats)
    make, options = {"adam": (Adam, {"betas": (0.9, 0.98)}), "sgd": (SGD, {"momentum": how.momentum})}[name]
    theirs = make(twin.parameters(), **options)
    for step in range(1, 21):
        batch = text(step)
        learner.zero_grad()
        goal, nll, words = learner.loss(batch, 0.1, learning=True)
        goal.backward()
        norm = learner.gradient_norm()
        set_rates(ours, how, step)
        ours.step()

        theirs.zero_grad()
        logits = twin(torch.from_numpy(batch.source), torch.from_numpy(batch.target)).flatten(0, 1)
        labels = torch.from_numpy(batch.labels).flatten()
        smoothed = F.cross_entropy(logits, labels, ignore_index=PAD, label_smoothing=0.1)
        smoothed.backward()
        theirs.param_groups[0]["lr"] = 1e-2 * (min(1, step / 5) if step <= 5 else (5 / step) ** 0.5)
        squares = sum(float(p.grad.square().sum()) for p in twin.parameters() if p.grad is not None)
        theirs.step()

        assert words == int((labels != PAD).sum())
        assert float(goal.detach()) == pytest.approx(float(smoothed.detach()), rel=1e-8)
        plain = F.cross_entropy(logits, labels, ignore_index=PAD)
        assert float(nll.detach()) == pytest.approx(float(plain.detach()), rel=1e-8)
        assert norm == pytest.approx(squares**0.5, rel=1e-6)


@pytest.mark.parametrize("placement", [key for key in PLACEMENTS if key != "no_residual"])  # its tokens collapse
def test_every_placement_has_a_gain_and_a_bias_for_every_norm_and_a_gradient_for_every_weight(placement):
    """Oracle: each weight moves the loss, but for the keys' bias, which a softmax does not see, also behind a norm."""
    learner = Learner(ModelConfig(placement, depth=4, width=8, heads=2, ffn=8), VOCAB, pad=PAD, dtype=torch.float64)
    learner.loss(text(0))[0].backward()
    still = {name for name, w in learner.weights.items() if float(w.grad.abs().max()) < 1e-12}
    assert all(name[-1] == "b_K" or (name[2].endswith(" norm") and name[3:] == (1, "bias")) for name in still)
    assert ("encoder", 1, "norm", 0, "gain") in learner.weights or placement in ("none", "tfixup")


def test_a_placement_that_profiles_keeps_the_variances_of_its_first_batch():
    """Oracle: the rule is N(√growth·x + f(x)): what it asks for is kept, on both sides, though the weights move on."""
    rule = each(lambda x, f, N, at: N(at.growth(f) ** 0.5 * x + f(x)))
    learner = Learner(
        ModelConfig(Placement("profiled", "N(ωx + f(x))", rule, profile=True), depth=2, width=8, heads=2, ffn=8),
        VOCAB, pad=PAD,
    )  # fmt: skip
    learner.loss(text(0))
    kept = dict(learner.profile)
    assert {name[0] for name in kept} == {"encoder", "decoder"}
    learner.flats["all"].mul_(2)
    learner.loss(text(1))
    assert all(torch.equal(kept[name], learner.profile[name]) for name in kept)


def test_dropout_keeps_the_mean_is_drawn_from_the_seed_and_is_off_when_validating():
    """Oracle: the definition of inverted dropout."""
    cfg = ModelConfig("pre", depth=1, width=16, heads=2, ffn=16)

    def learner(seed=0):
        return Learner(cfg, VOCAB, pad=PAD, seed=seed, dropout=0.3)

    kept = learner()._drop(torch.ones(200, 200))
    assert sorted(kept.unique().tolist()) == pytest.approx([0, 1 / 0.7])
    assert float(kept.mean()) == pytest.approx(1, abs=0.02)
    one, two = learner(), learner()
    batch = text(0)
    assert float(one.loss(batch, learning=True)[1].detach()) == float(two.loss(batch, learning=True)[1].detach())
    assert float(one.loss(batch)[1].detach()) == float(learner().loss(batch)[1].detach())
    assert float(one.loss(batch, learning=True)[1].detach()) != float(one.loss(batch)[1].detach())


def test_an_encoder_alone_predicts_the_words_that_it_is_asked_for():
    """Oracle: log softmax of the output at those positions, from the model's own output, one position at a time."""
    cfg = ModelConfig("post", depth=2, width=16, heads=2, ffn=16, stack="encoder")
    learner = Learner(cfg, VOCAB[:1], pad=PAD, dtype=torch.float64)
    batch = text(4, encoder_only=True)
    labels = np.where(np.arange(7) % 3 == 0, batch.labels, PAD)
    batch = Batch(batch.source, labels=labels, pad=PAD, vocab=batch.vocab)
    _, nll, words = learner.loss(batch)
    sequence = learner.embed("encoder", torch.from_numpy(batch.source))
    out = sequence.laid_out(learner.model()(sequence))  # (5, 7, d)
    logits = out @ learner.weights["embedding", "encoder"].T
    picked = [-logits[i, j].log_softmax(0)[labels[i, j]] for i, j in zip(*np.nonzero(labels != PAD), strict=True)]
    assert words == len(picked)
    assert float(nll.detach()) == pytest.approx(float(sum(picked).detach()) / words)
