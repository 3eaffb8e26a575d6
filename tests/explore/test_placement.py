"""The placement explorer in process: every placement in every stack is drawn as the figure called directly draws it."""

import pytest

import lntutor as ln
from lntutor import figures
from lntutor.explore import PlacementExplorer
from lntutor.explore.placement import PLACES
from lntutor.placements import At, blocks, draw

pytestmark = pytest.mark.usefixtures("no_pause")


def title(e: PlacementExplorer) -> str:
    return e.figure.layout.title.text


@pytest.mark.parametrize("place", PLACES)
def test_the_diagram_follows_the_placement_and_the_stack(place):
    """Oracle: figures.block_diagram called directly; formula, reference and year of the dict stand in it."""
    e, (stack, side) = PlacementExplorer(), PLACES[place]
    e.controls["place"].value = place
    some = ("post", "pre", "b2t", "hybrid")  # a stack on its own has the same layers
    for key in ln.PLACEMENTS if stack == "encoder-decoder" else some:
        placement = ln.PLACEMENTS[key]
        e.controls["placement"].value = key
        assert e.error is None
        assert e.figure.to_json() == figures.block_diagram(key, stack=stack, side=side).to_json()
        assert placement.formula in title(e).replace("<br>", " ").replace("  ", " ")
        assert placement.reference in figures.alt_text(e.figure)
        if placement.year:
            assert f"Since {placement.year}" in e.figure.layout.title.subtitle.text


@pytest.mark.parametrize("place", PLACES)
def test_the_table_has_an_arrow_into_every_sub_layer_and_norm(place):
    """Oracle: the rule read on boxes, counted."""
    stack, side = PLACES[place]
    for key in ("post", "pre", "peri", "b2t"):
        e = PlacementExplorer(placement=key, place=place)
        drawing = draw(ln.PLACEMENTS[key], At(side, 1, 6, stack))
        into = set(e.table()["to"])
        assert set(blocks(stack, side)) <= into
        norms = {name for name in into if name.startswith("norm")}
        assert len(norms) == len(drawing.norms) + (drawing.out.kind == "norm" and drawing.out not in drawing.norms)


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


def test_presets_and_state_rebuild_the_view():
    """Oracle: a second explorer with the same state."""
    for preset, state in PlacementExplorer.PRESETS.items():
        e = PlacementExplorer(preset=preset)
        assert e.error is None
        assert {name: e.state()[name] for name in state} == state
        assert PlacementExplorer(**e.state()).figure.to_json() == e.figure.to_json()
    assert e.code() == "PlacementExplorer(placement='pre', layer=6)"
    e.reset()
    assert e.state() == PlacementExplorer().state()


def test_a_readers_own_placement_is_drawn_and_a_redefined_one_is_not_an_old_one():
    """Oracle: the norms in the table before and after."""
    try:
        ln.PLACEMENTS["mine"] = ln.Placement(
            "Mine", "x ← x + f(x)", lambda x, subs, N, at: subs[1](x + subs[0](x)), "A reader", 2031
        )
        e = PlacementExplorer(placement="mine")
        assert "A reader" in figures.alt_text(e.figure)
        assert not e.table()["to"].str.startswith("norm").any()
        ln.PLACEMENTS["mine"] = ln.Placement("Mine", "x ← N(x + f(x))", lambda x, subs, N, at: N(x + subs[0](x)))
        e.refresh()
        assert e.table()["to"].str.startswith("norm").any()
    finally:
        ln.PLACEMENTS.pop("mine")


def test_it_has_no_pins_and_its_controls_have_names_and_tooltips():
    """Oracle: the widgets; the twin for pages without a kernel says what is drawn."""
    e = PlacementExplorer(lecture=True)
    assert "pin" not in e.buttons
    assert len(e.FIRST) <= 5
    assert all(control.description and control.tooltip for control in e.controls.values())
    assert "self-attention" in e._repr_mimebundle_()["text/html"]
