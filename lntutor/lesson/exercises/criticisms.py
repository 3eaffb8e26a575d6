"""Exercises of 07_criticisms. References: torch's attention and entropy, an autograd pass, a rule for sub-layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lntutor.lesson.exercises import Exercise, Mistake, maker, rule
from lntutor.model.checks import short_repr
from lntutor.model.random_streams import random_stream

# Attention with W_Q = W_K = 0 ------------------------------------------------------------------------------------


def _zero_attention(X, W_V):
    nothing = torch.zeros_like(X)
    return F.scaled_dot_product_attention(nothing, nothing, X @ W_V)


def _rows(row, X):
    """One row for every token of X."""
    return row.expand(len(X), -1)


@maker
def _tokens(random, n: int, d: int):
    return torch.tensor(random.standard_normal((n, d)) + 0.5), torch.tensor(random.standard_normal((d, d)))


ZERO_ATTENTION = Exercise(
    "zero_attention", "function", _zero_attention,
    shows="Every token gets the mean of all values, with weights 1/n: softmax runs over the keys. The slide's 1/d is "
    "a slip of one letter, and “a linear layer” leaves out that all rows of the result are the same.",
    hint="Hint 1 has the shape of the scores; Hint 2 counts the rows of the result.",
    inputs=(_tokens(2, 3), _tokens(5, 3), _tokens(3, 8)),
    mistakes=(
        Mistake("one over d",
            "You divided by the width, as the slide does. A query's weights have to sum to 1: how many of them are "
            "there, one for each feature or one for each key?",
            (lambda X, W_V: _rows((X @ W_V).sum(0) / X.shape[1], X), lambda X, W_V: (X @ W_V).sum(0) / X.shape[1])),
        Mistake("one row",
            "The row is right, and every token asks for one of its own. Attention gives as many rows as there are "
            "queries; here they happen to be equal.",
            (lambda X, W_V: (X @ W_V).mean(0), lambda X, W_V: (X @ W_V).mean(0, keepdim=True))),
        Mistake("sum in place of mean",
            "Your weights are all 1. The softmax of equal scores gives equal weights, and they sum to 1.",
            (lambda X, W_V: _rows((X @ W_V).sum(0), X), lambda X, W_V: (X @ W_V).sum(0))),
        Mistake("a linear layer",
            "Each of your tokens keeps to itself, as in a linear layer. That is the slide's last line taken alone; "
            "the line above it has a sum over i.",
            (lambda X, W_V: X @ W_V,)),
        Mistake("mean over features",
            "You took the mean of each token's features. The softmax runs over keys, so tokens are what is mixed.",
            (lambda X, W_V: (X @ W_V).mean(1, keepdim=True).expand(-1, X.shape[1]),
             lambda X, W_V: (X @ W_V).mean(1),
             lambda X, W_V: (X @ W_V).mean(1, keepdim=True))),
        Mistake("W_V left out",
            "You mixed the tokens themselves. W_Q and W_K are 0; W_V is not, and values are XW_V.",
            (lambda X, W_V: _rows(X.mean(0), X), lambda X, W_V: X.mean(0))),
    ),
    tolerance=1e-6,
)  # fmt: skip


# Keys in use -----------------------------------------------------------------------------------------------------


def _keys_in_use(P):
    return torch.distributions.Categorical(probs=P).entropy().exp()


def _entropy(P):
    """−Σ p ln p of every row, by the logarithms of positive weights only."""
    return -torch.where(P > 0, P * P.clamp_min(1e-300).log(), 0.0).sum(-1)


@maker
def _attention_rows(random, n: int, m: int, masked: bool):
    P = random.exponential(size=(n, m)) ** 2
    if masked:
        P *= np.tril(np.ones((n, m)))
    return (torch.tensor(P / P.sum(1, keepdims=True)),)


KEYS_IN_USE = Exercise(
    "keys_in_use", "function", _keys_in_use,
    shows="Your count is n for uniform attention, 1 where one key takes everything, and copes with a mask. At Xavier "
    "init a 6-6 model's first layer uses about two thirds of its keys: near to uniform, and not uniform.",
    hint="Hint 1 works two rows out by hand; Hint 2 says what to do where a weight is 0.",
    inputs=(_attention_rows(3, 5, False), _attention_rows(4, 4, True), _attention_rows(2, 9, False)),
    mistakes=(
        Mistake("zero times a logarithm",
            "Some of your numbers are not numbers. Under a mask weights are 0, ln 0 is −∞, and 0·∞ is undefined for a "
            "computer. A key that is not looked at adds nothing: which value should p ln p have there?",
            seen=lambda arguments, got, expected: got.shape == expected.shape and np.isnan(got).any()),
        Mistake("entropy itself",
            "That is the entropy, in nats: ln n for uniform attention. How many keys, evenly used, have this entropy?",
            (_entropy,)),
        Mistake("sign",
            "Yours is below 1: fewer than one key in use. The logarithm of a weight is negative, the entropy is not.",
            (lambda P: (-_entropy(P)).exp(),)),
        Mistake("two kinds of logarithm",
            "You took bits and went back with e, or nats and went back with 2. Uniform attention over 8 keys should "
            "give 8.",
            (lambda P: (_entropy(P) / np.log(2)).exp(), lambda P: 2 ** _entropy(P))),
        Mistake("a share",
            "You divided by the number of keys. That is the share in use, which the lesson plots; here the count is "
            "asked for.",
            (lambda P: _entropy(P).exp() / P.shape[1], lambda P: _entropy(P).exp() / (P > 0).sum(1))),
        Mistake("all queries at once",
            "One number for the whole matrix. Each query has weights of its own that sum to 1: one count a row.",
            (lambda P: _entropy(P).mean().exp(),
             lambda P: _entropy(P).exp().mean(),
             lambda P: _entropy(P).sum().exp())),
        Mistake("another count",
            "That is 1/Σp², or 1 over the largest weight. Both count keys, are n for uniform attention, and weigh "
            "favourites more than the entropy does. Here it is the entropy's.",
            (lambda P: 1 / P.square().sum(-1), lambda P: 1 / P.amax(-1))),
    ),
)  # fmt: skip


# A bound from above ----------------------------------------------------------------------------------------------

WIDTH = 64
USUAL = (WIDTH / 3) ** 0.5  # √(d/3): ‖∂L/∂W_2‖ for a g of length 1 in a random direction
NOTHING = 1e-6


def _last_layer() -> tuple[Tensor, Tensor]:
    """(W_2, x_out) of the last FFN of Theorem 1's Post-LN, one token."""
    random = random_stream(7, "a bound is not a size")
    x, W_1, W_2 = (torch.tensor(random.standard_normal(shape)) for shape in ((1, WIDTH), *[(WIDTH, WIDTH)] * 2))
    x, W_2 = F.layer_norm(x, (WIDTH,), eps=0), (W_2 / WIDTH**0.5).requires_grad_()
    return W_2, F.layer_norm(x + F.relu(x @ W_1 / WIDTH**0.5) @ W_2, (WIDTH,), eps=0)[0]


