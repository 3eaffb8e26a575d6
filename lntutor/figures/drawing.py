"""What figures share: the frame around them, cells with numbers, pinned curves, axes and sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, heatmap
from lntutor.figures.style import in_order, number, placement_label, plain, safe, wrapped
from lntutor.figures.tables import Table, drawable, has
from lntutor.model.checks import check_type

Pinned = Iterable[tuple[str, pd.DataFrame]]


def alt_text(fig: go.Figure) -> str:
    """The figure in words, for readers who do not see it."""
    meta = check_type("fig", fig, go.Figure).layout.meta
    return meta.get("alt", "") if isinstance(meta, dict) else ""


# The frame -----------------------------------------------------------------------------------------------------


def finish(
    fig: Canvas, title: str, kind: str = "", *more: str, alt: str = "", note: str = "", height: float = 370,
    above: float = 0, meta: dict | None = None, **layout,
) -> go.Figure:  # fmt: skip
    """Title, note, text alternative and the space that they need; `height` is the plot's, `above` is kept free.

    The text alternative is what kind of plot this is, the title and `more` as sentences, or `alt` as it stands.
    """
    size, alt = fig.size, alt or sentence(kind, title, *more)
    title = wrapped(title, size.columns)
    below = wrapped(safe(check_type("note", note, str)), int(size.columns * size.title / size.small * 0.97))
    top = 16 + _lines(title) * size.title * 1.3 + (_lines(below) * 1.3 + 1.1) * size.small * bool(below)
    top += (size.text * 1.6 if fig.named else 0) + above
    total = round(height * size.tall + top + (_legend_rows(fig) - 2) * size.text * 1.4)
    shift = 12 + 0.6 * size.title * max(_lines(title) - 1, 0)  # plotly centres the lines of a title
    subtitle = {"subtitle": {"text": below, "font": {"size": size.small, "color": "#555555"}}} if below else {}
    texts: dict = {"title": {"text": title, "y": 1 - shift / total, **subtitle}}
    texts["meta"] = {"alt": " ".join(filter(None, (alt, note))), **(meta or {})}
    return fig.figure(**texts, margin={"t": round(top)}, height=total, **layout)


def _legend_rows(fig: Canvas) -> int:
    """About how many lines the legend has at 700 px, at least two."""
    names = {t["name"] for t in fig.data if "name" in t and t.get("showlegend", True) and t["type"] == "scatter"}
    if fig.layout.get("showlegend") is False or not names:
        return 2
    widest = max(len(plain(name)) for name in names) * fig.size.text * 0.55 + 50
    return max(2, -(-len(names) // max(1, int(620 // widest))))


def _lines(text: str) -> int:
    return text.count("<br>") + 1 if text else 0


def empty(message: str, lecture: bool | None, note: str = "") -> go.Figure:
    """A figure that says in a sentence why there is nothing to draw."""
    fig = Canvas(lecture)
    text = wrapped(safe(message), fig.size.columns - 10)
    fig.add_annotation(text=text, x=0.5, y=0.5, xref="paper", yref="paper")
    fig.update_xaxes(visible=False)
    fig.update_yaxes(visible=False)
    return finish(fig, "", alt=message, note=note, height=260)


# Cells and pins ------------------------------------------------------------------------------------------------


def numbered_cells(grid: np.ndarray, text_size: int, uid: str, **more) -> dict:
    """Cells of a heat map on the shared colour axis, with their numbers; a dash where there is none."""
    return heatmap(
        z=[[v if np.isfinite(v) else None for v in row] for row in grid],
        text=[[number(v, 2) if np.isfinite(v) else "–" for v in row] for row in grid], texttemplate="%{text}",
        textfont={"size": text_size}, coloraxis="coloraxis", xgap=2, ygap=2, uid=uid,
        **{"hovertemplate": "%{z:.4g}<extra></extra>", **more},
    )  # fmt: skip


def cell_ticks(names: list[str]) -> dict:
    """The axis of a heat map whose cells have names."""
    return {"tickvals": list(range(len(names))), "ticktext": names, "showgrid": False, "ticks": "", "showline": False}


def row_axis(names: list) -> dict:
    """The axis of a plot with one named row per place, from the bottom up."""
    ticks = {"tickvals": list(range(len(names))), "ticktext": [wrapped(safe(name), 34) for name in names]}
    return {"range": [-0.6, len(names) - 0.4], **ticks}


def colour_bar(what: str) -> dict:
    """The key of a heat map's colours."""
    return {"title": {"text": safe(what), "side": "right"}, "thickness": 12, "outlinewidth": 0}


def pinned_rows(
    pinned: Pinned, pick: Callable[[pd.DataFrame], Table], *, positive: bool = True
) -> list[tuple[str, str, pd.DataFrame]]:
    """(start of a name, start of a uid, rows that can be drawn) of every pinned table that has such rows."""
    tables = [(label, drawable(pick(table), positive=positive)[0]) for label, table in pinned or ()]
    return [(f"{safe(a)}: ", f"pin{i}/", rows) for i, (a, rows) in enumerate(tables) if has(rows, "placement", "value")]


# Axes and sentences --------------------------------------------------------------------------------------------


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


def with_zeros(title: str, table: Table, *along: str) -> str:
    """The title, and which placements have gradients that are exactly 0: a log axis cannot show them.

    `along` names the columns of a place, such as ("side", "layer"): the last one is its noun.
    """
    if table is None:
        return title
    zero = table["value"].to_numpy(float) == 0
    if "below_floor" in table.columns:
        zero &= ~table["below_floor"].to_numpy(bool)
    for key in in_order(table["placement"][zero]):
        here = table["placement"] == key
        places = table[here].assign(zero=zero[here]).groupby(list(along))["zero"].all()
        found = f"gradients are exactly 0 in {places.sum()} of {len(places)} {along[-1]}s"
        if places.all():
            found = "all gradients are exactly 0"
        elif not places.any():  # other seeds, or other blocks, have a gradient there
            found = f"{zero[here].sum()} of {here.sum()} gradients are exactly 0"
        title += f"; {placement_label(key)}: {found}"
    return title


def sentence(*parts: str) -> str:
    """Parts as sentences of a text alternative, without markup."""
    return " ".join(plain(part).strip().rstrip(".") + "." for part in parts if part)
