"""What every explorer does: controls → settings → table → figure, with the same panel, picture and menu."""

from __future__ import annotations

import atexit
import ctypes
import html
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import ipywidgets as w
import pandas as pd
import plotly.graph_objects as go

from lntutor.explore import cell_reruns
from lntutor.model.checks import check_choice, short_repr
from lntutor.model.placements import PLACEMENTS
from lntutor.page.accessibility import Accessibility
from lntutor.page.kit.handles import Handle
from lntutor.page.kit.panel import Button, Control, Menu, Panel, Segments
from lntutor.page.lecture_mode import follow, mark
from lntutor.page.live import live_plot, static_twin, with_twin

PAUSE = 0.35  # seconds without a move after which the remaining seeds are drawn
REMEMBERED = 64  # states whose tables are kept; the least recently used leaves first
ROWS = 400  # the most rows of a table on the page
LAST = 5.0  # seconds that Python waits at its end for a thread that still computes
STRICT = "LNTUTOR_STRICT"  # set in tests: an unexpected error in a callback is raised again

_ALL: weakref.WeakSet[Explorer] = weakref.WeakSet()
_ENDING = threading.Event()


@atexit.register
def _end_all() -> None:
    """Stop all threads before Python ends: torch aborts the process where one is in the middle of a product."""
    _ENDING.set()
    for explorer in list(_ALL):
        explorer.end()


def release_memory() -> None:
    """Return free memory to the system, in a few ms: glibc keeps hundreds of MB after a large model."""
    with suppress(AttributeError, OSError, TypeError):  # another C library has no such function
        ctypes.CDLL(None).malloc_trim(0)


class Moved(Exception):
    """A control has moved while a state was being measured."""


class Presets(Segments):
    """The presets, and which one is in force; None where the setting is the reader's own."""

    def taken(self, value: Any) -> Any:
        return None if value is None else super().taken(value)


