"""Apply a placement's rule layer by layer, to whatever flows through the network.

Subclasses of `Reading` define what a norm, an attention and an FFN do: `Transformer` (transformer.py) to tensors,
`Tape` (measure/tape.py) to nodes that compute gradients, `MeanField` (theory/mean_field.py) to mean-field streams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from lntutor.model.config import ModelConfig
from lntutor.model.placements import At, blocks, last_sum, stream

EPS = 1e-5  # inside the root of every norm, as in torch


@dataclass(frozen=True)
class SubLayer:
    """The f of a rule: x → attention or FFN of x. Not a closure, which would keep its tensors alive."""

    reading: Reading
    block: str
    at: At
    N: Callable
    sequence: Any
    memory: Any

    @property
    def name(self) -> tuple[str, int, int]:
        """(side, layer, place in the layer): sorts the sub-layers of a side in the order in which they run."""
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
    """The rule of `cfg.placement`, applied layer by layer; subclasses define `norm`, `attention`, `ffn` and `variance`.

    `sequence` and `memory` describe the tokens of the queries, and those of the keys in cross-attention.
    """

    def __init__(self, cfg: ModelConfig, profile: dict[tuple, Any] | None = None):
        self.cfg = cfg
        self.profile = profile  # variances of sub-layers at initialisation; None: measured in every pass
        self.seen: dict[tuple, Any] = {}  # those measured so far, if the placement needs them

    def norm(self, x, name: tuple, at: At):
        """The norm named (side, layer, "norm" or "self norm" …, number of the call)."""
        raise NotImplementedError

    def learned(self, name: tuple, start: float, per: str):
        """The weight named (side, layer, "learned", number of the call, letter)."""
        return start

    def attention(self, x, sequence, memory, block: str, at: At, N: Callable):
        """Self-attention of x, or cross-attention from x to the memory."""
        raise NotImplementedError

    def ffn(self, x, at: At, N: Callable):
        """The feed-forward sub-layer."""
        raise NotImplementedError

    def variance(self, x):
        """Variance of a sub-layer's output, for placements with `profile`."""
        raise NotImplementedError

    def site(self, side: str, layer: int, site: str, x) -> None:
        """Called with the signal x at each site: "in", "sum", "out" or "final"."""

    def start(self, side: str, x) -> Any:
        """What flows into the first layer."""
        at = self.at(side, 0)
        state = self.cfg.placement.start(x, self.norms(at), at)
        self.site(side, 0, "in", stream(state))
        return state

    def layer(self, side: str, layer: int, state: Any, sequence=None, memory=None) -> Any:
        """One layer."""
        at = self.at(side, layer)
        N = self.norms(at)
        taps = {block: self.norms(at, f"{block} norm") for block in blocks(self.cfg.stack, side)}
        subs = [SubLayer(self, block, at, tap, sequence, memory) for block, tap in taps.items()]
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
        """The `At` of a layer."""
        calls = count()

        def learned(letter, start=1.0, per=""):
            return self.learned((side, layer, "learned", next(calls), letter), start, per)

        return At(side, layer, self.cfg.depth, self.cfg.stack, self.growth, learned)

    def growth(self, f: Callable) -> Any:
        """1 + Σ Var g over the sub-layers g before f on this side, for placements with `profile` (Admin)."""
        seen = self.seen if self.profile is None else self.profile
        return 1.0 + sum(value for name, value in seen.items() if name[0] == f.name[0] and name < f.name)

    def norms(self, at: At, part: str = "norm") -> Callable:
        """The N of a rule, or of a tap within a sub-layer: each call is a norm of its own."""
        ruled = part == "norm" and 1 <= at.layer <= at.depth
        watched = last_sum(self.cfg.placement, at.stack, at.side, at.layer, at.depth) if ruled else None
        calls = count()

        def N(x):
            number = next(calls)
            if number == watched:
                self.site(at.side, at.layer, "sum", x)
            return self.norm(x, (at.side, at.layer, part, number), at)

        return N

    def tap(self, name: str, x, at: At, N: Callable):
        """What the placement does inside a sub-layer, at one of `placements.TAPS`."""
        tap = self.cfg.placement.taps.get(name)
        return tap(x, N, at) if tap else x
