"""The command line's edge: what was typed wrong, what fails on the way, and a wrong environment, each in a sentence."""

import errno
import os
import re
import subprocess
import sys

import pytest

import lntutor as ln
from lntutor import figures, lesson
from lntutor.__main__ import COMMANDS, main
from lntutor.figures import lecture_type
from lntutor.lesson import notes, question
from lntutor.model import weight_bank as weights
from lntutor.publish import browser
from lntutor.text import download
from tests.processes import ROOT

SMALL = ("--depth", "1", "--width", "8", "--heads", "1", "--ffn", "8")
PORT = "must be a number from 1 to 65535, got"
LETTERS = "must be at least six small letters a to z, got"
COMMAND_LINES = {  # what is typed → what is answered
    "": {
        "--nonsense": "unrecognized arguments: --nonsense", "nonsense": "unknown command 'nonsense'",
        "docter": "unknown command 'docter': did you mean 'doctor'?", "labs": "did you mean 'lab'?",
        "date": "did you mean 'data'?",
    },
    "doctor": {"--nonsense": "unrecognized", "nonsense": "unrecognized"},
    "lab": {
        "nonsense": "no notebook 'nonsense': there are 00_start_here", "00_star_here": "did you mean '00_start_here'?",
        "../../etc/passwd": "no notebook '../../etc/passwd'", "a\0b": "no notebook 'a\\x00b'",
        **{f"--port {port}": f"{PORT} '{port}'" for port in ("abc", "-1", "99999999", "²")},
    },
    "app": {
        "nonsense": "unrecognized", "--classroom --ip 10.0.0.1": "not allowed with argument --classroom",
        **{f"--port {port}": f"{PORT} '{port}'" for port in ("0", "http", "1e3")},
        **{f"--pages {pages}": f"must be a whole number, at least 1, got '{pages}'" for pages in "0²"},
        **{f"--word {word}": f"{LETTERS} '{word}'" for word in ("short", "<script>")},
        "--warm -1": "must be a whole number, at least 0, got '-1'", "--ip 256.1.1.1": "must be an address of this",
        "--ip my-laptop": "must be an address of this machine, such as 192.168.1.20, got 'my-laptop'",
    },
    "data": {
        "nonsense": "invalid choice: 'nonsense'", "../captions": "invalid choice: '../captions'",
        "--nonsense": "unrecognized",
    },
    "sweep": {
        "nonsense": "invalid choice: 'nonsense'", "signal_norms": "grid must be a dict",
        "signal_norms --depth six": "invalid int value: 'six'",
        "signal_norms --depth 0": "depth must be a whole number in 1..64, got 0",
        f"signal_norms --depth {10**12}": f"depth must be a whole number in 1..64, got {10**12}",
        "signal_norms --head nan": "head must be a number above 0 up to 1000, got nan",
        "signal_norms --output_projection maybe": "invalid truth value: 'maybe'",
        "signal_norms --placement prr": "did you mean 'pre'?",
        "signal_norms --depth 1 --jobs 0": "jobs must be a whole number in 1..1024, got 0",
        "signal_norms --depth 1 --dask nowhere": "--dask must be the address of a scheduler",
        "signal_norms --depth 1 --out nowhere/t.csv": "where nothing can be written",
        "signal_norms --seed -1 --depth 1": "seed must be a whole number",
        "train --corpus nowhere --depth 1": "there is no corpus and no folder 'nowhere'",
    },
    "results": {
        "nonsense": "there is no experiment 'nonsense'; there are warmup",
        "../claims": "there is no experiment '../claims'", "--corpus nonsense": "invalid choice: 'nonsense'",
        "warmup --jobs few": "invalid int value: 'few'",
        "warmup --jobs 0": "jobs must be a whole number in 1..1024, got 0",
    },
    "site": {
        "77": "there is no notebook '77'; there are 00", "../04": "../04", "--out README.md/site": "README.md",
        "--out README.md": "--out must be a folder, got README.md, which is a file",
        "--out lntutor": "lntutor has files that this command did not make",
    },
    "playground": {
        "--nonsense": "the following arguments are required: FILE", "page": "such as playground.html, got 'page'",
        "README.md": "FILE must be the name of a page", "a.ipynb": "such as playground.html, got 'a.ipynb'",
        "a\0b.html": "FILE must be the name of a page", "nowhere/a.html": "there is no folder nowhere: make it first",
        "README.md/a.html": "there is no folder README.md", "a.html b.html": "unrecognized arguments: b.html",
    },
    "claims": {"99": "there is no notebook '99' with claims", "--page nowhere\0/x": "null byte", "-9": "-9"},
}  # fmt: skip
CASES = [(command, *row) for command, rows in COMMAND_LINES.items() for row in rows.items()]


