"""The weight bank: the same samples for everyone, nested, deterministic, under a limit."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import lntutor as ln
from lntutor.measure.inputs import feed, word_numbers
from lntutor.model.parameters import Matrix, matrices, scale, std
from lntutor.model.placements import Box
from lntutor.model.weight_bank import BANK, GIB, MEMORY, WeightBank, Weights, bytes_needed, memory_limit
from tests.processes import run_python


@given(st.integers(1, 150), st.integers(1, 150), st.integers(0, 150), st.integers(0, 150), st.booleans())
def test_a_smaller_matrix_is_a_corner_of_a_larger_one(rows, columns, more, wider, large_first):
    """Oracle: a second bank that never saw the other size."""
    one, other = WeightBank(), WeightBank()
    if large_first:
        one.samples(0, ("W",), rows + more, columns + wider)
    small = one.samples(0, ("W",), rows, columns).clone()
    large = one.samples(0, ("W",), rows + more, columns + wider)
    assert torch.equal(large[:rows, :columns], small)
    assert torch.equal(other.samples(0, ("W",), rows + more, columns + wider), large)


def test_samples_are_the_same_in_another_process():
    """Oracle: a process with another hash seed."""
    code = (
        "import hashlib; from lntutor.model.weight_bank import WeightBank; "
        "drawn = WeightBank().samples(3, ('decoder', 2, 'ffn', 'W_1'), 70, 130).numpy(); "
        "print(hashlib.sha256(drawn.tobytes()).hexdigest())"
    )
    answers = {run_python(code, PYTHONHASHSEED=seed).strip() for seed in "12"}
    here = WeightBank().samples(3, ("decoder", 2, "ffn", "W_1"), 70, 130).numpy()
    assert answers == {hashlib.sha256(here.tobytes()).hexdigest()}


def test_samples_are_standard_normal_and_names_are_independent():
    """Oracle: moments of N(0, 1); bounds are six standard errors."""
    a = BANK.samples(0, ("test", "a"), 512, 512).numpy().astype(float)
    b = BANK.samples(0, ("test", "b"), 512, 512).numpy().astype(float)
    n = a.size
    assert abs(a.mean()) < 6 / n**0.5
    assert abs(a.var() - 1) < 6 * (2 / n) ** 0.5
    assert abs((a**4).mean() - 3) < 6 * (96 / n) ** 0.5
    assert abs((a * b).mean()) < 6 / n**0.5
    assert abs((a[:, :64] * a[:, 64:128]).mean()) < 6 / (512 * 64) ** 0.5


@pytest.mark.parametrize("stack", ["encoder", "decoder", "encoder-decoder"])
def test_every_placement_reads_the_same_samples_bit_for_bit(stack):
    """Oracle: the samples of Post-LN, times the ratio of scales."""
    base = ln.ModelConfig("post", depth=3, width=32, heads=2, ffn=48, stack=stack)
    for key in ln.PLACEMENTS:
        cfg = base.with_(placement=key)
        for m in matrices(cfg):
            unit = BANK.samples(5, m.name, *m.shape)
            assert torch.equal(Weights(cfg, (5,))[m.name], unit * scale(cfg, m))
            assert scale(cfg, m) == scale(base, m) or key in ("deepnorm", "tfixup")


def test_depth_width_and_tokens_are_nested():
    """Oracle: the smaller model's own weights and inputs."""
    small = ln.ModelConfig(depth=2, width=32, heads=2, ffn=64, init="theory")
    large = small.with_(depth=5, width=96, ffn=160)
    for m in matrices(small):
        if m.parameter != "W_2":
            rows, columns = m.shape
            one, other = (Weights(cfg, (0,))[m.name] * cfg.width**0.5 for cfg in (small, large))
            assert torch.allclose(other[:rows, :columns], one, rtol=1e-6)
    few = feed(small, ln.Inputs(tokens=5, batch=2), (0,), torch.float32).sequences[1].x.unflatten(0, (2, 5))
    many = feed(large, ln.Inputs(tokens=9, batch=2), (0,), torch.float32).sequences[1].x.unflatten(0, (2, 9))
    assert torch.equal(many[:, :5, :32], few)


def test_targets_are_drawn_without_replacement_and_nested_in_tokens():
    """Oracle: sets."""
    cfg = ln.ModelConfig()
    many = word_numbers(cfg, ln.Inputs(tokens=40, batch=5), (0, 1))["labels"]
    few = word_numbers(cfg, ln.Inputs(tokens=7, batch=5), (0, 1))["labels"]
    assert many.shape == (2, 5, 40)
    assert all(len(set(row.ravel().tolist())) == 200 for row in many)
    assert np.array_equal(many[:, :, :7], few)


