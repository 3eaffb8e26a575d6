"""Every write of the package, cut short at every point; `python -m tests.cut_short FOLDER` prints what came of it.

One process that has imported all forks a child for every fault, so that hundreds of deaths take seconds. Python tells
of each call that opens, makes, renames or deletes a file before it happens (`sys.addaudithook`): there the child dies,
or, where a file is opened, just after it; or the disk is full. A limit on the size of files (RLIMIT_FSIZE) ends it in
the middle of a file: with SIGXFSZ as the system has it the child dies of it, and where the signal is ignored, as in
Python, write fails.
"""

import errno
import json
import os
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lntutor import claims, download, files, ledger, notes, results, site, store
from lntutor.parallel import CorpusError
from tools import bootstrap

OLD, NEW, LAST = 1, 2, 3  # what is there before, what the cut write would put there, what the next call puts there
CALLS = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.utime", "os.truncate")
GROWS = ("open", "os.mkdir", "os.rename")  # calls that a full disk refuses
SIZE = 5000  # of a file, about
WRONG = 3  # the exit code of a child that found something wrong


class Kind(NamedTuple):
    """A way to write: `write(folder, version)`, and which versions `read(folder)` finds, broken ones as they are."""

    write: Callable[[Path, int], Any]
    read: Callable[[Path], set]
    files: int  # left in the end


def text(version: int) -> str:
    """Something to write, different in every version."""
    return f"{version} {'ü' * (SIZE // 2)} {version}"


def version_of(content: str) -> Any:
    """Which version this is, if it is whole."""
    return next((version for version in (OLD, NEW, LAST) if content == text(version)), content[:40])


def found(path: Path) -> set:
    return {version_of(path.read_text(encoding="utf-8"))} if path.exists() else set()


# The writes ----------------------------------------------------------------------------------------------------


def entry(folder: Path, version: int) -> None:
    os.environ[store.CACHE] = str(folder)
    store.save("entry", json.dumps(text(version)))


def entries(folder: Path) -> set:
    os.environ[store.CACHE] = str(folder)
    return {version_of(known)} if (known := store.load("entry")) is not None else set()


def note(folder: Path, version: int) -> None:
    os.environ[notes.HOME] = str(folder)
    notes.Notes().put("guesses", "a", {"guess": text(version)})


def noted(folder: Path) -> set:
    os.environ[notes.HOME] = str(folder)
    return {version_of(guess["guess"]) for guess in notes.Notes().everywhere("guesses").values()}


def table(folder: Path, version: int) -> None:
    results.write(pd.DataFrame({"value": [text(version)]}), folder / "a_captions.csv", ["a command"])


def tables(folder: Path) -> set:
    path = folder / "a_captions.csv"
    return {version_of(value) for value in results.load(path)["value"]} if path.exists() else set()


def rows(folder: Path, version: int) -> None:
    results.FOLDER = folder
    ledger.write({"lemma1": {"measured": text(version), "verdict": "holds"}})


def rows_there(folder: Path) -> set:
    results.FOLDER = folder
    return {version_of(claims.stored().loc["lemma1", "measured"])} if (folder / claims.FILE).exists() else set()


def pages(folder: Path, version: int) -> None:
    site.asset_files = lambda: {"a.js": text(version).encode()}
    own = {f"only{version}.html": text(version).encode()}
    site.check(folder / "site")
    site.put(folder / "site", {**own, "index.html": text(version).encode()})


def pages_there(folder: Path) -> set:
    shown = [folder / "site" / name for name in ("index.html", "assets/a.js")]
    return set().union(*map(found, shown))


class Answer(BytesIO):
    """What a server gives that has the file."""

    status, headers = 200, Message()

    def __init__(self, content: bytes):
        super().__init__(content)
        self.length = len(content)

    def read1(self, _size=-1):
        return super().read1(1000)


def fetched(folder: Path, version: int) -> None:
    content = text(version).encode()
    download._open = lambda url, begun: Answer(content)  # which begins anew, whatever it is asked for
    published = download.Published("a", len(content), sha256(content).hexdigest(), "")
    download.fetch_files((published,), "http://127.0.0.1/", folder)


