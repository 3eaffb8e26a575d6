"""Curvature of the loss: exact products with its Hessian, and the Hessian's spectrum by Lanczos.

An operator (`Operator`, `Scaled`) knows how to multiply; the iteration (`Iteration`) sees only its products; a
`Spectrum` is what came of it. The products are derivatives of the gradient, by autograd, with no finite differences:
ReLU's kinks make those wrong here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import MISSING, asdict, dataclass, field, fields
from math import isfinite

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from lntutor.bars import progress_bar
from lntutor.config import Batch, ModelConfig, choice, flag, instance, number, numbers, several, whole
from lntutor.corpus import PAD, SPLITS, Corpus
from lntutor.lanczos import Lanczos, density, start_vector
from lntutor.learner import Learner
from lntutor.measure import PARAMETERS
from lntutor.model import Transformer
from lntutor.twice import Twice

KINDS = ("hessian", "gauss_newton", "relative", "adam")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
MEMORY = 2_000_000_000  # bytes that graphs and basis may take, where the caller says nothing
MOST_WORDS = 3500  # in one piece of text: more gain little speed, and leave less room for graphs that are kept
WORKING = 2.5  # what a product takes while it is computed, in sizes of the graph of one piece
POINTS = 801  # of a smoothed curve
MOST_PROBES, MOST_STEPS = 1000, 100_000


# Operators -----------------------------------------------------------------------------------------------------


class Graph:
    """The gradient of one piece of text, kept with all that its derivative needs."""

    def __init__(self, learner: Learner, batch: Batch, share: float, weights: list[Tensor]):
        log_p, words = learner.predictions(batch)
        loss = F.nll_loss(log_p, words) * share
        self.loss = float(loss.detach())
        # Only their derivatives are of use: those of `Twice` have no values.
        self.slopes = torch.autograd.grad(loss, weights, create_graph=True, materialize_grads=True)

    def product(self, weights: list[Tensor], at: list[int], v: list[Tensor], keep: bool) -> tuple[Tensor, ...]:
        """H v by a second backward pass; `weights` and v stand at these places among all weights.

        A graph that is not kept is given back as the pass goes through it: a fifth less memory at its peak.
        """
        return torch.autograd.grad(*self.paired(weights, at, v), retain_graph=keep, materialize_grads=True)

    def paired(self, inputs, at: list[int], v: list[Tensor]) -> tuple:
        """What to differentiate, by what, and the weight of each; a slope that is constant drops out."""
        pairs = [(self.slopes[i], u) for i, u in zip(at, v, strict=True) if self.slopes[i].requires_grad]
        return [slope for slope, _ in pairs], inputs, [u for _, u in pairs]


class GaussNewtonGraph(Graph):
    """The log-probabilities of one piece of text, and a backward pass that can itself be differentiated.

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


