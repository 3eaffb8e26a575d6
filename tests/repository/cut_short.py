"""Every write of the package, cut short at every point.

`python -m tests.repository.cut_short FOLDER` prints what came of it.

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
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import requests

from lntutor.experiments import cache as store
from lntutor.experiments import stored as results
from lntutor.lesson import claims, ledger, notes
from lntutor.publish import site
from lntutor.text import download, files
from tools import bootstrap

OLD, NEW, LAST = 1, 2, 3  # what is there before, what the cut write would put there, what the next call puts there
CALLS = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.utime", "os.truncate")
GROWS = ("open", "os.mkdir", "os.rename")  # calls that a full disk refuses
SIZE = 5000  # of a file, about
TABLE = "a_captions.csv"
WRONG = 3  # the exit code of a child that found something wrong


class Kind(NamedTuple):
    """A way to write: `write(folder, version)`, and `read(folder)`, which gives the texts that are there."""

    write: Callable[[Path, int], Any]
    read: Callable[[Path], list[str]]
    files: int = 1  # left in the end

    def versions(self, folder: Path) -> set:
        """The versions that are there: OLD, NEW or LAST, or the beginning of a text that is none of them."""
        known = {text(version): version for version in (OLD, NEW, LAST)}
        return {known.get(content, content[:40]) for content in self.read(folder)}


def text(version: int) -> str:
    """Something to write, different in every version."""
    return f"{version} {'ü' * (SIZE // 2)} {version}"


def contents(*names: str) -> Callable[[Path], list[str]]:
    """A function that reads these files of a folder, as far as they exist."""
    return lambda folder: [(folder / name).read_text(encoding="utf-8") for name in names if (folder / name).exists()]


# The writers ---------------------------------------------------------------------------------------------------


def write_site(folder: Path, version: int) -> None:
    content = text(version).encode()
    site.asset_files = lambda: {"a.js": content}
    site.check(folder / "site")
    site.put(folder / "site", {f"only{version}.html": content, "index.html": content})


def published(version: int) -> tuple[download.Published]:
    """The one file of a corpus, with its checksum."""
    content = text(version).encode()
    return (download.Published("a", len(content), sha256(content).hexdigest(), ""),)


def fetch(folder: Path, version: int) -> None:
    def answer(url: str, **_how) -> requests.Response:  # as from a server that has the file
        response = requests.Response()
        response.status_code, response.raw = 200, BytesIO(text(version).encode())
        return response

    requests.get = answer
    download.fetch_files(published(version), "http://127.0.0.1/", folder)


def read_stamp(folder: Path) -> list[str]:
    root = folder.with_name("root")
    versions = [v for v in (OLD, NEW, LAST) if bootstrap.is_installed(root, folder, "students", (v,))]
    return list(map(text, versions)) or ["broken"] * bootstrap.stamp_path(folder, "students").exists()


KINDS = {
    "an entry of the cache": Kind(
        lambda _, v: store.save("entry", json.dumps(text(v))),
        lambda _: [entry for entry in [store.load("entry")] if entry is not None],
    ),
    "the reader's notes": Kind(
        lambda _, v: notes.Notes().put("guesses", "a", {"guess": text(v)}),
        lambda _: [guess["guess"] for guess in notes.Notes().everywhere("guesses").values()],
    ),
    "a stored table": Kind(
        lambda folder, v: results.write(pd.DataFrame({"value": [text(v)]}), folder / TABLE, ["a command"]),
        lambda folder: list(results.load(folder / TABLE)["value"]) if (folder / TABLE).exists() else [],
        files=2,
    ),
    "the ledger": Kind(
        lambda _, v: ledger.write({"lemma1": {"measured": text(v), "verdict": "holds"}}),
        lambda folder: [claims.stored().loc["lemma1", "measured"]] if (folder / claims.FILE).exists() else [],
        files=2,
    ),
    "a page or table of one file": Kind(lambda folder, v: files.put(folder / "a", text(v)), contents("a")),
    "the site": Kind(write_site, contents("site/index.html", "site/assets/a.js"), files=4),
    "a download": Kind(fetch, contents("a")),
    "a copied corpus": Kind(
        lambda folder, v: download.copy_files(published(v), folder.with_name(f"source{v}"), folder), contents("a")
    ),
    "the stamp of an installation": Kind(
        lambda folder, v: bootstrap.write_stamp(folder.with_name("root"), folder, "students", (v,)), read_stamp
    ),
}


# The faults ----------------------------------------------------------------------------------------------------


@contextmanager
def at_call(number: int, fault: Callable[[str], None], lasting: bool = False) -> Iterator[list[str]]:
    """Inside, the n-th call that changes the disk meets this fault; the calls so far. An audit hook stays for good, so
    it is switched off in the end.
    """
    calls, on = [], [True]

    def hook(event: str, args: tuple) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if on and (writes or event in CALLS):
            calls.append(event)
            if len(calls) == number or (lasting and len(calls) > number):
                fault(event)

    sys.addaudithook(hook)
    try:
        yield calls
    finally:
        on.clear()


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
    """A folder for cache, notes and tables with the old version in it, beside what some kinds are made from."""
    folder = place / "here"
    folder.mkdir(parents=True)
    os.environ[store.CACHE] = os.environ[notes.HOME] = str(folder)
    results.FOLDER = folder
    (place / "root").mkdir()
    for name in bootstrap.FILES["students"]:
        (place / "root" / name).write_text("")
    for version in (OLD, NEW, LAST):
        (place / f"source{version}").mkdir()
        (place / f"source{version}" / "a").write_text(text(version), encoding="utf-8")
    kind.write(folder, OLD)
    return folder


def left(folder: Path) -> list[Path]:
    """All files below a folder, without the lock of the notes, which some versions of filelock leave there."""
    return [path for path in folder.rglob("*") if path.is_file() and path.name != notes.LOCK]


def unfinished(path: Path) -> bool:
    """Whether this is a file that was being written, by us or by pooch."""
    return path.name.startswith((files.PREFIX, "tmp"))


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
    for i, path in enumerate(filter(unfinished, left(folder))):
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
    there = kind.versions(folder)
    if code not in (0, -signal.SIGKILL, -signal.SIGXFSZ):
        problems.append(f"it ended with {code}")
    if there not in ([{NEW}] if code == 0 else [{OLD}, {NEW}, {OLD, NEW}]):
        problems.append(f"it left {there}")
    kind.write(folder, LAST)
    if kind.versions(folder) != {LAST}:
        problems.append(f"the next call left {kind.versions(folder)}")
    return code, problems


# A disk that is full or read-only ------------------------------------------------------------------------------


def refused(kind: Kind, place: Path) -> Iterator[str]:
    """A disk that is full at a size or at a call, or read-only from a call on: the process lives and goes on."""
    cuts = {f"full at {size} bytes": (lambda size=size: at_size(size, signal.SIG_IGN)) for size in (0, 1, SIZE // 2)}
    folder = fresh(place / "counted", kind)
    with at_call(0, die) as calls:
        kind.write(folder, NEW)
    for n in range(1, len(calls) + 1):
        cuts[f"full at call {n}"] = lambda n=n: at_call(n, full)
    for n in (1, len(calls) // 2 + 1):
        cuts[f"read-only from call {n}"] = lambda n=n: at_call(n, read_only, lasting=True)
    for number, (name, cut) in enumerate(cuts.items()):
        folder = fresh(place / str(number), kind)
        spared = name.startswith("read-only")  # what is half-written then cannot be deleted
        if code := in_child(lambda folder=folder, cut=cut, spared=spared: _goes_on(kind, folder, cut, spared)):
            yield f"{name}: ended with {code}"


def _goes_on(kind: Kind, folder: Path, cut: Callable[[], Any], spared: bool) -> None:
    """In a child: what is there is complete, nothing else is left, and the next call of the same process works."""
    with suppress(OSError, ValueError), cut():  # it may say that it failed
        kind.write(folder, NEW)
    there = kind.versions(folder)
    assert there in ({OLD}, {NEW}, {OLD, NEW}), there
    kind.write(folder, LAST)
    assert kind.versions(folder) == {LAST}, kind.versions(folder)
    parts = [path for path in left(folder) if unfinished(path)]
    assert len(parts) <= spared, parts
    assert len(left(folder)) == kind.files + len(parts), left(folder)


def main(place: Path) -> None:
    """Print one line of JSON per kind and fault: what went wrong."""
    warnings.simplefilter("ignore")  # of results that are not remembered
    for number, (name, kind) in enumerate(KINDS.items()):
        for fault in (killed, refused):
            problems = list(fault(kind, place / f"{number}" / fault.__name__))
            print(json.dumps({"kind": name, "fault": fault.__name__, "problems": problems}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
