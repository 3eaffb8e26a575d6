"""Training runs: what they measure, how they end, and that they learn."""

from math import nan

import numpy as np
import pandas as pd
import pytest
import torch

from lntutor.measure.gradients import gradient_norms
from lntutor.model.config import Inputs, ModelConfig, TrainConfig
from lntutor.text.corpus import load_corpus
from lntutor.training.decoding import beam_search, bleu, translate
from lntutor.training.trainer import COLUMNS, VALIDATION, Trainer, finish, steps, train

SMALL = ModelConfig("pre", depth=1, width=16, heads=2, ffn=32)
SHORT = TrainConfig(lr=1e-3, steps=12, batch=8, validate_every=5)


@pytest.fixture(scope="module")
def ten():
    return load_corpus("captions", limit=10, min_frequency=1)


def losses(run):
    """What a run's table says, without how fast it was."""
    return run.table.drop(columns="tokens_per_second")


@pytest.mark.parametrize(
    ("key", "letter"), [("admin", "ω"), ("tfixup", None), ("normformer", "γ"), ("hybrid", None), ("dyt", "α")]
)
def test_placements_with_hooks_learn_and_move_what_their_papers_let_learn(key, letter, ten):
    """Oracle: the loss of the first step, and where ω, γ and α start: 1, 1 and ½."""
    cfg = ModelConfig(key, depth=1, width=16, heads=2, ffn=32)
    trainer = Trainer(cfg, TrainConfig(lr=1e-2, steps=20, batch=10), ten)
    first, *_, last = (trainer.step(i)["loss"] for i in range(1, 21))
    assert last < first - 0.5
    numbers = {name: w for name, w in trainer.learner.weights.items() if name[2:3] == ("learned",)}
    assert {name[-1] for name in numbers} == ({letter} if letter else set())
    start = 0.5 if letter == "α" else 1.0
    assert all((w != start).all() for w in numbers.values())


def test_ten_pairs_are_learnt_by_heart(ten):
    """Oracle: the ten references themselves: loss near zero, every translation word for word."""
    cfg = ModelConfig("pre", depth=2, width=64, heads=4, ffn=128)
    how = TrainConfig(lr=3e-3, warmup=20, steps=150, batch=10, label_smoothing=0.0, validate_every=1000)
    *_, last = steps(cfg, how, ten)
    assert last.row["loss"] < 0.01
    sources, references = zip(*ten.pairs("train"), strict=True)
    wanted = [ten.text(ten.tokens(reference, "en")) for reference in references]
    assert translate(last.learner, ten, sources) == wanted
    source = torch.from_numpy(ten.encode_sources(sources))
    assert [ten.text(ten.target.decode(words)) for words in beam_search(last.learner, source, 3)] == wanted
    assert bleu(wanted, references) == pytest.approx(100)


def test_a_run_has_one_row_per_step_and_validates_where_it_is_asked(corpus):
    """Oracle: the columns of the design, and the steps 5, 10 and the last."""
    run = train(SMALL, SHORT, corpus, pairs=8, progress=False)
    assert tuple(run.table) == COLUMNS
    assert run.table["step"].tolist() == list(range(1, 13))
    assert run.table["step"][run.table["val_loss"].notna()].tolist() == [5, 10, 12]
    assert sorted(run.gradients["step"].unique()) == [1, 5, 10, 12]
    assert (run.status, run.corpus, run.checksum) == ("finished", "captions", corpus.checksum)
    assert (run.table["tokens_per_second"] > 0).all()
    assert 0 <= run.bleu <= 100
    assert len(run.samples) == 5
    assert (run.samples[0].source, run.samples[0].reference) == corpus.pairs("test")[0]


def test_the_same_seed_gives_the_same_numbers_and_another_gives_others(corpus):
    """Oracle: equality, bit by bit."""
    how = SHORT.with_(dropout=0.1)
    one, two, other = (train(SMALL, how.with_(seed=s), corpus, pairs=4, progress=False) for s in (1, 1, 2))
    pd.testing.assert_frame_equal(losses(one), losses(two), check_exact=True)
    pd.testing.assert_frame_equal(one.gradients, two.gradients, check_exact=True)
    assert one.samples == two.samples
    assert (losses(one)["loss"] != losses(other)["loss"]).all()


def test_gradients_at_the_first_step_are_those_of_a_measurement_at_initialisation(corpus):
    """Oracle: `gradient_norms`, which takes them from Gram matrices, on the same batch and seed."""
    cfg = ModelConfig("post", depth=2, width=32, heads=4, ffn=64)
    how = SHORT.with_(label_smoothing=0.0, seed=5)
    batch = next(corpus.stream("train", how.batch, seed=5))
    first = next(steps(cfg, how, corpus)).run().gradients
    wanted = gradient_norms(cfg, seeds=[5], inputs=Inputs(kind=batch))
    both = first.merge(wanted, on=["placement", "depth", "width", "side", "layer", "block", "parameter", "seed"])
    assert len(both) == len(wanted) == len(first)
    np.testing.assert_allclose(both["value_x"], both["value_y"], rtol=2e-3)


def test_a_generator_may_be_closed_at_any_step_and_what_was_measured_stays(corpus):
    """Oracle: the whole run with the same seed, cut there."""
    complete = train(SMALL, SHORT, corpus, pairs=0, progress=False)
    under_way = steps(SMALL, SHORT, corpus)
    last = [next(under_way) for _ in range(7)][-1]
    under_way.close()
    part = last.run()
    assert part.status == "stopped"
    assert (last.step, last.of) == (7, 12)
    pd.testing.assert_frame_equal(losses(part), losses(complete).head(7), check_exact=True)
    assert finish(last, pairs=3).bleu is not None


