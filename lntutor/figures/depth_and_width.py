"""How gradients change with depth, with width and from setting to setting, on log axes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.drawing import Pinned, empty, finish, listed, log_axis, pinned_rows, row_axis, with_zeros, within
from lntutor.figures.layers import LAYER_TITLE
from lntutor.figures.style import fixed, number, parameter_name, placement_label, safe
from lntutor.figures.tables import Table, curve_name, curves, drawable, has, sides_of, spread, values_at

AXES = {"depth": "Depth L", "width": "Width d"}
Slopes = dict[tuple[str, str], tuple[float | None, float | None]]  # (placement, block) → (measured, theory's)


def gradient_by_depth(
    measured: Table, theory: Table = None, *, parameter: str = "W_2", depth: int | None = None, pinned: Pinned = (),
    note: str = "", lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """The last layer's ‖∂L/∂W‖ against the depth of the model (Xiong et al. 2020, Fig. 3c,d); `depth` is ringed."""
    return _gradient_by(measured, theory, "depth", parameter, depth, pinned, note, lecture)


def gradient_by_width(
    measured: Table, theory: Table = None, *, parameter: str = "W_2", width: int | None = None, pinned: Pinned = (),
    note: str = "", lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """The last layer's ‖∂L/∂W‖ against the width; `width` is ringed. Its size is set by the loss's head."""
    return _gradient_by(measured, theory, "width", parameter, width, pinned, note, lecture)


def values_by_row(
    measured: Table, *, row: str, what: str, line: float | None = 1.0, note: str = "", lecture: bool | None = None
) -> go.Figure:
    """A positive quantity in several settings or layers, one row each, with its spread and a line to compare with.

    Rows that are words stand in the table's order, the first on top; numbers stand as layers do, the least at the
    bottom. Columns of the table: placement, seed, value and the one named by `row`.
    """
    rows, left = drawable(measured if has(measured, row, "placement", "value") else None, positive=True)
    if not len(rows):
        return empty(left.why_empty(f"There is nothing to show by {row}."), lecture, note)
    fig, names = Canvas(lecture), _row_order(rows[row])
    placed = rows.assign(place=rows[row].map({name: i for i, name in enumerate(names)}))
    drawn = [(key, means) for key, _, means in curves(placed.drop(columns="block", errors="ignore"), "place")]
    beside = min(0.16, 0.6 / len(drawn)) if placed.groupby("place")["placement"].nunique().max() > 1 else 0
    for i, (key, means) in enumerate(drawn):
        shifted = means._replace(at=means.at + beside * ((len(drawn) - 1) / 2 - i))  # beside each other, not over
        named = {"name": placement_label(key), "uid": f"measured/{key}"}
        fig.add_marks(shifted, key, upright=True, hovertemplate="%{x:.4g}<extra>%{fullData.name}</extra>", **named)
    if line is not None:
        fig.add_level(line, len(names))
    every = [*rows["value"], *([line] if line is not None else [])]
    fig.update_xaxes(title=f"{safe(what)}<br>({spread(rows)})", **log_axis(every, room=9))
    fig.update_yaxes(title=LAYER_TITLE if row == "layer" else "", **row_axis(names))
    title, ends = _row_finding(drawn, names, what)
    kind = f"Dot plot, one row for each {row}. Horizontal axis: {what}, logarithmic, {spread(rows)}"
    return finish(fig, title, kind, ends, left.sentence(), note=note, height=max(200, 90 + 42 * len(names)))


def _row_order(values: pd.Series) -> list:
    """The rows from the bottom up."""
    names = list(dict.fromkeys(values))
    return sorted(names) if pd.api.types.is_numeric_dtype(values) else names[::-1]


def _row_finding(drawn: list, names: list, what: str) -> tuple[str, str]:
    """The least and the greatest row of every placement, and all rows in words."""
    spans, every = [], []
    for key, means in drawn:
        label, values = placement_label(key), [number(v) for v in means.mean]
        low, high = values[int(np.argmin(means.mean))], values[int(np.argmax(means.mean))]
        spans.append(f"{label} {low}" + (f" to {high}" if low != high else ""))
        every.append(f"{label}: " + ", ".join(f"{v} ({safe(names[i])})" for v, i in zip(values, means.at, strict=True)))
    return f"{safe(what)}: {'; '.join(spans)}", "; ".join(every)


def slope(x: Iterable[float], y: Iterable[float]) -> float | None:
    """The exponent of a power law fitted to points, None for fewer than two."""
    at, values = np.asarray(list(x), float), np.asarray(list(y), float)
    if len(set(at.tolist())) < 2:
        return None
    return float(np.polyfit(np.log(at), np.log(values), 1)[0])


def _gradient_by(measured, theory, along: str, parameter: str, chosen, pinned, note, lecture) -> go.Figure:
    table = _last(measured, parameter)
    rows, left = drawable(table, positive=True)
    if not len(rows):
        none = f"There are no gradients of {parameter} here."
        return empty(left.why_empty(none, f"gradients of {parameter}"), lecture, note)
    expected, _ = drawable(_last(theory, parameter), positive=True)
    fig = Canvas(lecture)
    before = pinned_rows(pinned, lambda table: _last(table, parameter))
    for label, pin, part in before:
        _draw_curves(fig, part, expected, along, pin, label)
    slopes = _draw_curves(fig, rows, expected, along)
    for key, block, line in curves(expected, along):
        named = {"uid": f"theory/{key}/{block}", "legendgroup": f"{key}/{block}", "name": "theory"}
        fig.add_theory(line.at.tolist(), line.mean.tolist(), key, **named)
    if len(expected):
        fig.name_theory()
    if chosen is not None:  # the model that another view shows layer by layer
        means = values_at(curves(rows, along), chosen)
        fig.add_ring([chosen] * len(means), means, f"{along} {chosen}")
    fig.update_xaxes(title=AXES[along], **measured_ticks(rows[along]))
    every = np.concatenate([rows["value"], *(part["value"] for *_, part in before)])
    what = f"‖∂L/∂{parameter_name(parameter)}‖ of the last layer<br>({spread(rows)})"
    fig.update_yaxes(title=what, **log_axis(within(every, expected), room=8))
    title = with_zeros(_finding(rows, slopes, along), table, along)
    kind = last_layer_kind(rows, along, along, parameter)
    return finish(fig, title, kind, _ends(rows, slopes, along), left.sentence(), note=note)


def last_layer_kind(rows: pd.DataFrame, along: str, name: str, parameter: str) -> str:
    """What kind of plot this is, and its axes, in words."""
    across = f"Horizontal axis: {name}, {rows[along].min()} to {rows[along].max()}"
    upright = f"Vertical axis: norm of the gradient of {parameter} in the last layer, {spread(rows)}"
    return f"Scatter plot with log axes. {across}. {upright}"


def _last(table: Table, parameter: str) -> Table:
    """The last layer of the last side."""
    if not has(table, "parameter", "side", "layer", "depth", "width", "value"):
        return None
    here = (table["parameter"] == parameter) & (table["layer"] == table["depth"])
    return table[here & (table["side"] == sides_of(table)[-1])]


def _draw_curves(
    fig: Canvas, rows: pd.DataFrame, expected: pd.DataFrame, along: str, pin: str = "", label: str = ""
) -> Slopes:
    """Marks of every curve, with slopes in the legend."""
    with_block, slopes = rows["block"].nunique() > 1, {}
    theory = {(key, block): means for key, block, means in curves(expected, along)}
    for key, block, means in curves(rows, along):
        fitted, same = slope(means.at, means.mean), theory.get((key, block))
        shared = None if same is None else np.isin(same.at, means.at)
        predicted = None if same is None else slope(same.at[shared], same.mean[shared])
        slopes[key, block] = fitted, predicted
        name = label + curve_name(key, block, with_block)
        if fitted is not None:
            name += f", slope {fixed(fitted)}" + (f" (theory {fixed(predicted)})" if predicted is not None else "")
        fig.add_marks(
            means, key, hollow=block == "cross", faint=bool(pin), joined=bool(pin) or same is None, name=name,
            uid=f"{pin}measured/{key}/{block}", legendgroup=f"{pin}{key}/{block}",
            hovertemplate=f"{along} %{{x}}: %{{y:.4g}}<extra>%{{fullData.name}}</extra>",
        )  # fmt: skip
    return slopes


def measured_ticks(places: Iterable[float]) -> dict:
    """A log axis with ticks at places that were measured, thinned until they do not touch."""
    values = sorted({float(v) for v in places})
    low, high = np.log10(values[0]), np.log10(values[-1])
    gap, kept = max((high - low) * 0.05, 0.02), []
    for value in values:
        if not kept or np.log10(value) - np.log10(kept[-1]) >= gap:
            kept.append(value)
    pad = max((high - low) * 0.05, 0.05)
    return {"type": "log", "tickvals": kept, "ticktext": [f"{v:g}" for v in kept], "range": [low - pad, high + pad]}


def _finding(rows: pd.DataFrame, slopes: Slopes, along: str) -> str:
    """The slope of each placement's first block; if there is only one depth or width, the values themselves."""
    first = {}
    for (key, _), (fitted, _) in slopes.items():
        if fitted is not None:
            first.setdefault(key, (placement_label(key), fitted))
    side = sides_of(rows)[-1]
    if not first:
        values = [(placement_label(key), float(part.mean.mean())) for key, _, part in curves(rows, along)]
        return f"Last {side} layer at {along} {rows[along].iloc[0]}: gradient norm {listed(values, number)}"
    span = f"{along} {rows[along].min()} to {rows[along].max()}"
    return f"Last {side} layer, {span}, log–log slope: {listed(list(first.values()), fixed)}"


def _ends(rows: pd.DataFrame, slopes: Slopes, along: str) -> str:
    """Both ends of every curve, and theory's slope, in words."""
    messages, with_block = [], rows["block"].nunique() > 1
    for key, block, means in curves(rows, along):
        message = f"{curve_name(key, block, with_block)}: {number(means.mean[0])} at {means.at[0]}"
        if len(means.at) > 1:
            message += f", {number(means.mean[-1])} at {means.at[-1]}"
        predicted = slopes[key, block][1]
        messages.append(message + (f", theory's slope {fixed(predicted)}" if predicted is not None else ""))
    return "; ".join(messages)
