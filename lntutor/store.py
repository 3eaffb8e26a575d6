"""Results kept on disk: computed once, and found again by all that they were computed from.

An entry is a JSON file named by a hash of the question and of the package's code that answers it: after a change to
either it is computed anew. One that cannot be read is computed again. All entries together have a limit in bytes; the
least recently used leave first.
"""

from __future__ import annotations

import dis
import hashlib
import json
import os
import pickle
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from pathlib import Path
from types import CellType, CodeType, MappingProxyType, MethodType, ModuleType
from typing import Any
from uuid import uuid4

import platformdirs

from lntutor import files
from lntutor.config import megabytes

CACHE = "LNTUTOR_CACHE"  # the folder of what can be computed again, where not the usual one for caches
LIMIT = "LNTUTOR_CACHE_MB"  # MB that all entries may have together, where not 1024
SOURCES = (
    "config", "corpus", "learner", "matrices", "measure", "model", "optimizers", "placements", "reading", "training",
    "translation", "weights", "parallel", "wording",
)  # fmt: skip
EVERY = tuple(sorted({path.stem for path in Path(__file__).resolve().parent.glob("*.py")} - set(SOURCES)))
NOTHING: Mapping[int, str] = MappingProxyType({})
PLAIN = (type(None), bool, int, float, complex, str, bytes, range)


def folder() -> Path:
    """Where entries are: in LNTUTOR_CACHE, where that is set, or in the user's cache; runs of any notebook share it."""
    return Path(os.environ.get(CACHE) or platformdirs.user_cache_dir("lntutor", appauthor=False)) / "runs"


def key(*question: Any, also: tuple[str, ...] = ()) -> str:
    """A name for a question: the same for the same question, asked of the same code; `also` of these modules."""
    return hashlib.blake2b(repr((code(also), *question)).encode(), digest_size=16).hexdigest()


@lru_cache
def code(also: tuple[str, ...] = ()) -> str:
    """A hash of the modules that a result depends on, the versions of what they stand on, and the sample in use."""
    import numpy
    import torch

    from lntutor.reading import DRAWN

    here = Path(__file__).resolve().parent
    texts = [(here / f"{name}.py").read_bytes() for name in SOURCES + also]
    versions = (torch.__version__, numpy.__version__, DRAWN)
    return hashlib.blake2b(b"\0".join([*texts, *(version.encode() for version in versions)])).hexdigest()


def load(name: str) -> Any:
    """An entry, or None where there is none that can be read."""
    path = folder() / f"{name}.json"
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    with suppress(OSError):  # a folder that can only be read
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))  # used now; written when it was
    return entry


def save(name: str, text: str) -> bool:
    """Keep an entry; False, and a warning, where that cannot be, for a result that is not kept is still a result."""
    path = folder() / f"{name}.json"
    try:
        files.put(path, text)
    except OSError as error:
        warnings.warn(
            f"Results are not remembered, and the next call computes them again: {folder()} cannot be written "
            f"({error.strerror or error}). Make room there, or set {CACHE} to a folder of yours.",
            stacklevel=2,
        )
        return False
    _make_room(path, len(text))
    return True


_unseen: dict[Path, int] = {}  # folder → bytes that were written there since it was last looked through


def _make_room(new: Path, size: int) -> None:
    """Now and then, delete the entries that were not used for longest, as far as all are over the limit.

    An entry that seems to be of the future was used before the clock was set back, nobody knows when: it goes first,
    so that those of now can stay.
    """
    most, home = limit(), new.parent
    _unseen[home] = _unseen.get(home, most) + size
    if _unseen[home] < most / 16:
        return
    _unseen[home], now, entries = 0, time.time_ns(), []
    for path in home.glob("*.json"):
        with suppress(OSError):
            about = path.stat()
            entries.append((path == new, about.st_atime_ns <= now, about.st_atime_ns, about.st_size, path))
    over = sum(entry[-2] for entry in entries) - most
    for *_, size, path in sorted(entries)[:-1]:
        if over <= 0:
            break
        with suppress(OSError):
            path.unlink()
            over -= size


def limit(environ: Mapping[str, str] = os.environ) -> int:
    """Bytes that all entries may have together."""
    return megabytes(LIMIT, 1024, environ)


def digest(thing: Any) -> str:
    """A short name for what `fingerprint` says."""
    return hashlib.blake2b(repr(thing).encode(), digest_size=16).hexdigest()


