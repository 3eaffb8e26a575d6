"""The weight bank: the same random weights for every placement, nested in depth and width.

Every matrix consists of tiles of 64 × 64 samples of N(0, 1), and every tile has a random stream of its own, named by
(seed, side, layer, block, parameter, tile). Changing the placement changes no sample; depth 6 is the first half of
depth 12; width 64 is a corner of width 128.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch

from lntutor.model.checks import megabytes
from lntutor.model.config import Batch, Inputs, ModelConfig
from lntutor.model.parameters import matrices, scale, weight_count
from lntutor.model.placements import blocks
from lntutor.model.random_streams import random_stream

TILE = 64
GIB = 2**30
MEMORY = "LNTUTOR_MEMORY"  # environment variable: MB that the bank may hold, if not 2048


def memory_limit(environ: Mapping[str, str] = os.environ) -> int:
    """Bytes that the bank may hold."""
    return megabytes(MEMORY, 2048, environ)


class WeightBank:
    """Samples and scaled matrices, kept up to a limit in bytes; the least recently used are dropped first."""

    def __init__(self, limit: int | None = None):
        self.limit = memory_limit() if limit is None else limit
        self.used = 0  # bytes held
        self._kept: OrderedDict[tuple, torch.Tensor] = OrderedDict()
        self._lock = threading.RLock()

    def clear(self) -> None:
        """Drop everything; the next call draws the same samples again."""
        with self._lock:
            self._kept.clear()
            self.used = 0

    def samples(self, seed: int, name: tuple, rows: int, columns: int) -> torch.Tensor:
        """(rows, columns) float32 samples of N(0, 1): a corner of the endless matrix of this seed and name."""
        with self._lock:
            key = ("samples", seed, *name)
            have = self._kept.get(key)
            if have is None or have.shape[0] < rows or have.shape[1] < columns:
                with torch.inference_mode(False):  # kept for every caller: autograd takes no inference tensors
                    have = self._grown(have, seed, name, rows, columns)
                self._keep(key, have)
            self._kept.move_to_end(key)
            return have[:rows, :columns]

    def ready(self, seeds: tuple[int, ...], name: tuple, shape: tuple[int, int], factor: float, dtype) -> torch.Tensor:
        """(len(seeds), rows, columns) samples × factor, contiguous; kept, so never write into it."""
        with self._lock:
            key = ("ready", seeds, name, shape, factor, dtype)
            if key not in self._kept:
                parts = [self.samples(seed, name, *shape) for seed in seeds]
                with torch.inference_mode(False):
                    self._keep(key, torch.stack(parts).to(dtype).mul_(factor))
            self._kept.move_to_end(key)
            return self._kept[key]

    @staticmethod
    def _grown(have: torch.Tensor | None, seed: int, name: tuple, rows: int, columns: int) -> torch.Tensor:
        old = (0, 0) if have is None else tuple(have.shape)
        new = [max(size, TILE * -(-need // TILE)) for size, need in zip(old, (rows, columns), strict=True)]
        grown = np.empty(new, np.float32)
        for i in range(0, new[0], TILE):
            for j in range(0, new[1], TILE):
                if i >= old[0] or j >= old[1]:
                    tile = random_stream(seed, *name, i // TILE, j // TILE)
                    grown[i : i + TILE, j : j + TILE] = tile.standard_normal((TILE, TILE), dtype=np.float32)
        grown = torch.from_numpy(grown)
        if have is not None:
            grown[: old[0], : old[1]] = have
        return grown

    def _keep(self, key: tuple, tensor: torch.Tensor) -> None:
        if key in self._kept:
            self.used -= self._kept.pop(key).nbytes
        while self._kept and self.used + tensor.nbytes > self.limit:
            self.used -= self._kept.popitem(last=False)[1].nbytes
        self._kept[key] = tensor
        self.used += tensor.nbytes


BANK = WeightBank()


def bytes_needed(cfg: ModelConfig, inputs: Inputs, item: int = 4) -> int:
    """Bytes for the weights of one network and for the signals that one pass keeps, at `item` bytes per number."""
    batch, n = inputs.batch, inputs.tokens
    if isinstance(inputs.kind, Batch):
        batch, n = inputs.kind.source.shape
        n = max(n, 0 if inputs.kind.target is None else inputs.kind.target.shape[1])
    subs = sum(len(blocks(cfg.stack, side)) for side in cfg.sides) * cfg.depth
    maps = 3 * cfg.heads * n * n if cfg.attention == "softmax" else 0
    signal = batch * subs * (n * (12 * cfg.width + 2 * cfg.ffn) + maps) + 3 * batch * n * inputs.vocab
    return item * (weight_count(cfg) + signal + inputs.vocab * cfg.width)


def check_weights(cfg: ModelConfig, item: int = 4) -> None:
    """A ValueError, before anything is drawn, if a model's weights alone exceed the bank's limit."""
    _check_limit(item * weight_count(cfg), f"The weights of {_size(cfg)} need")


def check_memory(cfg: ModelConfig, inputs: Inputs, item: int = 4) -> None:
    """A ValueError, before anything is drawn, if one pass of one network exceeds the bank's limit."""
    what = f"{_size(cfg)}, tokens={inputs.tokens}, batch={inputs.batch} needs"
    _check_limit(bytes_needed(cfg, inputs, item), what)


def _size(cfg: ModelConfig) -> str:
    return f"depth={cfg.depth}, width={cfg.width}, ffn={cfg.ffn}"


def _check_limit(need: int, what: str) -> None:
    if need > BANK.limit:
        limit = f"the limit is {BANK.limit / GIB:.1f} GiB; make one of them smaller"
        advice = "or raise lntutor.model.weight_bank.BANK.limit (in bytes)"
        raise ValueError(f"{what} {need / GIB:.1f} GiB, {limit}, {advice}")


@lru_cache(maxsize=256)
def recipe(cfg: ModelConfig) -> dict[tuple, tuple[tuple[int, int], float]]:
    """name → (shape, standard deviation) of every matrix."""
    return {m.name: (m.shape, scale(cfg, m)) for m in matrices(cfg)}


class Weights:
    """weights[side, layer, block, parameter]: (fan_in, fan_out), or (seeds, fan_in, fan_out) for several seeds."""

    def __init__(self, cfg: ModelConfig, seeds: tuple[int, ...], dtype: torch.dtype = torch.float32):
        self.seeds, self.dtype = seeds, dtype
        self._recipe = recipe(cfg)

    def __getitem__(self, name: tuple[str, int, str, str]) -> torch.Tensor:
        ready = BANK.ready(self.seeds, name, *self._recipe[name], self.dtype)
        return ready if len(self.seeds) > 1 else ready[0]

    def get(self, name: tuple, default=None):
        """A matrix, or the default: at initialisation there are no biases (0) and no gains (1)."""
        return self[name] if name in self._recipe else default
