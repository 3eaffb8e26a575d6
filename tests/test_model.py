"""The Transformer against torch's own layers, with every weight, bias and gain copied."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lntutor as ln
from lntutor.measure import Recorder
from lntutor.model import Packing, Sequence, Transformer, average, normalise
from lntutor.reading import positions
from tests.reference import DECODER, ENCODER, Leaves, torch_layer

CFG = ln.ModelConfig(depth=3, width=32, heads=4, ffn=48)


def dressed(cfg, seed=0):
    """Our matrices with random biases and gains beside them, as after some training."""
    weights, random = Leaves.of(cfg, seed), torch.Generator().manual_seed(seed)

    def leaf(size, centre):
        return (centre + 0.1 * torch.randn(size, generator=random, dtype=torch.float64)).requires_grad_()

    for name, w in list(weights.items()):
        weights[(*name[:3], name[3].replace("W", "b"))] = leaf(w.shape[1], 0)
    for side in cfg.sides:
        count = 3 if side == "decoder" and cfg.stack == "encoder-decoder" else 2
        for layer in range(1, cfg.depth + 1):
            for i in range(count):
                weights[side, layer, "norm", i, "gain"] = leaf(cfg.width, 1)
                weights[side, layer, "norm", i, "bias"] = leaf(cfg.width, 0)
        for part, centre in (("gain", 1), ("bias", 0)):
            weights[side, cfg.depth + 1, "norm", 0, part] = leaf(cfg.width, centre)
    return weights


def torch_twin(cfg, weights, norm_first):
    """The same encoder–decoder from torch's layers, with a final norm for Pre-LN only."""

    def final(side):
        if not norm_first:
            return lambda x: x
        return lambda x: F.layer_norm(
            x, (cfg.width,), *(weights[side, cfg.depth + 1, "norm", 0, p].detach() for p in ("gain", "bias"))
        )

    layers = {
        side: [torch_layer(cfg, weights, side, i, cls, norm_first) for i in range(1, cfg.depth + 1)]
        for side, cls in (("encoder", ENCODER), ("decoder", DECODER))
    }

    def run(source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.float64)
        for layer in layers["encoder"]:
            source = layer(source)
        memory = final("encoder")(source)
        for layer in layers["decoder"]:
            target = layer(target, memory, tgt_mask=mask)
        return final("decoder")(target)

    return run, layers


@pytest.mark.parametrize(("placement", "norm_first"), [("post", False), ("pre", True)])
def test_forward_and_gradients_equal_torchs_layers(placement, norm_first):
    """Oracle: nn.TransformerEncoderLayer and nn.TransformerDecoderLayer, forward and every gradient, in float64."""
    cfg = CFG.with_(placement=placement)
    weights = dressed(cfg)
    twin, layers = torch_twin(cfg, weights, norm_first)
    random = torch.Generator().manual_seed(1)
    source, target, probe = (torch.randn(2, n, 32, generator=random, dtype=torch.float64) for n in (7, 5, 5))
    ours = Transformer(cfg, weights)(Sequence(source.flatten(0, 1), 2), Sequence(target.flatten(0, 1), 2))
    theirs = twin(source, target)
    torch.testing.assert_close(ours.unflatten(0, (2, 5)), theirs, rtol=1e-10, atol=1e-10)
    (ours * probe.flatten(0, 1)).sum().backward()
    (theirs * probe).sum().backward()
    for side in ("encoder", "decoder"):
        for i, layer in enumerate(layers[side], 1):
            packed = layer.self_attn.in_proj_weight.grad.chunk(3)
            pairs = [("self", p, g.T) for p, g in zip(("W_Q", "W_K", "W_V"), packed, strict=True)]
            pairs += [
                ("self", "W_O", layer.self_attn.out_proj.weight.grad.T),
                ("self", "b_O", layer.self_attn.out_proj.bias.grad),
            ]
            pairs += [("ffn", "W_1", layer.linear1.weight.grad.T), ("ffn", "W_2", layer.linear2.weight.grad.T)]
            pairs += [("ffn", "b_1", layer.linear1.bias.grad), ("ffn", "b_2", layer.linear2.bias.grad)]
            if side == "decoder":
                packed = layer.multihead_attn.in_proj_weight.grad.chunk(3)
                pairs += [("cross", p, g.T) for p, g in zip(("W_Q", "W_K", "W_V"), packed, strict=True)]
            for block, parameter, expected in pairs:
                torch.testing.assert_close(weights[side, i, block, parameter].grad, expected, rtol=1e-8, atol=1e-9)
            torch.testing.assert_close(
                weights[side, i, "norm", 1, "gain"].grad, layer.norm2.weight.grad, rtol=1e-8, atol=1e-9
            )


