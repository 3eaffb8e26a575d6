"""The spectrum of the Hessian: how much curvature there is, and how far it reaches on both sides of zero."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, error_bar
from lntutor.figures.drawing import empty, finish, listed, log_axis
from lntutor.figures.style import INK, PALE, Sizes, fixed, for_text, number, placement_label, safe
from lntutor.figures.tables import Table, has, seed_count
from lntutor.figures.training import styled_runs

DECADES = (4, 7, 10)  # of density below the highest that are shown: at least, where no ends are known, at most
HEIGHT = 330  # pixels of the densities
ROW = 24  # and of a pair of ends below them
GAP = "\u2002"  # between a mark and its number
REACH = 0.6  # of the width of all spectra: a line at 2/η that is further away is not drawn to scale


class Part(NamedTuple):
    """What one name in the legend stands for."""

    run: str
    rows: pd.DataFrame
    style: dict[str, str]
    ends: dict[str, np.ndarray]  # lambda_min and lambda_max of every seed, where the table has them

    @property
    def name(self) -> str:
        """Safe to print."""
        return placement_label(self.run)

    def end(self, name: str) -> float:
        """Mean over seeds."""
        return float(self.ends[name].mean())

    def numbers(self) -> tuple[str, str]:
        """Both ends in words; next to the other one, a very small one is zero."""
        ends = [self.end(name) for name in self.ends]
        span = max(map(abs, ends))
        low, high = (_number(0.0 if abs(v) < 1e-4 * span else v) for v in ends)
        return low, high


def spectrum(
    table: Table, *, two_over_eta: float | None = None, matrix: str = "the Hessian", note: str = "",
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """Density of eigenvalues on a log axis, both ends of every spectrum below; a vertical line at 2/η where asked.

    Columns: placement, x, density; seed, one line each; lambda_min and lambda_max; run, the name in the legend, where
    one placement was measured in several ways: its colour gets darker then, with dashes and marks of their own.
    """
    if has(table, "placement", "x", "density"):
        table = table[np.isfinite(table["density"]) & (table["density"] > 0)]
    if not has(table, "placement", "x", "density"):
        return empty("There is no spectrum to draw here.", lecture, note)
    parts = _parts(table)
    low, high = _decades(table, parts)
    ended = [part for part in parts if part.ends]
    panels, strip = 1 + bool(ended), ROW * (len(ended) + 0.5)
    fig = Canvas(lecture, [""] * panels, rows=panels, heights=[HEIGHT, strip][:panels], gap=0.03, shared="x")
    for part in parts:
        _draw_density(fig, part, 10**low)
    for i, part in enumerate(ended):
        _draw_ends(fig, part, -i)
    view, seeds = _view(table[table["density"] >= 10**low], ended, two_over_eta, fig.size), seed_count(table)
    _zero(fig, view, panels)
    if two_over_eta is not None:
        _threshold(fig, two_over_eta, view, [10**low, 10**high], len(ended))
    lines = f"one line per seed, {seeds} seeds" if seeds > 1 else "one seed"
    marks = f" (marks: both ends{', mean and range over seeds' if seeds > 1 else ''})" if ended else ""
    fig.update_yaxes(range=[-len(ended) + 0.25, 0.75], visible=False, row=2)
    fig.update_yaxes(title=f"Density ({lines})", row=1, **log_axis([10**low, 10**high], room=9))
    fig.update_xaxes(range=view, separatethousands=True, exponentformat="none")
    fig.update_xaxes(title=f"Eigenvalue λ of {safe(matrix)}{marks}", row=panels)
    title, ratios = _finding(table, ended, two_over_eta)
    kind = f"Line plot, horizontal axis eigenvalue, vertical axis density, logarithmic, {lines}"
    return finish(fig, title, kind, ratios, note=note, height=HEIGHT + strip + 30)


def _parts(table: pd.DataFrame) -> list[Part]:
    """Placements in their order, and the runs of one as they come in the table."""
    runs = styled_runs(table, "run" if "run" in table.columns else "placement")
    return [Part(run, rows, style, _ends(rows)) for run, rows, style in runs]


def _decades(table: pd.DataFrame, parts: list[Part]) -> tuple[float, float]:
    """From which to which power of ten: low enough for the hills at both ends, which may be one eigenvalue each."""
    least, usual, most = DECADES
    high = float(np.log10(table["density"].max()))
    lowest = max(float(np.log10(table["density"].min())), high - usual)
    hills = []
    for rows in (rows for part in parts if part.ends for rows in _seeds(part.rows)):
        x, density = rows["x"].to_numpy(float), rows["density"].to_numpy(float)
        hills += [density[np.abs(x - rows[name].iloc[0]).argmin()] for name in ("lambda_min", "lambda_max")]
    if hills:
        lowest = float(np.clip(np.log10(min(hills)) - 1.2, high - most, high - least))
    return lowest, high


def _seeds(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows of each seed, in the order of x."""
    parts = rows.groupby("seed", sort=True) if "seed" in rows.columns else [(0, rows)]
    return [part.sort_values("x") for _, part in parts]


