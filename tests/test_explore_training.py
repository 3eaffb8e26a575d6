"""The training explorer in process: its runs are those of `train`, at the pace of the test where that matters."""

import io
import threading
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lntutor as ln
from lntutor import corpus, figures, training
from lntutor.explore import SignalExplorer, TrainingExplorer, runs, working
from lntutor.explore import training as explore_training
from lntutor.explore.runs import Setting, names, plan

TINY = {"depth": 1, "width": 16, "steps": 20, "lr": 1e-3}


@pytest.fixture(autouse=True)
def quick(no_pause, monkeypatch):
    """Few sentences are translated and validated on, and every step is drawn."""
    monkeypatch.setattr(training, "VALIDATION", 1)
    monkeypatch.setattr(explore_training, "PAIRS", 8)
    monkeypatch.setattr(working, "REDRAW", 0.0)


@pytest.fixture
def gate(monkeypatch):
    """Training goes on only as many steps as the test lets through."""
    gate, steps = threading.Semaphore(0), training.steps

    def gated(*setting):
        for progress in steps(*setting):
            assert gate.acquire(timeout=60)
            yield progress

    monkeypatch.setattr(training, "steps", gated)
    return gate


def until(condition, seconds: float = 60) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def words(explorer) -> str:
    """The status line as it is read."""
    return explorer.status.value.split("</style>")[-1]


def finished(**state) -> TrainingExplorer:
    """An explorer that has run what it was asked for."""
    explorer = TrainingExplorer(**{**TINY, **state})
    explorer.run()
    explorer.wait(120)
    return explorer


def direct(placement: str, warmup: int = 0, optimizer: str = "adam", task: str = "translation", seed: int = 0):
    """The same run made by `train`."""
    cfg = ln.ModelConfig(placement, 1, 16, 4, 64, "encoder" if task == "masked_words" else "encoder-decoder")
    how = ln.TrainConfig(optimizer, 1e-3, warmup, steps=20, task=task, seed=seed, validate_every=2)
    return training.train(cfg, how, corpus.load_corpus(), pairs=8, samples=3, progress=False)


def same_run(run, other) -> None:
    """Equal but for the speed."""
    one, two = (r.table.drop(columns="tokens_per_second") for r in (run, other))
    pd.testing.assert_frame_equal(one, two)
    assert (run.model, run.how, run.status, run.bleu, run.samples) == (
        other.model, other.how, other.status, other.bleu, other.samples
    )  # fmt: skip


# Running ---------------------------------------------------------------------------------------------------------


def test_a_placement_that_profiles_trains_as_any_other():
    """Oracle: `train` with the same settings; Admin's variances are of the first batch in both."""
    e = finished(placements=["admin"])
    assert e.error is None
    same_run(e.runs["Admin"], direct("admin"))


def test_run_trains_each_position_and_shows_curves_scores_and_sentences():
    """Oracle: `train` with the same settings, and its numbers in table, figure and page."""
    e = finished(warmup=10)
    assert list(e.runs) == ["Post-LN", "Pre-LN"]
    for name, key in (("Post-LN", "post"), ("Pre-LN", "pre")):
        same_run(e.runs[name], direct(key, 10))
    drawn = next(trace for trace in e.figure.data if trace.uid == "loss/Pre-LN")
    np.testing.assert_allclose(drawn.y, e.runs["Pre-LN"].table["loss"])
    assert len(e.table()) == 40
    assert f"{e.runs['Pre-LN'].val_loss:.2f}" in e.results.value
    assert f"<td>{e.runs['Pre-LN'].bleu:.1f}</td>" in e.results.value
    assert e.runs["Post-LN"].samples[0].reference in e.results.value
    assert words(e).startswith("2 runs done in")
    assert "All that Run would do is on screen" in words(e)
    assert e.buttons["run"].disabled


def test_masked_words_train_an_encoder_and_have_no_score():
    """Oracle: `train` of an encoder on the same task."""
    e = finished(task="masked_words", placements=["pre"])
    same_run(e.runs["Pre-LN"], direct("pre", task="masked_words"))
    assert e.runs["Pre-LN"].bleu is None
    assert "<td>–</td>" in e.results.value


