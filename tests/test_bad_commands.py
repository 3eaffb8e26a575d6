"""Wrong words on the command line and in the environment: a sentence and exit code 2, and no work begun."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lntutor as ln
from lntutor import browser, download, figures, lecturing, lesson, notes, store, weights
from lntutor.__main__ import COMMANDS, main

ROOT = Path(__file__).resolve().parent.parent
SMALL = ("--depth", "1", "--width", "8", "--heads", "1", "--ffn", "8")
COMMAND_LINES = {  # what is typed → what is answered
    "": [("--nonsense", "unrecognized arguments: --nonsense"), ("nonsense", "unknown command 'nonsense'")],
    "doctor": [("--nonsense", "unrecognized"), ("nonsense", "unrecognized")],
    "lab": [
        ("nonsense", "no notebook 'nonsense': there are 00_start_here"),
        ("../../etc/passwd", "no notebook '../../etc/passwd'"),
        ("a\0b", "no notebook 'a\\x00b'"),
        ("--port abc", "must be a number from 1 to 65535, got 'abc'"),
        ("--port -1", "must be a number from 1 to 65535, got '-1'"),
        ("--port 99999999", "must be a number from 1 to 65535, got '99999999'"),
        ("--port ²", "must be a number from 1 to 65535, got '²'"),
    ],
    "app": [  # more in tests/test_app.py
        ("nonsense", "unrecognized"),
        ("--port 1e3", "must be a number from 1 to 65535, got '1e3'"),
        ("--pages ²", "must be a whole number, at least 1, got '²'"),
        ("--word <script>", "must be at least six small letters a to z, got '<script>'"),
        ("--ip 256.1.1.1", "must be an address of this machine"),
    ],
    "data": [
        ("nonsense", "invalid choice: 'nonsense'"),
        ("../captions", "invalid choice: '../captions'"),
        ("--nonsense", "unrecognized"),
    ],
    "sweep": [
        ("nonsense", "invalid choice: 'nonsense'"),
        ("signal_norms", "grid must be a dict"),
        ("signal_norms --depth six", "invalid int value: 'six'"),
        ("signal_norms --depth 0", "depth must be a whole number in 1..64, got 0"),
        (f"signal_norms --depth {10**12}", f"depth must be a whole number in 1..64, got {10**12}"),
        ("signal_norms --head nan", "head must be a number above 0 up to 1000, got nan"),
        ("signal_norms --output_projection maybe", "invalid truth value: 'maybe'"),
        ("signal_norms --placement prr", "did you mean 'pre'?"),
        ("signal_norms --depth 1 --jobs 0", "jobs must be a whole number in 1..1024, got 0"),
        ("signal_norms --depth 1 --dask nowhere", "--dask must be the address of a scheduler"),
        ("signal_norms --depth 1 --out nowhere/t.csv", "where nothing can be written"),
        ("signal_norms --seed -1 --depth 1", "seed must be a whole number"),
        ("train --corpus nowhere --depth 1", "there is no corpus and no folder 'nowhere'"),
    ],
    "results": [
        ("nonsense", "there is no experiment 'nonsense'; there are warmup"),
        ("../claims", "there is no experiment '../claims'"),
        ("--corpus nonsense", "invalid choice: 'nonsense'"),
        ("warmup --jobs few", "invalid int value: 'few'"),
        ("warmup --jobs 0", "jobs must be a whole number in 1..1024, got 0"),
    ],
    "site": [
        ("99", "99"),
        ("../04", "../04"),
        ("--out README.md", "--out must be a folder, got README.md, which is a file"),
        ("--out lntutor", "lntutor has files that this command did not make"),
        ("--out README.md/site", "README.md"),
    ],
    "claims": [("99", "there is no notebook '99' with claims"), ("--page nowhere\0/x", "null byte"), ("-9", "-9")],
}
CASES = [(command, *row) for command, rows in COMMAND_LINES.items() for row in rows]


@pytest.mark.parametrize(("command", "typed", "words"), CASES, ids=[f"{c} {t!r}" for c, t, _ in CASES])
def test_wrong_words_are_answered_in_a_sentence(command, typed, words, capsys, monkeypatch):
    """Oracle: the sentence, the exit code of a wrong command line, and no trace of the program's inside."""
    monkeypatch.chdir(ROOT)
    try:
        code = main([*filter(None, [command]), *typed.split(" ")])
    except SystemExit as stopped:
        code = stopped.code
    said = capsys.readouterr().err
    assert code == 2
    assert words in said
    assert "Traceback" not in said


def test_every_command_is_in_the_table():
    """Oracle: the list of commands."""
    assert set(COMMAND_LINES) == {"", *COMMANDS}


def test_a_cell_that_fails_is_another_exit_code(capsys, monkeypatch):
    """Oracle: 1 where the words were right and the work failed."""
    monkeypatch.setattr(ln, "signal_norms", fails)
    assert main(["sweep", "signal_norms", *SMALL]) == 1
    assert "failed with RuntimeError: no" in capsys.readouterr().err


def fails(cfg: ln.ModelConfig):
    raise RuntimeError("no")


# The environment ------------------------------------------------------------------------------------------------


