"""The forward pass with second derivatives written by hand: fewer and larger steps than autograd's, so faster.

Each operation is a pair: `X`, and its derivative `XSlope`, which has a derivative itself. A product with the Hessian
needs not a weight's gradient but only the gradient's derivative, so `XSlope` returns a placeholder for the gradient
(`unknown`). A backward pass that is not differentiated again gives the true gradients.
"""
# pyright: reportIncompatibleMethodOverride=false
# As usual in torch, backward names its gradients, where the base class Function has *grad_outputs.

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from lntutor.model.rule import EPS
from lntutor.model.transformer import Sequence, Transformer


def unknown(weight: Tensor) -> Tensor:
    """A placeholder for a gradient that nothing reads: shaped like the weight, without memory."""
    return weight.new_zeros(()).expand_as(weight)


class Linear(Function):
    """x W + b."""

    @staticmethod
    def forward(ctx, x, W, b):
        ctx.save_for_backward(x, W)
        return torch.addmm(b, x, W)

    @staticmethod
    def backward(ctx, g):
        x, W = ctx.saved_tensors
        if torch.is_grad_enabled():
            return LinearSlope.apply(x, W, g)
        return g @ W.T, x.T @ g, g.sum(0)


class LinearSlope(Function):
    """Its derivatives g Wᵀ, xᵀg and Σ g, the latter two unknown."""

    @staticmethod
    def forward(ctx, x, W, g):
        ctx.save_for_backward(x, W, g)
        ctx.set_materialize_grads(False)
        return g @ W.T, unknown(W), unknown(W[0])

    @staticmethod
    @once_differentiable
    def backward(ctx, u, V, v):  # gradients at the three outputs; None is zero
        x, W, g = ctx.saved_tensors
        to_g = torch.zeros_like(g) if V is None else x @ V
        if v is not None:
            to_g += v
        if u is not None:
            to_g.addmm_(u, W)
        return None if V is None else g @ V.T, None if u is None else u.T @ g, to_g


class Relu(Function):
    """max(x, 0)."""

    @staticmethod
    def forward(ctx, x):
        y = x.relu()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return ReluSlope.apply(g, ctx.saved_tensors[0])


class ReluSlope(Function):
    """Its derivative: g where y > 0. The gradient at y is None; torch's own operation would allocate zeros there."""

    @staticmethod
    def forward(ctx, g, y):
        ctx.save_for_backward(y)
        return torch.ops.aten.threshold_backward(g, y, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx, u):
        return torch.ops.aten.threshold_backward(u, ctx.saved_tensors[0], 0), None


class LayerNorm(Function):
    """γ x̂ + β with x̂ = r (x − mean x) and r = 1/√(var x + ε), over the last axis."""

    @staticmethod
    def forward(ctx, x, gain, bias):
        y, mean, r = torch.native_layer_norm(x, x.shape[-1:], gain, bias, EPS)
        ctx.save_for_backward(x, mean, r, gain, bias)
        return y

    @staticmethod
    def backward(ctx, g):
        x, mean, r, gain, bias = ctx.saved_tensors
        if torch.is_grad_enabled():
            return LayerNormSlope.apply(x, gain, g, mean, r)
        how = x.shape[-1:], mean, r, gain, bias, [True, True, True]
        return torch.ops.aten.native_layer_norm_backward(g, x, *how)


class LayerNormSlope(Function):
    """Its derivatives: s(γg), where s(h) = r (h − mean h − x̂ mean(h x̂)), and those by γ and β, unknown."""

    @staticmethod
    def forward(ctx, x, gain, g, mean, r):
        slope = project(gain * g, x, mean, r)
        ctx.save_for_backward(x, gain, g, mean, r, slope)
        return slope, unknown(gain), unknown(gain)

    @staticmethod
    @once_differentiable
    def backward(ctx, u, v_gain, v_bias):
        x, gain, g, mean, r, slope = ctx.saved_tensors
        unit = (x - mean) * r
        su = project(u, x, mean, r)
        to_g = torch.addcmul(torch.addcmul(v_bias, unit, v_gain), su, gain)
        to_gain = (g * su).flatten(0, -2).sum(0)
        # ⟨u, slope⟩ = r (⟨u, γg⟩ − d mean u mean γg − ⟨u, x̂⟩⟨γg, x̂⟩/d) depends on x by r and by x̂
        a, b, c = ((p * q).mean(-1, keepdim=True) for p, q in ((gain * g, unit), (u, unit), (u, slope)))
        bent = a * su + b * slope + c * unit
        to_x = project(v_gain * g, x, mean, r).addcmul_(bent, r, value=-1)
        return to_x, to_gain, to_g, None, None


def project(h: Tensor, x: Tensor, mean: Tensor, r: Tensor) -> Tensor:
    """s(h), the derivative of x̂ in direction h; it is symmetric, so also the gradient."""
    how = x.shape[-1:], mean, r, None, None, [True, False, False]
    return torch.ops.aten.native_layer_norm_backward(h, x, *how)[0]


