"""A soak: random joint moves of an explorer's controls, and what must hold after them; for tests and tools/soak.py.

`soak` drives an explorer through a front: `Driver` in this process, `PageDriver` (tests/browser/soak.py) by keys and
mouse in a page. Moves are drawn from a seed and hold final values, so the same moves can be made again. Sizes are
mostly small; the largest are visited one at a time.
"""

from __future__ import annotations

import gc
import json
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

import ipywidgets as w
import numpy as np
import psutil
import traitlets.log
from ipywidgets.widgets.widget import _instances as WIDGETS

from lntutor import explore
from lntutor.explore import base
from lntutor.explore import training as training_explorer
from lntutor.explore.long_running import LongRunningExplorer
from lntutor.model.weight_bank import BANK
from lntutor.page.kit.panel import Chips, Control, Segments, Slider
from tests.explore.explorers import all_values, has_several, without_clock

SMALL = {"depth": 6, "width": 64, "tokens": 8, "seeds": 3}  # the largest that an ordinary move asks for,
SMALLER = {"depth": 3, "width": 32, "tokens": 4, "seeds": 2}  # and in a short soak
CALM = {"depth": 2, "width": 32, "tokens": 4, "seeds": 1}  # beside one that is large, and after a preset
TINY = {  # what is set before Run: a second of work
    "TrainingExplorer": {"depth": 1, "width": 16, "steps": 20, "seeds": 1, "corpus": "captions", "preset": ""},
    "CurvatureExplorer": {
        "depth": 1, "width": 16, "pairs": 10, "products": 10, "probes": 1, "seeds": 1, "corpus": "captions",
    },
}  # fmt: skip
TABLE = "Show or hide the table"
PRESSES = {  # button, or item of the menu → how often, among the others
    "reset": 2, "stop": 4, "clear": 4, "other": 1, "Copy as Python": 2, TABLE: 3, "Save numbers (CSV)": 1,
    "Save picture (PNG)": 1, "Save live picture (HTML)": 0.3,
}  # fmt: skip


class Step(NamedTuple):
    """One control set, one preset chosen, or one button pressed."""

    kind: str  # "set", "preset", "press", or "hide" for the table where it is open
    name: str
    value: Any = None  # of a control or a preset


Move = tuple[Step, ...]  # made in quick succession


# Drawing moves -------------------------------------------------------------------------------------------------


