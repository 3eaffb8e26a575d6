"""The spectrum of the Hessian: how much curvature there is, and how far it reaches on both sides of zero."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, scatter
from lntutor.figures.parts import empty, finish, has, listed, log_axis, seed_count, sentence
from lntutor.figures.style import INK, fixed, in_order, number, placement_label, placement_style, sizes

DECADES = 7  # of density below the highest, that are shown


def spectrum(
    table: pd.DataFrame, *, two_over_eta: float | None = None, note: str = "", lecture: bool = False
) -> go.Figure:
    """Density of eigenvalues on a log axis, a line a seed, both ends marked; a vertical line at 2/η where asked."""
    if has(table, "placement", "x", "density"):
        table = table[np.isfinite(table["density"]) & (table["density"] > 0)]
    if not has(table, "placement", "x", "density"):
        return empty("There is no spectrum to draw here.", lecture, note)
    fig, size, high = Canvas([""], lecture), sizes(lecture), float(np.log10(table["density"].max()))
    low = max(float(np.log10(table["density"].min())), high - DECADES)
    keys = in_order(table["placement"])
    ends = {key: _ends(table[table["placement"] == key]) for key in keys}
    for i, key in enumerate(keys):
        x, y = _broken_line(table[table["placement"] == key])
        style, name = placement_style(key), placement_label(key)
        line = {"color": style["color"], "dash": style["dash"], "width": size.line}
        hover = "λ = %{x:.3g}: density %{y:.2g}<extra>%{fullData.name}</extra>"
        more = {"name": name, "legendgroup": key}
        fig.add_trace(scatter(x=x, y=y, mode="lines", line=line, uid=f"density/{key}", hovertemplate=hover, **more))
        if ends[key]:
            fig.add_trace(_end_marks(ends[key], 10 ** (low - 0.35 * (i + 1)), style, size, key, more))
    if two_over_eta is not None:
        line = {"color": INK, "width": size.thin, "dash": "dot"}
        fig.add_trace(
            scatter(
                x=[two_over_eta] * 2,
                y=[10 ** (low - 0.35), 10**high],
                mode="lines",
                line=line,
                uid="two_over_eta",
                name=f"2/η = {number(two_over_eta)}",
                hoverinfo="name",
            )
        )
    seeds = seed_count(table)
    lines = f"a line a seed, {seeds} seeds" if seeds > 1 else "one seed"
    fig.update_xaxes(title="Eigenvalue λ of the Hessian" + (" (marks: both ends)" if any(ends.values()) else ""))
    span = [10 ** (low - 0.35 * len(keys)), 10**high]
    fig.update_yaxes(title=f"Density ({lines})", **log_axis(span, room=9))
    title, words = _finding(table, keys, ends, two_over_eta)
    alt = sentence(f"Line plot, horizontal axis eigenvalue, vertical axis density, logarithmic, {lines}", title, words)
    return finish(fig, title, alt, lecture=lecture, note=note)


def _broken_line(part: pd.DataFrame) -> tuple[list, list]:
    """The curves of all seeds in one trace, with a gap between them."""
    x, y = [], []
    for _, rows in part.groupby("seed", sort=True) if "seed" in part.columns else [(0, part)]:
        rows = rows.sort_values("x")
        x += [*rows["x"].tolist(), None]
        y += [*rows["density"].tolist(), None]
    return x[:-1], y[:-1]


def _ends(part: pd.DataFrame) -> dict[str, np.ndarray]:
    """λmin and λmax of every seed, where the table has them."""
    by = "seed" if "seed" in part.columns else "placement"
    return {
        name: part.groupby(by)[name].first().dropna().to_numpy(float)
        for name in ("lambda_min", "lambda_max")
        if name in part.columns and part[name].notna().any()
    }


def _end_marks(ends: dict[str, np.ndarray], y: float, style, size, key: str, more: dict) -> dict:
    means = [float(v.mean()) for v in ends.values()]
    bar = {
        "type": "data",
        "symmetric": False,
        "array": [float(v.max() - v.mean()) for v in ends.values()],
        "width": 0,
        "arrayminus": [float(v.mean() - v.min()) for v in ends.values()],
        "thickness": size.line,
    }
    mark = {"color": style["color"], "symbol": style["symbol"], "size": size.marker}
    return scatter(
        x=means,
        y=[y] * len(means),
        error_x=bar,
        mode="markers",
        marker=mark,
        showlegend=False,
        uid=f"ends/{key}",
        hovertemplate="end at λ = %{x:.4g}<extra>%{fullData.name}</extra>",
        **more,
    )


def _finding(table: pd.DataFrame, keys: list[str], ends: dict, threshold: float | None) -> tuple[str, str]:
    tops = [(placement_label(k), float(ends[k]["lambda_max"].mean())) for k in keys if "lambda_max" in ends[k]]
    if not tops:
        return f"Eigenvalues of the Hessian from {number(table['x'].min())} to {number(table['x'].max())}", ""
    title = f"Largest eigenvalue: {listed(tops, number)}"
    if threshold is not None:
        over = sum(value > threshold for _, value in tops)
        title += f"; above 2/η = {number(threshold)}: {over} of {len(tops)}"
    words = [
        f"{placement_label(k)} smallest eigenvalue {number(float(ends[k]['lambda_min'].mean()))}"
        for k in keys
        if "lambda_min" in ends[k]
    ]
    ratios = [
        f"{placement_label(k)} −λmin/λmax {fixed(float(-ends[k]['lambda_min'].mean() / ends[k]['lambda_max'].mean()))}"
        for k in keys
        if len(ends[k]) == 2
    ]
    return title, "; ".join([*words, *ratios])
