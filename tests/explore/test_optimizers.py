"""The small explorers of training in process: the picture is the computation called directly."""

import pandas as pd
import pytest

import lntutor as ln
from lntutor.explore import AdamExplorer, RatesExplorer, ScheduleExplorer, rates
from lntutor.training.optimizers import adam_over_runs, noisy_gradients

pytestmark = pytest.mark.usefixtures("no_pause")


def test_the_schedule_is_that_of_training_and_a_step_beyond_the_run_is_a_sentence():
    """Oracle: ln.learning_rate at every step."""
    e = ScheduleExplorer(warmup=10, lr=0.02, steps=50, read=40, schedule="linear")
    how = ln.TrainConfig(lr=0.02, warmup=10, steps=50, schedule="linear")
    assert e.table()["value"].tolist() == [ln.learning_rate(how, t) for t in range(1, 51)]
    e.controls["read"].value = 60
    assert "Read at step must be at most Steps, 50, got 60. The last picture stays." in e.status.value
    e.set(read=50, warmup=100)
    assert "the warm-up of 100 steps does not end in this run" in e.figure.layout.title.text.replace("<br>", " ")


def test_handles_name_controls_that_there_are():
    """Oracle: the controls themselves."""
    for explorer in (ScheduleExplorer(), RatesExplorer()):
        handles = explorer.make_handles()
        assert handles
        for name, handle in handles.items():
            look = explorer.panel.looks[name]
            assert look["kind"] == "handle"
            assert {look[axis] for axis in ("x", "y", "panel")} - {""} <= set(explorer.controls)
            assert handle.description
            assert name not in explorer.state()


def test_adams_table_is_computed_of_the_controls_and_size_does_not_matter():
    """Oracle: adam_over_runs called directly; the same picture for gradients a thousand times as large."""
    e = AdamExplorer(mean=0.5, noise=2.0, beta1=0.8, beta2=0.9, steps=50, runs=10, warmup=5)
    direct = adam_over_runs(noisy_gradients(0.5, 2.0, 50, 10), ln.TrainConfig(warmup=5), (0.8, 0.9))
    pd.testing.assert_frame_equal(e.table(), direct)
    before = e.table()
    e.set(scale=1000.0)
    pd.testing.assert_frame_equal(e.table(), before, rtol=1e-6)
    e.set(mean=0.0, noise=0.0)
    assert "Mean and Noise are both 0" in e.status.value


def test_a_square_opens_its_run_with_its_losses_and_its_translation(monkeypatch):
    """Oracle: the stored tables, by pandas; without a stored translation, words that say so."""
    e = RatesExplorer(placement="pre", lr=0.003, warmup=25, sentence=2)
    of = "placement == 'pre' and lr == 0.003 and warmup == 25"
    runs, losses = ln.stored_table("warmup").query(of), ln.stored_table("warmup_losses").query(of)
    table = e.table()
    assert table[table["kind"] == "validation"]["loss"].tolist() == runs["val_loss"].tolist()
    assert table[table["kind"] == "training"]["loss"].tolist() == losses["loss"].tolist()
    said = ln.stored_table("warmup_translations").query(of)["translation"].iloc[1]
    assert f"<b>{said}</b>" in e.status.value
    ends = runs[runs["step"] == 300]
    assert f"{ends['val_loss'].mean():.3g}" in e.figure.layout.title.text
    e.set(value="bleu")
    assert f"{ends['bleu'].mean():.3g}" in e.figure.layout.title.text
    whole = rates.stored_table
    monkeypatch.setattr(rates, "stored_table", lambda name: whole(name)[: 0 if "translations" in name else None])
    new = RatesExplorer(placement="pre", lr=0.003, warmup=25)
    assert new.error is None
    assert "no translation of sentence 1 is stored" in new.status.value
