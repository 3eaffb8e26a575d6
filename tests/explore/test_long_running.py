"""What the training and the curvature explorer share: Run, Stop, Clear, turns, and mistakes in the work."""

import numpy as np
import pytest
import torch

from lntutor import figures
from lntutor.curvature import spectrum as curvature
from lntutor.explore import BoundednessExplorer
from lntutor.text import corpus
from lntutor.training import trainer
from tests.explore.explorers import CURVATURE, TRAINING, choose, finish, status_text, until, wrap_work

ON_SCREEN = "All that Run would do is on screen; Clear removes it."


def test_run_makes_what_the_functions_make(work):
    """Oracle: `train` or `hessian_spectrum`; Admin profiles a batch, Dynamic Tanh has a norm of its own."""
    e = work.finished(placements=["admin", "dyt"])
    for result, placement in zip(work.made(e).values(), ("admin", "dyt"), strict=True):
        work.same(result, work.direct(placement))
    assert status_text(e).startswith(f"2 {work.nouns} done in")
    assert ON_SCREEN in status_text(e)
    assert e.buttons["run"].disabled
    assert e.bar.hidden


def test_several_seeds_are_one_line_each_and_one_name_in_the_legend(work):
    """Oracle: the second seed made directly; the traces."""
    e = work.finished(placements=["pre"], seeds=2)
    assert list(work.made(e)) == ["Pre-LN, seed 0", "Pre-LN, seed 1"]
    work.same(work.made(e)["Pre-LN, seed 1"], work.direct("pre", seed=1))
    curves = [trace for trace in e.figure.data if trace.uid.startswith(f"{work.line}/")]
    assert [curve.name for curve in curves if curve.showlegend is not False] == ["Pre-LN"]


def test_moving_a_control_starts_nothing_and_loses_nothing(work, monkeypatch):
    """Oracle: the picture before; work that would fail the test."""
    e = work.finished(placements=["pre"])
    before = e.figure.to_json()
    monkeypatch.setattr(trainer, "steps", lambda *setting: pytest.fail("trained"))
    monkeypatch.setattr(curvature.Operator, "matvec", lambda *v: pytest.fail("measured"))
    for name, value in {"depth": 2, "width": 32, "placements": ("post",), "seeds": 2}.items():
        e.controls[name].value = value
        assert e.figure.to_json() == before
    assert f"Run: 2 {work.nouns} of {work.steps} {work.unit}: Post-LN, 2+2 layers, width 32" in status_text(e)
    e.buttons["reset"].click()
    assert e.figure.to_json() == before
    assert not e.buttons["run"].disabled
    e.shown.value = "results"  # in the place of the picture, which comes back where there are none
    assert [e.plot.layout.display, e.results.layout.display] == ["none", None]
    e.buttons["clear"].click()
    assert work.made(e) == {}
    assert e.results.value == ""
    assert [e.plot.layout.display, e.results.layout.display, e.shown.hidden] == [None, "none", True]
    assert "Press Run: 2 " in figures.alt_text(e.figure)


def test_results_stay_to_be_compared_and_are_not_made_twice(work):
    """Oracle: which results there are, by their names; the line under the plot."""
    e = work.finished(placements=["post"])
    first = work.made(e)["Post-LN"]
    e.set(depth=2, placements=["post", "pre"])
    finish(e)
    assert list(work.made(e)) == ["Post-LN, 1+1 layers", "Post-LN, 2+2 layers", "Pre-LN, 2+2 layers"]
    assert work.made(e)["Post-LN, 1+1 layers"] is first
    styles = {t.name: (t.line.color, t.line.dash) for t in e.figure.data if t.uid.startswith(work.line)}
    assert len(set(styles.values())) == 3
    e.set(depth=1)
    plan = f"Run: 1 {work.noun} of {work.steps} {work.unit}: Pre-LN, 1+1 layers (1 more is on screen already)."
    assert plan in status_text(e)


def test_only_the_last_results_are_kept(work, monkeypatch):
    """Oracle: the limit."""
    monkeypatch.setattr(work.explorer, "MOST", 2)
    assert list(work.made(work.finished(placements=["post", "pre", "peri"]))) == ["Pre-LN", "Peri-LN"]


def test_the_picture_grows_while_the_page_stays_free(work, gate):
    """Oracle: the steps let through; controls, table and code are answered meanwhile, and Run is not."""
    e = work.new()
    assert f"Press Run: 2 {work.nouns} of {work.steps} {work.unit}" in figures.alt_text(e.figure)
    e.run()
    gate.release(3)
    progress = f"Post-LN: {'step' if work is TRAINING else 'product'} 3 of {work.steps}, "
    until(lambda: len(e.table()) == e.bar.value == 3 and status_text(e).startswith(progress))
    assert e.running
    assert status_text(e).endswith(" s left; 1 more to come.")
    assert e.bar.max == 2 * work.steps
    e.controls["depth"].value = 3
    choose(e, "Show or hide the table")
    assert "<table" in e.table_area.value
    assert eval(e.code(), {work.explorer.__name__: work.explorer}).state() == e.state()
    assert e.buttons["run"].disabled
    with pytest.raises(ValueError, match=f"A {e.WORK} is under way"):
        e.run()
    gate.release(1)
    until(lambda: len(e.table()) == 4)
    gate.release(100)
    e.wait(60)
    depths = {result.model.depth if work is TRAINING else result.depth for result in work.made(e).values()}
    assert depths == {1}  # as it was when Run was pressed


def test_closing_ends_the_work(work, gate, start):
    """Oracle: the thread."""
    e = work.new()
    start(e, 1)
    e.close()
    gate.release(1)
    e.wait(60)
    assert not e._worker.is_alive()


