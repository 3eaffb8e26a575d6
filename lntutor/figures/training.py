"""Training runs: loss, rate and gradient step by step, and a map over rates and warm-ups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.drawing import cell_ticks, colour_bar, empty, finish, listed, log_axis, numbered_cells
from lntutor.figures.style import INK, Sizes, darker, for_text, in_order, number, placement_label, placement_style, safe
from lntutor.figures.tables import Table, has, seed_count

CURVES = {"loss": "Loss (nats per word)", "lr": "Learning rate", "gradient": "Gradient norm"}
POINTS = 250  # drawn of a curve at most
WINDOW = 21  # steps over which the loss is averaged, in runs that are several times as long
TONES = (1.0, 0.6, 0.3)  # of the colour, for the runs of one placement in turn
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "star", "hexagon2", "triangle-down", "pentagon")
Run = tuple[str, pd.DataFrame, dict]  # name, rows, style
HEAT = [[0, "#08375F"], [0.25, "#2E7FB6"], [0.5, "#7DB2D8"], [0.75, "#C9DFF0"], [1, "#EDF4FA"]]
HEAT_UP = [[1 - place, colour] for place, colour in HEAT[::-1]]


def training_curves(
    table: Table, *, steps: int | None = None, note: str = "", lecture: bool | None = None
) -> go.Figure:
    """Loss, learning rate and gradient norm against the step, one name per run; missing columns are not drawn.

    A run whose name, or whose column `placement`, is a placement's key has that placement's colour; further runs of
    that placement have dashes and marks of their own. Rows of one run that differ in `seed` are one line each. Long
    curves are thinned to the least and greatest value of each stretch; a long loss is also averaged over 21 steps.
    The horizontal axis reaches to `steps`, where runs are under way.
    """
    curves = [name for name in CURVES if has(table, "run", "step", name) and table[name].notna().any()]
    if not curves or table is None:
        return empty("There are no training steps to draw yet.", lecture, note)
    reach = 1.02 * max(steps or 0, int(table["step"].max()))
    runs = [(run, part.sort_values("step"), style) for run, part, style in styled_runs(table, "run")]
    heights = [3 if name == "loss" else 1.6 for name in curves]
    fig = Canvas(lecture, [""] * len(curves), rows=len(curves), gap=0.06, shared="x", heights=heights)
    for row, name in enumerate(curves, 1):
        axis = _axis(name, table, runs)
        _draw_runs(fig, row, name, runs, axis, reach)
        fig.update_yaxes(title=CURVES[name].replace(" (", "<br>("), row=row, **axis)
    fig.update_xaxes(title="Step" + (" (marks: validation)" if "val_loss" in table.columns else ""), row=len(curves))
    fig.update_xaxes(range=[0, reach])
    title, lost = _outcome(runs)
    kind = f"Line plots against the step, one above the other: {', '.join(CURVES[n] for n in curves)}"
    return finish(fig, title, kind, lost, note=note, height=300 + 110 * len(curves))


def _axis(name: str, table: pd.DataFrame, runs: list[Run]) -> dict:
    if name == "gradient":
        return log_axis(table[name], room=5)
    return _loss_axis(runs) if name == "loss" else {"range": [0, 1.1 * float(table[name].max())]}


def _draw_runs(fig: Canvas, row: int, name: str, runs: list[Run], axis: dict, reach: float) -> None:
    """One curve per run and seed; a run stands in the legend once."""
    for run, part, style in runs:
        more = {"legendgroup": run, "name": placement_label(run)}
        for seed, (uid, lines) in enumerate(_seeds(run, part)):
            traces = _traces(name, uid, lines, style, fig.size, seed_count(part))
            if name == "loss":
                traces += _divergence(uid, lines, style, fig.size, axis, reach)
            for trace in traces:
                first = trace.pop("listed", False) and row == 1 and seed == 0
                fig.add_scatter(row, **trace, **more, showlegend=first)


def thinned(steps: np.ndarray, values: np.ndarray, most: int = POINTS) -> tuple[list, list]:
    """At most so many points of a curve: its ends, and the least and greatest of each stretch, so that spikes stay."""
    if len(values) > most:
        kept = {0, len(values) - 1}
        for stretch in np.array_split(np.arange(len(values)), (most - 2) // 2):
            finite = stretch[np.isfinite(values[stretch])]
            if len(finite):
                kept |= {int(finite[values[finite].argmin()]), int(finite[values[finite].argmax()])}
        steps, values = steps[sorted(kept)], values[sorted(kept)]
    return steps.tolist(), [v if np.isfinite(v) else None for v in values.tolist()]


def averaged(values: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """The mean over a window around each value: narrow at the start, where a loss falls fast, cut off at the end."""
    finite, at = np.isfinite(values), np.arange(len(values))
    sums, counts = (np.cumsum([0.0, *part]) for part in (np.where(finite, values, 0), finite))
    half = np.minimum(window // 2, at)
    first, last = at - half, np.minimum(at + half, len(values) - 1) + 1
    return np.where(finite, (sums[last] - sums[first]) / np.maximum(counts[last] - counts[first], 1), np.nan)


def _traces(name: str, uid: str, part: pd.DataFrame, style: dict, size: Sizes, seeds: int) -> list[dict]:
    """One curve of one run: the values, and where it is a loss their average and the validation."""
    steps, values = part["step"].to_numpy(), part[name].to_numpy(float)
    line = {"color": style["color"], "dash": style["dash"], "width": size.line * (0.6 if seeds > 1 else 1)}
    hover = "step %{x}: %{y:.4g}<extra>%{fullData.name}</extra>"
    same = {"mode": "lines", "hovertemplate": hover}
    smooth = name == "loss" and len(values) > 3 * WINDOW
    x, y = thinned(steps, values)
    curve = {"x": x, "y": y, "line": line, "uid": f"{name}/{uid}", **same}
    if not smooth:
        traces: list[dict] = [{**curve, "listed": True}]
    else:
        x, y = thinned(steps, averaged(values))
        faint = {"line": {"color": style["color"], "width": size.thin}, "opacity": 0.3}
        traces = [curve | faint, {"x": x, "y": y, "line": line, "uid": f"mean/{uid}", "listed": True, **same}]
    mark = {"size": size.marker, "color": style["color"], "line": {"width": 1, "color": "white"}}
    validated = part[part["val_loss"].notna()] if name == "loss" and "val_loss" in part.columns else part[:0]
    if len(validated):
        at = {"x": validated["step"].tolist(), "y": validated["val_loss"].tolist(), "mode": "markers"}
        look = {"marker": {**mark, "symbol": style["symbol"]}, "hovertemplate": f"validation, {hover}"}
        traces.append({**at, **look, "uid": f"val_loss/{uid}"})
    return traces


def _divergence(uid: str, part: pd.DataFrame, style: dict, size: Sizes, axis: dict, reach: float) -> list[dict]:
    """A cross and a word at the last finite loss of a run that diverged, within the axes."""
    finite = part[np.isfinite(part["loss"].astype(float))]
    if not _diverged(part) or not len(finite):
        return []
    step, loss = int(finite["step"].iloc[-1]), float(finite["loss"].iloc[-1])
    line = {"width": 3, "color": style["color"]}
    mark = {"size": 1.4 * size.marker, "color": style["color"], "symbol": "x-thin", "line": line}
    at = {"x": [step], "y": [min(loss, axis["range"][1])], "mode": "markers+text", "cliponaxis": False}
    side = "middle right" if step < reach / 2 else "middle left"
    label = {"text": ["diverged"], "textposition": side, "textfont": {"color": for_text(style["color"])}}
    hover = f"step {step}, the last finite loss: {loss:.4g}<extra>%{{fullData.name}}</extra>"
    return [{**at, **label, "marker": mark, "uid": f"diverged/{uid}", "hovertemplate": hover}]


def _loss_axis(runs: list[Run]) -> dict:
    """An axis that a loss which runs away does not stretch: at most half as high again as the highest start."""
    curves = [part["loss"].to_numpy(float) for _, part, _ in runs if "loss" in part.columns]
    curves = [curve[np.isfinite(curve)] for curve in curves if np.isfinite(curve).any()]
    if not curves:
        return {}
    checks = [v for _, part, _ in runs if "val_loss" in part.columns for v in part["val_loss"].dropna()]
    low = min([*(curve.min() for curve in curves), *checks])
    high = min(max([*(curve.max() for curve in curves), *checks]), 1.5 * max(curve[0] for curve in curves))
    room = 0.05 * (high - low) or 0.5
    return {"range": [float(low - room), float(high + room)]}


def styled_runs(table: pd.DataFrame, column: str) -> list[Run]:
    """(name, rows, style) of every run: placements in their order, and runs of one as they come in the table."""
    parts = {str(run): part for run, part in table.groupby(column, sort=False)}
    keys = {run: _placement(run, part) for run, part in parts.items()}
    order, runs, seen = in_order(keys.values()), [], {}
    for run in sorted(parts, key=lambda run: order.index(keys[run])):  # sorting keeps the order of equals
        nth = seen[keys[run]] = seen.get(keys[run], -1) + 1
        runs.append((run, parts[run], run_style(keys[run], nth)))
    return runs


def _placement(run: str, part: pd.DataFrame) -> str:
    keys = set(part["placement"]) if "placement" in part.columns else {run}
    return str(keys.pop()) if len(keys) == 1 else run


def _seeds(run: str, part: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(uid, rows) of every line of a run."""
    if seed_count(part) < 2:
        return [(run, part)]
    return [(f"{run}/{seed}", rows) for seed, rows in part.groupby("seed")]


