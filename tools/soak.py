"""A long soak of every explorer: random joint moves in process and in a real browser; writes benchmarks/soak.txt.

`make soak` drives all of them, each in a process and a page of its own; `python tools/soak.py TheoremExplorer` one of
them, and keeps the rows of the others. Ctrl-C keeps what is done. The moves come from a seed, so a fault comes back
with the same command. Exit code 1 where something went wrong.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks._timing import machine  # noqa: E402
from lntutor.publish.browser import find_browser  # noqa: E402
from lntutor.text import files  # noqa: E402
from tests.explore.explorers import NAMES  # noqa: E402
from tests.explore.soak import Soaked, soak, soak_here  # noqa: E402

REPORT = ROOT / "benchmarks" / "soak.txt"
SETTINGS = {  # of the processes and kernels that are started
    "LNTUTOR_STRICT": "1",
    "LNTUTOR_MEMORY": "512",  # MB of weights: few enough to be full soon, so that growth is growth
}
COMMAND = "$ .venv/bin/python tools/soak.py"
TITLES = {"process": "== in process", "page": "== in a page of JupyterLab, by keys and mouse"}
HEADERS = {
    "process": (
        "explorer", "moves", "checks", "mistakes said", "faults", "s", "first ms", "last ms", "ratio",
        "RSS MB", "+MB", "of it weights", "+objects", "+widgets", "+threads",
    ),
    "page": (
        "explorer", "moves", "checks", "faults", "s", "first ms", "last ms", "ratio",
        "heap MB", "+MB", "+nodes", "+listeners", "kernel MB", "+kernel MB",
    ),
}  # fmt: skip
NOTES = {
    "process": (
        "check: picture, words and table are those of a new explorer with the same state.",
        "objects: those that Python's collector knows.",
    ),
    "page": ("check: page and kernel, at rest, show the same controls and the same picture; no error in the console.",),
}
LAST_NOTE = (
    "first, last: median of the same moves, after as many others; ratio: the median of each move's own. +: from there",
    "to the end.",
)


def in_process(name: str, moves: int, seed: int) -> tuple[tuple, list[str]]:
    """The row of an explorer in a process of its own, and its faults."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        result: Soaked = pool.submit(_soak_here, name, moves, seed).result()
    warm, end = result.warm, result.end
    memory = (f"{end.rss:.0f}", f"{end.rss - warm.rss:+.0f}", f"{end.bank - warm.bank:+.0f}")
    rest = (f"{now - before:+d}" for before, now in zip(warm[2:], end[2:], strict=True))
    return (name, result.moves, result.checks, result.mistakes, *_common(result), *memory, *rest), result.faults


def _soak_here(name: str, moves: int, seed: int) -> Soaked:
    import torch

    torch.set_num_threads(1)
    try:
        return soak_here(name, moves, seed, progress=_progress(f"{name}, in process", moves))
    except KeyboardInterrupt:
        os._exit(130)  # without a message: the parent has one


def in_page(name: str, moves: int, seed: int) -> tuple[tuple, list[str]]:
    """The row of an explorer in a page of its own, and its faults."""
    from tests.browser.jupyter import chromium, jupyterlab, new_notebook, scratch_command, write_notebook
    from tests.browser.soak import PageDriver, cells

    with tempfile.TemporaryDirectory() as folder:
        home, root = Path(folder, "home"), Path(folder, "notebooks")
        home.mkdir()
        root.mkdir()
        write_notebook(root / "soak.ipynb", *cells(name))
        with (
            jupyterlab(home, scratch_command(root)) as server,
            chromium(find_browser()) as browser,
            new_notebook(browser) as notebook,
        ):
            notebook.open(server, "soak", folder="")
            notebook.run_all()
            progress = _progress(f"{name}, in a page", moves)
            result = soak(PageDriver(notebook, name, seed), moves, seed, every=25, progress=progress)
            result = result._replace(faults=[*notebook.errors(), *result.faults])
    warm, end = result.warm, result.end
    heap = (f"{end.heap:.0f}", f"{end.heap - warm.heap:+.1f}")
    more = (f"{end.nodes - warm.nodes:+d}", f"{end.listeners - warm.listeners:+d}")
    kernel = (f"{end.kernel:.0f}", f"{end.kernel - warm.kernel:+.0f}")
    return (name, result.moves, result.checks, *_common(result), *heap, *more, *kernel), result.faults


