"""The network standing upright: one mark per layer, input at the bottom, output at the top."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.drawing import Pinned, empty, finish, listed, log_axis, pinned_rows, with_zeros, within
from lntutor.figures.style import fixed, number, parameter_name, placement_label, safe, times
from lntutor.figures.tables import BLOCKS, Table, curve_name, curves, drawable, has, sides_of, spread
from lntutor.theory.paper import lemma_2_post, lemma_2_pre

LAYER_TITLE = "Layer (input at the bottom)"
HOVER = "layer %{y}: %{x:.4g}<extra>%{fullData.name}</extra>"


# Gradients -----------------------------------------------------------------------------------------------------


def gradient_by_layer(
    measured: Table, theory: Table = None, *, parameter: str = "W_2", pinned: Pinned = (), note: str = "",
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """‖∂L/∂W‖ of one parameter in every layer, one panel per side, theory over measurement."""
    table = _of(measured, parameter)
    rows, left = drawable(table, positive=True)
    if table is None or not len(rows):
        none = f"There are no gradients of {parameter} here."
        return empty(left.why_empty(none, f"gradients of {parameter}"), lecture, note)
    expected, _ = drawable(_of(theory, parameter), positive=True)
    before = pinned_rows(pinned, lambda table: _of(table, parameter))
    fig = _upright(rows, expected, before, lecture)
    every = np.concatenate([rows["value"], *(part["value"] for *_, part in before)])
    what = f"‖∂L/∂{parameter_name(parameter)}‖<br>({spread(rows)})"
    fig.update_xaxes(title=what, **_log_axis(within(every, expected), rows, fig))
    finding, ends = _gradient_finding(rows, table)
    title = with_zeros(finding, table, "side", "layer")
    kind = _kind(rows, f"norm of the gradient of {parameter}, logarithmic, {spread(rows)}")
    return finish(fig, title, kind, ends, _agreement(rows, expected), left.sentence(), note=note)


def _of(table: Table, parameter: str) -> Table:
    """The rows of one parameter."""
    if not has(table, "parameter", "side", "layer", "value"):
        return None
    return table[table["parameter"] == parameter]


def _gradient_finding(rows: pd.DataFrame, table: pd.DataFrame) -> tuple[str, str]:
    """The title, from the last side and its first block, and a sentence on both ends of every curve.

    `table` also has the rows that are not drawn.
    """
    side = sides_of(rows)[-1]
    drawn = curves(rows, "layer", side=side)
    blocks = {block for _, block, _ in drawn}
    with_block, block = len(blocks) > 1, next(b for b in BLOCKS if b in blocks)
    ratios, ends = [], []
    spans = {(means.at[0], means.at[-1]) for _, this, means in drawn if this == block}
    for key, this, means in drawn:
        (low, high), (first, last) = means.at[[0, -1]], means.mean[[0, -1]]
        name = curve_name(key, this, with_block)
        ends.append(f"{name} {side}: {number(first)} in layer {low}, {number(last)} in layer {high}")
        if this == block:
            ratio = float(last / first) if low < high else _one_layer(table[table["placement"] == key])
            ratios.append((placement_label(key), ratio, float(last)))
    where = side + (f" {BLOCKS[block]}" if with_block else "")
    bottom, top = min(means.at[0] for *_, means in drawn), max(means.at[-1] for *_, means in drawn)
    return _ratio_sentence(where, ratios, spans, bottom, top), "; ".join(ends)


def _one_layer(table: pd.DataFrame) -> str:
    """What to say of a placement with one layer to draw: whether the others are round-off or exactly 0."""
    if "below_floor" in table.columns and table["below_floor"].any():
        return "one layer above round-off"
    return "one layer above 0" if (table["value"] == 0).any() else "one layer"


def _ratio_sentence(where: str, ratios: list[tuple[str, float | str, float]], spans: set, bottom, top) -> str:
    """The last layer over the first, for every placement that has both; of the others, what `_one_layer` says."""
    if bottom == top:
        values = [(name, last) for name, _, last in ratios]
        return f"{where.capitalize()}, layer {top} alone: gradient norm {listed(values, number)}"
    (low, high) = next(iter(spans)) if len(spans) == 1 else (bottom, top)
    span = "top layer {} the bottom" if (low, high) == (bottom, top) else f"layer {high} {{}} layer {low}"
    pairs: list[tuple[str, float]] = [(name, ratio) for name, ratio, _ in ratios if not isinstance(ratio, str)]
    if not pairs or len(pairs) > 3 or len(spans) > 1:
        alone = [f"{name} has {ratio}" for name, ratio, _ in ratios if isinstance(ratio, str)]
        found = "; ".join(([listed(pairs, times)] if pairs else []) + alone)
        return f"{where.capitalize()}, highest layer over lowest: {found}"
    (name, first), *others = pairs
    return f"{name} {where}: {span.format(times(first))}" + "".join(f"; {n} {times(r)}" for n, r in others)


# Signals -------------------------------------------------------------------------------------------------------


def signal_by_layer(
    measured: Table, theory: Table = None, *, lemma2: bool | None = None, pinned: Pinned = (), note: str = "",
    log: bool | None = None, lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """‖x‖²/d after every layer, with Lemma 2's bounds where asked.

    log=None takes a log axis for 100-fold growth, unless a signal is exactly 0.
    """
    rows, left = drawable(measured, positive=bool(log))
    if not has(_stream(rows), "site", "layer", "side"):
        return empty(left.why_empty("There are no signals here."), lecture, note)
    if log is None:
        log = bool(rows["value"].max() > 100 * rows["value"].min() > 0)
    expected, _ = drawable(theory, positive=log)
    fig = _signals(rows, expected, pinned, lecture)
    if lemma2:
        _draw_lemma_2(fig, rows)
    linear: dict = {"type": "linear", "rangemode": "tozero"}
    axis = _log_axis(within(rows["value"], expected), rows, fig) if log else linear
    fig.update_xaxes(title=f"‖x‖²/d<br>({spread(_stream(rows))})", **axis)
    title = _signal_finding(rows, "‖x‖²/d", lambda v: number(v, 2))
    kind = _kind(rows, f"squared norm of a token over the width, {'logarithmic, ' if log else ''}{spread(rows)}")
    agreement, lemma = _agreement(_stream(rows), _stream(expected)), _lemma_caption(rows) if lemma2 else ""
    return finish(fig, title, kind, _stream_ends(rows), agreement, lemma, left.sentence(), note=note)


def similarity_by_layer(
    measured: Table, theory: Table = None, *, pinned: Pinned = (), note: str = "", lecture: bool | None = None
) -> go.Figure:
    """The mean cosine between two tokens after every layer: 1 where they have collapsed into one."""
    rows, left = drawable(measured)
    if not has(_stream(rows), "site", "layer", "side"):
        return empty(left.why_empty("There are no similarities here."), lecture, note)
    fig = _signals(rows, drawable(theory)[0], pinned, lecture)
    low = min(-0.05, float(rows["value"].min()) - 0.05)
    fig.update_xaxes(range=[low, 1.05], title=f"Cosine between two tokens<br>({spread(_stream(rows))})")
    title = _signal_finding(rows, "Cosine between tokens", lambda v: fixed(v, 2))
    kind = _kind(rows, f"mean cosine between two tokens of a sentence, {spread(rows)}")
    return finish(fig, title, kind, _stream_ends(rows), left.sentence(), note=note)


def _stream(table: pd.DataFrame) -> pd.DataFrame:
    """What enters the first layer and what leaves each: the sites of the main curve."""
    return table[table["site"].isin(["in", "out"])] if "site" in table.columns else table


def _signals(rows: pd.DataFrame, expected: pd.DataFrame, pinned: Pinned, lecture: bool | None) -> Canvas:
    """The stream as a curve, and what leaves the side one step above it, drawn hollow."""
    before = pinned_rows(pinned, lambda table: _stream(drawable(table)[0]), positive=False)
    depth = int(rows["layer"].max())
    fig = _upright(_stream(rows), _stream(expected), before, lecture)
    for column, side in enumerate(sides_of(rows), 1):
        for key, _, means in curves(rows, "layer", side=side, site="final"):
            last = means._replace(at=np.full(len(means.at), depth + 1))
            named = {"name": placement_label(key), "legendgroup": key, "uid": f"final/{key}/{side}"}
            hover = "output: %{x:.4g}<extra>%{fullData.name}</extra>"
            look = {"upright": True, "hollow": True, "showlegend": False, "hovertemplate": hover}
            fig.add_marks(last, key, 1, column, **look, **named)
        if "site" in expected.columns:
            final = expected[(expected["side"] == side) & (expected["site"] == "final")]
            _final_theory(fig, final, depth, column)
    if (rows["site"] == "final").any():
        _layer_ticks(fig, 0, depth, "output")
    return fig


def _final_theory(fig: Canvas, rows: pd.DataFrame, depth: int, column: int) -> None:
    """An upright stroke at the output, with the placement's dash."""
    for key, _, means in curves(rows, "layer"):
        at = [float(means.mean.mean())] * 2, [depth + 0.65, depth + 1.35]
        more = {"name": "theory", "legendgroup": key, "uid": f"theory-final/{key}/{column}", "hoverinfo": "skip"}
        fig.add_theory(*at, key, 1, column, **more)


