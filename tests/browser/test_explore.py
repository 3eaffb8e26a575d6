"""The explorers in a page: in JupyterLab and in Voilà, unless a test says otherwise."""

import json

from plotly.offline import get_plotlyjs

import lntutor as ln
from lntutor.explore import BoundednessExplorer, PlacementExplorer, SignalExplorer, TheoremExplorer
from tests.browser.jupyter import SECONDS, Notebook
from tests.browser.test_live import drag, plot_value, wait_for_plot

EXPLORERS = ["GradientExplorer", "SignalExplorer", "AttentionExplorer", "LayerNormExplorer"]


def cells(code: str) -> tuple[str, str]:
    """Cells that show an explorer."""
    return f"from lntutor.explore import {', '.join(EXPLORERS)}", f"explorer = {code}\nexplorer"


def expected(depth: int, width: int = 128, placement: str = "post", seeds: int = 3) -> list[float]:
    """Mean gradient of W_2 in each decoder layer, measured here."""
    cfg = ln.ModelConfig(placement, depth, width, 4, 4 * width)
    rows = ln.gradient_norms(cfg, seeds=range(seeds)).query("side == 'decoder' and parameter == 'W_2'")
    return rows.groupby("layer")["value"].mean().tolist()


def wait_for_curve(notebook: Notebook, values: list[float], placement: str = "post", index: int = 0) -> None:
    """Wait until the decoder's measured curve of a placement is this one, to a thousandth."""
    wait_for_plot(
        notebook,
        f"""(() => {{
            const trace = gd._fullData.find(t => t.uid === 'measured_2f{placement}_2fdecoder_2fffn')
            const wanted = {json.dumps(values)}
            return trace && trace.x.length === wanted.length
                && wanted.every((v, i) => Math.abs(trace.x[i] / v - 1) < 1e-3)
        }})()""",
        index,
    )


def focus(notebook: Notebook, index: int) -> None:
    """Give the keys to a slider."""
    notebook.slider(index).scroll_into_view_if_needed()
    notebook.slider(index).focus()


def test_every_explorer_draws_fits_its_cell_and_says_what_it_shows(run_cells, request):
    """Oracle: a picture as wide as its cell, a status line, no complaint; the screenshots are for people."""
    notebook = run_cells(f"from lntutor.explore import {', '.join(EXPLORERS)}", *(f"{name}()" for name in EXPLORERS))
    for index, name in enumerate(EXPLORERS):
        explorer = notebook.page.locator(".lntutor-explorer").nth(index)
        explorer.scroll_into_view_if_needed()
        plot = explorer.locator(".lntutor-live").first
        plot.locator(".main-svg").first.wait_for(timeout=60 * SECONDS)
        explorer.locator(".lntutor-status", has_text=" ms").first.wait_for(timeout=30 * SECONDS)
        own, drawn = plot.evaluate(
            "el => [el.clientWidth, el.querySelector('.main-svg').getBoundingClientRect().width]"
        )
        assert own == drawn > 600
        assert plot.evaluate("el => el.querySelector('[role=img]').ariaLabel.length") > 60
        notebook.page.wait_for_timeout(600)
        notebook.screenshot(f"{name}_{request.node.callspec.id}")


