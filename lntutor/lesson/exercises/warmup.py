"""Exercises of 06_warmup. References: Vaswani's schedule, torch's optimisers, sacrebleu, and a run that was trained."""

from __future__ import annotations

from collections import Counter
from functools import cache
from math import sqrt
from typing import Any

import torch

from lntutor.lesson.exercises import Exercise, Mistake, identity, maker, rule
from lntutor.model.config import ModelConfig
from lntutor.training.optimizers import BETAS, EPS
from lntutor.training.trainer import Run

# Write the schedule --------------------------------------------------------------------------------------------


def _learning_rate(t, T, lr):
    """Vaswani et al. 2017, eq. 3, with a peak of lr: √T·min(1/√t, t/√T³)."""
    return lr * sqrt(T) * min(t**-0.5, t * T**-1.5)


def _rate(grows=lambda t, T: t / T, falls=lambda t, T: sqrt(T / t)):
    """The two pieces of eq. 1, with one of them changed."""
    return lambda t, T, lr: lr * (grows(t, T) if t <= T else falls(t, T))


@maker
def _step(random, t, T):
    """A step and a warm-up, from two functions of the Generator; the step may depend on the warm-up."""
    warmup = T(random)
    return t(random, warmup), warmup, float(random.choice([5e-4, 1e-3, 5e-3, 1e-2]))


def _some(random) -> int:
    return int(random.integers(5, 400))


LEARNING_RATE = Exercise(
    "learning_rate", "function", _learning_rate,
    shows="Your schedule is the paper's: a straight line up to lr at step T, then 1/√t, and the two pieces meet there. "
    "At step 1 it gives lr/T, and at T = 1, the paper's “no warm-up”, it falls from the first step on.",
    hint="Hint 1 has three points that the curve goes through; Hint 2 says how the second piece meets the first.",
    inputs=(
        _step(lambda random, T: 1, lambda random: 4),
        _step(lambda random, T: int(random.integers(2, T)), _some),
        _step(lambda random, T: T, _some),
        _step(lambda random, T: T + 1, _some),
        _step(lambda random, T: int(random.integers(T + 5, 9 * T)), _some),
        _step(lambda random, T: int(random.integers(2, 90)), lambda random: 1),
    ),
    mistakes=(
        Mistake("first step wasted",
            "At step 1 your rate is 0: a batch is read, a gradient is computed, and nothing moves. Steps count from 1 "
            "here; in code that counts from 0 your line would be the right one after a shift.",
            (_rate(grows=lambda t, T: (t - 1) / T),
             lambda t, T, lr: lr * ((t - 1) / T if t - 1 < T else sqrt(T / (t - 1))),
             lambda t, T, lr: lr * ((t - 1) / T if t - 1 < T else sqrt(T / t)))),
        Mistake("one step ahead",
            "You are a step ahead of the schedule: at step T your rate is above lr. t + 1 belongs to code in which "
            "the first step has the number 0.",
            (_rate(grows=lambda t, T: (t + 1) / T),
             lambda t, T, lr: lr * min((t + 1) / T, sqrt(T / (t + 1))),
             lambda t, T, lr: lr * min((t + 1) / T, 1.0) * (sqrt(T / t) if t > T else 1))),
        Mistake("no decay",
            "Up to step T all is well. After it your rate stays where it is, for ever. That is a schedule too, and "
            "the course calls it constant; the paper's falls.",
            (_rate(falls=lambda t, T: 1.0),)),
        Mistake("jumps after T",
            "Your rate climbs to lr and then drops to about lr/√T at once: with T = 100, to a tenth. Which factor "
            "makes the second piece start where the first one ends?",
            (_rate(falls=lambda t, T: 1 / sqrt(t)), lambda t, T, lr: lr * (t / T if t < T else 1 / sqrt(t)))),
        Mistake("the clock starts anew",
            "You count the steps after the warm-up from its end. Four steps later your rate has halved; the paper's "
            "halves when the whole run is four times as long as the warm-up.",
            (_rate(falls=lambda t, T: 1 / sqrt(t - T)),
             _rate(falls=lambda t, T: 1 / sqrt(t - T + 1)),
             _rate(falls=lambda t, T: min(1.0, sqrt(T / (t - T)))),
             _rate(falls=lambda t, T: sqrt(T / (t - T))))),
        Mistake("no warm-up",
            "Yours falls from the first step on, and is highest there. Warm-up is the other way round: what should "
            "the rate do before step T?",
            (lambda t, T, lr: lr / sqrt(t), lambda t, T, lr: lr * sqrt(T / t), _rate(grows=lambda t, T: 1.0))),
        Mistake("decays from the start",
            "You multiply warm-up and decay at every step, so the rate never gets to lr. Before step T only the one "
            "is at work, after it only the other.",
            (lambda t, T, lr: lr * min(1.0, t / T) / sqrt(t),
             lambda t, T, lr: lr * t / T * sqrt(T / t),
             lambda t, T, lr: lr * t / T / sqrt(t))),
        Mistake("without the root",
            "Yours falls as 1/t. The paper's falls more slowly: at four times T it has halved, and yours is a quarter.",
            (_rate(falls=lambda t, T: T / t),)),
        Mistake("a straight line down",
            "You come down as straight as you went up, and are at zero after 2T steps. BERT's schedule comes down in "
            "a line, to the end of the run; here the rate never gets to zero.",
            (_rate(falls=lambda t, T: 2 - t / T), _rate(falls=lambda t, T: max(0.0, 2 - t / T)))),
        Mistake("grows after T",
            "After step T your rate goes on growing. Look at which of t and T stands above the line.",
            (_rate(falls=lambda t, T: sqrt(t / T)), lambda t, T, lr: lr * t / T)),
        Mistake("the larger of the two",
            "The line and the root cross at step T, and you follow the upper one: your rate is lowest where it should "
            "be highest.",
            (lambda t, T, lr: lr * max(t / T, sqrt(T / t)),)),
        Mistake("peak left out",
            "The shape is right, and its peak is 1. The highest rate is lr.",
            (lambda t, T, lr: _learning_rate(t, T, 1.0),)),
    ),
    tolerance=1e-9,
)  # fmt: skip


