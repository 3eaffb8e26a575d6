"""What does a class on one server need? Many kernels on this machine, a GradientExplorer in each.

Every student has a kernel of their own, one thread each, as on a JupyterHub. A move sets the depth slider and ends
when the picture is there, by the clock of the client that asked: an execute request and its reply. Nothing shown
before is remembered, so that every move is measured anew, and a pause after a move draws the other seeds and looks
ahead, as always. First one student moves while the others sit idle, then all move at random times, at two paces; in
turns, so that a busy moment of the machine hits all. CPU seconds are of all kernels over all moves. A proportional
share (PSS) counts what kernels share, the code of torch for one, once. Linux only.

    python benchmarks/classroom.py [--students 20] [--seconds 30]

`--largest` measures instead what one student needs at most, with the variables of notebooks/SERVER.md: the server, the
largest explorers, and the lessons that compute much, every cell once with nothing remembered.

    python benchmarks/classroom.py --largest
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import nbformat
import numpy as np
import psutil
from jupyter_client import KernelManager
from tqdm.auto import tqdm

from benchmarks._timing import machine, peak_kilobytes, show
from lntutor.lessons import numbered
from tests.browser.jupyter import jupyterlab, project_command

ROOT = Path(__file__).resolve().parent.parent
DEPTHS = range(1, 13)
PACES = (2.0, 10.0)  # seconds between two moves of a student, on average
ROUNDS = 2
LESSONS = ("05", "06", "07", "08", "09")
MB = 2**20
SETUP = """\
import time
from lntutor.explore import GradientExplorer

explorer = GradientExplorer()


def move(depth):
    explorer._known.clear()
    explorer.controls["depth"].value = depth
    while explorer.label(explorer.state()) not in explorer.status.value:  # another thread draws it
        time.sleep(0.001)
    return explorer.figure.layout.title.text"""


class Student:
    """A kernel with an explorer in it, and the client that talks to it."""

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
        """What an expression is in the kernel, after this code; an error there is one here."""
        reply = self.client.execute(code, user_expressions={"asked": expression}, reply=True, timeout=600)["content"]
        answer = reply.get("user_expressions", {}).get("asked", reply)
        if answer["status"] != "ok":
            raise RuntimeError("\n".join(answer["traceback"]))
        return answer["data"]["text/plain"]

    def move(self, depth: int) -> float:
        """Seconds until the picture has followed the slider."""
        started = time.perf_counter()
        self.ask(f"move({depth})")
        return time.perf_counter() - started

    def work(self, seconds: float, pace: float, seed: int) -> list[float]:
        """The seconds of every move of so long a time, at random moments."""
        chance, waits, depth = random.Random(seed), [], None
        end = time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            time.sleep(min(chance.expovariate(1 / pace), end - now))
            if time.perf_counter() < end:
                depth = chance.choice([other for other in DEPTHS if other != depth])
                waits.append(self.move(depth))
        return waits

    @property
    def cpu(self) -> float:
        """CPU seconds so far."""
        times = self.process.cpu_times()
        return times.user + times.system


def arrive(students: int, stack: ExitStack) -> list[Student]:
    """Start so many kernels with an explorer in each, as many at a time as there are cores."""
    everyone: list[Student] = []
    while len(everyone) < students:
        some = range(min(os.cpu_count() or 1, students - len(everyone)))
        group = [stack.enter_context(Student()) for _ in some]
        for student in group:
            student.client.wait_for_ready(timeout=300)
            student.client.execute(SETUP)
        for student in group:  # each has two messages to answer by now, and all work at the same time
            student.ask("explorer.label(explorer.state())")
        everyone += group
    return everyone


def moves(students: list[Student], seconds: float, pace: float, seed: int) -> tuple[list[float], float]:
    """The seconds of all moves of these students, and the CPU seconds of one."""
    before = sum(student.cpu for student in students)
    with ThreadPoolExecutor(len(students)) as pool:
        todo = [pool.submit(one.work, seconds, pace, seed + i) for i, one in enumerate(students)]
        waits = [wait for one in todo for wait in one.result()]
    return waits, (sum(student.cpu for student in students) - before) / max(len(waits), 1)


def memory(students: Iterable[Student]) -> list[tuple[float, float]]:
    """(RSS, PSS) of every kernel in MB."""
    full = [student.process.memory_full_info() for student in students]
    return [(one.rss / MB, one.pss / MB) for one in full]


def row(words: str, waits: list[float], cpu: float, alone: list[float]) -> tuple:
    """A line of the table: median, 95 % and worst of the waits, and their ratio to one student's alone."""
    ms = 1e3 * np.quantile(waits, [0.5, 0.95, 1])
    ratio = np.quantile(waits, [0.5, 0.95]) / np.quantile(alone, [0.5, 0.95])
    return words, len(waits), *(f"{value:.0f}" for value in ms), *(f"{value:.1f}×" for value in ratio), f"{cpu:.2f}"