def test_several_seeds_are_a_line_each_and_one_name_in_the_legend():
    """Oracle: `train` with the second seed; the traces."""
    e = finished(seeds=2, placements=["post"])
    assert list(e.runs) == ["Post-LN, seed 0", "Post-LN, seed 1"]
    same_run(e.runs["Post-LN, seed 1"], direct("post", seed=1))
    assert [trace.name for trace in e.figure.data if trace.showlegend] == ["Post-LN"]
    assert {trace.uid for trace in e.figure.data} >= {"loss/Post-LN/0", "loss/Post-LN/1"}


def test_moving_a_control_trains_nothing_and_loses_nothing(monkeypatch):
    """Oracle: the picture before; a training that would fail the test."""
    e = finished(placements=["pre"])
    before = e.figure.to_json()
    monkeypatch.setattr(training, "steps", lambda *setting: pytest.fail("trained"))
    for name, value in {"lr": 1e-2, "warmup": 50, "depth": 2, "placements": ("post",), "task": "masked_words"}.items():
        e.controls[name].value = value
        assert e.figure.to_json() == before
    assert "Run: 1 run of 20 steps: Post-LN, lr 0.01, warm-up 50, 2 layers, masked words." in words(e)
    e.buttons["reset"].click()
    assert e.figure.to_json() == before
    assert not e.buttons["run"].disabled


def test_runs_stay_to_be_compared_and_are_not_made_twice_until_they_are_cleared():
    """Oracle: which runs are made, by their names; the traces."""
    e = finished(placements=["post"])
    first = e.runs["Post-LN"]
    e.set(warmup=10, placements=["post", "pre"])
    e.run()
    e.wait(60)
    assert list(e.runs) == ["Post-LN, no warm-up", "Post-LN, warm-up 10", "Pre-LN, warm-up 10"]
    assert e.runs["Post-LN, no warm-up"] is first
    lines = {t.name: (t.line.color, t.line.dash) for t in e.figure.data if t.showlegend}
    assert len(set(lines.values())) == 3
    e.set(warmup=0)
    assert "Run: 1 run of 20 steps: Pre-LN, no warm-up (1 more is on screen already)." in words(e)
    e.buttons["clear"].click()
    assert e.runs == {}
    assert e.results.value == ""
    assert "Press Run: 2 runs of 20 steps" in figures.alt_text(e.figure)


def test_only_the_last_runs_are_kept(monkeypatch):
    """Oracle: the limit."""
    monkeypatch.setattr(TrainingExplorer, "MOST", 2)
    e = finished(placements=["post", "pre", "none"])
    assert list(e.runs) == ["Pre-LN", "no LN"]


def test_curves_grow_while_the_page_stays_free(gate):
    """Oracle: the steps let through; controls, table and code are answered meanwhile, and Run is not."""
    e = TrainingExplorer(**TINY, placements=["post", "pre"])
    e.run()
    gate.release(3)
    until(lambda: len(e.table()) == 3 and words(e).startswith("Post-LN: step 3 of 20, ") and e.bar.value == 3)
    assert e.running
    assert words(e).endswith(" s left; 1 more to come.")
    assert e.bar.max == 40
    e.controls["depth"].value = 3
    e.buttons["table"].click()
    assert "<table" in e.shown.value
    assert e.code() == "TrainingExplorer(lr=0.001, depth=3, width=16, steps=20)"
    assert e.buttons["run"].disabled
    with pytest.raises(ValueError, match="A training is under way"):
        e.run()
    gate.release(1)
    until(lambda: len(e.table()) == 4)
    gate.release(100)
    e.wait(60)
    assert {run.model.depth for run in e.runs.values()} == {1}  # as it was when Run was pressed
    assert e.bar.layout.visibility == "hidden"


