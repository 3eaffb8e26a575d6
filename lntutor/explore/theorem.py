"""Theorem 1 with sliders: the last layer's gradient in the theorem's own model, and Definition 1's ε and δ."""

from __future__ import annotations

from math import sqrt
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore.base import Explorer
from lntutor.measure.gradients import last_layer_gradients
from lntutor.measure.signals import LAST_READ, last_norm_inputs, signal_norms
from lntutor.model.config import Inputs, ModelConfig
from lntutor.model.threads import one_thread
from lntutor.theory.mean_field import predict
from lntutor.theory.paper import THEOREM_1, theorem_bound

TOKENS = (1, 2, 4, 8, 16, 32)
WIDTHS = (16, 32, 48, 64, 96, 128, 192, 256)


def probe(tokens: int, batch: int = 1) -> Inputs:
    """Gaussian tokens and a loss with ‖∂L/∂x‖ = 1 at each position: the theorem's bounded derivative."""
    return Inputs(tokens=tokens, batch=batch, loss="probe", vocab=max(1024, tokens * batch))


def closed_form(width: int, tokens: int, q: float) -> float:
    """‖∂L/∂W_2‖ = √(d/(2nq)) in the last layer, where q is the size of what the last norm reads and ‖g‖ = 1."""
    return sqrt(width / (2 * tokens * q))


class TheoremExplorer(Explorer):
    """How does the last layer's gradient depend on L, d and n, and how far above it is Theorem 1's bound?"""

    FIRST = ("depth", "width", "tokens", "along", "bound")
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "depth, one token": {},
        "depth, many tokens": {"tokens": 32},
        "width": {"along": "width", "depth": 6, "width": 256, "bound": True},
        "with the bound": {"bound": True},
    }

    def make_controls(self):
        """Depth, width and tokens of the theorem's model, and what is drawn."""
        return {
            "depth": c.int_slider("Depth L", 24, 1, 48, "Layers; along depth, the deepest network"),
            "width": c.step_slider("Width d", 128, WIDTHS, "Features of a token; along width, the widest network"),
            "tokens": c.step_slider("Tokens n", 1, TOKENS, "Tokens of the sentence"),
            "along": c.choice("Along", "depth", ("depth", "width"), "What the horizontal axis is"),
            "bound": c.switch("Theorem 1's bound", False, "Draw the bound with the constant of its proof"),
            "closed": c.switch("√(d/(2nq)), q measured", True, "Draw the closed form, with the q that was measured"),
            "seeds": c.seeds_slider(5),
            "lecture": c.lecture_switch(),
        }

    def measure(self, state, quick):
        """{"measured", "theory", "closed", "bound"}: tables with the columns placement, depth, width, value."""
        parts = {"measured": [], "theory": [], "closed": [], "bound": []}
        widths = [state["width"]] if state["along"] == "depth" else [d for d in WIDTHS if d <= state["width"]]
        with one_thread():
            for key in THEOREM_1:
                for width in widths:
                    self.stop_if_moved(quick)
                    for name, table in self._one(state, ModelConfig.theorem(key, state["depth"], width), quick):
                        parts[name].append(table)
        return {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items()}

    def _one(self, state, cfg, quick):
        """Measurement, prediction, closed form and bound of one placement at one width, as (name, table) pairs."""
        depths = c.log_spaced(1, cfg.depth) if state["along"] == "depth" else [cfg.depth]
        same = {"inputs": probe(state["tokens"]), "seeds": c.seeds_of(state, quick)}
        yield "measured", last_layer_gradients(cfg, depths, **same)
        yield "theory", predict(cfg, "last_layer", depths=depths, **same)
        signals = signal_norms(cfg, **same)
        read = signals[signals["site"] == LAST_READ[cfg.placement.finish]]  # by the last norm
        q = {layer: float(np.mean(rows["value"])) for layer, rows in read.groupby("layer")}
        simple = [closed_form(cfg.width, state["tokens"], q[depth]) for depth in depths]
        bound = [theorem_bound(cfg.with_(depth=depth)) for depth in depths]
        for name, values in {"closed": simple, "bound": bound}.items():
            head = {"placement": cfg.placement.key, "depth": depths, "width": cfg.width}
            yield name, pd.DataFrame({**head, "value": values})

    def draw(self, state, tables):
        """Measurement, theory and what is ticked, on log axes."""
        theory_lines = {name: tables[name] if state[name] else None for name in ("closed", "bound")}
        along = state["along"]
        note = f"Theorem 1's model, n = {state['tokens']}, ‖∂L/∂x‖ = 1 at each position, " + (
            f"d = {state['width']}" if along == "depth" else f"L = {state['depth']}"
        )
        return figures.theorem(
            tables["measured"], tables["theory"], **theory_lines, along=along, chosen=state[along], note=note,
            lecture=state["lecture"],
        )  # fmt: skip

    def table(self) -> pd.DataFrame:
        """All rows; the column `kind` tells which."""
        parts = [table.assign(kind=name) for name, table in self.tables.items()]
        columns = ["kind", "placement", "depth", "width", "seed", "value"]
        return pd.concat([part.reindex(columns=columns).astype({"seed": "Int64"}) for part in parts], ignore_index=True)

    def label(self, state) -> str:
        return f"post, pre: Theorem 1's model, L = {state['depth']}, d = {state['width']}, n = {state['tokens']}"


class BoundednessExplorer(Explorer):
    """Slide ε, read δ: how far does ‖x‖² stray from its mean before the last norm, and what does Theorem 1 promise?"""

    FIRST = ("epsilon", "width", "depth", "seeds")
    POSITIONS: ClassVar[int] = 128  # sentences of one token, for each seed
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "the paper's ε": {"epsilon": 0.1},
        "narrow": {"width": 32},
        "wide": {"width": 256},
    }

    def make_controls(self):
        """ε, and the model whose norms are measured."""
        return {
            "epsilon": c.float_slider("ε", 0.1, 0.01, 0.5, 0.01, "How far above its mean Z may be"),
            "width": c.step_slider("Width d", 256, WIDTHS, "Features of a token"),
            "depth": c.int_slider("Depth L", 6, 1, 24, "Layers"),
            "seeds": c.int_slider("Networks", 4, 1, 10, "How many networks are drawn, with 128 positions each"),
            "lecture": c.lecture_switch(),
        }

    def measure(self, state, quick):
        """Columns: placement, depth, width, seed, position, value."""
        tables = []
        with one_thread():
            for key in THEOREM_1:
                self.stop_if_moved(quick)
                cfg = ModelConfig.theorem(key, state["depth"], state["width"])
                same = {"seeds": c.seeds_of(state, quick), "inputs": probe(1, self.POSITIONS)}
                tables.append(last_norm_inputs(cfg, **same))
        return pd.concat(tables, ignore_index=True)

    def draw(self, state, tables):
        """Histogram and probability."""
        networks = tables["seed"].nunique()
        note = f"Theorem 1's model, n = 1, L = {state['depth']}, d = {state['width']}, {networks} networks"
        return figures.bounded(tables, epsilon=state["epsilon"], note=note, lecture=state["lecture"])

    def label(self, state) -> str:
        return f"post, pre: Theorem 1's model, ε = {state['epsilon']:.2f}, L = {state['depth']}, d = {state['width']}"
