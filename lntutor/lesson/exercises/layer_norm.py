"""Exercises of 02_layer_norm. References are torch's own norms, its autograd and a closed form."""

from __future__ import annotations

from math import sqrt

import torch
from torch.nn.functional import layer_norm as torch_layer_norm
from torch.nn.functional import rms_norm as torch_rms_norm

from lntutor.lesson.exercises import Exercise, Mistake, maker, normal


def _tokens(random, *shape: int) -> torch.Tensor:
    """Tokens (…, d) of which each has a mean and a size of its own, so that no two axes look alike."""
    each = (*shape[:-1], 1)
    size = torch.tensor(random.uniform(0.5, 3.0, each), dtype=torch.float32)
    return 2 * normal(random, *each) + size * normal(random, *shape) + 0.5


def _gain(random, d: int) -> torch.Tensor:
    """Positive, and never all alike."""
    return torch.tensor(random.uniform(0.5, 2.0, d), dtype=torch.float32)


Axes = int | tuple[int, ...]


# Write layer normalization -------------------------------------------------------------------------------------


def _layer_norm(x, gamma, beta, eps):
    return torch_layer_norm(x, x.shape[-1:], gamma, beta, eps)


def _by_hand(axes: Axes = -1, centre=True, size=lambda variance, count, eps: (variance + eps).sqrt(), affine=True):
    """Layer normalization with one thing changed; `size` is what the centred x is divided by."""

    def layer_norm(x, gamma, beta, eps):
        y = x - x.mean(axes, keepdim=True)
        variance = y.square().mean(axes, keepdim=True)
        out = (y if centre else x) / size(variance, x.numel() / variance.numel(), eps)
        return out * gamma + beta if affine else out

    return layer_norm


def _bessel(variance, count, eps):
    return (variance * count / (count - 1) + eps).sqrt()


def _example(random) -> tuple:
    """The example of the lesson, whose first coordinate becomes √3."""
    return torch.eye(4)[:1, None], torch.ones(4), torch.zeros(4), 1e-5


@maker
def _batch(random, sentences: int, tokens: int, d: int, eps: float):
    x = _tokens(random, sentences, tokens, d)
    if eps > 0.01:
        x[0, 0] = 1.5  # equal features: only ε is left to divide by
    return x, _gain(random, d), normal(random, d), eps


LAYER_NORM = Exercise(
    "layer_norm", "function", _layer_norm,
    shows="Your layer normalization equals torch's on tensors of several shapes, and turns [1, 0, 0, 0] into "
    "[1.732, −0.577, −0.577, −0.577]. Each token is normalised on its own, over its features.",
    hint="Hint 1 has the steps in order; Hint 2 has the shapes.",
    inputs=(_example, _batch(2, 3, 8, 1e-5), _batch(3, 2, 5, 0.5)),
    mistakes=(
        Mistake("the slide's σ",
            "Your output is √d times too large, so its variance is d. The factor 1/d belongs to the sum of squares: "
            "should it stand inside the root or before it?",
            (_by_hand(size=lambda v, count, eps: ((v + eps) / count).sqrt()),
             _by_hand(size=lambda v, count, eps: (v / count).sqrt() + eps),
             _by_hand(size=lambda v, count, eps: (v / count + eps).sqrt()),
             _by_hand(size=lambda v, count, eps: (v / count).sqrt()))),
        Mistake("Bessel's d − 1",
            "Your output is a little too small, by √((d − 1)/d). LN divides the sum of squares by d: it describes "
            "these d numbers and estimates nothing. What do torch's own variance and standard deviation divide by, "
            "unless you tell them?",
            (_by_hand(size=_bessel),
             _by_hand(size=lambda v, count, eps: _bessel(v, count, 0) + eps),
             _by_hand(size=lambda v, count, eps: _bessel(v, count, 0)))),
        Mistake("ε outside the root",
            "For large x it hardly shows; for small x your output is too large, or too small where ε is large. ε is "
            "added to the variance, before the root is taken.",
            (_by_hand(size=lambda v, count, eps: v.sqrt() + eps),)),
        Mistake("no ε",
            "A token whose features are all equal has variance 0, and you divide by it. Where does ε go, so that the "
            "divisor is never 0?",
            (_by_hand(size=lambda v, count, eps: v.sqrt()),)),
        Mistake("the wrong axis",
            "You take mean and variance feature by feature, over tokens or sentences. Then a token's output depends "
            "on its neighbours. Which axis holds the d features of one token?",
            (_by_hand(axes=1), _by_hand(axes=0), _by_hand(axes=(0, 1)))),
        Mistake("one σ for several tokens",
            "Several tokens share one mean and one variance. Then the whole has variance 1, and no single token need "
            "have it. How many means should a tensor of 2 sentences and 3 tokens give?",
            (_by_hand(axes=(1, 2)), _by_hand(axes=(0, 1, 2)), _by_hand(axes=(0, 2)))),
        Mistake("variance, not its root",
            "You divide by the variance. To bring the variance to 1, what must a number be divided by?",
            (_by_hand(size=lambda v, count, eps: v + eps),)),
        Mistake("mean left in",
            "The size is right, and the mean is still there: each token must be centred before it is divided.",
            (_by_hand(centre=False),)),
        Mistake("γ and β left out",
            "Mean 0 and variance 1 are reached. Gain and bias come after that, one of each for every feature.",
            (_by_hand(affine=False),)),
    ),
)  # fmt: skip


