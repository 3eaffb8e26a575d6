"""Mean-field figures: Theorem 1 beside what it bounds, signal and gradient side by side, and Definition 1's ε and δ."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.boundedness import least_delta, probability_by_epsilon
from lntutor.figures.canvas import Canvas, scatter
from lntutor.figures.checked import checked
from lntutor.figures.parts import (
    Means,
    curves,
    drawable,
    empty,
    finish,
    has,
    left_out,
    listed,
    log_axis,
    marks,
    ring,
    sentence,
    spread_words,
    theory_key,
    theory_line,
)
from lntutor.figures.scaling import measured_ticks, slope
from lntutor.figures.style import (
    GREY,
    INK,
    Sizes,
    fixed,
    number,
    placement_label,
    placement_style,
    safe,
    sizes,
)
from lntutor.theory import theorem_probability

AXES = {"depth": "Depth L", "width": "Width d"}
ALPHA = 0.1  # α₀ in the proof of Theorem 1
EPSILONS = np.round(np.arange(0.01, 0.505, 0.01), 2)


# Theorem 1 and what it bounds ----------------------------------------------------------------------------------


@checked
def theorem(
    measured: pd.DataFrame,
    theory: pd.DataFrame | None = None,
    closed: pd.DataFrame | None = None,
    bound: pd.DataFrame | None = None,
    *,
    along: str = "depth",
    chosen: int | None = None,
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """The last layer's ‖∂L/∂W_2‖ against depth or width: measured, by the recursion, in closed form, and its bound.

    Tables have the columns placement, depth, width and value; `measured` also seed. `chosen` is ringed.
    """
    rows, hidden = drawable(measured, positive=True)
    if not has(rows, "placement", along):
        return empty("There are no gradients to draw here.", lecture, note)
    fig, size = Canvas([""], lecture), sizes(lecture)
    expected, simple, above = (drawable(table, positive=True)[0] for table in (theory, closed, bound))
    slopes = {key: slope(means.at, means.mean) for key, _, means in _curves(rows, along)}
    recursion = {key: slope(means.at, means.mean) for key, _, means in _curves(expected, along)}
    for key, _, means in _curves(rows, along):
        hover = f"{along} %{{x}}: %{{y:.4g}}<extra>%{{fullData.name}}</extra>"
        named = {"name": f"{placement_label(key)}, measured", "uid": f"measured/{key}", "hovertemplate": hover}
        fig.add_trace(marks(means, placement_style(key), size, joined=not len(expected), **named))
    for key, _, line in _curves(expected, along):
        fig.add_trace(theory_line(line.at.tolist(), line.mean.tolist(), key, size, uid=f"theory/{key}"))
    if len(expected):
        fig.add_trace({**theory_key(size), "name": "recursion"})
    _draw_closed(fig, simple, along, size)
    bounds = _draw_bound(fig, above, along, size)
    if chosen is not None:
        here = [float(m.mean[m.at == chosen][0]) for _, _, m in _curves(rows, along) if chosen in m.at]
        fig.add_trace(ring([chosen] * len(here), here, size, f"{AXES[along][-1]} = {chosen}"))
    places = sorted({int(v) for v in rows[along]})
    fig.update_xaxes(title=AXES[along], **measured_ticks(places))
    every = np.concatenate([table["value"].to_numpy(float) for table in (rows, expected, simple, above) if len(table)])
    fig.update_yaxes(title=f"‖∂L/∂W<sub>2</sub>‖, last layer<br>({spread_words(rows)})", **log_axis(every, room=8))
    title = _theorem_title(rows, slopes, recursion, along)
    ends = [
        f"{placement_label(k)}: {number(m.mean[0])} at {m.at[0]}, {number(m.mean[-1])} at {m.at[-1]}"
        for k, _, m in _curves(rows, along)
    ]
    alt = sentence(
        f"Scatter plot with log axes. Horizontal axis: {AXES[along]}, {places[0]} to {places[-1]}. Vertical axis: norm "
        f"of the gradient of W_2 in the last layer, {spread_words(rows)}",
        title,
        "; ".join(ends),
        "The recursion is drawn as thin lines" if len(expected) else "",
        "Hollow marks are √(d/(2nq)) with the measured q" if len(simple) else "",
        f"Theorem 1's bound lies above: {bounds}" if bounds else "",
        left_out(hidden),
    )
    return finish(fig, title, alt, lecture=lecture, note=note)


def _curves(table: pd.DataFrame, along: str) -> list[tuple[str, str, Means]]:
    """One curve a placement, whatever blocks the table has."""
    return curves(table.drop(columns="block", errors="ignore"), along)


def _draw_closed(fig: Canvas, table: pd.DataFrame, along: str, size: Sizes) -> None:
    """Hollow marks, one look for both placements: the formula is one."""
    x = [float(at) for _, _, means in _curves(table, along) for at in means.at]
    y = [float(value) for _, _, means in _curves(table, along) for value in means.mean]
    if x:
        mark = {"symbol": "diamond-open", "size": size.marker * 1.5, "color": INK, "line": {"width": size.thin}}
        fig.add_trace(scatter(x=x, y=y, mode="markers", marker=mark, name="√(d/(2nq)), q measured", uid="closed"))


def _draw_bound(fig: Canvas, table: pd.DataFrame, along: str, size: Sizes) -> str:
    """The bound of each placement as a broad grey line with its dash, and its ends in words."""
    words = []
    for key, _, means in _curves(table, along):
        line = {"color": GREY, "dash": placement_style(key)["dash"], "width": 2 * size.line}
        fitted = slope(means.at, means.mean)
        name = f"{placement_label(key)}, bound" + ("" if fitted is None else f" (slope {fixed(fitted)})")
        mark = {"color": GREY, "symbol": "line-ew-open", "size": size.marker, "line": {"width": 2 * size.line}}
        look = {"mode": "lines" if len(means.at) > 1 else "markers", "line": line, "marker": mark}
        fig.add_trace(scatter(x=means.at.tolist(), y=means.mean.tolist(), **look, name=name, uid=f"bound/{key}"))
        words.append(f"{placement_label(key)} {number(means.mean[0])} to {number(means.mean[-1])}")
    return "; ".join(words)


def _theorem_title(rows: pd.DataFrame, slopes: dict, recursion: dict, along: str) -> str:
    first, last = int(rows[along].min()), int(rows[along].max())
    if first == last:
        values = [(placement_label(k), float(m.mean[0])) for k, _, m in _curves(rows, along)]
        return f"Last layer at {AXES[along][-1]} = {first}: gradient norm {listed(values, number)}"
    parts = [
        f"{placement_label(key)} {fixed(fitted)}"
        + (f" (recursion {fixed(recursion[key])})" if recursion.get(key) is not None else "")
        for key, fitted in slopes.items()
    ]
    return f"Last layer, {AXES[along][-1]} = {first} to {last}, log–log slope: {', '.join(parts)}"


# Two columns of layers -----------------------------------------------------------------------------------------


@checked
def side_by_side(
    left: pd.DataFrame,
    right: pd.DataFrame,
    left_theory: pd.DataFrame | None = None,
    right_theory: pd.DataFrame | None = None,
    *,
    names: tuple[str, str],
    along: tuple[str, str] = ("layer", "layer"),
    value: str,
    title: str,
    chosen: int | None = None,
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """Two tables with one shared axis of values, places upwards as the network stands; `chosen` is ringed in both.

    `along` names the column of places of each, such as ("layer", "depth").
    """
    tables = [drawable(table, positive=True)[0] for table in (left, right)]
    if not all(has(table, "placement", place) for table, place in zip(tables, along, strict=True)):
        return empty("There is nothing to compare here.", lecture, note)
    fig, size, words = Canvas([safe(n) for n in names], lecture, shared="x", gap=0.12), sizes(lecture), []
    for col, (table, theory, place) in enumerate(zip(tables, (left_theory, right_theory), along, strict=True), 1):
        expected = drawable(theory, positive=True)[0]
        for key, _, line in _curves(expected, place):
            fig.add_trace(
                theory_line(line.mean.tolist(), line.at.tolist(), key, size, uid=f"theory/{key}/{col}"), 1, col
            )
        for key, _, means in _curves(table, place):
            hover = f"{place} %{{y}}: %{{x:.4g}}<extra>%{{fullData.name}}</extra>"
            named = {"name": placement_label(key), "uid": f"{key}/{col}", "legendgroup": key, "hovertemplate": hover}
            look = {"upright": True, "joined": not len(expected), "showlegend": col == 1}
            fig.add_trace(marks(means, placement_style(key), size, **look, **named), 1, col)
            ends = f"{number(means.mean[0])} at {place} {means.at[0]}, {number(means.mean[-1])} at {means.at[-1]}"
            words.append(f"{names[col - 1]}, {placement_label(key)}: {ends}")
        if chosen is not None:
            x = [float(m.mean[m.at == chosen][0]) for _, _, m in _curves(table, place) if chosen in m.at]
            mark = ring(x, [chosen] * len(x), size, f"{place} {chosen}")
            fig.add_trace({**mark, "showlegend": False, "uid": f"chosen/{col}"}, 1, col)
        last = int(table[place].max())
        step = -(-last // 12)
        ticks = [t for t in range(int(table[place].min()), last + 1) if (last - t) % step == 0]
        fig.update_yaxes(title=place.capitalize(), tickvals=ticks, col=col)
    if any(has(theory, "value") for theory in (left_theory, right_theory)):
        fig.add_trace({**theory_key(size), "name": "recursion"})
    every = np.concatenate([table["value"].to_numpy(float) for table in tables])
    fig.update_xaxes(title=safe(value), **log_axis(every, room=5))
    alt = sentence(
        f"Two plots side by side with one logarithmic axis of values: {value}, {spread_words(tables[0])}. "
        f"Left: {names[0]}. Right: {names[1]}",
        title,
        "; ".join(words),
    )
    return finish(fig, safe(title), alt, lecture=lecture, note=note)


# Definition 1 --------------------------------------------------------------------------------------------------


@checked
def bounded(table: pd.DataFrame, *, epsilon: float = 0.1, note: str = "", lecture: bool | None = None) -> go.Figure:
    """Left: the histogram of Z/EZ with 1 + ε and α₀. Right: Theorem 1's probability for every ε, with least δ.

    `table` has the columns placement and value, such as `boundedness.last_norm_inputs` gives.
    """
    rows, hidden = drawable(table, positive=True)
    if not has(rows, "placement"):
        return empty("There are no norms to draw here.", lecture, note)
    fig = Canvas(["how far Z strays from its mean", "what the theorem promises"], lecture, gap=0.14)
    size, found = sizes(lecture), []
    for key, part in rows.groupby("placement", sort=False):
        delta, ratio = least_delta(part["value"], epsilon), (part["value"] / part["value"].mean()).to_numpy()
        promised = theorem_probability(epsilon, delta)
        _draw_histogram(fig, key, ratio, 1 + epsilon, size)
        _draw_promise(fig, key, probability_by_epsilon(part, EPSILONS), (epsilon, promised), size)
        found.append((placement_label(key), delta, promised, float(ratio.min())))
    _cut(fig, 1 + epsilon, "1 + ε", "dash", size)
    _cut(fig, ALPHA, "α₀ = 1/10", "dot", size, below=True)  # a narrow page has no room for both side by side
    fig.update_xaxes(title="Z / E Z", range=[0, 2], col=1)
    fig.update_yaxes(title="share of positions", rangemode="tozero", col=1)
    fig.update_xaxes(title="ε", range=[0, 0.5], col=2)
    fig.update_yaxes(title="probability, at least", range=[0, 1], col=2)
    parts = [f"{name} δ = {delta:.3f}, promise {promised:.3f}" for name, delta, promised, _ in found]
    title = f"ε = {epsilon:.2f}: {'; '.join(parts)}"
    least = "; ".join(f"{name}: least Z/EZ {low:.2f}" for name, _, _, low in found)
    alt = sentence(
        "Left: histogram of Z divided by its mean. Right: the probability that Theorem 1 promises against ε",
        title,
        least,
        left_out(hidden),
    )
    return finish(fig, title, alt, lecture=lecture, note=note)


def _steps(ratio: np.ndarray, width: float = 0.04) -> tuple[list[float], list[float]]:
    """The outline of a histogram of shares, over bins that reach from 0 beyond the largest value."""
    edges = np.arange(0, max(2.0, float(ratio.max())) + 2 * width, width)
    share = np.histogram(ratio, edges)[0] / len(ratio)
    return np.repeat(edges, 2)[1:-1].round(10).tolist(), np.repeat(share, 2).tolist()


def _draw_histogram(fig: Canvas, key: str, ratio: np.ndarray, start: float, size: Sizes) -> None:
    """The outline, and what lies beyond `start` filled: its area is δ, up to the bin that is cut."""
    style, (x, y) = placement_style(key), _steps(ratio)
    line = {"color": style["color"], "dash": style["dash"], "width": size.line}
    same = {"mode": "lines", "legendgroup": key, "hoverinfo": "skip"}
    fig.add_trace(scatter(x=x, y=y, line=line, name=placement_label(key), uid=f"histogram/{key}", **same))
    first = next((i for i, place in enumerate(x) if place > start), len(x) - 1)
    beyond = {"x": [start, *x[first:]], "y": [y[first], *y[first:]], "fill": "tozeroy", "opacity": 0.35}
    none = {"width": 0, "color": style["color"]}
    fig.add_trace(scatter(**beyond, line=none, showlegend=False, uid=f"beyond/{key}", **same))


def _draw_promise(fig: Canvas, key: str, curve: pd.DataFrame, here: tuple[float, float], size: Sizes) -> None:
    """Theorem 1's probability for every ε, and a mark at the chosen one."""
    style = placement_style(key)
    line = {"color": style["color"], "dash": style["dash"], "width": size.line}
    mark = {"symbol": style["symbol"], "color": style["color"], "size": 1.3 * size.marker}
    hover = "ε = %{x}: at least %{y:.3f}<extra>%{fullData.name}</extra>"
    same = {"name": placement_label(key), "legendgroup": key, "showlegend": False, "hovertemplate": hover}
    x, y = curve["epsilon"].tolist(), curve["value"].tolist()
    fig.add_trace(scatter(x=x, y=y, mode="lines", line=line, uid=f"probability/{key}", **same), 1, 2)
    fig.add_trace(scatter(x=[here[0]], y=[here[1]], mode="markers", marker=mark, uid=f"here/{key}", **same), 1, 2)


def _cut(fig: Canvas, x: float, words: str, dash: str, size: Sizes, below: bool = False) -> None:
    """An upright line through the histogram, with its name at the top, or a line below that."""
    line = {"color": INK, "width": size.thin, "dash": dash}
    fig.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, xref="x", yref="y domain", line=line)
    fig.add_annotation(
        x=x, y=0.86 if below else 0.99, xref="x", yref="y domain",
        text=words, showarrow=False, xanchor="left", xshift=5, yanchor="top",
        font={"size": size.small}, bgcolor="rgba(255,255,255,0.8)",
    )  # fmt: skip
