"""The map of the course: the whole Transformer, with a number where each notebook stands."""

from __future__ import annotations

import itertools

import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.diagram import BLOCK, NORM
from lntutor.figures.drawing import finish
from lntutor.figures.style import INK, PALE, VERMILLION, Sizes, for_text

PLAIN = "#FFFFFF", PALE  # fill, border
LEFT, RIGHT, HALF = 2.0, 6.6, 1.35  # middles of the two columns and half the width of a box
PARTS = [  # (name, kind, column, height)
    ("embedding + position", PLAIN, LEFT, 0.5),
    ("self-attention", BLOCK, LEFT, 2.6),
    ("+ skip, LN", NORM, LEFT, 3.6),
    ("FFN", BLOCK, LEFT, 4.9),
    ("+ skip, LN", NORM, LEFT, 5.9),
    ("embedding + position", PLAIN, RIGHT, 0.5),
    ("self-attention", BLOCK, RIGHT, 2.6),
    ("+ skip, LN", NORM, RIGHT, 3.6),
    ("cross-attention", BLOCK, RIGHT, 4.9),
    ("+ skip, LN", NORM, RIGHT, 5.9),
    ("FFN", BLOCK, RIGHT, 7.2),
    ("+ skip, LN", NORM, RIGHT, 8.2),
    ("scores of all words", PLAIN, RIGHT, 9.9),
    ("loss", PLAIN, RIGHT, 11.1),
]
STOPS = {  # notebook → (what it is about, where its number stands, on which side its name is)
    "01": ("attention", LEFT - HALF - 0.6, 2.6, "left"),
    "02": ("layer norm", LEFT - HALF - 0.6, 3.6, "left"),
    "03": ("where LN stands", LEFT - HALF - 0.6, 5.9, "left"),
    "04": ("the last layer's gradient", RIGHT - HALF - 0.6, 7.2, "left"),
    "05": ("gradients of all layers", RIGHT + HALF + 1.2, 5.4, "right"),
    "06": ("training", RIGHT + HALF + 0.6, 11.1, "right"),
    "07": ("is this the reason?", RIGHT + HALF + 0.6, 10.3, "right"),
    "08": ("curvature of the loss", RIGHT + HALF + 0.6, 9.5, "right"),
    "09": ("other placements", RIGHT - HALF - 0.6, 8.2, "left"),
}


def course_map(*, lecture: bool | None = None) -> go.Figure:
    """The encoder and the decoder as Vaswani et al. 2017 drew them, with the number of the notebook at each part."""
    fig = Canvas(lecture)
    size = fig.size
    for x, low, high, name in ((LEFT, 1.75, 6.55, "encoder × L"), (RIGHT, 1.75, 8.85, "decoder × L")):
        _frame(fig, x, low, high, name)
    for name, (fill, border), x, y in PARTS:
        box = {"x0": x - HALF, "x1": x + HALF, "y0": y - 0.36, "y1": y + 0.36, "fillcolor": fill}
        fig.add_shape(type="rect", **box, line={"color": border, "width": size.thin})
        fig.add_annotation(x=x, y=y, text=name, font=_label_font(size))
    for x in (LEFT, RIGHT):
        heights = [y for _, _, column, y in PARTS if column == x]
        for low, high in itertools.pairwise(heights):
            fig.add_arrow([x, x], [low + 0.36, high - 0.36], f"{x}/{low}")
    across, up = [LEFT, LEFT, 4.3, 4.3, RIGHT - HALF], [6.26, 6.8, 6.8, 4.9, 4.9]
    fig.add_arrow(across, up, "encoder's output")
    back = RIGHT + HALF + 0.6
    fig.add_arrow([back, back], [8.9, 0.6], "gradient", VERMILLION, "dash")
    font = {"size": size.small, "color": for_text(VERMILLION)}
    fig.add_annotation(x=back + 0.2, y=0.6, text="the gradient flows back", xanchor="left", font=font)
    _stops(fig)
    fig.layout["showlegend"] = False
    fig.update_xaxes(visible=False, range=[-2.6, 12.6 if size.large else 12.2], fixedrange=True)
    fig.update_yaxes(visible=False, range=[-0.5, 11.8], fixedrange=True)
    title = "The course on the Transformer: each number is a notebook"
    stops = "; ".join(f"{notebook}, {topic}" for notebook, (topic, *_) in STOPS.items())
    kind = "Drawing of an encoder and a decoder, input at the bottom, loss at the top, the gradient flowing back beside"
    meta = {"drawn for": 1150 if size.large else 900}  # pixels across that its labels need
    return finish(fig, title, f"{kind} them", f"Notebooks: {stops}", height=650 if size.large else 520, meta=meta)


def _label_font(size: Sizes) -> dict:
    """Type that fits into a box: its width follows the page, not the type."""
    return {"size": size.small - 1 if size.large else size.text - 1, "color": INK}


def _frame(fig: Canvas, x: float, low: float, high: float, name: str) -> None:
    wide = HALF + 0.2
    ground = {"fillcolor": "#F3F3F3", "line": {"width": 0}, "layer": "below"}
    fig.add_shape(type="rect", x0=x - wide, x1=x + wide, y0=low, y1=high, **ground)
    place = {"x": x + wide - 0.06, "y": low + 0.04, "xanchor": "right", "yanchor": "bottom", "align": "right"}
    fig.add_annotation(text=name, font={"size": min(fig.size.small, 15)}, **place)


def _stops(fig: Canvas) -> None:
    """A disc with its number for every notebook, and what it is about beside it."""
    size, (x, y) = fig.size, ([stop[i] for stop in STOPS.values()] for i in (1, 2))
    mark = {"symbol": "circle", "size": size.text * (1.6 if size.large else 1.8), "color": INK}
    discs = {"text": [f"<b>{notebook}</b>" for notebook in STOPS], "textfont": {"color": "white", "size": size.small}}
    fig.add_scatter(x=x, y=y, mode="markers+text", marker=mark, **discs, uid="notebooks", hoverinfo="skip")
    for topic, x, y, side in STOPS.values():
        anchor, shift = ("right", -size.text) if side == "left" else ("left", size.text)
        fig.add_annotation(x=x, y=y, text=topic, xanchor=anchor, xshift=shift, font=_label_font(size))
