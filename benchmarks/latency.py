"""How soon does the picture follow a key? From the key press to the changed picture, in a real JupyterLab.

Floor: an HTML label, which shows the time that keys, server and kernel need. Peer: plotly's FigureWidget with
`batch_update`. Ours: a live plot of the same figure; the Playground, whose page computes, its depth going up and down
from 6 in steps and in jumps; and the TheoremExplorer, which may not remember what it has shown before. All in one page,
in turns; the page's own clock runs from the key event to the changed text or curve. Second table: what a page with
three plots receives (not with --short).
Ratio: FigureWidget's median time over our live plot's.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from benchmarks._timing import browser_program, machine, options, show, show_ratio

SETUP = """\
import ipywidgets as widgets
import numpy as np
import plotly.graph_objects as go
from IPython.display import display

from lntutor.page.live import live_plot

x = np.arange(10)


def heights(power):
    return (x / 9) ** power


def figure(power):
    layout = {"title": f"Power {power}", "yaxis_range": [0, 1]}  # naming a template costs plotly.py 15 ms per figure
    return go.Figure(go.Scatter(x=x, y=heights(power)), layout=layout)


def slider(name, follow):
    control = widgets.IntSlider(value=2, min=1, max=30)
    control.observe(follow, "value")
    control.add_class(name)
    return control
"""
CELLS = {  # row → cell; the slider's class is the row's name
    "label": """\
label = widgets.HTML("2")
label.add_class("label-picture")


def follow_label(change):
    label.value = str(change.new)


widgets.VBox([slider("label", follow_label), label])""",
    "figure": """\
peer = go.FigureWidget(figure(2))


def follow_figure(change):
    with peer.batch_update():
        peer.data[0].y = heights(change.new)
        peer.layout.title.text = f"Power {change.new}"


# displayed beside its slider: inside a box it stays empty until the first move
display(slider("figure", follow_figure), peer)""",
    "live": """\
plot = live_plot(figure(2))
plot.add_class("live-picture")


def follow_live(change):
    plot.show(figure(change.new))


widgets.VBox([slider("live", follow_live), plot])""",
    "playground": """\
from lntutor.explore import Playground

Playground()""",
    "explorer": """\
from lntutor.explore import TheoremExplorer, base