def graph_bytes(graph: Graph, weights: Iterable[Tensor]) -> int:
    """The memory that a graph keeps for its derivative, each piece of it counted once, without that of the weights.

    Found by a walk over what autograd saved. (Hooks on saving would be shorter, and would keep the graph for ever.)
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
    """The Hessian of a learner's mean loss over batches, seen through its products; or the Gauss–Newton matrix.

    Graphs are kept for the next product while `memory` (in bytes) has room for them; the others are made again each
    time. The weights must not move in the meantime. With `by_hand` the whole Hessian is quicker and blocks are slower.
    """

    def __init__(
        self,
        learner: Learner,
        batches: Iterable[Batch],
        *,
        gauss_newton: bool = False,
        by_hand: bool = True,
        memory: float = MEMORY,
    ):
        self.learner = with_second_derivatives(learner, by_hand=False)  # to be differentiated by anybody
        self._reader = with_second_derivatives(learner, by_hand and not gauss_newton)  # by graphs alone
        self.names = tuple(learner.weights)
        self._graph = GaussNewtonGraph if gauss_newton else Graph
        batches = list(batches)
        words = sum(map(words_of, batches))
        self._pieces = [(batch, words_of(batch) / words) for batch in batches]
        self._all = list(learner.weights.values())
        self._at = list(range(len(self._all)))
        self._kept: list[Graph] = []
        self.loss = 0.0  # nats a word, over all batches
        self._fill(memory)

    @property
    def weights(self) -> list[Tensor]:
        """The tensors that the operator's vectors are directions of, one after the other."""
        return [self._all[i] for i in self._at]

    @property
    def size(self) -> int:
        """How many numbers a vector has."""
        return sum(w.numel() for w in self.weights)

    @property
    def dtype(self) -> torch.dtype:
        """Of vectors and products."""
        return self._all[0].dtype

    @property
    def kept(self) -> float:
        """The share of pieces whose graph is kept."""
        return len(self._kept) / len(self._pieces)

    def part(self, wanted: Callable[[tuple], bool]) -> Operator:
        """The block of the matrix that belongs to some of the weights, chosen by name; graphs are shared."""
        twin = copy(self)
        twin._at = [i for i in self._at if wanted(self.names[i])]
        if not twin._at:
            raise ValueError(f"no weight was chosen; there are {', '.join(map(str, self.names[:3]))}, …")
        return twin

    @torch.enable_grad()
    def matvec(self, v: Tensor) -> Tensor:
        """The matrix times v, like v."""
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

    def _graphs(self) -> Iterator[tuple[Graph, bool]]:
        """Every graph, and whether it is kept."""
        yield from ((graph, True) for graph in self._kept)
        for batch, share in self._pieces[len(self._kept) :]:
            yield self._graph(self._reader, batch, share, self._all), False

    def _fill(self, memory: float) -> None:
        """Keep graphs while there is room, and add up the loss; the first is made twice, once to be weighed."""
        largest = max((batch for batch, _ in self._pieces), key=lambda batch: batch.source.size + batch.target.size)
        with torch.enable_grad():
            weight = graph_bytes(self._graph(self._reader, largest, 1.0, self._all), self._all)
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
    """A learner of the same weights whose attention is written out: torch's own has no second derivative.

    Derivatives by hand take less time, except where most are not asked for: autograd's own can leave those out.
    """
    twin = copy(learner)
    twin.reads = Twice if by_hand else Transformer
    return twin


def words_of(batch: Batch) -> int:
    """How many words there are to predict."""
    return int((batch.labels != batch.pad).sum())


@dataclass(frozen=True)
class Scaled:
    """D A D with a diagonal D: the same curvature, in other units for every weight."""

    operator: Operator
    scale: Tensor  # (size,)

    @property
    def size(self) -> int:
        """How many numbers a vector has."""
        return self.operator.size

    @property
    def dtype(self) -> torch.dtype:
        """Of vectors and products."""
        return self.operator.dtype

    @property
    def loss(self) -> float:
        """Nats a word, over all batches."""
        return self.operator.loss

    def matvec(self, v: Tensor) -> Tensor:
        """D A (D v)."""
        return self.scale * self.operator.matvec(self.scale * v)


def relative_scale(operator: Operator) -> Tensor:
    """The root mean square of every tensor, for each of its weights: directions become relative changes.

    Multiplying a matrix by a number, where the network does not notice (before a norm), changes nothing in D H D. A
    tensor of zeros, as biases are at the start, has no relative changes and drops out.
    """
    return torch.cat([w.detach().square().mean().sqrt().expand(w.numel()) for w in operator.weights])


def adam_scale(squares: Tensor, eps: float = 1e-8) -> Tensor:
    """1/√(√v + ε): with it D H D is what Adam sees, whose step is the gradient over √v + ε (Cohen et al. 2022)."""
    return (squares.sqrt() + eps).rsqrt()


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([t.reshape(-1) for t in tensors])


