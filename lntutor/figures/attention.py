"""Attention: the map over a sentence, and what the scale 1/√d does to the softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas, heatmap
from lntutor.figures.drawing import cell_ticks, colour_bar, empty, finish, log_axis
from lntutor.figures.style import BLUE, VERMILLION, Sizes, fixed, number, safe
from lntutor.figures.tables import Means, Table, has, over_seeds, seed_count
from lntutor.model.checks import as_numbers, as_tuple, check_int, short_repr

SEQUENTIAL = [[0, "#FFFFFF"], [0.25, "#C9DFF0"], [0.5, "#7DB2D8"], [0.75, "#2E7FB6"], [1, "#08375F"]]
SCALED = {
    True: ("with 1/√d", {"color": BLUE, "dash": "solid", "symbol": "circle"}),
    False: ("without", {"color": VERMILLION, "dash": "dash", "symbol": "square"}),
}
HOVER = "d = %{x}: %{y:.4g}<extra>%{fullData.name}</extra>"
LONGEST = 22  # characters of a token that an axis shows; hovering shows all


def attention_map(
    weights: np.ndarray, tokens: Sequence[str] | tuple[Sequence[str], Sequence[str]], *, head: int = 0,
    entropy: float | Sequence[float] | None = None, note: str = "", lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """One head's weights, (heads, n, m): one row per query, one column per key; tokens for both, or (queries, keys)."""
    weights = np.asarray(weights, float) if np.size(weights) == 0 else as_numbers("weights", weights, 2, 3)
    weights = weights[None] if weights.ndim == 2 else weights
    if not weights.size:
        return empty("There is no attention to draw: the sentence is empty.", lecture, note)
    head = check_int("head", head, -len(weights), len(weights) - 1)
    if entropy is not None and as_numbers("entropy", entropy, 0, 1).size not in (1, len(weights)):
        raise ValueError(f"entropy must be one number, or one per head, got {short_repr(entropy)}")
    here, fig = weights[head], Canvas(lecture)
    queries, keys = _token_lists(tokens, *here.shape)
    fig.add_trace(_attention_cells(here, queries, keys, fig.size))
    fig.update_xaxes(title="Key: the token that is read", **_token_axis(keys))
    fig.update_yaxes(title="Query: the token that reads", autorange="reversed", **_token_axis(queries))
    title = _entropy_sentence(here, len(weights), head, entropy)
    row, column = np.unravel_index(int(here.argmax()), here.shape)
    alt = (
        f"Heat map, {here.shape[0]} queries in rows by {here.shape[1]} keys in columns, colour from white at 0 to dark "
        f"blue at 1. {title}. The largest weight, {fixed(here.max())}, is where {queries[row]} reads {keys[column]}."
    )
    rows = here.shape[0] * (26 if fig.size.large else 30) + 150
    return finish(fig, title, alt=alt, note=note, height=max(330, min(rows, 620)))


def _attention_cells(weights: np.ndarray, queries: list[str], keys: list[str], size: Sizes) -> dict:
    """The weights as colours, as numbers where there are few, and the tokens under the mouse."""
    few = max(weights.shape) <= (9 if size.large else 12)
    bar = colour_bar("weight") | {"tickvals": [0, 0.5, 1]}
    return heatmap(
        z=weights.tolist(), zmin=0, zmax=1, colorscale=SEQUENTIAL, colorbar=bar, xgap=1, ygap=1, uid="attention",
        text=[["" if w == 0 else f"{w:.2f}" for w in row] for row in weights],
        texttemplate="%{text}" if few else None,
        textfont={"size": size.small},
        customdata=[[[safe(q), safe(k)] for k in keys] for q in queries],
        hovertemplate="%{customdata[0]} reads %{customdata[1]}: %{z:.3f}<extra></extra>",
    )  # fmt: skip


def _token_lists(tokens, n: int, m: int) -> tuple[list[str], list[str]]:
    pair = isinstance(tokens, tuple) and len(tokens) == 2 and not any(isinstance(t, str) for t in tokens)
    queries, keys = tokens if pair else (tokens, tokens)
    queries, keys = ([str(t) for t in as_tuple("tokens", names, "['a', 'dog']")] for names in (queries, keys))
    if (len(queries), len(keys)) != (n, m):
        raise ValueError(
            f"tokens must name {n} queries and {m} keys, got {len(queries)} and {len(keys)}; "
            "give one list for both or a tuple (queries, keys)"
        )
    return queries, keys


def _token_axis(tokens: list[str]) -> dict:
    short = [safe(t if len(t) <= LONGEST else t[: LONGEST - 1] + "…") for t in tokens]
    return {**cell_ticks(short), "type": "linear", "constrain": "domain"}


