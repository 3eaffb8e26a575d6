"""Where layer normalization stands: each placement is one line of maths.

A rule may use x + y, x - y, a number times x, N(x) and the sub-layers f(x); a norm of its own also x.tanh(). The same
rule then runs on tensors (transformer.py), on nodes that compute gradients (measure/tape.py), on mean-field streams
(theory/streams.py) and on boxes (`draw`, below). So a placement that you assign to `PLACEMENTS` in a notebook has its
model, its gradients, its theory and its diagram at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, lru_cache
from itertools import combinations
from math import sqrt
from typing import Any
from weakref import WeakSet

TAPS = ("q", "k", "v", "heads", "hidden")  # where a placement may touch the inside of a sub-layer
STACKS = ("encoder", "decoder", "encoder-decoder")
SLOTS = "ABCD"  # for a norm: before the sub-layer, after it, after the sum, once at the end
ALL_SLOTS = tuple("".join(some) for count in range(5) for some in combinations(SLOTS, count))


class Letter(float):
    """A number that a diagram shows as a letter, whatever it is multiplied with."""

    name: str

    def __new__(cls, name: str, value: float = 1.0):
        self = super().__new__(cls, value)
        self.name = name
        return self

    def __rmul__(self, number):
        return Letter(self.name, float(number) * float(self))


class Arithmetic:
    """What a rule may do beside x + y and number * x, which a subclass defines."""

    __slots__ = ()
    __array_ufunc__ = None  # so that numpy's number * x calls __rmul__

    def __sub__(self: Any, other: Any) -> Any:
        return self + -other

    def __neg__(self: Any) -> Any:
        return self * -1.0

    def __rmul__(self: Any, factor: Any) -> Any:
        return self * factor

    def __truediv__(self: Any, number: Any) -> Any:
        return self * (1 / number)


@dataclass(frozen=True)
class At:
    """Where in the network a rule is applied. `start` is applied at layer 0, `finish` at depth + 1.

    `learned(letter, start, per)` is a weight that is trained: one number, or one per "head" or "feature". Each call
    within a layer is a weight of its own; at initialisation it is `start`.
    """

    side: str  # "encoder" or "decoder"
    layer: int
    depth: int  # layers on this side
    stack: str  # one of STACKS
    growth: Callable[[Any], Any] = lambda f: 1.0  # 1 + the sum of Var g over the sub-layers g before f
    learned: Callable[..., Any] = lambda letter, start=1.0, per="": Letter(letter, start)  # as a diagram shows it


def each(step: Callable) -> Callable:
    """Lift a rule for one sub-layer, step(x, f, N, at), to a rule for one layer."""

    def layer(x, subs, N, at):
        for f in subs:
            x = step(x, f, N, at)
        return x

    return layer


def stream(state: Any) -> Any:
    """The stream of a state that is measured: the state itself, or the first of its streams."""
    return state[0] if isinstance(state, tuple) else state


def as_it_is(state, N, at):
    """The default of `start` and `finish`: nothing happens."""
    return state


def final_norm(x, N, at):
    """A last norm after the last layer, as Pre-LN needs it."""
    return N(x)


def no_gain(at, parameter):
    """The default of `gain`: no matrix is rescaled."""
    return 1.0


@dataclass(frozen=True, repr=False)
class Placement:
    """A rule for one layer, `layer(state, subs, N, at) → state`, and hooks for the few placements that need more.

    subs = [self, (cross), ffn]; a state that is a tuple carries several streams.
    """

    label: str
    formula: str
    layer: Callable
    reference: str = ""
    year: int | None = None
    start: Callable = as_it_is  # (x, N, at) → state, before the first layer
    finish: Callable = as_it_is  # (state, N, at) → x, after the last layer, on encoder and decoder
    gain: Callable = no_gain  # (at, parameter) → factor on W_Q … W_2 and "embedding"
    taps: Mapping[str, Callable] = field(default_factory=dict, hash=False)  # name in TAPS → (x, N, at) → x, by head
    norm: Callable | None = None  # (x, at) → x, in place of the normalisation itself
    profile: bool = False  # the rule asks at.growth(f), measured at initialisation
    key: str = ""  # its name in PLACEMENTS, set by assignment

    def __post_init__(self):
        self._check_fields()
        object.__setattr__(self, "key", self.key or self.label)
        for stack in STACKS:
            try:
                draw(self, At(side=stack.split("-")[-1], layer=1, depth=4, stack=stack))
            except Exception as error:
                raise ValueError(
                    f"placement {self.label!r} cannot be read as a layer of the stack {stack!r} "
                    f"({type(error).__name__}: {error}); a rule may use x + y, x - y, number * x, N(x) and f(x), and "
                    "must return the new state"
                ) from error

    def _check_fields(self):
        """A ValueError if the type of a field is wrong."""
        if not isinstance(self.taps, Mapping):
            raise ValueError(f"taps must be a dict such as {{'q': function}}, got {self.taps!r}")
        if unknown := sorted({str(name) for name in self.taps} - set(TAPS)):
            raise ValueError(f"taps must be among {', '.join(TAPS)}, got {', '.join(unknown)}")
        hooks = ("layer", "start", "finish", "gain") + ("norm",) * (self.norm is not None)
        functions = {name: getattr(self, name) for name in hooks}
        functions |= {f"taps[{name!r}]": tap for name, tap in self.taps.items()}
        texts = {name: getattr(self, name) for name in ("label", "formula", "reference", "key")}
        checks = [  # name, whether it is good, what is wanted, what was given
            *((name, callable(value), "a function", value) for name, value in functions.items()),
            *((name, isinstance(value, str), "words", value) for name, value in texts.items()),
            ("profile", isinstance(self.profile, bool), "True or False", self.profile),
            ("year", self.year is None or type(self.year) is int, "a whole number or None", self.year),
            ("label", self.label != "", "words, not empty", self.label),
        ]
        for name, good, wanted, value in checks:
            if not good:
                raise ValueError(f"{name} of a placement must be {wanted}, got {value!r}")

    def __repr__(self):
        return f"Placement({self.label}: {self.formula})"


@dataclass(frozen=True, eq=False)
class Box(Arithmetic):
    """One box of a block diagram: what it does and which boxes feed it. Rules run on boxes as on tensors."""

    kind: str  # "input", "sum", "scale", "norm", "tanh", "self", "cross", "ffn"
    inputs: tuple[Box, ...] = ()
    factor: float = 1.0
    inside: str = ""  # what the placement's taps do within a sub-layer, in words

    def __add__(self, other: Box) -> Box:
        return Box("sum", (self, other))

    def __mul__(self, factor: float) -> Box:
        return Box("scale", (self,), factor if isinstance(factor, Letter) else float(factor))

    def tanh(self) -> Box:
        return Box("tanh", (self,))


@dataclass(frozen=True)
class Drawing:
    """One layer of a placement as boxes: what enters it, what leaves it, and the output if it were the last layer."""

    before: Any
    after: Any
    out: Box
    norms: tuple[Box, ...]  # of the layer, in the order in which the rule calls them
    subs: tuple[Box, ...]


class SubLayers(list):
    """The list of sub-layers that a rule for one layer receives; calling it like one sub-layer raises an error."""

    def __call__(self, *args):
        raise TypeError(
            "the second argument of layer is the list of a layer's sub-layers; "
            "wrap a rule for one sub-layer: each(lambda x, f, N, at: …)"
        )


def blocks(stack: str, side: str) -> tuple[str, ...]:
    """The sub-layers of one layer: self, ffn, and between them cross in the decoder of an encoder-decoder."""
    return ("self", "cross", "ffn") if (stack, side) == ("encoder-decoder", "decoder") else ("self", "ffn")


def pen(kind: str, drawn: list[Box], inside: str = "") -> Callable[[Box], Box]:
    """A function that draws a box of this kind and notes it in `drawn`."""

    def f(x):
        if not isinstance(x, Box):
            raise TypeError(f"{kind} was given {type(x).__name__}, not one stream")
        drawn.append(Box(kind, (x,), inside=inside))
        return drawn[-1]

    return f


def inside(placement: Placement, block: str, at: At) -> str:
    """What the taps do within a sub-layer, as text: "norm on q, k, v"."""
    done: dict[str, list[str]] = {}
    for name in ("hidden",) if block == "ffn" else TAPS[:-1]:
        box, steps = placement.taps.get(name, as_it_is)(Box(name), pen("norm", []), at), []
        while box.inputs:
            steps.insert(0, f"×{getattr(box.factor, 'name', f'{box.factor:g}')}" if box.kind == "scale" else box.kind)
            box = box.inputs[0]
        if steps:
            done.setdefault(" ".join(steps), []).append(name)
    return "; ".join(f"{steps} on {', '.join(names)}" for steps, names in done.items())


def draw(placement: Placement, at: At) -> Drawing:
    """Apply one layer of a placement to boxes."""
    norms, subs = [], []
    pens = SubLayers(pen(block, subs, inside(placement, block, at)) for block in blocks(at.stack, at.side))
    before = placement.start(Box("input"), pen("norm", []), replace(at, layer=0))
    after = placement.layer(before, pens, pen("norm", norms), at)
    if type(after) is not type(before):
        raise TypeError(f"the rule was given {type(before).__name__} and returned {type(after).__name__}")
    out = placement.finish(after, pen("norm", []), replace(at, layer=at.depth + 1))
    if not isinstance(out, Box):
        raise TypeError(f"finish must return one stream, got {type(out).__name__}")
    return Drawing(before, after, out, tuple(norms), tuple(subs))


@lru_cache(maxsize=4096)
def last_sum(placement: Placement, stack: str, side: str, layer: int, depth: int) -> int | None:
    """The number, from 0, of the last norm of a layer whose input is a sum; None if there is none."""
    norms = draw(placement, At(side, layer, depth, stack)).norms
    return max((i for i, norm in enumerate(norms) if norm.inputs[0].kind == "sum"), default=None)


@lru_cache(maxsize=4096)
def has_skip(placement: Placement, stack: str, side: str, depth: int) -> bool:
    """Whether a path leads through a layer around all of its sub-layers."""
    drawing = draw(placement, At(side, 1, depth, stack))
    boxes = [drawing.out]
    while boxes:
        box = boxes.pop()
        if box.kind == "input":
            return True
        boxes += () if box in drawing.subs else box.inputs
    return False


@dataclass(frozen=True)
class Asked(At):
    """An `At` that notes whether a rule reads its layer and its depth."""

    asked: set = field(default_factory=set, compare=False)

    def __getattribute__(self, name):
        if name in ("layer", "depth", "__dict__"):
            object.__getattribute__(self, "asked").update(("layer", "depth") if name == "__dict__" else (name,))
        return object.__getattribute__(self, name)


@lru_cache(maxsize=1024)
def reads_depth(placement: Placement, stack: str, depth: int) -> bool:
    """Whether a placement uses the model's depth: if not, a deeper model has the same first layers.

    Found by running the rule, its norm, its taps and its gain on boxes in every layer; in `finish`, at.layer tells the
    depth, too.
    """
    norm = placement.norm
    for side in stack.split("-"):
        ats = [Asked(side, layer, depth, stack) for layer in range(depth + 2)]
        norms = [(lambda x, at=at, norm=norm: norm(x, at)) if norm else pen("norm", []) for at in ats]
        state = placement.start(Box("input"), norms[0], ats[0])
        placement.gain(ats[0], "embedding")
        for at, N in zip(ats[1:-1], norms[1:-1], strict=True):
            state = placement.layer(state, [pen(block, []) for block in blocks(stack, side)], N, at)
            for tap in placement.taps.values():
                tap(Box("input"), N, at)
            for parameter in ("W_Q", "W_K", "W_V", "W_O", "W_1", "W_2"):
                placement.gain(at, parameter)
        placement.finish(state, norms[-1], ats[-1])
        if ats[-1].asked or any("depth" in at.asked for at in ats):
            return True
    return False


FOLLOWERS: WeakSet[Any] = WeakSet()  # what shows a list of placements; each has `placements_changed()`


class Placements(dict):
    """The dict of placements: assigning sets a placement's key; a wrong name is an error that suggests the nearest."""

    def __setitem__(self, key: str, placement: Placement) -> None:
        if not (isinstance(key, str) and key.isidentifier()):
            raise ValueError(f"a placement's key must be a plain name such as 'mine', got {key!r}")
        if not isinstance(placement, Placement):
            raise ValueError(f"PLACEMENTS[{key!r}] must be a Placement, got {type(placement).__name__}")
        super().__setitem__(key, replace(placement, key=key))
        self._notify()

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._notify()

    def _notify(self) -> None:
        for follower in list(FOLLOWERS):
            follower.placements_changed()

    def __getitem__(self, key: str) -> Placement:
        return super().__getitem__(key) if isinstance(key, str) else self.__missing__(key)

    def find(self, given: Placement | str) -> Placement:
        """A placement, given itself or by its key."""
        return given if isinstance(given, Placement) else self[given]

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
    """ResiDual: x is Post-LN's stream; r sums the outputs of all sub-layers and is normalised once, at the end."""
    x, r = state
    y = f(x)
    return N(x + y), r + y


