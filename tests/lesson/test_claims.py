"""The claims ledger: every claim has its row, and what is recorded stands in it."""

import re

import numpy as np
import pandas as pd
import pytest

from lntutor.experiments.stored import FOLDER
from lntutor.lesson import claims
from lntutor.lesson import notes as store
from lntutor.lesson.claims import CLAIMS, COLUMNS, NOT_YET, VERDICTS, ledger, record, show_ledger, whole_ledger
from tests.processes import run_python

pytestmark = pytest.mark.usefixtures("notes")
PROMISED = {
    *("attention.variance", "lemma1", "lemma2.post", "lemma2.pre", "lemma3", "theorem1.post", "theorem1.pre"),
    *("figure3.decoder", "figure3.encoder", "talk.sigma"),
}


def test_every_notebook_has_claims_and_every_claim_says_where_it_stands():
    """Oracle: notebooks 01 to 09; keys that notebooks and tests rely on; words that are sentences."""
    assert {claim.notebook for claim in CLAIMS.values()} == {f"{i:02d}" for i in range(1, 10)}
    assert set(CLAIMS) >= PROMISED
    assert len(CLAIMS) == len(claims._CLAIMS)
    for key, claim in CLAIMS.items():
        assert claim.key == key
        assert claim.source[-4:].isdigit()
        assert claim.where
        assert claim.sentence[0].isupper() or claim.sentence[0] == "σ"
        assert claim.sentence.endswith(".")


def test_an_empty_ledger_says_that_nothing_is_measured():
    """Oracle: a row for every claim."""
    table = ledger()
    assert list(table.columns) == COLUMNS
    assert list(table.index) == list(CLAIMS)
    assert set(table["measured"]) == set(table["verdict"]) == {NOT_YET}
    assert set(table["your guess"]) == {"no guess"}


def test_seeds_become_mean_and_spread():
    """Oracle: numpy's mean and standard deviation."""
    values = np.array([1.4, 1.5, 1.75])
    record("lemma2.post", values, verdict="holds", size="n = 1, d = 256")
    row = ledger("03").loc["lemma2.post"]
    measured, spread = f"{values.mean():.3g} (n = 1, d = 256)", f"± {values.std(ddof=1):.3g} over 3 seeds"
    expected = [measured, spread, "holds", "Xiong et al. 2020, Lemma 2"]
    assert list(row[["measured", "spread", "verdict", "source"]]) == expected


@pytest.mark.parametrize(
    ("measured", "spread", "expected"),
    [
        (-0.4441, None, ("−0.444", "")), (2, 0.25, ("2", "± 0.25")), (np.float32(3), "2.7 to 3.3", ("3", "2.7 to 3.3")),
        ("grows, then stays", None, ("grows, then stays", "")), ([1.0], None, ("1", "")),
    ],
)  # fmt: skip
def test_numbers_and_words_are_recorded_as_they_are(measured, spread, expected):
    """Oracle: the words expected."""
    record("lemma1", measured, spread=spread, verdict="holds at this size")
    assert tuple(ledger(3).loc["lemma1", ["measured", "spread"]]) == expected


def test_the_guess_is_that_of_the_question_of_the_same_name(notes):
    """Oracle: what a Predict stores; another guess can be given."""
    notes.put("guesses", "lemma1", {"guess": 0.5, "words": "0.5 d"})
    record("lemma1", 0.5, verdict="holds")
    assert ledger().loc["lemma1", "your guess"] == "0.5 d"
    record("lemma1", 0.5, verdict="holds", guess=0.25)
    assert ledger().loc["lemma1", "your guess"] == "0.25"
    record("lemma3", 1, verdict="open", guess=store.guess_of("lemma1"))
    assert ledger().loc["lemma3", "your guess"] == "0.5 d"


def test_a_later_notebook_shows_what_an_earlier_one_recorded_and_needs_no_torch():
    """Oracle: another process with the same file, which records a claim and shows the ledger; its sys.modules."""
    record("talk.sigma", "variance d", verdict="does not hold here")
    code = """
import sys
from lntutor.lesson import record, show_ledger
from lntutor.lesson.claims import ledger
record("lemma1", 1, verdict="holds")
repr(show_ledger())
print(*ledger("02_layer_norm").loc["talk.sigma", ["measured", "verdict"]], "torch" in sys.modules)
"""
    assert run_python(code).strip() == "variance d does not hold here False"


@pytest.mark.parametrize(
    ("key", "measured", "verdict", "message"),
    [
        ("lema1", 1, "holds", "There is no claim 'lema1'. Near it are lemma1"),
        ("zzzzzz", 1, "holds", "There is no claim 'zzzzzz'"),
        ("lemma1", 1, "true", "verdict on lemma1 must be one of 'holds', .*got 'true'"),
        ("lemma1", float("nan"), "holds", "finite"), ("lemma1", [], "holds", "finite"),
        ("lemma1", [1, np.inf], "open", "finite"), ("lemma1", None, "open", "must be"),
        ("lemma1", {"a": 1}, "open", "must be words, a number or an array"), ("lemma1", "  ", "open", "empty"),
    ],
)  # fmt: skip
def test_a_record_that_makes_no_sense_is_refused_in_a_sentence(key, measured, verdict, message):
    """Oracle: the words; nothing is recorded."""
    with pytest.raises(ValueError, match=message):
        record(key, measured, verdict=verdict)
    assert set(ledger()["verdict"]) == {NOT_YET}


