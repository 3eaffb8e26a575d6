"""What is measured and trained: frozen, validated settings, with every default in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice
from numbers import Integral, Real
from reprlib import Repr
from typing import Any

import numpy as np

from lntutor.placements import PLACEMENTS, STACKS, Placement

ATTENTION = ("softmax", "uniform")
INITS = ("xavier", "torch", "theory")
NORMS = ("layer", "rms")
LOSSES = ("cross_entropy", "probe")
KINDS = ("gaussian", "tokens")
OPTIMIZERS = ("adam", "sgd", "radam", "gi_adam")
SCHEDULES = ("inverse_sqrt", "constant", "linear")
TASKS = ("translation", "masked_words")
MOST_SEEDS = 10_000
_BRIEF = Repr()
_BRIEF.maxstring = _BRIEF.maxlong = _BRIEF.maxother = 80


def shown(value: Any) -> str:
    """What was given, for a message: as Python writes it, in brief where that is long."""
    try:
        return _BRIEF.repr(value)
    except Exception:  # Python writes no number of more than 4300 digits
        return f"a {type(value).__name__}"


def instance(name: str, value: Any, kind: type, advice: str = "") -> Any:
    """`value` if it is of this kind, or a ValueError that names what it is."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ValueError(f"{name} must be {article} {kind.__name__}, got {shown(value)}{advice}")
    return value


def several(name: str, values: Any, example: str) -> tuple:
    """The values of a list or the like, a text being one, or a ValueError."""
    try:
        return (values,) if isinstance(values, str) else tuple(values)
    except TypeError:
        raise ValueError(f"{name} must be a list such as {example}, got {shown(values)}") from None


def numbers(name: str, values: Any, *dimensions: int, most: float = 1e308) -> np.ndarray:
    """An array of numbers, finite unless `most` is infinity, with one of these numbers of axes, or a ValueError."""
    try:
        plain = values.tolist() if hasattr(values, "tolist") else values  # numpy warns of a tensor, or refuses it
        found = None if np.iscomplexobj(plain) else np.array(plain, dtype=float)
    except Exception:  # a thing of the reader's own may say no in any way it likes
        found = None
    if found is None or found.ndim not in dimensions or not (abs(found) <= most).all():
        axes = " or ".join(map(str, dimensions))
        raise ValueError(f"{name} must be numbers up to {most:g}, with {axes} axes, got {shown(values)}")
    return found


def whole(name: str, value: Any, low: int, high: int) -> int:
    """`value` as an int in low..high, or a ValueError that names it."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number in {low}..{high}, got {shown(value)}")
    return int(value)


def megabytes(variable: str, default: int, environ: Mapping[str, str]) -> int:
    """Bytes that a variable of the environment gives in MB, or a ValueError that names it."""
    given = environ.get(variable) or str(default)
    if not (given.isdecimal() and int(given)):
        raise ValueError(f"{variable} must be a whole number of MB from 1 on, such as 512, got {given!r}")
    return int(given) * 2**20


def number(name: str, value: Any, low: float, high: float, above: bool = False) -> float:
    """`value` as a finite float in low..high (above low, where asked), or a ValueError that names it."""
    good = not isinstance(value, bool) and isinstance(value, Real) and low <= value <= high  # as NaN is not
    if not good or (above and value == low):
        start = "above" if above else "from"
        raise ValueError(f"{name} must be a number {start} {low:g} up to {high:g}, got {shown(value)}")
    return float(value)


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """`value` if it is one of the allowed words, or a ValueError that lists them."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {shown(value)}")
    return value


