"""Products of vectors with the Hessian of a loss, its blocks, the Gauss–Newton matrix, and rescaled ones.

The products are derivatives of the gradient by autograd. Finite differences would be wrong here, as ReLU has kinks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from math import isfinite

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lntutor.curvature.fast_products import Twice
from lntutor.measure.gradients import PARAMETERS
from lntutor.model.checks import check_choice, check_int, check_number, check_type
from lntutor.model.config import Batch, ModelConfig
from lntutor.model.transformer import Transformer
from lntutor.text.corpus import PAD, SPLITS, Corpus
from lntutor.training.network import Learner

MEMORY = 2_000_000_000  # default bytes for graphs and basis
MOST_WORDS = 3500  # in one graph: more would gain little speed and leave less room for kept graphs
WORKING = 2.5  # memory of a product while it is computed, relative to one graph


class GradientGraph:
    """The gradient of the loss on one batch, with the graph of autograd that differentiates it."""

    def __init__(self, learner: Learner, batch: Batch, share: float, weights: list[Tensor]):
        log_p, words = learner.predictions(batch)
        loss = F.nll_loss(log_p, words) * share
        self.loss = float(loss.detach())
        # only the derivatives of these are used; with `Twice` they are placeholders
        self.slopes = torch.autograd.grad(loss, weights, create_graph=True, materialize_grads=True)

    def product(self, weights: list[Tensor], at: list[int], v: list[Tensor], keep: bool) -> tuple[Tensor, ...]:
        """H v by a second backward pass; `at` are the places of `weights`, and of the parts of v, among all weights.

        A graph that is not kept is freed during the pass, which takes a fifth less memory.
        """
        return torch.autograd.grad(*self.paired(weights, at, v), retain_graph=keep, materialize_grads=True)

    def paired(self, inputs, at: list[int], v: list[Tensor]) -> tuple:
        """The first arguments of autograd.grad, (outputs, inputs, grad_outputs), without constant outputs."""
        pairs = [(self.slopes[i], u) for i, u in zip(at, v, strict=True) if self.slopes[i].requires_grad]
        return [slope for slope, _ in pairs], inputs, [u for _, u in pairs]


class GaussNewtonGraph(GradientGraph):
    """The log-probabilities of one batch, and a backward pass that can be differentiated.

    The Gauss–Newton matrix of the cross-entropy is Jᵀ diag(p) J, where J is the Jacobian of log p; it has no negative
    eigenvalue. J v is the derivative of Jᵀu by u.
    """

    def __init__(self, learner: Learner, batch: Batch, share: float, weights: list[Tensor]):
        self.log_p, words = learner.predictions(batch)
        self.loss = float(F.nll_loss(self.log_p.detach(), words) * share)
        self.p = self.log_p.detach().exp() * (share / len(words))
        self.u = torch.zeros_like(self.log_p, requires_grad=True)
        self.slopes = torch.autograd.grad(self.log_p, weights, self.u, create_graph=True, materialize_grads=True)

    def product(self, weights: list[Tensor], at: list[int], v: list[Tensor], keep: bool) -> tuple[Tensor, ...]:
        """Jᵀ diag(p) J v."""
        (moved,) = torch.autograd.grad(*self.paired(self.u, at, v), retain_graph=True)
        return torch.autograd.grad(self.log_p, weights, self.p * moved, retain_graph=keep, materialize_grads=True)


def graph_bytes(graph: GradientGraph, weights: Iterable[Tensor]) -> int:
    """The bytes that a graph keeps for its derivative, without the weights; each buffer counts once.

    Found by a walk over what autograd saved. (Hooks on saving would be shorter, but would never free the graph.)
    """
    seen = {w.untyped_storage().data_ptr(): 0 for w in weights}
    names: dict[type, list[str]] = {}
    nodes = [slope.grad_fn for slope in graph.slopes if slope.grad_fn is not None]
    known = set(nodes)
    while nodes:
        node = nodes.pop()
        for name in names.setdefault(type(node), [n for n in dir(node) if n.startswith(("_saved_", "saved_tensors"))]):
            saved = getattr(node, name)
            for tensor in saved if isinstance(saved, tuple | list) else (saved,):
                if isinstance(tensor, Tensor):
                    memory = tensor.untyped_storage()
                    seen.setdefault(memory.data_ptr(), memory.nbytes())
        fresh = {after for after, _ in node.next_functions if after is not None} - known
        known |= fresh
        nodes += fresh
    return sum(seen.values())


class Operator:
    """Products with the Hessian of a learner's mean loss over batches, or with its Gauss–Newton matrix.

    One graph per batch. As many as fit into `memory` (bytes) are kept; the others are made again for each product. The
    weights must not change in the meantime. `by_hand` makes the whole Hessian faster, and blocks slower.
    """

    def __init__(
        self, learner: Learner, batches: Iterable[Batch], *,
        gauss_newton: bool = False, by_hand: bool = True, memory: float = MEMORY,
    ):  # fmt: skip
        self.learner = with_second_derivatives(learner, by_hand=False)  # its loss has all derivatives
        self._reader = with_second_derivatives(learner, by_hand and not gauss_newton)  # only for graphs
        self.names = tuple(learner.weights)
        self._graph = GaussNewtonGraph if gauss_newton else GradientGraph
        batches = list(batches)
        words = sum(map(words_of, batches))
        self._pieces = [(batch, words_of(batch) / words) for batch in batches]
        self._all = list(learner.weights.values())
        self._at = list(range(len(self._all)))
        self._kept: list[GradientGraph] = []
        self.loss = 0.0  # nats per word, over all batches
        self._fill(memory)

    @property
    def weights(self) -> list[Tensor]:
        """The tensors that a vector concatenates."""
        return [self._all[i] for i in self._at]

    @property
    def size(self) -> int:
        """The length of a vector."""
        return sum(w.numel() for w in self.weights)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of vectors and products."""
        return self._all[0].dtype

    @property
    def kept(self) -> float:
        """The share of batches whose graph is kept."""
        return len(self._kept) / len(self._pieces)

    @property
    def kept_bytes(self) -> int:
        """The bytes of the kept graphs."""
        return sum(graph_bytes(graph, self._all) for graph in self._kept)

    def part(self, wanted: Callable[[tuple], bool]) -> Operator:
        """The block of the matrix for the weights with wanted names; it shares the graphs."""
        twin = copy(self)
        twin._at = [i for i in self._at if wanted(self.names[i])]
        if not twin._at:
            raise ValueError(f"no weight was chosen; there are {', '.join(map(str, self.names[:3]))}, …")
        return twin

    @torch.enable_grad()
    def matvec(self, v: Tensor) -> Tensor:
        """The matrix times v."""
        weights, total = self.weights, torch.zeros_like(v)
        parts = [part.view(w.shape) for part, w in zip(v.split([w.numel() for w in weights]), weights, strict=True)]
        for graph, keep in self._graphs():
            total += _flat(graph.product(weights, self._at, parts, keep))
        return total

    @torch.enable_grad()
    def gradient(self) -> Tensor:
        """The gradient of the mean loss, as one vector."""
        total = torch.zeros(self.size, dtype=self.dtype)
        for batch, share in self._pieces:
            loss = self.learner.loss(batch)[0] * share
            total += _flat(torch.autograd.grad(loss, self.weights, materialize_grads=True))
        return total

    def _graphs(self) -> Iterator[tuple[GradientGraph, bool]]:
        """Every graph, and whether it is kept."""
        yield from ((graph, True) for graph in self._kept)
        for batch, share in self._pieces[len(self._kept) :]:
            yield self._graph(self._reader, batch, share, self._all), False

    def _fill(self, memory: float) -> None:
        """Keep as many graphs as there is room for, and add up the loss; a first graph is made to measure its bytes."""
        largest = max((batch for batch, _ in self._pieces), key=places_of)
        with torch.enable_grad():
            weight = graph_bytes(self._graph(self._reader, largest, 1.0, self._all), self._all)
        self.learner.profile = self._reader.profile  # of the largest batch (Admin): the same loss for all derivatives
        most = int(memory / weight - WORKING)
        for batch, share in self._pieces:
            if len(self._kept) < most:
                with torch.enable_grad():
                    self._kept.append(self._graph(self._reader, batch, share, self._all))
                self.loss += self._kept[-1].loss
            else:
                with torch.no_grad():
                    self.loss += share * float(self.learner.loss(batch)[1])
        if not isfinite(self.loss):
            raise ValueError(f"the loss is {self.loss}: there is no curvature to measure at these weights")


