"""The argument from gradients: Theorem 1 with fewer assumptions, the seesaw of stream and gradient, the transplant."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.depth_and_width import AXES, measured_ticks
from lntutor.figures.drawing import empty, finish, listed, log_axis, row_axis
from lntutor.figures.style import GREY, INK, darker, number, placement_label, placement_style, safe, times
from lntutor.figures.tables import Means, Table, curves_by_placement, drawable, has, over_seeds, spread
from lntutor.model.checks import check_choice

# Assumptions ---------------------------------------------------------------------------------------------------


def assumptions(
    measured: Table, model: Table = None, claimed: Table = None, *, along: str = "depth", note: str = "",
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """W_2's gradient beside the line of Theorem 1's own model: the last layer by depth, or all layers of a network.

    Tables have the columns placement, depth or layer, and value; `measured` also seed. `claimed` is Appendix F's.
    """
    check_choice("along", along, ("depth", "layer"))
    (rows, left), upright = drawable(measured, positive=True), along == "layer"
    if not has(rows, "placement", along):
        return empty(left.why_empty("There are no gradients to draw here."), lecture, note)
    expected, said = (drawable(table, positive=True)[0] for table in (model, claimed))
    fig = Canvas(lecture)
    own = _draw_lines(fig, expected, along, "Theorem 1's model", GREY, 2 * fig.size.line)
    _draw_lines(fig, said, along, "Appendix F", INK, fig.size.thin, "dot")
    drawn = curves_by_placement(rows, along)
    for key, means in drawn:
        hover = f"{along} %{{{'y' if upright else 'x'}}}: %{{{'x' if upright else 'y'}:.4g}}"
        named = {"name": f"{placement_label(key)}, measured", "uid": f"measured/{key}"}
        fig.add_marks(means, key, upright=upright, joined=True, hovertemplate=f"{hover}<extra></extra>", **named)
    every = [value for table in (rows, expected, said) for value in table["value"]]
    every.append(1.25 * max(every))
    values = {"title": f"‖∂L/∂W<sub>2</sub>‖<br>({spread(rows)})", **log_axis(every, room=8)}
    if upright:
        fig.update_xaxes(**values)
        fig.update_yaxes(title="Layer", **_layers(rows))
    else:
        fig.update_yaxes(**values)
        fig.update_xaxes(title=AXES[along], **measured_ticks(rows[along]))
    title, ends = _against(drawn, own, along)
    where = "all layers of one network" if upright else "the last layer of networks of several depths"
    kind = f"Plot of the norm of the gradient of W_2, {where}, {spread(rows)}, on a logarithmic axis"
    beside = "Theorem 1's own model is drawn as broad grey lines" if own else ""
    dotted = "What Appendix F says of the layers below is dotted" if len(said) else ""
    return finish(fig, title, kind, ends, beside, dotted, left.sentence(), note=note)


def _draw_lines(
    fig: Canvas, table: pd.DataFrame, along: str, name: str, colour: str, width: float, dash: str = ""
) -> dict[str, Means]:
    """One line per placement with its dash, or with this one; their means."""
    lines = dict(curves_by_placement(table, along))
    for key, means in lines.items():
        at, value = means.at.tolist(), means.mean.tolist()
        line = {"color": colour, "dash": dash or placement_style(key)["dash"], "width": width}
        place = {"x": value, "y": at} if along == "layer" else {"x": at, "y": value}
        mode = "lines" if len(at) > 1 else "markers"
        mark = {"color": colour, "symbol": "line-ew-open", "size": fig.size.marker, "line": {"width": width}}
        named = {"name": name, "uid": f"{name}/{key}", "legendgroup": name, "showlegend": key == next(iter(lines))}
        fig.add_scatter(**place, mode=mode, line=line, marker=mark, **named, hoverinfo="skip")
    return lines


def _against(drawn: list[tuple[str, Means]], own: dict[str, Means], along: str) -> tuple[str, str]:
    """The last place over the first, measured and in the theorem's model; both ends of every curve in words."""
    low, high = min(int(m.at[0]) for _, m in drawn), max(int(m.at[-1]) for _, m in drawn)
    ends = "; ".join(
        f"{placement_label(key)}: {number(m.mean[0])} at {along} {m.at[0]}, {number(m.mean[-1])} at {m.at[-1]}"
        for key, m in drawn
    )
    if low == high:
        sizes = [(placement_label(key), float(m.mean[0])) for key, m in drawn]
        return f"W<sub>2</sub> at {along} {low}: {listed(sizes, number)}", ends
    parts = []
    for key, means in drawn:
        wanted = f" (theorem {_ratio(own[key])})" if key in own else ""
        parts.append(f"{placement_label(key)} {_ratio(means)}{wanted}")
    what = f"Layer {high} over layer {low}" if along == "layer" else f"Last layer, {high} layers over {low}"
    return f"{what}: {', '.join(parts)}", ends