def norms_in_between(x, subs, N, at):
    """NormFormer: Pre-LN with a second norm after attention; the taps put one inside the FFN and a gain on each head.

    Shleifer et al. 2021, whose models have no cross-attention; here it is treated as self-attention is.
    """
    *inner, ffn = subs
    for f in inner:
        x = x + N(f(N(x)))
    return x + ffn(N(x))


def hybrid_norm(x, subs, N, at):
    """HybridNorm: attention without a norm around it (the taps normalise q, k and v), then Post-LN's FFN.

    Zhuo et al. 2025, over the features of each head, without the extra norms in the first layer of HybridNorm*.
    """
    *inner, ffn = subs
    for f in inner:
        x = x + f(x)
    y = N(x)
    return ffn(y) + y


def tfixup_gain(at: At, parameter: str) -> float:
    """T-Fixup's factors: 0.67 N^-¼ in an encoder, (9M)^-¼ in a decoder and on the embeddings of both sides.

    Huang et al. 2020, on W_V, W_O, W_1 and W_2, for an encoder–decoder; a stack alone takes its own side's.
    Gaussian inputs stand for embeddings and are multiplied as well; the sinusoids of positions are not.
    """
    if parameter not in ("W_V", "W_O", "W_1", "W_2", "embedding"):
        return 1.0
    return 0.67 * at.depth**-0.25 if at.side == "encoder" and parameter != "embedding" else (9 * at.depth) ** -0.25


