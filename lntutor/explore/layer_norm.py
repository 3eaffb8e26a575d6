"""The LayerNorm explorer: a vector before and after, three slips of the formula, and the Jacobian."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore.base import Explorer
from lntutor.measure.layer_norm import DIVISORS, jacobian_norms, jacobian_spectrum, normalised
from lntutor.model.random_streams import random_stream

VIEWS = {"values": "before and after", "spectrum": "singular values of J", "size": "‖J‖ against ‖x‖"}
COORDINATES = ("x1", "x2", "x3", "x4")


class LayerNormExplorer(Explorer):
    """LN of a vector set by four sliders or drawn at random; multiply it by k and J falls by 1/k."""

    FIRST = ("source", "k", "view", "dimension", "seed", *COORDINATES)
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "one, zero, zero, zero": {"source": "sliders", "x1": 1.0, "x2": 0.0, "x3": 0.0, "x4": 0.0},
        "ten times larger": {"k": 10.0, "view": "size"},
    }

    def make_controls(self):
        """The source of the vector, its factor k, and the view."""
        tooltip = "A coordinate, when sliders are the source"
        start = zip(COORDINATES, (2.0, -1.0, 0.5, 1.0), strict=True)
        sliders = {name: c.float_slider(name, value, -5, 5, 0.1, tooltip) for name, value in start}
        return {
            "source": c.choice("Vector", "random", ("random", "sliders"), "Drawn at random, or x1 … x4 by hand"),
            "k": c.log_slider("Times k", 1.0, 0.01, 100.0, "The vector is multiplied by k"),
            "view": c.choice("View", "values", VIEWS, "What is shown"),
            "dimension": c.int_slider("Dimension", 8, 2, 64, "Coordinates of a random vector, d"),
            "seed": c.int_slider("Seed", 0, 0, 20, "Which random vector"),
            **sliders,
            "lecture": c.lecture_switch(),
        }

    def refresh(self):
        """Show the controls of the chosen source, and draw."""
        by_hand = self.controls["source"].value == "sliders"
        for name in (*COORDINATES, "dimension", "seed"):
            self.controls[name].hidden = by_hand != (name in COORDINATES)
        super().refresh()

    def measure(self, state, quick):
        """{"x", "outputs"}, {"spectrum"} or {"size"}, by the view."""
        if state["source"] == "sliders":
            x = np.array([state[name] for name in COORDINATES])
        else:
            x = 1 + 2 * random_stream(state["seed"], "vector").standard_normal(state["dimension"])
        if state["view"] == "size":  # the axis stays where it is, and k moves the ring along it
            return {"size": jacobian_norms(x, np.geomspace(0.01, 100, 25)), "x": state["k"] * x}
        x = state["k"] * x
        if state["view"] == "spectrum":
            return {"spectrum": jacobian_spectrum(x)}
        return {"x": x, "outputs": {name: normalised(x, name) for name in DIVISORS}}

    def draw(self, state, tables):
        more = {"lecture": state["lecture"]}
        if "spectrum" in tables:
            return figures.jacobian_spectrum(tables["spectrum"], **more)
        if "size" in tables:
            return figures.jacobian_norm(tables["size"], size=float(np.linalg.norm(tables["x"])), **more)
        return figures.layer_norm_before_after(tables["x"], tables["outputs"], **more)

    def table(self) -> pd.DataFrame:
        """The numbers of the view."""
        if "outputs" not in self.tables:
            return next(iter(self.tables.values()))
        columns = {"x": self.tables["x"], **self.tables["outputs"]}
        return pd.DataFrame(columns).rename_axis("coordinate").reset_index()

    def label(self, state) -> str:
        d = len(COORDINATES) if state["source"] == "sliders" else state["dimension"]
        return f"a vector of {d} coordinates ({state['source']}), times {state['k']:.3g}"
