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
            '.lnk-option, .lntutor-prose, .lntutor-ask button')]
            .filter(el => el.offsetParent)
            .filter(el => el.scrollWidth > el.clientWidth + 1 || el.scrollHeight > el.clientHeight + 1)
            .map(el => [el.className, el.textContent.slice(-40), el.scrollWidth, el.clientWidth, el.scrollHeight,
                el.clientHeight])"""
    )


def focused(notebook: Notebook) -> str:
    """The part of a question that has the focus, or "answer"."""
    return notebook.page.evaluate(
        """() => {
            const { activeElement: it } = document
            return it.matches('.lntutor-answer') ? 'answer' : it.closest('[data-part]')?.dataset.part ?? it.tagName
        }"""
    )


def keys(notebook: Notebook, *names: str) -> None:
    for name in names:
        notebook.page.keyboard.press(name)


def test_a_guess_by_keys_draws_what_was_covered_and_the_keys_go_on_working(run_cells, request):
    """Oracle: no plot before; after, figure, guess and measurement; where the focus is after each button; no cell is
    added or cut by b, x and a, and Shift+Enter still goes to the next cell."""
    notebook = run_cells(SETUP, CHOICE, 'lesson.After("depth", "a quarter is left")')
    page = notebook.page
    radio = page.get_by_role("radio")
    radio.first.wait_for(timeout=60 * SECONDS)
    assert (radio.count(), page.get_by_role("radio", checked=True).count()) == (3, 0)
    assert page.locator(".lntutor-live").count() == 0
    after, covered = page.locator(".lntutor-ask pre"), page.get_by_text("This is shown after your guess above.")
    assert (after.count(), covered.count()) == (0, 1)
    assert cut(notebook) == []
    picture(notebook, f"covered_{request.node.callspec.id}")
    button(notebook, "Choose an answer first").click()
    assert focused(notebook) == "guess"
    keys(notebook, "2", "b", "x", "a", "m", "3", "Tab")
    assert page.evaluate("document.activeElement.textContent") == "Store my guess"
    keys(notebook, "Enter")
    wait_for_plot(notebook)
    page.get_by_text(f"You guessed it explodes; measured: {LONG}").wait_for()
    assert focused(notebook) == "answer"
    after.wait_for()
    assert covered.count() == 0
    assert page.locator("li", has_text="it explodes").inner_text() == "it explodes (◇ your guess)"
    assert cut(notebook) == []
    page.get_by_text("Why", exact=True).click()
    assert page.get_by_text("LN divides the gradient by ‖x‖/√d.", exact=True).is_visible()
    picture(notebook, f"revealed_{request.node.callspec.id}")
    button(notebook, "Guess again").click()
    page.locator(".lntutor-live").wait_for(state="detached")
    assert focused(notebook) == "guess"
    covered.wait_for()
    assert page.get_by_role("radio", checked=True).count() == 0
    keys(notebook, "1")
    button(notebook, "Store my guess").click()
    page.get_by_text("You guessed it stays the same").wait_for()
    if request.node.callspec.id == "in_lab":
        assert page.locator(".jp-Cell").count() == 3
        keys(notebook, "Shift+Enter")
        page.locator(".jp-Cell").nth(2).and_(page.locator(".jp-mod-active")).wait_for()


def test_skip_reveals_and_the_cell_run_again_stays_so(in_lab):
    """Oracle: the figure, after skipping and after running all cells once more."""
    notebook = in_lab(SETUP.replace("tempfile.mkdtemp()", "tempfile.gettempdir() + '/never-made'"), CHOICE)
    button(notebook, "Skip").click()
    wait_for_plot(notebook)
    notebook.page.get_by_text("Measured:").wait_for()
    notebook.run_all()
    wait_for_plot(notebook)
    assert button(notebook, "Guess again").is_visible()


VALUE = """Predict("variance", "How large is the variance of q·k at d = 64?", value=(0, 100, 1), unit="per pair",
        reveal=lambda: 64.2)"""
CURVE = """Predict("curve", "Draw the gradient of the last layer.", curve=([1, 2, 4, 8, 16], 0.1, 10), log=True,
        reveal=lambda: [3, 2.2, 1.5, 1.1, 0.8], unit='‖∂L/∂W₂‖')"""


def test_numbers_and_curves_start_empty_and_are_set_by_keys_and_by_a_stroke(in_voila):
    """Oracle: the numbers typed, the heights of the stroke, as drawn with the measurement; 390 pixels, too."""
    notebook = in_voila(SETUP, VALUE, CURVE)
    page = notebook.page
    page.locator(".lnk-point").nth(4).wait_for(timeout=60 * SECONDS)
    field, plot = page.get_by_label("Your guess, as a number"), page.locator(".lnk-curve svg")
    assert field.input_value() == ""
    assert page.locator(".lnk-point[data-unset]").count() == 5
    assert cut(notebook) == []
    picture(notebook, "empty")
    button(notebook, "Set the slider first").click()
    keys(notebook, "ArrowRight", "ArrowRight")
    assert field.input_value() == "52"
    keys(notebook, "5", "3", ".", "5", "Enter")
    button(notebook, "Store my guess").click()
    wait_for_plot(notebook)
    marks = plot_value(notebook, "Object.fromEntries(gd._fullData.map(t => [t.name, t.x[0]]))")
    assert marks == {"measured": 64.2, "your guess": 53.5}

    page.set_viewport_size({"width": 390, "height": 844})
    plot.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    box, last = plot.bounding_box(), page.locator(".lnk-point").nth(3).bounding_box()
    assert box["x"] + box["width"] <= 390
    page.mouse.move(box["x"] + 60, box["y"] + 14)
    page.mouse.down()
    page.mouse.move(last["x"] + last["width"] / 2, box["y"] + 14, steps=2)  # past two points without an event
    page.mouse.up()
    button(notebook, "Draw 1 more point").click()
    page.locator(".lnk-point").nth(4).focus()
    keys(notebook, "Home", "ArrowUp", "ArrowDown")
    picture(notebook, "drawn", ".lnk-curve")
    button(notebook, "Store my guess").click()
    wait_for_plot(notebook, index=1)
    curves = plot_value(notebook, "gd._fullData.map(t => [t.name, t.y.map(v => +v.toFixed(3))])", 1)
    assert curves == [["your guess", [10, 10, 10, 10, 0.1]], ["measured", [3, 2.2, 1.5, 1.1, 0.8]]]
    picture(notebook, "curves")


def test_a_button_acts_on_what_was_set_last_however_busy_the_kernel(run_cells):
    """Oracle: keys on a slider whose middle is 50, and the choice picked last; ipywidgets alone keeps back what is set
    while the kernel answers, and a click overtakes it."""
    notebook = run_cells(
        SETUP + "import time\n",
        f'value = {VALUE}\nvalue.control.observe(lambda _: time.sleep(1.5), "value")\nvalue',
        f'choice = {CHOICE}\nchoice.control.observe(lambda _: time.sleep(1.5), "value")\nchoice',
    )
    radio, slider = notebook.page.get_by_role("radio"), notebook.page.get_by_role("slider")
    radio.nth(2).wait_for(timeout=60 * SECONDS)
    slider.first.focus()
    keys(notebook, "ArrowRight", "ArrowRight", "ArrowRight")
    button(notebook, "Store my guess").click()
    notebook.page.get_by_text("You guessed 53 per pair; measured: 64.2 per pair.", exact=True).wait_for()
    radio.nth(0).click()
    radio.nth(2).click()
    button(notebook, "Store my guess").click()
    notebook.page.get_by_text(f"You guessed it explodes; measured: {LONG}").wait_for()


def test_a_class_votes_twice_by_number_keys(in_lab):
    """Oracle: the counts typed, as bars; the focus waits for the next count."""
    notebook = in_lab(SETUP + "lesson.class_votes()", CHOICE, VALUE)
    page = notebook.page
    page.locator(".lnk-hands input").first.wait_for(timeout=60 * SECONDS)
    assert page.get_by_text("25 to 50 per pair").is_visible()
    assert cut(notebook) == []
    button(notebook, "Enter the hands first").click()
    for hands in ((20, 5, 5), (3, 26, 1)):
        assert focused(notebook) == "guess"
        for count in hands:
            page.keyboard.type(str(count))
            keys(notebook, "Enter")
        assert focused(notebook) == "store"
        picture(notebook, f"votes_{hands[0]}")
        keys(notebook, "Enter")
        page.locator(".lnk-hands input").first.or_(page.locator(".lntutor-answer")).first.wait_for()
        page.wait_for_function("() => document.activeElement.matches('input, .lntutor-answer')")
    wait_for_plot(notebook, index=1)
    bars = plot_value(notebook, "gd._fullData.map(t => [t.name, Array.from(t.x), t.marker.pattern?.shape ?? ''])")
    assert bars == [["first vote", [20, 5, 5], ""], ["second vote", [3, 26, 1], "/"]]
    picture(notebook, "voted")


def test_quizzes_are_readable_in_the_dark_and_answered_by_number_keys(in_lab, request):
    """Oracle: the words of the choice that was picked; the card's colour, which follows JupyterLab's theme."""
    notebook = in_lab(SETUP, "lesson.readiness()")
    page = notebook.page
    radio = page.get_by_role("radio")
    radio.nth(10).wait_for(timeout=60 * SECONDS)
    radio.first.focus()
    keys(notebook, "1")
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    card = "getComputedStyle([...document.querySelectorAll('.lnk-option')].at(-1)).backgroundColor"
    page.wait_for_function(f"() => {card} === 'rgb(27, 32, 40)'")
    press(notebook, "Store my answers")
    page.get_by_text("Check the shapes").wait_for()
    assert cut(notebook) == []
    picture(notebook, "quiz_dark")


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
    assert page.locator(".lnk-panel button:visible").count() == 0
    picture(notebook, "lecture")
    page.get_by_text("△ attention").scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    notebook.screenshot("lesson_ledger")
