"""Parts for answers: numbered choices, a show of hands, a number, a drawn curve. Each starts empty."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from lntutor.page.kit.panel import Button, Control, Segments, Slider, TextField

MOST_HANDS = 9999


class Options(Segments):
    """Numbered choices, one below the other; None: nothing is chosen."""

    kind = "options"

    def __init__(self, options: Sequence[str], **look: Any):
        super().__init__(options, None, **look)

    def taken(self, value: Any) -> Any:
        return None if value is None else super().taken(value)

    def of_page(self, value: Any) -> Any:
        return None if value is None else super().of_page(value)


class Hands(Control):
    """How many hands each choice got."""

    kind = "hands"

    def __init__(self, captions: Sequence[str], **look: Any):
        self.captions = list(captions)
        super().__init__(value=(0,) * len(self.captions), **look)

    def allowed(self) -> str:
        return f"{len(self.captions)} whole numbers in 0..{MOST_HANDS}"

    def taken(self, value: Any) -> tuple[int, ...]:
        hands = tuple(value)
        if len(hands) != len(self.captions) or not all(type(n) is int and 0 <= n <= MOST_HANDS for n in hands):
            raise ValueError
        return hands

    def page_look(self) -> dict[str, Any]:
        return super().page_look() | {"captions": self.captions}

    def page_value(self) -> list[int]:
        return list(self.value)


class Guess(Slider):
    """A number on a slider that stands nowhere until it is set; None: not set."""

    kind = "guess"

    def __init__(self, values: Sequence[float], unit: str = "", **look: Any):
        self.unit = unit
        super().__init__(values, None, between=True, **look)

    def taken(self, value: Any) -> Any:
        return None if value is None else super().taken(value)

    def page_look(self) -> dict[str, Any]:
        return super().page_look() | {"unit": self.unit}


class Curve(Control):
    """A number at each of several places, drawn on a plot; None at a place: not drawn yet."""

    kind = "curve"

    def __init__(self, places: Sequence, low: float, high: float, log: bool = False, unit: str = "", **look: Any):
        self.plot = {"places": [str(place) for place in places], "low": low, "high": high, "log": log, "unit": unit}
        super().__init__(value=(None,) * len(places), **look)

    def allowed(self) -> str:
        return f"{len(self.plot['places'])} numbers in {self.plot['low']}..{self.plot['high']}"

    def taken(self, value: Any) -> tuple:
        points = tuple(value)
        if len(points) != len(self.plot["places"]) or not all(map(self._fits, points)):
            raise ValueError
        return tuple(None if point is None else float(point) for point in points)

    def _fits(self, point: Any) -> bool:
        if point is None:
            return True
        return (
            isinstance(point, Real) and not isinstance(point, bool) and self.plot["low"] <= point <= self.plot["high"]
        )

    def page_look(self) -> dict[str, Any]:
        return super().page_look() | self.plot

    def page_value(self) -> list:
        return list(self.value)


class Submit(Button):
    """A button for a part that must be set first: it says what is missing, and leads there."""

    kind = "submit"

    def __init__(self, description: str, action, needs: str, **look: Any):
        super().__init__(description, action, **look)
        self.needs = needs

    def page_look(self) -> dict[str, Any]:
        return super().page_look() | {"needs": self.needs}


class Words(TextField):
    """Text in HTML between the parts; the page never changes it."""

    kind = "words"

    def of_page(self, value: Any) -> Any:
        raise ValueError
