"""Call a function for every combination of a grid's values: `ln.sweep`, and `python -m lntutor sweep`.

cells.py computes the cells and keeps them in the cache.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from difflib import get_close_matches
from inspect import BoundArguments, Parameter, signature
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lntutor.experiments import cache
from lntutor.experiments.cells import Cell, compute
from lntutor.experiments.fingerprint import PLAIN, digest, fingerprint, installed
from lntutor.model.checks import check_int, check_type, short_repr
from lntutor.model.config import Inputs, ModelConfig, Settings, TrainConfig
from lntutor.model.placements import PLACEMENTS, Placement
from lntutor.text import files

READS = ("train", "hessian_spectrum", "hessian_blocks")  # functions that need a corpus
FUNCTIONS = ("signal_norms", "backward_norms", "gradient_norms", "token_similarity", "attention_entropy", *READS)
MOST_CELLS = 100_000  # of a grid
NAMED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def sweep(
    function: Callable[..., Any], grid: Mapping[str, Iterable], base: Any = (), *,
    keep: bool = True, jobs: int | None = None, client: Any = None, progress: bool = True, **fixed: Any,
) -> pd.DataFrame:  # fmt: skip
    """Call a function for every combination of a grid's values: its tables, one below the other, in the grid's order.

    `base` are the function's first arguments, such as ModelConfig() or (ModelConfig(), TrainConfig()), and `fixed` its
    keywords. A key of the grid sets the argument of that name, or the field of that name in a base; `seed` also sets
    `seeds`. The function returns a table, a dict, a number, a Spectrum or a Run, which becomes one row with the columns
    of `compare.finals`. Keys of the grid that the tables do not have become their first columns.

    Each cell is cached by all that it depends on, also by the code of a function of your own. Few cells run in this
    process, many on all cores; or on `jobs` processes, on the Dask cluster of a `client`, or as
    `joblib.parallel_config` says.
    """
    call, name = _bound(function, base, fixed), getattr(function, "__name__", type(function).__name__)
    if not isinstance(grid, Mapping) or not grid:
        example = "{'depth': [2, 4, 8]}"
        raise ValueError(f"grid must be a dict of one or more lists such as {example}, got {short_repr(grid)}")
    for key in grid:
        check_type("a key of grid", key, str)
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
    keys = _keys(function, calls, [*call.arguments.values(), *(value for axis in axes.values() for value in axis)])
    cells = [
        Cell((function, tuple(arguments), *arguments.values()), key, _text(values))
        for arguments, key, values in zip(calls, keys, labels, strict=True)
    ]
    long = any(isinstance(value, TrainConfig) for value in call.arguments.values())  # training takes long
    options = {"keep": keep, "jobs": jobs, "client": client, "long": long, "progress": progress}
    parts = compute(measured, cells, read=_read, **options)
    return _stacked(parts, labels, name)


# From a grid to calls ------------------------------------------------------------------------------------------


def _values(key: str, values: Any, place: Place) -> list:
    """The values of one key as plain Python values; a single value is a list of one."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = [values]
    values = islice(values, MOST_CELLS + 1)
    values = [value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value for value in values]
    if place.field == "placement":  # a name may be assigned another placement later
        values = [PLACEMENTS.find(value) for value in values]
    if place.is_list:
        values = [check_int("seed", value, 0, 2**31 - 1) for value in values]
    labels = [repr(_label(value)) for value in values]
    if not values or len(set(labels)) < len(labels):
        given = ", ".join(labels) or "none"
        raise ValueError(f"grid[{key!r}] must have one or more values of different names, got {given}")
    return values


def _label(value: Any) -> Any:
    """A value as it is written in a column."""
    if isinstance(value, Placement):
        return value.key
    return value if type(value) in (type(None), bool, int, float, str) else getattr(value, "__name__", repr(value))


def _text(labels: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())


def _bound(function: Callable, base: Any, fixed: dict[str, Any]) -> BoundArguments:
    """The call that all cells start from; its own progress bar is off."""
    base = tuple(base) if isinstance(base, tuple | list) else (base,)
    try:
        wanted = signature(function)
    except (TypeError, ValueError):
        raise ValueError(f"function must have a signature, got {function!r}; write it with def") from None
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
    """What a key of the grid sets: a field of settings, an argument, or one of the function's **keywords."""

    argument: str
    field: str = ""
    keyword: str = ""
    is_list: bool = False  # the argument takes a list


def _place(key: str, call: BoundArguments) -> Place:
    kinds = {name: parameter.kind for name, parameter in call.signature.parameters.items()}
    settings = {name: value for name, value in call.arguments.items() if isinstance(value, Settings)}
    if kinds.get(key) in NAMED:
        return Place(key)
    found = [Place(name, field=key) for name, value in settings.items() if key in _fields(value)]
    if not found and key == "seed" and "seeds" in kinds:
        found = [Place("seeds", is_list=True)]
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
    """A message: which keys are allowed, or where the field belongs."""
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
            arguments[place.argument] = (value,) if place.is_list else value
    try:
        return arguments | {argument: arguments[argument].with_(**new) for argument, new in changes.items()}
    except ValueError as error:
        cell = _text({key: _label(value) for key, value in values.items()})
        raise ValueError(f"The grid has an impossible cell, {cell}: {error}") from None


