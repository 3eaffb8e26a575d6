"""Figures that explain curvature: descent on a bowl and a saddle, Lanczos, blocks, and curvature during training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.drawing import cell_ticks, colour_bar, empty, finish, listed, log_axis, numbered_cells
from lntutor.figures.style import GREY, PURPLE, RUNS, in_order, number, parameter_name, placement_label, safe, times
from lntutor.figures.tables import Table, has, over_seeds, sides_of, spread
from lntutor.model.checks import as_numbers

REACH = 1.6  # of a picture of a surface, in both directions
FAINT = "#949494"  # lines that may be many
HEAT = [[0, "#F7FBFF"], [0.35, "#C9DFF0"], [0.7, "#5A9BCB"], [1, "#08375F"]]
MATRICES = ("W_Q", "W_K", "W_V", "W_O", "W_1", "W_2")


# Two weights ---------------------------------------------------------------------------------------------------


def descent(
    paths: Table, curvatures: Mapping[str, tuple[float, float]], *, note: str = "", lecture: bool | None = None
) -> go.Figure:
    """Paths of gradient descent over ½(a x² + b y²), seen from above; one panel per surface, with its (a, b).

    Columns of the table: surface, run, step, x, y. A path that leaves the picture goes on outside it.
    """
    if not has(paths, "surface", "run", "step", "x", "y"):
        return empty("There are no steps to draw here.", lecture, note)
    fig, ends = Canvas(lecture, [safe(name) for name in curvatures], gap=0.08), []
    looks = {run: (i, RUNS[i % len(RUNS)]) for i, run in enumerate(dict.fromkeys(paths["run"]))}
    for column, (surface, (a, b)) in enumerate(curvatures.items(), 1):
        fig.add_trace(_contours(a, b, column), 1, column)
        for run, part in paths[paths["surface"] == surface].groupby("run", sort=False):
            i, (colour, dash, symbol) = looks[run]
            at = {"x": part["x"].clip(-1e3, 1e3).tolist(), "y": part["y"].clip(-1e3, 1e3).tolist()}
            line = {"color": colour, "dash": dash, "width": fig.size.line}
            mark = {"symbol": symbol, "size": 0.7 * fig.size.marker, "color": colour}
            named = {"name": safe(run), "legendgroup": str(run), "uid": f"path/{column}/{i}", "showlegend": column == 1}
            hover = "(%{x:.3g}, %{y:.3g})<extra>%{fullData.name}</extra>"
            look = {"mode": "lines+markers", "line": line, "marker": mark, "hovertemplate": hover}
            fig.add_scatter(1, column, **at, **look, **named)
            x, y = part.sort_values("step")[["x", "y"]].to_numpy(float)[-1]
            ends.append((surface, run, float(np.hypot(x, y))))
    axis = {"range": [-REACH, REACH], "showgrid": False}
    fig.update_xaxes(title="weight x", **axis)
    fig.update_yaxes(**axis)
    fig.update_yaxes(title="weight y", col=1)
    steps, near = int(paths["step"].max()), sum(far < 0.5 for *_, far in ends)
    title = f"After {steps} steps {near} of {len(ends)} paths are near the middle"
    distances = "; ".join(f"{surface}, {run}: {number(far, 2)}" for surface, run, far in ends)
    kind = f"Contour plots with paths, one panel per surface ({', '.join(curvatures)})"
    far = f"Distance from the middle after {steps} steps: {distances}"
    return finish(fig, title, kind, far, note=note, height=360)


def _contours(a: float, b: float, column: int) -> dict:
    grid = np.linspace(-REACH, REACH, 61)
    height = 0.5 * (a * grid[None, :] ** 2 + b * grid[:, None] ** 2)
    line = {"coloring": "heatmap", "showlabels": False}
    shades = [[0, "#DCE6EF"], [0.5, "#F4F7FA"], [1, "#FFFFFF"]]
    return {
        "type": "contour", "x": grid.tolist(), "y": grid.tolist(), "z": height.tolist(), "showscale": False,
        "colorscale": shades, "contours": line, "ncontours": 18, "line": {"width": 1, "color": GREY},
        "uid": f"surface/{column}", "hovertemplate": "loss %{z:.3g}<extra></extra>", "showlegend": False,
    }  # fmt: skip


# Lanczos -------------------------------------------------------------------------------------------------------


def ritz_values(
    table: Table, true: Sequence[float] = (), *, what: str = "Eigenvalues of T", note: str = "",
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """The eigenvalues of Lanczos' small matrix after each product; true ones as thin lines where they are known.

    Columns of the table: products, value, and `run` where several are compared, one panel each.
    """
    if not has(table, "products", "value"):
        return empty("There is no product yet.", lecture, note)
    exact = as_numbers("true", true, 1).tolist()
    parts = {"": table}
    if "run" in table.columns:
        parts = {str(run): part for run, part in table.groupby("run", sort=False)}
    fig = Canvas(lecture, [safe(name) for name in parts], shared="y", gap=0.04)
    reach = int(table["products"].max())
    for column, (run, part) in enumerate(parts.items(), 1):
        once = {"showlegend": column == 1}
        if exact:
            x, y = [0, reach + 1, None] * len(exact), [v for value in exact for v in (value, value, None)]
            thin = {"mode": "lines", "line": {"color": FAINT, "width": 0.8}, "name": "true eigenvalues"}
            fig.add_scatter(1, column, x=x, y=y, uid=f"true/{run}", hoverinfo="skip", **thin, **once)
        mark = {"size": (0.55 if reach <= 40 else 0.3) * fig.size.marker, "color": PURPLE, "symbol": "circle"}
        at = {"x": part["products"].tolist(), "y": part["value"].tolist(), "mode": "markers", "marker": mark}
        hover = "after %{x} products: %{y:.4g}<extra></extra>"
        fig.add_scatter(1, column, **at, name=safe(what), uid=f"ritz/{run}", hovertemplate=hover, **once)
    fig.update_xaxes(title="Products", range=[0, reach + 1])
    fig.update_yaxes(title="Value", col=1)
    last = {run: part[part["products"] == part["products"].max()]["value"] for run, part in parts.items()}
    summaries = [safe(_ritz_summary(run, values, exact, len(parts) > 1)) for run, values in last.items()]
    title = f"After {reach} products: {'; '.join(summaries)}"
    known = f"{len(exact)} true eigenvalues from {number(min(exact))} to {number(max(exact))}" if exact else ""
    return finish(fig, title, f"Dots against the number of products, vertical axis {what}", known, note=note)


def _ritz_summary(run: str, values: pd.Series, true: list[float], compared: bool) -> str:
    """The smallest and largest value; or, to compare runs, how many values lie at the largest true eigenvalue."""
    if not compared or not true:
        return f"from {number(values.min())} to {number(values.max())}" + (f" ({run})" if run else "")
    near = (values - max(true)).abs() < 1e-3 * (max(true) - min(true))
    return f"{int(near.sum())} at {number(max(true))}, the largest ({run})"


# Blocks --------------------------------------------------------------------------------------------------------


def block_map(
    table: Table, *, value: str = "lambda_max", what: str = "λmax", note: str = "", lecture: bool | None = None
) -> go.Figure:
    """A heat map of layers by matrices for every placement and side, means over seeds, the numbers in the cells.

    Columns of the table: placement, side, layer, parameter, seed and the one named by `value`.
    """
    if not has(table, "placement", "side", "layer", "parameter", value) or table[value].isna().all():
        return empty("There are no blocks to draw here.", lecture, note)
    keys, sides, layers = in_order(table["placement"]), sides_of(table), sorted(set(table["layer"]))
    matrices = [p for p in MATRICES if p in set(table["parameter"])]
    names = [f"{placement_label(key)}, {side}" for key in keys for side in sides]
    fig = Canvas(lecture, names, rows=len(keys), gap=0.13, shared="y")
    means = table.groupby(["placement", "side", "layer", "parameter"])[value].mean()
    for row, key in enumerate(keys, 1):
        for column, side in enumerate(sides, 1):
            grid = means.loc[key, side].unstack("parameter").reindex(index=layers, columns=matrices).to_numpy(float)
            fig.add_trace(numbered_cells(grid, fig.size.small, f"blocks/{key}/{side}"), row, column)
    fig.update_xaxes(**cell_ticks([parameter_name(p) for p in matrices]))
    fig.update_yaxes(**cell_ticks([f"{layer}" for layer in layers]))
    fig.update_yaxes(title="Layer", col=1)
    fig.layout["coloraxis"] = {"colorscale": HEAT, "colorbar": colour_bar(what), "cmin": 0}
    largest = [(placement_label(key), means.loc[key]) for key in keys if means.loc[key].notna().any()]
    tops = [(name, here.idxmax(), float(here.max())) for name, here in largest]
    largest_blocks = [f"{name} {number(v)} ({side} {layer}, {parameter_name(p)})" for name, (side, layer, p), v in tops]
    title = f"Largest {safe(what)} of a block: {'; '.join(largest_blocks)}"
    parts = means.groupby(["placement", "side"]).mean()
    rest = "; ".join(f"{placement_label(key)} {side} {number(parts[key, side])}" for key, side in parts.index)
    kind, height = f"Heat maps of layers by matrices, numbers {what}, means over seeds", 40 * len(layers) * len(keys)
    return finish(fig, title, kind, f"Mean over blocks: {rest}", note=note, height=60 + height)


# Along training ------------------------------------------------------------------------------------------------


def curvature_over_training(
    table: Table, *, value: str = "lambda_max", what: str = "λmax", threshold: float = 2.0, note: str = "",
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """A curvature against the step, one panel per run, beside threshold/η with the rate η of that step.

    Columns of the table: run, placement, seed, step, rate and the one named by `value`. Steps count from 0.
    """
    columns = "run", "placement", "step", "rate", value
    if has(table, *columns):
        table = table[np.isfinite(table[value].astype(float)) & (table[value] > 0)]
    if not has(table, *columns):
        return empty("There is no curvature to draw here.", lecture, note)
    runs = list(dict.fromkeys(table["run"]))
    rows = 2 if len(runs) > 2 else 1
    fig = Canvas(lecture, [safe(run) for run in runs], rows=rows, gap=0.12, shared="xy")
    shares, above, looks = [], 0, 0
    for i, run in enumerate(runs):
        over, share = _draw_curvature(fig, i, table[table["run"] == run], value, threshold)
        shares.append((safe(run), share))
        above, looks = above + int(over.sum()), looks + len(over)
    fig.update_xaxes(title=f"Step ({spread(table)})", row=rows)
    fig.update_yaxes(**_powers([*table[value], *(threshold / table["rate"])]))
    fig.update_yaxes(title=safe(what), col=1)
    limit = f"{number(threshold)}/η"
    title = f"{safe(what)} is above {limit} at {above} of {looks} looks"
    last = f"At the last look, as a share of {limit}: {listed(shares, times, most=len(shares))}"
    kind = f"Line plots of {what} against the step, logarithmic, one panel per run"
    return finish(fig, title, kind, last, note=note, height=330 + 190 * (rows - 1))


def _draw_curvature(fig: Canvas, i: int, part: pd.DataFrame, value: str, threshold: float) -> tuple[np.ndarray, float]:
    """Draw one run and its limit. Returns (at which looks it is above the limit, last curvature / last limit)."""
    run, (row, column) = part["run"].iloc[0], divmod(i, fig.columns)
    means = over_seeds(part["step"].to_numpy(float), part[value].to_numpy(float))
    limit = (threshold / part.groupby("step")["rate"].first()).loc[means.at].to_numpy(float)
    panel, hover = (row + 1, column + 1), "step %{x}: %{y:.4g}<extra></extra>"
    named = {"showlegend": False, "uid": f"curvature/{run}", "hovertemplate": hover}
    fig.add_marks(means, str(part["placement"].iloc[0]), *panel, joined=True, **named)
    at = {"x": means.at.tolist(), "y": limit.tolist(), "mode": "lines", "line": fig.dotted, "hovertemplate": hover}
    fig.add_scatter(*panel, **at, name=f"{number(threshold)}/η", uid=f"limit/{run}", showlegend=i == 0)
    return means.mean > limit, float(means.mean[-1] / limit[-1])


def _powers(values: Iterable[float]) -> dict:
    """A log axis; from 10⁴ on, only whole powers of ten have a tick."""
    axis = log_axis(values, room=6)
    kept = [i for i, v in enumerate(axis["tickvals"]) if v < 1e4 or np.isclose(np.log10(v) % 1, 0)]
    return axis | {name: [axis[name][i] for i in kept] for name in ("tickvals", "ticktext")}
