"""The signal explorer: how large the stream is in each layer, and how alike its tokens become."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore.base import Explorer
from lntutor.measure import signal_norms, token_similarity
from lntutor.theory import predict

VIEWS = {"signal": "size of the stream", "similarity": "likeness of tokens"}


class SignalExplorer(Explorer):
    """‖x_l‖²/d by layer with Lemma 2's bounds, or the mean cosine between tokens."""

    FIRST = ("depth", "width", "placements", "tokens", "view")
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "lemma 2": {"stack": "encoder", "heads": 1, "attention": "uniform", "init": "theory", "ffn": 1,
                    "output_projection": False, "width": 256, "tokens": 1},
        "token collapse": {"stack": "encoder", "attention": "uniform", "depth": 24, "tokens": 32, "view": "similarity"},
    }  # fmt: skip

    def make_controls(self):
        """Those of a model, and what is shown of it."""
        model = c.model_controls()
        shown = {
            "view": c.pick("View", "signal", [(words, key) for key, words in VIEWS.items()], "What is shown"),
            "theory": c.tick("Theory", True, "Draw the mean-field prediction over the measurement"),
            "lemma2": c.tick("Lemma 2", True, "Shade the bounds of Lemma 2"),
            "lecture": c.lecture_type(),
        }
        return {name: model.pop(name) for name in ("depth", "width", "placements", "tokens")} | shown | model

    def measure(self, state, quick):
        """{"measured": table, "theory": table or None, "view": which}."""
        ask = signal_norms if state["view"] == "signal" else token_similarity
        same = {"inputs": c.model_inputs(state), "seeds": c.seeds_of(state, quick)}
        with c.one_thread():
            measured, theory = [], []
            for key in c.chosen(state):
                self.give_way(quick)
                cfg = c.model_config(state, key)
                measured.append(ask(cfg, **same))
                theory += [predict(cfg, state["view"], **same)] if state["theory"] else []
        return {
            "measured": pd.concat(measured, ignore_index=True),
            "theory": pd.concat(theory, ignore_index=True) if theory else None,
            "view": state["view"],
            "note": self._note(state, same["inputs"]),
        }

    def _note(self, state, inputs) -> str:
        if not (state["lemma2"] and state["view"] == "signal"):
            return ""
        return c.assumptions(state, inputs, "Lemma 2 speaks of that setting, the thin lines of this one.")

    def draw(self, state, tables, pinned):
        """The figure of the view."""
        kept = [(label, old["measured"]) for label, old in pinned if old["view"] == state["view"]]
        same = {"pinned": kept, "lecture": state["lecture"], "note": tables["note"]}
        if state["view"] == "similarity":
            return figures.similarity_by_layer(tables["measured"], tables["theory"], **same)
        return figures.signal_by_layer(tables["measured"], tables["theory"], lemma2=state["lemma2"], **same)

    def table(self) -> pd.DataFrame:
        """Measured and predicted rows, told apart by a column."""
        return c.both(self.tables)

    def label(self, state) -> str:
        """What is on screen, in a few words."""
        return c.model_label(state)
