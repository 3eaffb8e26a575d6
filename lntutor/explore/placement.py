"""The placement explorer: pick where LN stands, and the layer is drawn from the placement's own rule."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore.base import Explorer
from lntutor.model.placements import PLACEMENTS

PLACES = {  # what the reader picks → (stack, side)
    "encoder": ("encoder", "encoder"),
    "decoder": ("decoder", "decoder"),
    "encoder of encoder-decoder": ("encoder-decoder", "encoder"),
    "decoder of encoder-decoder": ("encoder-decoder", "decoder"),
}


class PlacementExplorer(Explorer):
    """The block diagram of one layer, for any placement: those of the paper, later ones, and the reader's own."""

    FIRST = ("placement", "place", "layer", "depth")
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "Figure 1a: Post-LN": {"placement": "post"},
        "Figure 1b: Pre-LN": {"placement": "pre"},
        "with cross-attention": {"placement": "pre", "place": "decoder of encoder-decoder"},
        "above the last layer": {"placement": "pre", "layer": 6, "depth": 6},
    }

    def make_controls(self):
        """Which placement, and which layer of what."""
        return {
            "placement": c.placement_chip("post"),
            "place": c.choice("Stack", "encoder", tuple(PLACES),
                                "Which layer is drawn; one decoder has cross-attention"),
            "layer": c.int_slider("Layer", 1, 1, 48, "Which layer is drawn, from 1 at the bottom"),
            "depth": c.int_slider("Depth", 6, 1, 48, "How many layers there are"),
            "lecture": c.lecture_switch(),
        }  # fmt: skip

    def measure(self, state, quick):
        """Nothing: drawing reads the rule anew each time, so a reassigned rule is seen at once."""
        if state["layer"] > state["depth"]:
            raise ValueError(f"Layer must be at most Depth, {state['depth']}, got {state['layer']}.")

    def draw(self, state, tables):
        """The diagram; its title counts the norms on the shortest path, its note says whose placement it is."""
        stack, side = PLACES[state["place"]]
        same = {name: state[name] for name in ("layer", "depth", "lecture")}
        return figures.block_diagram(state["placement"], stack=stack, side=side, **same)

    def table(self) -> pd.DataFrame:
        """One row per arrow."""
        return pd.DataFrame(self.figure.layout.meta["edges"], columns=["from", "to"])

    def label(self, state) -> str:
        return f"{PLACEMENTS[state['placement']].label}: layer {state['layer']} of {state['depth']}, {state['place']}"