def test_an_interrupt_while_waiting_stops_the_work(work, gate, monkeypatch):
    """Oracle: KeyboardInterrupt, raised where a cell would get it."""
    e = work.new()
    e.run()
    with monkeypatch.context() as patch:
        patch.setattr(e._worker, "join", lambda timeout: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            e.wait()
    gate.release(100)
    e.wait(60)
    assert not e.running
    assert len(e.table()) < work.steps


def test_a_second_explorer_waits_can_give_up_and_can_end_the_first(work, gate, start):
    """Oracle: the words of those that wait; the first keeps its steps, the second has the whole, the third nothing."""
    first, second, third = (work.new(placements=[key]) for key in ("post", "pre", "peri"))
    start(first, 2)
    second.run()
    third.run()
    for waiting in (second, third):
        until(lambda waiting=waiting: status_text(waiting).startswith(f"Waiting for another {first.WORK}"))
        until(lambda waiting=waiting: not waiting.buttons["other"].hidden)
        assert len(waiting.table()) == 0
    third.buttons["stop"].click()
    third.wait(60)
    assert work.made(third) == {}
    assert status_text(third).startswith("Stopped.")
    second.buttons["other"].click()
    gate.release(1000)
    first.wait(60)
    second.wait(60)
    assert len(first.table()) == 3
    work.same(work.made(second)["Pre-LN"], work.direct("pre"))
    assert second.buttons["other"].hidden


def test_both_kinds_of_work_take_turns(gate, start):
    """Oracle: the words of the one that waits; both results as if alone."""
    first, second = CURVATURE.new(placements=["post"]), TRAINING.new(placements=["pre"])
    start(first, 2)
    second.run()
    until(lambda: status_text(second).startswith("Waiting for a measurement in this kernel to end."))
    gate.release(100)
    for work, explorer, key in ((CURVATURE, first, "post"), (TRAINING, second, "pre")):
        explorer.wait(60)
        [result] = work.made(explorer).values()
        work.same(result, work.direct(key))


def test_other_explorers_answer_meanwhile_and_threads_are_left_as_they_were(work, gate, start):
    """Oracle: another explorer's picture; torch's own count."""
    before = torch.get_num_threads()
    e = work.new()
    start(e, 1)
    other = BoundednessExplorer(depth=2, width=16, seeds=1)
    other.controls["depth"].value = 3
    assert other.panel.drawn["depth"] == 3
    gate.release(1000)
    e.wait(60)
    assert torch.get_num_threads() == before


def test_mistakes_before_a_run_are_explained_and_run_is_disabled(work):
    """Oracle: the sentences."""
    e = work.new()
    e.controls["placements"].value = ()
    assert "Choose at least one placement. The last picture stays." in status_text(e)
    assert e.buttons["run"].disabled
    e.set(placements=["post", "pre", "peri"], seeds=5)
    assert f"At most 12 {work.nouns} at once, got 15: choose fewer placements or seeds." in status_text(e)
    e.set(seeds=4)
    assert e.error is None
    assert not e.buttons["run"].disabled


def test_an_error_at_the_start_is_shown_and_raised_where_one_waits(work, monkeypatch):
    """Oracle: the message, as text; the next Run has its turn."""
    e = work.new()
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "load_corpus", lambda name: {}["<i>lost</i>"])
        e.run()
        with pytest.raises(KeyError, match="lost"):
            e.wait(60)
    assert isinstance(e.error, KeyError)
    assert "&lt;i&gt;lost" in e.status.value
    assert f"The {e.WORK} has ended." in status_text(e)
    finish(e)
    assert e.error is None
    assert list(work.made(e)) == ["Post-LN", "Pre-LN"]


def test_an_error_after_some_steps_keeps_them(work, monkeypatch):
    """Oracle: as many steps or products made directly."""

    def breaks(number: int) -> None:
        if number == 4:
            raise OSError("no more memory")

    e = work.new()
    with monkeypatch.context() as patch:
        wrap_work(patch, breaks)
        e.run()
        with pytest.raises(OSError, match="no more memory"):
            e.wait(60)
    assert "OSError: no more memory" in status_text(e)
    result = work.made(e)["Post-LN"]
    if work is TRAINING:  # the explorer never hears of the fourth step, but the fourth product is made
        np.testing.assert_array_equal(result.table["loss"], work.direct("post").table["loss"][:3])
    else:
        work.same(result, work.direct(steps=4))
    finish(e)
    work.same(work.made(e)["Post-LN"], work.direct("post"))


def test_the_page_without_a_kernel_says_press_run_and_later_has_picture_and_numbers(work):
    """Oracle: the twin in HTML."""
    e = work.new(placements=["pre"])
    start = f"Press Run: 1 {work.noun} of {work.steps} {work.unit} will be drawn here."
    assert start in e._repr_mimebundle_()["text/html"]
    finish(e)
    twin = e._repr_mimebundle_()["text/html"]
    assert f"{work.line}/Pre-LN" in twin
    assert ("How the runs ended" if work is TRAINING else "Both ends, with ±") in twin


def test_a_placement_that_is_assigned_anew_is_another_result(work, assign_mine):
    """Oracle: two results of one name, with a number to tell them apart, and with other values."""
    assign_mine(lambda x, subs, N, at: N(x + subs[-1](x)))
    e = work.finished(placements=["mine"])
    assign_mine(lambda x, subs, N, at: N(x + subs[-1](subs[0](x))))
    finish(e)
    assert list(work.made(e)) == ["Mine", "Mine (2)"]
    with pytest.raises(AssertionError):
        work.same(*work.made(e).values())
    assert {trace.uid for trace in e.figure.data} >= {f"{work.line}/Mine", f"{work.line}/Mine (2)"}