def with_second_derivatives(learner: Learner, by_hand: bool) -> Learner:
    """A learner with the same weights whose forward pass has second derivatives; torch's fused attention has none.

    Those by hand are faster, except for few weights, where autograd can leave out the others.
    """
    twin = copy(learner)
    twin.reads = Twice if by_hand else Transformer
    return twin


def words_of(batch: Batch) -> int:
    """How many words there are to predict."""
    return int((batch.labels != batch.pad).sum())


def places_of(batch: Batch) -> int:
    """How many words are read, padding included."""
    return sum(ids.size for ids in (batch.source, batch.target) if ids is not None)


class Scaled:
    """D A D with a diagonal D: the same curvature, with every weight in other units."""

    def __init__(self, operator: Operator, scale: Tensor):  # scale: (size,)
        self.operator, self.scale = operator, scale
        self.size, self.dtype, self.loss = operator.size, operator.dtype, operator.loss

    def matvec(self, v: Tensor) -> Tensor:
        """D A (D v)."""
        return self.scale * self.operator.matvec(self.scale * v)


def relative_scale(operator: Operator) -> Tensor:
    """The root mean square of every tensor, for each of its weights: vectors become relative changes.

    So a factor on a matrix that a norm cancels does not change D H D. A tensor of zeros, as biases at the start, drops
    out.
    """
    return torch.cat([w.detach().square().mean().sqrt().expand(w.numel()) for w in operator.weights])