def test_stop_keeps_what_was_measured_and_drops_what_is_to_come(gate):
    """Oracle: the first rows of the whole run; a stopped run is made anew."""
    e = TrainingExplorer(**TINY)
    e.run()
    gate.release(5)
    until(lambda: len(e.table()) == 5)
    e.buttons["stop"].click()
    assert e.buttons["stop"].disabled
    gate.release(1)
    e.wait(60)
    assert list(e.runs) == ["Post-LN"]
    run = e.runs["Post-LN"]
    assert (run.status, run.bleu, len(run.table)) == ("stopped", None, 6)
    gate.release(1000)
    whole = direct("post")
    np.testing.assert_array_equal(run.table["loss"], whole.table["loss"][:6])
    assert words(e).startswith("Stopped. Run: 2 runs of 20 steps")
    assert "stopped at step 6" in e.results.value
    e.run()
    e.wait(60)
    assert {name: r.status for name, r in e.runs.items()} == {"Post-LN": "finished", "Pre-LN": "finished"}


def test_closing_ends_the_training(gate):
    """Oracle: the thread."""
    e = TrainingExplorer(**TINY)
    e.run()
    gate.release(1)
    until(lambda: len(e.table()) == 1)
    e.close()
    gate.release(1)
    e.wait(60)
    assert not e._worker.is_alive()


def test_an_interrupt_while_waiting_stops_the_training(gate, monkeypatch):
    """Oracle: KeyboardInterrupt, raised where a cell would get it."""
    e = TrainingExplorer(**TINY)
    e.run()
    monkeypatch.setattr(e._worker, "join", lambda timeout: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        e.wait()
    monkeypatch.undo()
    gate.release(100)
    e.wait(60)
    assert not e.running
    assert len(e.table()) < 20


# Two explorers ---------------------------------------------------------------------------------------------------


def test_a_second_explorer_waits_its_turn_says_so_and_can_give_up(gate):
    """Oracle: the rows of each; the first runs on as if alone."""
    first, second, third = (TrainingExplorer(**TINY, placements=[key]) for key in ("post", "pre", "none"))
    first.run()
    gate.release(2)
    until(lambda: len(first.table()) == 2)
    second.run()
    third.run()
    for waiting in (second, third):
        until(lambda waiting=waiting: words(waiting).startswith("Waiting for another training in this kernel"))
        assert len(waiting.table()) == 0
    third.buttons["stop"].click()
    third.wait(60)
    assert third.runs == {}
    assert words(third).startswith("Stopped.")
    gate.release(1000)
    first.wait(60)
    second.wait(60)
    same_run(first.runs["Post-LN"], direct("post"))
    same_run(second.runs["Pre-LN"], direct("pre"))


def test_a_second_explorer_can_end_the_first_whose_page_may_be_gone(gate):
    """Oracle: the first keeps its two steps, the second has the whole run; the button is there only while it waits."""
    first, second = (TrainingExplorer(**TINY, placements=[key]) for key in ("post", "pre"))
    assert second.buttons["other"].layout.display == "none"
    first.run()
    gate.release(2)
    until(lambda: len(first.table()) == 2)
    second.run()
    until(lambda: words(second).startswith("Waiting for another training in this kernel"))
    assert second.buttons["other"].layout.display is None
    second.buttons["other"].click()
    gate.release(1000)
    first.wait(60)
    second.wait(60)
    assert first.runs["Post-LN"].status == "stopped"
    same_run(second.runs["Pre-LN"], direct("pre"))
    assert second.buttons["other"].layout.display == "none"


def test_other_explorers_answer_while_one_trains_and_threads_are_left_as_they_were(gate):
    """Oracle: another explorer's picture; torch's own count."""
    before = torch.get_num_threads()
    e = TrainingExplorer(**TINY)
    e.run()
    gate.release(1)
    until(lambda: len(e.table()) == 1)
    other = SignalExplorer(depth=2, width=16, seeds=1)
    other.controls["depth"].value = 3
    assert set(other.tables["measured"].depth) == {3}
    gate.release(1000)
    e.wait(60)
    assert torch.get_num_threads() == before


# Mistakes --------------------------------------------------------------------------------------------------------


def test_an_error_in_the_thread_is_shown_kept_and_raised_where_one_waits(monkeypatch):
    """Oracle: the message, as text; the next training has its turn."""
    e = TrainingExplorer(**TINY)
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "load_corpus", lambda name: {}["<i>lost</i>"])
        e.run()
        with pytest.raises(KeyError, match="lost"):
            e.wait(60)
    assert isinstance(e.error, KeyError)
    assert "&lt;i&gt;lost" in words(e)
    assert "The training has ended." in words(e)
    assert not e.buttons["run"].disabled
    e.run()
    e.wait(60)
    assert e.error is None
    assert list(e.runs) == ["Post-LN", "Pre-LN"]


