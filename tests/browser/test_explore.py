"""The explorers in a page: in JupyterLab and in Voilà, unless a test says otherwise."""

import json

from plotly.offline import get_plotlyjs

from lntutor import explore
from lntutor.explore import BoundednessExplorer, PlacementExplorer, TheoremExplorer
from tests.browser.jupyter import SECONDS, Notebook
from tests.browser.test_live import drag, wait_for_plot

EXPLORERS = ["TheoremExplorer", "AttentionExplorer", "LayerNormExplorer", "PlacementExplorer"]
STALE = "document.querySelector('.lntutor-view').dataset"


def cells(code: str) -> tuple[str, str]:
    """Cells that show an explorer."""
    return f"from lntutor.explore import {', '.join(EXPLORERS)}", f"explorer = {code}\nexplorer"


def wait_for_picture(notebook: Notebook, explorer, index: int = 0) -> None:
    """Wait until a plot shows all curves that an explorer of this process draws, to a thousandth."""
    explorer.settle()
    curves = [[_numbers(trace.x), _numbers(trace.y)] for trace in explorer.figure.data]
    wait_for_plot(
        notebook,
        f"""(() => {{
            const wanted = {json.dumps(curves)}
            const near = (a, b) => b === null || a && a.length === b.length
                && b.every((v, i) => v === null || Math.abs(a[i] - v) <= 1e-3 * Math.abs(v))
            return wanted.length === gd._fullData.length
                && wanted.every(([x, y], i) => near(gd._fullData[i].x, x) && near(gd._fullData[i].y, y))
        }})()""",
        index,
    )


def _numbers(values) -> list[float | None] | None:
    """As JSON has them, None in the gaps."""
    return None if values is None else [None if one is None or one != one else float(one) for one in values]


SIZES = {"in_lab": {"width": 1280, "height": 720}, "in_voila": {"width": 390, "height": 844}}
HEIGHTS = """root => {
    const height = (part) => root.querySelector(`:scope > ${part}`).offsetHeight
    const screen = root.closest('.jp-WindowedPanel-outer')?.clientHeight ?? innerHeight
    return { screen, needed: innerWidth > 500 ? root.offsetHeight : height('.lnk-panel') + height('.lntutor-view') }
}"""
IS_WHOLE = """list => [...list.children].every(item => {
    const { left, right, top, bottom } = item.getBoundingClientRect()
    const corners = [[left + 9, top + 9], [right - 9, bottom - 9]]
    return corners.every(([x, y]) => item.contains(document.elementFromPoint(x, y)))
})"""
WIDTHS = """root => [...root.querySelectorAll('input[type=range]')].filter(one => one.checkVisibility())
    .map(one => one.offsetWidth)"""


def test_every_explorer_draws_and_shares_a_screen_with_its_controls(run_cells, request):
    """Oracle: the browser's boxes, in JupyterLab's own window and on a phone: the picture as wide as its place, no
    slider under 240 pixels where there is room, and all, work that has ended included, within what the screen shows.
    """
    explorers = {
        **dict.fromkeys(sorted({*explore.__all__} - {"Playground"}), ""),
        "TrainingExplorer": "depth=1, width=16, steps=20",
        "CurvatureExplorer": "depth=1, width=16, pairs=10, products=10",
    }
    imports = f"from lntutor.explore import training, {', '.join(explorers)}\n\ntraining.PAIRS = 8"
    notebook = run_cells(imports, *(f"{name}({state})" for name, state in explorers.items()))
    notebook.page.set_viewport_size(SIZES[request.node.callspec.id])
    for index, name in enumerate(explorers):
        explorer = notebook.page.locator(".lntutor-explorer").nth(index)
        explorer.scroll_into_view_if_needed()
        plot = explorer.locator(".lntutor-live").first
        plot.locator(".main-svg").first.wait_for(timeout=60 * SECONDS)
        run = explorer.get_by_role("button", name="Run", exact=True)
        if run.count() and run.is_enabled():  # what is stored needs no run
            run.click()
            explorer.locator(".lntutor-status", has_text="done in").wait_for(timeout=60 * SECONDS)
        assert explorer.locator(".lntutor-status").inner_text()
        wait_for_plot(notebook, "gd._fullLayout.width === gd.closest('.lntutor-live').clientWidth", index)
        assert plot.evaluate("el => el.querySelector('[role=img]').ariaLabel.length") > 60
        explorer.evaluate("el => el.scrollIntoView()")
        notebook.page.wait_for_timeout(500)
        notebook.screenshot(f"{name}_{request.node.callspec.id}")
        heights = explorer.evaluate(HEIGHTS)
        assert heights["needed"] <= heights["screen"], name
        explorer.locator(".lnk-menu summary").click()
        assert explorer.locator(".lnk-menu-list").evaluate(IS_WHOLE), name
        notebook.page.keyboard.press("Escape")
        assert min(explorer.evaluate(WIDTHS), default=240) >= (240 if request.node.callspec.id == "in_lab" else 150), (
            name
        )


