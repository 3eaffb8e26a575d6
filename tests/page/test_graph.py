"""A placement's rule as a graph: run by a few lines that know nothing of placements, it is the rule again."""

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest

import lntutor as ln
from lntutor.model.placements import PLACEMENTS, STACKS, At, Placement, blocks, last_sum
from lntutor.page.playground.graph import DEEPEST, PARAMETERS, exported
from tests.reference import layer_norm

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(3, 8))
MATRICES = RANDOM.normal(size=(3, 8, 8)) / 3


def sub(place: int) -> Callable:
    """A stand-in for the sub-layer at this place of a layer."""
    return lambda x: np.maximum(x @ MATRICES[place], 0)


class Numbers(np.ndarray):
    """An array with the one method that a rule may call."""

    def tanh(self):
        return np.tanh(self)


def number(factor, growths: list[float]) -> float:
    """A factor's expression as a number."""
    if not isinstance(factor, list):
        return factor
    sign, *rest = factor
    if sign == "growth":
        return growths[rest[0]]
    a, b = (number(part, growths) for part in rest)
    return {"+": a + b, "*": a * b, "**": a**b}[sign]


def run(program: dict, inputs: list, growths: list[float]) -> list:
    """What a program makes of these arrays."""
    found = list(inputs)
    assert program["inputs"] == len(inputs)
    for kind, a, *rest in program["steps"]:
        x = found[a]
        steps = {
            "norm": lambda x=x: layer_norm(x),
            "tanh": lambda x=x: np.tanh(x),
            "sum": lambda x=x, rest=rest: x + found[rest[0]],
            "scale": lambda x=x, rest=rest: number(rest[0], growths) * x,
            "sub": lambda x=x, rest=rest: sub(rest[0])(x),
        }
        found.append(steps[kind]())
    return [found[register] for register in program["out"]]


def of_depth(graph: dict, stack: str, side: str, depth: int) -> dict:
    """One side at this depth: start, its layers as [program, gains, taps] and finish, not as places but as they are."""
    depths, parts = graph["sides"][stack][side], graph["parts"]
    found = depths.get(str(depth)) or depths[str(DEEPEST)]
    layers = [rest for count, *rest in found["layers"] for _ in range(count)][:depth]
    whole = [
        (parts[program], parts[gains], {k: parts[v] for k, v in parts[taps].items()}) for program, gains, taps in layers
    ]
    return {
        "start": parts[found["start"]],
        "finish": parts[found["finish"]],
        "layers": whole,
        "embedding": found["embedding"],
    }


def by_graph(placement: Placement, stack: str, side: str, depth: int) -> np.ndarray:
    """The output of one side, by its graph."""
    side_, growths = of_depth(exported(placement), stack, side, depth), [1.5, 2.5, 3.5]
    state = run(side_["start"], [X], growths)
    for program, _, _ in side_["layers"]:
        state = run(program, state, growths)
    return run(side_["finish"], state, growths)[0]


def by_rule(placement: Placement, stack: str, side: str, depth: int) -> np.ndarray:
    """The output of one side, by the rule on arrays."""
    subs = [sub(place) for place in range(len(blocks(stack, side)))]
    growths = dict(zip(map(id, subs), [1.5, 2.5, 3.5], strict=False))

    def at(layer):
        return At(
            side, layer, depth, stack, growth=lambda f: growths[id(f)], learned=lambda a, start=1.0, per="": start
        )

    def norm(layer):
        return (lambda x: placement.norm(x.view(Numbers), at(layer))) if placement.norm else layer_norm

    state = placement.start(X, norm(0), at(0))
    for layer in range(1, depth + 1):
        state = placement.layer(state, subs, norm(layer), at(layer))
    return placement.finish(state, norm(depth + 1), at(depth + 1))


def own(step: Callable, **hooks) -> Placement:
    return Placement("Mine", "as given", ln.each(step), **hooks)


OWN = {
    "by layer": own(lambda x, f, N, at: x / at.layer + f(N(x))),
    "by depth": own(lambda x, f, N, at: (x - at.layer / at.depth * f(x)) / 2, finish=ln.final_norm),
    "growth": own(lambda x, f, N, at: N(x / (1 + at.growth(f)) - (2 * at.growth(f) - 1) ** -0.5 * f(x)), profile=True),
    "two streams": own(
        lambda s, f, N, at: (s[0] + f(N(s[1])), N(s[0] - 0.5 * s[1])),
        start=lambda x, N, at: (N(x), 2 * x),
        finish=lambda s, N, at: s[1] - N(s[0]) / at.layer,
    ),
    "own norm": own(lambda x, f, N, at: N(N(x) + f(x)), norm=lambda x, at: (0.5 * x).tanh() - x / at.depth),
    "numpy's numbers": own(lambda x, f, N, at: np.float64(0.3) * x + np.float32(0.5) * f(N(x))),
}


@pytest.mark.parametrize("depth", [1, 2, 5, DEEPEST])
@pytest.mark.parametrize("name", [*PLACEMENTS, *OWN])
def test_a_graph_computes_what_its_rule_computes(name, depth):
    """Oracle: the rule itself, on arrays."""
    placement = OWN.get(name) or PLACEMENTS[name]
    for stack in STACKS:
        for side in stack.split("-"):
            with np.errstate(over="ignore"):
                ours, theirs = (compute(placement, stack, side, depth) for compute in (by_graph, by_rule))
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def hand_post(x, f, alpha=1.0):
    return layer_norm(alpha * x + f(x))


