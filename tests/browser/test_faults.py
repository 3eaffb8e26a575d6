"""A kernel that restarts or dies under an open page, a server that ends, a page left in mid-run, two browsers."""

import json
from pathlib import Path

import psutil

from lntutor.explore import TheoremExplorer
from lntutor.page.live import GONE
from tests.browser.jupyter import SECONDS, Notebook, app_server, new_notebook
from tests.browser.test_explore import cells, wait_for_picture
from tests.browser.test_live import plot_value, wait_for_plot
from tests.browser.test_training import SETUP

TELL = """\
import json
from pathlib import Path


def tell(change):
    Path("part").write_text(json.dumps(explorer.state()))
    Path("part").replace("state.json")


explorer.status.observe(tell, "value")  # after every picture
"""
CURVES = "gd._fullData.map(t => [t.uid, Array.from(t.x ?? []), Array.from(t.y ?? [])])"


def over_the_plot(notebook: Notebook) -> str:
    """The words that stand over a plot, and where they are of no use, "none"."""
    return notebook.page.evaluate("getComputedStyle(document.querySelector('.lntutor-live'), '::before').content")


def test_a_kernel_restarted_under_an_open_page(in_lab):
    """Oracle: the sentence over the old picture; once the cells have run again, gradients measured in this process."""
    notebook = in_lab(*cells("TheoremExplorer()"))
    wait_for_picture(notebook, TheoremExplorer(depth=24))
    assert GONE not in over_the_plot(notebook)
    notebook.menu("Kernel", "kernelmenu:restart")
    notebook.page.locator(".jp-Dialog .jp-mod-accept").click()
    notebook.page.locator(".jupyter-widgets-disconnected").first.wait_for(timeout=60 * SECONDS)
    notebook.wait_for_idle()
    assert GONE in over_the_plot(notebook)
    notebook.slider("Depth L").press("ArrowRight")  # into the void
    wait_for_picture(notebook, TheoremExplorer(depth=24))
    notebook.screenshot("faults_restarted")
    notebook.run_all()
    wait_for_picture(notebook, TheoremExplorer(depth=24))
    assert GONE not in over_the_plot(notebook)
    notebook.slider("Depth L").press("ArrowRight")
    wait_for_picture(notebook, TheoremExplorer(depth=25))
    assert not notebook.errors()
    notebook.screenshot("faults_run_again")


def test_a_page_of_the_app_loses_its_kernel_and_its_server(notebook, tmp_path):
    """Oracle: the sentence over the picture; a page loaded again answers; the sentence at the top of it."""
    page, lost = notebook.page, notebook.page.locator(".lntutor-lost")
    with app_server(tmp_path) as server:
        page.goto(f"{server.url}voila/render/TheoremExplorer.ipynb", timeout=120 * SECONDS)
        wait_for_picture(notebook, TheoremExplorer(depth=24))
        assert over_the_plot(notebook) == "none"
        kernel = page.evaluate("JSON.parse(document.querySelector('#jupyter-config-data').textContent).kernelId")
        for process in psutil.Process(server.pid).children(recursive=True):
            if kernel in " ".join(process.cmdline()):
                process.kill()
        page.locator(".jupyter-widgets-disconnected").first.wait_for(timeout=60 * SECONDS)
        assert GONE in over_the_plot(notebook)
        page.reload()
        wait_for_picture(notebook, TheoremExplorer(depth=24))
        notebook.complaints.clear()  # of the lost connection, which is the fault
        notebook.slider("Depth L").press("ArrowRight")
        wait_for_picture(notebook, TheoremExplorer(depth=25))
        assert not lost.is_visible()
        assert not notebook.complaints
    lost.filter(has_text="does not answer").wait_for(timeout=60 * SECONDS)
    notebook.screenshot("faults_server_ended")
    notebook.complaints.clear()  # refused connections, which are the fault


def wait_for_state(notebook: Notebook, path: Path, depth: int) -> None:
    """Wait until the kernel has written down this depth."""
    for _ in range(300):
        if path.is_file() and json.loads(path.read_text())["depth"] == depth:
            return
        notebook.page.wait_for_timeout(100)
    raise AssertionError(f"{path.read_text()}, not depth {depth}")


def wait_for_step(notebook: Notebook, least: int) -> int:
    """Wait until the run under way, the second plot of the page, is drawn to this step or further; how far it is."""
    steps = "Math.max(0, ...gd._fullData.filter(t => t.uid.startsWith('loss')).map(t => t.x.length))"
    wait_for_plot(notebook, f"{steps} >= {least}", 1)
    return plot_value(notebook, steps, 1)


def test_a_page_left_in_mid_run_and_a_second_browser(in_lab, browser, scratch, scratch_server, request):
    """Oracle: `explorer.state()` as the kernel writes it down, gradients measured here, steps that are drawn after the
    page that started them was closed, and Stop from another page.
    """
    first = in_lab(
        SETUP,
        "from lntutor.explore import TheoremExplorer\n\nexplorer = TheoremExplorer()\nexplorer",
        TELL,
        "TrainingExplorer(depth=2, width=64, steps=2000)",
    )
    wait_for_plot(first, index=1)
    first.save()  # as JupyterLab does by itself every two minutes
    with new_notebook(browser) as second:
        second.open(scratch_server, request.node.originalname, folder="")
        for one, other, depth in ((first, second, 25), (second, first, 26)):
            one.slider("Depth L").press("ArrowRight")
            wait_for_picture(other, TheoremExplorer(depth=depth))
            wait_for_picture(one, TheoremExplorer(depth=depth))
            wait_for_state(one, scratch / "state.json", depth)
            assert plot_value(one, CURVES) == plot_value(other, CURVES)
            assert other.slider("Depth L").get_attribute("aria-valuetext") == str(depth)
        second.screenshot("faults_second_browser")

        first.button("Run").click()
        drawn = wait_for_step(first, 3)
        wait_for_step(second, drawn)
        first.page.close()
        with new_notebook(browser) as third:
            third.open(scratch_server, request.node.originalname, folder="")
            drawn = wait_for_step(third, drawn)
            drawn = wait_for_step(third, drawn + 5)
            third.wait_for_status(" of 2000, ")
            wait_for_picture(third, TheoremExplorer(depth=26))
            assert third.button("Run").is_disabled()
            third.page.locator(".lntutor-training").scroll_into_view_if_needed()
            third.screenshot("faults_opened_again")
            third.button("Stop").click()
            for page in (second, third):
                page.wait_for_status("Stopped. Run: 2 runs of 2000 steps: Post-LN; Pre-LN.")
                assert wait_for_step(page, drawn) < 2000
                page.page.locator(".lntutor-results", has_text="stopped at step").wait_for(state="attached")
                assert not page.errors()
            wait_for_step(second, wait_for_step(third, drawn))
            third.screenshot("faults_stopped")
        assert not third.complaints
    assert not second.complaints
