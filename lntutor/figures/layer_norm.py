"""Layer normalization on one vector: before and after, and its Jacobian."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, error_bar, heatmap
from lntutor.figures.depth_and_width import slope
from lntutor.figures.drawing import empty, finish, listed, log_axis
from lntutor.figures.style import BLACK, BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILLION, fixed, number, safe
from lntutor.figures.tables import Table, drawable, has
from lntutor.model.checks import as_numbers, check_type

LOOKS = (
    (BLUE, "square"), (VERMILLION, "diamond"), (GREEN, "triangle-up"), (PURPLE, "triangle-down"), (ORANGE, "pentagon"),
    (BLACK, "x"),
)  # fmt: skip
VANISHING = 1e-3  # of the largest singular value


def layer_norm_before_after(
    x: np.ndarray, outputs: Mapping[str, np.ndarray], *, note: str = "", lecture: bool | None = None
) -> go.Figure:
    """The coordinates of a vector before and after several formulas, with mean and variance of each."""
    vector = as_numbers("x", x, 0, 1, 2).ravel()
    if not vector.size:
        return empty("There is no vector to normalise here.", lecture, note)
    fig = Canvas(lecture)
    after = check_type("outputs", outputs, Mapping).items()
    series = {"x": vector} | {str(name): as_numbers("outputs", y, 0, 1, 2).ravel() for name, y in after}
    fig.add_shape(type="line", x0=0, x1=1, y0=0, y1=0, xref="x domain", line={"color": INK, "width": 1})
    for i, (name, y) in enumerate(series.items()):
        _draw_stems(fig, i, "before, x" if i == 0 else safe(name), y, len(series))
    fig.update_xaxes(title="Coordinate", tickvals=_ticks(len(vector)), showgrid=False, range=[0.4, len(vector) + 0.6])
    fig.update_yaxes(title="Value")
    title = _variances(series)
    kind = f"Points for each of {len(vector)} coordinates, horizontal axis coordinate, vertical axis value"
    statistics = "; ".join(f"{safe(name)}: {_moments(y)}" for name, y in series.items())
    return finish(fig, title, kind, statistics, note=note)


def _draw_stems(fig: Canvas, i: int, name: str, y: np.ndarray, count: int) -> None:
    """A mark for every coordinate on a stem from zero, beside those of the other series."""
    colour, symbol = (GREY, "circle-open") if i == 0 else LOOKS[(i - 1) % len(LOOKS)]
    place = np.arange(1, len(y) + 1) + (i - (count - 1) / 2) * (0.8 / count)
    stem = error_bar(np.maximum(-y, 0), np.maximum(y, 0), colour, fig.size.thin)
    mark = {"symbol": symbol, "color": colour, "size": fig.size.marker * (1 if len(y) <= 12 else 0.7)}
    named = {"uid": f"norm/{i}", "name": f"{name}: {_moments(y)}"}
    at = {"x": place.tolist(), "y": y.tolist(), "error_y": stem, "mode": "markers", "marker": mark}
    fig.add_scatter(**at, **named, hovertemplate="%{y:.4g}<extra>%{fullData.name}</extra>")


def _moments(y: np.ndarray) -> str:
    return f"mean {fixed(y.mean())}, variance {fixed(y.var())}"


def norm_reach(
    reaches: Mapping[str, np.ndarray], *, place: tuple[int, int, int] = (0, 0, 0), note: str = "",
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """Which numbers of a (sentence, token, feature) tensor the output at `place` depends on, one panel per norm."""
    panels = {str(name): as_numbers("reaches", reach, 3) > 0 for name, reach in reaches.items()}
    if not panels:
        return empty("There is no norm to look at here.", lecture, note)
    sentences, tokens, d = next(iter(panels.values())).shape
    fig = Canvas(lecture, [safe(name) for name in panels], shared="xy")
    rows = [f"sentence {s + 1}, token {t + 1}" for s in range(sentences) for t in range(tokens)]
    here = [place[2] + 1], [rows[place[0] * tokens + place[1]]], "this output"
    for i, reach in enumerate(panels.values()):
        fig.add_trace(_reach_cells(reach.reshape(-1, d), rows, f"reach/{i}", fig.size.small), col=i + 1)
        fig.add_ring(*here, i + 1, uid=f"place/{i}", legendgroup="place", showlegend=i == 0)
    fig.update_xaxes(title="Feature", tickvals=_ticks(d), showgrid=False, showline=False, ticks="")
    fig.update_yaxes(autorange="reversed", showgrid=False, showline=False, ticks="")
    counts = [(safe(name), float(reach.sum())) for name, reach in panels.items()]
    title = f"One output number depends on so many of the {sentences * tokens * d} inputs: {listed(counts, number)}"
    whose = f"sentence {place[0] + 1}, token {place[1] + 1}, feature {place[2] + 1}"
    kind = f"A grid for each norm, one row per token, one column per feature; dots mark what {whose} depends on"
    which = "; ".join(f"{safe(name)}: {_reached(reach)}" for name, reach in panels.items())
    return finish(fig, title, kind, which, note=note, height=70 + 34 * len(rows))


def _reach_cells(reach: np.ndarray, rows: list[str], uid: str, text_size: int) -> dict:
    """Cells that are reached are coloured, and have a dot for those who see no colour."""
    return heatmap(
        z=reach.astype(int).tolist(), x=list(range(1, reach.shape[1] + 1)), y=rows, zmin=0, zmax=1, xgap=2, ygap=2,
        text=[["●" if cell else "" for cell in row] for row in reach], texttemplate="%{text}", showscale=False, uid=uid,
        textfont={"size": text_size, "color": BLACK}, colorscale=[[0, "#F1F1F1"], [1, SKY]],
        hovertemplate="%{y}, feature %{x}<extra></extra>",
    )  # fmt: skip


def _reached(reach: np.ndarray) -> str:
    """Over what a norm runs, as far as its reach tells."""
    kinds = zip(("sentences", "tokens", "features"), np.nonzero(reach), strict=True)
    return ", ".join(f"{name} {', '.join(str(i + 1) for i in sorted(set(found)))}" for name, found in kinds)


def _ticks(count: int) -> list[int]:
    return list(range(1, count + 1, -(-count // 16)))


def _variances(series: dict[str, np.ndarray]) -> str:
    first, *others = series
    if not others:
        return f"The vector has {_moments(series[first]).replace(',', ' and')}"
    return "Output variance: " + listed([(safe(name), float(series[name].var())) for name in others], fixed, most=5)


def gradient_through_norm(
    start: tuple[np.ndarray, np.ndarray], now: tuple[np.ndarray, np.ndarray], k: float, *, note: str = "",
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """(LN(x), ∂L/∂x) where x went in, and the same where kx went in: what goes forward and what comes back."""
    fig = Canvas(lecture, ["forward: the output of LN", "backward: the gradient of its input"], gap=0.12)
    looks = [(start, "k = 1", GREY, "circle-open", 1.7), (now, f"k = {number(k)}", BLUE, "square", 1)]
    for pair, name, colour, symbol, scale in looks:
        mark = {"symbol": symbol, "color": colour, "size": fig.size.marker * scale, "line": {"width": fig.size.thin}}
        for column, y in enumerate(pair, 1):
            dots = {"x": list(range(1, len(y) + 1)), "y": np.asarray(y, float).tolist(), "uid": f"{symbol}/{column}"}
            more = {"name": name, "legendgroup": symbol, "showlegend": column == 1}
            fig.add_scatter(1, column, mode="markers", marker=mark, hovertemplate="%{y:.4g}", **dots, **more)
    fig.update_xaxes(title="Coordinate", tickvals=_ticks(len(start[0])), showgrid=False)
    fig.update_yaxes(zeroline=True, zerolinecolor=INK, zerolinewidth=1)
    lengths = [[float(np.linalg.norm(y)) for y in pair] for pair in (start, now)]
    forward, backward = (b / a for a, b in zip(*lengths, strict=True))
    title = f"x times {number(k)}: the output is {fixed(forward)}× as large, the gradient {number(backward)}×"
    ends = [f"{look[1]}: output {number(a)}, gradient {number(b)}" for look, (a, b) in zip(looks, lengths, strict=True)]
    kind = "Two panels of points, one for each coordinate: the output of LN, the gradient of its input"
    return finish(fig, title, kind, f"Lengths: {'; '.join(ends)}", note=note)


def jacobian_spectrum(table: Table, *, note: str = "", lecture: bool | None = None) -> go.Figure:
    """Singular values of LN's Jacobian: columns name, index, value."""
    rows, _ = drawable(table)
    if not has(rows, "name", "index", "value"):
        return empty("There is no Jacobian to look at here.", lecture, note)
    fig, spectra = Canvas(lecture), {}
    for i, (name, part) in enumerate(rows.groupby("name", sort=False)):
        colour, symbol = LOOKS[i % len(LOOKS)]
        part = part.sort_values("index")
        spectra[safe(name)] = part["value"].to_numpy(float)
        at = {"x": part["index"].tolist(), "y": part["value"].tolist(), "mode": "markers"}
        mark = {"color": colour, "symbol": symbol, "size": fig.size.marker}
        named = {"name": safe(name), "uid": f"spectrum/{i}", "showlegend": True}
        fig.add_scatter(**at, marker=mark, hovertemplate="%{x}: %{y:.4g}<extra>%{fullData.name}</extra>", **named)
    fig.update_xaxes(title="Singular value, from the largest")
    fig.update_yaxes(title="Size", rangemode="tozero")
    title = _lost_directions(*next(iter(spectra.items())))
    largest = "; ".join(f"{n}: largest {number(v.max())}, smallest {number(v.min())}" for n, v in spectra.items())
    kind = "Points, horizontal axis number of the singular value, vertical axis its size"
    return finish(fig, title, kind, largest, note=note)


