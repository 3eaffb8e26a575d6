"""Schedules against the paper's formula, optimisers against torch and against their definitions."""

from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lntutor.model.config import ModelConfig, TrainConfig
from lntutor.training.optimizers import (
    BETAS,
    EPS,
    GIAdam,
    adam_over_runs,
    adam_updates,
    groups,
    learning_rate,
    noisy_gradients,
    optimizer,
    rates,
    set_rates,
    spread_of_noise,
    warm,
)

SCHEDULES = ("inverse_sqrt", "constant", "linear")


@pytest.mark.parametrize(("step", "share"), [(1, 1 / 4000), (2000, 0.5), (4000, 1), (16000, 0.5), (36000, 1 / 3)])
def test_the_papers_schedule_grows_on_a_line_and_falls_as_the_inverse_root(step, share):
    """Oracle: Xiong et al. 2020, eq. 1, by hand: t/4000 up to 4000 steps, then √(4000/t)."""
    how = TrainConfig(lr=5e-4, warmup=4000, steps=40000)
    assert learning_rate(how, step) == pytest.approx(5e-4 * share)


def test_without_warm_up_the_rate_is_constant_and_the_papers_one_step_decays_at_once():
    """Oracle: the definition of warm-up 0, and eq. 1 with T = 1."""
    assert {learning_rate(TrainConfig(lr=0.1, warmup=0), t) for t in (1, 7, 500)} == {0.1}
    assert learning_rate(TrainConfig(lr=0.1, warmup=1), 25) == pytest.approx(0.1 / 5)


def test_a_straight_line_ends_one_step_after_the_last():
    """Oracle: by hand, 10 steps, 2 of warm-up: 9 equal parts down from the second step."""
    how = TrainConfig(lr=9.0, warmup=2, steps=10, schedule="linear")
    assert [learning_rate(how, t) for t in range(1, 12)] == pytest.approx([4.5, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0])


@given(
    schedule=st.sampled_from(SCHEDULES), warmup=st.integers(0, 300), steps=st.integers(300, 2000), lr=st.floats(1e-5, 1)
)
def test_every_schedule_rises_to_the_highest_rate_at_the_end_of_warm_up_and_never_after(schedule, warmup, steps, lr):
    """Oracle: what warm-up means."""
    how = TrainConfig(lr=lr, warmup=warmup, steps=steps, schedule=schedule)
    rates = np.array([learning_rate(how, t) for t in range(1, steps + 1)])
    assert rates.max() == pytest.approx(lr if warmup or schedule != "linear" else lr * steps / (steps + 1))
    assert (np.diff(rates[:warmup]) > 0).all()
    assert (np.diff(rates[max(warmup - 1, 0) :]) <= 0).all()
    cold = np.array([learning_rate(how, t, warmed=False) for t in range(1, steps + 1)])
    assert (cold >= rates).all()
    assert cold[warmup:] == pytest.approx(rates[warmup:])


def scheduled_by_torch(how):
    """The rates of torch's own schedulers, one after the other; each begins with the value at its first step."""
    sgd, part = torch.optim.SGD([torch.zeros(1, requires_grad=True)], how.lr), torch.optim.lr_scheduler
    left, found = how.steps - how.warmup, []
    after = {
        "constant": part.ConstantLR(sgd, factor=1),
        "linear": part.LinearLR(sgd, left / (left + 1), 0, left),
        "inverse_sqrt": part.LambdaLR(sgd, lambda k: sqrt(how.warmup / (how.warmup + 1 + k))),
    }
    grow = part.LinearLR(sgd, 1 / how.warmup, 1, how.warmup - 1)
    both = part.SequentialLR(sgd, [grow, after[how.schedule]], [how.warmup])
    for _ in range(how.steps):
        found.append(sgd.param_groups[0]["lr"])
        sgd.step()
        both.step()
    return found


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_table_of_rates_is_that_of_torchs_schedulers_and_its_sums_are_areas(schedule):
    """Oracle: torch's LinearLR and what follows it; by hand, the sum 1 + 2 + … of a warm-up, and of a constant rate."""
    how = TrainConfig(lr=0.02, warmup=8, steps=30, schedule=schedule)
    table = rates(how)
    assert table["step"].tolist() == list(range(1, 31))
    np.testing.assert_allclose(table["value"], scheduled_by_torch(how), rtol=1e-12)
    np.testing.assert_allclose(table["sum"].iloc[7], 0.02 * (8 + 1) / 2)
    if schedule == "constant":
        np.testing.assert_allclose(table["sum"].iloc[-1], 0.02 * (4.5 + 22))


