"""The training explorer in a page: curves grow, Stop stops, a preset is a queue, and the page stays free meanwhile."""

from tests.browser.jupyter import Notebook
from tests.browser.test_live import plot_value, wait_for_plot

SETUP = "from lntutor.explore import TrainingExplorer, training\n\ntraining.PAIRS = 8"


def wait_for_points(notebook: Notebook, run: str, least: int) -> None:
    """Wait until the loss of a run has so many points."""
    loss = f"gd._fullData.find(t => t.uid.startsWith('loss') && t.name === '{run}')"
    wait_for_plot(notebook, f"{loss}?.x.length >= {least}")


def test_a_training_grows_is_stopped_and_the_runs_of_a_figure_follow(in_lab):
    """Oracle: points in the page, a slider that answers, the names of the preset's runs; pictures are for people."""
    notebook = in_lab(SETUP, "TrainingExplorer(depth=1, width=16, steps=2000)")
    wait_for_plot(notebook)
    notebook.wait_for_status("Run: 2 runs of 2000 steps: Post-LN; Pre-LN.")
    notebook.button("Run").click()
    wait_for_points(notebook, "Post-LN", 5)
    drawn = plot_value(notebook, "gd._fullData[0].x.length")
    notebook.slider("Warm-up").press("ArrowRight")  # to 1, while the training goes on
    wait_for_points(notebook, "Post-LN", drawn + 5)
    assert notebook.button("Run").is_disabled()
    notebook.screenshot("training_grows")
    notebook.button("Stop").click()
    notebook.wait_for_status("Stopped. Run: 2 runs of 2000 steps: Post-LN, warm-up 1; Pre-LN, warm-up 1.")
    notebook.page.get_by_role("radio", name="How it ended").check()
    notebook.page.locator(".lntutor-results", has_text="stopped at step").wait_for()
    notebook.button("Clear").click()
    notebook.wait_for_status("Run: 2 runs of 2000 steps: Post-LN; Pre-LN.")

    notebook.page.get_by_text("More settings").click()
    notebook.slider("Steps").press("Home")
    notebook.page.get_by_role("radio", name="figure 5").check()
    notebook.wait_for_status("Run: 2 runs of 20 steps: Post-LN, warm-up 200; Pre-LN, no warm-up.")
    notebook.button("Run").click()
    notebook.wait_for_status("2 runs done in")
    wait_for_points(notebook, "Pre-LN, no warm-up", 20)
    legend = plot_value(notebook, "gd._fullData.filter(t => t.showlegend).map(t => t.name)")
    assert legend == ["Post-LN, warm-up 200", "Pre-LN, no warm-up"]
    assert plot_value(notebook, "gd._fullLayout.xaxis.range")[1] > 20
    notebook.screenshot("training_figure_5")
    notebook.page.get_by_role("radio", name="How it ended").check()
    notebook.page.locator(".lntutor-results", has_text="finished, 20 steps").wait_for()
    notebook.screenshot("training_how_it_ended")
    assert not notebook.page.locator(".lntutor-live").is_visible()


def test_a_training_runs_to_its_end_in_voila(in_voila):
    """Oracle: every step in the page, and a sentence that was held out with its score."""
    notebook = in_voila(SETUP, 'TrainingExplorer(depth=1, width=16, steps=20, placements=["pre"])')
    wait_for_plot(notebook)
    notebook.button("Run").click()
    notebook.wait_for_status("1 run done in")
    wait_for_points(notebook, "Pre-LN", 20)
    notebook.page.get_by_role("radio", name="How it ended").check()
    rows = notebook.page.locator(".lntutor-results table").first.locator("tbody tr")
    rows.first.wait_for()
    assert [row.split("\t")[:2] for row in rows.all_inner_texts()] == [["Pre-LN", "finished, 20 steps"]]
    assert notebook.page.locator('.lntutor-results td[lang="de"]').count() == 3
    notebook.screenshot("training_voila")
