"""The lesson kit in a page, by keyboard and by mouse: in JupyterLab and in Voilà."""

from playwright.sync_api import Locator

from tests.browser.jupyter import SECONDS, Notebook
from tests.browser.test_live import plot_value, wait_for_plot

SETUP = """\
import os
import tempfile

import plotly.graph_objects as go

os.environ["LNTUTOR_HOME"] = tempfile.mkdtemp()

from lntutor import lesson
from lntutor.lesson import Predict


def measured():
    return go.Figure(go.Scatter(y=[3, 2, 1]), layout={"title": {"text": "Pre-LN: the gradient falls"}})
"""
LONG = (
    "it becomes smaller as the network grows deeper, because the final LN is fed a stream whose size grows with every "
    "layer, and backward through LN the gradient is divided by the size of what went in: this choice is the longest"
)
CHOICES = ["it stays the same", LONG, "it explodes"]
QUESTION = "A Pre-LN Transformer gets deeper. What happens to the gradient of its last layer?"
CHOICE = f"""Predict("depth", {QUESTION!r}, choices={CHOICES!r}, reveal=lambda: (measured(), {LONG!r}),
        because="LN divides the gradient by ‖x‖/√d.")"""


def button(notebook: Notebook, name: str, index: int = 0) -> Locator:
    return notebook.page.get_by_role("button", name=name, exact=True).nth(index)


def press(notebook: Notebook, name: str) -> None:
    """Give a button the focus and press it by key."""
    button(notebook, name).focus()
    notebook.page.keyboard.press("Enter")


def picture(notebook: Notebook, name: str, of: str = ".lntutor-ask") -> None:
    """A screenshot for people, with the question at the top."""
    notebook.page.locator(of).first.scroll_into_view_if_needed()
    notebook.page.wait_for_timeout(500)
    notebook.screenshot(f"lesson_{name}")


def cut(notebook: Notebook) -> list:
    """Choices, sentences and buttons without room for their words: class, text, and room wanted and given."""
    return notebook.page.evaluate(
        """() => [...document.querySelectorAll(
            '.lntutor-choices label, .lntutor-prose, .lntutor-ask .widget-button')]
            .filter(el => el.offsetParent)
            .filter(el => el.scrollWidth > el.clientWidth + 1 || el.scrollHeight > el.clientHeight + 1)
            .map(el => [el.className, el.textContent.slice(-40), el.scrollWidth, el.clientWidth, el.scrollHeight,
                el.clientHeight])"""
    )


def test_a_guess_by_keyboard_draws_what_was_covered(run_cells, request):
    """Oracle: no plot before; after, the figure, and the guess and the measurement in words."""
    notebook = run_cells(SETUP, CHOICE)
    page = notebook.page
    radio = page.get_by_role("radio")
    radio.first.wait_for(timeout=60 * SECONDS)
    assert radio.count() == 3
    assert page.get_by_role("radio", checked=True).count() == 0
    assert page.locator(".lntutor-live").count() == 0
    assert cut(notebook) == []
    picture(notebook, f"covered_{request.node.callspec.id}")
    radio.first.focus()
    for key in ("Tab", "Tab", "Space", "Tab"):  # every choice is a stop of its own
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.textContent") == "Store my guess"
    page.keyboard.press("Enter")
    wait_for_plot(notebook)
    page.get_by_text(f"You guessed it explodes; measured: {LONG}").wait_for()
    assert page.locator("li", has_text="it explodes").inner_text() == "it explodes (◇ your guess)"
    assert page.locator(".lntutor-live").count() == 1
    assert cut(notebook) == []
    page.get_by_text("Why", exact=True).click()
    assert page.get_by_text("LN divides the gradient by ‖x‖/√d.", exact=True).is_visible()
    picture(notebook, f"revealed_{request.node.callspec.id}")
    press(notebook, "Guess again")
    page.locator(".lntutor-live").wait_for(state="detached")
    assert page.get_by_role("radio", checked=True).count() == 0


def test_skip_reveals_and_the_cell_run_again_stays_so(in_lab):
    """Oracle: the figure, after skipping and after running all cells once more."""
    notebook = in_lab(SETUP.replace("tempfile.mkdtemp()", "tempfile.gettempdir() + '/never-made'"), CHOICE)
    button(notebook, "Store my guess").click()
    notebook.page.get_by_text("Pick an answer first, or press Skip.").wait_for()
    button(notebook, "Skip").click()
    wait_for_plot(notebook)
    notebook.page.get_by_text("Measured:").wait_for()
    notebook.run_all()
    wait_for_plot(notebook)
    assert button(notebook, "Guess again").is_visible()


