"""Junk of all kinds, thousands of times: whatever comes in, a documented error or a result goes out.

The examples are the same every time (tests/conftest.py). Where a good value would compute for long, the work behind
the checks is replaced by a flag that it was reached.
"""

import dataclasses
import gzip
import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lntutor as ln
from lntutor import lesson
from lntutor.curvature import hessian
from lntutor.experiments import cache as store
from lntutor.experiments import cells
from lntutor.experiments import compare as comparison
from lntutor.experiments import stored as results
from lntutor.experiments import sweep as sweeps
from lntutor.lesson import claims, notes
from lntutor.lesson.exercises import SYMBOLS, check, exercises
from lntutor.text import sentence_pairs as parallel
from lntutor.text.sentence_pairs import CorpusError, read_parallel
from lntutor.training import trainer as training
from tests.repository.test_bad_input import ROWS


class Hostile:
    """A thing that says no to everything that it is asked."""

    def _no(self, *args):
        raise RuntimeError("no")

    __repr__ = __str__ = __len__ = __iter__ = __eq__ = __bool__ = __array__ = __float__ = __lt__ = __call__ = _no
    __hash__ = None


ODD = [
    ..., object(), int, math.sqrt, lambda: 1, lambda x: x, range(0), range(3), 10**12, -(10**12),
    10**400, np.int64(2), np.float32(0.5), np.float64("nan"), np.array([]), np.array([1, 2]), np.ones((2, 2)),
    np.array(["a"]), np.array([1j]), pd.DataFrame(), pd.DataFrame({"value": [1.0]}), pd.Series([1, 2]), pd.NA, pd.NaT,
    torch.ones(2), torch.tensor(1.0), torch.ones(2, dtype=torch.bfloat16), torch.ones(2, requires_grad=True),
    "\udcff", "a\0b", "../../etc/passwd", "<b>", "²", "nan", "1e999", "post", "encoder", "W_2", "val", "gaussian",
    ln.PLACEMENTS["post"], ln.ModelConfig(depth=1, width=8, heads=1, ffn=8), ln.Inputs(tokens=2, vocab=8),
    ln.TrainConfig(),
]  # fmt: skip
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-2, 9), st.floats(), st.text(max_size=6),
    st.text(st.characters(categories=["Cs", "Cc", "Zs"]), max_size=3), st.binary(max_size=6), st.complex_numbers(),
    st.sampled_from(ODD),
)  # fmt: skip
JUNK = st.one_of(
    PLAIN, st.lists(PLAIN, max_size=3), st.tuples(PLAIN, PLAIN),
    st.dictionaries(st.text(max_size=3), PLAIN, max_size=2),
    st.lists(st.lists(st.integers(-1, 5), max_size=3), max_size=3),
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
TINY = ODD[-3]


class Reached(Exception):
    """The checks let a call pass."""


def reach(*args, **options):
    raise Reached


def refused(call, **given) -> str:
    """What is said of arguments that are not taken, or nothing; another error than a ValueError fails the test."""
    try:
        call(**given)
    except Reached:
        return ""
    except ValueError as error:
        message = "" if isinstance(error, UnicodeError) else str(error)
        assert 0 < len(message) < 3000
        return message
    return ""


def some_of(names):
    """Junk for one or two of these arguments."""
    return st.dictionaries(st.sampled_from(sorted(names)), JUNK, min_size=1, max_size=2)


SETTINGS = {
    **{kind: {} for kind in (ln.ModelConfig, ln.TrainConfig, ln.Inputs)},
    ln.Batch: {"source": [[1, 2]], "labels": [[1, 2]], "vocab": (5, 5)},
    ln.Placement: {"label": "M", "formula": "f", "layer": ln.PLACEMENTS["post"].layer},
    ln.Spectrum: dict.fromkeys(ln.Spectrum.__dataclass_fields__, 1.0) | {"eigenvalues": [1.0], "weights": [1.0]},
}


@pytest.mark.parametrize("kind", SETTINGS, ids=lambda kind: kind.__name__)
@settings(max_examples=400)
@given(data=st.data())
def test_settings_are_valid_or_refused_with_the_name_of_a_field(kind, data):
    """Oracle: the names of the fields; settings that were taken are taken again."""
    fields = [field.name for field in dataclasses.fields(kind)]
    junk = data.draw(some_of(fields))
    message = refused(kind, **{**SETTINGS[kind], **junk})
    assert not message or any(name.removesuffix("s") in message for name in fields)
    if not message:
        made = kind(**{**SETTINGS[kind], **junk})
        dataclasses.replace(made)


# Tested elsewhere, or switches of the whole session.
SWITCHES = ("lesson.class_votes", "lesson.lecture", "lesson.reveal_all")
NOT_HERE = ("figures.", "PLACEMENTS", "Corpus.", "lesson.check", *SWITCHES)
CALLS = [row for row in ROWS if row.wrong and not row.name.startswith(NOT_HERE)]


@pytest.fixture(scope="module")
def no_work():
    """Training, products and cells are not begun."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "steps", reach)
        patch.setattr(hessian, "Learner", reach)
        patch.setattr(comparison, "compute", reach)
        patch.setattr(sweeps, "compute", reach)
        yield


@pytest.mark.parametrize("row", CALLS, ids=[f"{row.name} {index}" for index, row in enumerate(CALLS)])
@settings(max_examples=60)
@given(data=st.data())
def test_a_public_function_gives_a_result_or_a_documented_error(no_work, row, data):
    """Oracle: no exception but ValueError, with a sentence that is neither empty nor endless."""
    names = {*row.wrong, *(("spread", "guess") if row.name == "claims.record" else ())}
    refused(row.call, **{**row.arguments(), **data.draw(some_of(names))})


# Files ---------------------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(
    files=st.dictionaries(
        st.sampled_from([f"{split}.{end}" for split in parallel.SPLITS for end in ("de", "en", "de.gz", "en.gz")]),
        st.one_of(st.binary(max_size=30), st.text(max_size=20).map(lambda t: t.encode("utf-8", "surrogatepass"))),
        max_size=8,
    ),
    packed=st.booleans(),
)
def test_a_folder_of_any_bytes_is_a_corpus_or_refused(tmp_path_factory, files, packed):
    """Oracle: CorpusError, or as many German as English sentences, none of them blank."""
    folder = tmp_path_factory.mktemp("corpus")
    for name, data in files.items():
        (folder / name).write_bytes(gzip.compress(data) if packed and name.endswith(".gz") else data)
    text, message = None, str(folder)
    try:
        text = read_parallel(folder)
    except CorpusError as error:
        message = str(error)
    assert str(folder) in message
    if text:
        assert all(german.strip() and english.strip() for pairs in text.pairs.values() for german, english in pairs)


PARTS = ["guesses", "answers", "records"]
NAMES = st.sampled_from(["bad", "attention.variance", "readiness", "inventory.before"])
FIELDS = st.sampled_from(["guess", "words", "measured", "verdict", "spread", "chain_rule"])
NOTES = st.dictionaries(st.sampled_from([*PARTS, "x"]), st.dictionaries(NAMES, JSON) | JSON) | st.dictionaries(
    st.sampled_from(PARTS), st.dictionaries(NAMES, st.dictionaries(FIELDS, JSON))
)


@settings(max_examples=60)
@given(content=st.binary(max_size=40) | NOTES.map(lambda stored: json.dumps(stored).encode()))
def test_a_notes_file_of_any_content_stops_no_lesson(tmp_path_factory, content):
    """Oracle: questions, quizzes and the ledger are made over it, and a guess that is stored is found again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(notes.HOME, str(tmp_path_factory.mktemp("notes")))
        patch.setattr(notes.NOTES, "_session", {})
        notes.path().write_bytes(content)
        question = lesson.Predict("bad", "What?", choices=["a", "b"], reveal=lambda: "a")
        lesson.Predict("bad value", "What?", value=(0, 1), reveal=lambda: 0.5).static()
        lesson.readiness().static()
        lesson.inventory("after").static()
        claims.show_ledger()._repr_html_()
        lesson.guess_of("bad")
        question.again()
        question.control.value = "b"
        question.store()
        assert question.guess == "b"
        assert json.loads(notes.path().read_text())["guesses"]["bad"]["words"] == "b"


@settings(max_examples=150)
@given(content=st.binary(max_size=40) | JSON.map(lambda entry: json.dumps(entry).encode()))
@example(content=b'{"table": 3}')
def test_a_store_of_any_content_is_computed_anew_or_read(tmp_path_factory, content):
    """Oracle: a cell of a run and one of a sweep are read as what they are, or are as good as none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(store.CACHE, str(tmp_path_factory.mktemp("cache")))
        store.folder().mkdir()
        (store.folder() / "x.json").write_bytes(content)
        cell = cells.Cell((TINY, ln.TrainConfig()), "x", "x")
        for _, run in cells.remembered({"x": cell}, comparison._read):
            assert isinstance(run, ln.Run)
        for _, columns in cells.remembered({"x": cell}, sweeps._read):
            assert len({len(column) for column in columns.values()}) <= 1


@settings(max_examples=150)
@given(content=st.binary(max_size=60) | st.text("a,b#\n\"=:'\0", max_size=40).map(str.encode))
def test_a_stored_table_of_any_content_is_a_table_or_a_sentence(tmp_path_factory, content):
    """Oracle: ValueError that names the file's remedy, from the ledger that is read from it."""
    folder = tmp_path_factory.mktemp("results")
    (folder / claims.FILE).write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "FOLDER", folder)
        with pytest.raises(ValueError, match="python -m lntutor claims"):
            claims.stored()


# Answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(exercises()))
@settings(max_examples=40)
@given(answer=JUNK | st.builds(Hostile), wrapped=st.booleans())
def test_any_answer_is_judged_in_words(name, answer, wrapped):
    """Oracle: a result with a known status and words; a function that returns junk is an answer too."""
    found = check(name, (lambda *args: answer) if wrapped else answer, seed=0)
    assert found.status in SYMBOLS
    assert found.message
    assert found.heading in repr(found)
    assert "<p" in found._repr_html_()
