"""One table of everything public and what it must refuse: each wrong value is answered with a sentence that names it.

A row has a function, arguments that are right, and for each argument values that are not. Every value is tried by
itself. tests/model/test_config.py has the ranges of every field, tests/explore/test_bad_controls.py the controls of
the explorers, tests/repository/test_fuzz.py what nobody thought of.
"""

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lntutor as ln
from lntutor import explore, figures, lesson
from lntutor.lesson import claims
from lntutor.lesson.exercises import Exercise, Mistake, check
from lntutor.lesson.quiz_items import READINESS, Choice, Item
from lntutor.measure.attention import sentence_attention, softmax_saturation
from lntutor.model.checks import depth_list, seed_list
from lntutor.model.placements import At, draw
from tests.figures import registry

HUGE, BEYOND, ENDLESS = 10**12, 10**400, 10**5000  # more than a machine has, than a float holds, than Python writes
WHOLE = (
    "6", None, [6], {}, 2.5, True, math.nan, math.inf, -1, HUGE, BEYOND, ENDLESS, np.float64(2), np.array([1, 2]), 1j,
)  # fmt: skip
NUMBER = ("0.1", None, [0.1], {}, True, math.nan, math.inf, -math.inf, BEYOND, 1j)
WORD = ("nonsense", "", None, 3, ["post"], {}, math.nan, b"post", np.array(["a", "b"]), "\udcff", "a\0b")
FLAG = ("yes", None, 1, 0.0, [], math.nan, np.array([True]))
SEEDS = ("ab", None, [], {}, [1, 1], [-1], [0.5], [True], [2**31], 1.5, math.nan, range(HUGE), [HUGE])
DEPTHS = ("ab", None, 6, [], [0], [65], [2.5], math.nan, range(HUGE))
THING = ("post", None, 3, [], {}, math.nan, object)  # where one of our own classes is due
TEXT = (None, 3, [], {}, math.nan, b"words")  # where any words are fine
FUNCTION = ("f", None, 3, [])
TABLE = ("table", 3, [], {}, math.nan, np.ones(3))  # where a table is due; None is one without rows

TINY = ln.ModelConfig(depth=1, width=8, heads=1, ffn=8)
LARGE = ln.ModelConfig(depth=64, width=4096, heads=1, ffn=16384)  # allowed field by field, and 112 GiB of weights
FEW = ln.Inputs(tokens=2, vocab=8)
RULE = ln.PLACEMENTS["post"].layer
IDS = np.array([[3, 4, 0]])
NO_ROWS = pd.DataFrame()
ITEMS = READINESS[:1]
ASK = {"name": "bad", "question": "What?", "reveal": lambda: 1}


def corpus() -> ln.Corpus:
    """A small text; read once."""
    return ln.load_corpus("captions", limit=40)


def after_a_question() -> dict[str, Any]:
    """The name of a question that is on the page."""
    return {"name": lesson.Predict("asked", "What?", choices=["a", "b"], reveal=lambda: "a").name}


@dataclass(frozen=True)
class Row:
    """A function, arguments that are right, and for each argument values that are not."""

    name: str  # as the reader writes it
    call: Callable
    right: dict[str, Any] | Callable[[], dict[str, Any]]
    wrong: dict[str, tuple]
    free: tuple[str, ...] = ()  # arguments of which every value is fine
    says: dict[str, str] = field(default_factory=dict)  # argument → what the sentence has in place of its name

    def arguments(self) -> dict[str, Any]:
        return self.right() if callable(self.right) else self.right


def measurement(name: str, **more: tuple) -> Row:
    """A row of one of the functions that measure a model."""
    wrong = {"cfg": (*THING, LARGE), "seeds": SEEDS, "inputs": (*THING, "gaussian"), "dtype": (*WORD, "float16")}
    says = {"cfg": "cfg must be a ModelConfig|GiB"}
    return Row(name, getattr(ln, name), {"cfg": TINY, "seeds": 0, "inputs": FEW}, wrong | more, says=says)


def with_text(name: str, call: Callable, right: dict, wrong: dict[str, tuple], free=()) -> Row:
    """A row of a function that is given a model and a text."""
    wrong = {"cfg": (*THING, LARGE), "corpus": ("captions", None, 3, [], TINY)} | wrong
    return Row(
        name, call, lambda: {"cfg": TINY, "corpus": corpus(), **right}, wrong, free, {"cfg": "ModelConfig|GiB|weights"}
    )


