"""How far a norm strays from its mean: the (ε, δ) of Definition 1, measured (Xiong et al. 2020, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from lntutor.config import Inputs, ModelConfig, number
from lntutor.placements import as_it_is, final_norm
from lntutor.theory import theorem_probability

SITES = {as_it_is: "sum", final_norm: "out"}  # what the last norm reads: a layer's last sum, or all that leaves it


def last_norm_inputs(
    cfg: ModelConfig, *, seeds=range(3), inputs: Inputs = Inputs(), dtype: str = "float32"
) -> pd.DataFrame:
    """‖z‖²/d at every position, where z is what the last norm before the loss reads: x⁵ in Post-LN, x_{L+1} in Pre-LN.

    Columns: placement, depth, width, seed, position, value. Positions that are padding are left out.
    """
    from lntutor.measure import Recorder, forward, runs  # here, so that figures need no torch

    parts = []
    for group, kind in runs(cfg, seeds, inputs, dtype):
        watch = Recorder(lambda name: False)
        _, fed = forward(cfg, group, inputs, kind, watch, grad=False)
        z = watch.signals.get((cfg.sides[-1], cfg.depth, SITES.get(cfg.placement.finish)))
        if z is None:
            raise ValueError(
                f"{cfg.placement.label} has no single norm that reads its stream last; try 'post' or 'pre'"
            )
        squares = z.double().square().mean(-1).reshape(len(group), -1).numpy()  # (seeds, positions)
        real = fed.sequences[-1].real
        kept = np.arange(squares.shape[1]) if real is None else np.flatnonzero(real.numpy())
        parts += [
            pd.DataFrame({"seed": s, "position": kept, "value": row[kept]})
            for s, row in zip(group, squares, strict=True)
        ]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(placement=cfg.placement.key, depth=cfg.depth, width=cfg.width)[
        ["placement", "depth", "width", "seed", "position", "value"]
    ]


def least_delta(values: Iterable[float], epsilon: float) -> float:
    """The least δ with which values Z are (ε, δ)-bounded: the share of (Z − EZ)/EZ > ε (Definition 1)."""
    values = np.asarray(list(values), float)
    if not values.size or not values.mean() > 0:
        raise ValueError("values must be one or more numbers with a mean above 0")
    return float((values / values.mean() - 1 > number("epsilon", epsilon, 0, 1e6)).mean())


def probability_by_epsilon(table: pd.DataFrame, epsilons: Iterable[float]) -> pd.DataFrame:
    """What Theorem 1 promises for each ε with the least δ there. Columns: placement, epsilon, delta, value."""
    rows = []
    for key, part in table.groupby("placement", sort=False):
        for epsilon in epsilons:
            delta = least_delta(part["value"], epsilon)
            rows.append((key, float(epsilon), delta, theorem_probability(epsilon, delta)))
    return pd.DataFrame(rows, columns=["placement", "epsilon", "delta", "value"])


def at_every_position(probability: float, positions: int) -> float:
    """1 − n(1 − p), or 0: what is left for n positions together (the union bound, which Theorem 1 leaves out)."""
    return max(0.0, 1 - positions * (1 - probability))