def test_keys_mouse_and_buttons_change_the_gradients(run_cells, request):
    """Oracle: the same gradients measured in this process; traces, the line of code, the rows of the table; for a
    mistake, a sentence, and the plot that stays.
    """
    notebook = run_cells(*cells("GradientExplorer(depth=4)"))
    page = notebook.page
    wait_for_curve(notebook, expected(4))
    notebook.button("Pin").click()
    focus(notebook, 0)
    page.keyboard.press("ArrowRight")
    wait_for_curve(notebook, expected(5))
    wait_for_curve(notebook, expected(5, placement="pre"), "pre")
    assert plot_value(notebook, "gd._fullData.filter(t => t.uid.startsWith('pin0_2f')).length") > 0
    notebook.button("Copy setting").click()
    page.locator("input[type=text]").last.wait_for()
    page.wait_for_function(
        "() => [...document.querySelectorAll('input[type=text]')].some(i => i.value === 'GradientExplorer(depth=5)')"
    )
    notebook.button("Show table").click()
    page.locator("table", has_text="below_floor").first.wait_for()
    notebook.screenshot(f"gradient_pinned_{request.node.callspec.id}")
    notebook.button("Reset").click()
    wait_for_curve(notebook, expected(6))
    assert plot_value(notebook, "gd._fullData.filter(t => t.uid.startsWith('pin')).length") == 0

    notebook.slider(0).scroll_into_view_if_needed()
    box = notebook.slider(0).bounding_box()
    start = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    drag(notebook, start, (start[0] + 30, start[1]))
    page.wait_for_function("() => Number(document.querySelector('.widget-readout').textContent) > 8")
    page.wait_for_timeout(1500)
    depth = int(page.locator(".widget-readout").first.inner_text())
    wait_for_curve(notebook, expected(depth))
    notebook.screenshot(f"gradient_dragged_{request.node.callspec.id}")

    page.locator(".lntutor-placements select").first.select_option([])
    page.locator("span.wrong", has_text="Pick at least one LN position. The last picture stays.").wait_for()
    wait_for_curve(notebook, expected(depth))


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
    notebook.page.locator(".widget-dropdown select").first.select_option("Pre-LN (pre)")
    focus(notebook, 2)  # after the placement's layer and depth
    notebook.page.keyboard.press("ArrowRight")
    focus(notebook, notebook.page.locator(".noUi-handle").count() - 4)  # ε stands first of the last four
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
    notebook = in_lab(*cells("GradientExplorer(depth=4, width=32)"))
    wait_for_curve(notebook, expected(4, 32))
    picker = notebook.page.locator(".lntutor-placements select").first
    for i in range(13):
        focus(notebook, 0)
        notebook.page.keyboard.press("ArrowRight" if i % 3 else "ArrowLeft")
        focus(notebook, 1)
        notebook.page.keyboard.press("ArrowRight" if i % 2 else "ArrowLeft")
        picker.select_option(index=[i % 2])
    picker.select_option(index=[0, 1])
    depth = int(notebook.page.locator(".widget-readout").nth(0).inner_text())
    width = int(notebook.page.locator(".widget-readout").nth(1).inner_text())
    wait_for_curve(notebook, expected(depth, width))
    wait_for_curve(notebook, expected(depth, width, "pre"), "pre")


def test_reloading_the_page_keeps_the_explorer(in_lab):
    """Oracle: the same curve after a reload, and it still answers keys."""
    notebook = in_lab(*cells("GradientExplorer(depth=3)"))
    wait_for_curve(notebook, expected(3))
    notebook.save()
    notebook.page.reload()
    notebook.wait_for_idle()
    wait_for_curve(notebook, expected(3))
    focus(notebook, 0)
    notebook.page.keyboard.press("ArrowRight")
    wait_for_curve(notebook, expected(4))


def test_a_page_without_a_kernel_shows_the_same_picture(browser, tmp_path):
    """Oracle: plotly.js from disk, no server; the marks of the explorer's figure, and words where plotly.js is not."""
    explorer = SignalExplorer(depth=2, width=32)
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
    """Oracle: the browser: the letters as typed in plot, table and picker, no such element, nothing run."""
    placement = f"Placement({TYPED!r}, {TYPED!r}, PLACEMENTS['post'].layer, reference={TYPED!r})"
    notebook = in_voila(
        f"from lntutor import PLACEMENTS, Placement\nfrom lntutor.explore import *\nPLACEMENTS['mine'] = {placement}",
        "AttentionExplorer()",
        "PlacementExplorer(placement='mine')",
        "GradientExplorer(placements=['mine'], depth=2, width=16, seeds=1)",
    )
    page = notebook.page
    for index in range(3):
        wait_for_plot(notebook, index=index)
    page.get_by_label("Sentence").fill(f"{TYPED} {ONE_WORD}")
    wait_for_plot(notebook, "gd._fullLayout.xaxis.ticktext.length === 4")
    page.get_by_role("button", name="Show table").first.click()
    page.locator("td", has_text=ONE_WORD).first.wait_for(timeout=30 * SECONDS)
    assert page.locator("td", has_text="onerror=window.hacked=1><script>window.hacked=1</script><b>x</b>").count()
    drawn = page.evaluate(DRAWN)
    assert "<img" in drawn  # a tick of the map, and the placement's label in the title of the others
    assert "onerror=window.hacked=1><script" in drawn.replace("\n", "")
    assert TYPED in page.locator("select option", has_text="hacked").first.text_content().replace("\xa0", " ")
    page.locator(".lntutor-live .nsewdrag").first.hover()  # the label under the mouse is drawn from the words too
    page.wait_for_function("() => document.querySelector('.hoverlayer text')", timeout=30 * SECONDS)
    assert page.evaluate(RUN_BY_MARKUP) == [None, 0, 0]