base.REMEMBERED = 2  # the state on screen and the next, so that the way back is measured again
explorer = TheoremExplorer(depth=1)
explorer.plot.add_class("explorer-picture")
explorer.add_class("explorer")
display(explorer)""",
}
PICTURE = "document.querySelector('.{}-picture')"
BARS = "document.querySelector('[data-lntutor=playground] .lnp-picture')"
DEPTH = "[data-lntutor=playground] input[aria-label=Depth]"
ARROWS, PAGES = ("ArrowRight", "ArrowLeft"), ("PageUp", "PageDown")
ROWS = {  # row → title, what takes the keys, up and down, its picture in the page, goals in multiples of the floor
    "label": ("HTML label", ".label .noUi-handle", ARROWS, PICTURE.format("label"), ""),
    "figure": (
        "FigureWidget, batch_update", ".figure .noUi-handle", ARROWS,
        "document.querySelector('.js-plotly-plot:not(.lntutor-live *)')", "",
    ),
    "live": ("live plot", ".live .noUi-handle", ARROWS, PICTURE.format("live"), "1.8"),
    "playground": ("Playground", DEPTH, ARROWS, BARS, "≤ 3, 90% ≤ 3"),
    "jump": ("Playground, a tenth of the slider", DEPTH, PAGES, BARS, "≤ 4"),
    "explorer": (
        "TheoremExplorer, by the kernel", ".explorer input[aria-label='Depth L']", ARROWS,
        PICTURE.format("explorer"), "",
    ),
}  # fmt: skip
CLOCK = """picture => {
    const content = () => {
        const parts = [...picture.querySelectorAll('.cartesianlayer, path.lnp-bar')]
        return parts.map(node => node.getAttribute('d') ?? node.innerHTML).join() || picture.textContent
    }
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
        window.times.push(performance.now() - start)
        start = undefined
    })
    observer.observe(picture, { subtree: true, childList: true, attributes: true, characterData: true })
    window.clock.signal.addEventListener('abort', () => observer.disconnect())
}"""
THREE = {
    "FigureWidget": "for power in (1, 2, 3):\n    display(go.FigureWidget(figure(power)))",
    "LivePlot": "for power in (1, 2, 3):\n    display(live_plot(figure(power)))",
}


def presses(page, name: str, turn: int, count: int) -> list[float]:
    """Milliseconds from each key press to the changed picture; the first one warms up and is not counted."""
    page.locator(ROWS[name][1]).first.focus()
    page.evaluate(f"({CLOCK})({ROWS[name][3]})")
    for number in range(1, count + 2):
        up_or_down = number + 1 if name == "jump" else turn
        page.keyboard.press(ROWS[name][2][up_or_down % 2])
        page.wait_for_function(f"() => window.times.length === {number}", timeout=30_000)
        page.wait_for_timeout(150)  # work after the picture must not delay the next key
    return page.evaluate("window.times")[1:]


def latencies(server, browser, root: Path, rows: list[str], rounds: int, keys: int) -> dict[str, list[float]]:
    """Row → milliseconds of every key press, the rows taking turns."""
    from tests.browser.jupyter import new_notebook, write_notebook

    write_notebook(root / "latency.ipynb", SETUP, *(CELLS[name] for name in rows if name in CELLS))
    times: dict[str, list[float]] = {name: [] for name in rows}
    with new_notebook(browser) as notebook:
        notebook.open(server, "latency", folder="")
        notebook.run_all()
        assert not notebook.errors(), notebook.errors()
        notebook.page.wait_for_timeout(3_000)  # the page settles
        for turn in range(rounds):
            for name in rows:
                times[name] += presses(notebook.page, name, turn, keys + (name == "jump"))
    return times


def received(server, browser, root: Path, name: str, cell: str) -> int:
    """Bytes that a page receives over its socket until three plots are drawn, from a fresh kernel."""
    from tests.browser.jupyter import new_notebook, write_notebook

    write_notebook(root / f"{name}.ipynb", SETUP, cell)
    with new_notebook(browser) as notebook:
        notebook.open(server, name, folder="")
        notebook.frames.clear()
        notebook.run_all()
        drawn = "document.querySelectorAll('.js-plotly-plot .main-svg .scatterlayer').length >= 3"
        notebook.page.wait_for_function(f"() => {drawn}", timeout=120_000)
        return sum(notebook.frames)


def report(times: dict[str, list[float]], sizes: dict[str, int]) -> None:
    """Print both tables and the ratio."""
    median = {name: float(np.median(values)) for name, values in times.items()}
    rows = []
    for name, values in times.items():
        late = float(np.quantile(values, 0.9))
        numbers = (median[name], late, median[name] / median["label"], late / float(np.quantile(times["label"], 0.9)))
        rows.append((ROWS[name][0], *(f"{number:.3g}" for number in numbers), ROWS[name][4]))
    show(rows, ("key press → picture", "median ms", "90% ms", "× label", "90% × label's", "goal"))
    if sizes:
        peer = sizes["FigureWidget"]
        rows = [(f"three of {name}", f"{size / 1e6:.2f}", f"{size / peer:.2f}") for name, size in sizes.items()]
        show(rows, ("a page receives", "MB", "× FigureWidget"))
    show_ratio(median["figure"] / median["live"])


def main() -> None:
    """Start JupyterLab and the browser, measure, print."""
    args = options(
        __doc__, rounds=(6, 1), keys=(10, 1), rows=(tuple(ROWS), ("label", "figure", "live", "playground", "jump"))
    )
    print(machine())
    program = browser_program()
    if program is None:
        return
    from tests.browser.jupyter import chromium, jupyterlab, scratch_command

    with tempfile.TemporaryDirectory() as folder:
        home, root = Path(folder, "home"), Path(folder, "notebooks")
        home.mkdir()
        root.mkdir()
        with jupyterlab(home, scratch_command(root)) as server, chromium(program) as browser:
            three = {} if args.short else THREE
            sizes = {name: received(server, browser, root, name, cell) for name, cell in three.items()}
            report(latencies(server, browser, root, args.rows, args.rounds, args.keys), sizes)


if __name__ == "__main__":
    main()