def copied(folder: Path, version: int) -> None:
    source = folder.with_name(f"source{version}")
    content = (source / "a").read_bytes()
    published = download.Published("a", len(content), sha256(content).hexdigest(), "")
    download.copy_files((published,), source, folder)


def stamp(folder: Path, version: int) -> None:
    bootstrap.write_stamp(folder.with_name("root"), folder, "students", (version,))


def stamps(folder: Path) -> set:
    root = folder.with_name("root")
    known = {v for v in (OLD, NEW, LAST) if bootstrap.is_installed(root, folder, "students", (v,))}
    return known or ({"broken"} if bootstrap.stamp_path(folder, "students").exists() else set())


KINDS = {
    "an entry of the store": Kind(entry, entries, 1),
    "the reader's notes": Kind(note, noted, 1),
    "a stored table": Kind(table, tables, 2),
    "the ledger": Kind(rows, rows_there, 2),
    "a page or table of one file": Kind(
        lambda folder, version: files.put(folder / "a", text(version)), lambda folder: found(folder / "a"), 1
    ),
    "the site": Kind(pages, pages_there, 4),
    "a download": Kind(fetched, lambda folder: found(folder / "a"), 1),
    "a copied corpus": Kind(copied, lambda folder: found(folder / "a"), 1),
    "the stamp of an installation": Kind(stamp, stamps, 1),
}


# The faults ----------------------------------------------------------------------------------------------------


class Tracer:
    """Counts the calls that change the disk, and does something at one of them, or from there on."""

    def __init__(self, at: int, fault: Callable[[str], None], lasting: bool):
        self.at, self.fault, self.lasting, self.calls, self.on = at, fault, lasting, 0, True
        sys.addaudithook(self)

    def __call__(self, event: str, args: tuple) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if self.on and (writes or event in CALLS):
            self.calls += 1
            if self.calls == self.at or (self.lasting and self.calls > self.at):
                self.fault(event)


@contextmanager
def at_call(number: int, fault: Callable[[str], None], lasting: bool = False) -> Iterator[Tracer]:
    """Inside, the n-th call that changes the disk meets this fault; an audit hook stays, so it is switched off."""
    tracer = Tracer(number, fault, lasting)
    try:
        yield tracer
    finally:
        tracer.on = False


@contextmanager
def at_size(size: int, action: Any) -> Iterator[None]:
    """Inside, no file may be larger."""
    signal.signal(signal.SIGXFSZ, action)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def die(call: str) -> None:
    """At once; a file that is being opened is opened first, and empty then."""

    def now(*_) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if call == "open":
        sys.setprofile(now)  # at whatever is called or ends next
    else:
        now()


def full(call: str) -> None:
    if call in GROWS:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_only(_call: str) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def in_child(work: Callable[[], None]) -> int:
    """How a child ended that did this: 0, minus the number of a signal, or WRONG, with a traceback."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(WRONG)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fresh(place: Path, kind: Kind) -> Path:
    """A folder with the old version in it, beside what some kinds are made from."""
    folder = place / "here"
    folder.mkdir(parents=True)
    (place / "root").mkdir()
    for name in bootstrap.FILES["students"]:
        (place / "root" / name).write_text("")
    for version in (OLD, NEW, LAST):
        (place / f"source{version}").mkdir()
        (place / f"source{version}" / "a").write_text(text(version), encoding="utf-8")
    kind.write(folder, OLD)
    return folder


def left(folder: Path) -> list[Path]:
    """All files below a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


# A process that dies -------------------------------------------------------------------------------------------


