"""Predict: a question whose answer stays covered until a guess is stored; After: what tells that answer, too."""

from __future__ import annotations

import os
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any, cast

import ipywidgets as w

from lntutor.lesson.guesses import kind_of
from lntutor.lesson.notes import NOTES
from lntutor.lesson.question import CSS, Question, as_html, as_widget, asked, prose, revealing, voting
from lntutor.model.checks import check_type, short_repr
from lntutor.page import live
from lntutor.page.accessibility import Accessibility
from lntutor.page.kit.answers import Submit
from lntutor.page.kit.panel import Button, Panel
from lntutor.page.lecture_mode import follow, mark

FOLD = "Guess first, then open this"
COVERED = "This is shown after your guess above."
STRICT = "LNTUTOR_STRICT"  # set in tests: an error in a measurement is raised again
_FOLLOWERS: defaultdict[str, weakref.WeakSet[After]] = defaultdict(weakref.WeakSet)  # question → what it covers, too


class Predict(Question):
    """A question whose answer stays covered until a guess is stored; then both are shown together.

    The guess is one of `choices`, a `value` in (low, high[, step]) or a `curve` over (x_values, low, high). `reveal`
    is called without arguments, and not before the guess: it returns what was covered (a figure, a number, a list of
    numbers, HTML, a widget), or a pair of that and the measured choice, value or list. `because` is a folded
    explanation. With `class_mode`, or after `class_votes()`, a lecturer enters two shows of hands for each choice, or
    for ranges of a value.
    """

    def __init__(
        self,
        name: str,
        question: str,
        *,
        reveal: Callable[[], Any],
        choices: Sequence[str] | None = None,
        value: Sequence[float] | None = None,
        curve: Sequence[Any] | None = None,
        because: str = "",
        log: bool = False,
        unit: str = "",
        class_mode: bool = False,
    ):
        if not callable(reveal):
            raise ValueError(
                "reveal must be a function without arguments, so that nothing runs before the guess; "
                f"got {short_repr(reveal)}"
            )
        check_type("question", question, str)
        check_type("because", because, str)
        self._asked = {"choices": choices, "value": value, "curve": curve, "log": log, "unit": unit}
        self._class_mode = class_mode
        self._kind = kind_of(**self._asked, class_mode=class_mode)
        super().__init__(name)
        self.question, self.because, self._reveal = question, because, reveal
        self.error: Exception | None = None
        self._result: tuple[Any, Any] | None = None  # what to show, and what was measured
        self._revealed_area = w.VBox()
        self._revealed_area.add_class("lntutor-answer")
        self._build()
        self.refresh()

    def _build(self) -> None:
        """The question, with controls for its kind of guess."""
        self._kind = kind_of(**self._asked, class_mode=self._class_mode or voting())
        self.control = self._kind.control
        again = "Cover the measurement and guess once more"
        self.buttons = {
            "store": Submit("", self.store, "guess", primary=True, tooltip="Keep the guess and show the measurement"),
            "skip": Button("Skip", self.skip, tooltip="Show the measurement without a guess"),
            "again": Button("Guess again", self.again, tooltip=again),
        }
        self.panel = Panel({"guess": self.control, **self.buttons})
        asked = prose(f"{CSS}<p><b>Predict.</b> {self.question}</p>")
        self.children = [asked, self.panel, self.status, self._revealed_area, Accessibility()]

    def voting_changed(self) -> None:
        """Ask in the other way from now on."""
        with self._lock:
            for part in (self.panel, self.children[0], self.children[-1]):
                part.close()
            self._build()
            self.refresh()

    @property
    def guess(self) -> Any:
        """The stored guess, or None."""
        guess = (NOTES.get("guesses", self.name) or {}).get("guess")
        return guess if guess is not None and self._kind.takes(guess) else None

    @property
    def revealed(self) -> bool:
        """Whether the measurement is shown."""
        skipped = bool((NOTES.get("guesses", self.name) or {}).get("skipped"))
        return revealing() or skipped or (self.guess is not None and self._kind.complete(self.guess))

    def store(self) -> None:
        """Store the guess, and show the measurement."""
        with self._lock:
            if self.revealed:  # a second click on its way
                return
            try:
                guess = self._kind.read(self.guess)
            except ValueError as missing:
                self._show_status(str(missing))
                return
            NOTES.put("guesses", self.name, {"guess": guess, "words": self._kind.describe(guess)})
            self.refresh()

    def skip(self) -> None:
        """Show the measurement without a guess; the guess of an earlier session stays in the notes."""
        with self._lock:
            kept = {"guess": self.guess} if self.guess is not None else {}
            NOTES.put("guesses", self.name, {**kept, "skipped": True}, keep=False)
            self.refresh()

    def again(self) -> None:
        """Cover the measurement and ask once more."""
        with self._lock:
            NOTES.drop("guesses", self.name)
            self._kind.reset()
            self.refresh()

    def refresh(self) -> None:
        """Cover or show the measurement, as the notes and the switch ask for."""
        with self._lock:
            revealed = self.revealed
            self.control.hidden = revealed  # first, so that the page knows where the focus may go
            for name, each in self.buttons.items():
                each.hidden = revealing() or (name == "again") != revealed
            self.buttons["store"].description = self._kind.button(self.guess)
            if not revealed:
                self._revealed_area.children = ()
                self._show_status(self._kind.after(self.guess) if self.guess is not None else "")
            elif self._measure():
                self._revealed_area.children = [as_widget(piece) for piece in self._pieces()]
                self._show_status("")
            for follower in list(_FOLLOWERS[self.name]):
                follower.refresh()

    def static(self) -> str:
        parts = [f"<p><b>Predict.</b> {self.question}</p>"]
        if self.revealed and self._result is not None:
            pieces = "".join(as_html(piece) for piece in self._pieces())
            folded = f"{self._kind.static()}<details><summary>{FOLD}</summary>{pieces}</details>"
            parts.append(folded if self.guess is None else pieces)
        else:
            parts.append("<p>The measurement is shown after a guess.</p>")
        return f'<div class="lntutor-ask">{"".join(parts)}</div>'

    def _pieces(self) -> Iterator[Any]:
        """Everything shown after the guess, in order."""
        thing, measured = self._result or (None, None)
        yield from self._kind.together(self.guess, measured)
        if thing is not None:
            yield thing
        if self.because:
            yield f"<details><summary>Why</summary><p>{self.because}</p></details>"

    def _measure(self) -> bool:
        """Run `reveal` once; an error is shown in the status line."""
        if self._result is not None:
            return True
        self._show_status("Measuring …")
        try:
            self._result, self.error = self._sorted(self._reveal()), None
        except Exception as error:  # shown to the reader: nobody reads the log
            self.error = error
            message = escape(f"{type(error).__name__}: {error}")
            self._show_status(
                f'<span class="trouble">The measurement did not run ({message}). Your guess is kept.</span>'
            )
            if os.environ.get(STRICT):
                raise
        return self._result is not None

    def _sorted(self, result: Any) -> tuple[Any, Any]:
        """The result of `reveal`, as (what to show, what was measured)."""
        measured = self._kind.measured(result)
        if measured is not None:
            return None, measured
        if not isinstance(result, tuple) or len(result) != 2:
            return result, None
        thing, given = result
        measured = self._kind.measured(given)
        if measured is None and given is not None:
            raise ValueError(f"what reveal gives as measured must be {self._kind.allowed()}; got {given!r}")
        return thing, measured


