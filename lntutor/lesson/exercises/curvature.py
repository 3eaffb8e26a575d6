"""Exercises of 08_curvature. References: least squares, a QR decomposition, a resolvent, a bisection by simulation."""

from __future__ import annotations

import numpy as np
import torch

from lntutor.lesson.exercises import Exercise, Mistake, maker

# The Rayleigh quotient -----------------------------------------------------------------------------------------


def _rayleigh(v, Hv):
    """The number c for which c·v is nearest to Hv."""
    return torch.linalg.lstsq(v[:, None], Hv[:, None]).solution[0, 0]


@maker
def _direction(random, n: int, sign: float | None = None):
    """A direction and its product with a random matrix, which bends up or down along it where asked."""
    A = random.standard_normal((n, n))
    v = torch.tensor(random.uniform(0.5, 2, n) * random.choice([-1, 1], n))
    Hv = torch.tensor(A + A.T) @ v
    return v, Hv if sign is None else sign * torch.sign(v @ Hv) * Hv


RAYLEIGH = Exercise(
    "rayleigh", "function", _rayleigh,
    shows="Your number is the curvature along v, whatever the length of v. It lies between λmin and λmax for every v, "
    "and it is an eigenvalue where v is an eigenvector.",
    hint="Hint 1 has an example by hand; Hint 2 says what must not matter.",
    inputs=(_direction(2, 1.0), _direction(3, -1.0), _direction(7), _direction(40)),
    mistakes=(
        Mistake("not divided",
            "That is v·Hv, which is four times as large for a v twice as long. A direction has no length.",
            (lambda v, Hv: v @ Hv,)),
        Mistake("divided by the length",
            "You divided by the length of v once. In v·Hv the length of v is in there twice.",
            (lambda v, Hv: v @ Hv / v.norm(),)),
        Mistake("size of the product",
            "That is how long Hv is, compared with v. It is never negative, and it also counts what Hv does sideways.",
            (lambda v, Hv: Hv.norm() / v.norm(),)),
        Mistake("divided by the wrong length",
            "You divided by the length of Hv. What you have is the cosine of the angle, or near it: a number that "
            "does not know how large H is.",
            (lambda v, Hv: v @ Hv / (v.norm() * Hv.norm()), lambda v, Hv: v @ Hv / Hv.norm())),
        Mistake("upside down",
            "That is one over it. The curvature doubles where H doubles.",
            (lambda v, Hv: (v @ v) / (v @ Hv),)),
        Mistake("sign lost",
            "Curvature has a sign: along a direction in which the surface bends down it is negative.",
            (lambda v, Hv: (v @ Hv).abs() / (v @ v),)),
        Mistake("entry by entry",
            "You took the mean of the ratios of entries. They are all alike only where v is an eigenvector.",
            (lambda v, Hv: (Hv / v).mean(),)),
    ),
)  # fmt: skip


# A step of Lanczos ---------------------------------------------------------------------------------------------


def _lanczos_step(A, Q):
    """The last column of the orthogonal matrix of [Qᵀ, A q_k], turned so that it has a share of A q_k."""
    w = A @ Q[-1]
    new = torch.linalg.qr(torch.cat([Q, w[None]]).T)[0][:, -1]
    return new * torch.sign(new @ w)


def _symmetric(random, n: int) -> torch.Tensor:
    A = random.standard_normal((n, n))
    return torch.tensor(A + A.T)


@maker
def _under_way(random, n: int, k: int, spoiled: bool = False):
    """A matrix A and k orthonormal rows: Lanczos vectors, or any if `spoiled`, so that A q_k has a share along each."""
    A, rows = _symmetric(random, n), torch.tensor(np.linalg.qr(random.standard_normal((n, n)))[0])[:k]
    if not spoiled:
        rows = rows[:1]
        while len(rows) < k:
            rows = torch.cat([rows, _lanczos_step(A, rows)[None]])
    return A, rows


def _without(A, Q, rows):
    """A q_k less its share along some of the rows, of length one."""
    w = A @ Q[-1]
    for q in rows(Q):
        w = w - (q @ w) * q
    return w / w.norm()


