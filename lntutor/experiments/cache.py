"""A cache of results on disk: one JSON file per result, named by a hash of all that it depends on (fingerprint.py).

A file that cannot be read is computed again. All files together have a limit in bytes; the least recently used are
deleted first.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

from lntutor.experiments.fingerprint import versions
from lntutor.model.checks import megabytes
from lntutor.text import files

CACHE = "LNTUTOR_CACHE"  # environment variable: the folder of the cache, if not the user's cache folder
LIMIT = "LNTUTOR_CACHE_MB"  # environment variable: MB of all entries together, if not 1024
FORMAT = 1  # of entries; another number makes all old ones unused


def folder() -> Path:
    """The folder of the entries, which all notebooks share."""
    return Path(os.environ.get(CACHE) or platformdirs.user_cache_dir("lntutor", appauthor=False)) / "runs"


def key(*question: Any) -> str:
    """The name of an entry: a hash of the question and the versions of torch, numpy and the sample."""
    return hashlib.blake2b(repr((FORMAT, versions(), *question)).encode(), digest_size=16).hexdigest()


def load(name: str) -> Any:
    """An entry, or None if there is none that can be read."""
    path = folder() / f"{name}.json"
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    with suppress(OSError):  # a read-only folder
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))  # (last used, last written)
    return entry


def save(name: str, text: str) -> bool:
    """Keep an entry; False and a warning, not an error, if the folder cannot be written."""
    path = folder() / f"{name}.json"
    try:
        files.put(path, text)
    except OSError as error:
        problem = f"{folder()} cannot be written ({error.strerror or error})"
        advice = f"Make room there, or set {CACHE} to a folder of yours."
        message = f"Results are not remembered, and the next call computes them again: {problem}. {advice}"
        warnings.warn(message, stacklevel=2)
        return False
    _make_room(path, len(text))
    return True


_unseen: dict[Path, int] = {}  # folder → bytes written there since its size was last measured


def _make_room(new: Path, size: int) -> None:
    """Now and then, delete the least recently used entries, but not the new one, until all fit into the limit."""
    most, home = limit(), new.parent
    _unseen[home] = _unseen.get(home, most) + size
    if _unseen[home] < most / 16:
        return
    _unseen[home], entries = 0, []
    for path in home.glob("*.json"):
        with suppress(OSError):  # another process has deleted it
            about = path.stat()
            entries.append((path == new, about.st_atime_ns, about.st_size, path))
    over = sum(size for *_, size, _ in entries) - most
    for *_, size, path in sorted(entries)[:-1]:
        if over > 0:
            with suppress(OSError):
                path.unlink()
                over -= size


def limit(environ: Mapping[str, str] = os.environ) -> int:
    """The limit of all entries together, in bytes."""
    return megabytes(LIMIT, 1024, environ)
