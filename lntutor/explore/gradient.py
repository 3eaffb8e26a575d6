"""The gradient explorer: ‖∂L/∂W‖ by layer, by depth and by width, with theory over measurement."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore.model_explorer import ModelExplorer, assumptions_note
from lntutor.measure.gradients import PARAMETERS, gradient_norms, last_layer_gradients
from lntutor.model.placements import PLACEMENTS
from lntutor.model.state import model_config
from lntutor.theory.mean_field import predict

VIEWS = ("by layer", "by depth", "by width")
THEOREM = {
    "stack": "encoder", "heads": 1, "attention": "uniform", "init": "theory", "ffn": 1, "output_projection": False,
    "width": 256,
}  # fmt: skip


class GradientExplorer(ModelExplorer):
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

    def display_controls(self):
        """Which view of which matrix, and whether theory is drawn."""
        return {
            "view": c.choice("View", "by layer", VIEWS, "By layer, or the last layer's by depth or by width"),
            "parameter": c.choice("Matrix", "W_2", PARAMETERS, "Whose gradient is shown"),
            "theory": c.switch("Theory", True, "Draw the mean-field prediction over the measurement"),
        }

    def calls(self, state, cfg, same, quick):
        """All layers of one network, or the last layer of several."""
        if state["view"] == "by layer":
            parameters = (state["parameter"],) if quick else PARAMETERS
            measure = partial(gradient_norms, cfg, **same, parameters=parameters)
            return [measure], [partial(predict, cfg, "gradient", **same)]
        if state["view"] == "by depth":
            configs, depths = [cfg], c.log_spaced(1, state["depth"])
        else:
            sizes = [width for width in c.WIDTHS if width <= state["width"]]
            configs, depths = [model_config(state, cfg.placement, width=width) for width in sizes], [cfg.depth]
        last = {**same, "parameter": state["parameter"]}
        return (
            [partial(last_layer_gradients, one, depths, **last) for one in configs],
            [partial(predict, one, "last_layer", depths=depths, **last) for one in configs],
        )

    def note(self, state, inputs) -> str:
        """Where the config departs from the theorem's setting, if theory is drawn."""
        return assumptions_note(state, inputs, "The theory drawn is for this one.") if state["theory"] else ""

    def draw(self, state, tables):
        kinds = {"by layer": figures.gradient_by_layer, "by depth": figures.gradient_by_depth}
        figure = kinds.get(state["view"], figures.gradient_by_width)
        more = {"depth": state["depth"]} if state["view"] == "by depth" else {}
        return figure(
            tables["measured"], tables["theory"], parameter=state["parameter"], note=tables["note"],
            lecture=state["lecture"], **more,
        )  # fmt: skip
