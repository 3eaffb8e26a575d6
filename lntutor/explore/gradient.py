"""The gradient explorer: ‖∂L/∂W‖ by layer, by depth and by width, with theory over measurement."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import pandas as pd

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore.base import Explorer
from lntutor.measure import PARAMETERS, gradient_norms, last_layer_gradients
from lntutor.placements import PLACEMENTS
from lntutor.theory import predict

VIEWS = ("by layer", "by depth", "by width")
THEOREM = {
    "stack": "encoder", "heads": 1, "attention": "uniform", "init": "theory", "ffn": 1, "output_projection": False,
    "width": 256,
}  # fmt: skip


class GradientExplorer(Explorer):
    """How large is the gradient of a weight matrix at initialisation, and what does it depend on?

    Views: "by layer" (Fig. 3a,b of Xiong et al. 2020), "by depth" (the last layer's, Fig. 3c,d), "by width".
    """

    FIRST = ("depth", "width", "placements", "stack", "view")
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "theorem": THEOREM,
        "theorem by depth": {**THEOREM, "view": "by depth", "depth": 24},
        "figure 3": {"width": 512, "heads": 4, "ffn": 2, "init": "torch"},
        "figure 3c": {"width": 512, "heads": 4, "ffn": 2, "init": "torch", "view": "by depth", "depth": 14, "seeds": 2},
        "with LN and skip": {
            "placements": [key for key in PLACEMENTS if key not in ("none", "no_residual", "tfixup")],
            "depth": 12,
        },
    }

    def make_controls(self):
        """Those of a model, and what is shown of it."""
        model = c.model_controls()
        shown = {
            "view": c.pick("View", "by layer", VIEWS, "By layer, or the last layer's by depth or by width"),
            "parameter": c.pick("Matrix", "W_2", PARAMETERS, "Whose gradient is shown"),
            "theory": c.tick("Theory", True, "Draw the mean-field prediction over the measurement"),
            "lecture": c.lecture_type(),
        }
        return {name: model.pop(name) for name in ("depth", "width", "placements", "stack")} | shown | model

    def measure(self, state, quick):
        """{"measured": table, "theory": table or None, "note": what the config breaks of the theorem's setting}."""
        seeds, inputs = c.seeds_of(state, quick), c.model_inputs(state)
        measured, predicted = [], []
        with c.one_thread():
            for key in c.chosen(state):
                self.give_way(quick)
                cfg = c.model_config(state, key)
                ask, tell = self._questions(state, cfg, seeds, inputs, (state["parameter"],) if quick else PARAMETERS)
                measured += [f() for f in ask]
                predicted += [f() for f in tell] if state["theory"] else []
        return {
            "measured": pd.concat(measured, ignore_index=True),
            "theory": pd.concat(predicted, ignore_index=True) if predicted else None,
            "note": c.assumptions(state, inputs, "The theory drawn is for this one.") if state["theory"] else "",
            "view": state["view"],
        }

    def _questions(self, state, cfg, seeds, inputs, parameters) -> tuple[list, list]:
        """What to measure and what to predict for one placement, as functions still to be called."""
        same, parameter = {"inputs": inputs, "seeds": seeds}, state["parameter"]
        if state["view"] == "by layer":
            ask = partial(gradient_norms, cfg, **same, parameters=parameters)
            return [ask], [partial(predict, cfg, "gradient", **same)]
        if state["view"] == "by depth":
            configs, depths = [cfg], c.spread(1, state["depth"])
        else:
            sizes = [width for width in c.WIDTHS if width <= state["width"]]
            configs, depths = [c.model_config(state, cfg.placement.key, width=width) for width in sizes], [cfg.depth]
        last = {**same, "parameter": parameter}
        return (
            [partial(last_layer_gradients, one, depths, **last) for one in configs],
            [partial(predict, one, "last_layer", depths=depths, **last) for one in configs],
        )

    def draw(self, state, tables, pinned):
        """The figure of the view."""
        kinds = {"by layer": figures.gradient_by_layer, "by depth": figures.gradient_by_depth}
        figure = kinds.get(state["view"], figures.gradient_by_width)
        kept = [(label, old["measured"]) for label, old in pinned if old["view"] == state["view"]]
        more = {"depth": state["depth"]} if state["view"] == "by depth" else {}
        return figure(
            tables["measured"], tables["theory"], parameter=state["parameter"], pinned=kept, note=tables["note"],
            lecture=state["lecture"], **more,
        )  # fmt: skip

    def table(self) -> pd.DataFrame:
        """Measured and predicted rows, told apart by a column."""
        return c.both(self.tables)

    def label(self, state) -> str:
        """What is on screen, in a few words."""
        return c.model_label(state)
