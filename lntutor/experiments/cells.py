"""Compute many cells, each once, in this process, on all cores or on a Dask cluster; used by `sweep` and `compare`.

A cell's work returns plain data, which the calling process writes to the cache as soon as it arrives. So workers need
no shared disk.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from lntutor.experiments import cache, fingerprint
from lntutor.model.checks import check_flag, check_int, short_repr
from lntutor.training.progress import progress_bar

SMALL = 5.0  # seconds of work for which no other processes are started
ENOUGH = 0.5  # seconds after which the time per cell is known
POLITE = 10  # niceness of a worker, out of 19
# joblib's warnings of a worker renewed as its memory has grown (ours keep weights), and of a closed generator
WARNINGS = "(?s)A worker stopped while some jobs were given to the executor|.*limit unnecessary computation time"


@dataclass(frozen=True)
class Cell:
    """The arguments of the work, the key of its result in the cache, and a label for messages."""

    arguments: tuple
    key: str
    label: str


@dataclass(frozen=True)
class Failure:
    """The error of a cell as text, as not every error can be pickled; the error itself stays in its process."""

    message: str
    trace: str = ""
    error: Exception | None = field(default=None, compare=False)

    def __reduce__(self):
        return Failure, (self.message, self.trace)


class CellError(ValueError):
    """A cell that could not be computed; the message says which, and how to go on."""

    exit_code = 1  # of the command line


def compute(
    work: Callable[..., Any], cells: Sequence[Cell], *, read: Callable[[Any, Cell], Any] = lambda entry, cell: entry,
    keep: bool = True, jobs: int | None = None, client: Any = None, long: bool = False, progress: bool = True,
    unit: str = "cell",
) -> list:  # fmt: skip
    """read(work(*cell.arguments), cell) for every cell, in their order; cells with the same key are computed once.

    Cells in the cache are read from there. The others are computed on a Dask cluster, if there is a `client` or
    `joblib.parallel_config(backend="dask")`; else by `jobs` processes; else as `joblib.parallel_config` says; else on
    all cores: at once if cells are `long`, or as soon as more than SMALL seconds of work are expected. An interrupt or
    an error keeps the cells that have ended, and the next call goes on from there.
    """
    jobs = None if jobs is None else check_int("jobs", jobs, 1, 1024)
    keep, progress = check_flag("keep", keep), check_flag("progress", progress)
    if client is not None and not all(hasattr(client, name) for name in ("submit", "cancel")):
        raise ValueError(f"client must be a dask.distributed.Client or None, got {short_repr(client)}")
    cache.limit()  # an error in this setting is reported before the work, not after it
    wanted = {cell.key: cell for cell in cells}
    found = dict(remembered(wanted, read)) if keep else {}
    rest = [cell for key, cell in wanted.items() if key not in found]
    caption = f"{len(wanted)} {unit}s" + (f", {len(found)} remembered" if found else "")
    bar = progress_bar(total=len(wanted), initial=len(found), desc=caption, unit=unit, disable=not progress)
    try:
        with bar, warnings.catch_warnings(), closing(_results(work, rest, jobs, client, long)) as results:
            warnings.filterwarnings("ignore", message=WARNINGS)
            for i, result in results:
                if i is None or isinstance(result, Failure):
                    raise _error(None if i is None else rest[i], result, len(found), len(wanted), keep)
                cell = rest[i]
                if keep and not cache.save(cell.key, result):
                    bar.set_postfix_str("not remembered", refresh=False)
                found[cell.key] = read(json.loads(result), cell)
                bar.update()
    except KeyboardInterrupt as stop:
        kept = " and are remembered: the same call goes on from there" if keep else ""
        stop.add_note(f"Stopped. {len(found)} of {len(wanted)} {unit}s have ended{kept}.")
        raise
    return [found[cell.key] for cell in cells]


def remembered(cells: Mapping[str, Cell], read: Callable[[Any, Cell], Any]) -> Iterator[tuple[str, Any]]:
    """(key, result) of the cells in the cache, without entries that `read` cannot read."""
    for key, cell in cells.items():
        entry = cache.load(key)
        if entry is not None:
            try:
                yield key, read(entry, cell)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                continue


def _error(cell: Cell | None, failure: Failure, ended: int, of: int, keep: bool) -> CellError:
    if cell is None:
        message = f"A process that computed cells ended on its own, out of memory maybe ({failure.message})"
        advice = "fewer jobs or smaller cells may help"
    else:
        message = f"The cell {cell.label} failed with {failure.message}"
        advice = "leave it out, or mend what it needs"
    kept = f"{ended} of {of} cells have ended" + (" and are remembered" if keep else "")
    advice += ", and the same call goes on from there. A changed function starts anew."
    error = CellError(f"{message}. {kept}: {advice}")
    error.__cause__ = failure.error
    if failure.trace and failure.error is None:
        error.add_note(failure.trace)
    return error


# Where cells are computed ---------------------------------------------------------------------------------------

Results = Generator[tuple[int | None, Any], None, None]  # (number of the cell, its result as JSON or a Failure)


def _results(work: Callable, cells: list[Cell], jobs: int | None, client: Any, long: bool) -> Results:
    from joblib import cpu_count
    from joblib.parallel import BACKENDS, get_active_backend

    rest, first, (backend, configured) = list(enumerate(cells)), 0, get_active_backend()
    client = client or getattr(backend, "client", None)  # that of joblib.parallel_config(backend="dask")
    if client is not None:
        yield from _on_cluster(client, work, rest)
        return
    if jobs is None and configured is None and isinstance(backend, BACKENDS["loky"]):  # no setting says where
        jobs, began = min(cpu_count(), 1024), time.perf_counter()
        while first < len(rest) and not long:
            spent = time.perf_counter() - began
            if jobs > 1 and first and spent > ENOUGH and spent / first * (len(rest) - first) > SMALL:
                break
            yield first, _attempt(work, cells[first].arguments)
            first += 1
    rest = rest[first:]
    if jobs is not None and min(jobs, len(rest)) <= 1:
        yield from ((i, _attempt(work, cell.arguments)) for i, cell in rest)
    else:
        yield from _in_processes(jobs and min(jobs, len(rest)), work, rest)


def _in_processes(jobs: int | None, work: Callable, rest: list[tuple[int, Cell]]) -> Results:
    from joblib import Parallel, delayed

    same = fingerprint.package_code(), os.getpid()
    calls = (delayed(_numbered)(i, *same, work, *cell.arguments) for i, cell in rest)
    results: Any = Parallel(jobs, return_as="generator_unordered")(calls)
    with closing(results):
        yield from _caught(results)


def _on_cluster(client: Any, work: Callable, rest: list[tuple[int, Cell]]) -> Results:
    """Dask's scheduler moves the cells of a worker that died to another, and gives up on a cell that kills several.

    Arguments that several cells share, such as a corpus, are sent once: as the result of a task, not as scattered data,
    so that they are made again if the worker that held them dies.
    """
    from distributed import as_completed

    same = fingerprint.package_code(), os.getpid()
    parts = [part for _, cell in rest for part in cell.arguments if type(part) not in fingerprint.PLAIN]
    counts, things = Counter(map(id, parts)), {id(part): part for part in parts}
    sent = {i: client.submit(_unchanged, thing, pure=False) for i, thing in things.items() if counts[i] > 1}
    futures = [
        client.submit(_numbered, i, *same, work, *(sent.get(id(part), part) for part in cell.arguments), pure=False)
        for i, cell in rest
    ]

    def results():
        for future in as_completed(futures):
            yield future.result()
            future.release()  # so that nothing is computed again if its worker dies later

    try:
        yield from _caught(results())
    finally:
        client.cancel(futures)


def _unchanged(thing: Any) -> Any:
    return thing


def _caught(results: Iterator) -> Results:
    """The same results; if the worker processes themselves fail, the last one is a Failure without a number."""
    try:
        while (result := next(results, None)) is not None:
            yield result
    except Exception as error:
        yield None, Failure(f"{type(error).__name__}: {error}", error=error)


# In a worker ----------------------------------------------------------------------------------------------------


def _numbered(i: int, code: str, caller: int, work: Callable, *arguments: Any) -> tuple[int, str | Failure]:
    """(i, result of the i-th cell), or a Failure if this process has other code than the caller."""
    if os.getpid() != caller and hasattr(os, "nice"):
        # the notebook's page and server come first: a plot that waits for two seconds gives up
        os.nice(max(0, POLITE - os.nice(0)))
    if code != fingerprint.package_code():
        other = "another lntutor, torch or numpy than the process that asked; install the same, and start both again"
        return i, Failure(f"a worker that has {other}")
    return i, _attempt(work, arguments)


def _attempt(work: Callable, arguments: tuple) -> str | Failure:
    """The result of a cell as JSON, or its Failure; on one torch thread, as sums depend on the number of threads."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _interruptible():
            return json.dumps(work(*arguments))
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc(), error)
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Raises KeyboardInterrupt at the end, too, if the work caught an interrupt and returned what it had so far."""
    before, hits = signal.getsignal(signal.SIGINT), []
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def note(number, frame):
        hits.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if hits:
        raise KeyboardInterrupt