class Moves:
    """Moves of an explorer, drawn from a seed; those of a `brief` soak ask for nothing large."""

    def __init__(self, explorer: base.Explorer, seed: int, brief: bool = False):
        self.random = random.Random(f"{type(explorer).__name__} {seed}")
        self.name, self.controls, self.brief = type(explorer).__name__, explorer.controls, brief
        self.works = self.name in TINY
        left_out = {"depth", "width", "placements"} if brief else set()
        self.presets = [name for name, state in explorer.PRESETS.items() if not left_out & set(state)]
        if self.works:
            self.presets = []  # a control there
        self.buttons = [name for name in PRESSES if name in {**explorer.buttons, **explorer.buttons["data"].actions}]
        self.most = SMALLER if brief else SMALL
        self.sized = [name for name in SMALL if name in self.controls and "width" in self.controls and not self.works]
        self.after: list[Step] = []  # what the next move begins with

    def draw(self, count: int) -> list[Move]:
        """So many moves."""
        return [self.one() for _ in range(count)]

    def one(self) -> Move:
        """A few controls at once, a slider dragged, a button; now and then a preset, the largest size, or a Run."""
        before, self.after = self.after, []
        kinds = {self.joint: 60, self.dragged: 15, self.pressed: 15}
        kinds |= {self.preset: 4} if self.presets else {}
        kinds |= {self.largest: 2} if self.sized and not self.brief else {}
        kinds |= {self.run: 4} if self.works else {}
        [kind] = self.random.choices(list(kinds), list(kinds.values()))
        return (*before, *kind())

    def joint(self) -> list[Step]:
        names = self.random.sample(list(self.controls), self.random.randint(1, min(4, len(self.controls))))
        return [self.set(name) for name in names]

    def dragged(self) -> list[Step]:
        sliders = [name for name, control in self.controls.items() if isinstance(control, Slider)]
        name = self.random.choice(sliders or list(self.controls))
        values = self.values(name)
        at = self.random.randrange(len(values))
        way = values[at : at + self.random.randint(2, 6)]
        return [Step("set", name, value) for value in (way if self.random.random() < 0.5 else way[::-1])]

    def pressed(self) -> list[Step]:
        weights = [PRESSES[name] for name in self.buttons]
        [name] = self.random.choices(self.buttons, weights)
        steps = [Step("press", name)]
        return steps + self.joint()[:1] if self.random.random() < 0.5 else steps

    def preset(self) -> list[Step]:
        self.after = self.calm()
        return [Step("preset", "preset", self.random.choice(self.presets))]

    def largest(self) -> list[Step]:
        name = self.random.choice(self.sized)
        self.after = self.calm()
        return [*self.calm(), Step("set", name, all_values(self.controls[name])[-1])]

    def run(self) -> list[Step]:
        more = "products" in self.controls and self.random.random() < 0.3
        chosen = Step(
            "set", "placements", tuple(self.random.sample(("post", "pre", "peri"), self.random.randint(1, 2)))
        )
        tiny = [Step("set", name, value) for name, value in TINY[self.name].items()]
        return [*tiny, chosen, Step("press", "more" if more else "run")]

    def anew(self) -> Move:
        """Back to how it was at the start, but for small sizes."""
        ended = [Step("press", "stop"), Step("press", "clear")] if self.works else []
        return (*ended, Step("hide", TABLE), Step("press", "reset"), *self.calm())

    def calm(self) -> list[Step]:
        """Small sizes, and few LN positions."""
        steps = [Step("set", name, CALM[name]) for name in self.sized]
        return [*steps, Step("set", "placements", ("post", "pre"))] if "placements" in self.controls else steps

    def set(self, name: str) -> Step:
        """A control to a random value."""
        control = self.controls[name]
        if has_several(control):  # none at all is a mistake that must be said
            chosen = self.random.sample(control.options, self.random.choice((0, 1, 1, 2, 2, 3)))
            return Step("set", name, tuple(chosen))
        if name == "corpus" and self.random.random() < 0.8:  # the others may not be on this machine
            return Step("set", name, "captions")
        return Step("set", name, self.random.choice(self.values(name)))

    def values(self, name: str) -> list:
        """What an ordinary move may set a control to."""
        values = all_values(self.controls[name])
        return [value for value in values if value <= self.most[name]] if name in self.sized else values


# Making them in this process ---------------------------------------------------------------------------------


class Driver:
    """An explorer of this process that is moved, and what its last good picture showed."""

    def __init__(self, name: str, seed: int = 0, brief: bool = False):
        self.explorer = getattr(explore, name)()
        self.moves = Moves(self.explorer, seed, brief)
        self.good: dict[str, Any] | None = None  # its state
        self.mistakes = 0  # moves that ended in a mistake, said in words

    def make(self, move: Move) -> None:
        """Step by step, through the callbacks of the widgets."""
        for step in move:
            apply(self.explorer, step)
            self._note()
        self.mistakes += isinstance(self.explorer.error, ValueError)

    def halt(self) -> None:
        """End what is under way."""
        if isinstance(self.explorer, LongRunningExplorer):
            self.explorer.stop()
        rest(self.explorer)

    def rest(self) -> None:
        """Wait until nothing is under way."""
        rest(self.explorer)

    def footprint(self) -> Footprint:
        """Of this process, now."""
        return footprint()

    def end(self) -> None:
        """A last Run, and the explorer is closed."""
        try:
            self.check_work()
        finally:
            self.explorer.close()

    def check_work(self) -> None:
        """What Run draws now is what it draws in a new explorer, where a second of work can be asked for."""
        if not self.moves.works:
            return
        self.halt()
        twin = type(self.explorer)(**TINY[type(self.explorer).__name__], placements=["post"])
        self.explorer.clear()
        self.explorer.set(**twin.state())
        for explorer in (self.explorer, twin):
            explorer.run()
            rest(explorer)
        assert "Press Run" not in twin.plot.picture
        assert self.explorer.plot.picture == twin.plot.picture
        twin.close()

    def _note(self) -> None:
        """Which state is drawn. None where another thread draws it: waiting for that would make the moves orderly."""
        lock = self.explorer._lock
        if not lock.acquire(blocking=False):
            self.good = None
            return
        if self.explorer._dirty.is_set():
            self.good = None
        elif self.explorer.error is None:
            self.good = self.explorer.state()
        lock.release()

    def check(self) -> None:
        """The picture, the words and the table are those of a new explorer that was told the same."""
        explorer = self.explorer
        rest(explorer)
        twin = new_twin(explorer)
        try:
            one, other = (without_clock(each.status.value) for each in (explorer, twin))
            assert one == other
            if explorer.error is None:
                self.good = self.explorer.state()
                assert explorer.plot.picture == twin.plot.picture, explorer.state()
                assert (
                    explorer.table_area.value == twin.table_area.value or explorer.table_area.layout.display == "none"
                )
                return
            assert isinstance(explorer.error, ValueError), repr(explorer.error)
            drawn = isinstance(explorer, LongRunningExplorer)  # results are drawn also where the next Run has no plan
            if self.good is not None and not drawn:  # the last good picture stays, with one seed or with all
                twin.set(**self.good)
                quick = twin.plot.picture
                twin.settle()
                assert explorer.plot.picture in (quick, twin.plot.picture), (self.good, explorer.state())
        finally:
            rest(twin)
            twin.close()