def _entropy_sentence(here: np.ndarray, heads: int, head: int, entropy) -> str:
    if entropy is None:
        logs = np.log(here, out=np.zeros_like(here), where=here > 0)
        value = abs(float((here * logs).sum(-1).mean()))
    else:
        value = float(np.ravel(entropy)[head if np.size(entropy) > 1 else 0])
    name = f"Head {head % heads + 1} of {heads}" if heads > 1 else "Attention"
    queries, keys = here.shape
    causal = queries == keys > 1 and not np.triu(here, 1).any()
    most = np.log(np.arange(1, keys + 1)).mean() if causal else np.log(keys)
    share = f", {100 * value / most:.0f} % of the most possible" if most else ""
    why = " under the mask" if causal else f", ln {keys}"
    return f"{name}: entropy {fixed(value)} nats" + (share + why if share else "")


def softmax_saturation(table: Table, *, note: str = "", lecture: bool | None = None) -> go.Figure:
    """Entropy of the softmax and norm of its gradient against d, with and without 1/√d.

    Filled marks are medians, with bars over the middle half of the seeds; open marks are means, which few seeds carry.
    """
    columns = "d", "scaled", "entropy", "gradient"
    if has(table, *columns):
        table = table[np.isfinite(table["entropy"]) & np.isfinite(table["gradient"])]
    if not has(table, *columns):
        return empty("There are no softmaxes to compare here.", lecture, note)
    fig = Canvas(lecture, ["Entropy (nats)", "Norm of the softmax's gradient"], gap=0.12)
    _draw_saturation(fig, table, "entropy", 1)
    floor = _draw_saturation(fig, table, "gradient", 2) / 3  # bars reach down to round-off: too far for the axis
    seeds = seed_count(table)
    spread = f"median and middle half of {seeds} seeds; open: mean" if seeds > 1 else "one seed"
    fig.update_xaxes(type="log", title=f"d<br>({spread})", **_powers(table["d"]))
    fig.update_yaxes(rangemode="tozero", col=1)
    fig.update_yaxes(**log_axis(table["gradient"].clip(lower=floor)), col=2)
    title = _saturation(table)
    kind = (
        f"Two line plots against d, {table['d'].min()} to {table['d'].max()}, log axis: entropy in nats of the softmax "
        f"and norm of its gradient on a log axis, {spread}"
    )
    return finish(fig, title, kind, note=note)


def _draw_saturation(fig: Canvas, table: pd.DataFrame, what: str, column: int) -> float:
    """Medians with quartiles, and means where there are several seeds; the least mark above 0."""
    least = np.inf
    for scaled, (name, style) in SCALED.items():
        rows = table[table["scaled"].astype(bool) == scaled]
        at, values = rows["d"].to_numpy(), rows[what].to_numpy(float)
        middle, means = _middle(at, values), over_seeds(at, values)
        least = min([least, *middle.mean[middle.mean > 0], *means.mean])
        same = {"joined": True, "legendgroup": name, "showlegend": column == 1, "hovertemplate": HOVER}
        fig.add_marks(middle, style, 1, column, name=name, uid=f"{what}/{scaled}", **same)
        if seed_count(table) > 1:  # open marks on a dotted line, without bars
            named = {"name": f"{name}, mean", "uid": f"{what}/{scaled}/mean"}
            fig.add_marks(means, {**style, "dash": "dot"}, 1, column, hollow=True, **named, **same)
            del fig.data[-1]["error_y"]
    return float(least)


def _middle(at: np.ndarray, values: np.ndarray) -> Means:
    """Median and quartiles at each place, in the fields of `Means`."""
    places = np.unique(at)
    quartiles = [np.quantile(values[at == place], (0.5, 0.25, 0.75)) for place in places]
    middle, low, high = np.reshape(quartiles, (-1, 3)).T
    return Means(places, middle, low, high)


def _powers(widths: pd.Series) -> dict:
    """Ticks at the values of d, at most six of them."""
    values = sorted({float(v) for v in widths})
    kept = values[:: -(-len(values) // 6)]
    return {"tickvals": kept, "ticktext": [f"{v:g}" for v in kept]}


def _saturation(table: pd.DataFrame) -> str:
    largest = table["d"].max()
    last = table[table["d"] == largest].groupby("scaled")[["entropy", "gradient"]].agg(["mean", "median"])
    if len(last) < 2:
        which = "with" if bool(last.index[0]) else "without"
        return f"At d = {largest}, {which} 1/√d: entropy {fixed(last['entropy', 'mean'].iloc[0])} nats"
    bare, scaled = last.loc[False], last.loc[True]
    shares = 100 * bare["gradient"] / scaled["gradient"].where(scaled["gradient"] != 0)
    mean, median = (number(shares[of], 2) for of in ("mean", "median"))
    return (
        f"At d = {largest} without 1/√d: entropy {fixed(bare['entropy', 'mean'])} nats instead of "
        f"{fixed(scaled['entropy', 'mean'])}, gradient {mean} % of the scaled one in the mean, {median} % in the median"
    )
