"""Placements: each rule against a formula written again by hand, and each hook against a toy that needs it."""

from functools import partial

import numpy as np
import pytest
import torch

import lntutor as ln
from lntutor.matrices import matrices
from lntutor.measure import Recorder
from lntutor.model import Sequence, Transformer
from lntutor.placements import PLACEMENTS, At, Box, Placement, draw, each, final_norm, last_sum
from tests.reference import Leaves, layer_norm

KEYS = ("post", "pre", "none", "no_residual", "peri", "res_post", "deepnorm", "b2t", "residual", "mix", "lns")


def small(placement, stack="encoder-decoder", **more):
    return ln.ModelConfig(
        placement, depth=5, width=24, heads=3, ffn=40, stack=stack, attention=more.pop("attention", "uniform"), **more
    )


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
            if key == "post" or (key == "mix" and layer <= int(L / 4)):
                x = layer_norm(x + f(x))
            elif key in ("pre", "mix"):
                x = x + f(layer_norm(x))
            elif key == "none":
                x = x + f(x)
            elif key == "no_residual":
                x = layer_norm(f(x))
            elif key == "peri":
                x = x + layer_norm(f(layer_norm(x)))
            elif key == "res_post":
                x = x + layer_norm(f(x))
            elif key == "deepnorm":
                alpha = (2 * L) ** 0.25
                if cfg.stack == "encoder-decoder":
                    alpha = 0.81 * (L**4 * M) ** (1 / 16) if side == "encoder" else (3 * M) ** 0.25
                x = layer_norm(alpha * x + f(x))
            elif key == "b2t":
                x = layer_norm(entry + x + f(x)) if i == len(subs) - 1 else layer_norm(x + f(x))
            elif key == "residual":
                said = f(x)
                x, r = layer_norm(x + said), r + said
            elif key == "lns":
                x = x + f(layer_norm(x) / np.sqrt(layer))
    if key == "residual":
        return x + layer_norm(r)
    return layer_norm(x) if key in ("pre", "peri", "res_post", "mix", "lns") else x


def run(cfg, seed=0, n=7):
    """Output of the model and the inputs it read, in float64."""
    leaves = Leaves.of(cfg, seed)
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
    assert [k for k, p in PLACEMENTS.items() if not p.depth_free] == ["deepnorm", "mix", "tfixup"]


def test_deepnorm_gains_are_those_of_its_table():
    """Oracle: Wang et al. 2022, table 2, by hand for N = M = 6."""
    gain = partial(PLACEMENTS["deepnorm"].gain)
    for parameter in ("W_V", "W_O", "W_1", "W_2"):
        assert gain(At("encoder", 1, 6, "encoder"), parameter) == pytest.approx(48**-0.25)
        assert gain(At("decoder", 1, 6, "decoder"), parameter) == pytest.approx(48**-0.25)
        assert gain(At("encoder", 1, 6, "encoder-decoder"), parameter) == pytest.approx(0.87 * (6**4 * 6) ** (-1 / 16))
        assert gain(At("decoder", 1, 6, "encoder-decoder"), parameter) == pytest.approx(72**-0.25)
    assert gain(At("decoder", 1, 6, "encoder-decoder"), "W_Q") == 1


# One toy placement for each hook, each compared with the same thing done by hand ------------------------------------


def post_step(x, f, N, at):
    return N(x + f(x))


def check_toy(placement, by_hand_output, stack="encoder", **more):
    cfg = small(placement, stack, **more)
    out, inputs, leaves = run(cfg)
    np.testing.assert_allclose(out, by_hand_output(cfg, inputs, leaves), rtol=1e-9, atol=1e-9)


def test_start_and_finish_wrap_the_stack():
    """Oracle: `by_hand` on inputs changed by hand."""
    toy = Placement("toy", "", each(post_step), start=lambda x, N, at: N(3 * x), finish=lambda x, N, at: 2 * x)
    check_toy(toy, lambda cfg, inputs, leaves: 2 * by_hand("post", cfg, leaves, layer_norm(3 * inputs[0])))


