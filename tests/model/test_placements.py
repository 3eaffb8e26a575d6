"""Placements: each rule against a formula written again by hand, and each hook against a toy that needs it."""

import numpy as np
import pytest
import torch

import lntutor as ln
from lntutor.measure.recorder import Recorder
from lntutor.model.placements import PLACEMENTS, At, Box, Placement, draw, each, final_norm, last_sum, reads_depth
from lntutor.model.transformer import Sequence, Transformer
from tests.reference import layer_norm, matrix_leaves

KEYS = ("post", "pre", "none", "no_residual", "peri", "res_post", "deepnorm", "b2t", "residual", "mix", "lns")


def small(placement, stack="encoder-decoder", attention="uniform"):
    return ln.ModelConfig(placement, depth=5, width=24, heads=3, ffn=40, stack=stack, attention=attention)


STEPS = {  # one sub-layer, where x, f and the number of the layer are enough
    "post": lambda x, f, l: layer_norm(x + f(x)),
    "pre": lambda x, f, l: x + f(layer_norm(x)),
    "none": lambda x, f, l: x + f(x),
    "no_residual": lambda x, f, l: layer_norm(f(x)),
    "peri": lambda x, f, l: x + layer_norm(f(layer_norm(x))),
    "res_post": lambda x, f, l: x + layer_norm(f(x)),
    "lns": lambda x, f, l: x + f(layer_norm(x) / np.sqrt(l)),
}


def by_hand(key, cfg, leaves, x, memory=None, side="encoder"):
    """A side of the network in numpy with uniform attention, each placement spelled out step by step."""
    L = M = cfg.depth
    W = {name: w.detach().numpy() for name, w in leaves.items()}
    causal = side == "decoder"

    def attention(u, layer, block, source):
        n = len(u)
        rows = np.tril(np.ones((n, n))) if causal and block == "self" else np.ones((n, len(source)))
        mean = rows / rows.sum(1, keepdims=True) @ source
        return mean @ W[side, layer, block, "W_V"] @ W[side, layer, block, "W_O"]

    def ffn(u, layer):
        return np.maximum(u @ W[side, layer, "ffn", "W_1"], 0) @ W[side, layer, "ffn", "W_2"]

    r = x.copy()
    for layer in range(1, L + 1):
        subs = [lambda u, layer=layer: attention(u, layer, "self", u)]
        if memory is not None:
            subs.append(lambda u, layer=layer: attention(u, layer, "cross", memory))
        subs.append(lambda u, layer=layer: ffn(u, layer))
        entry = x
        for i, f in enumerate(subs):
            if key == "mix":
                x = STEPS["post" if layer <= int(L / 4) else "pre"](x, f, layer)
            elif key == "deepnorm":
                alpha = (2 * L) ** 0.25
                if cfg.stack == "encoder-decoder":
                    alpha = 0.81 * (L**4 * M) ** (1 / 16) if side == "encoder" else (3 * M) ** 0.25
                x = layer_norm(alpha * x + f(x))
            elif key == "b2t":
                x = layer_norm(entry + x + f(x)) if i == len(subs) - 1 else layer_norm(x + f(x))
            elif key == "residual":
                branch = f(x)
                x, r = layer_norm(x + branch), r + branch
            else:
                x = STEPS[key](x, f, layer)
    if key == "residual":
        return x + layer_norm(r)
    return layer_norm(x) if key in ("pre", "peri", "res_post", "mix", "lns") else x


def run(cfg, seed=0, n=7):
    """Output of the model and the inputs it read, in float64."""
    leaves = matrix_leaves(cfg, seed)
    random = np.random.default_rng(seed)
    inputs = [random.standard_normal((n, cfg.width)) for _ in cfg.sides]
    with torch.no_grad():
        out = Transformer(cfg, leaves)(*(Sequence(torch.from_numpy(x)) for x in inputs))
    return out.numpy(), inputs, leaves


@pytest.mark.parametrize("stack", ["encoder", "decoder", "encoder-decoder"])
@pytest.mark.parametrize("key", KEYS)
def test_each_rule_is_the_formula_of_its_paper(key, stack):
    """Oracle: the formula, written again in numpy with loops and ifs."""
    cfg = small(key, stack)
    out, inputs, leaves = run(cfg)
    expected = inputs[0]
    for side, x in zip(cfg.sides, inputs, strict=True):
        expected = by_hand(key, cfg, leaves, x, expected if side == "decoder" and stack != "decoder" else None, side)
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9)


def test_all_sixteen_are_there_with_their_sources():
    """Oracle: the list that the course promises; the last five have formulas in test_placement_formulas.py."""
    assert tuple(PLACEMENTS) == (*KEYS, "admin", "tfixup", "normformer", "hybrid", "dyt")
    for key, placement in PLACEMENTS.items():
        assert placement.key == key
        assert placement.label
        assert "←" in placement.formula or key == "mix"
        assert placement.reference or key in ("none", "no_residual")
    for stack in ("encoder", "decoder", "encoder-decoder"):
        assert [k for k, p in PLACEMENTS.items() if reads_depth(p, stack, 5)] == ["deepnorm", "mix", "tfixup"]


