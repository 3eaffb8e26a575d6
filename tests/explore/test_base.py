"""Explorers in process: every control through its whole range; the picture is the measurement called directly."""

import io
import platform
import subprocess
import sys
import threading

import pandas as pd
import pytest

from lntutor import figures
from lntutor.explore import AttentionExplorer, BoundednessExplorer, PlacementExplorer, TheoremExplorer, base
from tests.explore.explorers import EXPLORERS, WORKING, choose, same_picture, small, some_values, until
from tests.processes import run_python

pytestmark = pytest.mark.usefixtures("no_pause")


def drawn_directly(explorer):
    """The figure drawn from a fresh measurement of the state, with all seeds."""
    state = explorer.state()
    return explorer.draw(state, explorer.measure(state, quick=False))


def in_a_thread(function) -> None:
    """Call it in another thread, and wait for its end."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


# All of them -------------------------------------------------------------------------------------------------------


@pytest.mark.notebook  # as long as one
@pytest.mark.parametrize("explorer", EXPLORERS)
def test_every_control_is_driven_through_its_range_and_the_figure_follows(explorer):
    """Oracle: the same state measured and drawn directly."""
    e = small(explorer)
    for name, control in e.controls.items():
        start = control.value
        for value in some_values(control):
            control.value = value
            if e.error:
                assert isinstance(e.error, ValueError), (name, value)
                assert "The last picture stays" in e.status.value
                continue
            e.settle()
            assert e.error is None, (name, value)
            assert same_picture(e, drawn_directly(e)), (name, value)
            assert figures.alt_text(e.figure)
        control.value = start


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_every_preset_can_be_chosen_by_name_or_on_the_page_and_copied_as_code(explorer):
    """Oracle: the preset's own values in the state; Python's own evaluation of the copied line."""
    assert explorer().code() == f"{explorer.__name__}()"
    for name, values in explorer.PRESETS.items():
        e = explorer(preset=name)
        assert {key: e.state()[key] for key in values} == values
        assert e.error is None
        other = explorer()
        (other.preset if hasattr(other, "preset") else other.controls["preset"]).value = name
        assert other.state() == e.state() == eval(e.code(), {explorer.__name__: explorer}).state()


def test_the_preset_in_force_is_marked_and_a_move_of_what_it_decides_unmarks_it():
    """Oracle: the presets' own values."""
    e = TheoremExplorer(preset="with the bound")
    assert e.preset.value == "with the bound"
    e.controls["lecture"].value = True  # large type is no part of a setting
    assert e.preset.value == "with the bound"
    e.controls["bound"].value = False
    assert e.preset.value == "depth, one token"  # which is how it starts
    e.controls["depth"].value = 5
    assert e.preset.value is None


def test_code_rebuilds_the_picture():
    """Oracle: Python's own evaluation of the line."""
    e = TheoremExplorer(preset="depth, many tokens", depth=4, width=32, bound=True)
    again = eval(e.code(), {"TheoremExplorer": TheoremExplorer})
    assert again.state() == e.state()
    assert same_picture(again, e)


@pytest.mark.parametrize("explorer", [TheoremExplorer, BoundednessExplorer])
def test_one_seed_is_drawn_while_dragging_and_the_others_after_a_pause(explorer, monkeypatch):
    """Oracle: the seeds in the table on a move, and after the pause with nobody asking; the words on the page."""
    e = small(explorer, seeds=3)
    e.controls["depth"].value = 3
    assert set(e.table()["seed"].dropna()) == {0}
    assert e.panel.draft == "a draft: 1 of 3 networks"
    monkeypatch.setattr(base, "PAUSE", 0.05)
    e.refresh()
    until(lambda: set(e.table()["seed"].dropna()) == {0, 1, 2} and e.panel.draft == "")


# What is drawn -----------------------------------------------------------------------------------------------------


def norms(**state):
    """An explorer that is quick and has seeds."""
    return BoundednessExplorer(**{"depth": 1, "width": 16, "seeds": 1} | state)