def _draw_lemma_2(fig: Canvas, rows: pd.DataFrame) -> None:
    """Pre-LN's bounds as a band; Post-LN's 3/2 as a line through the sums before its norms.

    On the first side alone: a decoder's layer has cross-attention as well, which the lemma leaves out.
    """
    side = sides_of(rows)[0]
    here = rows[rows["side"] == side]
    layers = list(range(int(here["layer"].max()) + 1))
    if "pre" in set(here["placement"]):
        low, high = zip(*(lemma_2_pre(layer, 1) for layer in layers), strict=True)
        band = {"fill": "toself", "fillcolor": "rgba(0,114,178,0.12)", "line": {"width": 0}, "hoverinfo": "skip"}
        outline = {"x": [*low, *high[::-1]], "y": [*layers, *layers[::-1]], "mode": "lines"}
        named = {"name": "Lemma 2, Pre-LN", "legendgroup": "lemma-pre", "uid": f"lemma/pre/{side}"}
        fig.add_scatter(**outline, **band, **named)
    for _, _, sums in curves(here, "layer", placement="post", site="sum"):
        named = {"name": "Post-LN, sum before the norm", "legendgroup": "lemma-post", "uid": f"sum/post/{side}"}
        below, hover = sums._replace(at=sums.at - 0.35), "%{x:.4g}<extra>%{fullData.name}</extra>"
        fig.add_marks(below, "post", upright=True, hollow=True, hovertemplate=hover, **named)
        named = {"name": "Lemma 2, Post-LN", "uid": f"lemma/post/{side}", "showlegend": True}
        fig.add_theory([lemma_2_post(1)] * 2, [0.5, float(layers[-1])], "post", **named)