def test_deepnorm_gains_are_those_of_its_table():
    """Oracle: Wang et al. 2022, table 2, by hand for N = M = 6."""
    gain = PLACEMENTS["deepnorm"].gain
    for parameter in ("W_V", "W_O", "W_1", "W_2"):
        assert gain(At("encoder", 1, 6, "encoder"), parameter) == pytest.approx(48**-0.25)
        assert gain(At("decoder", 1, 6, "decoder"), parameter) == pytest.approx(48**-0.25)
        assert gain(At("encoder", 1, 6, "encoder-decoder"), parameter) == pytest.approx(0.87 * (6**4 * 6) ** (-1 / 16))
        assert gain(At("decoder", 1, 6, "encoder-decoder"), parameter) == pytest.approx(72**-0.25)
    assert gain(At("decoder", 1, 6, "encoder-decoder"), "W_Q") == 1


# Hooks; taps, gains, profile and norms of their own are held against papers in test_placement_formulas.py -----------


def post_step(x, f, N, at):
    return N(x + f(x))


def test_start_and_finish_wrap_the_stack():
    """Oracle: `by_hand` on inputs changed by hand."""
    toy = Placement("toy", "", each(post_step), start=lambda x, N, at: N(3 * x), finish=lambda x, N, at: 2 * x)
    cfg = small(toy, "encoder")
    out, (x,), leaves = run(cfg)
    np.testing.assert_allclose(out, 2 * by_hand("post", cfg, leaves, layer_norm(3 * x)), rtol=1e-9, atol=1e-9)


def test_a_rule_a_layer_sees_where_it_stands():
    """Oracle: the list of places written here."""
    places = []

    def layer(x, subs, N, at):
        if isinstance(x, torch.Tensor):
            places.append((at.side, at.layer, at.depth, at.stack, len(subs)))
        return x + subs[-1](x)

    run(small(Placement("toy", "", layer)))
    assert places[0] == ("encoder", 1, 5, "encoder-decoder", 2)
    assert places[-1] == ("decoder", 5, 5, "encoder-decoder", 3)
    assert len(places) == 10


# Boxes and the dict --------------------------------------------------------------------------------------------------


def test_a_rule_reads_as_boxes():
    """Oracle: Post-LN's diagram, drawn by hand."""
    drawing = draw(PLACEMENTS["post"], At("decoder", 1, 6, "encoder-decoder"))
    assert [box.kind for box in drawing.subs] == ["self", "cross", "ffn"]
    top = drawing.after
    assert (top.kind, top.inputs[0].kind) == ("norm", "sum")
    skip, branch = top.inputs[0].inputs
    assert branch.kind == "ffn"
    assert branch.inputs[0] is skip
    assert drawing.out is drawing.after
    scaled = draw(PLACEMENTS["lns"], At("encoder", 4, 6, "encoder")).subs[0].inputs[0]
    assert (scaled.kind, scaled.factor) == ("scale", 0.5)


def test_the_site_sum_is_the_last_sum_that_a_norm_reads():
    """Oracle: counted by hand in each rule, for an encoder layer."""
    expected = {"post": 1, "pre": 1, "peri": 2, "none": None, "no_residual": None, "res_post": None, "b2t": 1}
    assert {key: last_sum(PLACEMENTS[key], "encoder", "encoder", 3, 6) for key in expected} == expected


@pytest.mark.parametrize("attention", ["uniform", "softmax"])
def test_a_norm_inside_a_sub_layer_is_not_taken_for_one_of_the_rules(attention):
    """Oracle: HybridNorm's x ← FFN(y) + y with y = LN(sum), in numpy, from the sum that was recorded."""
    cfg = small("hybrid", "encoder", attention=attention)
    leaves, watch = matrix_leaves(cfg, 0), Recorder()
    with torch.no_grad():
        Transformer(cfg, leaves, watch)(
            Sequence(torch.randn(7, 24, generator=torch.Generator().manual_seed(0)).double())
        )
    for layer in range(1, 6):
        y = layer_norm(watch.signals["encoder", layer, "sum"].numpy())
        W_1, W_2 = (leaves["encoder", layer, "ffn", name].detach().numpy() for name in ("W_1", "W_2"))
        expected = np.maximum(y @ W_1, 0) @ W_2 + y
        np.testing.assert_allclose(watch.signals["encoder", layer, "out"].numpy(), expected, rtol=1e-9, atol=1e-9)


def test_a_placement_given_without_a_key_goes_by_its_label():
    """Oracle: the table's column."""
    toy = Placement("My LN", "x ← N(x + f(x))", each(post_step), finish=final_norm)
    table = ln.signal_norms(ln.ModelConfig(toy, depth=1, width=16, heads=2, ffn=16), seeds=0)
    assert set(table.placement) == {"My LN"}
    assert Box("input").kind == "input"
