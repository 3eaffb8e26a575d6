"""Stored runs on a map over rates and warm-ups, and the losses of the one that is chosen."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.drawing import cell_ticks, empty, finish, numbered_cells
from lntutor.figures.style import INK, in_order, number, placement_label, placement_style, safe
from lntutor.figures.tables import Table, has, over_seeds, seed_count
from lntutor.figures.training import HEAT, HEAT_UP

Place = tuple[str, float, int]  # placement, rate, warm-up
MAPS = 0.5  # the share of the height that the maps take


def run_map(
    table: Table, losses: Table = None, validations: Table = None, *, chosen: Place | None = None,
    what: str = "validation loss", lower_is_better: bool = True, note: str = "", lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """One map per placement over learning rate and warm-up, a frame around the chosen square, and its losses below.

    Columns of the table: placement, lr, warmup, seed, value; of losses and validations: step and loss in place of
    value. Thin lines are the other placements at the same rate and warm-up. The axes stay when another is chosen.
    """
    if not has(table, "placement", "lr", "warmup", "value") or not np.isfinite(table["value"].astype(float)).any():
        return empty("There are no runs to choose from here.", lecture, note)
    keys, rates, steps = in_order(table["placement"]), sorted(set(table["lr"])), sorted(set(table["warmup"]))
    key, lr, warmup = chosen = chosen or (keys[0], rates[0], steps[0])
    fig = Canvas(lecture, [*map(placement_label, keys), ""], rows=2)
    _arrange(fig, len(keys))
    for column, name in enumerate(keys):
        grid = table[table["placement"] == name].pivot_table(index="lr", columns="warmup", values="value", dropna=False)
        grid = grid.reindex(index=rates, columns=steps).to_numpy(float)
        named = {"name": placement_label(name), "hovertemplate": "%{z:.4g}<extra>%{fullData.name}</extra>"}
        nth = _nth(column)
        fig.data.append(numbered_cells(grid, fig.size.text, f"heat/{name}", xaxis=f"x{nth}", yaxis=f"y{nth}", **named))
        fig.layout[f"xaxis{nth}"] |= {"title": {"text": "Warm-up steps"}} | cell_ticks([f"{s:g}" for s in steps])
        fig.layout[f"yaxis{nth}"] |= cell_ticks([f"{r:g}" for r in rates]) | {"showticklabels": not column}
        if (name, lr, warmup) == chosen and lr in rates and warmup in steps:
            fig.add_shape(**_frame(rates.index(lr), steps.index(warmup), nth, fig.size.line))
    fig.layout["yaxis"]["title"] = {"text": "Learning rate"}
    fig.layout["coloraxis"] = {"colorscale": HEAT if lower_is_better else HEAT_UP, "showscale": False}
    words = _draw_losses(fig, keys, chosen, losses, validations)
    title = f"{_name(chosen)}: {safe(what)} {_value(table, chosen)}"
    others = [f"{placement_label(k)} {_value(table, (k, lr, warmup), brief=True)}" for k in keys if k != key]
    kind = f"Heat maps of {what}, one per placement, over warm-up steps and learning rate, and the losses of one run"
    title += f"; {', '.join(others)}" if others else ""
    return finish(fig, title, kind, words, note=note, height=410, dragmode=False)


def _nth(column: int) -> str:
    return str(column + 1) if column else ""


def _arrange(fig: Canvas, maps: int) -> None:
    """The maps side by side above, the losses below them over the whole width."""
    gap, names = 0.04, fig.annotations
    for i in range(maps):
        left = i * (1 + gap) / maps
        across = [left, min(1.0, left + (1 + gap) / maps - gap)]
        fig.layout[f"xaxis{_nth(i)}"] = {"domain": across, "anchor": f"y{_nth(i)}"}
        fig.layout[f"yaxis{_nth(i)}"] = {"domain": [1 - MAPS, 1], "anchor": f"x{_nth(i)}"}
        names[i] |= {"x": sum(across) / 2, "y": 1}
    del names[maps:]
    fig.layout[f"xaxis{_nth(maps)}"] = {"domain": [0, 1], "anchor": f"y{_nth(maps)}"}
    fig.layout[f"yaxis{_nth(maps)}"] = {"domain": [0, 1 - MAPS - 0.17], "anchor": f"x{_nth(maps)}"}


def _frame(row: int, column: int, nth: str, width: float) -> dict:
    """A frame around a cell."""
    place = {"x0": column - 0.5, "x1": column + 0.5, "y0": row - 0.5, "y1": row + 0.5}
    return {"type": "rect", **place, "xref": f"x{nth}", "yref": f"y{nth}", "line": {"color": INK, "width": 1.6 * width}}


def _draw_losses(fig: Canvas, keys: list[str], chosen: Place, losses: Table, validations: Table) -> str:
    """The losses of the chosen run and, thin, of the other placements; what is drawn, in words."""
    nth = _nth(len(keys))
    axes = {"xaxis": f"x{nth}", "yaxis": f"y{nth}"}
    tables = [part for part in (losses, validations) if has(part, "placement", "lr", "warmup", "seed", "step", "loss")]
    everything = np.concatenate([part["loss"].to_numpy(float) for part in tables]) if tables else np.array([])
    everything = everything[np.isfinite(everything)]
    for key in sorted(keys, key=lambda key: key == chosen[0]):  # the chosen one comes last, above the others
        place, mine, style = (key, *chosen[1:]), key == chosen[0], placement_style(key)
        same = {"name": placement_label(key), "legendgroup": key, "opacity": 1 if mine else 0.45} | axes
        hover = "step %{x}: %{y:.4g}<extra>%{fullData.name}</extra>"
        line = {"color": style["color"], "dash": style["dash"], "width": fig.size.line if mine else fig.size.thin}
        rows = of_run(losses, place)
        if len(rows):
            at = {"x": rows["step"].tolist(), "y": rows["loss"].tolist(), "mode": "lines", "uid": f"loss/{key}"}
            fig.data.append({"type": "scatter", **at, "line": line, "hovertemplate": hover, **same})
        rows = of_run(validations, place)
        if len(rows):
            means = over_seeds(rows["step"].to_numpy(), rows["loss"].to_numpy(float))
            fig.add_marks(means, key, uid=f"validation/{key}", hovertemplate=f"validation, {hover}", showlegend=False)
            fig.data[-1] |= same
    if not len(everything):
        fig.layout[f"yaxis{nth}"] |= {"range": [0, 1], "showticklabels": False}
        return "No losses are stored for these runs"
    room = 0.05 * float(np.ptp(everything)) or 0.5
    fig.layout[f"yaxis{nth}"] |= {"range": [float(everything.min() - room), float(everything.max() + room)]}
    furthest = max(int(part["step"].max()) for part in tables)
    seeds = seed_count(of_run(validations, chosen)) if validations is not None else 0
    caption = "Step (line: training" + (f"; marks: validation, {seeds} seeds)" if seeds else ")")
    fig.layout[f"xaxis{nth}"] |= {"range": [0, 1.02 * furthest], "title": {"text": caption}}
    fig.layout[f"yaxis{nth}"]["title"] = {"text": "Loss"}
    rows = of_run(losses, chosen)
    return f"Training loss from {number(rows['loss'].iloc[0])} to {number(rows['loss'].iloc[-1])}" if len(rows) else ""


def of_run(table: Table, place: Place) -> pd.DataFrame:
    """The rows of one run, of all its seeds."""
    if not has(table, "placement", "lr", "warmup"):
        return pd.DataFrame()
    key, lr, warmup = place
    return table[(table["placement"] == key) & (table["lr"] == lr) & (table["warmup"] == warmup)]


def _name(place: Place) -> str:
    key, lr, warmup = place
    return f"{placement_label(key)}, rate {lr:g}, {f'warm-up {warmup:g}' if warmup else 'no warm-up'}"


def _value(table: pd.DataFrame, place: Place, brief: bool = False) -> str:
    """The mean over seeds, and unless brief their range."""
    values = of_run(table, place)["value"].to_numpy(float)
    if not len(values):
        return "is not stored"
    if not np.isfinite(values).all():
        return "diverged"
    many = len(values) > 1 and not brief
    spread = f" ({number(values.min())} to {number(values.max())}, {len(values)} seeds)" if many else ""
    return f"{number(values.mean())}{spread}"
