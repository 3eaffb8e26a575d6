"""The block diagram of a placement, drawn from its own rule."""

from __future__ import annotations

import plotly.graph_objects as go

from lntutor.config import choice, whole
from lntutor.figures.canvas import Canvas, scatter
from lntutor.figures.checked import checked
from lntutor.figures.graph import HALF, RADIUS, Edge, Graph, Node, Point, fewest_norms, layout
from lntutor.figures.parts import finish, sentence
from lntutor.figures.style import INK, PALE, Sizes, number, safe, sizes
from lntutor.placements import PLACEMENTS, STACKS, At, Placement, draw

NAMES = {"self": "self-attention", "cross": "cross-attention", "ffn": "FFN", "norm": "layer norm", "tanh": "tanh"}
FILLS = {  # kind → fill, border
    "self": ("#CFE3F2", "#0072B2"),
    "cross": ("#CFE3F2", "#0072B2"),
    "ffn": ("#CFE3F2", "#0072B2"),
    "norm": ("#FBDCC4", "#D55E00"),
    "tanh": ("#FBDCC4", "#D55E00"),
    "scale": ("#FFFFFF", INK),
    "sum": ("#FFFFFF", INK),
    "input": ("#FFFFFF", PALE),
}

SLIDE = 440  # pixels of a slide that the tallest diagram has, where type is large


@checked
def block_diagram(
    placement: Placement | str,
    *,
    stack: str = "encoder",
    side: str | None = None,
    layer: int = 1,
    depth: int = 6,
    lecture: bool | None = None,
) -> go.Figure:
    """One layer of a placement as boxes and arrows, input at the bottom, with what follows the last layer above it."""
    placement = PLACEMENTS.find(placement)
    sides = choice("stack", stack, STACKS).split("-")
    side = choice("side", side or sides[-1], tuple(sides))
    depth = whole("depth", depth, 1, 64)
    layer = whole("layer", layer, 1, depth)
    graph = layout(draw(placement, At(side, layer, depth, stack)))
    size = sizes(lecture)
    fig = Canvas([""], lecture)
    low, high = _frame(fig, graph, size, f"layer {layer}<br>of {depth}")
    for edge in graph.edges:
        fig.add_trace(_arrow(edge.points, size, _edge_name(edge), dotted=_leaves(edge) and layer < depth))
    _branches(fig, graph, size)
    _boxes(fig, graph, size, placement)
    _memory(fig, graph, size, high)
    top = _outputs(fig, graph, size, layer, depth)
    fig.shapes += map(_box, graph.nodes)
    fig.layout["showlegend"] = False
    fig.update_xaxes(visible=False, range=[low - 0.2, high + 2.3], constrain="domain")
    wide, unit = (66, min(60, SLIDE / (top + 0.45))) if size.large else (50, 50)  # pixels across and up
    fig.update_yaxes(visible=False, range=[-0.45, top], scaleanchor="x", scaleratio=unit / wide, constrain="domain")
    title = _title(placement, graph, side)
    height = (top + 0.45) * unit + 20
    words = {n: _words(n, placement) for n in graph.nodes}
    steps = "; ".join(f"{words[n]} reads {' and '.join(words[m] for m in n.inputs)}" for n in graph.nodes if n.inputs)
    note = _source(placement)
    alt = sentence(f"Block diagram, layer {layer} of {depth} in the {side}, from the input up", title, steps, note)
    meta = {"alt": alt, "edges": [[e.source.name, e.target.name] for e in graph.edges]}
    return finish(fig, title, alt, lecture=lecture, note=note, height=height / size.tall, meta=meta)


def _title(placement: Placement, graph: Graph, side: str) -> str:
    norms = fewest_norms(graph)
    path = (
        "one path through the layer meets no norm"
        if norms == 0
        else f"every path through the layer meets {'a norm' if norms == 1 else f'{norms} norms'}"
    )
    return f"{safe(placement.label)}, {side}: {path}\n{safe(placement.formula)}"


def _source(placement: Placement) -> str:
    """Whose placement it is, and since when."""
    return f"Since {placement.year}: {placement.reference}" if placement.year else placement.reference


def _norm_name(placement: Placement) -> str:
    """The name of the function that stands in place of the norm, if it has one."""
    if placement.norm is None:
        return NAMES["norm"]
    name = getattr(placement.norm, "__name__", "")
    return name.replace("_", " ") if name.isidentifier() else "norm"


def _factor(factor: float) -> str:
    """A factor as its letter, or in digits."""
    return getattr(factor, "name", None) or number(factor)


def _words(node: Node, placement: Placement) -> str:
    if node.kind == "scale":
        return f"{node.name} (times {_factor(node.factor)})"
    name = NAMES.get(node.kind, node.name)
    if node.kind == "norm":
        name = _norm_name(placement) + node.name.removeprefix(node.kind)
    return name + (f" ({node.inside})" if node.inside else "")


def _edge_name(edge: Edge) -> str:
    return f"{edge.source.name} → {edge.target.name}"


def _leaves(edge: Edge) -> bool:
    return edge.target.part == "finish" and edge.source.part != "finish"


# What is drawn -------------------------------------------------------------------------------------------------


