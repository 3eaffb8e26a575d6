"""Curvature of the loss, against dense Hessians, closed forms and PyHessian."""

import os
import subprocess
import sys
from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from lntutor.config import Batch, ModelConfig, TrainConfig
from lntutor.corpus import PAD, load_corpus
from lntutor.curvature import (
    Iteration,
    Operator,
    Scaled,
    Spectrum,
    adam_scale,
    by_length,
    chosen,
    ends,
    graph_bytes,
    hessian_blocks,
    hessian_spectrum,
    measurement,
    operator_at_start,
    relative_scale,
)
from lntutor.learner import Learner
from lntutor.model import Transformer
from lntutor.placements import PLACEMENTS
from lntutor.spectra import adam_squares, along_training
from lntutor.training import Trainer
from tests.reference import Twin
from tests.test_learner import VOCAB, text

TINY = ModelConfig("post", depth=1, width=4, heads=2, ffn=6)
SMALL = ModelConfig("post", depth=2, width=16, heads=2, ffn=24)


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("captions")


def learner_of(cfg: ModelConfig, seed: int = 0) -> Learner:
    return Learner(cfg, VOCAB, pad=1, seed=seed, dtype=torch.float64)


def dense_hessian(learner: Learner, batches: list[Batch]) -> torch.Tensor:
    """torch.autograd.functional.hessian of the mean loss over all words, by every weight."""
    names, shapes = list(learner.weights), [w.shape for w in learner.weights.values()]
    sizes = [s.numel() for s in shapes]
    start = torch.cat([w.detach().flatten() for w in learner.weights.values()])
    twin = copy(learner)
    twin.reads = Transformer  # autograd's own derivatives of everything

    def loss(flat):
        twin.weights = dict(
            zip(names, (p.view(s) for p, s in zip(flat.split(sizes), shapes, strict=True)), strict=True)
        )
        sums = [F.nll_loss(*twin.predictions(batch), reduction="sum") for batch in batches]
        words = sum(int((batch.labels != batch.pad).sum()) for batch in batches)
        return sum(sums) / words

    return torch.autograd.functional.hessian(loss, start, vectorize=True)


def matrix_of(operator) -> torch.Tensor:
    """The whole matrix, column by column."""
    return torch.stack([operator.matvec(v) for v in torch.eye(operator.size, dtype=operator.dtype)], dim=1)


