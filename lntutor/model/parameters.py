"""The weight matrices of a model, their shapes and scales at initialisation; and the sinusoidal positions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from lntutor.model.checks import check_choice
from lntutor.model.config import ModelConfig
from lntutor.model.placements import At, blocks


@dataclass(frozen=True, order=True)
class Matrix:
    """One weight matrix of a model, by name and shape."""

    side: str
    layer: int
    block: str  # "self", "cross", "ffn"
    parameter: str  # "W_Q", "W_K", "W_V", "W_O", "W_1", "W_2"
    shape: tuple[int, int]  # (fan_in, fan_out)

    @property
    def name(self) -> tuple[str, int, str, str]:
        return self.side, self.layer, self.block, self.parameter


def parameters(cfg: ModelConfig, block: str) -> dict[str, tuple[int, int]]:
    """The matrices of one sub-layer and their shapes; uniform attention has no W_Q and W_K."""
    d, f = cfg.width, cfg.ffn
    if block == "ffn":
        return {"W_1": (d, f), "W_2": (f, d)}
    names = ("W_Q", "W_K") * (cfg.attention == "softmax") + ("W_V",) + ("W_O",) * cfg.output_projection
    return dict.fromkeys(names, (d, d))


@lru_cache(maxsize=256)
def matrices(cfg: ModelConfig) -> tuple[Matrix, ...]:
    """Every weight matrix of a model, from the input to the output."""
    return tuple(
        Matrix(side, layer, block, parameter, shape)
        for side in cfg.sides
        for layer in range(1, cfg.depth + 1)
        for block in blocks(cfg.stack, side)
        for parameter, shape in parameters(cfg, block).items()
    )


def weight_count(cfg: ModelConfig) -> int:
    """How many numbers all weight matrices have together."""
    return sum(m.shape[0] * m.shape[1] for m in matrices(cfg))


def blocks_with(cfg: ModelConfig, parameter: str) -> list[str]:
    """The sub-layers of the last side that have this matrix, or a ValueError that lists the possible ones."""
    found = {block: parameters(cfg, block) for block in blocks(cfg.stack, cfg.sides[-1])}
    check_choice("parameter", parameter, tuple(dict.fromkeys(name for names in found.values() for name in names)))
    return [block for block, names in found.items() if parameter in names]


def std(init: str, parameter: str, shape: tuple[int, int]) -> float:
    """Standard deviation of a matrix's entries at initialisation, before the placement's gain.

    "theory" 1/√fan_in; "xavier" √(2/(fan_in + fan_out)); "torch" the same, with Q, K, V as one d × 3d matrix.
    """
    fan_in, fan_out = shape
    if init == "theory":
        return 1 / sqrt(fan_in)
    packed = 3 if init == "torch" and parameter in ("W_Q", "W_K", "W_V") else 1
    return sqrt(2 / (fan_in + packed * fan_out))


def scale(cfg: ModelConfig, matrix: Matrix) -> float:
    """Standard deviation of a matrix's entries, the placement's gain included."""
    at = At(matrix.side, matrix.layer, cfg.depth, cfg.stack)
    return std(cfg.init, matrix.parameter, matrix.shape) * cfg.placement.gain(at, matrix.parameter)


def embedding_gain(cfg: ModelConfig, side: str) -> float:
    """The placement's factor on the embedding, or on Gaussian inputs."""
    return cfg.placement.gain(At(side, 0, cfg.depth, cfg.stack), "embedding")


def positions(n: int, width: int) -> np.ndarray:
    """(n, width) sinusoidal positions (Vaswani et al. 2017, section 3.5)."""
    rate = 10_000.0 ** (-np.arange(0, width, 2) / width)
    angle = np.arange(n)[:, None] * rate
    return np.stack((np.sin(angle), np.cos(angle)), -1).reshape(n, -1)[:, :width]
