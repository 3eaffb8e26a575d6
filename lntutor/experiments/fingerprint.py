"""Fingerprints of functions, classes and objects, as plain data and as hashes: the keys of cached results.

The fingerprint of a function or class of this package is the code of its module and of all modules that it imports;
that of a reader's function is its bytecode. Comments and docstrings do not count.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import pickle
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import CellType, CodeType, MappingProxyType, MethodType, ModuleType
from typing import Any
from uuid import uuid4

from lntutor import ROOT

PACKAGE = ROOT / "lntutor"
NOTHING: Mapping[int, str] = MappingProxyType({})
PLAIN = (type(None), bool, int, float, complex, str, bytes, range)


def _module_name(path: Path) -> str:
    parts = ("lntutor", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# module → its text when this process began, which is the code that runs, also after a later edit of the file
SOURCES = {_module_name(path): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


def versions() -> tuple:
    """What a result depends on besides the code: torch, numpy, and LNTUTOR_SAMPLE (random_streams.py)."""
    import numpy
    import torch

    from lntutor.model.random_streams import DRAWN

    return torch.__version__, numpy.__version__, DRAWN


def digest(thing: Any) -> str:
    """A hash of plain data."""
    return hashlib.blake2b(repr(thing).encode(), digest_size=16).hexdigest()


@cache
def package_code() -> str:
    """A hash of what a worker and the calling process must share: the whole package, torch, numpy."""
    return digest((versions(), SOURCES))


@cache
def module_code(module: str) -> str:
    """A hash of a module of this package and of all modules of the package that it imports, directly or not.

    Comments, docstrings and layout do not count, and neither does the facade `lntutor`, which only passes names on.
    """
    seen, ahead = set(), [module]
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            package = name.rpartition(".")[0]  # Python runs its __init__.py, too
            ahead += {*_parsed(SOURCES[name])[1], package} - {"lntutor"}
    return digest([_parsed(SOURCES[name])[0] for name in sorted(seen)])


@cache
def _parsed(source: str) -> tuple[str, tuple[str, ...]]:
    """(the code of a module without its comments and docstrings, the modules of this package that it imports)."""
    tree, imported = ast.parse(source), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
    return ast.dump(tree), tuple(sorted(imported & SOURCES.keys() - {"lntutor"}))


def fingerprint(thing: Any, known: Mapping[int, str] = NOTHING, _seen: dict | None = None) -> Any:
    """Plain data that identifies an object; for a function its code, what it closes over and what it calls.

    It changes when a helper, a number or a class that the function uses is redefined, or a reader's own module is
    edited. Objects of other installed packages count by name. An object that cannot be pickled gets a random key.
    `known` maps ids of objects to fingerprints made before.
    """
    seen = {} if _seen is None else _seen
    if type(thing) in PLAIN:
        return repr(thing)
    if id(thing) in known:
        return known[id(thing)]
    if id(thing) in seen:
        return "again", seen[id(thing)][0]
    seen[id(thing)] = len(seen), thing  # a reference, so that no other object gets its id

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
        ours = thing.__name__ in SOURCES and thing.__name__ != "lntutor"
        return thing.__name__, module_code(thing.__name__) if ours else _text(thing) if _own(thing) else ""
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
    """A function's or class's importable name, with a hash of its code if it is of this package; "" for a reader's."""
    module, path = sys.modules.get(getattr(thing, "__module__", None) or ""), getattr(thing, "__qualname__", "")
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name, None)
    if module is None or found is not thing or _own(module):
        return ""
    code = f" {module_code(module.__name__)}" if module.__name__ in SOURCES else ""
    return f"{module.__name__}.{path}{code}"


def _function(f: Any, of: Any) -> Any:
    called = [f.__globals__[name] for name in _globals(f.__code__) if name in f.__globals__]
    called += [import_module(name) for name in _imports(f.__code__)]
    facades = {thing.__name__: thing for thing in called if isinstance(thing, ModuleType) and _is_lazy(thing)}
    names = sorted({name for body in _bodies(f.__code__) for name in body.co_names})
    for facade in facades.values():
        called += [getattr(facade, name) for name in names if name in facade.__all__]
    around = [cell.cell_contents for cell in f.__closure__ or () if cell != CellType()]  # without empty cells
    return _plain(f.__code__), of(around, f.__defaults__, f.__kwdefaults__, called)


def _class(kind: type, of: Any) -> Any:
    body = {name: value for name, value in vars(kind).items() if name not in ("__dict__", "__weakref__", "__doc__")}
    body = {name: getattr(value, "fget", None) or getattr(value, "__func__", value) for name, value in body.items()}
    return kind.__name__, of(kind.__bases__, body)


def _own(module: ModuleType) -> bool:
    """Whether this is a reader's own module: a notebook, or a file that was not installed."""
    root, file = module.__name__.partition(".")[0], getattr(module, "__file__", None)
    if root == "__main__":
        return True
    if file is None or root == "lntutor" or root in sys.stdlib_module_names:
        return False
    return not {"site-packages", "dist-packages"} & set(Path(file).parts)


def _text(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)  # a notebook has none
    return hashlib.blake2b(Path(file).read_bytes()).hexdigest() if file and Path(file).is_file() else uuid4().hex


def _bodies(body: CodeType) -> list[CodeType]:
    """Code and all code inside it."""
    return [body, *(one for const in body.co_consts if isinstance(const, CodeType) for one in _bodies(const))]


def _globals(body: CodeType) -> list[str]:
    """The global names that code reads."""
    return _operands(body, "LOAD_GLOBAL", "LOAD_NAME")


def _imports(body: CodeType) -> list[str]:
    """The modules of this package that code itself imports."""
    return [name for name in _operands(body, "IMPORT_NAME") if name in SOURCES]


def _operands(body: CodeType, *operations: str) -> list[str]:
    steps = [step for one in _bodies(body) for step in dis.get_instructions(one)]
    return sorted({step.argval for step in steps if step.opname in operations})


def _is_lazy(module: ModuleType) -> bool:
    """Whether this is `lntutor` or another facade of this package, whose names live in modules that it loads late."""
    return module.__name__ in SOURCES and "__getattr__" in vars(module)


def _plain(body: CodeType) -> tuple:
    return body.co_code.hex(), body.co_exceptiontable.hex(), [_const(const) for const in body.co_consts], body.co_names


def _const(const: Any) -> Any:
    if isinstance(const, CodeType):
        return _plain(const)
    return sorted(map(repr, const)) if isinstance(const, frozenset) else repr(const)  # sets are unordered
