"""Norms of weight gradients at initialisation, as tidy tables: one row per number.

They are computed without forming the weight gradients: ‖XᵀG‖² = Σ (XXᵀ)∘(GGᵀ), where X is the input of a matrix and G
the gradient at its output. Small networks of several seeds run together. The results equal those of autograd on the
same weights (tests/measure/test_gradients.py), to an error of `TOLERANCE` relative to ‖X‖‖G‖.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lntutor.measure.inputs import feed
from lntutor.measure.recorder import GRADIENT_COLUMNS, LEARNED_COLUMNS, TOLERANCE, Uses, runs, table, there_and_back
from lntutor.measure.tape import Tape
from lntutor.model.checks import as_tuple, check_choice, check_type, depth_list
from lntutor.model.config import Inputs, ModelConfig
from lntutor.model.parameters import blocks_with, matrices
from lntutor.model.placements import has_skip, reads_depth
from lntutor.model.transformer import Sequence, Transformer, small_weights
from lntutor.model.weight_bank import Weights

PARAMETERS = ("W_Q", "W_K", "W_V", "W_O", "W_1", "W_2")


def gradient_norms(
    cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32",
    parameters: Iterable[str] = PARAMETERS,
) -> pd.DataFrame:  # fmt: skip
    """‖∂L/∂W‖_F of every weight matrix, or of those with the given names, with L the mean over positions.

    Columns: placement, depth, width, side, layer, block, parameter, seed, value, below_floor. The last is True
    where the value is only round-off in this dtype, which should not be drawn. Where no path leads from a matrix to
    the loss, as in x + 0·f(x), the value is exactly 0 and below_floor is False.
    """
    check_type("cfg", cfg, ModelConfig)
    parameters = as_tuple("parameters", parameters, "('W_1', 'W_2')")
    wanted = {check_choice("parameter", parameter, PARAMETERS) for parameter in parameters}
    names = tuple(m.name for m in matrices(cfg) if m.parameter in wanted)
    return pd.concat(_gradient_tables(cfg, seeds, inputs, dtype, names), ignore_index=True)


def _gradient_tables(cfg, seeds, inputs, dtype, names: tuple[tuple, ...]) -> Iterator[pd.DataFrame]:
    """One table per group of seeds that runs together."""
    for group, kind in runs(cfg, seeds, inputs, dtype):
        watch = Uses(set(names).__contains__)
        there_and_back(cfg, group, inputs, kind, watch)
        yield norm_table(cfg, names, watch, group, dtype)


def norm_table(cfg: ModelConfig, names: tuple[tuple, ...], watch: Uses, seeds: tuple[int, ...], dtype: str):
    """The gradient norms of these matrices, from their inputs and output gradients that a backward pass recorded."""
    pairs = watch.pairs(names, seeds)
    reached = [i for i, name in enumerate(names) if name in pairs]
    values, below = np.zeros((len(names), len(seeds))), np.zeros((len(names), len(seeds)), bool)  # exact zeros
    if reached:
        found, floors = norms_and_floors(pairs, watch.maps, seeds, dtype)
        if not all(has_skip(cfg.placement, cfg.stack, side, cfg.depth) for side in cfg.sides):
            # the gradient comes through attention alone, which makes tokens equal: faint values are round-off
            floors.clamp_min_(torch.finfo(getattr(torch, dtype)).eps * found.max())
        values[reached], below[reached] = found, found < floors
    labels = _labels(cfg.placement.key, cfg.depth, cfg.width, names, seeds)
    return labels.assign(value=values.ravel(), below_floor=below.ravel())


@lru_cache(maxsize=64)
def _labels(key: str, depth: int, width: int, names: tuple, seeds: tuple[int, ...]) -> pd.DataFrame:
    """All but the last two columns of a table of gradient norms; cached, as they are slow to make."""
    rows = [(key, depth, width, *name, seed) for name in names for seed in seeds]
    return pd.DataFrame(rows, columns=list(GRADIENT_COLUMNS[:-2]))


def norms_and_floors(pairs: dict, maps: dict, seeds: tuple[int, ...], dtype: str) -> tuple[Tensor, Tensor]:
    """‖∂L/∂W‖_F, and the floor below which it is only round-off; (matrices, S) each."""
    names = list(pairs)
    values, sizes = frobenius_norms(list(pairs.values()))
    floors = TOLERANCE[dtype] * sizes
    for i in (values < 1e-3 * values.max()).any(-1).nonzero()[:, 0].tolist():  # only these can be round-off
        *block, parameter = name = names[i]
        if parameter in ("W_Q", "W_K"):
            q, k, v, _, heads = maps[tuple(block)]
            if heads.grad is None:  # another call of this sub-layer was reached
                continue
            inside = (t.reshape(len(seeds), -1, t.shape[-1]) for t in (q.value, k.value, v.value, heads.grad))
            size = uncancelled(parameter, pairs[name][0], *inside)
            floors[i] = floors[i].maximum(torch.finfo(pairs[name][0].dtype).eps / 2 * size)  # unit round-off
    return values, floors


def frobenius_norms(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """‖xᵀg‖_F and ‖x‖_F‖g‖_F in float64, (pairs, S) each, for pairs of x (S, N, d_in) and g (S, N, d_out).

    By Gram matrices where N is small, else by the products xᵀg. Gram matrices lose digits where ‖xᵀg‖ is far below
    ‖x‖‖g‖; there the product is formed as well.
    """
    groups: dict[int, list[int]] = {}
    for i, (x, g) in enumerate(pairs):
        n, d_in, d_out = *x.shape[-2:], g.shape[-1]
        groups.setdefault(n if n * (d_in + d_out) <= d_in * d_out else 0, []).append(i)
    values, sizes = torch.empty(2, len(pairs), len(pairs[0][0]), dtype=torch.float64)
    for n, at in groups.items():
        values[at], sizes[at] = (by_grams if n else by_products)([pairs[i] for i in at])
    trusted = 0.02 if pairs[0][0].dtype == torch.float32 else 1e-3
    for i in (values < trusted * sizes).any(-1).nonzero()[:, 0].tolist():
        x, g = pairs[i]
        values[i] = _norm((x.mT @ g).double())
    return values, sizes


def by_grams(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """‖xᵀg‖² = Σ (xxᵀ)∘(ggᵀ), for pairs with the same number of tokens; an x in several pairs is multiplied once."""
    xs = {id(x): x for x, _ in pairs}
    place = {key: i for i, key in enumerate(xs)}
    which = [place[id(x)] for x, _ in pairs]
    X, G = grams(list(xs.values()))[which], grams([g for _, g in pairs])  # (pairs, S, n, n)
    size_x, size_g = (a.diagonal(0, -2, -1).sum(-1).double() for a in (X, G))
    squares = G.mul_(X).sum(-1).double().sum(-1)
    return squares.clamp_min_(0).sqrt_(), (size_x * size_g).sqrt_()


def grams(xs: list[Tensor]) -> Tensor:
    """x xᵀ of each, (len(xs), S, n, n)."""
    S, n, _ = xs[0].shape
    made = xs[0].new_empty(len(xs), S, n, n)
    for x, place in zip(xs, made.unbind(), strict=True):
        torch.bmm(x, x.mT, out=place)
    return made


def by_products(pairs: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """‖xᵀg‖ by the product itself."""
    values = [torch.linalg.vector_norm(x.mT @ g, dim=(-2, -1), dtype=torch.float64) for x, g in pairs]
    return torch.stack(values), torch.stack([_norm(x) * _norm(g) for x, g in pairs]).double()


def _norm(a: Tensor) -> Tensor:
    """Frobenius norm of the last two axes."""
    return torch.linalg.vector_norm(a, dim=(-2, -1))


def uncancelled(parameter: str, x: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
    """(S,): the size of ‖∂L/∂W_Q‖ or ‖∂L/∂W_K‖ if nothing cancelled in the softmax's gradient.

    x is (S, tokens, d); q, k, v and g, the gradient at the heads' outputs, are (S, heads × tokens, d_head).
    """

    def rms(t):  # of the vectors of one token and head
        return _norm(t) / sqrt(t.shape[1])

    return (_norm(x) * _norm(g) * rms(v) * rms(k if parameter == "W_Q" else q)).double() / sqrt(q.shape[-1])


def learned_gradients(
    cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32"
) -> pd.DataFrame:
    """‖∂L/∂θ‖ of the weights that are not matrices: gains and biases of norms, and those of the rule (α, ω, γ).

    Columns: placement, depth, width, side, layer (0 for `start`, depth + 1 for `finish`), block ("norm", "self norm" …
    of a tap, "learned"), number (of the call in a layer, from 0), parameter ("gain", "bias" or letter), seed, value.
    """
    rows = []
    for group, kind in runs(cfg, seeds, inputs, dtype):
        for seed in group:
            fed, bank = feed(cfg, inputs, (seed,), kind), Weights(cfg, (seed,), kind)
            weights = {m.name: bank[m.name] for m in matrices(cfg)}
            small = {name: w.requires_grad_() for name, w in small_weights(cfg, weights, kind).items()}
            with torch.enable_grad():
                loss = fed.loss(Transformer(cfg, weights | small)(*fed.sequences))
                grads = torch.autograd.grad(loss, list(small.values()), materialize_grads=True) if small else ()
            rows += [(*name, seed, float(g.double().norm())) for name, g in zip(small, grads, strict=True)]
    return table(cfg, LEARNED_COLUMNS, rows)


def last_layer_gradients(
    cfg: ModelConfig, depths: Iterable[int], *, parameter: str = "W_2", seeds=range(3), inputs: Inputs = Inputs(),
    dtype: str = "float32",
) -> pd.DataFrame:  # fmt: skip
    """‖∂L/∂W‖_F of the last layer's matrix, for models of several depths (Xiong et al. 2020, Fig. 3c,d).

    Columns as `gradient_norms`. If the placement's rule does not depend on the depth, models of all depths share their
    layers: one forward pass serves all, and each needs only a backward pass through its last layer.
    """
    depths, side = depth_list(depths), check_type("cfg", cfg, ModelConfig).sides[-1]
    wanted = blocks_with(cfg, parameter)
    if not (cfg.placement.profile or reads_depth(cfg.placement, cfg.stack, depths[-1])):
        deepest = cfg.with_(depth=depths[-1])
        names = tuple((side, depth, block, parameter) for depth in depths for block in wanted)
        tables = [
            norm_table(deepest, names, every_depth(deepest, depths, names, group, inputs, kind), group, dtype)
            for group, kind in runs(deepest, seeds, inputs, dtype)
        ]
    else:
        tables = []
        for depth in depths:
            names = tuple((side, depth, block, parameter) for block in wanted)
            tables += _gradient_tables(cfg.with_(depth=depth), seeds, inputs, dtype, names)
    result = pd.concat(tables, ignore_index=True)
    return result.assign(depth=result["layer"]).sort_values(["depth", "block", "seed"], ignore_index=True)


@torch.inference_mode()
def every_depth(cfg, depths: list[int], names, seeds, inputs, dtype) -> Uses:
    """One forward pass for all depths up to cfg.depth: the matrices `names` of each last layer, with their gradients.

    The last layer of each depth runs on a tape that begins there. A decoder of each depth reads an encoder of its own
    depth; so the decoders that have more layers to come run together as one batch.
    """
    fed, weights, side = feed(cfg, inputs, seeds, dtype), Weights(cfg, seeds, dtype), cfg.sides[-1]
    watch = Uses(set(names).__contains__)
    plain, tape, outs = Transformer(cfg, weights), Tape(cfg, weights, watch), []
    sequence = fed.sequences[-1]
    memory = _memories(plain, fed.sequences[0], depths) if len(cfg.sides) == 2 else {}
    growing = list(depths) if memory else [cfg.depth]
    state = plain.start(side, _side_by_side([sequence] * len(growing)).x)
    with closing(tape):
        for layer in range(1, cfg.depth + 1):
            if layer in depths:
                own = _streams(lambda x: tape.node(x[..., : sequence.x.shape[-2], :], live=False), state)
                read = replace(memory[layer], x=tape.node(memory[layer].x, live=False)) if memory else None
                top = tape.layer(side, layer, own, sequence, read)
                outs.append(tape.finish(side, top))
                if not memory:
                    state = _streams(lambda node: node.value, top)
                    continue
                state = _streams(lambda x: x[..., sequence.x.shape[-2] :, :], state)
                growing.remove(layer)
            if growing:
                read = _side_by_side([memory[depth] for depth in growing]) if memory else None
                state = plain.layer(side, layer, state, _side_by_side([sequence] * len(growing)), read)
        slopes = fed.slope(torch.cat([out.value for out in outs], -2)).split(sequence.x.shape[-2], -2)
        tape.back(*zip(outs, slopes, strict=True))
    return watch


def _memories(model: Transformer, sequence: Sequence, depths: list[int]) -> dict[int, Sequence]:
    state, memory = model.start("encoder", sequence.x), {}
    for layer in range(1, depths[-1] + 1):
        state = model.layer("encoder", layer, state, sequence)
        memory[layer] = replace(sequence, x=model.finish("encoder", state))
    return {depth: memory[depth] for depth in depths}


def _side_by_side(sequences: list[Sequence]) -> Sequence:
    """Several sequences as one batch."""
    real = [s.real for s in sequences if s.real is not None]  # either all have padding, or none
    x = torch.cat([s.x for s in sequences], -2)
    return Sequence(x, sum(s.batch for s in sequences), torch.cat(real) if real else None)


def _streams(f: Callable[[Any], Any], state: Any) -> Any:
    """f of a state, or of each stream of a tuple."""
    return tuple(map(f, state)) if isinstance(state, tuple) else f(state)