class Explorer(w.VBox):
    """A panel of controls, a live plot with a status line, and a row of presets and buttons.

    A subclass defines its controls (`make_controls`), what they measure (`measure`) and how that is drawn (`draw`).
    Keywords of the constructor are the names of the controls and of `state()`.
    """

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {}
    FIRST: ClassVar[tuple[str, ...]] = ()  # controls that are always in view; the others are behind "More settings"

    def __init__(self, preset: str | None = None, **state):
        self._lock, self._dirty, self._all_seeds = threading.Lock(), threading.Event(), threading.Event()
        self._timers: list[threading.Timer] = []
        self._closed = self._gave_way = False
        _ALL.add(self)
        cell_reruns.hold(self)
        self._known: OrderedDict[tuple, Any] = OrderedDict()
        self._quiet = False
        self.error: Exception | None = None
        self.tables: Any = None
        self.controls = self.make_controls()
        self.start = self.state()
        self._apply({**self._preset(preset), **state}, check=True)
        self.plot = live_plot(go.Figure())
        self.status = w.HTML()
        self.status.add_class("lntutor-status")
        self._build()
        follow(self, self.controls["lecture"].value)
        self.controls["lecture"].observe(lambda change: mark(self, change.new), names="value")
        for control in self.controls.values():
            control.observe(self._moved, names="value")
        self.refresh()

    # What a subclass defines --------------------------------------------------------------------------------------

    def make_controls(self) -> dict[str, Control]:
        """Name → control, in their order on the page."""
        raise NotImplementedError

    def make_handles(self) -> dict[str, Handle]:
        """Name → handle on the plot that moves some of the controls."""
        return {}

    def measure(self, state: dict[str, Any], quick: bool) -> Any:
        """Tables for a state; `quick` asks for one seed only, while a slider is being dragged."""
        raise NotImplementedError

    def draw(self, state: dict[str, Any], tables: Any) -> go.Figure:
        """The figure for these tables."""
        raise NotImplementedError

    def table(self) -> pd.DataFrame:
        """The numbers on screen, for the table on the page and for saving."""
        return self.tables

    def label(self, state: dict[str, Any]) -> str:
        """What is on screen, in a few words."""
        raise NotImplementedError

    def status_line(self, state: dict[str, Any]) -> str:
        """The line under the picture, in HTML."""
        return html.escape(self.label(state))

    # State -----------------------------------------------------------------------------------------------------

    @property
    def figure(self) -> go.Figure:
        """The figure on screen."""
        return self.plot.figure

    def state(self) -> dict[str, Any]:
        """Control name → value; `type(explorer)(**explorer.state())` shows the same view."""
        return {
            name: list(control.value) if isinstance(control.value, tuple) else control.value
            for name, control in self.controls.items()
        }

    def code(self) -> str:
        """One line of code that rebuilds this view; controls at their start values are left out."""
        changed = {name: value for name, value in self.state().items() if value != self.start[name]}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def set(self, **state) -> None:
        """Set several controls at once, and draw once."""
        self._apply(state, check=True)
        self.refresh()

    def reset(self) -> None:
        """Return to the start values."""
        self.set(**self.start)

    def lecture_changed(self, on: bool) -> None:
        """Follow the switch of lecture mode, which becomes the start value too."""
        self.start["lecture"] = on
        self.set(lecture=on)

    def _preset(self, name: str | None) -> dict[str, Any]:
        if name is None:
            return {}
        return self.PRESETS[check_choice("preset", name, tuple(self.PRESETS))]

    def _preset_in_force(self, state: dict[str, Any]) -> str | None:
        """The preset whose values are those of the state, large type aside."""
        for name, values in self.PRESETS.items():
            wanted = {**self.start, **values, "lecture": state["lecture"]}
            if wanted == {key: state[key] for key in wanted}:
                return name
        return None

    def _apply(self, state: dict[str, Any], check: bool = False) -> None:
        unknown = sorted(set(state) - set(self.controls))
        if unknown and check:
            raise ValueError(f"{type(self).__name__} has no control {unknown[0]!r}; it has {', '.join(self.controls)}")
        taken = {name: self._taken(name, value) for name, value in state.items()}  # all or nothing
        self._quiet = True
        try:
            for name, value in taken.items():
                self.controls[name].value = value
        finally:
            self._quiet = False

    def _taken(self, name: str, value: Any) -> Any:
        """The value as its control keeps it, or a ValueError that says what the control takes."""
        control = self.controls[name]
        try:
            return control.taken(value)
        except (ValueError, TypeError):
            raise ValueError(f"{name} must be {control.allowed()}, got {short_repr(value)}") from None

    # Drawing ---------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Draw the current state with one seed; the other seeds follow after a pause."""
        self._all_seeds.clear()
        self._dirty.set()
        self._work()
        self._later()

    def settle(self) -> None:
        """Draw all seeds now, as the pause would."""
        self._cancel_timers()
        self._all_seeds.set()
        self._dirty.set()
        self._work()

    def _pause(self) -> None:
        """Draw all seeds and return memory, once no control has moved for a while."""
        self.settle()
        release_memory()

    def _moved(self, _change) -> None:
        if not self._quiet:
            self.refresh()

    def end(self) -> None:
        """Start nothing more, and wait briefly for what is being drawn."""
        self._cancel_timers()
        self._dirty.set()  # stops a thread that draws all seeds
        for timer in self._timers:
            timer.join(LAST)

    def close(self) -> None:
        """Remove the explorer and all its parts from the page, and forget its tables."""
        self._closed = True
        self._cancel_timers()
        self._known = OrderedDict()
        for part in _parts(self):
            if part is self:
                w.Widget.close(part)
            else:
                part.close()

    def _later(self) -> None:
        self._cancel_timers()
        if self._closed or _ENDING.is_set():
            return
        timer = threading.Timer(PAUSE, self._pause)
        self._timers = [timer for timer in self._timers if timer.is_alive()] + [timer]
        timer.daemon = True
        timer.start()

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()

    def _key(self, state: dict[str, Any], quick: bool) -> tuple:
        """Everything that a measurement depends on: the controls, and the rules that they name."""
        rules = tuple(PLACEMENTS.get(key) for key in (*state.get("placements", ()), state.get("placement")))
        return quick, rules, *(tuple(v) if isinstance(v, list) else v for v in state.values())

    def _tables(self, state: dict[str, Any], quick: bool) -> Any:
        """The result of `measure`, remembered."""
        key = self._key({name: value for name, value in state.items() if name != "lecture"}, quick)
        known = self._known  # `close`, in another thread, replaces it
        if key not in known:
            known[key] = self.measure(state, quick)
        known.move_to_end(key)
        while len(known) > REMEMBERED:
            known.popitem(last=False)
        return known[key]

    def _work(self) -> None:
        """Draw until nothing has moved since. The thread that holds the lock draws for the others: the last state wins.

        The last request decides between one seed and all: a move is answered at once, and its own pause follows.
        """
        while self._dirty.is_set() and not _ENDING.is_set():
            if not self._lock.acquire(blocking=False):
                return
            try:
                self._dirty.clear()
                self._draw_once(quick=not self._all_seeds.is_set())
            finally:
                self._lock.release()

    def _wait_until_drawn(self) -> None:
        """Wait until no other thread is drawing."""
        while not _ENDING.is_set():
            with self._lock:
                if not self._dirty.is_set():
                    return
            self._work()

    def _draw_once(self, quick: bool) -> None:
        state, on_page = self.state(), self.panel.page_values()
        try:
            tables = self._tables(state, quick)
            self.plot.show(self.draw(state, tables))
            self.tables, self.error, self._gave_way = tables, None, False
            self._show_status(self.status_line(state))
            self._fill_table()
        except Moved:
            return
        except Exception as error:  # shown to the reader: nobody reads the log
            self.error = error
            message = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            self._show_status(f'<span class="wrong">{html.escape(message)} The last picture stays.</span>')
            self._show_freshness(state, on_page, quick)
            if os.environ.get(STRICT) and not isinstance(error, ValueError):
                raise
        else:
            self._show_freshness(state, on_page, quick)

    def _show_freshness(self, state: dict[str, Any], on_page: dict[str, Any], quick: bool) -> None:
        """Tell the page of which values the picture is, what it lacks, and which preset is in force."""
        seeds = state.get("seeds", 1)
        with self.panel.hold_sync():
            self.panel.failed = self.error is not None
            self.panel.draft = "the last good picture" if self.error else ""
            if quick and seeds > 1 and not self.error:
                self.panel.draft = f"a draft: 1 of {seeds} networks"
            self.panel.drawn = on_page
        if self.foot.copied and self.foot.copied != self.code():
            self.foot.copied = ""
        if self.PRESETS and "preset" in self.foot.parts:
            self.preset.value = self._preset_in_force(state)

    def stop_if_moved(self, quick: bool) -> None:
        """Call between parts of a long measurement: raises Moved where a control has moved since it began.

        A draft gives way only once before the next picture: under a hand that never rests, some are drawn.
        """
        if self._dirty.is_set() and not (quick and self._gave_way):
            self._gave_way = quick
            raise Moved

    def _show_status(self, text: str) -> None:
        self.status.value = text

    def _repr_mimebundle_(self, **options) -> Any:
        cell_reruns.hold(self)
        self.settle()  # the twin is static: it needs all seeds at once
        self._wait_until_drawn()
        return with_twin(super()._repr_mimebundle_(**options), self._twin())

    def _twin(self) -> str:
        """The explorer in HTML, for a page without a kernel."""
        return static_twin(self.figure)

    # The page --------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        folded = [name for name in self.controls if name not in self.FIRST]
        first = {name: self.controls[name] for name in self.FIRST}
        rest = {name: self.controls[name] for name in folded}
        self.panel = Panel({**first, **rest, **self.make_handles()}, folded)
        self.buttons = self.make_buttons()
        parts = {**self._preset_list(), **self.buttons}
        self.foot = Panel(parts, guard=self._guarded)
        self.foot.add_class("lntutor-foot")
        self.table_area = w.HTML(layout=w.Layout(display="none"))
        self.view = w.VBox(self.in_view())
        self.view.add_class("lntutor-view")
        super().__init__([self.panel, self.view, self.foot, self.table_area, Accessibility()])
        for name in ("lntutor-explorer", "lnk"):
            self.add_class(name)

    def in_view(self) -> list[w.Widget]:
        """What stands beside the panel."""
        return [self.plot, self.status]

    def make_buttons(self) -> dict[str, Button | Menu]:
        """Name → button or menu, in the row below."""
        return {
            "reset": Button("Reset", self.reset, tooltip="Back to the start"),
            "data": Menu("Data", {
                "Copy as Python": self._copy,
                "Show or hide the table": self._toggle_table,
                "Save numbers (CSV)": lambda: self._save("csv"),
                "Save picture (PNG)": lambda: self._save("png"),
                "Save live picture (HTML)": lambda: self._save("html"),
            }, tooltip="The numbers behind the picture, and ways to keep them"),
        }  # fmt: skip

    def _preset_list(self) -> dict[str, Presets]:
        """The presets, where there are any; the one in force is marked."""
        if not self.PRESETS:
            return {}
        self.preset = Presets(list(self.PRESETS), None, description="Settings", tooltip="Settings by name")
        self.preset.observe(self._choose_preset, names="value")
        return {"preset": self.preset}

    def _choose_preset(self, change) -> None:
        if change.new is not None and change.new != self._preset_in_force(self.state()):
            self._guarded(lambda: self.set(**{**self.start, **self.PRESETS[change.new]}))

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run the action of a button; an error is shown in the status line."""
        try:
            action()
        except Exception as error:
            self.error = error
            self._show_status(f'<span class="wrong">{html.escape(f"{type(error).__name__}: {error}")}</span>')
            if os.environ.get(STRICT):
                raise

    def _copy(self) -> None:
        self.foot.copied = self.code()
        self.plot.copy(self.code())

    def _toggle_table(self) -> None:
        self.table_area.layout.display = "none" if self.table_area.layout.display is None else None
        self._fill_table()

    def rows_on_page(self) -> tuple[str, pd.DataFrame]:
        """A line above the table on the page, and its rows."""
        table = self.table()
        line = f"The first {ROWS} of {len(table)} rows; Save numbers has all." if len(table) > ROWS else ""
        return line, table.head(ROWS)

    def _fill_table(self) -> None:
        if self.table_area.layout.display != "none":
            line, table = self.rows_on_page()
            rows = table.to_html(index=False, float_format=lambda v: f"{v:.4g}", border=0)
            caption = f"<p>{line}</p>" if line else ""
            self.table_area.value = scrolled(f"{caption}{rows}", "The numbers of the picture", 320)

    def _save(self, kind: str) -> None:
        name = f"{type(self).__name__}.{kind}"
        if kind == "png":
            self.plot.download_png(name)
        elif kind == "csv":
            self.plot.download(name, "text/csv", self.table().to_csv(index=False).encode())
        else:
            page = self.figure.to_html(include_plotlyjs=True, full_html=True)
            self.plot.download(name, "text/html", page.encode())


def _parts(*roots: w.DOMWidget) -> set[w.Widget]:
    """These widgets and everything inside them, with their layouts and styles."""
    own = {one for root in roots for one in (root, root.layout, getattr(root, "style", None)) if one is not None}
    return own.union(*(_parts(*getattr(root, "children", ())) for root in roots))


def scrolled(content: str, name: str, height: int) -> str:
    """HTML in a region of at most this height in pixels, which the keyboard scrolls too."""
    look = f"max-height: {height}px; overflow: auto"
    return f'<div tabindex="0" role="region" aria-label="{name}" style="{look}">{content}</div>'
