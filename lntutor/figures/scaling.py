"""How gradients change with depth, with width and from setting to setting, on log axes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, scatter
from lntutor.figures.checked import checked
from lntutor.figures.layers import LAYER_TITLE
from lntutor.figures.parts import (
    SIDES,
    curve_name,
    curves,
    drawable,
    each_pinned,
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
    within,
)
from lntutor.figures.style import (
    INK,
    Sizes,
    fixed,
    number,
    parameter_name,
    placement_label,
    placement_style,
    safe,
    sizes,
    wrapped,
)

Pinned = Iterable[tuple[str, pd.DataFrame]]


@checked
def gradient_by_depth(
    measured: pd.DataFrame,
    theory: pd.DataFrame | None = None,
    *,
    parameter: str = "W_2",
    depth: int | None = None,
    pinned: Pinned = (),
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """The last layer's ‖∂L/∂W‖ against the depth of the model (Xiong et al. 2020, Fig. 3c,d); `depth` is ringed."""
    return _scaling(measured, theory, "depth", parameter, depth, pinned, note, lecture)


@checked
def gradient_by_width(
    measured: pd.DataFrame,
    theory: pd.DataFrame | None = None,
    *,
    parameter: str = "W_2",
    width: int | None = None,
    pinned: Pinned = (),
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """The last layer's ‖∂L/∂W‖ against the width; `width` is ringed. Its size is set by the loss's head."""
    return _scaling(measured, theory, "width", parameter, width, pinned, note, lecture)


@checked
def values_by_row(
    measured: pd.DataFrame,
    *,
    row: str,
    what: str,
    line: float | None = 1.0,
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """A positive quantity in several settings or layers, a row each, with its spread and a line to compare with.

    Rows that are words stand in the table's order, the first on top; numbers stand as layers do, the least at the
    bottom. Columns of the table: placement, seed, value and the one named by `row`.
    """
    rows, hidden = drawable(measured if has(measured, row, "placement", "value") else None, positive=True)
    if not len(rows):
        return empty(f"There is nothing to show by {row}.", lecture, note)
    fig, size = Canvas([""], lecture), sizes(lecture)
    names = _row_order(rows[row])
    placed = rows.assign(place=rows[row].map({name: i for i, name in enumerate(names)})).drop(
        columns="block", errors="ignore"
    )
    drawn = curves(placed, "place")
    beside = min(0.16, 0.6 / len(drawn)) if placed.groupby("place")["placement"].nunique().max() > 1 else 0
    for i, (key, _, means) in enumerate(drawn):
        shifted = means._replace(at=means.at + beside * ((len(drawn) - 1) / 2 - i))  # beside each other, not over
        fig.add_trace(
            marks(
                shifted, placement_style(key), size, upright=True, name=placement_label(key), uid=f"measured/{key}",
                hovertemplate="%{x:.4g}<extra>%{fullData.name}</extra>",
            )
        )  # fmt: skip
    if line is not None:
        more = {"mode": "lines", "line": {"color": INK, "width": size.thin, "dash": "dot"}, "hoverinfo": "skip"}
        fig.add_trace(scatter(x=[line] * 2, y=[-0.5, len(names) - 0.5], name=number(line), uid="line", **more))
    every = [*rows["value"], *([line] if line is not None else [])]
    fig.update_xaxes(title=f"{safe(what)}<br>({spread_words(rows)})", **log_axis(every, room=9))
    ticks = {"tickvals": list(range(len(names))), "ticktext": [wrapped(safe(name), 34) for name in names]}
    fig.update_yaxes(range=[-0.6, len(names) - 0.4], title=LAYER_TITLE if row == "layer" else "", **ticks)
    title, words = _row_finding(drawn, names, what)
    kind = f"Dot plot, one row for each {row}. Horizontal axis: {what}, logarithmic, {spread_words(rows)}"
    alt = sentence(kind, title, words, left_out(hidden))
    return finish(fig, title, alt, lecture=lecture, note=note, height=max(200, 90 + 42 * len(names)))


def _row_order(values: pd.Series) -> list:
    """The rows from the bottom up."""
    names = list(dict.fromkeys(values))
    return sorted(names) if pd.api.types.is_numeric_dtype(values) else names[::-1]


def _row_finding(drawn: list, names: list, what: str) -> tuple[str, str]:
    """The least and the greatest row of every placement, and all rows in words."""
    spans, words = [], []
    for key, _, means in drawn:
        low, high = int(np.argmin(means.mean)), int(np.argmax(means.mean))
        label = placement_label(key)
        values = [number(v) for v in means.mean]
        spans.append(f"{label} {values[low]}" + (f" to {values[high]}" if values[low] != values[high] else ""))
        words.append(f"{label}: " + ", ".join(f"{v} ({safe(names[i])})" for v, i in zip(values, means.at, strict=True)))
    return f"{safe(what)}: {'; '.join(spans)}", "; ".join(words)


def slope(x: Iterable[float], y: Iterable[float]) -> float | None:
    """The exponent of a power law fitted to points, None for fewer than two."""
    x, y = np.asarray(list(x), float), np.asarray(list(y), float)
    if len(set(x.tolist())) < 2:
        return None
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _scaling(measured, theory, along, parameter, chosen, pinned, note, lecture) -> go.Figure:
    rows, hidden = drawable(_last(measured, parameter), positive=True)
    if not len(rows):
        why = f"All {hidden} values are below round-off." if hidden else f"There are no gradients of {parameter} here."
        return empty(why, lecture, note)
    expected, _ = drawable(_last(theory, parameter), positive=True)
    fig, size = Canvas([""], lecture), sizes(lecture)
    pinned = [(label, drawable(_last(table, parameter), positive=True)[0]) for label, table in pinned or ()]
    each_pinned(pinned, lambda label, i, t: _draw_curves(fig, t, expected, along, size, f"pin{i}/", f"{label}: "))
    slopes = _draw_curves(fig, rows, expected, along, size)
    _draw_theory(fig, expected, along, size)
    if chosen is not None:
        _ring(fig, rows, along, chosen, size)
    fig.update_xaxes(title=along.capitalize() + {"depth": " L", "width": " d"}[along], **measured_ticks(rows[along]))
    what = f"‖∂L/∂{parameter_name(parameter)}‖ of the last layer"
    every = np.concatenate([rows["value"], *(table["value"] for _, table in pinned)])
    fig.update_yaxes(title=f"{what}<br>({spread_words(rows)})", **log_axis(within(every, expected), room=8))
    title = _finding(rows, slopes, along)
    alt = sentence(
        f"Scatter plot with log axes. Horizontal axis: {along}, {rows[along].min()} to {rows[along].max()}. "
        f"Vertical axis: norm of the gradient of {parameter} in the last layer, {spread_words(rows)}",
        title,
        _ends(rows, slopes, along),
        left_out(hidden),
    )
    return finish(fig, title, alt, lecture=lecture, note=note)


def _last(table: pd.DataFrame | None, parameter: str) -> pd.DataFrame | None:
    """The last layer of the last side."""
    if not has(table, "parameter", "side", "layer", "depth", "width", "value"):
        return None
    side = [side for side in SIDES if side in set(table["side"])][-1]
    return table[(table["parameter"] == parameter) & (table["layer"] == table["depth"]) & (table["side"] == side)]


def _draw_curves(fig, rows, expected, along, size: Sizes, uid="", label="") -> dict[tuple, tuple]:
    """Marks of every curve, with slopes in the legend; {(placement, block): (measured, theory's)}."""
    several, slopes = rows["block"].nunique() > 1, {}
    theory = {(key, block): means for key, block, means in curves(expected, along)}
    for key, block, means in curves(rows, along):
        fitted, same = slope(means.at, means.mean), theory.get((key, block))
        shared = None if same is None else np.isin(same.at, means.at)
        predicted = None if same is None else slope(same.at[shared], same.mean[shared])
        slopes[key, block] = fitted, predicted
        name = label + curve_name(key, block, several)
        if fitted is not None:
            name += f", slope {fixed(fitted)}" + (f" (theory {fixed(predicted)})" if predicted is not None else "")
        hover = f"{along} %{{x}}: %{{y:.4g}}<extra>%{{fullData.name}}</extra>"
        trace = marks(
            means,
            placement_style(key),
            size,
            hollow=block == "cross",
            faint=bool(uid),
            name=name,
            joined=bool(uid) or same is None,
            uid=f"{uid}measured/{key}/{block}",
            legendgroup=f"{uid}{key}/{block}",
            hovertemplate=hover,
        )
        fig.add_trace(trace)
    return slopes


def _draw_theory(fig: Canvas, expected: pd.DataFrame, along: str, size: Sizes) -> None:
    for key, block, line in curves(expected, along):
        more = {"uid": f"theory/{key}/{block}", "legendgroup": f"{key}/{block}", "name": "theory"}
        fig.add_trace(theory_line(line.at.tolist(), line.mean.tolist(), key, size, **more))
    if len(expected):
        fig.add_trace(theory_key(size))


def _ring(fig: Canvas, rows: pd.DataFrame, along: str, chosen: float, size: Sizes) -> None:
    """A ring around the points of the model that another view shows layer by layer."""
    means = [float(part.mean[part.at == chosen][0]) for _, _, part in curves(rows, along) if chosen in part.at]
    fig.add_trace(ring([chosen] * len(means), means, size, f"{along} {chosen}"))


def measured_ticks(values: Iterable[float]) -> dict:
    """A log axis with ticks at values that were measured, thinned until they do not touch."""
    values = sorted({float(v) for v in values})
    low, high = np.log10(values[0]), np.log10(values[-1])
    gap, kept = max((high - low) * 0.05, 0.02), []
    for value in values:
        if not kept or np.log10(value) - np.log10(kept[-1]) >= gap:
            kept.append(value)
    pad = max((high - low) * 0.05, 0.05)
    return {"type": "log", "tickvals": kept, "ticktext": [f"{v:g}" for v in kept], "range": [low - pad, high + pad]}


def _finding(rows: pd.DataFrame, slopes: dict, along: str) -> str:
    first = {}
    for (key, _), (fitted, _) in slopes.items():
        if fitted is not None:
            first.setdefault(key, (placement_label(key), fitted))
    side = [side for side in SIDES if side in set(rows["side"])][-1]
    if not first:
        values = [(placement_label(key), float(part.mean.mean())) for key, _, part in curves(rows, along)]
        return f"Last {side} layer at {along} {rows[along].iloc[0]}: gradient norm {listed(values, number)}"
    span = f"{along} {rows[along].min()} to {rows[along].max()}"
    return f"Last {side} layer, {span}, log–log slope: {listed(list(first.values()), fixed)}"


def _ends(rows: pd.DataFrame, slopes: dict, along: str) -> str:
    words, several = [], rows["block"].nunique() > 1
    for key, block, means in curves(rows, along):
        word = f"{curve_name(key, block, several)}: {number(means.mean[0])} at {means.at[0]}"
        if len(means.at) > 1:
            word += f", {number(means.mean[-1])} at {means.at[-1]}"
        predicted = slopes[key, block][1]
        words.append(word + (f", theory's slope {fixed(predicted)}" if predicted is not None else ""))
    return "; ".join(words)
