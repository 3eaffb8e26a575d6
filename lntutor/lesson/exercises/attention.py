"""Exercises of 01_attention. References use torch's own attention; masks are True where a query may look."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from lntutor.lesson.exercises import Exercise, Mistake, maker, normal


@maker
def _qkv(random, queries: int, keys: int, d: int, values: int, masked: bool = False):
    """q, k, v and, where asked for, a random mask in which every query may look somewhere."""
    mask = None
    if masked:
        mask = torch.tensor(random.random((queries, keys)) < 0.6)
        mask[torch.arange(queries), torch.tensor(random.integers(keys, size=queries))] = True
        mask[0, 0], mask[0, -1] = True, False  # something is always hidden
    q, k, v = normal(random, queries, d), normal(random, keys, d), normal(random, keys, values)
    return 2 * q, 2 * k, v, mask  # scores large enough that every slip shows


# Write attention -----------------------------------------------------------------------------------------------


def _attention(q, k, v, mask=None):
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _by_hand(scale=lambda d: d**-0.5, axis: int = -1, before=True, after=None, invert=False):
    """Attention with one thing changed."""

    def attention(q, k, v, mask=None):
        scores = q @ k.T * scale(q.shape[-1])
        if mask is not None and invert:
            mask = ~mask
        if mask is not None and before:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(axis)
        if mask is not None and after is not None:
            weights = weights.masked_fill(~mask, after)
        return weights @ v

    return attention


ATTENTION = Exercise(
    "attention", "function", _attention,
    shows="Your attention equals torch's scaled_dot_product_attention on random inputs of several shapes, with and "
    "without a mask: each output is a weighted mean of the values, with weights that depend on q·k/√d.",
    hint="Hint 1 has the four steps in order; Hint 2 has the shape after each.",
    inputs=(_qkv(1, 2, 2, 1), _qkv(3, 3, 4, 4), _qkv(4, 7, 16, 5), _qkv(3, 5, 9, 2, masked=True)),
    mistakes=(
        Mistake("missing √d",
            "The weights are too sharp, and more so for larger d. You saw that q·k has variance d: what must the "
            "scores be divided by to have variance 1?",
            (_by_hand(lambda d: 1.0),)),
        Mistake("divided by d",
            "The weights are too even. The variance of q·k is d; its size, the standard deviation, is something else.",
            (_by_hand(lambda d: 1 / d),)),
        Mistake("divided by √n",
            "You divide by the root of the number of queries, which is what len(q) is once q is a matrix. The "
            "variance of q·k comes from its d terms: which axis of q counts them?",
            (lambda q, k, v, mask=None: _attention(q * (q.shape[-1] / len(q)) ** 0.5, k, v, mask),)),
        Mistake("softmax over the wrong axis",
            "Your weights sum to 1 over the queries. Each query shares its attention out among the keys: which axis "
            "of the scores counts the keys?",
            (_by_hand(axis=0),)),
        Mistake("mask after the softmax",
            "The hidden keys are gone, and the weights of the others no longer sum to 1: the softmax had counted the "
            "hidden ones. Hide them in the scores, so that the softmax gives them nothing.",
            (_by_hand(before=False, after=0.0), _by_hand(before=False, after=-torch.inf))),
        Mistake("mask the wrong way round",
            "The queries look exactly where they must not. The mask is True where a query may look.",
            (_by_hand(invert=True),)),
        Mistake("mask ignored",
            "Without a mask your attention is right; with one, hidden keys still count. Where do scores of hidden "
            "keys have to go so that the softmax makes them 0?",
            (_by_hand(before=False),)),
    ),
)  # fmt: skip


# Write a causal mask -------------------------------------------------------------------------------------------


def _causal_mask(n):
    return torch.arange(n)[None, :] <= torch.arange(n)[:, None]


CAUSAL_MASK = Exercise(
    "causal_mask", "function", _causal_mask,
    shows="Position i looks at positions up to i and at none after it: the decoder cannot see ahead.",
    hint="Hint 1 draws the mask for n = 3; Hint 2 names a torch function for triangles.",
    inputs=(lambda random: (3,), lambda random: (1,), lambda random: (int(random.integers(4, 12)),)),
    mistakes=(
        Mistake("looks ahead",
            "Row i is a query, column j a key. Yours lets every position see itself and what comes after, not before.",
            (lambda n: torch.ones(n, n).triu(),)),
        Mistake("does not see itself",
            "The first position sees nothing at all, and its softmax has nothing to share out. May a position look at "
            "itself?",
            (lambda n: torch.ones(n, n).tril(-1),)),
        Mistake("True where hidden",
            "Yours marks what must be hidden. In this notebook True means: may look.",
            (lambda n: torch.ones(n, n).triu(1),)),
        Mistake("scores, not a mask",
            "Yours is to be added to the scores, 0 or −∞. Here a mask is True or False, and attention does the rest.",
            (lambda n: torch.full((n, n), -torch.inf).triu(1),)),
        Mistake("nothing hidden",
            "Every position sees every other. What must position 0 not see?",
            (lambda n: torch.ones(n, n),)),
    ),
)  # fmt: skip


# Multi-head attention by reshape -------------------------------------------------------------------------------


def _multi_head(q, k, v, heads):
    """Head by head on slices of the features: no reshape at all."""
    parts = zip(q.chunk(heads, -1), k.chunk(heads, -1), v.chunk(heads, -1), strict=True)
    return torch.cat([scaled_dot_product_attention(*part) for part in parts], -1)


def _split(x, heads):
    return x.reshape(len(x), heads, -1).transpose(0, 1)  # (H, n, d/H)


def _merge(x):
    return x.transpose(0, 1).reshape(x.shape[1], -1)  # (n, d)


def _by_reshape(split=_split, merge=_merge, scale=lambda d, heads: (d / heads) ** -0.5):
    """Multi-head attention with one thing changed."""

    def multi_head(q, k, v, heads):
        qh, kh, vh = split(q, heads), split(k, heads), split(v, heads)
        weights = (qh @ kh.mT * scale(q.shape[-1], heads)).softmax(-1)
        return merge(weights @ vh)

    return multi_head


def _heads(n: int, d: int, heads: int):
    return lambda random: (2 * normal(random, n, d), 2 * normal(random, n, d), normal(random, n, d), heads)


MULTI_HEAD = Exercise(
    "multi_head", "function", _multi_head,
    shows="One reshape gives every head its own slice of the features, and your result equals attention run head by "
    "head: heads cost no extra arithmetic.",
    hint="Hint 1 follows one token's features through the reshape; Hint 2 has the shape after each step.",
    inputs=(_heads(2, 4, 2), _heads(1, 4, 2), _heads(3, 6, 1), _heads(5, 12, 3), _heads(6, 16, 4)),
    mistakes=(
        Mistake("tokens mixed into heads",
            "Your reshape cuts the numbers into heads in the order in which they lie in memory, so a head gets some "
            "tokens whole and others not at all. Each head must see every token: cut the features, then move the axis.",
            (_by_reshape(split=lambda x, heads: x.reshape(heads, len(x), -1)),
             _by_reshape(split=lambda x, heads: x.reshape(heads, len(x), -1),
                         merge=lambda x: x.reshape(x.shape[1], -1)))),
        Mistake("scaled by the whole width",
            "Each head's dot product runs over d/heads features, so that is its variance. Yours divides by √d of all.",
            (_by_reshape(scale=lambda d, heads: d**-0.5),)),
        Mistake("heads merged in the wrong order",
            "The heads are right, and putting them together mixes tokens: after attention the heads' axis stands "
            "before the tokens'. Move it back before you merge.",
            (_by_reshape(merge=lambda x: x.reshape(x.shape[1], -1)),)),
        Mistake("one head",
            "This is attention with one head over all features. Cut the features into heads first.",
            (lambda q, k, v, heads: scaled_dot_product_attention(q, k, v),)),
        Mistake("not merged",
            "Every head is right. Put them side by side, so that each token has its d features again.",
            (lambda q, k, v, heads: _multi_head(q, k, v, heads).reshape(len(q), heads, -1).transpose(0, 1),
             lambda q, k, v, heads: _multi_head(q, k, v, heads).reshape(len(q), heads, -1))),
    ),
)  # fmt: skip


# Backward through the softmax ----------------------------------------------------------------------------------


def _softmax_backward(p, g):
    """By autograd, from scores that give these weights: a softmax does not see a constant, so log p will do."""
    scores = p.log().requires_grad_()
    return torch.autograd.grad(scores.softmax(-1), scores, g)[0]


def _weights_and_gradient(queries: int, keys: int):
    return lambda random: (normal(random, queries, keys).softmax(-1), normal(random, queries, keys))


SOFTMAX_BACKWARD = Exercise(
    "softmax_backward", "function", _softmax_backward,
    shows="Your backward pass equals autograd's. Every factor p that is near 0 or 1 makes it small: a softmax that has "
    "made up its mind passes no gradient on.",
    hint="Hint 1 starts from one entry of the Jacobian; Hint 2 names the one number that each row needs.",
    inputs=(_weights_and_gradient(1, 2), _weights_and_gradient(3, 3), _weights_and_gradient(4, 7)),
    mistakes=(
        Mistake("diagonal only",
            "Your score j moves weight j alone. The weights of a row share a sum of 1: when one grows the others "
            "shrink, and the Jacobian's second term says so.",
            (lambda p, g: p * g, lambda p, g: p * (1 - p) * g)),
        Mistake("a factor p is missing",
            "You take the mean off the gradient, and then every key counts the same. A key with hardly any weight "
            "must get hardly any gradient.",
            (lambda p, g: g - (p * g).sum(-1, keepdim=True),)),
        Mistake("plain mean",
            "The number taken off in each row is a mean of g in which every key counts the same. Which mean does pᵀp "
            "make?",
            (lambda p, g: p * (g - g.mean(-1, keepdim=True)),)),
        Mistake("sum over the wrong axis",
            "Your sum runs over the queries, or over everything. Each query has a softmax of its own: which axis "
            "counts its keys?",
            (lambda p, g: p * (g - (p * g).sum(0)), lambda p, g: p * (g - (p * g).sum()))),
        Mistake("sign",
            "Every sign is turned round: a larger score makes its own weight larger.",
            (lambda p, g: p * ((p * g).sum(-1, keepdim=True) - g),)),
    ),
)  # fmt: skip

EXERCISES = (ATTENTION, CAUSAL_MASK, MULTI_HEAD, SOFTMAX_BACKWARD)
