"""What is measured and trained: frozen, validated settings, with every default in one place."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import isfinite
from numbers import Integral, Real
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


def whole(name: str, value: Any, low: int, high: int) -> int:
    """`value` as an int in low..high, or a ValueError that names it."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number in {low}..{high}, got {value!r}")
    return int(value)


def number(name: str, value: Any, low: float, high: float, above: bool = False) -> float:
    """`value` as a finite float in low..high (above low, where asked), or a ValueError that names it."""
    good = not isinstance(value, bool) and isinstance(value, Real) and isfinite(value) and low <= value <= high
    if not good or (above and value == low):
        start = "above" if above else "from"
        raise ValueError(f"{name} must be a number {start} {low:g} up to {high:g}, got {value!r}")
    return float(value)


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """`value` if it is one of the allowed words, or a ValueError that lists them."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    return value


def flag(name: str, value: Any) -> bool:
    """`value` if it is True or False, or a ValueError."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def seed_list(seeds: Any) -> tuple[int, ...]:
    """`seeds` (a number or several different ones) as a tuple, or a ValueError."""
    if isinstance(seeds, Integral):
        seeds = (seeds,)
    try:
        seeds = tuple(whole("seed", seed, 0, 2**31 - 1) for seed in seeds)
    except TypeError:
        raise ValueError(f"seeds must be whole numbers such as range(3), got {seeds!r}") from None
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must be one or more different whole numbers, got {seeds!r}")
    return seeds


def depth_list(depths: Any) -> list[int]:
    """`depths` sorted, each once, or a ValueError."""
    try:
        depths = sorted({whole("depth", depth, 1, 64) for depth in depths})
    except TypeError:
        raise ValueError(f"depths must be several whole numbers such as range(1, 25), got {depths!r}") from None
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
        placement = self.placement
        self._clean(
            placement=placement if isinstance(placement, Placement) else PLACEMENTS[placement],
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
        for name in ("source", "target", "labels"):
            ids = getattr(self, name)
            if ids is None:
                continue
            ids = np.asarray(ids)
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
            seed=seed_list(self.seed)[0],
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


def _layers(name: str, value: Any) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else tuple(value)
    for word in words:
        side, _, layer = str(word).partition(".")
        if side not in ("encoder", "decoder") or (layer and not layer.isdecimal()):
            raise ValueError(f"{name} must list sides or layers such as 'encoder' or 'decoder.6', got {word!r}")
    return words