class Attention(Function):
    """A v and A = softmax(c q kᵀ), c = 1/√d_head, over what is visible; q, k, v are (B·H, n or m, d_head)."""

    @staticmethod
    def forward(ctx, q, k, v, hidden, heads):
        A = torch.bmm(q, k.mT).mul_(q.shape[-1] ** -0.5)  # (B·H, n, m)
        if hidden is not None:
            A.unflatten(0, (-1, heads)).masked_fill_(hidden, -torch.inf)
        A.sub_(A.amax(-1, keepdim=True)).exp_()
        A.div_(A.sum(-1, keepdim=True))
        ctx.save_for_backward(q, k, v, A)
        return torch.bmm(A, v), A

    @staticmethod
    def backward(ctx, g, to_A):
        q, k, v, A = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *AttentionSlope.apply(q, k, v, A, g), None, None
        S = A * centred(torch.baddbmm(to_A, g, v.mT), A) * q.shape[-1] ** -0.5
        return torch.bmm(S, k), torch.bmm(S.mT, q), torch.bmm(A.mT, g), None, None


class AttentionSlope(Function):
    """Its derivatives S k, Sᵀq and Aᵀg, where S = c A ∘ M is the derivative by the scores.

    M is g vᵀ minus its mean under A. The gradient at A may differ by a constant per row, which the softmax that it
    passes next ignores.
    """

    @staticmethod
    def forward(ctx, q, k, v, A, g):
        M = centred(torch.bmm(g, v.mT), A)
        ctx.save_for_backward(q, k, v, A, g, M)
        S = A * M * q.shape[-1] ** -0.5
        return torch.bmm(S, k), torch.bmm(S.mT, q), torch.bmm(A.mT, g)

    @staticmethod
    @once_differentiable
    def backward(ctx, uq, uk, uv):
        q, k, v, A, g, M = ctx.saved_tensors
        c = q.shape[-1] ** -0.5
        S = A * M * c
        E = centred(torch.bmm(uq, k.mT).baddbmm_(q, uk.mT).mul_(c), A)  # to M
        to_A = torch.bmm(g, uv.mT).addcmul_(E, M)
        E *= A  # to g vᵀ
        to_g = torch.bmm(A, uv).baddbmm_(E, v)
        return torch.bmm(S, uk), torch.bmm(S.mT, uq), torch.bmm(E.mT, g), to_A, to_g


def centred(M: Tensor, A: Tensor) -> Tensor:
    """M minus the mean of each row, weighted by A; in place."""
    return M.sub_((A * M).sum(-1, keepdim=True))


class Take(Function):
    """rows[there]. Its derivative is g[back]: the places that `back` leaves out are padding, with g = 0."""

    @staticmethod
    def forward(ctx, rows, there, back):
        ctx.save_for_backward(there, back)
        return rows.index_select(0, there)

    @staticmethod
    def backward(ctx, g):
        there, back = ctx.saved_tensors
        return Take.apply(g, back, there), None, None


def rows_of(sequence: Sequence, parts: int, heads: int) -> tuple[Tensor, Tensor]:
    """Indices from (N, parts, H) rows to (parts, B, H, n) places, and back."""
    packing, B, n = sequence.packing, sequence.batch, sequence.length
    assert packing is not None  # the callers have checked
    if (parts, heads) not in packing.rows:
        rows = torch.arange(len(packing.places) * parts * heads).view(-1, parts, heads)
        there = rows[packing.words].view(B, n, parts, heads).permute(2, 0, 3, 1)
        places = torch.arange(there.numel()).view(parts, B, heads, n)
        back = places.permute(1, 3, 0, 2).flatten(0, 1)[packing.places]
        packing.rows[parts, heads] = there.flatten(), back.flatten()
    return packing.rows[parts, heads]


class Twice(Transformer):
    """The forward pass made of these operations."""

    def linear(self, x, at, block, parameter):
        bias = self.weights.get((at.side, at.layer, block, parameter.replace("W", "b")))
        if bias is None or x.ndim != 2:
            return super().linear(x, at, block, parameter)
        return Linear.apply(x, self.weights[at.side, at.layer, block, parameter], bias)

    def relu(self, x):
        return Relu.apply(x)

    def norm(self, x, name, at):
        gain, bias = self.weights.get((*name, "gain")), self.weights.get((*name, "bias"))
        if self.cfg.placement.norm or self.cfg.norm != "layer" or gain is None:
            return super().norm(x, name, at)
        return LayerNorm.apply(x, gain, bias)

    def by_head(self, sequence, at, block, letters):
        """One matrix product for all letters, and one step from words to heads and sentences."""
        place = at.side, at.layer, block
        W = torch.cat([self.weights[*place, f"W_{letter}"] for letter in letters], 1)
        b = torch.cat([self.weights[*place, f"b_{letter}"] for letter in letters])
        y, H = Linear.apply(sequence.x, W, b), self.cfg.heads
        if sequence.packing is None:
            y = sequence.laid_out(y).unflatten(-1, (len(letters), H, -1)).permute(2, 0, 3, 1, 4)
            return y.contiguous().unbind()
        y = Take.apply(y.view(-1, self.cfg.width // H), *rows_of(sequence, len(letters), H))
        return y.view(len(letters), sequence.batch, H, sequence.length, -1).unbind()

    def join(self, sequence, heads):
        """(B, H, n, d_head) → (N, d); padding is set to 0 for the derivative, as `Take` needs it."""
        if sequence.packing is None or sequence.real is None:
            return super().join(sequence, heads)
        there, back = rows_of(sequence, 1, self.cfg.heads)
        rows = (heads * sequence.real[:, None, :, None]).view(-1, heads.shape[-1])
        return Take.apply(rows, back, there).view(-1, self.cfg.width)

    def attend(self, name, q, k, v, visible):
        flat = (t.reshape(-1, *t.shape[-2:]) for t in (q, k, v))
        return Attention.apply(*flat, None if visible is None else ~visible, q.shape[-3])[0].view(q.shape)