@pytest.mark.parametrize(("command", "typed", "message"), CASES, ids=[f"{c} {t!r}" for c, t, _ in CASES])
def test_wrong_words_are_answered_in_a_sentence(command, typed, message, capsys, monkeypatch):
    """Oracle: the sentence, the exit code of a wrong command line, and no trace of the program's inside."""
    monkeypatch.chdir(ROOT)
    try:
        code = main([*filter(None, [command]), *typed.split(" ")])
    except SystemExit as stopped:
        code = stopped.code
    printed = capsys.readouterr().err
    assert code == 2
    assert message in printed
    assert "Traceback" not in printed


def test_every_command_is_in_the_table_has_help_and_is_listed(capsys):
    """Oracle: the dict of commands; argparse's exit code for help, 0."""
    assert set(COMMAND_LINES) == {"", *COMMANDS}
    assert main([]) == 0
    listing = capsys.readouterr().out
    for name, (summary, _) in COMMANDS.items():
        assert re.search(rf"{name} +{re.escape(summary)}", listing)
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        assert "usage" in capsys.readouterr().out


# What goes wrong while a command runs ----------------------------------------------------------------------------


def with_attributes(error: BaseException, *notes: str, **attributes) -> BaseException:
    """The same error, with these notes and attributes."""
    vars(error).update(attributes)
    for note in notes:
        error.add_note(note)
    return error