def as_notes(monkeypatch, tmp_path):
    """LNTUTOR_HOME is a file: a guess is kept for this session, and that is said."""
    monkeypatch.setattr(notes, "NOTES", notes.Notes())
    notes.NOTES.put("guesses", "x", {"guess": 1})
    assert notes.NOTES.everywhere("guesses")["x"] == {"guess": 1}
    raise ValueError(notes.NOTES.warning())


def as_download(monkeypatch, tmp_path):
    """LNTUTOR_HOME is a file: there is no place for a corpus."""
    download.fetch_files(download.MULTI30K, "http://127.0.0.1:9/", download.cache_folder("multi30k"))


def as_cache(monkeypatch, tmp_path):
    """LNTUTOR_CACHE is a file: the cell is computed, and not remembered."""
    with pytest.warns(UserWarning, match="cannot be written .* set LNTUTOR_CACHE to a folder of yours") as said:
        table = ln.sweep(ln.signal_norms, {"depth": [1]}, ln.ModelConfig(width=8, heads=1, ffn=8), progress=False)
    assert len(table)
    raise ValueError(str(said[0].message))


ENVIRONMENT = [  # variable, value, what reads it, what is said
    ("LNTUTOR_MEMORY", "abc", lambda *_: weights.memory_limit(), "LNTUTOR_MEMORY must be a whole number of MB.*'abc'"),
    ("LNTUTOR_MEMORY", "-5", lambda *_: weights.memory_limit(), "LNTUTOR_MEMORY must be .*'-5'"),
    ("LNTUTOR_MEMORY", "1e3", lambda *_: weights.memory_limit(), "LNTUTOR_MEMORY must be .*'1e3'"),
    ("LNTUTOR_CACHE_MB", "1 GB", lambda *_: store.limit(), "LNTUTOR_CACHE_MB must be a whole number of MB.*'1 GB'"),
    ("LNTUTOR_LECTURE", "maybe", lambda *_: figures.course_map(), "LNTUTOR_LECTURE must be 1 or 0 .*'maybe'"),
    ("LNTUTOR_REVEAL", "maybe", lambda *_: lesson.readiness(), "LNTUTOR_REVEAL must be 1 or 0 .*'maybe'"),
    ("LNTUTOR_BROWSER", "nonsense", lambda *_: browser.find_browser(), "LNTUTOR_BROWSER must be .*'nonsense'"),
    ("LNTUTOR_MULTI30K", "nowhere", lambda *_: ln.load_corpus("multi30k"), "the variable LNTUTOR_MULTI30K should name"),
    ("LNTUTOR_MULTI30K", "~no_such_reader/x", lambda *_: ln.load_corpus("multi30k"), "LNTUTOR_MULTI30K must be"),
    ("LNTUTOR_MULTI30K", "{file}", lambda *_: ln.load_corpus("multi30k"), "cannot be read as a .tgz"),
    ("LNTUTOR_MULTI30K", "{folder}", lambda *_: ln.load_corpus("multi30k"), "has no train.de with its train.en"),
    ("LNTUTOR_IWSLT14", "../nowhere", lambda *_: ln.load_corpus("iwslt14"), "the variable LNTUTOR_IWSLT14 should name"),
    ("LNTUTOR_HOME", "{file}", as_notes, "cannot be written|could not be read"),
    ("LNTUTOR_HOME", "{file}", as_download, "cannot be written .* Set LNTUTOR_HOME to a folder of yours"),
    ("LNTUTOR_CACHE", "{file}", as_cache, "Results are not remembered"),
]


@pytest.mark.parametrize(
    ("name", "value", "read", "words"), ENVIRONMENT, ids=[f"{name}={value}" for name, value, *_ in ENVIRONMENT]
)
def test_a_wrong_variable_is_said_where_it_is_read(name, value, read, words, tmp_path, monkeypatch):
    """Oracle: the sentence, which has the variable or the folder that it names."""
    file = tmp_path / "file"
    file.write_text("no folder")
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(lecturing, "_switch", [])
    monkeypatch.setenv(name, value.format(file=file, folder=tmp_path / "folder"))
    with pytest.raises(ValueError, match=words):
        read(monkeypatch, tmp_path)


def test_every_variable_is_in_the_table():
    """Oracle: the package's own code; LNTUTOR_SAMPLE takes any word, LNTUTOR_STRICT is for tests: set or not."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "lntutor").rglob("*.py"))
    known = {name for name, *_ in ENVIRONMENT} | {"LNTUTOR_SAMPLE", "LNTUTOR_STRICT"}
    assert set(re.findall(r"\bLNTUTOR_[A-Z0-9_]+\b", code)) <= known


def test_a_wrong_variable_ends_a_command_in_a_sentence(tmp_path):
    """Oracle: a process of its own: nothing but the sentence."""
    command = [sys.executable, "-m", "lntutor", "sweep", "signal_norms", *SMALL]
    environment = {"PATH": "", "PYTHONPATH": str(ROOT), "LNTUTOR_MEMORY": "abc", "LNTUTOR_CACHE": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr == "LNTUTOR_MEMORY must be a whole number of MB from 1 on, such as 512, got 'abc'\n"