# A step of Adam ------------------------------------------------------------------------------------------------


def _adam_step(g, m, v, t, lr):
    """What torch's Adam adds to weights that start at 0, with its state as it is before step t."""
    weights = torch.zeros_like(g).requires_grad_()
    adam = torch.optim.Adam([weights], lr, BETAS, EPS)
    adam.state[weights] = {"step": torch.tensor(t - 1.0), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    weights.grad = g
    adam.step()
    return weights.detach()


def _average(old, new, beta):
    return beta * old + (1 - beta) * new


def _slip(
    betas=BETAS, average=_average, corrects=(True, True), below=lambda v: v.sqrt() + EPS, above=lambda m, g: m,
    count=identity, sign=-1,
):  # fmt: skip
    """Kingma & Ba 2015, algorithm 1, with one thing changed."""

    def step(g, m, v, t, lr):
        m, v = average(m, g, betas[0]), average(v, g * g, betas[1])
        m, v = (x / (1 - b ** count(t)) if c else x for x, b, c in zip((m, v), betas, corrects, strict=True))
        return sign * lr * above(m, g) / below(v)

    return step


@maker
def _gradients(random, t: int, scale: float = 1.0):
    """Step t after t − 1 others; coordinates have sizes from a thousandth to a thousand times `scale`."""
    sizes = scale * torch.tensor([1e-3, 1.0, 1e3], dtype=torch.float64)
    before = sizes * torch.tensor(random.standard_normal((t - 1, 3)))
    ago = torch.arange(t - 2, -1, -1, dtype=torch.float64)[:, None]
    m, v = (((1 - b) * b**ago * x).sum(0) for b, x in zip(BETAS, (before, before**2), strict=True))
    g = sizes * torch.tensor(random.uniform(0.5, 2, 3) * random.choice([-1, 1], 3))
    return g, m, v, t, float(random.choice([1e-3, 1e-2]))


def _absent(random) -> tuple:
    """A word that has not been seen yet beside one that has: its gradient is 0."""
    g, m, v, t, lr = _gradients(1)(random)
    g[0] = 0
    return g, m, v, t, lr


ADAM_STEP = Exercise(
    "adam_step", "function", _adam_step,
    shows="Your step equals that of torch's Adam. Its first step is −lr or +lr in each coordinate that has a gradient, "
    "be it a thousandth or a thousand: the size of a gradient is not the size of a step.",
    hint="Hint 1 has the five lines in order; Hint 2 works the first step out by hand.",
    inputs=(_gradients(1), _absent, _gradients(1, 1e-8), _gradients(2), _gradients(7), _gradients(300)),
    mistakes=(
        Mistake("no bias correction",
            "m and v start at 0 and are too small at first: at step 1, m is a tenth of the gradient and √v a seventh. "
            "If the gradient stays the same, your first step is 0.7·lr and your tenth 1.5·lr. Adam's are all lr.",
            (_slip(corrects=(False, False)),)),
        Mistake("v not corrected",
            "You corrected m and left v as it is: at step 1, √v is a seventh of the gradient, so your first step is "
            "seven times lr. That is a bad start without a bad gradient.",
            (_slip(corrects=(True, False)),)),
        Mistake("m not corrected",
            "You corrected v and left m as it is, a tenth of the gradient at step 1: your first step is a tenth of "
            "lr. A little warm-up of its own, and not Adam's.",
            (_slip(corrects=(False, True)),)),
        Mistake("forgets the root",
            "You divided by v, which has the unit of a squared gradient. A coordinate with a gradient of a thousandth "
            "would step a thousand times lr.",
            (_slip(below=lambda v: v + EPS),)),
        Mistake("ε inside the root",
            "You added ε before taking the root, where it weighs √ε = 0.0001. Gradients below that are common for "
            "rare words, and their steps would nearly vanish. In Adam ε is added to the root.",
            (_slip(below=lambda v: (v + EPS).sqrt()),)),
        Mistake("ε left out",
            "A word that no batch has had yet has m = v = 0, and you divide 0 by 0. Adam adds a tiny number below.",
            (_slip(below=lambda v: v.sqrt()),)),
        Mistake("β₁ and β₂ exchanged",
            "Your m has the long memory and your v the short one. The mean of gradients forgets within 10 steps, 0.9; "
            "that of their squares within 50, 0.98.",
            (_slip(betas=BETAS[::-1]), _slip(betas=(BETAS[1],) * 2), _slip(betas=(BETAS[0],) * 2))),
        Mistake("new and old exchanged",
            "Your averages keep a tenth of what was and take nine tenths of the new gradient. A running mean is slow: "
            "β is the share that is kept.",
            (_slip(average=lambda old, new, beta: (1 - beta) * old + beta * new),)),
        Mistake("the other way",
            "You climb. The gradient points to where the loss grows, and what is added to the weights goes against it.",
            (_slip(sign=1),)),
        Mistake("no momentum",
            "Above the line you have this step's gradient. Adam has there the corrected mean of the last ones; at "
            "step 1 the two are the same, and you see it from step 2 on.",
            (_slip(above=lambda m, g: g),)),
        Mistake("averages not updated",
            "You used m and v as they came. They know the steps before this one; take the new gradient in first.",
            (_slip(average=lambda old, new, beta: old),)),
        Mistake("counts from 0",
            "At step 1 you divide by 1 − β⁰ = 0. One gradient has entered by then, so the power is 1.",
            (_slip(count=lambda t: t - 1),)),
    ),
    tolerance=1e-9,
)  # fmt: skip


# BLEU's precision ----------------------------------------------------------------------------------------------


def _modified_precision(candidate, reference, n):
    """The n-gram precision that sacrebleu reports, without its tokenizer and its smoothing."""
    from sacrebleu import BLEU

    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    return bleu.corpus_score([" ".join(candidate)], [[" ".join(reference)]]).precisions[n - 1] / 100


def _grams(words: list[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[i:] for i in range(n)), strict=False))


