"""The Transformer on one page: attention, FFN, encoder, decoder, for any placement.

Row vectors: y = x W. A signal is (…, B·n, d): B sentences of n tokens, one after the other, behind any number of
leading axes (seeds, when several networks run together). Attention is written out in small steps, so that its weights
can be recorded and second derivatives exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lntutor.model.config import ModelConfig
from lntutor.model.placements import At
from lntutor.model.rule import EPS, Reading


class Watch:
    """Receives the tensors (or a tape's nodes) of a forward pass; this base class ignores them."""

    def matmul(self, name: tuple, x: Any, y: Any) -> None:
        """y = x W for the matrix of this name."""

    def site(self, side: str, layer: int, site: str, x: Any) -> None:
        """x is the signal at a site: "in", "sum", "out" or "final"."""

    def attention(self, name: tuple, q: Any, k: Any, v: Any, weights: Tensor, heads: Any) -> None:
        """heads = weights @ v, with weights (…, B, H, n, m) = softmax(q kᵀ/√d_head)."""


class Packing:
    """Where the words of padded sentences are: `places[i]` is the place of word i among B·n, `words[p]` its inverse.

    A place of padding holds the word before it, which nothing may read.
    """

    def __init__(self, real: Tensor):
        self.places = real.flatten().nonzero().squeeze(1)  # (N,)
        self.words = real.flatten().cumsum(0).sub_(1).clamp_(min=0)  # (B·n,)
        self.rows: dict[tuple, tuple[Tensor, Tensor]] = {}  # used by `fast_products.rows_of`


@dataclass(frozen=True)
class Sequence:
    """The input of one side: x (…, B·n, d), and which tokens are words and not padding (None: all).

    With a `packing`, x is (…, N, d): only the N words. Steps that work token by token then skip the padding, which only
    attention puts back. Padding must come after the words of a sentence.
    """

    x: Tensor
    batch: int = 1
    real: Tensor | None = None  # (B, n) bool
    packing: Packing | None = None

    @property
    def length(self) -> int:
        """n, the length of the longest sentence."""
        return (self.x.shape[-2] if self.packing is None else len(self.packing.words)) // self.batch

    def laid_out(self, y: Tensor) -> Tensor:
        """Tokens by sentence, with padding: (…, N, k) → (…, B, n, k)."""
        if self.packing is not None:
            y = y.index_select(-2, self.packing.words)
        return y.unflatten(-2, (self.batch, -1))

    def in_a_row(self, y: Tensor) -> Tensor:
        """The inverse: (…, B, n, k) → (…, N, k)."""
        y = y.flatten(-3, -2)
        return y if self.packing is None else y.index_select(-2, self.packing.places)

    def visible_from(self, n: int, causal: bool) -> Tensor | None:
        """(B or 1, 1, n, m) bool: which of these tokens each of n queries may read; None: all of them."""
        m = self.length
        visible = torch.ones(1, 1, n, m, dtype=torch.bool).tril() if causal else None
        if self.real is not None and not (causal and self.packing):  # no word stands after padding
            real = self.real[:, None, None, :].expand(-1, 1, n, m)
            visible = real if visible is None else visible & real
        return visible


def normalise(x: Tensor, kind: str, gain: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """LayerNorm (x − μ)/√(σ² + ε) over features, or RMSNorm x/√(mean x² + ε); then gain and bias."""
    if kind == "layer":
        return F.layer_norm(x, x.shape[-1:], gain, bias, EPS)
    return affine(x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt(), gain, bias)


def affine(y: Tensor, gain: Tensor | None, bias: Tensor | None) -> Tensor:
    """y ∘ gain + bias; None leaves one out."""
    y = y if gain is None else y * gain
    return y if bias is None else y + bias


def flat(t: Tensor) -> Tensor:
    """(…, B, H, n, d_head) → (…·B·H, n, d_head)."""
    return t.reshape(-1, *t.shape[-2:])


def average(x: Tensor, visible: Tensor | None) -> Tensor:
    """Uniform attention, (…, B, m, d) → (…, B, n or 1, d): the mean of the visible tokens."""
    if visible is None:
        return x.mean(-2, keepdim=True)
    share = visible[:, 0].to(x.dtype)
    return (share / share.sum(-1, keepdim=True)) @ x


class Transformer(Reading):
    """The forward pass of `cfg`. `weights[side, layer, block, parameter]` are its matrices.

    `weights.get` is asked for biases, (side, layer, block, "b_1" …), gains and biases of norms, (side, layer, "norm",
    number, "gain" or "bias"), and other weights of the rule, (side, layer, "learned", number, letter). Where it has
    none, biases are 0 and gains 1. `drop` is the dropout on the output of every sub-layer.
    """

    def __init__(
        self, cfg: ModelConfig, weights, watch: Watch | None = None, profile: dict | None = None,
        drop: Callable[[Tensor], Tensor] | None = None,
    ):  # fmt: skip
        super().__init__(cfg, profile)
        self.weights, self.drop = weights, drop
        self.watch = watch or Watch()
        self.site = self.watch.site

    def __call__(self, *sequences: Sequence) -> Tensor:
        """One sequence per side of `cfg.sides` → the output (…, B·n, d) of the last side."""
        memory = None
        for side, sequence in zip(self.cfg.sides, sequences, strict=True):
            memory = replace(sequence, x=self.run(side, sequence, memory))
        assert memory is not None  # there is at least one side
        return memory.x

    def run(self, side: str, sequence: Sequence, memory: Sequence | None = None) -> Tensor:
        """One side from its input to its output; a decoder reads the encoder's output as `memory`."""
        state = self.start(side, sequence.x)
        for layer in range(1, self.cfg.depth + 1):
            state = self.layer(side, layer, state, sequence, memory)
        return self.finish(side, state)

    def profiled(self, *sequences: Sequence) -> dict[tuple, Tensor]:
        """The variances of all sub-layers in one pass, for a placement with `profile`."""
        with torch.no_grad():
            self(*sequences)
        return dict(self.seen)

    def norm(self, x: Tensor, name: tuple, at: At) -> Tensor:
        """LayerNorm, RMSNorm or the placement's own, then gain and bias."""
        custom = self.cfg.placement.norm
        gain, bias = self.weights.get((*name, "gain")), self.weights.get((*name, "bias"))
        return affine(custom(x, at), gain, bias) if custom else normalise(x, self.cfg.norm, gain, bias)

    def learned(self, name: tuple, start: float, per: str) -> Tensor | float:
        """A tensor: () for one number, (H, 1, 1) for one per head, (d,) for one per feature; or `start`."""
        value = self.weights.get(name)
        return start if value is None else value

    def variance(self, x: Tensor) -> Tensor:
        """Mean square over tokens and features, (…, 1, 1), detached."""
        return x.detach().square().mean((-2, -1), keepdim=True)

    def linear(self, x: Tensor, at: At, block: str, parameter: str) -> Tensor:
        """x W, plus a bias if there is one."""
        name = (at.side, at.layer, block, parameter)
        bias, weight = self.weights.get((*name[:3], parameter.replace("W", "b"))), self.weights[name]
        if bias is None:
            y = x @ weight
        else:
            y = torch.addmm(bias, x, weight) if x.ndim == 2 else x @ weight + bias
        self.watch.matmul(name, x, y)
        return y

    def relu(self, x: Tensor) -> Tensor:
        """max(x, 0)."""
        return x.relu()

    def ffn(self, x: Tensor, at: At, N: Callable) -> Tensor:
        """ReLU(x W_1 + b_1) W_2 + b_2."""
        hidden = self.relu(self.linear(x, at, "ffn", "W_1"))  # (…, B·n, f)
        y = self.linear(self.tap("hidden", hidden, at, N), at, "ffn", "W_2")
        return self.drop(y) if self.drop else y

    def attention(self, x: Tensor, sequence: Sequence, memory, block: str, at: At, N: Callable) -> Tensor:
        """softmax(q kᵀ/√d_head) v for each head, then W_O; "uniform" is the mean of the values."""
        query = replace(sequence, x=x)
        keys = query if block == "self" else memory
        n, one = query.length, False
        visible = keys.visible_from(n, causal=block == "self" and at.side == "decoder")
        if self.cfg.attention == "uniform":
            heads = self.uniform(keys, visible, block, at, N)  # (…, B, n or 1, d)
            one = heads.shape[-2] != n  # one row per sentence, the same for all its tokens
            y = heads.flatten(-3, -2) if one else query.in_a_row(heads)
        else:
            y = self.softmax(query, keys, visible, block, at, N)
        if self.cfg.output_projection:
            y = self.linear(y, at, block, "W_O")
        if one:
            y = query.in_a_row(y.unflatten(-2, (-1, 1)).expand(*y.shape[:-2], -1, n, -1))
        return self.drop(y) if self.drop else y

    def softmax(self, query: Sequence, keys: Sequence, visible, block: str, at: At, N: Callable) -> Tensor:
        """softmax(q kᵀ/√d_head) v, heads side by side, (…, N, d)."""
        if keys is query:
            made = self.by_head(query, at, block, "QKV")
        else:
            made = *self.by_head(query, at, block, "Q"), *self.by_head(keys, at, block, "KV")
        q, k, v = (self.tap(name, y, at, N) for name, y in zip("qkv", made, strict=True))
        heads = self.attend((at.side, at.layer, block), q, k, v, visible)
        return self.join(query, self.tap("heads", heads, at, N))

    def by_head(self, sequence: Sequence, at: At, block: str, letters: str) -> tuple[Tensor, ...]:
        """x W_Q, x W_K, x W_V for these letters, (…, N, d) → (…, B, H, n, d_head)."""
        made = (sequence.laid_out(self.linear(sequence.x, at, block, f"W_{letter}")) for letter in letters)
        return tuple(y.unflatten(-1, (self.cfg.heads, -1)).transpose(-3, -2) for y in made)

    def join(self, sequence: Sequence, heads: Tensor) -> Tensor:
        """Heads side by side, (…, B, H, n, d_head) → (…, N, d)."""
        return sequence.in_a_row(heads.transpose(-3, -2).flatten(-2))

    def attend(self, name: tuple, q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None) -> Tensor:
        """softmax(q kᵀ/√d_head) v, (…, B, H, n, d_head)."""
        scores = torch.bmm(flat(q) * (1 / sqrt(q.shape[-1])), flat(k).mT)  # (…·B·H, n, m)
        if visible is not None:
            scores = scores.view(*q.shape[:-1], -1).masked_fill(~visible, -torch.inf).flatten(0, -3)
        weights = scores.softmax(-1)
        heads = torch.bmm(weights, flat(v)).view(q.shape)
        self.watch.attention(name, q, k, v, weights.view(*q.shape[:-1], -1), heads)
        return heads

    def uniform(self, keys: Sequence, visible, block: str, at: At, N: Callable) -> Tensor:
        """The mean of the values. The mean of x is taken before W_V, which is faster, unless a tap comes between."""

        def tap(name, y):  # as softmax attention gives it: (…, n, d) → (…, H, n, d_head), and back
            if name not in self.cfg.placement.taps:
                return y
            y = y.unflatten(-1, (self.cfg.heads, -1)).transpose(-3, -2)
            return self.tap(name, y, at, N).transpose(-3, -2).flatten(-2)

        def mean(x):  # (…, N, d) → (…, B, n or 1, d)
            return average(keys.laid_out(x), visible)

        if "v" in self.cfg.placement.taps:
            return tap("heads", mean(tap("v", self.linear(keys.x, at, block, "W_V"))))
        y = self.linear(mean(keys.x).flatten(-3, -2), at, block, "W_V")
        return tap("heads", y.unflatten(-2, (keys.batch, -1)))


class SmallWeights(Transformer):
    """A forward pass that collects the weights that are not matrices: gains and biases of norms, those of the rule."""

    def __init__(self, cfg: ModelConfig, weights):
        super().__init__(cfg, weights)
        self.found: dict[tuple, Tensor] = {}

    def norm(self, x, name, at):
        width = x.shape[-1]
        self.found[*name, "gain"], self.found[*name, "bias"] = torch.ones(width), torch.zeros(width)
        return super().norm(x, name, at)

    def learned(self, name, start, per):
        shape = {"": (), "head": (self.cfg.heads, 1, 1), "feature": (self.cfg.width,)}[per]
        self.found[name] = torch.full(shape, start)
        return start


@torch.no_grad()
def small_weights(cfg: ModelConfig, weights: dict[tuple, Tensor], dtype=torch.float32) -> dict[tuple, Tensor]:
    """The weights that are not matrices, by name, at their start; found by a forward pass with the matrices."""
    look = SmallWeights(cfg, weights)
    look(*(Sequence(torch.ones(2, cfg.width, dtype=dtype)) for _ in cfg.sides))
    return {name: start.to(dtype) for name, start in look.found.items()}
