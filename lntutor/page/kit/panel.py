"""A panel: controls and buttons in one widget, drawn by the page with one look.

A part has a value or an action. Python sees `part.value`, `part.observe(…, "value")` and `button.click()`, whoever
moved it. The page keeps a slider moving while the kernel is busy, and marks the picture beside it as out of date.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from anywidget import AnyWidget
from traitlets import Any as Anything
from traitlets import Bool, Dict, HasTraits, Int, List, TraitError, Tuple, Unicode, validate

from lntutor.figures.style import STYLES, placement_style
from lntutor.model.checks import short_repr
from lntutor.model.placements import FOLLOWERS, PLACEMENTS
from lntutor.page import kit
from lntutor.page.live import PATIENCE

USUAL = ("post", "pre", "peri", "res_post", "none")  # placements in view; the reader's own are, too


class Part(HasTraits):
    """Something in a panel, with its caption, and whether it is enabled and shown."""

    kind: ClassVar[str]
    description, tooltip = Unicode(), Unicode()
    disabled, hidden = Bool(False), Bool(False)

    def page_look(self) -> dict[str, Any]:
        """All that the page draws of it but its value."""
        look = {name: getattr(self, name) for name in ("description", "tooltip", "disabled", "hidden")}
        return {"kind": self.kind, **look}


class Control(Part):
    """A part with a value."""

    value: Any = Anything()

    @validate("value")
    def _valid(self, proposal) -> Any:
        try:
            return self.taken(proposal["value"])
        except (ValueError, TypeError):
            name = self.description or type(self).__name__
            raise TraitError(f"{name} must be {self.allowed()}, got {short_repr(proposal['value'])}") from None

    def allowed(self) -> str:
        """What it takes, for a message."""
        raise NotImplementedError

    def taken(self, value: Any) -> Any:
        """The value as it is kept, or a ValueError or TypeError."""
        raise NotImplementedError

    def page_value(self) -> Any:
        """The value as the page has it."""
        return self.value

    def of_page(self, value: Any) -> Any:
        """What the page's value means."""
        return value


class Slider(Control):
    """A slider over a list of values, with a field for the number; with `captions`, their texts are shown instead.

    With `between`, any number from the first value to the last can be typed.
    """

    kind = "slider"
    values: list

    def __init__(self, values: Sequence, value: Any, captions: Sequence[str] = (), between: bool = False, **look: Any):
        self.values, self.captions, self.between = list(values), list(captions), between
        super().__init__(value=value, **look)

    def allowed(self) -> str:
        evenly = self.between or self.values == list(range(int(self.values[0]), int(self.values[-1]) + 1))
        if evenly and not self.captions:
            return f"in {self.values[0]}..{self.values[-1]}"
        return "one of " + ", ".join(map(repr, self.values))

    def taken(self, value: Any) -> Any:
        if isinstance(value, Real) and not isinstance(value, bool):
            for one in self.values:
                if one == value:
                    return one
            if self.between and self.values[0] <= value <= self.values[-1]:
                return float(value)
        raise ValueError

    def page_look(self) -> dict[str, Any]:
        about = {"values": self.values, "captions": self.captions, "between": self.between, "allowed": self.allowed()}
        return super().page_look() | about

    def of_page(self, value: Any) -> Any:
        return self.taken(value)


class Segments(Control):
    """A few choices side by side; `options` are values, or a dict of value → caption. None: nothing is chosen."""

    kind = "segments"

    def __init__(self, options: Iterable | dict, value: Any, **look: Any):
        self.options = list(options)
        captions = options.values() if isinstance(options, dict) else options
        self.captions = [str(caption) for caption in captions]
        super().__init__(value=value, **look)

    def allowed(self) -> str:
        return "one of " + ", ".join(map(repr, self.options))

    def taken(self, value: Any) -> Any:
        for one in self.options:
            if isinstance(value, (str, Real)) and not isinstance(value, bool) and value == one:
                return one
        raise ValueError

    def page_look(self) -> dict[str, Any]:
        return super().page_look() | {"captions": self.captions}

    def page_value(self) -> Any:
        return None if self.value is None else self.options.index(self.value)

    def of_page(self, value: Any) -> Any:
        return self.options[value]