def last_output() -> Tensor:
    """x_out of a Post-LN network of width 64: what its last LN gives, (64,)."""
    return _last_layer()[1].detach()


def w2_gradient(g) -> float:
    """‖∂L/∂W_2‖ in the last layer of that network, for a loss whose gradient at x_out is g."""
    W_2, out = _last_layer()
    return torch.autograd.grad((out * _vector(g)).sum(), W_2)[0].norm().item()


def _vector(g: Any) -> Tensor:
    """64 numbers as a tensor, however they come; a ValueError where they are not 64 numbers."""
    try:
        array = np.asarray(g.detach() if isinstance(g, Tensor) else g, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"g must be {WIDTH} finite numbers, got {short_repr(g)}") from None
    if array.size != WIDTH or not np.isfinite(array).all():
        raise ValueError(f"g must be {WIDTH} finite numbers, got the shape {array.shape}")
    return torch.tensor(array.reshape(WIDTH))


def _is_vector(g: Any) -> bool:
    try:
        _vector(g)
    except (TypeError, ValueError):
        return False
    return True


def _length(g: Any) -> float:
    return float(_vector(g).norm())


def _vanishes(g: Any) -> bool:
    return _is_vector(g) and abs(_length(g) - 1) < 1e-3 and w2_gradient(g) < NOTHING


NO_GRADIENT = Exercise(
    "no_gradient", "object", _vanishes,
    shows="Your loss has a gradient of length 1 at the output, Theorem 1 holds for it, W_2's gradient is 0. A number "
    "that is at most 6156 may be 13 or 0: a bound from above says nothing about being large.",
    hint="Hint 1 says which part of the last layer to think of; Hint 2 counts the directions that it removes.",
    mistakes=(
        rule("not a vector",
            f"The check wants g itself: {WIDTH} finite numbers, one for each coordinate of x_out.",
            lambda g: not _is_vector(g)),
        rule("no loss at all",
            "g = 0 is a loss that asks for nothing, and then nothing has a gradient. The theorem's loss may do that, "
            "but it teaches little: keep the length at 1 and choose the direction.",
            lambda g: _length(g) < 1e-9),
        rule("right direction, other length",
            "The direction is right. Its length is not 1: divide by it, so that nobody can say the loss was small.",
            lambda g: abs(_length(g) - 1) >= 1e-3 and w2_gradient(_vector(g) / _length(g)) < NOTHING),
        rule("other length",
            "The length of g is not 1. Making g short makes every gradient short; that is no property of the network. "
            "Fix the length, then look for a direction.",
            lambda g: abs(_length(g) - 1) >= 1e-3),
        rule("an ordinary direction",
            f"W_2's gradient is about as large as for any other direction, √(d/3) ≈ {USUAL:.1f}. Most directions are "
            "like that. Which few does LN's Jacobian not let through?",
            lambda g: w2_gradient(g) > USUAL / 2),
        rule("smaller, not nothing",
            "Part of your g is removed and part is let through. A direction that LN's Jacobian sends to 0 exactly is "
            "wanted.",
            lambda g: w2_gradient(g) >= NOTHING),
    ),
)  # fmt: skip


