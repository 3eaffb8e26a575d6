"""Which sentence answers which mistake: what was given, what is allowed, what to do; and no work is done before it.

tests/repository/test_bad_input.py tries every argument of everything public and asks only that a sentence names it.
"""

import pytest
import torch

import lntutor as ln
from lntutor import explore, lesson
from lntutor.curvature.lanczos import Lanczos
from lntutor.lesson.claims import ledger
from lntutor.lesson.exercises import Exercise, find
from lntutor.lesson.quiz_items import Choice, Item
from lntutor.measure.signals import last_norm_inputs
from lntutor.model.placements import Placement
from lntutor.theory import paper
from lntutor.training import trainer
from lntutor.training.decoding import bleu
from lntutor.training.optimizers import groups

CFG = ln.ModelConfig("post", depth=2, width=16, heads=2, ffn=16)
HOW = ln.TrainConfig(lr=1e-3, steps=12)
CHOICES = {"choices": ["it grows", "it falls"]}
FEW, DIFFERENT = "2 to 16 x values", "two or more different"
RULE = r"(?s)cannot be read.*{}.*a rule may use x \+ y, x - y, number"
HERE = r"01, 02, .*09; got"


def predict(**options) -> lesson.Predict:
    return lesson.Predict(**{"name": "bad", "question": "What?", "reveal": lambda: 1, **options})


def trained(**wrong) -> None:
    ln.train(**{"cfg": CFG, "how": HOW, "corpus": ln.load_corpus(), "progress": False} | wrong)


def swept(grid: dict, *base) -> None:
    ln.sweep(ln.gradient_norms, grid, base, progress=False)