def run_style(key: str, nth: int) -> dict[str, str]:
    """The placement's style for its first run; the next ones darker in turn, with another dash and mark."""
    style = placement_style(key)
    if nth:
        style["color"] = darker(style["color"], TONES[nth % len(TONES)])
        for name, choices in (("dash", DASHES), ("symbol", SYMBOLS)):
            others = [choice for choice in choices if choice != style[name]]
            style[name] = others[(nth - 1) % len(others)]
    return style


def step_style(nth: int, key: str | None = None) -> dict[str, str]:
    """The style of a step of training: the placement's colour, later steps darker; without a placement, ink."""
    colour = darker(placement_style(key)["color"], TONES[min(nth, 2)]) if key is not None else INK
    return {"color": colour, "dash": DASHES[nth % len(DASHES)], "symbol": SYMBOLS[nth % len(SYMBOLS)]}


def _diverged(part: pd.DataFrame) -> bool:
    """Whether a run says so, or its last loss is not finite."""
    if "status" in part.columns and (part["status"] == "diverged").any():
        return True
    return "loss" in part.columns and len(part) > 0 and not np.isfinite(part["loss"].astype(float).iloc[-1])


def _outcome(runs: list[Run]) -> tuple[str, str]:
    """The title, from the last validation or training loss of every run, and which runs diverged."""
    table = pd.concat([part for _, part, _ in runs])
    column = next((c for c in ("val_loss", "loss") if c in table.columns and table[c].notna().any()), None)
    if column is None:
        return f"{len(runs)} runs, {int(table['step'].max())} steps", ""
    finals, lost = [], []
    for run, part, _ in runs:
        seeds = [rows for _, rows in _seeds(run, part)]
        last = [rows[column].dropna().iloc[-1] for rows in seeds if not _diverged(rows) and rows[column].notna().any()]
        finals += [(placement_label(run), float(np.mean(last)))] if last else []
        lost += [placement_label(run)] if any(_diverged(rows) for rows in seeds) else []
    if len(finals) <= 3:
        finals = [(f"{name}:" if "," in name else name, value) for name, value in finals]  # "warm-up 200: 1.5"
    what = "validation loss" if column == "val_loss" else "loss"
    parts = [f"{what}: {listed(finals, number)}"] * bool(finals) + [f"diverged: {'; '.join(lost)}"] * bool(lost)
    return f"After {int(table['step'].max())} steps, {'; '.join(parts)}", f"Diverged: {', '.join(lost)}" if lost else ""


