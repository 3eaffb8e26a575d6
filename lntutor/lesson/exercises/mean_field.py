"""Exercises of 04_mean_field. References are closed forms: nothing is stepped through."""

from __future__ import annotations

from math import log, log10, sqrt
from statistics import linear_regression

import numpy as np

from lntutor.lesson.exercises import Exercise, Mistake, identity, maker
from lntutor.model.config import ModelConfig
from lntutor.theory.paper import theorem_bound

# The faded example ---------------------------------------------------------------------------------------------

POST_BLANK = Exercise(
    "post_blank", "value", 1.0,
    shows="One layer of Post-LN passes the gradient on at the size at which it came: the norm divides by what the "
    "residual sum had added, on the way up and on the way down.",
    hint="Hint 1 names the two factors; Hint 2 says where each comes from.",
    mistakes=(
        Mistake("2/3 without 3/2",
            "You divided by what the norm reads and went no further. Below the norm stands a residual sum, and its "
            "two ways, skip and branch, both bring a gradient down. Appendix F of the paper stops at the same place.",
            (2 / 3, 0.667, 0.66, 0.67, sqrt(2 / 3))),
        Mistake("3/2 without 2/3",
            "You added skip and branch. Before that the gradient came through the norm, and a norm divides by the "
            "size of what it reads.",
            (1.5, sqrt(1.5))),
        Mistake("branch without the skip",
            "The branch alone brings this down. The skip passes the gradient on as it is; the two add.",
            (1 / 3, 0.333, 0.33)),
    ),
)  # fmt: skip


# Finish the recursion ------------------------------------------------------------------------------------------


def _sizes(placement: str, depth: int) -> list[float]:
    """q of what the norm above layer 1, 2, … reads: 3/2 in Post-LN; in Pre-LN the conserved product makes it q_l."""
    return [1.5 if placement == "post" else 1 + 1.5 * layer for layer in range(1, depth + 1)]


def _w2_gradients(placement, depth, width):
    return np.sqrt([width / (2 * q) for q in _sizes(placement, depth)])


def _changed(f):
    """The right answer, handed to `f(values, placement, depth, width)`."""
    return lambda placement, depth, width: f(_w2_gradients(placement, depth, width), placement, depth, width)


def _decaying(per_layer: float):
    """Post-LN's squares times `per_layer` for each layer that the gradient has passed; Pre-LN unchanged."""

    def decay(values, placement, depth, width):
        passed = depth - np.arange(1, depth + 1)
        return values * (per_layer**passed) ** 0.5 if placement == "post" else values

    return _changed(decay)


def _stepped(ffn: float, attention: float, kept: float = 0.5):
    """The gradient layer by layer, with these gains of the branches (½ and 1 are right) and ReLU's share `kept`."""

    def walk(placement, depth, width):
        g, squares = (1.0 if placement == "post" else 1 / (1 + 1.5 * depth)), []
        for layer in range(depth, 0, -1):
            above, below = (2.0, 1.0) if placement == "post" else (0.5 + 1.5 * layer, 1.5 * layer - 0.5)
            g /= 1.5 if placement == "post" else 1
            squares.append(kept * width * g)
            g *= 1 + ffn / (1.0 if placement == "post" else above)
            g /= 2.0 if placement == "post" else 1
            g *= 1 + attention / below
        return np.sqrt(squares[::-1])

    return walk