# Spectra -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues in outline: those of the small matrix T of every probe, each with its share of all eigenvalues."""

    eigenvalues: np.ndarray  # (probes × steps,), ascending
    weights: np.ndarray  # (probes × steps,); they sum to one
    lambda_max: float
    lambda_max_error: float  # an eigenvalue is at most so far away
    lambda_min: float
    lambda_min_error: float
    probes: int
    steps: int  # products of each probe
    seed: int
    size: int = 0  # rows of the matrix
    kind: str = "hessian"
    placement: str = ""
    depth: int = 0
    width: int = 0
    corpus: str = ""
    checksum: str = ""  # of the corpus
    split: str = ""
    pairs: int = 0
    loss: float = float("nan")  # nats a word, where the curvature was taken

    def __post_init__(self):
        for name in ("eigenvalues", "weights"):
            array = numbers(name, getattr(self, name), 1)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if not len(self.eigenvalues) == len(self.weights) > 0:
            counts = f"{len(self.eigenvalues)} and {len(self.weights)}"
            raise ValueError(f"eigenvalues and weights must be equally many, one or more, got {counts}")

    @property
    def rms(self) -> float:
        """√(mean λ²): how far the gradient moves for a step of length one in a random direction (root mean square)."""
        return float(np.sqrt(self.weights @ self.eigenvalues**2))

    @property
    def mean(self) -> float:
        """Mean λ, the trace over the size."""
        return float(self.weights @ self.eigenvalues)

    def smooth(self, width: float | None = None, x=None) -> pd.DataFrame:
        """The density as a curve, each eigenvalue a bell of this width: no new products.

        Columns: placement, seed, x, density, lambda_min, lambda_max. Without a width it is a hundredth of the range.
        """
        low, high = self.lambda_min, self.lambda_max
        width = (high - low) / 100 or 1e-6 if width is None else number("width", width, 0, 1e12, above=True)
        x = np.linspace(low - 4 * width, high + 4 * width, POINTS) if x is None else numbers("x", x, 1)
        curve = {"x": x, "density": density(self.eigenvalues, self.weights, width, x)}
        ends = {"lambda_min": low, "lambda_max": high}
        return pd.DataFrame({"placement": self.placement, "seed": self.seed, **curve, **ends})

    def table(self) -> pd.DataFrame:
        """One row an eigenvalue of T: eigenvalue, weight, and all that is known of the spectrum."""
        told = {name: value for name, value in asdict(self).items() if name not in ("eigenvalues", "weights")}
        return pd.DataFrame({"eigenvalue": self.eigenvalues, "weight": self.weights}).assign(**told)

    @classmethod
    def of_table(cls, rows: pd.DataFrame) -> Spectrum:
        """The spectrum whose `table` this is."""
        needed = ["eigenvalue", "weight", *(f.name for f in fields(cls)[2:] if f.default is MISSING)]
        missing = [name for name in needed if name not in instance("rows", rows, pd.DataFrame)]
        if missing or rows.empty:
            raise ValueError(f"rows must be a spectrum's table, got one without {', '.join(missing) or 'rows'}")
        rows = rows.sort_values("eigenvalue", kind="stable")
        names = set(cls.__dataclass_fields__) - {"eigenvalues", "weights"}
        told = {name: rows[name].iloc[0].item() if hasattr(rows[name].iloc[0], "item") else rows[name].iloc[0]
                for name in names if name in rows.columns}  # fmt: skip
        weights = rows["weight"].to_numpy(float)
        return cls(rows["eigenvalue"].to_numpy(float).copy(), weights / weights.sum(), **told)


@dataclass(frozen=True)
class Progress:
    """An iteration after one of its products."""

    product: int
    of: int
    seconds_left: float
    spectrum: Callable[[], Spectrum] = field(repr=False)  # of all products so far