def test_scales_are_those_of_torch():
    """Oracle: the spread of what torch itself draws."""
    torch.manual_seed(0)
    d, f = 256, 1024
    model = nn.Transformer(d, 4, 1, 1, f, batch_first=True)
    layer = model.encoder.layers[0]
    attention = layer.self_attn
    drawn = {"W_Q": attention.in_proj_weight[:d], "W_V": attention.in_proj_weight[2 * d :]}
    drawn |= {"W_O": attention.out_proj.weight, "W_1": layer.linear1.weight, "W_2": layer.linear2.weight}
    for parameter, w in drawn.items():
        shape = tuple(w.T.shape)
        error = 6 * (0.4 / w.numel()) ** 0.5  # six standard errors: the kurtosis of a uniform is 1.8
        assert abs(float(w.detach().std()) / std("torch", parameter, shape) - 1) < error, parameter
    assert std("xavier", "W_Q", (d, d)) == pytest.approx(d**-0.5)
    assert std("theory", "W_2", (f, d)) == pytest.approx(f**-0.5)


def test_the_limit_holds_and_the_least_recently_used_leave_first():
    """Oracle: bytes counted by hand."""
    bank = WeightBank(limit=5 * 64 * 64 * 4)
    for i in range(8):
        bank.samples(0, ("W", i), 64, 64)
        bank.samples(0, ("W", 0), 64, 64)  # always in use
        assert bank.used <= bank.limit
    kept = {key[-1] for key in bank._kept}
    assert kept == {0, 4, 5, 6, 7}
    assert bank.used == sum(t.nbytes for t in bank._kept.values())
    bank.clear()
    assert bank.used == 0


def test_a_config_beyond_the_limit_is_refused_before_anything_is_drawn():
    """Oracle: the parameter count of 64-64 at width 2048."""
    cfg = ln.ModelConfig(depth=64, width=2048, ffn=8192)
    assert bytes_needed(cfg, ln.Inputs()) > 4 * 64 * (12 * 2048**2 + 4 * 2048 * 8192)
    before = BANK.used
    with pytest.raises(ValueError, match=r"needs \d+\.\d GiB, the limit is 2\.0 GiB; make one of them smaller"):
        ln.gradient_norms(cfg)
    with pytest.raises(ValueError, match=r"tokens=4096, batch=16 needs"):
        ln.signal_norms(ln.ModelConfig(), inputs=ln.Inputs(tokens=4096, batch=16, vocab=65536))
    assert BANK.used == before


def test_a_server_can_say_how_much_memory_weights_take():
    """Oracle: 512 MB are 2^29 bytes; what is not a number of MB is said."""
    assert memory_limit({MEMORY: "512"}) == 2**29
    assert memory_limit({}) == memory_limit({MEMORY: ""}) == 2 * GIB
    for wrong in ("2G", "0", "-1", "1.5"):
        with pytest.raises(ValueError, match=f"LNTUTOR_MEMORY must be a whole number of MB .* got '{wrong}'"):
            memory_limit({MEMORY: wrong})


def test_a_failed_call_leaves_nothing_in_the_bank():
    """Oracle: the bytes held before."""
    calls = []

    def fails_when_measured(x, subs, N, at):
        if not isinstance(x, Box):
            calls.append(at.layer)
            raise RuntimeError("a reader's mistake")
        return x

    cfg = ln.ModelConfig(ln.Placement("Broken", "x ← ?", fails_when_measured), depth=2, width=48, heads=2, ffn=48)
    BANK.clear()
    with pytest.raises(RuntimeError, match="a reader's mistake"):
        ln.gradient_norms(cfg, seeds=(77,))
    assert calls == [1]
    assert not [key for key in BANK._kept if "W_1" in str(key)]  # no weight was drawn for it
    good = ln.gradient_norms(cfg.with_(placement="post"), seeds=(77,))
    BANK.clear()
    assert good.equals(ln.gradient_norms(cfg.with_(placement="post"), seeds=(77,)))


def test_two_threads_get_the_same_weights_as_one():
    """Oracle: the same request made alone."""
    cfg = ln.ModelConfig(depth=3, width=64, heads=2, ffn=96)

    def drawn(_=None):
        return [Weights(cfg, (9,))[m.name].clone() for m in matrices(cfg)]

    alone = drawn()
    BANK.clear()
    with ThreadPoolExecutor(4) as pool:
        assert all(all(map(torch.equal, weights, alone)) for weights in pool.map(drawn, range(4)))


def test_the_matrices_of_a_model_are_counted_right():
    """Oracle: torch's own parameter count for the same model, its matrices only."""
    cfg = ln.ModelConfig(depth=2, width=32, heads=2, ffn=64)
    model = nn.Transformer(32, 2, 2, 2, 64, batch_first=True)
    ours = sum(m.shape[0] * m.shape[1] for m in matrices(cfg))
    assert ours == sum(p.numel() for p in model.parameters() if p.dim() > 1)
    assert Matrix("encoder", 1, "self", "W_Q", (32, 32)) in set(matrices(cfg))
    assert not [m for m in matrices(cfg.with_(attention="uniform")) if m.parameter in ("W_Q", "W_K")]
    assert not [m for m in matrices(cfg.with_(output_projection=False)) if m.parameter == "W_O"]
