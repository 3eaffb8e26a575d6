"""Ended runs: how each case came out, seed by seed; rates step by step; and gradients by layer as training goes on."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, scatter
from lntutor.figures.checked import checked
from lntutor.figures.layers import HOVER, LAYER_TITLE
from lntutor.figures.parts import (
    curves,
    drawable,
    empty,
    finish,
    has,
    left_out,
    listed,
    log_axis,
    marks,
    over_seeds,
    seed_count,
    sentence,
    spread_words,
)
from lntutor.figures.style import (
    BLACK,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    darker,
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
from lntutor.figures.training import DASHES, SYMBOLS, TONES, thinned

SCHEDULE_COLOURS = (BLACK, PURPLE, GREEN, ORANGE, SKY)  # none that stands for Post-LN or Pre-LN


# Outcomes ------------------------------------------------------------------------------------------------------


@checked
def outcomes(
    table: pd.DataFrame,
    *,
    value: str = "val_loss",
    what: str = "Validation loss (nats a word)",
    lower_is_better: bool = True,
    line: float | None = None,
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """One row a case, a small mark a seed and a large one at their mean; a run that diverged stands at the edge.

    Columns of the table: case, placement, seed and the one named by `value`. Cases stand in the table's order, the
    first on top; `line` is a value to compare with.
    """
    if not has(table, "case", "placement", value) or not np.isfinite(table[value].astype(float)).any():
        return empty("There are no runs to compare here.", lecture, note)
    table = table[table[value].notna()]  # not measured is not diverged: that is infinite
    fig, size = Canvas([""], lecture), sizes(lecture)
    cases, keys = list(dict.fromkeys(table["case"]))[::-1], in_order(table["placement"])
    finite = table[value].astype(float)[np.isfinite(table[value].astype(float))]
    ends = [*finite, *([line] if line is not None else [])]
    room = 0.06 * (max(ends) - min(ends)) or 0.5
    edge = max(ends) + 2 * room
    means: dict[str, list[tuple[str, float]]] = {}
    for i, key in enumerate(keys):
        here = table[table["placement"] == key]
        values = here[value].to_numpy(float)
        lost = ~np.isfinite(values)
        at = here["case"].map({case: place for place, case in enumerate(cases)}).to_numpy(float)
        at += 0.26 * ((len(keys) - 1) / 2 - i)  # placements beside each other, not over
        for trace in _outcome_traces(key, at, values, lost, edge, size):
            fig.add_trace(trace)
        known = over_seeds(at, np.where(lost, np.inf, values))
        names = [cases[round(place)] for place in known.at]
        means[key] = list(zip(names, known.mean.tolist(), strict=True))
    if line is not None:
        dotted = {"mode": "lines", "line": {"color": INK, "width": size.thin, "dash": "dot"}, "hoverinfo": "skip"}
        fig.add_trace(scatter(x=[line] * 2, y=[-0.5, len(cases) - 0.5], name=number(line), uid="line", **dotted))
    right = edge + room if not np.isfinite(table[value].astype(float)).all() else max(ends) + room
    fig.update_xaxes(title=f"{safe(what)}<br>({_seeds_in_words(table)})", range=[min(ends) - room, right])
    ticks = {"tickvals": list(range(len(cases))), "ticktext": [wrapped(safe(case), 34) for case in cases]}
    fig.update_yaxes(range=[-0.6, len(cases) - 0.4], **ticks)
    title, words = _outcome_words(means, what, lower_is_better)
    alt = sentence(f"Dot plot, one row a case. Horizontal axis: {what}, {_seeds_in_words(table)}", title, words)
    return finish(fig, title, alt, lecture=lecture, note=note, height=max(200, 100 + 38 * len(cases)))


def _outcome_traces(key: str, at, values, lost, edge: float, size) -> list[dict]:
    """The seeds, the means of cases in which none diverged, and the runs that did."""
    style, name = placement_style(key), placement_label(key)
    same = {"mode": "markers", "name": name, "legendgroup": key, "hovertemplate": f"%{{x:.4g}}<extra>{name}</extra>"}
    mark = {"symbol": style["symbol"], "color": style["color"]}
    seeds = {**mark, "size": 0.6 * size.marker, "opacity": 0.55}
    traces = [scatter(x=values[~lost].tolist(), y=at[~lost].tolist(), marker=seeds, uid=f"seeds/{key}", **same)]
    whole = np.array([not lost[at == place].any() for place in at], bool)
    mean = over_seeds(at[whole], values[whole])
    big = {**mark, "size": 1.2 * size.marker, "line": {"width": 1, "color": "white"}}
    traces.append(scatter(x=mean.mean.tolist(), y=mean.at.tolist(), marker=big, uid=f"mean/{key}", **same))
    if lost.any():
        cross = {"symbol": "x-thin-open", "color": style["color"], "size": size.marker, "line": {"width": size.line}}
        told = {**same, "name": f"{name}, diverged", "hovertemplate": "diverged<extra></extra>"}
        traces.append(
            scatter(x=[edge] * int(lost.sum()), y=at[lost].tolist(), marker=cross, uid=f"diverged/{key}", **told)
        )
    for trace in traces:
        trace["showlegend"] = not trace["uid"].startswith("seeds/")
    return traces


def _seeds_in_words(table: pd.DataFrame) -> str:
    seeds = seed_count(table)
    return f"small marks: {seeds} seeds, large: their mean" if seeds > 1 else "one seed"


def _outcome_words(means: dict[str, list[tuple[str, float]]], what: str, lower: bool) -> tuple[str, str]:
    """The best case of every placement, and all of them in words."""
    best, words = [], []
    for key, cases in means.items():
        told = [f"{number(mean)} ({case})" if np.isfinite(mean) else f"diverged ({case})" for case, mean in cases]
        words.append(f"{placement_label(key)}: {', '.join(told)}")
        known = [(mean, case) for case, mean in cases if np.isfinite(mean)]
        if known:
            mean, case = (min if lower else max)(known)
            best.append((f"{placement_label(key)} ({safe(case)})", mean))
    short = what.partition(" (")[0]
    return f"{'Lowest' if lower else 'Highest'} {safe(_small(short))}: {listed(best, number)}", "; ".join(words)


def _small(words: str) -> str:
    """Without a capital at the start, unless the word is all capitals, such as BLEU."""
    return words if words[:2].isupper() else words[:1].lower() + words[1:]


# Schedules -----------------------------------------------------------------------------------------------------


@checked
def schedules(
    table: pd.DataFrame, *, what: str = "Learning rate", note: str = "", lecture: bool | None = None
) -> go.Figure:
    """A rate, or a factor on it, at every step: one line a name. Columns of the table: run, step, value."""
    if not has(table, "run", "step", "value"):
        return empty("There is no schedule to draw here.", lecture, note)
    fig, size, ends = Canvas([""], lecture), sizes(lecture), []
    parts = table.groupby("run", sort=False)
    for (run, part), colour, dash in zip(parts, cycle(SCHEDULE_COLOURS), cycle(DASHES), strict=False):
        x, y = thinned(part["step"].to_numpy(), part["value"].to_numpy(float))
        line = {"color": colour, "dash": dash, "width": 1.3 * size.line}
        hover = "step %{x}: %{y:.4g}<extra>%{fullData.name}</extra>"
        name = {"name": safe(run), "uid": f"schedule/{run}", "showlegend": True}
        fig.add_trace(scatter(x=x, y=y, mode="lines", line=line, hovertemplate=hover, **name))
        ends.append((safe(run), float(part["value"].iloc[-1])))
    last = int(table["step"].max())
    fig.update_xaxes(title="Step", range=[0, 1.02 * last])
    fig.update_yaxes(title=safe(what), range=[0, 1.08 * float(table["value"].max())])
    title = f"{safe(what)} at step {last}: {'; '.join(f'{number(value)} ({run})' for run, value in ends)}"
    starts = "; ".join(f"{run} {number(float(part['value'].iloc[0]))}" for run, part in parts)
    alt = sentence(f"Line plot of {_small(what)} against the step", title, f"At the first step: {starts}")
    return finish(fig, title, alt, lecture=lecture, note=note, height=300)


# Gradients as training goes on -----------------------------------------------------------------------------------


@checked
def gradient_over_training(
    table: pd.DataFrame,
    *,
    steps: tuple[int, ...] = (),
    parameter: str = "W_2",
    side: str = "decoder",
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """‖∂L/∂W‖ in every layer of one side at a few steps of training: a panel a run, later steps darker.

    Columns of the table: run, step, and those of `gradient_norms`. Without `steps`: the first, the middle and the
    last that were measured.
    """
    if has(table, "run", "step", "parameter", "side", "layer", "value"):
        table = table[(table["parameter"] == parameter) & (table["side"] == side)]
    else:
        table = None
    rows, hidden = drawable(table, positive=True)
    measured = sorted(set(rows["step"])) if "step" in rows.columns else []
    wanted = [step for step in steps if step in measured] or _ends_and_middle(measured)
    if not wanted:
        return empty(f"There are no gradients of {parameter} in the {side} here.", lecture, note)
    rows, size = rows[rows["step"].isin(wanted)].drop(columns="block", errors="ignore"), sizes(lecture)
    runs = list(dict.fromkeys(rows["run"]))
    fig = Canvas([safe(run) for run in runs], lecture, rows=1 + (len(runs) > 3), shared="xy", gap=0.1)
    for i, run in enumerate(runs):
        panel = divmod(i, fig.columns)
        for nth, step in enumerate(wanted):
            for key, _, means in curves(rows[rows["run"] == run], "layer", step=step):
                style = _step_style(nth, darker(placement_style(key)["color"], TONES[min(nth, 2)]))
                more = {"name": f"step {step}", "legendgroup": f"{step}", "showlegend": False, "hovertemplate": HOVER}
                trace = marks(means, style, size, upright=True, joined=True, uid=f"{run}/{key}/{step}", **more)
                fig.add_trace(trace, panel[0] + 1, panel[1] + 1)
    for nth, step in enumerate(wanted):  # the legend: marks and dashes without a placement's colour
        style = _step_style(nth, INK)
        shown = {"mode": "lines+markers", "line": {"color": INK, "dash": style["dash"], "width": size.thin}}
        mark = {"symbol": style["symbol"], "color": INK, "size": size.marker}
        shown |= {"name": f"step {step}", "legendgroup": f"{step}"}
        fig.add_trace(scatter(x=[None], y=[None], marker=mark, uid=f"step/{step}", **shown))
    low, high = int(rows["layer"].min()), int(rows["layer"].max())
    fig.update_yaxes(tickvals=list(range(low, high + 1)), range=[low - 0.5, high + 0.5])
    fig.update_yaxes(title=LAYER_TITLE, col=1)
    fig.update_xaxes(**log_axis(rows["value"], room=6))
    what = f"‖∂L/∂{parameter_name(parameter)}‖, {safe(side)}"
    fig.update_xaxes(title=f"{what}<br>({spread_words(rows)})", row=fig.rows)
    title, words = _training_finding(rows, runs, wanted, high, parameter, side)
    alt = sentence(
        "Scatter plots, one a run. Vertical axis: layer, input at the bottom. Horizontal axis: norm of the gradient "
        f"of {parameter} in the {side}, logarithmic, {spread_words(rows)}",
        title,
        words,
        left_out(hidden),
    )
    return finish(fig, title, alt, lecture=lecture, note=note, height=330 * fig.rows)


def _ends_and_middle(steps: list[int]) -> list[int]:
    return sorted({steps[0], steps[len(steps) // 2], steps[-1]}) if steps else []


def _step_style(nth: int, colour: str) -> dict[str, str]:
    return {"color": colour, "dash": DASHES[nth % len(DASHES)], "symbol": SYMBOLS[nth % len(SYMBOLS)]}


def _training_finding(rows, runs, steps, top: int, parameter: str, side: str) -> tuple[str, str]:
    """How the top layer's gradient has changed in every run, and its ends in words."""
    changes, words = [], []
    for run in runs:
        here = rows[rows["run"] == run]
        means = here.groupby(["step", "layer"])["value"].mean()
        if (steps[0], top) in means and (steps[-1], top) in means:
            changes.append((safe(run), float(means[steps[-1], top] / means[steps[0], top])))
        told = [f"step {step} {number(value)}" for (step, layer), value in means.items() if layer == top]
        low = [f"step {step} {number(value)}" for (step, layer), value in means.items() if layer == rows["layer"].min()]
        words.append(f"{safe(run)}: top layer {', '.join(told)}; lowest layer {', '.join(low)}")
    name = parameter_name(parameter)
    where = f"{name} of the {side}'s top layer, step {steps[-1]} over step {steps[0]}"
    return f"{where}: {listed(changes, times, most=2)}", ". ".join(words)
