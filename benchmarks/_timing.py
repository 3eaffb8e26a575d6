"""What the benchmarks share: options, fair timing side by side, peak memory of a fresh process, tables."""

import argparse
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
from typing import Any

import numpy as np
import torch

from lntutor.publish.browser import find_browser


def options(doc: str, **sizes: tuple[Any, Any]) -> argparse.Namespace:
    """The command line: one option per size, given as (default, value with --short); False makes a switch."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="small sizes, a few seconds: does it still run?")
    for name, (usual, short) in sizes.items():
        many = isinstance(usual, tuple)
        kind = {"type": type(usual[0] if many else usual), "nargs": "+" if many else None}
        kind = {"action": "store_true"} if usual is False else kind
        parser.add_argument(f"--{name}", default=None, help=f"default: {usual}, with --short {short}", **kind)
    args = parser.parse_args()
    for name, values in sizes.items():
        if getattr(args, name) is None:
            setattr(args, name, values[args.short])
    return args


def medians(*functions: Callable, rounds: int = 4, calls: int = 5) -> list[float]:
    """Median seconds per call of each function, as when a slider is dragged.

    They take turns by rounds, so that a busy moment of the machine slows all alike. The first call of a round meets
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
    """Floating-point operations per second of one large matrix product."""
    a = torch.randn(size, size)
    return 2 * size**3 / medians(lambda: a @ a)[0]


def peak_memory(script: str, *arguments: str) -> float:
    """Peak memory of a fresh process of this script in MB, beyond what importing torch takes."""
    done = subprocess.run([sys.executable, script, "--memory", *arguments], capture_output=True, text=True, check=True)
    return float(done.stdout)


def report_memory(work: Callable) -> None:
    """Print by how many MB `work` raises the peak of this process, for `peak_memory` to read."""
    before = peak_kilobytes()
    work()
    print((peak_kilobytes() - before) / 1024)


def peak_kilobytes(pid: int | str = "self") -> float:
    """Peak resident memory of a process; on Linux not from getrusage, which starts at the parent's peak."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        return float(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # bytes on macOS


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Slope of log(seconds) over log(size)."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def machine() -> str:
    """One line about this machine."""
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"
    )


def browser_program() -> str | None:
    """The browser to drive, or None and a line that says what is missing."""
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


def show_ratio(ratio: float) -> None:
    """Print the last line of a benchmark: how many times better ours is than the peer."""
    print(f"ratio {ratio:.1f}" if ratio >= 1 else f"ratio {ratio:.2f}")
