"""`python -m lntutor playground FILE`: one whole page, or the file that was there and a sentence."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lntutor.__main__ import main
from lntutor.text import files

ROOT = Path(__file__).resolve().parents[2]


def test_a_page_of_at_most_two_megabytes_is_written_in_seconds(tmp_path):
    """Oracle: a process of its own with a clock; the file system."""
    file, started = tmp_path / "playground.html", time.monotonic()
    command = [sys.executable, "-m", "lntutor", "playground", str(file)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert time.monotonic() - started < 20  # 2 on a quiet machine
    assert said.startswith(f"{file}, ")
    assert 50_000 < file.stat().st_size < 2_000_000
    assert [path.name for path in tmp_path.iterdir()] == ["playground.html"]


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch, capsys):
    """Oracle: the file from before, the sentence, the exit code of work that failed."""
    file = tmp_path / "old.html"
    file.write_text("old")

    def no_room(path, content, mode=0o644):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(files, "put", no_room)
    assert main(["playground", str(file)]) == 1
    assert f"No space left on device: {file}" in capsys.readouterr().err
    assert file.read_text() == "old"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder.html", "which is a folder: name a file in it"), ("none/a.html", "there is no folder"),
        ("lesson.ipynb", "FILE must be the name of a page"), ("page", "FILE must be the name of a page"),
    ],
)  # fmt: skip
def test_what_is_no_place_for_a_page_is_refused_and_stays_as_it_was(name, words, tmp_path, capsys):
    """Oracle: the sentence, the exit code of a wrong command line, and the same files as before."""
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "lesson.ipynb").write_text("mine")
    assert main(["playground", str(tmp_path / name)]) == 2
    assert words in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder.html", "lesson.ipynb"]
    assert (tmp_path / "lesson.ipynb").read_text() == "mine"
