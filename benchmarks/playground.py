"""How soon does the playground answer, whose page computes by itself? Three questions in one run on this machine.

Engine: one network in the page (6-6, width 128, 16 tokens: forward, back, every norm) against `nn.Transformer` in
torch, built, run forward and back with the same sizes, one thread. Key → picture: an arrow on the depth slider until
the bars have changed, against an HTML label and the TheoremExplorer that a kernel answers in JupyterLab, and against
the page's floor, a slider that only writes its number. `changed`: the page's content is new; `shown`: the next frame
after that. First picture: from opening the file to its first bars.
Ratio: the HTML label's median time to `changed` over the playground's, both in JupyterLab.
"""

import sys
import tempfile
import warnings
from itertools import cycle
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch

import lntutor as ln
from benchmarks._timing import browser_program, machine, options, show, show_ratio
from benchmarks.gradients import peer
from benchmarks.latency import CELLS, SETUP

PLAYGROUND = """\
from lntutor.explore import Playground

Playground()"""
FLOOR = """() => {
    const [range, number] = [document.createElement('input'), document.createElement('output')]
    Object.assign(range, { type: 'range', className: 'floor', value: 50 })
    number.className = 'floor-number'
    range.addEventListener('input', () => { number.textContent = range.value })
    document.body.append(range, number)
}"""
NOT_AHEAD = """
globalThis.Worker = class extends Worker {
    postMessage(message) { super.postMessage({ ...message, ahead: [] }) }
}
"""
BARS = "[data-lntutor=playground] path.lnp-bar"
EXPLORER = ".explorer input[aria-label='Depth L']"
ROWS = {  # row → title, what takes the keys, what changes
    "floor": ("slider that only writes its number", ".floor", ".floor-number"),
    "file": ("playground, from its file", "[data-lntutor=playground] input[aria-label=Depth]", BARS),
    "after": ("the same, nothing measured ahead", "[data-lntutor=playground] input[aria-label=Depth]", BARS),
    "label": ("HTML label, by the kernel", ".label .noUi-handle", ".label-picture"),
    "explorer": ("TheoremExplorer, by the kernel", EXPLORER, ".explorer-picture .cartesianlayer"),
    "widget": ("playground, in JupyterLab", "[data-lntutor=playground] input[aria-label=Depth]", BARS),
}
CLOCK = """(selector) => {
    const text = (node) => node.getAttribute('d') ?? node.innerHTML
    const content = () => [...document.querySelectorAll(selector)].map(text).join()
    window.times = []
    let start, before
    window.clock?.abort()
    window.clock = new AbortController()
    document.addEventListener('keydown', () => {
        before = content()
        start = performance.now()
    }, { capture: true, signal: window.clock.signal })
    const observer = new MutationObserver(() => {
        if (start === undefined || content() === before) return
        const [begin, changed] = [start, performance.now()]
        start = undefined
        requestAnimationFrame(() => window.times.push([changed - begin, performance.now() - begin]))
    })
    observer.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true })
    window.clock.signal.addEventListener('abort', () => observer.disconnect())
}"""
FIRST = """
new MutationObserver((changes, observer) => {
    if (!document.querySelector('path.lnp-bar')?.getAttribute('d')) return
    observer.disconnect()
    requestAnimationFrame(() => { window.first = performance.now() })
}).observe(document, { subtree: true, childList: true, attributes: true })
"""
GOALS = {"engine": 2.0, "floor": 3.0, "first": 1.5, "file": 2.0}  # × torch, × floor, s, MB


def engine(browser, folder: Path, rounds: int, calls: int) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds per network: the page's worker, and torch, in turns; the LN position changes with every one."""
    from tests.browser.page_engine import engine_page, job

    cfg, inputs = ln.ModelConfig(), ln.Inputs(tokens=16)
    first, ours, theirs = cycle([False, True]), [], []
    torch.set_num_threads(1)
    with engine_page(browser, folder) as page, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor")
        asked = [job(key, theory=False) for key in ("post", "pre")] * calls
        page.run(asked)  # draws the samples, as the weights of a slider's first moves
        peer(cfg, inputs, False)
        for _ in range(rounds):
            ours += [result["ms"] for result in page.run(asked)][1:]
            for _ in range(calls):
                start = perf_counter()
                peer(cfg, inputs, next(first))
                theirs.append(1e3 * (perf_counter() - start))
    return np.array(ours), np.array(theirs)


