"""A grid of settings → one table: every combination is measured once and remembered, here or on many machines.

`ln.sweep` in Python, `python -m lntutor sweep` on the command line. What computes the cells, and where, is `cells`.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields
from difflib import get_close_matches
from inspect import BoundArguments, Parameter, signature
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lntutor import files, store
from lntutor.cells import Cell, CellError, compute
from lntutor.config import Inputs, ModelConfig, Settings, TrainConfig, instance, shown, whole
from lntutor.placements import PLACEMENTS, Placement

FUNCTIONS = (  # of the command line
    "signal_norms", "backward_norms", "gradient_norms", "token_similarity", "attention_entropy", "train",
    "hessian_spectrum", "hessian_blocks",
)  # fmt: skip
READS = ("train", "hessian_spectrum", "hessian_blocks")  # those that need a text
MOST_CELLS = 100_000  # of a grid
NAMED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def sweep(
    function: Callable[..., Any],
    grid: Mapping[str, Iterable],
    base: Any = (),
    *,
    keep: bool = True,
    jobs: int | None = None,
    progress: bool = True,
    **fixed: Any,
) -> pd.DataFrame:
    """Call a function for every combination of a grid's values: its tables, one below the other, in the grid's order.

    `base` is what the function is given first, a ModelConfig or several such as (ModelConfig(), TrainConfig()), and
    `fixed` its keywords. A key of the grid sets an argument of that name, or the field of that name in one of these;
    `seed` also sets `seeds`. The function gives a table, a dict, a number, a Run (a row of `comparison.finals`) or a
    Spectrum; what its table does not tell of the grid becomes columns in front.

    Cells are remembered by all that they depend on, a function of your own by its code and what it reads. `jobs` as in
    `cells.compute`: few cells run here, many on all cores, or where `joblib.parallel_config` says.
    """
    call, name = _bound(function, base, fixed), getattr(function, "__name__", type(function).__name__)
    if not isinstance(grid, Mapping) or not grid:
        raise ValueError(f"grid must be a dict of one or more lists such as {{'depth': [2, 4, 8]}}, got {shown(grid)}")
    for key in grid:
        instance("a key of grid", key, str)
    places = {key: _place(key, call) for key in grid}
    axes = {key: _values(key, values, places[key]) for key, values in grid.items()}
    missing = [p.name for p in call.signature.parameters.values() if p.kind in NAMED and p.name not in call.arguments]
    missing = [argument for argument in missing if argument not in {place.argument for place in places.values()}]
    if missing:
        raise ValueError(f"{name} needs {', '.join(missing)}: give it in base, as a keyword of sweep, or in the grid")
    if (count := prod(map(len, axes.values()))) > MOST_CELLS:
        raise ValueError(f"grid must have at most {MOST_CELLS} cells, got {count} or more: give fewer values")
    combinations = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    labels = [{key: _label(value) for key, value in values.items()} for values in combinations]
    calls = [_changed(call, places, values) for values in combinations]
    names = _names(function, calls, [*call.arguments.values(), *(value for axis in axes.values() for value in axis)])
    told = zip(calls, names, labels, strict=True)
    cells = [Cell((function, arguments), key, _words(values)) for arguments, key, values in told]
    long = any(isinstance(value, TrainConfig) for value in call.arguments.values())  # training takes long
    parts = compute(measured, cells, read=_read, keep=keep, jobs=jobs, long=long, progress=progress)
    return _stacked(parts, labels, name)


# From a grid to calls ------------------------------------------------------------------------------------------


def _values(key: str, values: Any, place: Place) -> list:
    """The values of one key, as Python has them; one alone is a list of one."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = [values]
    values = islice(values, MOST_CELLS + 1)
    values = [value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value for value in values]
    if place.field == "placement":  # what the name stands for now: it may be defined anew
        values = [PLACEMENTS.find(value) for value in values]
    if place.several:
        values = [whole("seed", value, 0, 2**31 - 1) for value in values]
    labels = [repr(_label(value)) for value in values]
    if not values or len(set(labels)) < len(labels):
        said = ", ".join(labels) or "none"
        raise ValueError(f"grid[{key!r}] must have one or more values of different names, got {said}")
    return values


