"""A placement's boxes laid out: ranks from the input up, the main chain in one column, skips beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise, product

from lntutor.model.placements import Box, Drawing

HALF = 0.27  # half the height of a box, where ranks are 1 apart
TALL = 0.35  # of a box with a second line
RADIUS = 0.2  # of a sum
BRANCH = 0.15  # how far above a box lines split
WIDTHS = dict.fromkeys(("self", "cross", "ffn", "norm", "tanh"), 1.15) | {"input": 0.7, "scale": 0.5, "sum": RADIUS}
FIRST = ("self", "cross", "ffn", "norm", "tanh", "sum", "scale", "input")  # who stays in the main column in a tie
GAP = 0.4  # between columns
Point = tuple[float, float]


@dataclass(eq=False)
class Node:
    """A box with its place: `rank` counts from the input up, `x` is 0 in the main column."""

    kind: str
    factor: float
    part: str  # "start", "layer" or "finish"
    inputs: list[Node] = field(default_factory=list)
    name: str = ""
    rank: int = 0
    x: float = 0.0
    main: bool = False
    inside: str = ""  # what is done within it

    @property
    def half(self) -> float:
        """Half its height."""
        return RADIUS if self.kind == "sum" else TALL if self.inside else HALF

    @property
    def split(self) -> float:
        """Where its line splits."""
        return self.rank + self.half + BRANCH

    @property
    def width(self) -> float:
        """Half its width."""
        return WIDTHS[self.kind]


@dataclass(eq=False)
class Edge:
    """A line from one node to another, and the points it runs through."""

    source: Node
    target: Node
    track: Track | None = None
    points: list[Point] = field(default_factory=list)


@dataclass(eq=False)
class Track:
    """What runs beside the main column from rank `low` to rank `high`: a skip, or a chain of nodes."""

    low: int
    high: int
    nodes: list[Node]
    left: bool
    x: float = 0.0


@dataclass(frozen=True)
class DiagramLayout:
    """A laid-out layer."""

    nodes: list[Node]
    edges: list[Edge]
    streams: list[Node]  # what leaves the layer
    out: Node  # what leaves the network, if this layer were the last


def layout(drawing: Drawing) -> DiagramLayout:
    """Nodes, edges and the points that every edge runs through."""
    nodes, streams, out = _nodes(drawing)
    _rank(nodes)
    _choose_main(streams[0], out)
    edges = [Edge(source, node) for node in nodes for source in node.inputs]
    _place_tracks(nodes, edges, streams)
    _route(nodes, edges)
    return DiagramLayout(nodes, edges, streams, out)


def fewest_norms(graph: DiagramLayout) -> int:
    """The fewest norms that a path from the input to what leaves the layer meets."""
    count: dict[Node, int] = {}
    for node in graph.nodes:
        count[node] = min((count[n] for n in node.inputs), default=0) + (node.kind == "norm" and node.part == "layer")
    return min(count[node] for node in graph.streams)


# From boxes to nodes -------------------------------------------------------------------------------------------


def _reach(boxes: Iterable[Box], seen: dict[Box, None]) -> dict[Box, None]:
    """The boxes that lead to these, inputs first."""
    stack = [(box, False) for box in reversed(list(boxes))]
    while stack:
        box, ready = stack.pop()
        if box in seen:
            continue
        if ready:
            seen[box] = None
        else:
            stack += [(box, True), *((b, False) for b in reversed(box.inputs))]
    return seen


def _nodes(drawing: Drawing) -> tuple[list[Node], list[Node], Node]:
    """Nodes in the order in which they are computed, with sums of sums in the main stream drawn as one."""
    ends = (drawing.before, drawing.after)
    before, after = (end if isinstance(end, tuple) else (end,) for end in ends)
    parts: dict[Box, str] = {}
    for part, ends in (("start", before), ("layer", after), ("finish", (drawing.out,))):
        for box in _reach(ends, dict.fromkeys(parts)):
            parts.setdefault(box, part)
    uses = [b for box in parts for b in box.inputs]
    kept = {*before, *after, drawing.out}
    chain = _reach(after[:1], {})
    adders = {b for box in chain if box.kind == "sum" for b in box.inputs if parts[b] == parts[box]}
    merged = {b for b in adders if b.kind == "sum" and b not in kept and uses.count(b) == 1}
    nodes, counts = {}, {}
    for box, part in parts.items():
        if box in merged:
            continue
        counts[box.kind] = counts.get(box.kind, 0) + 1
        name = box.kind if box.kind in ("input", "self", "cross", "ffn") else f"{box.kind} {counts[box.kind]}"
        inputs = [nodes[b] for b in _terms(box, merged)]
        nodes[box] = Node(box.kind, box.factor, part, inputs, name, inside=box.inside)
    return list(nodes.values()), list(dict.fromkeys(nodes[b] for b in after)), nodes[drawing.out]


def _terms(box: Box, merged: set[Box]) -> list[Box]:
    return [t for b in box.inputs for t in (_terms(b, merged) if b in merged else [b])]


def _rank(nodes: list[Node]) -> None:
    """Longest path from the input; the layer stands above what comes before it and below what comes after."""
    base = 0
    for part, space in (("start", 0), ("layer", 1), ("finish", 2)):
        floor = base + space
        for node in (n for n in nodes if n.part == part):
            node.rank = max([floor, *(n.rank + 1 for n in node.inputs)])
            base = max(base, node.rank)


def _choose_main(stream: Node, out: Node) -> None:
    """The longest path to the layer's first stream, and on to the output."""
    node = stream
    while node:
        node.main = True
        node = min(node.inputs, key=lambda n: (-n.rank, FIRST.index(n.kind)), default=None)
    node = out
    while node and not node.main and node.part == "finish":
        node.main = True
        node = min(node.inputs, key=lambda n: (not n.main, -n.rank), default=None)