@pytest.mark.parametrize(("placement", "norm_first"), [("post", False), ("pre", True)])
def test_float32_equals_torchs_layers_to_round_off(placement, norm_first):
    """Oracle: torch's layers in float64; float32 may differ by its round-off, 32 ε here."""
    cfg = CFG.with_(placement=placement)
    weights = dressed(cfg)
    twin, _ = torch_twin(cfg, weights, norm_first)
    x = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    single = Leaves({name: w.detach().float() for name, w in weights.items()})
    ours = Transformer(cfg, single)(Sequence(x.flatten(0, 1).float(), 2), Sequence(x.flatten(0, 1).float(), 2))
    error = (ours.double().unflatten(0, (2, 6)) - twin(x, x)).abs().max()
    assert error < 32 * torch.finfo(torch.float32).eps


def test_a_decoder_cannot_see_ahead_and_an_encoder_can():
    """Oracle: change the last token and see which outputs move."""
    for stack, moved in (("decoder", [False, False, True]), ("encoder", [True, True, True])):
        cfg = CFG.with_(stack=stack)
        for attention in ("softmax", "uniform"):
            model = Transformer(cfg.with_(attention=attention), Leaves.of(cfg, 0))
            x = torch.randn(3, 32, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
            other = x.clone()
            other[2] += 1
            difference = (model(Sequence(x)) - model(Sequence(other))).abs().amax(-1) > 1e-12
            assert difference.tolist() == moved


@pytest.mark.parametrize("stack", ["encoder", "decoder", "encoder-decoder"])
def test_uniform_attention_is_softmax_with_zero_queries_and_keys(stack):
    """Oracle: the theorem's W_Q = W_K = 0 put into softmax attention."""
    cfg = CFG.with_(stack=stack)
    leaves = Leaves.of(cfg, 0)
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
    model = Transformer(cfg, Leaves.of(cfg, 0))
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


def test_several_networks_run_together_as_they_do_alone():
    """Oracle: each seed by itself."""
    cfg = CFG.with_(placement="pre")
    one, other = Leaves.of(cfg, 0), Leaves.of(cfg, 1)
    both = Leaves({name: torch.stack([one[name], other[name]]) for name in one})
    x = torch.randn(2, 12, 32, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    together = Transformer(cfg, both)(Sequence(x, 3), Sequence(x, 3))
    for i, leaves in enumerate((one, other)):
        alone = Transformer(cfg, leaves)(Sequence(x[i], 3), Sequence(x[i], 3))
        torch.testing.assert_close(together[i], alone, rtol=1e-10, atol=1e-10)


def test_norms_equal_torchs():
    """Oracle: F.layer_norm's definition by hand, and F.rms_norm."""
    x = 3 + 2 * torch.randn(5, 16, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    by_hand = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(normalise(x, "layer"), by_hand)
    torch.testing.assert_close(normalise(x, "rms"), F.rms_norm(x, (16,), eps=1e-5))


def test_rms_runs_through_the_whole_model():
    """Oracle: one Post-LN layer with F.rms_norm in place of LN."""
    cfg = ln.ModelConfig("post", 1, 16, 2, 24, "encoder", "uniform", norm="rms")
    leaves = Leaves.of(cfg, 0)
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    W = {name[3]: w for name, w in leaves.items()}
    y = F.rms_norm(x + (x.mean(0) @ W["W_V"] @ W["W_O"]), (16,), eps=1e-5)
    expected = F.rms_norm(y + (y @ W["W_1"]).relu() @ W["W_2"], (16,), eps=1e-5)
    torch.testing.assert_close(Transformer(cfg, leaves)(Sequence(x)), expected)


def test_second_derivatives_exist_and_are_right():
    """Oracle: finite differences of the gradient (torch's gradgradcheck)."""
    cfg = ln.ModelConfig("post", 1, 4, 2, 6)
    leaves = Leaves.of(cfg, 0)

    def loss(x, w):
        weights = Leaves({**leaves, ("decoder", 1, "self", "W_Q"): w})
        return Transformer(cfg, weights)(Sequence(x), Sequence(x)).square().mean() ** 2

    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(8), dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradgradcheck(loss, (x, leaves["decoder", 1, "self", "W_Q"]))


def test_the_watch_sees_attention_weights_that_are_softmax_of_the_scores():
    """Oracle: F.scaled_dot_product_attention on the same q, k, v."""
    watch = Recorder()
    cfg = CFG.with_(stack="decoder")
    x = torch.randn(10, 32, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    with torch.no_grad():
        Transformer(cfg, Leaves.of(cfg, 0), watch)(Sequence(x, 2))
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


def test_average_is_the_mean_of_what_is_visible():
    """Oracle: numpy's mean over each row's visible tokens."""
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(10), dtype=torch.float64)
    visible = torch.ones(1, 1, 4, 4, dtype=torch.bool).tril()
    for i in range(4):
        np.testing.assert_allclose(average(x, visible)[:, i], x[:, : i + 1].mean(1))
    np.testing.assert_allclose(average(x, None)[:, 0], x.mean(1))
