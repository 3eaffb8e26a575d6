"""Exercises of 05_gradients. References: torch's norm of the whole gradient, a correlation matrix, and measurements."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from lntutor.lesson.exercises import Exercise, Mistake, maker, rule
from lntutor.measure.gradients import gradient_norms
from lntutor.model.checks import short_repr
from lntutor.model.state import DEFAULTS, model_config, model_inputs

# Read Fig. 3 off the explorer ----------------------------------------------------------------------------------

FALL = 2.56  # Post-LN, 6-6 of Fig. 3: the decoder's ‖∂L/∂W_2‖, layer 6 over layer 1, mean of 3 seeds
STEPS = 5  # from layer 6 down to layer 1

FALL_PER_LAYER = Exercise(
    "fall_per_layer", "value", FALL ** (-1 / STEPS),
    shows="One layer down, Post-LN's decoder keeps about 0.83 of the gradient. Five such steps leave 0.39 of it: that "
    "is the whole of Fig. 3a's finding at this size.",
    hint="Hint 1 says which two marks to read; Hint 2 counts the steps between them.",
    tolerance=0.01,
    mistakes=(
        Mistake("six steps",
            "You spread the fall over six steps. How many steps lead from the sixth layer down to the first?",
            (FALL ** (-1 / 6),)),
        Mistake("upside down",
            "That is the growth on the way up. Backward, the gradient comes from the top: what is left of it one "
            "layer further down?",
            (FALL ** (1 / STEPS),)),
        Mistake("the whole fall",
            "That is top and bottom compared, over all layers at once. Which factor, applied once per layer, gives it?",
            seen=lambda arguments, got, expected: got.shape == () and (2.3 < got < 2.9 or 0.35 < got < 0.43)),
        Mistake("an equal share",
            "You divided the fall into equal parts. A factor per layer multiplies, and parts of a product are roots.",
            (FALL / STEPS, 1 / FALL / STEPS, 1 - (1 - 1 / FALL) / STEPS)),
        Mistake("read in the encoder",
            "That is nearly 1, as in the panel on the left: the encoder. The question is about the decoder.",
            (1.09 ** (-1 / STEPS), 1.09 ** (1 / STEPS))),
        Mistake("read off the paper",
            "That comes from the paper's figure, where the top is about 21 times the bottom. Read the explorer.",
            (21 ** (-1 / STEPS),)),
        Mistake("the paper's factor",
            "That is √(2/3), from the paper's appendix F. It is near what you see and not read off it; read the marks.",
            (sqrt(2 / 3),)),
    ),
)  # fmt: skip


# The norm of a gradient that is never formed --------------------------------------------------------------------


def _gradient_norm(X, G):
    return torch.linalg.matrix_norm(X.T @ G)


class _Shapes(TorchFunctionMode):
    """Notes the shape of every tensor that is made."""

    def __init__(self):
        super().__init__()
        self.made: list[tuple[int, ...]] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.made.append(tuple(result.shape))
        return result


def _forms_the_gradient(answer) -> bool:
    """Whether a d × d matrix is made on the way."""
    tokens, features = 3, 7
    with _Shapes() as shapes:
        answer(torch.ones(tokens, features), torch.ones(tokens, features))
    return any(shape.count(features) > 1 for shape in shapes.made)


@maker
def _product(random, n: int, d: int):
    shared = random.standard_normal(d)  # tokens that are alike, so that pairs of them count
    X, G = random.standard_normal((2, n, d)) + 0.5 * shared
    return torch.tensor(X), torch.tensor(G)


GRADIENT_NORM = Exercise(
    "gradient_norm", "function", _gradient_norm,
    shows="Your norm equals that of the whole gradient XᵀG, which you never formed. Two n × n matrices are enough: "
    "with 16 tokens and a width of 512 that is 16 times less arithmetic.",
    hint="Hint 1 writes the squared norm as a sum over pairs of tokens; Hint 2 says which matrices hold the pairs.",
    inputs=(_product(1, 2), _product(2, 3), _product(4, 4), _product(7, 5), _product(5, 16)),
    mistakes=(
        Mistake("forgets the root",
            "That is the squared norm. One step is left.",
            (lambda X, G: _gradient_norm(X, G) ** 2,)),
        Mistake("pairs of features",
            "You paired features, which gives d × d matrices. The sum runs over pairs of tokens: which product of X "
            "with itself is n × n?",
            (lambda X, G: ((X.T @ X) * (G.T @ G)).sum().abs().sqrt(), lambda X, G: ((X.T @ X) * (G.T @ G)).sum())),
        Mistake("tokens one by one",
            "You added what each token gives by itself. Gradients of different tokens add up as matrices, so pairs of "
            "tokens count too, wherever tokens are alike.",
            (lambda X, G: (X.square().sum(1) * G.square().sum(1)).sum().sqrt(),)),
        Mistake("product of norms",
            "‖X‖·‖G‖ is the largest that the norm could be. It would be reached if all tokens pointed the same way, "
            "in X and in G.",
            (lambda X, G: X.norm() * G.norm(),)),
        Mistake("matrix product",
            "The pairs meet entry by entry: pair (i, j) of X with pair (i, j) of G. You multiplied as matrices.",
            (lambda X, G: ((X @ X.T) @ (G @ G.T)).sum().abs().sqrt(), lambda X, G: ((X @ X.T) @ (G @ G.T)).sum())),
    ),
    rules=(
        rule("forms the gradient",
            "The number is right, and you formed the whole d × d gradient for it. The task is to do without.",
            _forms_the_gradient),
    ),
)  # fmt: skip


# The factor of a decoder layer ----------------------------------------------------------------------------------


def _decoder_factor(v_a, p, rho):
    """From the memory's correlation matrix C: the weighted mean of its tokens has the variance pCpᵀ."""
    memory = np.full((len(p), len(p)), float(rho))
    np.fill_diagonal(memory, 1.0)
    return 1 / sqrt(1 + v_a * float(p @ memory @ p))