# The backward pass ---------------------------------------------------------------------------------------------


def _backward(g, x, gamma, eps):
    """Torch's autograd."""
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad(_layer_norm(leaf, gamma, None, eps), leaf, g)[0]


def _by_formula(gain=True, mean=True, ray=True, divide=1):
    """The backward pass with one thing changed; `divide` is the power of the size that went in."""

    def layer_norm_backward(g, x, gamma, eps):
        y = x - x.mean(-1, keepdim=True)
        size = (y.square().mean(-1, keepdim=True) + eps).sqrt()
        h, z = g * gamma if gain else g, y / size
        out = h - mean * h.mean(-1, keepdim=True) - ray * z * (h * z).mean(-1, keepdim=True)
        return out / size**divide

    return layer_norm_backward


def _gradients(tokens: int, d: int, eps: float = 1e-5):
    return lambda random: (normal(random, tokens, d), _tokens(random, tokens, d), _gain(random, d), eps)


def _plain(random) -> tuple:
    """One token, γ = 1."""
    return normal(random, 1, 4), _tokens(random, 1, 4), torch.ones(4), 1e-5


BACKWARD = Exercise(
    "layer_norm_backward", "function", _backward,
    shows="Your backward pass equals torch's autograd. It takes the mean and the ray out of the gradient and divides "
    "the rest by the size of what went in.",
    hint="Hint 1 follows the gradient through γ and J; Hint 2 names the three terms.",
    inputs=(_plain, _gradients(3, 8), _gradients(5, 6, 0.5)),
    mistakes=(
        Mistake("μ and σ held fixed",
            "You divide by σ as if it were a number given to you. Mean and σ are made of x too, and a step in x moves "
            "them: two directions of the gradient must go.",
            (_by_formula(mean=False, ray=False),)),
        Mistake("the ray left in",
            "Centring is done. σ depends on x as well: stretching x changes nothing in LN's output, so the part of "
            "the gradient along the normalised x must go.",
            (_by_formula(ray=False),)),
        Mistake("the mean left in",
            "The ray is out. Adding the same number to all features changes nothing in LN's output either, so the "
            "mean of the gradient must go.",
            (_by_formula(mean=False),)),
        Mistake("γ left out",
            "With γ = 1 it is right. In the forward pass γ comes last; what does that mean for the way back?",
            (_by_formula(gain=False),)),
        Mistake("γ at the wrong end",
            "With γ = 1 it is right. You multiply by γ at the end; the way back meets γ first, and the two means that "
            "you take out are those of what comes after it.",
            (lambda g, x, gamma, eps: gamma * _by_formula(gain=False)(g, x, gamma, eps),)),
        Mistake("not divided by the size",
            "The directions are right, and the length is not: backward, LN divides by the size of what went in.",
            (_by_formula(divide=0),)),
        Mistake("divided by the variance",
            "The directions are right. You divide by σ² where σ belongs: compare with x ten times larger.",
            (_by_formula(divide=2),)),
        Mistake("the gradient normalised",
            "You apply LN to the gradient, so its size no longer depends on what came in. LN normalises what goes "
            "forward; a gradient that is twice as large must come out twice as large.",
            (lambda g, x, gamma, eps: torch_layer_norm(g, g.shape[-1:], eps=eps),
             lambda g, x, gamma, eps: torch_layer_norm(g, g.shape[-1:], gamma, eps=eps),
             lambda g, x, gamma, eps: torch_layer_norm(g * gamma, g.shape[-1:], eps=eps))),
    ),
)  # fmt: skip


# RMSNorm -------------------------------------------------------------------------------------------------------


def _rms_norm(x, gamma, eps):
    return torch_rms_norm(x, x.shape[-1:], gamma, eps)


