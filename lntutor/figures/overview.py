"""All placements at once: every measure in a panel of its own, and one measure against another."""

from __future__ import annotations

from math import inf

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.config import numbers
from lntutor.figures.canvas import Canvas, scatter
from lntutor.figures.checked import checked
from lntutor.figures.parts import Means, drawable, empty, finish, has, log_axis, marks, over_seeds, sentence
from lntutor.figures.style import INK, Sizes, in_order, number, placement_label, placement_style, safe, sizes, wrapped

FAR = 1e12  # what is larger, or smaller than one over it, is off the axis and said in a word


@checked
def overview(
    measured: pd.DataFrame, theory: pd.DataFrame | None = None, *, note: str = "", lecture: bool | None = None
) -> go.Figure:
    """One row a placement, one panel a measure, on log axes; a hollow mark is the smaller depth where there are two.

    Columns: placement, measure, seed, value and, where a measure has several, depth. A value that is missing or off
    the axis is said at its edge: none, ≫ or ≪. Theory's rows are short upright strokes.
    """
    if not has(measured, "placement", "measure", "value"):
        return empty("There is nothing to compare.", lecture, note)
    names, keys = list(dict.fromkeys(measured["measure"])), in_order(measured["placement"])[::-1]
    size, places = sizes(lecture), {key: i for i, key in enumerate(keys)}
    letters = max(13, 54 // len(names)) if size.large else max(20, 80 // len(names))  # across a panel
    heads = [wrapped(safe(name), letters) for name in names]
    fig = Canvas(heads, lecture, gap=0.03, shared="y")
    fig.layout["showlegend"] = False
    for column, name in enumerate(names, 1):
        rows = measured[measured["measure"] == name]
        expected = theory[theory["measure"] == name] if has(theory, "measure", "value") else rows[:0]
        _panel(fig, column, rows, expected, places, size)
    labels = {"tickvals": list(places.values()), "ticktext": [placement_label(key) for key in keys]}
    fig.update_yaxes(range=[-0.7, len(keys) - 0.3], **labels)
    title, words = _finding(measured, names)
    kind = f"Dot plots with log axes, one row for each of {len(keys)} placements, one panel for each measure"
    alt = sentence(kind, title, *words)
    drawn = finish(fig, title, alt, lecture=lecture, note=note, height=70 + 25 * len(keys))
    more = round(max(head.count("<br>") for head in heads) * size.text * 1.3)  # names of panels have several lines
    drawn.layout.margin.t += more
    drawn.layout.height += more
    return drawn


def _panel(fig: Canvas, column: int, rows: pd.DataFrame, expected: pd.DataFrame, places: dict, size: Sizes) -> None:
    """The marks of one measure, a stroke where theory has a value, a word where there is none to draw."""
    depths = sorted(rows["depth"].dropna().unique()) if "depth" in rows.columns else []
    seen, words = [], False
    for key, place in places.items():
        for depth in depths or [None]:
            values = _values(rows, key, depth)
            if not len(values):
                continue
            if word := _off(values):
                if depth in (None, *depths[-1:]):
                    fig.add_annotation(**_word(word, column, place, size))
                    words = True
                continue
            seen += values.tolist()
            hollow, of = bool(depths) and depth != depths[-1], "" if depth is None else f", depth {depth:g}"
            trace = marks(
                over_seeds(np.full(len(values), place), values), placement_style(key), size, upright=True,
                hollow=hollow, name=f"{placement_label(key)}{of}", uid=f"{column}/{key}/{depth}",
                hovertemplate="%{x:.3g}<extra>%{fullData.name}</extra>",
            )  # fmt: skip
            fig.add_trace(trace, col=column)
    _strokes(fig, column, expected, places, size)
    seen = seen or [1.0]
    room = [max(seen) * (max(seen) / min(seen)) ** 0.25] if words else []  # for words at the right
    axis = log_axis(seen + room, room=3)
    fig.update_xaxes(col=column, **axis, tickangle=0)


def _values(rows: pd.DataFrame, key: str, depth: float | None) -> np.ndarray:
    here = rows["placement"] == key
    return rows[here if depth is None else here & (rows["depth"] == depth)]["value"].to_numpy(float)


def _off(values: np.ndarray) -> str:
    """A word for values that no axis shows: none at all, or far beyond."""
    if np.isnan(values).all():
        return "none"
    mean = float(np.nanmean(values)) if np.isfinite(values).any() else float(np.nanmax(values))
    if not np.isfinite(values).all() or mean > FAR:
        return "≫"
    return "≪" if mean < 1 / FAR else ""


def _word(word: str, column: int, place: int, size: Sizes) -> dict:
    number_of = "" if column == 1 else str(column)
    x, anchor = (0.02, "left") if word == "≪" else (0.98, "right")
    where = {"xref": f"x{number_of} domain", "yref": "y", "x": x, "y": place, "xanchor": anchor}
    return {"text": word, "showarrow": False, "font": {"size": size.text, "color": INK}, **where}


def _strokes(fig: Canvas, column: int, expected: pd.DataFrame, places: dict, size: Sizes) -> None:
    """Theory, as strokes; with several depths, one for each."""
    rows = drawable(expected, positive=True)[0]
    rows = rows[rows["placement"].isin(list(places)) & (rows["value"] < FAR)] if len(rows) else rows
    if len(rows):
        mark = {"symbol": "line-ns-open", "size": size.marker * 1.7, "color": INK, "line": {"width": size.thin}}
        fig.add_trace(
            scatter(
                x=rows["value"].tolist(), y=[places[key] for key in rows["placement"]], mode="markers", marker=mark,
                name="theory", uid=f"{column}/theory", hovertemplate="%{x:.3g}<extra>theory</extra>",
            ),
            col=column,
        )  # fmt: skip


def _finding(measured: pd.DataFrame, names: list[str]) -> tuple[str, list[str]]:
    """The ends of the measure that tells placements apart the most, and of every measure in words."""
    spans = {}
    for name in names:
        rows = measured[measured["measure"] == name]
        if has(rows, "depth") and rows["depth"].notna().any():
            rows = rows[rows["depth"] == rows["depth"].max()]
        means = rows.groupby("placement")["value"].mean()
        means = means[np.isfinite(means) & (means > 1 / FAR) & (means < FAR)]
        if len(means):
            spans[name] = means.idxmin(), means.min(), means.idxmax(), means.max()
    if not spans:
        return "No placement has a value", []
    widest = max(spans, key=lambda name: spans[name][3] / spans[name][1])

    def said(name):
        low_key, low, high_key, high = spans[name]
        ends = f"{number(low)} ({placement_label(low_key)}) to {number(high)} ({placement_label(high_key)})"
        return f"{safe(name)}: from {ends}"

    return _capital(said(widest)), [said(name) for name in spans if name != widest]


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


@checked
def against(measured: pd.DataFrame, x: str, y: str, *, note: str = "", lecture: bool | None = None) -> go.Figure:
    """One measure against another, a mark for each placement that has both, and their rank correlation as the title.

    Columns as for `overview`; means over seeds.
    """
    both = ranked(measured, x, y)
    if len(both) < 3:
        return empty("There are fewer than three placements with both measures.", lecture, note)
    fig, size = Canvas([""], lecture), sizes(lecture)
    for key in in_order(both.index):
        point = Means(*(np.array([value]) for value in (both.loc[key, x], *[both.loc[key, y]] * 3)))
        hover = "%{x:.3g}, %{y:.3g}<extra>%{fullData.name}</extra>"
        fig.add_trace(
            marks(point, placement_style(key), size, name=placement_label(key), uid=f"point/{key}", hovertemplate=hover)
        )
    fig.update_xaxes(title=safe(x), **log_axis(both[x]))
    fig.update_yaxes(title=safe(y), **log_axis(both[y], room=8))
    rho = rank_correlation(both[x], both[y])
    title = _capital(f"{safe(y)} against {safe(x)}: rank correlation {number(rho, 2)}, {len(both)} placements")
    words = "; ".join(f"{placement_label(k)}: {number(a)}, {number(b)}" for k, a, b in both.itertuples())
    kind = f"Scatter plot with log axes, one mark a placement. Horizontal axis: {x}. Vertical axis: {y}"
    return finish(
        fig,
        title,
        sentence(kind, title, words),
        lecture=lecture,
        note=note,
        height=340 if size.large else 420,
        showlegend=True,
    )


@checked
def ranked(measured: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """Means of two measures, one row a placement that has both, at the largest depth of each."""
    if not has(measured, "placement", "measure", "value"):
        return pd.DataFrame(columns=[x, y])
    parts = {}
    for name in (x, y):
        rows = measured[measured["measure"] == name]
        if has(rows, "depth") and rows["depth"].notna().any():
            rows = rows[rows["depth"] == rows["depth"].max()]
        parts[name] = rows.groupby("placement")["value"].mean()
    both = pd.DataFrame(parts)
    return both[(np.isfinite(both) & (both > 0)).all(axis=1)]


@checked
def rank_correlation(x, y) -> float:
    """Spearman's ρ: the correlation of ranks, ties sharing theirs."""
    x, y = numbers("x", x, 1, most=inf), numbers("y", y, 1, most=inf)  # infinity has a rank, too
    if len(x) != len(y):
        raise ValueError(f"x and y must be equally many numbers, got {len(x)} and {len(y)}")
    return float(np.corrcoef(pd.Series(x).rank(), pd.Series(y).rank())[0, 1])