def killed(kind: Kind, place: Path) -> Iterator[str]:
    """Die at some sizes and at every call; in one folder, so that what is left behind adds up."""
    folder = fresh(place, kind)
    died, number = 0, 0
    for size in (0, 1, SIZE // 2, SIZE - 1):
        code, problems = _death(kind, folder, lambda size=size: at_size(size, signal.SIG_DFL))
        died += code != 0
        yield from (f"death at {size} bytes: {problem}" for problem in problems)
    code = -signal.SIGKILL
    while code:
        number += 1
        code, problems = _death(kind, folder, lambda n=number: at_call(n, die))
        yield from (f"death at call {number}: {problem}" for problem in problems)
    if died < 2 or number < 3:
        yield f"it died only {died} times of its size and {number - 1} times at a call"
    for i, path in enumerate(folder.rglob(f"{files.PREFIX}*{files.SUFFIX}")):
        days = -1 if i % 2 else 10_000  # left yesterday, or by a clock that was years ahead
        os.utime(path, (path.stat().st_mtime + 24 * 3600 * days,) * 2)
    files._tidied.clear()  # as in a new process
    kind.write(folder, LAST)
    if len(left(folder)) != kind.files:
        yield f"in the end there are {', '.join(path.name for path in left(folder))}"


def _death(kind: Kind, folder: Path, cut: Callable[[], Any]) -> tuple[int, list[str]]:
    """How a write over the old version ended, and what was wrong after it and after the next call."""

    def write() -> None:
        with cut():
            kind.write(folder, NEW)

    kind.write(folder, OLD)
    code, problems = in_child(write), []
    there = kind.read(folder)
    if code not in (0, -signal.SIGKILL, -signal.SIGXFSZ):
        problems.append(f"it ended with {code}")
    if there not in ([{NEW}] if code == 0 else [{OLD}, {NEW}, {OLD, NEW}]):
        problems.append(f"it left {there}")
    kind.write(folder, LAST)
    if kind.read(folder) != {LAST}:
        problems.append(f"the next call left {kind.read(folder)}")
    return code, problems


# A disk that is full or read-only ------------------------------------------------------------------------------


def refused(kind: Kind, place: Path) -> Iterator[str]:
    """A disk that is full at a size or at a call, or read-only from a call on: the process lives and goes on."""
    cuts = {f"full at {size} bytes": (lambda size=size: at_size(size, signal.SIG_IGN)) for size in (0, 1, SIZE // 2)}
    calls = _calls(kind, fresh(place / "counted", kind))
    for n in range(1, calls + 1):
        cuts[f"full at call {n}"] = lambda n=n: at_call(n, full)
    for n in (1, calls // 2 + 1):
        cuts[f"read-only from call {n}"] = lambda n=n: at_call(n, read_only, lasting=True)
    for number, (name, cut) in enumerate(cuts.items()):
        folder = fresh(place / str(number), kind)
        spared = name.startswith("read-only")  # what is half-written then cannot be deleted
        if code := in_child(lambda folder=folder, cut=cut, spared=spared: _goes_on(kind, folder, cut, spared)):
            yield f"{name}: ended with {code}"


def _calls(kind: Kind, folder: Path) -> int:
    """How many calls a write makes."""
    reader, writer = os.pipe()

    def count() -> None:
        with at_call(0, die) as tracer:
            kind.write(folder, NEW)
        os.write(writer, str(tracer.calls).encode())

    in_child(count)
    return int(os.read(reader, 100))


def _goes_on(kind: Kind, folder: Path, cut: Callable[[], Any], spared: bool) -> None:
    """In a child: what is there is whole, nothing else is left, and the next call of the same process works."""
    with suppress(OSError, CorpusError), cut():  # it may say that it failed
        kind.write(folder, NEW)
    there = kind.read(folder)
    assert there in ({OLD}, {NEW}, {OLD, NEW}), there
    kind.write(folder, LAST)
    assert kind.read(folder) == {LAST}, kind.read(folder)
    parts = [path for path in left(folder) if path.name.startswith(files.PREFIX)]
    assert len(parts) <= spared, parts
    assert len(left(folder)) == kind.files + len(parts), left(folder)


def main(place: Path) -> None:
    """A line of JSON a kind and fault: what went wrong."""
    warnings.simplefilter("ignore")  # of results that are not remembered
    for number, (name, kind) in enumerate(KINDS.items()):
        for fault in (killed, refused):
            problems = list(fault(kind, place / f"{number}" / fault.__name__))
            print(json.dumps({"kind": name, "fault": fault.__name__, "problems": problems}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