# Columns -------------------------------------------------------------------------------------------------------


def _place_tracks(nodes: list[Node], edges: list[Edge], streams: list[Node]) -> None:
    """Skips to the left, chains with boxes to the right; what ends first stands nearest to the main column."""
    tracks, entered = _chains(nodes, edges, streams), {}
    previous = {n: next((m for m in n.inputs if m.main and m.rank == _below(n)), None) for n in nodes if n.main}
    used = set()
    for edge in edges:
        u, v = edge.source, edge.target
        if not (u.main and v.main):
            continue
        if previous[v] is u and v not in used:
            used.add(v)  # the main chain itself
            continue
        edge.track = Track(u.rank, v.rank, [], left=entered.get(v, 0) % 2 == 0)
        entered[v] = entered.get(v, 0) + 1
        tracks.append(edge.track)
    edge_of = {-1: WIDTHS["self"], 1: WIDTHS["self"]}
    placed: dict[int, list[list[Track]]] = {-1: [], 1: []}
    for track in sorted(tracks, key=lambda t: (t.high, -t.low)):
        columns = placed[-1 if track.left else 1]
        busy = [i for i, col in enumerate(columns) if any(t.low < track.high and track.low < t.high for t in col)]
        place = max(busy, default=-1) + 1
        if place == len(columns):
            columns.append([])
        columns[place].append(track)
    for sign, columns in placed.items():
        for column in columns:
            half = max([n.width for t in column for n in t.nodes], default=0.0)
            gutter = 0.3 if any(n.kind == "sum" for t in column for n in t.nodes) else 0.0
            x = edge_of[sign] + GAP + gutter + half
            edge_of[sign] = x + half
            for track in column:
                track.x = sign * x
                for node in track.nodes:
                    node.x = track.x


def _below(node: Node) -> int:
    return max((n.rank for n in node.inputs if n.main), default=-1)


def _chains(nodes: list[Node], edges: list[Edge], streams: list[Node]) -> list[Track]:
    """Nodes off the main column as paths, each with the ranks that its lines cover."""
    chains: list[list[Node]] = []
    for node in (n for n in nodes if not n.main):
        if chain := next((c for c in chains if c[-1] in node.inputs), None):
            chain.append(node)
        else:
            chains.append([node])
    top = max(n.rank for n in nodes) + 1
    tracks = []
    for chain in chains:
        readers = [e.target.rank for e in edges if e.source in chain and e.target not in chain]
        leaves = chain[-1] in streams and not readers
        high = max([top if leaves else 0, *readers, chain[-1].rank])
        low = min([*(n.rank for node in chain for n in node.inputs if n not in chain), chain[0].rank])
        tracks.append(Track(low, high, chain, left=all(n.kind in ("scale", "tanh") for n in chain)))
    return tracks


# Lines ---------------------------------------------------------------------------------------------------------