def test_what_is_out_of_reach_says_what_it_would_need():
    """Oracle: the sentence; a number is not one."""
    with pytest.raises(ValueError, match=r"lemma1 is out of reach: say in words what measuring it would need, got 3"):
        record("lemma1", 3, verdict="out of reach")
    record("lemma1", "needs eight GPUs for a week", verdict="out of reach")
    assert ledger().loc["lemma1", "verdict"] == "out of reach"


@pytest.mark.parametrize(
    ("tables", "files"),
    [
        ("warmup", ["warmup_captions"]), (("hessian", "hessian_multi30k"), ["hessian_captions", "hessian_multi30k"]),
        (["transplant", "transplant_deep"], ["transplant_captions", "transplant_deep_captions"]), ((), None),
    ],
)  # fmt: skip
def test_the_tables_on_which_a_measurement_rests_are_kept_with_it(notes, tables, files):
    """Oracle: the files in data/results."""
    record("lemma1", 1, verdict="holds", tables=tables)
    assert notes.get("records", "lemma1").get("tables") == files
    assert all((FOLDER / f"{name}.csv").is_file() for name in files or ())


@pytest.mark.parametrize(
    ("name", "near"), [("warmpu", "warmup_captions"), ("claims", "captions"), ("warmup_iwslt14", "warmup")]
)
def test_a_table_that_is_not_stored_is_refused_in_a_sentence(name, near):
    """Oracle: the words; nothing is recorded."""
    with pytest.raises(
        ValueError, match=f"data/results has no table '{name}' for lemma1 to rest on. Near it are .*{near}"
    ):
        record("lemma1", 1, verdict="holds", tables=("warmup", name))
    assert set(ledger()["verdict"]) == {NOT_YET}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_ledger_is_shown_as_a_table_with_a_caption_and_in_plain_text(verdict):
    """Oracle: the recorded words, escaped in HTML and as they are in text."""
    record("attention.variance", "<64>", spread="± 1", verdict=verdict)
    table = show_ledger("01_attention")
    page = table._repr_html_()
    assert "<b>Claims of notebook 01: 1 of 3 measured.</b></caption>" in page
    assert page.count('<th scope="row"') == 3
    assert page.count('<th scope="col"') == len(COLUMNS)
    assert "&lt;64&gt;" in page
    assert "<64>" not in page
    assert f"measured: <64>; spread: ± 1; verdict: {verdict}" in repr(table)
    assert f"0 of {len(CLAIMS) - 3}" not in show_ledger().caption


@pytest.fixture
def three_stored(monkeypatch):
    """A stored ledger of which three rows are known, and one whose claim is no longer on the list."""
    rows = {
        "attention.variance": ("64 <d>", "± 1", "holds"), "lemma1": ("0.5", "", "holds"),
        "talk.sigma": ("variance d", "", "does not hold here"), "gone": ("x", "", "open"),
    }  # fmt: skip
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["measured", "spread", "verdict"])
    monkeypatch.setattr(claims, "stored", lambda: table)


def test_the_whole_ledger_sets_what_is_stored_beside_your_guess_and_your_run(notes, three_stored):
    """Oracle: a stored table and a reader's notes whose words are known."""
    notes.put("guesses", "lemma1", {"guess": 0.5, "words": "0.5 d"})
    record("lemma1", 0.4, verdict="open")
    record("talk.sigma", "mine", verdict="does not hold here")
    table = whole_ledger().table
    assert list(table.columns) == [*COLUMNS, "your run"]
    assert list(table.index) == list(CLAIMS)
    assert list(table.loc["lemma1", "your guess":]) == ["0.5 d", "0.5", "", "holds", "open"]
    assert list(table.loc["attention.variance", "your guess":]) == ["no guess", "64 <d>", "± 1", "holds", "not run"]
    assert list(table.loc["lemma3", "measured":]) == [NOT_YET, "", NOT_YET, "not run"]
    counted = f"{len(CLAIMS)} claims: 2 hold, 1 does not hold here, {len(CLAIMS) - 3} {NOT_YET}."
    assert whole_ledger().caption == f"{counted} Of these you measured 2, 1 with the same verdict."


def test_the_whole_ledger_is_shown_by_notebook_as_a_table_and_in_plain_text(three_stored):
    """Oracle: the words, escaped in HTML and as they are in text; a heading for each of nine notebooks."""
    table = whole_ledger()
    page, text = table._repr_html_(), repr(table)
    assert page.count("<tbody>") == page.count('<th scope="rowgroup" colspan="7"') == 9
    assert page.count('<th scope="row"') == len(CLAIMS)
    assert page.count('<th scope="col"') == page.count("<col ") == 7
    assert sum(float(width) for width in re.findall(r"width:([\d.]+)%\">", page)) == pytest.approx(100, abs=0.5)
    assert "64 &lt;d&gt;" in page
    assert "<d>" not in page
    assert text.index("Notebook 01") < text.index("measured: 64 <d>; spread: ± 1; verdict: holds; your run: not run")
    assert text.index("verdict: does not hold here") > text.index("Notebook 02")


def test_entries_of_another_version_are_read_as_words(notes):
    """Oracle: a file by hand, with numbers where words belong and fields that are missing."""
    notes.put("records", "lemma1", {"measured": 3})
    notes.put("records", "gone", {"measured": "x", "verdict": "holds"})
    assert ledger().loc["lemma1", "measured"] == "3"
    assert "gone" not in ledger().index
