"""What does a sweep cost on top of its cells, and what do two cores gain?

Two cores: cells of some tenths of a second, by `ln.sweep` in this process and on two, and by the peer: plain
`joblib.Parallel` on two, which keeps no table and remembers nothing; in turns, processes started before. Cost per cell:
a function that does nothing, on grids of 100 to 5,000 cells: measured and remembered, read again, on two processes, on
a Dask cluster where dask is installed (not with --short), and by a plain loop that makes the same table.
Ratio: joblib's time on two processes over that of `ln.sweep`.

    python benchmarks/sweep.py [--cells 100 1000 5000] [--rounds 3]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import joblib
import numpy as np
import pandas as pd
import torch

import lntutor as ln
from benchmarks._timing import exponent, machine, options, show, show_ratio

CFG = ln.ModelConfig("post", depth=6, width=128)
PASSES = 8  # measurements per cell


def heavy(cfg: ln.ModelConfig, seed: int) -> float:
    """Some tenths of a second of matrix products: the mean gradient norm over several inputs."""
    torch.set_num_threads(1)
    tables = [ln.gradient_norms(cfg, seeds=[seed], inputs=ln.Inputs(tokens=16 + n)) for n in range(PASSES)]
    return float(np.mean([table["value"].mean() for table in tables]))


def nothing(cfg: ln.ModelConfig, seed: int) -> dict[str, float]:
    """A cell that costs nothing."""
    return {"value": cfg.depth + 0.5 * seed}


def seconds(f: Callable) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    f()
    return time.perf_counter() - started


def cores(rounds: int, seeds: int) -> float:
    """Print the efficiency of two processes; joblib's time on two over ours."""
    grid = {"placement": ["post", "pre"], "seed": range(seeds)}
    calls = [(CFG.with_(placement=placement), seed) for placement in grid["placement"] for seed in grid["seed"]]
    ways = {
        "ln.sweep, this process": lambda: ln.sweep(heavy, grid, CFG, keep=False, jobs=1, progress=False),
        "ln.sweep, 2 processes": lambda: ln.sweep(heavy, grid, CFG, keep=False, jobs=2, progress=False),
        "joblib.Parallel, 2 processes": lambda: joblib.Parallel(2)(joblib.delayed(heavy)(*call) for call in calls),
    }
    for work in ways.values():
        work()  # processes start, weights are drawn
    times = np.array([[seconds(work) for work in ways.values()] for _ in range(rounds)])  # (rounds, ways)
    speedup = np.median(times[:, :1] / times, axis=0)
    rows = [
        (name, f"{took:.2f}", f"{gain:.2f}×", f"{gain / count:.0%}")
        for name, took, gain, count in zip(ways, np.median(times, axis=0), speedup, (1, 2, 2), strict=True)
    ]
    print(f"{len(calls)} cells, median of {rounds} rounds")
    show(rows, ("", "s", "speed", "efficiency"))
    return float(np.median(times[:, 2] / times[:, 1]))


def loop(grid: dict) -> pd.DataFrame:
    """The same table without a sweep."""
    rows = [
        {"depth": depth, "seed": seed} | nothing(CFG.with_(depth=depth), seed)
        for depth in grid["depth"]
        for seed in grid["seed"]
    ]
    return pd.DataFrame(rows)


def overhead(sizes: list[int], dask: bool) -> None:
    """Print milliseconds per cell as the grid grows."""
    ways: dict[str, Callable] = {
        "plain loop": loop,
        "nothing remembered": lambda grid: ln.sweep(nothing, grid, CFG, keep=False, jobs=1, progress=False),
        "measured and remembered": lambda grid: ln.sweep(nothing, grid, CFG, jobs=1, progress=False),
        "read again": lambda grid: ln.sweep(nothing, grid, CFG, progress=False),
        "on 2 processes": lambda grid: ln.sweep(nothing, grid, CFG, keep=False, jobs=2, progress=False),
    }
    if dask:
        ways["on a Dask cluster of 2"] = on_dask
    took = np.zeros((len(ways), len(sizes)))
    for j, size in enumerate(sizes):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["LNTUTOR_CACHE"] = folder
            for i, work in enumerate(ways.values()):
                took[i, j] = seconds(lambda work=work, n=size // 10: work({"depth": range(1, 11), "seed": range(n)}))
    each = 1e3 * took / sizes
    rows = [
        (name, *(f"{one:.2f}" for one in row), f"{exponent(sizes, total):.2f}")
        for name, row, total in zip(ways, each, took, strict=True)
    ]
    show(rows, ("ms per cell", *(f"{size} cells" for size in sizes), "exponent of the total"))


def on_dask(grid: dict) -> None:
    """Run a sweep on the cluster that `main` started."""
    with joblib.parallel_config(backend="dask"):
        ln.sweep(nothing, grid, CFG, keep=False, progress=False)


def main() -> None:
    """Answer both questions, and print the ratio."""
    args = options(__doc__, cells=((100, 1000, 5000), (20, 40)), rounds=(3, 1), seeds=(8, 1))
    print(machine())
    ratio = cores(args.rounds, args.seeds)
    dask = find_spec("distributed") is not None and not args.short
    with ExitStack() as stack:
        if dask:
            from dask.distributed import Client, LocalCluster

            cluster = stack.enter_context(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0"))
            stack.enter_context(Client(cluster))
            on_dask({"depth": [1, 2], "seed": range(4)})  # workers import torch
        overhead(args.cells, dask)
    show_ratio(ratio)


if __name__ == "__main__":
    main()
