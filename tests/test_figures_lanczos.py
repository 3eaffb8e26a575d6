"""Figures of the lesson on curvature: what is drawn equals the table, and titles say what numpy says."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from lntutor import figures
from tests import pictures
from tests.pictures import title, trace

SURFACES = {"bowl: 8 and 1": (8, 1), "saddle": (8, -1)}


def walked():
    """Two rates on two surfaces, ten steps: one comes down in the bowl, the other does not."""
    rows = [
        (surface, run, step, (1 - rate * a) ** step, (1 - rate * b) ** step)
        for (surface, (a, b)), (run, rate), step in product(
            SURFACES.items(), {"short": 0.2, "long": 0.3}.items(), range(11)
        )
    ]
    return pd.DataFrame(rows, columns=["surface", "run", "step", "x", "y"])


def ritz(runs=("",)):
    """One value more with each product, the largest at 10 from the second on; in the second run it comes twice."""
    rows = [(run, k, v) for run in runs for k in (1, 2, 3) for v in ([1.0], [0.5, 10.0], [-1.0, 0.5, 10.0])[k - 1]]
    rows += [(run, 3, 9.9999) for run in runs[1:]]
    return pd.DataFrame(rows, columns=["run", "products", "value"])


def blocks():
    """Both placements and sides, two layers, three matrices, two seeds."""
    places = product(("post", "pre"), ("encoder", "decoder"), (1, 2), ("W_V", "W_1", "W_2"), (0, 1))
    rows = [
        (key, side, layer, matrix, seed, layer * (3 if key == "post" else 1) + (side == "decoder") + 0.1 * seed)
        for key, side, layer, matrix, seed in places
    ]
    return pd.DataFrame(rows, columns=["placement", "side", "layer", "parameter", "seed", "lambda_max"])


def trained(runs=("one", "two", "three")):
    """Curvature 10, 20, 40 at three steps, 2/η at 25; the first step has no number yet; two seeds."""
    rows = [
        (run, "post", seed, step, 0.08, value + seed)
        for run, seed, (step, value) in product(runs, (0, 1), ((0, np.nan), (5, 10.0), (10, 20.0), (20, 40.0)))
    ]
    return pd.DataFrame(rows, columns=["run", "placement", "seed", "step", "rate", "lambda_max"])


EVERY = [
    lambda **more: figures.descent(walked(), SURFACES, **more),
    lambda **more: figures.ritz_values(ritz(), [-1, 0.5, 10], **more),
    lambda **more: figures.ritz_values(ritz(("careful", "careless")), [-1, 0.5, 10], **more),
    lambda **more: figures.ritz_values(ritz().drop(columns="run"), **more),
    lambda **more: figures.block_map(blocks(), **more),
    lambda **more: figures.curvature_over_training(trained(), **more),
    lambda **more: figures.curvature_over_training(trained(("one",)), threshold=38, **more),
]


@pytest.mark.parametrize("lecture", [False, True])
@pytest.mark.parametrize("make", EVERY)
def test_every_figure_is_one_that_plotly_accepts_and_has_words(make, lecture):
    """Oracle: plotly's own validation; title and note stand in the text alternative."""
    pictures.accepted(make, lecture)


@pytest.mark.parametrize("make", [figures.ritz_values, figures.block_map, figures.curvature_over_training])
def test_an_empty_table_is_said_in_a_sentence(make):
    """Oracle: the sentence stands in the picture and in its text alternative."""
    pictures.empty(make)


def test_a_path_is_drawn_over_its_own_surface():
    """Oracle: the table, and the loss at a corner; an uid that CSS could not name breaks plotly's contours."""
    table = walked()
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
    fig = figures.block_map(blocks())
    grid = trace(fig, "blocks/post/decoder").z
    np.testing.assert_allclose(grid, [[4.05] * 3, [7.05] * 3])
    assert "Post-LN 7.05 (decoder 2, W<sub>1</sub>)" in title(fig)
    assert "Mean over blocks: Post-LN decoder 5.55" in figures.alt_text(fig)


def test_curvature_stands_beside_its_threshold():
    """Oracle: means by pandas, 2/η of the table; looks without a number are not drawn."""
    fig = figures.curvature_over_training(trained())
    np.testing.assert_allclose(trace(fig, "curvature/one").y, [10.5, 20.5, 40.5])
    np.testing.assert_allclose(trace(fig, "limit/one").y, [25, 25, 25])
    assert title(fig) == "λmax is above 2/η at 3 of 9 looks"
    assert "one 1.6×" in figures.alt_text(fig)


def test_no_two_ticks_say_the_same():
    """Oracle: the ticks' words, on an axis that reaches past ten thousand."""
    fig = figures.curvature_over_training(trained().assign(lambda_max=lambda t: t["lambda_max"] * 2000), threshold=100)
    words = list(fig.layout.yaxis.ticktext)
    assert len(set(words)) == len(words)
