"""Learning rates as functions of the step, and the optimisers."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import torch

from lntutor.model.config import ModelConfig, TrainConfig

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
