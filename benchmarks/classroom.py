"""What does a class on one server need? Many kernels on this machine, a Playground and a TheoremExplorer in each.

Every student has their own kernel with one thread, as on a JupyterHub. A move of the playground's depth is answered by
the student's own page; the kernel is sent the two messages that the page sends, the state and its numbers. A move of
the explorer's depth ends when the picture is there, by the clock of the client: an execute request and its reply. No
earlier picture is remembered; the pause after a move draws the other seeds, as always. First one student
moves while the others are idle, then all move at random times, at two paces; in turns, so that a busy moment of the
machine slows all alike. CPU seconds are those of all kernels, per move. PSS counts memory that kernels share, such as
the code of torch, once. Needs Linux, and no browser.
Ratio: the median wait of one student alone with the explorer (the peer) over that of all at the slower pace; 1 means
that the class does not slow anybody.

    python benchmarks/classroom.py [--students 20] [--seconds 30]

`--largest` measures instead the peak of one student, with the variables of notebooks/SERVER.md: the server, the largest
explorers, and the lessons that compute much, every cell once with nothing remembered. It has no peer and no ratio.

    python benchmarks/classroom.py --largest
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from ast import literal_eval
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import nbformat
import numpy as np
import psutil
from jupyter_client import KernelManager
from tqdm.auto import tqdm

from benchmarks._timing import machine, options, peak_kilobytes, show, show_ratio
from lntutor.lesson.run_notebook import by_number
from lntutor.model.parameters import matrices
from lntutor.model.state import model_config

ROOT = Path(__file__).resolve().parent.parent
DEPTHS = range(1, 13)
LESSONS = ("05", "06", "07", "08", "09")
MB = 2**20
WHAT = ("playground", "explorer")
SETUP = """\
import time
from lntutor.explore import Playground, TheoremExplorer

explorer, playground = TheoremExplorer(), Playground()


def move(depth):
    explorer._known.clear()
    explorer.controls["depth"].value = depth
    while explorer.panel.drawn != explorer.panel.page_values():  # a thread draws it
        time.sleep(0.001)
    return explorer.figure.layout.title.text"""


class Student:
    """A kernel with a playground and an explorer in it, and the client that talks to it."""

    def __init__(self, **variables: str):
        paths = filter(None, (str(ROOT), os.environ.get("PYTHONPATH", "")))
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths), **variables}
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=env, stderr=subprocess.DEVNULL)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.process = psutil.Process(self.manager.provisioner.pid)

    def __enter__(self) -> Student:
        return self

    def __exit__(self, *error: Any) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def ask(self, expression: str, code: str = "") -> str:
        """The value of an expression in the kernel, after this code; an error there is raised here."""
        reply = self.client.execute(code, user_expressions={"asked": expression}, reply=True, timeout=600)["content"]
        answer = reply.get("user_expressions", {}).get("asked", reply)
        if answer["status"] != "ok":
            raise RuntimeError("\n".join(answer["traceback"]))
        return answer["data"]["text/plain"]

    def move(self, depth: int, what: str) -> float:
        """Seconds until the explorer's picture follows its slider, or the kernel knows what the playground shows."""
        started = time.perf_counter()
        if what == "explorer":
            self.ask(f"move({depth})")
        else:
            self.tell(depth)
        return time.perf_counter() - started

    def tell(self, depth: int) -> None:
        """Send what a page sends after a move: the state, then numbers as many as it has."""
        name, state, edition = self.playground
        state |= {"depth": depth}
        count = len(matrices(model_config(state, state["placement"]))) * state["seeds"]
        columns = {"side": "decoder", "layer": 1, "block": "self", "parameter": "W_Q", "seed": 0, "value": 0.123456789}
        table = {each: [value] * count for each, value in columns.items()} | {"below_floor": [False] * count}
        for part in ({"value": state}, {"rows": {"edition": edition, "state": state, "columns": table}}):
            content = {"comm_id": name, "data": {"method": "update", "state": part, "buffer_paths": []}}
            self.client.shell_channel.send(self.client.session.msg("comm_msg", content))
        if int(self.ask("playground.state()['depth']")) != depth:
            raise RuntimeError("the playground's state did not come in")

    @cached_property
    def playground(self) -> tuple[str, dict[str, Any], int]:
        """Its name among the kernel's widgets, its state, and the edition of its data."""
        return literal_eval(self.ask("(playground.model_id, playground.state(), playground.data['edition'])"))

    def work(self, what: str, seconds: float, pace: float, seed: int) -> list[float]:
        """Move at random moments for so many seconds; the seconds of every move."""
        chance, waits, depth = random.Random(seed), [], None
        end = time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            time.sleep(min(chance.expovariate(1 / pace), end - now))
            if time.perf_counter() < end:
                depth = chance.choice([other for other in DEPTHS if other != depth])
                waits.append(self.move(depth, what))
        return waits

    @property
    def cpu(self) -> float:
        """CPU seconds so far."""
        times = self.process.cpu_times()
        return times.user + times.system


