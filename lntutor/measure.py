"""Measurements at initialisation, as tidy tables: one row a number.

Norms of weight gradients are taken without the weight gradients: ‖XᵀG‖² = Σ (XXᵀ)∘(GGᵀ), where X enters a matrix
and G is the gradient at what leaves it. Seeds run together where networks are small. Everything here equals
plain autograd on the same weights (tests/test_measure.py), to an error of `TOLERANCE` relative to ‖X‖‖G‖.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from lntutor.config import Batch, Inputs, ModelConfig, choice, depth_list, instance, seed_list, several
from lntutor.matrices import blocks_with, matrices
from lntutor.model import Sequence, Transformer, Watch
from lntutor.placements import At, blocks, has_skip
from lntutor.reading import positions, random_stream
from lntutor.weights import BANK, Weights, check_memory

SITES = ("placement", "depth", "width", "side", "layer", "site", "seed", "value")
GRADIENTS = (*SITES[:5], "block", "parameter", "seed", "value", "below_floor")
ENTROPIES = (*SITES[:5], "block", "head", "seed", "value", "uniform")
PARAMETERS = ("W_Q", "W_K", "W_V", "W_O", "W_1", "W_2")
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
AGREEMENT, FAINT = 1e-3, 1e-5  # what is above FAINT × the largest of its table is the same to AGREEMENT elsewhere
RECENT: dict[tuple, dict[tuple, Tensor]] = {}  # attention weights of the last passes: the theory asks for them next
RECENT_LOCK = threading.Lock()
TOGETHER = 48 * 2**20  # bytes of weights up to which seeds run together


# What is fed ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Feed:
    """Inputs drawn for some seeds: a sequence for each side, and the loss of an output.

    Like the weights, signals have an axis of seeds in front only where there are several.
    """

    sequences: tuple[Sequence, ...]
    loss: Callable[[Tensor], Tensor]  # (K·B·n, d) → sum over seeds and K repeats of the mean over positions


def tied(cfg: ModelConfig, inputs: Inputs, side: str) -> tuple[int, float, float]:
    """(words, standard deviation of the embedding's entries, factor that brings embedded words to variance 1)."""
    gain = cfg.placement.gain(At(side, 0, cfg.depth, cfg.stack), "embedding")
    words = inputs.vocab
    if isinstance(inputs.kind, Batch):
        words = inputs.kind.vocab[side == "decoder" and len(cfg.sides) == 2]
    return words, gain * inputs.head / sqrt(cfg.width), sqrt(cfg.width) / inputs.head


def word_numbers(cfg: ModelConfig, inputs: Inputs, seeds: Iterable[int]) -> dict[str, np.ndarray]:
    """Side → (S, B, n) word numbers, and "labels"; random words are all different, and nested in tokens."""
    batch = inputs.kind
    if not isinstance(batch, Batch):
        count = inputs.batch * inputs.tokens

        def draw(what):
            words = [random_stream(seed, what).permutation(inputs.vocab)[:count] for seed in seeds]
            return np.stack(words).reshape(-1, inputs.tokens, inputs.batch).transpose(0, 2, 1)

        return {name: draw(name) for name in (*cfg.sides, "labels")}
    if (len(cfg.sides) == 2) != (batch.target is not None):
        need = "with" if len(cfg.sides) == 2 else "without"
        raise ValueError(f"stack={cfg.stack!r} needs a batch {need} target sentences")
    ids = dict(zip(cfg.sides, (batch.source, batch.target), strict=False)) | {"labels": batch.labels}
    return {name: np.broadcast_to(a, (len(tuple(seeds)), *a.shape)) for name, a in ids.items()}


def feed(cfg: ModelConfig, inputs: Inputs, seeds: tuple[int, ...], dtype: torch.dtype) -> Feed:
    """Draw what is fed: nested in tokens and width, the same for every placement."""
    ids = word_numbers(cfg, inputs, seeds)
    text = inputs.kind != "gaussian"
    sequences = tuple(_sequence(cfg, inputs, side, ids[side], seeds, dtype, text) for side in cfg.sides)
    last, batch, (rows, n) = cfg.sides[-1], inputs.kind, ids["labels"].shape[1:]
    real = torch.from_numpy(batch.labels != batch.pad) if isinstance(batch, Batch) else None
    weight = torch.ones(rows * n, dtype=dtype) if real is None else real.flatten().to(dtype)
    weight = weight / weight.sum()
    if inputs.loss == "probe":
        probes = [BANK.ready(seeds, ("probe", b), (n, cfg.width), 1.0, dtype) for b in range(rows)]
        probe = F.normalize(torch.cat(probes, -2), dim=-1) * weight[:, None]

        @torch.enable_grad()
        def loss(out):
            return (_by_seed(out, seeds).unflatten(-2, (-1, rows * n)) * probe[:, None]).sum()

    else:
        words, std, _ = tied(cfg, inputs, last)
        name, shape = (("embedding", last), (words, cfg.width)) if text else (("head",), (cfg.width, inputs.vocab))
        head = BANK.ready(seeds, name, shape, std if text else inputs.head / sqrt(cfg.width), dtype)
        labels = torch.from_numpy(np.array(ids["labels"])).flatten(1)  # (S, B·n)

        @torch.enable_grad()
        def loss(out):
            repeats = out.shape[-2] // (rows * n)
            logits = _by_seed(out, seeds) @ (head.mT if text else head)
            nll = F.cross_entropy(logits.flatten(0, 1), labels.repeat(1, repeats).flatten(), reduction="none")
            return (nll.unflatten(0, (-1, rows * n)) * weight).sum()

    return Feed(sequences, loss)


def _sequence(cfg, inputs, side, ids, seeds, dtype, text) -> Sequence:
    _, rows, n = ids.shape
    gain = cfg.placement.gain(At(side, 0, cfg.depth, cfg.stack), "embedding")
    if not text:
        parts = [BANK.ready(seeds, ("input", side, b), (n, cfg.width), gain, dtype) for b in range(rows)]
        return Sequence(_squeeze(torch.cat(parts, -2)), rows)
    words, std, factor = tied(cfg, inputs, side)
    table = BANK.ready(seeds, ("embedding", side), (words, cfg.width), std, dtype)
    index = torch.from_numpy(np.array(ids)).flatten(1)  # (S, B·n)
    x = torch.stack([rows_of[i] for rows_of, i in zip(table, index, strict=True)]) * factor
    x = x + torch.from_numpy(positions(n, cfg.width)).to(dtype).repeat(rows, 1)
    real = torch.from_numpy(ids[0] != inputs.kind.pad) if isinstance(inputs.kind, Batch) else None
    return Sequence(_squeeze(x), rows, real)


def _squeeze(x: Tensor) -> Tensor:
    """Without the axis of seeds if there is only one: plain products are faster than batches of one."""
    return x if len(x) > 1 else x[0]


def _by_seed(x: Tensor, seeds: tuple[int, ...]) -> Tensor:
    """With the axis of seeds, however many there are."""
    return x if len(seeds) > 1 else x[None]


# Forward passes ------------------------------------------------------------------------------------------------


class Recorder(Watch):
    """Keeps what a measurement asked for."""

    def __init__(self, keep: Callable[[tuple], bool] = lambda name: True):
        self.keep = keep
        self.products, self.signals, self.maps = {}, {}, {}

    def matmul(self, name, x, y):
        if self.keep(name):
            self.products[name] = (x, y)

    def site(self, side, layer, site, x):
        self.signals[side, layer, site] = x

    def attention(self, name, q, k, v, weights, heads):
        self.maps[name] = (q, k, v, weights, heads)


def runs(cfg: ModelConfig, seeds, inputs: Inputs, dtype: str) -> Iterator[tuple[tuple[int, ...], torch.dtype]]:
    """Check a call's arguments, then yield the groups of seeds that run together."""
    instance("cfg", cfg, ModelConfig)
    instance("inputs", inputs, Inputs)
    choice("dtype", dtype, tuple(TOLERANCE))
    seeds, item = seed_list(seeds), 4 if dtype == "float32" else 8
    check_memory(cfg, inputs, 1, item)
    size = item * sum(m.shape[0] * m.shape[1] for m in matrices(cfg))
    count = max(1, min(len(seeds), TOGETHER // size))
    for i in range(0, len(seeds), count):
        yield seeds[i : i + count], getattr(torch, dtype)


def forward(cfg, seeds, inputs, dtype, watch: Recorder, grad: bool) -> tuple[Tensor, Feed]:
    """Run the model once on what is fed; (output, feed)."""
    fed = feed(cfg, inputs, seeds, dtype)
    with torch.set_grad_enabled(grad):
        sequences = [replace(s, x=s.x.detach().clone().requires_grad_(grad)) for s in fed.sequences]
        out = Transformer(cfg, Weights(cfg, seeds, dtype), watch)(*sequences)
    if watch.maps and dtype == torch.float32 and not isinstance(inputs.kind, Batch):
        with RECENT_LOCK:
            RECENT[cfg, seeds, inputs] = {name: _by_seed(maps[3].detach(), seeds) for name, maps in watch.maps.items()}
            while len(RECENT) > 4:
                del RECENT[next(iter(RECENT))]
    return out, fed


def token_mean(values: Tensor, real: Tensor | None) -> np.ndarray:
    """(S, B·n) → (S,): the mean over tokens that are words, in float64."""
    values = values.double()
    if real is None:
        return values.mean(-1).numpy()
    return ((values * real.flatten()).sum(-1) / real.sum()).numpy()


def table(cfg: ModelConfig, columns: tuple[str, ...], rows: list[tuple]) -> pd.DataFrame:
    """Rows (without placement, depth, width) as a table with fixed columns."""
    head = {"placement": cfg.placement.key, "depth": cfg.depth, "width": cfg.width}
    body = dict(zip(columns[3:], zip(*rows, strict=True), strict=True)) if rows else {name: [] for name in columns[3:]}
    return pd.DataFrame(head | body, columns=list(columns), index=range(len(rows)))


def _sites(cfg, seeds, inputs, dtype, measure, grad=False) -> pd.DataFrame:
    rows = []
    for group, kind in runs(cfg, seeds, inputs, dtype):
        watch = Recorder()
        out, fed = forward(cfg, group, inputs, kind, watch, grad)
        signals = watch.signals
        if grad:
            grads = torch.autograd.grad(fed.loss(out), list(signals.values()), materialize_grads=True)
            signals = dict(zip(signals, grads, strict=True))
        sequences = dict(zip(cfg.sides, fed.sequences, strict=True))
        for (side, layer, site), x in signals.items():
            values = measure(_by_seed(x.detach(), group), sequences[side])
            rows += [(side, layer, site, seed, float(v)) for seed, v in zip(group, values, strict=True)]
    return table(cfg, SITES, rows)


# The public measurements ---------------------------------------------------------------------------------------


def signal_norms(
    cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32"
) -> pd.DataFrame:
    """‖x‖²/d at every site, mean over tokens.

    Columns: placement, depth, width, side, layer, site, seed, value. Sites: "in" (layer 0: what enters the first
    layer), "sum" (the last sum in the layer that a norm reads), "out" (after the layer), "final" (what leaves
    the side, after the placement's last norm if it has one).
    """
    return _sites(cfg, seeds, inputs, dtype, lambda x, s: token_mean(x.square().mean(-1), s.real))


def backward_norms(
    cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32"
) -> pd.DataFrame:
    """‖∂L/∂x‖² at every site, mean over tokens, with L the mean over positions. Columns as `signal_norms`."""
    return _sites(cfg, seeds, inputs, dtype, lambda g, s: token_mean(g.square().sum(-1), s.real), grad=True)


def token_similarity(
    cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32"
) -> pd.DataFrame:
    """Mean cosine between two different tokens of a sentence, at every site. Columns as `signal_norms`."""
    _needs_pairs(inputs)

    def cosine(x, sequence):
        u = F.normalize(x.double(), dim=-1).unflatten(-2, (sequence.batch, -1))  # (S, B, n, d)
        if sequence.real is not None:
            u = u * sequence.real[..., None]
        n = u.square().sum((-2, -1))  # (S, B): tokens that are words
        pairs = (u.sum(-2).square().sum(-1) - n).sum(-1)
        return (pairs / (n * (n - 1)).sum(-1)).numpy()

    return _sites(cfg, seeds, inputs, dtype, cosine)


def input_share(cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32") -> pd.DataFrame:
    """cos² between a token and what it was at the input of its side, at every site: how much of the input is left.

    Mean over tokens. Columns as `signal_norms`.
    """

    def share(x, sequence):
        return token_mean(F.cosine_similarity(x.double(), sequence.x.double(), dim=-1).square(), sequence.real)

    return _sites(cfg, seeds, inputs, dtype, share)


def _needs_pairs(inputs: Inputs) -> None:
    instance("inputs", inputs, Inputs)
    n = inputs.kind.source.shape[1] if isinstance(inputs.kind, Batch) else inputs.tokens
    if n < 2:
        raise ValueError(f"token similarity needs two tokens, got tokens={n}; give inputs=Inputs(tokens=2) or more")


def gradient_norms(
    cfg: ModelConfig,
    *,
    seeds=range(3),
    inputs: Inputs = Inputs(),
    dtype: str = "float32",
    parameters: Iterable[str] = PARAMETERS,
) -> pd.DataFrame:
    """‖∂L/∂W‖_F of every weight matrix, or of those with the given names, with L the mean over positions.

    Columns: placement, depth, width, side, layer, block, parameter, seed, value, below_floor. The last is True
    where the value is round-off, not gradient, in this dtype: do not draw it.
    """
    instance("cfg", cfg, ModelConfig)
    parameters = several("parameters", parameters, "('W_1', 'W_2')")
    wanted = {choice("parameter", parameter, PARAMETERS) for parameter in parameters}
    return table(cfg, GRADIENTS, list(_gradient_rows(cfg, seeds, inputs, dtype, lambda name: name[3] in wanted)))


def _gradient_rows(cfg, seeds, inputs, dtype, keep) -> Iterator[tuple]:
    for group, kind in runs(cfg, seeds, inputs, dtype):
        watch = Recorder(keep)
        out, fed = forward(cfg, group, inputs, kind, watch, grad=True)
        rows = norm_rows(watch, fed.loss(out), group, dtype)
        skips = all(has_skip(cfg.placement, cfg.stack, side, cfg.depth) for side in cfg.sides)
        yield from rows if skips else _without_skips(list(rows), kind)


def _without_skips(rows: list[tuple], dtype: torch.dtype) -> Iterator[tuple]:
    """Where only attention's weights lead down, to equal tokens, only round-off comes down: flag what is that faint."""
    least = torch.finfo(dtype).eps * max((row[-2] for row in rows), default=0.0)
    yield from ((*row[:-1], row[-1] or row[-2] < least) for row in rows)


def norm_rows(watch: Recorder, loss: Tensor, seeds: tuple[int, ...], dtype: str) -> Iterator[tuple]:
    """(side, layer, block, parameter, seed, value, below_floor) for every product that was kept."""
    names = list(watch.products)
    if not names:
        return
    scored = list(dict.fromkeys(name[:3] for name in names if name[3] in ("W_Q", "W_K")))
    wanted = [watch.products[name][1] for name in names] + [watch.maps[name][-1] for name in scored]
    grads = torch.autograd.grad(loss, wanted, materialize_grads=True)
    at_heads = dict(zip(scored, grads[len(names) :], strict=True))
    inputs = {id(x): _by_seed(x.detach(), seeds) for x, _ in watch.products.values()}  # Q, K and V read the same x
    pairs = [(inputs[id(watch.products[n][0])], _by_seed(g, seeds)) for n, g in zip(names, grads, strict=False)]
    values, sizes = frobenius_norms(pairs)  # (products, S)
    floors = TOLERANCE[dtype] * sizes
    for i in (values < 1e-3 * values.max()).any(-1).nonzero()[:, 0].tolist():  # only these can be round-off
        *block, parameter = names[i]
        if parameter in ("W_Q", "W_K"):
            inside = (*watch.maps[tuple(block)][:3], at_heads[tuple(block)])
            inside = (t.detach().reshape(len(seeds), -1, t.shape[-1]) for t in inside)
            size = uncancelled(parameter, pairs[i][0], *inside)
            floors[i] = floors[i].maximum(torch.finfo(pairs[i][0].dtype).eps / 2 * size)  # unit round-off
    below, values = (values < floors).tolist(), values.tolist()
    for i, name in enumerate(names):
        yield from ((*name, seed, values[i][j], below[i][j]) for j, seed in enumerate(seeds))


def frobenius_norms(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """‖xᵀg‖_F and ‖x‖_F‖g‖_F in float64, (pairs, S) each, for pairs of x (S, N, d_in) and g (S, N, d_out).

    By Gram matrices where N is small, else by the products xᵀg. Squares cancel where ‖xᵀg‖ is far below ‖x‖‖g‖;
    there the product itself is formed.
    """
    rows, sizes, known = [], [], {}
    for x, g in pairs:
        n, d_in, d_out = x.shape[-2], x.shape[-1], g.shape[-1]
        small = n * (d_in + d_out) <= d_in * d_out
        if id(x) not in known:
            known[id(x)] = _norm(x), x @ x.mT if small else None
        size, gram = known[id(x)]
        rows.append((g @ g.mT).mul_(gram).sum(-1) if small else (x.mT @ g).square_().sum(-1))
        sizes.append(size * _norm(g))
    values, sizes = _sums(rows).clamp_min_(0).sqrt_(), torch.stack(sizes).double()
    trusted = 0.02 if rows[0].dtype == torch.float32 else 1e-3
    for i in (values < trusted * sizes).any(-1).nonzero()[:, 0].tolist():
        x, g = pairs[i]
        values[i] = _norm((x.mT @ g).double())
    return values, sizes


def _norm(a: Tensor) -> Tensor:
    """Frobenius norm of the last two axes."""
    return torch.linalg.vector_norm(a, dim=(-2, -1))


def _sums(rows: list[Tensor]) -> Tensor:
    """(rows, S): the sum of each over its last axis, in float64, those of one length together."""
    sums = torch.empty(len(rows), len(rows[0]), dtype=torch.float64)
    for length in {row.shape[-1] for row in rows}:
        at = [i for i, row in enumerate(rows) if row.shape[-1] == length]
        sums[at] = torch.stack([rows[i] for i in at]).double().sum(-1)
    return sums


def uncancelled(parameter: str, x: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
    """(S,): how large ‖∂L/∂W_Q‖ or ‖∂L/∂W_K‖ would be if nothing cancelled in the softmax's gradient.

    x is (S, tokens, d); q, k, v and g, the gradient at the heads' outputs, are (S, heads × tokens, d_head).
    """

    def rms(t):  # of the vectors of one token and head
        return _norm(t) / sqrt(t.shape[1])

    return (_norm(x) * _norm(g) * rms(v) * rms(k if parameter == "W_Q" else q)).double() / sqrt(q.shape[-1])


def last_layer_gradients(
    cfg: ModelConfig,
    depths: Iterable[int],
    *,
    parameter: str = "W_2",
    seeds=range(3),
    inputs: Inputs = Inputs(),
    dtype: str = "float32",
) -> pd.DataFrame:
    """‖∂L/∂W‖_F of the last layer's matrix, for models of several depths (Xiong et al. 2020, Fig. 3c,d).

    Columns as `gradient_norms`. Where the placement's rule does not depend on the total depth, one forward pass
    serves every depth: layers are shared, and each depth needs only a backward pass through its own last layer.
    """
    depths, side = depth_list(depths), instance("cfg", cfg, ModelConfig).sides[-1]
    wanted = blocks_with(cfg, parameter)
    rows = []
    if cfg.placement.depth_free and not cfg.placement.profile:
        deepest = cfg.with_(depth=depths[-1])
        for group, kind in runs(deepest, seeds, inputs, dtype):
            watch, loss = every_depth(deepest, depths, group, inputs, kind, parameter)
            rows += norm_rows(watch, loss, group, dtype)
    else:
        for depth in depths:
            names = {(side, depth, block, parameter) for block in wanted}
            rows += _gradient_rows(cfg.with_(depth=depth), seeds, inputs, dtype, names.__contains__)
    result = table(cfg, GRADIENTS, rows)
    result["depth"] = result["layer"]
    return result.sort_values(["depth", "block", "seed"], ignore_index=True)


def every_depth(cfg, depths: list[int], seeds, inputs, dtype, parameter: str) -> tuple[Recorder, Tensor]:
    """One forward pass for all depths up to cfg.depth; the kept products of each last layer, and the summed loss.

    A layer that is the last of a model of its depth runs with gradients, cut off from the layers below. A decoder
    reads the memory of its own depth, so there the depths that are still growing run side by side as one batch.
    """
    fed, weights, side = feed(cfg, inputs, seeds, dtype), Weights(cfg, seeds, dtype), cfg.sides[-1]
    watch = Recorder(lambda name: name[0] == side and name[3] == parameter)
    loud, quiet, outs = Transformer(cfg, weights, watch), Transformer(cfg, weights), []
    sequence = fed.sequences[-1]
    with torch.no_grad():
        memory = _memories(quiet, fed.sequences[0], depths) if len(cfg.sides) == 2 else {}
        growing = list(depths) if memory else [cfg.depth]
        state = quiet.start(side, _side_by_side([sequence] * len(growing)).x)
        for layer in range(1, cfg.depth + 1):
            if layer in depths:
                own = _streams(lambda x: x[..., : sequence.x.shape[-2], :].detach().clone().requires_grad_(), state)
                with torch.enable_grad():
                    top = loud.layer(side, layer, own, sequence, memory.get(layer))
                    outs.append(loud.finish(side, top))
                if not memory:
                    state = _streams(Tensor.detach, top)
                    continue
                state = _streams(lambda x: x[..., sequence.x.shape[-2] :, :], state)
                growing.remove(layer)
            if growing:
                read = _side_by_side([memory[depth] for depth in growing]) if memory else None
                state = quiet.layer(side, layer, state, _side_by_side([sequence] * len(growing)), read)
    with torch.enable_grad():
        return watch, fed.loss(torch.cat(outs, -2))


def _memories(model: Transformer, sequence: Sequence, depths: list[int]) -> dict[int, Sequence]:
    state, memory = model.start("encoder", sequence.x), {}
    for layer in range(1, depths[-1] + 1):
        state = model.layer("encoder", layer, state, sequence)
        memory[layer] = replace(sequence, x=model.finish("encoder", state).detach().requires_grad_())
    return {depth: memory[depth] for depth in depths}


def _side_by_side(sequences: list[Sequence]) -> Sequence:
    """Several sequences as one batch."""
    real = None if sequences[0].real is None else torch.cat([s.real for s in sequences])
    return Sequence(torch.cat([s.x for s in sequences], -2), sum(s.batch for s in sequences), real)


def _streams(f: Callable[[Tensor], Tensor], state):
    return tuple(map(f, state)) if isinstance(state, tuple) else f(state)


def attention_weights(cfg: ModelConfig, *, seeds=(0,), inputs: Inputs = Inputs()) -> dict[tuple, np.ndarray]:
    """(side, layer, block) → softmax attention weights (S, B, H, n, m), measured in one forward pass."""
    parts = []
    for group, kind in runs(cfg, seeds, inputs, "float32"):
        maps = None if isinstance(inputs.kind, Batch) else RECENT.get((cfg, group, inputs))
        if maps is None:
            watch = Recorder()
            forward(cfg, group, inputs, kind, watch, grad=False)
            maps = {name: _by_seed(inside[3], group) for name, inside in watch.maps.items()}
        parts.append({name: _rows_of_one(weights) for name, weights in maps.items()})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _rows_of_one(weights: Tensor) -> np.ndarray:
    """In float64, with rows that sum to one there as well: the theory subtracts what should cancel."""
    weights = weights.double()
    return (weights / weights.sum(-1, keepdim=True)).numpy()


def attention_entropy(
    cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32"
) -> pd.DataFrame:
    """Entropy −Σ p ln p of attention in nats, mean over queries, for each head; `uniform` is the most it can be.

    Columns: placement, depth, width, side, layer, block, head, seed, value, uniform.
    """
    rows = []
    for group, kind in runs(cfg, seeds, inputs, dtype):
        watch = Recorder()
        _, fed = forward(cfg, group, inputs, kind, watch, grad=False)
        sequences = dict(zip(cfg.sides, fed.sequences, strict=True))
        for side in cfg.sides:
            for block in blocks(cfg.stack, side)[:-1]:
                query, keys = sequences[side], sequences[side if block == "self" else "encoder"]
                n = query.x.shape[-2] // query.batch
                visible = keys.visible_from(n, causal=block == "self" and side == "decoder")
                seen = torch.full((1, 1, n), keys.x.shape[-2] // keys.batch) if visible is None else visible.sum(-1)
                uniform = _query_mean(seen.double().log().expand(query.batch, 1, n)[None], query.real)[0, 0]
                for layer in range(1, cfg.depth + 1):
                    values = np.full((len(group), cfg.heads), uniform)
                    if cfg.attention == "softmax":
                        p = _by_seed(watch.maps[side, layer, block][3], group).double()
                        values = _query_mean(-torch.xlogy(p, p).sum(-1), query.real)
                    for (i, h), value in np.ndenumerate(values):
                        rows.append((side, layer, block, h + 1, group[i], float(value), float(uniform)))
    return table(cfg, ENTROPIES, rows)


def _query_mean(values: Tensor, real: Tensor | None) -> np.ndarray:
    """(S, B, H, n) → (S, H): the mean over queries that are words."""
    share = torch.ones_like(values[0, :, :1]) if real is None else real[:, None].double()
    return ((values * share).sum((-3, -1)) / share.sum()).numpy()
