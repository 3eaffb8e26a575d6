"""Handles on the picture beside a panel: a mark that moves the panel's controls along the picture's axes."""

from __future__ import annotations

from typing import Any

from lntutor.page.kit.panel import Part


class Handle(Part):
    """A mark on the plot that is dragged by a hand or moved by arrow keys, and with it one control or two.

    `x` and `y` name controls whose values are places on the axes of the plot: numbers of a slider, or the choices of
    `Segments`, counted from 0. Without `y` it stands at an `edge` and moves along it. A `cell` is a square of a heat
    map: a click anywhere chooses, and `panel` names the control that says in which of the maps.
    """

    kind = "handle"

    def __init__(self, description: str, x: str, y: str = "", edge: str = "bottom", panel: str = "", **look: Any):
        super().__init__(description=description, **{"tooltip": "Drag it, or use the arrow keys", **look})
        self.place = {"x": x, "y": y, "edge": edge, "panel": panel, "cell": bool(panel)}

    def page_look(self) -> dict[str, Any]:
        return super().page_look() | self.place