def _from(added):
    """The factor, with another variance added by cross-attention; `same` is Σp²."""
    return lambda v_a, p, rho: 1 / sqrt(1 + added(v_a, float((p**2).sum()), len(p), rho))


@maker
def _layer(random, least: int, most: int):
    weights = random.exponential(size=int(random.integers(least, most)))
    return float(random.uniform(0.3, 2)), weights / weights.sum(), float(random.uniform(0.15, 0.9))


DECODER_FACTOR = Exercise(
    "decoder_factor", "function", _decoder_factor,
    shows="Forward, cross-attention adds v_a·A to the stream's variance; the LN after it divides the gradient by the "
    "root of the sum; nothing comes back through the branch. That is the decoder's fall, layer by layer.",
    hint="Hint 1 has the variance of a weighted mean; Hint 2 follows the gradient through the LN.",
    inputs=(_layer(2, 3), _layer(3, 5), _layer(5, 20)),
    mistakes=(
        Mistake("squared",
            "That is what happens to the squared norm. The question is about the norm.",
            (lambda v_a, p, rho: _decoder_factor(v_a, p, rho) ** 2,)),
        Mistake("upside down",
            "Yours is above 1: the gradient would grow on its way down. LN divides it by the size of what went in.",
            (lambda v_a, p, rho: 1 / _decoder_factor(v_a, p, rho),)),
        Mistake("attention taken as uniform",
            "You gave every token the weight 1/n. That was section 5's case; here the weights are p.",
            (_from(lambda v_a, same, n, rho: v_a * (1 + (n - 1) * rho) / n),)),
        Mistake("tokens counted as independent",
            "You added what each token gives by itself. The tokens have cosine ρ with each other: pairs count too.",
            (_from(lambda v_a, same, n, rho: v_a * same),)),
        Mistake("tokens counted as one",
            "Your mean has the variance of a single token, as if all were the same. That holds only at ρ = 1.",
            (_from(lambda v_a, same, n, rho: v_a),)),
        Mistake("pairs counted with themselves",
            "You gave ρ to all pairs, those of a token with itself included, and those you have counted already. At ρ "
            "= 1 your mean would have a variance above 1.",
            (_from(lambda v_a, same, n, rho: v_a * (same + rho)),)),
        Mistake("gain left out",
            "The mean is right. W_V and W_O then multiply its variance by v_a, before it is added to the stream.",
            (_from(lambda v_a, same, n, rho: same + (1 - same) * rho),)),
        Mistake("skip left out",
            "What enters the LN is the stream plus the branch. The stream itself has variance 1.",
            (_from(lambda v_a, same, n, rho: v_a * (same + (1 - same) * rho) - 1),)),
        Mistake("the variance alone",
            "That is the variance that the branch brings. Which sum does the LN then read, and what does LN do to a "
            "gradient on its way back?",
            (lambda v_a, p, rho: _decoder_factor(1, p, rho) ** -2 - 1,
             lambda v_a, p, rho: _decoder_factor(v_a, p, rho) ** -2 - 1)),
        Mistake("gradient returned",
            "Yours is 1 whatever the memory: as in self-attention, where what the branch adds forward it returns "
            "backward. Whose gradient does cross-attention's branch return?",
            (lambda v_a, p, rho: 1.0,)),
    ),
)  # fmt: skip


