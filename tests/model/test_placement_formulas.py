"""Placements with hooks against their papers' formulas in plain torch: forward, and the gradient of every weight.

Nothing of the package runs in the formulas. Every bias, gain and learned number is moved from where it starts, so that
one in the wrong place would show.
"""

from math import sqrt

import pytest
import torch

import lntutor as ln
from lntutor.model.placements import STACKS
from lntutor.model.transformer import Sequence, Transformer
from lntutor.model.weight_bank import Weights
from lntutor.training.network import initial_weights
from tests.reference import moved_weights

D, HEADS, F, L, N = 12, 3, 20, 2, 5


def layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain + bias


class Side:
    """One side's weights, and what papers write with them: MHA, FFN, LN, DyT."""

    def __init__(self, weights, side, memory, attention="softmax"):
        self.weights, self.side, self.memory, self.kind = weights, side, memory, attention
        self.blocks = ("self", "cross") if memory is not None else ("self",)

    def w(self, *name):
        return self.weights[self.side, *name]

    def linear(self, x, layer, block, letter):
        return x @ self.w(layer, block, f"W_{letter}") + self.w(layer, block, f"b_{letter}")

    def LN(self, x, layer, number, part="norm"):
        return layer_norm(x, self.w(layer, part, number, "gain"), self.w(layer, part, number, "bias"))

    def attention(self, x, layer, block, normalised=False, head_gain=None):
        """Concat(γ_h softmax(q_h k_hᵀ/√d_h) v_h) W_O, head by head; q, k, v normalised in each head where asked."""
        source, outputs = x if block == "self" else self.memory, []
        v = self.linear(source, layer, block, "V")
        if self.kind == "softmax":
            q, k = self.linear(x, layer, block, "Q"), self.linear(source, layer, block, "K")
        visible = torch.ones(len(x), len(source), dtype=torch.bool)
        if self.side == "decoder" and block == "self":
            visible = visible.tril()
        for h, part in enumerate(torch.arange(D).chunk(HEADS)):
            values, scores = v[:, part], torch.zeros(len(x), len(source), dtype=torch.float64)
            if normalised:
                values = self.LN(values, layer, 2 if self.kind == "softmax" else 0, f"{block} norm")
            if self.kind == "softmax":
                one, other = q[:, part], k[:, part]
                if normalised:
                    one, other = (self.LN(t, layer, i, f"{block} norm") for i, t in enumerate((one, other)))
                scores = one @ other.T / sqrt(len(part))
            share = torch.where(visible, scores, -torch.inf).softmax(-1)
            outputs.append(share @ values * (1 if head_gain is None else head_gain[h]))
        return self.linear(torch.cat(outputs, -1), layer, block, "O")

    def hidden(self, x, layer):
        return self.linear(x, layer, "ffn", "1").clamp_min(0)

    def ffn(self, x, layer):
        return self.linear(self.hidden(x, layer), layer, "ffn", "2")

    def sub_layer(self, x, layer, block):
        return self.ffn(x, layer) if block == "ffn" else self.attention(x, layer, block)


def admin(s, x):
    """Liu et al. 2020: b = ω⊙x + f(x), x ← LN(b); ω² starts at 1 + Σ Var f."""
    growth = 1.0
    for layer in range(1, L + 1):
        for i, block in enumerate((*s.blocks, "ffn")):
            branch = s.sub_layer(x, layer, block)
            x = s.LN(sqrt(growth) * s.w(layer, "learned", i, "ω") * x + branch, layer, i)
            growth += float(branch.detach().square().mean())
    return x


def tfixup(s, x):
    """Huang et al. 2020: no norm; the factors are in the weights and have a test of their own."""
    for layer in range(1, L + 1):
        for block in (*s.blocks, "ffn"):
            x = x + s.sub_layer(x, layer, block)
    return x


def normformer(s, x):
    """Shleifer et al. 2021: x + LN(HeadScaleMHA(LN(x))), then x + W_2 LN(ReLU(W_1 LN(x)))."""
    for layer in range(1, L + 1):
        for i, block in enumerate(s.blocks):
            gain = s.w(layer, "learned", i, "γ").flatten()
            x = x + s.LN(s.attention(s.LN(x, layer, 2 * i), layer, block, head_gain=gain), layer, 2 * i + 1)
        inside = s.LN(s.hidden(s.LN(x, layer, 2 * len(s.blocks)), layer), layer, 0, "ffn norm")
        x = x + s.linear(inside, layer, "ffn", "2")
    return s.LN(x, L + 1, 0)


def hybrid(s, x):
    """Zhuo et al. 2025: y = x + MHA with LN on q, k, v; x ← FFN(LN(y)) + LN(y)."""
    for layer in range(1, L + 1):
        for block in s.blocks:
            x = x + s.attention(x, layer, block, normalised=True)
        x = s.ffn(s.LN(x, layer, 0), layer) + s.LN(x, layer, 0)
    return s.LN(x, L + 1, 0)


