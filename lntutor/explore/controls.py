"""Controls that several explorers share: a plain name, a tooltip, a keyboard path."""

from __future__ import annotations

from typing import Any, TypeVar

import ipywidgets as w
import numpy as np
from ipywidgets.widgets.widget_description import DescriptionWidget

from lntutor.figures.lecture_type import lecturing
from lntutor.model.config import ATTENTION, INITS, NORMS
from lntutor.model.placements import PLACEMENTS, STACKS
from lntutor.model.state import DEFAULTS

Control = TypeVar("Control", bound=DescriptionWidget)
WIDTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def labelled(control: Control, name: str, tooltip: str, width: str = "min(266px, 98%)") -> Control:
    """A control with its name in front and a tooltip; with its margins it fills a column of 270 pixels."""
    control.description, control.tooltip = name, tooltip
    control.style.description_width = "92px"
    control.layout.width = width
    return control


def int_slider(name: str, value: int, low: int, high: int, tooltip: str) -> w.IntSlider:
    """A slider over whole numbers that answers while it is dragged."""
    return labelled(w.IntSlider(value, low, high), name, tooltip)


def seeds_slider(value: int) -> w.IntSlider:
    """How many seeds are drawn."""
    return int_slider("Seeds", value, 1, 10, "How many networks are drawn; one while a slider is dragged")


def float_slider(name: str, value: float, low: float, high: float, step: float, tooltip: str) -> w.FloatSlider:
    """A slider over numbers."""
    return labelled(w.FloatSlider(value, min=low, max=high, step=step), name, tooltip)


def step_slider(name: str, value, options, tooltip: str) -> w.SelectionSlider:
    """A slider over given values."""
    slider = w.SelectionSlider(options=options, value=value)
    slider.add_class("lntutor-steps")
    return labelled(slider, name, tooltip)


def dropdown(name: str, value, options, tooltip: str) -> w.Dropdown:
    """A list to choose one from; `options` are values, (caption, value) pairs, or a dict of value → caption."""
    pairs = [(caption, key) for key, caption in options.items()] if isinstance(options, dict) else options
    return labelled(w.Dropdown(options=pairs, value=value), name, tooltip)


def checkbox(name: str, value: bool, tooltip: str) -> w.Checkbox:
    """A box to tick."""
    control = labelled(w.Checkbox(value), name, tooltip, "220px")
    control.indent = False
    return control


def lecture_checkbox() -> w.Checkbox:
    """Large type for the back row; starts as the switch of lecture mode says."""
    return checkbox("Lecture type", lecturing(), "Type for the back row")


def placement_options() -> list[tuple[str, str]]:
    """(caption, key) of every placement there is now."""
    return [(f"{placement.label} ({key})", key) for key, placement in PLACEMENTS.items()]


def placement_picker(value: tuple[str, ...]) -> w.SelectMultiple:
    """A list to choose several placements from, including those that the reader has added."""
    picker = w.SelectMultiple(options=placement_options(), value=value, rows=4)
    picker.add_class("lntutor-placements")
    return labelled(picker, "LN position", "One or several: hold Ctrl, on a Mac Cmd (or Shift and the arrow keys)")


def model_controls() -> dict[str, Any]:
    """The controls that make a ModelConfig and its Inputs (`lntutor.model.state`)."""
    start, multiples = DEFAULTS, [(f"{n} × width", n) for n in (1, 2, 4)]
    return {
        "depth": int_slider("Depth", start["depth"], 1, 48, "Layers of each side"),
        "width": step_slider("Width", start["width"], WIDTHS, "Features of a token, d"),
        "placements": placement_picker(start["placements"]),
        "stack": dropdown("Stack", start["stack"], STACKS, "Encoder, decoder (causal), or both"),
        "heads": dropdown("Heads", start["heads"], (1, 2, 4, 8), "Attention heads"),
        "tokens": step_slider("Tokens", start["tokens"], (1, 2, 4, 8, 16, 32, 64), "Tokens of the sentence, n"),
        "attention": dropdown("Attention", start["attention"], ATTENTION, "Uniform is the theorem's W_Q = W_K = 0"),
        "init": dropdown("Init", start["init"], INITS,
                         "Variance of the weights; torch packs Q, K, V; theory is 1/fan_in"),
        "ffn": dropdown("FFN width", start["ffn"], multiples, "Hidden units of the FFN"),
        "output_projection": checkbox("W_O after attention", start["output_projection"], "The theorem has none"),
        "norm": dropdown("Norm", start["norm"], NORMS, "LayerNorm or RMSNorm"),
        "seeds": seeds_slider(start["seeds"]),
    }  # fmt: skip


def seeds_of(state: dict, quick: bool) -> range:
    """One seed while a slider is dragged, all of them after."""
    return range(1 if quick else state["seeds"])


def log_spaced(low: int, high: int, count: int = 9) -> list[int]:
    """About `count` whole numbers from low to high, evenly spaced on a log axis."""
    return sorted({int(n) for n in np.geomspace(low, high, count).round()})
