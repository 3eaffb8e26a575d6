"""Kinds of guess: one of several sentences, a show of hands, a number, a curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, log10
from typing import Any

import ipywidgets as w
import plotly.graph_objects as go

from lntutor.figures import guess_on_curve, guess_on_line, votes
from lntutor.figures.style import number
from lntutor.lesson.claims import is_number
from lntutor.lesson.question import prose, radio
from lntutor.model.checks import as_tuple, check_flag, check_type, short_repr

MOST_PLACES = 16  # of a curve, each a slider


class Choices:
    """One of several sentences."""

    def __init__(self, choices: Sequence[str]):
        self.choices = [str(choice) for choice in as_tuple("choices", choices, "['rises', 'falls']")]
        if len(self.choices) < 2 or len(set(self.choices)) < len(self.choices):
            raise ValueError(f"choices must be two or more different sentences, got {short_repr(choices)}")
        self.control: Any = radio(self.choices, "Your guess")

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
        self.control.index = None

    def measured(self, result: Any) -> Any:
        """The measurement in the form of a guess; None if the result is something else."""
        return result if isinstance(result, str) and result in self.choices else None

    def allowed(self) -> str:
        """What a measurement may be, for an error message."""
        return "one of the choices: " + "; ".join(map(repr, self.choices))

    def static(self) -> str:
        """The choices in HTML, for a page without a kernel."""
        return "<ul>" + "".join(f"<li>{escape(choice)}</li>" for choice in self.choices) + "</ul>"

    def together(self, guess: Any, measured: Any) -> Iterator[Any]:
        """Guess and measurement side by side: HTML and figures."""
        yield _sentence(guess, measured)
        if measured is not None:
            yield "<ul>" + "".join(self._line(choice, guess, measured) for choice in self.choices) + "</ul>"

    def _line(self, choice: str, guess: Any, measured: Any) -> str:
        tags = ["◇ your guess"] * (choice == guess) + ["● measured"] * (choice == measured)
        text = escape(choice) + (f" <b>({', '.join(tags)})</b>" if tags else "")
        return f"<li>{text}</li>"


class Votes(Choices):
    """A show of hands for each of several sentences, twice; a guess is a list of one or two lists of counts."""

    def __init__(self, choices: Sequence[str]):
        super().__init__(choices)
        self.counts = [
            w.BoundedIntText(0, 0, 9999, layout=w.Layout(width="80px"), tooltip=f"Hands for: {choice}")
            for choice in self.choices
        ]
        rows = [w.HBox([count, prose(escape(c))]) for count, c in zip(self.counts, self.choices, strict=True)]
        self.control = w.VBox(rows)

    def read(self, before: Any) -> list[list[int]]:
        hands = [count.value for count in self.counts]
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
        for count in self.counts:
            count.value = 0

    def together(self, guess: Any, measured: Any) -> Iterator[Any]:
        yield _sentence(None, measured)
        if guess:
            yield votes(self.choices, guess, measured)


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
        self.control = w.HBox([slider := _slider(self.low, self.high, step, log), prose(escape(unit))])
        slider.description, slider.layout.width = "Your guess", "min(420px, 98%)"
        self.sliders = [slider]
        self.start = slider.value

    def read(self, before: Any) -> Any:
        return float(self.sliders[0].value)

    def takes(self, guess: Any) -> bool:
        return is_number(guess)

    def static(self) -> str:
        return f"<p>A number from {self._between()}.</p>"

    def _between(self) -> str:
        return f"{number(self.low)} to {number(self.high)} {escape(self.unit)}".strip()

    def describe(self, guess: Any) -> str:
        return f"{number(guess)} {self.unit}".strip()

    def reset(self) -> None:
        self.sliders[0].value = self.start

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
    """A number at each of several places, as a row of vertical sliders."""

    def __init__(self, curve: Sequence[Any], log: bool, unit: str):
        try:
            places, low, high = curve
            self.places = list(places)
        except (TypeError, ValueError):
            raise ValueError(f"curve must be (x_values, low, high), got {short_repr(curve)}") from None
        if not 2 <= len(self.places) <= MOST_PLACES:
            raise ValueError(f"curve must have 2 to {MOST_PLACES} x values, got {len(self.places)}")
        self.low, self.high, self.log, self.unit = *_ends("curve", (low, high), log), log, unit
        self.sliders = [_slider(self.low, self.high, None, log) for _ in self.places]
        for slider, place in zip(self.sliders, self.places, strict=True):
            slider.orientation, slider.description, slider.tooltip = "vertical", str(place), f"Your guess at {place}"
            slider.layout = w.Layout(width="64px", height="220px")
        self.start = self.sliders[0].value
        self.control = w.HBox(self.sliders, layout=w.Layout(flex_flow="row wrap"))

    def read(self, before: Any) -> Any:
        return [float(slider.value) for slider in self.sliders]

    def takes(self, guess: Any) -> bool:
        return isinstance(guess, list) and len(guess) == len(self.places) and all(map(is_number, guess))

    def static(self) -> str:
        return f"<p>A number from {self._between()} at each of {escape(', '.join(map(str, self.places)))}.</p>"

    def describe(self, guess: Any) -> str:
        return f"{', '.join(map(number, guess))} {self.unit}".strip()

    def reset(self) -> None:
        for slider in self.sliders:
            slider.value = self.start

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


def _slider(low: float, high: float, step: float | None, log: bool) -> w.FloatSlider | w.FloatLogSlider:
    """A slider that starts in the middle."""
    if log:
        a, b = log10(low), log10(high)
        return w.FloatLogSlider(10 ** ((a + b) / 2), min=a, max=b, step=step or (b - a) / 100, readout_format=".3g")
    step = step or (high - low) / 100
    decimals = max(0, ceil(-log10(step)))
    return w.FloatSlider((low + high) / 2, min=low, max=high, step=step, readout_format=f".{decimals}f")


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
    if class_mode and choices is None:
        raise ValueError("class_mode counts hands, so it needs choices")
    if choices is not None:
        return (Votes if class_mode else Choices)(choices)
    return Value(value, log, unit) if value is not None else Curve(curve, log, unit)
