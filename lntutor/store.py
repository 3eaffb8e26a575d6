"""Results kept on disk: computed once, and found again by all that they were computed from.

An entry is a JSON file named by a hash of the question and of the package's code that answers it: after a change to
either it is computed anew. It is written beside its place and then put there whole; one that cannot be read is
computed again.
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


def key(*question: Any, also: tuple[str, ...] = ()) -> str:
    """A name for a question: the same for the same question, asked of the same code; `also` of these modules."""
    return hashlib.blake2b(repr((code(also), *question)).encode(), digest_size=16).hexdigest()


@lru_cache
def code(also: tuple[str, ...] = ()) -> str:
    """A hash of the modules that a result depends on, and the versions of what they stand on."""
    import numpy
    import torch

    here = Path(__file__).resolve().parent
    texts = [(here / f"{name}.py").read_bytes() for name in SOURCES + also]
    return hashlib.blake2b(b"\0".join([*texts, torch.__version__.encode(), numpy.__version__.encode()])).hexdigest()


def load(name: str) -> Any:
    """An entry, or None where there is none that can be read."""
    try:
        return json.loads((folder() / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def save(name: str, entry: Any) -> bool:
    """Keep an entry; False where the folder cannot be written, for a result that is not kept is still a result."""
    try:
        put(folder() / f"{name}.json", json.dumps(entry))
    except OSError:
        return False
    return True


def put(path: Path, text: str) -> None:
    """Write a file beside its place, then put it there whole; nothing is left behind where that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"encoding": "utf-8", "newline": "", "dir": path.parent, "suffix": ".part", "delete": False}
    with tempfile.NamedTemporaryFile("w", **options) as file:
        try:
            file.write(text)
            file.close()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def fingerprint(thing: Any, _seen: frozenset[int] = frozenset()) -> Any:
    """What a rule does, as plain data: a function's code, what it closes over and the functions that it calls.

    A helper that was defined anew changes it; a module of the reader's own that a rule calls is not looked into.
    """
    if hasattr(thing, "tolist") and not isinstance(thing, type):  # repr leaves out most of a long array
        return type(thing).__name__, thing.tolist()
    if isinstance(thing, type) and thing.__module__ == "__main__":  # of a notebook: it may be defined anew
        methods = [(name, f) for name, f in sorted(vars(thing).items()) if hasattr(f, "__code__")]
        return thing.__name__, [(name, fingerprint(f, _seen)) for name, f in methods]
    if not callable(thing) or isinstance(thing, type) or not hasattr(thing, "__code__"):
        return repr(thing)
    if id(thing) in _seen:
        return "again"
    seen = _seen | {id(thing)}
    around = [cell.cell_contents for cell in thing.__closure__ or ()]
    called = [thing.__globals__.get(name) for name in _names(thing.__code__)]
    defaults = [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
    own = getattr(getattr(thing, "__self__", None), "__dict__", None)  # of a method
    parts = [*around, *defaults, *([own] if own else []), *(f for f in called if not _is_module(f))]
    return _plain(thing.__code__), [fingerprint(part, seen) for part in parts]


def _is_module(thing: Any) -> bool:
    return thing is None or hasattr(thing, "__path__") or hasattr(thing, "__file__")


def _names(body: CodeType) -> list[str]:
    inner = [name for const in body.co_consts if isinstance(const, CodeType) for name in _names(const)]
    return sorted({*body.co_names, *inner})


def _plain(body: CodeType) -> tuple:
    consts = [_plain(const) if isinstance(const, CodeType) else repr(const) for const in body.co_consts]
    return body.co_code.hex(), consts, body.co_names