PIP = "Run `make lab`, or: python -m pip install -r requirements.txt\n"
FAULTS = {  # what a command raises → exit code, all that is printed
    "a wrong value": (ValueError("depth must be 1..64, got 0"), 2, "depth must be 1..64, got 0\n"),
    "an unknown name": (LookupError("no notebook 'x'"), 2, "no notebook 'x'\n"),
    "work that failed": (with_attributes(ValueError("cell 3 failed"), exit_code=1), 1, "cell 3 failed\n"),
    "a full disk": (OSError(errno.ENOSPC, "No space left", "a.csv"), 1, "No space left: a.csv\n"),
    "a disk without a file": (OSError(errno.EIO, "Input/output error"), 1, "Input/output error\n"),
    "a socket's own error": (OSError("timed out"), 1, "timed out\n"),
    "a note": (with_attributes(OSError("timed out"), "The rest is kept."), 1, "timed out\nThe rest is kept.\n"),
    "a missing package": (ImportError("No module 'voila'"), 1, f"No module 'voila' (in {sys.prefix}). {PIP}"),
    "an interrupt": (KeyboardInterrupt(), 130, "Stopped.\n"),
    "an interrupt with a note": (with_attributes(KeyboardInterrupt(), "2 are kept."), 130, "Stopped. 2 are kept.\n"),
    "a sweep's interrupt": (with_attributes(KeyboardInterrupt(), "Stopped. 2 of 3."), 130, "Stopped. 2 of 3.\n"),
    "an exit": (SystemExit(3), SystemExit, ""),
    "a bug": (KeyError("x"), KeyError, ""),
    "another bug": (IndexError("x"), IndexError, ""),
    "a failed check": (AssertionError("x"), AssertionError, ""),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends_alike(command, fault, capsys, monkeypatch):
    """Oracle: the table of exit codes in `lntutor.__main__`; an error that nobody expects reaches Python's own hook."""
    error, code, printed = FAULTS[fault]

    def fail(args):
        raise error

    monkeypatch.setattr(f"{COMMANDS[command][1]}.run", fail)
    arguments = [command, *({"sweep": ["signal_norms"], "playground": ["a.html"]}.get(command, []))]
    if isinstance(code, int):
        assert main(arguments) == code
    else:
        with pytest.raises(code):
            main(arguments)
    assert capsys.readouterr().err == printed


def test_a_reader_who_has_left_ends_a_command_quietly():
    """Oracle: a pipe that nobody reads (`data | head -0`), and the exit code of a program that SIGPIPE ends."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "lntutor", "data"], stdout=writer, stderr=subprocess.PIPE, cwd=ROOT)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_cell_that_fails_is_another_exit_code(capsys, monkeypatch):
    """Oracle: 1 where the command was right and the work failed."""
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
    """LNTUTOR_CORPORA is a file: there is no place for a corpus."""
    download.fetch_files(download.MULTI30K, "http://127.0.0.1:9/", download.cache_folder("multi30k"))


ENVIRONMENT = [  # variable, value, what reads it, what is said
    *(("LNTUTOR_MEMORY", value, lambda *_: weights.memory_limit(), f"LNTUTOR_MEMORY must be .* of MB.*'{value}'")
      for value in ("abc", "-5", "1e3")),
    ("LNTUTOR_CACHE_MB", "1 GB", lambda *_: ln.sweep(lambda x: 1 / 0, {"x": [1]}), "LNTUTOR_CACHE_MB .* 1 on.*'1 GB'"),
    ("LNTUTOR_LECTURE", "maybe", lambda *_: figures.course_map(), "LNTUTOR_LECTURE must be 1 or 0 .*'maybe'"),
    ("LNTUTOR_REVEAL", "maybe", lambda *_: lesson.readiness(), "LNTUTOR_REVEAL must be 1 or 0 .*'maybe'"),
    ("LNTUTOR_VOTES", "maybe", lambda *_: question.voting(), "LNTUTOR_VOTES must be 1 or 0 .*'maybe'"),
    ("LNTUTOR_BROWSER", "nonsense", lambda *_: browser.find_browser(), "LNTUTOR_BROWSER must be .*'nonsense'"),
    ("LNTUTOR_MULTI30K", "nowhere", lambda *_: ln.load_corpus("multi30k"), "the variable LNTUTOR_MULTI30K should name"),
    ("LNTUTOR_MULTI30K", "~no_such_reader/x", lambda *_: ln.load_corpus("multi30k"), "LNTUTOR_MULTI30K must be"),
    ("LNTUTOR_MULTI30K", "{file}", lambda *_: ln.load_corpus("multi30k"), "is a file, not a folder"),
    ("LNTUTOR_MULTI30K", "{folder}", lambda *_: ln.load_corpus("multi30k"), "has no train.de with its train.en"),
    ("LNTUTOR_IWSLT14", "../nowhere", lambda *_: ln.load_corpus("iwslt14"), "the variable LNTUTOR_IWSLT14 should name"),
    ("LNTUTOR_HOME", "{file}", as_notes, "cannot be written|could not be read"),
    ("LNTUTOR_CORPORA", "{file}", as_download, "cannot be written .* Set LNTUTOR_CORPORA to a folder of yours"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "read", "message"), ENVIRONMENT, ids=[f"{name}={value}" for name, value, *_ in ENVIRONMENT]
)
def test_a_wrong_variable_is_said_where_it_is_read(name, value, read, message, tmp_path, monkeypatch):
    """Oracle: the sentence, which has the variable or the folder that it names."""
    file = tmp_path / "file"
    file.write_text("no folder")
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(lecture_type, "_switch", [])
    monkeypatch.setenv(name, value.format(file=file, folder=tmp_path / "folder"))
    with pytest.raises(ValueError, match=message):
        read(monkeypatch, tmp_path)


def test_every_variable_is_in_the_table():
    """Oracle: the package's own code. LNTUTOR_SAMPLE takes any word, LNTUTOR_STRICT is set or not, and a folder that
    LNTUTOR_CACHE names in vain costs only the memory (tests/repository/test_faults.py).
    """
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "lntutor").rglob("*.py"))
    known = {name for name, *_ in ENVIRONMENT} | {"LNTUTOR_CACHE", "LNTUTOR_SAMPLE", "LNTUTOR_STRICT"}
    assert set(re.findall(r"\bLNTUTOR_[A-Z0-9_]+\b", code)) <= known


def test_a_wrong_variable_ends_a_command_in_a_sentence(tmp_path):
    """Oracle: a process of its own: nothing but the sentence."""
    command = [sys.executable, "-m", "lntutor", "sweep", "signal_norms", *SMALL]
    environment = {"PATH": "", "PYTHONPATH": str(ROOT), "LNTUTOR_MEMORY": "abc", "LNTUTOR_CACHE": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr == "LNTUTOR_MEMORY must be a whole number of MB from 1 on, such as 512, got 'abc'\n"
