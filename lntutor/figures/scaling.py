"""How the last layer's gradient changes with depth and with width, on log axes with slopes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
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
from lntutor.figures.style import Sizes, fixed, number, parameter_name, placement_label, placement_style, sizes

Pinned = Iterable[tuple[str, pd.DataFrame]]


def gradient_by_depth(
    measured: pd.DataFrame,
    theory: pd.DataFrame | None = None,
    *,
    parameter: str = "W_2",
    depth: int | None = None,
    pinned: Pinned = (),
    note: str = "",
    lecture: bool = False,
) -> go.Figure:
    """The last layer's ‖∂L/∂W‖ against the depth of the model (Xiong et al. 2020, Fig. 3c,d); `depth` is ringed."""
    return _scaling(measured, theory, "depth", parameter, depth, pinned, note, lecture)


def gradient_by_width(
    measured: pd.DataFrame,
    theory: pd.DataFrame | None = None,
    *,
    parameter: str = "W_2",
    width: int | None = None,
    pinned: Pinned = (),
    note: str = "",
    lecture: bool = False,
) -> go.Figure:
    """The last layer's ‖∂L/∂W‖ against the width; `width` is ringed. Its size is set by the loss's head."""
    return _scaling(measured, theory, "width", parameter, width, pinned, note, lecture)


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
    fig.update_xaxes(title=along.capitalize() + {"depth": " L", "width": " d"}[along], **_ticks(rows[along]))
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


def _ticks(values: pd.Series) -> dict:
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
