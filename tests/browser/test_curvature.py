"""The curvature explorer in a page: a spectrum grows, is drawn anew, stops and goes on; stored ones are near."""

import re

from tests.browser.jupyter import Notebook
from tests.browser.test_live import drag, plot_value, wait_for_plot

IMPORT = "from lntutor.explore import CurvatureExplorer"
STORED = """
import tempfile
from pathlib import Path

import pandas as pd

import lntutor as ln
from lntutor.experiments import stored as results

results.FOLDER = Path(tempfile.mkdtemp())
results.EXPERIMENTS["hessian"] = None
text, small = ln.load_corpus(), ln.ModelConfig("post", 2, 16, 4, 64)
made = [
    ln.hessian_spectrum(small.with_(placement=key), text, pairs=10, steps=20, seed=seed, progress=False)
    for key in ("post", "pre")
    for seed in (0, 1)
]
table = pd.concat([spectrum.table() for spectrum in made])
results.write(table, results.file_of("hessian", "captions"), ["python -m lntutor results hessian", "small"])
"""
NOTE = "gd._fullLayout.title.subtitle.text"
PEAK = "Math.max(...Array.from(gd._fullData.find(t => t.uid.startsWith('density')).y).filter(y => y > 0))"


def wait_for_products(notebook: Notebook, least: int) -> None:
    """Wait until a spectrum is drawn that has so many products."""
    wait_for_plot(notebook, f"Number(({NOTE} ?? '').match(/(\\d+) products/)?.[1]) >= {least}")


def products(notebook: Notebook) -> int:
    """Of the spectrum in the page."""
    return int(plot_value(notebook, f"{NOTE}.match(/(\\d+) products/)[1]"))


def results(notebook: Notebook) -> list[str]:
    """The rows that say how each spectrum ended."""
    notebook.page.get_by_role("radio", name="How it ended").check()
    rows = notebook.page.locator(".lntutor-results tbody tr")
    rows.first.wait_for()
    return rows.all_inner_texts()


def test_a_spectrum_grows_is_drawn_anew_stops_and_goes_on(in_lab):
    """Oracle: products and the highest density in the page, before and after; pictures are for people."""
    notebook = in_lab(IMPORT, 'CurvatureExplorer(depth=1, width=16, pairs=30, products=200, placements=["post"])')
    wait_for_plot(notebook)
    notebook.wait_for_status("Run: 1 spectrum of 200 products: Post-LN. Hessian, 1+1 layers")
    notebook.screenshot("curvature_start")
    notebook.button("Run").click()
    wait_for_products(notebook, 3)
    wait_for_products(notebook, products(notebook) + 5)
    notebook.wait_for_status(" of 200, ")
    notebook.screenshot("curvature_grows")

    peak = plot_value(notebook, PEAK)
    box = notebook.slider("Bandwidth").bounding_box()
    start = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    drag(notebook, start, (start[0] + 60, start[1]))  # while the measurement goes on
    wait_for_plot(notebook, f"{PEAK} < 0.8 * {peak}")
    notebook.button("Stop").click()
    status = notebook.wait_for_status("Stopped. Run: 1 spectrum of 200 products: Post-LN from product ")
    stopped = int(re.search(r"from product (\d+)", status)[1])
    assert 8 <= stopped < 200
    wait_for_products(notebook, stopped)  # words may be there before the last picture
    peak = plot_value(notebook, PEAK)
    notebook.slider("Bandwidth").press("Home")
    wait_for_plot(notebook, f"{PEAK} > 1.5 * {peak}")
    assert products(notebook) == stopped

    notebook.page.get_by_text("More settings").click()
    notebook.slider("Products").press("Home")  # ten
    notebook.wait_for_status("More steps: 10 more products for 1 spectrum on screen")
    notebook.button("More steps").click()
    notebook.wait_for_status("1 spectrum done in")
    wait_for_products(notebook, stopped + 10)
    assert products(notebook) == stopped + 10
    notebook.slider("2/η line").press("End")
    notebook.slider("2/η line").press("ArrowLeft")
    wait_for_plot(notebook, "gd._fullData.find(t => t.uid === 'two_5fover_5feta')?.x[0] === 4")
    notebook.page.locator(".lntutor-curvature").scroll_into_view_if_needed()
    notebook.screenshot("curvature_more")


def test_a_spectrum_is_measured_in_voila_and_stored_ones_are_a_click_away(in_voila):
    """Oracle: both ends of each spectrum in the page's own table, the names of the stored ones, the command."""
    notebook = in_voila(IMPORT, STORED, "CurvatureExplorer(depth=1, width=16, pairs=10, products=10)")
    wait_for_plot(notebook)
    notebook.button("Run").click()
    notebook.wait_for_status("2 spectra done in")
    wait_for_products(notebook, 10)
    rows = results(notebook)
    assert [row.split("\t")[0] for row in rows] == ["Post-LN", "Pre-LN"]
    notebook.page.get_by_role("radio", name="Picture").check()
    numbers = plot_value(notebook, "gd._fullData.filter(t => t.uid.startsWith('numbers')).flatMap(t => t.text)")
    for shown, row in zip((numbers[:2], numbers[2:]), rows, strict=True):
        assert [cell.split(" ±")[0] for cell in row.split("\t")[1:3]] == [number.strip() for number in shown]
    notebook.screenshot("curvature_voila")

    notebook.page.get_by_role("switch", name="Talk size").click()
    notebook.wait_for_status("Stored spectra, made by python -m lntutor results hessian.")
    wait_for_products(notebook, 20)
    rows = results(notebook)
    assert [row.split("\t")[0] for row in rows] == [
        f"{label}, seed {seed}" for label in ("Post-LN", "Pre-LN") for seed in (0, 1)
    ]
    notebook.screenshot("curvature_stored")
    notebook.page.get_by_role("switch", name="Talk size").click()
    notebook.wait_for_status("All that Run would do is on screen")
    wait_for_products(notebook, 10)