def test_keys_mouse_field_and_buttons_change_the_picture(run_cells, request):
    """Oracle: the same measured in this process; the line of code, the rows of the table; for a mistake, a sentence,
    and the plot that stays.
    """
    notebook = run_cells(*cells("TheoremExplorer(depth=4, width=32, seeds=2)"))
    page, expected = notebook.page, TheoremExplorer(depth=4, width=32, seeds=2)
    wait_for_picture(notebook, expected)
    slider = notebook.slider("Depth L")
    assert slider.bounding_box()["width"] >= 240
    page.keyboard.press("ArrowRight")
    expected.set(depth=5)
    wait_for_picture(notebook, expected)
    notebook.choose("Copy as Python")
    copied = page.locator(".lntutor-foot").get_by_label("Copied text")
    copied.wait_for()
    assert copied.input_value() == "TheoremExplorer(depth=5, width=32, seeds=2)"
    notebook.choose("Show or hide the table")
    page.locator("table", has_text="placement").first.wait_for()
    notebook.screenshot(f"theorem_table_{request.node.callspec.id}")
    page.get_by_role("switch", name="Theorem 1's bound").check()
    expected.set(bound=True)
    wait_for_picture(notebook, expected)
    assert not copied.is_visible()  # the line would not be true any more

    page.get_by_label("Depth L, as a number").fill("9")
    page.keyboard.press("Enter")
    expected.set(depth=9)
    wait_for_picture(notebook, expected)
    page.get_by_label("Depth L, as a number").fill("90")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="Depth L must be in 1..48, got 90").wait_for()
    wait_for_picture(notebook, expected)

    box = slider.bounding_box()
    start = box["x"] + box["width"] * 8 / 47, box["y"] + box["height"] / 2
    drag(notebook, start, (start[0] + 30, start[1]))
    page.wait_for_function("() => Number(document.querySelector('[aria-label=\"Depth L\"]').ariaValueText) > 11")
    expected.set(depth=int(slider.get_attribute("aria-valuetext")))
    wait_for_picture(notebook, expected)
    notebook.screenshot(f"theorem_dragged_{request.node.callspec.id}")
    notebook.button("Reset").click()
    wait_for_picture(notebook, TheoremExplorer())
    assert page.get_by_role("radio", name="depth, one token").is_checked()  # the preset in force


WATCH = """() => {
    window.marks = []
    window.waits = []
    const view = document.querySelector('.lntutor-view')
    const note = () => marks.push(`${view.dataset.note ?? ''}${view.dataset.stale === undefined ? '' : ' (stale)'}`)
    new MutationObserver(note).observe(view, { attributes: true, attributeFilter: ['data-note'] })
    const [later, now] = [setTimeout, performance.now.bind(performance)]
    window.slowness = 1 // seconds of the clock on the wall in one of the page's
    performance.now = () => now() / slowness
    window.setTimeout = (act, wait, ...given) => waits.push(wait) && later(act, wait * slowness, ...given)
}"""
SLOW = """
import time
measure, explorer.wait = explorer.measure, 0.0
def slowly(state, quick):
    time.sleep(explorer.wait if quick else 3 * explorer.wait)
    return measure(state, quick)
explorer.measure = slowly"""