def _divided_by(size, affine=True):
    """A norm: x divided by size(x, eps), and multiplied by γ if `affine`."""
    return lambda x, gamma, eps: x / size(x, eps) * (gamma if affine else 1)


def _mean_square(x, axes: Axes = -1):
    return x.square().mean(axes, keepdim=True)


@maker
def _stretched(random, tokens: int, d: int, eps: float):
    x = _tokens(random, tokens, d) + 1  # a mean that is worth keeping
    if eps > 0.01:
        x[0] = 0
    return x, _gain(random, d), eps


RMS_NORM = Exercise(
    "rms_norm", "function", _rms_norm,
    shows="Your RMSNorm equals torch's. It is LN without the centring: one statistic a token, and the mean passes, "
    "forward and backward.",
    hint="Hint 1 says what is left of LN; Hint 2 spells the name out.",
    inputs=(lambda random: (torch.eye(4)[:1], torch.ones(4), 1e-5), _stretched(3, 8, 1e-5), _stretched(4, 5, 0.5)),
    mistakes=(
        Mistake("this is LN",
            "You subtract the mean, and that is layer normalization. RMSNorm leaves the mean where it is.",
            (lambda x, gamma, eps: torch_layer_norm(x, x.shape[-1:], gamma, eps=eps),)),
        Mistake("σ in place of the root mean square",
            "The mean stays in x, and you divide by a size from which it was taken out. The root mean square is of x "
            "itself.",
            (_divided_by(lambda x, eps: (x.var(-1, correction=0, keepdim=True) + eps).sqrt()),
             _divided_by(lambda x, eps: (x.var(-1, keepdim=True) + eps).sqrt()))),
        Mistake("sum in place of mean",
            "You divide by the length ‖x‖, so the result has length 1. For coordinates of size 1, the squares are "
            "averaged over the d features.",
            (_divided_by(lambda x, eps: (x.square().sum(-1, keepdim=True) + eps).sqrt()),
             _divided_by(lambda x, eps: x.norm(dim=-1, keepdim=True) + eps),
             _divided_by(lambda x, eps: x.norm(dim=-1, keepdim=True)))),
        Mistake("no root",
            "You divide by the mean square. Its root is what has the size of a coordinate.",
            (_divided_by(lambda x, eps: _mean_square(x) + eps),)),
        Mistake("ε outside the root",
            "For large x it hardly shows. As in LN, ε is added to the mean square, before the root is taken.",
            (_divided_by(lambda x, eps: _mean_square(x).sqrt() + eps),)),
        Mistake("no ε",
            "A token of zeros has size 0, and you divide by it. Where does ε go, so that the divisor is never 0?",
            (_divided_by(lambda x, eps: _mean_square(x).sqrt()),)),
        Mistake("one size for all tokens",
            "All tokens share one size. Each token has its own, over its own features.",
            (_divided_by(lambda x, eps: (_mean_square(x, (0, 1)) + eps).sqrt()),
             _divided_by(lambda x, eps: (_mean_square(x, 0) + eps).sqrt()))),
        Mistake("γ left out",
            "The size is 1, as it should be. The gain γ comes after that, one for every feature.",
            (_divided_by(lambda x, eps: (_mean_square(x) + eps).sqrt(), affine=False),)),
    ),
)  # fmt: skip


# What the size does to the gradient ----------------------------------------------------------------------------

POST, PRE = 1.5, 1 + 3 * 10 / 2  # E‖x‖²/d of what the last LN gets, with 10 layers and one token (Lemma 2)

GRADIENT_RATIO = Exercise(
    "gradient_ratio", "value", sqrt(PRE / POST),
    shows="The same gradient leaves Post-LN's last LN 3.27 times larger than Pre-LN's final one: √16 against √1.5 is "
    "what they are divided by. Notebook 04 turns this into Theorem 1.",
    hint="Hint 1 says what LN divides by; Hint 2 has the case of a stream that is 4 times as large.",
    tolerance=2e-3,
    mistakes=(
        Mistake("the ratio of the squares",
            "1.5 and 16 are squared sizes, ‖x‖²/d. LN divides by the size itself.",
            (PRE / POST,)),
        Mistake("upside down",
            "The larger stream gets the smaller gradient. The question is how many times larger Post-LN's is.",
            (sqrt(POST / PRE), POST / PRE)),
        Mistake("no difference",
            "The outputs of the two norms have the same size. Their gradients do not: this is the view that LN "
            "normalises gradients.",
            (1.0,)),
    ),
)  # fmt: skip

EXERCISES = (LAYER_NORM, BACKWARD, RMS_NORM, GRADIENT_RATIO)
