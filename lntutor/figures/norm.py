"""Layer normalization on one vector: before and after, and its Jacobian."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.config import numbers
from lntutor.figures.canvas import Canvas, heatmap, scatter
from lntutor.figures.checked import checked
from lntutor.figures.parts import drawable, empty, finish, has, listed, log_axis, ring, sentence
from lntutor.figures.scaling import slope
from lntutor.figures.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    fixed,
    number,
    safe,
    sizes,
)

LOOKS = (
    (BLUE, "square"),
    (VERMILLION, "diamond"),
    (GREEN, "triangle-up"),
    (PURPLE, "triangle-down"),
    (ORANGE, "pentagon"),
    (BLACK, "x"),
)
VANISHING = 1e-3  # of the largest singular value


@checked
def layer_norm_before_after(
    x: np.ndarray, outputs: Mapping[str, np.ndarray], *, note: str = "", lecture: bool | None = None
) -> go.Figure:
    """The coordinates of a vector before and after several formulas, with mean and variance of each."""
    x, size = numbers("x", x, 0, 1, 2).ravel(), sizes(lecture)
    if not x.size:
        return empty("There is no vector to normalise here.", lecture, note)
    fig = Canvas([""], lecture)
    series = {"x": x} | {str(name): numbers("outputs", y, 0, 1, 2).ravel() for name, y in outputs.items()}
    step = 0.8 / len(series)
    fig.add_shape(type="line", x0=0, x1=1, y0=0, y1=0, xref="x domain", line={"color": INK, "width": 1})
    for i, (name, y) in enumerate(series.items()):
        colour, symbol = (GREY, "circle-open") if i == 0 else LOOKS[(i - 1) % len(LOOKS)]
        place = np.arange(1, len(y) + 1) + (i - (len(series) - 1) / 2) * step
        stem = {"type": "data", "symmetric": False, "array": np.maximum(-y, 0).tolist(), "width": 0, "color": colour}
        stem |= {"arrayminus": np.maximum(y, 0).tolist(), "thickness": size.thin}
        shown = "before, x" if i == 0 else safe(name)
        fig.add_trace(
            scatter(
                x=place.tolist(),
                y=y.tolist(),
                error_y=stem,
                mode="markers",
                uid=f"norm/{i}",
                marker={"symbol": symbol, "color": colour, "size": size.marker * (1 if len(y) <= 12 else 0.7)},
                name=f"{shown}: mean {fixed(y.mean())}, variance {fixed(y.var())}",
                hovertemplate="%{y:.4g}<extra>%{fullData.name}</extra>",
            )
        )
    fig.update_xaxes(title="Coordinate", tickvals=_whole(len(x)), showgrid=False, range=[0.4, len(x) + 0.6])
    fig.update_yaxes(title="Value")
    title = _variances(series)
    stats = [f"{name}: mean {fixed(y.mean())}, variance {fixed(y.var())}" for name, y in series.items()]
    alt = sentence(f"Points for each of {len(x)} coordinates, horizontal axis coordinate, vertical axis value", title)
    return finish(fig, title, f"{alt} {'; '.join(stats)}.", lecture=lecture, note=note)


def norm_reach(
    reaches: Mapping[str, np.ndarray],
    *,
    place: tuple[int, int, int] = (0, 0, 0),
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """Which numbers of a (sentence, token, feature) tensor the output at `place` depends on, a panel for each norm."""
    reaches = {str(name): np.asarray(reach, bool) for name, reach in reaches.items()}
    if not reaches:
        return empty("There is no norm to look at here.", lecture, note)
    sentences, tokens, d = next(iter(reaches.values())).shape
    size, fig = sizes(lecture), Canvas([safe(name) for name in reaches], lecture, shared="xy")
    rows = [f"sentence {s + 1}, token {t + 1}" for s in range(sentences) for t in range(tokens)]
    here = ring([place[2] + 1], [rows[place[0] * tokens + place[1]]], size, "this output")
    for i, reach in enumerate(reaches.values()):
        fig.add_trace(_reach_cells(reach.reshape(-1, d), rows, f"reach/{i}", size.small), col=i + 1)
        fig.add_trace({**here, "uid": f"place/{i}", "legendgroup": "place", "showlegend": i == 0}, col=i + 1)
    fig.update_xaxes(title="Feature", tickvals=_whole(d), showgrid=False, showline=False, ticks="")
    fig.update_yaxes(autorange="reversed", showgrid=False, showline=False, ticks="")
    counts = [(safe(name), float(reach.sum())) for name, reach in reaches.items()]
    title = f"One output number depends on so many of the {sentences * tokens * d} inputs: {listed(counts, number)}"
    whose = f"sentence {place[0] + 1}, token {place[1] + 1}, feature {place[2] + 1}"
    alt = sentence(f"A grid for each norm, a row a token, a column a feature; dots mark what {whose} depends on", title)
    which = [f"{name}: {_reached(reach)}" for name, reach in reaches.items()]
    return finish(fig, title, f"{alt} {'; '.join(which)}.", lecture=lecture, note=note, height=70 + 34 * len(rows))


def _reach_cells(reach: np.ndarray, rows: list[str], uid: str, text_size: int) -> dict:
    """Cells that are reached are coloured, and have a dot for those who see no colour."""
    return heatmap(
        z=reach.astype(int).tolist(),
        x=list(range(1, reach.shape[1] + 1)),
        y=rows,
        zmin=0,
        zmax=1,
        colorscale=[[0, "#F1F1F1"], [1, SKY]],
        showscale=False,
        xgap=2,
        ygap=2,
        uid=uid,
        text=[["●" if cell else "" for cell in row] for row in reach],
        texttemplate="%{text}",
        textfont={"size": text_size, "color": INK},
        hovertemplate="%{y}, feature %{x}<extra></extra>",
    )


def _reached(reach: np.ndarray) -> str:
    """Over what a norm runs, as far as its reach tells."""
    kinds = zip(("sentences", "tokens", "features"), np.nonzero(reach), strict=True)
    return ", ".join(f"{name} {', '.join(str(i + 1) for i in sorted(set(found)))}" for name, found in kinds)


def _whole(count: int) -> list[int]:
    step = -(-count // 16)
    return list(range(1, count + 1, step))


def _variances(series: dict[str, np.ndarray]) -> str:
    first, *others = series
    if not others:
        return f"The vector has mean {fixed(series[first].mean())} and variance {fixed(series[first].var())}"
    return "Output variance: " + listed([(safe(name), float(series[name].var())) for name in others], fixed, most=5)


def gradient_through_norm(
    start: tuple[np.ndarray, np.ndarray],
    now: tuple[np.ndarray, np.ndarray],
    k: float,
    *,
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """(LN(x), ∂L/∂x) where x went in, and the same where kx went in: what goes forward and what comes back."""
    size = sizes(lecture)
    fig = Canvas(["forward: the output of LN", "backward: the gradient of its input"], lecture, gap=0.12)
    looks = [(start, "k = 1", GREY, "circle-open", 1.7), (now, f"k = {number(k)}", BLUE, "square", 1)]
    for pair, name, colour, symbol, scale in looks:
        mark = {"symbol": symbol, "color": colour, "size": size.marker * scale, "line": {"width": size.thin}}
        for column, y in enumerate(pair, 1):
            dots = {"x": list(range(1, len(y) + 1)), "y": np.asarray(y, float).tolist(), "uid": f"{symbol}/{column}"}
            more = {"name": name, "legendgroup": symbol, "showlegend": column == 1}
            fig.add_trace(scatter(mode="markers", marker=mark, hovertemplate="%{y:.4g}", **dots, **more), col=column)
    fig.update_xaxes(title="Coordinate", tickvals=_whole(len(start[0])), showgrid=False)
    fig.update_yaxes(zeroline=True, zerolinecolor=INK, zerolinewidth=1)
    lengths = [[float(np.linalg.norm(y)) for y in pair] for pair in (start, now)]
    forward, backward = (b / a for a, b in zip(*lengths, strict=True))
    title = f"x times {number(k)}: the output is {fixed(forward)}× as large, the gradient {number(backward)}×"
    words = [
        f"{look[1]}: output {number(a)}, gradient {number(b)}" for look, (a, b) in zip(looks, lengths, strict=True)
    ]
    alt = sentence("Two panels of points, one for each coordinate: the output of LN, the gradient of its input", title)
    return finish(fig, title, f"{alt} Lengths: {'; '.join(words)}.", lecture=lecture, note=note)


@checked
def jacobian_spectrum(table: pd.DataFrame, *, note: str = "", lecture: bool | None = None) -> go.Figure:
    """Singular values of LN's Jacobian: columns name, index, value."""
    table, _ = drawable(table)
    if not has(table, "name", "index", "value"):
        return empty("There is no Jacobian to look at here.", lecture, note)
    fig, size, words = Canvas([""], lecture), sizes(lecture), []
    for i, (name, part) in enumerate(table.groupby("name", sort=False)):
        colour, symbol = LOOKS[i % len(LOOKS)]
        part = part.sort_values("index")
        values = part["value"].to_numpy(float)
        words.append((safe(name), values))
        fig.add_trace(
            scatter(
                x=part["index"].tolist(),
                y=values.tolist(),
                mode="markers",
                name=safe(name),
                uid=f"spectrum/{i}",
                marker={"color": colour, "symbol": symbol, "size": size.marker},
                showlegend=True,
                hovertemplate="%{x}: %{y:.4g}<extra>%{fullData.name}</extra>",
            )
        )
    fig.update_xaxes(title="Singular value, from the largest")
    fig.update_yaxes(title="Size", rangemode="tozero")
    name, values = words[0]
    gone = int((values < VANISHING * values.max()).sum())
    rest = values[values >= VANISHING * values.max()]
    size_words = (
        number(rest.max())
        if rest.max() - rest.min() < 0.01 * rest.max()
        else f"{number(rest.min())} to {number(rest.max())}"
    )
    title = f"{name}: {gone} of {len(values)} directions get no gradient; the others are multiplied by {size_words}"
    largest = "; ".join(f"{n}: largest {number(v.max())}, smallest {number(v.min())}" for n, v in words)
    alt = sentence("Points, horizontal axis number of the singular value, vertical axis its size", title, largest)
    return finish(fig, title, alt, lecture=lecture, note=note)


