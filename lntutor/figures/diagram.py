"""The block diagram of a placement, drawn from its own rule."""

from __future__ import annotations

import plotly.graph_objects as go

from lntutor.figures.canvas import Canvas
from lntutor.figures.diagram_layout import HALF, RADIUS, DiagramLayout, Node, fewest_norms, layout
from lntutor.figures.drawing import finish, sentence
from lntutor.figures.style import INK, PALE, number, safe
from lntutor.model.checks import check_choice, check_int
from lntutor.model.placements import PLACEMENTS, STACKS, At, Placement, draw

NAMES = {"self": "self-attention", "cross": "cross-attention", "ffn": "FFN", "norm": "layer norm", "tanh": "tanh"}
BLOCK, NORM, WHITE = ("#CFE3F2", "#0072B2"), ("#FBDCC4", "#D55E00"), ("#FFFFFF", INK)  # fill, border
FILLS = {"self": BLOCK, "cross": BLOCK, "ffn": BLOCK, "norm": NORM, "tanh": NORM, "scale": WHITE, "sum": WHITE}
FILLS["input"] = ("#FFFFFF", PALE)
SLIDE = 440  # pixels of a slide that the tallest diagram has, where type is large


def block_diagram(
    placement: Placement | str, *, stack: str = "encoder", side: str | None = None, layer: int = 1, depth: int = 6,
    lecture: bool | None = None,
) -> go.Figure:  # fmt: skip
    """One layer of a placement as boxes and arrows, input at the bottom, with what follows the last layer above it."""
    placement = PLACEMENTS.find(placement)
    sides = check_choice("stack", stack, STACKS).split("-")
    side = check_choice("side", sides[-1] if side is None else side, tuple(sides))
    depth = check_int("depth", depth, 1, 64)
    layer = check_int("layer", layer, 1, depth)
    graph = layout(draw(placement, At(side, layer, depth, stack)))
    fig = Canvas(lecture)
    size = fig.size
    low, high = _frame(fig, graph, f"layer {layer}<br>of {depth}")
    for edge in graph.edges:
        dotted = layer < depth and edge.target.part == "finish" and edge.source.part != "finish"
        x, y = zip(*edge.points, strict=True)
        fig.add_arrow(x, y, f"{edge.source.name} → {edge.target.name}", dash="dot" if dotted else "solid")
    _branches(fig, graph)
    _boxes(fig, graph, placement)
    _memory(fig, graph, high)
    top = _outputs(fig, graph, layer, depth)
    fig.shapes += map(_box, graph.nodes)
    fig.layout["showlegend"] = False
    fig.update_xaxes(visible=False, range=[low - 0.2, high + 2.3], constrain="domain")
    wide, unit = (66, min(60, SLIDE / (top + 0.45))) if size.large else (50, 50)  # pixels across and up
    fig.update_yaxes(visible=False, range=[-0.45, top], scaleanchor="x", scaleratio=unit / wide, constrain="domain")
    title = _title(placement, graph, side)
    names = {n: _name(n, placement) for n in graph.nodes}
    steps = "; ".join(f"{names[n]} reads {' and '.join(names[m] for m in n.inputs)}" for n in graph.nodes if n.inputs)
    note = _source(placement)
    alt = sentence(f"Block diagram, layer {layer} of {depth} in the {side}, from the input up", title, steps, note)
    meta = {"alt": alt, "edges": [[e.source.name, e.target.name] for e in graph.edges]}
    return finish(fig, title, note=note, height=((top + 0.45) * unit + 20) / size.tall, meta=meta)


def _title(placement: Placement, graph: DiagramLayout, side: str) -> str:
    norms = fewest_norms(graph)
    path = f"every path through the layer meets {'a norm' if norms == 1 else f'{norms} norms'}"
    path = path if norms else "one path through the layer meets no norm"
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


def _name(node: Node, placement: Placement) -> str:
    if node.kind == "scale":
        return f"{node.name} (times {_factor(node.factor)})"
    name = NAMES.get(node.kind, node.name)
    if node.kind == "norm":
        name = _norm_name(placement) + node.name.removeprefix(node.kind)
    return name + (f" ({node.inside})" if node.inside else "")


# What is drawn -------------------------------------------------------------------------------------------------


def _label(fig: Canvas, x: float, y: float, text: str, size: int, **more) -> None:
    fig.add_annotation(x=x, y=y, text=text, font={"size": size, "color": INK}, **more)


