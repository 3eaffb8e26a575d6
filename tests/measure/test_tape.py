"""The tape and what it stands on: gradients of any rule, exact zeros, rules that ask for the depth, learned numbers."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lntutor as ln
from lntutor.measure.inputs import feed
from lntutor.measure.recorder import TOLERANCE
from lntutor.model import placements
from lntutor.model.placements import PLACEMENTS, STACKS, At, Placement, draw, each, final_norm, reads_depth
from lntutor.model.transformer import Sequence, SmallWeights, Transformer
from lntutor.model.weight_bank import BANK, Weights
from tests.reference import plain_gradients

FED = ln.Inputs(tokens=3, batch=2, vocab=20)


def small(placement, stack="encoder-decoder", **more):
    return ln.ModelConfig(placement, **({"depth": 2, "width": 16, "heads": 2, "ffn": 24, "stack": stack} | more))


def rule(step, **more):
    return Placement("mine", "x ← …", each(step), **more)


def check_gradients(cfg, fed=FED, seed=3, dtype="float64"):
    """Every norm against ‖∂L/∂W‖ of plain float64 autograd; errors relative to the largest gradient."""
    table = ln.gradient_norms(cfg, seeds=(seed, seed + 1), inputs=fed, dtype=dtype)
    norms = {n: float(g.norm()) for n, g in plain_gradients(cfg, seed, fed).items()}
    rows = table[table.seed == seed]
    assert [tuple(row) for row in rows[["side", "layer", "block", "parameter"]].to_numpy()] == list(norms)
    values = np.array(list(norms.values()))
    rtol, atol = (1e-8, 1e-10) if dtype == "float64" else (2e-3, 1e-4)
    np.testing.assert_allclose(rows.value, values, rtol=rtol, atol=atol * values.max())


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("key", PLACEMENTS)
def test_every_placement_has_the_gradients_of_autograd(key, stack):
    """Oracle: plain float64 autograd of each matrix, for both attentions, norms, losses and dtypes."""
    for i, (attention, norm, dtype) in enumerate(product(("softmax", "uniform"), ("layer", "rms"), TOLERANCE)):
        cfg = small(key, stack, attention=attention, norm=norm, output_projection=i % 3 > 0)
        fed = ln.Inputs(("gaussian", "tokens")[i % 2], 3, 2, loss=("cross_entropy", "probe")[i // 2 % 2], vocab=20)
        check_gradients(cfg, fed, dtype=dtype)


TAP = {"q": lambda x, N, at: 0.5 * N(x), "k": lambda x, N, at: N(x) - 0.3 * x, "v": lambda x, N, at: N(x) / 2,
       "heads": lambda x, N, at: x + N(-x) * 0.7, "hidden": lambda x, N, at: at.layer * N(x)}  # fmt: skip
RULES = {
    "minus": rule(lambda x, f, N, at: N(x - f(x))),
    "negative": rule(lambda x, f, N, at: -x + f(-N(x)), finish=final_norm),
    "difference of f": rule(lambda x, f, N, at: N(f(x) - f(N(x))) - 0.5 * x),
    "no sub-layer": Placement("mine", "x", lambda x, subs, N, at: N(x + subs[0](x))),
    "only the last": Placement("mine", "x", lambda x, subs, N, at: N(x) if at.layer < at.depth else x + subs[-1](x)),
    "taps": rule(lambda x, f, N, at: N(x + f(x)), taps=TAP),
    "tanh in taps": rule(lambda x, f, N, at: N(x + f(x)), taps=TAP, norm=lambda x, at: (0.5 * x).tanh() / at.layer),
    "two streams": Placement(
        "mine", "x, r", each(lambda s, f, N, at: (N(s[0] - f(s[1])), s[1] + f(s[0]))),
        start=lambda x, N, at: (2 * N(x), x / 3), finish=lambda s, N, at: s[0] - N(s[1]),
    ),
    "a stream that is dropped": Placement(
        "mine", "x, r", each(lambda s, f, N, at: (N(s[0] + f(s[0])), s[1] + f(s[1]))),
        start=lambda x, N, at: (x, x), finish=lambda s, N, at: s[0],
    ),
    "profile": rule(lambda x, f, N, at: N(x * at.growth(f) ** 0.5 - f(x) / at.growth(f)), profile=True),
    "numpy": rule(lambda x, f, N, at: N(np.float64(0.5) * x + np.sqrt(2.0) * f(x))),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_a_rule_may_use_all_that_rules_allow(name):
    """Oracle: plain float64 autograd: minus, taps by head, tuples, start and finish, growth, a norm of its own."""
    for stack, attention in product(STACKS, ("softmax", "uniform")):
        check_gradients(small(RULES[name], stack, attention=attention))


def test_padded_sentences_have_the_gradients_of_autograd():
    """Oracle: plain float64 autograd, with padding in source and target, taps, and both attentions."""
    source, target = np.array([[5, 6, 7, 8], [9, 3, 0, 0]]), np.array([[4, 5, 0], [6, 7, 8]])
    pair = ln.Inputs(ln.Batch(source, target, np.array([[5, 9, 0], [7, 8, 9]]), vocab=(12, 11)))
    alone = ln.Inputs(ln.Batch(source, labels=np.array([[6, 7, 8, 2], [3, 2, 0, 0]]), vocab=(12, 12)))
    for placement, attention in product(("pre", "hybrid", RULES["taps"]), ("softmax", "uniform")):
        check_gradients(small(placement, attention=attention), pair)
        check_gradients(small(placement, "decoder", attention=attention), alone)
        check_gradients(small(placement, "encoder", attention=attention), alone)


def expressions():
    """Random expressions in x, f and N, as (words, function)."""
    x = st.just(("x", lambda x, f, N: x))

    def grow(inner):
        def wrap(word, use):
            return inner.map(lambda e: (word.format(e[0]), lambda x, f, N: use(e[1](x, f, N), f, N)))

        def pair(word, use):
            return st.tuples(inner, inner).map(
                lambda e: (word.format(e[0][0], e[1][0]), lambda x, f, N: use(e[0][1](x, f, N), e[1][1](x, f, N)))
            )

        return st.one_of(
            wrap("f({})", lambda e, f, N: f(e)), wrap("N({})", lambda e, f, N: N(e)), wrap("-{}", lambda e, f, N: -e),
            wrap("0.7*{}", lambda e, f, N: 0.7 * e), wrap("{}/2", lambda e, f, N: e / 2),
            pair("({} + {})", lambda a, b: a + b), pair("({} - {})", lambda a, b: a - b),
        )  # fmt: skip

    return st.recursive(x, grow, max_leaves=4)


@settings(max_examples=40)
@given(expressions(), st.sampled_from(STACKS), st.sampled_from(["softmax", "uniform"]))
def test_random_rules_have_the_gradients_of_autograd(expression, stack, attention):
    """Oracle: plain float64 autograd of N(0.3x + f(x) + a random expression)."""
    words, made = expression
    placement = Placement("mine", words, each(lambda x, f, N, at: N(0.3 * x + f(x) + made(x, f, N))))
    check_gradients(small(placement, stack, attention=attention, depth=1))


def test_the_bank_keeps_weights_that_autograd_takes():
    """Oracle: autograd, on weights that were first drawn for a pass in inference mode."""
    BANK.clear()
    cfg = small("post")
    ln.gradient_norms(cfg, seeds=3, inputs=FED, dtype="float64")
    assert not Weights(cfg, (3,), torch.float64)["encoder", 1, "self", "W_Q"].is_inference()
    assert plain_gradients(cfg, 3, FED)


# Minus ---------------------------------------------------------------------------------------------------------


def test_minus_is_drawn_as_a_factor_before_the_sum():
    """Oracle: the boxes by hand."""
    top = draw(rule(lambda x, f, N, at: x - f(x)), At("encoder", 1, 2, "encoder")).after
    assert [box.kind for box in top.inputs] == ["sum", "scale"]
    assert top.inputs[1].factor == -1
    assert top.inputs[1].inputs[0].kind == "ffn"


@pytest.mark.parametrize("quantity", ["signal", "backward", "gradient"])
def test_minus_has_the_second_moments_of_plus(quantity):
    """Oracle: the same rule with plus; what a sub-layer says is as likely as its opposite."""
    cfg = ln.ModelConfig.theorem(rule(lambda x, f, N, at: N(x + f(x))), depth=3, width=16)
    plus = ln.predict(cfg, quantity, inputs=ln.Inputs(tokens=4))
    minus = ln.predict(cfg.with_(placement=RULES["minus"]), quantity, inputs=ln.Inputs(tokens=4))
    np.testing.assert_allclose(minus.value, plus.value, rtol=1e-12)
    twice = rule(lambda x, f, N, at: N(x - (-x) + f(x)))
    same = rule(lambda x, f, N, at: N(2 * x + f(x)))
    one, two = (ln.predict(cfg.with_(placement=p), quantity, inputs=ln.Inputs(tokens=4)).value for p in (twice, same))
    np.testing.assert_allclose(one, two, rtol=1e-12)


# Exact zeros ---------------------------------------------------------------------------------------------------


def test_a_path_that_is_closed_gives_exact_zeros_that_are_no_round_off():
    """Oracle: ∂(0·f)/∂W = 0: ReZero at α = 0, and a rule without a skip whose attention is closed."""
    rezero = rule(lambda x, f, N, at: x + at.learned("α", 0.0) * f(x))
    for cfg in (small(rezero), small(rezero, "encoder")):
        table = ln.gradient_norms(cfg, inputs=FED)
        assert (table.value == 0.0).all()
        assert not table.below_floor.any()
    closed = Placement("mine", "…", lambda x, subs, N, at: N(subs[-1](x) + 0 * subs[0](x)))
    table = ln.gradient_norms(small(closed, "encoder"), inputs=FED)
    zero = table.block == "self"
    assert (table[zero].value == 0.0).all()
    assert not table[zero].below_floor.any()
    assert (table[~zero].value > 0).all()


def test_one_token_has_no_scores_to_learn():
    """Oracle: a softmax over one key is 1, so W_Q and W_K have gradient 0, exactly; all others have one."""
    for key in ("post", "no_residual"):
        table = ln.gradient_norms(small(key, "encoder"), inputs=ln.Inputs(tokens=1, vocab=20))
        scored = table.parameter.isin(["W_Q", "W_K"])
        assert (table[scored].value == 0).all()
        assert (table[~scored].value > 0).all()
        assert not table[scored].below_floor.any()


# Rules that ask for the depth ----------------------------------------------------------------------------------


def plus(x, f, N, at):
    return N(x + f(x))


DEEP = {
    "layer": rule(lambda x, f, N, at: N(2 * at.depth * x + f(N(x)))),  # Keel
    "helper": rule(lambda x, f, N, at: N(placements.deepnorm_alpha(at) * x + f(x))),
    "all of at": rule(lambda x, f, N, at: N(vars(at)["depth"] * x + f(x))),
    "only deep": rule(lambda x, f, N, at: N((at.depth if at.layer > 2 else 1) * x + f(x))),
    "start": rule(lambda x, f, N, at: x + f(x), start=lambda x, N, at: at.depth * x),
    "finish": rule(plus, finish=lambda x, N, at: x / at.depth),
    "finish by layer": rule(plus, finish=lambda x, N, at: x / at.layer),
    "gain": rule(plus, gain=lambda at, parameter: at.depth**-0.5 if parameter == "W_2" else 1.0),
    "embedding": rule(
        lambda x, f, N, at: x + f(x), gain=lambda at, parameter: 1 / at.depth if parameter == "embedding" else 1.0
    ),
    "tap": rule(plus, taps={"hidden": lambda x, N, at: x / at.depth}),
    "norm": rule(plus, norm=lambda x, at: (at.depth * x).tanh()),
    "norm at the end": rule(plus, finish=final_norm, norm=lambda x, at: (0.5 / at.layer * x).tanh()),
    "learned": rule(lambda x, f, N, at: N(x + at.learned("α", 1 / at.depth) * f(x))),
}
FREE = {
    "layer": rule(lambda x, f, N, at: N(at.layer * x + f(x))),
    "side": rule(lambda x, f, N, at: N((2 if at.side == "decoder" else 1) * x + f(x)), finish=final_norm),
    "norm": rule(plus, norm=lambda x, at: (0.5 / at.layer * x).tanh()),
}


def test_a_rule_is_known_to_ask_for_the_depth():
    """Oracle: the rules, written so; one that asks only above layer 2 is free below."""
    for stack in STACKS:
        assert all(reads_depth(placement, stack, 4) for placement in DEEP.values())
        assert not any(reads_depth(placement, stack, 4) for placement in FREE.values())
        assert not reads_depth(DEEP["only deep"], stack, 2)


@pytest.mark.parametrize("name", DEEP)
def test_the_last_layer_of_a_rule_that_asks_for_the_depth(name):
    """Oracle: float64 autograd, and the theory, of one model per depth."""
    for stack in ("decoder", "encoder-decoder"):
        cfg, depths = small(DEEP[name], stack, attention="uniform"), [1, 4]
        table = ln.last_layer_gradients(cfg, depths, seeds=3, inputs=FED, dtype="float64")
        theory = ln.predict(cfg, "last_layer", depths=depths, inputs=FED)
        for depth, value, predicted in zip(depths, table.value, theory.value, strict=True):
            one, at = cfg.with_(depth=depth), ("decoder", depth, "ffn", "W_2")
            assert value == pytest.approx(float(plain_gradients(one, 3, FED)[at].norm()), rel=1e-9)
            rows = ln.predict(one, "gradient", inputs=FED).set_index(["side", "layer", "block", "parameter"])
            assert predicted == pytest.approx(rows.loc[at, "value"], rel=1e-9)


# What learns beside the matrices -------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["post", "pre", "none", "admin", "normformer", "hybrid", "dyt", "rezero"])
def test_learned_numbers_have_the_gradients_of_differences(key):
    """Oracle: central differences of the loss in float64, number by number, with a profile that stays as it was."""
    placement = rule(lambda x, f, N, at: x + at.learned("α", 0.0) * f(x)) if key == "rezero" else PLACEMENTS[key]
    cfg = small(placement, depth=1)
    table = ln.learned_gradients(cfg, seeds=(0, 3), inputs=FED, dtype="float64")
    assert list(table.columns) == [
        "placement", "depth", "width", "side", "layer", "block", "number", "parameter", "seed", "value",
    ]  # fmt: skip
    fed, drawn = feed(cfg, FED, (3,), torch.float64), Weights(cfg, (3,), torch.float64)
    look = SmallWeights(cfg, drawn)
    look(*(Sequence(torch.ones(2, 16, dtype=torch.float64)) for _ in cfg.sides))
    starts = {name: start.double() for name, start in look.found.items()}
    profile = Transformer(cfg, drawn).profiled(*fed.sequences)

    def loss(changed):
        weights = {name: drawn[name] for name in drawn._recipe} | starts | changed
        return float(fed.loss(Transformer(cfg, weights, profile=profile)(*fed.sequences)))

    rows = table[table.seed == 3]
    assert len(rows) == len(starts) > 0 if key != "none" else len(rows) == 0
    for row in rows.itertuples():
        name = row.side, row.layer, row.block, row.number, row.parameter
        start, squares = starts[name], 0.0
        for i in range(start.numel()):
            step = torch.zeros(start.numel(), dtype=torch.float64)
            step[i] = 1e-5
            step = step.view(start.shape)
            squares += ((loss({name: start + step}) - loss({name: start - step})) / 2e-5) ** 2
        assert row.value == pytest.approx(squares**0.5, rel=1e-5, abs=1e-9)
