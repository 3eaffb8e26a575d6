"""A short soak in process: every explorer driven by random joint moves. `make soak` is the long one."""

import gc
import threading
import weakref

import pytest

from lntutor.explore import base
from tests.explore.explorers import NAMES
from tests.explore.soak import WIDGETS, Driver, faults, hurried, rest
from tools import soak as tool

MOVES, EVERY = 24, 12


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """An unexpected error in a callback is raised."""
    monkeypatch.setenv(base.STRICT, "1")


def observers(explorer) -> int:
    """How many functions hear of a move."""
    return sum(len(control._trait_notifiers["value"]["change"]) for control in explorer.controls.values())


@pytest.mark.notebook  # as long as one
@pytest.mark.parametrize("name", NAMES)
def test_random_joint_moves_end_in_the_picture_of_the_controls_and_leave_nothing_behind(name):
    """Oracle: a new explorer with the same state; the numbers of widgets, observers and threads before the moves."""
    threads, widgets = threading.active_count(), len(WIDGETS)
    with hurried(), faults() as found:
        driver = Driver(name, seed=1, brief=True)
        explorer = driver.explorer
        rest(explorer)
        at_first = len(WIDGETS), observers(explorer)
        for number, move in enumerate(driver.moves.draw(MOVES), start=1):
            driver.make(move)
            if number % EVERY == 0:
                driver.check()
                assert (len(WIDGETS), observers(explorer)) == at_first
        driver.check_work()
        assert len(explorer._known) <= base.REMEMBERED
        assert not any(timer.is_alive() for timer in explorer._timers)
        explorer.close()
    assert not found
    assert len(WIDGETS) == widgets
    assert threading.active_count() <= threads
    gone = weakref.ref(explorer)
    del driver, explorer
    gc.collect()
    assert gone() is None


def test_a_report_keeps_the_rows_of_explorers_that_are_not_soaked_again(tmp_path):
    """Oracle: the rows that went in; the command on top."""
    rows = {
        part: {name: (name, *("+1" for _ in header[1:])) for name in NAMES[:2]} for part, header in tool.HEADERS.items()
    }
    path = tmp_path / "soak.txt"
    path.write_text(tool.report(rows, seed=3), encoding="utf-8")
    assert path.read_text("utf-8").startswith("$ .venv/bin/python tools/soak.py --seed 3\n")
    assert tool.read_rows(path.read_text("utf-8")) == rows
    with pytest.raises(SystemExit):
        tool.main(["NoExplorer"])