class Switch(Control):
    """On or off."""

    kind = "switch"

    def allowed(self) -> str:
        return "True or False"

    def taken(self, value: Any) -> bool:
        if not isinstance(value, bool | np.bool_):
            raise ValueError
        return bool(value)


class TextField(Control):
    """A line of text."""

    kind = "text"

    def allowed(self) -> str:
        return "text"

    def taken(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError
        return value


class Chips(Control):
    """The placements as chips in their curve's colour and second cue; one click on or off. The value is a tuple.

    A placement that the reader adds later appears at once, and one that is gone is no longer chosen.
    """

    kind = "chips"
    several: ClassVar[bool] = True
    options: Any = List()

    def __init__(self, value: Any, **look: Any):
        super().__init__(value=value, options=list(PLACEMENTS), **look)
        FOLLOWERS.add(self)

    def allowed(self) -> str:
        return "one of " + ", ".join(map(repr, self.options))

    def taken(self, value: Any) -> Any:
        keys = tuple(value) if isinstance(value, (list, tuple, dict)) else (None,)
        if any(not isinstance(key, str) or key not in self.options for key in keys):
            raise ValueError
        return tuple(dict.fromkeys(keys))

    def placements_changed(self) -> None:
        """Show the placements as they are now."""
        self.options = list(PLACEMENTS)
        self._keep()

    def _keep(self) -> None:
        self.value = tuple(key for key in self.value if key in self.options)

    def page_look(self) -> dict[str, Any]:
        order = sorted(self.options, key=lambda key: USUAL.index(key) if key in USUAL else len(USUAL))
        chips = [{"key": key, **_chip(key)} for key in order if key in PLACEMENTS]
        return super().page_look() | {"chips": chips, "several": self.several}

    def page_value(self) -> Any:
        return list(self.value)

    def of_page(self, value: Any) -> Any:
        return self.taken(value)


class OneChip(Chips):
    """The placements as chips of which one is chosen. The value is its key."""

    several = False

    def taken(self, value: Any) -> Any:
        return super().taken([value])[0]

    def _keep(self) -> None:
        if self.value not in self.options:
            self.value = self.options[0]

    def page_value(self) -> Any:
        return [self.value]

    def of_page(self, value: Any) -> Any:
        return self.taken(value[-1])


def _chip(key: str) -> dict[str, Any]:
    """How a placement's chip looks."""
    style, one = placement_style(key), PLACEMENTS[key]
    reference = f"{one.reference} {one.year}" if one.reference and one.year else one.reference
    look = {"color": style["color"], "marker": style["symbol"], "dash": style["dash"]}
    title = " · ".join(part for part in (one.formula, reference) if part)
    return {"label": one.label, "title": title, "usual": key in USUAL or key not in STYLES, **look}


class Layers(Control):
    """Layers of a drawn network, some of them chosen: by a click, a stroke over several, Shift, or keys.

    The value is a tuple of names such as "encoder.1", from the input up. `below` names what stands under all columns.
    A network of `depth` layers is drawn; names up to `most` are taken, so that a deeper one can be asked for at once.
    """

    kind = "layers"
    depth = Int(1)

    def __init__(self, value: Any, sides: Sequence[str], depth: int, most: int, below: str = "", **look: Any):
        self.sides, self.below = list(sides), below
        self.options = [below] * bool(below) + [f"{side}.{i}" for side in sides for i in range(1, most + 1)]
        super().__init__(value=value, depth=depth, **look)

    def allowed(self) -> str:
        first, last = (f"{side}.{i}" for side, i in ((self.sides[0], 1), (self.sides[-1], self.depth)))
        return f"a list of names such as {first!r} and {last!r}" + (f", or {self.below!r}" if self.below else "")

    def taken(self, value: Any) -> tuple[str, ...]:
        names = tuple(value) if isinstance(value, (list, tuple, dict)) else (None,)
        if any(not isinstance(name, str) or name not in self.options for name in names):
            raise ValueError
        return tuple(name for name in self.options if name in names)

    @property
    def drawn(self) -> tuple[str, ...]:
        """All names of the network that is drawn."""
        return tuple(name for name in self.options if name == self.below or int(name.partition(".")[2]) <= self.depth)

    def page_look(self) -> dict[str, Any]:
        return super().page_look() | {"sides": self.sides, "depth": self.depth, "below": self.below}

    def page_value(self) -> list[str]:
        return list(self.value)

    def of_page(self, value: Any) -> Any:
        return self.taken(value)


class Button(Part):
    """A button, and what it does."""

    kind = "button"
    primary = Bool(False)

    def __init__(self, description: str, action: Callable[[], None], **look: Any):
        super().__init__(description=description, **look)
        self.action = action

    def click(self) -> None:
        """Do what the button does."""
        self.action()

    def page_look(self) -> dict[str, Any]:
        return super().page_look() | {"primary": self.primary}


class Menu(Part):
    """Buttons behind one button: caption → action."""

    kind = "menu"

    def __init__(self, description: str, actions: dict[str, Callable[[], None]], **look: Any):
        super().__init__(description=description, **look)
        self.actions = actions

    def page_look(self) -> dict[str, Any]:
        return super().page_look() | {"items": list(self.actions)}


class Progress(Part):
    """A bar that fills."""

    kind = "progress"
    value = Anything(0)
    max = Anything(1)

    def page_value(self) -> float:
        """The share that is done."""
        return self.value / max(self.max, 1)


def _read(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


class Panel(AnyWidget):
    """Parts by name, in order; those named in `folded` stand behind "More settings"."""

    _esm = "\n".join((PATIENCE, kit.SCRIPT, *map(_read, ("answers.js", "handles.js", "layers.js", "panel.js"))))
    _css = kit.STYLE + _read("explorer.css") + _read("answers.css") + _read("layers.css")
    looks: Any = Dict().tag(sync=True)  # name → what the page draws, in order
    values: Any = Dict().tag(sync=True)  # name → value, both ways
    folded: Any = Tuple().tag(sync=True)
    drawn: Any = Dict().tag(sync=True)  # the values of the picture on screen; empty where there is none
    draft = Unicode().tag(sync=True)  # what the picture on screen lacks
    failed = Bool(False).tag(sync=True)  # whether it is not what was asked for
    copied = Unicode().tag(sync=True)  # a text that was copied, shown below the parts

    def __init__(self, parts: dict[str, Part], folded: Iterable[str] = (), guard: Callable | None = None):
        self.parts = parts
        self._guard = guard or (lambda action: action())
        super().__init__(looks=self._looks(), values=self.page_values(), folded=tuple(folded))
        for part in parts.values():
            part.observe(self._changed)
        self.observe(self._moved, names="values")
        self.on_msg(self._pressed)

    def page_values(self) -> dict[str, Any]:
        """Name → value, as the page has it."""
        return {name: part.page_value() for name, part in self.parts.items() if isinstance(part, Control | Progress)}

    def close(self) -> None:
        """Remove the panel from the page."""
        for part in self.parts.values():
            FOLLOWERS.discard(part)
            part.unobserve_all()
        super().close()

    def _looks(self) -> dict[str, Any]:
        return {name: part.page_look() for name, part in self.parts.items()}

    def _changed(self, change) -> None:
        if change.name in ("value", "max"):
            self.values = self.page_values()
        else:
            self.looks = self._looks()

    def _moved(self, _change) -> None:
        """Take over what the page has set, and show the page what was not taken."""
        now = self.page_values()
        if self.values == now:
            return
        for name, value in dict(self.values).items():
            part = self.parts.get(name)
            if isinstance(part, Control) and value != now.get(name):
                try:
                    part.value = part.of_page(value)
                except (ValueError, TypeError, IndexError):
                    self.values = now

    def _pressed(self, _widget, content: dict, _buffers) -> None:
        part = self.parts.get(content.get("press", ""))
        if part is None or part.disabled:
            return
        if isinstance(part, Button):
            self._guard(part.click)
        elif isinstance(part, Menu) and content.get("item") in part.actions:
            self._guard(part.actions[content["item"]])


def decimals(low: float, high: float, step: float) -> list[float]:
    """Numbers from low to high, a step apart, without the tails of binary fractions."""
    digits = max(0, -math.floor(math.log10(step)))
    return [round(low + i * step, digits + 2) for i in range(round((high - low) / step) + 1)]
