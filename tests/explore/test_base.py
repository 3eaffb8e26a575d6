"""Explorers in process: every control through its whole range; the picture is the measurement called directly."""

import io
import platform
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from ipywidgets.widgets.widget import _instances as WIDGETS

import lntutor as ln
from lntutor import explore, figures
from lntutor.explore import AttentionExplorer, GradientExplorer, PlacementExplorer, SignalExplorer, base
from tests.explore.explorers import EXPLORERS, same_picture, small, some_values, until
from tests.processes import run_python

pytestmark = pytest.mark.usefixtures("no_pause")


def drawn_directly(explorer):
    """The figure drawn from a fresh measurement of the state, with all seeds."""
    state = explorer.state()
    return explorer.draw(state, explorer.measure(state, quick=False), explorer.pinned)


def in_a_thread(function) -> None:
    """Call it in another thread, and wait for its end."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@pytest.fixture
def looks_ahead(monkeypatch):
    """However slow this machine is, the next step is measured ahead."""
    monkeypatch.setattr(base, "QUICK", 60)


# All nine ----------------------------------------------------------------------------------------------------------


@pytest.mark.notebook  # as long as one
@pytest.mark.parametrize("explorer", EXPLORERS)
def test_every_control_is_driven_through_its_range_and_the_figure_follows(explorer):
    """Oracle: the same state measured and drawn directly."""
    for name in explorer().controls:
        e = small(explorer)
        for value in some_values(e.controls[name]):
            e.controls[name].value = value
            if e.error:
                assert isinstance(e.error, ValueError), (name, value)
                assert "The last picture stays" in e.status.value
                continue
            e.settle()
            assert e.error is None, (name, value)
            assert same_picture(e, drawn_directly(e)), (name, value)
            assert figures.alt_text(e.figure)


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_every_preset_can_be_chosen_by_name_or_in_the_list_and_copied_as_code(explorer):
    """Oracle: the preset's own values in the state; Python's own evaluation of the copied line."""
    assert explorer().code() == f"{explorer.__name__}()"
    for name, values in explorer.PRESETS.items():
        if name == "figure 3c":
            continue  # a minute of work; its values are those of "figure 3"
        e = explorer(preset=name)
        assert {key: e.state()[key] for key in values} == values
        assert e.error is None
        other = explorer()
        other.preset.value = name
        assert other.state() == e.state() == eval(e.code(), {explorer.__name__: explorer}).state()


def test_code_rebuilds_the_picture():
    """Oracle: Python's own evaluation of the line."""
    e = GradientExplorer(preset="theorem", depth=4, placements=["none", "b2t"], theory=False)
    again = eval(e.code(), {"GradientExplorer": GradientExplorer})
    assert again.state() == e.state()
    assert same_picture(again, e)


@pytest.mark.parametrize(
    "explorer", [explore.TheoremExplorer, explore.BoundednessExplorer, GradientExplorer, SignalExplorer]
)
def test_one_seed_is_drawn_while_dragging_and_the_others_after_a_pause(explorer, monkeypatch):
    """Oracle: the seeds in the table on a move, and after the pause with nobody asking."""
    e = small(explorer, seeds=3)
    e.controls["depth"].value = 3
    assert set(e.table()["seed"].dropna()) == {0}
    monkeypatch.setattr(base, "PAUSE", 0.05)
    e.refresh()
    until(lambda: set(e.table()["seed"].dropna()) == {0, 1, 2})


# What is drawn -----------------------------------------------------------------------------------------------------


def test_the_gradient_explorer_shows_the_measurement_itself():
    """Oracle: ln.gradient_norms, ln.last_layer_gradients and ln.predict called directly."""
    e = GradientExplorer(depth=3, width=32, tokens=4, seeds=2, placements=["post", "peri"])
    e.settle()
    configs = [ln.ModelConfig(key, 3, 32, 4, 128) for key in ("post", "peri")]
    inputs = ln.Inputs(tokens=4)
    direct = [ln.gradient_norms(cfg, seeds=range(2), inputs=inputs) for cfg in configs]
    pd.testing.assert_frame_equal(e.tables["measured"], pd.concat(direct, ignore_index=True))
    theory = [ln.predict(cfg, "gradient", seeds=range(2), inputs=inputs) for cfg in configs]
    pd.testing.assert_frame_equal(e.tables["theory"], pd.concat(theory, ignore_index=True))
    e.controls["view"].value = "by depth"
    e.settle()
    last = [ln.last_layer_gradients(cfg, [1, 2, 3], seeds=range(2), inputs=inputs) for cfg in configs]
    pd.testing.assert_frame_equal(e.tables["measured"], pd.concat(last, ignore_index=True))
    e.controls["view"].value = "by width"
    assert set(e.tables["measured"].width) == {16, 32}


