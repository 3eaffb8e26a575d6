"""The playground in Python: its state follows the page both ways, its table is that of `gradient_norms`."""

import json
import math

import numpy as np
import pandas as pd
import pytest

import lntutor as ln
from lntutor import lesson
from lntutor.explore import Playground
from lntutor.explore import playground as module
from lntutor.measure.recorder import AGREEMENT

SMALL = {"depth": 2, "width": 16, "heads": 2, "tokens": 4, "seeds": 2}
WRONG = {  # setting → values that it must refuse
    "placement": ("prr", None, 3, [], b"post", {}), "slots": ("CA", "E", "AA", None, 3, ["A"], {}),
    "depth": (0, 49, 10**12, 10**400, "6", 2.5, True, None, math.nan, [6]),
    "width": (0, 17, 1024, "64", 64.0, True, None, np.ones(2)), "heads": (3, 16, "4", None, True, []),
    "tokens": (0, 3, 128, "16", None, {}), "ffn": (3, 8, "4", None, True), "seeds": (0, 11, 2.5, None, "3", True),
    "stack": ("tower", None, 3, []), "attention": ("hard", None, 3), "init": ("zero", None, 3),
    "norm": ("batch", None, 3, "Layer"), "parameter": ("W_9", None, 3), "view": ("by layer", None, 3),
    "compare": (3, None, ["prr"], [3], [None], {"a": 1}), "lemma2": (1, "yes", None),
    "theory": (1, "yes", None, []), "lecture": (0, "no", None), "output_projection": (1, "yes", None),
}  # fmt: skip


@pytest.fixture
def playground():
    """A playground of a small model, closed in the end."""
    made = Playground(**SMALL)
    yield made
    made.close()


def sent(playground, table: pd.DataFrame, **changes) -> dict:
    """What the page would send for this table."""
    names = ["side", "layer", "block", "parameter", "seed", "value", "below_floor"]
    columns = {name: table[name].tolist() for name in names}
    message = {"edition": playground.data["edition"], "state": playground.state(), "columns": columns, **changes}
    return json.loads(json.dumps(message))


# State ---------------------------------------------------------------------------------------------------------


def test_a_state_rebuilds_the_view_and_the_code_says_only_what_is_changed(playground):
    """Oracle: Python itself, which runs the line."""
    playground.set(placement="b2t", theory=False, view="signal")
    assert Playground(**playground.state()).state() == playground.state()
    made = eval(playground.code(), {"Playground": Playground})
    assert made.state() == playground.state()
    assert Playground().code() == "Playground()"
    assert Playground(slots="AC", depth=2).code() == "Playground(slots='AC', depth=2)"
    assert Playground(slots="AD").code() == "Playground(placement='pre')"
    assert Playground(compare=("pre", "pre", "peri")).code() == "Playground(compare=['pre', 'peri'])"


@pytest.mark.parametrize("name", Playground.PRESETS)
def test_a_preset_is_a_state_that_can_be_changed_further(name):
    """Oracle: the preset's own settings; Theorem 1's setting as `broken_assumptions` knows it."""
    state = Playground(name, seeds=1, lecture=True).state()
    assert state.items() >= (Playground.PRESETS[name] | {"seeds": 1, "lecture": True}).items()
    if "theorem" in name or name == "lemma 2":
        broken = ln.broken_assumptions(module.model_config(state, "post"), module.model_inputs(state))
        assert len(broken) <= 1  # the loss: the theorem bounds its derivative