def _lemma_caption(rows: pd.DataFrame) -> str:
    """Lemma 2's numbers, for the text alternative."""
    depth, keys, parts = int(rows["layer"].max()), set(rows["placement"]), []
    if "pre" in keys:
        low, high = map(number, lemma_2_pre(depth, 1))
        parts.append(f"Lemma 2 for Pre-LN, a shaded band: {low} to {high} after layer {depth}")
    if "post" in keys:
        parts.append(f"Lemma 2 for Post-LN, a line: {lemma_2_post(1)} in the sum before the norm")
    return "; ".join(parts)


def _signal_finding(rows: pd.DataFrame, what: str, show: Callable[[float], str]) -> str:
    """Where the signal starts and where each placement ends, on the last side."""
    side = sides_of(rows)[-1]
    stream = _stream(rows[rows["side"] == side])
    ends = [(placement_label(key), *means.mean[[0, -1]].tolist()) for key, _, means in curves(stream, "layer")]
    if not ends:
        return f"{what} of what leaves the {side}"
    tops, starts = [(label, last) for label, _, last in ends], [first for _, first, _ in ends]
    lowest, depth = int(stream["layer"].min()), int(stream["layer"].max())
    where = f" in the {side}" if len(sides_of(rows)) > 1 else ""
    if depth == lowest:
        return f"{what} at layer {depth}{where}: {listed(tops, show)}"
    start = " to ".join(dict.fromkeys(map(show, (min(starts), max(starts)))))  # T-Fixup starts below the others
    stays = [f"{label}{' stays at' if show(first) == show(last) else ''} {show(last)}" for label, first, last in ends]
    tail = listed(tops, show) if len(tops) > 3 else "; ".join(stays)
    begins = "at the input" if lowest == 0 else f"after layer {lowest}"
    return f"{what}{where}, {start} {begins}, after layer {depth}: {tail}"


def _stream_ends(rows: pd.DataFrame) -> str:
    """Both ends of every curve, in words."""
    return "; ".join(
        f"{placement_label(key)} {side}: " + ", ".join(f"{number(m.mean[i])} at layer {m.at[i]}" for i in (0, -1))
        for side in sides_of(rows)
        for key, _, m in curves(_stream(rows), "layer", side=side)
    )


# Shared --------------------------------------------------------------------------------------------------------