@pytest.mark.parametrize(
    ("setting", "warm"),
    [
        ({}, {"encoder.1", "encoder.2", "decoder.1", "decoder.2", "embedding"}),
        ({"warmup_only": ("decoder.2",)}, {"decoder.2"}),
        ({"warmup_except": ("decoder.2",)}, {"encoder.1", "encoder.2", "decoder.1", "embedding"}),
        ({"warmup_only": ("encoder",)}, {"encoder.1", "encoder.2"}),
        ({"warmup_except": ("encoder", "decoder.1")}, {"decoder.2", "embedding"}),
    ],
)
def test_layers_are_warmed_up_as_they_are_named(setting, warm):
    """Oracle: the sets, by hand."""
    group_of = groups(ModelConfig(depth=2), TrainConfig(warmup=10, **setting))
    names = [(side, layer, "ffn", "W_1") for side in ("encoder", "decoder") for layer in (1, 2)]
    found = {f"{side}.{layer}" for side, layer, *_ in names if group_of((side, layer, "ffn", "W_1")) == "warm"}
    found |= {"embedding"} if group_of(("embedding", "encoder")) == "warm" else set()
    assert found == warm


def test_one_flat_buffer_learns_as_many_tensors_do():
    """Oracle: torch's RAdam, one parameter per tensor, on a quadratic loss; test_network has Adam and SGD."""
    how = TrainConfig("radam", lr=1e-2, warmup=4, steps=10)
    parts = [torch.randn(3, 4, dtype=torch.float64), torch.randn(5, dtype=torch.float64)]
    flat = torch.cat([p.flatten() for p in parts])
    leaves = [p.clone().requires_grad_() for p in parts]
    ours, theirs = optimizer(how, {"warm": flat}), torch.optim.RAdam(leaves, betas=BETAS, eps=EPS)
    for step in range(1, 11):
        flat.grad = flat.sin() * flat
        set_rates(ours, how, step)
        ours.step()
        for leaf in leaves:
            leaf.grad = (leaf.sin() * leaf).detach()
        theirs.param_groups[0]["lr"] = learning_rate(how, step)
        theirs.step()
    torch.testing.assert_close(flat, torch.cat([p.detach().flatten() for p in leaves]), rtol=1e-12, atol=1e-12)


def test_gi_adam_is_adam_with_the_first_square_as_its_start():
    """Oracle: Adam's recursion in numpy with v₀ = g₀² (Kalra & Barkeshli 2024)."""
    rng, (b1, b2), lr = np.random.default_rng(0), BETAS, 0.1
    gradients = rng.normal(size=(6, 8))
    x, m, v = np.ones(8), np.zeros(8), gradients[0] ** 2
    flat = torch.ones(8, dtype=torch.float64)
    ours = GIAdam([flat], lr, BETAS, EPS)
    for t, g in enumerate(gradients, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        x = x - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + EPS)
        flat.grad = torch.from_numpy(g)
        ours.step()
        np.testing.assert_allclose(flat.numpy(), x, rtol=1e-12)


