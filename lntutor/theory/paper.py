"""The paper's lemmas, Theorem 1 with its constant, and Definition 1 (Xiong et al. 2020, section 3.3 and proofs)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lntutor.model.checks import check_choice, check_flag, check_number, check_type
from lntutor.model.config import Inputs, ModelConfig
from lntutor.model.parameters import matrices, scale
from lntutor.theory.streams import Array

THEOREM_1 = {"post": lambda L: 1.5, "pre": lambda L: 1 + L / 2}  # Lemma 2: E‖input of the last norm‖²/d, from below


def lemma_1(variance: float, width: int) -> float:
    """E‖ReLU(X)‖² = σ²d/2 for X ~ N(0, σ²I_d) (Xiong et al. 2020, Lemma 1)."""
    return variance * width / 2


def lemma_2_post(width: int) -> float:
    """E‖x⁵‖² = 3d/2: Post-LN's sum before the last norm of any layer (Xiong et al. 2020, Lemma 2)."""
    return 1.5 * width


def lemma_2_pre(layer: int, width: int) -> tuple[float, float]:
    """(1 + l/2)d ≤ E‖x_l‖² ≤ (1 + 3l/2)d: Pre-LN's stream after l layers (Xiong et al. 2020, Lemma 2)."""
    return (1 + layer / 2) * width, (1 + 1.5 * layer) * width


def lemma_3(x: Array) -> float:
    """‖J_LN(x)‖₂ = √d/‖y‖, y = x minus its mean (Xiong et al. 2020, Lemma 3, with its constant)."""
    y = np.asarray(x, float) - np.mean(x)
    return sqrt(len(y)) / float(np.linalg.norm(y))


def theorem_bound(cfg: ModelConfig) -> float:
    """The bound on ‖∂L/∂W^{2,L}‖_F at one position, with the constant of its proof (Xiong et al. 2020, Theorem 1).

    Every entry of ReLU(x³W¹) is at most √(2 ln(100d)), the gradient at the output has length at most 1, and
    ‖J_LN(z)‖² = d/‖z‖² with ‖z‖² ≥ α₀E‖z‖², α₀ = 1/10. Bounding each of the d² entries by these gives
    d√(20 ln(100d)/q), where q = E‖z‖²/d: d√(40/3·ln(100d)) for Post-LN, d√(40 ln(100d)/(L + 2)) for Pre-LN.
    """
    if check_type("cfg", cfg, ModelConfig).placement.key not in THEOREM_1:
        given = f"got placement={cfg.placement.key!r}; predict(cfg, 'gradient') covers every placement"
        raise ValueError(f"Theorem 1 speaks of {' and '.join(THEOREM_1)}, {given}")
    q = THEOREM_1[cfg.placement.key](cfg.depth)
    return cfg.width * sqrt(20 * log(100 * cfg.width) / q)


def theorem_probability(epsilon: float, delta: float) -> float:
    """0.99 − δ − ε/(0.9 + ε): the probability of the bound, for (ε, δ)-bounded norms (Xiong et al. 2020, Theorem 1)."""
    return 0.99 - delta - epsilon / (0.9 + epsilon)


def broken_assumptions(cfg: ModelConfig, inputs: Inputs = Inputs(), *, brief: bool = False) -> tuple[str, ...]:
    """Where `cfg` departs from the theorem's setting (section 3.3): one sentence each, or a few words if `brief`."""
    check_type("cfg", cfg, ModelConfig)
    check_type("inputs", inputs, Inputs)
    check_flag("brief", brief)
    variances = all(abs(scale(cfg, m) ** 2 * m.shape[0] - 1) < 1e-9 for m in matrices(cfg) if m.layer == 1)
    softmax, label = cfg.attention != "uniform", cfg.placement.label
    checks = (  # (does it hold, what there is instead, a sentence)
        (cfg.placement.key in THEOREM_1, label, f"Theorem 1 is about Post-LN and Pre-LN, this is {label}."),
        (cfg.stack == "encoder", cfg.stack, f"The theorem's model is an encoder, not this {cfg.stack}."),
        (not softmax, "softmax attention",
         "Attention is a softmax; the theorem sets W_Q = W_K = 0, which makes it a mean."),
        (cfg.heads == 1 or not softmax, f"{cfg.heads} heads", f"There are {cfg.heads} heads; the theorem has one."),
        (not cfg.output_projection, "W_O", "Attention ends in W_O; the theorem has none."),
        (cfg.ffn == cfg.width, f"FFN of {cfg.ffn}",
         f"The FFN has {cfg.ffn} hidden units; the theorem's has as many as the width, {cfg.width}."),
        (variances, f"{cfg.init} init",
         f"The weights have other variances than the theorem's 1/fan_in (init={cfg.init!r})."),
        (cfg.norm == "layer" and cfg.placement.norm is None, "RMSNorm" if cfg.norm == "rms" else "another norm",
         "The norm is not LayerNorm."),
        (inputs.kind == "gaussian", "words as inputs",
         "The inputs are words and the head is tied to them; the theorem's are Gaussian."),
    )  # fmt: skip
    return tuple(short if brief else sentence for holds, short, sentence in checks if not holds)


