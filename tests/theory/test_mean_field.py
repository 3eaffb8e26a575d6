"""Theory against closed forms, published numbers, exact derivatives, and Monte Carlo within its sampling spread."""

from math import erf, log, sqrt

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lntutor as ln
from lntutor.measure.recorder import RECENT
from lntutor.model import random_streams
from lntutor.model.placements import Placement, each
from lntutor.theory import mean_field, paper, streams
from lntutor.theory.streams import Mixture, Stream, backward, diagonal

D = 256
PROBE_1 = ln.Inputs(tokens=1, loss="probe")


def value(table, **where):
    """The values of the rows that match."""
    for column, wanted in where.items():
        table = table[table[column] == wanted]
    return table.value.to_numpy()


# The paper's statements ----------------------------------------------------------------------------------------------


def test_lemma_1_is_half_the_variance():
    """Oracle: 40,000 Gaussian vectors; five standard errors."""
    x = np.maximum(np.random.default_rng(0).normal(0, 3, (40_000, 8)), 0)
    squares = (x**2).sum(1)
    assert abs(squares.mean() - paper.lemma_1(9, 8)) < 5 * squares.std() / 200


def test_lemma_2_holds_in_the_theorems_model():
    """Oracle: measured signal, five standard errors; Pre-LN is inside the bounds, and at the upper one for n = 1."""
    post = ln.signal_norms(ln.ModelConfig.theorem("post", 3, D), seeds=range(24), inputs=ln.Inputs(tokens=4))
    sums = post[post.site == "sum"].groupby("layer").value
    assert ((sums.mean() - paper.lemma_2_post(D) / D).abs() < 5 * sums.std() / sqrt(24) + 6 / D).all()
    for n in (1, 4):
        pre = ln.signal_norms(ln.ModelConfig.theorem("pre", 3, D), seeds=range(24), inputs=ln.Inputs(tokens=n))
        outs = pre[pre.site == "out"].groupby("layer").value
        for layer, mean in outs.mean().items():
            low, high = (bound / D for bound in paper.lemma_2_pre(layer, D))
            error = 5 * outs.std()[layer] / sqrt(24)
            assert low - error < mean < high + error
            assert n > 1 or abs(mean - high) < error