def arrive(students: int, stack: ExitStack) -> list[Student]:
    """Start so many kernels with an explorer in each, one per core at a time."""
    everyone: list[Student] = []
    while len(everyone) < students:
        some = range(min(os.cpu_count() or 1, students - len(everyone)))
        group = [stack.enter_context(Student()) for _ in some]
        for student in group:
            student.client.wait_for_ready(timeout=300)
            student.client.execute(SETUP)
        for student in group:  # all work on their two messages at the same time
            student.ask("explorer.label(explorer.state())")
        everyone += group
    return everyone


def moves(students: list[Student], what: str, seconds: float, pace: float, seed: int) -> tuple[list[float], float]:
    """The seconds of every move of these students, and CPU seconds per move."""
    before = sum(student.cpu for student in students)
    with ThreadPoolExecutor(len(students)) as pool:
        todo = [pool.submit(one.work, what, seconds, pace, seed + i) for i, one in enumerate(students)]
        waits = [wait for one in todo for wait in one.result()]
    return waits, (sum(student.cpu for student in students) - before) / max(len(waits), 1)


def memory(students: Iterable[Student]) -> list[tuple[float, float]]:
    """(RSS, PSS) of every kernel in MB."""
    full = [student.process.memory_full_info() for student in students]
    return [(one.rss / MB, one.pss / MB) for one in full]


def row(title: str, waits: list[float], cpu: float, alone: list[float]) -> tuple:
    """A row of the table: median, 95 % and longest wait, and their ratio to those of one student alone."""
    ms = 1e3 * np.quantile(waits, [0.5, 0.95, 1])
    ratio = np.quantile(waits, [0.5, 0.95]) / np.quantile(alone, [0.5, 0.95])
    return title, len(waits), *(f"{value:.0f}" for value in ms), *(f"{value:.1f}×" for value in ratio), f"{cpu:.3f}"


def largest() -> list[tuple[str, str, str]]:
    """(title, peak MB, CPU seconds), each in a fresh kernel; for the server its memory after the start."""
    shared = {"LOKY_MAX_CPU_COUNT": "1", "LNTUTOR_MEMORY": "512"}
    rows = [("a student's JupyterLab server", f"{lab_server():.0f}", "")]
    for depth, width, variables in ((24, 128, shared), (48, 256, shared), (48, 256, {})):
        setting = f"explorer.set(depth={depth}, width={width}); explorer.settle()"
        title = f"TheoremExplorer at depth {depth}, width {width}, {'LNTUTOR_MEMORY=512' if variables else 'no limit'}"
        rows.append((title, *peak([SETUP, setting], variables)))
    for path in by_number((ROOT / "notebooks").glob("*.ipynb"), LESSONS):
        cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        rows.append((path.stem, *peak(cells, shared)))
    return rows


