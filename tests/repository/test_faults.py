"""Faults put in on purpose: nothing that was finished is lost, a sentence says what is, and the next call works.

The matrix writer × fault (killed, full disk, read-only) is in tests/repository/cut_short.py. Faults of one room alone,
such as a worker that dies or a page that loses its kernel, are tested in that room.
"""

import ast
import errno
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch

import lntutor as ln
from lntutor.__main__ import main
from lntutor.curvature.lanczos import Lanczos
from lntutor.experiments import cache as store
from lntutor.experiments import stored as results
from lntutor.lesson import ledger
from lntutor.lesson import run_notebook as lessons
from lntutor.text import files
from lntutor.training import progress as bars
from lntutor.training import trainer as training
from tests.processes import ROOT

TINY = ln.ModelConfig("pre", depth=1, width=16, heads=2, ffn=16)
YEARS = 10 * 365 * 24 * 3600


@pytest.fixture(autouse=True)
def untouched(own_cache, monkeypatch):
    """An empty cache, of which nothing was read before."""
    monkeypatch.setattr(store, "_unseen", {})


@contextmanager
def full_disk(monkeypatch, refused: Callable[[Path], bool]):
    """No room for these files."""
    put = files.put

    def no_room(path, content, mode=0o644):
        if refused(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        put(path, content, mode)

    with monkeypatch.context() as patch:
        patch.setattr(files, "put", no_room)
        yield


# Writes --------------------------------------------------------------------------------------------------------

SCRATCH = "a folder of this process alone, which ends with it"
DELETES = "deletes a whole file, or marks one as used"
WRITERS = {  # who may change the disk, and why
    "lntutor/__main__.py": {"run": "drops what is left of the output once nobody reads it"},
    "lntutor/text/files.py": {"put": "what all others use", "tidy": DELETES},
    "lntutor/text/download.py": {"_download": "pooch's temporary file, which pooch moves once it was verified"},
    "lntutor/experiments/cache.py": {"load": DELETES, "_make_room": DELETES},
    "lntutor/lesson/notes.py": {"forget": DELETES, "_set_aside": "renames a whole file"},
    "lntutor/lesson/run_notebook.py": {"run_anew": SCRATCH},
    "lntutor/publish/app.py": {"run": SCRATCH, "write_notebooks": SCRATCH},
    "lntutor/publish/site/__init__.py": {"check": "makes the folder of the site", "put": "puts whole pages in place"},
    "tools/bootstrap.py": {"write_stamp": "has no package yet; writes beside, and puts in place", "install": DELETES},
    "tools/kernel.py": {"build": "clang writes the kernel; the mode of the file"},
    "tools/picture.py": {
        "main": "makes the folder of the pictures",
        "take_animation": SCRATCH,
        "take_others": SCRATCH,
    },
    "tools/slides.py": {"main": SCRATCH, "heights": "pictures to look at, in a folder that was asked for"},
    "tools/soak.py": {"in_page": SCRATCH},
    "tools/travel.py": {"run": SCRATCH},
}
METHODS = {
    "write_text", "write_bytes", "mkdir", "makedirs", "touch", "rename", "unlink", "rmdir", "rmtree", "chmod", "utime",
    "symlink_to", "hardlink_to", "mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryDirectory", "copyfile",
    "copytree", "to_pickle", "to_parquet", "savez", "write_image", "write_html", "memmap",
}  # fmt: skip
OF_MODULES = {
    "os": {"replace", "remove", "open", "write", "link", "symlink"}, "shutil": {"move", "copy", "copy2"},
    "json": {"dump"}, "pickle": {"dump"}, "torch": {"save"}, "np": {"save"}, "nbformat": {"write"},
    "sqlite3": {"connect"},
}  # fmt: skip


def changes_the_disk(call: ast.Call) -> bool:
    """Whether a call is one that writes, as far as its words tell."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    module = getattr(getattr(call.func, "value", None), "id", "")
    given = [*call.args, *(word.value for word in call.keywords)]
    texts = [word.value for word in given if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    if name == "open" and module != "os":
        return any(re.fullmatch("[wax]b?[+]?|r[+]b?|rb[+]", word) for word in texts)
    if name in ("to_csv", "to_json", "screenshot"):
        return bool(call.args) or any(word.arg in ("path", "path_or_buf") for word in call.keywords)
    return name in METHODS or name in OF_MODULES.get(module, ())


def writers(path: Path) -> set[str]:
    """The functions of a file that change the disk."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    lines = [node.lineno for node in nodes if isinstance(node, ast.Call) and changes_the_disk(node)]
    around = [[f for f in functions if f.lineno <= line <= f.end_lineno] for line in lines]
    return {max(some, key=lambda f: f.lineno).name if some else "the module" for some in around}


def test_nothing_writes_but_those_that_are_known_to_leave_whole_files():
    """Oracle: every call of the package and its tools that opens a file to write, or makes, renames or deletes one."""
    paths = [*ROOT.glob("lntutor/**/*.py"), *ROOT.glob("tools/*.py")]
    found = {path.relative_to(ROOT).as_posix(): names for path in paths if (names := writers(path))}
    assert found == {path: set(names) for path, names in WRITERS.items()}, "use files.put, or say here why not"
    writing = "open(p, 'w'); p.open('ab'); p.write_text(''); np.save(p, a); t.to_csv(p); os.replace(a, b)"
    reading = "open(p); p.open('rb'); t.to_csv(index=False); 'a'.replace('b', 'c'); webbrowser.open(url)"
    assert [changes_the_disk(line.value) for line in ast.parse(writing).body] == [True] * 6
    assert [changes_the_disk(line.value) for line in ast.parse(reading).body] == [False] * 5


@pytest.mark.skipif(os.name == "nt", reason="forks, and limits the size of files")
@pytest.mark.notebook  # as long as one
def test_every_write_that_is_cut_short_leaves_a_whole_file(tmp_path):
    """Oracle: what is read back after SIGKILL before each of its calls and in the middle of a file, a disk that is full
    there, and one that is read-only from there on: the old version or the new one; then the next call's; no litter.
    """
    command = [sys.executable, "-m", "tests.repository.cut_short", str(tmp_path / "files")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [one for one in reports if one["problems"]] == [], done.stderr
    assert len(reports) == 2 * 9


# What a reader is told -----------------------------------------------------------------------------------------


def test_a_disk_that_is_full_for_a_while_costs_only_the_memory_of_these_cells(monkeypatch, tmp_path):
    """Oracle: the calls counted, of a sweep during which there is no room for its third and fourth cell."""
    log = tmp_path / "log"

    def noted(log, x):
        with log.open("a") as file:
            file.write(f"{x}")
        return x

    few = lambda path: len(log.read_text()) in (3, 4)  # noqa: E731
    with full_disk(monkeypatch, few), pytest.warns(UserWarning, match=r"not remembered.*\(No space left on device\)"):
        first = ln.sweep(noted, {"x": range(6)}, log, jobs=1, progress=False)
    again = ln.sweep(noted, {"x": range(6)}, log, jobs=1, progress=False)
    pd.testing.assert_frame_equal(again, first)
    assert log.read_text() == "012345" + "23"


def test_a_command_whose_table_cannot_be_written_says_so_and_goes_on(tmp_path, monkeypatch, capsys):
    """Oracle: exit codes and sentences; the cells are in the store, and the table is there in the end."""
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    how = ln.TrainConfig(lr=1e-3, steps=2, batch=4)
    tiny = results.Experiment(lambda: {"a": (TINY, how)}, seeds=1, pairs=0)
    monkeypatch.setattr(results, "EXPERIMENTS", {"tiny": tiny})
    monkeypatch.setattr(ledger, "lessons", lambda numbers: [Path("02_two.ipynb")])
    monkeypatch.setattr(ledger, "records_of", lambda path: {})
    small = ["--depth", "1", "--width", "16", "--heads", "2", "--ffn", "16"]
    table = tmp_path / "table.csv"
    sweep = ["sweep", "signal_norms", *small, "--out", str(table)]
    make = ["results", "tiny", "--jobs", "1"]
    with full_disk(monkeypatch, lambda path: path.suffix == ".csv"):
        for command, message in (
            (sweep, r"No space .*\n.*table\.csv was not written\. The cells are remembered: another --out writes"),
            (make, r"No space .*\ndata/results was not written\. The runs that have ended are remembered"),
            (["claims", "02"], r"No space .*\ndata/results/claims\.csv has the rows of the notebooks that ended"),
        ):
            assert main(command) == 1
            assert re.search(message, capsys.readouterr().err)
    monkeypatch.setattr(training, "steps", None)  # nothing is trained again
    assert (main(sweep), main(make), main(["claims", "02"])) == (0, 0, 0)
    assert table.is_file()
    assert sorted(path.name for path in results.FOLDER.iterdir()) == ["SHA256SUMS", "claims.csv", "tiny_captions.csv"]


# Entries that are damaged, or of another version ---------------------------------------------------------------


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", "3", '"a"', "null", '{"cells": 3}', "[[1], [2, 3]]", "\x00", "folder"]
)
def test_a_damaged_entry_is_as_good_as_none(damage, monkeypatch, tmp_path):
    """Oracle: what was measured before the damage, and how often; a folder may stand where the entry should be."""
    lesson = tmp_path / "00_a.ipynb"
    lesson.write_text("")
    made = []
    monkeypatch.setattr(lessons, "execute", lambda path, env: made.append(path) or {"cells": []})
    wanted = dict(lessons.run(lesson))
    assert dict(lessons.run(lesson)) == wanted
    assert len(made) == 1
    for entry in store.folder().glob("*.json"):
        entry.unlink()
        entry.mkdir() if damage == "folder" else entry.write_text(damage)
    if damage == "folder":
        with pytest.warns(UserWarning, match=r"not remembered, .*\(Is a directory"):
            assert dict(lessons.run(lesson)) == wanted
    else:
        assert dict(lessons.run(lesson)) == dict(lessons.run(lesson)) == wanted
    assert len(made) == 2


def test_an_entry_of_another_version_is_neither_read_nor_lost(monkeypatch, tmp_path):
    """Oracle: the runs counted, of one version of a lesson and of another."""
    lesson, runs = tmp_path / "00_a.ipynb", []
    monkeypatch.setattr(lessons, "execute", lambda path, env: runs.append(path) or {"cells": []})
    for version, made in (("one", 1), ("two", 2), ("one", 2), ("two", 2)):
        lesson.write_text(version)
        lessons.run(lesson)
        assert len(runs) == made


@pytest.mark.parametrize(
    "content", [b"", b"# python -m lntutor results warmup\n", b"\xff\xfe\x00", b'# a\nx,y\n1,"2\n']
)
def test_a_stored_table_that_is_cut_short_is_said(content, tmp_path, monkeypatch):
    """Oracle: the sentence with the file and both ways to get it back."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    (tmp_path / "warmup_captions.csv").write_bytes(content)
    with pytest.raises(ValueError, match=r"warmup_captions\.csv is not a table .*git checkout.*lntutor results warmup"):
        results.stored_table("warmup")


# The store's limit, and the clock ------------------------------------------------------------------------------

LARGE = json.dumps("x" * 100_000)


def kept() -> set[str]:
    return {path.stem for path in store.folder().glob("*.json")}


def test_the_store_has_a_limit_and_what_is_used_stays(monkeypatch):
    """Oracle: 1 MB has room for ten entries of 100 kB; the one that is read each time is the oldest, and stays."""
    assert store.limit({}) == 2**30
    monkeypatch.setenv("LNTUTOR_CACHE_MB", "1")
    for number in range(25):
        assert store.save(f"{number:02}", LARGE)
        assert store.load("00") is not None
        time.sleep(0.002)  # file systems count time in steps
        assert sum(path.stat().st_size for path in store.folder().iterdir()) <= 1.0625 * 2**20
    assert kept() == {"00", *(f"{number:02}" for number in range(16, 25))}
    store.save("alone", json.dumps("x" * 2**21))
    assert kept() == {"alone"}  # larger than all may be together: kept all the same, until the next
    store.save("next", LARGE)
    assert kept() == {"next"}


def test_a_clock_that_is_set_changes_no_bar_and_no_time_left(monkeypatch, capsys):
    """Oracle: no negative time, and a bar that is drawn to its end, while the time of day jumps by years."""
    clock, real = iter(range(10**6)), time.time
    now = lambda: real() + YEARS * (-1) ** next(clock)  # noqa: E731
    monkeypatch.setattr(time, "time", now)
    monkeypatch.setattr("tqdm.std.time", now)
    corpus = ln.load_corpus("captions")
    how = ln.TrainConfig(lr=1e-3, steps=4, batch=4)
    assert all(0 <= item.seconds_left < 3600 for item in training.steps(TINY, how, corpus))
    ln.train(TINY, how, corpus, pairs=0)
    with bars.progress_bar(total=3, mininterval=0) as bar:
        for _ in range(3):
            bar.update()
            assert 0 <= bar.format_dict["elapsed"] < 3600
    printed = capsys.readouterr().err
    assert "4/4" in printed
    assert "3/3" in printed
    assert not re.search(r"-\d", printed)


def test_a_lesson_does_not_run_again_because_of_a_clock(monkeypatch, tmp_path):
    """Oracle: how often it runs: its file seems to be of years ago, then of the future; then it is another."""
    runs, path = [], tmp_path / "00_a.ipynb"
    monkeypatch.setattr(lessons, "execute", lambda path, env: runs.append(path) or {"cells": []})
    path.write_text("one")
    for seconds in (0, -YEARS, YEARS):
        os.utime(path, (time.time() + seconds,) * 2)
        lessons.run(path)
    assert len(runs) == 1
    before = path.stat()
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    lessons.run(path)
    assert len(runs) == 2


# Interrupts ----------------------------------------------------------------------------------------------------


@contextmanager
def interrupted_at(line: int, *functions: Callable):
    """An interrupt at the n-th line that these functions come to; True in the list once it came."""
    codes, came, count = {f.__code__ for f in functions}, [], iter(range(1, 10**6))

    def trace(frame, event, _arg):
        if frame.f_code not in codes:
            return None
        if event == "line" and next(count) == line:
            came.append(True)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield came
    finally:
        sys.settrace(before)


def test_a_step_of_lanczos_is_interrupted_at_each_of_its_lines():
    """Oracle: the eigenvalues 1..6 of a diagonal matrix, which an iteration finds that was not interrupted."""
    matrix = torch.diag(torch.arange(1.0, 7.0, dtype=torch.float64))
    line, came = 0, [True]
    while came:
        line += 1
        run = Lanczos(lambda v: matrix @ v, torch.ones(6, dtype=torch.float64))
        try:
            with interrupted_at(line, Lanczos.step, Lanczos._keep) as came:
                for _ in range(6):
                    run.step()
        except KeyboardInterrupt:
            assert len(run.ritz().values) == run.steps if run.steps else not run.alphas
        while not run.exhausted:
            run.step()
        np.testing.assert_allclose(run.ritz().values, range(1, 7), rtol=1e-12)
    assert line > 6 * 12


def test_a_step_of_training_is_interrupted_at_each_of_its_lines():
    """Oracle: a run that was not interrupted, as far as this one came; a step has its gradients or is not there."""
    corpus, how = ln.load_corpus("captions"), ln.TrainConfig(lr=1e-3, steps=2, batch=4, validate_every=1)
    complete = ln.train(TINY, how, corpus, pairs=0, progress=False)
    line, came, kept = 0, [True], set()
    while came:
        line += 1
        try:
            with interrupted_at(line, training.Trainer.step) as came:
                run = ln.train(TINY, how, corpus, pairs=0, progress=False)
        except KeyboardInterrupt:  # nothing was finished yet
            continue
        assert run.table["loss"].tolist() == complete.table["loss"].tolist()[: len(run.table)]
        assert run.gradients["step"].unique().tolist() == run.table["step"].tolist()
        assert run.status == "stopped" or len(run.table) == 2
        kept.add(len(run.table))
    assert kept == {1, 2}
    assert line > 20


SETUP = """
import os, time
from pathlib import Path
import lntutor as ln
from lntutor.curvature import spectrum as curvature
from lntutor.training import trainer as training
from lntutor.experiments.compare import compare
here = Path(os.environ["HERE"])
corpus = ln.load_corpus("captions")
cfg = ln.ModelConfig("pre", depth=1, width=16, heads=2, ffn=16)
how = ln.TrainConfig(lr=1e-3, steps=4, batch=4)
cases = {"a": (cfg, how), "b": (cfg, how.with_(lr=2e-3))}
step, matvec = training.Trainer.step, curvature.Operator.matvec
def marked(function, name, count, pause):
    calls = []
    def call(*args):
        calls.append(1)
        if len(calls) > count:
            (here / name).touch()
            time.sleep(pause)
        return function(*args)
    return call
def waits(name, x):
    while x == 3 and not (here / f"{name} again").exists():
        if len([*here.glob(f"cache {name}/runs/*.json")]) == 3:
            (here / name).touch()
        time.sleep(0.01)
    (here / f"{name} called {x} {time.time_ns()}").touch()
    return x
def serial(x): return waits("serial", x)
def shared(x): return waits("shared", x)
"""


class Long(NamedTuple):
    """Work to interrupt, the sentence it then says, and twice an expression with its value: kept, and asked again."""

    work: str
    message: str
    kept: tuple[str, str]
    again: tuple[str, str]


def calls_of(name: str, cells: str, jobs: int) -> tuple[str, str]:
    """A sweep that goes on: its values and, on disk, one call per cell."""
    values = f"ln.sweep({name}, {{'x': {cells}}}, jobs={jobs}, progress=False)['value'].tolist()"
    return f"{values}, len([*here.glob('{name} called *')])", f"({cells}, {len(json.loads(cells))})"


LONG = {
    "train": Long(
        "training.Trainer.step = marked(step, 'train', 3, 0)\n"
        "run = ln.train(cfg, how.with_(steps=100000), corpus, pairs=0)",
        "stopped; what was measured is kept",
        ("run.status, 3 <= len(run.table) < 100000, list(run.table.step) == [*range(1, len(run.table) + 1)]",
         "('stopped', True, True)"),
        ("setattr(training.Trainer, 'step', step), ln.train(cfg, how, corpus, pairs=0, progress=False).status",
         "(None, 'finished')"),
    ),
    "spectrum": Long(
        "curvature.Operator.matvec = marked(matvec, 'spectrum', 3, 0.02)\n"
        "found = ln.hessian_spectrum(cfg, corpus, pairs=4, steps=100000)",
        "stopped; the products made so far are kept",
        ("3 <= found.steps < 100000, len(found.eigenvalues) == found.steps, float(round(found.weights.sum(), 6))",
         "(True, True, 1.0)"),
        ("ln.hessian_spectrum(cfg, corpus, pairs=4, steps=2, progress=False).steps", "2"),
    ),
    "blocks": Long(
        "curvature.Operator.matvec = marked(matvec, 'blocks', 5, 600)\n"
        "found = ln.hessian_blocks(cfg, corpus, pairs=4, steps=2)",
        "stopped; the blocks that are done are kept",
        ("found['parameter'].tolist()", "['W_Q', 'W_K']"),
        ("setattr(curvature.Operator, 'matvec', matvec), "
         "len(ln.hessian_blocks(cfg, corpus, pairs=4, steps=2, progress=False))", "(None, 12)"),
    ),
    "compare": Long(
        "training.Trainer.step = marked(step, 'compare', 6, 600)\n"
        "compare(cases, corpus, seeds=[0], pairs=0, jobs=1)",
        "Stopped. 1 of 2 runs have ended and are remembered: the same call goes on from there.",
        ("setattr(training.Trainer, 'step', lambda self, n: (counted.append(n), step(self, n))[1])", "None"),
        ("[runs[0].status for runs in compare(cases, corpus, seeds=[0], pairs=0, jobs=1, progress=False).values()], "
         "counted", "(['finished', 'finished'], [1, 2, 3, 4])"),
    ),
    "serial": Long(
        "ln.sweep(serial, {'x': [0, 1, 2, 3, 4]}, jobs=1)",
        "Stopped. 3 of 5 cells have ended and are remembered: the same call goes on from there.",
        ("(here / 'serial again').touch()", "None"),
        calls_of("serial", "[0, 1, 2, 3, 4]", 1),
    ),
    "shared": Long(
        "ln.sweep(shared, {'x': [3, 0, 1, 2]}, jobs=2)",
        " of 4 cells have ended and are remembered: the same call goes on from there.",
        ("(here / 'shared again').touch()", "None"),
        calls_of("shared", "[3, 0, 1, 2]", 2),
    ),
}  # fmt: skip


class Kernel:
    """A real one, as Jupyter starts it."""

    def __init__(self, here: Path):
        from jupyter_client.manager import start_new_kernel

        self.here = here
        environment = os.environ | {"HERE": str(here), "PYTHONPATH": str(ROOT)}
        self.manager, self.client = start_new_kernel(kernel_name="python3", env=environment)

    def end(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def run(self, code: str, mark: Path | None = None) -> str:
        """All that a cell says, to the reader and to widgets; interrupted as soon as a file is there."""
        request, output = self.client.execute(code), []
        while mark and not mark.exists():
            assert self.manager.is_alive()
            time.sleep(0.02)
        idle = False
        while not idle:
            if mark:
                self.manager.interrupt_kernel()  # again, where one was lost
            idle = self._listen(request, output, 20 if mark else 120)
        return "\n".join(output).replace("\\u2007", " ")  # a bar's spaces are as wide as its figures

    def _listen(self, request: str, output: list[str], seconds: float) -> bool:
        """Note what comes; whether the cell has ended."""
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=seconds)
            except Empty:
                assert seconds < 120, output
                return False
            if message["parent_header"].get("msg_id") == request:
                content = message["content"]
                output.append("\n".join(content.get("traceback", ())) or content.get("text", "") or json.dumps(content))
                if content.get("execution_state") == "idle":
                    return True


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """One for all interrupts: each leaves it fit for the next."""
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    try:
        kernel.run(SETUP)
        yield kernel
    finally:
        kernel.end()


@pytest.mark.parametrize("name", LONG)
def test_a_kernel_that_is_interrupted_keeps_what_has_ended_and_goes_on(kernel, name):
    """Oracle: what Jupyter's own interrupt leaves: the sentence, the measurements, and what is called once more."""
    long = LONG[name]
    kernel.run(f"os.environ['LNTUTOR_CACHE'] = str(here / 'cache {name}'); counted = []")
    output = kernel.run(long.work, kernel.here / name)
    assert long.message in output
    for code, value in (long.kept, long.again):
        assert value in kernel.run(f"print(repr(({code})))").splitlines()
