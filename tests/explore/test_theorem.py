"""The theorem's explorers in process: the picture is the measurement called directly."""

from math import sqrt

import numpy as np
import pandas as pd
import pytest

import lntutor as ln
from lntutor.explore import BoundednessExplorer, TheoremExplorer
from lntutor.explore.theorem import closed_form, probe
from lntutor.measure.signals import last_norm_inputs

pytestmark = pytest.mark.usefixtures("no_pause")


def test_it_shows_the_measurement_the_recursion_and_the_bound():
    """Oracle: ln.last_layer_gradients, ln.predict and ln.theorem_bound called directly."""
    e = TheoremExplorer(depth=4, width=32, tokens=4, seeds=2)
    e.settle()
    same = {"inputs": ln.Inputs(tokens=4, loss="probe"), "seeds": range(2)}
    configs = [ln.ModelConfig.theorem(key, 4, 32) for key in ("post", "pre")]
    direct = [ln.last_layer_gradients(cfg, range(1, 5), **same) for cfg in configs]
    pd.testing.assert_frame_equal(e.tables["measured"], pd.concat(direct, ignore_index=True))
    line = [ln.predict(cfg, "last_layer", depths=range(1, 5), **same) for cfg in configs]
    pd.testing.assert_frame_equal(e.tables["theory"], pd.concat(line, ignore_index=True))
    bounds = [ln.theorem_bound(ln.ModelConfig.theorem(key, L, 32)) for key in ("post", "pre") for L in range(1, 5)]
    np.testing.assert_allclose(e.tables["bound"]["value"], bounds)
    assert set(e.table()["kind"]) == {"measured", "theory", "closed", "bound"}


def test_the_closed_form_has_the_q_that_the_last_norm_reads():
    """Oracle: √(d/3n) and √(d/(2 + 3L)) for the mean sizes, and the measured sizes for the table."""
    assert closed_form(48, 4, 1.5) == sqrt(48 / 12)
    assert closed_form(48, 1, 1 + 1.5 * 2) == sqrt(48 / 8)
    e = TheoremExplorer(depth=2, width=32, tokens=2, seeds=2)
    e.settle()
    for key, site in (("post", "sum"), ("pre", "out")):
        norms = ln.signal_norms(ln.ModelConfig.theorem(key, 2, 32), seeds=range(2), inputs=probe(2))
        q = norms[(norms["layer"] == 2) & (norms["site"] == site)]["value"].mean()
        closed = e.tables["closed"].set_index(["placement", "depth"])["value"]
        assert closed[key, 2] == pytest.approx(sqrt(32 / (4 * q)))


def test_what_is_not_ticked_is_not_drawn():
    """Oracle: the traces of the figure."""
    e = TheoremExplorer(depth=2, width=16, seeds=1, closed=False)
    assert not [t for t in e.figure.data if t.uid == "closed" or t.uid.startswith("bound")]
    e.controls["bound"].value = True
    assert [t.uid for t in e.figure.data if t.uid.startswith("bound")] == ["bound/post", "bound/pre"]


def test_boundedness_shows_the_norms_themselves():
    """Oracle: last_norm_inputs called directly."""
    e = BoundednessExplorer(depth=2, width=32, seeds=2)
    e.settle()
    same = {"seeds": range(2), "inputs": probe(1, 128)}
    direct = [last_norm_inputs(ln.ModelConfig.theorem(key, 2, 32), **same) for key in ("post", "pre")]
    pd.testing.assert_frame_equal(e.tables, pd.concat(direct, ignore_index=True))
    assert "ε = 0.10" in e.figure.layout.title.text
