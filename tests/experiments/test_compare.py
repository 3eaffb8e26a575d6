"""Several runs side by side: trained once, remembered by what they depend on."""

import numpy as np
import pandas as pd
import pytest

from lntutor import comparison, store
from lntutor.comparison import compare, curves, finals, gradients, recall, steps_to
from lntutor.config import ModelConfig, TrainConfig
from lntutor.corpus import load_corpus
from lntutor.placements import Placement, each
from lntutor.training import Trainer, train

CFG = ModelConfig("pre", depth=1, width=16, heads=2, ffn=16)
HOW = TrainConfig(lr=1e-3, steps=6, batch=8, validate_every=3)


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("captions")


@pytest.fixture(autouse=True)
def own_store(tmp_path, monkeypatch):
    monkeypatch.setenv("LNTUTOR_CACHE", str(tmp_path))


def cases():
    return {"Post-LN": (CFG.with_(placement="post"), HOW), "Pre-LN": (CFG, HOW)}


def same(one, two):
    pd.testing.assert_frame_equal(
        one.table.drop(columns="tokens_per_second"), two.table.drop(columns="tokens_per_second")
    )
    pd.testing.assert_frame_equal(one.gradients, two.gradients)
    return (one.bleu, one.samples, one.status) == (two.bleu, two.samples, two.status)


def test_cases_are_trained_with_every_seed_and_remembered(corpus, monkeypatch):
    """Oracle: `train` itself, one run at a time; the second time, `train` may not be called."""
    first = compare(cases(), corpus, seeds=[0, 3], pairs=4, jobs=1, progress=False)
    assert {name: [run.how.seed for run in runs] for name, runs in first.items()} == {
        "Post-LN": [0, 3],
        "Pre-LN": [0, 3],
    }
    assert same(first["Pre-LN"][1], train(CFG, HOW.with_(seed=3), corpus, pairs=4, progress=False))
    monkeypatch.setattr(comparison, "train", None)
    again = compare(cases(), corpus, seeds=[0, 3], pairs=4, jobs=1, progress=False)
    assert all(same(a, b) for name in first for a, b in zip(first[name], again[name], strict=True))


@pytest.mark.notebook  # as long as one
def test_processes_give_what_one_process_gives(corpus):
    """Oracle: the same runs, one after the other."""
    alone = compare(cases(), corpus, seeds=[1], pairs=4, keep=False, jobs=1, progress=False)
    shared = compare(cases(), corpus, seeds=[1], pairs=4, keep=False, jobs=2, progress=False)
    assert all(same(alone[name][0], shared[name][0]) for name in alone)


@pytest.mark.parametrize("damage", ["", "{", "[]", "3", '{"table": 3}', "\x00"])
def test_an_entry_that_cannot_be_read_is_computed_again(corpus, damage):
    """Oracle: a run that was never stored."""
    wanted = compare({"a": cases()["Pre-LN"]}, corpus, seeds=[0], pairs=2, jobs=1, progress=False)
    (entry,) = store.folder().glob("*.json")
    entry.write_text(damage)
    again = compare({"a": cases()["Pre-LN"]}, corpus, seeds=[0], pairs=2, jobs=1, progress=False)
    assert same(wanted["a"][0], again["a"][0])
    assert recall(CFG, HOW, corpus, 2) is not None


def test_an_interrupt_keeps_the_runs_that_have_ended(corpus, monkeypatch):
    """Oracle: the first case is found in the store afterwards, the second is not."""

    real = Trainer.step

    def interrupted(self, step):
        if self.cfg is CFG and step == 3:
            raise KeyboardInterrupt
        return real(self, step)

    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compare(cases(), corpus, seeds=[0], pairs=2, jobs=1, progress=False)
    assert recall(CFG.with_(placement="post"), HOW, corpus, 2) is not None
    assert recall(CFG, HOW, corpus, 2) is None


def test_a_folder_that_cannot_be_written_costs_only_the_memory(corpus, monkeypatch, tmp_path):
    """Oracle: the runs are there all the same; a warning says that they are not remembered."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LNTUTOR_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="not remembered"):
        runs = compare({"a": cases()["Pre-LN"]}, corpus, seeds=[0], pairs=0, jobs=1, progress=False)
    assert runs["a"][0].status == "finished"


def test_a_question_is_another_when_anything_in_it_changes(corpus):
    """Oracle: each of these changes what would be measured."""
    rules = [each(lambda x, f, N, at: x + f(N(x))), each(lambda x, f, N, at: x + 2.0 * f(N(x)))]
    mine = [CFG.with_(placement=Placement("mine", "x + f(N(x))", rule)) for rule in rules]
    questions = [
        (CFG, HOW, corpus, 4), (CFG, HOW, corpus, 5), (CFG, HOW.with_(lr=2e-3), corpus, 4),
        (CFG.with_(width=32), HOW, corpus, 4), (mine[0], HOW, corpus, 4), (mine[1], HOW, corpus, 4),
        (CFG, HOW, load_corpus("captions", limit=100), 4), (CFG, HOW, load_corpus("captions", min_frequency=5), 4),
    ]  # fmt: skip
    names = [comparison._key(*question) for question in questions]
    assert len(set(names)) == len(names)
    assert names == [comparison._key(*question) for question in questions]


def test_a_rule_is_known_by_what_it_does():
    """Oracle: a helper that is defined anew, a closure over another number, and a copy."""

    def scaled(by):
        return lambda x: by * x

    assert store.fingerprint(scaled(2)) == store.fingerprint(scaled(2))
    assert store.fingerprint(scaled(2)) != store.fingerprint(scaled(3))
    one, two = (lambda x, *, by=by: by * x for by in (1, 2))
    assert store.fingerprint(one) != store.fingerprint(two)
    assert store.fingerprint(scaled(np.zeros(2000))) != store.fingerprint(scaled(np.eye(2000)[1000]))

    class Scaled:
        def __init__(self, by):
            self.by = by

        def rule(self, x):
            return self.by * x

    assert store.fingerprint(Scaled(1).rule) != store.fingerprint(Scaled(2).rule)
    names = {}
    exec("def helper(x): return x\ndef rule(x): return helper(x)", names)
    before = store.fingerprint(names["rule"])
    exec("def helper(x): return x + x", names)
    assert store.fingerprint(names["rule"]) != before


def test_tables_of_several_runs_are_tidy(corpus):
    """Oracle: the runs' own tables."""
    runs = compare(cases(), corpus, seeds=[0, 1], pairs=4, jobs=1, progress=False)
    table = curves(runs)
    assert len(table) == 4 * HOW.steps
    assert set(zip(table["run"], table["placement"], strict=True)) == {("Post-LN", "post"), ("Pre-LN", "pre")}
    ends = finals(runs)
    assert ends["val_loss"].tolist() == [run.val_loss for several in runs.values() for run in several]
    assert set(gradients(runs)["step"]) == {1, 3, 6}
    run = runs["Pre-LN"][0]
    at_3, at_6 = run.table["val_loss"].dropna()
    assert steps_to(run, max(at_3, at_6)) == (3 if at_3 >= at_6 else 6)
    assert steps_to(run, 0.0) == float("inf")
