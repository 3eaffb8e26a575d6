"""The forward pass with its own backward pass, which is faster than autograd and gives the gradient of every signal.

The model runs on nodes instead of tensors. Each step of the forward pass notes on the tape how a gradient passes back
through it; `Tape.back` then reads the tape from its end. There are no second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import cast

import torch
from torch import Tensor

from lntutor.model.placements import Arithmetic, At
from lntutor.model.rule import EPS
from lntutor.model.transformer import Sequence, Transformer, flat

Steps = list[tuple["Node", "Node | None", Callable, tuple]]  # (output, input, pull, saved): see `Node.then`


class Node(Arithmetic):
    """A tensor on a tape. `back` sums ∂L/∂value in `grad`, which stays None where no path leads to the loss.

    A node that is not `live` gets no gradient: it depends on the inputs alone, not on weights.
    """

    __slots__ = ("grad", "live", "steps", "value")

    def __init__(self, steps: Steps, value: Tensor, live: bool = True):
        self.steps, self.value, self.live, self.grad = steps, value, live, None

    @property
    def shape(self) -> torch.Size:
        return self.value.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.value.dtype

    @property
    def gradient(self) -> Tensor:
        """`grad`, or zeros where no path leads to the loss."""
        return torch.zeros_like(self.value) if self.grad is None else self.grad

    def receive(self, g: Tensor) -> None:
        """grad ← grad + g; never in place, as both terms of a sum get the same g."""
        if self.live:
            self.grad = g if self.grad is None else self.grad + g

    def receive_product(self, g: Tensor, weight: Tensor) -> None:
        """grad ← grad + g Wᵀ, the gradient of x W."""
        if not self.live:
            return
        if self.grad is None:
            self.grad = g @ weight.mT
        else:
            self.grad = (torch.addmm if g.ndim == 2 else torch.baddbmm)(self.grad, g, weight.mT)

    def then(self, value: Tensor, pull: Callable[..., Tensor], *saved) -> Node:
        """A node computed from this one alone; a gradient g there is pull(g, *saved) here."""
        y = Node(self.steps, value, self.live)
        if self.live:
            self.steps.append((y, self, pull, saved))
        return y

    # What a rule may do

    def __add__(self, other: Node) -> Node:
        y = Node(self.steps, self.value + other.value, self.live or other.live)
        self.steps.append((y, None, to_both, (self, other)))
        return y

    def __neg__(self) -> Node:
        return self.then(-self.value, torch.neg)

    def __mul__(self, factor: float | Tensor) -> Node:
        if not isinstance(factor, Tensor) and factor == 0:  # no path leads back: an exact zero, not a faint gradient
            return Node(self.steps, self.value * factor, live=False)
        return self.then(self.value * factor, torch.mul, factor)

    def tanh(self) -> Node:
        """tanh′ = 1 − tanh²."""
        y = self.value.tanh()
        return self.then(y, torch.ops.aten.tanh_backward, y)

    # Other steps of the model

    def layer_norm(self) -> Node:
        """(x − μ)/√(σ² + ε) over features."""
        y, mean, scale = torch.native_layer_norm(self.value, self.shape[-1:], None, None, EPS)
        return self.then(y, from_layer_norm, self.value, mean, scale)

    def rms_norm(self) -> Node:
        """y = x/r with r = √(mean x² + ε); back: (g − y mean(g∘y))/r."""
        scale = (self.value.square().mean(-1, keepdim=True) + EPS).rsqrt()
        y = self.value * scale
        return self.then(y, lambda g, y, scale: (g - y * (g * y).mean(-1, keepdim=True)) * scale, y, scale)

    def flatten(self, start: int, end: int = -1) -> Node:
        return self.then(self.value.flatten(start, end), torch.reshape, self.shape)

    def unflatten(self, dim: int, sizes: tuple[int, ...]) -> Node:
        return self.then(self.value.unflatten(dim, sizes), torch.reshape, self.shape)

    def transpose(self, a: int, b: int) -> Node:
        return self.then(self.value.transpose(a, b), torch.transpose, a, b)

    def expand(self, *sizes: int) -> Node:
        return self.then(self.value.expand(*sizes), Tensor.sum_to_size, self.shape)

    def mean(self, dim: int, keepdim: bool) -> Node:
        y = self.value.mean(dim, keepdim=keepdim)
        return self.then(y, lambda g, shape: (g / shape[dim]).expand(shape), self.shape)

    def __rmatmul__(self, matrix: Tensor) -> Node:
        return self.then(matrix @ self.value, lambda g, matrix: matrix.mT @ g, matrix)


# How gradients pass back


def to_both(g: Tensor, a: Node, b: Node) -> None:
    """Through a + b."""
    a.receive(g)
    b.receive(g)


def from_layer_norm(g: Tensor, x: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """Through LayerNorm without gain and bias."""
    wanted = [True, False, False]  # the gradient at x, not at gain and bias
    return torch.ops.aten.native_layer_norm_backward(g, x, x.shape[-1:], mean, scale, None, None, wanted)[0]


def from_attention(g: Tensor, q: Node, k: Node, v: Node, P: Tensor, scale: float) -> None:
    """Through P v with P = softmax(q kᵀ·scale): Pᵀg at v, s = P∘(gvᵀ − Σ P∘gvᵀ) at the scores, s k at q, sᵀ q at k."""
    Q, K, V, g = flat(q.value), flat(k.value), flat(v.value), flat(g)
    v.receive(torch.bmm(P.mT, g).view(v.shape))
    if P.shape[-1] > 1:  # else the only key has weight 1, whatever its score
        back = torch._softmax_backward_data  # pyright: ignore[reportPrivateImportUsage] - missing from torch's stubs
        slope = back(torch.bmm(g, V.mT), P, -1, P.dtype)
        q.receive(torch.baddbmm(Q, slope, K, beta=0, alpha=scale).view(q.shape))
        k.receive(torch.baddbmm(K, slope.mT, Q, beta=0, alpha=scale).view(k.shape))


def from_heads(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(…, B, H, n, d_head) → (…, B·n, d)."""
    return g.transpose(-3, -2).reshape(shape)