def _clipped(candidate, reference) -> int:
    """How many of these are in the reference, each counted as often as it is there, at most."""
    return (Counter(candidate) & Counter(reference)).total()


def _counted(matches=_clipped, of=lambda candidate, reference, n: len(_grams(candidate, n)), grams=_grams):
    """Matches over a total, with one thing changed."""

    def precision(candidate, reference, n):
        return matches(grams(candidate, n), grams(reference, n)) / max(of(candidate, reference, n), 1)

    return precision


@maker
def _sentences(random, n: int):
    """Two sentences with words in common, in which words and n-grams come more than once."""
    words = ["a", "man", "sits", "on", "the", "bench", "in", "park"]
    reference = [*words[:4], "the", "bench", *random.choice(words, 5).tolist(), "in", "the", "park"]
    start = int(random.integers(0, 4))
    piece = reference[start : start + n + 1]
    candidate = [*piece, *piece, *random.choice(words, 4).tolist(), *piece, *reference[-n:]]
    return candidate, reference, n


MODIFIED_PRECISION = Exercise(
    "modified_precision", "function", _modified_precision,
    shows="Your precision equals sacrebleu's. BLEU is the geometric mean of four of them, n = 1 to 4, times a penalty "
    "for being short. Without the clipping, “the the the” would have a precision of 1 at n = 1.",
    hint="Hint 1 counts a small example by hand; Hint 2 names a class that counts, and an operator that clips.",
    inputs=(
        lambda random: (["the"] * 7, ["the", "cat", "is", "on", "the", "mat"], 1),
        lambda random: (["man", "a", "sits", "on", "the", "bench"], ["a", "man", "sits", "on", "the", "bench"], 2),
        _sentences(1),
        _sentences(2),
        _sentences(3),
    ),
    mistakes=(
        Mistake("no clipping",
            "“the the the the the the the” gets 7 of 7 from you, against a reference that has two. A word of the "
            "reference can be matched once; how often can “the” count?",
            (_counted(matches=lambda c, r: sum(gram in r for gram in c)),)),
        Mistake("sets",
            "You look at which n-grams there are and not at how often. Seven times “the” is seven words that somebody "
            "has to read, and the reference asks for two of them.",
            (_counted(matches=lambda c, r: len(set(c) & set(r)), of=lambda c, r, n: len(set(_grams(c, n)))),)),
        Mistake("clipped at one",
            "Each n-gram counts once for you, however often the reference has it. Two “the” in the reference are two "
            "that can be matched.",
            (_counted(matches=lambda c, r: len(set(c) & set(r))),)),
        Mistake("recall",
            "You divided by what the reference has: the share of it that was found, recall. Precision asks of the "
            "candidate what share of it is right; the brevity penalty makes up for what that misses.",
            (_counted(of=lambda c, r, n: len(_grams(r, n))), _counted(of=lambda c, r, n: len(r)))),
        Mistake("divides by words",
            "You divided by the number of words. A sentence of 6 words has 5 pairs: count what you compare.",
            (_counted(of=lambda c, r, n: len(c)),)),
        Mistake("n ignored",
            "You compare single words, whatever n is. Pairs and triples are how BLEU sees the order of words.",
            (lambda c, r, n: _counted()(c, r, 1),)),
        Mistake("last one left out",
            "Your window stops too early: the n-gram that ends in the last word is missing. How many windows of n fit "
            "into a sentence of m words?",
            (_counted(grams=lambda words, n: _grams(words[:-1], n), of=lambda c, r, n: len(_grams(c[:-1], n))),)),
        Mistake("order ignored",
            "For you “man a” matches “a man”. The order inside an n-gram counts.",
            (_counted(grams=lambda words, n: [tuple(sorted(gram)) for gram in _grams(words, n)]),)),
        Mistake("per cent",
            "That is a percentage. BLEU is given in per cent at the end; here a share between 0 and 1 is asked for.",
            (lambda c, r, n: 100 * _counted()(c, r, n),)),
    ),
)  # fmt: skip