def test_an_error_after_some_steps_keeps_them(monkeypatch):
    """Oracle: the rows before it."""
    steps = training.steps

    def breaks(*setting):
        for progress in steps(*setting):
            if progress.step == 4:
                raise OSError("no more memory")
            yield progress

    monkeypatch.setattr(training, "steps", breaks)
    e = TrainingExplorer(**TINY)
    e.run()
    with pytest.raises(OSError, match="no more memory"):
        e.wait(60)
    assert len(e.table()) == 3
    assert e.runs["Post-LN"].status == "stopped"


def test_no_position_and_too_many_runs_are_said_in_words(monkeypatch):
    """Oracle: the sentences; Run is out of reach."""
    monkeypatch.delenv("LNTUTOR_MULTI30K", raising=False)
    e = TrainingExplorer(**TINY)
    e.controls["placements"].value = ()
    assert "Pick at least one LN position. The last picture stays." in words(e)
    assert e.buttons["run"].disabled
    e.set(placements=["post", "pre", "peri"], seeds=5)
    assert "At most 12 runs at once, got 15: pick fewer LN positions or seeds." in words(e)
    e.set(seeds=4)
    assert e.error is None
    assert not e.buttons["run"].disabled
    with pytest.raises(ValueError, match="multi30k is not on this computer"):
        TrainingExplorer(corpus="multi30k")
    with pytest.raises(ValueError, match=r"lr must be one of 0\.0001"):
        TrainingExplorer(lr=0.004)


# Presets and words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "rows", "stack"),
    [
        (
            "figure 2",
            ["post adam 0", "post adam 1", "post adam 50", "post adam 200", "post sgd 1", "post sgd 200"],
            "encoder-decoder",
        ),
        ("figure 4", ["post adam 200", "pre adam 0", "pre radam 0"], "encoder-decoder"),
        ("figure 5", ["post adam 200", "pre adam 0"], "encoder"),
    ],
)
def test_a_preset_is_the_set_of_runs_of_its_figure(preset, rows, stack):
    """Oracle: what the captions of Xiong et al. 2020 compare, in the warm-ups of a small run."""
    e = TrainingExplorer(preset=preset)
    settings = plan(e.state())
    assert [f"{s.model.placement.key} {s.how.optimizer} {s.how.warmup}" for s in settings] == rows
    assert {s.model.stack for s in settings} == {stack}
    assert f"Run: {len(rows)} runs of 500 steps" in words(e)
    again = eval(e.code(), {"TrainingExplorer": TrainingExplorer})
    assert again.state() == e.state() == TrainingExplorer(**e.state()).state()
    assert f"preset={preset!r}" in e.code()


def test_a_preset_runs_all_its_settings_and_a_move_of_what_it_decides_leaves_it():
    """Oracle: the runs; the controls after a move."""
    e = finished(preset="figure 4")
    assert list(e.runs) == ["Post-LN, Adam, warm-up 200", "Pre-LN, Adam, no warm-up", "Pre-LN, RAdam, no warm-up"]
    same_run(e.runs["Pre-LN, RAdam, no warm-up"], direct("pre", optimizer="radam"))
    e.controls["lr"].value = 3e-3
    assert e.state()["preset"] == "figure 4"
    assert {setting.how.lr for setting in plan(e.state())} == {3e-3}
    e.controls["warmup"].value = 10
    assert e.state()["preset"] == ""
    assert [setting.how.warmup for setting in plan(e.state())] == [10, 10]
    e.preset.value = "figure 4"
    assert e.state() == TrainingExplorer(**{**TINY, "lr": 1e-2}, preset="figure 4", warmup=10).state()


