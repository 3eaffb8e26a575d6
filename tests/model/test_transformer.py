"""The Transformer against torch's own layers, with every weight, bias and gain copied."""

from itertools import product

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import lntutor as ln
from lntutor.measure.recorder import Recorder
from lntutor.model.parameters import positions
from lntutor.model.transformer import Packing, Sequence, Transformer
from tests.reference import TorchLayers, matrix_leaves, moved_weights

CFG = ln.ModelConfig(depth=3, width=32, heads=4, ffn=48)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_forward_and_gradients_equal_torchs_layers(placement):
    """Oracle: torch's encoder and decoder layers, forward and every gradient, in float64; float32 to its round-off."""
    cfg = CFG.with_(placement=placement)
    weights = moved_weights(cfg)
    twin, random = TorchLayers(cfg, weights), torch.Generator().manual_seed(1)
    source, target, probe = (torch.randn(2, n, 32, generator=random, dtype=torch.float64) for n in (7, 5, 5))
    flat = [x.flatten(0, 1) for x in (source, target)]
    ours, theirs = Transformer(cfg, weights)(*(Sequence(x, 2) for x in flat)), twin.run(source, target)
    torch.testing.assert_close(ours.unflatten(0, (2, 5)), theirs, rtol=1e-10, atol=1e-10)
    single = {name: w.detach().float() for name, w in weights.items()}
    rough = Transformer(cfg, single)(*(Sequence(x.float(), 2) for x in flat))
    assert (rough.double() - ours).abs().max() < 32 * torch.finfo(torch.float32).eps
    (ours * probe.flatten(0, 1)).sum().backward()
    (theirs * probe).sum().backward()
    for side, i in product(("encoder", "decoder"), range(1, 4)):
        layer = getattr(twin, side)[i - 1]
        wanted = {("norm", 1, "gain"): layer.norm2.weight.grad}
        attentions = {"self": layer.self_attn} | ({"cross": layer.multihead_attn} if side == "decoder" else {})
        for block, attention in attentions.items():
            for p, grad in zip("QKV", attention.in_proj_weight.grad.chunk(3), strict=True):
                wanted[block, f"W_{p}"] = grad.T
        linears = {("self", "O"): layer.self_attn.out_proj, ("ffn", "1"): layer.linear1, ("ffn", "2"): layer.linear2}
        for (block, p), linear in linears.items():
            wanted |= {(block, f"W_{p}"): linear.weight.grad.T, (block, f"b_{p}"): linear.bias.grad}
        for name, expected in wanted.items():
            torch.testing.assert_close(weights[side, i, *name].grad, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("stack", ["encoder", "decoder", "encoder-decoder"])
def test_uniform_attention_is_softmax_with_zero_queries_and_keys(stack):
    """Oracle: the theorem's W_Q = W_K = 0 put into softmax attention."""
    cfg = CFG.with_(stack=stack)
    leaves = matrix_leaves(cfg, 0)
    for name in leaves:
        if name[3] in ("W_Q", "W_K"):
            leaves[name] = torch.zeros_like(leaves[name])
    sequences = [
        Sequence(torch.randn(10, 32, generator=torch.Generator().manual_seed(i), dtype=torch.float64), 2)
        for i in range(len(cfg.sides))
    ]
    softmax = Transformer(cfg, leaves)(*sequences)
    uniform = Transformer(cfg.with_(attention="uniform"), leaves)(*sequences)
    torch.testing.assert_close(uniform, softmax, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("attention", ["softmax", "uniform"])
def test_padding_changes_nothing_for_the_words(attention):
    """Oracle: each sentence run alone, without padding."""
    cfg = CFG.with_(attention=attention)
    model = Transformer(cfg, matrix_leaves(cfg, 0))
    random = torch.Generator().manual_seed(4)
    source, target = (torch.randn(2, n, 32, generator=random, dtype=torch.float64) for n in (6, 5))
    lengths = {"source": (6, 3), "target": (2, 5)}
    real = [torch.arange(n)[None] < torch.tensor(lengths[k])[:, None] for k, n in (("source", 6), ("target", 5))]
    padded = [Sequence(x.flatten(0, 1), 2, r) for x, r in zip((source, target), real, strict=True)]
    packed = [Sequence(x[r], 2, r, Packing(r)) for x, r in zip((source, target), real, strict=True)]
    assert len(model(*packed)) == 2 + 5  # words, and nothing else
    for together in (model(*padded).unflatten(0, (2, 5)), packed[1].laid_out(model(*packed))):
        for i in range(2):
            n, m = lengths["source"][i], lengths["target"][i]
            alone = model(Sequence(source[i, :n]), Sequence(target[i, :m]))
            torch.testing.assert_close(together[i, :m], alone, rtol=1e-10, atol=1e-10)


def test_rms_runs_through_the_whole_model():
    """Oracle: one Post-LN layer with F.rms_norm in place of LN."""
    cfg = ln.ModelConfig("post", 1, 16, 2, 24, "encoder", "uniform", norm="rms")
    leaves = matrix_leaves(cfg, 0)
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    W = {name[3]: w for name, w in leaves.items()}
    y = F.rms_norm(x + (x.mean(0) @ W["W_V"] @ W["W_O"]), (16,), eps=1e-5)
    expected = F.rms_norm(y + (y @ W["W_1"]).relu() @ W["W_2"], (16,), eps=1e-5)
    torch.testing.assert_close(Transformer(cfg, leaves)(Sequence(x)), expected)


def test_second_derivatives_exist_and_are_right():
    """Oracle: finite differences of the gradient (torch's gradgradcheck)."""
    cfg = ln.ModelConfig("post", 1, 4, 2, 6)
    leaves = matrix_leaves(cfg, 0)

    def loss(x, w):
        weights = leaves | {("decoder", 1, "self", "W_Q"): w}
        return Transformer(cfg, weights)(Sequence(x), Sequence(x)).square().mean() ** 2

    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(8), dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradgradcheck(loss, (x, leaves["decoder", 1, "self", "W_Q"]))


def test_the_watch_sees_attention_weights_that_are_softmax_of_the_scores():
    """Oracle: F.scaled_dot_product_attention on the same q, k, v."""
    watch = Recorder()
    cfg = CFG.with_(stack="decoder")
    x = torch.randn(10, 32, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    with torch.no_grad():
        Transformer(cfg, matrix_leaves(cfg, 0), watch)(Sequence(x, 2))
    q, k, v, weights, heads = watch.maps["decoder", 2, "self"]
    torch.testing.assert_close(heads, F.scaled_dot_product_attention(q, k, v, is_causal=True))
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert (weights.triu(1) == 0).all()


def test_positions_are_the_sinusoids_of_the_paper():
    """Oracle: Vaswani et al. 2017, section 3.5, entry by entry; odd widths end in a sine."""
    table = positions(6, 9)
    for pos in range(6):
        for i in range(9):
            angle = pos / 10000 ** (2 * (i // 2) / 9)
            assert table[pos, i] == pytest.approx(np.sin(angle) if i % 2 == 0 else np.cos(angle))