def test_values_and_curves_are_set_by_keys_and_drawn_with_the_measurement(in_voila):
    """Oracle: the slider's numbers, as drawn."""
    notebook = in_voila(
        SETUP,
        'Predict("variance", "How large is the variance of q·k at d = 64?", value=(0, 100, 1), unit="per pair", '
        "reveal=lambda: 64.2)",
        'Predict("curve", "Draw the gradient of the last layer.", curve=([1, 2, 4, 8, 16], 0.1, 10), log=True, '
        "reveal=lambda: [3, 2.2, 1.5, 1.1, 0.8], unit='‖∂L/∂W₂‖')",
    )
    notebook.slider().wait_for(timeout=60 * SECONDS)
    notebook.slider(5).wait_for()
    assert cut(notebook) == []
    picture(notebook, "sliders")
    notebook.slider(0).focus()
    for _ in range(3):
        notebook.page.keyboard.press("ArrowRight")
    notebook.slider(5).focus()
    notebook.page.keyboard.press("End")
    button(notebook, "Store my guess").click()
    wait_for_plot(notebook)
    marks = plot_value(notebook, "Object.fromEntries(gd._fullData.map(t => [t.name, t.x[0]]))")
    assert marks == {"measured": 64.2, "your guess": 53}
    button(notebook, "Store my guess").click()
    wait_for_plot(notebook, index=1)
    curves = plot_value(notebook, "gd._fullData.map(t => [t.name, t.y.map(v => +v.toFixed(3))])", 1)
    assert curves == [["your guess", [1, 1, 1, 1, 10]], ["measured", [3, 2.2, 1.5, 1.1, 0.8]]]
    picture(notebook, "curves")


def test_a_button_acts_on_what_was_set_last_however_busy_the_kernel(run_cells):
    """Oracle: three keys on a slider that starts at 50, and the choice picked last; ipywidgets alone keeps back what
    is set while the kernel answers, and a click overtakes it."""
    notebook = run_cells(
        SETUP + "import time\n",
        'value = Predict("variance", "How large is it?", value=(0, 100, 1), reveal=lambda: 64.2)\n'
        'value.control.children[0].observe(lambda _: time.sleep(1.5), "value")\nvalue',
        f'choice = {CHOICE}\nchoice.control.observe(lambda _: time.sleep(1.5), "value")\nchoice',
    )
    notebook.slider().wait_for(timeout=60 * SECONDS)
    radio = notebook.page.get_by_role("radio")
    radio.nth(2).wait_for()
    notebook.slider().focus()
    for _ in range(3):
        notebook.page.keyboard.press("ArrowRight")
    button(notebook, "Store my guess").click()
    notebook.page.get_by_text("You guessed 53; measured: 64.2.", exact=True).wait_for()
    radio.nth(0).click()
    radio.nth(2).click()
    button(notebook, "Store my guess").click()
    notebook.page.get_by_text(f"You guessed it explodes; measured: {LONG}").wait_for()


def test_a_class_votes_twice(in_lab):
    """Oracle: the counts typed, as bars."""
    notebook = in_lab(SETUP, CHOICE.replace("because=", "class_mode=True, because="))
    page = notebook.page
    counts = page.locator(".lntutor-ask input[type=number]")
    counts.first.wait_for(timeout=60 * SECONDS)
    assert cut(notebook) == []
    for hands, name in (([20, 5, 5], "First vote"), ([3, 26, 1], "Second vote")):
        for i, n in enumerate(hands):
            counts.nth(i).fill(str(n))
            page.keyboard.press("Tab")
        page.wait_for_timeout(300)
        picture(notebook, name.replace(" ", "_").lower())
        press(notebook, name)
        page.wait_for_timeout(300)
    wait_for_plot(notebook, index=1)
    bars = plot_value(notebook, "gd._fullData.map(t => [t.name, Array.from(t.x), t.marker.pattern?.shape ?? ''])")
    assert bars == [["first vote", [20, 5, 5], ""], ["second vote", [3, 26, 1], "/"]]
    picture(notebook, "voted")


def test_questions_are_readable_and_answered_by_keys(in_voila):
    """Oracle: the words of the choice that was picked."""
    notebook = in_voila(SETUP, "lesson.readiness()", 'lesson.inventory("before")')
    page = notebook.page
    radio = page.get_by_role("radio")
    radio.first.wait_for(timeout=60 * SECONDS)
    radio.nth(30).wait_for(state="attached")
    radio.first.focus()
    page.keyboard.press("Space")
    press(notebook, "Store my answers")
    page.get_by_text("Check the shapes").wait_for()
    assert cut(notebook) == []
    picture(notebook, "quiz")
    page.locator(".lntutor-ask").nth(1).scroll_into_view_if_needed()
    page.get_by_text("A Pre-LN Transformer").first.scroll_into_view_if_needed()
    notebook.screenshot("lesson_inventory")


def test_in_lecture_mode_everything_is_drawn_at_once(in_lab):
    """Oracle: every plot, without a click; the ledger and a check beside them."""
    notebook = in_lab(
        SETUP + 'os.environ["LNTUTOR_REVEAL"] = "1"',
        CHOICE,
        'Predict("variance", "How large?", value=(1, 100), log=True, reveal=lambda: 64)',
        "from lntutor.lesson.claims import record, show_ledger\n\n"
        'record("attention.variance", [63.1, 64.9, 66.0], verdict="holds", size="d = 64")\nshow_ledger("01")',
        "def attention(q, k, v, mask=None):\n    return (q @ k.T).softmax(-1) @ v\n\n\n"
        'lesson.check("attention", attention)',
    )
    wait_for_plot(notebook)
    wait_for_plot(notebook, index=1)
    page = notebook.page
    page.get_by_text("Claims of notebook 01: 1 of 3 measured.").wait_for()
    assert page.get_by_text("△ attention: Not yet (missing √d)").count() == 1
    assert page.locator(".lntutor-ask .widget-button:visible").count() == 0
    picture(notebook, "lecture")
    page.get_by_text("△ attention").scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    notebook.screenshot("lesson_ledger")
