"""One attention on its own, against torch and closed forms."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from lntutor.attention import entropy, sentence_attention, softmax, softmax_saturation, words_of

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


def test_saturation_is_the_entropy_and_jacobian_of_the_softmax():
    """Oracle: torch's Jacobian of softmax; for large d without the scale both go to zero, with it they do not."""
    s = torch.randn(6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    J = torch.autograd.functional.jacobian(lambda t: t.softmax(0), s).numpy()
    p = softmax(s.numpy())
    np.testing.assert_allclose(np.diag(p) - np.outer(p, p), J, atol=1e-12)
    table = softmax_saturation([8, 512], keys=8, seeds=range(40))
    means = table.groupby(["d", "scaled"])[["entropy", "gradient"]].mean()
    assert means.loc[(512, False), "entropy"] < 0.15
    assert means.loc[(512, False), "gradient"] < 0.3 * means.loc[(8, False), "gradient"]
    assert abs(means.loc[(512, True), "entropy"] / means.loc[(8, True), "entropy"] - 1) < 0.15


def test_variance_of_a_score_is_d():
    """Oracle: Var(q·k) = d, over 4000 pairs; five standard errors."""
    random = np.random.default_rng(0)
    for d in (4, 64):
        scores = (random.standard_normal((4000, d)) * random.standard_normal((4000, d))).sum(1)
        assert abs(scores.var() - d) < 5 * d * np.sqrt((2 + 6 / d) / 4000)
        assert F.softmax(torch.from_numpy(scores[:8] / np.sqrt(d)), 0).max() < 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: words_of(" "), "1 to 24 words, got 0"),
        (lambda: words_of("a " * 25), "1 to 24 words, got 25"),
        (lambda: sentence_attention("a b", width=10, heads=4), "heads must divide width"),
        (lambda: sentence_attention("a b", scaled=1), "scaled must be True or False"),
        (lambda: softmax_saturation([0]), "width must be"),
        (lambda: softmax_saturation([4], keys=1), "keys must be"),
    ],
)
def test_wrong_arguments_are_answered_in_words(call, message):
    """Oracle: the messages written here."""
    with pytest.raises(ValueError, match=message):
        call()