def _route(nodes: list[Node], edges: list[Edge]) -> None:
    """Points of every edge: the plain way, or the nearest detour that meets no box and lies on no other line."""
    entries: dict[tuple[Node, int], int] = {}
    gutters = _gutters(nodes, edges)
    for i, edge in enumerate(edges):
        ways = [_plain_way(edge, edges, entries), *_detours(edge, gutters)]
        clear = [way for way in ways if not any(_meets(way, node) for node in nodes)]
        others = [other.points for other in edges[:i] if other.source is not edge.source]
        alone = [way for way in clear if not any(_covers(way, points) for points in others)]
        edge.points = (alone or clear or ways)[0]


def _plain_way(edge: Edge, edges: list[Edge], entries: dict) -> list[Point]:
    """Straight up in a column; else out above the source, along, and into the target from below or from the side."""
    u, v = edge.source, edge.target
    start, half = (u.x, u.rank + u.half), u.split
    if edge.track is None and _from_below(edge, edges):
        bottom = (v.x, v.rank - v.half)
        if u.x == v.x:
            return [start, bottom]
        turn = half if u.main or not v.main else v.rank - 0.5
        return [start, (u.x, turn), (v.x, turn), bottom]
    beside = v.x + (1 if u.x > v.x else -1) * (v.width + 0.3)  # of a sum that stands off the main column
    x = edge.track.x if edge.track else u.x if v.main else beside
    sign = 1 if x > v.x else -1
    count = entries[v, sign] = entries.get((v, sign), -1) + 1
    y = v.rank + (0.0, -0.11, 0.11)[count % 3]
    out = [start] if x == u.x else [start, (u.x, half), (x, half)]
    return [*out, (x, y), (v.x + sign * v.width, y)]


def _from_below(edge: Edge, edges: list[Edge]) -> bool:
    """Whether this edge is the one that enters its target at the bottom."""
    v = edge.target
    if v.kind != "sum":
        return True
    into = [e for e in edges if e.target is v and e.track is None]
    same = [e for e in into if e.source.x == v.x and (e.source.main == v.main)]
    if v.main:
        return edge in same[:1]
    return edge is (same[0] if same else min(into, key=lambda e: e.source.rank))


def _gutters(nodes: list[Node], edges: list[Edge]) -> list[float]:
    """Where a line may run up between columns and beside them."""
    sides: dict[float, float] = {e.track.x: 0.0 for e in edges if e.track}
    for node in nodes:
        sides[node.x] = max(sides.get(node.x, 0.0), node.width)
    columns = sorted((x - half, x + half) for x, half in sides.items())
    between = [(a, b) for (_, a), (b, _) in pairwise(columns) if b > a]
    between += [(columns[0][0] - 0.8, columns[0][0]), (columns[-1][1], columns[-1][1] + 0.8)]
    return [a + (b - a) * share for share in (0.5, 0.3, 0.7, 0.4, 0.6) for a, b in between]


def _detours(edge: Edge, gutters: list[float]) -> Iterator[list[Point]]:
    """Ways along a gutter, nearest first: into the side of a sum, into the bottom of anything else."""
    u, v = edge.source, edge.target
    start, half = (u.x, u.rank + u.half), u.split
    for x in sorted(gutters, key=lambda g: abs(g - u.x) + abs(g - v.x)):
        out = [start, (u.x, half), (x, half)]
        if v.kind == "sum":
            for y in (v.rank, v.rank - 0.11, v.rank + 0.11):
                yield [*out, (x, y), (v.x + (v.width if x > v.x else -v.width), y)]
        else:
            yield [*out, (x, v.rank - 0.46), (v.x, v.rank - 0.46), (v.x, v.rank - v.half)]


def _meets(points: list[Point], node: Node) -> bool:
    """Whether a line runs through a box; touching its border is not running through."""
    left, right = node.x - node.width + 0.02, node.x + node.width - 0.02
    low, high = node.rank - node.half + 0.02, node.rank + node.half - 0.02
    return any(
        max(a[0], b[0]) > left and min(a[0], b[0]) < right and max(a[1], b[1]) > low and min(a[1], b[1]) < high
        for a, b in pairwise(points)
    )


def _covers(points: list[Point], others: list[Point]) -> bool:
    """Whether two lines share a stretch, so that a reader could not tell them apart."""
    for (a, b), (c, d), along in product(pairwise(points), pairwise(others), (0, 1)):
        level = {round(point[1 - along], 3) for point in (a, b, c, d)}
        (a0, a1), (c0, c1) = sorted((a[along], b[along])), sorted((c[along], d[along]))
        if len(level) == 1 and min(a1, c1) - max(a0, c0) > 0.05:
            return True
    return False