class Iteration:
    """Lanczos from several random vectors at once, product by product; it can go on after it has stopped."""

    def __init__(self, operator, *, probes: int = 1, seed: int = 0, **about):
        probes = whole("probes", probes, 1, MOST_PROBES)
        self.operator, self.seed, self.about = operator, whole("seed", seed, 0, 2**31 - 1), about
        starts = (start_vector(operator.size, seed, probe, operator.dtype) for probe in range(probes))
        self.probes = [Lanczos(operator.matvec, start) for start in starts]

    @property
    def products(self) -> int:
        """How many there were, of all probes."""
        return sum(probe.steps for probe in self.probes)

    def run(self, steps: int) -> Iterator[Progress]:
        """Bring every probe to so many products, one item a product; close the generator to stop."""
        steps = whole("steps", steps, 1, MOST_STEPS)
        before, started = self.products, time.perf_counter()
        of = before + sum(max(0, steps - probe.steps) for probe in self.probes)
        while waiting := [p for p in self.probes if p.steps < steps and not p.exhausted]:
            probe = min(waiting, key=lambda p: p.steps)  # in turn: a run that is stopped has used all of them
            probe.step()
            done = self.products - before
            left = (time.perf_counter() - started) / done * (of - before - done)
            yield Progress(self.products, of, left, self.spectrum)

    def spectrum(self) -> Spectrum:
        """What the products so far say; a probe that has none yet does not count."""
        ritz = [probe.ritz() for probe in self.probes if probe.steps]
        if not ritz:
            raise ValueError("there is no product yet: run(steps) makes them")
        values, weights = (np.concatenate([getattr(r, name) for r in ritz]) for name in ("values", "weights"))
        order = np.argsort(values, kind="stable")
        top, low = max(ritz, key=lambda r: r.values[-1]), min(ritz, key=lambda r: r.values[0])
        return Spectrum(
            values[order], weights[order] / len(ritz), float(top.values[-1]), float(top.residuals[-1]),
            float(low.values[0]), float(low.residuals[0]), len(ritz), max(probe.steps for probe in self.probes),
            self.seed, self.operator.size, loss=self.operator.loss, **self.about,
        )  # fmt: skip


# The talk's question: a Transformer at initialisation ------------------------------------------------------------


def measurement(
    cfg: ModelConfig,
    corpus: Corpus,
    *,
    pairs: int = 1000,
    probes: int = 1,
    seed: int = 0,
    split: str = "val",
    kind: str = "hessian",
    only: str = "",
    memory: float = MEMORY,
    dtype: str = "float32",
) -> Iteration:
    """An iteration on the curvature of a translation loss at initialisation; see `hessian_spectrum`."""
    choice("kind", kind, KINDS)
    whole("probes", probes, 1, MOST_PROBES)
    wanted = chosen(instance("cfg", cfg, ModelConfig), only)
    operator = operator_at_start(
        cfg,
        corpus,
        pairs=pairs,
        seed=seed,
        split=split,
        gauss_newton=kind == "gauss_newton",
        by_hand=not only,
        memory=memory,
        dtype=dtype,
    )
    if only:
        operator = operator.part(wanted)
    if kind == "relative":
        operator = Scaled(operator, relative_scale(operator))
    if kind == "adam":
        operator = Scaled(operator, adam_scale(operator.gradient().square()))
    told = {"kind": kind, "corpus": corpus.name, "checksum": corpus.checksum, "split": split, "pairs": pairs}
    return Iteration(operator, probes=probes, seed=seed, **_about(cfg), **told)


