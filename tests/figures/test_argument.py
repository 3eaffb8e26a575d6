"""Assumptions, seesaw and transplant: what their titles and lines say, of tables with known numbers."""

import pytest

from lntutor import figures
from tests.figures.registry import power_laws, streams, title, trace, transplants


def test_the_title_sets_measurement_against_the_theorem():
    """Oracle: Post-LN flat and Pre-LN a power of −½, 8 layers over 1; a model that falls faster."""
    model = power_laws(seeds=1).assign(value=lambda t: t["value"] / t["depth"])
    assert title(figures.assumptions(power_laws(noise=0), model)) == (
        "Last layer, 8 layers over 1: Post-LN 1.00× (theorem 0.12×), Pre-LN 0.35× (theorem 0.044×)"
    )


def test_the_seesaw_is_symmetric_where_the_product_is_one():
    """Oracle: q = 1 + l, g = 1/(1 + l); the product is 1."""
    fig = figures.seesaw(streams(seeds=1), layer=2)
    q, g, product = (list(trace(fig, f"{kind}/pre").x) for kind in ("q", "g", "qg"))
    assert q == pytest.approx([1, 2, 3, 4, 5, 6, 7])
    assert [a * b for a, b in zip(q, g, strict=True)] == pytest.approx([1] * 7)
    assert product == [1] * 7
    assert "Pre-LN: q 7.0×, g 0.1×, q·g 1.0×" in title(fig)


def test_the_share_of_the_gain_lies_between_nothing_and_everything():
    """Oracle: losses 4.05, 2.55 and 1.05, so half of the gain; a run that diverged has no share."""
    fig = figures.transplant(transplants(), chosen="decoder.2 alone")
    assert title(fig) == "Warmed up: decoder.2 alone. Loss 2.55, 50 % of the gain"
    assert [shape.x0 for shape in fig.layout.shapes] == pytest.approx([4.05, 1.05])
    lost = figures.transplant(transplants((("decoder.2 alone", 0),)), chosen="decoder.2 alone")
    assert title(lost) == "Warmed up: decoder.2 alone. A run diverged"
    assert "decoder.2 alone, 1 diverged" in lost.layout.yaxis.ticktext
    assert title(figures.transplant(transplants(), chosen="decoder.1")).endswith("No loss is known yet")