def _box(node: Node) -> dict:
    fill, border = FILLS[node.kind]
    kind = "circle" if node.kind == "sum" else "rect"
    return {
        "type": kind, "x0": node.x - node.width, "x1": node.x + node.width, "y0": node.rank - node.half,
        "y1": node.rank + node.half, "fillcolor": fill, "line": {"color": border, "width": 1.5}, "name": node.name,
        "layer": "below",
    }  # fmt: skip


def _boxes(fig: Canvas, graph: DiagramLayout, placement: Placement) -> None:
    norm = safe(_norm_name(placement))
    for node in graph.nodes:
        text = {"sum": "<b>+</b>", "scale": f"×{safe(_factor(node.factor))}", "input": "input x", "norm": norm}
        up = 0.12 if node.inside else 0.0
        _label(fig, node.x, node.rank + up, text.get(node.kind) or NAMES[node.kind], fig.size.text)
        if node.inside:
            _label(fig, node.x, node.rank - 0.16, safe(node.inside), fig.size.small)


def _branches(fig: Canvas, graph: DiagramLayout) -> None:
    """A dot where a line splits."""
    split = [n for n in graph.nodes if sum(e.source is n for e in graph.edges) > 1]
    named = {"uid": "branches", "name": "branches", "hoverinfo": "skip"}
    mark, at = {"color": INK, "size": fig.size.marker * 0.6}, {"x": [n.x for n in split], "y": [n.split for n in split]}
    fig.add_scatter(**at, mode="markers", marker=mark, **named)


def _frame(fig: Canvas, graph: DiagramLayout, text: str) -> tuple[float, float]:
    """The pale ground of the layer and its name; its left and right."""
    points = [p for e in graph.edges for p in e.points]
    low = min([x for x, _ in points] + [n.x - n.width for n in graph.nodes]) - 0.3
    high = max([x for x, _ in points] + [n.x + n.width for n in graph.nodes]) + 0.3
    ranks = [n.rank for n in graph.nodes if n.part == "layer"]
    if ranks:
        y0, y1 = min(ranks) - 0.62, max(ranks) + 0.5
        fig.add_shape(type="rect", x0=low, x1=high, y0=y0, y1=y1, fillcolor="#F5F5F5", line={"width": 0}, layer="below")
        _label(fig, high + 0.1, y1, text, fig.size.small, xanchor="left", yanchor="top", align="left")
    return low, high


def _memory(fig: Canvas, graph: DiagramLayout, right: float) -> None:
    """An arrow into every cross-attention from the encoder's output: from the right, or from below past a neighbour."""
    for node in (n for n in graph.nodes if n.kind == "cross"):
        y, points = node.rank, [(node.x + node.width, node.rank)]
        if any(m.x > node.x and abs(m.rank - y) < 2 * HALF for m in graph.nodes):
            y, x = node.rank - 0.42, node.x + 0.6 * node.width
            points = [(x, y), (x, node.rank - HALF)]
        fig.add_arrow([right + 0.1, *(x for x, _ in points)], [y, *(y for _, y in points)], "encoder → cross")
        _label(fig, right + 0.15, y, "encoder's<br>output", fig.size.small, xanchor="left", align="left")


def _outputs(fig: Canvas, graph: DiagramLayout, layer: int, depth: int) -> float:
    """Arrows out of the top, and the height that is needed."""
    top = max(n.rank for n in graph.nodes)
    read = {n for m in graph.nodes if m.part == "finish" for n in m.inputs if n is not graph.out}
    for node in dict.fromkeys([*(n for n in graph.streams if n not in read), graph.out]):
        fig.add_arrow([node.x] * 2, [node.rank + node.half, top + 1.05], f"{node.name} → output")
    rest = f"layer{'s' if depth - layer > 1 else ''} {layer + 1}" + (f" to {depth}" if depth - layer > 1 else "")
    text = "output"
    if graph.out.part != "finish" and layer < depth:
        text = f"to {rest}"
    elif layer < depth:
        y = max(n.rank for n in graph.nodes if n.part != "finish") + 1
        _label(fig, 0.15, y, rest, fig.size.small, xanchor="left")
    _label(fig, graph.out.x, top + 1.08, text, fig.size.text, yanchor="bottom")
    return top + 1.08 + RADIUS + 0.45