def to_heads(g: Tensor, batch: int, heads: int) -> Tensor:
    """(…, B·n, d) → (…, B, H, n, d_head)."""
    return g.view(*g.shape[:-2], batch, -1, heads, g.shape[-1] // heads).transpose(-3, -2)


class Tape(Transformer):
    """The forward pass of `cfg` on nodes, and the backward pass. A watch is given nodes in place of tensors."""

    def __init__(self, cfg, weights, watch=None):
        super().__init__(cfg, weights, watch)
        self.steps: Steps = []

    def node(self, x: Tensor, live: bool = True) -> Node:
        """A tensor as a node without inputs."""
        return Node(self.steps, x, live)

    def close(self) -> None:
        """Free the nodes, which would otherwise live on, as nodes and steps refer to each other."""
        self.steps.clear()

    def back(self, *ends: tuple[Node, Tensor]) -> None:
        """Give every node its gradient, from pairs of an output and the gradient there; this empties the tape."""
        for out, g in ends:
            out.receive(g)
        while self.steps:
            node, source, pull, saved = self.steps.pop()
            if node.grad is None:
                continue
            if source is None:
                pull(node.grad, *saved)  # passes the gradient to several nodes by itself
            else:
                source.receive(pull(node.grad, *saved))

    def norm(self, x: Node, name: tuple, at: At) -> Node:
        """LayerNorm, RMSNorm or the placement's own; at initialisation gains are 1 and biases 0."""
        if self.cfg.placement.norm:
            return self.cfg.placement.norm(x, at)
        return x.layer_norm() if self.cfg.norm == "layer" else x.rms_norm()

    def variance(self, x: Node) -> Tensor:
        return super().variance(x.value)

    def linear(self, x: Node, at: At, block: str, parameter: str) -> Node:
        """x W, reported to the watch; the output is live, as W's gradient needs the gradient there."""
        name = (at.side, at.layer, block, parameter)
        weight = self.weights[name]
        y = Node(self.steps, x.value @ weight)
        self.steps.append((y, None, x.receive_product, (weight,)))
        self.watch.matmul(name, x, y)
        return y

    def relu(self, x: Node) -> Node:
        """max(x, 0), in place, as nothing else reads x W_1."""
        y = x.value.relu_()
        return x.then(y, torch.ops.aten.threshold_backward, y, 0)

    def by_head(self, sequence: Sequence, at: At, block: str, letters: str) -> tuple[Node, ...]:
        """x W_Q, x W_K, x W_V for these letters, (…, N, d) → (…, B, H, n, d_head)."""
        x = cast(Node, sequence.x)  # on a tape, a sequence holds a node
        made = [self.linear(x, at, block, f"W_{letter}") for letter in letters]
        return tuple(y.then(to_heads(y.value, sequence.batch, self.cfg.heads), from_heads, y.shape) for y in made)

    def join(self, sequence: Sequence, heads: Node) -> Node:
        """Heads side by side, (…, B, H, n, d_head) → (…, N, d)."""
        *before, batch, H, n, width = heads.shape
        y = from_heads(heads.value, (*before, batch * n, H * width))
        return heads.then(y, to_heads, batch, H)

    def attend(self, name: tuple, q: Node, k: Node, v: Node, visible: Tensor | None) -> Node:
        """P v with P = softmax(q kᵀ/√d_head), (…, B, H, n, d_head)."""
        scale = 1 / sqrt(q.shape[-1])
        scores = torch.baddbmm(self.mask(q, visible), flat(q.value), flat(k.value).mT, alpha=scale)
        P = scores.softmax(-1)  # (…·B·H, n, m)
        y = Node(self.steps, torch.bmm(P, flat(v.value)).view(q.shape))
        self.steps.append((y, None, from_attention, (q, k, v, P, scale)))
        self.watch.attention(name, q, k, v, P.view(*q.shape[:-1], -1), y)
        return y

    def mask(self, q: Node, visible: Tensor | None) -> Tensor:
        """To add to the scores, (…·B·H or 1, n, m): 0, and −∞ where a key is hidden."""
        if visible is None:
            return q.value.new_zeros(1, 1, 1)
        hidden = torch.zeros(visible.shape, dtype=q.dtype).masked_fill_(~visible, -torch.inf)
        return hidden[0] if len(visible) == 1 else flat(hidden.expand(*q.shape[:-2], *visible.shape[-2:]))
