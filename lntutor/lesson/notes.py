"""The reader's notes: guesses, votes, answers and measurements.

They live in the kernel and in one small file, so that a later notebook, which runs in another kernel, still has
them. They stay on this computer, and `lntutor.lesson.forget()` deletes them.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeGuard

import platformdirs
from filelock import FileLock, Timeout

from lntutor.text import files

HOME = "LNTUTOR_HOME"  # names the folder of the reader's notes; without it they lie in the folder for user data
FILE, LOCK = "notes.json", "notes.lock"
WAIT = 3.0  # seconds for another kernel to finish writing, which takes milliseconds


class Notes:
    """Entries by section and name, kept in this kernel and, if the folder can be written, in one file.

    `get` returns entries of this session only: a new kernel asks its questions anew. `everywhere` adds those that the
    file has from earlier sessions. A problem with the file never raises; `warning` returns it once, as a sentence.
    """

    def __init__(self):
        self._session: dict[str, dict[str, dict]] = {}
        self._lock = threading.RLock()  # widgets call from several threads
        self._warned: set[str] = set()
        self._warning = ""

    def get(self, section: str, name: str) -> dict | None:
        """An entry of this session."""
        return self._session.get(section, {}).get(name)

    def everywhere(self, section: str) -> dict[str, dict]:
        """All entries of a section: this session's, and those of earlier sessions that it has not replaced."""
        with self._lock:
            return {**self._read().get(section, {}), **self._session.get(section, {})}

    def put(self, section: str, name: str, entry: dict, *, keep: bool = True) -> None:
        """Store an entry; with `keep=False` in this session only."""
        with self._lock:
            self._session.setdefault(section, {})[name] = entry
            if keep:
                self._keep(section, name, entry)

    def drop(self, section: str, name: str) -> None:
        """Remove an entry from this session; the file keeps it until a new one is stored."""
        with self._lock:
            self._session.get(section, {}).pop(name, None)

    def forget(self) -> None:
        """Delete all notes, of this session and of earlier ones."""
        with self._lock, _locked():
            self._session.clear()
            try:
                path().unlink(missing_ok=True)
            except OSError as error:
                self._warn(f"Your notes in {path()} could not be deleted ({error.strerror}).")

    def warning(self) -> str:
        """The problem with the file as a sentence, once; after that, or without a problem, nothing."""
        with self._lock:
            message, self._warning = self._warning, ""
            return message

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self._warning = " ".join(part for part in (self._warning, message) if part)

    def _keep(self, section: str, name: str, entry: dict) -> None:
        """Add an entry to the file, which another kernel may have changed meanwhile."""
        with _locked() as free:
            if not free:
                reason = f"another notebook has been writing to {path()} for {WAIT:g} seconds"
                self._warn(f"Your guesses are kept for this session only: {reason}. Restart that notebook's kernel.")
                return
            stored = self._read()
            stored.setdefault(section, {})[name] = entry
            self._write(stored)

    def _read(self) -> dict[str, dict[str, dict]]:
        try:
            stored = json.loads(path().read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._warn(f"Your notes in {path()} could not be read ({error.strerror}); this session keeps its own.")
            return {}
        except (ValueError, RecursionError):
            stored = None
        if not _is_notes(stored):
            self._set_aside()
            return {}
        return stored

    def _set_aside(self) -> None:
        """Rename a file that is not notes, so that it is neither lost nor in the way."""
        aside, number = path().with_suffix(".broken"), 1
        while aside.exists():
            number += 1
            aside = path().with_suffix(f".broken{number}")
        try:
            os.replace(path(), aside)
            self._warn(f"Your notes of earlier sessions could not be read; they are kept as {aside} and begin anew.")
        except OSError as error:
            self._warn(f"Your notes in {path()} are damaged and could not be moved ({error.strerror}).")

    def _write(self, stored: dict) -> None:
        """Write the file in one step, readable by its owner alone."""
        try:
            text = json.dumps(stored, ensure_ascii=False, indent=1)
            files.put(path(), text.encode("utf-8", "backslashreplace"), mode=0o600)  # half a surrogate pair: as in JSON
        except OSError as error:
            self._warn(
                f"Your guesses are kept for this session only: {path().parent} cannot be written ({error.strerror}). "
                f"Set {HOME} to a folder of yours to keep them for later notebooks."
            )


def path() -> Path:
    """Where the notes are; the variable is read each time, because tests and readers change it."""
    return Path(os.environ.get(HOME) or platformdirs.user_data_dir("lntutor", appauthor=False)) / FILE


@contextmanager
def _locked() -> Iterator[bool]:
    """Keep other kernels from changing the file; False if one has kept us out for WAIT seconds."""
    lock, free = FileLock(path().with_name(LOCK), timeout=WAIT, mode=0o600, poll_interval=0.01), True
    try:
        lock.acquire()
    except Timeout:
        free = False
    except OSError:  # a disk without locks; or one that cannot be written, which writing reports
        pass
    try:
        yield free
    finally:
        lock.release()


def _is_notes(stored: Any) -> TypeGuard[dict[str, dict[str, dict]]]:
    """Whether this is a dict of sections, each a dict of entries, each a dict."""
    sections = list(stored.values()) if isinstance(stored, dict) else [None]
    return all(isinstance(s, dict) and all(isinstance(entry, dict) for entry in s.values()) for s in sections)


NOTES = Notes()


def guess_of(name: str) -> str | None:
    """The reader's guess at the `Predict` of this name, as text, from this session or an earlier one."""
    if not isinstance(name, str):
        raise ValueError(f"name must be that of a question, got {name!r}")
    guess = NOTES.everywhere("guesses").get(name, {}).get("words")
    return str(guess) if guess is not None else None
