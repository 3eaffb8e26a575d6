"""The gradients of a fixed grid of models, packed into a few hundred kilobytes for a page without Python.

For each placement, width and depth: the gradient norm of every matrix in every layer, as mean, minimum and maximum of
three seeds, and the theory's prediction. A number is stored as its logarithm in two bytes.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import pandas as pd

from lntutor.experiments import cache as store
from lntutor.experiments.fingerprint import fingerprint
from lntutor.figures.tables import drawable, over_seeds
from lntutor.measure.gradients import gradient_norms
from lntutor.model.config import Inputs, ModelConfig
from lntutor.model.placements import PLACEMENTS
from lntutor.model.threads import one_thread
from lntutor.theory.mean_field import predict
from lntutor.training.progress import progress_bar

DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
WIDTHS = (32, 64, 128, 256)
SEEDS = 3
CURVES = tuple(  # (side, block, parameter), in the order in which they are stored
    (side, block, parameter)
    for side, blocks in {"encoder": ("self", "ffn"), "decoder": ("self", "cross", "ffn")}.items()
    for block in blocks
    for parameter in (("W_1", "W_2") if block == "ffn" else ("W_Q", "W_K", "W_V", "W_O"))
)
STATISTICS = ("mean", "low", "high", "theory")
LOW, HIGH = -12, 12  # powers of ten; values beyond are left out: without LN, deep networks reach 1e153
LEVELS = 65535  # steps between them, 0.08 % apart; 0 stands for a value that is not drawn


def config(placement: str, width: int, depth: int) -> ModelConfig:
    """The model of a cell: the explorer's defaults except for these three."""
    return ModelConfig(placement, depth=depth, width=width, ffn=4 * width)


def cells(placements: Sequence[str], widths: Sequence[int], depths: Sequence[int]) -> Iterator[tuple[str, int, int]]:
    """The cells in the order in which they are stored."""
    return ((placement, width, depth) for placement in placements for width in widths for depth in depths)


def curves_of(placement: str, width: int, depth: int) -> np.ndarray:
    """Values (curve, statistic, layer) of one cell, NaN where there is nothing to draw; cached."""
    name = "grid-" + store.key("grid", fingerprint(_measure), placement, width, depth, SEEDS)
    known = _read(store.load(name), depth)
    if known is None:
        known = _measure(config(placement, width, depth))
        store.save(name, json.dumps(known.tolist()))
    return known


def _read(entry: object, depth: int) -> np.ndarray | None:
    """A cache entry as an array; None unless it has the right shape."""
    try:
        values = np.array(entry, float)
    except (TypeError, ValueError):
        return None
    return values if values.shape == (len(CURVES), len(STATISTICS), depth) else None


def _measure(cfg: ModelConfig) -> np.ndarray:
    values = np.full((len(CURVES), len(STATISTICS), cfg.depth), np.nan)
    places: dict[Hashable, int] = {curve: place for place, curve in enumerate(CURVES)}
    with one_thread():
        measured, _ = drawable(gradient_norms(cfg, seeds=range(SEEDS), inputs=Inputs()), positive=True)
        theory, _ = drawable(predict(cfg, "gradient", seeds=range(SEEDS), inputs=Inputs()), positive=True)
    for table, first, last in ((measured, 0, 3), (theory, 3, 4)):
        for key, rows in table.groupby(["side", "block", "parameter"]):
            curve, means = places[key], over_seeds(rows["layer"].to_numpy(), rows["value"].to_numpy(float))
            values[curve, first:last, means.at - 1] = np.array([means.mean, means.low, means.high][: last - first]).T
    return values


def pack(values: np.ndarray) -> bytes:
    """Each value as the step nearest to its logarithm; 0 for NaN and for values out of range.

    All low bytes come before all high bytes: the high ones are alike and compress to almost nothing.
    """
    logs = np.log10(values)
    steps = 1 + np.rint((logs - LOW) / (HIGH - LOW) * (LEVELS - 1))
    kept = np.where((logs >= LOW) & (logs <= HIGH), steps, 0).astype("<u2")
    return kept.view("u1").reshape(-1, 2).T.tobytes()


def table(placement: str, width: int, depth: int) -> pd.DataFrame:
    """A cell as a table, one row per curve and layer."""
    values = curves_of(placement, width, depth)
    return pd.DataFrame(
        [
            (side, layer + 1, block, parameter, *values[curve, :, layer])
            for curve, (side, block, parameter) in enumerate(CURVES)
            for layer in range(depth)
        ],
        columns=["side", "layer", "block", "parameter", *STATISTICS],
    )


def packed(
    placements: Sequence[str] = tuple(PLACEMENTS), widths: Sequence[int] = WIDTHS, depths: Sequence[int] = DEPTHS
) -> tuple[dict, bytes]:
    """A description of the grid for the page, and its packed numbers; the first call takes minutes, under a bar."""
    every = list(cells(placements, widths, depths))
    shared = sorted(every, key=lambda cell: cell[1:])  # placements of one size share their weights
    values = {cell: curves_of(*cell).ravel() for cell in progress_bar(shared, desc="grid", unit="cell")}
    about = {
        "placements": list(placements),
        "widths": list(widths),
        "depths": list(depths),
        "curves": [list(curve) for curve in CURVES],
        "seeds": SEEDS,
        "low": LOW,
        "high": HIGH,
        "levels": LEVELS,
    }
    return about, pack(np.concatenate([values[cell] for cell in every]))