def _common(result: Soaked) -> tuple:
    """Faults, seconds and pace."""
    return (
        len(result.faults),
        f"{result.seconds:.0f}",
        f"{result.first:.3g}",
        f"{result.last:.3g}",
        f"{result.ratio:.2f}",
    )


def _progress(what: str, moves: int):
    """A function that says how far a soak is, in one line that is written over."""

    def report(made: int, seconds: float) -> None:
        left = seconds / made * (moves - made)
        end = "\n" if made >= moves or not sys.stdout.isatty() else "\r"
        print(f"{what}: {made} of {moves} moves, about {left:.0f} s left   ", end=end, flush=True)

    return report


def read_rows(text: str) -> dict[str, dict[str, tuple]]:
    """Part → explorer → row, of a report."""
    rows: dict[str, dict[str, tuple]] = {part: {} for part in HEADERS}
    part = ""
    for line in text.splitlines():
        part = next((key for key, title in TITLES.items() if line == title), part)
        cells = tuple(line.split())
        if part and cells and cells[0] in NAMES and len(cells) == len(HEADERS[part]):
            rows[part][cells[0]] = cells
    return rows


def report(rows: dict[str, dict[str, tuple]], seed: int) -> str:
    """Both tables, under the command that makes them."""
    lines = [f"{COMMAND}{f' --seed {seed}' if seed else ''}", machine()]
    for part, header in HEADERS.items():
        table = [header, *(tuple(map(str, rows[part][name])) for name in NAMES if name in rows[part])]
        widths = [max(len(row[i]) for row in table) for i in range(len(header))]
        lines += [TITLES[part]]
        lines += ["  ".join(cell.ljust(width) for cell, width in zip(r, widths, strict=True)).rstrip() for r in table]
        lines += NOTES[part]
    lines += LAST_NOTE
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Soak what is asked for; 1 where there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("explorers", nargs="*", metavar="explorer", help=f"{', '.join(NAMES)}; all where none is given")
    parser.add_argument("--moves", type=int, default=2000, help="in process (default: 2000)")
    parser.add_argument("--page-moves", type=int, default=200, help="in a page (default: 200)")
    parser.add_argument("--part", choices=tuple(HEADERS), help="one part only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, default=REPORT, help="where the tables are kept")
    asked = parser.parse_args(arguments)
    if wrong := sorted(set(asked.explorers) - set(NAMES)):
        parser.error(f"no explorer {wrong[0]!r}; there are {', '.join(NAMES)}")
    work = [(part, name) for part in HEADERS if asked.part in (None, part) for name in asked.explorers or NAMES]
    if find_browser() is None and any(part == "page" for part, _ in work):
        print("The pages are left out: no Chromium or Chrome found; install one or set LNTUTOR_BROWSER.")
        work = [(part, name) for part, name in work if part != "page"]
    os.environ.update(SETTINGS)
    rows = read_rows(asked.report.read_text(encoding="utf-8") if asked.report.is_file() else "")
    bad, started = 0, time.perf_counter()
    try:
        for number, (part, name) in enumerate(work, start=1):
            print(f"[{number} of {len(work)}, {time.perf_counter() - started:.0f} s so far]", flush=True)
            soak_it, moves = (in_process, asked.moves) if part == "process" else (in_page, asked.page_moves)
            rows[part][name], faults = soak_it(name, moves, asked.seed)
            files.put(asked.report, report(rows, asked.seed))
            bad += len(faults)
            for fault in faults:
                print(f"  FAULT {fault}")
    except KeyboardInterrupt:
        print(f"\nInterrupted; {asked.report} has what was done.")
        return 130
    print(report(rows, asked.seed), end="")
    print(f"{bad} faults" if bad else "no faults", f"· {asked.report}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
