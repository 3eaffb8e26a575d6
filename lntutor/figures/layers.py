"""The network standing upright: one mark a layer, input at the bottom, output at the top."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, scatter
from lntutor.figures.checked import checked
from lntutor.figures.parts import (
    BLOCKS,
    SIDES,
    curve_name,
    curves,
    drawable,
    each_pinned,
    empty,
    finish,
    has,
    left_out,
    listed,
    log_axis,
    marks,
    sentence,
    spread_words,
    theory_key,
    theory_line,
    within,
)
from lntutor.figures.style import (
    Sizes,
    fixed,
    number,
    parameter_name,
    placement_label,
    placement_style,
    safe,
    sizes,
    times,
)
from lntutor.theory import lemma_2_post, lemma_2_pre

Pinned = Iterable[tuple[str, pd.DataFrame]]
LAYER_TITLE = "Layer (input at the bottom)"
HOVER = "layer %{y}: %{x:.4g}<extra>%{fullData.name}</extra>"


# Gradients -----------------------------------------------------------------------------------------------------


@checked
def gradient_by_layer(
    measured: pd.DataFrame,
    theory: pd.DataFrame | None = None,
    *,
    parameter: str = "W_2",
    pinned: Pinned = (),
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """‖∂L/∂W‖ of one parameter in every layer, a panel a side, theory over measurement."""
    rows, hidden = drawable(_of(measured, parameter), positive=True)
    if not len(rows):
        why = f"All {hidden} values are below round-off." if hidden else f"There are no gradients of {parameter} here."
        return empty(why, lecture, note)
    expected, _ = drawable(_of(theory, parameter), positive=True)
    pinned = [(label, drawable(_of(table, parameter), positive=True)[0]) for label, table in pinned or ()]
    fig = _upright(rows, expected, pinned, lecture)
    what = f"‖∂L/∂{parameter_name(parameter)}‖"
    every = np.concatenate([rows["value"], *(table["value"] for _, table in pinned)])
    fig.update_xaxes(title=f"{what}<br>({spread_words(rows)})", **_log_axis(within(every, expected), rows, lecture))
    title, ends = _gradient_finding(rows)
    alt = sentence(
        _kind(rows, f"norm of the gradient of {parameter}, logarithmic, {spread_words(rows)}"),
        title,
        ends,
        _agreement(rows, expected),
        left_out(hidden),
    )
    return finish(fig, title, alt, lecture=lecture, note=note)


def _of(table: pd.DataFrame | None, parameter: str) -> pd.DataFrame | None:
    return table[table["parameter"] == parameter] if has(table, "parameter", "side", "layer", "value") else None


def _gradient_finding(rows: pd.DataFrame) -> tuple[str, str]:
    """The title, from the last side and its first block, and a sentence on both ends of every curve."""
    side = _sides(rows)[-1]
    drawn = curves(rows, "layer", side=side)
    blocks = {block for _, block, _ in drawn}
    several, block = len(blocks) > 1, next(b for b in BLOCKS if b in blocks)
    ratios, ends = [], []
    spans = {(means.at[0], means.at[-1]) for _, this, means in drawn if this == block}
    for key, this, means in drawn:
        (low, high), (first, last) = means.at[[0, -1]], means.mean[[0, -1]]
        name = curve_name(key, this, several)
        ends.append(f"{name} {side}: {number(first)} in layer {low}, {number(last)} in layer {high}")
        if this == block:
            ratios.append((placement_label(key), float(last / first) if low < high else None, float(last)))
    where = side + (f" {BLOCKS[block]}" if several else "")
    bottom, top = min(means.at[0] for *_, means in drawn), max(means.at[-1] for *_, means in drawn)
    return _ratio_sentence(where, ratios, spans, bottom, top), "; ".join(ends)


def _ratio_sentence(where, ratios, spans, bottom, top) -> str:
    if bottom == top:
        return f"{where.capitalize()}, layer {top} alone: gradient norm " + listed(
            [(n, v) for n, _, v in ratios], number
        )
    (low, high) = next(iter(spans)) if len(spans) == 1 else (bottom, top)
    span = "top layer {} the bottom" if (low, high) == (bottom, top) else f"layer {high} {{}} layer {low}"
    pairs = [(name, ratio) for name, ratio, _ in ratios if ratio is not None]
    if len(pairs) > 3 or len(spans) > 1:
        alone = [f"{name} has one layer above round-off" for name, ratio, _ in ratios if ratio is None]
        told = "; ".join(([listed(pairs, times)] if pairs else []) + alone)
        return f"{where.capitalize()}, highest layer over lowest: {told}"
    (name, first), *others = pairs
    return f"{name} {where}: {span.format(times(first))}" + "".join(f"; {n} {times(r)}" for n, r in others)


# Signals -------------------------------------------------------------------------------------------------------


@checked
def signal_by_layer(
    measured: pd.DataFrame,
    theory: pd.DataFrame | None = None,
    *,
    lemma2: bool | None = None,
    pinned: Pinned = (),
    note: str = "",
    log: bool | None = None,
    lecture: bool | None = None,
) -> go.Figure:
    """‖x‖²/d after every layer, with Lemma 2's bounds where asked; log=None takes a log axis for 100-fold growth."""
    rows, hidden = drawable(measured, positive=True)
    if not has(_stream(rows), "site", "layer", "side"):
        return empty("There are no signals here.", lecture, note)
    expected, _ = drawable(theory, positive=True)
    if log is None:
        log = bool(rows["value"].max() > 100 * rows["value"].min())
    fig = _signals(rows, expected, pinned, lecture)
    if lemma2:
        _draw_lemma_2(fig, rows, sizes(lecture))
    axis = (
        _log_axis(within(rows["value"], expected), rows, lecture) if log else {"type": "linear", "rangemode": "tozero"}
    )
    fig.update_xaxes(title=f"‖x‖²/d<br>({spread_words(_stream(rows))})", **axis)
    title = _signal_finding(rows, "‖x‖²/d", lambda v: number(v, 2))
    alt = sentence(
        _kind(rows, f"squared norm of a token over the width, {'logarithmic, ' if log else ''}{spread_words(rows)}"),
        title,
        _stream_ends(rows),
        _agreement(_stream(rows), _stream(expected)),
        _lemma_words(rows) if lemma2 else "",
        left_out(hidden),
    )
    return finish(fig, title, alt, lecture=lecture, note=note)


