"""Controls that several explorers share: a plain name, a tooltip, a keyboard path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lntutor.figures.lecture_type import lecturing
from lntutor.page.kit.panel import Chips, OneChip, Segments, Slider, Switch, TextField, decimals


def int_slider(name: str, value: int, low: int, high: int, tooltip: str) -> Slider:
    """A slider over whole numbers that answers while it is dragged."""
    return Slider(range(low, high + 1), value, description=name, tooltip=tooltip)


def seeds_slider(value: int) -> Slider:
    """How many seeds are drawn."""
    return int_slider("Networks", value, 1, 10, "How many random networks are drawn; one while a slider is dragged")


def float_slider(name: str, value: float, low: float, high: float, step: float, tooltip: str) -> Slider:
    """A slider over numbers; any number between its ends can be typed."""
    return Slider(decimals(low, high, step), value, between=True, description=name, tooltip=tooltip)


def log_slider(name: str, value: float, low: float, high: float, tooltip: str) -> Slider:
    """A slider over numbers whose steps are equal ratios, 20 in each power of ten."""
    steps = np.geomspace(low, high, round(20 * np.log10(high / low)) + 1)
    return Slider([float(f"{step:.3g}") for step in steps], value, between=True, description=name, tooltip=tooltip)


def count_slider(name: str, value: int, high: int, tooltip: str, low: int = 0) -> Slider:
    """A slider over whole numbers up to `high`, in steps of about a hundredth: 1 up to 100, then 5, 50, 500 …"""
    values, step = list(range(low, min(high, 100) + 1)), 5
    while values[-1] < high:
        values += range(values[-1] + step, min(200 * step, high) + 1, step)
        step *= 10
    return Slider(values, value, description=name, tooltip=tooltip)


def step_slider(name: str, value, options: Sequence, tooltip: str) -> Slider:
    """A slider over given values; `options` are values or (caption, value) pairs."""
    pairs = [option if isinstance(option, tuple) else ("", option) for option in options]
    captions = [caption for caption, _ in pairs] if any(caption for caption, _ in pairs) else []
    return Slider([number for _, number in pairs], value, captions, description=name, tooltip=tooltip)


def choice(name: str, value, options: Sequence | dict, tooltip: str) -> Segments:
    """One of a few, side by side; `options` are values, or a dict of value → caption."""
    return Segments(options, value, description=name, tooltip=tooltip)


def switch(name: str, value: bool, tooltip: str) -> Switch:
    """On or off."""
    return Switch(value=value, description=name, tooltip=tooltip)


def text(name: str, value: str, tooltip: str) -> TextField:
    """A line of text."""
    return TextField(value=value, description=name, tooltip=tooltip)


def lecture_switch() -> Switch:
    """Large type for the back row; starts as the switch of lecture mode says."""
    return switch("Large type", lecturing(), "Type for the back row")


def placement_chips(value: tuple[str, ...]) -> Chips:
    """Several placements, including those that the reader has added."""
    return Chips(value, description="Placement", tooltip="Where layer normalization stands: one click on or off")


def placement_chip(value: str) -> OneChip:
    """One placement, including those that the reader has added."""
    return OneChip(value, description="Placement", tooltip="Where layer normalization stands")


def seeds_of(state: dict, quick: bool) -> range:
    """One seed while a slider is dragged, all of them after."""
    return range(1 if quick else state["seeds"])


def log_spaced(low: int, high: int, count: int = 9) -> list[int]:
    """About `count` whole numbers from low to high, evenly spaced on a log axis."""
    return sorted({int(n) for n in np.geomspace(low, high, count).round()})
