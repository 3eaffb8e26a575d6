"""Figures of curvature: what is drawn equals the table, and titles say what numpy says."""

import numpy as np
import pandas as pd
import pytest

from lntutor import figures
from tests.figures.registry import SURFACES, curvatures, hessian_blocks, paths, ritz, spectra, title, trace


def test_spectrum_marks_both_ends_and_the_stable_rate():
    """Oracle: λ of the table, mean over seeds, and their least and greatest."""
    fig = figures.spectrum(spectra(), two_over_eta=3.5)
    marks = trace(fig, "ends/post")
    np.testing.assert_allclose(marks.x, [-2, 4.05])
    np.testing.assert_allclose(marks.error_x.array, [0, 0.05])
    np.testing.assert_allclose(marks.error_x.arrayminus, [0, 0.05])
    assert [text.strip() for text in trace(fig, "numbers/post").text] == ["−2", "4.05"]
    assert set(trace(fig, "two_over_eta").x) == {3.5}
    assert title(fig) == "Post-LN: λ from −2 to 4.05; Pre-LN: λ from −2 to 2.05; above 2/η = 3.5: Post-LN"
    assert np.isnan(trace(fig, "density/post").x).sum() == 1
    assert "Eigenvalues from −5 to 5" in title(figures.spectrum(spectra().drop(columns=["lambda_max", "lambda_min"])))
    assert title(figures.spectrum(spectra(), two_over_eta=1)).endswith("above 2/η = 1: both")
    assert title(figures.spectrum(spectra(), two_over_eta=9)).endswith("above 2/η = 9: none")
    assert "λmax from 1 (" in title(figures.spectrum(spectra(("post", "pre", "peri", "none")).assign(seed=0)))


def test_a_stable_rate_that_is_far_away_does_not_squeeze_the_spectrum():
    """Oracle: the view without the line, and with one just beyond the last eigenvalue."""
    view, near, far = (figures.spectrum(spectra(), two_over_eta=v) for v in (None, 6.0, 2000.0))
    assert far.layout.xaxis.range == view.layout.xaxis.range
    assert far.layout.annotations[0].text == "2/η = 2,000 →"
    assert near.layout.xaxis.range[1] > 6 > view.layout.xaxis.range[1] - 1
    assert near.layout.annotations[0].text == "2/η = 6"


def test_spectra_of_one_placement_are_told_apart_by_their_names_and_looks():
    """Oracle: the names given, and as many looks as names."""
    table = pd.concat([spectra(("post",)).assign(run=name) for name in ("Post-LN, 2+2 layers", "Post-LN, 6+6 layers")])
    fig = figures.spectrum(table, matrix="the <i>matrix</i>")
    lines = [t for t in fig.data if t.uid.startswith("density/")]
    assert [t.name for t in lines] == ["Post-LN, 2+2 layers", "Post-LN, 6+6 layers"]
    assert len({(t.line.color, t.line.dash) for t in lines}) == 2
    assert lines[0].line.color == figures.placement_style("post")["color"]
    assert "the &lt;i&gt;matrix" in fig.layout.xaxis2.title.text


def test_the_hills_at_both_ends_are_in_sight_however_low():
    """Oracle: the density at the ends of a spectrum whose last eigenvalue has a share of 1e-9; 1e-30 is too little."""
    x = np.linspace(-5, 5, 401)
    for share, seen in ((1e-9, True), (1e-30, False)):
        density = np.exp(-((x / 0.2) ** 2)) + share * np.exp(-(((x + 4) / 0.2) ** 2))
        table = pd.DataFrame({"placement": "post", "x": x, "density": density, "lambda_min": -4.0, "lambda_max": 0.5})
        fig = figures.spectrum(table)
        drawn = dict(zip(*(trace(fig, "density/post")[name] for name in "xy"), strict=True))
        assert np.isfinite(drawn[-4.0]) == seen
        if seen:
            assert 10 ** fig.layout.yaxis.range[0] < drawn[-4.0]


def test_a_path_is_drawn_over_its_own_surface():
    """Oracle: the table, and the loss at a corner; an uid that CSS could not name breaks plotly's contours."""
    table = paths()
    fig = figures.descent(table, SURFACES)
    for column, (surface, (a, b)) in enumerate(SURFACES.items(), 1):
        ground = trace(fig, f"surface/{column}")
        x, y = np.array(ground.x), np.array(ground.y)
        np.testing.assert_allclose(ground.z[0][3], 0.5 * (a * x[3] ** 2 + b * y[0] ** 2))
        for n, run in enumerate(("short", "long")):
            here = table[(table["surface"] == surface) & (table["run"] == run)]
            np.testing.assert_allclose(trace(fig, f"path/{column}/{n}").x, here["x"])
    assert title(fig) == "After 10 steps 1 of 4 paths are near the middle"
    assert all(set(t.uid) <= set("abcdefghijklmnopqrstuvwxyz/0123456789") for t in fig.data)


def test_ghosts_are_counted_in_the_title():
    """Oracle: the values at 10 after the last product."""
    fig = figures.ritz_values(ritz(("careful", "careless")), [-1, 0.5, 10])
    assert title(fig) == "After 3 products: 1 at 10, the largest (careful); 2 at 10, the largest (careless)"
    np.testing.assert_allclose(trace(fig, "ritz/careful").y, [1, 0.5, 10, -1, 0.5, 10])
    assert title(figures.ritz_values(ritz())) == "After 3 products: from −1 to 10"


def test_a_block_has_the_mean_over_seeds_in_its_cell():
    """Oracle: pandas; layers stand from the bottom up."""
    fig = figures.block_map(hessian_blocks())
    grid = trace(fig, "blocks/post/decoder").z
    np.testing.assert_allclose(grid, [[4.05] * 3, [7.05] * 3])
    assert "Post-LN 7.05 (decoder 2, W_1)" in title(fig)
    assert "Mean over blocks: Post-LN decoder 5.55" in figures.alt_text(fig)


def test_curvature_stands_beside_its_threshold():
    """Oracle: means by pandas, 2/η of the table; looks without a number are not drawn; no two ticks say the same."""
    fig = figures.curvature_over_training(curvatures())
    np.testing.assert_allclose(trace(fig, "curvature/one").y, [10.5, 20.5, 40.5])
    np.testing.assert_allclose(trace(fig, "limit/one").y, [25, 25, 25])
    assert title(fig) == "λmax is above 2/η at 3 of 9 looks"
    assert "one 1.6×" in figures.alt_text(fig)
    steep = curvatures().assign(lambda_max=lambda t: t["lambda_max"] * 2000)
    ticks = figures.curvature_over_training(steep, threshold=100).layout.yaxis.ticktext
    assert len(set(ticks)) == len(ticks)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, -1.0])
def test_no_positive_curvature_is_a_sentence(value):
    """Oracle: the sentence in place of the plot."""
    fig = figures.curvature_over_training(curvatures().assign(lambda_max=value))
    assert not fig.data
    assert "no curvature" in figures.alt_text(fig)
