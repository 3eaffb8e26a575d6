"""Mean-field figures: Theorem 1 beside what it bounds, signal and gradient side by side, and Definition 1's ε and δ."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.depth_and_width import AXES, last_layer_kind, measured_ticks, slope
from lntutor.figures.drawing import empty, finish, listed, log_axis, with_zeros
from lntutor.figures.style import GREY, INK, fixed, number, placement_label, placement_style, safe
from lntutor.figures.tables import Table, curves_by_placement, drawable, has, spread, values_at
from lntutor.model.checks import check_choice
from lntutor.theory.paper import least_delta, probability_by_epsilon, theorem_probability

ALPHA = 0.1  # α₀ in the proof of Theorem 1
EPSILONS = np.round(np.arange(0.01, 0.505, 0.01), 2)


# Theorem 1 and what it bounds ----------------------------------------------------------------------------------


def theorem(
    measured: Table, theory: Table = None, closed: Table = None, bound: Table = None, *, along: str = "depth",
    chosen: int | None = None, note: str = "", lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """The last layer's ‖∂L/∂W_2‖ against depth or width: measured, by the recursion, in closed form, and its bound.

    Tables have the columns placement, depth, width and value; `measured` also seed. `chosen` is ringed.
    """
    check_choice("along", along, tuple(AXES))
    rows, left = drawable(measured, positive=True)
    if not has(rows, "placement", along):
        return empty(left.why_empty("There are no gradients to draw here."), lecture, note)
    expected, simple, above = (drawable(table, positive=True)[0] for table in (theory, closed, bound))
    fig = Canvas(lecture)
    _draw_measured(fig, rows, expected, along)
    _draw_closed(fig, simple, along)
    bounds = _draw_bound(fig, above, along)
    if chosen is not None:
        here = values_at(curves_by_placement(rows, along), chosen)
        fig.add_ring([chosen] * len(here), here, f"{AXES[along][-1]} = {chosen}")
    fig.update_xaxes(title=AXES[along], **measured_ticks(rows[along]))
    every = [value for table in (rows, expected, simple, above) for value in table["value"]]
    fig.update_yaxes(title=f"‖∂L/∂W<sub>2</sub>‖, last layer<br>({spread(rows)})", **log_axis(every, room=8))
    title = with_zeros(_theorem_title(rows, expected, along), measured, along)
    kind = last_layer_kind(rows, along, AXES[along], "W_2")
    thin = "The recursion is drawn as thin lines" if len(expected) else ""
    hollow = "Hollow marks are √(d/(2nq)) with the measured q" if len(simple) else ""
    return finish(fig, title, kind, "; ".join(_ends(rows, along)), thin, hollow, bounds, left.sentence(), note=note)


def _draw_measured(fig: Canvas, rows: pd.DataFrame, expected: pd.DataFrame, along: str) -> None:
    """The means as marks, and the recursion as thin lines over them."""
    for key, means in curves_by_placement(rows, along):
        hover = f"{along} %{{x}}: %{{y:.4g}}<extra>%{{fullData.name}}</extra>"
        named = {"name": f"{placement_label(key)}, measured", "uid": f"measured/{key}", "hovertemplate": hover}
        fig.add_marks(means, key, joined=not len(expected), **named)
    for key, line in curves_by_placement(expected, along):
        fig.add_theory(line.at.tolist(), line.mean.tolist(), key, uid=f"theory/{key}")
    if len(expected):
        fig.name_theory("recursion")


def _draw_closed(fig: Canvas, table: pd.DataFrame, along: str) -> None:
    """Hollow marks, one look for both placements: the formula is the same."""
    parts = [means for _, means in curves_by_placement(table, along)]
    if parts:
        x, y = (np.concatenate([means[i] for means in parts]).tolist() for i in (0, 1))
        mark = {"symbol": "diamond-open", "size": fig.size.marker * 1.5, "color": INK, "line": {"width": fig.size.thin}}
        fig.add_scatter(x=x, y=y, mode="markers", marker=mark, name="√(d/(2nq)), q measured", uid="closed")


def _draw_bound(fig: Canvas, table: pd.DataFrame, along: str) -> str:
    """The bound of each placement as a broad grey line with its dash; a sentence on its ends."""
    ends, broad = [], 2 * fig.size.line
    for key, means in curves_by_placement(table, along):
        line = {"color": GREY, "dash": placement_style(key)["dash"], "width": broad}
        fitted = slope(means.at, means.mean)
        name = f"{placement_label(key)}, bound" + ("" if fitted is None else f" (slope {fixed(fitted)})")
        mark = {"color": GREY, "symbol": "line-ew-open", "size": fig.size.marker, "line": {"width": broad}}
        look = {"mode": "lines" if len(means.at) > 1 else "markers", "line": line, "marker": mark}
        fig.add_scatter(x=means.at.tolist(), y=means.mean.tolist(), **look, name=name, uid=f"bound/{key}")
        ends.append(f"{placement_label(key)} {number(means.mean[0])} to {number(means.mean[-1])}")
    return f"Theorem 1's bound lies above: {'; '.join(ends)}" if ends else ""


def _theorem_title(rows: pd.DataFrame, expected: pd.DataFrame, along: str) -> str:
    """Each placement's slope beside the recursion's; if there is only one depth or width, the values themselves."""
    first, last, drawn = int(rows[along].min()), int(rows[along].max()), curves_by_placement(rows, along)
    if first == last:
        values = [(placement_label(key), float(means.mean[0])) for key, means in drawn]
        return f"Last layer at {AXES[along][-1]} = {first}: gradient norm {listed(values, number)}"
    recursion = {key: slope(means.at, means.mean) for key, means in curves_by_placement(expected, along)}
    parts = []
    for key, means in drawn:
        fitted, predicted = slope(means.at, means.mean), recursion.get(key)
        if fitted is not None:
            more = "" if predicted is None else f" (recursion {fixed(predicted)})"
            parts.append(f"{placement_label(key)} {fixed(fitted)}{more}")
    return f"Last layer, {AXES[along][-1]} = {first} to {last}, log–log slope: {', '.join(parts)}"


def _ends(rows: pd.DataFrame, along: str, noun: str = "") -> list[str]:
    """Both ends of every curve, in words."""
    return [
        f"{placement_label(key)}: {number(m.mean[0])} at {noun}{m.at[0]}, {number(m.mean[-1])} at {m.at[-1]}"
        for key, m in curves_by_placement(rows, along)
    ]


# Two columns of layers -----------------------------------------------------------------------------------------


def side_by_side(
    left: Table, right: Table, left_theory: Table = None, right_theory: Table = None, *, names: tuple[str, str],
    along: tuple[str, str] = ("layer", "layer"), value: str, title: str, chosen: int | None = None, note: str = "",
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """Two tables with one shared axis of values, places upwards as the network stands; `chosen` is ringed in both.

    `along` names the column of places of each, such as ("layer", "depth").
    """
    (first, lost), (second, also_lost) = (drawable(table, positive=True) for table in (left, right))
    if not (has(first, "placement", along[0]) and has(second, "placement", along[1])):
        return empty("There is nothing to compare here.", lecture, note)
    fig, ends = Canvas(lecture, [safe(name) for name in names], shared="x", gap=0.12), []
    for column, (table, theory) in enumerate(((first, left_theory), (second, right_theory)), 1):
        expected, place = drawable(theory, positive=True)[0], along[column - 1]
        _draw_column(fig, column, table, expected, place, chosen)
        ends += [f"{names[column - 1]}, {end}" for end in _ends(table, place, f"{place} ")]
    if has(left_theory, "value") or has(right_theory, "value"):
        fig.name_theory("recursion")
    fig.update_xaxes(title=safe(value), **log_axis([*first["value"], *second["value"]], room=5))
    sides = f"Left: {names[0]}. Right: {names[1]}"
    kind = f"Two plots side by side, one logarithmic axis: {value}, {spread(first)}. {sides}"
    return finish(fig, safe(title), kind, "; ".join(ends), lost.sentence(), also_lost.sentence(), note=note)


def _draw_column(fig: Canvas, column: int, table: pd.DataFrame, expected: pd.DataFrame, place: str, chosen) -> None:
    """Theory, the means over it, and a ring around the chosen place; whole numbers on the axis of places."""
    for key, line in curves_by_placement(expected, place):
        fig.add_theory(line.mean.tolist(), line.at.tolist(), key, 1, column, uid=f"theory/{key}/{column}")
    drawn = curves_by_placement(table, place)
    for key, means in drawn:
        hover = f"{place} %{{y}}: %{{x:.4g}}<extra>%{{fullData.name}}</extra>"
        named = {"name": placement_label(key), "uid": f"{key}/{column}", "legendgroup": key, "hovertemplate": hover}
        fig.add_marks(means, key, 1, column, upright=True, joined=not len(expected), showlegend=column == 1, **named)
    if chosen is not None:
        x = values_at(drawn, chosen)
        named = {"showlegend": False, "uid": f"chosen/{column}"}
        fig.add_ring(x, [chosen] * len(x), f"{place} {chosen}", column, **named)
    last = int(table[place].max())
    step = -(-last // 12)
    ticks = [t for t in range(int(table[place].min()), last + 1) if (last - t) % step == 0]
    fig.update_yaxes(title=place.capitalize(), tickvals=ticks, col=column)


# Definition 1 --------------------------------------------------------------------------------------------------


def bounded(table: Table, *, epsilon: float = 0.1, note: str = "", lecture: bool | None = None) -> go.Figure:
    """Left: the histogram of Z/EZ with 1 + ε and α₀. Right: Theorem 1's probability for every ε, with least δ.

    `table` has the columns placement and value, such as `boundedness.last_norm_inputs` gives.
    """
    rows, left = drawable(table, positive=True)
    if not has(rows, "placement"):
        return empty(left.why_empty("There are no norms to draw here."), lecture, note)
    fig = Canvas(lecture, ["how far Z strays from its mean", "what the theorem promises"], gap=0.14)
    found = []
    for key, part in rows.groupby("placement", sort=False):
        delta, ratio = least_delta(part["value"], epsilon), (part["value"] / part["value"].mean()).to_numpy()
        promised = theorem_probability(epsilon, delta)
        _draw_histogram(fig, str(key), ratio, 1 + epsilon)
        _draw_promise(fig, str(key), probability_by_epsilon(part, EPSILONS), (epsilon, promised))
        found.append((placement_label(str(key)), delta, promised, float(ratio.min())))
    _cut(fig, 1 + epsilon, "1 + ε", "dash")
    _cut(fig, ALPHA, "α₀ = 1/10", "dot", below=True)  # a narrow page has no room for both side by side
    fig.update_xaxes(title="Z / E Z", range=[0, 2], col=1)
    fig.update_yaxes(title="share of positions", rangemode="tozero", col=1)
    fig.update_xaxes(title="ε", range=[0, 0.5], col=2)
    fig.update_yaxes(title="probability, at least", range=[0, 1], col=2)
    parts = [f"{name} δ = {delta:.3f}, promise {promised:.3f}" for name, delta, promised, _ in found]
    title = f"ε = {epsilon:.2f}: {'; '.join(parts)}"
    least = "; ".join(f"{name}: least Z/EZ {low:.2f}" for name, _, _, low in found)
    kind = "Left: histogram of Z divided by its mean. Right: the probability that Theorem 1 promises against ε"
    return finish(fig, title, kind, least, left.sentence(), note=note)


def _steps(ratio: np.ndarray, width: float = 0.04) -> tuple[list[float], list[float]]:
    """The outline of a histogram of shares, over bins that reach from 0 beyond the largest value."""
    edges = np.arange(0, max(2.0, float(ratio.max())) + 2 * width, width)
    share = np.histogram(ratio, edges)[0] / len(ratio)
    return np.repeat(edges, 2)[1:-1].round(10).tolist(), np.repeat(share, 2).tolist()


def _draw_histogram(fig: Canvas, key: str, ratio: np.ndarray, start: float) -> None:
    """The outline, and what lies beyond `start` filled: its area is δ, up to the bin that is cut."""
    style, (x, y) = placement_style(key), _steps(ratio)
    line = {"color": style["color"], "dash": style["dash"], "width": fig.size.line}
    same = {"mode": "lines", "legendgroup": key, "hoverinfo": "skip"}
    fig.add_scatter(x=x, y=y, line=line, name=placement_label(key), uid=f"histogram/{key}", **same)
    first = next((i for i, place in enumerate(x) if place > start), len(x) - 1)
    beyond = {"x": [start, *x[first:]], "y": [y[first], *y[first:]], "fill": "tozeroy", "opacity": 0.35}
    fig.add_scatter(**beyond, **same, line={"width": 0, "color": style["color"]}, showlegend=False, uid=f"beyond/{key}")


def _draw_promise(fig: Canvas, key: str, curve: pd.DataFrame, here: tuple[float, float]) -> None:
    """Theorem 1's probability for every ε, and a mark at the chosen one."""
    style = placement_style(key)
    line = {"color": style["color"], "dash": style["dash"], "width": fig.size.line}
    mark = {"symbol": style["symbol"], "color": style["color"], "size": 1.3 * fig.size.marker}
    hover = "ε = %{x}: at least %{y:.3f}<extra>%{fullData.name}</extra>"
    same = {"name": placement_label(key), "legendgroup": key, "showlegend": False, "hovertemplate": hover}
    x, y = curve["epsilon"].tolist(), curve["value"].tolist()
    fig.add_scatter(1, 2, x=x, y=y, mode="lines", line=line, uid=f"probability/{key}", **same)
    fig.add_scatter(1, 2, x=[here[0]], y=[here[1]], mode="markers", marker=mark, uid=f"here/{key}", **same)


def _cut(fig: Canvas, x: float, name: str, dash: str, below: bool = False) -> None:
    """An upright line through the histogram, with its name at the top, or a line below that."""
    line = {"color": INK, "width": fig.size.thin, "dash": dash}
    fig.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, xref="x", yref="y domain", line=line)
    fig.add_annotation(
        x=x, y=0.86 if below else 0.99, xref="x", yref="y domain", text=name, xanchor="left", xshift=5, yanchor="top",
        font={"size": fig.size.small}, bgcolor="rgba(255,255,255,0.8)",
    )  # fmt: skip
