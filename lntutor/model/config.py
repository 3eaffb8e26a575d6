"""The settings of a model, its inputs and its training: frozen dataclasses that check their fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lntutor.model.checks import as_tuple, check_choice, check_flag, check_int, check_number, short_repr
from lntutor.model.placements import PLACEMENTS, STACKS, Placement

ATTENTION = ("softmax", "uniform")
INITS = ("xavier", "torch", "theory")
NORMS = ("layer", "rms")
LOSSES = ("cross_entropy", "probe")
KINDS = ("gaussian", "tokens")
OPTIMIZERS = ("adam", "sgd", "radam", "gi_adam")
SCHEDULES = ("inverse_sqrt", "constant", "linear")
TASKS = ("translation", "masked_words")


@dataclass(frozen=True)
class Settings:
    """Base of the frozen settings."""

    def with_(self, **changes):
        """A copy with some fields changed, checked again."""
        return replace(self, **changes)

    def _check(self, check: Callable, **limits: tuple) -> None:
        """Field by field: value ← check(name, value, *limits)."""
        for name, allowed in limits.items():
            object.__setattr__(self, name, check(name, getattr(self, name), *allowed))


@dataclass(frozen=True, repr=False)
class ModelConfig(Settings):
    """One Transformer. `depth` counts the layers of each side: 6 is the 6-6 model in an encoder-decoder."""

    placement: Any = "post"  # a Placement or its key; a Placement once constructed
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
        object.__setattr__(self, "placement", PLACEMENTS.find(self.placement))
        self._check(check_int, depth=(1, 64), width=(2, 4096), heads=(1, 256), ffn=(1, 16384))
        self._check(check_choice, stack=(STACKS,), attention=(ATTENTION,), init=(INITS,), norm=(NORMS,))
        self._check(check_flag, output_projection=())
        if self.width % self.heads:
            allowed = ", ".join(str(h) for h in range(1, min(self.width, 256) + 1) if self.width % h == 0)
            given = f"heads={self.heads} and width={self.width}"
            raise ValueError(f"heads must divide width, got {given}; allowed: {allowed}")

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
    # like target (like source for one stack): what each position predicts; must be given
    labels: np.ndarray = None  # pyright: ignore[reportAssignmentType] - None is refused below
    pad: int = 0
    vocab: tuple[int, int] = (0, 0)  # sizes for source and target

    def __post_init__(self):
        check_int("pad", self.pad, 0, 2**31 - 1)
        vocab = as_tuple("vocab", self.vocab, "(4000, 5000)")
        if len(vocab) != 2:
            raise ValueError(f"vocab must be two sizes, for source and target, got {short_repr(self.vocab)}")
        object.__setattr__(self, "vocab", tuple(check_int("vocab", size, 0, 2**31 - 1) for size in vocab))
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
    """What a network is fed, and the loss of its output.

    kind: "gaussian", N(0, I) vectors and an independent head; "tokens", random words, embedded, with sinusoidal
    positions, and the embedding as the head; or a corpus `Batch`, embedded like "tokens".
    """

    kind: str | Batch = "gaussian"
    tokens: int = 16
    batch: int = 1
    loss: str = "cross_entropy"  # "probe": ‖∂L/∂x_out‖ = 1 at each position, in a random direction
    vocab: int = 1024
    head: float = 1.0  # s√d, where s² is the variance of the head's entries

    def __post_init__(self):
        if not isinstance(self.kind, Batch):
            check_choice("kind", self.kind, KINDS)
        self._check(check_int, tokens=(1, 4096), batch=(1, 4096), vocab=(2, 65536))
        self._check(check_choice, loss=(LOSSES,))
        self._check(check_number, head=(0, 1e3, True))
        if not isinstance(self.kind, Batch) and self.batch * self.tokens > self.vocab:
            least = f"batch × tokens = {self.batch * self.tokens}, since targets are drawn without replacement"
            raise ValueError(f"vocab must be at least {least}; got vocab={self.vocab}")


@dataclass(frozen=True)
class TrainConfig(Settings):
    """One training run. Warm-up 0 is a constant rate from the first step; the paper's "no warm-up" is 1."""

    optimizer: str = "adam"  # β = (0.9, 0.98); "sgd" with momentum, "radam", "gi_adam" (v₀ = g₀²)
    lr: float = 1e-3  # the highest rate of the schedule
    warmup: int = 0  # steps of linear growth
    schedule: str = "inverse_sqrt"  # after the warm-up (the paper's eq. 1); "constant", "linear" (to zero)
    steps: int = 500
    batch: int = 64  # sentences per step
    seed: int = 0
    task: str = "translation"
    momentum: float = 0.9  # of "sgd"
    dropout: float = 0.0
    label_smoothing: float = 0.1
    clip: float = 0.0  # largest gradient norm; 0 is no limit
    validate_every: int = 100
    warmup_only: tuple[str, ...] = ()  # the only layers, such as "decoder.6", that are warmed up
    warmup_except: tuple[str, ...] = ()  # the only layers that are not warmed up

    def __post_init__(self):
        most = 1_000_000
        self._check(check_int, steps=(1, most), warmup=(0, most), batch=(1, 65536), seed=(0, 2**31 - 1))
        self._check(check_int, validate_every=(1, most))
        self._check(check_number, lr=(0, 100, True), momentum=(0, 0.9999), dropout=(0, 0.9), clip=(0, 1e6))
        self._check(check_number, label_smoothing=(0, 0.9))
        self._check(check_choice, optimizer=(OPTIMIZERS,), schedule=(SCHEDULES,), task=(TASKS,))
        self._check(_layers, warmup_only=(), warmup_except=())
        if self.warmup_only and self.warmup_except:
            raise ValueError("give warmup_only or warmup_except, not both")


def _array(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # the last: a tensor that learns
        raise ValueError(f"{name} must be rows of one length, padded, got {short_repr(values)}") from None


def _layers(name: str, value: Any) -> tuple[str, ...]:
    places = as_tuple(name, value, "('encoder', 'decoder.6')")
    for place in places:
        side, _, layer = str(place).partition(".")
        if not isinstance(place, str) or side not in ("encoder", "decoder") or (layer and not layer.isdecimal()):
            given = short_repr(place)
            raise ValueError(f"{name} must list sides or layers such as 'encoder' or 'decoder.6', got {given}")
    return places