def admin(x, f, N, at):
    """Admin: Post-LN with the skip multiplied by ω, a vector that learns and starts at ω² = 1 + Σ Var g, g before f.

    Liu et al. 2020. Their profiling pass runs with ω = 1; this one with the ω found so far, so that the sums start as
    Pre-LN's. What learns is ω over its start: a step of Adam moves ω in proportion.
    """
    return N(at.growth(f) ** 0.5 * at.learned("ω", per="feature") * x + f(x))


def dynamic_tanh(x, at):
    """DyT: tanh(αx) in place of a norm, with one learned α per norm (Zhu et al. 2025); γ and β as for any norm."""
    return (at.learned("α", 0.5) * x).tanh()


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
    "Wang et al.", 2022, gain=deepnorm_gain,
)  # fmt: skip
PLACEMENTS["b2t"] = Placement("B2T", "y = N(x + SA(x)); x ← N(x + y + FFN(y))", bottom_to_top, "Takase et al.", 2022)
PLACEMENTS["residual"] = Placement(
    "ResiDual", "x ← N(x + f(x)), r ← r + f(x); out = x + N(r)", each(two_streams), "Xie et al.", 2023,
    start=lambda x, N, at: (x, x), finish=lambda state, N, at: state[0] + N(state[1]),
)  # fmt: skip
PLACEMENTS["mix"] = Placement(
    "Mix-LN", "first ⌊L/4⌋ layers Post-LN, then Pre-LN, final N",
    lambda x, subs, N, at: (post if at.layer <= at.depth // 4 else pre)(x, subs, N, at),
    "Li et al.", 2025, finish=final_norm,
)  # fmt: skip
PLACEMENTS["lns"] = Placement(
    "LayerNorm Scaling", "x ← x + f(N(x)/√l), final N", each(lambda x, f, N, at: x + f(N(x) / sqrt(at.layer))),
    "Sun et al.", 2025, finish=final_norm,
)  # fmt: skip
PLACEMENTS["admin"] = Placement(
    "Admin", "x ← N(ω⊙x + f(x)), ω² = 1 + Σ Var f before", each(admin), "Liu et al.", 2020, profile=True
)
PLACEMENTS["tfixup"] = Placement(
    "T-Fixup", "x ← x + f(x), weights × .67 L^-¼, in decoders and on embeddings × (9L)^-¼",
    each(lambda x, f, N, at: x + f(x)), "Huang et al.", 2020, gain=tfixup_gain,
)  # fmt: skip
PLACEMENTS["normformer"] = Placement(
    "NormFormer", "x ← x + N(MHA(N(x))), heads × γ; x ← x + W₂N(ReLU(W₁N(x))), final N", norms_in_between,
    "Shleifer et al.", 2021, finish=final_norm,
    taps={"heads": lambda x, N, at: at.learned("γ", per="head") * x, "hidden": lambda x, N, at: N(x)},
)  # fmt: skip
PLACEMENTS["hybrid"] = Placement(
    "HybridNorm", "y = N(x + MHA(x)), N on q, k, v; x ← y + FFN(y), final N", hybrid_norm,
    "Zhuo et al.", 2025, finish=final_norm, taps=dict.fromkeys(("q", "k", "v"), lambda x, N, at: N(x)),
)  # fmt: skip
PLACEMENTS["dyt"] = Placement(
    "Dynamic Tanh", "x ← x + f(N(x)), final N; N(x) = γ tanh(αx) + β", pre, "Zhu et al.", 2025,
    finish=final_norm, norm=dynamic_tanh,
)  # fmt: skip


@cache
def in_slots(slots: str) -> Placement:
    """The placement with a norm in each of these slots: "C" is Post-LN's rule, "AD" is Pre-LN's."""
    if slots not in ALL_SLOTS:
        raise ValueError(f"slots must be letters out of {SLOTS}, in this order, got {slots!r}")

    def step(x, f, N, at):
        before, after, stream = (N if slot in slots else (lambda x: x) for slot in SLOTS[:3])
        return stream(x + after(f(before(x))))

    branch = "f(N(x))" if "A" in slots else "f(x)"
    total = f"x + N({branch})" if "B" in slots else f"x + {branch}"
    formula = f"x ← N({total})" if "C" in slots else f"x ← {total}"
    formula, finish = (f"{formula}, final N", final_norm) if "D" in slots else (formula, as_it_is)
    return Placement(f"slots {slots}".strip(), formula, each(step), finish=finish)
