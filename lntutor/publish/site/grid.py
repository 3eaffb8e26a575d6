"""The gradients of a fixed grid of models, packed into a few hundred kilobytes for a page without Python.

For every placement, width and depth: the gradient norm of every matrix in every layer, as the mean, the least and the
greatest of three seeds, and the theory's prediction. A number is kept as its logarithm in two bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from lntutor import store
from lntutor.bars import progress_bar
from lntutor.config import Inputs, ModelConfig
from lntutor.explore.controls import one_thread
from lntutor.figures.parts import drawable, over_seeds
from lntutor.measure import gradient_norms
from lntutor.placements import PLACEMENTS
from lntutor.theory import predict

DEPTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
WIDTHS = (32, 64, 128, 256)
SEEDS = 3
CURVES = tuple(  # (side, block, parameter), in the order in which they are kept
    (side, block, parameter)
    for side, blocks in {"encoder": ("self", "ffn"), "decoder": ("self", "cross", "ffn")}.items()
    for block in blocks
    for parameter in (("W_1", "W_2") if block == "ffn" else ("W_Q", "W_K", "W_V", "W_O"))
)
STATISTICS = ("mean", "low", "high", "theory")
LOW, HIGH = -12, 12  # powers of ten beyond which nothing is kept: without LN, deep networks go to 1e153
LEVELS = 65535  # between them, 0.08 % apart; 0 stands for a number that is not drawn


def config(placement: str, width: int, depth: int) -> ModelConfig:
    """The model of a cell: the explorer's defaults, but for these three."""
    return ModelConfig(placement, depth=depth, width=width, ffn=4 * width)


def cells(placements: Sequence[str], widths: Sequence[int], depths: Sequence[int]) -> Iterator[tuple[str, int, int]]:
    """The cells in the order in which they are kept."""
    return ((placement, width, depth) for placement in placements for width in widths for depth in depths)


def curves_of(placement: str, width: int, depth: int) -> np.ndarray:
    """(curve, statistic, layer) → value of one cell, NaN where there is nothing to draw; remembered."""
    name = "grid-" + store.key("grid", placement, width, depth, SEEDS, also=("theory", "streams"))
    known = _read(store.load(name), depth)
    if known is None:
        known = _measure(config(placement, width, depth))
        store.save(name, json.dumps(known.tolist()))
    return known


def _read(entry: object, depth: int) -> np.ndarray | None:
    """An entry of the store, if it is such an array."""
    try:
        values = np.array(entry, float)
    except (TypeError, ValueError):
        return None
    return values if values.shape == (len(CURVES), len(STATISTICS), depth) else None


def _measure(cfg: ModelConfig) -> np.ndarray:
    values = np.full((len(CURVES), len(STATISTICS), cfg.depth), np.nan)
    with one_thread():
        measured, _ = drawable(gradient_norms(cfg, seeds=range(SEEDS), inputs=Inputs()), positive=True)
        theory, _ = drawable(predict(cfg, "gradient", seeds=range(SEEDS), inputs=Inputs()), positive=True)
    for table, first, last in ((measured, 0, 3), (theory, 3, 4)):
        for (side, block, parameter), rows in table.groupby(["side", "block", "parameter"]):
            means = over_seeds(rows["layer"].to_numpy(), rows["value"].to_numpy(float))
            curve = CURVES.index((side, block, parameter))
            values[curve, first:last, means.at - 1] = np.array([means.mean, means.low, means.high][: last - first]).T
    return values


def pack(values: np.ndarray) -> bytes:
    """Every number as the step that its logarithm is nearest to; 0 for NaN and for what is beyond all steps.

    The low bytes of all numbers stand before the high bytes: these are alike, and packed to next to nothing.
    """
    logs = np.log10(values)
    steps = 1 + np.rint((logs - LOW) / (HIGH - LOW) * (LEVELS - 1))
    kept = np.where((logs >= LOW) & (logs <= HIGH), steps, 0).astype("<u2")
    return kept.view("u1").reshape(-1, 2).T.tobytes()


def table(placement: str, width: int, depth: int) -> pd.DataFrame:
    """A cell as rows, for people and for tests."""
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
    """What the grid is, in words that the page reads, and its numbers; with a bar, for it takes minutes at first."""
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