def test_placements_are_the_chosen_one_and_those_beside_it(playground):
    """Oracle: the two settings that it stands for; sentences."""
    assert (
        Playground(placements=["pre", "post", "peri"]).state()
        == Playground(placement="pre", compare=["post", "peri"]).state()
    )
    playground.set(placements="pre")
    assert (playground.state()["placement"], playground.state()["compare"]) == ("pre", [])
    for given, words in (
        ({"placements": []}, "placement must be one of"), ({"placements": 3}, "placements must be a list"),
        ({"placements": ["pre"], "compare": []}, "give placements or compare, not both"),
        ({"placements": ["pre", "prr"]}, "compare must be one of post, pre"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            playground.set(**given)
    with pytest.raises(ValueError, match="preset must be one of post and pre, theorem"):
        Playground("fig 3")


def test_a_state_that_was_asked_for_is_a_copy(playground):
    """Oracle: the state after its list was changed."""
    playground.state()["compare"].append("pre")
    assert playground.state()["compare"] == Playground().state()["compare"] == []


def test_its_settings_start_as_those_of_a_model_do():
    """Oracle: the defaults of ModelConfig and Inputs."""
    state, cfg = Playground().state(), ln.ModelConfig()
    for name in ("depth", "width", "stack", "heads", "attention", "init", "output_projection", "norm"):
        assert state[name] == getattr(cfg, name)
    assert (state["placement"], state["tokens"], state["ffn"]) == ("post", ln.Inputs().tokens, cfg.ffn // cfg.width)


def test_a_placement_sets_the_slots_and_slots_the_placement(playground):
    """Oracle: the formulas, read by hand."""
    for key, slots in (("pre", "AD"), ("peri", "ABD"), ("none", ""), ("residual", None)):
        playground.set(placement=key)
        assert playground.state()["slots"] == slots
    for slots, key in (("C", "post"), ("BD", "res_post"), ("", "none"), ("ABCD", "")):
        playground.set(slots=slots)
        assert playground.state()["placement"] == key


@pytest.mark.parametrize("name", WRONG)
def test_a_setting_refuses_what_it_does_not_offer_and_stays_as_it_was(playground, name):
    """Oracle: the table above; a sentence that names the setting, from the constructor, `set` and the trait."""
    before = playground.state()
    for value in WRONG[name]:
        for change in (lambda **k: Playground(**k), playground.set, lambda **k: setattr(playground, "value", k)):
            with pytest.raises(ValueError, match=name) as refused:
                change(**{name: value})
            assert len(str(refused.value)) < 500
        assert playground.state() == before


def test_contradictions_and_unknown_names_are_said():
    """Oracle: the sentences."""
    with pytest.raises(ValueError, match=r"slots must be 'AD' for placement='pre', got 'C'"):
        Playground(placement="pre", slots="C")
    with pytest.raises(ValueError, match="no setting 'dpeth'; it has placement, slots, depth"):
        Playground(dpeth=3)
    assert set(WRONG) == set(Playground().state())


def test_numbers_of_numpy_are_as_good_as_pythons(playground):
    """Oracle: JSON, which has no others."""
    playground.set(depth=np.int64(3), width=np.int32(64), theory=np.bool_(False))
    assert json.loads(json.dumps(playground.value))["depth"] == 3


def test_a_state_from_the_page_is_the_state_here_and_is_told_to_who_listens(playground):
    """Oracle: what ipywidgets calls when a message comes in."""
    seen = []
    playground.observe(lambda change: seen.append(change.new["depth"]), "value")
    playground.set_state({"value": playground.state() | {"depth": 5, "placement": "pre", "slots": "AD"}})
    assert playground.state()["placement"] == "pre"
    assert seen == [5]


# The table -----------------------------------------------------------------------------------------------------


def test_the_table_is_that_of_gradient_norms(playground):
    """Oracle: `gradient_norms` of the same model; without a name, of the same rule written by hand."""
    cfg = ln.ModelConfig("post", depth=2, width=16, heads=2, ffn=64)
    inputs = ln.Inputs(tokens=4)
    pd.testing.assert_frame_equal(playground.table(), ln.gradient_norms(cfg, seeds=range(2), inputs=inputs))
    playground.set(slots="BC")
    rule = ln.Placement("slots BC", "x", ln.each(lambda x, f, N, at: N(x + N(f(x)))))
    wanted = ln.gradient_norms(cfg.with_(placement=rule), seeds=range(2), inputs=inputs)
    pd.testing.assert_frame_equal(playground.table(), wanted, rtol=AGREEMENT)


def test_the_table_has_every_placement_in_view(playground, monkeypatch):
    """Oracle: `gradient_norms` of each, one below the other; then the numbers of the page, which are others."""
    playground.set(placement="post", compare=["pre", "post"])
    cfg, asked = ln.ModelConfig("post", depth=2, width=16, heads=2, ffn=64), {"inputs": ln.Inputs(tokens=4)}
    wanted = [ln.gradient_norms(cfg.with_(placement=key), seeds=range(2), **asked) for key in ("post", "pre")]
    pd.testing.assert_frame_equal(playground.table(), pd.concat(wanted, ignore_index=True))
    playground.set_state({"rows": sent(playground, playground.table().assign(value=7.0))})
    monkeypatch.setattr(module, "gradient_norms", None)
    assert (playground.table()["value"] == 7.0).all()
    assert list(playground.table()["placement"].unique()) == ["post", "pre"]


def test_the_pages_own_numbers_are_the_table_while_they_are_of_this_state(playground, monkeypatch):
    """Oracle: `gradient_norms` counted; numbers that it would never give."""
    table, measured = playground.table(), []
    monkeypatch.setattr(module, "gradient_norms", lambda *a, **k: measured.append(1) or table)
    playground.set_state({"rows": sent(playground, table.assign(value=7.0))})
    assert (playground.table()["value"] == 7.0).all()
    pd.testing.assert_frame_equal(playground.table().assign(value=table["value"]), table)
    playground.set(theory=False, parameter="W_Q", view="depth")  # of what is drawn, not of what is measured
    assert (playground.table()["value"] == 7.0).all()
    assert not measured
    playground.set(tokens=8)
    playground.table()
    assert measured == [1]


def test_rows_that_are_too_few_or_of_another_rule_are_not_used(playground, monkeypatch):
    """Oracle: the numbers of the message, which do not come back."""
    table = playground.table()
    seven = table.assign(value=7.0)
    for message in (
        sent(playground, seven.head(3)), sent(playground, seven, edition=5), {}, {"edition": 0}, {"columns": 3},
        sent(playground, seven, columns={"side": ["encoder"]}), sent(playground, seven, state=None),
    ):  # fmt: skip
        playground.set_state({"rows": message})
        pd.testing.assert_frame_equal(playground.table(), table)


# Placements ----------------------------------------------------------------------------------------------------


def test_an_open_playground_learns_of_a_readers_own_placement_and_of_a_new_rule(playground, assign_mine):
    """Oracle: the data that the page is sent, and the table of `gradient_norms`."""
    assign_mine(ln.each(lambda x, f, N, at: x + 0.5 * f(N(x))))
    first = playground.data["placements"]["mine"]
    assert first["own"]
    playground.set(placement="mine")
    table = playground.table()
    playground.set_state({"rows": sent(playground, table.assign(value=7.0))})
    assign_mine(ln.each(lambda x, f, N, at: N(x + f(x))))
    assert playground.data["placements"]["mine"]["graph"] != first["graph"]
    assert playground.state()["slots"] == "C"
    assert not (playground.table()["value"] == 7.0).any()
    assert not np.allclose(playground.table()["value"], table["value"])
    playground.set(compare=["mine", "pre"])
    del ln.PLACEMENTS["mine"]
    assert "mine" not in playground.data["placements"]
    assert (playground.state()["placement"], playground.state()["slots"]) == ("post", "C")
    assert playground.state()["compare"] == ["pre"]


def test_a_rule_that_the_page_cannot_run_is_a_sentence_and_no_error(playground, assign_mine):
    """Oracle: the assignment goes through; the words are in the data; Python still measures it."""
    assign_mine(ln.each(lambda x, f, N, at: N(x + float(at.growth(f)) * f(x))))
    entry = playground.data["placements"]["mine"]
    assert (entry["graph"] is None) == bool(entry["error"])


def test_a_closed_playground_is_told_nothing(playground, assign_mine):
    """Oracle: the data, which stay as they were."""
    playground.close()
    before = playground.data
    assign_mine(ln.each(lambda x, f, N, at: N(x + f(x))))
    assert playground.data is before


# Elsewhere -----------------------------------------------------------------------------------------------------


def test_lecture_mode_is_followed(playground):
    """Oracle: the switch."""
    try:
        lesson.lecture()
        assert playground.state()["lecture"] is True
        assert Playground().code() == "Playground()"
    finally:
        lesson.lecture(False)
    assert playground.state()["lecture"] is False


def test_a_page_without_a_kernel_gets_a_sentence(playground):
    """Oracle: the display bundle; the words in it."""
    bundle, _ = playground._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "Post-LN, encoder-decoder, depth 2, width 16" in bundle["text/html"]
    assert 'data-link="depth=2&amp;width=16&amp;heads=2&amp;tokens=4&amp;seeds=2"' in bundle["text/html"]


def test_the_task_of_the_first_notebook_has_one_answer():
    """Oracle: `gradient_norms` for all sixteen choices of slots: with a norm after the sum, and only then, the
    decoder's W_2 has its largest gradient in the highest layer; without one, in the lowest.
    """
    for slots in module.ALL_SLOTS:
        table = ln.gradient_norms(ln.ModelConfig(module.in_slots(slots)))
        rows = table.query("side == 'decoder' and parameter == 'W_2'")
        highest = rows.groupby("layer")["value"].mean().idxmax()
        assert highest == (6 if "C" in slots else 1), slots


def test_a_rule_that_the_page_cannot_run_cannot_stand_beside_another(playground, monkeypatch):
    """Oracle: the sentence that the page would show; the state is as it was."""
    monkeypatch.setattr(module.page, "error_of", lambda key: "too much to ask")
    with pytest.raises(ValueError, match="too much to ask"):
        playground.set(compare=["pre"])
    assert playground.state()["compare"] == []
