"""Lanczos: the spectrum of a matrix A from products A v alone; it knows nothing of models.

k products give a k × k tridiagonal matrix T. The ends of T's spectrum are near those of A's, and the start vector's
share in each of T's eigenvectors estimates how many of A's eigenvalues are near its eigenvalue (Golub & Welsch 1969;
Ghorbani et al. 2019).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
import torch
from torch import Tensor

from lntutor.model.random_streams import random_stream

ROUND_OFF = 64  # times the machine precision, relative to T: a smaller β counts as 0
ROWS = 16  # basis vectors in one piece of memory


@dataclass(frozen=True)
class Ritz:
    """The eigenvalues of T, ascending, and how they relate to those of A."""

    values: np.ndarray  # (k,)
    weights: np.ndarray  # (k,): squared share of the start vector; they sum to one
    residuals: np.ndarray  # (k,): an eigenvalue of A is at most this far away

    def __post_init__(self):
        for array in (self.values, self.weights, self.residuals):
            array.setflags(write=False)


class Lanczos:
    """The iteration from one start vector, one product per step.

    A q_k = β_{k−1} q_{k−1} + α_k q_k + β_k q_{k+1}. In exact arithmetic the q are orthonormal; in floating point they
    cease to be as soon as an eigenvalue has been found, which is then found again and again ("ghosts"). So each new q
    is made orthogonal to all before it, twice (Parlett 1980, section 6.9), unless `reorthogonalise` is False.
    """

    def __init__(self, matvec: Callable[[Tensor], Tensor], start: Tensor, *, reorthogonalise: bool = True):
        if start.ndim != 1 or not start.is_floating_point():
            given = f"{start.dtype} {tuple(start.shape)}"
            raise ValueError(f"start must be a vector of floating-point numbers, got {given}")
        length = _norm(start)
        if not 0 < length < float("inf"):
            raise ValueError(f"start must have a finite length above 0, got {length}")
        self.matvec, self.reorthogonalise = matvec, reorthogonalise
        self.alphas: list[float] = []  # the diagonal of T
        self.betas: list[float] = []  # beside the diagonal; the last one is not in T
        self._end: int | None = None  # the number of steps that exhaust the space, once it is known
        self._pieces: list[Tensor] = []  # q_1 … q_{k+1}, ROWS per tensor, so that nothing is copied when it grows
        self._keep(0, start.detach() / length)

    @property
    def steps(self) -> int:
        """Products so far."""
        return len(self.alphas)

    @property
    def exhausted(self) -> bool:
        """Whether the basis spans an invariant subspace, so that another product would add nothing."""
        return self.steps == self._end

    @property
    def basis(self) -> Tensor:
        """(k, size): q_1 … q_k in rows."""
        return torch.cat(self._pieces)[: self.steps]

    def step(self) -> None:
        """One more product, unless the space is exhausted. An interrupted step counts fully or not at all."""
        if self.exhausted:
            return
        k = self.steps
        q = self._row(k)
        if len(self.betas) > k:  # left by an interrupted step
            self._keep(k + 1, torch.zeros_like(q))
            del self.betas[k:]
        w = self.matvec(q)
        alpha = _dot(q, w)
        if not np.isfinite(alpha):
            raise ValueError(f"product {k + 1} is not finite: the operator overflows or holds NaN")
        w = w - alpha * q
        if k:
            w -= self.betas[-1] * self._row(k - 1)
        if self.reorthogonalise:
            self._make_orthogonal(w)
            self._make_orthogonal(w)
        beta = _norm(w)
        self.betas.append(beta)
        scale = max(map(abs, (alpha, *self.alphas, *self.betas)))
        full = k + 1 == w.numel() and self.reorthogonalise
        if full or beta <= ROUND_OFF * torch.finfo(w.dtype).eps * scale:
            self._end = k + 1
        else:
            self._keep(k + 1, w / beta)
        self.alphas.append(alpha)

    def ritz(self) -> Ritz:
        """Eigenvalues of T, the start vector's share in each, residuals |β_k · last component| (Parlett 1980)."""
        values, vectors = self._eigen()
        weights = vectors[0] ** 2
        return Ritz(values, weights / weights.sum(), np.abs(self.betas[self.steps - 1] * vectors[-1]))

    def vector(self, i: int) -> Tensor:
        """The Ritz vector of the i-th value, (size,)."""
        _, vectors = self._eigen()
        return torch.from_numpy(vectors[:, i].copy()).to(self._pieces[0].dtype) @ self.basis

    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        if not self.steps:
            raise ValueError("there is no product yet: call step() first")
        beside = np.diag(self.betas[: self.steps - 1], -1)
        return np.linalg.eigh(np.diag(self.alphas) + beside + beside.T)

    def _row(self, i: int) -> Tensor:
        return self._pieces[i // ROWS][i % ROWS]

    def _keep(self, i: int, q: Tensor) -> None:
        if i == ROWS * len(self._pieces):
            self._pieces.append(q.new_zeros(ROWS, len(q)))
        self._row(i).copy_(q)

    def _make_orthogonal(self, w: Tensor) -> None:
        for piece in self._pieces:  # rows that are still zero change nothing
            w -= (piece @ w) @ piece


def _dot(a: Tensor, b: Tensor) -> float:
    """a · b, summed in float64."""
    return float(a.double() @ b.double())


def _norm(a: Tensor) -> float:
    return float(torch.linalg.vector_norm(a, dtype=torch.float64))


def start_vector(size: int, seed: int, probe: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """A random vector of length one; the Ritz weights it gives are unbiased estimates of the spectrum."""
    vector = random_stream("probe", seed, probe).standard_normal(size)
    return torch.from_numpy(vector / np.linalg.norm(vector)).to(dtype)


def density(values, weights, width: float, x) -> np.ndarray:
    """Σ_i w_i N(x; λ_i, width²), shaped like x: the spectrum as a smooth curve with integral Σ w_i."""
    values, weights, x = (np.asarray(a, dtype=float) for a in (values, weights, x))
    if not width > 0:
        raise ValueError(f"width must be above 0, got {width!r}")
    bells = np.exp(-0.5 * ((x[..., None] - values) / width) ** 2)  # (…, k)
    return bells @ weights / (width * sqrt(2 * pi))
