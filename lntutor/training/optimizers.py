"""Learning rates as functions of the step, and the optimisers."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
import pandas as pd
import torch

from lntutor.model.config import ModelConfig, TrainConfig
from lntutor.model.random_streams import random_stream

BETAS = (0.9, 0.98)  # of Adam and its relatives, as in Vaswani et al. 2017 and Xiong et al. 2020
EPS = 1e-8


def warm(how: TrainConfig, step: int) -> float:
    """Warm-up's factor on the rate at step t = 1, 2, …: t/T up to T steps, then 1."""
    return min(1.0, step / how.warmup) if how.warmup else 1.0


def decay(how: TrainConfig, step: int) -> float:
    """The schedule's factor on the rate after T steps of warm-up: √(T/t), 1, or a straight line to zero.

    With T = 0 the inverse square root has no scale, and the rate stays constant.
    """
    late = step - how.warmup
    if late <= 0 or how.schedule == "constant":
        return 1.0
    if how.schedule == "linear":
        return max(0.0, 1 - late / (how.steps + 1 - how.warmup))
    return sqrt(how.warmup / step) if how.warmup else 1.0


def learning_rate(how: TrainConfig, step: int, *, warmed: bool = True) -> float:
    """The rate at a step, from 1 (Xiong et al. 2020, eq. 1): lr·t/T up to T = `how.warmup` steps, then the schedule.

    A layer without warm-up (`warmed=False`) starts at the highest rate and decays with the others.
    """
    return how.lr * decay(how, step) * (warm(how, step) if warmed else 1.0)


def rates(how: TrainConfig) -> pd.DataFrame:
    """The rate at every step, and the sum of the rates so far: how far ±1 at a time goes. Columns: step, value, sum."""
    steps = range(1, how.steps + 1)
    values = [learning_rate(how, step) for step in steps]
    return pd.DataFrame({"step": steps, "value": values, "sum": np.cumsum(values)})


def groups(cfg: ModelConfig, how: TrainConfig) -> Callable[[tuple], str]:
    """Name of a weight → "warm" or "cold": whether its layer is warmed up.

    Embeddings and the last norm of a side belong to no layer, even where the whole side is named.
    """
    named = how.warmup_only or how.warmup_except
    layers = {f"{side}.{layer}": (side, layer) for side in cfg.sides for layer in range(1, cfg.depth + 1)}
    for word in named:
        if word not in layers and word not in cfg.sides:
            known, model = ", ".join((*cfg.sides, *layers)), f"the model is a {cfg.stack} of depth {cfg.depth}"
            raise ValueError(f"a layer to warm up must be one of {known}, got {word!r}: {model}")
    chosen = {place for word, place in layers.items() if word in named or place[0] in named}
    if not named:
        return lambda name: "warm"
    return lambda name: "warm" if (name[:2] in chosen) == bool(how.warmup_only) else "cold"


def optimizer(how: TrainConfig, flats: dict[str, torch.Tensor]) -> torch.optim.Optimizer:
    """The optimiser of a run: one parameter group per flat tensor, with its name."""
    params = [{"params": [flat], "name": name} for name, flat in flats.items()]
    make = {
        "adam": lambda: torch.optim.Adam(params, how.lr, BETAS, EPS, fused=True),
        "gi_adam": lambda: GIAdam(params, how.lr, BETAS, EPS, fused=True),
        "radam": lambda: torch.optim.RAdam(params, how.lr, BETAS, EPS),
        "sgd": lambda: torch.optim.SGD(params, how.lr, how.momentum, fused=True),
    }
    return make[how.optimizer]()


def set_rates(opt: torch.optim.Optimizer, how: TrainConfig, step: int) -> None:
    """Set every group's learning rate for this step."""
    for group in opt.param_groups:
        group["lr"] = learning_rate(how, step, warmed=group["name"] != "cold")


class GIAdam(torch.optim.Adam):
    """Adam that starts with v₀ = g₀² in place of 0 (Kalra & Barkeshli 2024).

    The correction of v's bias then multiplies the first step by √(1 − β₂), about 0.14, and the t-th by about
    √(1 − β₂ᵗ): a warm-up without a parameter.
    """

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if not self.state[p]:
                    zero = torch.zeros_like(p)
                    self.state[p] = {"step": torch.tensor(0.0), "exp_avg": zero, "exp_avg_sq": p.grad.square()}
        return super().step(closure)


# Adam's step, one weight -------------------------------------------------------------------------------------------


def adam_updates(gradients: np.ndarray, betas: tuple[float, float] = BETAS, *, corrected: bool = True) -> np.ndarray:
    """Adam's steps over the rate, m̂/(√v̂ + ε), for gradients of shape (steps, runs) (Kingma & Ba 2015, algorithm 1).

    Without the correction of the bias: m/(√v + ε).
    """
    updates, (first, second) = np.empty_like(gradients), betas
    m = v = np.zeros_like(gradients[0])
    for t, g in enumerate(gradients, 1):
        m, v = first * m + (1 - first) * g, second * v + (1 - second) * g**2
        m_share, v_share = (1 - first**t, 1 - second**t) if corrected else (1.0, 1.0)
        updates[t - 1] = m / m_share / (np.sqrt(v / v_share) + EPS)
    return updates


def noisy_gradients(mean: float, noise: float, steps: int, runs: int) -> np.ndarray:
    """Gradients of shape (steps, runs): the mean, and normal noise of this standard deviation."""
    return mean + noise * np.stack([random_stream("gradient noise", r).standard_normal(steps) for r in range(runs)], 1)


def adam_over_runs(gradients: np.ndarray, how: TrainConfig, betas: tuple[float, float]) -> pd.DataFrame:
    """Adam's step over the highest rate at every step, with and without the correction of the bias.

    Columns: correction ("with", "without"), step, low, mean, high (a tenth of the runs is below low, a tenth above
    high), spread (the standard deviation over runs), first (of the first run).
    """
    warming = np.array([[warm(how, t)] for t in range(1, len(gradients) + 1)])
    parts = []
    for name, corrected in {"with": True, "without": False}.items():
        updates = warming * adam_updates(gradients, betas, corrected=corrected)
        low, high = np.quantile(updates, (0.1, 0.9), axis=1)
        numbers = {"low": low, "mean": updates.mean(1), "high": high, "spread": updates.std(1), "first": updates[:, 0]}
        parts.append(pd.DataFrame({"correction": name, "step": range(1, len(updates) + 1), **numbers}))
    return pd.concat(parts, ignore_index=True)


def spread_of_noise(beta: float) -> float:
    """The long-run size of Adam's step on pure noise, √((1 − β₁)/(1 + β₁)), where β₂ is close to 1."""
    return sqrt((1 - beta) / (1 + beta))
