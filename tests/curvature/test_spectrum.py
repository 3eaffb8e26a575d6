"""Spectra of the Hessian, against numpy, PyHessian and runs that were never stopped."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from lntutor.curvature.hessian import Operator, by_length, chosen, operator_at_start
from lntutor.curvature.spectrum import Spectrum, ends, hessian_blocks, hessian_spectrum, measurement
from lntutor.experiments.stored_spectra import adam_squares, along_training
from lntutor.model.config import TrainConfig
from lntutor.text.corpus import PAD
from lntutor.training.network import Learner
from lntutor.training.trainer import Trainer
from tests.curvature.test_hessian import SMALL, TINY, learner_of, matrix_of
from tests.reference import Twin
from tests.training.test_network import text


def test_the_ends_are_those_that_pyhessian_finds_on_torchs_own_transformer():
    """Oracle: PyHessian's power iteration on nn.Transformer layers with copied weights, in float64."""
    from pyhessian import hessian

    class Model(Twin):
        def forward(self, ids):
            return super().forward(*ids)

    learner, batch = learner_of(SMALL), text(0)
    ids = (torch.from_numpy(batch.source), torch.from_numpy(batch.target))
    labels = torch.from_numpy(batch.labels).flatten()
    loss = lambda out, _: F.cross_entropy(out.flatten(0, 1), labels, ignore_index=1)  # noqa: E731
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        with pytest.warns(UserWarning, match="create_graph=True"):
            theirs = hessian(Model(learner), loss, data=(ids, labels), cuda=False)
        largest = theirs.eigenvalues(maxIter=2000, tol=1e-9)[0][0]  # of largest size, with its sign
    found = ends(learner, [batch], steps=60)
    ours = max(found.lambda_max, found.lambda_min, key=abs)
    assert ours == pytest.approx(largest, rel=1e-4)


def test_batches_by_length_hold_every_pair_once_and_give_the_loss_of_one_batch(corpus):
    """Oracle: the first pairs of the split in one padded batch."""
    batches = by_length(corpus, "val", 60, words=200)
    assert len(batches) > 3
    together = sorted(tuple(row[row != PAD]) for batch in batches for row in batch.labels)
    assert together == sorted(tuple(row[row != PAD]) for row in corpus.batch("val", 60).labels)
    operator = operator_at_start(SMALL, corpus, pairs=60, memory=3e7)
    learner = Learner(SMALL, (len(corpus.source), len(corpus.target)), pad=PAD)
    assert operator.loss == pytest.approx(float(learner.loss(corpus.batch("val", 60))[1]), rel=1e-5)


def test_stopped_and_resumed_is_the_same_as_one_go(corpus):
    """Oracle: an iteration that was never stopped, number by number."""
    one, other = (measurement(SMALL, corpus, pairs=20, probes=2, seed=3) for _ in range(2))
    *_, last = one.run(9)
    for item in other.run(9):
        if item.product == 7:
            break
    assert {probe.steps for probe in other.probes} == {3, 4}  # in turn
    stopped = other.spectrum()
    assert (stopped.steps, stopped.probes) == (4, 2)
    *_, resumed = other.run(9)
    assert (last.product, last.of, resumed.product) == (18, 18, 18)
    np.testing.assert_array_equal(other.spectrum().eigenvalues, last.spectrum().eigenvalues)
    np.testing.assert_array_equal(other.spectrum().weights, last.spectrum().weights)


def test_a_spectrum_says_what_it_is_of_and_is_the_same_from_its_table(corpus):
    """Oracle: the arguments; the table written and read."""
    found = hessian_spectrum(SMALL, corpus, pairs=20, steps=6, probes=2, seed=1, kind="relative", progress=False)
    assert found.weights.sum() == pytest.approx(1)
    assert len(found.eigenvalues) == found.probes * found.steps == 12
    assert (found.corpus, found.checksum, found.pairs, found.seed, found.kind) == (
        "captions", corpus.checksum, 20, 1, "relative",
    )  # fmt: skip
    assert found.lambda_min == found.eigenvalues[0] <= found.mean <= found.eigenvalues[-1] == found.lambda_max
    again = Spectrum.of_table(found.table())
    np.testing.assert_allclose(again.eigenvalues, found.eigenvalues)
    assert (again.lambda_max, again.placement, again.steps) == (found.lambda_max, "post", 6)
    with pytest.raises(ValueError, match="read-only"):
        found.weights[0] = 1


def test_smoothing_makes_a_curve_of_area_one_and_no_new_product(corpus, monkeypatch):
    """Oracle: the trapezoidal rule; an operator that may not be asked again."""
    found = hessian_spectrum(SMALL, corpus, pairs=10, steps=8, progress=False)
    monkeypatch.setattr(Operator, "matvec", lambda self, v: pytest.fail("a product was made"))
    for width in (None, 0.05, 1.0):
        curve = found.smooth(width)
        assert np.trapezoid(curve["density"], curve["x"]) == pytest.approx(1, abs=1e-3)


def test_blocks_have_the_ends_of_their_own_spectra(corpus):
    """Oracle: numpy's eigenvalues of the block's dense matrix."""
    table = hessian_blocks(TINY, corpus, parameters=("W_1", "W_V"), pairs=6, steps=24, dtype="float64", progress=False)
    assert len(table) == 2 * 1 * 2
    operator = operator_at_start(TINY, corpus, pairs=6, dtype="float64")
    for row in table.itertuples():
        block = matrix_of(operator.part(chosen(TINY, f"{row.side}.{row.layer}.{row.parameter}"))).numpy()
        values = np.linalg.eigvalsh((block + block.T) / 2)
        assert row.lambda_max == pytest.approx(values[-1], rel=1e-6, abs=1e-9)
        assert row.lambda_min == pytest.approx(values[0], rel=1e-6, abs=1e-9)


def test_curvature_along_training_is_taken_where_the_weights_are(corpus):
    """Oracle: a trainer brought to the same step, and Adam's own state."""
    how = TrainConfig(lr=1e-3, steps=4, batch=8, schedule="constant", warmup=2)
    table = along_training(corpus, SMALL, how, after=(0, 3), pairs=10)
    assert table["step"].tolist() == [0, 3]
    assert np.isnan(table["adam_max"].iloc[0])
    assert table["rate"].tolist() == pytest.approx([5e-4, 1e-3])
    trainer = Trainer(SMALL, how, corpus)
    for step in (1, 2, 3):
        trainer.step(step)
    batches = by_length(corpus, "val", 10)
    assert table["lambda_max"].iloc[1] == pytest.approx(ends(trainer.learner, batches, steps=12).lambda_max, rel=1e-5)
    v = trainer.optimizer.state[trainer.learner.flats["warm"]]["exp_avg_sq"] / (1 - 0.98**3)
    torch.testing.assert_close(adam_squares(trainer, 3), v)
    seen = ends(trainer.learner, batches, steps=12, squares=v)
    assert table["adam_max"].iloc[1] == pytest.approx(seen.lambda_max, rel=1e-5)
