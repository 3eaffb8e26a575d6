"""A figure under construction, as plain dicts.

plotly checks every value that is set, which takes longer than all else between a slider and its picture. Here nothing
is checked; tests/figures/test_every_figure.py has plotly check every kind of figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lntutor.figures.style import INK, LECTURE_TEMPLATE, TEMPLATE, darker, number, placement_style, sizes
from lntutor.figures.tables import Means


def heatmap(**options) -> dict:
    """A trace of coloured cells."""
    return {"type": "heatmap", **options}


class Canvas:
    """Panels in rows and columns; traces and axes are added as in plotly, by row and column counted from 1."""

    def __init__(
        self, lecture: bool | None, names: Sequence[str] = ("",), *, rows: int = 1, heights: Sequence[float] = (),
        gap: float = 0.05, shared: str = "",
    ):  # fmt: skip
        self.size, self.rows, self.columns = sizes(lecture), rows, -(-len(names) // rows)
        self.data: list[dict] = []
        self.shapes: list[dict] = []
        self.annotations: list[dict] = []
        self.layout: dict[str, Any] = {}
        self.named = len(names) > 1 and any(names)
        self.dotted = {"color": INK, "width": self.size.thin, "dash": "dot"}  # a line to compare with
        across = _spans([1] * self.columns, gap)
        down = [(1 - b, 1 - a) for a, b in _spans(heights or [1] * rows, gap)]
        for i, name in enumerate(names):
            row, column = divmod(i, self.columns)
            self._add_panel(i, across[column], down[row], shared)
            if self.named:
                self._name_panel(name, across[column], down[row])

    def _add_panel(self, i: int, x: tuple, y: tuple, shared: str) -> None:
        across: dict = {"domain": list(x), "anchor": f"y{_nth(i)}"}
        upright: dict = {"domain": list(y), "anchor": f"x{_nth(i)}"}
        self.layout |= {f"xaxis{_nth(i)}": across, f"yaxis{_nth(i)}": upright}
        for letter in shared if i else "":
            self.layout[f"{letter}axis{_nth(i)}"]["matches"] = letter
        if i % self.columns and "y" in shared:
            upright["showticklabels"] = False
        if i < (self.rows - 1) * self.columns and "x" in shared:
            across["showticklabels"] = False

    def _name_panel(self, name: str, x: tuple, y: tuple) -> None:
        place = {"x": sum(x) / 2, "y": y[1], "xref": "paper", "yref": "paper", "yanchor": "bottom"}
        self.add_annotation(text=name, font={"size": self.size.text, "color": INK}, xanchor="center", **place)

    def add_trace(self, trace: dict, row: int = 1, col: int = 1) -> None:
        """Put a trace into a panel."""
        nth = _nth((row - 1) * self.columns + col - 1)
        self.data.append({**trace, "xaxis": f"x{nth}", "yaxis": f"y{nth}"})

    def add_scatter(self, row: int = 1, col: int = 1, /, **options) -> None:
        """Put points or lines into a panel."""
        self.add_trace({"type": "scatter", **options}, row, col)

    def add_marks(
        self, means: Means, style: str | dict[str, str], row: int = 1, col: int = 1, /, *, upright: Any = False,
        joined: Any = False, hollow: Any = False, faint: Any = False, **more,
    ) -> None:  # fmt: skip
        """Means as marks with bars from least to greatest, in a placement's style or this; `upright` swaps the axes."""
        style, size = style if isinstance(style, dict) else placement_style(style), self.size
        colour, value, position = style["color"], means.mean.tolist(), means.at.tolist()
        bar = error_bar(means.high - means.mean, means.mean - means.low, colour, size.line) | {"visible": not faint}
        crowd = len(value) * size.marker  # a panel is some 300 pixels high
        shrink = 1 if crowd <= 220 else 0.7 if crowd <= 320 else 0.5
        mark = {"symbol": style["symbol"] + ("-open" if hollow else ""), "color": colour}
        mark |= {"size": size.marker * shrink * (0.8 if faint else 1), "line": {"width": size.thin, "color": colour}}
        at = {"x": value, "y": position, "error_x": bar} if upright else {"x": position, "y": value, "error_y": bar}
        look = {"mode": "lines+markers" if joined else "markers", "opacity": 0.35 if faint else 1}
        line = {"color": colour, "dash": style["dash"], "width": size.thin}
        self.add_scatter(row, col, **at, **look, line=line, marker=mark, **more)

    def add_theory(self, x: list, y: list, key: str, row: int = 1, col: int = 1, /, **more) -> None:
        """The theory's prediction: a thin dark line with the placement's dash."""
        style = placement_style(key)
        line = {"color": darker(style["color"]), "dash": style["dash"], "width": self.size.thin}
        self.add_scatter(row, col, x=x, y=y, mode="lines", line=line, **{"showlegend": False, **more})

    def name_theory(self, name: str = "theory") -> None:
        """The legend's entry for every theory line."""
        line = {"color": INK, "width": self.size.thin}
        self.add_scatter(x=[None], y=[None], mode="lines", line=line, name=name, uid="theory", hoverinfo="skip")

    def add_ring(self, x: list, y: list, name: str, col: int = 1, /, **more) -> None:
        """A ring around chosen points."""
        size = self.size
        mark = {"symbol": "circle-open", "size": size.marker * 2.1, "color": INK, "line": {"width": size.thin}}
        named = {"name": name, "uid": "chosen", "hoverinfo": "skip", **more}
        self.add_scatter(1, col, x=x, y=y, mode="markers", marker=mark, **named)

    def add_arrow(self, x: Sequence, y: Sequence, name: str, colour: str = INK, dash: str = "solid") -> None:
        """A line with a head at its end."""
        heads = [0.0] * (len(x) - 1) + [self.size.marker * 1.1]
        mark = {"symbol": "arrow", "size": heads, "color": colour, "angleref": "previous", "opacity": 1}
        line, named = {"color": colour, "width": self.size.thin, "dash": dash}, {"name": name, "uid": name}
        at = {"x": list(x), "y": list(y), "mode": "lines+markers"}
        self.add_scatter(**at, line=line, marker=mark, **named, hoverinfo="skip")

    def add_level(self, x: float, rows: int) -> None:
        """A dotted upright line through so many rows, to compare with."""
        ends = {"x": [x] * 2, "y": [-0.5, rows - 0.5], "mode": "lines"}
        self.add_scatter(**ends, line=self.dotted, name=number(x), uid="line", hoverinfo="skip")

    def add_annotation(self, **options) -> None:
        """Put a text on the figure."""
        self.annotations.append({"showarrow": False, **options})

    def add_shape(self, **options) -> None:
        """Put a shape on the figure."""
        self.shapes.append(options)

    def update_xaxes(self, row: int | None = None, col: int | None = None, **options) -> None:
        """Set options of the horizontal axes, of all panels or those of one row or column."""
        self._update("xaxis", row, col, options)

    def update_yaxes(self, row: int | None = None, col: int | None = None, **options) -> None:
        """Set options of the vertical axes, of all panels or those of one row or column."""
        self._update("yaxis", row, col, options)

    def _update(self, axis: str, row: int | None, col: int | None, options: dict) -> None:
        if "title" in options:
            options["title"] = {"text": options["title"]}
        for i in range(self.rows * self.columns):
            here = divmod(i, self.columns)
            if row in (None, here[0] + 1) and col in (None, here[1] + 1):
                self.layout.get(f"{axis}{_nth(i)}", {}).update(options)

    def figure(self, **layout) -> go.Figure:
        """The finished figure."""
        template = LECTURE_TEMPLATE if self.size.large else TEMPLATE
        parts = {"annotations": self.annotations, "shapes": self.shapes, "template": template}
        parts = {name: value for name, value in parts.items() if value}
        return go.Figure(self.data, {**parts, **self.layout, **layout}, _validate=False)


def error_bar(above, below, colour: str, thickness: float) -> dict:
    """Bars that reach so far above and below each mark."""
    reach = {"array": np.asarray(above).tolist(), "arrayminus": np.asarray(below).tolist()}
    return {"type": "data", "symmetric": False, "width": 0, "color": colour, "thickness": thickness, **reach}


def _nth(i: int) -> str:
    """How plotly numbers its axes: x, x2, x3 …"""
    return str(i + 1) if i else ""


def _spans(shares: Sequence[float], gap: float) -> list[tuple[float, float]]:
    """Intervals of [0, 1] in these proportions with a gap between them."""
    free, spans, start = 1 - gap * (len(shares) - 1), [], 0.0
    for share in shares:
        size = free * share / sum(shares)
        spans.append((start, min(start + size, 1.0)))
        start += size + gap
    return spans
