"""The map whose squares open a run: what is drawn equals the tables."""

import numpy as np
import pandas as pd

from lntutor import figures
from tests.figures.registry import grid, stored_losses, title, trace


def test_the_map_frames_the_chosen_square_and_shows_its_losses_beside_the_others():
    """Oracle: the tables, their rows of this rate and warm-up; means by pandas."""
    losses, validations = stored_losses((10, 20, 30)), stored_losses()
    table = pd.concat([grid().assign(seed=0), grid().assign(seed=1, value=grid()["value"] + 1)])
    tables = table, losses[losses["seed"] == 0], validations
    fig = figures.run_map(*tables, chosen=("pre", 0.01, 100))
    assert title(fig) == "Pre-LN, rate 0.01, warm-up 100: validation loss 3.6 (3.1 to 4.1, 2 seeds); Post-LN 2.6"
    (frame,) = fig.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1, frame.xref, frame.yref) == (0.5, 1.5, 0.5, 1.5, "x2", "y2")
    np.testing.assert_allclose(np.array(trace(fig, "heat/pre").z, float), [[2.51, 3.51], [2.6, 3.6]])
    for key in ("post", "pre"):
        of = "placement == @key and lr == 0.01 and warmup == 100"
        assert list(trace(fig, f"loss/{key}").y) == losses.query(of + " and seed == 0")["loss"].tolist()
        means = validations.query(of).groupby("step")["loss"].mean()
        np.testing.assert_allclose(trace(fig, f"validation/{key}").y, means)
    assert trace(fig, "loss/pre").line.width > trace(fig, "loss/post").line.width
    other = figures.run_map(*tables, chosen=("post", 0.001, 0))
    assert other.layout.yaxis3.range == fig.layout.yaxis3.range  # the axes stay


def test_what_is_not_stored_or_diverged_is_said():
    """Oracle: the words."""
    table = grid().assign(value=lambda t: t["value"].where(t["lr"] < 0.005, np.inf))
    fig = figures.run_map(table, chosen=("post", 0.01, 0))
    assert title(fig) == "Post-LN, rate 0.01, no warm-up: validation loss diverged; Pre-LN diverged"
    assert "No losses are stored for these runs" in figures.alt_text(fig)
    assert "is not stored" in title(figures.run_map(table, chosen=("post", 0.5, 0)))