def test_a_state_may_carry_several_streams():
    """Oracle: the sum of everything that sub-layers said, collected by hand."""
    heard = []

    def note(x, f, N, at):
        x, total = x
        y = f(x)
        if isinstance(y, torch.Tensor):
            heard.append(y.numpy())
        return N(x + y), total + y

    toy = Placement("toy", "", each(note), start=lambda x, N, at: (x, 0.5 * x), finish=lambda s, N, at: s[1])
    check_toy(toy, lambda cfg, inputs, leaves: 0.5 * inputs[0] + sum(heard))
    assert len(heard) == 10


def test_gain_multiplies_the_weights_it_names():
    """Oracle: the same model with the matrices multiplied by hand."""
    toy = Placement("toy", "", each(post_step), gain=lambda at, p: 0.1 * at.layer if p == "W_1" else 1.0)
    cfg = small(toy, "encoder")
    plain = Leaves.of(cfg.with_(placement="post"), 0)
    for m in matrices(cfg):
        factor = 0.1 * m.layer if m.parameter == "W_1" else 1.0
        assert torch.allclose(Leaves.of(cfg, 0)[m.name], plain[m.name] * factor)


@pytest.mark.parametrize("attention", ["uniform", "softmax"])
@pytest.mark.parametrize("name", ["q", "k", "v", "heads", "hidden"])
def test_a_tap_reaches_the_inside_of_a_sub_layer(name, attention):
    """Oracle: one layer in numpy, with the tap applied to each head by hand."""
    toy = Placement("toy", "", each(lambda x, f, N, at: x + f(x)), taps={name: lambda x, N, at: 2 * N(x)})
    cfg = ln.ModelConfig(toy, depth=1, width=24, heads=3, ffn=40, stack="encoder", attention=attention)
    out, (x,), leaves = run(cfg)
    W = {key[3]: w.detach().numpy() for key, w in leaves.items()}

    def tap(where, u):
        return 2 * layer_norm(u) if where == name else u

    heads = []
    for h in range(3):
        part = slice(8 * h, 8 * h + 8)
        v = tap("v", x @ W["W_V"][:, part])
        if attention == "softmax":
            q, k = tap("q", x @ W["W_Q"][:, part]), tap("k", x @ W["W_K"][:, part])
            p = np.exp(q @ k.T / np.sqrt(8))
            heads.append(tap("heads", p / p.sum(1, keepdims=True) @ v))
        else:
            heads.append(tap("heads", np.repeat(v.mean(0, keepdims=True), len(x), 0)))
    y = x + np.concatenate(heads, 1) @ W["W_O"]
    expected = y + tap("hidden", np.maximum(y @ W["W_1"], 0)) @ W["W_2"]
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9)


