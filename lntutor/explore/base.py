"""What every explorer does: controls → config → table → figure, and the same row of buttons under each plot."""

from __future__ import annotations

import atexit
import ctypes
import html
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import ipywidgets as w
import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.explore import cell_reruns
from lntutor.model.checks import check_choice, short_repr
from lntutor.model.placements import PLACEMENTS
from lntutor.page.accessibility import Accessibility
from lntutor.page.lecture_mode import follow, mark
from lntutor.page.live import live_plot, static_twin, with_twin

PAUSE = 0.35  # seconds without a move after which the remaining seeds are drawn
SOON = 0.02  # seconds after a move at which the slider's next step is measured ahead,
QUICK = 0.25  # if a step takes at most this many seconds
REMEMBERED = 64  # states whose tables are kept; the least recently used leaves first
MOST_PINS = 4
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
    """A control has moved while all seeds were being drawn."""


class Explorer(w.VBox):
    """Controls, a live plot, a status line and buttons.

    A subclass defines its controls (`make_controls`), what they measure (`measure`) and how that is drawn (`draw`).
    Keywords of the constructor are the names of the controls and of `state()`.
    """

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {}
    PINS: ClassVar[bool] = True  # whether its figures can show pinned curves
    FIRST: ClassVar[tuple[str, ...]] = ()  # controls above the fold
    APART: ClassVar[tuple[str, ...]] = ()  # controls that a subclass places itself
    CSS = "<style>.lntutor-status{min-height:1.4em}.lntutor-status .wrong{color:#a30000}</style>"

    def __init__(self, preset: str | None = None, **state):
        self._lock, self._dirty, self._all_seeds = threading.Lock(), threading.Event(), threading.Event()
        self._timers: list[threading.Timer] = []
        self._closed = False
        _ALL.add(self)
        cell_reruns.hold(self)
        self._known: OrderedDict[tuple, Any] = OrderedDict()
        self._next: dict[str, Any] = {}  # what the moving slider would be set to next
        self._ahead: dict[str, Any] | None = None  # the state that is being measured ahead
        self._drawn: tuple = ((), [], None)  # its key, what was pinned, and its figure
        self._took = 0.0
        self._quiet = False
        self.error: Exception | None = None
        self.pinned: list[tuple[str, Any]] = []
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

    def make_controls(self) -> dict[str, Any]:  # ipywidgets has no type with value, description and layout
        """Name → control, in their order on the page."""
        raise NotImplementedError

    def measure(self, state: dict[str, Any], quick: bool) -> Any:
        """Tables for a state; `quick` asks for one seed only, while a slider is being dragged."""
        raise NotImplementedError

    def draw(self, state: dict[str, Any], tables: Any, pinned: list[tuple[str, Any]]) -> go.Figure:
        """The figure for these tables."""
        raise NotImplementedError

    def table(self) -> pd.DataFrame:
        """The numbers on screen, for "Show table" and for saving."""
        return self.tables

    def label(self, state: dict[str, Any]) -> str:
        """What is on screen, in a few words."""
        raise NotImplementedError

    def status_line(self, state: dict[str, Any], seconds: float) -> str:
        """The status line, in HTML, after a picture that took this many seconds."""
        return f"{html.escape(self.label(state))} · {1e3 * seconds:.0f} ms"

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
        self._next = {}
        self.refresh()

    def reset(self) -> None:
        """Return to the start values, without pins."""
        self.pinned.clear()
        self.set(**self.start)

    def lecture_changed(self, on: bool) -> None:
        """Follow the switch of lecture mode, which becomes the start value too."""
        self.start["lecture"] = on
        self.set(lecture=on)

    def pin(self) -> None:
        """Keep the curves on screen for comparison; of more than four, the oldest is dropped."""
        if self.tables is not None:
            self.pinned.append((self._difference(), self.tables))
            del self.pinned[:-MOST_PINS]
            self.refresh()

    def _difference(self) -> str:
        """A short name for a pinned curve: the controls that differ from the start."""
        changed = {name: value for name, value in self.state().items() if value != self.start[name] and name != "view"}
        parts = (f"{name} {', '.join(v) if isinstance(v, list) else v}" for name, v in changed.items())
        return "; ".join(parts) or "as at the start"

    def _preset(self, name: str | None) -> dict[str, Any]:
        if name is None:
            return {}
        return self.PRESETS[check_choice("preset", name, tuple(self.PRESETS))]

    def _apply(self, state: dict[str, Any], check: bool = False) -> None:
        unknown = sorted(set(state) - set(self.controls))
        if unknown and check:
            raise ValueError(f"{type(self).__name__} has no control {unknown[0]!r}; it has {', '.join(self.controls)}")
        self._quiet = True
        before = {name: control.value for name, control in self.controls.items()}
        try:
            for name, value in state.items():
                self._set_control(name, value)
        except ValueError:  # all or nothing: the controls keep describing what is drawn
            for name, value in before.items():
                self.controls[name].value = value
            raise
        finally:
            self._quiet = False

    def _set_control(self, name: str, value: Any) -> None:
        control = self.controls[name]
        message = f"{name} must be {_allowed(control)}, got {short_repr(value)}"
        if value is None or isinstance(value, bool | np.bool_) != isinstance(control.value, bool):
            raise ValueError(message)  # ipywidgets reads None as "nothing picked", and 1 as True
        value = bool(value) if isinstance(value, np.bool_) else value
        try:
            control.value = tuple(value) if isinstance(control, w.SelectMultiple) else value
        except Exception:
            raise ValueError(message) from None
        if not isinstance(control.value, tuple) and control.value != value:  # ipywidgets clips numbers silently
            raise ValueError(message)

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

    def look_ahead(self) -> None:
        """Measure and draw the next step of the moving slider before it gets there."""
        if not self._next or self._took > QUICK or not self._lock.acquire(blocking=False):
            return
        try:
            self._ahead = state = {**self.state(), **self._next}
            pinned = list(self.pinned)
            figure = self.draw(state, self._tables(state, quick=True), pinned)
            self._drawn = self._key(state, quick=True), pinned, figure
        except Exception:
            pass  # nobody asked for this; the reader sees the message on getting there
        finally:
            self._ahead = None
            self._lock.release()
        self._work()  # draw for those who asked meanwhile; they have started their own pause

    def _moved(self, change) -> None:
        if not self._quiet:
            name = next(name for name, control in self.controls.items() if control is change.owner)
            step = _step_after(change)
            self._next = {} if step is None else {name: step}
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
        for part in _parts(self, *self.controls.values()):  # some may be hidden
            w.Widget.close(part)

    def _later(self) -> None:
        self._cancel_timers()
        if self._closed or _ENDING.is_set():
            return
        timers = [threading.Timer(SOON, self.look_ahead), threading.Timer(PAUSE, self._pause)]
        self._timers = [timer for timer in self._timers if timer.is_alive()] + timers
        for timer in timers:
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
            started = time.perf_counter()
            known[key] = self.measure(state, quick)
            if quick:
                self._took = time.perf_counter() - started
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
        state, started = self.state(), time.perf_counter()
        try:
            tables = self._tables(state, quick)
            key, pinned, ahead = self._drawn
            drawn = key == self._key(state, quick) and _same(pinned, self.pinned)
            self.plot.show(ahead if drawn else self.draw(state, tables, self.pinned))
            self.tables, self.error = tables, None
            self._show_status(self.status_line(state, time.perf_counter() - started))
            self._fill_table()
        except Moved:
            return
        except Exception as error:  # shown to the reader: nobody reads the log
            self.error = error
            message = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            self._show_status(f'<span class="wrong">{html.escape(message)} The last picture stays.</span>')
            if os.environ.get(STRICT) and not isinstance(error, ValueError):
                raise

    def stop_if_moved(self, quick: bool) -> None:
        """Call between parts of a long measurement: raises Moved where a control has moved since it began."""
        wanted = quick if self._ahead is None else self._ahead == self.state()
        if self._dirty.is_set() and not wanted:
            raise Moved

    def _show_status(self, text: str) -> None:
        self.status.value = f"{self.CSS}{text}"

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
        first = [self.controls[name] for name in self.FIRST]
        rest = [control for name, control in self.controls.items() if name not in self.FIRST + self.APART]
        self.fold = _grid(rest)
        self.fold.add_class("lntutor-fold")
        self.fold.layout.display = "none"
        self.opener = self._button("More", "Show the other controls", self._toggle_fold)
        self.table_area = w.HTML(layout=w.Layout(display="none"))
        self.setting = w.Text(layout=w.Layout(width="98%", display="none"), description="Setting")
        above = _grid(first)
        folded = [self.opener, self.fold] if rest else []
        below = [self.plot, self.status, self._buttons(), self.setting, self.table_area]
        super().__init__([above, *folded, *below, Accessibility()])
        self.add_class("lntutor-explorer")

    def only(self, *names: str) -> Explorer:
        """Show only these controls, as a few are easier to explore than twenty; `state()` still has all of them."""
        unknown = [name for name in names if not isinstance(name, str) or name not in self.controls]
        if unknown or not names:
            message = f"has no control {short_repr(unknown[0])}" if unknown else "needs a name of a control"
            raise ValueError(f"{type(self).__name__} {message}; it has {', '.join(self.controls)}")
        rest = [child for child in list(self.children)[1:] if child not in (self.opener, self.fold)]
        old = _parts(*(child for child in self.children if child not in rest))
        self.children = [_grid([self.controls[name] for name in names]), *rest]
        for part in old - _parts(*self.controls.values()):
            part.close()
        return self

    def _buttons(self) -> w.Box:
        pin = ("Pin", "Keep these curves and compare others with them", self.pin)
        self.buttons = {
            **({"pin": self._button(*pin)} if self.PINS else {}),
            "reset": self._button("Reset", "Back to the start, without pins", self.reset),
            "copy": self._button("Copy setting", "One line of code that rebuilds this view", self._copy),
            "table": self._button("Show table", "The numbers behind the picture", self._toggle_table),
        }
        for kind, what in {"png": "The picture", "csv": "The table", "html": "A page with the live picture"}.items():
            save = partial(self._save, kind)
            self.buttons[kind] = self._button(f"Save {kind.upper()}", f"{what}, into your downloads", save)
        return w.Box([*self._preset_list(), *self.buttons.values()], layout=w.Layout(flex_flow="row wrap"))

    def _preset_list(self) -> list[w.Widget]:
        """The list of presets, where there are any."""
        if not self.PRESETS:
            return []
        self.preset = w.Dropdown(options=["Preset …", *self.PRESETS], layout=w.Layout(width="150px"))
        self.preset.tooltip = "Preset: settings by name"
        self.preset.observe(self._choose_preset, names="value")
        return [self.preset]

    def _button(self, caption: str, tooltip: str, action: Callable[[], None]) -> w.Button:
        button = w.Button(description=caption, tooltip=tooltip, layout=w.Layout(width="auto"))
        button.on_click(lambda _: self._guarded(action))
        return button

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run the action of a button; an error is shown in the status line."""
        try:
            action()
        except Exception as error:
            self.error = error
            self._show_status(f'<span class="wrong">{html.escape(f"{type(error).__name__}: {error}")}</span>')
            if os.environ.get(STRICT):
                raise

    def _choose_preset(self, change) -> None:
        if change.new in self.PRESETS:
            self._guarded(lambda: self.set(**{**self.start, **self.PRESETS[change.new]}))
            self.preset.value = self.preset.options[0]

    def _copy(self) -> None:
        self.setting.value = self.code()
        self.setting.layout.display = None
        self.plot.copy(self.code())

    def _toggle_fold(self) -> None:
        self.opener.description = "Fewer" if _toggle(self.fold) else "More"

    def _toggle_table(self) -> None:
        self.buttons["table"].description = "Hide table" if _toggle(self.table_area) else "Show table"
        self._fill_table()

    def rows_on_page(self) -> tuple[str, pd.DataFrame]:
        """A line above the table on the page, and its rows."""
        table = self.table()
        line = f"The first {ROWS} of {len(table)} rows; Save CSV has all." if len(table) > ROWS else ""
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


def _toggle(part: w.DOMWidget) -> bool:
    """Show a hidden part, hide a shown one; whether it is shown now."""
    visible = part.layout.display == "none"
    part.layout.display = None if visible else "none"
    return visible


def _grid(controls: list[Any]) -> w.GridBox:
    """Controls in as many columns as fit; a tall control takes two rows, a text field a whole row."""
    for control in controls:
        if isinstance(control, w.SelectMultiple):
            control.layout.grid_area = "auto / auto / span 2 / auto"
        elif isinstance(control, w.Text):
            control.layout.grid_area = "auto / 1 / auto / -1"
    columns = "repeat(auto-fill, minmax(min(270px, 100%), 1fr))"
    return w.GridBox(controls, layout=w.Layout(grid_template_columns=columns, width="100%"))


def _same(pinned: list[tuple[str, Any]], others: list[tuple[str, Any]]) -> bool:
    """Whether the same tables are pinned under the same names."""
    return [(label, id(tables)) for label, tables in pinned] == [(label, id(tables)) for label, tables in others]


def _step_after(change) -> Any:
    """The value one step further in a slider's direction; None at its end and for other controls."""
    control = change.owner
    if isinstance(control, w.SelectionSlider):
        values = _values(control)
        old, new = values.index(change.old), values.index(change.new)
        i = new + (1 if new > old else -1)
        return values[i] if 0 <= i < len(values) else None
    if isinstance(control, (w.IntSlider, w.FloatSlider)):
        step: Any = control.step
        value = change.new + (step if change.new > change.old else -step)
        return value if control.min <= value <= control.max else None
    return None


def _allowed(control: Any) -> str:
    """What a control accepts, for a message."""
    if hasattr(control, "options"):
        return "one of " + ", ".join(repr(getattr(option, "value", option)) for option in _values(control))
    if hasattr(control, "min"):
        return f"in {control.min}..{control.max}"
    return "True or False" if isinstance(control.value, bool) else "text"


def _values(control) -> list:
    return [option[1] if isinstance(option, tuple) else option for option in control.options]
