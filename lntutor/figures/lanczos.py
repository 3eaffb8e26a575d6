"""Curvature taught: steps on a bowl and a saddle, what Lanczos finds, which block it is in, and training beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.config import numbers
from lntutor.figures.canvas import Canvas, heatmap, scatter
from lntutor.figures.checked import checked
from lntutor.figures.parts import SIDES, empty, finish, has, listed, log_axis, marks, over_seeds, sentence, spread_words
from lntutor.figures.style import (
    BLACK,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    in_order,
    number,
    parameter_name,
    placement_label,
    placement_style,
    safe,
    sizes,
    times,
    wrapped,
)

PATHS = ((PURPLE, "solid", "circle"), (GREEN, "dash", "square"), (ORANGE, "dot", "diamond"), (BLACK, "dashdot", "x"))
REACH = 1.6  # of a picture of a surface, in both directions
FAINT = "#B8B8B8"  # lines that may be many
HEAT = [[0, "#F7FBFF"], [0.35, "#C9DFF0"], [0.7, "#5A9BCB"], [1, "#08375F"]]
MATRICES = ("W_Q", "W_K", "W_V", "W_O", "W_1", "W_2")


# Two weights ---------------------------------------------------------------------------------------------------


@checked
def descent(
    paths: pd.DataFrame, curvatures: dict[str, tuple[float, float]], *, note: str = "", lecture: bool | None = None
) -> go.Figure:
    """Paths of gradient descent over ½(a x² + b y²), seen from above; a panel a surface, with its (a, b).

    Columns of the table: surface, run, step, x, y. A path that leaves the picture goes on outside it.
    """
    if not has(paths, "surface", "run", "step", "x", "y"):
        return empty("There are no steps to draw here.", lecture, note)
    fig, size, ends = Canvas([safe(name) for name in curvatures], lecture, gap=0.08), sizes(lecture), []
    grid = np.linspace(-REACH, REACH, 61)
    looks = dict(zip(dict.fromkeys(paths["run"]), PATHS * len(paths), strict=False))
    order = list(looks)
    for column, (surface, (a, b)) in enumerate(curvatures.items(), 1):
        height = 0.5 * (a * grid[None, :] ** 2 + b * grid[:, None] ** 2)
        fig.add_trace(_contours(grid, height, column), 1, column)
        for run, part in paths[paths["surface"] == surface].groupby("run", sort=False):
            colour, dash, symbol = looks[run]
            fig.add_trace(
                scatter(
                    x=part["x"].clip(-1e3, 1e3).tolist(), y=part["y"].clip(-1e3, 1e3).tolist(), mode="lines+markers",
                    line={"color": colour, "dash": dash, "width": size.line}, showlegend=column == 1, name=safe(run),
                    marker={"symbol": symbol, "size": 0.7 * size.marker, "color": colour}, legendgroup=str(run),
                    uid=f"path/{column}/{order.index(run)}",
                    hovertemplate="(%{x:.3g}, %{y:.3g})<extra>%{fullData.name}</extra>",
                ),
                1,
                column,
            )  # fmt: skip
            last = part.loc[part["step"].idxmax()]
            ends.append((surface, run, float(np.hypot(last["x"], last["y"]))))
    axis = {"range": [-REACH, REACH], "showgrid": False}
    fig.update_xaxes(title="weight x", **axis)
    fig.update_yaxes(**axis)
    fig.update_yaxes(title="weight y", col=1)
    steps = int(paths["step"].max())
    told = "; ".join(f"{surface}, {run}: {number(far, 2)}" for surface, run, far in ends)
    near = sum(far < 0.5 for *_, far in ends)
    title = f"After {steps} steps {near} of {len(ends)} paths are near the middle"
    alt = sentence(
        f"Contour plots with paths, one panel a surface ({', '.join(curvatures)})",
        title,
        f"Distance from the middle after {steps} steps: {told}",
    )
    return finish(fig, title, alt, lecture=lecture, note=note, height=360)


def _contours(grid: np.ndarray, height: np.ndarray, column: int) -> dict:
    line = {"coloring": "heatmap", "showlabels": False}
    shades = [[0, "#DCE6EF"], [0.5, "#F4F7FA"], [1, "#FFFFFF"]]
    return {
        "type": "contour", "x": grid.tolist(), "y": grid.tolist(), "z": height.tolist(), "showscale": False,
        "colorscale": shades, "contours": line, "ncontours": 18, "line": {"width": 1, "color": GREY},
        "uid": f"surface/{column}", "hovertemplate": "loss %{z:.3g}<extra></extra>", "showlegend": False,
    }  # fmt: skip


# Lanczos -------------------------------------------------------------------------------------------------------


@checked
def ritz_values(
    table: pd.DataFrame, true=(), *, what: str = "Eigenvalues of T", note: str = "", lecture: bool | None = None
) -> go.Figure:
    """The eigenvalues of Lanczos' small matrix after each product; true ones as thin lines where they are known.

    Columns of the table: products, value, and `run` where several are compared, a panel each.
    """
    if not has(table, "products", "value"):
        return empty("There is no product yet.", lecture, note)
    parts = dict(list(table.groupby("run", sort=False))) if "run" in table.columns else {"": table}
    fig, size = Canvas([safe(name) for name in parts], lecture, shared="y", gap=0.04), sizes(lecture)
    reach, words = int(table["products"].max()), []
    for column, (run, part) in enumerate(parts.items(), 1):
        lines = [
            c for value in numbers("true", true, 1).tolist() for c in ((0, value), (reach + 1, value), (None, None))
        ]
        if lines:
            x, y = zip(*lines, strict=True)
            thin = {"mode": "lines", "line": {"color": FAINT, "width": 0.8}, "name": "true eigenvalues"}
            fig.add_trace(
                scatter(x=x, y=y, showlegend=column == 1, uid=f"true/{run}", hoverinfo="skip", **thin), 1, column
            )
        mark = {"size": (0.55 if reach <= 40 else 0.3) * size.marker, "color": PURPLE, "symbol": "circle"}
        fig.add_trace(
            scatter(
                x=part["products"].tolist(), y=part["value"].tolist(), mode="markers", marker=mark,
                name=safe(what), showlegend=column == 1, uid=f"ritz/{run}",
                hovertemplate="after %{x} products: %{y:.4g}<extra></extra>",
            ),
            1,
            column,
        )  # fmt: skip
        last = part[part["products"] == part["products"].max()]["value"]
        words.append(_found(run, last, true, len(parts) > 1))
    fig.update_xaxes(title="Products", range=[0, reach + 1])
    fig.update_yaxes(title="Value", col=1)
    title = f"After {reach} products: {'; '.join(map(safe, words))}"
    known = f"{len(true)} true eigenvalues from {number(min(true))} to {number(max(true))}" if len(true) else ""
    alt = sentence(f"Dots against the number of products, vertical axis {what}", title, known)
    return finish(fig, title, alt, lecture=lecture, note=note)


def _found(run: str, values: pd.Series, true, several: bool) -> str:
    """The ends; where runs are compared and the truth is known, how many values there are at its largest."""
    if not several or not len(true):
        return f"from {number(values.min())} to {number(values.max())}" + (f" ({run})" if run else "")
    near = (values - max(true)).abs() < 1e-3 * (max(true) - min(true))
    return f"{int(near.sum())} at {number(max(true))}, the largest ({run})"


# Blocks --------------------------------------------------------------------------------------------------------


@checked
def block_map(
    table: pd.DataFrame, *, value: str = "lambda_max", what: str = "λmax", note: str = "", lecture: bool | None = None
) -> go.Figure:
    """A heat map of layers by matrices for every placement and side, means over seeds, the numbers in the cells.

    Columns of the table: placement, side, layer, parameter, seed and the one named by `value`.
    """
    if not has(table, "placement", "side", "layer", "parameter", value):
        return empty("There are no blocks to draw here.", lecture, note)
    keys, size = in_order(table["placement"]), sizes(lecture)
    sides = [side for side in SIDES if side in set(table["side"])]
    layers = sorted(set(table["layer"]))
    matrices = [p for p in MATRICES if p in set(table["parameter"])]
    names = [f"{placement_label(key)}, {side}" for key in keys for side in sides]
    fig = Canvas(names, lecture, rows=len(keys), gap=0.13, shared="y")
    means = table.groupby(["placement", "side", "layer", "parameter"])[value].mean()
    for row, key in enumerate(keys, 1):
        for column, side in enumerate(sides, 1):
            grid = means.loc[key, side].unstack("parameter").reindex(index=layers, columns=matrices).to_numpy(float)
            fig.add_trace(_block_cells(grid, f"{key}/{side}", size), row, column)
    axis = {"showgrid": False, "ticks": "", "showline": False}
    fig.update_xaxes(tickvals=list(range(len(matrices))), ticktext=[parameter_name(p) for p in matrices], **axis)
    fig.update_yaxes(tickvals=list(range(len(layers))), ticktext=[f"{layer}" for layer in layers], **axis)
    fig.update_yaxes(title="Layer", col=1)
    bar = {"title": {"text": safe(what), "side": "right"}, "thickness": 12, "outlinewidth": 0}
    fig.layout["coloraxis"] = {"colorscale": HEAT, "colorbar": bar, "cmin": 0}
    tops = [(placement_label(key), _largest(means.loc[key])) for key in keys]
    title = f"Largest {safe(what)} of a block: " + "; ".join(
        f"{name} {number(v)} ({side} {layer}, {parameter_name(p)})" for name, ((side, layer, p), v) in tops
    )
    parts = means.groupby(["placement", "side"]).mean()
    rest = "; ".join(f"{placement_label(key)} {side} {number(v)}" for (key, side), v in parts.items())
    alt = sentence(
        f"Heat maps of layers by matrices, numbers {what}, means over seeds", title, f"Mean over blocks: {rest}"
    )
    return finish(fig, title, alt, lecture=lecture, note=note, height=60 + 40 * len(layers) * len(keys))


def _largest(means: pd.Series) -> tuple[tuple, float]:
    return means.idxmax(), float(means.max())


def _block_cells(grid: np.ndarray, uid: str, size) -> dict:
    return heatmap(
        z=[[v if np.isfinite(v) else None for v in row] for row in grid], coloraxis="coloraxis", xgap=2, ygap=2,
        text=[[number(v, 2) if np.isfinite(v) else "–" for v in row] for row in grid], texttemplate="%{text}",
        textfont={"size": size.small}, uid=f"blocks/{uid}", hovertemplate="%{z:.4g}<extra></extra>",
    )  # fmt: skip


# Along training ------------------------------------------------------------------------------------------------


@checked
def curvature_over_training(
    table: pd.DataFrame,
    *,
    value: str = "lambda_max",
    what: str = "λmax",
    threshold: float = 2.0,
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """A curvature against the step, a panel a run, beside threshold/η with the rate η of that step.

    Columns of the table: run, placement, seed, step, rate and the one named by `value`. Steps count from 0.
    """
    if not has(table, "run", "placement", "step", "rate", value):
        return empty("There is no curvature to draw here.", lecture, note)
    table = table[np.isfinite(table[value].astype(float)) & (table[value] > 0)]
    runs = list(dict.fromkeys(table["run"]))
    rows = 2 if len(runs) > 2 else 1
    fig, size = Canvas([safe(run) for run in runs], lecture, rows=rows, gap=0.12, shared="xy"), sizes(lecture)
    told, limits = [], threshold / table["rate"]
    for i, run in enumerate(runs):
        part, at = table[table["run"] == run], divmod(i, fig.columns)
        means = over_seeds(part["step"].to_numpy(float), part[value].to_numpy(float))
        style = placement_style(part["placement"].iloc[0])
        named = {"showlegend": False, "uid": f"curvature/{run}"}
        hover = "step %{x}: %{y:.4g}<extra></extra>"
        fig.add_trace(marks(means, style, size, joined=True, hovertemplate=hover, **named), at[0] + 1, at[1] + 1)
        limit = (threshold / part.groupby("step")["rate"].first()).sort_index()
        line = {"color": INK, "width": size.thin, "dash": "dot"}
        fig.add_trace(
            scatter(x=limit.index.tolist(), y=limit.tolist(), mode="lines", line=line, showlegend=i == 0,
                    name=f"{number(threshold)}/η", uid=f"limit/{run}", hovertemplate=hover),
            at[0] + 1,
            at[1] + 1,
        )  # fmt: skip
        over = means.mean > threshold / part.groupby("step")["rate"].first().loc[means.at].to_numpy()
        told.append((safe(run), float(means.mean[-1] / limit.iloc[-1]), int(over.sum()), len(means.at)))
    fig.update_xaxes(title=f"Step ({spread_words(table)})", row=rows)
    fig.update_yaxes(**_powers([*table[value], *limits]))
    fig.update_yaxes(title=safe(what), col=1)
    high = sum(over for *_, over, _ in told)
    title = f"{safe(what)} is above {number(threshold)}/η at {high} of {sum(n for *_, n in told)} looks"
    shares = [(run, share) for run, share, *_ in told]
    words = f"At the last look, as a share of {number(threshold)}/η: {listed(shares, times, most=len(shares))}"
    alt = sentence(f"Line plots of {what} against the step, logarithmic, a panel a run", title, words)
    return finish(fig, wrapped(title, size.columns), alt, lecture=lecture, note=note, height=330 + 190 * (rows - 1))


def _powers(values) -> dict:
    """A log axis; from 10⁴ on only whole powers have a tick, because that is how they are written."""
    axis = log_axis(values, room=6)
    kept = [i for i, v in enumerate(axis["tickvals"]) if v < 1e4 or np.isclose(np.log10(v) % 1, 0)]
    return axis | {name: [axis[name][i] for i in kept] for name in ("tickvals", "ticktext")}
