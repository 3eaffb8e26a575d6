"""Run a network once, forward or forward and back; record what passes; and make tables of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lntutor.measure.inputs import Feed, by_seed, feed
from lntutor.measure.tape import Node, Tape
from lntutor.model.checks import check_choice, check_type, seed_list
from lntutor.model.config import Batch, Inputs, ModelConfig
from lntutor.model.parameters import weight_count
from lntutor.model.transformer import Transformer, Watch
from lntutor.model.weight_bank import Weights, check_memory

SITE_COLUMNS = ("placement", "depth", "width", "side", "layer", "site", "seed", "value")
GRADIENT_COLUMNS = (*SITE_COLUMNS[:5], "block", "parameter", "seed", "value", "below_floor")
LEARNED_COLUMNS = (*SITE_COLUMNS[:5], "block", "number", "parameter", "seed", "value")
ENTROPY_COLUMNS = (*SITE_COLUMNS[:5], "block", "head", "seed", "value", "uniform")
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
AGREEMENT, FAINT = 1e-3, 1e-5  # values above FAINT × the table's maximum agree across machines to AGREEMENT
RECENT: dict[tuple, dict[tuple, Tensor]] = {}  # attention weights of the last four passes
RECENT_LOCK = threading.Lock()
TOGETHER = 48 * 2**20  # bytes of weights up to which seeds run together


class Recorder(Watch):
    """Keeps the signals, attentions and products of a pass; products only of the matrices that `keep` selects."""

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


class Uses(Recorder):
    """Keeps every product of a matrix on a tape, as a rule may call a sub-layer more than once."""

    def matmul(self, name, x, y):
        if self.keep(name):
            self.products.setdefault(name, []).append((x, y))

    def pairs(self, names: tuple[tuple, ...], seeds: tuple[int, ...]) -> dict[tuple, tuple[Tensor, Tensor]]:
        """Name → X and G, (S, N, ·) each, with ∂L/∂W = XᵀG; matrices without a gradient are left out."""
        found, shared = {}, {}  # Q, K and V read the same X
        for name in names:
            uses = [(x.value, y.grad) for x, y in self.products.get(name, ()) if y.grad is not None]
            if uses:
                x, g = uses[0] if len(uses) == 1 else (torch.cat(parts, -2) for parts in zip(*uses, strict=True))
                found[name] = shared.setdefault(id(x), by_seed(x, seeds)), by_seed(g, seeds)
        return found


def runs(cfg: ModelConfig, seeds, inputs: Inputs, dtype: str) -> Iterator[tuple[tuple[int, ...], torch.dtype]]:
    """Check a measurement's arguments, then yield the groups of seeds that run together, and the dtype."""
    check_type("cfg", cfg, ModelConfig)
    check_type("inputs", inputs, Inputs)
    check_choice("dtype", dtype, tuple(TOLERANCE))
    seeds, item = seed_list(seeds), 4 if dtype == "float32" else 8
    check_memory(cfg, inputs, item)
    count = max(1, min(len(seeds), TOGETHER // (item * weight_count(cfg))))
    for i in range(0, len(seeds), count):
        yield seeds[i : i + count], getattr(torch, dtype)


@torch.inference_mode()
def forward(cfg, seeds, inputs, dtype, watch: Recorder) -> tuple[Tensor, Feed]:
    """Run the model forward once: its output, and its inputs."""
    fed = feed(cfg, inputs, seeds, dtype)
    out = Transformer(cfg, Weights(cfg, seeds, dtype), watch)(*fed.sequences)
    _remember(watch, cfg, seeds, inputs, dtype)
    return out, fed


@torch.inference_mode()
def there_and_back(cfg, seeds, inputs, dtype, watch: Recorder, live: bool = False) -> Feed:
    """Run the model forward and back: the watch's nodes then have gradients, the inputs' own only if `live`."""
    fed, tape = feed(cfg, inputs, seeds, dtype), Tape(cfg, Weights(cfg, seeds, dtype), watch)
    with closing(tape):
        out = cast(Node, tape(*(replace(s, x=tape.node(s.x, live)) for s in fed.sequences)))
        _remember(watch, cfg, seeds, inputs, dtype)
        tape.back((out, fed.slope(out.value)))
    return fed


def _remember(watch: Recorder, cfg, seeds, inputs, dtype) -> None:
    """Keep the attention weights of this pass, as the theory needs them next."""
    if watch.maps and dtype == torch.float32 and not isinstance(inputs.kind, Batch):
        with RECENT_LOCK:
            RECENT[cfg, seeds, inputs] = {name: by_seed(maps[3], seeds) for name, maps in watch.maps.items()}
            while len(RECENT) > 4:
                del RECENT[next(iter(RECENT))]


def token_mean(values: Tensor, real: Tensor | None) -> np.ndarray:
    """(S, B·n) → (S,): the mean over tokens without padding, in float64."""
    values = values.double()
    if real is None:
        return values.mean(-1).numpy()
    return ((values * real.flatten()).sum(-1) / real.sum()).numpy()


def table(cfg: ModelConfig, columns: tuple[str, ...], rows: list[tuple]) -> pd.DataFrame:
    """Rows as a table with these columns; placement, depth and width, which come first, are added."""
    head = {"placement": cfg.placement.key, "depth": cfg.depth, "width": cfg.width}
    body = dict(zip(columns[3:], zip(*rows, strict=True), strict=True)) if rows else {name: [] for name in columns[3:]}
    return pd.DataFrame(head | body, columns=list(columns), index=range(len(rows)))
