"""A reader of lessons who has just arrived."""

from collections.abc import Callable

import pytest

from lntutor.lesson import claims, predict, question, quiz
from lntutor.lesson import notes as store
from lntutor.lesson.notes import Notes

KEEPERS = (store, claims, question, predict, quiz)  # the modules that hold the notes


@pytest.fixture
def new_kernel(monkeypatch) -> Callable[[], Notes]:
    """A function after which nothing is left but the file."""

    def start() -> Notes:
        fresh = Notes()
        for module in KEEPERS:
            monkeypatch.setattr(module, "NOTES", fresh)
        return fresh

    return start


@pytest.fixture
def notes(monkeypatch, tmp_path, new_kernel) -> Notes:
    """A reader who has just arrived, in a folder of their own, and errors that are not hidden."""
    monkeypatch.setattr(question, "_ON_PAGE", {})
    monkeypatch.setenv("LNTUTOR_HOME", str(tmp_path))
    monkeypatch.setenv("LNTUTOR_STRICT", "1")
    monkeypatch.delenv("LNTUTOR_REVEAL", raising=False)
    yield new_kernel()
    question._switch.clear()
    question._votes.clear()