# Explain encoder versus decoder ---------------------------------------------------------------------------------

WHY_DECODER = Exercise(
    "why_decoder", "text", ("b", "(b)"),
    shows="The branch adds variance, which the LN turns into a division of the gradient, and what flows back through "
    "the branch goes to the encoder. Self-attention and the FFN return to their own stream what they cost it.",
    hint="Hint 1 names a measurement for each answer; Hint 2 names the one that decides.",
    mistakes=(
        Mistake("the mask",
            "You measured a causal stack without cross-attention. It has the mask, and it is flat.",
            ("a", "(a)")),
        Mistake("distance from the loss",
            "The encoder is farther from the loss than any decoder layer, and it is flat. Distance alone does nothing.",
            ("c", "(c)")),
        Mistake("the norm alone",
            "The encoder's LNs divide by the same √1.5 in every layer, and it is flat: skip and FFN branch together "
            "give back 3/2 of the squared gradient, and 2/3 · 3/2 = 1.",
            ("d", "(d)")),
    ),
)  # fmt: skip


# A setting in which Pre-LN's gradient is the larger -------------------------------------------------------------

TIMES = 10


def pre_over_post(setting: dict[str, Any], seeds=range(3)) -> float:
    """Pre-LN's ‖∂L/∂W_2‖ over Post-LN's in the lowest layer of the last side, geometric mean over seeds.

    `setting` names controls of the gradient explorer; those left out are as the explorer starts.
    """
    display = {"view", "parameter", "theory", "lecture"}  # controls that change no measurement
    unknown = next((name for name in setting if name not in DEFAULTS and name not in display), None)
    if unknown is not None:
        raise ValueError(f"The explorer has no control {short_repr(unknown)}; it has {', '.join(DEFAULTS)}.")
    state = {**DEFAULTS, **setting}
    norms = []
    for key in ("pre", "post"):
        cfg = model_config(state, key)
        table = gradient_norms(cfg, seeds=seeds, inputs=model_inputs(state), parameters=("W_2",))
        lowest = table[(table["side"] == cfg.sides[-1]) & (table["layer"] == 1)]
        norms.append(np.log(np.asarray(lowest["value"], float)))
    return float(np.exp(np.mean(norms[0] - norms[1])))


def _how_far(setting: Any) -> float:
    """`pre_over_post` of what a reader hands over, over the ten times that are asked for."""
    if not isinstance(setting, dict):
        raise ValueError(
            "Write the controls that you moved as a dict, such as {'depth': 6, 'stack': 'encoder'}; "
            f"you handed over {short_repr(setting)}."
        )
    return pre_over_post(setting) / TIMES


PRE_IS_LARGER = Exercise(
    "pre_is_larger", "object", lambda setting: _how_far(setting) >= 1,
    shows="In your setting Pre-LN's lowest layer has at least ten times the gradient of Post-LN's. Whether that is "
    "worse depends on what hurts: here it is Post-LN's gradient that has vanished.",
    hint="Hint 1 says which stack; Hint 2 says which slider.",
    mistakes=(
        Mistake("Post-LN is larger",
            "In your lowest layer Post-LN still has the larger gradient. Which sub-layer makes Post-LN lose gradient "
            "on the way down, does your stack have it, and how often?",
            seen=lambda arguments, setting, expected: _how_far(setting) < 1 / TIMES),
        Mistake("larger, not ten times",
            "Pre-LN's gradient is the larger one, and not yet ten times. Each layer multiplies Post-LN's by about the "
            "same factor: how do you get more of them?",
            seen=lambda arguments, setting, expected: 1 / TIMES <= _how_far(setting) < 1),
    ),
)  # fmt: skip

EXERCISES = (FALL_PER_LAYER, GRADIENT_NORM, DECODER_FACTOR, WHY_DECODER, PRE_IS_LARGER)