def _label(value: Any) -> Any:
    """A value as a column shows it."""
    if isinstance(value, Placement):
        return value.key
    return value if type(value) in (type(None), bool, int, float, str) else getattr(value, "__name__", repr(value))


def _words(labels: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def _bound(function: Callable, base: Any, fixed: dict[str, Any]) -> BoundArguments:
    """The call that every cell changes; without a bar of its own where it would draw one."""
    base = tuple(base) if isinstance(base, tuple | list) else (base,)
    try:
        wanted = signature(function)
    except (TypeError, ValueError):
        raise ValueError(f"function must be one that says what it takes, got {function!r}; write it with def") from None
    if "progress" in wanted.parameters:
        fixed = {"progress": False} | fixed
    try:
        call = wanted.bind_partial(*base, **fixed)
    except TypeError as error:
        raise ValueError(f"A function{wanted} cannot be given base={base!r} and {fixed!r}: {error}") from None
    call.apply_defaults()
    return call


@dataclass(frozen=True)
class Place:
    """Where a key of the grid goes: a field of settings, an argument, or one of the function's **keywords."""

    argument: str
    field: str = ""
    keyword: str = ""
    several: bool = False  # the argument takes a list


def _place(key: str, call: BoundArguments) -> Place:
    kinds = {name: parameter.kind for name, parameter in call.signature.parameters.items()}
    settings = {name: value for name, value in call.arguments.items() if isinstance(value, Settings)}
    if kinds.get(key) in NAMED:
        return Place(key)
    found = [Place(name, field=key) for name, value in settings.items() if key in _fields(value)]
    if not found and key == "seed" and "seeds" in kinds:
        found = [Place("seeds", several=True)]
    found = found or [Place(name, keyword=key) for name, kind in kinds.items() if kind == Parameter.VAR_KEYWORD]
    if len(found) > 1:
        places = " and ".join(f"{place.argument}.{key}" for place in found)
        raise ValueError(f"grid has the key {key!r}, which could set {places}; write a function that says which")
    if not found:
        raise ValueError(f"grid has the key {key!r}; {_advice(key, settings, kinds)}")
    return found[0]


def _fields(settings: Any) -> list[str]:
    return [field.name for field in fields(settings)]


def _advice(key: str, settings: Mapping[str, Settings], kinds: Mapping[str, Any]) -> str:
    """What a grid may have instead, and where a field of other settings would come from."""
    for kind in (ModelConfig, TrainConfig):
        if key in _fields(kind) and key not in ("seed", "batch"):
            name = kind.__name__
            return f"it is a field of {name}, which the function is not given; base may hold it, as in base=({name}(),)"
    allowed = [field for value in settings.values() for field in _fields(value)]
    allowed += ["seed" if name == "seeds" else name for name in kinds if name not in (*settings, "progress")]
    near = get_close_matches(key, allowed, n=1)
    return f"it may have {', '.join(allowed) or 'none'}" + (f"; did you mean {near[0]!r}?" if near else "")


def _changed(call: BoundArguments, places: Mapping[str, Place], values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of one cell; settings are changed all at once, since their fields are checked together."""
    arguments, changes = dict(call.arguments), {}
    for key, value in values.items():
        place = places[key]
        if place.field:
            changes.setdefault(place.argument, {})[key] = value
        elif place.keyword:
            arguments[place.argument] = arguments.get(place.argument, {}) | {key: value}
        else:
            arguments[place.argument] = (value,) if place.several else value
    try:
        return arguments | {argument: arguments[argument].with_(**new) for argument, new in changes.items()}
    except ValueError as error:
        told = _words({key: _label(value) for key, value in values.items()})
        raise ValueError(f"The grid has a cell that cannot be, {told}: {error}") from None


def _names(function: Callable, calls: list[dict[str, Any]], shared: list) -> list[str]:
    """A name for every cell, from all that its result depends on; what cells share is read once."""
    models = [value for value in shared if isinstance(value, ModelConfig)]
    heavy = [value for value in shared if not isinstance(value, Settings) and type(value) not in store.PLAIN]
    known = {id(part): store.digest(store.fingerprint(part)) for part in (*heavy, *(cfg.placement for cfg in models))}
    question = [store.fingerprint(function)]
    if not models or not store.installed(function):  # it may look up a placement by its name
        question.append(store.fingerprint(dict(PLACEMENTS)))
    question = store.digest(question)
    return [store.key("cell", question, store.fingerprint(call, known), also=store.EVERY) for call in calls]


# From a cell to columns ----------------------------------------------------------------------------------------


def measured(function: Callable, arguments: dict[str, Any]) -> dict[str, list]:
    """In a worker: what a function gives for a cell, as columns of plain values."""
    call = BoundArguments(signature(function), arguments)
    return _columns(function(*call.args, **call.kwargs))


def _columns(result: Any) -> dict[str, list]:
    if isinstance(getattr(result, "how", None), TrainConfig):  # a training run
        from lntutor.comparison import finals

        if result.status == "stopped":  # `train` keeps what it has; a cell is a whole run
            raise KeyboardInterrupt
        result = finals({"": [result]}).drop(columns="run")
    if callable(getattr(result, "table", None)):  # a spectrum
        result = result.table()
    if isinstance(result, pd.Series):
        result = result.rename(result.name or "value").to_frame() if any(result.index.names) else result.to_dict()
    if isinstance(result, Mapping) and any(isinstance(value, list | tuple | np.ndarray) for value in result.values()):
        result = pd.DataFrame(result)
    if isinstance(result, pd.DataFrame):
        result = result.reset_index() if any(result.index.names) else result
        if not result.columns.is_unique:
            raise ValueError(f"a table's columns must have different names, got {', '.join(map(str, result.columns))}")
        return {str(name): [_plain(value) for value in result[name].tolist()] for name in result.columns}
    result = result if isinstance(result, Mapping) else {"value": result}
    return {str(name): [_plain(value)] for name, value in result.items()}


def _plain(value: Any) -> Any:
    """A number, a word, True, False or None, or a ValueError."""
    if hasattr(value, "item") and not getattr(value, "ndim", 0):
        value = value.item()
    if not isinstance(value, bool | int | float | str | type(None)):
        kinds = "a table, a dict or a number, with nothing but numbers and words in it"
        raise ValueError(f"a function in a sweep must give {kinds}, got a {type(value).__name__}")
    return value


def _read(entry: Any, cell: Cell) -> dict[str, list]:
    """An entry of the store, if it is columns of one length."""
    if not all(isinstance(column, list) for column in entry.values()) or len({*map(len, entry.values())}) > 1:
        raise ValueError("not columns of one length")
    return entry


def _stacked(parts: list[dict[str, list]], labels: list[dict[str, Any]], name: str) -> pd.DataFrame:
    """One table, with those keys of the grid in front that the parts do not tell.

    A column that has the name of a key but another meaning, such as the steps that a run made before it diverged, is
    given the function's name too.
    """
    cells = [(part, told, len(next(iter(part.values()), ()))) for part, told in zip(parts, labels, strict=True)]
    columns = list(dict.fromkeys(column for part in parts for column in part))
    same = [key for key in labels[0] if all(part.get(key) == [told[key]] * n for part, told, n in cells)]
    data = {key: [told[key] for _, told, n in cells for _ in range(n)] for key in labels[0] if key not in same}
    for column in columns:
        title = f"{name}_{column}" if column in data else column
        data[title] = [value for part, _, n in cells for value in part.get(column, [None] * n)]
    return pd.DataFrame(data)


# The command line ----------------------------------------------------------------------------------------------


def _word(default: Any) -> Callable[[str], Any]:
    """How an option is read whose setting has this default."""
    return truth if isinstance(default, bool) else type(default) if isinstance(default, int | float) else str


def truth(text: str) -> bool:
    """True or False, as it is typed."""
    return ("false", "true").index(text.lower()) == 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The function, an option for every setting, and where the table goes."""
    parser.usage = "%(prog)s FUNCTION [--placement VALUE …] [--depth VALUE …] [--seed VALUE …] … [--out FILE]"
    parser.description = (
        "Measure or train every combination of the values given, and write one table. Cells are remembered one by one: "
        "the same command goes on where it was interrupted. Options with one value are set, those with several are "
        "swept over."
    )
    parser.add_argument("function", choices=FUNCTIONS, metavar="FUNCTION", help=f"one of {', '.join(FUNCTIONS)}")
    parser.add_argument("--out", type=Path, metavar="FILE", help="a file for the table, as CSV (default: print it)")
    parser.add_argument("--jobs", type=int, help="cells at a time (default: few run in turn, many on all cores)")
    parser.add_argument("--dask", metavar="ADDRESS", help="compute on the Dask cluster with this scheduler")
    parser.add_argument("--corpus", default="captions", help=f"the text of {', '.join(READS)} (default: captions)")
    options: dict[str, Any] = {"seed": 0, "dtype": "float32", "pairs": 200}
    for settings in (ModelConfig(), Inputs(), TrainConfig()):
        group = parser.add_argument_group(f"fields of {type(settings).__name__}")
        for field in fields(settings):
            if (field.name not in options and field.name != "batch") or isinstance(settings, Inputs):
                group.add_argument(f"--{field.name}", nargs="+", type=_word(field.default), metavar="VALUE")
    group = parser.add_argument_group("further")
    for name, default in options.items():
        group.add_argument(f"--{name}", nargs="+", type=_word(default), metavar="VALUE")


def run(args: argparse.Namespace) -> int:
    """Sweep, and write the table whole. Exit code 2: it was not begun; 1: a cell or the writing failed."""
    import lntutor
    from lntutor.corpus import load_corpus

    known = {"function", "out", "jobs", "dask", "corpus"}
    grid = {name: values for name, values in vars(args).items() if name not in known and values is not None}
    try:
        if args.out and not os.access(args.out.parent, os.W_OK):
            raise ValueError(f"--out is in {args.out.parent}, where nothing can be written; make it, or name another")
        fixed = {"corpus": load_corpus(args.corpus)} if args.function in READS else {}
        base = (ModelConfig(), TrainConfig()) if args.function == "train" else ModelConfig()
        with _cluster(args.dask):
            table = sweep(getattr(lntutor, args.function), grid, base, jobs=args.jobs, **fixed)
        text = table.to_csv(index=False, lineterminator="\n")
        if args.out and not _written(args.out, text):
            return 1
        print(f"written: {args.out}, {len(table)} rows\n" if args.out else text, end="")
        return 0
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1 if isinstance(error, CellError) else 2
    except KeyboardInterrupt:
        said = "stopped; the cells that have ended are remembered, and the same command goes on from there"
        print(said, file=sys.stderr)
        return 130


def _written(out: Path, text: str) -> bool:
    """Put the table in its place; False, and a sentence, where that cannot be."""
    try:
        files.put(out, text)
        return True
    except OSError as error:
        again = "the cells are remembered, and the same command with another --out writes the table at once"
        print(f"{out} cannot be written ({error.strerror or error}); {again}", file=sys.stderr)
        return False


def _cluster(address: str | None) -> Any:
    """joblib's settings for a Dask cluster, where there is an address."""
    import joblib

    if address and not re.fullmatch(r"(\w+://)?\S+:\d{1,5}", address):  # Dask would try for a minute
        raise ValueError(f"--dask must be the address of a scheduler, such as tcp://127.0.0.1:8786, got {address!r}")
    try:
        return joblib.parallel_config(backend="dask", scheduler_host=address) if address else nullcontext()
    except (OSError, ValueError) as error:
        raise ValueError(f"The Dask cluster at {address} cannot be used: {error}") from None