def _ratio(means: Means) -> str:
    ratio = float(means.mean[-1] / means.mean[0])
    return f"{ratio:.2f}×" if 0.1 <= ratio < 9.95 else times(ratio)


def _layers(rows: pd.DataFrame) -> dict:
    """Whole layers upwards, about a dozen ticks."""
    low, high = int(rows["layer"].min()), int(rows["layer"].max())
    step = -(-(high - low + 1) // 13)
    return {"tickvals": [t for t in range(low, high + 1) if (high - t) % step == 0], "range": [low - 0.5, high + 0.5]}


# The seesaw ----------------------------------------------------------------------------------------------------

PARTS = {"q": ("q = ‖x‖²/d", False), "g": ("g = ‖∂L/∂x‖²", True)}  # kind → caption, and whether its marks are hollow


def seesaw(
    table: Table, theory: Table = None, *, layer: int | None = None, note: str = "", lecture: bool | None = None
) -> go.Figure:
    """The stream's q, its gradient's g and their product in every layer, upwards; `layer` is ringed.

    Tables have the columns placement, layer, kind ("q", "g", "qg") and value; `table` also seed.
    """
    rows, left = drawable(table, positive=True)
    if not has(rows, "placement", "layer", "kind"):
        return empty(left.why_empty("There is no stream to draw here."), lecture, note)
    expected, fig = drawable(theory, positive=True)[0], Canvas(lecture)
    drawn = {kind: curves_by_placement(rows[rows["kind"] == kind], "layer") for kind in (*PARTS, "qg")}
    for key, means in drawn["qg"]:
        style = placement_style(key)
        line = {"color": darker(style["color"]), "dash": style["dash"], "width": 2 * fig.size.line}
        look = {"line": line, "mode": "lines", "opacity": 0.6}
        named = {"legendgroup": key, "uid": f"qg/{key}", "showlegend": False, "hovertemplate": _hover("q·g")}
        fig.add_scatter(x=means.mean.tolist(), y=means.at.tolist(), **look, **named)
    for kind, (_, hollow) in PARTS.items():
        lines = expected[expected["kind"] == kind] if len(expected) else expected
        for key, line in curves_by_placement(lines, "layer"):
            named = {"legendgroup": key, "uid": f"theory/{kind}/{key}", "hoverinfo": "skip"}
            fig.add_theory(line.mean.tolist(), line.at.tolist(), key, **named)
        for key, means in drawn[kind]:
            named = {"name": placement_label(key), "legendgroup": key, "uid": f"{kind}/{key}"}
            look = {"upright": True, "hollow": hollow, "joined": not len(expected), "showlegend": not hollow}
            fig.add_marks(means, key, **look, **named, hovertemplate=_hover(kind))
    _name_parts(fig)
    if len(expected):
        fig.name_theory()
    if layer is not None:
        line = {"color": INK, "width": fig.size.thin, "dash": "dot"}
        fig.add_shape(type="line", x0=0, x1=1, xref="paper", y0=layer, y1=layer, line=line, layer="below")
    fig.update_xaxes(title=f"q, g and q·g<br>({spread(rows)})", **log_axis([*rows["value"]], room=8))
    fig.update_yaxes(title="Layer", **_layers(rows))
    title, ends = _seesaw_finding(drawn)
    kind = f"Plot of the stream's size q, of its gradient g and of their product, layers upwards, {spread(rows)}"
    kind += ", with theory" if len(expected) else ""
    return finish(fig, title, kind, ends, left.sentence(), note=note)


def _name_parts(fig: Canvas) -> None:
    """The legend's entries for q, g and their product."""
    nothing = {"x": [None], "y": [None], "hoverinfo": "skip"}
    for kind, (caption, hollow) in PARTS.items():
        mark = {"symbol": "circle-open" if hollow else "circle", "color": INK, "size": fig.size.marker}
        fig.add_scatter(**nothing, mode="markers", marker=mark, name=caption, uid=f"part/{kind}")
    fig.add_scatter(**nothing, mode="lines", line={"color": INK, "width": 2 * fig.size.line}, name="q·g", uid="part/qg")


def _hover(what: str) -> str:
    return f"layer %{{y}}: {what} = %{{x:.4g}}<extra></extra>"


def _seesaw_finding(drawn: dict[str, list[tuple[str, Means]]]) -> tuple[str, str]:
    """The top over the bottom, for each placement; and both ends of every curve in words."""
    ratios: dict[str, dict[str, float]] = {}
    ends = []
    for kind, curves in drawn.items():
        for key, m in curves:
            ratios.setdefault(key, {})[kind] = float(m.mean[-1] / m.mean[0])
            low, high = (f"{number(m.mean[i])} in layer {m.at[i]}" for i in (0, -1))
            ends.append(f"{placement_label(key)}, {kind}: {low}, {high}")
    if len(ratios) > 2 or any(len(of) < 3 for of in ratios.values()):
        pairs = [(placement_label(key), of["qg"]) for key, of in ratios.items() if "qg" in of]
        return f"q·g at the top over the bottom: {listed(pairs, times)}" if pairs else "Stream and gradient", "; ".join(
            ends
        )
    parts = [
        f"{placement_label(key)}: q {times(of['q'])}, g {times(of['g'])}, q·g {times(of['qg'])}"
        for key, of in ratios.items()
    ]
    return f"Top over bottom, {'; '.join(parts)}", "; ".join(ends)


# The transplant ------------------------------------------------------------------------------------------------


def transplant(table: Table, *, chosen: str = "", note: str = "", lecture: bool | None = None) -> go.Figure:
    """The last loss of every way to warm up parts of a network, between nothing (0 %) and everything (100 %).

    Columns: case, placement, seed, val_loss (infinite where a run diverged), and `here`, whether the reader ran it.
    `chosen` is the case that the title speaks of; it is ringed.
    """
    if not has(table, "case", "placement", "val_loss") or not np.isfinite(table["val_loss"].astype(float)).any():
        return empty("There are no runs to compare here.", lecture, note)
    table = table[table["val_loss"].notna()]
    fig, cases = Canvas(lecture), list(dict.fromkeys(table["case"]))[::-1]
    losses, place = table["val_loss"].to_numpy(float), table["case"].map(cases.index).to_numpy(int)
    finite = np.isfinite(losses)
    _draw_losses(fig, table[finite], place[finite])
    means = {case: float(losses[place == row].mean()) for row, case in enumerate(cases)}
    for case, words in (("nothing", "0 %"), ("everything", "100 %")):
        if np.isfinite(means.get(case, np.inf)):
            _level(fig, means[case], words)
    if np.isfinite(means.get(chosen, np.inf)):
        fig.add_ring([means[chosen]], [cases.index(chosen)], "chosen")
    low, high = losses[finite].min(), losses[finite].max()
    room = 0.06 * (high - low) or 0.5
    axis = f"Last validation loss, nats per word<br>({spread(table)})"
    fig.update_xaxes(title=axis, range=[low - room, high + room])
    lost = [int((~finite[place == row]).sum()) for row in range(len(cases))]
    fig.update_yaxes(**row_axis([f"{case}, {n} diverged" if n else case for case, n in zip(cases, lost, strict=True)]))
    every = [f"{case} {number(value) if np.isfinite(value) else 'diverged'}" for case, value in means.items()]
    kind = f"Dot plot, one row for each way to warm up. Horizontal axis: last validation loss, {spread(table)}"
    sizes = {"height": max(210, 110 + 34 * len(cases)), "above": fig.size.text * 1.2}
    return finish(fig, _transplant_finding(means, chosen), kind, ", ".join(every), note=note, **sizes)


def _draw_losses(fig: Canvas, table: pd.DataFrame, place: np.ndarray) -> None:
    """Means with their range; the reader's own runs are hollow."""
    here = table["here"].to_numpy(bool) if "here" in table.columns else np.zeros(len(table), bool)
    for key in dict.fromkeys(table["placement"]):
        for mine, name in ((False, "stored"), (True, "run here")):
            some = (here == mine) & (table["placement"] == key).to_numpy()
            if some.any():
                means = over_seeds(place[some], table["val_loss"].to_numpy(float)[some])
                named = {"name": f"{placement_label(key)}, {name}", "uid": f"{name}/{key}"}
                fig.add_marks(means, key, upright=True, hollow=mine, hovertemplate="%{x:.3f}<extra></extra>", **named)


def _level(fig: Canvas, x: float, words: str) -> None:
    """A dotted upright line with its name above."""
    line = {"color": INK, "width": fig.size.thin, "dash": "dot"}
    fig.add_shape(type="line", x0=x, x1=x, y0=0, y1=1, xref="x", yref="y domain", line=line, layer="below")
    font = {"size": fig.size.small, "color": INK}
    fig.add_annotation(x=x, y=1, xref="x", yref="y domain", text=words, yanchor="bottom", font=font)


def _transplant_finding(means: dict[str, float], chosen: str) -> str:
    """The chosen case's mean loss, and its share of the gain."""
    value, cold, warm = (means.get(name, np.nan) for name in (chosen, "nothing", "everything"))
    if np.isnan(value):
        where = f"Warmed up: {safe(chosen)}. No loss is known yet" if chosen else "Loss by what is warmed up"
        return where
    if np.isinf(value):
        return f"Warmed up: {safe(chosen)}. A run diverged"
    share = 100 * (cold - value) / (cold - warm) if np.isfinite(cold - warm) and cold != warm else np.nan
    gain = f", {share:.0f} % of the gain".replace("-", "−") if np.isfinite(share) else ""
    return f"Warmed up: {safe(chosen)}. Loss {value:.2f}{gain}"
