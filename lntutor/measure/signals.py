"""Signals in a network at initialisation: their size, gradients, similarity of tokens, and attention."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from lntutor.measure import recorder
from lntutor.measure.inputs import by_seed
from lntutor.measure.recorder import ENTROPY_COLUMNS, SITE_COLUMNS, Recorder, forward, runs, table, there_and_back
from lntutor.model.checks import check_type
from lntutor.model.config import Batch, Inputs, ModelConfig
from lntutor.model.placements import as_it_is, blocks, final_norm

LAST_READ = {as_it_is: "sum", final_norm: "out"}  # `finish` → the site that the last norm of the side reads


def _sites(cfg, seeds, inputs, dtype, measure, grad=False) -> pd.DataFrame:
    rows = []
    for group, kind in runs(cfg, seeds, inputs, dtype):
        watch = Recorder()
        if grad:
            fed = there_and_back(cfg, group, inputs, kind, watch, live=True)
            signals = {where: x.gradient for where, x in watch.signals.items()}
        else:
            fed, signals = forward(cfg, group, inputs, kind, watch)[1], watch.signals
        sequences = dict(zip(cfg.sides, fed.sequences, strict=True))
        for (side, layer, site), x in signals.items():
            values = measure(by_seed(x, group), sequences[side])
            rows += [(side, layer, site, seed, float(v)) for seed, v in zip(group, values, strict=True)]
    return table(cfg, SITE_COLUMNS, rows)


def signal_norms(
    cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32"
) -> pd.DataFrame:
    """‖x‖²/d at every site, mean over tokens.

    Columns: placement, depth, width, side, layer, site, seed, value. Sites: "in" (layer 0: what enters the first
    layer), "sum" (the last sum in the layer that a norm reads), "out" (after the layer), "final" (what leaves
    the side, after the placement's last norm if it has one).
    """
    return _sites(cfg, seeds, inputs, dtype, lambda x, s: recorder.token_mean(x.square().mean(-1), s.real))


def backward_norms(
    cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32"
) -> pd.DataFrame:
    """‖∂L/∂x‖² at every site, mean over tokens, with L the mean over positions. Columns as `signal_norms`."""
    return _sites(cfg, seeds, inputs, dtype, lambda g, s: recorder.token_mean(g.square().sum(-1), s.real), grad=True)


def seesaw(cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32") -> pd.DataFrame:
    """q = ‖x‖²/d, g = ‖∂L/∂x‖² of the loss summed over positions, and qg, of the stream before and after every layer.

    Columns: those of `signal_norms`, and `kind`: "q", "g" or "qg".
    """
    same = {"seeds": seeds, "inputs": inputs, "dtype": dtype}
    return weigh(signal_norms(cfg, **same), backward_norms(cfg, **same), inputs)


def weigh(q: pd.DataFrame, g: pd.DataFrame, inputs: Inputs) -> pd.DataFrame:
    """The table of `seesaw` from two tables with the same rows, measured or predicted."""
    stream = q["site"].isin(["in", "out"]).to_numpy()
    q, sums = q[stream], g["value"].to_numpy()[stream] * (inputs.tokens * inputs.batch) ** 2
    parts = {"q": q["value"], "g": sums, "qg": q["value"] * sums}
    return pd.concat([q.assign(value=value, kind=kind) for kind, value in parts.items()], ignore_index=True)


def token_similarity(
    cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32"
) -> pd.DataFrame:
    """Mean cosine between two different tokens of a sentence, at every site. Columns as `signal_norms`."""
    check_type("inputs", inputs, Inputs)
    tokens = inputs.kind.source.shape[1] if isinstance(inputs.kind, Batch) else inputs.tokens
    if tokens < 2:
        raise ValueError(f"token similarity needs two tokens, got {tokens=}; give inputs=Inputs(tokens=2) or more")

    def cosine(x, sequence):
        u = F.normalize(x.double(), dim=-1).unflatten(-2, (sequence.batch, -1))  # (S, B, n, d)
        if sequence.real is not None:
            u = u * sequence.real[..., None]
        n = u.square().sum((-2, -1))  # (S, B): tokens without padding
        pairs = (u.sum(-2).square().sum(-1) - n).sum(-1)
        return (pairs / (n * (n - 1)).sum(-1)).numpy()

    return _sites(cfg, seeds, inputs, dtype, cosine)


def input_share(cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32") -> pd.DataFrame:
    """cos² between a token's signal and its input, mean over tokens, at every site. Columns as `signal_norms`."""

    def share(x, sequence):
        return recorder.token_mean(F.cosine_similarity(x.double(), sequence.x.double(), dim=-1).square(), sequence.real)

    return _sites(cfg, seeds, inputs, dtype, share)


def attention_weights(cfg: ModelConfig, *, seeds=(0,), inputs: Inputs = Inputs()) -> dict[tuple, np.ndarray]:
    """(side, layer, block) → softmax attention weights (S, B, H, n, m), measured in one forward pass."""
    parts = []
    for group, kind in runs(cfg, seeds, inputs, "float32"):
        maps = None if isinstance(inputs.kind, Batch) else recorder.RECENT.get((cfg, group, inputs))
        if maps is None:
            watch = Recorder()
            forward(cfg, group, inputs, kind, watch)
            maps = {name: by_seed(inside[3], group) for name, inside in watch.maps.items()}
        # in float64, with rows that sum to one there: the theory subtracts numbers that should cancel
        doubles = ((name, weights.double()) for name, weights in maps.items())
        parts.append({name: (p / p.sum(-1, keepdim=True)).numpy() for name, p in doubles})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def attention_entropy(
    cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32"
) -> pd.DataFrame:
    """Entropy −Σ p ln p of attention in nats, mean over queries, for each head; `uniform` is the maximum.

    Columns: placement, depth, width, side, layer, block, head, seed, value, uniform.
    """
    rows = []
    for group, kind in runs(cfg, seeds, inputs, dtype):
        watch = Recorder()
        _, fed = forward(cfg, group, inputs, kind, watch)
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
                        p = by_seed(watch.maps[side, layer, block][3], group).double()
                        values = _query_mean(-torch.xlogy(p, p).sum(-1), query.real)
                    for (i, h), value in np.ndenumerate(values):
                        rows.append((side, layer, block, h + 1, group[i], float(value), float(uniform)))
    return table(cfg, ENTROPY_COLUMNS, rows)


def _query_mean(values: Tensor, real: Tensor | None) -> np.ndarray:
    """(S, B, H, n) → (S, H): the mean over queries without padding."""
    share = torch.ones_like(values[0, :, :1]) if real is None else real[:, None].double()
    return ((values * share).sum((-3, -1)) / share.sum()).numpy()


def last_norm_inputs(
    cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32"
) -> pd.DataFrame:
    """‖z‖²/d at every position, where z is the input of the last norm of all: x⁵ in Post-LN, x_{L+1} in Pre-LN.

    Columns: placement, depth, width, seed, position, value. Padding is left out.
    """
    parts = []
    for group, kind in runs(cfg, seeds, inputs, dtype):
        watch = Recorder(lambda name: False)
        _, fed = forward(cfg, group, inputs, kind, watch)
        z = watch.signals.get((cfg.sides[-1], cfg.depth, LAST_READ.get(cfg.placement.finish)))
        if z is None:
            label = cfg.placement.label
            raise ValueError(f"{label} has no single norm that reads its stream last; try 'post' or 'pre'")
        squares = z.double().square().mean(-1).reshape(len(group), -1).numpy()  # (seeds, positions)
        real = fed.sequences[-1].real
        kept = np.arange(squares.shape[1]) if real is None else np.flatnonzero(real.numpy())
        head = {"placement": cfg.placement.key, "depth": cfg.depth, "width": cfg.width}
        for seed, row in zip(group, squares, strict=True):
            parts.append(pd.DataFrame(head | {"seed": seed, "position": kept, "value": row[kept]}))
    return pd.concat(parts, ignore_index=True)
