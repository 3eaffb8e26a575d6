"""The spectrum of the Hessian: how much curvature there is, and how far it reaches on both sides of zero."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, scatter
from lntutor.figures.checked import checked
from lntutor.figures.parts import empty, finish, has, listed, log_axis, seed_count, sentence
from lntutor.figures.style import INK, PALE, fixed, for_words, in_order, number, placement_label, safe, sizes
from lntutor.figures.training import run_style

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


@checked
def spectrum(
    table: pd.DataFrame,
    *,
    two_over_eta: float | None = None,
    matrix: str = "the Hessian",
    note: str = "",
    lecture: bool | None = None,
) -> go.Figure:
    """Density of eigenvalues on a log axis, both ends of every spectrum below; a vertical line at 2/η where asked.

    Columns: placement, x, density; seed, a line each; lambda_min and lambda_max; run, the name in the legend, where
    one placement was measured in several ways: its colour gets darker then, with dashes and marks of their own.
    """
    if has(table, "placement", "x", "density"):
        table = table[np.isfinite(table["density"]) & (table["density"] > 0)]
    if not has(table, "placement", "x", "density"):
        return empty("There is no spectrum to draw here.", lecture, note)
    size, parts = sizes(lecture), _parts(table)
    low, high = _decades(table, parts)
    ended = [part for part in parts if part.ends]
    strip = ROW * (len(ended) + 0.5)
    fig = Canvas([""] * (1 + bool(ended)), lecture, rows=1 + bool(ended), heights=[HEIGHT, strip][: 1 + bool(ended)],
                 gap=0.03, shared="x")  # fmt: skip
    for part in parts:
        fig.add_trace(_density(part, 10**low, size))
    for i, part in enumerate(ended):
        for trace in _end_marks(part, -i, size):
            fig.add_trace(trace, 2, 1)
    view = _view(table[table["density"] >= 10**low], ended, two_over_eta, size)
    _zero(fig, view, rows=1 + bool(ended))
    if two_over_eta is not None:
        _threshold(fig, two_over_eta, view, [10**low, 10**high], len(ended), size)
    seeds = seed_count(table)
    lines = f"a line a seed, {seeds} seeds" if seeds > 1 else "one seed"
    marks = " (marks: both ends" + (", mean and range over seeds)" if seeds > 1 else ")") if ended else ""
    fig.update_xaxes(range=view, separatethousands=True, exponentformat="none")
    fig.update_xaxes(title=f"Eigenvalue λ of {safe(matrix)}{marks}", row=1 + bool(ended))
    fig.update_yaxes(title=f"Density ({lines})", row=1, **log_axis([10**low, 10**high], room=9))
    if ended:
        fig.update_yaxes(range=[-len(ended) + 0.25, 0.75], visible=False, row=2)
    title, words = _finding(table, ended, two_over_eta)
    alt = sentence(f"Line plot, horizontal axis eigenvalue, vertical axis density, logarithmic, {lines}", title, words)
    return finish(fig, title, alt, lecture=lecture, note=note, height=HEIGHT + strip + 30)


def _parts(table: pd.DataFrame) -> list[Part]:
    """Placements in their order, and the runs of one as they come in the table."""
    column = "run" if "run" in table.columns else "placement"
    groups = {str(run): rows for run, rows in table.groupby(column, sort=False)}
    keys = {run: str(rows["placement"].iloc[0]) for run, rows in groups.items()}
    order, seen, parts = in_order(keys.values()), {}, []
    for run in sorted(groups, key=lambda run: order.index(keys[run])):  # sorting keeps the order of equals
        nth = seen[keys[run]] = seen.get(keys[run], -1) + 1
        parts.append(Part(run, groups[run], run_style(keys[run], nth), _ends(groups[run])))
    return parts


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


def _density(part: Part, least: float, size) -> dict:
    """The curves of all seeds in one trace, with a gap between them and where there is next to nothing."""
    seeds = _seeds(part.rows)
    x, y = (np.concatenate([[*rows[name], np.nan] for rows in seeds])[:-1] for name in ("x", "density"))
    y[~(y >= least)] = np.nan
    thin = 0.6 if len(seeds) > 1 else 1
    line = {"color": part.style["color"], "dash": part.style["dash"], "width": thin * size.line}
    hover = "λ = %{x:.3g}: density %{y:.2g}<extra>%{fullData.name}</extra>"
    return scatter(
        x=x, y=y, mode="lines", line=line, uid=f"density/{part.run}", hovertemplate=hover, name=part.name,
        legendgroup=part.run,
    )  # fmt: skip


def _end_marks(part: Part, y: float, size) -> list[dict]:
    """A thin line from one end to the other, a mark at each with its spread, and the two numbers outside."""
    means = [part.end(name) for name in part.ends]
    least, most = ([float(f(v)) for v in part.ends.values()] for f in (np.min, np.max))
    colour = part.style["color"]
    bar = {
        "type": "data",
        "symmetric": False,
        "array": [a - b for a, b in zip(most, means, strict=True)],
        "arrayminus": [b - a for a, b in zip(least, means, strict=True)],
        "width": 0,
        "thickness": size.line,
        "color": colour,
    }
    same = {"name": part.name, "legendgroup": part.run, "showlegend": False, "cliponaxis": False}
    low, high = part.numbers()
    numbers = {"text": [f"{low}{GAP}", f"{GAP}{high}"], "textfont": {"color": for_words(colour), "size": size.text - 1}}
    return [
        scatter(
            x=means, y=[y, y], mode="lines+markers", error_x=bar, line={"color": colour, "width": 1}, **same,
            marker={"color": colour, "symbol": part.style["symbol"], "size": size.marker}, uid=f"ends/{part.run}",
            hovertemplate="end at λ = %{x:.4g}<extra>%{fullData.name}</extra>",
        ),
        scatter(
            x=[least[0], most[1]], y=[y, y], mode="text", textposition=["middle left", "middle right"], **numbers,
            **same, uid=f"numbers/{part.run}", hoverinfo="skip",
        ),
    ]  # fmt: skip


def _view(table: pd.DataFrame, ended: list[Part], threshold: float | None, size) -> list[float]:
    """From where to where the eigenvalues are drawn: all of them, the numbers at their ends, and 2/η if it is near."""
    ends = [v for part in ended for values in part.ends.values() for v in values]
    low, high = min([*table["x"], *ends]), max([*table["x"], *ends])
    span = high - low or 1.0
    if threshold is not None and low - REACH * span <= threshold <= high + REACH * span:
        low, high = min(low, threshold), max(high, threshold)
    letters = max((len(words) for part in ended for words in part.numbers()), default=0)
    room = (high - low or 1.0) * (0.04 + letters * 0.6 * size.text / 600)
    return [float(low - room), float(high + room)]


def _zero(fig: Canvas, view: list[float], rows: int) -> None:
    """A line where curvature changes its sign."""
    if view[0] < 0 < view[1]:
        for row in range(1, rows + 1):
            axis = str(row) if row > 1 else ""
            line = {"color": PALE, "width": 1}
            fig.add_shape(type="line", x0=0, x1=0, y0=0, y1=1, xref=f"x{axis}", yref=f"y{axis} domain", line=line,
                          layer="below")  # fmt: skip


def _threshold(fig: Canvas, value: float, view: list[float], heights: list[float], ends: int, size) -> None:
    """The largest curvature at which gradient descent at this rate is stable; an arrow to it where it is far away."""
    line = {"color": INK, "width": size.thin, "dash": "dot"}
    name = f"2/η = {_number(value)}"
    same = {"x": [value] * 2, "mode": "lines", "line": line, "name": name, "legendgroup": "two_over_eta"}
    fig.add_trace(scatter(y=heights, uid="two_over_eta", hoverinfo="name", **same))
    if ends:
        fig.add_trace(
            scatter(y=[0.75, 0.25 - ends], uid="two_over_eta/ends", hoverinfo="skip", showlegend=False, **same), 2, 1
        )
    near, share = view[0] <= value <= view[1], (value - view[0]) / (view[1] - view[0])
    fits = share + len(name) * 0.6 * size.text / 600 < 1
    words = name if near else f"← {name}" if share < 0 else f"{name} →"
    fig.add_annotation(
        text=words, x=float(np.clip(value, *view)), y=1, xref="x", yref="y domain", showarrow=False, yanchor="top",
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
