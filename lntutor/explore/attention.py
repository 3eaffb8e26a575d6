"""The attention explorer: a sentence that the reader types, and the softmax as d grows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore.base import Explorer
from lntutor.measure.attention import entropy, sentence_attention, softmax_saturation

DIMENSIONS = (8, 16, 32, 64, 128, 256, 512)
VIEWS = {"map": "who looks at whom", "saturation": "the softmax as d grows"}


class AttentionExplorer(Explorer):
    """Attention weights of random W_Q and W_K on a sentence, with and without 1/√d, and the softmax's gradient."""

    FIRST = ("sentence", "width", "scaled", "causal", "view")
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "no scale, wide": {"scaled": False, "width": 512, "heads": 1},
        "causal": {"causal": True},
        "saturation": {"view": "saturation"},
    }

    def make_controls(self):
        """A sentence, the attention applied to it, and the view."""
        return {
            "sentence": c.text("Sentence", "the cat sat on the mat", "Type your own; words are split at spaces"),
            "width": c.step_slider("Width", 64, DIMENSIONS, "Features of a token, d"),
            "scaled": c.switch("Divide by √d", True, "Divide the scores by the root of the head's width"),
            "causal": c.switch("Causal mask", False, "A word sees itself and what stands before it"),
            "view": c.choice("View", "map", VIEWS, "What is shown"),
            "heads": c.choice("Heads", 4, (1, 2, 4, 8), "Attention heads"),
            "head": c.int_slider("Show head", 1, 1, 8, "Which head's map is shown"),
            "keys": c.int_slider("Keys", 8, 2, 64, "Keys that the softmax chooses among, when d grows"),
            "seed": c.int_slider("Seed", 0, 0, 20, "Which random weights"),
            "lecture": c.lecture_switch(),
        }

    def measure(self, state, quick):
        """{"words", "weights"} for the map, {"saturation": table} as d grows."""
        if state["view"] == "saturation":
            return {"saturation": softmax_saturation(DIMENSIONS, keys=state["keys"], seeds=range(20))}
        if state["head"] > state["heads"]:
            raise ValueError(f"Show head must be at most the number of heads, {state['heads']}, got {state['head']}.")
        same = {name: state[name] for name in ("width", "heads", "scaled", "causal", "seed")}
        words, weights = sentence_attention(state["sentence"], **same)
        return {"words": words, "weights": weights}

    def draw(self, state, tables):
        """The map of one head, or two panels over d."""
        if "saturation" in tables:
            return figures.softmax_saturation(tables["saturation"], lecture=state["lecture"])
        return figures.attention_map(
            tables["weights"], tables["words"], head=state["head"] - 1, entropy=entropy(tables["weights"]).mean(-1),
            lecture=state["lecture"],
        )  # fmt: skip

    def table(self) -> pd.DataFrame:
        """One row per head, query and key."""
        if "saturation" in self.tables:
            return self.tables["saturation"]
        weights, words = self.tables["weights"], self.tables["words"]
        head, query, key = (index.ravel() for index in np.indices(weights.shape))
        return pd.DataFrame(
            {"head": head + 1, "query": np.array(words)[query], "key": np.array(words)[key], "value": weights.ravel()}
        )

    def label(self, state) -> str:
        scale = "divided by √d" if state["scaled"] else "not divided by √d"
        return f"d = {state['width']}, {state['heads']} heads, {scale}{', causal' if state['causal'] else ''}"