class Assumption(NamedTuple):
    """One assumption of section 3.3, and what stands in its place in practice."""

    proof: str
    practice: str
    changes: Callable[[int], dict[str, Any]] = lambda width: {}  # of the model; none: of what it is fed


ASSUMPTIONS = {
    "softmax": Assumption("a plain mean, W_Q = W_K = 0", "softmax attention", lambda d: {"attention": "softmax"}),
    "heads": Assumption("one head", "four heads", lambda d: {"heads": 4}),
    "w_o": Assumption("no W_O after the heads", "W_O after the heads", lambda d: {"output_projection": True}),
    "ffn": Assumption("an FFN of d hidden units", "an FFN of 4d", lambda d: {"ffn": 4 * d}),
    "init": Assumption("entries of variance 1/d", "Xavier init, packed", lambda d: {"init": "torch"}),
    "norm": Assumption("LayerNorm", "RMSNorm", lambda d: {"norm": "rms"}),
    "causal": Assumption("every token sees all", "a causal mask", lambda d: {"stack": "decoder"}),
    "cross": Assumption("an encoder", "a decoder on an encoder", lambda d: {"stack": "encoder-decoder"}),
    "words": Assumption("independent Gaussian tokens", "sentences"),
    "loss": Assumption("‖∂L/∂x‖ = 1 at each position", "cross-entropy"),
}


def without(cfg: ModelConfig, names: Iterable[str]) -> ModelConfig:
    """The model with these of ASSUMPTIONS as in practice; a decoder on an encoder is causal anyway."""
    check_type("cfg", cfg, ModelConfig)
    dropped = {check_choice("assumption", name, tuple(ASSUMPTIONS)) for name in names}
    changes = (one.changes(cfg.width) for name, one in ASSUMPTIONS.items() if name in dropped)
    return cfg.with_(**{field: value for each in changes for field, value in each.items()})


def appendix_f(placement: str, depth: int) -> dict[int, float]:
    """Layer → its gradient over the last layer's, as claimed: Post-LN (2/3)^((L−l)/2), Pre-LN 1 (Appendix F)."""
    base = {"post": sqrt(2 / 3), "pre": 1.0}[check_choice("placement", placement, tuple(THEOREM_1))]
    return {layer: base ** (depth - layer) for layer in range(1, depth + 1)}


def least_delta(values: Iterable[float], epsilon: float) -> float:
    """The least δ for which values Z are (ε, δ)-bounded: the share of values with (Z − EZ)/EZ > ε (Definition 1)."""
    values = np.asarray(list(values), float)
    if not values.size or not values.mean() > 0:
        raise ValueError("values must be one or more numbers with a mean above 0")
    return float((values / values.mean() - 1 > check_number("epsilon", epsilon, 0, 1e6)).mean())


def probability_by_epsilon(table: pd.DataFrame, epsilons: Iterable[float]) -> pd.DataFrame:
    """Theorem 1's probability for each ε, with the least δ. Columns: placement, epsilon, delta, value."""
    rows = []
    for key, part in table.groupby("placement", sort=False):
        deltas = [(epsilon, least_delta(part["value"], epsilon)) for epsilon in epsilons]
        rows += [(key, float(epsilon), delta, theorem_probability(epsilon, delta)) for epsilon, delta in deltas]
    return pd.DataFrame(rows, columns=["placement", "epsilon", "delta", "value"])


def at_every_position(probability: float, positions: int) -> float:
    """max(0, 1 − n(1 − p)): the probability for n positions at once, by the union bound, which Theorem 1 leaves out."""
    return max(0.0, 1 - positions * (1 - probability))