def figure(name: str, right: dict | None = None, **wrong: tuple) -> Row:
    """A row of a figure: its tables, note and type are checked; a name that no table has gives an empty figure."""
    draw = getattr(figures, name)
    arguments = inspect.signature(draw).parameters
    tables = [
        n for n, p in arguments.items() if re.search(r"\b(Table|DataFrame)\b", str(p.annotation)) and "pinned" not in n
    ]
    if right is None:
        right = {tables[0]: registry.TABLES[draw](), **registry.MORE.get(draw, {})}
    given = {"note": TEXT, "lecture": ("yes", 3, [])}
    known = dict.fromkeys(tables, TABLE) | {n: v for n, v in given.items() if n in arguments} | wrong
    free = tuple(n for n in arguments if n not in known)
    return Row(f"figures.{name}", draw, right, known, free, dict.fromkeys(tables, "pandas table"))


DRAWING = draw(ln.PLACEMENTS["post"], At("encoder", 1, 6, "encoder"))
GUESS = {"unit": "", "log": False, "lecture": None}
FREE = {  # helpers of figures and of questions: what is given to them comes from this package
    "fewest_norms": {"graph": figures.layout(DRAWING)},
    "fixed": {"value": 1.0, "digits": 2},
    "guess_on_curve": {"x": [1], "guess": [1.0], "measured": [2.0], **GUESS},
    "guess_on_line": {"guess": 1.0, "measured": 2.0, "ends": (0, 3), **GUESS},
    "layout": {"drawing": DRAWING},
    "slope": {"x": [1, 2], "y": [1, 2]},
    "votes": {"choices": ["a"], "counts": [[1]], "measured": "a", "lecture": None},
}
SPECTRUM = {"lambda_max": 1.0, "lambda_max_error": 0.0, "lambda_min": 1.0, "lambda_min_error": 0.0, "probes": 1,
            "steps": 1, "seed": 0, "eigenvalues": [1.0], "weights": [1.0]}  # fmt: skip
