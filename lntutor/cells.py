"""Cells of work: each computed once and remembered, here, on this machine's cores or where joblib is told to compute.

`sweeps` and `comparison` stand on this. A cell's work gives plain data; whoever asked for it keeps it in the store as
soon as it arrives, so that workers need no disk in common.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from lntutor import store
from lntutor.bars import progress_bar
from lntutor.config import flag, whole

SMALL = 5.0  # seconds of work that are not worth the start of other processes
ENOUGH = 0.5  # seconds after which it is known how long a cell takes
POLITE = 10  # niceness of a worker, out of 19
CODE = store.code(store.EVERY)  # now, in every process: the code that was imported, not what the files hold later


@dataclass(frozen=True)
class Cell:
    """What the work is given, the name of its result in the store, and what a person calls it."""

    given: tuple
    name: str
    words: str


@dataclass(frozen=True)
class Failure:
    """An error of a cell, in words: from another process the error itself may not come whole."""

    words: str
    trace: str = ""
    error: Exception | None = field(default=None, compare=False)

    def __reduce__(self):
        return Failure, (self.words, self.trace)


class CellError(ValueError):
    """A cell that could not be computed; the message says which, and how to go on."""


def compute(
    work: Callable[..., Any],
    cells: Sequence[Cell],
    *,
    read: Callable[[Any, Cell], Any] = lambda entry, cell: entry,
    keep: bool = True,
    jobs: int | None = None,
    long: bool = False,
    progress: bool = True,
    unit: str = "cell",
) -> list:
    """`read` of what `work(*cell.given)` gives, for every cell, in their order; two of one name are one.

    Remembered cells are read from the store. The others are computed by `jobs` processes; where that is None, as
    `joblib.parallel_config` says, or else on all cores: at once if a cell is `long`, and if not, as soon as it is clear
    that more than SMALL seconds are left. An interrupt or an error keeps the cells that have ended: the next call goes
    on from there.
    """
    jobs = None if jobs is None else whole("jobs", jobs, 1, 1024)
    keep, progress = flag("keep", keep), flag("progress", progress)
    store.limit()  # says what is wrong with it before the work, not after it
    wanted = {cell.name: cell for cell in cells}
    found = dict(remembered(wanted, read)) if keep else {}
    rest = [cell for name, cell in wanted.items() if name not in found]
    words = f"{len(wanted)} {unit}s" + (f", {len(found)} remembered" if found else "")
    bar = progress_bar(total=len(wanted), initial=len(found), desc=words, unit=unit, disable=not progress)
    told = _told_when_stopped(found, len(wanted), unit, keep)
    with told, bar, _one_thread(), _renewed_workers(), closing(_results(work, rest, jobs, long)) as results:
        for i, result in results:
            if isinstance(result, Failure):
                raise _error(rest[i] if i is not None else None, result, len(found), len(wanted), keep)
            cell = rest[i]
            if keep and not store.save(cell.name, result):
                bar.set_postfix_str("not remembered", refresh=False)
            found[cell.name] = read(json.loads(result), cell)
            bar.update()
    return [found[cell.name] for cell in cells]


@contextmanager
def _told_when_stopped(found: Mapping[str, Any], of: int, unit: str, keep: bool) -> Iterator[None]:
    """An interrupt says what is left of the work."""
    try:
        yield
    except KeyboardInterrupt as stop:
        kept = " and are remembered: the same call goes on from there" if keep else ""
        stop.add_note(f"Stopped. {len(found)} of {of} {unit}s have ended{kept}.")
        raise


def remembered(cells: Mapping[str, Cell], read: Callable[[Any, Cell], Any]) -> Iterator[tuple[str, Any]]:
    """What the store has of these cells; an entry of another shape than ours is as good as none."""
    for name, cell in cells.items():
        entry = store.load(name)
        if entry is not None:
            try:
                yield name, read(entry, cell)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError):
                continue


def _error(cell: Cell | None, failure: Failure, ended: int, of: int, keep: bool) -> CellError:
    if cell is None:
        said = f"A process that computed cells ended on its own, out of memory maybe ({failure.words})"
        advice = "fewer jobs or smaller cells may help"
    else:
        said, advice = f"The cell {cell.words} failed with {failure.words}", "leave it out, or mend what it needs"
    kept = f"{ended} of {of} cells have ended" + (" and are remembered" if keep else "")
    error = CellError(
        f"{said}. {kept}: {advice}, and the same call goes on from there. A changed function starts anew."
    )
    error.__cause__ = failure.error
    if failure.trace and failure.error is None:
        error.add_note(failure.trace)
    return error


# One after the other, and many at a time ------------------------------------------------------------------------


def _results(
    work: Callable, rest: list[Cell], jobs: int | None, long: bool
) -> Iterator[tuple[int | None, str | Failure]]:
    """(number of the cell, its result as JSON) as they end."""
    from joblib import cpu_count

    first = 0
    if jobs is None and not _chosen():
        jobs, began = min(cpu_count(), 1024), time.perf_counter()
        while first < len(rest) and not long:
            spent = time.perf_counter() - began
            if jobs > 1 and first and spent > ENOUGH and spent / first * (len(rest) - first) > SMALL:
                break
            yield first, _attempt(work, rest[first].given)
            first += 1
    rest = list(enumerate(rest))[first:]
    if jobs is not None and min(jobs, len(rest)) <= 1:
        yield from ((i, _attempt(work, cell.given)) for i, cell in rest)
    else:
        yield from _parallel(work, rest, None if jobs is None else min(jobs, len(rest)))


def _chosen() -> bool:
    """Whether `joblib.parallel_config` says where to compute."""
    from joblib.parallel import BACKENDS, get_active_backend

    backend, jobs = get_active_backend()
    return jobs is not None or not isinstance(backend, BACKENDS["loky"])


def _parallel(work: Callable, rest: list[tuple[int, Cell]], jobs: int | None) -> Iterator:
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    with _mended(get_active_backend()[0]):
        calls = (delayed(_numbered)(i, work, cell.given, CODE, os.getpid()) for i, cell in rest)
        results = Parallel(jobs, return_as="generator_unordered")(calls)
        try:
            while (one := _next(results)) is not None:
                yield one
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what was under way
                results.close()


def _next(results: Iterator) -> tuple[int | None, str | Failure] | None:
    """The next that ends; an error is one of the processes, for that of a cell comes as a Failure."""
    try:
        return next(results, None)
    except Exception as error:
        return None, Failure(f"{type(error).__name__}: {error}", error=error)


@contextmanager
def _mended(backend: Any) -> Iterator[None]:
    """On a Dask cluster, tell joblib of a task that was given up, since its workers died: it would wait for ever.

    And where there is but one worker so far, compute there, not in this process.
    """
    if type(backend).__name__ != "DaskDistributedBackend":
        yield
        return
    submit, retrieve, count = backend.submit, backend.retrieve_result_callback, backend.effective_n_jobs

    def told(func, callback=None):
        future = submit(func, callback)
        future.add_done_callback(lambda ended: callback(ended.exception()) if ended.exception() else None)
        return future

    def retrieved(out):
        if isinstance(out, BaseException):
            raise out
        return retrieve(out)

    backend.submit, backend.retrieve_result_callback = told, retrieved
    backend.effective_n_jobs = lambda jobs: max(2, count(jobs))
    try:
        yield
    finally:
        del backend.submit, backend.retrieve_result_callback, backend.effective_n_jobs


def _numbered(i: int, work: Callable, given: tuple, code: str, caller: int) -> tuple[int, str | Failure]:
    """In a worker: the i-th cell, if this is the code that the caller has."""
    if os.getpid() != caller:
        _give_way()
    if code != CODE:
        where = "another lntutor, torch or numpy than the process that asked; install the same, and start both again"
        return i, Failure(f"a worker that has {where}")
    return i, _attempt(work, given)


def _give_way() -> None:
    """Let the page and its server go first: where every core computes, a plot that waits for two seconds gives up."""
    if hasattr(os, "nice"):
        os.nice(max(0, POLITE - os.nice(0)))


def _attempt(work: Callable, given: tuple) -> str | Failure:
    """The result of a cell as JSON, on one thread of torch; or how it failed."""
    import torch

    torch.set_num_threads(1)  # several share the machine, and a sum must not depend on the number of threads
    try:
        with _uninterrupted():
            return json.dumps(work(*given))
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc(), error)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """An interrupt ends a cell, also where the work itself would answer it with what it has: a cell is whole."""
    before, hits = signal.getsignal(signal.SIGINT), []
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def noted(number, frame):
        hits.append(number)
        before(number, frame)

    signal.signal(signal.SIGINT, noted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if hits:
        raise KeyboardInterrupt


@contextmanager
def _renewed_workers() -> Iterator[None]:
    """No warning where loky starts a worker anew because its memory has grown: ours keep weights for the next cell."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given to the executor")
        yield


@contextmanager
def _one_thread() -> Iterator[None]:
    """Leave the caller's number of threads as it was."""
    import torch

    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