def _ends(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """λmin and λmax of every seed, where the table has both."""
    names = ("lambda_min", "lambda_max")
    if not all(name in rows.columns and rows[name].notna().any() for name in names):
        return {}
    by = "seed" if "seed" in rows.columns else "placement"
    first = rows.groupby(by)[list(names)].first().dropna()
    return {name: first[name].to_numpy(float) for name in names}


def _draw_density(fig: Canvas, part: Part, least: float) -> None:
    """The curves of all seeds in one trace, with a gap between them and where there is next to nothing."""
    seeds = _seeds(part.rows)
    x, y = (np.concatenate([[*rows[name], np.nan] for rows in seeds])[:-1] for name in ("x", "density"))
    y[~(y >= least)] = np.nan
    thin = 0.6 if len(seeds) > 1 else 1
    line = {"color": part.style["color"], "dash": part.style["dash"], "width": thin * fig.size.line}
    hover = "λ = %{x:.3g}: density %{y:.2g}<extra>%{fullData.name}</extra>"
    named = {"name": part.name, "legendgroup": part.run, "uid": f"density/{part.run}", "hovertemplate": hover}
    fig.add_scatter(x=x, y=y, mode="lines", line=line, **named)


def _draw_ends(fig: Canvas, part: Part, y: float) -> None:
    """A thin line from one end to the other, a mark at each with its spread, and the two numbers outside."""
    means, least, most = (np.array([f(v) for v in part.ends.values()]) for f in (np.mean, np.min, np.max))
    size, colour = fig.size, part.style["color"]
    mark = {"color": colour, "symbol": part.style["symbol"], "size": size.marker}
    same = {"name": part.name, "legendgroup": part.run, "showlegend": False, "cliponaxis": False}
    low, high = part.numbers()
    numbers = {"text": [f"{low}{GAP}", f"{GAP}{high}"], "textfont": {"color": for_text(colour), "size": size.text - 1}}
    fig.add_scatter(
        2, x=means.tolist(), y=[y, y], mode="lines+markers", line={"color": colour, "width": 1}, marker=mark,
        error_x=error_bar(most - means, means - least, colour, size.line), **same, uid=f"ends/{part.run}",
        hovertemplate="end at λ = %{x:.4g}<extra>%{fullData.name}</extra>",
    )  # fmt: skip
    fig.add_scatter(
        2, x=[float(least[0]), float(most[1])], y=[y, y], mode="text", textposition=["middle left", "middle right"],
        **numbers, **same, uid=f"numbers/{part.run}", hoverinfo="skip",
    )  # fmt: skip


def _view(table: pd.DataFrame, ended: list[Part], threshold: float | None, size: Sizes) -> list[float]:
    """From where to where the eigenvalues are drawn: all of them, the numbers at their ends, and 2/η if it is near."""
    ends = [v for part in ended for values in part.ends.values() for v in values]
    low, high = min([*table["x"], *ends]), max([*table["x"], *ends])
    span = high - low or 1.0
    if threshold is not None and low - REACH * span <= threshold <= high + REACH * span:
        low, high = min(low, threshold), max(high, threshold)
    letters = max((len(text) for part in ended for text in part.numbers()), default=0)
    room = (high - low or 1.0) * (0.04 + letters * 0.6 * size.text / 600)
    return [float(low - room), float(high + room)]


def _zero(fig: Canvas, view: list[float], rows: int) -> None:
    """A line where curvature changes its sign."""
    if view[0] < 0 < view[1]:
        for row in range(1, rows + 1):
            nth, line = str(row) if row > 1 else "", {"color": PALE, "width": 1}
            at = {"x0": 0, "x1": 0, "y0": 0, "y1": 1, "xref": f"x{nth}", "yref": f"y{nth} domain"}
            fig.add_shape(type="line", **at, line=line, layer="below")


def _threshold(fig: Canvas, value: float, view: list[float], heights: list[float], ends: int) -> None:
    """The largest curvature at which gradient descent at this rate is stable; an arrow to it where it is far away."""
    size, name = fig.size, f"2/η = {_number(value)}"
    same = {"x": [value] * 2, "mode": "lines", "line": fig.dotted, "name": name, "legendgroup": "two_over_eta"}
    fig.add_scatter(y=heights, uid="two_over_eta", hoverinfo="name", **same)
    if ends:
        fig.add_scatter(2, y=[0.75, 0.25 - ends], uid="two_over_eta/ends", hoverinfo="skip", showlegend=False, **same)
    near, share = view[0] <= value <= view[1], (value - view[0]) / (view[1] - view[0])
    fits = share + len(name) * 0.6 * size.text / 600 < 1
    label = name if near else f"← {name}" if share < 0 else f"{name} →"
    fig.add_annotation(
        text=label, x=min(max(value, view[0]), view[1]), y=1, xref="x", yref="y domain", yanchor="top",
        xanchor="left" if fits else "right", xshift=4 if fits else -4,
        font={"size": size.text - 1, "color": INK}, bgcolor="rgba(255,255,255,0.8)",
    )  # fmt: skip


def _finding(table: pd.DataFrame, ended: list[Part], threshold: float | None) -> tuple[str, str]:
    if not ended:
        return f"Eigenvalues from {_number(table['x'].min())} to {_number(table['x'].max())}", ""
    tops, lows = ([(part.name, part.end(name)) for part in ended] for name in ("lambda_max", "lambda_min"))
    if len(ended) <= 3:
        title = "; ".join(f"{part.name}: λ from {' to '.join(part.numbers())}" for part in ended)
    else:
        title = f"λmax {listed(tops, _number)}; λmin {listed(lows, _number)}"
    if threshold is not None:
        over = [name for name, value in tops if value > threshold]
        everyone = {1: over, 2: ["both"]}.get(len(ended), ["all"])
        who = ", ".join(everyone if len(over) == len(ended) else over) or "none"
        title += f"; above 2/η\u00a0=\u00a0{_number(threshold)}: {who}"
    ratios = [
        f"{part.name} −λmin/λmax {fixed(-part.end('lambda_min') / part.end('lambda_max'))}"
        for part in ended
        if part.end("lambda_max") > 0
    ]
    return title, "; ".join(ratios)


def _number(value: float) -> str:
    """Three digits, in full where a number has up to six before its point."""
    short = float(f"{value:.3g}")
    return f"{short:,.0f}".replace("-", "−") if 1000 <= abs(short) < 1e6 else number(value)
