"""Lanczos on matrices whose spectrum is known."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lntutor.curvature.lanczos import Lanczos, density, start_vector


def symmetric(values, seed: int = 0) -> torch.Tensor:
    """A dense matrix with these eigenvalues and random eigenvectors, float64."""
    random = torch.Generator().manual_seed(seed)
    q, _ = torch.linalg.qr(torch.randn(len(values), len(values), generator=random, dtype=torch.float64))
    return q @ torch.diag(torch.as_tensor(values, dtype=torch.float64)) @ q.T


def iterate(matrix: torch.Tensor, steps: int, seed: int = 0, **how) -> Lanczos:
    """So many steps on a matrix."""
    run = Lanczos(matrix.mv, start_vector(len(matrix), seed, dtype=matrix.dtype), **how)
    for _ in range(steps):
        run.step()
    return run


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 40), st.integers(0, 1000))
def test_as_many_products_as_rows_give_every_eigenvalue(size, seed):
    """Oracle: the eigenvalues that the matrix was made with."""
    values = np.random.default_rng(seed).normal(size=size)
    run = iterate(symmetric(values, seed), size, seed)
    np.testing.assert_allclose(run.ritz().values, np.sort(values), atol=1e-9)
    assert run.exhausted
    run.step()
    assert run.steps == size  # there is nothing more to find


def test_few_products_give_both_ends_within_their_stated_error():
    """Oracle: a spectrum with a bulk and an outlier on each side."""
    values = np.concatenate([np.linspace(-1, 1, 498), [-7.0, 9.0]])
    ritz = iterate(symmetric(values), 25).ritz()
    for found, error, true in ((ritz.values[-1], ritz.residuals[-1], 9.0), (ritz.values[0], ritz.residuals[0], -7.0)):
        assert abs(found - true) <= max(error, 1e-12)
        assert error < 1e-6
    assert all(np.abs(values - v).min() <= r + 1e-12 for v, r in zip(ritz.values, ritz.residuals, strict=True))


def test_values_and_weights_reproduce_the_moments_of_the_start_vector():
    """Oracle: qᵀAᵐq by direct products; k nodes are exact up to the power 2k − 1 (Gauss quadrature)."""
    matrix = symmetric(np.random.default_rng(3).normal(size=60))
    run = iterate(matrix, 5, seed=3)
    ritz, q = run.ritz(), start_vector(60, 3, dtype=torch.float64)
    assert ritz.weights.sum() == pytest.approx(1)
    moved = q.clone()
    for power in range(10):
        assert ritz.weights @ ritz.values**power == pytest.approx(float(q @ moved), rel=1e-9, abs=1e-12)
        moved = matrix @ moved


def test_the_basis_is_orthonormal_and_ritz_vectors_are_eigenvectors():
    """Oracle: QQᵀ = 1, and ‖Av − λv‖ equals the stated residual."""
    matrix = symmetric(np.geomspace(1e-3, 10, 80))
    run = iterate(matrix, 40)
    torch.testing.assert_close(run.basis @ run.basis.T, torch.eye(40, dtype=torch.float64), rtol=0, atol=1e-12)
    ritz = run.ritz()
    for i in (0, 20, 39):
        v = run.vector(i)
        assert float((matrix @ v - ritz.values[i] * v).norm()) == pytest.approx(ritz.residuals[i], abs=1e-12)


def test_without_reorthogonalisation_ghosts_appear():
    """Oracle: one eigenvalue at 100, which must be found once."""
    matrix = symmetric(np.concatenate([np.linspace(0, 1, 99), [100.0]]))
    counts = [
        int((np.abs(iterate(matrix, 60, reorthogonalise=on).ritz().values - 100) < 1e-6).sum()) for on in (True, False)
    ]
    assert counts[0] == 1
    assert counts[1] > 1


def test_an_invariant_subspace_ends_the_iteration():
    """Oracle: a matrix with three different eigenvalues has a minimal polynomial of degree three."""
    run = iterate(symmetric([2.0] * 10 + [-1.0] * 10 + [5.0]), 10)
    assert run.exhausted
    assert run.steps == 3
    np.testing.assert_allclose(run.ritz().values, [-1, 2, 5], atol=1e-10)


def test_float32_finds_the_ends_of_a_float64_spectrum():
    """Oracle: the eigenvalues; float32 has seven digits, and products of 300 numbers lose about one."""
    values = np.concatenate([np.random.default_rng(0).normal(size=298), [-20.0, 30.0]])
    ritz = iterate(symmetric(values).float(), 60).ritz()
    assert ritz.values[-1] == pytest.approx(30, rel=1e-5)
    assert ritz.values[0] == pytest.approx(-20, rel=1e-5)


def test_the_density_integrates_to_one_and_bells_stand_where_eigenvalues_are():
    """Oracle: the trapezoidal rule, and the normal density at its mean."""
    values, weights = np.array([-1.0, 0.0, 4.0]), np.array([0.2, 0.7, 0.1])
    x = np.linspace(-5, 8, 4001)
    assert np.trapezoid(density(values, weights, 0.3, x), x) == pytest.approx(1, abs=1e-9)
    assert density(values, weights, 0.01, 4.0) == pytest.approx(0.1 / (0.01 * np.sqrt(2 * np.pi)))
    with pytest.raises(ValueError, match="width must be above 0, got 0"):
        density(values, weights, 0, x)


def test_probes_are_drawn_alike_everywhere_and_each_is_its_own():
    """Oracle: the named stream, drawn again; directions that are independent are nearly orthogonal."""
    one, again, other = start_vector(5000, 1), start_vector(5000, 1), start_vector(5000, 1, probe=1)
    assert torch.equal(one, again)
    assert abs(float(one @ other)) < 0.08
    assert float(one.norm()) == pytest.approx(1, abs=1e-6)


def test_a_product_that_is_not_finite_is_named_by_its_number():
    """Oracle: an operator that overflows at its second product."""
    calls = []

    def matvec(v):
        calls.append(v)
        return v * (1.0 if len(calls) == 1 else float("nan")) + torch.arange(4.0)

    run = Lanczos(matvec, torch.ones(4))
    run.step()
    with pytest.raises(ValueError, match="product 2 is not finite"):
        run.step()
    assert run.steps == 1
    with pytest.raises(ValueError, match="no product yet"):
        Lanczos(matvec, torch.ones(4)).ritz()