# Appendix F, completed -------------------------------------------------------------------------------------------


def _layer_factors(v_a, c, v_f):
    """Skip and, where the branch returns to its own stream, branch; over what the LN reads."""
    parts = [(v_a, True), (c, False), (v_f, True)]  # self-attention, cross-attention, FFN
    return [(1 + added * returned) / (1 + added) for added, returned in parts]


def _factors(*of):
    return lambda v_a, c, v_f: [f(v) for f, v in zip(of, (v_a, c, v_f), strict=True)]


def _ln(v):
    return 1 / (1 + v)


def _one(v):
    return 1.0


def _gains(random) -> tuple:
    return tuple(float(v) for v in random.uniform(0.2, 2, 3))


LAYER_FACTORS = Exercise(
    "layer_factors", "function", _layer_factors,
    shows="Self-attention and FFN give back what they cost, 1 each: that is the encoder, flat. Cross-attention keeps "
    "1/(1 + c) of the square: that is the decoder's growth towards the output, and the whole of it at n = 1.",
    hint="Hint 1 follows one sub-layer backward; Hint 2 says where the branches' gradients go.",
    inputs=(_gains, lambda random: (1.0, 1.0, 0.5), _gains),
    mistakes=(
        Mistake("appendix F",
            "You have what each LN divides by, and nothing that comes back through the branches. That is appendix F's "
            "factor, 2/3 for an FFN of gain ½. Which two ways does the gradient take below the sum?",
            (_factors(_ln, _ln, _ln),)),
        Mistake("LN left out",
            "You have skip and branch, and no LN. The gradient passes LN first, and is divided there.",
            (_factors(lambda v: 1 + v, _one, lambda v: 1 + v), _factors(*[lambda v: 1 + v] * 3))),
        Mistake("cross-attention returned",
            "All three are 1 for you, as if cross-attention's branch came back to the decoder's stream. Whose tokens "
            "does it read?",
            (_factors(_one, _one, _one),)),
        Mistake("nothing through the skip",
            "You let the gradient down the branch only. The skip carries it too, undiminished.",
            (_factors(lambda v: v / (1 + v), lambda v: 0.0, lambda v: v / (1 + v)),
             _factors(lambda v: v / (1 + v), lambda v: v / (1 + v), lambda v: v / (1 + v)))),
        Mistake("norms in place of squares",
            "That is right for the norm. The squared gradient is asked for here; no root, then.",
            (_factors(_one, lambda v: (1 + v) ** -0.5, _one),)),
        Mistake("upside down",
            "Your cross-attention makes the gradient grow on its way down. LN divides by the size of what went in.",
            (_factors(_one, lambda v: 1 + v, _one),)),
        Mistake("one number",
            "That is the product over the layer. One factor for each of the three sub-layers is asked for, in order.",
            (lambda v_a, c, v_f: 1 / (1 + c), lambda v_a, c, v_f: [1 / (1 + c)])),
    ),
    tolerance=1e-6,
)  # fmt: skip


# What would have convinced you -------------------------------------------------------------------------------------

CONVINCING = Exercise(
    "convincing", "text", ("a", "(a)"),
    shows="It forbids something: the layer must be enough by itself, and all the rest together must not be. An "
    "explanation that could have failed such a test and did not deserves trust; the measurement says which of the two "
    "happened here.",
    hint="Hint 1 asks of each outcome what else would lead to it; Hint 2 names the one that leaves least room.",
    mistakes=(
        Mistake("true of every explanation",
            "That warm-up helps is what all the explanations set out to explain. It cannot tell them apart.",
            ("b", "(b)")),
        Mistake("no control",
            "Warming up any part may help a little: it lowers the rate somewhere. Without another layer to compare "
            "with you do not know whether this one is special.",
            ("c", "(c)")),
        Mistake("two things changed",
            "Pre-LN differs in more than its last gradient: in how the stream grows, in its final LN, in what a step "
            "does to the output. A comparison of the two cannot say which of these counts.",
            ("d", "(d)")),
    ),
)  # fmt: skip

EXERCISES = (ZERO_ATTENTION, KEYS_IN_USE, NO_GRADIENT, LAYER_FACTORS, CONVINCING)
