"""Exercises of 09_after_the_paper. References: a geometric series, numpy, the streams of `theory`, measurement."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, sqrt
from typing import Any

import numpy as np

from lntutor.lesson.exercises import Exercise, Mistake, rule
from lntutor.measure.gradients import gradient_norms
from lntutor.measure.signals import input_share, signal_norms
from lntutor.model.config import Inputs, ModelConfig
from lntutor.model.placements import STACKS, At, Placement, draw
from lntutor.theory.mean_field import predict

# The stream of a rule ------------------------------------------------------------------------------------------


def _stream_after(a, b, layers):
    """The geometric series: 2·layers sub-layers, each q → a²q + b²."""
    kept = a ** (4 * layers)
    return kept + b**2 * (2 * layers if a == 1 else (1 - kept) / (1 - a**2))


def _steps(step, sub_layers=2):
    """What a recursion gives that does `step` for every sub-layer."""

    def wrong(a, b, layers):
        q = 1.0
        for _ in range(sub_layers * layers):
            q = step(q, a, b)
        return q

    return wrong


STREAM_AFTER = Exercise(
    "stream_after", "function", _stream_after,
    shows="With a = b = 1 it is 1 + 2l, Peri-LN's growth without end. With a < 1 it settles at b²/(1 − a²): a rule can "
    "bound the stream without a norm on the skip.",
    hint="Hint 1 has one sub-layer by hand; Hint 2 says how often it happens.",
    inputs=(
        lambda random: (1.0, 1.0, 1),
        lambda random: (1.0, float(random.uniform(0.3, 0.8)), int(random.integers(3, 9))),
        lambda random: (float(random.uniform(0.8, 0.95)), float(random.uniform(0.3, 0.8)), int(random.integers(2, 9))),
        lambda random: (float(random.uniform(1.05, 1.2)), float(random.uniform(0.3, 0.8)), int(random.integers(2, 6))),
    ),
    mistakes=(
        Mistake("numbers not squared",
            "You multiplied variances by a and b. A number times a vector multiplies its squared length by the square.",
            (_steps(lambda q, a, b: a * q + b),)),
        Mistake("one sub-layer per layer",
            "You took one step per layer. A layer of an encoder has two sub-layers, attention and FFN.",
            (_steps(lambda q, a, b: a**2 * q + b**2, sub_layers=1),)),
        Mistake("lengths added",
            "You added lengths. Branch and stream are independent, so their squared lengths add: no cross term.",
            (_steps(lambda q, a, b: (a * sqrt(q) + b) ** 2),)),
        Mistake("the branch follows the stream",
            "Your branch grows with the stream, as it does without any norm. Here the branch ends in N: its size is 1 "
            "whatever went in.",
            (_steps(lambda q, a, b: (a**2 + b**2) * q),)),
        Mistake("the skip left alone",
            "The skip is multiplied by a, too, in every sub-layer.",
            (_steps(lambda q, a, b: q + b**2),)),
    ),
)  # fmt: skip


# Admin's ω -----------------------------------------------------------------------------------------------------


def _omega_squared(variances):
    """One plus the sum of all variances before."""
    return 1 + np.concatenate([[0.0], np.cumsum(variances)[:-1]])


OMEGA_SQUARED = Exercise(
    "omega_squared", "function", _omega_squared,
    shows="Those are the sizes that Pre-LN's stream would have, so the sum ω·x + f(x) has the proportions of Pre-LN's "
    "stream and branch. That is why Admin starts as Pre-LN.",
    hint="Hint 1 has two sub-layers by hand; Hint 2 says what the first one gets.",
    inputs=(
        lambda random: ([0.5],),
        lambda random: ([float(v) for v in random.uniform(0.2, 1.5, 3)],),
        lambda random: ([float(v) for v in random.uniform(0.2, 1.5, 8)],),
    ),
    mistakes=(
        Mistake("its own variance counted",
            "Each of your numbers counts the sub-layer's own variance. ω weighs what came before against what f says "
            "now.",
            (lambda variances: 1 + np.cumsum(variances),)),
        Mistake("the input forgotten",
            "Your first skip is multiplied by 0: the input x has variance 1, and is the first thing that came before.",
            (lambda variances: np.concatenate([[0.0], np.cumsum(variances)[:-1]]),)),
        Mistake("ω, not ω²",
            "You took the root. ω² is asked for here, ω is what multiplies the skip.",
            (lambda variances: np.sqrt(_omega_squared(variances)),)),
        Mistake("only the one before",
            "You counted the last sub-layer only. The stream has collected all of them.",
            (lambda variances: 1 + np.concatenate([[0.0], np.asarray(variances)[:-1]]),)),
        Mistake("multiplied",
            "You multiplied factors 1 + Var. That is how a stream without any norm grows, where each branch follows "
            "the stream; with N in between they add.",
            (lambda variances: np.concatenate([[1.0], np.cumprod(1 + np.asarray(variances))[:-1]]),)),
    ),
)  # fmt: skip


# Peri-LN beside Pre-LN -----------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _last_gradient(placement: str, layers: int) -> float:
    cfg, one = ModelConfig.theorem(placement, depth=layers, width=64), Inputs(tokens=1, loss="probe")
    return float(predict(cfg, "last_layer", depths=[layers], inputs=one)["value"].iloc[0])


def _peri_over_pre(layers):
    """The streams' prediction for both rules, divided."""
    return _last_gradient("peri", layers) / _last_gradient("pre", layers)


