"""Where layer normalization stands: each placement is one line of maths.

A rule may use x + y, a number times x, N(x) and the sub-layers f(x), nothing else. The same line then runs on
tensors (`model.py`), on mean-field streams (`theory.py`) and on boxes (`draw`, below), so a placement that you
add here, or assign to `PLACEMENTS` in a notebook, has its model, its theory and its diagram at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from math import sqrt
from typing import Any

TAPS = ("q", "k", "v", "heads", "hidden")  # where a placement may touch the inside of a sub-layer
STACKS = ("encoder", "decoder", "encoder-decoder")


@dataclass(frozen=True)
class At:
    """Where in the network a rule is being read. `start` is read at layer 0, `finish` at depth + 1."""

    side: str  # "encoder" or "decoder"
    layer: int
    depth: int  # layers on this side
    stack: str  # one of STACKS
    growth: Callable[[Any], Any] = lambda f: 1.0  # 1 + the sum of Var g over the sub-layers g before f


def each(step: Callable) -> Callable:
    """Lift a rule a sub-layer, step(x, f, N, at), to a rule a layer."""

    def layer(x, subs, N, at):
        for f in subs:
            x = step(x, f, N, at)
        return x

    return layer


def stream(state: Any) -> Any:
    """What is measured of a state: itself, or the first of several streams."""
    return state[0] if isinstance(state, tuple) else state


def as_it_is(state, N, at):
    """The default of `start` and `finish`: nothing happens."""
    return state


def final_norm(x, N, at):
    """A last norm after the last layer, as Pre-LN needs it."""
    return N(x)


def no_gain(at, parameter):
    """The default of `gain`: every matrix as it was drawn."""
    return 1.0


@dataclass(frozen=True, repr=False)
class Placement:
    """A rule for one layer, and hooks for the few placements that need more than a rule.

    `layer(state, subs, N, at) → state` with subs = [self, (cross), ffn]; a tuple state carries several streams.
    """

    label: str
    formula: str
    layer: Callable
    reference: str = ""
    year: int | None = None
    start: Callable = as_it_is  # (x, N, at) → state, before the first layer
    finish: Callable = as_it_is  # (state, N, at) → x, after the last layer, on encoder and decoder
    gain: Callable = no_gain  # (at, parameter) → factor on W_Q … W_2 and "embedding"
    taps: Mapping[str, Callable] = field(default_factory=dict, hash=False)  # name in TAPS → (x, N, at) → x
    norm: Callable | None = None  # x → x, in place of the normalisation itself
    profile: bool = False  # the rule asks at.growth(f), measured at initialisation
    depth_free: bool = True  # the rule does not depend on the total depth
    key: str = ""  # its name in PLACEMENTS, set by assignment

    def __post_init__(self):
        unknown = sorted(set(self.taps) - set(TAPS))
        if unknown:
            raise ValueError(f"taps must be among {', '.join(TAPS)}, got {', '.join(unknown)}")
        object.__setattr__(self, "key", self.key or self.label)
        for stack in STACKS:
            try:
                draw(self, At(side=stack.split("-")[-1], layer=1, depth=4, stack=stack))
            except Exception as error:
                raise ValueError(
                    f"placement {self.label!r} cannot be read as a {stack} layer ({type(error).__name__}: {error}); "
                    "a rule may use x + y, number * x, N(x) and f(x), and must return the new state"
                ) from error

    def __repr__(self):
        return f"Placement({self.label}: {self.formula})"


@dataclass(frozen=True, eq=False)
class Box:
    """One box of a block diagram: what it does and which boxes feed it. Rules run on boxes as on tensors."""

    kind: str  # "input", "sum", "scale", "norm", "tanh", "self", "cross", "ffn"
    inputs: tuple[Box, ...] = ()
    factor: float = 1.0

    def __add__(self, other: Box) -> Box:
        return Box("sum", (self, other))

    def __mul__(self, factor: float) -> Box:
        return Box("scale", (self,), float(factor))

    __rmul__ = __mul__

    def __truediv__(self, number: float) -> Box:
        return self * (1 / number)

    def tanh(self) -> Box:
        return Box("tanh", (self,))


@dataclass(frozen=True)
class Drawing:
    """A placement read on boxes: what enters one layer, what leaves it, and the output if it were the last."""

    before: Any
    after: Any
    out: Box
    norms: tuple[Box, ...]  # of the layer, in the order in which the rule calls them
    subs: tuple[Box, ...]


def blocks(stack: str, side: str) -> tuple[str, ...]:
    """The sub-layers of one layer: self, ffn, and cross between them where there is a memory to read."""
    return ("self", "cross", "ffn") if (stack, side) == ("encoder-decoder", "decoder") else ("self", "ffn")


def pen(kind: str, drawn: list[Box]) -> Callable[[Box], Box]:
    """A function that draws a box of this kind and notes it in `drawn`."""

    def f(x):
        if not isinstance(x, Box):
            raise TypeError(f"{kind} was given {type(x).__name__}, not one stream")
        drawn.append(Box(kind, (x,)))
        return drawn[-1]

    return f


def draw(placement: Placement, at: At) -> Drawing:
    """Read one layer of a placement on boxes."""
    norms, subs = [], []
    before = placement.start(Box("input"), pen("norm", []), replace(at, layer=0))
    after = placement.layer(before, [pen(block, subs) for block in blocks(at.stack, at.side)], pen("norm", norms), at)
    if type(after) is not type(before):
        raise TypeError(f"the rule was given {type(before).__name__} and returned {type(after).__name__}")
    out = placement.finish(after, pen("norm", []), replace(at, layer=at.depth + 1))
    if not isinstance(out, Box):
        raise TypeError(f"finish must return one stream, got {type(out).__name__}")
    return Drawing(before, after, out, tuple(norms), tuple(subs))


@lru_cache(maxsize=4096)
def last_sum(placement: Placement, stack: str, side: str, layer: int, depth: int) -> int | None:
    """Which norm of a layer (counting its calls from 0) is the last to read a sum; None where none does."""
    norms = draw(placement, At(side, layer, depth, stack)).norms
    return max((i for i, norm in enumerate(norms) if norm.inputs[0].kind == "sum"), default=None)


class Placements(dict):
    """The dict of placements: assigning stamps the key, looking up a wrong name suggests the nearest."""

    def __setitem__(self, key: str, placement: Placement) -> None:
        if not (isinstance(key, str) and key.isidentifier()):
            raise ValueError(f"a placement's key must be a plain name such as 'mine', got {key!r}")
        if not isinstance(placement, Placement):
            raise ValueError(f"PLACEMENTS[{key!r}] must be a Placement, got {type(placement).__name__}")
        super().__setitem__(key, replace(placement, key=key))

    def __missing__(self, key):
        near = get_close_matches(str(key), self, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(
            f"placement must be one of {', '.join(self)}, got {key!r}; {hint}add your own by PLACEMENTS[name] = …"
        )


def deepnorm_alpha(at: At) -> float:
    """DeepNorm's α (Wang et al. 2022, table 2); this course has equally many layers on both sides."""
    if at.stack != "encoder-decoder":
        return (2 * at.depth) ** 0.25
    return 0.81 * at.depth ** (5 / 16) if at.side == "encoder" else (3 * at.depth) ** 0.25


