"""Kinds of guess: one of several sentences, a show of hands, a number, a curve. Each starts empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import log10
from typing import Any

import ipywidgets as w
import plotly.graph_objects as go

from lntutor.figures import guess_on_curve, guess_on_line, votes
from lntutor.figures.style import number
from lntutor.lesson.claims import is_number
from lntutor.model.checks import as_tuple, check_flag, check_type, short_repr
from lntutor.page.kit import answers
from lntutor.page.kit.panel import decimals

MOST_PLACES = 16  # of a curve
STOPS, MOST_STOPS = 100, 1000  # of a slider; between them any number can be typed
RANGES = 4  # among which a class votes where a number is asked for
YOURS = "Your guess"


class Choices:
    """One of several sentences."""

    def __init__(self, choices: Sequence[str]):
        self.choices = [str(choice) for choice in as_tuple("choices", choices, "['rises', 'falls']")]
        if len(self.choices) < 2 or len(set(self.choices)) < len(self.choices):
            raise ValueError(f"choices must be two or more different sentences, got {short_repr(choices)}")
        self.control: Any = answers.Options(self.choices, description=YOURS)

    def read(self, before: Any) -> Any:
        """The guess on the page, to be stored."""
        if self.control.value is None:
            raise ValueError("Pick an answer first, or press Skip.")
        return self.control.value

    def takes(self, guess: Any) -> bool:
        """Whether a stored guess fits this question, whose cell may have been edited since."""
        return guess in self.choices

    def complete(self, guess: Any) -> bool:
        """Whether the measurement may be shown now."""
        return True

    def button(self, guess: Any) -> str:
        """The caption of the button."""
        return "Store my guess"

    def after(self, guess: Any) -> str:
        """What to do next, after an incomplete guess."""
        return ""

    def describe(self, guess: Any) -> str:
        """The guess as text, for a sentence and for the ledger."""
        return str(guess)

    def reset(self) -> None:
        """Set the control back to its start."""
        self.control.value = None

    def measured(self, result: Any) -> Any:
        """The measurement in the form of a guess; None if the result is something else."""
        return result if isinstance(result, str) and result in self.choices else None

    def allowed(self) -> str:
        """What a measurement may be, for an error message."""
        return "one of the choices: " + "; ".join(map(repr, self.choices))

    def static(self) -> str:
        """The choices in HTML, for a page without a kernel."""
        return "<ol>" + "".join(f"<li>{escape(choice)}</li>" for choice in self.choices) + "</ol>"

    def together(self, guess: Any, measured: Any) -> Iterator[Any]:
        """Guess and measurement side by side: HTML and figures."""
        yield _sentence(guess, measured)
        if measured is not None:
            yield "<ol>" + "".join(self._line(choice, guess, measured) for choice in self.choices) + "</ol>"

    def _line(self, choice: str, guess: Any, measured: Any) -> str:
        tags = ["◇ your guess"] * (choice == guess) + ["● measured"] * (choice == measured)
        text = escape(choice) + (f" <b>({', '.join(tags)})</b>" if tags else "")
        return f"<li>{text}</li>"


class Votes(Choices):
    """A show of hands for each of several sentences, twice; a guess is a list of one or two lists of counts."""

    def __init__(self, choices: Sequence[str]):
        super().__init__(choices)
        self.control = answers.Hands(self.choices, description="Hands")

    def read(self, before: Any) -> list[list[int]]:
        hands = list(self.control.value)
        if not any(hands):
            raise ValueError("Enter how many hands each choice got.")
        self.reset()
        return [*(before or []), hands]

    def takes(self, guess: Any) -> bool:
        return isinstance(guess, list) and all(
            isinstance(hands, list) and len(hands) == len(self.choices) and all(isinstance(n, int) for n in hands)
            for hands in guess
        )

    def complete(self, guess: Any) -> bool:
        return len(guess) == 2

    def button(self, guess: Any) -> str:
        return "Second vote" if guess else "First vote"

    def after(self, guess: Any) -> str:
        return f"First vote stored: {sum(guess[0])} hands. Let them talk to each other, then count again."

    def describe(self, guess: Any) -> str:
        return ", then ".join(" : ".join(map(str, hands)) for hands in guess) + " hands"

    def reset(self) -> None:
        self.control.value = (0,) * len(self.choices)

    def together(self, guess: Any, measured: Any) -> Iterator[Any]:
        yield _sentence(None, measured)
        if guess:
            yield votes(self.choices, guess, measured)


class RangeVotes(Votes):
    """A show of hands for each of several ranges in which a number may lie."""

    def __init__(self, asked: Value):
        a, b = (log10(asked.low), log10(asked.high)) if asked.log else (asked.low, asked.high)
        places = [a + (b - a) * i / RANGES for i in range(1, RANGES)]
        self.asked, self.edges = asked, [float(f"{10**place if asked.log else place:.2g}") for place in places]
        names = [f"{edge:,g} {asked.unit}".strip() for edge in self.edges]
        between = [f"{low:,g} to {high}" for low, high in zip(self.edges, names[1:], strict=False)]
        super().__init__([f"up to {names[0]}", *between, f"more than {names[-1]}"])

    def measured(self, result: Any) -> Any:
        return self.asked.measured(result)

    def allowed(self) -> str:
        return self.asked.allowed()

    def together(self, guess: Any, measured: Any) -> Iterator[Any]:
        yield _sentence(None, None if measured is None else self.asked.describe(measured))
        if guess:
            place = None if measured is None else self.choices[sum(measured > edge for edge in self.edges)]
            yield votes(self.choices, guess, place)


class Value(Choices):
    """A number on a slider."""

    def __init__(self, bounds: Sequence[float], log: bool, unit: str):
        bounds = as_tuple("value", bounds, "(0, 10)")
        self.low, self.high, self.log, self.unit = *_ends("value", bounds[:2], log), log, unit
        if len(bounds) not in (2, 3):
            raise ValueError(f"value must be (low, high) or (low, high, step), got {short_repr(bounds)}")
        step = bounds[2] if len(bounds) == 3 else None
        if step is not None and not (is_number(step) and step > 0):
            raise ValueError(f"the step of value must be a number above 0, got {short_repr(step)}")
        self.control = answers.Guess(_stops(self.low, self.high, step, log), unit, description=YOURS)

    def read(self, before: Any) -> Any:
        if self.control.value is None:
            raise ValueError("Set the slider first, or press Skip.")
        return float(self.control.value)

    def takes(self, guess: Any) -> bool:
        return is_number(guess)

    def static(self) -> str:
        return f"<p>A number from {self._between()}.</p>"

    def _between(self) -> str:
        return f"{number(self.low)} to {number(self.high)} {escape(self.unit)}".strip()

    def describe(self, guess: Any) -> str:
        return f"{number(guess)} {self.unit}".strip()

    def measured(self, result: Any) -> Any:
        result = result.item() if getattr(result, "shape", None) == () else result
        return float(result) if is_number(result) else None

    def allowed(self) -> str:
        return "a finite number"

    def together(self, guess: Any, measured: Any) -> Iterator[Any]:
        yield _sentence(*(None if v is None else self.describe(v) for v in (guess, measured)))
        if measured is not None:
            yield guess_on_line(guess, measured, (self.low, self.high), unit=self.unit, log=self.log)


class Curve(Value):
    """A number at each of several places, drawn on a plot."""

    def __init__(self, curve: Sequence[Any], log: bool, unit: str):
        try:
            places, low, high = curve
            self.places = list(places)
        except (TypeError, ValueError):
            raise ValueError(f"curve must be (x_values, low, high), got {short_repr(curve)}") from None
        if not 2 <= len(self.places) <= MOST_PLACES:
            raise ValueError(f"curve must have 2 to {MOST_PLACES} x values, got {len(self.places)}")
        self.low, self.high, self.log, self.unit = *_ends("curve", (low, high), log), log, unit
        self.control = answers.Curve(self.places, self.low, self.high, log, unit, description=YOURS)

    def read(self, before: Any) -> Any:
        if None in self.control.value:
            raise ValueError("Draw the whole curve first, or press Skip.")
        return list(self.control.value)

    def takes(self, guess: Any) -> bool:
        return isinstance(guess, list) and len(guess) == len(self.places) and all(map(is_number, guess))

    def static(self) -> str:
        return f"<p>A number from {self._between()} at each of {escape(', '.join(map(str, self.places)))}.</p>"

    def describe(self, guess: Any) -> str:
        return f"{', '.join(map(number, guess))} {self.unit}".strip()

    def reset(self) -> None:
        self.control.value = (None,) * len(self.places)

    def measured(self, result: Any) -> Any:
        if isinstance(result, (str, bytes, go.Figure, w.Widget)) or not hasattr(result, "__len__"):
            return None
        if len(result) != len(self.places):
            return None
        values = [v.item() if getattr(v, "shape", None) == () else v for v in result]
        return [float(v) for v in values] if all(map(is_number, values)) else None

    def allowed(self) -> str:
        return f"{len(self.places)} finite numbers, one for each x value"

    def together(self, guess: Any, measured: Any) -> Iterator[Any]:
        yield _sentence(*(None if v is None else self.describe(v) for v in (guess, measured)))
        if guess is not None or measured is not None:
            yield guess_on_curve(self.places, guess, measured, unit=self.unit, log=self.log)


def _ends(name: str, bounds: Sequence[float], log: bool) -> tuple[float, float]:
    """Two ends of a slider, or a ValueError."""
    if len(bounds) != 2 or not all(map(is_number, bounds)) or not bounds[0] < bounds[1]:
        raise ValueError(f"{name} must have finite ends with low < high, got {short_repr(tuple(bounds))}")
    if log and bounds[0] <= 0:
        raise ValueError(f"{name} must have low > 0 where log=True, got {bounds[0]!r}")
    return float(bounds[0]), float(bounds[1])


def _stops(low: float, high: float, step: float | None, log: bool) -> list[float]:
    """Where a slider can stand, from one end to the other."""
    if not log:
        step = max(step or (high - low) / STOPS, (high - low) / MOST_STOPS)
        return sorted({v for v in decimals(low, high, step) if v < high} | {high})
    raw = [low * (high / low) ** (i / STOPS) for i in range(1, STOPS)]
    rounded = [step * round(v / step) if step else float(f"{v:.3g}") for v in raw]
    return sorted({low, high, *(v for v in rounded if low < v < high)})


def _sentence(guess: str | None, measured: str | None) -> str:
    """ "You guessed …; measured: …", or the part that is known."""
    if guess is None:
        return "" if measured is None else f"<p>Measured: <b>{escape(measured)}</b>.</p>"
    after = ". Compare it with what is shown." if measured is None else f"; measured: <b>{escape(measured)}</b>."
    return f"<p>You guessed <b>{escape(guess)}</b>{after}</p>"


def kind_of(choices, value, curve, log: bool, unit: str, class_mode: bool) -> Choices:
    """The kind of question that the arguments ask for."""
    check_flag("log", log)
    check_flag("class_mode", class_mode)
    check_type("unit", unit, str)
    given = [name for name, part in {"choices": choices, "value": value, "curve": curve}.items() if part is not None]
    if len(given) != 1:
        raise ValueError(f"give one of choices, value and curve; got {' and '.join(given) or 'none'}")
    if choices is not None:
        return (Votes if class_mode else Choices)(choices)
    if value is not None:
        return RangeVotes(Value(value, log, unit)) if class_mode else Value(value, log, unit)
    return Curve(curve, log, unit)  # which a class draws together