MISTAKES = [  # a function, and what it is given → the sentence
    # Model and theory.
    (lambda layer: Placement("Broken", "", layer), [
        ((lambda x, subs, N, at: x @ x,), RULE.format("TypeError")),
        ((lambda x, subs, N, at: None,), RULE.format("returned NoneType")),
        ((lambda x, subs, N, at: (x, x),), RULE.format("returned tuple")),
        ((lambda x, subs, N: x,), RULE.format("positional")),
        ((lambda x, subs, N, at: N((x, x)),), RULE.format("not one stream")),
        ((lambda x, f, N, at: N(x + f(x)),), r"wrap a rule for one sub-layer: each\(lambda x, f, N, at: …\)"),
    ]),
    (lambda key: last_norm_inputs(ln.ModelConfig(key, 1, 16, 2, 16, stack="encoder"), seeds=0), [
        (("none",), "no single norm that reads its stream last"),
        (("residual",), "no single norm that reads its stream last"),
    ]),
    (paper.least_delta, [(([], 0.1), "one or more numbers"), (([1.0], -0.1), "epsilon must be a number")]),
    # Text.
    (ln.load_corpus, [
        (("captons",), "Did you mean 'captions'"), (("",), "There are captions, multi30k, iwslt14"),
        (("no/folder",), "no/folder"),
    ]),
    (lambda pairs: ln.load_corpus().batch("val", pairs), [
        ((1001,), r"pairs must be a whole number in 1\.\.1000, got 1001"),
        (([1000],), r"pair must be a whole number in 0\.\.999, got 1000"),
    ]),
    (lambda seed: ln.load_corpus().stream("train", 4, seed=seed), [((None,), "seed must be .* got None")]),
    # Training and curvature.
    (trained, [
        ({"pairs": -1}, "pairs must be a whole number"), ({"beam": 0}, "beam must be a whole number"),
        ({"samples": -2}, "samples must be a whole number"),
        ({"corpus": "captions"}, r"got 'captions'; load_corpus\('captions'\) gives one"),
        ({"cfg": CFG.with_(stack="encoder")}, "needs a model with stack='encoder-decoder', got stack='encoder'"),
        ({"how": HOW.with_(task="masked_words")}, "needs a model with stack='encoder'"),
    ]),
    (groups, [
        ((CFG, HOW.with_(warmup_only=("decoder.3",))), r"decoder\.3.*depth 2"),
        ((CFG.with_(depth=1, stack="encoder"), HOW.with_(warmup_only=("decoder",))), r"encoder, encoder\.1"),
    ]),
    (bleu, [  # sacrebleu itself does not notice unequal lengths, and fails on none with an IndexError
        (([], []), "as many translations as references"), ((["a"], ["a", "b"]), "as many translations as references"),
        ((["a", "b"], ["a"]), "as many translations as references"),
    ]),
    (lambda start: Lanczos(lambda v: v, start), [
        ((torch.zeros(3),), "a finite length above 0, got 0.0"),
        ((torch.tensor([1.0, float("nan")]),), "a finite length above 0, got nan"),
        ((torch.ones(3, 3),), r"must be a vector of floating-point numbers, got torch.float32 \(3, 3\)"),
        ((torch.ones(3, dtype=torch.int64),), "must be a vector of floating-point numbers, got torch.int64"),
    ]),
    (lambda cfg, pairs: ln.hessian_spectrum(cfg, ln.load_corpus(), pairs=pairs), [
        ((CFG, 1001), r"pairs must be 1\.\.1000, for captions's split 'val' has no more; got 1001"),
        ((CFG.with_(stack="encoder"), 10), "needs stack='encoder-decoder', got 'encoder'"),
    ]),
    # Sweeps.
    (swept, [
        (({}, CFG), r"grid must be a dict of one or more lists .* got \{\}"),
        (({"depth": []}, CFG), r"grid\['depth'\] must have one or more values of different names, got none"),
        (({"seed": [1, 2, 1]}, CFG), r"grid\['seed'\] must have one or more values of different names, got 1, 2, 1"),
        (({"dept": [1]}, CFG), r"key 'dept'; it may have placement, depth, .*seed.*did you mean 'depth'\?"),
        (({"lr": [1]}, CFG), "key 'lr'; it is a field of TrainConfig, which the function is not given"),
        (({"depth": [1]},), r"key 'depth'; it is a field of ModelConfig.*base=\(ModelConfig\(\),\)"),
        (({"dtype": ["float64"]},), "gradient_norms needs cfg: give it in base"),
        (({"width": [6], "heads": [2, 4]}, CFG), "an impossible cell, width=6, heads=4: heads must divide width"),
    ]),
    # Explorers; tests/explore/test_bad_controls.py tries every control.
    (explore.Playground, [
        ({"depth": 49}, r"depth must be a whole number in 1\.\.48, got 49"),
        ({"width": 100}, "width must be one of 16, 32"),
        ({"placements": ["post", "prr"]}, "compare must be one of post"),
        ({"preset": "fig 3"}, "preset must be one of post and pre, theorem"),
        ({"theory": "yes"}, "theory must be True or False, got 'yes'"),
    ]),
    # Lessons.
    (predict, [
        ({}, "give one of choices, value and curve; got none"), (CHOICES | {"value": (0, 1)}, "got choices and value"),
        ({"choices": ["one"]}, DIFFERENT), ({"choices": ["same", "same"]}, DIFFERENT), ({"choices": "abc"}, DIFFERENT),
        ({"value": (1, 0)}, "low < high"), ({"value": (0, float("inf"))}, "finite ends"),
        ({"value": (0, 1, 2, 3)}, r"\(low, high, step\)"), ({"value": (0, 1, 0)}, "above 0"),
        ({"value": (0, 1), "log": True}, "low > 0"),
        ({"curve": (0, 1)}, "x_values, low, high"), ({"curve": ([1], 0, 1)}, FEW), ({"curve": (range(99), 0, 1)}, FEW),
        (CHOICES | {"reveal": "it falls"}, "function without arguments"), (CHOICES | {"name": ""}, "name must be"),
    ]),
    (lambda *choices: Item("bad", "?", choices), [
        ((Choice("a", "x"), Choice("b", "y")), "one right choice"),
        ((Choice("a", "x"), Choice("a", "y", "m")), "one right choice"),
    ]),
    (lesson.Quiz, [(([], "empty"), "at least one item")]),
    (lesson.inventory, [(("during",), "before, after")]),
    (ledger, [(("00",), HERE), ((12,), HERE), (("attention",), HERE), (("",), HERE)]),
    (find, [(("atention",), r"no exercise 'atention'\. Did you mean attention")]),
    (Exercise, [
        (("x", "poem", 1, "", ""), "must be one of function, value, text, object"),
        (("x", "function", abs, "", ""), "a function has inputs"),
        (("x", "value", 1, "", "", (lambda random: (1,),)), "a function has inputs"),
    ]),
]  # fmt: skip
CASES = [(function, *row) for function, rows in MISTAKES for row in rows]


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize(("function", "given", "message"), CASES, ids=[message[:40] for *_, message in CASES])
def test_a_mistake_is_answered_in_a_sentence_before_any_work(function, given, message, monkeypatch):
    """Oracle: the sentences written here."""
    monkeypatch.setattr(trainer.Trainer, "step", None)
    monkeypatch.setattr("lntutor.experiments.sweep.compute", None)
    with pytest.raises(ValueError, match=message):
        function(**given) if isinstance(given, dict) else function(*given)
