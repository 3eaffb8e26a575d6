"""The playground in a notebook: put LN elsewhere, and every layer answers. The page computes, Python follows."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd
from anywidget import AnyWidget
from traitlets import Dict, validate

from lntutor.explore import cell_reruns
from lntutor.figures.style import placement_label
from lntutor.measure.gradients import PARAMETERS, gradient_norms
from lntutor.measure.recorder import GRADIENT_COLUMNS
from lntutor.model.checks import as_tuple, check_choice, check_flag, check_int, check_one_of, check_type, short_repr
from lntutor.model.config import ATTENTION, INITS, NORMS
from lntutor.model.parameters import matrices
from lntutor.model.placements import ALL_SLOTS, FOLLOWERS, PLACEMENTS, SLOTS, STACKS, in_slots
from lntutor.model.state import model_config, model_inputs
from lntutor.model.threads import one_thread
from lntutor.page import lecture_mode
from lntutor.page.live import with_twin
from lntutor.page.playground import page

RANGES = {"depth": (1, 48), "seeds": (1, 10)}
NUMBERS = {"width": (16, 32, 48, 64, 96, 128, 192, 256, 384, 512), "heads": (1, 2, 4, 8), "ffn": (1, 2, 4),
           "tokens": (1, 2, 4, 8, 16, 32, 64)}  # fmt: skip
WORDS = {"stack": STACKS, "attention": ATTENTION, "init": INITS, "norm": NORMS, "parameter": PARAMETERS,
         "view": ("gradient", "depth", "width", "signal", "similarity")}  # fmt: skip
SHOWN = ("parameter", "view", "theory", "lemma2", "lecture")  # change what is drawn, and no number


class Playground(AnyWidget):
    """Where does LN stand, and what does it do to the gradient of every layer? Drag it, and look.

    Keywords are those of `state()`; `preset` is one of `PRESETS`, such as "theorem". `placements=["post", "pre"]` shows
    the first with the others beside it, the `placement` and `compare` of the state. The page computes by itself; it
    sends its state (`value`) and its numbers (`rows`) here, and takes a state and placements from here, whenever the
    kernel has time.
    """

    _esm = page.module()  # as text: given a Path, anywidget never lets a widget go
    _css = page.style()
    data = Dict().tag(sync=True)  # placements and the state at the start, from Python
    value = Dict().tag(sync=True)  # the state, both ways
    rows = Dict().tag(sync=True)  # the page's numbers: edition of the data, state, columns
    PRESETS = page.PRESETS

    def __init__(self, preset: str | None = None, **state):
        named = {} if preset is None else self.PRESETS[check_choice("preset", preset, tuple(self.PRESETS))]
        value = changed(changed(page.start(), named), state)
        super().__init__(data=page.data() | {"edition": 0}, value=value)
        cell_reruns.hold(self)
        FOLLOWERS.add(self)
        lecture_mode.FOLLOWERS.add(self)

    def state(self) -> dict[str, Any]:
        """Name → value; `Playground(**playground.state())` shows the same view."""
        return {name: list(value) if isinstance(value, list) else value for name, value in self.value.items()}

    def set(self, **state) -> None:
        """Change some of the state, here and in the page."""
        self.value = changed(self.value, state)

    def code(self) -> str:
        """One line of code that rebuilds this view; what is as at the start is left out."""
        start = page.start()
        given = {name: value for name, value in self.value.items() if value != start[name]}
        given.pop("slots" if self.value["placement"] else "placement", None)
        return f"Playground({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def table(self) -> pd.DataFrame:
        """The gradient norm of every matrix of each placement in view, with the columns of `gradient_norms`.

        The page's own numbers where it has sent them for this state, else measured here: equal to AGREEMENT.
        """
        state = self.state()
        beside = [key for key in dict.fromkeys(state["compare"]) if key != state["placement"]]
        shown = [state["placement"] or in_slots(state["slots"]), *beside]
        configs = [model_config(state, placement) for placement in shown]
        keys = [cfg.placement.key for cfg in configs for _ in range(len(matrices(cfg)) * state["seeds"])]
        sent = self._sent(state, len(keys))
        if sent is None:
            asked = {"seeds": range(state["seeds"]), "inputs": model_inputs(state)}
            with one_thread():
                return pd.concat([gradient_norms(cfg, **asked) for cfg in configs], ignore_index=True)
        same = {"placement": keys, "depth": state["depth"], "width": state["width"]}
        return sent.assign(**same)[list(GRADIENT_COLUMNS)]

    def lecture_changed(self, on: bool) -> None:
        """Follow the switch of lecture mode."""
        self.set(lecture=on)

    def placements_changed(self) -> None:
        """Give the page the placements as they are now; where the chosen one is gone, the first is shown."""
        state = self.state()
        if state["placement"] not in ("", *PLACEMENTS):
            state["placement"] = page.START["placement"]
        state["compare"] = [key for key in state["compare"] if key in PLACEMENTS and not page.error_of(key)]
        if state["placement"]:
            state["slots"] = page.slots_of(PLACEMENTS[state["placement"]])
        with self.hold_sync():
            self.data = page.data() | {"edition": self.data["edition"] + 1}
            self.value = state

    def close(self) -> None:
        """Remove the playground from the page."""
        FOLLOWERS.discard(self)
        lecture_mode.FOLLOWERS.discard(self)
        super().close()

    @validate("value")
    def _valid(self, proposal) -> dict[str, Any]:
        """A whole state that makes sense, or a ValueError. Of a placement with a name, the page knows the slots."""
        given = dict(check_type("value", proposal["value"], dict))
        slots = {"slots": given.pop("slots")} if given.get("placement") and "slots" in given else {}
        return changed(page.start(), given) | {name: _checked(name, value) for name, value in slots.items()}

    def _sent(self, state: dict[str, Any], count: int) -> pd.DataFrame | None:
        """The table that the page sent for these numbers and these rules; None if it has sent none."""
        sent, shown = self.rows, dict.fromkeys(SHOWN)
        if sent.get("edition") != self.data["edition"] or {**(sent.get("state") or {}), **shown} != {**state, **shown}:
            return None
        table = pd.DataFrame(sent.get("columns"))
        return table if len(table) == count and set(GRADIENT_COLUMNS[3:]) <= set(table) else None

    def _repr_mimebundle_(self, **options) -> Any:
        cell_reruns.hold(self)
        return with_twin(super()._repr_mimebundle_(**options), self._twin())

    def _twin(self) -> str:
        """The playground in HTML for a page without a kernel: a sentence, and the link that a page beside it takes."""
        state = self.state()
        first = placement_label(state["placement"]) if state["placement"] else f"slots {state['slots']}"
        name = " beside ".join(filter(None, [first, ", ".join(map(placement_label, state["compare"]))]))
        return (
            f'<p class="lntutor-playground" data-link="{escape(page.link(state))}">The playground, which draws a '
            f"Transformer with a layer norm to move: {name}, {state['stack']}, depth {state['depth']}, width "
            f"{state['width']}. It is live in the notebook, and in the file that "
            "<code>python -m lntutor playground playground.html</code> writes.</p>"
        )


def changed(state: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A state with these changes, checked; `placement` sets `slots`, and the other way round."""
    start = page.start()
    if "placements" in changes:
        changes = _one_beside_others(**changes)
    if unknown := [name for name in changes if name not in start]:
        raise ValueError(f"Playground has no setting {short_repr(unknown[0])}; it has {', '.join(start)}")
    new = {**state, **{name: _checked(name, value) for name, value in changes.items()}}
    if changes.get("placement"):
        own = page.slots_of(PLACEMENTS[new["placement"]])
        if changes.get("slots", own) != own:
            raise ValueError(f"slots must be {own!r} for placement={new['placement']!r}, got {changes['slots']!r}")
        return new | {"slots": own}
    if "slots" in changes or "placement" in changes:
        return new | {"placement": page.name_of(_checked_slots(new["slots"]))}
    return new