# Explain SGD ---------------------------------------------------------------------------------------------------

RARE = tuple(range(1, 13))  # in every k-th batch
LONG_RUN = 2000  # steps


@cache
def _distances() -> dict[str, list[float]]:
    """How far a weight moves whose gradient is 1 in every k-th batch and else 0, for each k of RARE, by torch."""
    every = torch.tensor(RARE)
    moved = {}
    for name, make in (
        ("sgd", lambda w: torch.optim.SGD(w, 1.0, momentum=0.9)),
        ("adam", lambda w: torch.optim.Adam(w, 1.0, BETAS, EPS)),
    ):
        weights = torch.zeros(len(every), dtype=torch.float64, requires_grad=True)
        optimizer = make([weights])
        for step in range(LONG_RUN):
            weights.grad = (step % every == every - 1).double()
            optimizer.step()
        moved[name] = weights.detach().abs().tolist()
    return moved


def _times_farther(k):
    return [far[0] / far[RARE.index(k)] for far in _distances().values()]


def _pair(sgd, adam):
    return lambda k: [sgd(k), adam(k)]


def _k(least: int, most: int):
    return lambda random: (int(random.integers(least, most + 1)),)


TIMES_FARTHER = Exercise(
    "times_farther", "function", _times_farther,
    shows="Your two numbers are what torch's SGD and Adam do in 2000 steps. Under SGD a rare word learns k times more "
    "slowly, under Adam √k times. Most words are rare: this is one reason why SGD falls behind on text, "
    "with warm-up or without (Kunstner et al. 2024).",
    hint="Hint 1 takes k steps of SGD; Hint 2 has the means that m and v settle at.",
    inputs=(_k(4, 4), _k(2, 3), _k(5, 8), _k(9, 12)),
    mistakes=(
        Mistake("Adam moves all alike",
            "Adam's step is lr for a gradient that is the same in every batch. The rare word's is 1 once and then 0 "
            "for a while: m settles near 1/k. Where does √v settle?",
            (_pair(identity, lambda k: 1),)),
        Mistake("v left out",
            "You have k for Adam, too, as if m alone decided. v is the mean of squares: 1 in every k-th batch makes "
            "it 1/k, and its root stands below the line.",
            (_pair(identity, identity),)),
        Mistake("rare ahead under Adam",
            "Under Adam you let the rare word move farther. Small m above the line, small √v below it: which of the "
            "two is the smaller?",
            (_pair(identity, lambda k: 1 / k), _pair(identity, lambda k: k**-0.5))),
        Mistake("upside down",
            "Below 1 it says that the rare word moves farther. How many times as far has the common one come?",
            (_pair(lambda k: 1 / k, lambda k: k**-0.5),)),
        Mistake("exchanged",
            "These are the two numbers, in the other order: SGD first, then Adam.",
            (_pair(sqrt, identity),)),
        Mistake("SGD moves all alike",
            "When a word is not in a batch its gradient is 0, and SGD leaves it where it is. In k batches the common "
            "word makes k steps; how many does the other make?",
            (_pair(lambda k: 1, lambda k: 1), _pair(lambda k: 1, sqrt), _pair(lambda k: 1, identity))),
        Mistake("a root under SGD",
            "SGD adds gradients up and takes no root. In k batches the common word makes k steps, the other one.",
            (_pair(sqrt, sqrt), _pair(sqrt, lambda k: 1))),
    ),
    tolerance=0.01,  # of k: Adam's memory of 50 steps is not endless
)  # fmt: skip


