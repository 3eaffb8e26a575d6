"""What the questions of a lesson share: the switch that uncovers everything, and a widget with a twin in HTML."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import ipywidgets as w
import plotly.graph_objects as go

from lntutor import lecturing, live
from lntutor.config import flag, shown
from lntutor.lecturing import follow, mark
from lntutor.notes import NOTES

REVEAL = "LNTUTOR_REVEAL"  # set to 1 for lectures, static pages and tests: nothing is covered
STYLE = """
.lntutor-ask { border-left: 4px solid #767676; padding: 2px 0 2px 14px; margin: 6px 0; }
.lntutor-ask .lntutor-words { height: auto; max-width: 54em; }
.lntutor-ask .lntutor-words .widget-html-content { height: auto; line-height: 1.45; white-space: normal; }
.lntutor-ask .lntutor-words p { margin: 4px 0; }
.lntutor-ask .lntutor-words table { border-collapse: collapse; border: none; }
.lntutor-ask .lntutor-words :is(th, td) { border: none; padding: 2px 14px 2px 0; text-align: left; }
.lntutor-ask .lntutor-words ul { margin: 4px 0; padding-left: 1.6em; }
.lntutor-ask .lntutor-choices { width: auto; max-width: 54em; }
.lntutor-ask .lntutor-choices .widget-radio-box { width: auto; max-width: none; flex: 1 1 auto; margin-bottom: 2px; }
.lntutor-ask .lntutor-choices .widget-radio-box label {
  display: block; position: relative; height: auto; line-height: 1.45; white-space: normal;
  padding: 2px 0 2px 26px; margin: 0; }
.lntutor-ask .lntutor-choices .widget-radio-box label input {
  position: absolute; left: 4px; top: 5px; width: 13px; height: 13px; margin: 0; float: none; }
.lntutor-ask .trouble { color: #a30000; }
"""
CSS = f"<style>{STYLE}{lecturing.CSS}</style>"

_switch = threading.Event()
_ON_PAGE: dict[str, weakref.ref[Page]] = {}  # the latest widget of each name


def revealing() -> bool:
    """Whether everything is shown at once, by the switch or by the environment."""
    return _switch.is_set() or lecturing.switched_on(REVEAL)


def reveal_all(on: bool = True) -> None:
    """Show everything that is covered, on this page and from now on; `False` covers what has no guess yet."""
    (_switch.set if flag("on", on) else _switch.clear)()
    _refresh_all()


def forget() -> None:
    """Delete all guesses, votes, answers and measurements, of this session and of earlier ones."""
    NOTES.forget()
    _refresh_all()


def _refresh_all() -> None:
    for page in [reference() for reference in _ON_PAGE.values()]:
        if page is not None:
            page.refresh()


# What is on the page -------------------------------------------------------------------------------------------


class Page(w.VBox):
    """A widget that also has a twin in HTML, for pages without a kernel."""

    name: str

    def __init__(self, name: str):
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"name must be a word under which the answer is kept, got {shown(name)}")
        super().__init__()
        self.name = name
        self.add_class("lntutor-ask")
        self.status, self._trouble = prose(), ""
        self._lock = threading.RLock()  # buttons answer in a thread of their own
        _ON_PAGE[name] = weakref.ref(self)
        follow(self)

    def refresh(self) -> None:
        """Show what the notes and the switch say."""
        raise NotImplementedError

    def lecture_changed(self, on: bool) -> None:
        """Follow the switch of lecture mode."""
        mark(self, on)
        self.refresh()

    def static(self) -> str:
        """What is on the page now, as HTML that needs no kernel."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **options) -> dict[str, Any]:
        return live.with_twin(super()._repr_mimebundle_(**options), self.static())

    def _say(self, words: str) -> None:
        """A line under the buttons, with what is the matter with the notes' file, if anything."""
        self._trouble = escape(NOTES.warning()) or self._trouble
        said = " ".join(part for part in (words, self._trouble) if part)
        self.status.value = f'<span role="status">{said}</span>' if said else ""
        show(self.status, bool(said))


def prose(text: str = "") -> w.HTML:
    """Prose in a widget."""
    written = w.HTML(text)
    written.add_class("lntutor-words")
    return written


def button(words: str, tooltip: str, action: Callable[[], None]) -> w.Button:
    made = w.Button(description=words, tooltip=tooltip, layout=w.Layout(width="auto"))
    made.on_click(lambda _: action())
    return made


def radio(choices: Sequence[str], description: str) -> w.RadioButtons:
    """Choices with nothing picked; long ones are wrapped, not cut."""
    made = w.RadioButtons(options=list(choices), index=None, description=description)
    made.style.description_width = "auto"
    made.add_class("lntutor-choices")
    return made


def show(element: w.Widget, shown: bool) -> None:
    element.layout.display = None if shown else "none"


def as_widget(piece: Any) -> w.Widget:
    """Something to look at, in the page."""
    if isinstance(piece, w.Widget):
        return piece
    if isinstance(piece, go.Figure):
        return live.live_plot(piece)
    return prose(as_html(piece))


def as_html(piece: Any) -> str:
    """The same without a kernel; an explorer has a figure."""
    figure = getattr(piece, "figure", piece)
    if isinstance(figure, go.Figure):
        return live.static_twin(figure)
    if isinstance(piece, w.HTML):
        return piece.value
    if isinstance(piece, str):
        return piece
    html = getattr(piece, "_repr_html_", None)
    return html() if html else f"<pre>{escape(repr(piece))}</pre>"