def largest() -> list[tuple[str, str, str]]:
    """(what, MB at its peak, CPU seconds), each in a kernel of its own; a server has no peak to speak of."""
    shared = {"LOKY_MAX_CPU_COUNT": "1", "LNTUTOR_MEMORY": "512"}
    rows = [("a student's JupyterLab server", f"{lab_server():.0f}", "")]
    for depth, width, variables in ((24, 256, shared), (14, 512, shared), (24, 512, {})):
        setting = f"explorer.set(depth={depth}, width={width}); explorer.settle()"
        what = f"GradientExplorer at depth {depth}, width {width}, {'LNTUTOR_MEMORY=512' if variables else 'no limit'}"
        rows.append((what, *peak([SETUP, setting], variables)))
    for path in numbered((ROOT / "notebooks").glob("*.ipynb"), LESSONS):
        cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        rows.append((path.stem, *peak(cells, shared)))
    return rows


def peak(cells: list[str], variables: dict[str, str]) -> tuple[str, str]:
    """The most memory that a kernel has had after these cells, in MB, and its CPU seconds."""
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
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        jupyterlab(Path(home), project_command()) as lab,
    ):
        return psutil.Process(lab.pid).memory_full_info().pss / MB


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--students", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30, help="of every pace, in each of two rounds (default: 30)")
    parser.add_argument("--largest", action="store_true", help="what one student needs at most, in place of a class")
    args = parser.parse_args(arguments)
    print(machine())
    if args.largest:
        show(largest(), ("one student", "most MB", "CPU s"))
        return
    with ExitStack() as stack:
        started = time.perf_counter()
        (first,) = arrive(1, stack)
        print(f"one kernel with an explorer: {time.perf_counter() - started:.1f} s to start, {first.cpu:.1f} of CPU")
        started = time.perf_counter()
        everyone = [first, *arrive(args.students - 1, stack)]
        print(f"{args.students} students: the last is there {time.perf_counter() - started:.0f} s after the first")
        opened = memory(everyone)
        waits: dict[float, list[float]] = {pace: [] for pace in (0.0, *PACES)}
        cpu: dict[float, list[float]] = {pace: [] for pace in waits}
        for turn in range(ROUNDS):
            for pace in waits:
                who = everyone if pace else [first]
                found, used = moves(who, args.seconds, pace or PACES[0], seed=1000 * turn)
                waits[pace] += found
                cpu[pace].append(used)
        time.sleep(2)
        before, began = sum(student.cpu for student in everyone), time.perf_counter()
        time.sleep(10)
        idle = (sum(student.cpu for student in everyone) - before) / (time.perf_counter() - began) / len(everyone)
        used = memory(everyone)
    names = {0.0: "one, a move every 2 s, the others idle"}
    names |= {pace: f"all {args.students}, each a move every {pace:.0f} s" for pace in PACES}
    header = ("who moves", "moves", "median ms", "95% ms", "worst ms", "median", "95%", "CPU s a move")
    show([row(names[pace], waits[pace], float(np.mean(cpu[pace])), waits[0.0]) for pace in waits], header)
    rows = [(when, *(f"{value:.0f}" for value in (*np.mean(mb, axis=0), *np.max(mb, axis=0), np.sum(mb, axis=0)[1])))
            for when, mb in {"explorer opened": opened, "after all moves": used}.items()]  # fmt: skip
    show(rows, ("MB a kernel", "RSS", "PSS", "most RSS", "most PSS", "PSS of all"))
    print(f"an idle kernel takes {100 * idle:.2f}% of a core")


if __name__ == "__main__":
    main()