W2_GRADIENTS = Exercise(
    "w2_gradients", "function", _w2_gradients,
    shows="Your recursion gives √(d/3) in every layer of Post-LN and √(d/(2 + 3l)) in layer l of Pre-LN, at depths and "
    "widths that you have not seen. You have derived the size of what Theorem 1 bounds.",
    hint="Hint 1 has the order of the steps on the way down; Hint 2 has each step as one factor.",
    inputs=(
        lambda random: ("post", 2, 12),
        lambda random: ("pre", 2, 16),
        lambda random: ("pre", 1, int(random.integers(8, 64))),
        lambda random: ("post", int(random.integers(3, 9)), int(random.integers(8, 64))),
        lambda random: ("pre", int(random.integers(3, 9)), int(random.integers(8, 64))),
    ),
    mistakes=(
        Mistake("2/3 without 3/2",
            "In Post-LN your gradient falls by the same factor with every layer: the norm's division is there, and "
            "what the residual sum brings back is not. This is the paper's appendix F.",
            (_decaying(2 / 3), _decaying(1 / 3), _stepped(0, 1), _stepped(0, 0))),
        Mistake("forgets the final LN",
            "In Post-LN all is well. In Pre-LN your gradient enters the top layer at size 1: what stands between the "
            "loss and the stream there, and how large is what it reads?",
            (_changed(lambda v, placement, L, d: v * sqrt(1 + 1.5 * L) if placement == "pre" else v),
             _changed(lambda v, placement, L, d: np.full(L, sqrt(d / 2)) if placement == "pre" else v))),
        Mistake("off by one layer",
            "Your Pre-LN values belong to the neighbouring layer. The paper counts x_0 as the embedding and hands "
            "x_{L+1} to the loss; here layer l reads the stream after l − 1 layers and leaves it after l.",
            (lambda placement, L, d: np.sqrt([d / (2 + 3 * (l - 1)) if placement == "pre" else d / 3
                                              for l in range(1, L + 1)]),
             lambda placement, L, d: np.sqrt([d / (2 + 3 * (l + 1)) if placement == "pre" else d / 3
                                              for l in range(1, L + 1)]))),
        Mistake("from the top down",
            "The values are right and stand upside down: the way back visits layer L first, and the list is to start "
            "with layer 1.",
            (_changed(lambda v, placement, L, d: v[::-1]),)),
        Mistake("squared norms",
            "These are the squares. The recursion carries squared sizes; the norm of a matrix is their root.",
            (_changed(lambda v, placement, L, d: v**2),)),
        Mistake("ReLU keeps everything",
            "Somewhere a factor ½ is missing. A ReLU keeps half of the signal on the way up, which enters W_2, and "
            "lets half of the gradient through on the way down.",
            (_changed(lambda v, placement, L, d: v * sqrt(2)), _stepped(1, 1), _stepped(1, 1, kept=1))),
        Mistake("width left out",
            "The dependence on the layer is right. The hidden vector has d entries, and its squared norm counts them.",
            (_changed(lambda v, placement, L, d: v / sqrt(d)),)),
    ),
)  # fmt: skip


# Compute the slope ---------------------------------------------------------------------------------------------


def _log_slope(x, y):
    return linear_regression(np.log(x).tolist(), np.log(y).tolist()).slope


def _fit(fx, fy):
    return lambda x, y: linear_regression(fx(np.asarray(x)).tolist(), fy(np.asarray(y)).tolist()).slope


@maker
def _power_law(random, *x: float):
    """A power law that bends and scatters, so that every way to fit it shows."""
    places = np.array(x)
    scatter = np.exp(0.1 * random.standard_normal(len(places)))
    return places, (random.uniform(1, 4) + places) ** random.uniform(-0.9, -0.4) * random.uniform(2, 9) * scatter


LOG_SLOPE = Exercise(
    "log_slope", "function", _log_slope,
    shows="A straight line through the logarithms: its slope is the exponent of the power law, whatever the base of "
    "the logarithm, as long as both axes have the same.",
    hint="Hint 1 says what becomes of y = c·x^a under a logarithm; Hint 2 names a numpy function that fits a line.",
    inputs=(_power_law(1.0, 2.0, 8.0), _power_law(1.0, 2.0, 3.0, 6.0, 12.0, 24.0), _power_law(6.0, 8.0, 10.0, 14.0)),
    mistakes=(
        Mistake("linear in place of log–log",
            "You fitted a line to the values themselves. It says by how much y changes for one more layer, and "
            "depends on where you look; an exponent needs another scale, on both axes.",
            (_fit(identity, identity),)),
        Mistake("one axis only",
            "One of your axes has a logarithm and the other has none. That fits an exponential or a logarithm, not a "
            "power.",
            (_fit(np.log, identity), _fit(identity, np.log), _fit(np.log10, identity), _fit(identity, np.log10))),
        Mistake("two bases",
            "Your two axes have logarithms of different bases, natural and base 10. The factor 2.3 between them stays "
            "in the slope.",
            (_fit(np.log, np.log10), _fit(np.log10, np.log))),
        Mistake("first and last point only",
            "This joins the two ends. A fit weighs all points, and one noisy end does not decide it.",
            (lambda x, y: log(y[-1] / y[0]) / log(x[-1] / x[0]),)),
        Mistake("axes exchanged",
            "You fitted depth as a function of the gradient. The places go on the horizontal axis.",
            (lambda x, y: _log_slope(y, x),)),
        Mistake("intercept and slope exchanged",
            "This is where the line starts, not how steep it is. A fit returns both: look up the order.",
            (lambda x, y: linear_regression(np.log(x).tolist(), np.log(y).tolist()).intercept,)),
    ),
    tolerance=1e-6,
)  # fmt: skip


