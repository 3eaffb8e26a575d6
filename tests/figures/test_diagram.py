"""Block diagrams: every box of the rule, lines that meet no box, and the map of the course."""

import re
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
import pytest

from lntutor import figures
from lntutor.figures import style
from lntutor.model.placements import PLACEMENTS, STACKS, At, Placement, draw, final_norm
from tests.figures.registry import title, trace


def test_the_map_has_a_stop_for_every_notebook_but_the_first():
    """Oracle: the map in the README."""
    readme = Path(__file__).resolve().parents[2] / "README.md"
    numbers = re.findall(r"^\| \[?(\d\d)_", readme.read_text(encoding="utf-8"), re.MULTILINE)
    assert [style.plain(text) for text in trace(figures.course_map(), "notebooks").text] == numbers[1:]


def parallel(x, subs, N, at):
    h = N(x)
    for f in subs:
        x = x + f(h)
    return x


def dense(x, subs, N, at):
    y = total = x
    for f in subs:
        y = N(0.5 * total + f(y))
        total = total + y
    return N(total)


def tangled(state, subs, N, at):
    a, b, c = state
    for f in subs:
        a, b, c = N(a + f(b)), b + 0.3 * a, c + N(b)
    return a, b, c


INVENTED = {
    "parallel": Placement("Parallel", "x + Σ f(N(x))", parallel, finish=final_norm),
    "dense": Placement("Dense", "sums of all before", dense),
    "tangled": Placement(
        "Tangled", "three streams", tangled,
        start=lambda x, N, at: (x, N(x), x), finish=lambda s, N, at: N(s[0] + s[2]),
    ),
    "nothing": Placement("Nothing", "x ← x", lambda x, subs, N, at: x),
}  # fmt: skip
DRAWN = [*PLACEMENTS.items(), *INVENTED.items()]


EDGES = {
    "post": "input>self input>sum1 self>sum1 sum1>norm1 norm1>ffn norm1>sum2 ffn>sum2 sum2>norm2",
    "pre": "input>norm1 norm1>self input>sum1 self>sum1 sum1>norm2 norm2>ffn sum1>sum2 ffn>sum2 sum2>norm3",
}


@pytest.mark.parametrize(
    ("key", "norms"), [("post", "2 norms"), ("pre", "no norm"), ("b2t", "a norm"), ("residual", "no norm")]
)
def test_a_diagram_is_drawn_as_written_by_hand_and_counts_the_norms_that_no_path_avoids(key, norms):
    """Oracle: the edges of Table 1's two columns, spelled out; the paths through each rule, counted by hand."""
    fig = figures.block_diagram(key)
    assert f"meets {norms}" in title(fig)
    edges = {">".join(edge).replace(" ", "") for edge in fig.layout.meta["edges"]}
    assert key not in EDGES or edges == set(EDGES[key].split())


@pytest.mark.parametrize(("key", "placement"), DRAWN, ids=[key for key, _ in DRAWN])
def test_lines_of_a_diagram_meet_no_box_and_end_at_their_boxes(key, placement):
    """Oracle: geometry on a fine sampling of each line."""
    for stack, layer in product(STACKS, (1, 6)):
        laid = figures.layout(draw(placement, At(stack.split("-")[-1], layer, 6, stack)))
        for a, b in combinations(laid.nodes, 2):
            assert abs(a.x - b.x) >= a.width + b.width or abs(a.rank - b.rank) >= a.half + b.half
        for edge in laid.edges:
            points = [np.linspace(p, q, 60) for p, q in pairwise(edge.points)]
            for node in laid.nodes:
                inside = [
                    (abs(xy[:, 0] - node.x) < node.width - 0.03) & (abs(xy[:, 1] - node.rank) < node.half - 0.03)
                    for xy in points
                ]
                assert not np.any(inside), f"{key} in {stack}: {edge.source.name} to {edge.target.name} at {node.name}"
            assert edge.points[0] == pytest.approx((edge.source.x, edge.source.rank + edge.source.half))
            x, y = edge.points[-1]
            end = edge.target
            below = (abs(x - end.x) < 1e-9) and y == pytest.approx(end.rank - end.half)
            beside = abs(x - end.x) == pytest.approx(end.width) and abs(y - end.rank) < end.half
            assert below or beside


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(("key", "placement"), DRAWN, ids=[key for key, _ in DRAWN])
def test_a_diagram_has_every_box_of_the_rule(key, placement, stack):
    """Oracle: the norms and sub-layers that the rule called."""
    called = draw(placement, At(stack.split("-")[-1], 1, 6, stack))
    fig = figures.block_diagram(placement, stack=stack)
    texts = [a.text for a in fig.layout.annotations]
    assert [t for t in ("self-attention", "cross-attention", "FFN") if t in texts] == [
        {"self": "self-attention", "cross": "cross-attention", "ffn": "FFN"}[b.kind] for b in called.subs
    ] or key in ("parallel", "tangled")
    assert texts.count("dynamic tanh" if key == "dyt" else "layer norm") >= len(called.norms)
    assert len(fig.layout.meta["edges"]) == sum(t.uid not in ("branches",) and "→" in t.name for t in fig.data) - sum(
        t.name.endswith("output") or t.name.startswith("encoder") for t in fig.data
    )


def test_a_diagram_says_what_happens_inside_a_sub_layer_and_shows_what_learns_as_a_letter():
    """Oracle: the papers' own words: norms on q, k, v and in the FFN, a gain γ on each head, ω on the skip."""
    labels = {
        "hybrid": ["norm on q, k, v"] * 2, "normformer": ["×γ on heads"] * 2 + ["norm on hidden"], "admin": ["×ω"] * 3,
    }  # fmt: skip
    twice = Placement("Twice", "", PLACEMENTS["post"].layer, taps={"v": lambda x, N, at: 2 * N(x)})
    for placement, expected in [*labels.items(), (twice, ["norm ×2 on v"] * 2)]:
        fig = figures.block_diagram(placement, stack="encoder-decoder")
        texts = [a.text for a in fig.layout.annotations]
        assert [t for t in texts if " on " in t or "×" in t] == expected
        assert all(t.removeprefix("×") in figures.alt_text(fig) for t in expected)


def test_the_side_of_a_diagram_decides_whether_it_reads_the_encoder():
    """Oracle: cross-attention is on the decoder's side of an encoder-decoder, and nowhere else."""
    sides = [("encoder", None), ("decoder", None), ("encoder-decoder", "encoder"), ("encoder-decoder", None)]
    figs = {place: figures.block_diagram("post", stack=place[0], side=place[1]) for place in sides}
    with_cross = [place for place, fig in figs.items() if "cross-attention" in [a.text for a in fig.layout.annotations]]
    assert with_cross == [("encoder-decoder", None)]