def flag(name: str, value: Any) -> bool:
    """`value` if it is True or False, or a ValueError."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def seed_list(seeds: Any) -> tuple[int, ...]:
    """`seeds` (a number or several different ones, at most MOST_SEEDS) as a tuple, or a ValueError."""
    if isinstance(seeds, Integral):
        seeds = (seeds,)
    try:
        found = tuple(whole("seed", seed, 0, 2**31 - 1) for seed in islice(seeds, MOST_SEEDS + 1))
    except TypeError:
        raise ValueError(f"seeds must be whole numbers such as range(3), got {shown(seeds)}") from None
    if not 1 <= len(found) <= MOST_SEEDS or len(set(found)) < len(found):
        raise ValueError(f"seeds must be one or more different whole numbers, up to {MOST_SEEDS}, got {shown(seeds)}")
    return found


def depth_list(depths: Any) -> list[int]:
    """`depths` sorted, each once, or a ValueError."""
    try:
        depths = sorted({whole("depth", depth, 1, 64) for depth in depths})
    except TypeError:
        raise ValueError(f"depths must be several whole numbers such as range(1, 25), got {shown(depths)}") from None
    if not depths:
        raise ValueError("depths must name at least one depth, got none")
    return depths


class Settings:
    """Base of the frozen settings: `with_` changes fields, and validates anew."""

    def with_(self, **changes):
        """A copy with some fields changed."""
        return replace(self, **changes)

    def _clean(self, **fields):
        for name, value in fields.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, repr=False)
class ModelConfig(Settings):
    """One Transformer. `depth` counts the layers of each side: 6 is the 6-6 model in an encoder-decoder."""

    placement: Placement | str = "post"
    depth: int = 6
    width: int = 128
    heads: int = 4
    ffn: int = 512
    stack: str = "encoder-decoder"  # "encoder", "decoder" (causal, no memory)
    attention: str = "softmax"  # "uniform" is the theorem's W_Q = W_K = 0
    init: str = "xavier"  # each matrix on its own; "torch": Q, K, V packed; "theory": N(0, 1/fan_in)
    output_projection: bool = True  # W_O; the theorem has none
    norm: str = "layer"  # "rms"

    def __post_init__(self):
        self._clean(
            placement=PLACEMENTS.find(self.placement),
            depth=whole("depth", self.depth, 1, 64),
            width=whole("width", self.width, 2, 4096),
            heads=whole("heads", self.heads, 1, 256),
            ffn=whole("ffn", self.ffn, 1, 16384),
            stack=choice("stack", self.stack, STACKS),
            attention=choice("attention", self.attention, ATTENTION),
            init=choice("init", self.init, INITS),
            output_projection=flag("output_projection", self.output_projection),
            norm=choice("norm", self.norm, NORMS),
        )
        if self.width % self.heads:
            divisors = [h for h in range(1, min(self.width, 256) + 1) if self.width % h == 0]
            raise ValueError(
                f"heads must divide width, got heads={self.heads} and width={self.width}; "
                f"allowed: {', '.join(map(str, divisors))}"
            )

    def __repr__(self):
        values = {f.name: getattr(self, f.name) for f in fields(self)} | {"placement": self.placement.key}
        return f"ModelConfig({', '.join(f'{name}={value!r}' for name, value in values.items())})"

    @classmethod
    def theorem(cls, placement: Placement | str = "post", depth: int = 6, width: int = 256) -> ModelConfig:
        """The setting of Theorem 1 (Xiong et al. 2020, section 3.3): one head, d × d, W_Q = W_K = 0, N(0, 1/d)."""
        return cls(placement, depth, width, 1, width, "encoder", "uniform", "theory", output_projection=False)

    @classmethod
    def figure3(cls, placement: Placement | str = "post", depth: int = 6) -> ModelConfig:
        """The model of Fig. 3 (Xiong et al. 2020): IWSLT14's 6-6, width 512, FFN 1024, 4 heads, fairseq's init."""
        return cls(placement, depth, 512, 4, 1024, "encoder-decoder", "softmax", "torch")

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides that this stack has, in the order in which they run."""
        return tuple(self.stack.split("-"))


@dataclass(frozen=True)
class Batch:
    """Padded word numbers of a corpus: rows are sentences. The decoder reads `target` and predicts `labels`."""

    source: np.ndarray  # (B, n)
    target: np.ndarray | None = None  # (B, m); needed by an encoder-decoder
    labels: np.ndarray | None = None  # like target (like source for one stack): what each position predicts
    pad: int = 0
    vocab: tuple[int, int] = (0, 0)  # sizes for source and target

    def __post_init__(self):
        whole("pad", self.pad, 0, 2**31 - 1)
        vocab = several("vocab", self.vocab, "(4000, 5000)")
        if len(vocab) != 2:
            raise ValueError(f"vocab must be two sizes, for source and target, got {shown(self.vocab)}")
        object.__setattr__(self, "vocab", tuple(whole("vocab", size, 0, 2**31 - 1) for size in vocab))
        for name in ("source", "target", "labels"):
            ids = getattr(self, name)
            if ids is None and name != "source":
                continue
            ids = _array(name, ids)
            if ids.ndim != 2 or not ids.size or not np.issubdtype(ids.dtype, np.integer):
                raise ValueError(f"{name} must be whole numbers, sentences × words, got {ids.dtype} {ids.shape}")
            size = self.vocab[name != "source" and self.target is not None]
            if ids.min() < 0 or ids.max() >= size:
                raise ValueError(f"{name} must hold word numbers in 0..{size - 1}, got {ids.min()}..{ids.max()}")
            object.__setattr__(self, name, ids)
        read = self.source if self.target is None else self.target
        if self.labels is None or self.labels.shape != read.shape:
            raise ValueError("labels must be given, one for each position that is read")
        if self.target is not None and len(self.target) != len(self.source):
            raise ValueError(f"source and target must pair up, got {len(self.source)} and {len(self.target)} sentences")
        if (self.labels == self.pad).all():
            raise ValueError("labels must hold at least one word that is not padding")


