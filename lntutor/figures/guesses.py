"""Guess and measurement in one picture: hollow and dashed is the guess, filled is what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, scatter
from lntutor.figures.parts import finish, log_axis, sentence
from lntutor.figures.style import BLUE, GREY, INK, VERMILLION, number, safe, sizes, wrapped

GUESS, MEASURED = "your guess", "measured"


def guess_on_line(
    guess: float | None,
    measured: float,
    ends: tuple[float, float],
    *,
    unit: str = "",
    log: bool = False,
    lecture: bool | None = None,
) -> go.Figure:
    """A guessed and a measured number as two marks on one line, each named beside its mark."""
    size, fig = sizes(lecture), Canvas([""], lecture)
    shown = [v for v in (*ends, measured, guess) if v is not None]
    log = log and min(shown) > 0  # a measurement may be 0, whatever was asked for
    marks = [(measured, MEASURED, "circle", "bottom", VERMILLION)]
    if guess is not None:
        marks.append((guess, GUESS, "diamond-open", "top", INK))
    away = round(0.8 * size.marker + 0.75 * size.text) + 4 * size.large
    for value, name, symbol, side, colour in marks:
        mark = {"symbol": symbol, "size": size.marker * 1.6, "color": colour, "line": {"width": size.line}}
        fig.add_trace(scatter(x=[value], y=[0], mode="markers", marker=mark, name=name, showlegend=False))
        fig.add_annotation(
            x=_place(value, log), y=0, yshift=away if side == "top" else -away, showarrow=False,
            text=f"{name} {number(value)}{_unit(unit)}", font={"size": size.text, "color": INK},
            xanchor=_anchor(value, shown, log), bgcolor="rgba(255,255,255,0.8)",
        )  # fmt: skip
    low, high = min(shown), max(shown)
    pad = 0.03 * (high - low)
    fig.update_xaxes(**(log_axis(shown) if log else {"range": [low - pad, high + pad]}))
    fig.update_yaxes(visible=False, range=[-1, 1])
    words = sentence(
        f"Marks on a line from {number(ends[0])} to {number(ends[1])}{', logarithmic' if log else ''}",
        _compared(number(guess) if guess is not None else None, number(measured), unit),
    )
    return finish(fig, "", words, lecture=lecture, height=130, showlegend=False)


def guess_on_curve(
    x: Sequence,
    guess: Sequence[float] | None,
    measured: Sequence[float] | None,
    *,
    unit: str = "",
    log: bool = False,
    lecture: bool | None = None,
) -> go.Figure:
    """A guessed and a measured curve over the same places."""
    size, fig = sizes(lecture), Canvas([""], lecture)
    looks = [
        (guess, GUESS, "diamond-open", "dash", INK),
        (measured, MEASURED, "circle", "solid", VERMILLION),
    ]
    places, parts = [str(place) for place in x], []
    for values, name, symbol, dash, colour in looks:
        if values is not None:
            mark = {"symbol": symbol, "size": size.marker * 1.2, "color": colour, "line": {"width": size.thin}}
            line = {"dash": dash, "width": size.line, "color": colour}
            values = [float(v) for v in values]
            fig.add_trace(scatter(x=places, y=values, mode="lines+markers", marker=mark, line=line, name=name))
            parts.append(f"{name}: " + ", ".join(f"{a} at {b}" for a, b in zip(map(number, values), x, strict=True)))
    fig.update_xaxes(type="category")
    values = [v for curve, *_ in looks if curve is not None for v in curve]
    fig.update_yaxes(**(log_axis(values) if log else {"rangemode": "tozero"}), title=safe(unit))
    return finish(fig, "", sentence(*parts), lecture=lecture, height=220 if size.large else 300, showlegend=True)


def votes(
    choices: Sequence[str], counts: Sequence[Sequence[int]], measured: str | None, *, lecture: bool | None = None
) -> go.Figure:
    """One or two shows of hands as bars, plain and striped; the measured choice is named in words."""
    size, fig = sizes(lecture), Canvas([""], lecture)
    labels = [_choice(choice, choice == measured) for choice in choices]
    looks = [("first vote", GREY, ""), ("second vote", BLUE, "/")]
    for hands, (name, colour, pattern) in zip(counts, looks, strict=False):
        fig.add_trace(
            {
                "type": "bar", "orientation": "h", "x": list(hands), "y": labels, "name": name,
                "text": [str(n) for n in hands], "textposition": "outside", "cliponaxis": False,
                "marker": {"color": colour, "pattern": {"shape": pattern}, "line": {"width": 1, "color": INK}},
            }
        )  # fmt: skip
    most = max((n for hands in counts for n in hands), default=0)
    fig.update_xaxes(title="hands", range=[0, 1.12 * max(most, 1)], rangemode="tozero", tickformat="d", nticks=6)
    fig.update_yaxes(autorange="reversed", tickfont={"size": size.text})
    parts = [
        f"{name}: " + ", ".join(f"{n} for {choice}" for n, choice in zip(hands, choices, strict=True))
        for hands, (name, *_) in zip(counts, looks, strict=False)
    ]
    words = sentence(*parts, f"measured: {measured}" if measured else "")
    lines = max(label.count("<br>") for label in labels) + 1
    tall = max(62, 1.4 * size.text * lines) * len(choices)
    return finish(fig, "", words, lecture=lecture, height=70 + tall, showlegend=True, barmode="group")


def _choice(choice: str, is_measured: bool) -> str:
    text = wrapped(safe(choice), 40)
    return f"<b>{text}<br>● measured</b>" if is_measured else text


def _compared(guess: str | None, measured: str, unit: str) -> str:
    said = f"You guessed {guess}{_unit(unit)}; " if guess is not None else ""
    return f"{said}measured: {measured}{_unit(unit)}."


def _unit(unit: str) -> str:
    return f" {safe(unit)}" if unit else ""


def _place(value: float, log: bool) -> float:
    """Where an annotation stands: plotly wants the logarithm on a log axis."""
    return log10(value) if log else value


def _anchor(value: float, shown: list[float], log: bool) -> str:
    """Words near an end of the line lean inwards."""
    low, high = _place(min(shown), log), _place(max(shown), log)
    share = (_place(value, log) - low) / (high - low)
    return "left" if share < 0.15 else "right" if share > 0.85 else "center"