# State the bound -----------------------------------------------------------------------------------------------


def _last_layer_bound(placement, depth, width):
    return theorem_bound(ModelConfig.theorem(placement, depth, width))


def _bound(
    q=lambda placement, L: 1.5 if placement == "post" else 1 + L / 2,
    logarithm=lambda d: log(100 * d), alpha=0.1, entries=lambda d: d * d, root=sqrt,
):  # fmt: skip
    """d² entries, each at most √(2 ln(100d) / (α₀ q)), with one thing changed."""
    return lambda placement, L, d: root(entries(d) * 2 * logarithm(d) / (alpha * q(placement, L)))


LAST_LAYER_BOUND = Exercise(
    "last_layer_bound", "function", _last_layer_bound,
    shows="d√((40/3)·ln(100d)) for Post-LN, d√(40·ln(100d)/(L + 2)) for Pre-LN: the constants that O(·) leaves out, "
    "and both far above what you measured.",
    hint="Hint 1 lists the three things that the proof bounds; Hint 2 has Lemma 2's side that is needed.",
    inputs=(
        lambda random: ("post", 6, 512),
        lambda random: ("pre", 6, 512),
        lambda random: ("post", int(random.integers(1, 24)), int(random.integers(16, 400))),
        lambda random: ("pre", int(random.integers(2, 24)), int(random.integers(16, 400))),
    ),
    mistakes=(
        Mistake("base-10 logarithm",
            "Your squares are 2.3 times too small: the tail of a Gaussian is exp(−a²/2), so the logarithm that undoes "
            "it is the natural one.",
            (_bound(logarithm=lambda d: log10(100 * d)),)),
        Mistake("true size in place of the lower bound",
            "In Pre-LN you divided by 1 + 3L/2, the size at n = 1. The proof must hold for every n, and Lemma 2 "
            "promises less from below.",
            (_bound(q=lambda placement, L: 1.5 if placement == "post" else 1 + 1.5 * L),)),
        Mistake("off by one layer",
            "Your Pre-LN bound has one layer too many or too few. The paper's x_{L+1} is the stream after L layers.",
            (_bound(q=lambda placement, L: 1.5 if placement == "post" else 1 + (L + 1) / 2),
             _bound(q=lambda placement, L: 1.5 if placement == "post" else 1 + (L - 1) / 2))),
        Mistake("α₀ left out",
            "You let the norm be as large as its mean. It may be smaller, and the proof allows it to fall to a tenth.",
            (_bound(alpha=1.0),)),
        Mistake("α₀ on the other side",
            "α₀ makes what stands below the line smaller, so the bound larger. Yours got smaller.",
            (_bound(alpha=10.0),)),
        Mistake("ln d in place of ln(100d)",
            "The hundred is what makes d tails together less likely than one in a hundred; O(·) hides it, the "
            "constant does not.",
            (_bound(logarithm=log),)),
        Mistake("one row of entries",
            "You summed over rows or over columns, not over both: the matrix has d·d entries, and the proof bounds "
            "each.",
            (_bound(entries=identity),)),
        Mistake("squared", "This bounds the squared norm. Take the root at the end.", (_bound(root=identity),)),
    ),
)  # fmt: skip

EXERCISES = (POST_BLANK, W2_GRADIENTS, LOG_SLOPE, LAST_LAYER_BOUND)