def adam_scale(squares: Tensor, eps: float = 1e-8) -> Tensor:
    """1/√(√v + ε): D H D is the Hessian preconditioned by Adam, whose step is g/(√v + ε) (Cohen et al. 2022)."""
    return (squares.sqrt() + eps).rsqrt()


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([t.reshape(-1) for t in tensors])


# The loss of translation, at initialisation ----------------------------------------------------------------------


def operator_at_start(
    cfg: ModelConfig, corpus: Corpus, *, pairs: int = 1000, seed: int = 0, split: str = "val",
    gauss_newton: bool = False, by_hand: bool = True, memory: float = MEMORY, dtype: str = "float32",
) -> Operator:  # fmt: skip
    """The Hessian of a translation loss at initialisation, on the first `pairs` of a split."""
    check_type("cfg", cfg, ModelConfig)
    check_type("corpus", corpus, Corpus, "; load_corpus('captions') gives one")
    if cfg.stack != "encoder-decoder":
        raise ValueError(f"the loss is that of translation, which needs stack='encoder-decoder', got {cfg.stack!r}")
    check_number("memory", memory, 0, 1e15)
    check_int("seed", seed, 0, 2**31 - 1)
    kind = getattr(torch, check_choice("dtype", dtype, ("float32", "float64")))
    there = len(corpus.pairs(check_choice("split", split, SPLITS)))
    if check_int("pairs", pairs, 1, 10**9) > there:
        raise ValueError(f"pairs must be 1..{there}, for {corpus.name}'s split {split!r} has no more; got {pairs}")
    learner = Learner(cfg, (len(corpus.source), len(corpus.target)), pad=PAD, seed=seed, dtype=kind)
    how = {"gauss_newton": gauss_newton, "by_hand": by_hand}
    words = piece_size(learner, by_length(corpus, split, pairs, 1)[-1], memory=memory, **how)
    return Operator(learner, by_length(corpus, split, pairs, words), memory=memory, **how)


def piece_size(learner: Learner, longest: Batch, *, gauss_newton: bool, by_hand: bool, memory: float) -> int:
    """How many words fit into one graph, estimated from the graph of the longest sentence."""
    graph, weights = GaussNewtonGraph if gauss_newton else GradientGraph, list(learner.weights.values())
    reader = with_second_derivatives(learner, by_hand and not gauss_newton)
    with torch.enable_grad():
        needed = graph_bytes(graph(reader, longest, 1.0, weights), weights)
    words = int((longest.source != longest.pad).sum()) + words_of(longest)
    return int(min(MOST_WORDS, max(1, memory / (2 + WORKING) / needed * words)))


def by_length(corpus: Corpus, split: str, pairs: int, words: int = MOST_WORDS) -> list[Batch]:
    """The first `pairs` of a split in batches of similar length, with little padding."""
    batch = corpus.batch(split, pairs)
    german, english = ((ids != PAD).sum(1) for ids in (batch.source, batch.labels))
    order = np.lexsort((english, german))
    bins = np.cumsum((german + english)[order]) // words
    return [corpus.batch(split, order[bins == b].tolist()) for b in np.unique(bins)]


def chosen(cfg: ModelConfig, only: str) -> Callable[[tuple], bool]:
    """Whether a weight belongs to the block `only`: "decoder", "decoder.6", "W_2", "decoder.6.W_2", "embedding"."""
    parts = check_type("only", only, str).split(".")
    side = parts.pop(0) if parts[0] in cfg.sides else None
    layer = int(parts.pop(0)) if side and parts and parts[0].isdecimal() else None
    parameter = parts.pop(0) if parts else None
    known = (*PARAMETERS, "embedding")
    if parts or (parameter and parameter not in known) or (layer is not None and not 1 <= layer <= cfg.depth):
        example = f"'encoder', 'decoder.{cfg.depth}', 'W_2', 'decoder.{cfg.depth}.W_2' or 'embedding'"
        raise ValueError(f"only must be a side, a layer, a matrix or both, such as {example}, got {only!r}")

    def wanted(name: tuple) -> bool:
        if name[0] == "embedding":
            return parameter == "embedding" and side in (None, name[1])
        return side in (None, name[0]) and layer in (None, name[1]) and parameter in (None, name[-1])

    return wanted
