"""Figures of attention and of layer normalization: numbers and titles are numpy's, markup is shown as it stands."""

import numpy as np
import pytest

from lntutor import figures
from lntutor.model.placements import PLACEMENTS, Placement
from tests.figures.registry import gradients, grid, jacobian_norms, jacobians, runs, softmaxes, title, vector


def test_attention_map_shows_the_chosen_head_with_its_entropy():
    """Oracle: −Σ p ln p in numpy, zeros counting nothing."""
    weights = np.stack([np.full((3, 4), 0.25), np.eye(3, 4)])
    fig = figures.attention_map(weights, (["x", "y", "z"], list("abcd")), head=0)
    np.testing.assert_allclose(np.array(fig.data[0].z, float), weights[0])
    assert f"entropy {np.log(4):.2f} nats, 100 % of the most possible, ln 4" in title(fig)
    mask = np.tril(np.ones((1, 4, 4)))
    fig = figures.attention_map(mask / mask.sum(-1, keepdims=True), list("abcd"))
    assert f"entropy {np.log([1, 2, 3, 4]).mean():.2f} nats, 100 % of the most possible under the mask" in title(fig)
    tokens = ["x"] * 3, ["a"] * 4
    assert "Head 2 of 2: entropy 0.00 nats, 0 %" in title(figures.attention_map(weights, tokens, head=1))
    assert "entropy 1.25" in title(figures.attention_map(weights, tokens, entropy=[1.25, 0]))
    assert fig.layout.yaxis.autorange == "reversed"
    with pytest.raises(ValueError, match="3 queries and 4 keys"):
        figures.attention_map(weights, list("abcd"))


def test_markup_in_tokens_labels_notes_and_names_is_shown_and_not_interpreted():
    """Oracle: the characters that plotly reads as markup, entities or TeX do not reach it."""
    token = "<b>&amp;$x$ <img a>"
    figs = [
        figures.attention_map(np.eye(2), [token, "b"]),
        figures.gradient_by_layer(gradients([token]), pinned=[(token, gradients())], note=token),
        figures.layer_norm_before_after(np.arange(3.0), {token: np.arange(3.0)}),
        figures.jacobian_spectrum(jacobians().assign(name=token)),
        figures.training_curves(runs().assign(run=token)),
        figures.block_diagram(Placement(token, token, PLACEMENTS["post"].layer)),
        figures.warmup_heatmap(grid(), what=token),
    ]
    for fig in figs:
        page = fig.to_json().replace("\\u003c", "<").replace("\\u003e", ">").replace("\\u0026", "&")
        visible = page[: page.rindex('"meta"')]
        visible = visible.replace('"legendgroup":"' + token, "").replace(f"{token}/", "").replace(f"/{token}", "")
        assert "&lt;b&gt;&amp;amp;&#36;x&#36;" in page
        assert "<img" not in visible
    assert figs[0].layout.xaxis.ticktext[0] == "&lt;b&gt;&amp;amp;&#36;x&#36; &lt;img a&gt;"
    assert token in figures.alt_text(figs[0])


@pytest.mark.parametrize(
    ("fig", "finding"),
    [
        (figures.softmax_saturation(softmaxes()), "64 without 1/√d: entropy 0.03 nats instead of 2.00, gradient 1.6 %"),
        (figures.jacobian_spectrum(jacobians()), "2 of 4 directions get no gradient; the others are multiplied by 0.5"),
        (figures.jacobian_norm(jacobian_norms()), "to the power −1.00"),
    ],
)
def test_titles_have_the_numbers_of_the_table(fig, finding):
    """Oracle: 2/64 nats and 1/64 of the gradient at d = 64; two of four singular values vanish; values halve."""
    assert finding in title(fig)


def test_before_and_after_give_mean_and_variance_of_each():
    """Oracle: the slide's σ gives variance d = 4, the right formula 1."""
    names = [t.name for t in vector().data]
    assert names[1:] == ["right: mean 0.00, variance 1.00", "the talk's σ: mean 0.00, variance 4.00"]
    np.testing.assert_allclose(vector().data[0].y, [1, 2, 4, 9])


def test_an_empty_sentence_or_vector_gives_a_sentence_too():
    """Oracle: no traces."""
    assert not figures.attention_map(np.zeros((1, 0, 0)), []).data
    assert not figures.layer_norm_before_after(np.zeros(0), {}).data