def _log_axis(values: Iterable[float], rows: pd.DataFrame, fig: Canvas) -> dict:
    return log_axis(values, room=10 // len(sides_of(rows)) + (0 if fig.size.large else 1))


def _kind(rows: pd.DataFrame, horizontal: str) -> str:
    """What kind of plot this is, and its axes, in words."""
    sides = sides_of(rows)
    where = f"two {' and '.join(sides)}" if len(sides) > 1 else sides[0]
    low, high = rows["layer"].min(), rows["layer"].max()
    return (
        f"Scatter plot, {where}. Vertical axis: layer, {low} at the bottom to {high} at the top. "
        f"Horizontal axis: {horizontal}"
    )


def _upright(rows: pd.DataFrame, expected: pd.DataFrame, pinned: list, lecture: bool | None) -> Canvas:
    """Panels with pinned curves below, measurements over them, theory on top."""
    sides = sides_of(rows)
    fig = Canvas(lecture, [side.capitalize() for side in sides], shared="xy")
    predicted = set(expected["placement"])
    for label, pin, part in pinned:
        _draw_sides(fig, part, sides, predicted, pin, label)
    _draw_sides(fig, rows, sides, predicted)
    for column, side in enumerate(sides, 1):
        for key, block, line in curves(expected, "layer", side=side):
            named = {"uid": f"theory/{key}/{side}/{block}", "legendgroup": f"{key}/{block}", "name": "theory"}
            fig.add_theory(line.mean.tolist(), line.at.tolist(), key, 1, column, hovertemplate=HOVER, **named)
    if len(expected):
        fig.name_theory()
    _layer_ticks(fig, int(rows["layer"].min()), int(rows["layer"].max()))
    fig.update_yaxes(title=LAYER_TITLE, col=1)
    return fig


def _draw_sides(
    fig: Canvas, rows: pd.DataFrame, sides: list[str], predicted: set[str], pin: str = "", label: str = ""
) -> None:
    """Marks of every placement and block on every side, faint where pinned; a name stands in the legend once."""
    named, with_block = set(), "block" in rows.columns and rows["block"].nunique() > 1
    for column, side in enumerate(sides, 1):
        for key, block, means in curves(rows, "layer", side=side):
            group = f"{pin}{key}/{block}"
            look = {"hollow": block == "cross", "joined": bool(pin) or key not in predicted, "faint": bool(pin)}
            entry = {"name": label + curve_name(key, block, with_block), "showlegend": group not in named}
            more = {"legendgroup": group, "uid": f"{pin}measured/{key}/{side}/{block}", "hovertemplate": HOVER}
            fig.add_marks(means, key, 1, column, upright=True, **look, **entry, **more)
            named.add(group)


def _layer_ticks(fig: Canvas, low: int, high: int, above: str = "") -> None:
    """Whole layers on the vertical axis, not more than about a dozen, and a name for the output above them."""
    most = 7 if fig.size.large else 12
    step = next(s for s in (1, 2, 3, 4, 6, 8, 12, 16) if (high - low) / s <= most)
    ticks = sorted({*(t for t in range(low, high + 1) if t % step == 0 and high - t >= step / 2), high})
    labels = [str(t) for t in ticks]
    if above:
        ticks, labels = [*ticks, high + 1], [*labels, safe(above)]
    pad = 0.5 + 0.02 * (high - low)
    fig.update_yaxes(tickvals=ticks, ticktext=labels, range=[low - pad, ticks[-1] + pad])


def _agreement(rows: pd.DataFrame, expected: pd.DataFrame) -> str:
    """How far theory is from the means."""
    measured, predicted = _points(rows), _points(expected)
    away = [abs(math.log(predicted[place] / measured[place])) for place in predicted.keys() & measured.keys()]
    if not away:
        return ""
    half, farthest = math.exp(float(np.median(away))), math.exp(max(away))
    return (
        f"Theory, thin dark lines: half of it is within {number(100 * (half - 1), 2)} % of the means, "
        f"the farthest is off by a factor of {number(farthest, 2)}"
    )


def _points(table: pd.DataFrame) -> dict[tuple, float]:
    """(side, placement, block, layer) → the mean over seeds, where it is positive."""
    return {
        (side, key, block, layer): mean
        for side in sides_of(table)
        for key, block, means in curves(table, "layer", side=side)
        for layer, mean in zip(means.at.tolist(), means.mean.tolist(), strict=True)
        if mean > 0
    }
