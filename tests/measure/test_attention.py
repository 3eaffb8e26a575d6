"""One attention on its own, against torch and closed forms."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from lntutor import figures
from lntutor.measure.attention import entropy, journey, sentence_attention, softmax, softmax_saturation
from lntutor.measure.recorder import Recorder
from lntutor.model.config import ModelConfig
from lntutor.model.random_streams import random_stream
from lntutor.model.transformer import Sequence, Transformer
from lntutor.model.weight_bank import Weights

SENTENCE = "the cat sat on the mat"


def test_softmax_and_entropy_are_torchs():
    """Oracle: torch.softmax and torch.distributions, with masked scores."""
    scores = np.random.default_rng(0).standard_normal((3, 5))
    scores[0, 2:] = -np.inf
    p = softmax(scores)
    np.testing.assert_allclose(p, torch.from_numpy(scores).softmax(-1))
    np.testing.assert_allclose(entropy(p), torch.distributions.Categorical(torch.from_numpy(p)).entropy(), rtol=1e-6)


@given(st.sampled_from([(16, 1), (16, 4), (64, 8)]), st.booleans(), st.integers(0, 20))
def test_weights_are_probabilities_and_a_causal_word_sees_only_what_came_before(size, causal, seed):
    """Oracle: rows sum to one; the upper triangle is zero under a mask."""
    width, heads = size
    words, p = sentence_attention(SENTENCE, width=width, heads=heads, causal=causal, seed=seed)
    assert p.shape == (heads, len(words), len(words))
    np.testing.assert_allclose(p.sum(-1), 1)
    assert not causal or (np.triu(p, 1) == 0).all()


def test_the_scale_makes_scores_of_variance_one():
    """Oracle: q·k has variance d_head for unit q, k: without the scale rows are sharper, and √d_head is the ratio."""
    _, with_scale = sentence_attention(SENTENCE, width=512, heads=1)
    _, without = sentence_attention(SENTENCE, width=512, heads=1, scaled=False)
    assert entropy(with_scale).mean() > 1.0
    assert entropy(without).mean() < 0.2
    ratio = np.log(without[0, 0, 1:] / without[0, 0, 0]) / np.log(with_scale[0, 0, 1:] / with_scale[0, 0, 0])
    np.testing.assert_allclose(ratio, np.sqrt(512), rtol=1e-6)


def test_a_word_keeps_its_vector_in_another_sentence():
    """Oracle: the first row of a causal map depends on the first word alone, so two prefixes agree."""
    _, short = sentence_attention("the cat", causal=True)
    _, long = sentence_attention("the cat sat", causal=True)
    np.testing.assert_allclose(long[:, :2, :2], short)
    assert not np.allclose(sentence_attention("the dog", causal=True)[1][:, 1], short[:, 1])


def test_entropy_and_both_gradients_are_torchs():
    """Oracle: torch's entropy of softmax(s), and its Jacobians by s and by q, s = K q · scale, for the same draw."""
    table = softmax_saturation([6], keys=5, seeds=[3]).set_index("scaled")
    random = random_stream(3, "saturation", 6)
    k, q = torch.from_numpy(random.standard_normal((5, 6))), torch.from_numpy(random.standard_normal(6))
    for scaled, scale in ((True, 6**-0.5), (False, 1.0)):
        entropy_of = torch.distributions.Categorical(logits=k @ q * scale).entropy()
        np.testing.assert_allclose(table.loc[scaled, "entropy"], entropy_of, rtol=1e-10)
        by_scores = torch.autograd.functional.jacobian(lambda s: s.softmax(0), k @ q * scale)
        by_query = torch.autograd.functional.jacobian(lambda t, c=scale: (k @ t * c).softmax(0), q)
        np.testing.assert_allclose(table.loc[scaled, "gradient"], by_scores.norm(), rtol=1e-10)
        np.testing.assert_allclose(table.loc[scaled, "query_gradient"], by_query.norm(), rtol=1e-10)


def test_without_the_scale_the_mean_gradient_of_two_keys_falls_as_one_over_root_pi_d():
    """Oracle: E 2p(1 − p) ≈ 2·(density of N(0, 2d) at 0) = 1/√(πd), five standard errors over 4000 seeds."""
    for d in (64, 256):
        gradient = softmax_saturation([d], keys=2, seeds=range(4000)).query("not scaled")["gradient"]
        assert abs(gradient.mean() - (np.pi * d) ** -0.5) < 5 * gradient.std() / 4000**0.5
        assert gradient.median() < 0.05 * gradient.mean()


def test_the_journey_has_the_shapes_that_its_letters_say():
    """Oracle: every letter replaced by its number, for two sentences of different lengths."""
    cfg = ModelConfig(depth=2, width=12, heads=3, ffn=20)
    watch = Recorder()
    source, target = torch.randn(5, 12), torch.randn(4, 12)
    Transformer(cfg, Weights(cfg, (0,)), watch)(Sequence(source), Sequence(target))
    table = journey(watch)
    numbers = {"n": 5, "m": 4, "d": 12, "H": 3, "f": 20}
    assert [eval(letters.replace("/", "//"), {}, numbers) for letters in table["letters"]] == list(table["shape"])
    assert len(table) == 23
    assert {"encoder, self-attention", "decoder, self-attention", "decoder, cross-attention"} <= set(table["where"])


def test_the_figure_has_medians_filled_and_means_open():
    """Oracle: median, quartiles and mean of the table by pandas."""
    table = softmax_saturation([8, 64], keys=4, seeds=range(30))
    fig = figures.softmax_saturation(table)
    bare = table.query("not scaled").groupby("d")["gradient"]
    traces = {trace.uid: trace for trace in fig.data}
    np.testing.assert_allclose(traces["gradient/False"].y, bare.median())
    np.testing.assert_allclose(traces["gradient/False"].error_y.array, bare.quantile(0.75) - bare.median())
    np.testing.assert_allclose(traces["gradient/False/mean"].y, bare.mean())
    assert traces["gradient/False/mean"].marker.symbol == "square-open"
    assert "in the median" in figures.alt_text(fig)
    assert len(figures.softmax_saturation(table[table["seed"] == 0]).data) == 4  # one seed has no mean of its own
