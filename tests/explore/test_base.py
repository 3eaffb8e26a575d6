"""Explorers in process: every control through its whole range; the picture is the measurement called directly."""

import platform
import subprocess
import sys
import threading
import time

import ipywidgets as w
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ipywidgets.widgets.widget import _instances as WIDGETS

import lntutor as ln
from lntutor import explore, figures
from lntutor.explore import AttentionExplorer, GradientExplorer, LayerNormExplorer, SignalExplorer, base

EXPLORERS = [getattr(explore, name) for name in explore.__all__]
SMALL = {"depth": 2, "width": 32, "tokens": 4, "seeds": 2}  # one control at a time goes to its ends from here
SENTENCES = ["one", "to be or not to be", "<b>bold</b> & <script>alert(1)</script>", "ümläut 漢字 🙂"]


pytestmark = pytest.mark.usefixtures("no_pause")


def values_of(control) -> list:
    """Ends and middle of a slider, every option of a list, some sentences."""
    if isinstance(control, w.SelectMultiple):
        options = [value for _, value in control.options]
        return [tuple(options[:1]), tuple(options), tuple(options[2:4])]
    if isinstance(control, w.Text):
        return SENTENCES
    if isinstance(control, w.FloatLogSlider):
        return [control.base**control.min, 1.0, control.base**control.max]
    if hasattr(control, "options"):
        return [option[1] if isinstance(option, tuple) else option for option in control.options]
    if isinstance(control, (w.Checkbox, w.ToggleButton)):
        return [True, False]
    return [control.min, (control.min + control.max) // 2, control.max]


def expected(explorer):
    """The figure drawn from a fresh measurement of the state, with all seeds."""
    state = explorer.state()
    return explorer.draw(state, explorer.measure(state, quick=False), explorer.pinned)


def same(one, other) -> bool:
    return one.to_json() == other.to_json()


@pytest.mark.notebook  # as long as one
@pytest.mark.parametrize("explorer", EXPLORERS)
def test_every_control_is_driven_through_its_range_and_the_figure_follows(explorer):
    """Oracle: the same state measured and drawn directly."""
    small = {name: value for name, value in SMALL.items() if name in explorer().controls}
    for name in explorer().controls:
        e = explorer(**small)
        for value in values_of(e.controls[name]):
            e.controls[name].value = value
            if e.error:
                assert isinstance(e.error, ValueError), (name, value)
                assert "The last picture stays" in e.status.value
                continue
            e.settle()
            assert e.error is None, (name, value)
            assert same(e.figure, expected(e)), (name, value)
            assert figures.alt_text(e.figure)


def test_the_gradient_explorer_shows_the_measurement_itself():
    """Oracle: ln.gradient_norms, ln.last_layer_gradients and ln.predict called directly."""
    e = GradientExplorer(depth=3, width=32, tokens=4, seeds=2, placements=["post", "peri"])
    e.settle()
    configs = [ln.ModelConfig(key, 3, 32, 4, 128) for key in ("post", "peri")]
    inputs = ln.Inputs(tokens=4)
    direct = pd.concat([ln.gradient_norms(cfg, seeds=range(2), inputs=inputs) for cfg in configs], ignore_index=True)
    pd.testing.assert_frame_equal(e.tables["measured"], direct)
    theory = pd.concat(
        [ln.predict(cfg, "gradient", seeds=range(2), inputs=inputs) for cfg in configs], ignore_index=True
    )
    pd.testing.assert_frame_equal(e.tables["theory"], theory)
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


def test_one_seed_is_drawn_while_dragging_and_the_others_after():
    """Oracle: the seeds in the table before and after `settle`."""
    e = GradientExplorer(depth=2, width=32, seeds=4)
    e.controls["depth"].value = 3
    assert set(e.tables["measured"].seed) == {0}
    e.settle()
    assert set(e.tables["measured"].seed) == {0, 1, 2, 3}


def test_the_others_follow_by_themselves(monkeypatch):
    """Oracle: the table after the pause, with nobody asking."""
    monkeypatch.setattr(base, "PAUSE", 0.05)
    e = SignalExplorer(depth=2, width=32, seeds=3)
    end = time.monotonic() + 20
    while len(set(e.tables["measured"].seed)) < 3 and time.monotonic() < end:
        time.sleep(0.02)
    assert set(e.tables["measured"].seed) == {0, 1, 2}


@settings(max_examples=15)
@given(st.data())
def test_random_joint_moves_end_in_the_right_picture(data):
    """Oracle: a new explorer with the final state."""
    e = SignalExplorer(depth=2, width=32)
    small = {"depth": [1, 3, 5], "width": [16, 32, 48], "seeds": [1, 2]}
    for _ in range(4):
        name = data.draw(st.sampled_from(sorted(e.controls)))
        e.controls[name].value = data.draw(st.sampled_from(small.get(name) or values_of(e.controls[name])))
    if e.error is None:
        e.settle()
        fresh = SignalExplorer(**e.state())
        fresh.settle()
        assert same(e.figure, fresh.figure)


def test_moves_from_two_threads_end_in_the_last_state():
    """Oracle: the controls as they stand when both are done."""
    e = SignalExplorer(depth=1, width=16, seeds=1)
    for control in ("depth", "tokens"):
        assert control in e.controls

    def drag(name, values):
        for value in values:
            e.controls[name].value = value

    threads = [
        threading.Thread(target=drag, args=("depth", [2, 5, 3, 7, 4] * 4)),
        threading.Thread(target=drag, args=("tokens", [2, 8, 4, 16, 8] * 4)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert e.error is None
    assert (e.state()["depth"], e.state()["tokens"]) == (4, 8)
    assert set(e.tables["measured"].depth) == {4}
    assert same(e.figure, expected(e))


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


@pytest.mark.parametrize(
    ("name", "moves", "following"),
    [
        ("depth", (3, 4), 5),
        ("depth", (4, 3), 2),
        ("depth", (47, 48), None),
        ("depth", (2, 1), None),
        ("width", (48, 32), 16),
        ("width", (384, 512), None),
        ("stack", ("encoder", "decoder"), None),
    ],
)
def test_the_next_step_of_a_slider_is_measured_ahead(monkeypatch, name, moves, following):
    """Oracle: which states are measured, and the picture of an explorer that looked nowhere."""
    e, asked = SignalExplorer(width=32, tokens=2, seeds=1, placements=["post"]), []
    monkeypatch.setattr(base, "QUICK", 60)
    for value in moves:
        e.controls[name].value = value
    measure = e.measure
    monkeypatch.setattr(e, "measure", lambda state, quick: asked.append(state[name]) or measure(state, quick))
    e.look_ahead()
    assert asked == ([] if following is None else [following])
    if following is not None:
        e.controls[name].value = following
        assert len(asked) == 1
        assert same(e.figure, type(e)(**e.state()).figure)


def test_what_was_drawn_ahead_has_the_pins_of_now(monkeypatch):
    """Oracle: an explorer with the same pin that looked nowhere."""
    monkeypatch.setattr(base, "QUICK", 60)
    pictures = []
    for look in (True, False):
        e = SignalExplorer(width=32, tokens=2, seeds=1, placements=["post"])
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


def test_another_name_of_a_pin_is_drawn_though_its_picture_was_drawn_ahead(monkeypatch):
    """Oracle: the name in the figure."""
    monkeypatch.setattr(base, "QUICK", 60)
    e = SignalExplorer(width=32, tokens=2, seeds=1, placements=["post"])
    e.pin()
    e.controls["depth"].value = 3
    e.look_ahead()
    e.pinned[0] = ("another name", e.pinned[0][1])
    e.controls["depth"].value = 2
    assert "another name" in e.figure.to_json()


def test_a_rule_assigned_after_its_picture_was_drawn_ahead_is_the_one_that_is_drawn(monkeypatch):
    """Oracle: the rule as it stands, drawn by an explorer that looked nowhere."""
    monkeypatch.setattr(base, "QUICK", 60)
    try:
        ln.PLACEMENTS["mine"] = ln.Placement("Mine", "x ← N(x + f(x))", lambda x, subs, N, at: N(x + subs[0](x)))
        e = explore.PlacementExplorer(placement="mine")
        e.controls["layer"].value = 2
        e.look_ahead()
        ln.PLACEMENTS["mine"] = ln.Placement("Mine", "x ← x + f(x)", lambda x, subs, N, at: x + subs[0](x))
        e.controls["layer"].value = 3
        assert same(e.figure, explore.PlacementExplorer(placement="mine", layer=3).figure)
    finally:
        ln.PLACEMENTS.pop("mine")


def test_a_pause_that_ends_while_the_next_step_is_drawn_starts_no_other_pause(monkeypatch):
    """Oracle: all seeds on screen, and no timer: else a slow drawing ahead would follow the last for ever."""
    monkeypatch.setattr(base, "QUICK", 60)
    e = SignalExplorer(depth=2, width=32, seeds=3)
    e.controls["depth"].value = 3
    draw = e.draw

    def slow(state, tables, pinned):
        if state["depth"] == 4:
            pause = threading.Thread(target=e.settle)
            pause.start()
            pause.join()
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
            shown = threading.Thread(target=e.settle)
            shown.start()
            shown.join()
        return measure(state, quick)

    monkeypatch.setattr(e, "measure", slow)
    e.settle()
    assert asked == [False, False]
    assert set(e.tables["measured"].seed) == {0, 1, 2}


def test_closing_takes_every_widget_from_the_kernel_hidden_ones_too():
    """Oracle: ipywidgets' own list."""
    before = set(WIDGETS)
    GradientExplorer(depth=2, width=32).only("depth", "placements").close()
    assert set(WIDGETS) == before


def test_a_slow_explorer_does_not_look_ahead(monkeypatch):
    """Oracle: nothing is measured where a step takes longer than QUICK."""
    monkeypatch.setattr(base, "QUICK", 0)
    e = SignalExplorer(width=32, seeds=1)
    e.controls["depth"].value = 7
    monkeypatch.setattr(e, "measure", lambda state, quick: pytest.fail("measured"))
    e.look_ahead()


def test_a_move_elsewhere_while_looking_ahead_is_drawn_and_a_mistake_ahead_is_silent(monkeypatch):
    """Oracle: the control as it stands; the status line without an error."""
    monkeypatch.setattr(base, "QUICK", 60)
    e = GradientExplorer(depth=2, width=32, seeds=1)
    e.controls["depth"].value = 3
    slow, calls = e.measure, []

    def measure(state, quick):
        calls.append(state["depth"])
        if len(calls) == 1:
            thread = threading.Thread(target=lambda: setattr(e.controls["depth"], "value", 9))
            thread.start()
            thread.join()
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
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(told) > 300


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


def test_state_code_and_keywords_rebuild_the_view():
    """Oracle: Python's own evaluation of the line."""
    e = GradientExplorer(preset="theorem", depth=4, placements=["none", "b2t"], theory=False)
    again = eval(e.code(), {"GradientExplorer": GradientExplorer})
    assert again.state() == e.state()
    assert same(again.figure, e.figure)
    assert GradientExplorer().code() == "GradientExplorer()"


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_every_preset_draws_and_can_be_chosen_by_name_or_in_the_list(explorer):
    """Oracle: the preset's own values in the state."""
    for name, values in explorer.PRESETS.items():
        if name == "figure 3c":
            continue  # a minute of work; its values are those of "figure 3"
        e = explorer(preset=name)
        assert {key: e.state()[key] for key in values} == values
        assert e.error is None
        other = explorer()
        other.preset.value = name
        assert other.state() == e.state()


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
            e.controls[name].value = values_of(e.controls[name])[0]
    assert e.figure.to_json() != start
    e.buttons["reset"].click()
    assert e.pinned == []
    assert e.state() == e.start
    assert e.figure.to_json() == start
    e.buttons["copy"].click()
    assert e.setting.value == e.code()
    e.buttons["table"].click()
    assert e.shown.layout.display is None
    assert "<table" in e.shown.value
    e.buttons["table"].click()
    assert e.shown.layout.display == "none"
    for kind in ("png", "csv", "html"):
        e.buttons[kind].click()
    kinds = [content["type"] for content, _ in sent]
    assert kinds == ["copy", "png", "download", "download"]
    csv = pd.read_csv(__import__("io").BytesIO(sent[2][1][0]))
    assert len(csv) == len(e.table())
    assert b"plotly" in sent[3][1][0]


def test_no_more_than_four_pins_are_kept():
    """Oracle: counting."""
    e = SignalExplorer(depth=2, width=16, seeds=1)
    for depth in (1, 2, 3, 4, 5, 6):
        e.controls["depth"].value = depth
        e.pin()
    assert [label.split(";")[0] for label, _ in e.pinned] == ["depth 3", "depth 4", "depth 5", "width 16"]


def test_a_readers_own_placement_appears_in_every_list():
    """Oracle: the options, and a picture of it with theory."""
    try:
        ln.PLACEMENTS["mine"] = ln.Placement(
            "Mine", "x ← N(x + f(x))/2", lambda x, subs, N, at: 0.5 * N(x + subs[0](x)) + 0.5 * subs[-1](x)
        )
        e = GradientExplorer(depth=2, width=32, placements=["mine"])
        assert e.error is None
        assert set(e.tables["measured"].placement) == {"mine"} == set(e.tables["theory"].placement)
        before = e.tables["measured"].value.to_numpy()
        ln.PLACEMENTS["mine"] = ln.Placement("Mine", "x ← N(x)", lambda x, subs, N, at: N(x + subs[-1](subs[0](x))))
        e.refresh()
        assert not np.allclose(e.tables["measured"].value, before)  # what is remembered is of the old rule
    finally:
        ln.PLACEMENTS.pop("mine")


def test_a_few_controls_can_be_shown_alone():
    """Oracle: the controls in the page; the state and the pictures are those of all."""
    e = GradientExplorer(depth=2, width=32).only("depth", "placements")
    first, *rest = e.children
    assert list(first.children) == [e.controls["depth"], e.controls["placements"]]
    assert not {e.opener, e.fold} & set(rest)
    assert e.plot in rest
    e.controls["depth"].value = 3
    assert e.state() == GradientExplorer(depth=3, width=32).state()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SignalExplorer().only("dept"), "has no control 'dept'; it has depth"),
        (lambda: SignalExplorer().only(), "needs a name of a control; it has depth"),
        (lambda: GradientExplorer(dept=3), "has no control 'dept'; it has depth, width"),
        (lambda: GradientExplorer(depth=49), r"depth must be in 1\.\.48, got 49"),
        (lambda: GradientExplorer(width=100), "width must be one of 16, 32"),
        (lambda: GradientExplorer(placements=["posst"]), "placements must be one of 'post'"),
        (lambda: GradientExplorer(preset="fig 3"), "preset must be one of theorem"),
        (lambda: GradientExplorer(theory="yes"), "theory must be True or False, got 'yes'"),
        (lambda: LayerNormExplorer(k=1e9), "k must be in"),
    ],
)
def test_wrong_keywords_are_answered_in_words(make, message):
    """Oracle: the messages written here."""
    with pytest.raises(ValueError, match=message):
        make()


def test_a_sentence_with_markup_is_shown_and_not_run():
    """Oracle: no angle bracket of the reader's in any text of the figure."""
    e = AttentionExplorer(sentence="<b>bold</b> <img/src=x> plain")
    text = e.figure.to_json()
    assert "<b>bold" not in text
    assert "<img" not in text
    assert "plain" in text


def test_every_control_has_a_name_a_tooltip_and_at_most_five_stand_above_the_fold():
    """Oracle: the widgets."""
    for explorer in EXPLORERS:
        e = explorer()
        assert len(e.FIRST) <= 5
        for control in e.controls.values():
            assert control.description
            assert control.tooltip
        assert np.all([button.tooltip for button in e.buttons.values()])


@pytest.mark.notebook  # as long as one
def test_python_ends_in_peace_while_explorers_compute():
    """Oracle: the exit code of a process; torch aborts one that cuts off a thread of its own."""
    code = """
import time
from lntutor import explore
training = explore.TrainingExplorer(depth=2, width=64, steps=2000)
training.run()
several = [explore.GradientExplorer("with LN and skip", seeds=5) for _ in range(3)]
while training._progress is None or not any(e._lock.locked() for e in several):
    time.sleep(0.01)
time.sleep(0.4)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
