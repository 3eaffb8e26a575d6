"""LayerNorm and its slips against torch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from lntutor.figures import gradient_through_norm, norm_reach
from lntutor.measure.layer_norm import DIVISORS, jacobian, jacobian_norms, jacobian_spectrum, normalised
from lntutor.theory.paper import lemma_3

VECTORS = st.lists(st.floats(-50, 50), min_size=2, max_size=12).filter(lambda x: np.std(x) > 1e-2)


@given(VECTORS)
def test_the_right_formula_is_torchs(x):
    """Oracle: F.layer_norm; the vector may be a tensor."""
    t = torch.tensor(x, dtype=torch.float64)
    np.testing.assert_allclose(normalised(x), F.layer_norm(t, (len(x),)), atol=1e-9)
    np.testing.assert_array_equal(normalised(t), normalised(x))


@given(VECTORS)
def test_each_slip_has_its_own_variance(x):
    """Oracle: d for the slide's σ, (d − 1)/d for Bessel's, and 1 up to ε for the others."""
    d, variance = len(x), {name: normalised(x, name).var() for name in DIVISORS}
    assert variance["slide's σ"] == pytest.approx(d)
    assert variance["Bessel"] == pytest.approx((d - 1) / d)
    assert variance["LayerNorm"] == pytest.approx(1, abs=0.1)
    assert variance["ε outside"] == pytest.approx(1, abs=0.01)


@given(VECTORS, st.sampled_from(sorted(DIVISORS)))
def test_the_jacobian_is_autograds(x, name):
    """Oracle: torch's Jacobian of the formula written again."""
    formulas = {
        "LayerNorm": lambda y, d: y / ((y * y).sum() / d + 1e-5).sqrt(),
        "slide's σ": lambda y, d: y * d / (y * y).sum().sqrt(),
        "Bessel": lambda y, d: y * (d - 1) ** 0.5 / (y * y).sum().sqrt(),
        "ε outside": lambda y, d: y / (((y * y).sum() / d).sqrt() + 1e-5),
    }
    t = torch.tensor(x, dtype=torch.float64)
    expected = torch.autograd.functional.jacobian(lambda v: formulas[name](v - v.mean(), len(x)), t).numpy()
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(jacobian(x, name).T, expected.T, atol=1e-8 * scale)


def test_the_jacobian_kills_the_mean_and_the_ray_and_falls_with_size():
    """Oracle: two singular values are (almost) zero; ‖J‖ = √d/‖y‖, so it falls by exactly 1/k."""
    x = np.array([2.0, -1.0, 0.5, 1.0, 3.0])
    values = jacobian_spectrum(x).query("name == 'LayerNorm'").value.to_numpy()
    assert (values[-2:] < 1e-4).all()
    np.testing.assert_allclose(values[:3], lemma_3(x), rtol=1e-4)
    table = jacobian_norms(x, [0.5, 1, 2, 4])
    np.testing.assert_allclose(table.value, table.predicted, rtol=1e-3)
    np.testing.assert_allclose(table.value.to_numpy()[:-1] / table.value.to_numpy()[1:], 2, rtol=1e-3)


def test_what_cannot_be_normalised_is_answered_in_words():
    """Oracle: the messages written here; equal coordinates give zeros, and have no Jacobian."""
    assert (normalised([3.0, 3.0, 3.0], "slide's σ") == 0).all()
    with pytest.raises(ValueError, match="all equal"):
        jacobian([1.0, 1.0])
    for wrong in ([1.0], [[1.0, 2.0]], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="two or more finite numbers"):
            normalised(wrong)


def test_the_reach_of_a_norm_is_drawn_and_put_into_words():
    """Oracle: masks made by hand, for 2 sentences, 3 tokens and 4 features; without a norm there is a sentence."""
    features, batch = np.zeros((2, 3, 4), bool), np.zeros((2, 3, 4), bool)
    features[1, 2], batch[:, :, 3] = True, True
    fig = norm_reach({"LN": features, "<i>batch</i>": batch}, place=(1, 2, 3), note="at init")
    cells = [np.array(trace.z) for trace in fig.data if trace.type == "heatmap"]
    np.testing.assert_array_equal(cells[0], features.reshape(6, 4))
    np.testing.assert_array_equal(cells[1], batch.reshape(6, 4))
    places = [trace for trace in fig.data if trace.type == "scatter"]
    assert [(trace.x[0], trace.y[0]) for trace in places] == [(4, "sentence 2, token 3")] * 2
    assert sum(trace.showlegend is not False for trace in places) == 1
    assert "of the 24 inputs: LN 4; &lt;i&gt;batch&lt;/i&gt; 6" in fig.layout.title.text.replace("<br>", " ")
    alt = fig.layout.meta["alt"]
    assert "LN: sentences 2, tokens 3, features 1, 2, 3, 4" in alt
    assert "<i>batch</i>: sentences 1, 2, tokens 1, 2, 3, features 4" in alt
    assert alt.endswith("at init")
    assert "There is no norm" in norm_reach({}).layout.meta["alt"]


def test_forward_and_backward_stand_side_by_side():
    """Oracle: numbers put in by hand: the same output, a gradient of a quarter."""
    out, gradient = np.array([1.0, -1.0, 0.0]), np.array([0.5, 0.25, -2.0])
    fig = gradient_through_norm((out, gradient), (out, gradient / 4), 4.0)
    np.testing.assert_allclose([trace.y for trace in fig.data], [out, gradient, out, gradient / 4])
    assert [trace.xaxis for trace in fig.data] == ["x", "x2", "x", "x2"]
    title = fig.layout.title.text.replace("<br>", " ")
    assert title == "x times 4: the output is 1.00× as large, the gradient 0.25×"
    assert "k = 1: output 1.41, gradient 2.08; k = 4: output 1.41, gradient 0.519" in fig.layout.meta["alt"]