@dataclass(frozen=True)
class Inputs(Settings):
    """What is fed and what is asked of the output.

    "gaussian": N(0, I) vectors and an independent head; "tokens": random words, embedded, with sinusoidal
    positions and the head tied to the embedding; or a corpus `Batch`, read like "tokens".
    """

    kind: str | Batch = "gaussian"
    tokens: int = 16
    batch: int = 1
    loss: str = "cross_entropy"  # "probe": ‖∂L/∂x_out‖ = 1 at each position, in a random direction
    vocab: int = 1024
    head: float = 1.0  # s√d, where s² is the variance of the head's entries

    def __post_init__(self):
        if not isinstance(self.kind, Batch):
            choice("kind", self.kind, KINDS)
        self._clean(
            tokens=whole("tokens", self.tokens, 1, 4096),
            batch=whole("batch", self.batch, 1, 4096),
            loss=choice("loss", self.loss, LOSSES),
            vocab=whole("vocab", self.vocab, 2, 65536),
            head=number("head", self.head, 0, 1e3, above=True),
        )
        if not isinstance(self.kind, Batch) and self.batch * self.tokens > self.vocab:
            raise ValueError(
                f"vocab must be at least batch × tokens = {self.batch * self.tokens}, since targets are drawn "
                f"without replacement; got vocab={self.vocab}"
            )


@dataclass(frozen=True)
class TrainConfig(Settings):
    """One training run. Warm-up 0 is a constant rate from the first step; the paper's "no warm-up" is 1."""

    optimizer: str = "adam"  # β = (0.9, 0.98); "sgd" with momentum, "radam", "gi_adam" (v₀ = g₀²)
    lr: float = 1e-3  # the highest rate of the schedule
    warmup: int = 0  # steps of linear growth
    schedule: str = "inverse_sqrt"  # after the warm-up (the paper's eq. 1); "constant", "linear" (to zero)
    steps: int = 500
    batch: int = 64  # sentences a step
    seed: int = 0
    task: str = "translation"
    momentum: float = 0.9  # of "sgd"
    dropout: float = 0.0
    label_smoothing: float = 0.1
    clip: float = 0.0  # largest gradient norm; 0 is no limit
    validate_every: int = 100
    warmup_only: tuple[str, ...] = ()  # layers such as "decoder.6" that alone are warmed up
    warmup_except: tuple[str, ...] = ()  # layers that alone are not

    def __post_init__(self):
        steps = whole("steps", self.steps, 1, 1_000_000)
        self._clean(
            optimizer=choice("optimizer", self.optimizer, OPTIMIZERS),
            lr=number("lr", self.lr, 0, 100, above=True),
            warmup=whole("warmup", self.warmup, 0, 1_000_000),
            schedule=choice("schedule", self.schedule, SCHEDULES),
            steps=steps,
            batch=whole("batch", self.batch, 1, 65536),
            seed=whole("seed", self.seed, 0, 2**31 - 1),
            task=choice("task", self.task, TASKS),
            momentum=number("momentum", self.momentum, 0, 0.9999),
            dropout=number("dropout", self.dropout, 0, 0.9),
            label_smoothing=number("label_smoothing", self.label_smoothing, 0, 0.9),
            clip=number("clip", self.clip, 0, 1e6),
            validate_every=whole("validate_every", self.validate_every, 1, 1_000_000),
            warmup_only=_layers("warmup_only", self.warmup_only),
            warmup_except=_layers("warmup_except", self.warmup_except),
        )
        if self.warmup_only and self.warmup_except:
            raise ValueError("give warmup_only or warmup_except, not both")


def _array(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # the last: a tensor that learns
        raise ValueError(f"{name} must be rows of one length, padded, got {shown(values)}") from None


def _layers(name: str, value: Any) -> tuple[str, ...]:
    words = several(name, value, "('encoder', 'decoder.6')")
    for word in words:
        side, _, layer = str(word).partition(".")
        if not isinstance(word, str) or side not in ("encoder", "decoder") or (layer and not layer.isdecimal()):
            raise ValueError(f"{name} must list sides or layers such as 'encoder' or 'decoder.6', got {shown(word)}")
    return words