def test_norm_replaces_the_normalisation():
    """Oracle: Post-LN by hand with tanh(x/2) in place of LN (Dynamic Tanh, Zhu et al. 2025)."""
    toy = Placement("toy", "", each(post_step), norm=lambda x, at: (0.5 * x).tanh())
    cfg = small(toy, "encoder")
    out, (x,), leaves = run(cfg)
    W = {key: w.detach().numpy() for key, w in leaves.items()}
    for layer in range(1, 6):
        mean = x.mean(0, keepdims=True)
        x = np.tanh(0.5 * (x + mean @ W["encoder", layer, "self", "W_V"] @ W["encoder", layer, "self", "W_O"]))
        hidden = np.maximum(x @ W["encoder", layer, "ffn", "W_1"], 0)
        x = np.tanh(0.5 * (x + hidden @ W["encoder", layer, "ffn", "W_2"]))
    np.testing.assert_allclose(out, x, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("attention", ["uniform", "softmax"])
def test_profile_gives_a_rule_the_growth_before_a_sub_layer(attention):
    """Oracle: Admin (Liu et al. 2020) by hand for one token, N(ωx + f(x)) with ω² = 1 + Σ Var f of what came before."""
    admin = Placement(
        "Admin", "x ← N(ωx + f(x))", each(lambda x, f, N, at: N(at.growth(f) ** 0.5 * x + f(x))), profile=True
    )
    cfg = small(admin, "encoder", attention=attention)
    leaves = Leaves.of(cfg, 0)
    x = torch.from_numpy(layer_norm(np.random.default_rng(0).standard_normal((1, cfg.width))))
    model = Transformer(cfg, leaves)
    with torch.no_grad():
        out = model(Sequence(x)).numpy()
        again = Transformer(cfg, leaves, profile=model.seen)(Sequence(x)).numpy()
    assert len(model.seen) == 10
    np.testing.assert_allclose(out, again, rtol=1e-12)
    growth, y = 1.0, x.numpy()
    for layer in range(1, 6):
        for block in ("self", "ffn"):
            W = {k[3]: w.detach().numpy() for k, w in leaves.items() if k[:3] == ("encoder", layer, block)}
            said = y @ W["W_V"] @ W["W_O"] if block == "self" else np.maximum(y @ W["W_1"], 0) @ W["W_2"]
            y = layer_norm(np.sqrt(growth) * y + said)
            growth += (said**2).mean()
    np.testing.assert_allclose(out, y, rtol=1e-6, atol=1e-6)


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
    leaves, watch = Leaves.of(cfg, 0), Recorder()
    with torch.no_grad():
        Transformer(cfg, leaves, watch)(
            Sequence(torch.randn(7, 24, generator=torch.Generator().manual_seed(0)).double())
        )
    for layer in range(1, 6):
        y = layer_norm(watch.signals["encoder", layer, "sum"].numpy())
        W_1, W_2 = (leaves["encoder", layer, "ffn", name].detach().numpy() for name in ("W_1", "W_2"))
        expected = np.maximum(y @ W_1, 0) @ W_2 + y
        np.testing.assert_allclose(watch.signals["encoder", layer, "out"].numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda x, subs, N, at: x @ x, "TypeError"),
        (lambda x, subs, N, at: None, "returned NoneType"),
        (lambda x, subs, N, at: (x, x), "returned tuple"),
        (lambda x, subs, N: x, "positional"),
        (lambda x, subs, N, at: N((x, x)), "not one stream"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused_with_what_is_allowed(rule, message):
    """Oracle: the messages written here."""
    with pytest.raises(ValueError, match=rf"(?s)cannot be read.*{message}.*a rule may use x \+ y, number \* x"):
        Placement("Broken", "", rule)


def test_a_wrong_key_tap_or_value_is_refused():
    """Oracle: the messages written here."""
    with pytest.raises(ValueError, match="taps must be among q, k, v, heads, hidden, got Q"):
        Placement("toy", "", each(post_step), taps={"Q": lambda x, N, at: x})
    with pytest.raises(ValueError, match="key must be a plain name"):
        PLACEMENTS["my placement"] = PLACEMENTS["post"]
    with pytest.raises(ValueError, match="must be a Placement, got function"):
        PLACEMENTS["mine"] = post_step
    with pytest.raises(ValueError, match="did you mean 'deepnorm'"):
        PLACEMENTS["depnorm"]
    assert "mine" not in PLACEMENTS


def test_a_placement_given_without_a_key_goes_by_its_label():
    """Oracle: the table's column."""
    toy = Placement("My LN", "x ← N(x + f(x))", each(post_step), finish=final_norm)
    table = ln.signal_norms(ln.ModelConfig(toy, depth=1, width=16, heads=2, ffn=16), seeds=0)
    assert set(table.placement) == {"My LN"}
    assert Box("input").kind == "input"