settings_given = st.builds(
    lambda key, optimizer, lr, warmup, seed: Setting(
        ln.ModelConfig(key, 2, 16), ln.TrainConfig(optimizer, lr, warmup, seed=seed), "captions"
    ),
    st.sampled_from(["post", "pre"]),
    st.sampled_from(["adam", "sgd"]),
    st.sampled_from([1e-3, 1e-2]),
    st.sampled_from([0, 50]),
    st.sampled_from([0, 1]),
)


@given(st.lists(settings_given, min_size=1, max_size=8))
def test_names_tell_runs_apart_and_say_nothing_that_all_share(settings):
    """Oracle: as many names as runs; a part that is the same in all is in no name."""
    said = names(settings)
    assert len(set(said)) == len(said)
    for part in settings[0].phrases():
        values = {setting.phrases()[part] for setting in settings}
        if len(values) == 1 and part != "placement":
            shared = values.pop()
            assert not any(shared in name for name in said)


def test_results_escape_every_word_and_tell_how_a_run_ended():
    """Oracle: the entities of HTML; the last step of a run whose loss was not finite."""
    run = direct("post")
    sample = training.Sample("<b>Hund</b>", "dog & cat", "<script>" + " dog" * 30)
    lost = replace(run, status="diverged", table=run.table.head(7), bleu=None, samples=())
    said = runs.results({"<i>mine</i>": replace(run, samples=(sample,)), "lost": lost})
    assert "<td>diverged at step 7</td>" in said
    assert "&lt;b&gt;Hund&lt;/b&gt;" in said
    assert "dog &amp; cat" in said
    assert "&lt;script&gt;" + " dog" * 19 + " …" in said
    assert "<i>" not in said
    assert "<script>" not in said


def test_the_page_without_a_kernel_says_press_run_and_later_has_picture_and_scores():
    """Oracle: the twin in HTML."""
    e = TrainingExplorer(**TINY, placements=["pre"])
    assert "Press Run: 1 run of 20 steps will be drawn here." in e._repr_mimebundle_()["text/html"]
    e.run()
    e.wait(60)
    twin = e._repr_mimebundle_()["text/html"]
    assert "loss/Pre-LN" in twin
    assert f"<td>{e.runs['Pre-LN'].bleu:.1f}</td>" in twin


def test_the_table_shows_validations_and_the_file_has_every_step(monkeypatch):
    """Oracle: counting rows."""
    e = finished(placements=["pre"])
    sent = []
    monkeypatch.setattr(e.plot, "send", lambda content, buffers=None: sent.append(buffers))
    e.buttons["table"].click()
    assert e.shown.value.count("<tr") == 1 + e.table()["val_loss"].notna().sum()
    e.buttons["csv"].click()
    assert len(pd.read_csv(io.BytesIO(sent[0][0]))) == 20


def test_a_placement_that_is_assigned_anew_is_another_run():
    """Oracle: two runs of one name, told apart, with other losses."""
    rules = (lambda x, subs, N, at: N(x + subs[-1](x)), lambda x, subs, N, at: N(x + subs[-1](subs[0](x))))
    try:
        ln.PLACEMENTS["mine"] = ln.Placement("Mine", "x ← …", rules[0])
        e = finished(placements=["mine"])
        ln.PLACEMENTS["mine"] = ln.Placement("Mine", "x ← …", rules[1])
        e.run()
        e.wait(60)
        first, second = e.runs["Mine"], e.runs["Mine (2)"]
        assert not np.allclose(first.table["loss"], second.table["loss"])
        assert {trace.uid for trace in e.figure.data} >= {"loss/Mine", "loss/Mine (2)"}
    finally:
        ln.PLACEMENTS.pop("mine")
