"""Every control of every explorer refuses what it does not offer, with a sentence, and then stands as it stood."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lntutor import explore
from lntutor.explore import base
from lntutor.page.kit.panel import Chips, Layers, OneChip, Segments, Slider, Switch, TextField
from tests.explore.explorers import NAMES, all_values, has_several
from tests.repository.test_fuzz import JUNK, refused

NOT_OFFERED = (None, [], {}, math.nan, math.inf, -1, 10**12, 10**400, "nonsense", "<b>", b"x", 1j, object(), np.ones(2))
WRONG = {  # kind of control → values that it must refuse, beside those that no control takes
    Slider: ("3", True, 10**9),
    Segments: (["post"], (), True, "Post-LN"),
    Chips: ("post", ["prr"], ["post", 3], 3),
    Layers: ("decoder.1", ["decoder.7"], ["decoder.1", 3], 3),
    OneChip: ("prr", ["post"], (), 3),
    Switch: ("yes", 1, 0.0),
    TextField: (3, ["a"]),
}
FRACTION = {"depth": (2.5,), "seeds": (1.5,)}  # of whole numbers
EXPLORERS = {  # explorer → its controls, as the reader names them
    "AdamExplorer": "mean noise scale beta1 beta2 warmup uncorrected steps runs lecture",
    "AssumptionExplorer": "view softmax heads w_o ffn init norm causal cross words loss depth width tokens seeds "
    "lecture",
    "AttentionExplorer": "sentence width scaled causal view heads head keys seed lecture",
    "BoundednessExplorer": "epsilon width depth seeds lecture",
    "CurvatureExplorer": "placements depth width pairs bandwidth products probes seeds kind corpus lr lecture stored",
    "LayerNormExplorer": "source k view dimension seed x1 x2 x3 x4 lecture",
    "PlacementExplorer": "placement place layer depth lecture",
    "RatesExplorer": "placement lr warmup value sentence lecture",
    "ScheduleExplorer": "warmup lr schedule steps read lecture",
    "SeesawExplorer": "placements layer depth width tokens theory seeds lecture",
    "TheoremExplorer": "depth width tokens along bound closed seeds lecture",
    "TrainingExplorer": "preset placements warmup optimizer lr depth width steps seeds task corpus schedule "
    "label_smoothing lecture",
    "TransplantExplorer": "network warmed seeds everything lecture",
}
SENTENCES = ("", "   ", "a " * 25, "x" * 10**6)  # text that is no sentence: said under the plot, which stays


@pytest.fixture(scope="module")
def made():
    """One explorer of each kind, with nothing in the background."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "PAUSE", 3600)
        patch.setenv(base.STRICT, "1")
        yield {name: getattr(explore, name)() for name in NAMES}


def offers(control, value) -> bool:
    """Whether a control takes this value after all: its list has it, or its range."""
    if isinstance(control, TextField):
        return isinstance(value, str)
    if has_several(control):
        return isinstance(value, list | tuple | dict) and not value  # none chosen: said under the plot
    return type(value) in (str, int, float) and value in all_values(control)


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_control_refuses_what_it_does_not_offer_and_stays_as_it_was(made, name):
    """Oracle: the lists above; the sentence names the control, or lists them, and the state is the one before."""
    explorer = made[name]
    assert list(explorer.controls) == EXPLORERS[name].split()
    before, other = explorer.state(), "lecture"
    for control_name, control in explorer.controls.items():
        for value in (*NOT_OFFERED, *WRONG[type(control)], *FRACTION.get(control_name, ())):
            if offers(control, value):
                continue
            both = {other: not before[other], control_name: value} if control_name != other else {other: value}
            with pytest.raises(ValueError, match=f"{control_name} must be|there is no corpus|name must be"):
                explorer.set(**both)
            assert explorer.state() == before, (control_name, value)


@pytest.mark.parametrize("name", EXPLORERS)
def test_the_constructor_refuses_the_same(name):
    """Oracle: the first control set to a thing that no control takes, a control and a preset that are not there."""
    explorer = getattr(explore, name)
    first = EXPLORERS[name].split()[0]
    for state, message in (
        ({first: object()}, f"{first} must be"),
        ({"nonsense": 1}, f"{name} has no control 'nonsense'; it has {first}"),
        ({"preset": "nonsense"}, "preset must be one of"),
        ({"preset": ["a"]}, "preset must be"),
        ({"preset": 3}, "preset must be"),
    ):
        with pytest.raises(ValueError, match=message):
            explorer(**state)


def test_text_that_is_no_sentence_is_answered_under_the_plot(made):
    """Oracle: the words under the plot, and the picture before."""
    explorer = made["AttentionExplorer"]
    explorer.reset()
    drawn = explorer.figure.to_json()
    for sentence in SENTENCES:
        explorer.set(sentence=sentence)
        assert "the sentence must have" in explorer.status.value
        assert explorer.figure.to_json() == drawn
    explorer.reset()


@pytest.mark.parametrize("name", EXPLORERS)
@settings(max_examples=120)
@given(data=st.data())
def test_junk_in_a_control_is_a_sentence_or_a_picture(made, name, data):
    """Oracle: a ValueError with words, or a state that holds the value; nothing else comes out of `set`."""
    explorer = made[name]
    control = data.draw(st.sampled_from([c for c in explorer.controls if c not in ("corpus", "lecture")]))
    value, before = data.draw(JUNK), explorer.state()
    message = refused(lambda: explorer._apply({control: value}, check=True))  # what `set` does before it draws
    if message:
        assert control in message
        assert explorer.state() == before
    else:
        taken = explorer.state()[control]
        assert taken == (list(value) if isinstance(taken, list) else value)
        explorer._apply(before)


def test_numbers_of_numpy_move_a_slider(made):
    """Oracle: the same with Python's own numbers."""
    made["TheoremExplorer"].set(depth=np.int64(3), width=np.int32(64), closed=np.bool_(False))
    state = made["TheoremExplorer"].state()
    assert (state["depth"], state["width"], state["closed"]) == (3, 64, False)
    assert [type(state[name]) for name in ("depth", "width", "closed")] == [int, int, bool]
