"""Controls that several explorers share: a plain name, a tooltip, a keyboard path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ipywidgets as w
import numpy as np
import pandas as pd
import torch

from lntutor.config import ATTENTION, INITS, NORMS, Inputs, ModelConfig
from lntutor.lecturing import lecturing
from lntutor.placements import PLACEMENTS, STACKS
from lntutor.theory import THEOREM_1, broken_assumptions

WIDTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)


@contextmanager
def one_thread() -> Iterator[None]:
    """Live work on one torch thread: beside a browser and a server, more threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def named(control: w.ValueWidget, name: str, tooltip: str, width: str = "min(266px, 98%)") -> w.ValueWidget:
    """A control with its name in front and a tooltip; with its margins it fills a column of 270 pixels."""
    control.description, control.tooltip = name, tooltip
    control.style.description_width = "92px"
    control.layout.width = width
    return control


def whole(name: str, value: int, low: int, high: int, tooltip: str) -> w.IntSlider:
    """A slider over whole numbers that answers while it is dragged."""
    return named(w.IntSlider(value, low, high), name, tooltip)


def steps(name: str, value, options, tooltip: str) -> w.SelectionSlider:
    """A slider over given values."""
    slider = w.SelectionSlider(options=options, value=value)
    slider.add_class("lntutor-steps")
    return named(slider, name, tooltip)


def pick(name: str, value, options, tooltip: str) -> w.Dropdown:
    """One of several words."""
    return named(w.Dropdown(options=options, value=value), name, tooltip)


def tick(name: str, value: bool, tooltip: str) -> w.Checkbox:
    """Yes or no."""
    control = named(w.Checkbox(value), name, tooltip, "220px")
    control.indent = False
    return control


def lecture_type() -> w.Checkbox:
    """Type for the back row, as the switch of lecture mode says at the start."""
    return tick("Lecture type", lecturing(), "Type for the back row")


def placement_options() -> list[tuple[str, str]]:
    """(words, key) of every placement there is now."""
    return [(f"{placement.label} ({key})", key) for key, placement in PLACEMENTS.items()]


def placement_picker(value: tuple[str, ...]) -> w.SelectMultiple:
    """Any set of placements, those that the reader has added included."""
    picker = w.SelectMultiple(options=placement_options(), value=value, rows=4)
    picker.add_class("lntutor-placements")
    return named(picker, "LN position", "One or several: hold Ctrl, on a Mac Cmd (or Shift and the arrow keys)")


def model_controls() -> dict[str, w.ValueWidget]:
    """The controls that make a ModelConfig and its Inputs."""
    return {
        "depth": whole("Depth", 6, 1, 48, "Layers of each side"),
        "width": steps("Width", 128, WIDTHS, "Features of a token, d"),
        "placements": placement_picker(("post", "pre")),
        "stack": pick("Stack", "encoder-decoder", STACKS, "Encoder, decoder (causal), or both"),
        "heads": pick("Heads", 4, (1, 2, 4, 8), "Attention heads"),
        "tokens": steps("Tokens", 16, (1, 2, 4, 8, 16, 32, 64), "Tokens of the sentence, n"),
        "attention": pick("Attention", "softmax", ATTENTION, "Uniform is the theorem's W_Q = W_K = 0"),
        "init": pick("Init", "xavier", INITS, "Variance of the weights; torch packs Q, K, V; theory is 1/fan_in"),
        "ffn": pick("FFN width", 4, [("1 × width", 1), ("2 × width", 2), ("4 × width", 4)], "Hidden units of the FFN"),
        "output_projection": tick("W_O after attention", True, "The theorem has none"),
        "norm": pick("Norm", "layer", NORMS, "LayerNorm or RMSNorm"),
        "seeds": whole("Seeds", 3, 1, 10, "How many networks are drawn; one while a slider is dragged"),
    }


def model_config(state: dict, placement: str, **changes) -> ModelConfig:
    """The config that the controls describe, for one placement."""
    size = {"depth": state["depth"], "width": state["width"]} | changes
    same = ("heads", "stack", "attention", "init", "output_projection", "norm")
    return ModelConfig(placement, ffn=state["ffn"] * size["width"], **size, **{name: state[name] for name in same})


def chosen(state: dict) -> list[str]:
    """The placements that are picked; none is a mistake that is said in words."""
    if not state["placements"]:
        raise ValueError("Pick at least one LN position.")
    return list(state["placements"])


def assumptions(state: dict, inputs: Inputs, drawn: str) -> str:
    """Where the setting leaves Theorem 1's, in a line, and what that means for what is `drawn`."""
    others = [PLACEMENTS[key].label for key in state["placements"] if key not in THEOREM_1]
    broken = [*others, *broken_assumptions(model_config(state, "post"), inputs, brief=True)]
    return f"Outside Theorem 1's setting: {', '.join(broken)}. {drawn}" if broken else ""


def model_inputs(state: dict) -> Inputs:
    """The inputs that the controls describe."""
    return Inputs(tokens=state["tokens"])


def seeds_of(state: dict, quick: bool) -> range:
    """One seed while a slider is dragged, all of them after."""
    return range(1 if quick else state["seeds"])


def spread(low: int, high: int, count: int = 9) -> list[int]:
    """About `count` whole numbers from low to high, evenly spaced on a log axis."""
    return sorted({int(n) for n in np.geomspace(low, high, count).round()})


def both(tables: dict) -> pd.DataFrame:
    """Measured and predicted rows in one table, told apart by a column."""
    parts = [tables["measured"].assign(kind="measured")]
    if tables["theory"] is not None:
        parts.append(tables["theory"].assign(kind="theory"))
    return pd.concat([part.astype({"seed": "Int64"}) for part in parts], ignore_index=True)


def model_label(state: dict) -> str:
    """What the model controls say, in a few words."""
    tokens = "1 token" if state["tokens"] == 1 else f"{state['tokens']} tokens"
    return (
        f"{', '.join(state['placements'])}: {state['stack']}, depth {state['depth']}, width {state['width']}, "
        f"{tokens}, {state['attention']} attention, {state['init']} init"
    )