def _arrow(points: list[Point], size: Sizes, name: str, *, dotted: bool = False) -> dict:
    x, y = zip(*points, strict=True)
    heads = [0.0] * (len(points) - 1) + [size.marker * 1.1]
    return scatter(
        x=list(x),
        y=list(y),
        mode="lines+markers",
        line={"color": INK, "width": size.thin, "dash": "dot" if dotted else "solid"},
        marker={"symbol": "arrow", "size": heads, "color": INK, "angleref": "previous", "opacity": 1},
        name=name,
        uid=name,
        hoverinfo="skip",
    )


def _label(x: float, y: float, text: str, size: int, **more) -> dict:
    return {"x": x, "y": y, "text": text, "showarrow": False, "font": {"size": size, "color": INK}} | more


def _box(node: Node) -> dict:
    fill, border = FILLS[node.kind]
    kind = "circle" if node.kind == "sum" else "rect"
    return {
        "type": kind,
        "x0": node.x - node.width,
        "x1": node.x + node.width,
        "y0": node.rank - node.half,
        "y1": node.rank + node.half,
        "fillcolor": fill,
        "line": {"color": border, "width": 1.5},
        "name": node.name,
        "layer": "below",
    }


def _boxes(fig: Canvas, graph: Graph, size: Sizes, placement: Placement) -> None:
    norm = safe(_norm_name(placement))
    for node in graph.nodes:
        text = {"sum": "<b>+</b>", "scale": f"×{safe(_factor(node.factor))}", "input": "input x", "norm": norm}
        up = 0.12 if node.inside else 0.0
        fig.add_annotation(**_label(node.x, node.rank + up, text.get(node.kind, NAMES.get(node.kind)), size.text))
        if node.inside:
            fig.add_annotation(**_label(node.x, node.rank - 0.16, safe(node.inside), size.small))


def _branches(fig: Canvas, graph: Graph, size: Sizes) -> None:
    """A dot where a line splits."""
    split = [n for n in graph.nodes if sum(e.source is n for e in graph.edges) > 1]
    fig.add_trace(
        scatter(
            x=[n.x for n in split],
            y=[n.split for n in split],
            mode="markers",
            uid="branches",
            hoverinfo="skip",
            marker={"color": INK, "size": size.marker * 0.6},
            name="branches",
        )
    )


def _frame(fig: Canvas, graph: Graph, size: Sizes, text: str) -> tuple[float, float]:
    """The pale ground of the layer and its name; its left and right."""
    points = [p for e in graph.edges for p in e.points]
    low = min([x for x, _ in points] + [n.x - n.width for n in graph.nodes]) - 0.3
    high = max([x for x, _ in points] + [n.x + n.width for n in graph.nodes]) + 0.3
    ranks = [n.rank for n in graph.nodes if n.part == "layer"]
    if ranks:
        y0, y1 = min(ranks) - 0.62, max(ranks) + 0.5
        fig.add_shape(type="rect", x0=low, x1=high, y0=y0, y1=y1, fillcolor="#F5F5F5", line={"width": 0}, layer="below")
        fig.add_annotation(**_label(high + 0.1, y1, text, size.small, xanchor="left", yanchor="top", align="left"))
    return low, high


def _memory(fig: Canvas, graph: Graph, size: Sizes, right: float) -> None:
    """An arrow into every cross-attention from the encoder's output: from the right, or from below past a neighbour."""
    for node in (n for n in graph.nodes if n.kind == "cross"):
        y, points = node.rank, [(node.x + node.width, node.rank)]
        if any(m.x > node.x and abs(m.rank - y) < 2 * HALF for m in graph.nodes):
            y, x = node.rank - 0.42, node.x + 0.6 * node.width
            points = [(x, y), (x, node.rank - HALF)]
        fig.add_trace(_arrow([(right + 0.1, y), *points], size, "encoder → cross"))
        fig.add_annotation(**_label(right + 0.15, y, "encoder's<br>output", size.small, xanchor="left", align="left"))


def _outputs(fig: Canvas, graph: Graph, size: Sizes, layer: int, depth: int) -> float:
    """Arrows out of the top, and the height that is needed."""
    top = max(n.rank for n in graph.nodes)
    ends = [
        n for n in graph.streams if n is graph.out or not any(n in m.inputs for m in graph.nodes if m.part == "finish")
    ]
    for node in dict.fromkeys([*ends, graph.out]):
        fig.add_trace(_arrow([(node.x, node.rank + node.half), (node.x, top + 1.05)], size, f"{node.name} → output"))
    rest = f"layer{'s' if depth - layer > 1 else ''} {layer + 1}" + (f" to {depth}" if depth - layer > 1 else "")
    text = "output"
    if graph.out.part != "finish" and layer < depth:
        text = f"to {rest}"
    elif layer < depth:
        y = max(n.rank for n in graph.nodes if n.part != "finish") + 1
        fig.add_annotation(**_label(0.15, y, rest, size.small, xanchor="left"))
    fig.add_annotation(**_label(graph.out.x, top + 1.08, text, size.text, yanchor="bottom"))
    return top + 1.08 + RADIUS + 0.45
