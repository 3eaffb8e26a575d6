"""The placement explorer in process: every placement in every stack is drawn as the figure called directly draws it."""

import pytest

import lntutor as ln
from lntutor import figures
from lntutor.explore import PlacementExplorer
from lntutor.explore.placement import PLACES
from lntutor.model.placements import At, blocks, draw

pytestmark = pytest.mark.usefixtures("no_pause")


def title(e: PlacementExplorer) -> str:
    return e.figure.layout.title.text


@pytest.mark.parametrize("place", PLACES)
def test_diagram_and_table_follow_the_placement_and_the_stack(place):
    """Oracle: figures.block_diagram; formula, reference and year of the dict; the boxes of the rule, counted."""
    e, (stack, side) = PlacementExplorer(), PLACES[place]
    e.controls["place"].value = place
    some = ("post", "pre", "peri", "b2t", "hybrid")  # a stack on its own has the same layers
    for key in ln.PLACEMENTS if stack == "encoder-decoder" else some:
        placement = ln.PLACEMENTS[key]
        e.controls["placement"].value = key
        assert e.error is None
        assert e.figure.to_json() == figures.block_diagram(key, stack=stack, side=side).to_json()
        assert placement.formula in title(e).replace("<br>", " ").replace("  ", " ")
        assert placement.reference in figures.alt_text(e.figure)
        if placement.year:
            assert f"Since {placement.year}" in e.figure.layout.title.subtitle.text
        into = set(e.table()["to"])
        assert set(blocks(stack, side)) <= into
        if key in ("post", "pre", "peri", "b2t"):
            drawing = draw(placement, At(side, 1, 6, stack))
            norms = len(drawing.norms) + (drawing.out.kind == "norm" and drawing.out not in drawing.norms)
            assert sum(name.startswith("norm") for name in into) == norms


def test_layer_and_depth_reach_the_rules_that_depend_on_them():
    """Oracle: Mix-LN is Post-LN in its first quarter and Pre-LN above it."""
    e = PlacementExplorer(placement="mix", depth=8)
    assert "every path" in title(e)
    e.controls["layer"].value = 3
    assert "one path through the layer meets no norm" in title(e)
    assert "layer 3<br>of 8" in [label.text for label in e.figure.layout.annotations]


def test_a_layer_above_the_last_is_said_in_words_and_the_picture_stays():
    """Oracle: the sentence, and the figure before."""
    e = PlacementExplorer(depth=2)
    before = e.figure.to_json()
    e.controls["layer"].value = 3
    assert "Layer must be at most Depth, 2, got 3." in e.status.value
    assert "The last picture stays" in e.status.value
    assert e.figure.to_json() == before
    e.controls["depth"].value = 3
    assert e.error is None


def test_a_readers_own_placement_is_drawn_and_a_redefined_one_is_not_an_old_one(assign_mine):
    """Oracle: the norms in the table before and after; the twin for pages without a kernel names the sub-layers."""
    assign_mine(lambda x, subs, N, at: subs[1](x + subs[0](x)), "x ← x + f(x)", "A reader", 2031)
    e = PlacementExplorer(placement="mine", lecture=True)
    assert "A reader" in figures.alt_text(e.figure)
    assert "self-attention" in e._repr_mimebundle_()["text/html"]
    assert not e.table()["to"].str.startswith("norm").any()
    assign_mine(lambda x, subs, N, at: N(x + subs[0](x)))
    e.refresh()
    assert e.table()["to"].str.startswith("norm").any()
