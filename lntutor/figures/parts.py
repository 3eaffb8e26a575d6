"""What figures are made of: marks with a spread, theory lines, and the words around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.config import instance
from lntutor.figures.canvas import Canvas, scatter
from lntutor.figures.style import (
    INK,
    Sizes,
    darker,
    in_order,
    placement_label,
    placement_style,
    plain,
    safe,
    sizes,
    wrapped,
)

BLOCKS = {"self": "self-attention", "cross": "cross-attention", "ffn": "FFN"}
SIDES = ("encoder", "decoder")


def alt_text(fig: go.Figure) -> str:
    """The figure in words, for readers who do not see it."""
    meta = instance("fig", fig, go.Figure).layout.meta
    return meta.get("alt", "") if isinstance(meta, dict) else ""


# The frame -----------------------------------------------------------------------------------------------------


def finish(
    fig: Canvas, title: str, alt: str, *, lecture: bool | None, note: str = "", height: float = 370, **layout
) -> go.Figure:
    """Title, note, text alternative and the space that they need; `height` is what is left for the plot."""
    size = sizes(lecture)
    title = wrapped(title, size.columns)
    below = wrapped(safe(note), int(size.columns * size.title / size.small * 0.97)) if note else None
    top = 16 + _lines(title) * size.title * 1.3 + (_lines(below) * 1.3 + 1.1) * size.small * bool(below)
    top += size.text * 1.6 if fig.named else 0
    total = round(height * size.tall + top + (_legend_rows(fig, size) - 2) * size.text * 1.4)
    shift = 12 + 0.6 * size.title * max(_lines(title) - 1, 0)  # plotly centres the lines of a title
    subtitle = {"subtitle": {"text": below, "font": {"size": size.small, "color": "#555555"}}} if below else {}
    return fig.figure(
        title={"text": title, "y": 1 - shift / total, **subtitle},
        margin={"t": round(top)},
        height=total,
        **{"meta": {"alt": " ".join(part for part in (alt, str(note)) if part)}, **layout},
    )


def _legend_rows(fig: Canvas, size: Sizes) -> int:
    """About how many lines the legend has at 700 px, at least two."""
    names = {t["name"] for t in fig.data if "name" in t and t.get("showlegend", True) and t["type"] == "scatter"}
    if fig.layout.get("showlegend") is False or not names:
        return 2
    widest = max(len(plain(name)) for name in names) * size.text * 0.55 + 50
    return max(2, -(-len(names) // max(1, int(620 // widest))))


def _lines(text: str | None) -> int:
    return text.count("<br>") + 1 if text else 0


def empty(sentence: str, lecture: bool | None, note: str = "") -> go.Figure:
    """A figure that says in a sentence why there is nothing to draw."""
    fig = Canvas([""], lecture)
    text = wrapped(safe(sentence), sizes(lecture).columns - 10)
    fig.add_annotation(text=text, x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False)
    fig.update_xaxes(visible=False)
    fig.update_yaxes(visible=False)
    return finish(fig, "", sentence, lecture=lecture, note=note, height=260)


# Tables --------------------------------------------------------------------------------------------------------


def has(table: pd.DataFrame | None, *columns: str) -> bool:
    """Whether a table has rows, and these columns."""
    return table is not None and len(table) > 0 and set(columns) <= set(table.columns)


def drawable(table: pd.DataFrame | None, *, positive: bool = False) -> tuple[pd.DataFrame, int]:
    """The rows that can be drawn (finite, above the floor, positive on a log axis) and how many are left out."""
    if not has(table, "value"):
        return pd.DataFrame(columns=["placement", "side", "layer", "block", "seed", "value"]), 0
    try:
        values = table["value"].to_numpy(float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the column value must hold numbers: {error}") from None
    good = np.isfinite(values)
    if positive:
        good &= values > 0
    if "below_floor" in table.columns:
        good &= ~table["below_floor"].to_numpy(bool)
    return (table, 0) if good.all() else (table[good], int((~good).sum()))


class Means(NamedTuple):
    """Mean, least and greatest value over seeds, at each place along an axis."""

    at: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def over_seeds(at: np.ndarray, values: np.ndarray) -> Means:
    """The values of each place put together. Arrays: a group-by takes longer than all else in a figure."""
    places, which = np.unique(at, return_inverse=True)
    low, high = np.full(len(places), np.inf), np.full(len(places), -np.inf)
    np.minimum.at(low, which, values)
    np.maximum.at(high, which, values)
    mean = np.bincount(which, values, len(places)) / np.bincount(which, minlength=len(places))
    return Means(places, mean, low, high)


def seed_count(table: pd.DataFrame) -> int:
    """How many seeds a table has."""
    return int(table["seed"].nunique()) if "seed" in table.columns else 1


def spread_words(table: pd.DataFrame) -> str:
    """What a mark and its bar are: for an axis title."""
    seeds = seed_count(table)
    return f"mean and range over {seeds} seeds" if seeds > 1 else "one seed"


def curves(table: pd.DataFrame, along: str, **only: str) -> list[tuple[str, str, Means]]:
    """(placement, block, means) for each curve, in a fixed order, of rows with these values, such as side="encoder".

    The block is "" where there are none.
    """
    if not len(table):
        return []
    columns = {name: table[name].to_numpy() for name in ("placement", along, "value", *only)}
    wanted = np.ones(len(table), bool)
    for name, value in only.items():
        wanted &= columns[name] == value
    blocks = table["block"].to_numpy() if "block" in table.columns else np.full(len(table), "")
    parts = []
    for key in in_order(columns["placement"]):
        for block in BLOCKS if "block" in table.columns else ("",):
            here = wanted & (columns["placement"] == key) & (blocks == block)
            if here.any():
                parts.append((key, block, over_seeds(columns[along][here], columns["value"][here].astype(float))))
    return parts


def curve_name(key: str, block: str, several: bool) -> str:
    """A placement's label, with its block where there are several."""
    return placement_label(key) + (f", {BLOCKS[block]}" if several and block else "")