@checked
def similarity_by_layer(
    measured: pd.DataFrame,
    theory: pd.DataFrame | None = None,
    *,
    pinned: Pinned = (),
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """The mean cosine between two tokens after every layer: 1 where they have collapsed into one."""
    rows, hidden = drawable(measured)
    if not has(_stream(rows), "site", "layer", "side"):
        return empty("There are no similarities here.", lecture, note)
    expected, _ = drawable(theory)
    fig = _signals(rows, expected, pinned, lecture)
    low = min(-0.05, float(rows["value"].min()) - 0.05)
    fig.update_xaxes(range=[low, 1.05], title=f"Cosine between two tokens<br>({spread_words(_stream(rows))})")
    title = _signal_finding(rows, "Cosine between tokens", lambda v: fixed(v, 2))
    alt = sentence(
        _kind(rows, f"mean cosine between two tokens of a sentence, {spread_words(rows)}"),
        title,
        _stream_ends(rows),
        left_out(hidden),
    )
    return finish(fig, title, alt, lecture=lecture, note=note)


def _stream(table: pd.DataFrame) -> pd.DataFrame:
    """What enters the first layer and what leaves each: the sites of the main curve."""
    return table[table["site"].isin(["in", "out"])] if "site" in table.columns else table


def _signals(rows: pd.DataFrame, expected: pd.DataFrame, pinned: Pinned, lecture: bool | None) -> go.Figure:
    """The stream as a curve, and what leaves the side a step above it, drawn hollow."""
    pinned = [(label, _stream(drawable(table)[0])) for label, table in pinned or ()]
    depth = int(rows["layer"].max())
    fig = _upright(_stream(rows), _stream(expected), pinned, lecture)
    size, seen = sizes(lecture), set()
    for column, side in enumerate(_sides(rows), 1):
        for key, _, means in curves(rows, "layer", side=side, site="final"):
            last = means._replace(at=np.full(len(means.at), depth + 1))
            more = {"name": placement_label(key), "legendgroup": key, "showlegend": False, "uid": f"final/{key}/{side}"}
            hover = "output: %{x:.4g}<extra>%{fullData.name}</extra>"
            trace = marks(last, placement_style(key), size, upright=True, hollow=True, hovertemplate=hover, **more)
            fig.add_trace(trace, 1, column)
            seen.add(side)
        if "site" in expected.columns:
            _final_theory(
                fig, expected[(expected["side"] == side) & (expected["site"] == "final")], depth, column, size
            )
    if seen:
        _layer_ticks(fig, 0, depth, "output")
    return fig


def _final_theory(fig: Canvas, rows: pd.DataFrame, depth: int, column: int, size: Sizes) -> None:
    """An upright stroke at the output, with the placement's dash."""
    for key, _, means in curves(rows, "layer"):
        at = [float(means.mean.mean())] * 2, [depth + 0.65, depth + 1.35]
        more = {"name": "theory", "legendgroup": key, "uid": f"theory-final/{key}/{column}", "hoverinfo": "skip"}
        fig.add_trace(theory_line(*at, key, size, **more), 1, column)


def _draw_lemma_2(fig: Canvas, rows: pd.DataFrame, size: Sizes) -> None:
    """Pre-LN's bounds as a band; Post-LN's 3/2 as a line through the sums before its norms.

    Beside an encoder, a decoder's layer has cross-attention as well, of which the lemma does not speak.
    """
    for column, side in enumerate(_sides(rows)[:1], 1):
        here = rows[rows["side"] == side]
        layers = np.arange(here["layer"].max() + 1)
        if "pre" in set(here["placement"]):
            low, high = zip(*(lemma_2_pre(layer, 1) for layer in layers), strict=True)
            fill = {
                "fill": "toself",
                "fillcolor": "rgba(0,114,178,0.12)",
                "line": {"width": 0},
                "mode": "lines",
                "hoverinfo": "skip",
            }
            fig.add_trace(
                scatter(
                    x=[*low, *high[::-1]],
                    y=[*layers.tolist(), *layers[::-1].tolist()],
                    name="Lemma 2, Pre-LN",
                    legendgroup="lemma-pre",
                    showlegend=column == 1,
                    uid=f"lemma/pre/{side}",
                    **fill,
                ),
                1,
                column,
            )
        for _, _, sums in curves(here, "layer", placement="post", site="sum"):
            more = {"name": "Post-LN, sum before the norm", "legendgroup": "lemma-post", "showlegend": column == 1}
            trace = marks(
                sums._replace(at=sums.at - 0.35),
                placement_style("post"),
                size,
                upright=True,
                hollow=True,
                uid=f"sum/post/{side}",
                hovertemplate="%{x:.4g}<extra>%{fullData.name}</extra>",
                **more,
            )
            fig.add_trace(trace, 1, column)
            line = [lemma_2_post(1)] * 2, [0.5, float(layers[-1])]
            fig.add_trace(
                theory_line(
                    *line, "post", size, name="Lemma 2, Post-LN", uid=f"lemma/post/{side}", showlegend=column == 1
                ),
                1,
                column,
            )


def _lemma_words(rows: pd.DataFrame) -> str:
    depth = int(rows["layer"].max())
    low, high = lemma_2_pre(depth, 1)
    keys = set(rows["placement"])
    pre = (
        f"Lemma 2 for Pre-LN, a shaded band: {number(low)} to {number(high)} after layer {depth}"
        if "pre" in keys
        else ""
    )
    post = f"Lemma 2 for Post-LN, a line: {lemma_2_post(1)} in the sum before the norm" if "post" in keys else ""
    return "; ".join(part for part in (pre, post) if part)


def _signal_finding(rows: pd.DataFrame, what: str, show: Callable[[float], str]) -> str:
    side = _sides(rows)[-1]
    stream = _stream(rows[rows["side"] == side])
    tops, words, starts = [], [], []
    for key, _, means in curves(stream, "layer"):
        first, last = means.mean[[0, -1]].tolist()
        starts.append(first)
        tops.append((placement_label(key), last))
        words.append(
            f"{placement_label(key)} {show(last)}"
            if show(first) != show(last)
            else f"{placement_label(key)} stays at {show(last)}"
        )
    if not tops:
        return f"{what} of what leaves the {side}"
    depth = int(stream["layer"].max())
    start = " to ".join(dict.fromkeys(map(show, (min(starts), max(starts)))))  # T-Fixup starts below the others
    where = f" in the {side}" if len(_sides(rows)) > 1 else ""
    if depth == stream["layer"].min():
        return f"{what} at layer {depth}{where}: {listed(tops, show)}"
    tail = listed(tops, show) if len(tops) > 3 else "; ".join(words)
    lowest = int(stream["layer"].min())
    begins = "at the input" if lowest == 0 else f"after layer {lowest}"
    return f"{what}{where}, {start} {begins}, after layer {depth}: {tail}"


def _stream_ends(rows: pd.DataFrame) -> str:
    words = []
    for side in _sides(rows):
        for key, _, means in curves(_stream(rows), "layer", side=side):
            ends = [f"{number(means.mean[i])} at layer {means.at[i]}" for i in (0, -1)]
            words.append(f"{placement_label(key)} {side}: {', '.join(ends)}")
    return "; ".join(words)


# Shared --------------------------------------------------------------------------------------------------------


def _sides(rows: pd.DataFrame) -> list[str]:
    return [side for side in SIDES if side in set(rows["side"])]


def _log_axis(values: Iterable[float], rows: pd.DataFrame, lecture: bool | None) -> dict:
    return log_axis(values, room=10 // len(_sides(rows)) + (0 if sizes(lecture).large else 1))


def _kind(rows: pd.DataFrame, horizontal: str) -> str:
    sides = _sides(rows)
    where = f"two {' and '.join(sides)}" if len(sides) > 1 else sides[0]
    low, high = rows["layer"].min(), rows["layer"].max()
    return (
        f"Scatter plot, {where}. Vertical axis: layer, {low} at the bottom to {high} at the top. "
        f"Horizontal axis: {horizontal}"
    )


def _upright(rows: pd.DataFrame, expected: pd.DataFrame, pinned: Pinned, lecture: bool | None) -> go.Figure:
    """Panels with pinned curves below, measurements over them, theory on top."""
    sides, size = _sides(rows), sizes(lecture)
    fig = Canvas([side.capitalize() for side in sides], lecture, shared="xy")
    each_pinned(pinned, lambda label, i, table: _draw_side_by_side(fig, table, expected, sides, size, (i, label)))
    _draw_side_by_side(fig, rows, expected, sides, size)
    for column, side in enumerate(sides, 1):
        for key, block, line in curves(expected, "layer", side=side):
            uid = f"theory/{key}/{side}/{block}"
            group = f"{key}/{block}"
            trace = theory_line(
                line.mean.tolist(),
                line.at.tolist(),
                key,
                size,
                uid=uid,
                legendgroup=group,
                name="theory",
                hovertemplate=HOVER,
            )
            fig.add_trace(trace, 1, column)
    if len(expected):
        fig.add_trace(theory_key(size), 1, 1)
    _layer_ticks(fig, int(rows["layer"].min()), int(rows["layer"].max()))
    fig.update_yaxes(title=LAYER_TITLE, col=1)
    return fig


def _draw_side_by_side(fig, rows, expected, sides, size: Sizes, pin: tuple[int, str] | None = None) -> None:
    """Marks of every placement and block on every side; a name stands in the legend once."""
    named, several = set(), "block" in rows.columns and rows["block"].nunique() > 1
    predicted = set(expected["placement"])
    for column, side in enumerate(sides, 1):
        for key, block, means in curves(rows, "layer", side=side):
            name = curve_name(key, block, several)
            group = f"{key}/{block}" if pin is None else f"pin{pin[0]}/{key}/{block}"
            trace = marks(
                means,
                placement_style(key),
                size,
                upright=True,
                hollow=block == "cross",
                joined=pin is not None or key not in predicted,
                faint=pin is not None,
                name=name if pin is None else f"{pin[1]}: {name}",
                legendgroup=group,
                showlegend=group not in named,
                uid=f"{'' if pin is None else f'pin{pin[0]}/'}measured/{key}/{side}/{block}",
                hovertemplate=HOVER,
            )
            fig.add_trace(trace, 1, column)
            named.add(group)


def _layer_ticks(fig: Canvas, low: int, high: int, above: str = "") -> None:
    """Whole layers on the vertical axis, not more than about a dozen, and a word for the output above them."""
    most = 7 if fig.size.large else 12
    step = next(s for s in (1, 2, 3, 4, 6, 8, 12, 16) if (high - low) / s <= most)
    ticks = sorted({*(t for t in range(low, high + 1) if t % step == 0 and high - t >= step / 2), high})
    words = [str(t) for t in ticks]
    if above:
        ticks, words = [*ticks, high + 1], [*words, safe(above)]
    top = ticks[-1] + 0.5 + 0.02 * (high - low)
    fig.update_yaxes(tickvals=ticks, ticktext=words, range=[low - 0.5 - 0.02 * (high - low), top])


def _agreement(rows: pd.DataFrame, expected: pd.DataFrame) -> str:
    """How far theory is from the means."""
    measured, predicted = _points(rows), _points(expected)
    away = [abs(math.log(predicted[place] / measured[place])) for place in predicted.keys() & measured.keys()]
    if not away:
        return ""
    half, farthest = math.exp(np.median(away)), math.exp(max(away))
    return (
        f"Theory, thin dark lines: half of it is within {number(100 * (half - 1), 2)} % of the means, "
        f"the farthest is off by a factor of {number(farthest, 2)}"
    )


def _points(table: pd.DataFrame) -> dict[tuple, float]:
    """(side, placement, block, layer) → the mean over seeds, where it is positive."""
    return {
        (side, key, block, layer): mean
        for side in _sides(table)
        for key, block, means in curves(table, "layer", side=side)
        for layer, mean in zip(means.at.tolist(), means.mean.tolist(), strict=True)
        if mean > 0
    }