# Rescue Post-LN ------------------------------------------------------------------------------------------------

POST = ModelConfig("post", depth=2, width=64, heads=4, ffn=256)
PEAK, STEPS, LONGEST, TARGET = 1e-2, 300, 200, 1.6  # rate, steps of the run, of its warm-up, loss to get below


def _rescued(run: Any) -> bool:
    return isinstance(run, Run) and not any(mistake.seen and mistake.seen((), run, None) for mistake in RESCUE.mistakes)


def _failed(run: Run) -> bool:
    return not run.val_loss < TARGET


def _falls(run: Run) -> bool:
    return run.table["lr"].iloc[-1] < run.table["lr"].max()


RESCUE = Exercise(
    "rescue", "object", _rescued,
    shows=f"Post-LN trains with Adam at {PEAK:g} and holds that rate to the end; only the way there was gentler. From "
    "the same weights, with the same rate at once, it had not got below 2.4 when we tried.",
    hint="Hint 1 says which steps do the harm; Hint 2 names the setting that is left to you.",
    mistakes=(
        rule("not a run",
            "The check looks at a run: hand over what training returned, one Run.",
            lambda run: not isinstance(run, Run)),
        rule("another placement",
            "You moved the norm. That is the paper's own way out and a good one; here Post-LN is to stay.",
            lambda run: run.model.placement.key != "post"),
        rule("another model",
            "It is another model, and a shallower one may train where this one does not. Keep two layers per side, "
            "width 64, 4 heads and an FFN of 256.",
            lambda run: run.model != POST),
        rule("another optimiser",
            "You changed the optimiser. RAdam and GI-Adam hold their own first steps back, which is a warm-up under "
            "another name, and SGD is another story. Stay with Adam, and do it by hand.",
            lambda run: run.how.optimizer != "adam"),
        rule("a lower rate",
            f"A lower rate rescues Post-LN as well, and is often what one should do. It is not what is asked here: the "
            f"rate is to get to {PEAK:g}. Must it be there from the first step on?",
            lambda run: run.how.lr < PEAK),
        rule("the rate falls away",
            "Your rate comes down again before the end, and a lower rate is a rescue of its own. To see what the "
            "start does, keep the rate constant once it is there.",
            _falls),
        rule("diverged",
            f"The loss is no longer a number. A rate far above {PEAK:g} is more than the start alone can mend.",
            lambda run: run.status == "diverged"),
        rule("clipped in place of warmed up",
            "You cut long gradients. Adam divides by the gradient's own size, so their length hardly matters to it; "
            "the rate, which multiplies every step, does.",
            lambda run: run.how.clip > 0 and run.how.warmup == 0 and _failed(run)),
        rule("full rate from the first step",
            "Your first step already has the full rate. Adam's first step is of size lr in every coordinate, and its "
            "direction rests on one batch. What could be done about the first steps alone?",
            lambda run: run.how.warmup <= 1 and _failed(run)),
        rule("gets there too late",
            f"The rate is still growing after step {LONGEST}. A run that is on its way up to the end has had a lower "
            f"rate: be at the top by step {LONGEST}.",
            lambda run: run.how.warmup > LONGEST),
        rule("ended too soon",
            f"The run has fewer than {STEPS} steps. Let it go on to the end before you judge it.",
            lambda run: len(run.table) < STEPS),
        rule("too short a warm-up",
            f"There is a warm-up, and the loss is not below {TARGET:g} yet. The first steps were still too bold: how "
            "long do you have to be patient?",
            lambda run: run.how.warmup < 100 and _failed(run)),
        rule("learns too slowly",
            f"The rate does what it should, and the loss is not below {TARGET:g}. Something else slows it down: fewer "
            "than 32 sentences per step, or much dropout.",
            _failed),
    ),
)  # fmt: skip

EXERCISES = (LEARNING_RATE, ADAM_STEP, MODIFIED_PRECISION, RESCUE, TIMES_FARTHER)