def hessian_spectrum(
    cfg: ModelConfig, corpus: Corpus, *, pairs: int = 1000, steps: int = 80, progress: bool = True, **how
) -> Spectrum:
    """The spectrum of the loss's Hessian at initialisation, on the first `pairs` of a split, by Lanczos.

    Keywords: probes=1, seed=0 (of weights and probes), split="val", kind ("hessian"; "gauss_newton"; "relative", to
    changes relative to each tensor's size; "adam", as Adam's first step sees it), only ("decoder.6", "encoder", "W_2":
    one block of the matrix), memory (bytes), dtype. An interrupt ends it and keeps the products made so far.
    """
    whole("steps", steps, 1, MOST_STEPS)  # before the work
    flag("progress", progress)
    iteration = measurement(cfg, corpus, pairs=pairs, **how)
    items = iteration.run(steps)
    with progress_bar(
        total=steps * len(iteration.probes), desc=cfg.placement.label, unit="product", disable=not progress
    ) as bar:
        try:
            for item in items:
                bar.update()
                bar.total = item.of
        except KeyboardInterrupt:
            if not iteration.products:
                raise
            bar.set_postfix_str("stopped; the products made so far are kept")
    return iteration.spectrum()


def operator_at_start(
    cfg: ModelConfig,
    corpus: Corpus,
    *,
    pairs: int = 1000,
    seed: int = 0,
    split: str = "val",
    gauss_newton: bool = False,
    by_hand: bool = True,
    memory: float = MEMORY,
    dtype: str = "float32",
) -> Operator:
    """The Hessian of a translation loss at initialisation, on the first `pairs` of a split."""
    instance("cfg", cfg, ModelConfig)
    instance("corpus", corpus, Corpus, "; load_corpus('captions') gives one")
    if cfg.stack != "encoder-decoder":
        raise ValueError(f"the loss is that of translation, which needs stack='encoder-decoder', got {cfg.stack!r}")
    number("memory", memory, 0, 1e15)
    whole("seed", seed, 0, 2**31 - 1)
    kind = DTYPES[choice("dtype", dtype, tuple(DTYPES))]
    there = len(corpus.pairs(choice("split", split, SPLITS)))
    if whole("pairs", pairs, 1, 10**9) > there:
        raise ValueError(f"pairs must be 1..{there}, for {corpus.name}'s split {split!r} has no more; got {pairs}")
    learner = Learner(cfg, (len(corpus.source), len(corpus.target)), pad=PAD, seed=seed, dtype=kind)
    how = {"gauss_newton": gauss_newton, "by_hand": by_hand}
    words = piece_size(learner, by_length(corpus, split, pairs, 1)[-1], memory=memory, **how)
    return Operator(learner, by_length(corpus, split, pairs, words), memory=memory, **how)


def piece_size(learner: Learner, longest: Batch, *, gauss_newton: bool, by_hand: bool, memory: float) -> int:
    """How many words of text may go into one graph, judged by the graph of the longest sentence."""
    graph, weights = GaussNewtonGraph if gauss_newton else Graph, list(learner.weights.values())
    reader = with_second_derivatives(learner, by_hand and not gauss_newton)
    with torch.enable_grad():
        needed = graph_bytes(graph(reader, longest, 1.0, weights), weights)
    words = int((longest.source != longest.pad).sum()) + words_of(longest)
    return int(min(MOST_WORDS, max(1, memory / (2 + WORKING) / needed * words)))


def by_length(corpus: Corpus, split: str, pairs: int, words: int = MOST_WORDS) -> list[Batch]:
    """The first `pairs` of a split in batches of sentences of like length, which need little padding."""
    batch = corpus.batch(split, pairs)
    german, english = ((ids != PAD).sum(1) for ids in (batch.source, batch.labels))
    order = np.lexsort((english, german))
    bins = np.cumsum((german + english)[order]) // words
    return [corpus.batch(split, order[bins == b].tolist()) for b in np.unique(bins)]