def test_the_first_step_is_the_rate_in_every_coordinate_and_a_seventh_of_it_with_gi_adam():
    """Oracle: closed forms ±η and ±η√(1 − β₂), whatever the gradient's size."""
    gradient = torch.tensor([1e-3, -2.0, 300.0], dtype=torch.float64)
    for name, size in {"adam": 1.0, "gi_adam": sqrt(1 - BETAS[1])}.items():
        flat = torch.zeros(3, dtype=torch.float64)
        flat.grad = gradient.clone()
        opt = optimizer(TrainConfig(name, lr=0.01), {"warm": flat})
        set_rates(opt, TrainConfig(name, lr=0.01), 1)
        opt.step()
        torch.testing.assert_close(flat, -0.01 * size * gradient.sign(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("betas", [BETAS, (0.0, 0.999), (0.5, 0.0)])
def test_the_steps_of_one_weight_are_torchs(betas):
    """Oracle: torch.optim.Adam on the same gradients, step by step."""
    gradients = noisy_gradients(0.3, 1.0, steps=12, runs=5)
    weights = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    adam, found = torch.optim.Adam([weights], lr=1.0, betas=betas, eps=EPS), []
    for g in gradients:
        before, weights.grad = weights.detach().clone(), torch.from_numpy(g)
        adam.step()
        found.append((before - weights.detach()).numpy())
    np.testing.assert_allclose(adam_updates(gradients, betas), found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1.0, 1e5])
def test_the_first_step_is_one_whatever_the_gradient_and_without_the_correction_it_is_not(scale):
    """Oracle: closed forms, ±1 and ±(1 − β₁)/√(1 − β₂), but for ε."""
    gradients = scale * noisy_gradients(0.0, 1.0, steps=1, runs=20)
    size = np.abs(gradients)
    np.testing.assert_allclose(adam_updates(gradients), gradients / (size + EPS), rtol=1e-10)
    bare = adam_updates(gradients, (0.9, 0.999), corrected=False)
    np.testing.assert_allclose(np.abs(bare), 0.1 * size / (sqrt(0.001) * size + EPS), rtol=1e-10)


def test_noise_moves_a_weight_by_a_known_share_of_the_rate_in_the_long_run():
    """Oracle: the variance of a running mean of noise, (1 − β₁)/(1 + β₁); at the first step all of the rate."""
    table = adam_over_runs(noisy_gradients(0.0, 1.0, steps=600, runs=400), TrainConfig(warmup=0), (0.9, 0.999))
    spread = table[table["correction"] == "with"]["spread"].to_numpy()
    assert spread[0] == pytest.approx(1, abs=0.01)
    assert spread[300:].mean() == pytest.approx(sqrt(0.1 / 1.9), rel=0.05)
    assert spread_of_noise(0.9) == pytest.approx(sqrt(0.1 / 1.9))


def test_the_table_over_runs_has_numpys_numbers_and_warm_up_multiplies_them():
    """Oracle: numpy over the runs of adam_updates; t/T by hand. A run more leaves the others as they are."""
    gradients, how = noisy_gradients(0.5, 1.0, steps=20, runs=7), TrainConfig(warmup=10)
    np.testing.assert_array_equal(noisy_gradients(0.5, 1.0, steps=30, runs=8)[:20, :7], gradients)
    table = adam_over_runs(gradients, how, BETAS)
    factor = np.minimum(1, np.arange(1, 21) / 10)[:, None]
    assert [warm(how, t) for t in (1, 10, 20)] == [0.1, 1, 1]
    for name, corrected in {"with": True, "without": False}.items():
        part, updates = table[table["correction"] == name], factor * adam_updates(gradients, corrected=corrected)
        np.testing.assert_allclose(part["mean"], updates.mean(1))
        np.testing.assert_allclose(part["spread"], updates.std(1))
        np.testing.assert_allclose(part["first"], updates[:, 0])
        inside = (updates >= part["low"].to_numpy()[:, None]) & (updates <= part["high"].to_numpy()[:, None])
        assert set(inside.sum(1)) == {5}  # of 7