def apply(explorer: base.Explorer, step: Step) -> None:
    """One step; a button that the page does not offer is not pressed."""
    if step.kind == "set":
        explorer.controls[step.name].value = step.value
    elif step.kind == "preset":
        explorer.preset.value = step.value
    elif step.name in explorer.buttons["data"].actions:
        if step.kind == "press" or explorer.table_area.layout.display != "none":
            explorer.buttons["data"].actions[step.name]()
    else:
        button = explorer.buttons[step.name]
        if not button.disabled and not button.hidden:
            button.click()


def rest(explorer: base.Explorer) -> None:
    """Wait until nothing is under way: no work, no timer, no drawing."""
    if isinstance(explorer, LongRunningExplorer):
        explorer.wait()
    while timers := [timer for timer in explorer._timers if timer.is_alive()]:
        for timer in timers:
            timer.join()
    explorer._wait_until_drawn()


def new_twin(explorer: base.Explorer) -> base.Explorer:
    """A new explorer told the same: the state, what has been computed, whether the table is open."""
    twin = type(explorer)(**explorer.state())
    if isinstance(explorer, LongRunningExplorer):
        twin._done, twin._outcome, twin.failure = list(explorer._done), explorer._outcome, explorer.failure
    twin.settle()
    if twin.error is None and explorer.table_area.layout.display != "none":
        twin.buttons["data"].actions[TABLE]()
    return twin


# In the kernel of a page ---------------------------------------------------------------------------------------


def listen(explorer: base.Explorer) -> w.VBox:
    """The explorer, with a class to find it by, and a hidden button to ask what it holds."""
    name, found = type(explorer).__name__, Faults().found
    training_explorer.PAIRS = 8
    explorer.add_class(f"soak-{name}")
    hidden = w.Layout(display="none")
    ask, answer = w.Button(layout=hidden), w.Textarea(layout=hidden)
    ask.add_class(f"soak-{name}-ask")
    answer.add_class(f"soak-{name}-answer")

    def answer_click(_button) -> None:
        rest(explorer)
        if explorer.error is not None and not isinstance(explorer.error, ValueError):
            found.append(repr(explorer.error))
        controls = {key: on_screen(control) for key, control in explorer.controls.items()}
        traces = [trace.to_plotly_json() for trace in explorer.figure.data]
        picture = [[trace.get("name"), *(_plain(trace.get(axis)) for axis in "xyz")] for trace in traces]
        asked = {"controls": controls, "alt": explorer.plot.alt, "picture": picture, "faults": list(found)}
        asked |= {"rss": footprint().rss, "count": json.loads(answer.value or "{}").get("count", 0) + 1}
        answer.value = json.dumps(asked)

    ask.on_click(answer_click)
    return w.VBox([explorer, ask, answer])


def _plain(values: Any) -> Any:
    """Numbers as JSON has them: none that is not finite."""
    if isinstance(values, (list, tuple, np.ndarray)):
        return [_plain(value) for value in values]
    if isinstance(values, (float, np.floating)):
        return float(values) if math.isfinite(values) else None
    return values.item() if isinstance(values, np.generic) else values


def on_screen(control: Control) -> Any:
    """What the page shows of a control."""
    if isinstance(control, Slider):
        return control.captions[control.values.index(control.value)] if control.captions else control.value
    if isinstance(control, Chips):
        return sorted(control.page_value())
    if isinstance(control, Segments):
        return control.captions[control.page_value()]
    return control.value


# A long run ----------------------------------------------------------------------------------------------------


class Footprint(NamedTuple):
    """What an explorer at rest takes."""

    rss: float  # MB of this process,
    bank: float  # of which weights that are kept on purpose, up to a limit
    objects: int  # that Python's collector knows
    widgets: int
    threads: int