def _keys(function: Callable, calls: list[dict[str, Any]], shared: list) -> list[str]:
    """One cache key per cell, from all that its result depends on; shared objects are hashed once."""
    models = [value for value in shared if isinstance(value, ModelConfig)]
    heavy = [value for value in shared if not isinstance(value, Settings) and type(value) not in PLAIN]
    known = {id(part): digest(fingerprint(part)) for part in (*heavy, *(cfg.placement for cfg in models))}
    question = [fingerprint(function)]
    if not models or not installed(function):  # it may look up a placement by its name
        question.append(fingerprint(dict(PLACEMENTS)))
    question = digest(question)
    return [cache.key("cell", question, fingerprint(call, known)) for call in calls]


# From a cell to columns ----------------------------------------------------------------------------------------


def measured(function: Callable, names: tuple[str, ...], *values: Any) -> dict[str, list]:
    """Run in a worker: the function's result for a cell, as columns of plain values."""
    call = BoundArguments(signature(function), dict(zip(names, values, strict=True)))
    return _columns(function(*call.args, **call.kwargs))


def _columns(result: Any) -> dict[str, list]:
    if isinstance(getattr(result, "how", None), TrainConfig):  # a training run
        from lntutor.experiments.compare import finals

        if result.status == "stopped":  # only complete runs are kept
            raise KeyboardInterrupt
        result = finals({"": [result]}).drop(columns="run")
    if callable(getattr(result, "table", None)):  # a spectrum
        result = result.table()
    if isinstance(result, pd.Series):
        result = result.to_frame(result.name or "value") if any(result.index.names) else result.to_dict()
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
    """A number, a text, True, False or None, or a ValueError."""
    if hasattr(value, "item") and not getattr(value, "ndim", 0):
        value = value.item()
    if not isinstance(value, bool | int | float | str | type(None)):
        kinds = "a table, a dict or a number, with nothing but numbers and text in it"
        raise ValueError(f"a function in a sweep must return {kinds}, got a {type(value).__name__}")
    return value


def _read(entry: Any, cell: Cell) -> dict[str, list]:
    """An entry of the cache, if it is columns of one length."""
    if not all(isinstance(column, list) for column in entry.values()) or len({*map(len, entry.values())}) > 1:
        raise ValueError("not columns of one length")
    return entry


def _stacked(parts: list[dict[str, list]], labels: list[dict[str, Any]], name: str) -> pd.DataFrame:
    """One table, with those keys of the grid in front that the parts do not have.

    A column with the name of a key but other values, such as the steps of a run that diverged, gets the prefix `name`_.
    """
    cells = [(part, values, len(next(iter(part.values()), ()))) for part, values in zip(parts, labels, strict=True)]
    columns = list(dict.fromkeys(column for part in parts for column in part))
    same = [key for key in labels[0] if all(part.get(key) == [values[key]] * n for part, values, n in cells)]
    data = {key: [values[key] for _, values, n in cells for _ in range(n)] for key in labels[0] if key not in same}
    for column in columns:
        title = f"{name}_{column}" if column in data else column
        data[title] = [value for part, _, n in cells for value in part.get(column, [None] * n)]
    return pd.DataFrame(data)


# The command line ----------------------------------------------------------------------------------------------


def _parser_of(default: Any) -> Callable[[str], Any]:
    """The argparse type of a setting with this default."""
    return truth if isinstance(default, bool) else type(default) if isinstance(default, int | float) else str


def truth(text: str) -> bool:
    """True or False, as typed on the command line."""
    return ("false", "true").index(text.lower()) == 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m lntutor sweep`."""
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
                group.add_argument(f"--{field.name}", nargs="+", type=_parser_of(field.default), metavar="VALUE")
    group = parser.add_argument_group("further")
    for name, default in options.items():
        group.add_argument(f"--{name}", nargs="+", type=_parser_of(default), metavar="VALUE")


def run(args: argparse.Namespace) -> None:
    """Sweep, then write or print the table."""
    import lntutor
    from lntutor.text.corpus import load_corpus

    known = {"function", "out", "jobs", "dask", "corpus"}
    grid = {name: values for name, values in vars(args).items() if name not in known and values is not None}
    if args.out and not os.access(args.out.parent, os.W_OK):
        raise ValueError(f"--out is in {args.out.parent}, where nothing can be written; make it, or name another")
    fixed: dict[str, Any] = {"corpus": load_corpus(args.corpus)} if args.function in READS else {}
    base = (ModelConfig(), TrainConfig()) if args.function == "train" else ModelConfig()
    with _cluster(args.dask) as client:
        table = sweep(getattr(lntutor, args.function), grid, base, jobs=args.jobs, client=client, **fixed)
    text = table.to_csv(index=False, lineterminator="\n")
    try:
        if args.out:
            files.put(args.out, text)
    except OSError as error:
        error.add_note(f"{args.out} was not written. The cells are remembered: another --out writes the table at once.")
        raise
    print(f"written: {args.out}, {len(table)} rows\n" if args.out else text, end="")


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """A client of the Dask cluster at this address, or None without an address."""
    if not address:
        yield None
        return
    if not re.fullmatch(r"(\w+://)?\S+:\d{1,5}", address):  # Dask would try for a minute
        raise ValueError(f"--dask must be the address of a scheduler, such as tcp://127.0.0.1:8786, got {address!r}")
    try:
        from distributed import Client

        client = Client(address)
    except (ImportError, OSError, ValueError) as error:
        raise ValueError(f"The Dask cluster at {address} cannot be used: {error}") from None
    with client:
        yield client