class After(w.VBox):
    """What tells the answer of the question `name`: lines, tables and figures, covered as long as that answer is."""

    def __init__(self, name: str, *pieces: Any):
        if not isinstance(asked(name), Predict):
            raise ValueError(f"name must be that of a Predict in a cell above, which was run; got {short_repr(name)}")
        super().__init__()
        self.name, self.pieces = name, list(_printed(pieces))
        for style in ("lntutor-ask", "lnk"):
            self.add_class(style)
        _FOLLOWERS[name].add(self)
        follow(self)
        self.refresh()

    @property
    def question(self) -> Predict:
        """The latest question of this name: its cell may have been run again."""
        return cast(Predict, asked(self.name))

    def refresh(self) -> None:
        """Cover or show the pieces, as the question does."""
        shown = [as_widget(piece) for piece in self.pieces] if self.question.revealed else [prose(f"<p>{COVERED}</p>")]
        self.children = shown

    def lecture_changed(self, on: bool) -> None:
        """Follow the switch of lecture mode."""
        mark(self, on)
        self.refresh()

    def static(self) -> str:
        """What is on the page now, as HTML that needs no kernel."""
        pieces = "".join(map(as_html, self.pieces)) if self.question.revealed else f"<p>{COVERED}</p>"
        folded = self.question.revealed and self.question.guess is None
        html = f"<details><summary>{FOLD}</summary>{pieces}</details>" if folded else pieces
        return f'<div class="lntutor-ask">{html}</div>'

    def _repr_mimebundle_(self, **options) -> Any:
        return live.with_twin(super()._repr_mimebundle_(**options), self.static())


def _printed(pieces: Iterable[Any]) -> Iterator[Any]:
    """The pieces, with lines of text that follow each other as one HTML."""
    for text, group in groupby(pieces, lambda piece: isinstance(piece, str)):
        if text:
            lines = "\n".join(group)
            yield f'<pre tabindex="0">{escape(lines)}</pre>'
        else:
            yield from group