def peak(cells: list[str], variables: dict[str, str]) -> tuple[str, str]:
    """Peak memory of a kernel that runs these cells, in MB, and its CPU seconds."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty:
        own = {"LNTUTOR_HOME": f"{empty}/home", "LNTUTOR_CACHE": f"{empty}/cache", "LNTUTOR_REVEAL": "1"}
        with Student(**own, **variables) as student:
            student.client.wait_for_ready(timeout=300)
            student.ask("0", f"import os; os.chdir({str(ROOT / 'notebooks')!r})")
            for cell in tqdm(cells, leave=False, unit="cell"):
                student.ask("0", cell)
            return f"{peak_kilobytes(student.process.pid) / 1024:.0f}", f"{student.cpu:.0f}"


def lab_server() -> float:
    """MB of a JupyterLab server that has just started."""
    from tests.browser.jupyter import jupyterlab, project_command

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        jupyterlab(Path(home), project_command()) as lab,
    ):
        return psutil.Process(lab.pid).memory_full_info().pss / MB


def measure(students: int, seconds: float, rounds: int, paces: list[float]) -> None:
    """Print the waits, CPU seconds and memory of a class, and the ratio."""
    with ExitStack() as stack:
        started = time.perf_counter()
        (first,) = arrive(1, stack)
        print(f"one kernel with an explorer: {time.perf_counter() - started:.1f} s to start, {first.cpu:.1f} of CPU")
        started = time.perf_counter()
        everyone = [first, *arrive(students - 1, stack)]
        print(f"{students} students: the last is there {time.perf_counter() - started:.0f} s after the first")
        opened = memory(everyone)
        waits: dict[tuple[str, float], list[float]] = {(what, pace): [] for what in WHAT for pace in (0.0, *paces)}
        cpu: dict[tuple[str, float], list[float]] = {case: [] for case in waits}
        for turn in range(rounds):
            for what, pace in waits:
                who = everyone if pace else [first]
                found, used = moves(who, what, seconds, pace or paces[0], seed=1000 * turn)
                waits[what, pace] += found
                cpu[what, pace].append(used)
        time.sleep(2)
        before, began = sum(student.cpu for student in everyone), time.perf_counter()
        time.sleep(seconds / 3)
        idle = (sum(student.cpu for student in everyone) - before) / (time.perf_counter() - began) / len(everyone)
        used = memory(everyone)
    names = {0.0: f"one, a move every {paces[0]:.2g} s, the others idle"}
    names |= {pace: f"all {students}, each a move every {pace:.2g} s" for pace in paces}
    header = ("who moves", "moves", "median ms", "95% ms", "worst ms", "median", "95%", "CPU s per move")
    show(
        [row(f"{what}: {names[pace]}", waits[what, pace], float(np.mean(cpu[what, pace])), waits[what, 0.0])
         for what, pace in waits], header,
    )  # fmt: skip
    rows = [(when, *(f"{value:.0f}" for value in (*np.mean(mb, axis=0), *np.max(mb, axis=0), np.sum(mb, axis=0)[1])))
            for when, mb in {"explorer opened": opened, "after all moves": used}.items()]  # fmt: skip
    show(rows, ("MB per kernel", "RSS", "PSS", "most RSS", "most PSS", "PSS of all"))
    print(f"an idle kernel takes {100 * idle:.2f}% of a core")
    show_ratio(float(np.median(waits["explorer", 0.0]) / np.median(waits["explorer", paces[-1]])))


def main() -> None:
    """Measure a class, or what one student needs at most."""
    paces = ((2.0, 10.0), (0.2, 0.4))  # mean seconds between two moves of a student
    args = options(__doc__, students=(20, 2), seconds=(30.0, 2.0), rounds=(2, 1), paces=paces, largest=(False, False))
    print(machine())
    if not sys.platform.startswith("linux"):
        print("left out: memory that kernels share is counted on Linux only.")
    elif args.largest:
        show(largest(), ("one student", "most MB", "CPU s"))
    else:
        measure(args.students, args.seconds, args.rounds, args.paces)


if __name__ == "__main__":
    main()
