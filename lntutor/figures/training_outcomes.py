"""Ended runs: how each case came out, seed by seed; rates step by step; and gradients by layer as training goes on."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.drawing import empty, finish, listed, log_axis, row_axis, with_zeros
from lntutor.figures.layers import HOVER, LAYER_TITLE
from lntutor.figures.style import LINES, in_order, number, parameter_name, placement_label, placement_style, safe, times
from lntutor.figures.tables import Table, curves, drawable, has, over_seeds, seed_count, spread
from lntutor.figures.training import DASHES, step_style, thinned

# Outcomes ------------------------------------------------------------------------------------------------------


def outcomes(
    table: Table, *, value: str = "val_loss", what: str = "Validation loss (nats per word)",
    lower_is_better: bool = True,
    line: float | None = None, note: str = "", lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """One row per case, a small mark per seed and a large one at their mean; a run that diverged stands at the edge.

    Columns of the table: case, placement, seed and the one named by `value`. Cases stand in the table's order, the
    first on top; `line` is a value to compare with.
    """
    if not has(table, "case", "placement", value) or not np.isfinite(table[value].astype(float)).any():
        return empty("There are no runs to compare here.", lecture, note)
    table = table[table[value].notna()]  # not measured is not diverged: that is infinite
    fig, cases = Canvas(lecture), list(dict.fromkeys(table["case"]))[::-1]
    finite = np.isfinite(table[value].to_numpy(float))
    ends = [*table[value].to_numpy(float)[finite], *([line] if line is not None else [])]
    room = 0.06 * (max(ends) - min(ends)) or 0.5
    edge = max(ends) + 2 * room
    means = _draw_outcomes(fig, table, value, cases, edge)
    if line is not None:
        fig.add_level(line, len(cases))
    right = max(ends) + room if finite.all() else edge + room
    fig.update_xaxes(title=f"{safe(what)}<br>({_seed_caption(table)})", range=[min(ends) - room, right])
    fig.update_yaxes(**row_axis(cases))
    title, every = _best_cases(means, what, lower_is_better)
    kind = f"Dot plot, one row per case. Horizontal axis: {what}, {_seed_caption(table)}"
    return finish(fig, title, kind, every, note=note, height=max(200, 100 + 38 * len(cases)))


def _draw_outcomes(fig: Canvas, table: pd.DataFrame, value: str, cases: list[str], edge: float) -> dict[str, list]:
    """The marks of every placement; {placement: [(case, mean)]}, the mean infinite where a run diverged."""
    keys, means = in_order(table["placement"]), {}
    for i, key in enumerate(keys):
        here = table[table["placement"] == key]
        values = here[value].to_numpy(float)
        lost = ~np.isfinite(values)
        rows = here["case"].map({case: row for row, case in enumerate(cases)}).to_numpy(int)
        beside = min(0.26, 0.8 / len(keys)) * ((len(keys) - 1) / 2 - i)  # placements beside each other, not over
        _draw_placement(fig, key, rows + beside, values, lost, edge)
        known = over_seeds(rows, np.where(lost, np.inf, values))
        means[key] = [(cases[row], mean) for row, mean in zip(known.at, known.mean.tolist(), strict=True)]
    return means


def _draw_placement(fig: Canvas, key: str, at: np.ndarray, values: np.ndarray, lost: np.ndarray, edge: float) -> None:
    """The seeds, the means of cases in which none diverged, and the runs that did."""
    size, style, name = fig.size, placement_style(key), placement_label(key)
    hover = f"%{{x:.4g}}<extra>{name}</extra>"
    same: dict = {"mode": "markers", "name": name, "legendgroup": key, "hovertemplate": hover}
    mark = {"symbol": style["symbol"], "color": style["color"]}
    small = {"marker": {**mark, "size": 0.6 * size.marker, "opacity": 0.55}, "showlegend": False}
    fig.add_scatter(x=values[~lost].tolist(), y=at[~lost].tolist(), **small, uid=f"seeds/{key}", **same)
    complete = np.array([not lost[at == place].any() for place in at], bool)
    means = over_seeds(at[complete], values[complete])
    large = {**mark, "size": 1.2 * size.marker, "line": {"width": 1, "color": "white"}}
    same["showlegend"] = True
    fig.add_scatter(x=means.mean.tolist(), y=means.at.tolist(), marker=large, uid=f"mean/{key}", **same)
    if lost.any():
        cross = {"symbol": "x-thin-open", "color": style["color"], "size": size.marker, "line": {"width": size.line}}
        named = {**same, "name": f"{name}, diverged", "hovertemplate": "diverged<extra></extra>"}
        fig.add_scatter(x=[edge] * int(lost.sum()), y=at[lost].tolist(), marker=cross, uid=f"diverged/{key}", **named)


def _seed_caption(table: pd.DataFrame) -> str:
    seeds = seed_count(table)
    return f"small marks: {seeds} seeds, large: their mean" if seeds > 1 else "one seed"


def _best_cases(means: dict[str, list[tuple[str, float]]], what: str, lower: bool) -> tuple[str, str]:
    """The best case of every placement, and all of them in words."""
    best, every = [], []
    for key, cases in means.items():
        ends = [f"{number(mean)} ({case})" if np.isfinite(mean) else f"diverged ({case})" for case, mean in cases]
        every.append(f"{placement_label(key)}: {', '.join(ends)}")
        known = [(mean, case) for case, mean in cases if np.isfinite(mean)]
        if known:
            mean, case = (min if lower else max)(known)
            best.append((f"{placement_label(key)} ({safe(case)})", mean))
    short = what.partition(" (")[0]
    return f"{'Lowest' if lower else 'Highest'} {safe(_lower_first(short))}: {listed(best, number)}", "; ".join(every)


def _lower_first(name: str) -> str:
    """The text with a small first letter, unless it begins with an acronym such as BLEU."""
    return name if name[:2].isupper() else name[:1].lower() + name[1:]


# Schedules -----------------------------------------------------------------------------------------------------


def schedules(table: Table, *, what: str = "Learning rate", note: str = "", lecture: bool | None = None) -> go.Figure:
    """A rate, or a factor on it, at every step: one line per name. Columns of the table: run, step, value."""
    if not has(table, "run", "step", "value"):
        return empty("There is no schedule to draw here.", lecture, note)
    fig, ends = Canvas(lecture), []
    parts = table.groupby("run", sort=False)
    for (run, part), colour, dash in zip(parts, cycle(LINES), cycle(DASHES), strict=False):
        x, y = thinned(part["step"].to_numpy(), part["value"].to_numpy(float))
        line = {"color": colour, "dash": dash, "width": 1.3 * fig.size.line}
        hover = "step %{x}: %{y:.4g}<extra>%{fullData.name}</extra>"
        name = {"name": safe(run), "uid": f"schedule/{run}", "showlegend": True}
        fig.add_scatter(x=x, y=y, mode="lines", line=line, hovertemplate=hover, **name)
        ends.append((safe(run), float(part["value"].iloc[-1])))
    last = int(table["step"].max())
    fig.update_xaxes(title="Step", range=[0, 1.02 * last])
    fig.update_yaxes(title=safe(what), range=[0, 1.08 * float(table["value"].max())])
    title = f"{safe(what)} at step {last}: {'; '.join(f'{number(value)} ({run})' for run, value in ends)}"
    starts = "; ".join(f"{run} {number(float(part['value'].iloc[0]))}" for run, part in parts)
    kind = f"Line plot of {_lower_first(what)} against the step"
    return finish(fig, title, kind, f"At the first step: {starts}", note=note, height=300)


# Gradients as training goes on -----------------------------------------------------------------------------------


def gradient_over_training(
    table: Table, *, steps: tuple[int, ...] = (), parameter: str = "W_2", side: str = "decoder", note: str = "",
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """‖∂L/∂W‖ in every layer of one side at a few steps of training: one panel per run, later steps darker.

    Columns of the table: run, step, and those of `gradient_norms`. Without `steps`: the first, the middle and the
    last that were measured.
    """
    columns = "run", "step", "parameter", "side", "layer", "value"
    table = table[(table["parameter"] == parameter) & (table["side"] == side)] if has(table, *columns) else None
    rows, left = drawable(table, positive=True)
    measured = sorted(set(rows["step"])) if "step" in rows.columns else []
    wanted = [step for step in steps if step in measured] or _ends_and_middle(measured)
    if not wanted:
        return empty(left.why_empty(f"There are no gradients of {parameter} in the {side} here."), lecture, note)
    rows = rows[rows["step"].isin(wanted)].drop(columns="block", errors="ignore")
    fig, high = _draw_steps(rows, wanted, lecture), int(rows["layer"].max())
    what = f"‖∂L/∂{parameter_name(parameter)}‖, {safe(side)}"
    fig.update_xaxes(title=f"{what}<br>({spread(rows)})", row=fig.rows)
    finding, ends = _training_finding(rows, wanted, high, parameter, side)
    title = with_zeros(finding, table, "run", "step", "layer")
    kind = (
        "Scatter plots, one per run. Vertical axis: layer, input at the bottom. Horizontal axis: norm of the gradient "
        f"of {parameter} in the {side}, logarithmic, {spread(rows)}"
    )
    return finish(fig, title, kind, ends, left.sentence(), note=note, height=330 * fig.rows)


def _draw_steps(rows: pd.DataFrame, steps: list[int], lecture: bool | None) -> Canvas:
    """One panel per run with a curve per step; the legend has marks and dashes without a placement's colour."""
    runs = list(dict.fromkeys(rows["run"]))
    fig = Canvas(lecture, [safe(run) for run in runs], rows=1 + (len(runs) > 3), shared="xy", gap=0.1)
    for i, run in enumerate(runs):
        row, column = divmod(i, fig.columns)
        for nth, step in enumerate(steps):
            for key, _, means in curves(rows[rows["run"] == run], "layer", step=step):
                style = step_style(nth, key)
                more = {"name": f"step {step}", "legendgroup": f"{step}", "showlegend": False, "hovertemplate": HOVER}
                look = {"upright": True, "joined": True, "uid": f"{run}/{key}/{step}"}
                fig.add_marks(means, style, row + 1, column + 1, **look, **more)
    for nth, step in enumerate(steps):
        style, mode = step_style(nth), {"x": [None], "y": [None], "mode": "lines+markers"}
        line = {"color": style["color"], "dash": style["dash"], "width": fig.size.thin}
        mark = {"symbol": style["symbol"], "color": style["color"], "size": fig.size.marker}
        named = {"name": f"step {step}", "legendgroup": f"{step}", "uid": f"step/{step}"}
        fig.add_scatter(**mode, line=line, marker=mark, **named)
    low, high = int(rows["layer"].min()), int(rows["layer"].max())
    fig.update_yaxes(tickvals=list(range(low, high + 1)), range=[low - 0.5, high + 0.5])
    fig.update_yaxes(title=LAYER_TITLE, col=1)
    fig.update_xaxes(**log_axis(rows["value"], room=6))
    return fig


def _ends_and_middle(steps: list[int]) -> list[int]:
    return sorted({steps[0], steps[len(steps) // 2], steps[-1]}) if steps else []


def _training_finding(rows: pd.DataFrame, steps: list[int], top: int, parameter: str, side: str) -> tuple[str, str]:
    """How the top layer's gradient has changed in every run, and its ends in words."""
    changes, ends = [], []
    for run in dict.fromkeys(rows["run"]):
        here = rows[rows["run"] == run]
        means = here.groupby(["step", "layer"])["value"].mean()
        if (steps[0], top) in means and (steps[-1], top) in means:
            changes.append((safe(run), float(means[steps[-1], top] / means[steps[0], top])))
        high, low = (
            ", ".join(f"step {step} {number(value)}" for (step, layer), value in means.items() if layer == end)
            for end in (top, rows["layer"].min())
        )
        ends.append(f"{safe(run)}: top layer {high}; lowest layer {low}")
    name = parameter_name(parameter)
    where = f"{name} of the {side}'s top layer, step {steps[-1]} over step {steps[0]}"
    return f"{where}: {listed(changes, times, most=2)}", ". ".join(ends)
