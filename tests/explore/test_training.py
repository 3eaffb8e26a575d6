"""The training explorer in process: its runs are those of `train`, at the pace of the test where that matters."""

import io
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lntutor as ln
from lntutor.explore import TrainingExplorer, training_plan
from lntutor.explore.training_plan import RunSetting, names, plan
from lntutor.training import trainer as training
from tests.explore.explorers import TRAINING, choose, finish, same_run, status_text, trained

pytestmark = pytest.mark.usefixtures("quick_work")


def test_run_trains_each_position_and_shows_curves_scores_and_sentences():
    """Oracle: `train` with the same settings, and its numbers in table, figure and page."""
    e = TRAINING.finished(warmup=10)
    assert list(e.runs) == ["Post-LN", "Pre-LN"]
    for name, key in (("Post-LN", "post"), ("Pre-LN", "pre")):
        same_run(e.runs[name], trained(key, 10))
    drawn = next(trace for trace in e.figure.data if trace.uid == "loss/Pre-LN")
    np.testing.assert_allclose(drawn.y, e.runs["Pre-LN"].table["loss"])
    assert len(e.table()) == 40
    assert f"{e.runs['Pre-LN'].val_loss:.2f}" in e.results.value
    assert f"<td>{e.runs['Pre-LN'].bleu:.1f}</td>" in e.results.value
    assert e.runs["Post-LN"].samples[0].reference in e.results.value


def test_masked_words_train_an_encoder_and_have_no_score():
    """Oracle: `train` of an encoder on the same task."""
    e = TRAINING.finished(task="masked_words", placements=["pre"])
    same_run(e.runs["Pre-LN"], trained("pre", task="masked_words"))
    assert e.runs["Pre-LN"].bleu is None
    assert "<td>–</td>" in e.results.value


def test_stop_keeps_what_was_measured_and_drops_what_is_to_come(gate, start):
    """Oracle: the first rows of the whole run; a stopped run is made anew."""
    e = TRAINING.new()
    start(e, 5)
    e.buttons["stop"].click()
    assert e.buttons["stop"].disabled
    gate.release(1)
    e.wait(60)
    assert list(e.runs) == ["Post-LN"]
    run = e.runs["Post-LN"]
    assert (run.status, run.bleu, len(run.table)) == ("stopped", None, 6)
    gate.release(1000)
    np.testing.assert_array_equal(run.table["loss"], trained("post").table["loss"][:6])
    assert status_text(e).startswith("Stopped. Run: 2 runs of 20 steps")
    assert "stopped at step 6" in e.results.value
    finish(e)
    assert {name: r.status for name, r in e.runs.items()} == {"Post-LN": "finished", "Pre-LN": "finished"}


def test_a_corpus_that_is_not_here_is_refused_with_the_way_to_get_it(monkeypatch):
    """Oracle: the sentence."""
    monkeypatch.delenv("LNTUTOR_MULTI30K", raising=False)
    with pytest.raises(ValueError, match="multi30k is not on this computer"):
        TrainingExplorer(corpus="multi30k")


@pytest.mark.parametrize(
    ("preset", "rows", "stack"),
    [
        (
            "figure 2",
            "post adam 0, post adam 1, post adam 50, post adam 200, post sgd 1, post sgd 200",
            "encoder-decoder",
        ),
        ("figure 4", "post adam 200, pre adam 0, pre radam 0", "encoder-decoder"),
        ("figure 5", "post adam 200, pre adam 0", "encoder"),
    ],
)
def test_a_preset_is_the_set_of_runs_of_its_figure(preset, rows, stack):
    """Oracle: what the captions of Xiong et al. 2020 compare, in the warm-ups of a small run."""
    e = TrainingExplorer(preset=preset)
    settings = plan(e.state())
    assert ", ".join(f"{s.model.placement.key} {s.how.optimizer} {s.how.warmup}" for s in settings) == rows
    assert {s.model.stack for s in settings} == {stack}
    assert f"Run: {len(settings)} runs of 500 steps" in status_text(e)
    again = eval(e.code(), {"TrainingExplorer": TrainingExplorer})
    assert again.state() == e.state() == TrainingExplorer(**e.state()).state()
    assert f"preset={preset!r}" in e.code()


def test_a_preset_runs_all_its_settings_and_a_move_of_what_it_decides_leaves_it():
    """Oracle: the runs; the controls after a move."""
    e = TRAINING.finished(preset="figure 4")
    assert list(e.runs) == ["Post-LN, Adam, warm-up 200", "Pre-LN, Adam, no warm-up", "Pre-LN, RAdam, no warm-up"]
    same_run(e.runs["Pre-LN, RAdam, no warm-up"], trained("pre", optimizer="radam"))
    e.controls["lr"].value = 3e-3
    assert e.state()["preset"] == "figure 4"
    assert {setting.how.lr for setting in plan(e.state())} == {3e-3}
    e.controls["warmup"].value = 10
    assert e.state()["preset"] == ""
    assert [setting.how.warmup for setting in plan(e.state())] == [10, 10]
    e.controls["preset"].value = "figure 4"
    assert e.state() == TRAINING.new(lr=1e-2, preset="figure 4", warmup=10).state()


settings_given = st.builds(
    lambda key, optimizer, lr, warmup, seed: RunSetting(
        ln.ModelConfig(key, 2, 16), ln.TrainConfig(optimizer, lr, warmup, seed=seed), "captions"
    ),
    *map(st.sampled_from, (["post", "pre"], ["adam", "sgd"], [1e-3, 1e-2], [0, 50], [0, 1])),
)


@given(st.lists(settings_given, min_size=1, max_size=8))
def test_names_tell_runs_apart_and_say_nothing_that_all_share(settings):
    """Oracle: as many names as runs; a part that is the same in all is in no name."""
    given = names(settings)
    assert len(set(given)) == len(given)
    for part in settings[0].phrases():
        values = {setting.phrases()[part] for setting in settings}
        if len(values) == 1 and part != "placement":
            assert not any(value in name for value in values for name in given)


def test_results_escape_every_word_and_tell_how_a_run_ended():
    """Oracle: the entities of HTML; the last step of a run whose loss was not finite."""
    run = trained("post")
    sample = training.Sample("<b>Hund</b>", "dog & cat", "<script>" + " dog" * 30)
    lost = replace(run, status="diverged", table=run.table.head(7), bleu=None, samples=())
    page = training_plan.results({"<i>mine</i>": replace(run, samples=(sample,)), "lost": lost})
    cut = "&lt;script&gt;" + " dog" * 19 + " …"
    for part in ("<td>diverged at step 7</td>", "&lt;b&gt;Hund&lt;/b&gt;", "dog &amp; cat", cut):
        assert part in page
    assert not re.search("<i>|<script>", page)


def test_the_table_shows_validations_and_the_file_has_every_step(monkeypatch):
    """Oracle: counting rows."""
    e = TRAINING.finished(placements=["pre"])
    sent = []
    monkeypatch.setattr(e.plot, "send", lambda content, buffers=None: sent.append(buffers))
    choose(e, "Show or hide the table")
    assert e.table_area.value.count("<tr") == 1 + e.table()["val_loss"].notna().sum()
    choose(e, "Save numbers (CSV)")
    assert len(pd.read_csv(io.BytesIO(sent[0][0]))) == 20
