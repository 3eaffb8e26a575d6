"""One rule, several readings: carry a placement's rule through a whole stack, whatever it is that flows.

`Transformer` (model.py) carries tensors, `MeanField` (theory.py) carries mean-field streams. Both say only what a
norm, an attention and an FFN do; the placement says the rest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from lntutor.config import ModelConfig
from lntutor.placements import At, blocks, last_sum, stream

EPS = 1e-5  # inside the root of every norm, as in torch
SAMPLE = "LNTUTOR_SAMPLE"  # any word in it draws every stream anew: a whole lesson on other random numbers
DRAWN = os.environ.get(SAMPLE, "")  # once for a process: what is drawn is kept


def random_stream(*name) -> np.random.Generator:
    """The random stream of this name: the same on every machine, in every process."""
    name = (DRAWN, *name) if DRAWN else name
    digest = hashlib.blake2b(repr(name).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def positions(n: int, width: int) -> np.ndarray:
    """(n, width) sinusoidal positions (Vaswani et al. 2017, section 3.5)."""
    rate = 10_000.0 ** (-np.arange(0, width, 2) / width)
    angle = np.arange(n)[:, None] * rate
    return np.stack((np.sin(angle), np.cos(angle)), -1).reshape(n, -1)[:, :width]


@dataclass(frozen=True)
class SubLayer:
    """The f of a rule: x → attention or FFN of x. No closure: one that names itself would keep its tensors alive."""

    reading: Reading
    block: str
    at: At
    N: Callable
    sequence: Any
    memory: Any

    @property
    def name(self) -> tuple[str, int, int]:
        """Sorts the sub-layers of a side in the order in which they run."""
        return self.at.side, self.at.layer, ("self", "cross", "ffn").index(self.block)

    def __call__(self, x):
        reading = self.reading
        if self.block == "ffn":
            y = reading.ffn(x, self.at, self.N)
        else:
            y = reading.attention(x, self.sequence, self.memory, self.block, self.at, self.N)
        if reading.cfg.placement.profile and reading.profile is None:
            reading.seen[self.name] = reading.variance(y)
        return y


class Reading:
    """The rule of `cfg.placement`, read layer by layer.

    Subclasses define `norm`, `attention`, `ffn` and `variance`; `sequence` and `memory` are what their attention
    wants to know of the tokens that read and of the tokens that are read.
    """

    def __init__(self, cfg: ModelConfig, profile: dict[tuple, Any] | None = None):
        self.cfg = cfg
        self.profile = profile  # variances of sub-layers kept from initialisation; None: measured anew
        self.seen: dict[tuple, Any] = {}  # those measured in this pass, where the placement profiles

    def norm(self, x, name: tuple, at: At):
        """The norm of this name, (side, layer, "norm" or "self norm" …, number of the call)."""
        raise NotImplementedError

    def learned(self, name: tuple, start: float, per: str):
        """The number of this name that training moves, (side, layer, "learned", number of the call, letter)."""
        return start

    def attention(self, x, sequence, memory, block: str, at: At, N: Callable):
        """Self-attention of x, or cross-attention from x to the memory."""
        raise NotImplementedError

    def ffn(self, x, at: At, N: Callable):
        """The feed-forward sub-layer."""
        raise NotImplementedError

    def variance(self, x):
        """Variance of a sub-layer's output, for placements that profile."""
        raise NotImplementedError

    def site(self, side: str, layer: int, site: str, x) -> None:
        """The signal x passes a site: "in", "sum", "out" or "final"."""

    def start(self, side: str, x) -> Any:
        """What flows into the first layer."""
        self.seen = {}
        at = self.at(side, 0)
        state = self.cfg.placement.start(x, self.norms(at), at)
        self.site(side, 0, "in", stream(state))
        return state

    def layer(self, side: str, layer: int, state: Any, sequence=None, memory=None) -> Any:
        """One layer, by the placement's own rule."""
        at = self.at(side, layer)
        N = self.norms(at)
        subs = [
            SubLayer(self, block, at, self.norms(at, f"{block} norm"), sequence, memory)
            for block in blocks(self.cfg.stack, side)
        ]
        state = self.cfg.placement.layer(state, subs, N, at)
        self.site(side, layer, "out", stream(state))
        return state

    def finish(self, side: str, state: Any):
        """What leaves a side after its last layer."""
        at = self.at(side, self.cfg.depth + 1)
        out = self.cfg.placement.finish(state, self.norms(at), at)
        self.site(side, self.cfg.depth, "final", out)
        return out

    def at(self, side: str, layer: int) -> At:
        """Where the rule is being read."""
        calls = count()

        def learned(letter, start=1.0, per=""):
            return self.learned((side, layer, "learned", next(calls), letter), start, per)

        return At(side, layer, self.cfg.depth, self.cfg.stack, self.growth, learned)

    def growth(self, f: Callable) -> Any:
        """1 + Σ Var g over the sub-layers g before f on this side, for placements that profile (Admin)."""
        seen = self.seen if self.profile is None else self.profile
        return 1.0 + sum(value for name, value in seen.items() if name[0] == f.name[0] and name < f.name)

    def norms(self, at: At, part: str = "norm") -> Callable:
        """N as a rule calls it, or a tap within a sub-layer: each call is a norm of its own."""
        ruled = part == "norm" and 1 <= at.layer <= at.depth
        watched = last_sum(self.cfg.placement, at.stack, at.side, at.layer, at.depth) if ruled else None
        calls = 0

        def N(x):
            nonlocal calls
            calls += 1
            if calls - 1 == watched:
                self.site(at.side, at.layer, "sum", x)
            return self.norm(x, (at.side, at.layer, part, calls - 1), at)

        return N

    def tap(self, name: str, x, at: At, N: Callable):
        """What the placement does inside a sub-layer, at one of `placements.TAPS`."""
        tap = self.cfg.placement.taps.get(name)
        return tap(x, N, at) if tap else x