def hand_pre(x, f):
    return x + f(layer_norm(x))


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_named_graphs_are_the_formulas_of_their_papers(depth):
    """Oracle: the formulas written by hand, for an encoder."""
    subs = [sub(0), sub(1)]
    post = pre = deep = mix = scaled = X
    for layer in range(1, depth + 1):
        for f in subs:
            post, pre, deep = hand_post(post, f), hand_pre(pre, f), hand_post(deep, f, (2 * depth) ** 0.25)
            mix = hand_post(mix, f) if layer <= depth // 4 else hand_pre(mix, f)
            scaled = scaled + f(layer_norm(scaled) / sqrt(layer))
    wanted = {"post": post, "pre": layer_norm(pre), "deepnorm": deep, "mix": layer_norm(mix), "lns": layer_norm(scaled)}
    for key, expected in wanted.items():
        found = by_graph(PLACEMENTS[key], "encoder", "encoder", depth)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("depth", [1, 6, 48])
def test_gains_are_those_of_the_paper(depth):
    """Oracle: DeepNorm's β = (8N)^-¼ for an encoder alone (Wang et al. 2022, table 2), by hand; T-Fixup's embedding."""
    *_, last = of_depth(exported(PLACEMENTS["deepnorm"]), "encoder", "encoder", depth)["layers"]
    beta = (8 * depth) ** -0.25
    assert last[1] == pytest.approx([1, 1, beta, beta, beta, beta])
    assert len(last[1]) == len(PARAMETERS)
    tfixup = of_depth(exported(PLACEMENTS["tfixup"]), "decoder", "decoder", depth)
    assert tfixup["embedding"] == pytest.approx((9 * depth) ** -0.25)
    assert of_depth(exported(PLACEMENTS["post"]), "decoder", "decoder", depth)["embedding"] == 1


def test_taps_are_programs_of_their_own():
    """Oracle: HybridNorm's N on q, k and v; NormFormer's on hidden, with γ = 1 on heads."""
    taps = {key: of_depth(exported(PLACEMENTS[key]), "encoder", "encoder", 1)["layers"][0][2] for key in PLACEMENTS}
    assert {name: tap["steps"] for name, tap in taps["hybrid"].items()} == {name: [["norm", 0]] for name in "qkv"}
    assert {name: tap["steps"] for name, tap in taps["normformer"].items()} == {
        "heads": [["scale", 0, 1.0]],
        "hidden": [["norm", 0]],
    }
    assert not taps["post"]


@pytest.mark.parametrize(
    ("step", "last"),
    [
        (lambda x, f, N, at: N(x + f(x)), "ffn"),
        (
            lambda x, f, N, at: x + f(N(x)),
            None,
        ),  # in the first sub-layer N reads the layer's input; in the second a sum
        (lambda x, f, N, at: x + N(f(x)), None),
    ],
)
def test_the_sum_that_is_measured_is_the_input_of_the_last_norm_of_a_sum(step, last):
    """Oracle: last_sum, which counts on boxes; by hand for Post-LN, whose last sum is the one before its last norm."""
    placement = own(step)
    for norm in (None, lambda x, at: 0.5 * x + x.tanh()):
        program, _, _ = of_depth(exported(own(step, norm=norm)), "encoder", "encoder", 1)["layers"][0]
        assert (program["sum"] is None) == (last_sum(placement, "encoder", "encoder", 1, 1) is None)
        if program["sum"] is not None:
            kind, *_ = program["steps"][program["sum"] - 1]
            assert kind == "sum"
    if last:
        assert program["steps"][program["sum"] - 1][0] == "sum"


def test_a_norm_of_a_norm_of_ones_own_is_no_norm_of_a_sum():
    """Oracle: the sum is that before the first norm, though the norm itself ends in a sum."""
    graph = exported(own(lambda x, f, N, at: N(N(x + f(x))), norm=lambda x, at: 0.5 * x + x.tanh()))
    program, _, _ = of_depth(graph, "encoder", "encoder", 1)["layers"][0]
    sub_places = [i for i, step in enumerate(program["steps"]) if step[0] == "sub"]
    first_sum = next(i for i, step in enumerate(program["steps"]) if i > sub_places[-1] and step[0] == "sum")
    assert program["sum"] == program["inputs"] + first_sum


def test_rules_without_depth_are_written_once_and_others_for_every_depth():
    """Oracle: which formulas name the depth."""
    kept = {key: len(exported(PLACEMENTS[key])["sides"]["encoder"]["encoder"]) for key in PLACEMENTS}
    assert {key for key, count in kept.items() if count > 1} == {"deepnorm", "mix", "tfixup"}
    assert {count for count in kept.values() if count > 1} == {DEEPEST}


class NoNumber:
    """Something that a rule might multiply with, by mistake."""


REFUSED = {
    "a product of signals": lambda x, f, N, at: x * f(x),
    "a condition on a signal": lambda x, f, N, at: x if f(x) else N(x),
    "abs": lambda x, f, N, at: N(abs(x) + f(x)),
    "a factor that is no number": lambda x, f, N, at: NoNumber() * x + f(x),
    "infinity from layer 40 on": lambda x, f, N, at: x + (float("inf") if at.layer >= 40 else 1.0) * f(x),
    "a division by zero at depth 5": lambda x, f, N, at: x / (at.depth - 5) + f(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_rule_that_cannot_be_exported_is_refused_in_a_sentence(name, monkeypatch):
    """Oracle: the words, with the placement's label and the mistake; Python's own check of placements is set aside."""
    monkeypatch.setattr(Placement, "__post_init__", lambda self: None)
    with pytest.raises(ValueError, match=r"^The page cannot run Mine: its rule is more than sums.* Python can: "):
        exported(own(REFUSED[name]))