def test_an_old_picture_says_so_and_a_draft_too(in_lab, scratch_server):
    """Oracle: what the picture says of itself, move by move. The page's own clock runs a hundred times slower where the
    answer is to be quick, and the kernel sleeps where it is to be late; what the page waits for is less than 100 ms.
    """
    notebook = in_lab(*cells("TheoremExplorer(depth=2, width=16, seeds=2)"), SLOW)
    page = notebook.page
    wait_for_plot(notebook)
    page.wait_for_function(f"() => {STALE}.note === undefined")
    notebook.slider("Depth L")
    page.evaluate(WATCH)
    page.evaluate("slowness = 100")
    page.keyboard.press("ArrowRight")
    wait_for_picture(notebook, TheoremExplorer(depth=3, width=16, seeds=2))
    page.wait_for_function(f"() => {STALE}.note === undefined")
    assert set(page.evaluate("marks")) <= {"a draft: 1 of 2 networks", ""}
    scratch_server.ask("explorer.wait = 0.8")
    page.evaluate("slowness = 1, waits.length = marks.length = 0")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => marks.includes('a draft: 1 of 2 networks')")
    wait_for_picture(notebook, TheoremExplorer(depth=4, width=16, seeds=2))
    page.wait_for_function(f"() => {STALE}.note === undefined")
    assert page.evaluate("marks") == ["updating … (stale)", "a draft: 1 of 2 networks", ""]
    assert 0 < min(page.evaluate("waits")) < 100
    scratch_server.ask("explorer.wait = 4")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => marks.includes('still computing … (stale)')")


def test_the_explorers_of_placements_and_of_the_theorem_follow_their_controls(in_voila):
    """Oracle: the titles of the same figures drawn in this process; the screenshots are for people."""
    names = ("PlacementExplorer", "TheoremExplorer", "BoundednessExplorer")
    notebook = in_voila(
        f"from IPython.display import display\nfrom lntutor.explore import {', '.join(names)}",
        f"display({', '.join(f'{name}()' for name in names)})",
    )
    moved = [PlacementExplorer(placement="pre"), TheoremExplorer(depth=25), BoundednessExplorer(epsilon=0.11)]
    for index in range(3):
        wait_for_plot(notebook, index=index)
    notebook.chip("Pre-LN").click()
    for name in ("Depth L", "ε"):
        notebook.slider(name) if name == "ε" else notebook.page.get_by_role("slider", name=name).first.focus()
        notebook.page.keyboard.press("ArrowRight")
    for index, explorer in enumerate(moved):
        explorer.settle()
        wanted = json.dumps(explorer.figure.layout.title.text)
        wait_for_plot(notebook, f"gd._fullLayout.title.text === {wanted}", index)
        notebook.page.locator(".lntutor-live").nth(index).scroll_into_view_if_needed()
        notebook.page.wait_for_timeout(400)
        notebook.screenshot(f"{names[index]}_moved")


def test_forty_quick_moves_on_three_controls_end_in_the_right_picture(in_lab):
    """Oracle: the final values of the controls, measured in this process."""
    notebook = in_lab(*cells("TheoremExplorer(depth=4, width=32, seeds=2)"))
    expected = TheoremExplorer(depth=4, width=32, seeds=2)
    wait_for_picture(notebook, expected)
    bound = notebook.page.get_by_role("switch", name="Theorem 1's bound")
    for i in range(13):
        notebook.slider("Depth L").press("ArrowRight" if i % 3 else "ArrowLeft")
        notebook.slider("Width d").press("ArrowRight" if i % 2 else "ArrowLeft")
        bound.click()
    depth, width = (int(notebook.slider(name).get_attribute("aria-valuetext")) for name in ("Depth L", "Width d"))
    expected.set(depth=depth, width=width, bound=True)
    wait_for_picture(notebook, expected)