def dyt(s, x):
    """Zhu et al. 2025: Pre-LN with γ tanh(αx) + β for LN."""

    def DyT(x, layer, i):
        gain, bias = (s.w(layer, "norm", i, part) for part in ("gain", "bias"))
        return gain * torch.tanh(s.w(layer, "learned", i, "α") * x) + bias

    for layer in range(1, L + 1):
        for i, block in enumerate((*s.blocks, "ffn")):
            x = x + s.sub_layer(DyT(x, layer, i), layer, block)
    return DyT(x, L + 1, 0)


FORMULAS = {f.__name__: f for f in (admin, tfixup, normformer, hybrid, dyt)}


@pytest.mark.parametrize("attention", ["softmax", "uniform"])
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("key", FORMULAS)
def test_forward_and_every_gradient_are_those_of_the_papers_formula(key, stack, attention):
    """Oracle: the formulas above, in float64, with every weight moved from where it starts."""
    cfg = ln.ModelConfig(key, L, D, HEADS, F, stack, attention)
    weights = moved_weights(cfg)
    random = torch.Generator().manual_seed(1)
    inputs = [torch.randn(N, D, generator=random, dtype=torch.float64, requires_grad=True) for _ in cfg.sides]
    probe = torch.randn(N, D, generator=random, dtype=torch.float64)
    out, expected = Transformer(cfg, weights)(*map(Sequence, inputs)), None
    for side, x in zip(cfg.sides, inputs, strict=True):
        expected = FORMULAS[key](Side(weights, side, expected, attention), x)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    leaves = [*weights.values(), *inputs]
    ours, theirs = (torch.autograd.grad((y * probe).sum(), leaves, materialize_grads=True) for y in (out, expected))
    for name, a, b in zip([*weights, *cfg.sides], ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}")
    still = [name for name, g in zip(weights, theirs, strict=False) if g.abs().max() < 1e-12]
    if attention == "softmax":  # which does not see what is added to all keys alike; of all else nothing goes unread
        assert all(name[-1] == "b_K" or (name[3:] == (1, "bias") and key == "hybrid") for name in still)


def test_what_learns_starts_where_its_paper_says():
    """Oracle: α = ½ in every norm, γ = 1 in every head, ω's own part 1, one number per feature."""
    starts = {"dyt": ("α", 0.5, ()), "normformer": ("γ", 1.0, (HEADS, 1, 1)), "admin": ("ω", 1.0, (D,))}
    counts = {"dyt": 2 * L + 1 + 3 * L + 1, "normformer": L + 2 * L, "admin": 2 * L + 3 * L}
    for key, (letter, start, shape) in starts.items():
        weights = initial_weights(ln.ModelConfig(key, L, D, HEADS, F), 0, (7, 7))
        found = [w for name, w in weights.items() if name[-1] == letter]
        assert len(found) == counts[key]
        assert all(w.shape == shape and (w == start).all() for w in found)


def test_tfixup_multiplies_weights_and_embeddings_as_its_paper_says():
    """Oracle: 0.67 N^-¼ and (9M)^-¼ at N = M = 6 by hand, on matrices, learned embeddings and Gaussian inputs."""
    cfg = ln.ModelConfig("tfixup", 6, 16, 2, 24)
    ours, plain = (initial_weights(c, 0, (9, 9), torch.float64) for c in (cfg, cfg.with_(placement="none")))
    factors = {"encoder": 0.67 / 6**0.25, "decoder": 54**-0.25}
    for name, w in ours.items():
        factor = factors[name[0]] if name[-1] in ("W_V", "W_O", "W_1", "W_2") else 1.0
        factor = 54**-0.25 if name[0] == "embedding" else factor
        torch.testing.assert_close(w, plain[name] * factor)
    for side in cfg.sides:
        (one,), (other,) = (
            table[(table.side == side) & (table.site == "in")].value
            for table in (ln.signal_norms(c, seeds=0) for c in (cfg, cfg.with_(placement="none")))
        )
        assert one == pytest.approx(other / sqrt(54), rel=1e-5)


def test_admin_starts_as_the_function_of_pre_ln():
    """Oracle: Pre-LN's own output on normalised inputs: equal but for what x and f(x) share by chance, O(1/√d)."""
    apart = {}
    for width in (64, 576):
        outs = []
        for key in ("admin", "pre"):
            cfg = ln.ModelConfig.theorem(key, 3, width)
            x = torch.randn(1, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            x = torch.nn.functional.layer_norm(x, (width,))
            with torch.no_grad():
                runs = [Transformer(cfg, Weights(cfg, (seed,), torch.float64)) for seed in range(4)]
                outs.append(torch.cat([model(Sequence(x)) for model in runs]))
        apart[width] = float((outs[0] - outs[1]).norm() / outs[1].norm())
    assert apart[576] < 0.04  # 0.013 here, 0.09 at width 64; √(576/64) = 3, and four networks scatter
    assert apart[576] < apart[64] / 2