def left_out(count: int) -> str:
    """A sentence on rows that are not drawn."""
    if not count:
        return ""
    return f"{count} {'values are' if count > 1 else 'value is'} left out, being round-off, zero or not finite."


# Traces --------------------------------------------------------------------------------------------------------


def marks(
    means: Means,
    style: dict[str, str],
    size: Sizes,
    *,
    upright: bool = False,
    joined: bool = False,
    hollow: bool = False,
    faint: bool = False,
    **more,
) -> dict:
    """Means as marks with bars from least to greatest; `upright` puts the places on the vertical axis."""
    value, position = means.mean.tolist(), means.at.tolist()
    bar = {
        "type": "data",
        "symmetric": False,
        "array": (means.high - means.mean).tolist(),
        "width": 0,
        "color": style["color"],
        "arrayminus": (means.mean - means.low).tolist(),
        "thickness": size.line,
        "visible": not faint,
    }
    crowd = len(value) * size.marker  # a panel is some 300 pixels high
    shrink = 1 if crowd <= 220 else 0.7 if crowd <= 320 else 0.5
    return scatter(
        x=value if upright else position,
        y=position if upright else value,
        **{"error_x" if upright else "error_y": bar},
        mode="lines+markers" if joined else "markers",
        line={"color": style["color"], "dash": style["dash"], "width": size.thin},
        marker={
            "symbol": style["symbol"] + ("-open" if hollow else ""),
            "color": style["color"],
            "size": size.marker * shrink * (0.8 if faint else 1),
            "line": {"width": size.thin, "color": style["color"]},
        },
        opacity=0.35 if faint else 1,
        **more,
    )


def theory_line(x: list, y: list, key: str, size: Sizes, **more) -> dict:
    """The theory's prediction: a thin dark line with the placement's dash."""
    style = placement_style(key)
    line = {"color": darker(style["color"]), "dash": style["dash"], "width": size.thin}
    return scatter(x=x, y=y, mode="lines", line=line, **{"showlegend": False, **more})


def theory_key(size: Sizes) -> dict:
    """The legend's entry for every theory line."""
    line = {"color": INK, "width": size.thin}
    return scatter(x=[None], y=[None], mode="lines", line=line, name="theory", uid="theory", hoverinfo="skip")


def ring(x: list, y: list, size: Sizes, name: str) -> dict:
    """A ring around chosen points."""
    mark = {"symbol": "circle-open", "size": size.marker * 2.1, "color": INK, "line": {"width": size.thin}}
    return scatter(x=x, y=y, mode="markers", marker=mark, name=name, uid="chosen", hoverinfo="skip")


def each_pinned(pinned: Iterable[tuple[str, pd.DataFrame]], draw: Callable[[str, int, pd.DataFrame], None]) -> None:
    """Call `draw(label, number, table)` for every pinned table that has rows."""
    for i, (label, table) in enumerate(pinned or ()):
        if has(table, "placement", "value"):
            draw(safe(label), i, table)


# Sentences -----------------------------------------------------------------------------------------------------


def log_axis(values: Iterable[float], room: int = 7) -> dict:
    """A log axis around positive values, with ticks at 1, 2, 5 or whole powers of ten, not more than `room`."""
    values = np.asarray(list(values), float)
    logs = np.log10(values[np.isfinite(values) & (values > 0)])
    if not len(logs):
        return {"type": "log"}
    low, high = float(logs.min()), float(logs.max())
    pad = max(0.05 * (high - low), 0.04)
    low, high = low - pad, high + pad
    powers = range(int(np.floor(low)) - 1, int(np.ceil(high)) + 2)
    for leads in ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,)):
        ticks = [lead * 10.0**power for power in powers for lead in leads]
        if sum(low <= np.log10(t) <= high for t in ticks) <= room:
            break
    else:
        step = -(-int(high - low) // room)
        ticks = [10.0**power for power in powers if power % step == 0]
    return {"type": "log", "range": [low, high], "tickvals": ticks, "ticktext": [_tick(t) for t in ticks]}


def _tick(value: float) -> str:
    power = round(np.log10(value))
    return f"{value:g}" if 1e-3 <= value < 1e4 else f"10<sup>{power}</sup>".replace("-", "−")


def within(values: Iterable[float], table: pd.DataFrame, factor: float = 10) -> list[float]:
    """Values to which an axis must reach: all of these, and those of a table that are not far beyond."""
    values = [float(v) for v in values]
    low, high = min(values) / factor, max(values) * factor
    return values + [v for v in table["value"].astype(float) if low <= v <= high]


def listed(pairs: list[tuple[str, float]], show: Callable[[float], str], most: int = 3) -> str:
    """ "Post-LN 5.0×; Pre-LN 0.6×", or the range where there are more than `most`."""
    if len(pairs) <= most:
        return "; ".join(f"{name} {show(value)}" for name, value in pairs)
    low, high = min(pairs, key=lambda p: p[1]), max(pairs, key=lambda p: p[1])
    return f"from {show(low[1])} ({low[0]}) to {show(high[1])} ({high[0]})"


def sentence(*parts: str) -> str:
    """Parts as sentences of a text alternative, without markup."""
    return " ".join(plain(part).strip().rstrip(".") + "." for part in parts if part)
