"""Guess and measurement in one picture: hollow and dashed is the guess, filled is what was measured.

Neither has a colour that stands for a placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.drawing import finish, log_axis
from lntutor.figures.style import BLUE, GREY, INK, number, safe, wrapped

GUESS, MEASURED = "your guess", "measured"


def guess_on_line(
    guess: float | None, measured: float, ends: tuple[float, float], *, unit: str = "", log: bool = False,
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """A guessed and a measured number as two marks on one line, each named beside its mark."""
    fig = Canvas(lecture)
    size = fig.size
    values = [v for v in (*ends, measured, guess) if v is not None]
    log = log and min(values) > 0  # a measurement may be 0, whatever was asked for
    marks = [(measured, MEASURED, "circle", "bottom", INK)]
    if guess is not None:
        marks.append((guess, GUESS, "diamond-open", "top", INK))
    away = round(0.8 * size.marker + 0.75 * size.text) + 4 * size.large
    for value, name, symbol, side, colour in marks:
        mark = {"symbol": symbol, "size": size.marker * 1.6, "color": colour, "line": {"width": size.line}}
        fig.add_scatter(x=[value], y=[0], mode="markers", marker=mark, name=name, showlegend=False)
        fig.add_annotation(
            x=_place(value, log), y=0, yshift=away if side == "top" else -away,
            text=f"{name} {number(value)}{_unit(unit)}", font={"size": size.text, "color": INK},
            xanchor=_anchor(value, values, log), bgcolor="rgba(255,255,255,0.8)",
        )  # fmt: skip
    low, high = min(values), max(values)
    pad = 0.03 * (high - low)
    axis: dict = log_axis(values) if log else {"range": [low - pad, high + pad]}
    fig.update_xaxes(**axis)
    fig.update_yaxes(visible=False, range=[-1, 1])
    kind = f"Marks on a line from {number(ends[0])} to {number(ends[1])}{', logarithmic' if log else ''}"
    yours = "" if guess is None else f"You guessed {number(guess)}{_unit(unit)}; "
    both = f"{yours}measured: {number(measured)}{_unit(unit)}"
    return finish(fig, "", kind, both, height=130, showlegend=False)


def guess_on_curve(
    x: Sequence, guess: Sequence[float] | None, measured: Sequence[float] | None, *, unit: str = "", log: bool = False,
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """A guessed and a measured curve over the same places."""
    fig = Canvas(lecture)
    size = fig.size
    looks = [(guess, GUESS, "diamond-open", "dash", INK), (measured, MEASURED, "circle", "solid", INK)]
    places, parts = [str(place) for place in x], []
    for values, name, symbol, dash, colour in looks:
        if values is not None:
            mark = {"symbol": symbol, "size": size.marker * 1.2, "color": colour, "line": {"width": size.thin}}
            line = {"dash": dash, "width": size.line, "color": colour}
            values = [float(v) for v in values]
            fig.add_scatter(x=places, y=values, mode="lines+markers", marker=mark, line=line, name=name)
            parts.append(f"{name}: " + ", ".join(f"{a} at {b}" for a, b in zip(map(number, values), x, strict=True)))
    fig.update_xaxes(type="category")
    values = [v for curve, *_ in looks if curve is not None for v in curve]
    axis: dict = log_axis(values) if log else {"rangemode": "tozero"}
    fig.update_yaxes(title=safe(unit), **axis)
    return finish(fig, "", *parts, height=220 if size.large else 300, showlegend=True)


def votes(
    choices: Sequence[str], counts: Sequence[Sequence[int]], measured: str | None, *, lecture: bool | None = None
) -> go.Figure:
    """One or two shows of hands as bars, plain and striped; the measured choice is marked by a dot and a word."""
    fig = Canvas(lecture)
    size = fig.size
    labels = [_choice(choice, choice == measured) for choice in choices]
    looks = [("first vote", GREY, ""), ("second vote", BLUE, "/")]
    for hands, (name, colour, pattern) in zip(counts, looks, strict=False):
        mark = {"color": colour, "pattern": {"shape": pattern}, "line": {"width": 1, "color": INK}}
        text = {"text": [str(n) for n in hands], "textposition": "outside", "cliponaxis": False}
        at = {"orientation": "h", "x": list(hands), "y": labels, "name": name}
        fig.add_trace({"type": "bar", **at, **text, "marker": mark})
    most = max((n for hands in counts for n in hands), default=0)
    fig.update_xaxes(title="hands", range=[0, 1.12 * max(most, 1)], rangemode="tozero", tickformat="d", nticks=6)
    fig.update_yaxes(autorange="reversed", tickfont={"size": size.text})
    parts = [
        f"{name}: " + ", ".join(f"{n} for {choice}" for n, choice in zip(hands, choices, strict=True))
        for hands, (name, *_) in zip(counts, looks, strict=False)
    ]
    parts += [f"measured: {measured}"] * bool(measured)
    lines = max(label.count("<br>") for label in labels) + 1
    tall = max(62, 1.4 * size.text * lines) * len(choices)
    return finish(fig, "", *parts, height=70 + tall, showlegend=True, barmode="group")


def _choice(choice: str, is_measured: bool) -> str:
    text = wrapped(safe(choice), 40)
    return f"<b>{text}<br>● measured</b>" if is_measured else text


def _unit(unit: str) -> str:
    return f" {safe(unit)}" if unit else ""


def _place(value: float, log: bool) -> float:
    """Where an annotation stands: plotly expects the logarithm on a log axis."""
    return log10(value) if log else value


def _anchor(value: float, values: list[float], log: bool) -> str:
    """A label near an end of the line leans inwards."""
    low, high = _place(min(values), log), _place(max(values), log)
    share = (_place(value, log) - low) / (high - low)
    return "left" if share < 0.15 else "right" if share > 0.85 else "center"