def presses(page, name: str, key: str, count: int) -> list[list[float]]:
    """Milliseconds from each key to `changed` and to `shown`; the first one warms up and is not counted."""
    place = ROWS[name][2].split()[0]
    page.evaluate("place => document.querySelector(place).scrollIntoView({ block: 'center' })", place)
    page.wait_for_selector(ROWS[name][2], state="attached")  # some pictures are drawn once they are in view
    page.locator(ROWS[name][1]).first.focus()
    page.evaluate(f"({CLOCK})", ROWS[name][2])
    for number in range(1, count + 2):
        page.keyboard.press(key)
        page.wait_for_function(f"() => window.times.length === {number}", timeout=30_000)
        page.wait_for_timeout(250)  # work after the picture, theory among it, must not delay the next key
    return page.evaluate("window.times")[1:]


def latencies(server, browser, root: Path, file: Path, rounds: int, keys: int) -> dict[str, np.ndarray]:
    """Row → milliseconds of every key press, the rows taking turns."""
    from tests.browser.jupyter import new_notebook, write_notebook

    write_notebook(root / "latency.ipynb", SETUP, CELLS["label"], CELLS["explorer"], PLAYGROUND)
    times: dict[str, list] = {name: [] for name in ROWS}
    with new_notebook(browser) as alone, new_notebook(browser) as after, new_notebook(browser) as lab:
        after.page.add_init_script(NOT_AHEAD)
        for notebook in (alone, after):
            notebook.page.goto(f"{file.as_uri()}")
            notebook.page.wait_for_selector(BARS, state="attached")
        alone.page.evaluate(FLOOR)
        lab.open(server, "latency", folder="")
        lab.run_all()
        assert not lab.errors(), lab.errors()
        lab.page.wait_for_timeout(3_000)  # the page settles
        for turn in range(rounds):
            for name in ROWS:
                page = {"floor": alone, "file": alone, "after": after}.get(name, lab).page
                page.bring_to_front()
                times[name] += presses(page, name, ["ArrowRight", "ArrowLeft"][turn % 2], keys)
    return {name: np.array(values) for name, values in times.items()}


def first_pictures(browser, file: Path, count: int) -> np.ndarray:
    """Seconds from opening the file to its first bars, each time in a new browser context."""
    seconds = []
    for _ in range(count):
        context = browser.new_context(offline=True)
        context.add_init_script(FIRST)
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_function("() => window.first", timeout=60_000)
        seconds.append(page.evaluate("window.first") / 1e3)
        context.close()
    return np.array(seconds)


def report(ours, theirs, times: dict[str, np.ndarray], first: np.ndarray, size: float) -> None:
    """Print three tables and the ratio."""

    def quantiles(values) -> tuple[str, str]:
        return f"{np.median(values):.3g}", f"{np.quantile(values, 0.9):.3g}"

    ratio = f"{np.median(theirs) / np.median(ours):.2g}"
    rows = [("page", *quantiles(ours), ratio, GOALS["engine"]), ("nn.Transformer", *quantiles(theirs), "1", "")]
    show(rows, ("one network, 6-6, width 128", "median ms", "90% ms", "× torch", "goal"))
    changed, shown = ({name: np.median(values[:, i]) for name, values in times.items()} for i in (0, 1))
    rows = []
    for name, values in times.items():
        over = f"{shown[name] / shown['floor']:.2g}"
        goal = f"≤ {GOALS['floor']:g} × floor, < label" if name in ("file", "widget") else ""
        rows.append((ROWS[name][0], *quantiles(values[:, 0]), *quantiles(values[:, 1]), over, goal))
    show(rows, ("key → picture", "changed ms", "90% ms", "shown ms", "90% ms", "× floor", "goal"))
    rows = [
        ("first picture, s", *quantiles(first), f"≤ {GOALS['first']}"),
        ("the file, MB", f"{size:.2f}", "", f"≤ {GOALS['file']}"),
    ]
    show(rows, ("opening the file", "median", "90%", "goal"))
    show_ratio(changed["label"] / changed["widget"])


def main() -> None:
    """Start JupyterLab and the browser, measure, print."""
    args = options(__doc__, rounds=(6, 1), keys=(10, 2))
    print(machine())
    program = browser_program()
    if program is None:
        return
    from lntutor.page.playground.page import page
    from tests.browser.jupyter import chromium, jupyterlab, scratch_command

    with tempfile.TemporaryDirectory() as folder:
        home, root, file = (Path(folder, name) for name in ("home", "notebooks", "playground.html"))
        home.mkdir()
        root.mkdir()
        file.write_text(page(), encoding="utf-8")
        with chromium(program) as browser:
            first = first_pictures(browser, file, args.keys)
            ours, theirs = engine(browser, Path(folder), args.rounds, args.keys)
            with jupyterlab(home, scratch_command(root)) as server:
                times = latencies(server, browser, root, file, args.rounds, args.keys)
        report(ours, theirs, times, first, file.stat().st_size / 1e6)


if __name__ == "__main__":
    main()