def test_lemma_3_equals_autograd():
    """Oracle: torch's Jacobian of F.layer_norm with ε = 0."""
    x = torch.randn(7, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3 + 1
    J = torch.autograd.functional.jacobian(lambda v: torch.nn.functional.layer_norm(v, (7,), eps=0), x).numpy()
    assert paper.lemma_3(x.numpy()) == pytest.approx(np.linalg.norm(J, 2))


def test_theorem_bound_has_the_constant_of_its_proof():
    """Oracle: 6156 at d=512 for Post-LN; d√(40 ln(100d)/(L+2)) for Pre-LN, derived by hand in the same way."""
    assert ln.theorem_bound(ln.ModelConfig.theorem("post", 6, 512)) == pytest.approx(6156, abs=1)
    assert ln.theorem_bound(ln.ModelConfig.theorem("pre", 6, 512)) == pytest.approx(512 * sqrt(5 * log(51200)))
    assert paper.theorem_probability(0.1, 0.125) == pytest.approx(0.765)


def test_theorem_bound_is_above_what_is_measured():
    """Oracle: measurement at one position with |∂L/∂x_i| ≤ 1, ten seeds, both placements."""
    for key in ("post", "pre"):
        cfg = ln.ModelConfig.theorem(key, 6, 128)
        measured = ln.last_layer_gradients(cfg, [6], seeds=range(10), inputs=PROBE_1).value.max()
        assert measured * sqrt(128) < ln.theorem_bound(cfg)  # ‖∂L/∂x‖ = √d is the most that |∂L/∂x_i| ≤ 1 allows


def test_nothing_is_broken_in_the_theorems_setting_and_each_change_is_named():
    """Oracle: one word of the sentence for each single change."""
    cfg = ln.ModelConfig.theorem("pre", 6, 64)
    assert ln.broken_assumptions(cfg) == ()
    assert ln.broken_assumptions(cfg, ln.Inputs(loss="probe", tokens=4)) == ()
    assert ln.broken_assumptions(cfg.with_(init="xavier")) == ()  # the same numbers when ffn = width
    for change, word in {
        "placement": ("peri", "Peri-LN"), "stack": ("decoder", "encoder"), "attention": ("softmax", "softmax"),
        "output_projection": (True, "W_O"), "ffn": (128, "128 hidden"), "init": ("torch", "variances"),
        "norm": ("rms", "LayerNorm"),
    }.items():  # fmt: skip
        sentences = ln.broken_assumptions(cfg.with_(**{change: word[0]}))
        assert len(sentences) == 1, change
        assert word[1] in sentences[0]
        assert sentences[0].endswith(".")
        (brief,) = ln.broken_assumptions(cfg.with_(**{change: word[0]}), brief=True)
        assert len(brief) < 25
        assert not brief.endswith(".")
    assert "Gaussian" in ln.broken_assumptions(cfg, ln.Inputs("tokens"))[0]
    assert any("4 heads" in s for s in ln.broken_assumptions(cfg.with_(attention="softmax", heads=4)))


# Closed forms at one token, and numbers published for more ------------------------------------------------------------


def harmonic(l):
    return sum(1 / k for k in range(1, l + 1))


def tanh_moments(q, slope=False):
    """E tanh(z/2)² for z of variance q, or E of the slope's square, by the trapezoid rule."""
    z = np.linspace(-9, 9, 3601)
    t = np.tanh(0.5 * sqrt(q) * z)
    values = (0.5 * (1 - t**2)) ** 2 if slope else t**2
    return float(np.trapezoid(values * np.exp(-(z**2) / 2), z)) / sqrt(2 * np.pi)


def dyt_signal(l):
    """(q before the FFN, q after it) of DyT's layer l: the stream grows by E tanh(z/2)², then by half of it."""
    q = 1.0
    for _ in range(l):
        middle = q + tanh_moments(q)
        q = middle + tanh_moments(middle) / 2
    return middle, q


def tfixup_signal(l, L):
    """T-Fixup's encoder: embeddings of variance (9L)^−½, attention of gain s², FFN of s⁴/2, s = 0.67 L^−¼."""
    s2 = 0.67**2 / sqrt(L)
    return ((1 + s2) * (1 + s2**2 / 2)) ** l / sqrt(9 * L)


SIGNAL = {  # E‖x_l‖²/d after l of L layers, n = 1
    "post": lambda l, L: 1,
    "pre": lambda l, L: 1 + 1.5 * l,
    "none": lambda l, L: 3**l,
    "no_residual": lambda l, L: 1,
    "peri": lambda l, L: 1 + 2 * l,
    "res_post": lambda l, L: 1 + 2 * l,
    "deepnorm": lambda l, L: 1,
    "b2t": lambda l, L: 1,
    "residual": lambda l, L: 1,
    "mix": lambda l, L: 1 if l <= L // 4 else 1 + 1.5 * (l - L // 4),
    "lns": lambda l, L: 1 + 1.5 * harmonic(l),
    "admin": lambda l, L: 1,
    "tfixup": tfixup_signal,
    "normformer": lambda l, L: 1 + 2 * l,
    "hybrid": lambda l, L: 1.5,
    "dyt": lambda l, L: dyt_signal(l)[1],
}
GRADIENT = {  # ‖∂W^{2,l}‖² / d for ‖∂L/∂x_out‖ = 1, n = 1; the last layer's where only that is simple
    "post": lambda l, L: 1 / 3,
    "pre": lambda l, L: 1 / (2 + 3 * L),
    "none": lambda l, L: 3 ** (L - 1),
    "peri": lambda l, L: 1 / (1 + 2 * L),
    "res_post": lambda l, L: 1 / (1 + 2 * L),
    "deepnorm": lambda l, L: (8 * L) ** -0.5 / 2 / ((2 * L) ** 0.5 + (8 * L) ** -1 / 2),  # W_1 carries β² = (8L)^−½
    "b2t": lambda l, L: 0.5 / (2.5 + sqrt(2)),
    "mix": lambda l, L: 1 / (2 + 3 * (L - L // 4)),
    "lns": lambda l, L: 1 / (2 * L * (1 + 1.5 * harmonic(L))),
    "admin": lambda l, L: 1 / (2 + 3 * L),
    "tfixup": lambda l, L: 0.67**2 / sqrt(L) * tfixup_signal(L, L) / (1 + 0.67**4 / L / 2) / 2,  # no norm after it
    "normformer": lambda l, L: 1 / (1 + 2 * L),
    "hybrid": lambda l, L: 1 / 3,
    "dyt": lambda l, L: tanh_moments(dyt_signal(L)[0]) / 2 * tanh_moments(dyt_signal(L)[1], slope=True),
}


@pytest.mark.parametrize("key", SIGNAL)
def test_the_signal_at_one_token_is_its_closed_form(key):
    """Oracle: the recursion solved by hand for each placement; ε inside the norms moves it by 1e-5."""
    cfg = ln.ModelConfig.theorem(key, 8, D)
    predicted = value(ln.predict(cfg, "signal", inputs=PROBE_1), site="out")
    np.testing.assert_allclose(predicted, [SIGNAL[key](l, 8) for l in range(1, 9)], rtol=2e-4)


@pytest.mark.parametrize("key", GRADIENT)
def test_the_last_layers_gradient_at_one_token_is_its_closed_form(key):
    """Oracle: √(d/3) for Post-LN, √(d/(2+3L)) for Pre-LN, and the others by hand, at several depths."""
    cfg = ln.ModelConfig.theorem(key, 6, D)
    predicted = value(ln.predict(cfg, "last_layer", depths=[1, 4, 12], inputs=PROBE_1))
    np.testing.assert_allclose(predicted, [sqrt(D * GRADIENT[key](L, L)) for L in (1, 4, 12)], rtol=2e-4)


def test_admins_sums_are_pre_lns_stream():
    """Oracle: Pre-LN's own prediction for eight tokens, and a backward pass that agrees with it at every sum."""
    inputs = ln.Inputs(tokens=8, loss="probe")
    tables = {
        key: [ln.predict(ln.ModelConfig.theorem(key, 6, D), q, inputs=inputs) for q in ("signal", "gradient")]
        for key in ("admin", "pre")
    }
    sums, stream = value(tables["admin"][0], site="sum"), value(tables["pre"][0], site="out")
    np.testing.assert_allclose(sums, stream, rtol=1e-4)
    np.testing.assert_allclose(tables["admin"][1].value, tables["pre"][1].value, rtol=1e-4)


def test_post_ln_is_flat_over_layers_and_pre_ln_falls_toward_the_output():
    """Oracle: √(d/3) in every Post-LN layer; √(d/(2+3l)) in layer l of Pre-LN, n = 1."""
    post = value(ln.predict(ln.ModelConfig.theorem("post", 9, D), "gradient", inputs=PROBE_1), parameter="W_2")
    np.testing.assert_allclose(post, sqrt(D / 3), rtol=2e-4)
    pre = value(ln.predict(ln.ModelConfig.theorem("pre", 9, D), "gradient", inputs=PROBE_1), parameter="W_2")
    np.testing.assert_allclose(pre, [sqrt(D / (2 + 3 * l)) for l in range(1, 10)], rtol=2e-4)


def test_pre_ln_growth_with_many_tokens_has_the_published_values():
    """Oracle: the exchangeable recursion q += A + ½, c += A + κ, by hand, and its values to three digits."""
    expected = {8: [1, 1.625, 2.418, 3.352, 4.388, 5.497, 6.660], 32: [None] * 6 + [5.891]}
    for n, values in expected.items():
        table = ln.predict(ln.ModelConfig.theorem("pre", 12, D), "signal", inputs=ln.Inputs(tokens=n))
        ours = [*value(table, site="in"), *value(table, site="out")]
        for l, known in enumerate(values):
            assert known is None or ours[l] == pytest.approx(known, abs=1e-3)
    assert ours[12] == pytest.approx(12.983, abs=2e-3)
    q, c = 1.0, 0.0
    for l in range(12):
        A = (q + 31 * c) / 32 / q  # uniform attention over normalised tokens
        q, c = q + A, c + A
        q, c = q + 0.5, c + float(streams.kappa(np.array(c / q)))
        assert q == pytest.approx(ours[l + 1], rel=2e-4)


def test_size_times_gradient_is_conserved_at_one_token():
    """Oracle: Euler's theorem for homogeneous networks: ‖∂L/∂x_l‖²·‖x_l‖²/d is the same in every layer."""
    for key in ("post", "pre", "peri", "none", "b2t", "lns", "mix"):
        cfg = ln.ModelConfig.theorem(key, 6, D)
        signal, back = (ln.predict(cfg, q, inputs=PROBE_1) for q in ("signal", "backward"))
        product = signal[signal.site == "out"].value * back[back.site == "out"].value
        np.testing.assert_allclose(product, product.iloc[0], rtol=3e-4)


def test_a_decoder_layer_shrinks_gradients_by_its_cross_attention():
    """Oracle: 1/√(1 + A_e), A_e = (1 + (n−1)ρ_enc)/n, between Post-LN decoder layers with uniform attention, n = 1."""
    cfg = ln.ModelConfig("post", 5, D, 1, D, "encoder-decoder", "uniform", "theory", output_projection=False)
    table = ln.predict(cfg, "gradient", inputs=PROBE_1)
    w2 = value(table, parameter="W_2", side="decoder")
    np.testing.assert_allclose(w2[1:] / w2[:-1], sqrt(2), rtol=1e-3)


# Streams --------------------------------------------------------------------------------------------------------------


@given(st.floats(-0.99, 0.99))
def test_kernels_are_gaussian_expectations(rho):
    """Oracle: the integral over u of E[ReLU(v) | u] and P(v > 0 | u), by the trapezoid rule."""
    u = np.linspace(0, 12, 4001)
    s = sqrt(1 - rho**2)
    density = np.exp(-(u**2) / 2) / sqrt(2 * np.pi)
    above = np.array([(1 + erf(rho * t / s / sqrt(2))) / 2 for t in u])  # P(v > 0 | u)
    relu = rho * u * above + s * np.exp(-((rho * u / s) ** 2) / 2) / sqrt(2 * np.pi)
    assert streams.kappa(np.array(rho)) == pytest.approx(np.trapezoid(density * u * relu, u), abs=1e-6)
    assert streams.kappa_prime(np.array(rho)) == pytest.approx(np.trapezoid(density * above, u), abs=1e-6)


@pytest.mark.parametrize("quantity", ["signal", "backward", "gradient", "similarity"])
def test_a_stream_beyond_all_numbers_is_said_to_be_so(quantity):
    """Oracle: without LN the stream of 48 layers overflows in float32 too; no error, no warning, no number made up."""
    cfg = ln.ModelConfig("none", depth=48, width=32, ffn=128)
    values = ln.predict(cfg, quantity)["value"].to_numpy(float)
    if quantity in ("gradient", "backward"):
        assert not np.isfinite(values).all()
    else:
        assert np.isfinite(values).any()


def test_gradients_through_scores_equal_autograd_on_random_heads():
    """Oracle: torch autograd of softmax attention with P held fixed, mean over 4000 draws; five standard errors."""
    n, m, dh, draws = 4, 5, 8, 4000
    random = torch.Generator().manual_seed(0)

    def cov(k):
        a = torch.randn(k, k, generator=random, dtype=torch.float64)
        return a @ a.T / k + 0.2 * torch.eye(k)

    Cq, Ck, Cv, G = cov(n), cov(m), cov(m), cov(n)
    scores = torch.randn(n, m, generator=random, dtype=torch.float64)
    P = scores.softmax(-1)

    def sample(C):
        return torch.linalg.cholesky(C) @ torch.randn(draws, len(C), dh, generator=random, dtype=torch.float64)

    q, k, v, g = sample(Cq), sample(Ck), sample(Cv), sample(G / dh)
    dP = g @ v.mT
    dS = P * (dP - (P * dP).sum(-1, keepdim=True))  # the softmax's own derivative
    torch.testing.assert_close(dS[0], torch.autograd.functional.vjp(lambda s: s.softmax(-1), scores, dP[0])[1])
    dq, dk = dS @ k / sqrt(dh), dS.mT @ q / sqrt(dh)
    to_q, to_k = streams.through_scores(*(t.numpy() for t in (P[None], G, Cq, Ck, Cv)))
    for gram, predicted in ((dq @ dq.mT, to_q), (dk @ dk.mT, to_k)):
        error = 5 * gram.std(0) / sqrt(draws) + 1e-9
        assert (np.abs(gram.mean(0).numpy() - predicted) < error.numpy()).all()


@pytest.mark.parametrize("case", ["as they come", "nearly one-hot", "tokens nearly alike", "both"])
def test_gradients_through_scores_survive_cancellation(case):
    """Oracle: D_i Cv D_j written out in 80-bit numbers, about the tokens' mean; the softmax sees differences only.

    A tenth of a per cent: what is left of the inputs' own 16 digits after the common part is taken away.
    """
    random, n = np.random.default_rng(0), 6
    sharp, alike = case in ("nearly one-hot", "both"), case in ("tokens nearly alike", "both")
    P = np.exp(random.standard_normal((1, 1, 2, n, n)) * (25 if sharp else 1))
    P /= P.sum(-1, keepdims=True)

    def covariance(common):
        A = random.standard_normal((1, 1, n, 2 * n)) * (1e-5 if common else 1)
        return A @ A.mT + (100.0 if common else 0.0)

    G, Cq, Ck, Cv = covariance(False), covariance(False), covariance(alike), covariance(alike)
    got = streams.through_scores(P, G, Cq, Ck, Cv)
    P, G, Cq, Ck, Cv = (A.astype(np.longdouble) for A in (P / P.sum(-1, keepdims=True), G, Cq, Ck, Cv))
    centre = np.eye(n) - np.ones((n, n)) / n
    Ck, Cv = centre @ Ck @ centre, centre @ Cv @ centre
    D = np.einsum("...ik,kl->...ikl", P, np.eye(n)) - P[..., :, None] * P[..., None, :]
    T = np.einsum("...ika,...ab,...jbm->...ijkm", D, np.broadcast_to(Cv[..., None, :, :], P.shape), D)
    to_q = np.einsum("...ijkm,...km->...ij", T, np.broadcast_to(Ck[..., None, :, :], P.shape))
    to_q = (G[..., None, :, :] * to_q).mean(-3)
    to_k = np.einsum("...ij,...ijkm->...km", np.broadcast_to((G * Cq)[..., None, :, :], P.shape), T).mean(-3)
    for ours, theirs in zip(got, (to_q, to_k), strict=True):
        np.testing.assert_allclose(ours, theirs.astype(float), atol=1e-3 * float(np.abs(theirs).max()), rtol=0)


def test_a_stream_remembers_what_it_shares():
    """Oracle: numbers by hand: cov(x + x) = 4 cov x, cov(x + fresh) = sum, a norm gives ones on the diagonal."""
    tape = []
    C = np.array([[2.0, 0.5], [0.5, 1.0]])
    x = Stream(tape, Mixture.fresh(C))
    y = x.linear(4, 0.25)
    np.testing.assert_allclose((x + x).cov, 4 * C)
    np.testing.assert_allclose((x + y).cov, 2 * C)
    np.testing.assert_allclose(((x + y) + 2 * x).cov, 9 * C + C)
    np.testing.assert_allclose(diagonal(x.normalised("layer").cov), 1, rtol=2e-5)
    np.testing.assert_allclose((x / 2).cov, C / 4)
    assert isinstance(np.float64(2) * x, Stream)


def test_layer_norm_subtracts_the_mean_of_relu_and_rms_norm_does_not():
    """Oracle: E ReLU² = ½ and Var ReLU = ½ − 1/2π; the correlation of normalised tokens by hand."""
    x = Stream([], Mixture.fresh(np.eye(2)))
    layer, rms = (x.relu().normalised(kind).cov[0, 1] for kind in ("layer", "rms"))
    assert layer == pytest.approx(0, abs=1e-12)
    assert rms == pytest.approx(1 / np.pi, rel=1e-4)


@pytest.mark.parametrize(("q", "error"), [(1, 1e-10), (25, 2e-4), (100, 3e-3)])
def test_a_saturated_tanh_keeps_its_moments(q, error):
    """Oracle: the integral over two correlated Gaussians on a fine grid, for streams up to 100 times their start.

    At q = 100 tanh(x/2) is nearly a step; tokens of correlation .99 are where the series of 41 terms is least exact.
    The last line is about what the output still shares with its input.
    """
    z = np.linspace(-9, 9, 1201)
    weight = np.exp(-(z**2) / 2) / sqrt(2 * np.pi) * (z[1] - z[0])
    for rho in (0, 0.5, 0.99, 1):
        x = Stream([], Mixture.fresh(q * np.array([[1, 0.6 * rho], [0.6 * rho, 0.36]])))
        y = (0.5 * x).tanh()
        back = backward(y, np.ones((2, 2)))[x].cov
        u, v = (0.5 * sqrt(q) * t for t in (z, 0.6 * (rho * z[:, None] + sqrt(1 - rho**2) * z)))
        assert y.cov[0, 1] == pytest.approx(weight * np.tanh(u) @ (np.tanh(v) @ weight), abs=error)
        slopes = weight * (1 - np.tanh(u) ** 2) @ ((1 - np.tanh(v) ** 2) @ weight)
        assert back[0, 1] == pytest.approx(slopes / 4, abs=error)
        shared = weight * np.tanh(u) @ (2 * v @ weight) + weight * 2 * u @ (np.tanh(v) @ weight)
        assert (x + y).cov[0, 1] - x.cov[0, 1] - y.cov[0, 1] == pytest.approx(shared, abs=error * sqrt(q))


# Monte Carlo ----------------------------------------------------------------------------------------------------------

HOOKED = ("admin", "tfixup", "normformer", "hybrid", "dyt")
MEASURE = {"signal": ln.signal_norms, "backward": ln.backward_norms, "gradient": ln.gradient_norms}


def assert_predicted(cfg, quantity, inputs, seeds, errors=5.0):
    """Mean over seeds of measured squares = prediction, to `errors` standard errors and mean field's own O(1/width)."""
    measured = MEASURE[quantity](cfg, seeds=seeds, inputs=inputs)
    predicted = ln.predict(cfg, quantity, inputs=inputs, seeds=seeds)
    keys = [c for c in measured.columns if c not in ("seed", "value", "below_floor")]
    power = 2 if quantity == "gradient" else 1
    squares = measured.assign(value=measured.value**power).groupby(keys, sort=False).value
    mean, error = squares.mean(), squares.std() / sqrt(len(seeds))
    expected = predicted.set_index(keys).value.reindex(mean.index) ** power
    assert expected.notna().all()
    off = (mean - expected).abs() - errors * error - 2 * cfg.depth / cfg.width * expected
    assert (off <= 0).all(), (
        f"{off.idxmax()}: measured {mean[off.idxmax()]:.4g}, predicted {expected[off.idxmax()]:.4g}"
    )
    assert (error / mean).median() < 0.12, "too few seeds to tell anything"


@pytest.mark.parametrize("quantity", MEASURE)
@pytest.mark.parametrize("tokens", [1, 6])
@pytest.mark.parametrize("key", sorted(ln.PLACEMENTS))
def test_every_placement_is_predicted_in_the_theorems_model(key, tokens, quantity):
    """Oracle: 24 networks; the tolerance is their own spread."""
    cfg = ln.ModelConfig.theorem(key, 3, 160)
    assert_predicted(cfg, quantity, ln.Inputs(tokens=tokens, loss="probe"), range(24))


@pytest.mark.parametrize("attention", ["uniform", "softmax"])
@pytest.mark.parametrize("stack", ["encoder", "decoder", "encoder-decoder"])
@pytest.mark.parametrize("key", ["post", "pre", "deepnorm"])
def test_real_transformers_are_predicted_too(key, stack, attention):
    """Oracle: 16 networks with heads, W_O, Xavier, a wide FFN, masks and cross-attention, cross-entropy loss."""
    cfg = ln.ModelConfig(key, 3, 128, 4, 256, stack, attention)
    for quantity in ("signal", "gradient"):
        assert_predicted(cfg, quantity, ln.Inputs(tokens=6, batch=2), range(16), errors=6)


@pytest.mark.parametrize("key", HOOKED)
def test_placements_with_hooks_are_predicted_in_real_transformers(key):
    """Oracle: 16 encoder–decoders, six standard errors; cosines between tokens are biased by O(1/d): .021 here."""
    cfg, inputs = ln.ModelConfig(key, 3, 128, 4, 256), ln.Inputs(tokens=6, batch=2)
    for quantity in MEASURE:
        assert_predicted(cfg, quantity, inputs, range(16), errors=6)
    keys = ["side", "layer", "site"]
    measured = ln.token_similarity(cfg, seeds=range(16), inputs=inputs).groupby(keys).value.mean()
    predicted = ln.predict(cfg, "similarity", inputs=inputs, seeds=range(16)).set_index(keys).value
    assert (measured - predicted).abs().max() < 0.04


@pytest.mark.parametrize("head", [0.5, 1.0, 2.0, 20.0])
def test_the_gradient_at_the_output_is_predicted_for_any_head(head):
    """Oracle: 24 heads and outputs, from nearly uniform to saturated softmax."""
    cfg = ln.ModelConfig.theorem("pre", 1, 160)
    inputs = ln.Inputs(tokens=8, head=head)
    measured = value(ln.backward_norms(cfg, seeds=range(24), inputs=inputs), site="final")
    (predicted,) = value(ln.predict(cfg, "backward", inputs=inputs), site="final")
    share = 0.12 if head > 4 else 0.02
    assert abs(measured.mean() - predicted) < 5 * measured.std() / sqrt(24) + share * predicted


@pytest.mark.parametrize(
    ("key", "stack", "depth", "factor"),
    [("res_post", "encoder-decoder", 12, 4), ("none", "encoder", 8, 5), ("none", "encoder-decoder", 8, 5)],
)
def test_deep_networks_that_normalise_nothing_before_attention_are_predicted(key, stack, depth, factor):
    """Oracle: autograd. Their scores are huge, their softmax is saturated and tails are heavy: to a factor."""
    cfg = ln.ModelConfig(key, depth, 64, 4, 256, stack)
    measured, predicted = (
        table[table["parameter"] == "W_2"].groupby(["side", "layer"])["value"].mean()
        for table in (ln.gradient_norms(cfg), ln.predict(cfg, "gradient"))
    )
    assert (predicted / measured).between(1 / factor, factor).all()


def test_a_readers_own_placement_is_predicted():
    """Oracle: 24 networks; a rule, a tap and gains that the package has never seen."""
    rule = each(lambda x, f, N, at: x + 0.5 * N(f(N(x))))
    hooks = {"taps": {"v": lambda v, N, at: 2 * N(v)}, "gain": lambda at, p: 2.0 if p == "W_1" else 0.7}
    mine = Placement("Mine", "x ← x + N(f(N(x)))/2", rule, finish=lambda x, N, at: N(x), **hooks)
    cfg = ln.ModelConfig(mine, 3, 160, 1, 160, "encoder", "uniform", "theory")
    for quantity in MEASURE:
        assert_predicted(cfg, quantity, ln.Inputs(tokens=4, loss="probe"), range(24), errors=6)


def test_last_layer_prediction_equals_one_model_per_depth():
    """Oracle: the top layer's row of a separate prediction for each depth."""
    theorem = [ln.ModelConfig.theorem(key, 6, 64) for key in ("pre", "mix", *HOOKED)]
    for cfg in (ln.ModelConfig("post", 6, 32, 2, 48), *theorem):
        table = ln.predict(cfg, "last_layer", depths=[2, 5], seeds=0, parameter="W_V")
        for depth in (2, 5):
            full = ln.predict(cfg.with_(depth=depth), "gradient", seeds=0)
            top = value(full, side=cfg.sides[-1], layer=depth, parameter="W_V")
            np.testing.assert_allclose(value(table, depth=depth), top, rtol=1e-10)


def test_attention_weights_kept_from_a_measurement_are_those_measured_anew():
    """Oracle: the same prediction with nothing kept; no more than four passes are kept."""
    cfg = ln.ModelConfig("pre", 2, 32, 2, 48)
    RECENT.clear()
    alone = ln.predict(cfg, "gradient")
    for depth in range(1, 8):
        ln.gradient_norms(cfg.with_(depth=depth), seeds=0)
    assert len(RECENT) == 4
    ln.gradient_norms(cfg)
    pd.testing.assert_frame_equal(ln.predict(cfg, "gradient"), alone)


def test_words_and_padding_are_predicted():
    """Oracle: 24 networks on a padded batch with repeated words; a tied head is a broken assumption, so probe loss."""
    source = np.array([[5, 6, 5, 8], [9, 3, 0, 0]])
    target, labels = np.array([[4, 4, 0], [6, 7, 8]]), np.array([[5, 9, 0], [7, 8, 9]])
    inputs = ln.Inputs(ln.Batch(source, target, labels, vocab=(12, 11)), loss="probe")
    for attention in ("uniform", "softmax"):
        cfg = ln.ModelConfig("pre", 2, 128, 4, 128, attention=attention)
        for quantity in ("signal", "gradient"):
            assert_predicted(cfg, quantity, inputs, range(24), errors=6)


def test_the_sampled_overlap_is_drawn_anew_with_every_other_stream(monkeypatch):
    """Oracle: E Σ p² of a sharp softmax lies in (1/words, 1]; another sample gives another estimate of it."""
    logits = 9.0 * np.eye(2)[None]
    here = mean_field.sampled_overlap(logits, 50)
    monkeypatch.setattr(random_streams, "DRAWN", "b")
    there = mean_field.sampled_overlap(logits, 50)
    for overlap in (here, there):
        assert (overlap[0].diagonal() > 1 / 50).all()
        assert (overlap[0].diagonal() <= 1).all()
    assert (here != there).all()
    np.testing.assert_allclose(here[0].diagonal(), there[0].diagonal(), rtol=0.5)