def deepnorm_gain(at: At, parameter: str) -> float:
    """DeepNorm's β, on W_V, W_O, W_1 and W_2."""
    if parameter not in ("W_V", "W_O", "W_1", "W_2"):
        return 1.0
    if at.stack != "encoder-decoder":
        return (8 * at.depth) ** -0.25
    return 0.87 * at.depth ** (-5 / 16) if at.side == "encoder" else (12 * at.depth) ** -0.25


def bottom_to_top(x, subs, N, at):
    """B2T: Post-LN whose last norm also receives the layer's input."""
    *inner, ffn = subs
    y = x
    for f in inner:
        y = N(y + f(y))
    return N(x + y + ffn(y))


def two_streams(state, f, N, at):
    """ResiDual: x is Post-LN's stream, r sums what the sub-layers say and is normalised once, at the end."""
    x, r = state
    y = f(x)
    return N(x + y), r + y


post = each(lambda x, f, N, at: N(x + f(x)))
pre = each(lambda x, f, N, at: x + f(N(x)))

PLACEMENTS = Placements()
PLACEMENTS["post"] = Placement("Post-LN", "x ← N(x + f(x))", post, "Vaswani et al.", 2017)
PLACEMENTS["pre"] = Placement(
    "Pre-LN", "x ← x + f(N(x)), final N", pre, "Baevski & Auli; Xiong et al. 2020", 2018, finish=final_norm
)
PLACEMENTS["none"] = Placement("no LN", "x ← x + f(x)", each(lambda x, f, N, at: x + f(x)))
PLACEMENTS["no_residual"] = Placement("no residual", "x ← N(f(x))", each(lambda x, f, N, at: N(f(x))))
PLACEMENTS["peri"] = Placement(
    "Peri-LN", "x ← x + N(f(N(x))), final N", each(lambda x, f, N, at: x + N(f(N(x)))),
    "Kim et al.", 2025, finish=final_norm,
)  # fmt: skip
PLACEMENTS["res_post"] = Placement(
    "Res-Post-LN", "x ← x + N(f(x)), final N", each(lambda x, f, N, at: x + N(f(x))),
    "Liu et al. (Swin v2)", 2022, finish=final_norm,
)  # fmt: skip
PLACEMENTS["deepnorm"] = Placement(
    "DeepNorm", "x ← N(αx + f(x)), weights × β", each(lambda x, f, N, at: N(deepnorm_alpha(at) * x + f(x))),
    "Wang et al.", 2022, gain=deepnorm_gain, depth_free=False,
)  # fmt: skip
PLACEMENTS["b2t"] = Placement("B2T", "y = N(x + SA(x)); x ← N(x + y + FFN(y))", bottom_to_top, "Takase et al.", 2022)
PLACEMENTS["residual"] = Placement(
    "ResiDual", "x ← N(x + f(x)), r ← r + f(x); out = x + N(r)", each(two_streams), "Xie et al.", 2023,
    start=lambda x, N, at: (x, x), finish=lambda state, N, at: state[0] + N(state[1]),
)  # fmt: skip
PLACEMENTS["mix"] = Placement(
    "Mix-LN", "first ⌊L/4⌋ layers Post-LN, then Pre-LN, final N",
    lambda x, subs, N, at: (post if at.layer <= at.depth // 4 else pre)(x, subs, N, at),
    "Li et al.", 2025, finish=final_norm, depth_free=False,
)  # fmt: skip
PLACEMENTS["lns"] = Placement(
    "LayerNorm Scaling", "x ← x + f(N(x)/√l), final N", each(lambda x, f, N, at: x + f(N(x) / sqrt(at.layer))),
    "Sun et al.", 2025, finish=final_norm,
)  # fmt: skip
