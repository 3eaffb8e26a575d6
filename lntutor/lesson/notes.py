"""The reader's notes: guesses, votes, answers and measurements.

They live in the kernel and in one small file, so that a later notebook, which runs in another kernel, still knows
them. They stay on this computer, and `lntutor.lesson.forget()` deletes them.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import platformdirs

from lntutor import files

HOME = "LNTUTOR_HOME"  # the folder of the reader's notes, where not the usual one for user data
FILE = "notes.json"


class Notes:
    """Entries by section and name, kept in this kernel and, where the folder can be written, in one file.

    `get` knows this session only: a new kernel asks its questions anew. `everywhere` adds what the file has from
    earlier sessions. Nothing here ever raises because of the file; `warning` says once what is the matter with it.
    """

    def __init__(self):
        self._session: dict[str, dict[str, dict]] = {}
        self._lock = threading.RLock()  # widgets call from several threads
        self._said: set[str] = set()
        self._warning = ""

    def get(self, section: str, name: str) -> dict | None:
        """An entry of this session."""
        return self._session.get(section, {}).get(name)

    def everywhere(self, section: str) -> dict[str, dict]:
        """All entries of a section: those of earlier sessions, and over them those of this one."""
        with self._lock:
            return {**self._read().get(section, {}), **self._session.get(section, {})}

    def put(self, section: str, name: str, entry: dict, *, keep: bool = True) -> None:
        """Store an entry; `keep=False` leaves the file, and what it has from earlier sessions, alone."""
        with self._lock:
            self._session.setdefault(section, {})[name] = entry
            if keep:
                stored = self._read()  # afresh: another kernel may have written meanwhile
                stored.setdefault(section, {})[name] = entry
                self._write(stored)

    def drop(self, section: str, name: str) -> None:
        """Take an entry out of this session; the file keeps it until a new one is stored."""
        with self._lock:
            self._session.get(section, {}).pop(name, None)

    def forget(self) -> None:
        """Delete all notes, of this session and of earlier ones."""
        with self._lock:
            self._session.clear()
            try:
                path().unlink(missing_ok=True)
            except OSError as error:
                self._say(f"Your notes in {path()} could not be deleted ({error.strerror}).")

    def warning(self) -> str:
        """What is the matter with the file, in a sentence, once; else nothing."""
        with self._lock:
            words, self._warning = self._warning, ""
            return words

    def _say(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            self._warning = " ".join(part for part in (self._warning, words) if part)

    def _read(self) -> dict[str, dict[str, dict]]:
        try:
            stored = json.loads(path().read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._say(f"Your notes in {path()} could not be read ({error.strerror}); this session keeps its own.")
            return {}
        except (ValueError, RecursionError):
            stored = None
        if not _is_notes(stored):
            self._set_aside()
            return {}
        return stored

    def _set_aside(self) -> None:
        """Give a file that makes no sense another name, so that it is neither lost nor in the way."""
        aside, number = path().with_suffix(".broken"), 1
        while aside.exists():
            number += 1
            aside = path().with_suffix(f".broken{number}")
        try:
            os.replace(path(), aside)
            self._say(f"Your notes of earlier sessions could not be read; they are kept as {aside} and begin anew.")
        except OSError as error:
            self._say(f"Your notes in {path()} make no sense and could not be moved ({error.strerror}).")

    def _write(self, stored: dict) -> None:
        """Put the file in its place whole, for its reader's eyes only."""
        try:
            text = json.dumps(stored, ensure_ascii=False, indent=1)
            files.put(path(), text.encode("utf-8", "backslashreplace"), mode=0o600)  # half a surrogate pair: as in JSON
        except OSError as error:
            self._say(
                f"Your guesses are kept for this session only: {path().parent} cannot be written ({error.strerror}). "
                f"Set {HOME} to a folder of yours to keep them for later notebooks."
            )


def path() -> Path:
    """Where the notes are; asked for each time, because tests and readers change the variable."""
    return Path(os.environ.get(HOME) or platformdirs.user_data_dir("lntutor", appauthor=False)) / FILE


def _is_notes(stored: Any) -> bool:
    """Whether this is a dict of sections, each a dict of entries, each a dict."""
    sections = list(stored.values()) if isinstance(stored, dict) else [None]
    return all(isinstance(s, dict) and all(isinstance(entry, dict) for entry in s.values()) for s in sections)


NOTES = Notes()


def guess_of(name: str) -> str | None:
    """What the reader guessed at the `Predict` of this name, in words, in this session or an earlier one."""
    if not isinstance(name, str):
        raise ValueError(f"name must be that of a question, got {name!r}")
    words = NOTES.everywhere("guesses").get(name, {}).get("words")
    return str(words) if words is not None else None
