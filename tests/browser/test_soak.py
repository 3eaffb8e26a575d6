"""A short soak in a real page: three explorers driven by turns, by keys and mouse. `make soak` is the long one."""

from tests.browser.jupyter import SECONDS
from tests.browser.soak import PageDriver, cells
from tests.browser.test_live import wait_for_plot

NAMES = ("TheoremExplorer", "PlacementExplorer", "LayerNormExplorer")
MOVES = 14


def test_random_moves_in_a_page_end_in_the_same_controls_and_picture_as_in_the_kernel(in_lab):
    """Oracle: page and kernel, each asked what it shows; a console without errors."""
    notebook = in_lab(*cells(*NAMES))
    drivers = [PageDriver(notebook, name, seed=1) for name in NAMES]
    for driver in drivers:
        driver.check()
    for moves in zip(*(driver.moves.draw(MOVES) for driver in drivers), strict=True):
        for driver, move in zip(drivers, moves, strict=True):
            driver.make(move)
    for driver in drivers:
        driver.check()
        driver.end()


def test_a_cell_that_is_run_again_leaves_no_explorer_behind(in_lab):
    """Oracle: ipywidgets' own list, printed by the kernel after every run; the new picture is there."""
    count = (
        "from ipywidgets.widgets.widget import _instances\n\nprint(f'{len(_instances)} widgets, run {len(In) // 3}')"
    )
    notebook = in_lab("from lntutor.explore import LayerNormExplorer", "LayerNormExplorer()", count)
    first = notebook.outputs()
    for run in (2, 3):
        notebook.menu("Run", "runmenu:run-all")
        notebook.page.get_by_text(f"widgets, run {run}").wait_for(timeout=60 * SECONDS)
        wait_for_plot(notebook)
    assert first.split(" widgets")[0].split()[-1] == notebook.outputs().split(" widgets")[0].split()[-1]
