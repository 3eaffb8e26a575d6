"""What the gradient and the signal explorer share: networks at initialisation, one curve per placement, with theory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from lntutor.explore import controls as c
from lntutor.explore.base import Explorer
from lntutor.model.config import ATTENTION, INITS, NORMS, Inputs, ModelConfig
from lntutor.model.placements import PLACEMENTS, STACKS
from lntutor.model.state import DEFAULTS, model_config, model_inputs
from lntutor.model.threads import one_thread
from lntutor.page.kit.panel import Control
from lntutor.theory.paper import THEOREM_1, broken_assumptions

Calls = list[Callable[[], pd.DataFrame]]


def model_controls() -> dict[str, Control]:
    """The controls that make a ModelConfig and its Inputs (`lntutor.model.state`)."""
    start, multiples = DEFAULTS, {n: f"{n} × width" for n in (1, 2, 4)}
    return {
        "depth": c.int_slider("Depth", start["depth"], 1, 48, "Layers of each side"),
        "width": c.step_slider("Width", start["width"], c.WIDTHS, "Features of a token, d"),
        "placements": c.placement_chips(tuple(start["placements"])),
        "stack": c.choice("Stack", start["stack"], STACKS, "Encoder, decoder (causal), or both"),
        "heads": c.choice("Heads", start["heads"], (1, 2, 4, 8), "Attention heads"),
        "tokens": c.step_slider("Tokens", start["tokens"], (1, 2, 4, 8, 16, 32, 64), "Tokens of the sentence, n"),
        "attention": c.choice("Attention", start["attention"], ATTENTION, "Uniform is the theorem's W_Q = W_K = 0"),
        "init": c.choice("Init", start["init"], INITS,
                         "Variance of the weights; torch packs Q, K, V; theory is 1/fan_in"),
        "ffn": c.choice("FFN width", start["ffn"], multiples, "Hidden units of the FFN"),
        "output_projection": c.switch("W_O after attention", start["output_projection"], "The theorem has none"),
        "norm": c.choice("Norm", start["norm"], NORMS, "LayerNorm or RMSNorm"),
        "seeds": c.seeds_slider(start["seeds"]),
    }  # fmt: skip


class ModelExplorer(Explorer):
    """Measured curves of one network per placement, with the mean-field prediction over them."""

    def display_controls(self) -> dict[str, Any]:
        """The controls that choose what is shown of the model."""
        raise NotImplementedError

    def calls(self, state: dict[str, Any], cfg: ModelConfig, same: dict[str, Any], quick: bool) -> tuple[Calls, Calls]:
        """What to measure and what to predict for one placement; `same` holds inputs and seeds."""
        raise NotImplementedError

    def note(self, state: dict[str, Any], inputs: Inputs) -> str:
        """A line under the title."""
        raise NotImplementedError

    def make_controls(self):
        """The controls in order: those above the fold, those of the display, the rest of the model."""
        model = model_controls()
        first = {name: model.pop(name) for name in self.FIRST if name in model}
        return {**first, **self.display_controls(), "lecture": c.lecture_switch(), **model}

    def measure(self, state, quick):
        """{"measured": table, "theory": table or None, "note": text, "view": which}."""
        if not state["placements"]:
            raise ValueError("Choose at least one placement.")
        same = {"inputs": model_inputs(state), "seeds": c.seeds_of(state, quick)}
        measured, theory = [], []
        with one_thread():
            for key in state["placements"]:
                self.stop_if_moved(quick)
                to_measure, to_predict = self.calls(state, model_config(state, key), same, quick)
                measured += [call() for call in to_measure]
                theory += [call() for call in to_predict] if state["theory"] else []
        return {
            "measured": pd.concat(measured, ignore_index=True),
            "theory": pd.concat(theory, ignore_index=True) if theory else None,
            "note": self.note(state, same["inputs"]),
            "view": state["view"],
        }

    def table(self) -> pd.DataFrame:
        """Measured and predicted rows; the column `kind` tells which."""
        kinds = {"measured": self.tables["measured"], "theory": self.tables["theory"]}
        parts = [table.assign(kind=kind) for kind, table in kinds.items() if table is not None]
        return pd.concat([part.astype({"seed": "Int64"}) for part in parts], ignore_index=True)

    def label(self, state) -> str:
        tokens = "1 token" if state["tokens"] == 1 else f"{state['tokens']} tokens"
        return (
            f"{', '.join(state['placements'])}: {state['stack']}, depth {state['depth']}, width {state['width']}, "
            f"{tokens}, {state['attention']} attention, {state['init']} init"
        )


def assumptions_note(state: dict[str, Any], inputs: Inputs, drawn: str) -> str:
    """One line: where the setting departs from Theorem 1's, and what that means for what is `drawn`."""
    others = [PLACEMENTS[key].label for key in state["placements"] if key not in THEOREM_1]
    broken = [*others, *broken_assumptions(model_config(state, "post"), inputs, brief=True)]
    return f"Outside Theorem 1's setting: {', '.join(broken)}. {drawn}" if broken else ""
