"""Mean-field streams: signals described by their mean over random weights, in place of tensors.

A stream is Σ a_k u_k: independent Gaussian components u_k, each with one coefficient per token. A sum adds
coefficients, a norm divides them by the token's size, and a weight matrix makes a new component, because the matrix is
independent of everything before it. Gradients pass back in the same way.

C[i, j] = E x_i·x_j / d is the covariance of tokens, G[i, j] = E ⟨∂L/∂x_i, ∂L/∂x_j⟩ the Gram matrix of gradients;
both may have leading axes (seeds, sentences).
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np

from lntutor.model.placements import Arithmetic
from lntutor.model.rule import EPS

Array = np.ndarray
DIGITS = 1e-9  # a difference below this share of its two terms may be mostly round-off


def kappa(rho: Array) -> Array:
    """E ReLU(u)ReLU(v) for unit Gaussians of correlation ρ: (√(1−ρ²) + ρ(π − arccos ρ))/2π."""
    rho = np.clip(rho, -1, 1)
    return (np.sqrt(1 - rho * rho) + rho * (np.pi - np.arccos(rho))) / (2 * np.pi)


def kappa_prime(rho: Array) -> Array:
    """P(u > 0, v > 0) for unit Gaussians of correlation ρ: (π − arccos ρ)/2π."""
    return (np.pi - np.arccos(np.clip(rho, -1, 1))) / (2 * np.pi)


def diagonal(C: Array) -> Array:
    """(…, n): the diagonal of the last two axes."""
    return np.diagonal(C, axis1=-2, axis2=-1)


def sizes(C: Array) -> Array:
    """(…, n): √C_ii; x − x leaves round-off of either sign."""
    return np.sqrt(np.maximum(diagonal(C), 0))


def outer(a: Array, b: Array | None = None) -> Array:
    """(…, n, n): a_i b_j."""
    return a[..., :, None] * (a if b is None else b)[..., None, :]


class Component:
    """One Gaussian vector per token, with this covariance between tokens; `constant`: equal over features."""

    def __init__(self, cov: Array, constant: bool = False):
        self.cov, self.constant = cov, constant


class Mixture:
    """Σ a_k u_k: components and their coefficients (…, n), with the covariance (…, n, n) of the sum."""

    def __init__(self, parts: dict[Component, Array], cov: Array):
        self.parts, self.cov = parts, cov

    @classmethod
    def fresh(cls, cov: Array) -> Mixture:
        """A new component, independent of everything so far."""
        return cls({Component(cov): np.ones(cov.shape[:-1])}, cov)

    def __add__(self, other: Mixture) -> Mixture:
        parts, cov = dict(self.parts), self.cov + other.cov
        for component, b in other.parts.items():
            a = parts.get(component)
            if a is not None:
                cov = cov + (outer(a, b) + outer(b, a)) * component.cov
            parts[component] = b if a is None else a + b
        return Mixture(parts, cov)

    def scaled(self, r) -> Mixture:
        """r·x, with one number per token, (…, n) or (…, 1)."""
        r = np.asarray(r, float)
        r = r if r.ndim else r[None]
        return Mixture({component: r * a for component, a in self.parts.items()}, self.cov * outer(r))

    def centred(self) -> Mixture:
        """Without the components that are constant over features, which a LayerNorm subtracts."""
        constant = {c: a for c, a in self.parts.items() if c.constant}
        if not constant:
            return self
        cov = self.cov - sum(outer(a) * c.cov for c, a in constant.items())
        return Mixture({c: a for c, a in self.parts.items() if c not in constant}, cov)


class Stream(Arithmetic):
    """A mixture at some point of the network, with the streams it was made from, for the backward pass."""

    def __init__(
        self, tape: list[Stream], mixture: Mixture, inputs: tuple[Stream, ...] = (), pull: Callable | None = None
    ):
        self.tape, self.mixture, self.inputs, self.pull = tape, mixture, inputs, pull
        tape.append(self)

    @property
    def cov(self) -> Array:
        return self.mixture.cov

    def then(self, mixture: Mixture, pull: Callable[[Mixture], Mixture]) -> Stream:
        """A stream made from this one alone."""
        return Stream(self.tape, mixture, (self,), lambda g: (pull(g),))

    def __add__(self, other: Stream) -> Stream:
        return Stream(self.tape, self.mixture + other.mixture, (self, other), lambda g: (g, g))

    def __mul__(self, factor) -> Stream:
        return self.then(self.mixture.scaled(factor), lambda g: g.scaled(factor))

    def normalised(self, kind: str) -> Stream:
        """LN or RMSNorm: every token is divided by its size, forward and backward."""
        mixture = self.mixture.centred() if kind == "layer" else self.mixture
        r = 1 / np.sqrt(diagonal(mixture.cov) + EPS)
        return self.then(mixture.scaled(r), lambda g: g.scaled(r))

    def linear(self, fan_in: int, variance: float) -> Stream:
        """x W with a new W: C → v C, and back G → v G, where v = fan_in · Var W."""
        v = fan_in * variance
        return self.then(Mixture.fresh(v * self.cov), lambda g: Mixture.fresh(v * g.cov))

    def relu(self) -> Stream:
        """C → √(C_ii C_jj) κ(ρ), with the mean over features as a component of its own; back G → κ′(ρ)∘G."""
        size = sizes(self.cov)
        rho = self.cov / np.maximum(outer(size), 1e-300)
        mean = size / sqrt(2 * np.pi)
        second = outer(size) * kappa(rho)
        rest, ones = Component(second - outer(mean)), Component(np.ones_like(second), constant=True)
        mixture = Mixture({rest: np.ones_like(mean), ones: mean}, second)
        return self.then(mixture, lambda g: Mixture.fresh(kappa_prime(rho) * g.cov))

    def tanh(self) -> Stream:
        """tanh of every coordinate."""
        return self.pointwise(np.tanh)

    def pointwise(self, f: Callable[[Array], Array], terms: int = 41) -> Stream:
        """f of every coordinate: f(σz) = Σ a_k(σ) h_k(z) in Hermite polynomials, so C_ij → Σ a_k(σ_i)a_k(σ_j)ρ^k.

        The linear term keeps the stream's components, the others make a new one. Back: the same with f′, whose
        coefficients are √(k+1) a_{k+1}/σ.
        """
        size = sizes(self.cov)
        rho = np.clip(self.cov / np.maximum(outer(size), 1e-300), -1, 1)
        a, tail, slope, slope_tail = hermite(f, size, terms)
        gain, mean = slope[..., 0], a[..., 0]
        linear = self.mixture.scaled(gain)
        second = power_series(a, tail, rho)
        extra = Component(second - linear.cov - outer(mean))
        ones = Component(np.ones_like(second), constant=True)
        mixture = Mixture(linear.parts | {extra: np.ones_like(size), ones: mean}, second)
        rest = power_series(slope, slope_tail, rho) - outer(gain)
        return self.then(mixture, lambda g: g.scaled(gain) + Mixture.fresh(rest * g.cov))

    def mixed(self, weights: Array, q: Stream | None = None, k: Stream | None = None) -> Stream:
        """Σ_j P_ij v_j with attention weights (…, H, n, m); gradients pass back to v, and by the scores to q and k."""
        P = weights
        C = self.cov[..., None, :, :]
        mixture = Mixture.fresh((P @ C @ P.mT).mean(-3))
        if q is None or k is None:
            return self.then(mixture, lambda g: Mixture.fresh(to_values(P, g.cov)))

        def pull(g):
            to_q, to_k = through_scores(P, g.cov, q.cov, k.cov, self.cov)
            return Mixture.fresh(to_values(P, g.cov)), Mixture.fresh(to_q), Mixture.fresh(to_k)

        return Stream(self.tape, mixture, (self, q, k), pull)


def to_values(P: Array, G: Array) -> Array:
    """Gradients at the values: the mean over heads of Pᵀ G P."""
    return (P.mT @ G[..., None, :, :] @ P).mean(-3)


def through_scores(P: Array, G: Array, Cq: Array, Ck: Array, Cv: Array) -> tuple[Array, Array]:
    """Gram matrices of the gradients at q and at k, for gradients G at the heads' outputs.

    ∂s_i = D_i ∂p_i with D_i = diag p_i − p_iᵀp_i, ∂p_ik = g_i·v_k, and v, k, q independent:
    E⟨∂q_i, ∂q_j⟩ = G_ij Σ_km [D_i Cv D_j]_km Ck_km and E⟨∂k_k, ∂k_m⟩ = Σ_ij G_ij Cq_ij [D_i Cv D_j]_km. By sums, or by
    roots where too many digits cancel: with a saturated softmax, or tokens that are nearly equal.
    """
    P = P / P.sum(-1, keepdims=True)  # measured in float32; D_i·1 = 0 must hold in float64
    to_q, to_k, left = scores_by_sums(P, G, Cq, Ck, Cv)
    if not left >= DIGITS:
        to_q, to_k = scores_by_roots(P, G, Cq, centred(Ck), centred(Cv))
    return to_q.mean(-3), to_k.mean(-3)


def scores_by_sums(P: Array, G: Array, Cq: Array, Ck: Array, Cv: Array) -> tuple[Array, Array, float]:
    """The same for every head, and the smallest ratio of a difference to its terms (see `difference`).

    [D_i Cv D_j]_km = p_ik p_jm (Cv_km − a_im − a_jk + e_ij), a = P Cv, e = P Cv Pᵀ.
    """
    G, Cq, Ck, Cv = (A[..., None, :, :] for A in (G, Cq, Ck, Cv))
    a, b = P @ Cv, P @ Ck
    e = a @ P.mT
    half = (a * b) @ P.mT
    M, left_q = difference(P @ (Cv * Ck) @ P.mT + e * (b @ P.mT), half + half.mT)
    B = G * Cq
    half = P.mT @ (a * (B @ P))
    to_k, left_k = difference(Cv * (P.mT @ B @ P) + P.mT @ (B * e) @ P, half + half.mT)
    return G * M, to_k, min(left_q, left_k)


def scores_by_roots(P: Array, G: Array, Cq: Array, Ck: Array, Cv: Array) -> tuple[Array, Array]:
    """The same as products of a matrix with itself, which cannot be negative; slower.

    With Cv = VVᵀ, W_i = D_i V = diag p_i (V − 1 p_i V); with Ck = KKᵀ, Σ_km [W_i W_jᵀ]_km Ck_km = ⟨KᵀW_i, KᵀW_j⟩; and
    with G∘Cq = LLᵀ, the sum over i and j is that of squares.
    """
    V, K, L = (root(A)[..., None, :, :] for A in (Cv, Ck, G * Cq))
    W = P[..., None] * (V[..., None, :, :] - (P @ V)[..., None, :])  # (…, H, n, m, r)
    U = (K.mT[..., None, :, :] @ W).reshape(*W.shape[:-2], -1)  # (…, H, n, s·r)
    S = (L.mT @ W.reshape(*W.shape[:-2], -1)).reshape(*W.shape[:-3], -1, *W.shape[-2:])  # (…, H, c, m, r)
    return G[..., None, :, :] * (U @ U.mT), (S @ S.mT).sum(-3)


def difference(a: Array, b: Array) -> tuple[Array, float]:
    """a − b, and the least |a − b|/(a + b) on the diagonal, without exact zeros, which a one-hot p gives."""
    result, size = a - b, diagonal(a) + diagonal(b)
    share = np.abs(diagonal(result)) / np.where(size > 0, size, 1)
    return result, float(share.min(initial=1, where=share > 0))


def centred(C: Array) -> Array:
    """C without the part that all tokens have in common, which does not change a softmax."""
    return C - C.mean(-1, keepdims=True) - C.mean(-2, keepdims=True) + C.mean((-2, -1), keepdims=True)


def root(C: Array) -> Array:
    """The symmetric R with R R = C, which does not depend on the signs of eigenvectors; NaN where C is not finite."""
    good = np.isfinite(C).all((-2, -1), keepdims=True)
    values, vectors = np.linalg.eigh(np.where(good, C, 0))
    return np.where(good, (vectors * np.sqrt(np.maximum(values, 0))[..., None, :]) @ vectors.mT, np.nan)


def hermite(f: Callable[[Array], Array], size: Array, terms: int) -> tuple[Array, Array, Array, Array]:
    """Coefficients (…, terms) of f(σz) in normalised Hermite polynomials h_k(z), for each σ in `size`, and of f′(σz).

    After each follows the size (…) of the remaining terms, √(E f² − Σ a_k²). The integrals are sums over equally spaced
    points, whose error falls as exp(−2πδ/0.1) where f is analytic within ±δi: at σ = 5, tanh has δ = π/10.
    """
    z = np.arange(-90, 91) / 10
    weight = np.exp(-z * z / 2) / sqrt(2 * np.pi) / 10
    basis = np.empty((terms, len(z)))
    basis[0], basis[1] = 1, z
    for k in range(1, terms - 1):  # h_{k+1} = (z h_k − √k h_{k−1})/√(k+1)
        basis[k + 1] = (z * basis[k] - sqrt(k) * basis[k - 1]) / sqrt(k + 1)
    size = np.maximum(size, 1e-6)[..., None]
    y, step = f(size * z), 1e-5  # the slope, by a central difference in units of z
    slope = (f(size * (z + step)) - f(size * (z - step))) / (2 * step * size)
    parts = []
    for values, count in ((y, terms), (slope, terms - 1)):
        a = values @ (basis[:count] * weight).T
        parts += [a, np.sqrt(np.maximum(values**2 @ weight - (a**2).sum(-1), 0))]
    return tuple(parts)


def power_series(a: Array, tail: Array, rho: Array) -> Array:
    """Σ_k a_k[i] a_k[j] ρ[i, j]^k, plus one more term of size `tail` for all that follow."""
    total, power = np.zeros_like(rho), np.ones_like(rho)
    for k in range(a.shape[-1]):
        if np.abs(a[..., k]).max() > 1e-9:  # every second one is 0 for an odd or an even function
            total = total + outer(a[..., k]) * power
        power = power * rho
    return total + outer(tail) * power


def backward(out: Stream, G: Array, stop: int = 0) -> dict[Stream, Mixture]:
    """Gradients of the streams that `out` was made from, back to entry `stop` of the tape."""
    grads = {out: Mixture.fresh(G)}
    for node in reversed(out.tape[stop:]):
        if node in grads and node.pull:
            for source, g in zip(node.inputs, node.pull(grads[node]), strict=True):
                grads[source] = grads[source] + g if source in grads else g
    return grads