# Products ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", PLACEMENTS)
def test_products_are_those_of_the_dense_hessian(key):
    """Oracle: torch.autograd.functional.hessian, float64, for every placement; two batches of unequal size."""
    learner, batches = learner_of(TINY.with_(placement=key)), [text(0), text(1)]
    learner.loss(batches[0])  # Admin's profile is of the first batch that is seen
    dense = dense_hessian(learner, batches)
    operator = Operator(learner, batches)
    random = torch.Generator().manual_seed(0)
    for _ in range(3):
        v = torch.randn(operator.size, generator=random, dtype=torch.float64)
        torch.testing.assert_close(operator.matvec(v), dense @ v, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    "change", [{}, {"norm": "rms"}, {"attention": "uniform"}, {"output_projection": False}, {"placement": "hybrid"}]
)
def test_derivatives_by_hand_are_those_of_autograd(corpus, change):
    """Oracle: autograd through the plain forward pass; real text, with padding and in sentences of one length."""
    cfg = SMALL.with_(**change)
    learner = Learner(cfg, (len(corpus.source), len(corpus.target)), pad=PAD, dtype=torch.float64)
    padded = corpus.batch("val", list(range(5)))
    assert all((ids == PAD).any() for ids in (padded.source, padded.target))
    batches = [padded, corpus.batch("val", [7])]
    ours, autograd = (Operator(learner, batches, by_hand=by_hand) for by_hand in (True, False))
    v = torch.randn(ours.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(ours.matvec(v), autograd.matvec(v), rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(ours.gradient(), autograd.gradient(), rtol=1e-10, atol=1e-12)


def test_an_operators_learner_can_be_differentiated_by_anybody(corpus):
    """Oracle: the gradient; place-holders, which derivatives by hand leave in its stead, would be zeros."""
    learner = Learner(SMALL, (len(corpus.source), len(corpus.target)), pad=PAD, dtype=torch.float64)
    operator, batch = Operator(learner, [corpus.batch("val", 5)]), corpus.batch("val", 5)
    slopes = torch.autograd.grad(operator.learner.loss(batch)[0], operator.weights, create_graph=True)
    flat = torch.cat([slope.detach().flatten() for slope in slopes])
    torch.testing.assert_close(flat, operator.gradient(), rtol=1e-10, atol=1e-12)


def test_the_whole_spectrum_is_that_of_the_dense_hessian():
    """Oracle: numpy's eigenvalues of the dense matrix; as many products as it has different ones."""
    learner = learner_of(ModelConfig("pre", depth=1, width=2, heads=1, ffn=2))
    values = np.linalg.eigvalsh(dense_hessian(learner, [text(0)]).numpy())
    iteration = Iteration(Operator(learner, [text(0)]), seed=1)
    for _ in iteration.run(len(values)):
        pass
    found = iteration.spectrum()
    assert found.lambda_max == pytest.approx(values[-1], rel=1e-12)
    assert found.lambda_min == pytest.approx(values[0], rel=1e-12)
    for value in found.eigenvalues[found.weights > 1e-6]:
        assert np.abs(values - value).min() < 1e-8


def test_graphs_kept_and_made_again_give_the_same_product():
    """Oracle: the operator that keeps everything, against one that keeps nothing and one that keeps a part."""
    learner, batches = learner_of(SMALL), [text(i) for i in range(6)]
    whole = Operator(learner, batches)
    one = graph_bytes(whole._kept[0], whole.weights)
    v = torch.randn(whole.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    part, nothing = Operator(learner, batches, memory=5.5 * one), Operator(learner, batches, memory=0)
    assert (whole.kept, nothing.kept) == (1.0, 0.0)
    assert 0 < part.kept < 1
    for other in (part, nothing):
        torch.testing.assert_close(other.matvec(v), whole.matvec(v), rtol=1e-12, atol=1e-13)
        assert other.loss == pytest.approx(whole.loss, rel=1e-12)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux how much memory is in use")
def test_an_operator_that_is_done_with_leaves_nothing_behind(corpus):
    """Oracle: the process's own memory; ten operators after the second take no more than a graph's worth."""
    learner = Learner(SMALL.with_(width=32), (len(corpus.source), len(corpus.target)), pad=PAD)
    batches = by_length(corpus, "val", 40)

    def resident() -> int:
        ends(learner, batches, steps=1)
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    graph = graph_bytes(Operator(learner, batches)._kept[0], learner.weights.values())
    resident()
    before = resident()
    assert max(resident() for _ in range(10)) - before < 3 * graph


def test_gauss_newton_products_are_those_of_jacobians_and_the_softmax():
    """Oracle: Σ Jᵀ(diag p − ppᵀ)J / words, from torch.func.jacrev of the logits; it has no negative eigenvalue."""
    learner, batch = learner_of(TINY), text(2)
    operator = Operator(learner, [batch], gauss_newton=True)
    names, twin = list(learner.weights), operator.learner

    def logits(*weights):
        twin.weights = dict(zip(names, weights, strict=True))
        return twin.predictions(batch)[0]  # log p differs from the logits by a constant a row

    weights = tuple(w.detach() for w in learner.weights.values())
    log_p = logits(*weights)
    J = torch.cat([j.flatten(2) for j in torch.autograd.functional.jacobian(logits, weights)], -1)  # (N, V, size)
    p = log_p.exp()
    inner = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    dense = torch.einsum("nva,nvw,nwb->ab", J, inner, J) / len(p)
    twin.weights = learner.weights
    v = torch.randn(operator.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(operator.matvec(v), dense @ v, rtol=1e-8, atol=1e-11)
    assert np.linalg.eigvalsh(dense.numpy())[0] > -1e-12


def test_softmax_regression_has_its_textbook_hessian():
    """Oracle: X̄ᵀX̄ ⊗ (diag p − ppᵀ) for one word predicted from one vector, by hand."""

    class Regression(Learner):
        """log softmax(x W) and nothing else."""

        def __init__(self, x):
            self.weights, self.x = {("W",): torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)}, x

        def predictions(self, batch, learning=False):
            return (self.x @ self.weights["W",]).log_softmax(-1), torch.from_numpy(batch.labels).flatten()

    x = torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64)
    batch = Batch(np.array([[3]]), np.array([[3]]), np.array([[2]]), 0, (4, 4))
    p = torch.full((4,), 0.25, dtype=torch.float64)
    dense = torch.kron(x.T @ x, torch.diag(p) - torch.outer(p, p))
    for gauss_newton in (False, True):  # the loss is convex: both are the same
        torch.testing.assert_close(matrix_of(Operator(Regression(x), [batch], gauss_newton=gauss_newton)), dense)


def test_a_block_is_the_corner_of_the_matrix_that_belongs_to_it():
    """Oracle: rows and columns of the dense Hessian."""
    learner = learner_of(TINY)
    dense = dense_hessian(learner, [text(0)])
    operator = Operator(learner, [text(0)])
    sizes = [w.numel() for w in learner.weights.values()]
    starts = np.cumsum([0, *sizes])
    for only in ("encoder.1.W_1", "W_2", "decoder", "embedding"):
        wanted = chosen(TINY, only)
        at = np.concatenate([np.arange(starts[i], starts[i + 1]) for i, n in enumerate(operator.names) if wanted(n)])
        block = operator.part(wanted)
        torch.testing.assert_close(matrix_of(block), dense[np.ix_(at, at)], rtol=1e-9, atol=1e-11)


def test_other_units_are_a_diagonal_on_both_sides():
    """Oracle: D H D from the dense matrix, with D written by hand for both kinds."""
    learner = learner_of(TINY)
    operator, dense = Operator(learner, [text(0)]), dense_hessian(learner, [text(0)])
    roots = [float(w.detach().pow(2).mean() ** 0.5) for w in learner.weights.values()]
    sizes = torch.tensor([w.numel() for w in learner.weights.values()])
    relative = torch.tensor(roots, dtype=torch.float64).repeat_interleave(sizes)
    g = operator.gradient()
    for scale, by_hand in ((relative_scale(operator), relative), (adam_scale(g**2), 1 / (g.abs() + 1e-8).sqrt())):
        torch.testing.assert_close(scale, by_hand)
        v = torch.randn(operator.size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        wanted = by_hand * (dense @ (by_hand * v))
        torch.testing.assert_close(Scaled(operator, scale).matvec(v), wanted, rtol=1e-7, atol=1e-7)


def test_relative_curvature_does_not_see_the_scale_of_a_matrix_before_a_norm():
    """Oracle: Post-LN's own invariance: without a skip, N(c·f) = N(f), so W_2 may be ten times as large."""
    learner = learner_of(ModelConfig("no_residual", depth=1, width=4, heads=2, ffn=6))

    def tops():
        operator = Operator(learner, [text(0)]).part(chosen(learner.cfg, "decoder.1.W_2"))
        both = operator, Scaled(operator, relative_scale(operator))
        return [np.linalg.eigvalsh(matrix_of(one).numpy())[-1] for one in both]

    raw, relative = tops()
    with torch.no_grad():
        learner.weights["decoder", 1, "ffn", "W_2"].mul_(10)
    raw_10, relative_10 = tops()
    assert raw_10 == pytest.approx(raw / 100, rel=0.01)  # ε in the norm's root breaks it a little
    assert relative_10 == pytest.approx(relative, rel=0.01)


# The translation loss ------------------------------------------------------------------------------------------


def test_the_ends_are_those_that_pyhessian_finds_on_torchs_own_transformer():
    """Oracle: PyHessian's power iteration on nn.Transformer layers with copied weights, in float64."""
    from pyhessian import hessian

    learner = learner_of(SMALL)
    twin, batch = Twin(learner), text(0)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.twin = twin

        def forward(self, ids):
            return self.twin(*ids)

    ids = (torch.from_numpy(batch.source), torch.from_numpy(batch.target))
    labels = torch.from_numpy(batch.labels).flatten()
    loss = lambda out, _: F.cross_entropy(out.flatten(0, 1), labels, ignore_index=1)  # noqa: E731
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        with pytest.warns(UserWarning, match="create_graph=True"):
            theirs = hessian(Model(), loss, data=(ids, labels), cuda=False)
        largest = theirs.eigenvalues(maxIter=2000, tol=1e-9)[0][0]  # of largest size, with its sign
    iteration = Iteration(Operator(learner, [batch]), seed=0)
    for _ in iteration.run(60):
        pass
    found = iteration.spectrum()
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


def test_an_interrupt_keeps_what_was_measured(corpus, monkeypatch):
    """Oracle: three products made before Ctrl-C."""
    calls = []

    def matvec(self, v, real=Operator.matvec):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(self, v)

    monkeypatch.setattr(Operator, "matvec", matvec)
    found = hessian_spectrum(SMALL, corpus, pairs=10, steps=10, progress=False)
    assert found.steps == len(found.eigenvalues) == 3


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
    with pytest.raises(ValueError, match="width must be a number above 0"):
        found.smooth(0)


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


# What goes wrong -----------------------------------------------------------------------------------------------


def test_more_pairs_than_there_are_and_other_slips_are_said_in_words(corpus):
    """Oracle: the sentences."""
    cases = [
        ({"pairs": 1001}, r"pairs must be 1\.\.1000, for captions's split 'val' has no more; got 1001"),
        ({"pairs": 0}, "pairs must be a whole number"),
        ({"kind": "fisher"}, "kind must be one of hessian, gauss_newton, relative, adam, got 'fisher'"),
        ({"split": "dev"}, "split must be one of"),
        ({"only": "decoder.9"}, r"only must be a side, .* got 'decoder\.9'"),
        ({"only": "W_3"}, r"only must be a side, .* got 'W_3'"),
        ({"probes": 0}, "probes must be a whole number in 1..1000, got 0"),
        ({"steps": 0}, "steps must be a whole number"),
        ({"memory": float("nan")}, "memory must be a number"),
    ]
    for how, said in cases:
        with pytest.raises(ValueError, match=said):
            hessian_spectrum(SMALL, corpus, **{"pairs": 5, "steps": 2, "progress": False} | how)
    with pytest.raises(ValueError, match="needs stack='encoder-decoder', got 'encoder'"):
        hessian_spectrum(SMALL.with_(stack="encoder"), corpus)
    with pytest.raises(ValueError, match="corpus must be a Corpus, got 'captions'"):
        hessian_spectrum(SMALL, "captions")


def test_a_loss_that_is_not_finite_has_no_curvature():
    """Oracle: weights with NaN in them."""
    learner = learner_of(TINY)
    with torch.no_grad():
        learner.weights["embedding", "encoder"].fill_(float("nan"))
    with pytest.raises(ValueError, match="the loss is nan: there is no curvature"):
        Operator(learner, [text(0)])


def test_weights_that_move_under_kept_graphs_are_noticed():
    """Oracle: torch's own count of changes; a product of the old weights would be silently wrong."""
    learner = learner_of(TINY)
    operator = Operator(learner, [text(0)])
    with torch.no_grad():
        learner.weights["decoder", 1, "ffn", "W_2"].add_(1)
    with pytest.raises(RuntimeError, match="modified"):
        operator.matvec(torch.ones(operator.size, dtype=torch.float64))


MEASURE = """
import resource, sys, torch
torch.set_num_threads(1)
import lntutor as ln
from lntutor.curvature import operator_at_start
cfg, corpus = ln.ModelConfig("post", depth=4, width=64), ln.load_corpus("captions")
operator_at_start(cfg, corpus, pairs=4).matvec(torch.ones(ln.curvature.operator_at_start(cfg, corpus, pairs=4).size))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
operator = operator_at_start(cfg, corpus, pairs=400, memory=float(sys.argv[1]))
operator.matvec(torch.ones(operator.size))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, operator.kept)
"""


@pytest.mark.notebook  # as long as one
def test_the_memory_limit_is_kept(tmp_path):
    """Oracle: the most memory that a process of its own has used, beyond what it used for four pairs."""
    used = {}
    for limit in (1.5e8, 1.5e9):
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(limit)], capture_output=True, text=True, check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "LNTUTOR_CACHE": str(tmp_path), "MALLOC_ARENA_MAX": "1"},
        )  # fmt: skip
        used[limit], kept = map(float, done.stdout.split())
        assert used[limit] < limit
        assert (kept == 1) == (limit > 1e9)
    assert used[1.5e9] > 2 * used[1.5e8]  # and is made use of
