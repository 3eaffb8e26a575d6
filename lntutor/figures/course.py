"""The map of the course: the whole Transformer, with a number where each notebook stands."""

from __future__ import annotations

import itertools

import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, scatter
from lntutor.figures.checked import checked
from lntutor.figures.parts import finish, sentence
from lntutor.figures.style import INK, PALE, VERMILLION, Sizes, for_words, sizes

BLOCK, NORM, PLAIN = ("#CFE3F2", "#0072B2"), ("#FBDCC4", "#D55E00"), ("#FFFFFF", PALE)
LEFT, RIGHT, HALF = 2.0, 6.6, 1.35  # middles of the two columns and half the width of a box
PARTS = [  # (words, kind, column, height)
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
STOPS = {  # notebook → (what it is about, where its number stands, on which side the words are)
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


@checked
def course_map(*, lecture: bool | None = None) -> go.Figure:
    """The encoder and the decoder as Vaswani et al. 2017 drew them, with the number of the notebook at each part."""
    fig, size = Canvas([""], lecture), sizes(lecture)
    for x, low, high, name in ((LEFT, 1.75, 6.55, "encoder × L"), (RIGHT, 1.75, 8.85, "decoder × L")):
        _frame(fig, x, low, high, name, size)
    for words, (fill, border), x, y in PARTS:
        _box(fig, x, y, words, fill, border, size)
    for x in (LEFT, RIGHT):
        heights = [y for _, _, column, y in PARTS if column == x]
        for low, high in itertools.pairwise(heights):
            fig.add_trace(_line([x, x], [low + 0.36, high - 0.36], INK, size, f"{x}/{low}"))
    fig.add_trace(
        _line([LEFT, LEFT, 4.3, 4.3, RIGHT - HALF], [6.26, 6.8, 6.8, 4.9, 4.9], INK, size, "encoder's output")
    )
    back = RIGHT + HALF + 0.6
    fig.add_trace(_line([back, back], [8.9, 0.6], VERMILLION, size, "gradient", dash="dash"))
    words = {"x": back + 0.2, "y": 0.6, "text": "the gradient flows back", "showarrow": False, "xanchor": "left"}
    fig.add_annotation(**words, font={"size": size.small, "color": for_words(VERMILLION)})
    _stops(fig, size)
    fig.layout["showlegend"] = False
    fig.update_xaxes(visible=False, range=[-2.6, 12.6 if size.large else 12.2], fixedrange=True)
    fig.update_yaxes(visible=False, range=[-0.5, 11.8], fixedrange=True)
    title = "The course on the Transformer: each number is a notebook"
    stops = "; ".join(f"{number}, {what}" for number, (what, *_) in STOPS.items())
    alt = sentence(
        "Drawing of an encoder and a decoder, input at the bottom, loss at the top, the gradient flowing back beside "
        "them",
        title,
        f"Notebooks: {stops}",
    )
    meta = {"alt": alt, "drawn for": 1150 if size.large else 900}  # pixels across, for which the words have room
    return finish(fig, title, alt, lecture=lecture, height=650 if size.large else 520, meta=meta)


def _words(size: Sizes) -> int:
    """Type that fits into a box: its width follows the page, not the type."""
    return size.small - 1 if size.large else size.text - 1


def _frame(fig: Canvas, x: float, low: float, high: float, name: str, size: Sizes) -> None:
    wide = HALF + 0.2
    ground = {"fillcolor": "#F3F3F3", "line": {"width": 0}, "layer": "below"}
    fig.add_shape(type="rect", x0=x - wide, x1=x + wide, y0=low, y1=high, **ground)
    place = {"x": x + wide - 0.06, "y": low + 0.04, "xanchor": "right", "yanchor": "bottom", "align": "right"}
    fig.add_annotation(text=name, showarrow=False, font={"size": min(size.small, 15)}, **place)


def _box(fig: Canvas, x: float, y: float, words: str, fill: str, border: str, size: Sizes) -> None:
    line = {"color": border, "width": size.thin}
    fig.add_shape(type="rect", x0=x - HALF, x1=x + HALF, y0=y - 0.36, y1=y + 0.36, fillcolor=fill, line=line)
    fig.add_annotation(x=x, y=y, text=words, showarrow=False, font={"size": _words(size), "color": INK})


def _line(x: list, y: list, color: str, size: Sizes, name: str, dash: str = "solid") -> dict:
    heads = [0.0] * (len(x) - 1) + [size.marker * 1.1]
    mark = {"symbol": "arrow", "size": heads, "color": color, "angleref": "previous", "opacity": 1}
    line = {"color": color, "width": size.thin, "dash": dash}
    return scatter(x=x, y=y, mode="lines+markers", line=line, marker=mark, name=name, uid=name, hoverinfo="skip")


def _stops(fig: Canvas, size: Sizes) -> None:
    """A disc with its number for every notebook, and what it is about beside it."""
    x, y = [stop[1] for stop in STOPS.values()], [stop[2] for stop in STOPS.values()]
    mark = {"symbol": "circle", "size": size.text * (1.6 if size.large else 1.8), "color": INK}
    discs = {"text": [f"<b>{number}</b>" for number in STOPS], "textfont": {"color": "white", "size": size.small}}
    fig.add_trace(scatter(x=x, y=y, mode="markers+text", marker=mark, **discs, uid="notebooks", hoverinfo="skip"))
    for words, x, y, side in STOPS.values():
        anchor, shift = ("right", -size.text) if side == "left" else ("left", size.text)
        font = {"size": _words(size), "color": INK}
        fig.add_annotation(x=x, y=y, text=words, showarrow=False, xanchor=anchor, xshift=shift, font=font)