def fingerprint(thing: Any, known: Mapping[int, str] = NOTHING, _seen: dict | None = None) -> Any:
    """What a thing is and does, as plain data: of a function its code, what it closes over and what it calls.

    A helper, a number or a class that was defined anew changes it; of a reader's own module, any change to its file;
    of what is installed, nothing but its name. What cannot be told is never the same twice. `known` has, by id, what
    was asked before.
    """
    seen = {} if _seen is None else _seen
    if type(thing) in PLAIN:
        return repr(thing)
    if id(thing) in known:
        return known[id(thing)]
    if id(thing) in seen:
        return "again", seen[id(thing)][0]
    seen[id(thing)] = len(seen), thing  # held, so that no other thing gets its id

    def of(*parts):
        return [fingerprint(part, known, seen) for part in parts]

    kind = installed(type(thing)) or of(type(thing))
    if hasattr(type(thing), "fingerprint"):
        return kind, thing.fingerprint()
    if isinstance(thing, Mapping):
        return kind, [of(*item) for item in thing.items()]
    if isinstance(thing, list | tuple):
        return kind, of(*thing)
    if isinstance(thing, set | frozenset):
        return kind, sorted(map(repr, of(*thing)))
    if isinstance(thing, ModuleType):
        return thing.__name__, _text(thing) if _own(thing) else ""
    if isinstance(thing, partial):
        return kind, of(thing.func, thing.args, thing.keywords)
    if isinstance(thing, MethodType):
        return kind, of(thing.__func__, thing.__self__)
    if isinstance(thing, type) or hasattr(thing, "__code__"):
        return installed(thing) or (_class if isinstance(thing, type) else _function)(thing, of)
    if is_dataclass(thing):
        return kind, of(*(getattr(thing, field.name) for field in fields(thing)))
    if not isinstance(kind, str) and hasattr(thing, "__dict__"):
        return kind, of(vars(thing))
    try:
        return kind, hashlib.blake2b(pickle.dumps(thing)).hexdigest()
    except Exception:
        return kind, uuid4().hex


def installed(thing: Any) -> str:
    """The name by which a function or class is imported from Python, this package or another; else nothing."""
    module, path = sys.modules.get(getattr(thing, "__module__", None) or ""), getattr(thing, "__qualname__", "")
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name, None)
    return f"{thing.__module__}.{path}" if found is thing and not _own(module) else ""


def _function(f: Any, of: Any) -> Any:
    called = [f.__globals__[name] for name in _globals(f.__code__) if name in f.__globals__]
    around = [cell.cell_contents for cell in f.__closure__ or () if cell != CellType()]  # not what is still to come
    return _plain(f.__code__), of(around, f.__defaults__, f.__kwdefaults__, called)


def _class(kind: type, of: Any) -> Any:
    body = {name: value for name, value in vars(kind).items() if name not in ("__dict__", "__weakref__", "__doc__")}
    body = {name: getattr(value, "fget", None) or getattr(value, "__func__", value) for name, value in body.items()}
    return kind.__name__, of(kind.__bases__, body)


def _own(module: ModuleType) -> bool:
    """Whether a reader wrote this module: a notebook, or a file that was not installed."""
    root, file = module.__name__.partition(".")[0], getattr(module, "__file__", None)
    if root == "__main__":
        return True
    known = root == "lntutor" or root in sys.stdlib_module_names or file is None
    return not known and not {"site-packages", "dist-packages"} & set(Path(file).parts)


def _text(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)  # a notebook has none
    return hashlib.blake2b(Path(file).read_bytes()).hexdigest() if file and Path(file).is_file() else uuid4().hex


def _globals(body: CodeType) -> list[str]:
    """The names outside it that code reads."""
    own = {step.argval for step in dis.get_instructions(body) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    inner = [name for const in body.co_consts if isinstance(const, CodeType) for name in _globals(const)]
    return sorted({*own, *inner})


def _plain(body: CodeType) -> tuple:
    return body.co_code.hex(), body.co_exceptiontable.hex(), [_const(const) for const in body.co_consts], body.co_names


def _const(const: Any) -> Any:
    if isinstance(const, CodeType):
        return _plain(const)
    return sorted(map(repr, const)) if isinstance(const, frozenset) else repr(const)  # a set has no order of its own