def _lost_directions(name: str, values: np.ndarray) -> str:
    """How many directions get no gradient, and by how much the others are multiplied."""
    rest = values[values >= VANISHING * values.max()]
    low, high = float(rest.min()), float(rest.max())
    factor = number(high) if high - low < 0.01 * high else f"{number(low)} to {number(high)}"
    gone = len(values) - len(rest)
    return f"{name}: {gone} of {len(values)} directions get no gradient; the others are multiplied by {factor}"


def jacobian_norm(table: Table, *, size: float | None = None, note: str = "", lecture: bool | None = None) -> go.Figure:
    """‖J‖ against ‖x‖ with the line √d/‖y‖ (Lemma 3): columns size, value, predicted; `size` is ringed."""
    rows, _ = drawable(table, positive=True)
    if not has(rows, "size", "value"):
        return empty("There is no Jacobian to look at here.", lecture, note)
    fig, part = Canvas(lecture), rows.sort_values("size")
    x, y = part["size"].tolist(), part["value"].tolist()
    mark = {"color": BLUE, "symbol": "square", "size": fig.size.marker}
    hover = "‖x‖ = %{x:.4g}: %{y:.4g}<extra></extra>"
    fig.add_scatter(x=x, y=y, mode="markers", marker=mark, name="measured", uid="J", hovertemplate=hover)
    if "predicted" in part.columns:
        line, predicted = {"color": INK, "width": fig.size.thin}, part["predicted"].tolist()
        fig.add_scatter(x=x, y=predicted, mode="lines", line=line, name="√d/‖y‖ (Lemma 3)", uid="lemma")
    if size is not None:
        near = int(np.abs(np.log(np.asarray(x) / size)).argmin())
        fig.add_ring([x[near]], [y[near]], "your x")
    fig.update_xaxes(title="‖x‖", **log_axis(x, room=10))
    fig.update_yaxes(title="‖J‖, largest singular value", **log_axis(y))
    title, fitted = f"‖J‖ = {number(y[0])} at ‖x‖ = {number(x[0])}", slope(x, y)
    if fitted is not None:
        title = f"‖J‖ falls as ‖x‖ to the power {fixed(fitted)}: twice the input, {fixed(2**fitted)}× the gradient"
    ends = f"{number(y[0])} at {number(x[0])}, {number(y[-1])} at {number(x[-1])}"
    kind = "Scatter plot with log axes, horizontal norm of x, vertical norm of the Jacobian"
    return finish(fig, title, kind, ends, note=note)
