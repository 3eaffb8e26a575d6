"""Definition 1's ε and δ: what is measured is what a plain forward pass gives, and δ is a share."""

from math import sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lntutor as ln
from lntutor.measure.signals import last_norm_inputs
from lntutor.model.config import Batch
from lntutor.theory import paper

ONE = ln.Inputs(tokens=1, batch=64)


@pytest.mark.parametrize(("placement", "site"), [("post", "sum"), ("pre", "out"), ("peri", "out"), ("deepnorm", "sum")])
def test_it_is_what_the_last_norm_reads(placement, site):
    """Oracle: ln.signal_norms at that site, the mean over positions."""
    cfg, inputs = ln.ModelConfig(placement, 2, 32, 4, 64), ln.Inputs(tokens=5, batch=3)
    table = last_norm_inputs(cfg, seeds=(1, 4), inputs=inputs)
    assert list(table.columns) == ["placement", "depth", "width", "seed", "position", "value"]
    assert table.groupby("seed")["position"].nunique().tolist() == [15, 15]
    direct = ln.signal_norms(cfg, seeds=(1, 4), inputs=inputs)
    direct = direct.query("side == 'decoder' and layer == 2 and site == @site")
    np.testing.assert_allclose(table.groupby("seed")["value"].mean(), direct["value"], rtol=1e-5)


def test_padding_is_left_out():
    """Oracle: the number of words in a batch, and signal_norms, which leaves it out too."""
    source = np.array([[3, 4, 5], [6, 7, 0]])
    batch = Batch(source, labels=source, vocab=(9, 9))
    cfg = ln.ModelConfig("pre", 2, 16, 2, 16, stack="encoder")
    table = last_norm_inputs(cfg, seeds=0, inputs=ln.Inputs(batch))
    assert table["position"].tolist() == [0, 1, 2, 3, 4]
    direct = ln.signal_norms(cfg, seeds=0, inputs=ln.Inputs(batch)).query("layer == 2 and site == 'out'")
    assert table["value"].mean() == pytest.approx(direct["value"].item(), rel=1e-5)


def test_the_spread_is_that_of_a_sum_of_squares():
    """Oracle: a relative standard deviation of √(2/d) for Pre-LN with one token (a χ² variable)."""
    d = 64
    values = last_norm_inputs(ln.ModelConfig.theorem("pre", 6, d), seeds=range(8), inputs=ONE)["value"]
    assert values.std() / values.mean() == pytest.approx(sqrt(2 / d), rel=0.12)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=30), st.floats(0, 3))
def test_delta_is_the_least_for_which_definition_1_holds(values, epsilon):
    """Oracle: Definition 1 itself; with a smaller δ it fails."""
    delta, values = paper.least_delta(values, epsilon), np.array(values)
    inside = np.mean((values - values.mean()) / values.mean() <= epsilon)
    assert inside == pytest.approx(1 - delta, abs=1e-9) or np.isclose(values / values.mean() - 1, epsilon).any()


def test_the_promise_is_theorem_1s():
    """Oracle: the paper's numbers, ε = 0.1 and δ = 0.125."""
    values = [1.0] * 7 + [2.0]  # one of eight lies beyond
    table = pd.DataFrame({"placement": "post", "value": values})
    row = paper.probability_by_epsilon(table, [0.1]).iloc[0]
    assert (row["epsilon"], row["delta"]) == (0.1, 0.125)
    assert row["value"] == pytest.approx(0.765)


def test_many_positions_cost_the_union_bound():
    """Oracle: 1 − n(1 − p), never below 0."""
    assert [round(paper.at_every_position(0.765, n), 3) for n in (1, 2, 4, 5)] == [0.765, 0.53, 0.06, 0.0]


def test_without_all_assumptions_none_of_the_models_is_left():
    """Oracle: what `broken_assumptions` finds, one more with each; a mask is part of a decoder on an encoder."""
    cfg, of_model = ln.ModelConfig.theorem("post", 2, 32), [n for n in paper.ASSUMPTIONS if n not in ("words", "loss")]
    for name in of_model:
        dropped = ("softmax", name) if name == "heads" else (name,)
        assert len(ln.broken_assumptions(paper.without(cfg, dropped))) == len(set(dropped)), name
    both = paper.without(cfg, ("cross", "causal"))
    assert both == paper.without(cfg, ("cross",))
    assert both.stack == "encoder-decoder"
    with pytest.raises(ValueError, match="assumption must be one of"):
        paper.without(cfg, ("nonsense",))


def test_appendix_f_claims_a_fall_for_post_ln_alone():
    """Oracle: (2/3)^((L−l)/2) at three layers."""
    assert list(paper.appendix_f("post", 3).values()) == pytest.approx([2 / 3, sqrt(2 / 3), 1])
    assert list(paper.appendix_f("pre", 3).values()) == [1, 1, 1]
