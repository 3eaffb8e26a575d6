"""The claims ledger: every claim has its row, and what is recorded stands in it."""

import subprocess
import sys

import numpy as np
import pytest

from lntutor import claims
from lntutor import notes as store
from lntutor.claims import CLAIMS, COLUMNS, NOT_YET, VERDICTS, ledger, record, show_ledger
from lntutor.notes import Notes

PROMISED = {
    *("attention.variance", "lemma1", "lemma2.post", "lemma2.pre", "lemma3", "theorem1.post", "theorem1.pre"),
    *("figure3.decoder", "figure3.encoder", "talk.sigma"),
}


@pytest.fixture(autouse=True)
def notes(monkeypatch, tmp_path) -> Notes:
    """A reader who has just arrived."""
    monkeypatch.setenv("LNTUTOR_HOME", str(tmp_path))
    fresh = Notes()
    for module in (claims, store):
        monkeypatch.setattr(module, "NOTES", fresh)
    return fresh


def test_every_notebook_has_claims_and_every_claim_says_where_it_stands():
    """Oracle: notebooks 01 to 09; keys that notebooks and tests rely on; words that are sentences."""
    assert {claim.notebook for claim in CLAIMS.values()} == {f"{i:02d}" for i in range(1, 10)}
    assert set(CLAIMS) >= PROMISED
    assert len(CLAIMS) == len(claims._CLAIMS)
    for key, claim in CLAIMS.items():
        assert claim.key == key
        assert claim.source[-4:].isdigit()
        assert claim.where
        assert claim.words[0].isupper() or claim.words[0] == "σ"
        assert claim.words.endswith(".")


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
    assert row["measured"] == f"{values.mean():.3g} (n = 1, d = 256)"
    assert row["spread"] == f"± {values.std(ddof=1):.3g} over 3 seeds"
    assert row["verdict"] == "holds"
    assert row["source"] == "Xiong et al. 2020, Lemma 2"


@pytest.mark.parametrize(
    ("measured", "spread", "words"),
    [
        (-0.4441, None, ("−0.444", "")),
        (2, 0.25, ("2", "± 0.25")),
        (np.float32(3), "2.7 to 3.3", ("3", "2.7 to 3.3")),
        ("grows, then stays", None, ("grows, then stays", "")),
        ([1.0], None, ("1", "")),
    ],
)
def test_numbers_and_words_are_recorded_as_they_are(measured, spread, words):
    """Oracle: the words expected."""
    record("lemma1", measured, spread=spread, verdict="holds at this size")
    assert tuple(ledger(3).loc["lemma1", ["measured", "spread"]]) == words


def test_the_guess_is_that_of_the_question_of_the_same_name(notes):
    """Oracle: what a Predict stores; another guess can be given."""
    notes.put("guesses", "lemma1", {"guess": 0.5, "words": "0.5 d"})
    record("lemma1", 0.5, verdict="holds")
    assert ledger().loc["lemma1", "your guess"] == "0.5 d"
    record("lemma1", 0.5, verdict="holds", guess=0.25)
    assert ledger().loc["lemma1", "your guess"] == "0.25"
    record("lemma3", 1, verdict="open", guess=store.guess_of("lemma1"))
    assert ledger().loc["lemma3", "your guess"] == "0.5 d"


def test_a_later_notebook_shows_what_an_earlier_one_recorded():
    """Oracle: another process with the same file."""
    record("talk.sigma", "variance d", verdict="does not hold here")
    code = (
        "from lntutor.claims import ledger; print(*ledger('02_layer_norm').loc['talk.sigma', ['measured', 'verdict']])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "variance d does not hold here"


@pytest.mark.parametrize(
    ("key", "measured", "verdict", "words"),
    [
        ("lema1", 1, "holds", "There is no claim 'lema1'. Near it are lemma1"),
        ("zzzzzz", 1, "holds", "There is no claim 'zzzzzz'"),
        ("lemma1", 1, "true", "verdict on lemma1 must be one of 'holds', .*got 'true'"),
        ("lemma1", float("nan"), "holds", "finite"),
        ("lemma1", [], "holds", "finite"),
        ("lemma1", [1, np.inf], "open", "finite"),
        ("lemma1", None, "open", "must be"),
        ("lemma1", {"a": 1}, "open", "must be words, a number or an array"),
        ("lemma1", "  ", "open", "empty"),
    ],
)
def test_a_record_that_makes_no_sense_is_refused_in_a_sentence(key, measured, verdict, words):
    """Oracle: the words; nothing is recorded."""
    with pytest.raises(ValueError, match=words):
        record(key, measured, verdict=verdict)
    assert set(ledger()["verdict"]) == {NOT_YET}


@pytest.mark.parametrize("notebook", ["00", 12, "attention", ""])
def test_a_notebook_without_claims_is_refused(notebook):
    """Oracle: the sentence lists those that have."""
    with pytest.raises(ValueError, match=r"01, 02, .*09; got"):
        ledger(notebook)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_ledger_is_shown_as_a_table_with_a_caption_and_in_plain_text(verdict):
    """Oracle: the recorded words, escaped in HTML and as they are in text."""
    record("attention.variance", "<64>", spread="± 1", verdict=verdict)
    shown = show_ledger("01_attention")
    page = shown._repr_html_()
    assert "<b>Claims of notebook 01: 1 of 3 measured.</b></caption>" in page
    assert page.count('<th scope="row"') == 3
    assert page.count('<th scope="col"') == len(COLUMNS)
    assert "&lt;64&gt;" in page
    assert "<64>" not in page
    assert f"measured: <64> ± 1; verdict: {verdict}" in repr(shown)
    assert f"0 of {len(CLAIMS) - 3}" not in show_ledger().caption


def test_entries_of_another_version_are_read_as_words(notes):
    """Oracle: a file by hand, with numbers where words belong and fields that are missing."""
    notes.put("records", "lemma1", {"measured": 3})
    notes.put("records", "gone", {"measured": "x", "verdict": "holds"})
    assert ledger().loc["lemma1", "measured"] == "3"
    assert "gone" not in ledger().index
