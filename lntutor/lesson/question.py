"""What the questions of a lesson share: a widget with a twin in HTML, and the switches for all of them."""

from __future__ import annotations

import threading
import weakref
from html import escape
from typing import Any

import ipywidgets as w
import plotly.graph_objects as go

from lntutor.figures.lecture_type import switched_on
from lntutor.lesson.notes import NOTES
from lntutor.model.checks import check_flag, short_repr
from lntutor.page import live
from lntutor.page.lecture_mode import CSS as LECTURE_CSS
from lntutor.page.lecture_mode import follow, mark

REVEAL = "LNTUTOR_REVEAL"  # set to 1 for lectures, static pages and tests: nothing is covered
VOTES = "LNTUTOR_VOTES"  # set to 1 for a class: every question counts hands
STYLE = """
.lntutor-ask { border-left: 4px solid var(--edge); padding: 2px 0 2px 14px; margin: 6px 0; }
.lntutor-ask .lntutor-prose { height: auto; max-width: 54em; }
.lntutor-ask .lntutor-prose .widget-html-content {
  height: auto; line-height: 1.45; white-space: normal; color: var(--ink); font-size: var(--question); }
.lntutor-ask .lntutor-prose p { margin: 4px 0; }
.lntutor-ask .lntutor-prose table { border-collapse: collapse; border: none; }
.lntutor-ask .lntutor-prose :is(th, td) { border: none; padding: 2px 14px 2px 0; text-align: left; }
.lntutor-ask .lntutor-prose :is(ul, ol) { margin: 4px 0; padding-left: 1.6em; }
.lntutor-ask .trouble { color: var(--warn); }
"""
CSS = f"<style>{STYLE}{LECTURE_CSS}</style>"

_switch, _votes = threading.Event(), threading.Event()
_ON_PAGE: dict[str, weakref.ref[Question]] = {}  # name → its latest widget


def revealing() -> bool:
    """Whether all answers are shown, by the switch or by the environment."""
    return _switch.is_set() or switched_on(REVEAL)


def reveal_all(on: bool = True) -> None:
    """Show all covered answers, now and from now on; `False` covers those without a guess again."""
    (_switch.set if check_flag("on", on) else _switch.clear)()
    _refresh_all()


def voting() -> bool:
    """Whether every question is a class vote, by the switch or by the environment."""
    return _votes.is_set() or switched_on(VOTES)


def class_votes(on: bool = True) -> None:
    """Make every question a class vote, now and from now on: two shows of hands per choice; `False` ends that."""
    (_votes.set if check_flag("on", on) else _votes.clear)()
    for question in _on_page():
        question.voting_changed()


def forget() -> None:
    """Delete all guesses, votes, answers and measurements, of this and of earlier sessions."""
    NOTES.forget()
    _refresh_all()


def asked(name: Any) -> Question | None:
    """The question of this name that is on the page."""
    reference = _ON_PAGE.get(name) if isinstance(name, str) else None
    return reference() if reference else None


def _on_page() -> list[Question]:
    return [question for reference in list(_ON_PAGE.values()) if (question := reference()) is not None]


def _refresh_all() -> None:
    for question in _on_page():
        question.refresh()


# What is on the page -------------------------------------------------------------------------------------------


class Question(w.VBox):
    """A question as a widget, with a twin in HTML for pages without a kernel."""

    name: str

    def __init__(self, name: str):
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"name must be a word under which the answer is kept, got {short_repr(name)}")
        super().__init__()
        self.name = name
        for name_of_style in ("lntutor-ask", "lnk"):
            self.add_class(name_of_style)
        self.status, self._trouble = prose(), ""
        self._lock = threading.RLock()  # buttons answer in their own thread
        _ON_PAGE[name] = weakref.ref(self)
        follow(self)

    def refresh(self) -> None:
        """Show what the notes and the switch ask for."""
        raise NotImplementedError

    def voting_changed(self) -> None:
        """Follow the switch of class votes."""

    def lecture_changed(self, on: bool) -> None:
        """Follow the switch of lecture mode."""
        mark(self, on)
        self.refresh()

    def static(self) -> str:
        """What is on the page now, as HTML that needs no kernel."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **options) -> Any:
        return live.with_twin(super()._repr_mimebundle_(**options), self.static())

    def _show_status(self, text: str) -> None:
        """Show this text under the buttons, followed by any problem with the notes' file."""
        self._trouble = escape(NOTES.warning()) or self._trouble
        line = " ".join(part for part in (text, self._trouble) if part)
        self.status.value = f'<span role="status">{line}</span>' if line else ""
        show(self.status, bool(line))


def prose(text: str = "") -> w.HTML:
    """Text, as HTML, in a widget."""
    written = w.HTML(text)
    written.add_class("lntutor-prose")
    return written


def show(element: w.DOMWidget, shown: bool) -> None:
    element.layout.display = None if shown else "none"


def as_widget(piece: Any) -> w.Widget:
    """A widget that shows a result."""
    if isinstance(piece, w.Widget):
        return piece
    if isinstance(piece, go.Figure):
        return live.live_plot(piece)
    return prose(as_html(piece))


def as_html(piece: Any) -> str:
    """The same result as HTML, for a page without a kernel."""
    figure = getattr(piece, "figure", piece)
    if isinstance(figure, go.Figure):
        return live.static_twin(figure)
    if isinstance(piece, w.HTML):
        return piece.value
    if isinstance(piece, str):
        return piece
    html = getattr(piece, "_repr_html_", None)
    return html() if html else f'<pre tabindex="0">{escape(repr(piece))}</pre>'