def chosen(cfg: ModelConfig, only: str) -> Callable[[tuple], bool]:
    """The names of weights that "decoder", "decoder.6", "W_2", "decoder.6.W_2" or "embedding" stands for."""
    words = instance("only", only, str).split(".")
    side = words.pop(0) if words[0] in cfg.sides else None
    layer = int(words.pop(0)) if side and words and words[0].isdecimal() else None
    parameter = words.pop(0) if words else None
    known = (*PARAMETERS, "embedding")
    if words or (parameter and parameter not in known) or (layer is not None and not 1 <= layer <= cfg.depth):
        raise ValueError(
            f"only must be a side, a layer, a matrix or the two together, such as 'encoder', 'decoder.{cfg.depth}', "
            f"'W_2', 'decoder.{cfg.depth}.W_2' or 'embedding', got {only!r}"
        )

    def wanted(name: tuple) -> bool:
        if name[0] == "embedding":
            return parameter == "embedding" and side in (None, name[1])
        return side in (None, name[0]) and layer in (None, name[1]) and parameter in (None, name[-1])

    return wanted


def hessian_blocks(
    cfg: ModelConfig, corpus: Corpus, *, parameters: tuple[str, ...] = PARAMETERS,
    steps: int = 12, progress: bool = True, **how,
) -> pd.DataFrame:  # fmt: skip
    """Both ends of the spectrum of every layer's block of the Hessian, matrix by matrix; one row a block.

    Columns: placement, depth, width, side, layer, parameter, seed, size, lambda_max, lambda_min, rms. A layer's W_V of
    self- and cross-attention are one block. Keywords as in `hessian_spectrum`, without `only` and `probes`. An
    interrupt ends it and keeps the blocks that are done.
    """
    seed, kind = how.pop("seed", 0), how.pop("kind", "hessian")
    choice("kind", kind, ("hessian", "gauss_newton", "relative"))
    whole("steps", steps, 1, MOST_STEPS)
    flag("progress", progress)
    parameters = [choice("parameters", p, PARAMETERS) for p in several("parameters", parameters, "('W_1', 'W_2')")]
    if not parameters:
        raise ValueError(f"parameters must name at least one of {', '.join(PARAMETERS)}, got none")
    whole_one = operator_at_start(cfg, corpus, seed=seed, gauss_newton=kind == "gauss_newton", by_hand=False, **how)
    places = [(side, layer, p) for side in cfg.sides for layer in range(1, cfg.depth + 1) for p in parameters]
    rows = []
    with progress_bar(total=len(places), desc=cfg.placement.label, unit="block", disable=not progress) as bar:
        try:
            for side, layer, parameter in places:
                block = whole_one.part(chosen(cfg, f"{side}.{layer}.{parameter}"))
                scaled = Scaled(block, relative_scale(block)) if kind == "relative" else block
                found = _run(Iteration(scaled, seed=seed), steps)
                place = {"side": side, "layer": layer, "parameter": parameter, "seed": seed}
                ends = {"lambda_max": found.lambda_max, "lambda_min": found.lambda_min, "rms": found.rms}
                rows.append(_about(cfg) | place | {"size": found.size} | ends)
                bar.update()
        except KeyboardInterrupt:
            if not rows:
                raise
            bar.set_postfix_str("stopped; the blocks that are done are kept")
    return pd.DataFrame(rows)


def ends(
    learner: Learner, batches: Iterable[Batch], *, steps: int = 15, seed: int = 0, squares: Tensor | None = None
) -> Spectrum:
    """The spectrum at a learner's weights as they are now, in few products: enough for its two ends.

    With `squares`, Adam's running mean v of squared gradients, it is that of the Hessian as Adam sees it.
    """
    operator = Operator(learner, batches)
    scaled = operator if squares is None else Scaled(operator, adam_scale(squares))
    kind = "hessian" if squares is None else "adam"
    return _run(Iteration(scaled, seed=seed, kind=kind, **_about(learner.cfg)), steps)


def _run(iteration: Iteration, steps: int) -> Spectrum:
    for _ in iteration.run(steps):
        pass
    return iteration.spectrum()


def _about(cfg: ModelConfig) -> dict:
    return {"placement": cfg.placement.key, "depth": cfg.depth, "width": cfg.width}