def test_every_placement_can_be_picked_in_every_view():
    """Oracle: the keys of the dict, all of them in the measured table and in the theory's, and none silent."""
    small = {"depth": 2, "width": 16, "tokens": 2, "seeds": 1, "placements": list(ln.PLACEMENTS)}
    views = [{"view": view} for view in ("by layer", "by depth", "by width")]
    for e in (SignalExplorer(**small), *(GradientExplorer(**small, **view) for view in views)):
        e.settle()
        assert e.error is None
        for table in (e.tables["measured"], e.tables["theory"]):
            assert set(table.placement) == set(ln.PLACEMENTS)
            assert np.isfinite(table.value.to_numpy(float)).all()


def test_moves_from_two_threads_end_in_the_last_state():
    """Oracle: the controls as they stand when both are done."""
    e = SignalExplorer(depth=1, width=16, seeds=1)

    def drag(name, values):
        for value in values:
            e.controls[name].value = value

    moves = {"depth": [2, 5, 3, 7, 4] * 4, "tokens": [2, 8, 4, 16, 8] * 4}
    threads = [threading.Thread(target=drag, args=move) for move in moves.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert e.error is None
    assert (e.state()["depth"], e.state()["tokens"]) == (4, 8)
    assert set(e.tables["measured"].depth) == {4}
    assert same_picture(e, drawn_directly(e))


def test_a_move_while_all_seeds_are_drawn_is_answered_first():
    """Oracle: the slow drawing gives way, the new state is drawn with one seed, and all follow when asked."""
    e = GradientExplorer(depth=2, width=32, seeds=5)
    slow, calls = e.measure, []

    def measure(state, quick):
        calls.append((state["depth"], quick))
        if len(calls) == 1:  # all seeds of depth 2; meanwhile the reader moves on
            e.controls["depth"].value = 4
        return slow(state, quick)

    e.measure = measure
    e.settle()
    assert calls == [(2, False), (4, True)]
    assert set(e.tables["measured"].depth) == {4}
    assert set(e.tables["measured"].seed) == {0}
    e.settle()
    assert set(e.tables["measured"].seed) == {0, 1, 2, 3, 4}


def post_signal():
    """A quick explorer of Post-LN alone."""
    return SignalExplorer(width=32, tokens=2, seeds=1, placements=["post"])


@pytest.mark.parametrize(
    ("name", "moves", "following"),
    [
        ("depth", (3, 4), 5), ("depth", (4, 3), 2), ("depth", (47, 48), None), ("depth", (2, 1), None),
        ("width", (48, 32), 16), ("width", (384, 512), None), ("stack", ("encoder", "decoder"), None),
    ],
)  # fmt: skip
def test_the_next_step_of_a_slider_is_measured_ahead(looks_ahead, monkeypatch, name, moves, following):
    """Oracle: which states are measured, and the picture of an explorer that looked nowhere."""
    e, asked = post_signal(), []
    for value in moves:
        e.controls[name].value = value
    measure = e.measure
    monkeypatch.setattr(e, "measure", lambda state, quick: asked.append(state[name]) or measure(state, quick))
    e.look_ahead()
    assert asked == ([] if following is None else [following])
    if following is not None:
        e.controls[name].value = following
        assert len(asked) == 1
        assert same_picture(e, type(e)(**e.state()))


def test_what_was_drawn_ahead_has_the_pins_of_now(looks_ahead):
    """Oracle: an explorer with the same pin that looked nowhere; the name of a pin in the figure."""
    pictures = []
    for look in (True, False):
        e = post_signal()
        e.controls["depth"].value = 3
        if look:
            e.look_ahead()
        e.pin()
        e.controls["depth"].value = 2
        pictures.append(e.figure.to_json())
        e.reset()
        e.controls["depth"].value = 5
        assert not any(trace.uid.startswith("pin") for trace in e.figure.data)
    assert pictures[0] == pictures[1]
    e = post_signal()
    e.pin()
    e.controls["depth"].value = 3
    e.look_ahead()
    e.pinned[0] = ("another name", e.pinned[0][1])
    e.controls["depth"].value = 2
    assert "another name" in e.figure.to_json()


def test_a_rule_assigned_after_its_picture_was_drawn_ahead_is_the_one_that_is_drawn(looks_ahead, assign_mine):
    """Oracle: the rule as it stands, drawn by an explorer that looked nowhere."""
    assign_mine(lambda x, subs, N, at: N(x + subs[0](x)))
    e = PlacementExplorer(placement="mine")
    e.controls["layer"].value = 2
    e.look_ahead()
    assign_mine(lambda x, subs, N, at: x + subs[0](x))
    e.controls["layer"].value = 3
    assert same_picture(e, PlacementExplorer(placement="mine", layer=3))


def test_a_pause_that_ends_while_the_next_step_is_drawn_starts_no_other_pause(looks_ahead, monkeypatch):
    """Oracle: all seeds on screen, and no timer: else a slow drawing ahead would follow the last for ever."""
    e = SignalExplorer(depth=2, width=32, seeds=3)
    e.controls["depth"].value = 3
    draw = e.draw

    def slow(state, tables, pinned):
        if state["depth"] == 4:
            in_a_thread(e.settle)
        return draw(state, tables, pinned)

    monkeypatch.setattr(e, "draw", slow)
    e.look_ahead()
    assert set(e.tables["measured"].seed) == {0, 1, 2}
    assert set(e.tables["measured"].depth) == {3}
    assert all(timer.finished.is_set() for timer in e._timers)


def test_all_seeds_asked_for_while_another_thread_draws_them_are_drawn(monkeypatch):
    """Oracle: the seeds in the table; a cell may show an explorer just when its pause ends."""
    e = SignalExplorer(depth=2, width=32, seeds=3)
    measure, asked = e.measure, []

    def slow(state, quick):
        asked.append(quick)
        if len(asked) == 1:
            in_a_thread(e.settle)
        return measure(state, quick)

    monkeypatch.setattr(e, "measure", slow)
    e.settle()
    assert asked == [False, False]
    assert set(e.tables["measured"].seed) == {0, 1, 2}


def test_a_slow_explorer_does_not_look_ahead(monkeypatch):
    """Oracle: nothing is measured where a step takes longer than QUICK."""
    monkeypatch.setattr(base, "QUICK", 0)
    e = SignalExplorer(width=32, seeds=1)
    e.controls["depth"].value = 7
    monkeypatch.setattr(e, "measure", lambda state, quick: pytest.fail("measured"))
    e.look_ahead()


def test_a_move_elsewhere_while_looking_ahead_is_drawn_and_a_mistake_ahead_is_silent(looks_ahead, monkeypatch):
    """Oracle: the control as it stands; the status line without an error."""
    e = GradientExplorer(depth=2, width=32, seeds=1)
    e.controls["depth"].value = 3
    slow, calls = e.measure, []

    def measure(state, quick):
        calls.append(state["depth"])
        if len(calls) == 1:
            in_a_thread(lambda: setattr(e.controls["depth"], "value", 9))
        return slow(state, quick)

    monkeypatch.setattr(e, "measure", measure)
    e.look_ahead()
    assert calls == [4, 9]
    assert set(e.tables["measured"].depth) == {9}
    monkeypatch.setattr(e, "measure", lambda state, quick: 1 / 0)
    e.look_ahead()
    assert e.error is None


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
    e = SignalExplorer(width=16, seeds=1)
    for depth in (1, 2, 3):
        e.controls["depth"].value = depth
    assert len(e._known) == 2
    monkeypatch.setattr(e, "measure", lambda state, quick: pytest.fail("measured again"))
    e.controls["depth"].value = 2


def test_a_mistake_is_said_in_words_and_the_last_picture_stays():
    """Oracle: the figure before the mistake, and after it is mended."""
    e = GradientExplorer(depth=2, width=32)
    before = e.figure.to_json()
    e.controls["placements"].value = ()
    assert "Pick at least one LN position. The last picture stays." in e.status.value
    assert e.figure.to_json() == before
    e.controls["placements"].value = ("pre",)
    assert e.error is None
    assert set(e.tables["measured"].placement) == {"pre"}
    e.set(attention="uniform", parameter="W_Q", view="by depth")
    assert "parameter must be one of W_V" in e.status.value


def test_an_unexpected_error_never_reaches_the_reader_as_a_traceback(monkeypatch):
    """Oracle: the status line; markup in the message is shown, not run."""
    monkeypatch.delenv(base.STRICT)
    e = SignalExplorer(depth=2, width=32)
    monkeypatch.setattr(e, "measure", lambda state, quick: 1 / 0 if quick else {}["<i>x</i>"])
    e.controls["depth"].value = 3
    assert "ZeroDivisionError" in e.status.value
    e.settle()
    assert "&lt;i&gt;" in e.status.value
    assert "<i>" not in e.status.value


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_buttons_pin_reset_copy_show_and_save(explorer, monkeypatch):
    """Oracle: state, table and the messages that the page would receive."""
    e = explorer()
    sent = []
    monkeypatch.setattr(e.plot, "send", lambda content, buffers=None: sent.append((content, buffers)))
    start = e.figure.to_json()
    if e.PINS:
        e.buttons["pin"].click()
    assert len(e.pinned) == int(e.PINS) == ("pin" in e.buttons)
    for name in ("depth", "width", "dimension"):
        if name in e.controls:
            e.controls[name].value = some_values(e.controls[name])[0]
    assert e.figure.to_json() != start
    e.buttons["reset"].click()
    assert e.pinned == []
    assert e.state() == e.start
    assert e.figure.to_json() == start
    e.buttons["copy"].click()
    assert e.setting.value == e.code()
    e.buttons["table"].click()
    assert e.table_area.layout.display is None
    assert "<table" in e.table_area.value
    e.buttons["table"].click()
    assert e.table_area.layout.display == "none"
    for kind in ("png", "csv", "html"):
        e.buttons[kind].click()
    kinds = [content["type"] for content, _ in sent]
    assert kinds == ["copy", "png", "download", "download"]
    csv = pd.read_csv(io.BytesIO(sent[2][1][0]))
    assert len(csv) == len(e.table())
    assert b"plotly" in sent[3][1][0]


def test_no_more_than_four_pins_are_kept():
    """Oracle: counting."""
    e = SignalExplorer(depth=2, width=16, seeds=1)
    for depth in (1, 2, 3, 4, 5, 6):
        e.controls["depth"].value = depth
        e.pin()
    assert [label.split(";")[0] for label, _ in e.pinned] == ["depth 3", "depth 4", "depth 5", "width 16"]


def test_a_readers_own_placement_appears_in_every_list(assign_mine):
    """Oracle: the options, and a picture of it with theory."""
    assign_mine(lambda x, subs, N, at: 0.5 * N(x + subs[0](x)) + 0.5 * subs[-1](x))
    e = GradientExplorer(depth=2, width=32, placements=["mine"])
    assert e.error is None
    assert set(e.tables["measured"].placement) == {"mine"} == set(e.tables["theory"].placement)
    before = e.tables["measured"].value.to_numpy()
    assign_mine(lambda x, subs, N, at: N(x + subs[-1](subs[0](x))))
    e.refresh()
    assert not np.allclose(e.tables["measured"].value, before)  # the remembered table is of the old rule


def test_a_few_controls_can_be_shown_alone_and_closing_takes_the_hidden_ones_too():
    """Oracle: the controls in the page; the state and the pictures are those of all; ipywidgets' own list."""
    before = set(WIDGETS)
    e = GradientExplorer(depth=2, width=32).only("depth", "placements")
    first, *rest = e.children
    assert list(first.children) == [e.controls["depth"], e.controls["placements"]]
    assert not {e.opener, e.fold} & set(rest)
    assert e.plot in rest
    e.controls["depth"].value = 3
    other = GradientExplorer(depth=3, width=32)
    assert e.state() == other.state()
    e.close()
    other.close()
    assert set(WIDGETS) == before


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
explorers = [explore.GradientExplorer("with LN and skip", seeds=5) for _ in range(3)]
while training._progress is None or not any(e._lock.locked() for e in explorers):
    time.sleep(0.01)
time.sleep(0.4)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