def test_an_interrupt_keeps_what_was_measured(corpus, monkeypatch):
    """Oracle: an interrupt that comes in the sixth step, and one while sentences are translated: there is no BLEU."""
    real = Trainer.step

    def interrupted(*arguments, **_):
        if arguments[1:] == (6,) or not isinstance(arguments[0], Trainer):
            raise KeyboardInterrupt
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", interrupted)
        run = train(SMALL, SHORT, corpus, pairs=3, progress=False)
    assert (run.status, len(run.table)) == ("stopped", 5)
    assert len(run.samples) == 3
    monkeypatch.setattr("lntutor.training.trainer.translate", interrupted)
    run = train(SMALL, SHORT, corpus, progress=False)
    assert (run.status, len(run.table), run.bleu) == ("stopped", 12, None)


@pytest.mark.parametrize("placement", ["none", "post"])
def test_a_run_that_diverges_is_a_result(corpus, placement):
    """Oracle: a rate of 100 with SGD leaves no loss finite; every row before is."""
    how = SHORT.with_(optimizer="sgd", lr=100.0, steps=60)
    run = train(SMALL.with_(placement=placement), how, corpus, progress=False)
    assert run.status == "diverged"
    assert not np.isfinite(run.table["loss"].iloc[-1])
    assert np.isfinite(run.table["loss"].iloc[:-1]).all()
    assert run.val_loss == float("inf")
    assert run.bleu is None


def test_a_last_step_that_breaks_the_weights_is_a_divergence(corpus, monkeypatch):
    """Oracle: weights that are no numbers."""
    real = Trainer.update

    def broken(self, step, gradient):
        real(self, step, gradient)
        if step == SHORT.steps:
            self.learner.flats["warm"].fill_(nan)

    monkeypatch.setattr(Trainer, "update", broken)
    run = train(SMALL, SHORT, corpus, pairs=3, progress=False)
    assert (run.status, run.val_loss, run.bleu) == ("diverged", float("inf"), None)


def test_a_clipped_gradient_moves_sgd_by_no_more_than_rate_times_limit(corpus):
    """Oracle: ‖Δθ‖ = lr · clip in the first step, by the definition of clipping."""
    trainer = Trainer(SMALL, SHORT.with_(optimizer="sgd", lr=0.5, clip=0.01), corpus)
    before = trainer.learner.flats["warm"].clone()
    assert trainer.step(1)["gradient"] > 0.01
    moved = (trainer.learner.flats["warm"] - before).norm()
    assert float(moved) == pytest.approx(0.5 * 0.01, rel=1e-4)


def test_only_the_named_layer_is_warmed_up(corpus):
    """Oracle: Adam's first step is ±rate where there is a gradient: lr/T in that layer, lr elsewhere."""
    cfg = ModelConfig("post", depth=2, width=16, heads=2, ffn=16)
    how = SHORT.with_(lr=1e-2, warmup=10, warmup_only=("decoder.2",))
    trainer = Trainer(cfg, how, corpus)
    names = [(side, layer, "ffn", "W_2") for side in ("encoder", "decoder") for layer in (1, 2)]
    before = {name: trainer.learner.weights[name].detach().clone() for name in names}
    trainer.step(1)
    moved = {n: float((trainer.learner.weights[n].detach() - before[n]).abs().median()) for n in names}
    for name in names:
        assert moved[name] == pytest.approx(1e-3 if name[:2] == ("decoder", 2) else 1e-2, rel=1e-2)


def test_masked_words_are_learnt_by_an_encoder_alone(corpus):
    """Oracle: below the loss of the best constant guess, the entropy of single words."""
    cfg = ModelConfig("pre", depth=1, width=32, heads=2, ffn=64, stack="encoder")
    run = train(cfg, TrainConfig(lr=1e-2, warmup=20, steps=150, task="masked_words"), corpus, progress=False)
    counts = np.bincount(
        np.concatenate([b.labels[b.labels != b.pad] for b in corpus.batches("val", 200, task="masked_words")])
    )
    share = counts[counts > 0] / counts.sum()
    assert run.val_loss < -(share * np.log(share)).sum() - 0.5
    assert (run.bleu, run.samples) == (None, ())


def test_training_neither_needs_nor_changes_the_callers_gradient_mode(corpus):
    """Oracle: torch's own flag, before, between and after the steps."""
    with torch.no_grad():
        for progress in steps(SMALL, SHORT.with_(steps=3), corpus):
            assert not torch.is_grad_enabled()
            assert progress.row["gradient"] > 0


def test_a_large_validation_split_is_read_in_part_and_in_all_lengths(corpus, monkeypatch):
    """Oracle: the split's own mean length."""
    monkeypatch.setattr("lntutor.training.trainer.VALIDATION_SIZE", 10)
    trainer = Trainer(SMALL, SHORT, corpus)
    trainer.validate()
    assert len(trainer.held_out) <= VALIDATION
    words = [int((b.labels != b.pad).sum()) / len(b.labels) for b in trainer.held_out]
    every = [len(corpus.tokens(english, "en")) + 1 for _, english in corpus.pairs("val")]
    assert np.mean(words) == pytest.approx(np.mean(every), rel=0.1)
