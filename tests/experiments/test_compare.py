"""Several runs side by side: trained once, remembered by what they depend on."""

import pandas as pd
import pytest

from lntutor.experiments.compare import _cell, compare, curves, finals, gradients
from lntutor.model.config import ModelConfig, TrainConfig
from lntutor.model.placements import Placement, each
from lntutor.text.corpus import load_corpus
from lntutor.training.trainer import Trainer, train

CFG = ModelConfig("pre", depth=1, width=16, heads=2, ffn=16)
HOW = TrainConfig(lr=1e-3, steps=6, batch=8, validate_every=3)
pytestmark = pytest.mark.usefixtures("own_cache")


def cases():
    return {"Post-LN": (CFG.with_(placement="post"), HOW), "Pre-LN": (CFG, HOW)}


def same(one, two):
    pd.testing.assert_frame_equal(*(run.table.drop(columns="tokens_per_second") for run in (one, two)))
    pd.testing.assert_frame_equal(one.gradients, two.gradients)
    return (one.bleu, one.samples, one.status) == (two.bleu, two.samples, two.status)


def test_cases_are_trained_with_every_seed_and_remembered(corpus, monkeypatch):
    """Oracle: `train` itself, one run at a time; the second time, nothing may be trained."""
    first = compare(cases(), corpus, seeds=[0, 3], pairs=4, jobs=1, progress=False)
    assert {name: [run.how.seed for run in runs] for name, runs in first.items()} == {key: [0, 3] for key in cases()}
    assert same(first["Pre-LN"][1], train(CFG, HOW.with_(seed=3), corpus, pairs=4, progress=False))
    monkeypatch.setattr(Trainer, "step", None)
    again = compare(cases(), corpus, seeds=[0, 3], pairs=4, jobs=1, progress=False)
    assert all(same(a, b) for name in first for a, b in zip(first[name], again[name], strict=True))


def test_a_question_is_another_when_anything_in_it_changes(corpus):
    """Oracle: each of these changes what would be measured."""
    rules = [each(lambda x, f, N, at: x + f(N(x))), each(lambda x, f, N, at: x + 2.0 * f(N(x)))]
    mine = [CFG.with_(placement=Placement("mine", "x + f(N(x))", rule)) for rule in rules]
    questions = [
        (CFG, HOW, corpus, 4), (CFG, HOW, corpus, 5), (CFG, HOW.with_(lr=2e-3), corpus, 4),
        (CFG.with_(width=32), HOW, corpus, 4), (mine[0], HOW, corpus, 4), (mine[1], HOW, corpus, 4),
        (CFG, HOW, load_corpus("captions", limit=100), 4), (CFG, HOW, load_corpus("captions", min_frequency=5), 4),
    ]  # fmt: skip
    keys = [_cell(*question).key for question in questions]
    assert len(set(keys)) == len(keys)
    assert keys == [_cell(*question).key for question in questions]


def test_tables_of_several_runs_are_tidy(corpus):
    """Oracle: the runs' own tables."""
    runs = compare(cases(), corpus, seeds=[0, 1], pairs=4, jobs=1, progress=False)
    table = curves(runs)
    assert len(table) == 4 * HOW.steps
    assert set(zip(table["run"], table["placement"], strict=True)) == {("Post-LN", "post"), ("Pre-LN", "pre")}
    ends = finals(runs)
    assert ends["val_loss"].tolist() == [run.val_loss for group in runs.values() for run in group]
    assert set(gradients(runs)["step"]) == {1, 3, 6}
