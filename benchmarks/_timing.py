"""What the benchmarks share: fair timing side by side, peak memory of a fresh process, and tables."""

import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from lntutor.browser import find_browser


def medians(*functions: Callable, rounds: int = 4, calls: int = 5) -> list[float]:
    """Median seconds of a call of each function, as when a slider is dragged.

    They take turns by rounds, so that a busy moment of the machine hits all alike; the first call of a round meets
    the caches that the others left behind and is not counted.
    """
    seconds = [[] for _ in functions]
    for _ in range(rounds):
        for f, times in zip(functions, seconds, strict=True):
            f()
            for _ in range(calls):
                start = time.perf_counter()
                f()
                times.append(time.perf_counter() - start)
    return [float(np.median(times)) for times in seconds]


def peak_flops(size: int = 1536) -> float:
    """Floating-point operations a second of one large matrix product, the best of several."""
    a = torch.randn(size, size)
    return 2 * size**3 / medians(lambda: a @ a)[0]


def peak_memory(script: str, *arguments: str) -> float:
    """MB that a fresh process of this script needs at its peak, beyond what importing torch takes."""
    done = subprocess.run([sys.executable, script, "--memory", *arguments], capture_output=True, text=True, check=True)
    return float(done.stdout)


def report_memory(work: Callable) -> None:
    """Print by how much `work` raises the peak of this process: the other end of `peak_memory`."""
    before = peak_kilobytes()
    work()
    print((peak_kilobytes() - before) / 1024)


def peak_kilobytes(pid: int | str = "self") -> float:
    """Peak resident memory of a process; on Linux not by getrusage, which starts from the parent's."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        return float(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # bytes on macOS


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Slope of log seconds over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def machine() -> str:
    """One line on where this ran."""
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"
    )


def browser_program() -> str | None:
    """The browser to drive; None where something is missing, and a line says what."""
    if missing := [name for name in ("playwright", "nbformat") if find_spec(name) is None]:
        print(f"left out: no {missing[0]}. `pip install -r requirements-dev.txt` brings what drives a browser.")
        return None
    program = find_browser()
    if program is None:
        print("left out: no Chromium or Chrome found; install one or set LNTUTOR_BROWSER.")
    return program


def show(rows: list[tuple], header: tuple[str, ...]) -> None:
    """Print a plain table."""
    rows = [header, *[tuple(map(str, row)) for row in rows]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