ROWS = [
    # Settings. Their ranges are in tests/model/test_config.py.
    Row("ModelConfig", ln.ModelConfig, {}, {
        "placement": WORD, "depth": (0, 65, *WHOLE), "width": (0, 1, *WHOLE), "heads": (0, 3, *WHOLE),
        "ffn": (0, *WHOLE), "stack": WORD, "attention": WORD, "init": WORD, "output_projection": FLAG, "norm": WORD,
    }),
    Row("ModelConfig.theorem", ln.ModelConfig.theorem, {}, {"placement": WORD, "depth": WHOLE, "width": WHOLE}),
    Row("ModelConfig.figure3", ln.ModelConfig.figure3, {}, {"placement": WORD, "depth": WHOLE}),
    Row("ModelConfig.with_", lambda **new: TINY.with_(**new), {}, {"depth": WHOLE, "placement": WORD}),
    Row("TrainConfig", ln.TrainConfig, {}, {
        "optimizer": WORD, "lr": (0, *NUMBER), "warmup": WHOLE, "schedule": WORD, "steps": (0, *WHOLE),
        "batch": (0, *WHOLE), "seed": WHOLE, "task": WORD, "momentum": (1, *NUMBER), "dropout": (1, *NUMBER),
        "label_smoothing": (1, *NUMBER), "clip": (-1, *NUMBER), "validate_every": (0, *WHOLE),
        "warmup_only": ("middle", None, 3, [3], math.nan), "warmup_except": ("decoder.²", None, 3, [None]),
    }),
    Row("Inputs", ln.Inputs, {}, {
        "kind": WORD, "tokens": (0, 2000, *WHOLE), "batch": (0, 2000, *WHOLE), "loss": WORD, "vocab": (1, *WHOLE),
        "head": (0, *NUMBER),
    }),
    Row("Batch", ln.Batch, {"source": IDS, "target": IDS, "labels": IDS, "vocab": (5, 5)}, {
        "source": (None, "ab", 3, [[1.5]], [[1], [1, 2]], [[-1]], [[HUGE]], [], IDS[0]), "pad": WHOLE,
        "target": ("ab", 3, [[1.5]], [[9, 9, 9]], IDS[:, :2], []), "labels": (None, "ab", 3, IDS * 0, IDS[:, :2]),
        "vocab": ("ab", None, 3, (5,), (5, 5, 5), (5, None), (2, 5), (math.nan, 5), {}),
    }, says={"target": "target|labels", "vocab": "vocab|source"}),
    # Placements.
    Row("Placement", ln.Placement, {"label": "Mine", "formula": "x ← x", "layer": RULE}, {
        "label": (*TEXT, ""), "formula": TEXT, "layer": (*FUNCTION, lambda x: x, lambda x, subs, N, at: x @ x),
        "reference": TEXT, "year": ("2020", 2020.5, [], math.nan), "start": FUNCTION, "finish": FUNCTION,
        "gain": FUNCTION, "taps": (None, "q", 3, [3], {"q": 3}, {3: RULE}, {"x": RULE}), "norm": FUNCTION[::2][:1],
        "profile": FLAG[:4], "key": TEXT,
    }, says={"layer": "layer|cannot be read"}),
    Row("PLACEMENTS", lambda key: ln.PLACEMENTS[key], {}, {"key": WORD}, says={"key": "placement must be one of post"}),
    Row("PLACEMENTS", ln.PLACEMENTS.__setitem__, {"key": "mine", "placement": ln.PLACEMENTS["post"]}, {
        "key": ("", "a b", "../x", None, 3, [], math.nan), "placement": THING,
    }, says={"placement": "must be a Placement"}),
    # Measurements and theory.
    *map(measurement, ("signal_norms", "backward_norms", "token_similarity", "attention_entropy", "input_share",
                      "learned_gradients")),
    measurement("gradient_norms", parameters=("W_9", ["W_9"], None, 3, [3], math.nan)),
    Row("last_layer_gradients", ln.last_layer_gradients, {"cfg": TINY, "depths": [1], "seeds": 0, "inputs": FEW}, {
        "cfg": THING, "depths": DEPTHS, "parameter": WORD, "seeds": SEEDS, "inputs": THING, "dtype": WORD,
    }),
    Row("predict", ln.predict, {"cfg": TINY, "quantity": "last_layer", "depths": [1], "seeds": 0, "inputs": FEW}, {
        "cfg": THING, "quantity": WORD, "inputs": THING, "depths": DEPTHS, "parameter": WORD, "seeds": SEEDS,
    }),
    Row("predict", ln.predict, {"cfg": ln.ModelConfig.theorem(depth=64), "quantity": "signal"}, {
        "inputs": (ln.Inputs(tokens=4096, vocab=65536),),
    }, free=("depths", "parameter", "seeds", "cfg", "quantity"), says={"inputs": "needs 272 GiB, the limit is 8 GiB"}),
    Row("broken_assumptions", ln.broken_assumptions, {"cfg": TINY}, {"cfg": THING, "inputs": THING, "brief": FLAG}),
    Row("theorem_bound", ln.theorem_bound, {}, {"cfg": (*THING, TINY.with_(placement="peri"))},
        says={"cfg": "cfg|placement='peri'"}),
    # Text.
    Row("load_corpus", ln.load_corpus, {}, {
        "name": (*WORD, "../captions", "~no_such_reader/x", "x" * 5000, "/dev/null", object),
        "folder": ("nowhere", "../nowhere", 3, [1], {1: 2}, math.nan, b"x", "a\0b", "\udcff", "/dev/null", object),
        "min_frequency": (0, *WHOLE), "lower": FLAG, "limit": (0, *[v for v in WHOLE if v is not None]),
    }, says={"name": "name|corpus|folder", "folder": "folder|captions"}),
    Row("Corpus.pairs", lambda **k: corpus().pairs(**k), {}, {"split": WORD}),
    Row("Corpus.tokens", lambda **k: corpus().tokens(**k), {"sentence": "ein Hund"}, {
        "sentence": TEXT, "language": WORD,
    }),
    Row("Corpus.text", lambda words: corpus().text(words), {}, {"words": (None, 3, [3], [None], math.nan, [b"x"])}),
    *(Row(f"Corpus.{name}", lambda name=name, **k: getattr(corpus(), name)(**k), {"split": "val", "size": 2, **seed}, {
        "split": WORD, "size": (0, *WHOLE), "seed": [v for v in WHOLE if v is not None], "pool": (0, *WHOLE), **task,
    }) for name, seed, task in (
        ("batches", {}, {"task": WORD}), ("stream", {"seed": 0}, {"task": WORD}), ("padding", {}, {}),
    )),
    Row("Corpus.batch", lambda **k: corpus().batch(**k), {"split": "val", "pairs": 2}, {
        "split": WORD, "task": WORD, "pairs": (0, HUGE, True, None, 2.5, "ab", [], [-1], [HUGE], [0.5], math.nan),
    }),
    Row("Corpus.encode_sources", lambda sentences: corpus().encode_sources(sentences), {}, {
        "sentences": ("ein Hund", None, 3, [], [3], [None], ["x" * 5000]),
    }),
    # Training and curvature.
    with_text("train", ln.train, {"how": ln.TrainConfig(steps=1), "progress": False}, {
        "how": THING, "pairs": WHOLE, "beam": (0, *WHOLE), "samples": WHOLE, "progress": FLAG,
    }),
    Row("compare", ln.compare, lambda: {"cases": {"a": (TINY, ln.TrainConfig(steps=1))}, "corpus": corpus()}, {
        "cases": ("a", None, 3, [], {}, {"a": TINY}, {"a": (TINY, 3)}, {"a": (3, ln.TrainConfig())}, {"a": ()}),
        "corpus": ("captions", None), "seeds": SEEDS, "pairs": WHOLE, "keep": FLAG, "progress": FLAG,
        "jobs": (0, *[v for v in WHOLE if v is not None]),
        "client": (3, "tcp://127.0.0.1:8786"),
    }, says={"cases": "cases|cfg|how"}),
    Row("sweep", ln.sweep, {"function": ln.signal_norms, "grid": {"depth": [1]}, "base": TINY}, {
        "function": ("f", None, 3, []), "base": ("post", 3, None), "keep": FLAG, "progress": FLAG,
        "grid": (None, 3, [], {}, {"depht": [1]}, {"depth": []}, {"depth": [0]}, {"depth": [1, 1]}, {"depth": ["a"]},
                 {"placement": [[]]}, {"placement": ["prr"]}, {"seed": range(HUGE)}, {3: [1]}, {"depth": [math.nan]}),
        "jobs": (0, *[v for v in WHOLE if v is not None]),
        "client": (3, "tcp://127.0.0.1:8786"),
    }, free=("fixed",), says={"base": "base|ModelConfig|cfg", "grid": "grid|placement"}),
    with_text("hessian_spectrum", ln.hessian_spectrum, {"progress": False, "pairs": 1, "steps": 1}, {
        "pairs": (0, *WHOLE), "steps": (0, *WHOLE), "progress": FLAG, "probes": (0, *WHOLE), "seed": WHOLE,
        "split": WORD, "kind": WORD, "only": ("W_9", "decoder.9", "encoder.x", None, 3, []), "memory": NUMBER,
        "dtype": WORD,
    }, free=("how",)),
    with_text("hessian_blocks", ln.hessian_blocks, {"progress": False, "pairs": 1, "steps": 1}, {
        "parameters": ("W_9", ["W_9"], None, 3, [], [3]), "steps": (0, *WHOLE), "progress": FLAG,
        "pairs": (0, *WHOLE), "seed": WHOLE, "split": WORD, "kind": (*WORD, "adam"), "memory": NUMBER, "dtype": WORD,
    }, free=("how",)),
    Row("Spectrum", ln.Spectrum, SPECTRUM, {
        "eigenvalues": ("ab", None, 3, [], [math.nan], [math.inf], [1, 2], [[1]], [BEYOND]),
        "weights": ("ab", None, 3, [], [math.nan], [1, 2]),
    }, free=tuple(inspect.signature(ln.Spectrum).parameters)[2:]),
    Row("Spectrum.smooth", lambda **k: ln.Spectrum(**SPECTRUM).smooth(**k), {}, {
        "width": (0, -1, *[v for v in NUMBER if v is not None]), "x": ("ab", 3, [math.nan], [[1.0]], {}, [BEYOND]),
    }),
    Row("Spectrum.of_table", ln.Spectrum.of_table, {}, {
        "rows": (*TABLE, None, NO_ROWS, pd.DataFrame({"weight": [1]})),
    }),
    # Attention on a sentence.
    Row("sentence_attention", sentence_attention, {"sentence": "a dog"}, {
        "sentence": (*TEXT, "", "  ", "a " * 25, "x" * 5000), "width": (0, *WHOLE), "heads": (0, 3, *WHOLE),
        "scaled": FLAG, "causal": FLAG, "seed": WHOLE,
    }),
    Row("softmax_saturation", softmax_saturation, {"widths": (8,)}, {
        "widths": ("8", None, 8, [0], [HUGE], [math.nan]), "keys": (0, 1, *WHOLE), "seeds": SEEDS,
    }),
    Row("stored_table", ln.stored_table, {"name": "warmup"}, {"name": WORD, "corpus": WORD}),
    Row("seed_list", seed_list, {}, {"seeds": SEEDS}),
    Row("depth_list", depth_list, {}, {"depths": DEPTHS}),
    # Lessons.
    Row("lesson.After", lesson.After, after_a_question, {"name": ("asked nowhere", None, 3, [])}, free=("pieces",)),
    Row("lesson.Predict", lesson.Predict, {**ASK, "choices": ["a", "b"]}, {
        "name": (*TEXT, "", "  "), "question": TEXT, "reveal": FUNCTION, "because": TEXT, "log": FLAG, "unit": TEXT,
        "class_mode": FLAG, "choices": ("ab", None, 3, [], ["a"], ["a", "a"], math.nan), "value": ((0, 1),),
        "curve": (([1, 2], 0, 1),),
    }),
    Row("lesson.Predict", lesson.Predict, {**ASK, "value": (0, 1)}, {
        "value": ("ab", 3, (), (1,), (1, 0), (0, math.nan), (0, math.inf), (0, BEYOND), (0, 1, 0), (0, 1, "x"), {}),
        "class_mode": FLAG, "log": (True,),
    }, free=("name", "question", "reveal", "choices", "because", "unit", "curve"), says={"log": "low > 0"}),
    Row("lesson.Predict", lesson.Predict, {**ASK, "curve": ([1, 2], 0, 1)}, {
        "curve": ("ab", 3, (), ([], 0, 1), ([1], 0, 1), (range(99), 0, 1), ([1, 2], 1, 0), ([1, 2], math.nan, 1), {}),
    }, free=("name", "question", "reveal", "choices", "because", "unit", "value", "log", "class_mode")),
    Row("lesson.Quiz", lesson.Quiz, {"items": ITEMS, "name": "bad"}, {
        "items": ("ab", None, 3, [], [3], {}), "name": TEXT, "explain": FLAG, "earlier": TEXT,
    }),
    Row("questions.Item", Item, {"key": "k", "prompt": "?", "choices": ITEMS[0].choices}, {
        "choices": ("ab", None, 3, [], [3], [Choice("a", "why")], [Choice("a", "why")] * 2),
    }, free=("key", "prompt", "read"), says={"choices": "choice"}),
    Row("lesson.inventory", lesson.inventory, {}, {"when": (*WORD, "during")}),
    Row("lesson.inventory_score", lesson.inventory_score, {}, {"when": (*WORD, "during")}),
    Row("lesson.lecture", lesson.lecture, {}, {"on": FLAG}),
    Row("lesson.class_votes", lesson.class_votes, {}, {"on": FLAG}),
    Row("lesson.reveal_all", lesson.reveal_all, {}, {"on": FLAG}),
    Row("lesson.guess_of", lesson.guess_of, {}, {"name": TEXT}),
    Row("lesson.readiness", lesson.readiness, {}, {}),
    Row("lesson.forget", lesson.forget, {}, {}),
    Row("lesson.Mistake", Mistake, {"name": "m", "message": "w"}, {}, free=("name", "message", "wrong", "seen")),
    Row("lesson.Exercise", Exercise, {"name": "e", "kind": "value", "reference": 1.0, "shows": "", "hint": ""}, {
        "kind": (*WORD, "function"), "inputs": (3, [1], None), "mistakes": (None, 3),
    }, free=("name", "reference", "shows", "hint", "tolerance", "rules")),
    Row("lesson.check", check, {"exercise": "layer_norm", "answer": 1}, {"exercise": WORD, "seed": (*WHOLE[2:],)},
        free=("answer",)),  # any answer is judged in words: tests/repository/test_fuzz.py
    # The playground; every setting is in tests/explore/test_playground.py.
    Row("explore.Playground", explore.Playground, {}, {
        "depth": (0, *WHOLE[:1], *WHOLE[2:]), "placement": WORD[2:], "slots": ("nonsense", *WORD[2:]),
        "preset": ("nonsense", *WORD[3:]), "nonsense": (1,),
    }, free=("state",)),
    # Claims.
    Row("lesson.record", claims.record, {"key": "attention.variance", "measured": 1.0, "verdict": "open"}, {
        "key": WORD, "verdict": WORD, "size": TEXT, "tables": ("../claims", 3, None, ["nonsense"], [3], math.nan),
        "measured": ("", "  ", None, [], {}, math.nan, [math.inf], BEYOND, object),
    }, free=("spread", "guess"), says={"key": "There is no claim", "tables": "table"}),
    *(Row(f"{where}.{name}", getattr(claims, name), {}, {"notebook": ("99", "../01", 99, -1, 1.5, [], math.nan, HUGE)},
          says={"notebook": "Notebooks with claims are 01"})
      for where, name in (("claims", "ledger"), ("lesson", "show_ledger"))),
    Row("lesson.whole_ledger", lesson.whole_ledger, {}, {}),
    # What notebooks measure with in an exercise.
    Row("lesson.judge", lesson.judge, {}, {"placement": WORD}),
    Row("lesson.last_output", lesson.last_output, {}, {}),
    Row("lesson.w2_gradient", lesson.w2_gradient, {}, {"g": (None, 3, [1.0], math.nan, [math.nan] * 64)}),
    # Figures: a table without rows or columns is a sentence in the figure (tests/figures/test_every_figure.py).
    figure("against"),
    Row("figures.alt_text", figures.alt_text, {}, {"fig": ("x", None, 3, NO_ROWS)}),
    figure("attention_map", {"weights": np.eye(2), "tokens": ["a", "b"]}, **{
        "weights": ("ab", None, 3, [1, 2], [[math.nan]], {}, 1j, np.ones((1, 1, 1, 1))),
        "tokens": ("abc", None, 3, ["a"], (["a"], ["b"]), {}, math.nan), "head": ("0", None, 1, -2, 0.5, HUGE),
        "entropy": ("x", [1, 2], {}),
    }),
    figure("block_diagram", {"placement": "post"}, placement=WORD, stack=WORD, side=("x", "decoder", 3, []),
           layer=(0, 7, *WHOLE), depth=(0, *WHOLE)),
    *map(figure, ("adam_by_step", "block_map", "bounded", "curvature_over_training", "gradient_by_depth",
                  "gradient_by_layer", "gradient_by_width", "jacobian_norm", "jacobian_spectrum", "outcomes",
                  "overview", "rate_by_step", "run_map", "schedules", "signal_by_layer", "similarity_by_layer",
                  "softmax_saturation", "spectrum", "training_curves", "warmup_heatmap")),
    figure("assumptions", along=WORD),
    figure("seesaw"),
    figure("theorem", along=WORD),
    figure("transplant"),
    figure("course_map", {}),
    figure("descent"),
    figure("gradient_over_training"),
    figure("gradient_through_norm", {"start": ([1.0], [1.0]), "now": ([1.0], [1.0]), "k": 2.0}),
    figure("norm_reach", {"reaches": {}}, reaches=({"LN": "ab"}, {"LN": [1.0]})),
    figure("layer_norm_before_after", {"x": [1.0, 2.0], "outputs": {}}, x=("ab", None, {}, [math.nan], [BEYOND], 1j),
           outputs=("x", None, 3, [1], {"LN": "ab"}, {"LN": [math.inf]})),
    Row("figures.placement_style", figures.placement_style, {}, {"key": TEXT}),
    Row("figures.rank_correlation", figures.rank_correlation, {"x": [1, 2, 3], "y": [1, 2, 3]}, {
        "x": ("ab", None, 3, [1, 2], [math.nan] * 3, {}), "y": ("ab", None, 3, [[1]], [math.nan] * 3),
    }),
    figure("ranked", {"measured": NO_ROWS, "x": "a", "y": "b"}),
    figure("ritz_values", true=("ab", None, 3, [math.nan])),
    *(Row(f"figures.{name}", getattr(figures, name), right, {}, free=tuple(right)) for name, right in FREE.items()),
    figure("side_by_side"),
    figure("values_by_row"),
]  # fmt: skip
CASES = [pytest.param(row, name, id=f"{row.name}-{name}") for row in ROWS for name in row.wrong]
PARTS = {  # of the machine, which lessons take apart in view of the reader: what they are given is seen in the cell
    "At", "draw", "each", "final_norm", "positions", "random_stream", "Weights", "Sequence", "Transformer",
    "Watch", "normalise", "feed", "Recorder", "forward", "attention_weights", "last_norm_inputs", "entropy",
    "journey", "softmax", "normalised", "DIVISORS", "jacobian", "jacobian_spectrum", "jacobian_norms",
    "lemma_1", "lemma_2_post", "lemma_2_pre", "lemma_3", "theorem_probability", "least_delta",
    "probability_by_epsilon", "at_every_position", "PAD", "Learner", "Quick", "learning_rate", "Trainer",
    "bleu", "Operator", "Scaled", "adam_scale", "Iteration", "measurement", "ends", "Lanczos", "density",
    "start_vector", "curves", "finals", "transplanted", "SMALL_MODEL", "QUICK_TRAINING", "STORED_CORPORA",
    "SIX_LAYERS", "adam_squares", "live_plot", "check_installation",
}  # fmt: skip
MADE = {"Run", "Corpus", "CorpusError", "__version__"}  # made by train, load_corpus and whoever reads a text; a word
DATA = {"TEMPLATE", "LECTURE_TEMPLATE"}


