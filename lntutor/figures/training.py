"""Training runs: loss, rate and gradient step by step, and a map over rates and warm-ups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, heatmap, scatter
from lntutor.figures.checked import checked
from lntutor.figures.parts import empty, finish, has, listed, log_axis, sentence
from lntutor.figures.style import darker, for_words, in_order, number, placement_label, placement_style, safe, sizes

CURVES = {"loss": "Loss (nats a word)", "lr": "Learning rate", "gradient": "Gradient norm"}
POINTS = 250  # drawn of a curve at most
WINDOW = 21  # steps over which the loss is averaged, in runs that are several times as long
TONES = (1.0, 0.6, 0.3)  # of the colour, for the runs of one placement in turn
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "star", "hexagon2", "triangle-down", "pentagon")
HEAT = [[0, "#08375F"], [0.25, "#2E7FB6"], [0.5, "#7DB2D8"], [0.75, "#C9DFF0"], [1, "#EDF4FA"]]


@checked
def training_curves(
    table: pd.DataFrame, *, steps: int | None = None, note: str = "", lecture: bool | None = None
) -> go.Figure:
    """Loss, learning rate and gradient norm against the step, a name a run; columns that are missing are not drawn.

    A run whose name, or whose column `placement`, is a placement's key has that placement's colour; further runs of
    that placement have dashes and marks of their own. Rows of one run that differ in `seed` are a line each. Long
    curves are thinned to the least and greatest value of each stretch; a long loss is also averaged over 21 steps.
    The horizontal axis reaches to `steps`, where runs are under way.
    """
    shown = [name for name in CURVES if has(table, "run", "step", name) and table[name].notna().any()]
    if not shown:
        return empty("There are no training steps to draw yet.", lecture, note)
    runs, size = _runs(table), sizes(lecture)
    reach, loss_axis = 1.02 * max(steps or 0, int(table["step"].max())), _loss_axis(runs)
    heights = [3 if name == "loss" else 1.6 for name in shown]
    fig = Canvas([""] * len(shown), lecture, rows=len(shown), gap=0.06, shared="x", heights=heights)
    for row, name in enumerate(shown, 1):
        for run, part, style in runs:
            more = {"legendgroup": run, "name": placement_label(run)}
            for seed, (uid, lines) in enumerate(_seeds(run, part)):
                traces = _traces(name, uid, lines, style, size)
                if name == "loss":
                    traces += _divergence(uid, lines, style, size, loss_axis, reach)
                for trace in traces:
                    first = trace.pop("listed", False) and row == 1 and seed == 0
                    fig.add_trace({**trace, **more, "showlegend": first}, row, 1)
        fig.update_yaxes(title=CURVES[name].replace(" (", "<br>("), row=row, col=1)
        if name == "gradient":
            fig.update_yaxes(**log_axis(table[name], room=5), row=row, col=1)
        else:
            axis = loss_axis if name == "loss" else {"range": [0, 1.1 * float(table[name].max())]}
            fig.update_yaxes(**axis, row=row, col=1)
    fig.update_xaxes(title="Step" + (" (marks: validation)" if "val_loss" in table.columns else ""), row=len(shown))
    fig.update_xaxes(range=[0, reach])
    title, worth = _outcome(runs)
    alt = sentence(
        f"Line plots against the step, one above the other: {', '.join(CURVES[n] for n in shown)}", title, worth
    )
    return finish(fig, title, alt, lecture=lecture, note=note, height=300 + 110 * len(shown))


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


def _traces(name: str, uid: str, part: pd.DataFrame, style: dict, size) -> list[dict]:
    """One curve of one run: the values, and where it is a loss their average and the validation."""
    steps, values = part["step"].to_numpy(), part[name].to_numpy(float)
    line = {"color": style["color"], "dash": style["dash"], "width": style["width"] * size.line}
    hover = "step %{x}: %{y:.4g}<extra>%{fullData.name}</extra>"
    same = {"mode": "lines", "hovertemplate": hover}
    smooth = name == "loss" and len(values) > 3 * WINDOW
    x, y = thinned(steps, values)
    if not smooth:
        traces = [scatter(x=x, y=y, line=line, uid=f"{name}/{uid}", listed=True, **same)]
    else:
        mean_x, mean_y = thinned(steps, averaged(values))
        faint = {"color": style["color"], "width": size.thin}
        traces = [
            scatter(x=x, y=y, line=faint, opacity=0.3, uid=f"{name}/{uid}", **same),
            scatter(x=mean_x, y=mean_y, line=line, uid=f"mean/{uid}", listed=True, **same),
        ]
    mark = {"size": size.marker, "color": style["color"], "line": {"width": 1, "color": "white"}}
    checked = part[part["val_loss"].notna()] if name == "loss" and "val_loss" in part.columns else part[:0]
    if len(checked):
        traces.append(
            scatter(
                x=checked["step"].tolist(),
                y=checked["val_loss"].tolist(),
                mode="markers",
                marker={**mark, "symbol": style["symbol"]},
                uid=f"val_loss/{uid}",
                hovertemplate=f"validation, {hover}",
            )
        )
    return traces


def _divergence(uid: str, part: pd.DataFrame, style: dict, size, axis: dict, reach: float) -> list[dict]:
    """A cross and a word at the last finite loss of a run that diverged, within the axes."""
    finite = part[np.isfinite(part["loss"].astype(float))]
    if not _diverged(part) or not len(finite):
        return []
    step, loss = int(finite["step"].iloc[-1]), float(finite["loss"].iloc[-1])
    mark = {"size": 1.4 * size.marker, "color": style["color"], "symbol": "x-thin", "line": {"width": 3}}
    mark["line"]["color"] = style["color"]
    return [
        scatter(
            x=[step],
            y=[min(loss, axis["range"][1])],
            mode="markers+text",
            marker=mark,
            text=["diverged"],
            textposition="middle right" if step < reach / 2 else "middle left",
            textfont={"color": for_words(style["color"])},
            cliponaxis=False,
            uid=f"diverged/{uid}",
            hovertemplate=f"step {step}, the last finite loss: {loss:.4g}<extra>%{{fullData.name}}</extra>",
        )
    ]


def _loss_axis(runs: list) -> dict:
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


def _runs(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame, dict]]:
    """(name, rows, style) of every run: placements in their order, and runs of one as they come in the table."""
    parts = {str(run): part.sort_values("step") for run, part in table.groupby("run", sort=False)}
    keys = {run: _placement(run, part) for run, part in parts.items()}
    order = {key: i for i, key in enumerate(in_order(keys.values()))}
    runs, seen = [], {}
    for run in sorted(parts, key=lambda run: order[keys[run]]):  # sorting keeps the order of equals
        nth = seen[keys[run]] = seen.get(keys[run], -1) + 1
        runs.append((run, parts[run], run_style(keys[run], nth) | {"width": 1 if _single(parts[run]) else 0.6}))
    return runs


def _placement(run: str, part: pd.DataFrame) -> str:
    keys = set(part["placement"]) if "placement" in part.columns else {run}
    return str(keys.pop()) if len(keys) == 1 else run


def _single(part: pd.DataFrame) -> bool:
    return "seed" not in part.columns or part["seed"].nunique() < 2


def _seeds(run: str, part: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(uid, rows) of every line of a run."""
    if _single(part):
        return [(run, part)]
    return [(f"{run}/{seed}", rows) for seed, rows in part.groupby("seed")]


def run_style(key: str, nth: int) -> dict[str, str]:
    """The placement's style for its first run; the next ones darker in turn, with another dash and mark."""
    style = placement_style(key)
    if nth:
        dashes = [dash for dash in DASHES if dash != style["dash"]]
        symbols = [symbol for symbol in SYMBOLS if symbol != style["symbol"]]
        style = {
            "color": darker(style["color"], TONES[nth % len(TONES)]),
            "dash": dashes[(nth - 1) % len(dashes)],
            "symbol": symbols[(nth - 1) % len(symbols)],
        }
    return style


def _diverged(part: pd.DataFrame) -> bool:
    """Whether a run says so, or its last loss is not finite."""
    if "status" in part.columns and (part["status"] == "diverged").any():
        return True
    return "loss" in part.columns and len(part) > 0 and not np.isfinite(part["loss"].astype(float).iloc[-1])


def _outcome(runs: list) -> tuple[str, str]:
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


@checked
def warmup_heatmap(
    table: pd.DataFrame,
    *,
    what: str = "final loss",
    lower_is_better: bool = True,
    note: str = "",
    lecture: bool | None = None,
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