def _one_beside_others(placements: Any, **others: Any) -> dict[str, Any]:
    """The first of `placements` as `placement`, the others as `compare`."""
    if both := {"placement", "slots", "compare"}.intersection(others):
        raise ValueError(f"give placements or {min(both)}, not both")
    first, *rest = as_tuple("placements", placements, '["post", "pre"]') or (None,)
    return {"placement": first, "compare": rest, **others}


def _beside(value: Any) -> list[str]:
    """The placements to compare with, each of which the page can compute."""
    keys = [check_choice("compare", key, tuple(PLACEMENTS)) for key in as_tuple("compare", value, '["pre", "peri"]')]
    for key in keys:
        if error := page.error_of(key):
            raise ValueError(error)
    return list(dict.fromkeys(keys))


def _checked(name: str, value: Any) -> Any:
    """One setting as it is kept, or a ValueError."""
    if name == "placement":
        return value if isinstance(value, str) and not value else PLACEMENTS[value].key
    if name == "compare":
        return _beside(value)
    if name == "slots":
        return None if value is None else _checked_slots(value)
    if name in RANGES:
        return check_int(name, value, *RANGES[name])
    if name in NUMBERS:
        return check_one_of(name, value, NUMBERS[name])
    return check_choice(name, value, WORDS[name]) if name in WORDS else check_flag(name, value)


def _checked_slots(value: Any) -> str:
    if not isinstance(value, str) or value not in ALL_SLOTS:
        raise ValueError(f"slots must be letters out of {SLOTS}, in this order, such as 'AD', got {short_repr(value)}")
    return value