class Soaked(NamedTuple):
    """What a long run found."""

    moves: int
    checks: int
    mistakes: int  # moves that ended in a mistake, explained in the status line
    seconds: float
    first: float  # median milliseconds of a move of the first part,
    last: float  # and of the same moves at the end,
    ratio: float  # the median of what each takes at the end over what it took
    warm: Any  # what the explorer took after the first parts,
    end: Any  # and at the end: footprints of its front
    faults: list[str]


def footprint() -> Footprint:
    """Of this process, now."""
    gc.collect()
    rss = psutil.Process().memory_info().rss / 2**20
    return Footprint(rss, BANK.used / 2**20, len(gc.get_objects()), len(WIDGETS), threading.active_count())


class Faults(logging.Filter):
    """What raises in a thread, or in a callback of a widget, where ipywidgets only logs it; a mistake is no fault."""

    def __init__(self):
        super().__init__()
        self.found: list[str] = []
        self.before = threading.excepthook
        threading.excepthook = lambda args: self.found.append(f"{args.exc_type.__name__}: {args.exc_value}")
        traitlets.log.get_logger().addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the words and not the record, whose frames would keep the explorer."""
        if not record.exc_info:
            return True
        if not issubclass(record.exc_info[0], ValueError):
            self.found.append(record.getMessage())
        return False

    def stop(self) -> None:
        """Listen no more."""
        threading.excepthook = self.before
        traitlets.log.get_logger().removeFilter(self)


@contextmanager
def faults() -> Iterator[list[str]]:
    """What goes wrong meanwhile."""
    listener = Faults()
    try:
        yield listener.found
    finally:
        listener.stop()


@contextmanager
def hurried() -> Iterator[None]:
    """Short pauses, so that a few hundred are lived through; a training translates few sentences."""
    kept = base.PAUSE, training_explorer.PAIRS
    base.PAUSE, training_explorer.PAIRS = 0.04, 8
    try:
        yield
    finally:
        base.PAUSE, training_explorer.PAIRS = kept


def parts(moves: Moves, count: int) -> list[list[Move]]:
    """Moves in parts: the same two at the start and at the end, so that equals are compared, and others between.

    The order is a, b, a, others, b, a; the last two a's have the same moves behind them, more than are remembered.
    """
    n = count // 20
    a, b = [moves.anew(), *moves.draw(n - 1)], [moves.anew(), *moves.draw(n - 1)]
    return [a, b, a, moves.draw(count - 5 * n), b, a]


def soak(
    front: Any, count: int, seed: int, every: int = 100, progress: Callable[[int, float], None] = lambda *_: None
) -> Soaked:
    """Drive an explorer by so many moves, and check it after each `every` of them.

    Faults are collected, not raised; `progress` gets the number of moves made and the seconds so far.
    """
    found: list[str] = []

    def attempt(action: Callable[..., None], where: str, *arguments: Any) -> None:
        try:
            action(*arguments)
        except Exception as error:
            found.append(f"{where}: {type(error).__name__}: {str(error)[:600]}")

    pause, lists = random.Random(seed), parts(front.moves, count)
    took, checks, warm, started = [], 0, None, time.perf_counter()
    for part, moves in enumerate(lists):
        front.halt()
        if part in (3, 5):  # before the third part is over, caches fill
            attempt(front.check, f"before part {part + 1}")
        if part == 3:
            warm = front.footprint()
        for move in moves:
            began = time.perf_counter()
            attempt(front.make, f"move {len(took) + 1}", move)
            took.append(time.perf_counter() - began)
            if pause.random() < 0.1:
                front.rest()
            if len(took) % every == 0:
                checks += 1
                attempt(front.check, f"after move {len(took)}")
                progress(len(took), time.perf_counter() - started)
    front.halt()
    end = front.footprint()
    attempt(front.end, "the end")
    n = len(lists[0])
    first, last = took[2 * n : 3 * n], took[-n:]
    pace = median(first), median(last), median(after / before for before, after in zip(first, last, strict=True))
    seconds = time.perf_counter() - started
    return Soaked(len(took), checks, front.mistakes, seconds, 1e3 * pace[0], 1e3 * pace[1], pace[2], warm, end, found)


def soak_here(name: str, count: int, seed: int, **how: Any) -> Soaked:
    """A soak in this process."""
    with hurried(), faults() as found:
        soaked = soak(Driver(name, seed), count, seed, **how)
    return soaked._replace(faults=[*soaked.faults, *found])