LANCZOS_STEP = Exercise(
    "lanczos_step", "function", _lanczos_step,
    shows="Your new row has length one and is orthogonal to all before it. In exact arithmetic the last two would be "
    "enough; in floating point you have just kept the ghosts out.",
    hint="Hint 1 has the four lines in words; Hint 2 says what a share along a row is.",
    inputs=(_under_way(2, 1), _under_way(5, 2), _under_way(6, 3), _under_way(8, 4), _under_way(9, 5, spoiled=True)),
    mistakes=(
        Mistake("only the last two",
            "You took away the shares along q_k and q_{k−1}. On paper that is all there is. In floating point a "
            "little of the earlier rows comes back at every step, grows, and brings ghosts: eigenvalues found twice.",
            (lambda A, Q: _without(A, Q, lambda Q: [*Q[-1:], *Q[-2:-1]]),)),
        Mistake("forgets q_{k−1}",
            "Your new row is orthogonal to q_k, and not to the one before it. The term β q_{k−1} is missing.",
            (lambda A, Q: _without(A, Q, lambda Q: Q[-1:]),)),
        Mistake("forgets q_k",
            "The share along the last row is still in it: α q_k is to be taken away, too.",
            (lambda A, Q: _without(A, Q, lambda Q: Q[:-1]),)),
        Mistake("the power method",
            "You multiplied and normalised. That is the power method: it runs towards one eigenvector and forgets "
            "what it saw on the way. Lanczos keeps what is new in the product.",
            (lambda A, Q: _without(A, Q, lambda Q: []),)),
        Mistake("not normalised",
            "The direction is right. Its length is β, and a row of the basis has length one.",
            (lambda A, Q: _lanczos_step(A, Q) * (A @ Q[-1] @ _lanczos_step(A, Q)),)),
        Mistake("normalised too early",
            "You normalised the product, and then took something away from it. The order matters: what is left is "
            "shorter than one.",
            (lambda A, Q: _lanczos_step(A, Q) * (A @ Q[-1] @ _lanczos_step(A, Q)) / (A @ Q[-1]).norm(),)),
        Mistake("multiplies another row",
            "You multiplied the first row. The new direction grows out of the newest one, the last row.",
            (lambda A, Q: _lanczos_step(A, torch.cat([Q[1:], Q[:1]])),)),
        Mistake("turned around",
            "Your row points the other way. β is a length, so it is above zero, and the row keeps the sign of what is "
            "left of the product.",
            (lambda A, Q: -_lanczos_step(A, Q),)),
    ),
)  # fmt: skip


# The spectrum in outline ---------------------------------------------------------------------------------------


def _share_below(T, x):
    """The weights from the resolvent: the residue of e₁ᵀ(T − z)⁻¹e₁ at every eigenvalue below x."""
    values = torch.linalg.eigvalsh(T)
    share = 0.0
    for i, value in enumerate(values):
        if value < x:
            others = torch.cat([values[:i], values[i + 1 :]])
            minor = torch.linalg.eigvalsh(T[1:, 1:])
            share += float(torch.prod(value - minor) / torch.prod(value - others))
    return share


@maker
def _tridiagonal(random, k: int):
    beside = np.diag(random.uniform(0.5, 1.5, k - 1), 1)
    T = torch.tensor(np.diag(random.uniform(-2, 2, k)) + beside + beside.T)
    values = torch.linalg.eigvalsh(T)
    i = int(random.integers(1, k))
    return T, float(values[i - 1] + values[i]) / 2


def _eigen_share(weights):
    def wrong(T, x):
        values, vectors = torch.linalg.eigh(T)
        return float(weights(vectors)[values < x].sum())

    return wrong


SHARE_BELOW = Exercise(
    "share_below", "function", _share_below,
    shows="That is the share of A's eigenvalues below x, as one start vector sees it. Averaged over random start "
    "vectors it is right; this is how a few products outline millions of eigenvalues.",
    hint="Hint 1 says which entries of the eigenvectors count; Hint 2 says how they become shares.",
    inputs=(_tridiagonal(2), _tridiagonal(3), _tridiagonal(5), _tridiagonal(8)),
    mistakes=(
        Mistake("all counted alike",
            "You counted T's eigenvalues. They do not stand for equally many of A's: an outlier gets one of T's to "
            "itself, and thousands near zero share another.",
            (lambda T, x: float((torch.linalg.eigvalsh(T) < x).double().mean()),)),
        Mistake("counted, not shared",
            "That is how many of T's eigenvalues are below x. A share is between 0 and 1.",
            (lambda T, x: int((torch.linalg.eigvalsh(T) < x).sum()),)),
        Mistake("not squared",
            "The entries themselves do not add up to one. Of a vector of length one, something else of them does.",
            (_eigen_share(lambda V: V[0].abs()), _eigen_share(lambda V: V[0]))),
        Mistake("last entries",
            "Those are the last entries. They say how far a value is from being an eigenvalue of A. The start vector "
            "is the first of the basis.",
            (_eigen_share(lambda V: V[-1] ** 2),)),
        Mistake("a column for a row",
            "You took one eigenvector's entries. Eigenvectors are the columns; what is wanted is one entry of each.",
            (_eigen_share(lambda V: V[:, 0] ** 2),)),
        Mistake("the share above", "That is the share above x.", (lambda T, x: 1 - _share_below(T, x),)),
    ),
)  # fmt: skip


# The highest rate ----------------------------------------------------------------------------------------------


def _highest_rate(eigenvalues):
    """The rate at which the worst of the factors 1 − ηλ, of those λ that are positive, is −1."""
    top = max(float(value) for value in eigenvalues)
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - middle * top > -1 else (low, middle)
    return low


