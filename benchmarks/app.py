"""How soon does a page of `make app` show its plot? From the click to the first curve of the TheoremExplorer.

Peer: plain Voilà with the same notebook. Voilà's preheated kernels have run the notebook before the click; ours have
imported the course and drawn a figure, and serve any page. All take turns in one run, each in a browser that has seen
the start page only; a turn begins when the server and its kernels are idle. Second table: memory of the largest kernel
with its page open, without what it shares with others. Ratio: plain Voilà's median time over that of our warm app.
"""

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import psutil

from benchmarks._timing import browser_program, machine, options, show, show_ratio
from lntutor.publish import app, gallery

TILE = next(tile for tile in gallery.EXPLORERS if tile.key == "TheoremExplorer")
PREHEAT = ["--preheat_kernel=True", "--pool_size=1"]
ROWS = {  # row → (title, options of our app, or options of plain Voilà)
    "plain": ("Voilà", None, []),
    "preheated": ("Voilà, preheated", None, PREHEAT),
    "cold": ("the app, nothing warm", ["--warm", "0"], None),
    "warm": ("the app, one kernel warm", ["--warm", "1"], None),
}
DRAWN = "() => document.querySelector('.lntutor-live .main-svg .scatterlayer .trace path')"


def serve(stack: ExitStack, row: str, folder: Path, notebook: Path):
    """Start the server of this row."""
    from tests.browser.jupyter import app_server, voila

    home = folder / f"home-{row}"
    home.mkdir()
    _, ours, theirs = ROWS[row]
    return stack.enter_context(app_server(home, *ours) if theirs is None else voila(home, notebook.parent, *theirs))


def wait_until_idle(pid: int, quiet: float = 2.0) -> None:
    """Wait until a server and its kernels have used next to no processor time for `quiet` seconds."""
    idle_since = time.monotonic()
    while time.monotonic() < idle_since + quiet:
        before = _seconds(pid)
        time.sleep(0.25)
        if _seconds(pid) - before > 0.05:
            idle_since = time.monotonic()


def _seconds(pid: int) -> float:
    """Processor seconds of a process and of those that it started."""
    server = psutil.Process(pid)
    total = 0.0
    for process in [server, *server.children(recursive=True)]:
        try:
            total += sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return total


def kernels(pid: int) -> list[float]:
    """MB of every kernel of a server, without what it shares with others."""
    found = [
        child for child in psutil.Process(pid).children(recursive=True) if "ipykernel" in " ".join(child.cmdline())
    ]
    return sorted(kernel.memory_full_info().uss / 1e6 for kernel in found)


def click_to_plot(server, browser) -> tuple[float, list[float]]:
    """Seconds from the click to the first curve, and the kernels' memory at that time."""
    from tests.browser.jupyter import new_notebook

    with new_notebook(browser) as notebook:
        page = notebook.page
        page.goto(server.url)
        page.wait_for_timeout(1_000)  # a reader looks first; meanwhile the page prefetches
        start = time.perf_counter()
        page.goto(f"{server.url}voila/render/{TILE.key}.ipynb", wait_until="commit")
        page.wait_for_function(DRAWN, timeout=120_000)
        seconds = time.perf_counter() - start
        wait_until_idle(server.pid)
        return seconds, kernels(server.pid)


def report(times: dict[str, list[float]], memory: dict[str, list[float]]) -> None:
    """Print both tables and the ratio."""
    median = {row: float(np.median(values)) for row, values in times.items()}
    lines = [
        (ROWS[row][0], f"{median[row]:.2f}", f"{max(values):.2f}", f"{median['plain'] / median[row]:.2f}×")
        for row, values in times.items()
    ]
    show(lines, ("click → first curve", "median s", "worst s", "speed"))
    show([(ROWS[row][0], f"{found[-1]:.0f}") for row, found in memory.items()], ("largest kernel", "MB"))
    show_ratio(median["plain"] / median["warm"])


def main() -> None:
    """Start the servers and the browser, measure, print."""
    args = options(__doc__, rounds=(4, 1), rows=(tuple(ROWS), ("plain", "warm")))
    print(machine())
    program = browser_program()
    if program is None:
        return
    import nbformat

    from tests.browser.jupyter import chromium

    times, memory = {row: [] for row in args.rows}, {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        notebook = Path(folder, "notebooks", f"{TILE.key}.ipynb")
        notebook.parent.mkdir()
        nbformat.write(app.explorer_notebook(TILE), notebook)
        servers = {row: serve(stack, row, Path(folder), notebook) for row in args.rows}
        browser = stack.enter_context(chromium(program))
        for _ in range(args.rounds):
            for row, server in servers.items():
                wait_until_idle(server.pid)
                seconds, memory[row] = click_to_plot(server, browser)
                times[row].append(seconds)
    report(times, memory)


if __name__ == "__main__":
    main()