def warmup_heatmap(
    table: Table, *, what: str = "final loss", lower_is_better: bool = True, note: str = "", lecture: bool | None = None
) -> go.Figure:
    """One heat map per placement over learning rate and warm-up, one colour scale, the numbers in the cells."""
    if not has(table, "placement", "lr", "warmup", "value"):
        return empty("There are no runs to compare here.", lecture, note)
    keys, rates, steps = in_order(table["placement"]), sorted(set(table["lr"])), sorted(set(table["warmup"]))
    fig = Canvas(lecture, [placement_label(key) for key in keys], shared="y", gap=0.04)
    for column, key in enumerate(keys, 1):
        grid = table[table["placement"] == key].pivot_table(index="lr", columns="warmup", values="value", dropna=False)
        grid = grid.reindex(index=rates, columns=steps).to_numpy(float)
        named = {"name": placement_label(key), "hovertemplate": "%{z:.4g}<extra>%{fullData.name}</extra>"}
        fig.add_trace(numbered_cells(grid, fig.size.text, f"heat/{key}", **named), 1, column)
    fig.update_xaxes(title="Warm-up steps", **cell_ticks([f"{s:g}" for s in steps]))
    fig.update_yaxes(**cell_ticks([f"{r:g}" for r in rates]))
    fig.update_yaxes(title="Learning rate", col=1)
    fig.layout["coloraxis"] = {"colorscale": HEAT if lower_is_better else HEAT_UP, "colorbar": colour_bar(what)}
    title, best = _best(table, keys, what, lower_is_better)
    axes = "horizontal axis warm-up steps, vertical axis learning rate"
    kind = f"Heat maps, one per placement, {axes}, numbers {what}, mean over seeds"
    return finish(fig, title, kind, best, note=note, height=170 + 48 * max(len(rates), 4))


def _best(table: pd.DataFrame, keys: list[str], what: str, lower: bool) -> tuple[str, str]:
    best, places = [], []
    for key in keys:
        means = table[table["placement"] == key].groupby(["lr", "warmup"])["value"].mean()
        means = means[np.isfinite(means)]
        if len(means):
            place = int(means.argmin() if lower else means.argmax())
            (lr, warmup), value = means.index[place], means.iloc[place]
            best.append((placement_label(key), float(value)))
            places.append(f"{placement_label(key)}: {number(value)} at rate {number(lr)} and warm-up {warmup:g}")
    if not best:
        return f"No {safe(what)} is finite", ""
    return f"{'Lowest' if lower else 'Highest'} {safe(what)}: {listed(best, number)}", "; ".join(places)
