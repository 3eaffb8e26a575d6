"""The learning rate at every step, and Adam's step of one weight under noise."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.drawing import empty, finish
from lntutor.figures.style import BLACK, GREEN, PURPLE, number
from lntutor.figures.tables import Table, has
from lntutor.figures.training import thinned

CORRECTIONS = {"with": ("mean, with the correction", PURPLE, "solid"), "without": ("mean, without it", GREEN, "dash")}
CLEAR = 0.18  # opacity of a band


# A schedule ----------------------------------------------------------------------------------------------------


def rate_by_step(
    table: Table, *, warmup: int = 0, peak: float | None = None, at: int | None = None, note: str = "",
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """The rate at every step, the end of warm-up, and the area under the rate up to step `at`: the distance allowed.

    Columns of the table: step, value and sum, of `lntutor.training.optimizers.rates`. `peak` is the highest rate that
    the schedule aims at. The axis ends at a round number, so that the picture stays while the peak moves a little.
    """
    if not has(table, "step", "value", "sum") or not np.isfinite(table["value"].astype(float)).any():
        return empty("There is no schedule to draw here.", lecture, note)
    fig, steps, values = Canvas(lecture), table["step"].to_numpy(), table["value"].to_numpy(float)
    top = float(np.nanmax(values[np.isfinite(values)])) if peak is None else peak
    row = int(np.abs(steps - (steps[-1] if at is None else at)).argmin())
    here, rate, total = int(steps[row]), float(values[row]), float(table["sum"].iloc[row])
    x, y = thinned(steps[: row + 1], values[: row + 1])
    area = {"fill": "tozeroy", "fillcolor": f"rgba(181, 88, 139, {CLEAR})", "line": {"width": 0}, "hoverinfo": "skip"}
    named = {"name": "distance allowed", "uid": "sum", "mode": "lines"}
    fig.add_scatter(x=[x[0], *x, x[-1]], y=[0, *y, 0], **named, **area)
    if 0 < warmup <= steps[-1]:
        named = {"name": "end of warm-up", "uid": "warm-up", "hoverinfo": "skip"}
        fig.add_scatter(x=[warmup, warmup], y=[0, top], mode="lines", line=fig.dotted, **named)
    x, y = thinned(steps, values)
    hover = "step %{x}: %{y:.4g}<extra></extra>"
    line = {"color": BLACK, "width": 1.3 * fig.size.line}
    fig.add_scatter(x=x, y=y, mode="lines", line=line, name="learning rate", uid="rate", hovertemplate=hover)
    fig.add_ring([here], [rate], f"step {here}")
    fig.update_xaxes(title="Step", range=[0, int(steps[-1])])
    fig.update_yaxes(title="Learning rate", range=[0, round_above(top)])
    share = total / (here * top) if top else math.nan
    far = f"distance allowed {number(total)}, {share:.0%} of a constant rate's"
    title = f"Step {here}: rate {number(rate)}; {far}"
    late = f"; the warm-up of {warmup} steps does not end in this run" * bool(warmup > steps[-1])
    kind = f"Line plot of the learning rate against the step, with the area under it up to step {here}"
    return finish(fig, title + late, kind, f"Warm-up: {warmup} of {int(steps[-1])} steps", note=note, height=330)


def round_above(value: float) -> float:
    """The least of 1, 2, 5 times a power of ten with some room above the value."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return float(next(lead * power for lead in (1, 2, 5, 10, 20) if lead * power >= 1.1 * value))


# Adam's step ---------------------------------------------------------------------------------------------------


def adam_by_step(
    table: Table, *, uncorrected: bool = False, limit: float | None = None, runs: int = 1, note: str = "",
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """Adam's step over the rate at every step, above; its standard deviation over runs, below.

    Columns of the table: those of `lntutor.training.optimizers.adam_over_runs`. `limit` is a spread to compare with.
    """
    if not has(table, "correction", "step", "low", "mean", "high", "spread", "first"):
        return empty("There is no step of Adam's to draw here.", lecture, note)
    fig = Canvas(lecture, ["", ""], rows=2, shared="x", heights=(3, 2), gap=0.07)
    parts = {name: table[table["correction"] == name] for name in CORRECTIONS if name == "with" or uncorrected}
    parts = {name: part for name, part in parts.items() if len(part)}
    for name, part in parts.items():
        _draw_steps(fig, name, part)
    last = int(table["step"].max())
    if limit is not None:
        ends = {"x": [1, last], "y": [limit, limit], "mode": "lines", "hoverinfo": "skip"}
        fig.add_scatter(2, **ends, line=fig.dotted, name=f"noise, long run: {number(limit)}", uid="limit")
    highest = max((float(part["spread"].max()) for part in parts.values()), default=1.0)
    fig.update_xaxes(range=[0, 1.02 * last])
    fig.update_xaxes(title="Step", row=2)
    fig.update_yaxes(title="Step ÷<br>peak rate", row=1)
    fig.update_yaxes(title=f"Spread over<br>{runs} runs", range=[0, 1.1 * max(highest, limit or 0, 0.1)], row=2)
    title, kind = _first_and_last(parts), "Two line plots against the step: Adam's step over the rate, and its spread"
    return finish(fig, title, kind, f"Band: eight of ten runs of {runs}", note=note, height=410)


def _draw_steps(fig: Canvas, name: str, part: pd.DataFrame) -> None:
    """Band, mean and first run above, the spread below."""
    caption, colour, dash = CORRECTIONS[name]
    steps, size = part["step"].to_numpy(), fig.size
    same = {"mode": "lines", "legendgroup": name}
    low, high = part["low"].tolist(), part["high"].tolist()
    clear = f"rgba({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))}, {CLEAR})"
    band = {"x": [*steps.tolist(), *steps[::-1].tolist()], "y": [*high, *low[::-1]], "fill": "toself"}
    look = {"fillcolor": clear, "line": {"width": 0}, "hoverinfo": "skip"}
    fig.add_scatter(1, **band, **look, **same, name="eight of ten runs", uid=f"band/{name}", showlegend=name == "with")
    hover = "step %{x}: %{y:.3g}<extra>%{fullData.name}</extra>"
    for row, column, width in ((1, "first", size.thin * 0.6), (1, "mean", size.line), (2, "spread", size.line)):
        x, y = thinned(steps, part[column].to_numpy(float))
        line = {"color": colour, "dash": dash, "width": width}
        first = column == "first"
        shown = column == "mean" or (first and name == "with")
        named = {"name": "one run" if first else caption, "uid": f"{column}/{name}", "showlegend": shown}
        fig.add_scatter(row, x=x, y=y, line=line, hovertemplate=hover, **named, **same)


def _first_and_last(parts: dict[str, pd.DataFrame]) -> str:
    """How large the first step is, and how much the steps of the runs differ, at first and at last."""
    if not parts:
        return ""
    first = {name: f"±{number(abs(float(part['first'].iloc[0])))}" for name, part in parts.items()}
    spread, last = next(iter(parts.values()))["spread"].to_numpy(float), next(iter(parts.values()))["step"].iloc[-1]
    words = f"First step ÷ peak rate: {first.pop('with', '')}" + "".join(
        f" (without correction {v})" for v in first.values()
    )
    return f"{words}; spread over runs: {number(spread[0], 2)}, at step {last} {number(spread[-1], 2)}"