@maker
def _spectrum_like(random, n: int, deep: bool):
    """Eigenvalues of both signs, in any order; with the negative end the farther one, or the nearer."""
    values = random.uniform(-1, 1, n) * random.uniform(0.5, 4)
    values[0], values[1] = random.uniform(5, 10), -random.uniform(1, 4) * (6 if deep else 1)
    return (torch.tensor(random.permutation(values)),)


HIGHEST_RATE = Exercise(
    "highest_rate", "function", _highest_rate,
    shows="Below your rate every bowl shrinks its share of the error at each step. Directions that bend down grow at "
    "any rate, which is not instability: there the loss falls.",
    hint="Hint 1 has the factor of one step; Hint 2 says which eigenvalue is the first to fail.",
    inputs=(_spectrum_like(2, False), _spectrum_like(3, True), _spectrum_like(6, False), _spectrum_like(20, True)),
    mistakes=(
        Mistake("the best rate, not the highest",
            "At that rate the steepest direction is done in one step. It is the best for that direction. Twice as "
            "much jumps to the other side, as far as it came from.",
            (lambda eigenvalues: 1 / eigenvalues.max(),)),
        Mistake("upside down",
            "Your rate grows with the curvature. The steeper the bowl, the shorter the step has to be.",
            (lambda eigenvalues: eigenvalues.max() / 2, lambda eigenvalues: eigenvalues.max())),
        Mistake("the farther end",
            "You took the eigenvalue of the largest size, whatever its sign. Along a direction that bends down there "
            "is no rate at which steps stay: it is not what limits the rate.",
            (lambda eigenvalues: 2 / eigenvalues.abs().max(), lambda eigenvalues: 1 / eigenvalues.abs().max())),
        Mistake("the lower end",
            "You took the smallest eigenvalue. Which bowl is the first in which a step is too long?",
            (lambda eigenvalues: 2 / eigenvalues.min(), lambda eigenvalues: 2 / eigenvalues.min().abs())),
        Mistake("a typical curvature",
            "You took a mean. One direction that grows is enough to ruin a run, however mild the others are.",
            (lambda eigenvalues: 2 / eigenvalues.mean(),
             lambda eigenvalues: 2 / eigenvalues.square().mean().sqrt(),
             lambda eigenvalues: 2 / eigenvalues.abs().mean())),
    ),
)  # fmt: skip


# Momentum ------------------------------------------------------------------------------------------------------


def _stable_curvature(rate, beta):
    """By bisection: where the two-number map (w, m) → (w', m') of one step has spectral radius one."""

    def grows(curvature):
        step = [[1 - rate * (1 - beta) * curvature, -rate * beta], [(1 - beta) * curvature, beta]]
        return max(abs(np.linalg.eigvals(np.array(step)))) > 1 + 1e-12

    low, high = 0.0, 1e7
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if grows(middle) else (middle, high)
    return low


@maker
def _momentum(random, beta: float | None):
    chosen = round(float(random.uniform(0.2, 0.95)), 2) if beta is None else beta
    return float(random.choice([0.05, 0.1, 0.2, 0.5])), chosen


STABLE_CURVATURE = Exercise(
    "stable_curvature", "function", _stable_curvature,
    shows="With β = 0.9 your formula gives 38/η, with β = 0 the 2/η of plain descent. Averaging lets a step be 19 "
    "times as long before the steepest direction grows.",
    hint="Hint 1 says what to put in for w and m; Hint 2 has the equation that is left.",
    inputs=(_momentum(0.0), _momentum(0.9), _momentum(0.5), _momentum(None)),
    tolerance=1e-6,
    mistakes=(
        Mistake("no momentum", "That is plain descent, the case β = 0.", (lambda rate, beta: 2 / rate,)),
        Mistake("the other momentum",
            "That is for a momentum that adds gradients up, m ← βm + g. Adam's takes their mean, and (1 − β)g goes in.",
            (lambda rate, beta: 2 * (1 + beta) / rate,)),
        Mistake("upside down",
            "Your threshold falls as β grows. An average over more steps is a gentler one where the gradient flips "
            "its sign at every step.",
            (lambda rate, beta: 2 * (1 - beta) / ((1 + beta) * rate), lambda rate, beta: 2 * (1 - beta) / rate)),
        Mistake("new gradient only",
            "You divided by 1 − β, the share of the new gradient. The old m is not nothing: at the border it points "
            "the other way, and slows the step further.",
            (lambda rate, beta: 2 / ((1 - beta) * rate),)),
        Mistake("the rate on the wrong side",
            "Your curvature grows with the rate. A higher rate leaves less room.",
            (lambda rate, beta: 2 * (1 + beta) / (1 - beta) * rate, lambda rate, beta: 2 * (1 + beta) / (1 - beta))),
    ),
)  # fmt: skip

EXERCISES = (RAYLEIGH, LANCZOS_STEP, SHARE_BELOW, HIGHEST_RATE, STABLE_CURVATURE)
