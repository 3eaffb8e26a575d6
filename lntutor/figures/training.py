"""Training runs: loss, rate and gradient step by step, and a map over rates and warm-ups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, heatmap, scatter
from lntutor.figures.parts import empty, finish, has, listed, log_axis, sentence
from lntutor.figures.style import in_order, number, placement_label, placement_style, safe, sizes

CURVES = {"loss": "Loss (nats a word)", "lr": "Learning rate", "gradient": "Gradient norm"}
HEAT = [[0, "#08375F"], [0.25, "#2E7FB6"], [0.5, "#7DB2D8"], [0.75, "#C9DFF0"], [1, "#EDF4FA"]]


def training_curves(table: pd.DataFrame, *, note: str = "", lecture: bool = False) -> go.Figure:
    """Loss, learning rate and gradient norm against the step, a colour a run; columns that are missing are not drawn.

    A run whose name, or whose column `placement`, is a placement's key has that placement's colour.
    """
    shown = [name for name in CURVES if has(table, "run", "step", name) and table[name].notna().any()]
    if not shown:
        return empty("There are no training steps to draw yet.", lecture, note)
    size = sizes(lecture)
    heights = [3 if name == "loss" else 1.6 for name in shown]
    fig = Canvas([""] * len(shown), lecture, rows=len(shown), gap=0.06, shared="x", heights=heights)
    for row, name in enumerate(shown, 1):
        for run, part in _runs(table):
            style, more = _run_style(part, run), {"legendgroup": run, "name": _run_label(run)}
            line = {"color": style["color"], "dash": style["dash"], "width": size.line}
            hover = "step %{x}: %{y:.4g}<extra>%{fullData.name}</extra>"
            fig.add_trace(
                scatter(
                    x=part["step"].tolist(),
                    y=part[name].astype(float).tolist(),
                    mode="lines",
                    line=line,
                    showlegend=row == 1,
                    uid=f"{name}/{run}",
                    hovertemplate=hover,
                    **more,
                ),
                row,
                1,
            )
            checked = part[part["val_loss"].notna()] if name == "loss" and "val_loss" in part.columns else part[:0]
            if len(checked):
                mark = {
                    "symbol": style["symbol"],
                    "size": size.marker,
                    "color": style["color"],
                    "line": {"width": 1, "color": "white"},
                }
                fig.add_trace(
                    scatter(
                        x=checked["step"].tolist(),
                        y=checked["val_loss"].tolist(),
                        mode="markers",
                        marker=mark,
                        showlegend=False,
                        uid=f"val_loss/{run}",
                        hovertemplate=f"validation, {hover}",
                        **more,
                    ),
                    row,
                    1,
                )
        fig.update_yaxes(title=CURVES[name].replace(" (", "<br>("), row=row, col=1)
        if name == "gradient":
            fig.update_yaxes(**log_axis(table[name], room=5), row=row, col=1)
    fig.update_xaxes(title="Step" + (" (marks: validation)" if "val_loss" in table.columns else ""), row=len(shown))
    title, worth = _outcome(table)
    alt = sentence(
        f"Line plots against the step, one above the other: {', '.join(CURVES[n] for n in shown)}", title, worth
    )
    return finish(fig, title, alt, lecture=lecture, note=note, height=300 + 110 * len(shown))


def _runs(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    parts = {str(run): part.sort_values("step") for run, part in table.groupby("run", sort=True)}
    return [(run, parts[run]) for run in in_order(parts)]


def _run_style(part: pd.DataFrame, run: str) -> dict[str, str]:
    keys = set(part["placement"]) if "placement" in part.columns else {run}
    return placement_style(keys.pop() if len(keys) == 1 else run)


def _run_label(run: str) -> str:
    return placement_label(run)


def _outcome(table: pd.DataFrame) -> tuple[str, str]:
    """The title, from the last validation or training loss of every run, and which runs diverged."""
    column = next((c for c in ("val_loss", "loss") if c in table.columns and table[c].notna().any()), None)
    if column is None:
        return f"{table['run'].nunique()} runs, {int(table['step'].max())} steps", ""
    finals, lost = [], []
    for run, part in _runs(table):
        values = part[column][np.isfinite(part[column].astype(float))]
        finals.append((_run_label(run), float(values.iloc[-1]) if len(values) else float("nan")))
        if "loss" in part.columns and len(part) and not np.isfinite(part["loss"].astype(float).iloc[-1]):
            lost.append(_run_label(run))
    what = "validation loss" if column == "val_loss" else "loss"
    title = f"After {int(table['step'].max())} steps, {what}: {listed(finals, number)}"
    return title, f"Diverged: {', '.join(lost)}" if lost else ""


def warmup_heatmap(
    table: pd.DataFrame,
    *,
    what: str = "final loss",
    lower_is_better: bool = True,
    note: str = "",
    lecture: bool = False,
) -> go.Figure:
    """One heat map a placement over learning rate and warm-up, one colour scale, the numbers in the cells."""
    if not has(table, "placement", "lr", "warmup", "value"):
        return empty("There are no runs to compare here.", lecture, note)
    keys, size = in_order(table["placement"]), sizes(lecture)
    fig = Canvas([placement_label(key) for key in keys], lecture, shared="y", gap=0.04)
    rates, steps = sorted(set(table["lr"])), sorted(set(table["warmup"]))
    for column, key in enumerate(keys, 1):
        grid = table[table["placement"] == key].pivot_table(index="lr", columns="warmup", values="value", dropna=False)
        grid = grid.reindex(index=rates, columns=steps).to_numpy(float)
        fig.add_trace(
            heatmap(
                z=[[v if np.isfinite(v) else None for v in row] for row in grid],
                coloraxis="coloraxis",
                xgap=2,
                ygap=2,
                text=[[number(v, 2) if np.isfinite(v) else "–" for v in row] for row in grid],
                texttemplate="%{text}",
                textfont={"size": size.text},
                uid=f"heat/{key}",
                name=placement_label(key),
                hovertemplate="%{z:.4g}<extra>%{fullData.name}</extra>",
            ),
            1,
            column,
        )
    axis = {"showgrid": False, "ticks": "", "showline": False}
    fig.update_xaxes(
        title="Warm-up steps", tickvals=list(range(len(steps))), ticktext=[f"{s:g}" for s in steps], **axis
    )
    fig.update_yaxes(tickvals=list(range(len(rates))), ticktext=[f"{r:g}" for r in rates], **axis)
    fig.update_yaxes(title="Learning rate", col=1)
    bar = {"title": {"text": safe(what), "side": "right"}, "thickness": 12, "outlinewidth": 0}
    fig.layout["coloraxis"] = {"colorscale": HEAT if lower_is_better else HEAT_UP, "colorbar": bar}
    title, words = _best(table, keys, what, lower_is_better)
    alt = sentence(
        f"Heat maps, one a placement, horizontal axis warm-up steps, vertical axis learning rate, numbers {what}, mean "
        "over seeds",
        title,
        words,
    )
    return finish(fig, title, alt, lecture=lecture, note=note, height=170 + 48 * max(len(rates), 4))


HEAT_UP = [[1 - place, colour] for place, colour in HEAT[::-1]]


def _best(table: pd.DataFrame, keys: list[str], what: str, lower: bool) -> tuple[str, str]:
    best, words = [], []
    for key in keys:
        means = table[table["placement"] == key].groupby(["lr", "warmup"])["value"].mean()
        means = means[np.isfinite(means)]
        if len(means):
            (lr, warmup), value = (means.idxmin(), means.min()) if lower else (means.idxmax(), means.max())
            best.append((placement_label(key), float(value)))
            words.append(f"{placement_label(key)}: {number(value)} at rate {number(lr)} and warm-up {warmup:g}")
    if not best:
        return f"No {safe(what)} is finite", ""
    return f"{'Lowest' if lower else 'Highest'} {safe(what)}: {listed(best, number)}", "; ".join(words)