def test_moves_from_two_threads_end_in_the_last_state():
    """Oracle: the controls as they stand when both are done."""
    e = norms()

    def drag(name, values):
        for value in values:
            e.controls[name].value = value

    moves = {"depth": [2, 5, 3, 7, 4] * 4, "width": [16, 48, 32, 64, 32] * 4}
    threads = [threading.Thread(target=drag, args=move) for move in moves.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert e.error is None
    assert (e.state()["depth"], e.state()["width"]) == (4, 32)
    assert same_picture(e, drawn_directly(e))
    assert e.panel.drawn == e.panel.page_values()


def test_a_move_while_all_seeds_are_drawn_is_answered_first():
    """Oracle: the slow drawing gives way, the new state is drawn with one seed, and all follow when asked."""
    e = norms(depth=2, seeds=5)
    slow, calls = e.measure, []

    def measure(state, quick):
        calls.append((state["depth"], quick))
        if len(calls) == 1:  # all seeds of depth 2; meanwhile the reader moves on
            e.controls["depth"].value = 4
        return slow(state, quick)

    e.measure = measure
    e.settle()
    assert calls == [(2, False), (4, True)]
    assert set(e.table()["seed"]) == {0}
    assert "L = 4" in figures.alt_text(e.figure)
    e.settle()
    assert set(e.table()["seed"]) == {0, 1, 2, 3, 4}


def test_a_draft_of_an_unwanted_state_stops_but_not_for_ever():
    """Oracle: the states whose measurement ends, under a hand that moves on during each of the first three."""
    e = norms(depth=1)
    ended, measure = [], e.measure

    def moving(state, quick):
        if state["depth"] < 5:
            in_a_thread(lambda: e.set(depth=state["depth"] + 1))
        tables = measure(state, quick)
        ended.append(state["depth"])
        return tables

    e.measure = moving
    e.set(depth=2)
    assert ended == [3, 5]


def test_all_seeds_asked_for_while_another_thread_draws_them_are_drawn(monkeypatch):
    """Oracle: the seeds in the table; a cell may show an explorer just when its pause ends."""
    e = norms(seeds=3)
    measure, asked = e.measure, []

    def slow(state, quick):
        asked.append(quick)
        if len(asked) == 1:
            in_a_thread(e.settle)
        return measure(state, quick)

    monkeypatch.setattr(e, "measure", slow)
    e.settle()
    assert asked == [False, False]
    assert set(e.table()["seed"]) == {0, 1, 2}


def test_the_page_hears_of_which_values_the_picture_is():
    """Oracle: the values that the page was sent, before, while and after a picture is made, or is given up."""
    e = norms()
    drawn, before, measure = [], e.panel.drawn, e.measure
    e.measure = lambda state, quick: drawn.append(dict(e.panel.drawn)) or measure(state, quick)
    e.controls["depth"].value = 3
    assert drawn == [before]
    assert e.panel.drawn == {**before, "depth": 3} == e.panel.page_values()
    given_up = []
    e.panel.observe(lambda change: given_up.append(change.new["depth"]), "drawn")

    def gives_way(state, quick):
        if state["depth"] == 5:
            in_a_thread(lambda: e.set(depth=6))
        e.stop_if_moved(quick)
        return measure(state, quick)

    e.measure = gives_way
    e.controls["depth"].value = 5
    assert given_up == [6]
    e.measure = lambda state, quick: {}["a mistake"]
    with pytest.raises(KeyError):
        e.controls["depth"].value = 4
    assert e.panel.failed
    assert e.panel.draft == "the last good picture"
    e.close()  # or it would follow lecture mode, and fail, in another test


@pytest.mark.notebook  # as long as one
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library gives back by itself, or never")
def test_memory_that_a_large_model_took_is_given_back_when_the_hand_rests():
    """Oracle: the operating system's count of this process's memory; 400 MB are let go, below one piece that stays."""
    code = """
import time
import psutil
from lntutor.explore import PlacementExplorer, base

explorer = PlacementExplorer()
time.sleep(base.PAUSE + 0.5)
pieces = [bytearray(100_000) for _ in range(4000)]
last = bytearray(100_000)
del pieces
before = psutil.Process().memory_info().rss
explorer.controls["placement"].value = "pre"
time.sleep(base.PAUSE + 1)
print((before - psutil.Process().memory_info().rss) / 2**20)
"""
    assert float(run_python(code)) > 300


def test_only_so_many_states_are_remembered(monkeypatch):
    """Oracle: the limit, and that the last are the ones kept."""
    monkeypatch.setattr(base, "REMEMBERED", 2)
    e = norms()
    for depth in (1, 2, 3):
        e.controls["depth"].value = depth
    assert len(e._known) == 2
    monkeypatch.setattr(e, "measure", lambda state, quick: pytest.fail("measured again"))
    e.controls["depth"].value = 2


def test_a_mistake_is_said_in_words_and_the_last_picture_stays():
    """Oracle: the figure before the mistake, and after it is mended."""
    e = AttentionExplorer()
    before = e.figure.to_json()
    e.controls["head"].value = 5
    assert "Show head must be at most the number of heads, 4, got 5. The last picture stays." in e.status.value
    assert e.figure.to_json() == before
    assert e.panel.failed
    e.controls["heads"].value = 8
    assert e.error is None
    assert not e.panel.failed
    assert e.figure.to_json() != before


def test_an_unexpected_error_never_reaches_the_reader_as_a_traceback(monkeypatch):
    """Oracle: the status line; markup in the message is shown, not run."""
    monkeypatch.delenv(base.STRICT)
    e = norms(seeds=2)
    monkeypatch.setattr(e, "measure", lambda state, quick: 1 / 0 if quick else {}["<i>x</i>"])
    e.controls["depth"].value = 3
    assert "ZeroDivisionError" in e.status.value
    e.settle()
    assert "&lt;i&gt;" in e.status.value
    assert "<i>" not in e.status.value


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_buttons_reset_copy_show_and_save(explorer, monkeypatch):
    """Oracle: state, table and the messages that the page would receive."""
    e = explorer()
    sent = []
    monkeypatch.setattr(e.plot, "send", lambda content, buffers=None: sent.append((content, buffers)))
    start = e.figure.to_json()
    for name in ("depth", "width", "dimension", "lr", "beta1", "warmed"):
        if name in e.controls:
            e.controls[name].value = some_values(e.controls[name])[0]
    assert explorer.__name__ in WORKING or e.figure.to_json() != start
    choose(e, "Copy as Python")
    assert e.foot.copied == e.code() != f"{explorer.__name__}()"
    e.buttons["reset"].click()
    assert e.foot.copied == ""  # it would not be true any more
    assert e.state() == e.start
    assert e.figure.to_json() == start
    choose(e, "Show or hide the table")
    assert e.table_area.layout.display is None
    assert "<table" in e.table_area.value
    choose(e, "Show or hide the table")
    assert e.table_area.layout.display == "none"
    for kind in ("picture (PNG)", "numbers (CSV)", "live picture (HTML)"):
        choose(e, f"Save {kind}")
    kinds = [content["type"] for content, _ in sent]
    assert kinds == ["copy", "png", "download", "download"]
    csv = pd.read_csv(io.BytesIO(sent[2][1][0])) if len(e.table()) else e.table()
    assert len(csv) == len(e.table())
    assert b"plotly" in sent[3][1][0]


def test_a_readers_own_placement_can_be_chosen_at_once(assign_mine):
    """Oracle: the options before and after, and the picture of the rule as it stands."""
    e = PlacementExplorer()
    assert "mine" not in e.controls["placement"].options
    assign_mine(lambda x, subs, N, at: 0.5 * N(x + subs[0](x)) + 0.5 * subs[-1](x))
    assert "mine" in e.controls["placement"].options
    assert "mine" in [chip["key"] for chip in e.panel.looks["placement"]["chips"] if chip["usual"]]
    e.controls["placement"].value = "mine"
    assert e.error is None
    before = e.figure.to_json()
    assign_mine(lambda x, subs, N, at: N(x + subs[-1](subs[0](x))))
    e.refresh()
    assert e.figure.to_json() != before


def test_a_sentence_with_markup_is_shown_and_not_run():
    """Oracle: no angle bracket of the reader's in any text of the figure."""
    e = AttentionExplorer(sentence="<b>bold</b> <img/src=x> plain")
    assert [part in e.figure.to_json() for part in ("<b>bold", "<img", "plain")] == [False, False, True]


@pytest.mark.notebook  # as long as one
def test_python_ends_in_peace_while_explorers_compute():
    """Oracle: the exit code of a process; torch aborts one that cuts off a thread of its own."""
    code = """
import time
from lntutor import explore
training = explore.TrainingExplorer(depth=2, width=64, steps=2000)
training.run()
explorers = [explore.TheoremExplorer(depth=48, width=256, seeds=10) for _ in range(3)]
while training._progress is None or not any(e._lock.locked() for e in explorers):
    time.sleep(0.01)
time.sleep(0.4)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
