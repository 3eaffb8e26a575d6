"""All placements at once: every measure in a panel of its own, and one measure against another."""

from __future__ import annotations

from math import inf

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.drawing import empty, finish, log_axis
from lntutor.figures.style import INK, in_order, number, placement_label, safe, wrapped
from lntutor.figures.tables import Means, Table, drawable, has, over_seeds
from lntutor.model.checks import as_numbers

FAR = 1e12  # a larger value, or one smaller than 1/FAR, is off the axis: a sign at its edge says so


def overview(measured: Table, theory: Table = None, *, note: str = "", lecture: bool | None = None) -> go.Figure:
    """One row per placement, one panel per measure, on log axes; where there are two depths, the smaller is hollow.

    Columns: placement, measure, seed, value and, where a measure has several, depth. What the axis cannot show stands
    at its edge: none (missing), 0, ≫ or ≪. Theory's rows are short upright strokes.
    """
    if not has(measured, "placement", "measure", "value"):
        return empty("There is nothing to compare.", lecture, note)
    names, keys = list(dict.fromkeys(measured["measure"])), in_order(measured["placement"])[::-1]
    fig = Canvas(lecture, [safe(name) for name in names], gap=0.03, shared="y")
    letters = max(13, 54 // len(names)) if fig.size.large else max(20, 80 // len(names))  # across a panel
    heads = [wrapped(safe(name), letters) for name in names]
    for head, annotation in zip(heads, fig.annotations, strict=False):
        annotation["text"] = head
    fig.layout["showlegend"] = False
    places = {key: i for i, key in enumerate(keys)}
    for column, name in enumerate(names, 1):
        rows = measured[measured["measure"] == name]
        predicted = theory[theory["measure"] == name] if has(theory, "measure", "value") else rows[:0]
        _panel(fig, column, rows, predicted, places)
    labels = {"tickvals": list(places.values()), "ticktext": [placement_label(key) for key in keys]}
    fig.update_yaxes(range=[-0.7, len(keys) - 0.3], **labels)
    title, spans = _finding(measured, names)
    kind = f"Dot plots with log axes, one row for each of {len(keys)} placements, one panel for each measure"
    lines = max(head.count("<br>") for head in heads)  # names of panels may have several
    above = round(lines * fig.size.text * 1.3)
    return finish(fig, title, kind, *spans, note=note, height=70 + 25 * len(keys), above=above)


def _panel(fig: Canvas, column: int, rows: pd.DataFrame, expected: pd.DataFrame, places: dict[str, int]) -> None:
    """The marks of one measure, a stroke where theory has a value, a sign where there is no mark to draw."""
    depths = sorted(rows["depth"].dropna().unique()) if "depth" in rows.columns else []
    seen, signs = [], False
    for key, place in places.items():
        for depth in depths or [None]:
            values = _values(rows, key, depth)
            sign = _off_axis(values) if len(values) else ""
            if sign and depth in (None, *depths[-1:]):
                fig.add_annotation(**_sign(sign, column, place, fig.size.text))
                signs = True
            if sign or not len(values):
                continue
            seen += values.tolist()
            of = "" if depth is None else f", depth {depth:g}"
            fig.add_marks(
                over_seeds(np.full(len(values), place), values), key, 1, column, upright=True,
                hollow=bool(depths) and depth != depths[-1], name=f"{placement_label(key)}{of}",
                uid=f"{column}/{key}/{depth}", hovertemplate="%{x:.3g}<extra>%{fullData.name}</extra>",
            )  # fmt: skip
    _strokes(fig, column, expected, places)
    seen = seen or [1.0]
    room = [max(seen) * (max(seen) / min(seen)) ** 0.25] if signs else []  # for signs at the right
    fig.update_xaxes(col=column, **log_axis(seen + room, room=3), tickangle=0)


def _values(rows: pd.DataFrame, key: str, depth: float | None) -> np.ndarray:
    here = rows["placement"] == key
    return rows[here if depth is None else here & (rows["depth"] == depth)]["value"].to_numpy(float)


def _off_axis(values: np.ndarray) -> str:
    """A sign for values that a log axis cannot show: missing, exactly 0, or far beyond."""
    if np.isnan(values).all():
        return "none"
    mean = float(np.nanmean(values)) if np.isfinite(values).any() else float(np.nanmax(values))
    if not np.isfinite(values).all() or mean > FAR:
        return "≫"
    return "0" if mean == 0 else "≪" if mean < 1 / FAR else ""


def _sign(sign: str, column: int, place: int, size: int) -> dict:
    axis = "" if column == 1 else str(column)
    x, anchor = (0.02, "left") if sign in ("≪", "0") else (0.98, "right")
    where = {"xref": f"x{axis} domain", "yref": "y", "x": x, "y": place, "xanchor": anchor}
    return {"text": sign, "font": {"size": size, "color": INK}, **where}


def _strokes(fig: Canvas, column: int, expected: pd.DataFrame, places: dict[str, int]) -> None:
    """Theory, as strokes; with several depths, one for each."""
    rows = drawable(expected, positive=True)[0]
    rows = rows[rows["placement"].isin(list(places)) & (rows["value"] < FAR)] if len(rows) else rows
    if len(rows):
        size = fig.size
        mark = {"symbol": "line-ns-open", "size": size.marker * 1.7, "color": INK, "line": {"width": size.thin}}
        at = {"x": rows["value"].tolist(), "y": [places[key] for key in rows["placement"]]}
        named = {"name": "theory", "uid": f"{column}/theory", "hovertemplate": "%{x:.3g}<extra>theory</extra>"}
        fig.add_scatter(1, column, **at, mode="markers", marker=mark, **named)


def _means(measured: pd.DataFrame, name: str) -> pd.Series:
    """Means over seeds of one measure, one per placement, at its largest depth."""
    rows = measured[measured["measure"] == name]
    if has(rows, "depth") and rows["depth"].notna().any():
        rows = rows[rows["depth"] == rows["depth"].max()]
    return rows.groupby("placement")["value"].mean()


def _finding(measured: pd.DataFrame, names: list[str]) -> tuple[str, list[str]]:
    """The ends of the measure that tells placements apart the most, and of every other measure in words."""
    spans, ratios, zeros = {}, {}, []
    for name in names:
        means = _means(measured, name)
        if (means == 0).any():
            labels = ", ".join(placement_label(key) for key in in_order(means.index[means == 0]))
            zeros.append(f"{safe(name)} is exactly 0: {labels}")
        means = means[np.isfinite(means) & (means > 1 / FAR) & (means < FAR)]
        if len(means):
            ends = str(means.idxmin()), str(means.idxmax())
            low, high = (f"{number(means[key])} ({placement_label(key)})" for key in ends)
            spans[name], ratios[name] = f"{safe(name)}: from {low} to {high}", means.max() / means.min()
    if not spans:
        return "No placement has a value that a log axis shows" if zeros else "No placement has a value", zeros
    widest = max(ratios, key=ratios.__getitem__)
    return _capital(spans.pop(widest)), [*spans.values(), *zeros]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def against(measured: Table, x: str, y: str, *, note: str = "", lecture: bool | None = None) -> go.Figure:
    """One measure against another, one mark per placement that has both, and their rank correlation as the title.

    Columns as for `overview`; means over seeds.
    """
    both = ranked(measured, x, y)
    if len(both) < 3:
        return empty("There are fewer than three placements with both measures.", lecture, note)
    fig = Canvas(lecture)
    for key in in_order(both.index):
        at, value = (np.array([both.loc[key, name]]) for name in (x, y))
        hover = "%{x:.3g}, %{y:.3g}<extra>%{fullData.name}</extra>"
        named = {"name": placement_label(key), "uid": f"point/{key}", "hovertemplate": hover}
        fig.add_marks(Means(at, value, value, value), key, **named)
    fig.update_xaxes(title=safe(x), **log_axis(both[x]))
    fig.update_yaxes(title=safe(y), **log_axis(both[y], room=8))
    rho = rank_correlation(both[x], both[y])
    title = _capital(f"{safe(y)} against {safe(x)}: rank correlation {number(rho, 2)}, {len(both)} placements")
    pairs = "; ".join(f"{placement_label(k)}: {number(a)}, {number(b)}" for k, a, b in both.itertuples())
    kind = f"Scatter plot with log axes, one mark per placement. Horizontal axis: {x}. Vertical axis: {y}"
    return finish(fig, title, kind, pairs, note=note, height=340 if fig.size.large else 420, showlegend=True)


def ranked(measured: Table, x: str, y: str) -> pd.DataFrame:
    """Means of two measures, one row per placement that has both, at the largest depth of each."""
    if not has(measured, "placement", "measure", "value"):
        return pd.DataFrame(columns=[x, y])
    both = pd.DataFrame({name: _means(measured, name) for name in (x, y)})
    known = np.isfinite(both[x]) & np.isfinite(both[y])
    return both[known & (both[x] > 0) & (both[y] > 0)]


def rank_correlation(x, y) -> float:
    """Spearman's ρ: the correlation of ranks, ties sharing theirs."""
    x, y = as_numbers("x", x, 1, most=inf), as_numbers("y", y, 1, most=inf)  # infinity has a rank, too
    if len(x) != len(y):
        raise ValueError(f"x and y must be equally many numbers, got {len(x)} and {len(y)}")
    return float(np.corrcoef(pd.Series(x).rank(), pd.Series(y).rank())[0, 1])