@pytest.mark.parametrize(("row", "name"), CASES)
def test_a_wrong_value_is_answered_with_a_sentence_that_names_it(row, name):
    """Oracle: the table above; a ValueError whose words name the argument, and no longer than a reader reads."""
    for value in row.wrong[name]:
        try:
            row.call(**{**row.arguments(), name: value})
        except ValueError as refused:
            message = str(refused)
            assert re.search(row.says.get(name, name.removesuffix("s")), message), (value, message)
            assert len(message) < 1500
        else:
            pytest.fail(f"{row.name} took {name}={value!r}")


def test_every_public_name_and_every_argument_has_a_row():
    """Oracle: the lists of public names, and the signatures."""
    public = {*ln.__all__} - MADE - PARTS | {f"lesson.{name}" for name in lesson.__all__}
    public |= {f"figures.{name}" for name in set(figures.__all__) - DATA}
    public |= {"claims.ledger", "explore.Playground"}
    assert public <= {row.name for row in ROWS}
    for row in ROWS:
        if row.call.__name__ == "<lambda>" or row.name.startswith("PLACEMENTS"):
            continue
        missing = {*inspect.signature(row.call).parameters} - {*row.wrong} - {*row.free}
        assert not missing, (row.name, missing)


def test_the_right_arguments_are_right():
    """A row whose right arguments fail would prove nothing; those that compute for long are tried elsewhere."""
    long = {"train", "compare", "hessian_spectrum", "hessian_blocks"}
    for row in ROWS:
        needed = {name for name, values in row.wrong.items() if name not in row.arguments()}
        if row.name not in long and not (needed and not row.arguments()) and "272 GiB" not in str(row.says):
            row.call(**row.arguments())
    ln.PLACEMENTS.pop("mine", None)


@pytest.mark.parametrize("number", [np.int64(2), np.int32(2), np.uint8(2)], ids=lambda value: type(value).__name__)
def test_numbers_of_numpy_are_as_good_as_pythons(number):
    """Oracle: the same settings with Python's own numbers."""
    mine = {"depth": 2, "width": 2, "heads": 2, "ffn": 2}
    assert ln.ModelConfig(**dict.fromkeys(mine, number)) == ln.ModelConfig(**mine)
    assert ln.Inputs(tokens=number, head=np.float32(2)) == ln.Inputs(tokens=2, head=2.0)
    assert ln.TrainConfig(lr=np.float64(0.5), seed=number, clip=number) == ln.TrainConfig(lr=0.5, seed=2, clip=2)
    assert seed_list([number]) == seed_list(number) == (2,)
    assert depth_list(np.array([number])) == [2]


def test_every_explorer_is_in_the_table_of_controls():
    """Oracle: the explorers that there are; their rows are in tests/explore/test_bad_controls.py."""
    from tests.explore.test_bad_controls import EXPLORERS

    assert set(EXPLORERS) == set(explore.__all__) - {"Playground"}
