"""Layer normalization by itself: the formula, three common mistakes in it, and the Jacobian of each."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
import pandas as pd

EPS = 1e-5

# name → (s, ds/dr): what y = x − mean(x) is divided by, as a function of r = ‖y‖ and d
DIVISORS: dict[str, tuple[Callable, Callable]] = {
    "LayerNorm": (lambda r, d: sqrt(r * r / d + EPS), lambda r, d: r / d / sqrt(r * r / d + EPS)),
    "slide's σ": (lambda r, d: r / d, lambda r, d: 1 / d),  # σ = (1/d)√Σ: the output has variance d
    "Bessel": (lambda r, d: r / sqrt(d - 1), lambda r, d: 1 / sqrt(d - 1)),  # d − 1 in place of d
    "ε outside": (lambda r, d: r / sqrt(d) + EPS, lambda r, d: 1 / sqrt(d)),  # σ + ε in place of √(σ² + ε)
}


def vector(x) -> np.ndarray:
    """`x` as a vector that can be normalised, or a ValueError."""
    x = np.asarray(x, float)
    if x.ndim != 1 or len(x) < 2 or not np.isfinite(x).all():
        raise ValueError(f"x must be two or more finite numbers, got {x!r}")
    return x


def normalised(x, formula: str = "LayerNorm") -> np.ndarray:
    """x minus its mean, divided as the formula says; equal coordinates give zeros."""
    x = vector(x)
    y = x - x.mean()
    size = DIVISORS[formula][0](float(np.linalg.norm(y)), len(y))
    return y / size if size > 0 else y


def jacobian(x, formula: str = "LayerNorm") -> np.ndarray:
    """∂normalised/∂x = C/s − (s′/s²) yᵀŷ, with C = I − 11ᵀ/d, y = xC, ŷ = y/‖y‖."""
    x = vector(x)
    d, y = len(x), x - x.mean()
    r = float(np.linalg.norm(y))
    if r == 0:
        raise ValueError("the coordinates of x are all equal: there is no direction left to normalise")
    s, slope = (f(r, d) for f in DIVISORS[formula])
    return (np.eye(d) - 1 / d) / s - slope / s**2 * np.outer(y, y / r)


def jacobian_spectrum(x) -> pd.DataFrame:
    """Singular values of each formula's Jacobian, from the largest. Columns: name, index, value."""
    spectra = {name: np.linalg.svd(jacobian(x, name), compute_uv=False) for name in DIVISORS}
    rows = [(name, i + 1, float(value)) for name, values in spectra.items() for i, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["name", "index", "value"])


def jacobian_norms(x, factors) -> pd.DataFrame:
    """‖J_LN(kx)‖₂ for several k beside √d/‖y‖ (Lemma 3). Columns: size (‖kx‖), value, predicted."""
    x = vector(x)
    rows = []
    for k in factors:
        y = k * (x - x.mean())
        size = float(np.linalg.norm(k * x))
        rows.append((size, float(np.linalg.norm(jacobian(k * x), 2)), sqrt(len(x)) / float(np.linalg.norm(y))))
    return pd.DataFrame(rows, columns=["size", "value", "predicted"])
