"""The signal explorer: how large the stream is in each layer, and how alike its tokens become."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore.model_explorer import ModelExplorer, assumptions_note
from lntutor.measure.signals import signal_norms, token_similarity
from lntutor.theory.mean_field import predict

VIEWS = {"signal": "size of the stream", "similarity": "likeness of tokens"}


class SignalExplorer(ModelExplorer):
    """‖x_l‖²/d by layer with Lemma 2's bounds, or the mean cosine between tokens."""

    FIRST = ("depth", "width", "placements", "tokens", "view")
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "lemma 2": {"stack": "encoder", "heads": 1, "attention": "uniform", "init": "theory", "ffn": 1,
                    "output_projection": False, "width": 256, "tokens": 1},
        "token collapse": {"stack": "encoder", "attention": "uniform", "depth": 24, "tokens": 32, "view": "similarity"},
    }  # fmt: skip

    def display_controls(self):
        """Which view, and what is drawn over it."""
        return {
            "view": c.choice("View", "signal", VIEWS, "What is shown"),
            "theory": c.switch("Theory", True, "Draw the mean-field prediction over the measurement"),
            "lemma2": c.switch("Lemma 2", True, "Shade the bounds of Lemma 2"),
        }

    def calls(self, state, cfg, same, quick):
        """The norms or the cosines of one placement."""
        function = signal_norms if state["view"] == "signal" else token_similarity
        return [partial(function, cfg, **same)], [partial(predict, cfg, state["view"], **same)]

    def note(self, state, inputs) -> str:
        """For which setting Lemma 2 holds, where its bounds are drawn."""
        if not (state["lemma2"] and state["view"] == "signal"):
            return ""
        return assumptions_note(state, inputs, "Lemma 2 speaks of that setting, the thin lines of this one.")

    def draw(self, state, tables):
        same = {"lecture": state["lecture"], "note": tables["note"]}
        if state["view"] == "similarity":
            return figures.similarity_by_layer(tables["measured"], tables["theory"], **same)
        return figures.signal_by_layer(tables["measured"], tables["theory"], lemma2=state["lemma2"], **same)