@checked
def jacobian_norm(
    table: pd.DataFrame, *, size: float | None = None, note: str = "", lecture: bool | None = None
) -> go.Figure:
    """‖J‖ against ‖x‖ with the line √d/‖y‖ (Lemma 3): columns size, value, predicted; `size` is ringed."""
    table, _ = drawable(table, positive=True)
    if not has(table, "size", "value"):
        return empty("There is no Jacobian to look at here.", lecture, note)
    fig, look = Canvas([""], lecture), sizes(lecture)
    part = table.sort_values("size")
    x, y = part["size"].tolist(), part["value"].tolist()
    mark = {"color": BLUE, "symbol": "square", "size": look.marker}
    hover = "‖x‖ = %{x:.4g}: %{y:.4g}<extra></extra>"
    fig.add_trace(scatter(x=x, y=y, mode="markers", marker=mark, name="measured", uid="J", hovertemplate=hover))
    if "predicted" in part.columns:
        line = {"color": INK, "width": look.thin}
        predicted = part["predicted"].tolist()
        fig.add_trace(scatter(x=x, y=predicted, mode="lines", line=line, name="√d/‖y‖ (Lemma 3)", uid="lemma"))
    if size is not None and len(part):
        near = int(np.abs(np.log(np.asarray(x) / size)).argmin())
        fig.add_trace(ring([x[near]], [y[near]], look, "your x"))
    fig.update_xaxes(title="‖x‖", **log_axis(x, room=10))
    fig.update_yaxes(title="‖J‖, largest singular value", **log_axis(y))
    fitted = slope(x, y)
    title = (
        f"‖J‖ = {number(y[0])} at ‖x‖ = {number(x[0])}"
        if fitted is None
        else f"‖J‖ falls as ‖x‖ to the power {fixed(fitted)}: twice the input, {times_of(fitted)} the gradient"
    )
    ends = f"{number(y[0])} at {number(x[0])}, {number(y[-1])} at {number(x[-1])}"
    alt = sentence("Scatter plot with log axes, horizontal norm of x, vertical norm of the Jacobian", title, ends)
    return finish(fig, title, alt, lecture=lecture, note=note)


def times_of(power: float) -> str:
    """What doubling does under a power law."""
    return f"{fixed(2**power)}×"
