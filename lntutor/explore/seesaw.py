"""The seesaw: the stream's size q and its gradient's size g along the layers, and their product."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore.base import Explorer
from lntutor.explore.theorem import TOKENS, WIDTHS, probe
from lntutor.figures.style import number, placement_label
from lntutor.measure.signals import seesaw, weigh
from lntutor.model.config import ModelConfig
from lntutor.model.threads import one_thread
from lntutor.theory.mean_field import predict


class SeesawExplorer(Explorer):
    """With one token q·g is the same in every layer, for most rules: where the stream grows, the gradient is small."""

    FIRST = ("placements", "layer", "depth", "tokens")
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "one token": {},
        "deep": {"depth": 24, "layer": 24},
        "many tokens": {"tokens": 16},
    }

    def make_controls(self):
        """Which stream, and the layer to read."""
        return {
            "placements": c.placement_chips(("post", "pre")),
            "layer": c.int_slider("Read layer", 3, 0, 48, "What is read below the picture; 0 is the input"),
            "depth": c.int_slider("Depth L", 6, 1, 48, "Layers of Theorem 1's model, an encoder"),
            "width": c.step_slider("Width d", 128, WIDTHS, "Features of a token"),
            "tokens": c.step_slider("Tokens n", 1, TOKENS, "With several, attention passes gradient to other tokens"),
            "theory": c.switch("Theory", True, "Draw the mean-field recursion as thin lines"),
            "seeds": c.seeds_slider(10),
            "lecture": c.lecture_switch(),
        }

    def measure(self, state, quick):
        """{"measured", "theory"}: tables with the columns placement, layer, kind ("q", "g", "qg"), seed, value."""
        if not state["placements"]:
            raise ValueError("Choose at least one placement.")
        inputs, parts = probe(state["tokens"]), {name: [] for name in ("measured", "theory")}
        with one_thread():
            for key in state["placements"]:
                self.stop_if_moved(quick)
                cfg = ModelConfig.theorem(key, state["depth"], state["width"])
                parts["measured"].append(seesaw(cfg, seeds=c.seeds_of(state, quick), inputs=inputs))
                q, g = (predict(cfg, quantity, inputs=inputs) for quantity in ("signal", "backward"))
                parts["theory"].append(weigh(q, g, inputs))
        return {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}

    def draw(self, state, tables):
        """The curves, and a line at the layer that is read."""
        note = f"Theorem 1's model, n = {state['tokens']}, d = {state['width']}, ‖∂L/∂x‖ = 1 at the output"
        theory, layer = tables["theory"] if state["theory"] else None, read(state)
        return figures.seesaw(tables["measured"], theory, layer=layer, note=note, lecture=state["lecture"])

    def table(self) -> pd.DataFrame:
        """All rows; the column `source` tells whether they are measured."""
        return pd.concat([table.assign(source=name) for name, table in self.tables.items()], ignore_index=True)

    def label(self, state) -> str:
        """q, g and their product at the layer that is read."""
        rows = self.tables["measured"]
        rows = rows[rows["layer"] == read(state)]
        means = rows.groupby(["placement", "kind"], sort=False)["value"].mean()
        parts = [
            f"{placement_label(key)} q = {number(means[key, 'q'])}, g = {number(means[key, 'g'])}, "
            f"q·g = {number(means[key, 'qg'])}"
            for key in state["placements"]
        ]
        return f"Layer {read(state)}: {'; '.join(parts)}."


def read(state: dict[str, Any]) -> int:
    """The layer that is read: the highest one where there are not so many."""
    return min(state["layer"], state["depth"])