def test_reloading_the_page_keeps_the_explorer(in_lab):
    """Oracle: the same curves after a reload, and it still answers keys."""
    notebook = in_lab(*cells("TheoremExplorer(depth=3)"))
    wait_for_picture(notebook, TheoremExplorer(depth=3))
    notebook.save()
    notebook.page.reload()
    notebook.wait_for_idle()
    wait_for_picture(notebook, TheoremExplorer(depth=3))
    notebook.slider("Depth L").press("ArrowRight")
    wait_for_picture(notebook, TheoremExplorer(depth=4))


def test_a_page_without_a_kernel_shows_the_same_picture(browser, tmp_path):
    """Oracle: plotly.js from disk, no server; the marks of the explorer's figure, and words where plotly.js is not."""
    explorer = TheoremExplorer(depth=2, width=32)
    twin = explorer._repr_mimebundle_()["text/html"]
    (tmp_path / "plotly.js").write_text(get_plotlyjs())
    for name, head in (("drawn", '<script src="plotly.js"></script>'), ("words", "")):
        (tmp_path / f"{name}.html").write_text(f'<!DOCTYPE html><meta charset="utf-8">{head}{twin}{twin}')
    page = browser.new_page()
    page.goto((tmp_path / "drawn.html").as_uri())
    assert page.locator("figure .js-plotly-plot").count() == 2
    drawn = page.evaluate("document.querySelector('.js-plotly-plot').data.map(trace => trace.uid)")
    assert drawn == [trace.uid.replace("/", "_2f") for trace in explorer.figure.data]
    assert not page.locator("figure p").first.is_visible()
    page.goto((tmp_path / "words.html").as_uri())
    assert page.locator("figure p").first.inner_text() == explorer.plot.alt
    page.close()


TYPED = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script><b>x</b>"
ONE_WORD = "<img/src=x/onerror=window.hacked=1>"  # browsers read it as the same
RUN_BY_MARKUP = """() => [window.hacked, document.querySelectorAll('img[src="x"], [onerror]').length,
    [...document.scripts].filter(script => script.textContent.startsWith('window.hacked')).length]"""
DRAWN = "() => [...document.querySelectorAll('.lntutor-live svg text')].map(text => text.textContent).join('\\n')"


def test_markup_that_is_typed_is_shown_and_not_run(in_voila):
    """Oracle: the browser: the letters as typed in plot, table and chip, no such element, nothing run."""
    placement = f"Placement({TYPED!r}, {TYPED!r}, PLACEMENTS['post'].layer, reference={TYPED!r})"
    notebook = in_voila(
        f"from lntutor import PLACEMENTS, Placement\nfrom lntutor.explore import *\nPLACEMENTS['mine'] = {placement}",
        "AttentionExplorer()",
        "PlacementExplorer(placement='mine')",
    )
    page = notebook.page
    for index in range(2):
        wait_for_plot(notebook, index=index)
    page.get_by_label("Sentence").fill(f"{TYPED} {ONE_WORD}")
    wait_for_plot(notebook, "gd._fullLayout.xaxis.ticktext.length === 4")
    notebook.choose("Show or hide the table")
    page.locator("td", has_text=ONE_WORD).first.wait_for(timeout=30 * SECONDS)
    assert page.locator("td", has_text="onerror=window.hacked=1><script>window.hacked=1</script><b>x</b>").count()
    drawn = page.evaluate(DRAWN)
    assert "<img" in drawn  # a tick of the map, and the placement's label in the title of the others
    assert "onerror=window.hacked=1><script" in drawn.replace("\n", "")
    assert page.locator(".lnk-chip[data-key=mine]").inner_text() == TYPED
    page.locator(".lntutor-live .nsewdrag").first.hover()  # the label under the mouse is drawn from the words too
    page.wait_for_function("() => document.querySelector('.hoverlayer text')", timeout=30 * SECONDS)
    assert page.evaluate(RUN_BY_MARKUP) == [None, 0, 0]