PERI_OVER_PRE = Exercise(
    "peri_over_pre", "function", _peri_over_pre,
    shows="It goes from √(5/3) = 1.29 down to √(3/2) = 1.22, so it hardly depends on depth: at the start Peri-LN's "
    "last layer has the larger gradient of the two, in every depth.",
    hint="Hint 1 has the two sizes that the final norm is fed; Hint 2 says what the inner norm does to W_2.",
    inputs=(
        lambda random: (1,),
        lambda random: (int(random.integers(2, 6)),),
        lambda random: (int(random.integers(10, 30)),),
    ),
    tolerance=1e-3,
    mistakes=(
        Mistake("upside down",
            "You have Pre-LN's over Peri-LN's.",
            (lambda layers: sqrt((1 + 2 * layers) / (2 + 3 * layers)),)),
        Mistake("squared",
            "You compared squared norms; a norm's own ratio is the root.",
            (lambda layers: (2 + 3 * layers) / (1 + 2 * layers),)),
        Mistake("the limit",
            "That is what it comes to in very deep networks. A shallow one has a little more.",
            (lambda layers: sqrt(1.5),)),
        Mistake("streams only",
            "You divided by the size of the stream, and forgot the second norm of Peri-LN: it is fed a branch smaller "
            "than 1, and backward a norm divides by the size of what went in.",
            (lambda layers: sqrt((1 + 1.5 * layers) / (1 + 2 * layers)),)),
        Mistake("one layer short",
            "You took the stream before the last layer. The final norm reads what comes after it.",
            (lambda layers: sqrt((3 * layers - 1) / (2 * layers - 1)),)),
    ),
)  # fmt: skip


# A placement of one's own --------------------------------------------------------------------------------------

SIZE: dict[str, Any] = {"depth": 24, "width": 32, "heads": 4, "ffn": 128}
EVEN = 1.8  # the largest gradient of any layer's W_2 over the smallest, at most
LEFT = 0.5  # of the output that may be the input itself, at most


@dataclass(frozen=True)
class Judged:
    """What the challenge looks at, at the start of training: means over three seeds, 24 layers per side."""

    uneven: float  # the largest gradient of W_2 over the smallest, over all layers of both sides
    within: float  # the same within a side, the worse of the two
    rising: bool  # in that side, whether the top layer has more than the lowest
    stream: float  # ‖x‖²/d after the last layer, the larger of both sides
    left: float  # share of the decoder's output that is its input


def judge(placement: Placement | str) -> Judged:
    """Measure a placement for the challenge of notebook 09."""
    return _judge(ModelConfig(placement, **SIZE))


@lru_cache(maxsize=64)
def _judge(cfg: ModelConfig) -> Judged:
    table: Any = gradient_norms(cfg, parameters=("W_2",)).groupby(["layer", "side"])["value"].mean()
    norms = table.unstack().to_numpy()  # (layers, sides)
    worse = max(norms.T, key=lambda values: values.max() / values.min())
    last = signal_norms(cfg, seeds=range(2)).query("site == 'out' and layer == depth")
    left = input_share(cfg, seeds=range(2)).query("site == 'final' and side == 'decoder'")
    return Judged(
        float(norms.max() / norms.min()),
        float(worse.max() / worse.min()),
        bool(worse[-1] > worse[0]),
        max(np.mean(rows["value"]).item() for _, rows in last.groupby("side")),
        np.mean(left["value"]).item(),
    )


def _has_norm(placement: Placement) -> bool:
    layers = range(1, SIZE["depth"] + 1)
    return all(draw(placement, At("decoder", l, SIZE["depth"], STACKS[-1])).norms for l in layers)


def _bounded(placement: Placement) -> bool:
    found = judge(placement)
    return isfinite(found.uneven) and isfinite(found.stream) and found.stream <= judge("pre").stream


def _even(placement: object) -> bool:
    if not isinstance(placement, Placement) or not _has_norm(placement) or not _bounded(placement):
        return False
    return judge(placement).uneven < EVEN and judge(placement).left < LEFT


DESIGN = Exercise(
    "design", "object", _even,
    shows="Even gradients in all 48 layers, a stream no larger than Pre-LN's, and layers that do something: by this "
    "measure it beats Pre-LN, and all sixteen. Whether it trains better is another question: train it and see.",
    hint="Hint 1 says which two forces pull; Hint 2 names what the sixteen rules use and Pre-LN does not.",
    mistakes=(
        rule("not a placement",
            "The check looks at a placement: hand over what Placement(…) returned.",
            lambda answer: not isinstance(answer, Placement)),
        rule("no norm",
            "There is no norm in your layer. Small branches alone can do it, as in T-Fixup; here N is to stay.",
            lambda answer: not _has_norm(answer)),
        rule("blows up",
            "Your stream becomes larger than Pre-LN's. Every sub-layer adds, and in a network of 24 layers per side "
            "that is 120 times.",
            lambda answer: not _bounded(answer)),
        rule("does nothing",
            "Your layers whisper: more than half of what leaves the decoder is what went in. A network that does "
            "nothing has even gradients, and nothing to say.",
            lambda answer: judge(answer).left >= LEFT),
        rule("fades on the way down",
            "The gradient shrinks from the output to the input, as in Post-LN: the skip loses a factor at every "
            "sub-layer. How much may it lose, if there are L layers?",
            lambda answer: judge(answer).within >= EVEN and judge(answer).rising),
        rule("large at the bottom",
            "The low layers have the larger gradients, as in Pre-LN: the stream is smaller there. Can you keep it at "
            "one size without a norm on the skip?",
            lambda answer: judge(answer).within >= EVEN and not judge(answer).rising),
        rule("one side against the other",
            "Each side is even by itself, and the encoder's gradients are not the decoder's. What reaches the encoder "
            "comes through cross-attention.",
            lambda answer: judge(answer).within < EVEN),
    ),
)  # fmt: skip

EXERCISES = (STREAM_AFTER, OMEGA_SQUARED, PERI_OVER_PRE, DESIGN)
