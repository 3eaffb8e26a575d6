"""A figure under construction, as plain dicts.

plotly checks every value that is set, which takes longer than all else between a slider and its picture. Here nothing
is checked; tests/test_figures.py has plotly check every kind of figure.
"""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from lntutor.figures.style import INK, LECTURE_TEMPLATE, TEMPLATE, sizes, wrapped


def scatter(**options) -> dict:
    """A trace of points or lines."""
    return {"type": "scatter", **options}


def heatmap(**options) -> dict:
    """A trace of coloured cells."""
    return {"type": "heatmap", **options}


class Canvas:
    """Panels in rows and columns; traces and axes are added as in plotly, by row and column counted from 1."""

    def __init__(self, names: Sequence[str], lecture: bool | None, *, rows: int = 1, heights=None, gap=0.05, shared=""):
        self.size, self.rows, self.columns = sizes(lecture), rows, -(-len(names) // rows)
        self.data: list[dict] = []
        self.shapes: list[dict] = []
        self.annotations: list[dict] = []
        self.layout: dict = {}
        self.named = len(names) > 1 and any(names)
        across = _spans([1] * self.columns, gap)
        down = [(1 - b, 1 - a) for a, b in _spans(heights or [1] * rows, gap)]
        for i, name in enumerate(names):
            row, column = divmod(i, self.columns)
            self._add_panel(i, across[column], down[row], shared)
            if self.named:
                self._name_panel(name, across[column], down[row])

    def _add_panel(self, i: int, x: tuple, y: tuple, shared: str) -> None:
        number = "" if i == 0 else str(i + 1)
        self.layout[f"xaxis{number}"] = {"domain": list(x), "anchor": f"y{number}"}
        self.layout[f"yaxis{number}"] = {"domain": list(y), "anchor": f"x{number}"}
        for letter in shared if i else "":
            self.layout[f"{letter}axis{number}"]["matches"] = letter
        if i % self.columns and "y" in shared:
            self.layout[f"yaxis{number}"]["showticklabels"] = False
        if i < (self.rows - 1) * self.columns and "x" in shared:
            self.layout[f"xaxis{number}"]["showticklabels"] = False

    def _name_panel(self, name: str, x: tuple, y: tuple) -> None:
        place = {"x": sum(x) / 2, "y": y[1], "xref": "paper", "yref": "paper", "yanchor": "bottom"}
        self.add_annotation(
            text=name, font={"size": self.size.text, "color": INK}, showarrow=False, xanchor="center", **place
        )

    def add_trace(self, trace: dict, row: int = 1, col: int = 1) -> None:
        """Put a trace into a panel."""
        number = (row - 1) * self.columns + col
        suffix = "" if number == 1 else str(number)
        self.data.append({**trace, "xaxis": f"x{suffix}", "yaxis": f"y{suffix}"})

    def add_annotation(self, **options) -> None:
        """Put words on the figure."""
        self.annotations.append(options)

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
                self.layout.get(f"{axis}{'' if i == 0 else i + 1}", {}).update(options)

    def figure(self, **layout) -> go.Figure:
        """The finished figure."""
        template = LECTURE_TEMPLATE if self.size.large else TEMPLATE
        if self.size.large:
            self._wrap_titles()
        parts = {"annotations": self.annotations, "shapes": self.shapes, "template": template}
        parts = {name: value for name, value in parts.items() if value}
        return go.Figure(self.data, {**parts, **self.layout, **layout}, _validate=False)

    def _wrap_titles(self) -> None:
        """Break titles of axes where they would be longer than a panel at 900 × 450 px."""
        for name, axis in self.layout.items():
            if name[1:].startswith("axis") and "title" in axis:
                columns = 84 // self.columns if name[0] == "x" else 24
                axis["title"] = {"text": wrapped(axis["title"]["text"].replace("<br>", "\n"), columns)}


def _spans(shares: Sequence[float], gap: float) -> list[tuple[float, float]]:
    """Intervals of [0, 1] in these proportions with a gap between them."""
    free, spans, start = 1 - gap * (len(shares) - 1), [], 0.0
    for share in shares:
        size = free * share / sum(shares)
        spans.append((start, min(start + size, 1.0)))
        start += size + gap
    return spans
