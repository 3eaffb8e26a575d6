"""Results kept on disk: computed once, and found again by all that they were computed from.

An entry is a JSON file named by a hash of the question and of the code that answers it, so it is never out of date.
It is written beside its place and then put there whole; one that cannot be read is computed again.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

import platformdirs

CACHE = "LNTUTOR_CACHE"  # the folder of what can be computed again, where not the usual one for caches
SOURCES = (
    "config", "corpus", "learner", "matrices", "measure", "model", "optimizers", "placements", "reading", "training",
    "translation", "weights", "parallel", "wording",
)  # fmt: skip


def folder() -> Path:
    """Where entries are: in LNTUTOR_CACHE, where that is set, or in the user's cache; runs of any notebook share it."""
    return Path(os.environ.get(CACHE) or platformdirs.user_cache_dir("lntutor", appauthor=False)) / "runs"


def key(*question: Any) -> str:
    """A name for a question: the same for the same question, asked of the same code."""
    return hashlib.blake2b(repr((code(), *question)).encode(), digest_size=16).hexdigest()


@lru_cache(maxsize=1)
def code() -> str:
    """A hash of the modules that a result depends on, and the versions of what they stand on."""
    import numpy
    import torch

    here = Path(__file__).resolve().parent
    texts = [(here / f"{name}.py").read_bytes() for name in SOURCES]
    return hashlib.blake2b(b"\0".join([*texts, torch.__version__.encode(), numpy.__version__.encode()])).hexdigest()


def load(name: str) -> Any:
    """An entry, or None where there is none that can be read."""
    try:
        return json.loads((folder() / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def save(name: str, entry: Any) -> bool:
    """Keep an entry; False where the folder cannot be written, for a result that is not kept is still a result."""
    part = None
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder(), suffix=".part", delete=False) as file:
            part = file.name
            json.dump(entry, file)
        os.replace(part, folder() / f"{name}.json")
    except OSError:
        if part:
            Path(part).unlink(missing_ok=True)
        return False
    return True


def fingerprint(thing: Any, _seen: frozenset[int] = frozenset()) -> Any:
    """What a rule does, as plain data: a function's code, what it closes over and the functions that it calls.

    Two rules with the same fingerprint compute the same; a helper that was defined anew changes it.
    """
    if not callable(thing) or isinstance(thing, type) or not hasattr(thing, "__code__"):
        return repr(thing)
    if id(thing) in _seen:
        return "again"
    seen = _seen | {id(thing)}
    around = [cell.cell_contents for cell in thing.__closure__ or ()]
    called = [thing.__globals__.get(name) for name in _names(thing.__code__)]
    parts = [*around, *(thing.__defaults__ or ()), *(f for f in called if not _is_module(f))]
    return _plain(thing.__code__), [fingerprint(part, seen) for part in parts]


def _is_module(thing: Any) -> bool:
    return thing is None or hasattr(thing, "__path__") or hasattr(thing, "__file__")


def _names(body: CodeType) -> list[str]:
    inner = [name for const in body.co_consts if isinstance(const, CodeType) for name in _names(const)]
    return sorted({*body.co_names, *inner})


def _plain(body: CodeType) -> tuple:
    consts = [_plain(const) if isinstance(const, CodeType) else repr(const) for const in body.co_consts]
    return body.co_code.hex(), consts, body.co_names
