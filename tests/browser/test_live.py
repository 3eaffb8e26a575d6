"""The live plot in a page: in JupyterLab and in Voilà, unless a test says otherwise."""

import struct

import pytest
from playwright.sync_api import Locator

from tests.browser.jupyter import SECONDS, Notebook, write_notebook

SETUP = """\
import ipywidgets as widgets
import numpy as np
import plotly.graph_objects as go

from lntutor.page.live import live_plot

x = np.arange(5)


def lines(slope, *before):
    data = [go.Scatter(x=x, y=slope * x, name="line"), go.Scatter(x=x, y=x**2, name="x² <i>é</i>")]
    return go.Figure([*before, *data], layout={"title": f"Slope {slope}", "template": "plotly_white"})


def show(change):
    plot.show(lines(change.new), alt=f"A line of slope {change.new} and a parabola")


plot = live_plot(lines(1), alt="A line of slope 1 and a parabola")
slider = widgets.IntSlider(value=1, max=10)
slider.observe(show, "value")
"""
SLIDER_AND_PLOT = "widgets.VBox([slider, plot])"
LIBRARY = 1_000_000  # bytes; only plotly.js is as large


def plot_value(notebook: Notebook, expression: str, index: int = 0):
    """The value of an expression in `gd`, plotly's element of a live plot."""
    return notebook.page.evaluate(f"""() => {{
        const gd = document.querySelectorAll('.lntutor-live')[{index}].querySelector('.js-plotly-plot')
        return {expression}
    }}""")


def wait_for_plot(notebook: Notebook, condition: str = "true", index: int = 0) -> None:
    """Wait until a live plot is drawn and the condition in `gd` holds."""
    notebook.page.wait_for_function(
        f"""() => {{
            const gd = document.querySelectorAll('.lntutor-live')[{index}]?.querySelector('.js-plotly-plot')
            return gd?.querySelector('.main-svg') && gd._fullData && ({condition})
        }}""",
        timeout=60 * SECONDS,
    )


def wait_for_line(notebook: Notebook, slope: int, index: int = 0) -> None:
    """Wait until the first trace is the line of this slope."""
    heights = [slope * x for x in range(5)]
    wait_for_plot(notebook, f"JSON.stringify(Array.from(gd._fullData[0].y)) === '{heights}'.replaceAll(' ', '')", index)


def widths(notebook: Notebook) -> list[tuple[float, float]]:
    """Of every live plot, its own width and that of the picture in it."""
    return notebook.page.evaluate("""() => [...document.querySelectorAll('.lntutor-live')].map(
        el => [el.clientWidth, el.querySelector('.main-svg')?.getBoundingClientRect().width ?? 0])""")


def deliveries(notebook: Notebook) -> int:
    """How often the page was sent plotly.js."""
    return sum(size > LIBRARY for size in notebook.frames)


def drag(notebook: Notebook, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Press, move in steps as a hand does, release."""
    mouse = notebook.page.mouse
    mouse.move(*start)
    mouse.down()
    mouse.move(*end, steps=12)
    mouse.up()


def handle(notebook: Notebook) -> Locator:
    """That of the notebook's own slider, which is ipywidgets'."""
    return notebook.page.locator(".noUi-handle").first


def press(notebook: Notebook, *keys: str) -> None:
    """Give the keys to the slider."""
    handle(notebook).focus()
    for key in keys:
        notebook.page.keyboard.press(key)


def test_a_cell_draws_the_plot_as_wide_as_it_is_and_leaves_the_page_alone(run_cells, request):
    """Oracle: the figure's own numbers and text alternative; the cell's width, before and after the window's changes;
    the tab index of everything inside the image, and the names that plotly.js's bundle would set.
    """
    notebook = run_cells(SETUP, "plot")
    wait_for_line(notebook, 1)
    image = notebook.page.get_by_role("img", name="A line of slope 1 and a parabola", exact=True)
    assert image.count() == 1
    assert image.bounding_box()["height"] == 420
    [(before, drawn)] = widths(notebook)
    assert before == drawn > 800
    notebook.screenshot(f"live_{request.node.callspec.id}")

    notebook.page.set_viewport_size({"width": 1000, "height": 900})
    wait_for_plot(notebook, f"gd._fullLayout.width < {before - 100}")
    [(own, drawn)] = widths(notebook)
    assert own == drawn == before - 280
    title, tools = plot_value(
        notebook, "['.gtitle', '.modebar'].map(name => gd.querySelector(name).getBoundingClientRect().toJSON())"
    )
    assert title["bottom"] <= tools["top"]
    notebook.page.set_viewport_size({"width": 1280, "height": 900})
    wait_for_plot(notebook, f"gd._fullLayout.width === {before}")

    buttons = plot_value(notebook, "[...gd.querySelectorAll('a, button, [tabindex]')].map(node => node.tabIndex)")
    assert buttons
    assert set(buttons) == {-1}
    assert plot_value(notebook, "gd.querySelectorAll('a[href]').length") == 0
    assert notebook.page.evaluate("[typeof Plotly, typeof moduleName, typeof module]") == ["undefined"] * 3


def test_keys_and_the_mouse_move_the_picture(run_cells, request):
    """Oracle: slope × x for the number that stands beside the slider, and the text alternative of that figure."""
    notebook = run_cells(SETUP, SLIDER_AND_PLOT)
    wait_for_line(notebook, 1)
    press(notebook, "ArrowRight")
    wait_for_line(notebook, 2)
    press(notebook, "End")
    wait_for_line(notebook, 10)
    press(notebook, *["ArrowLeft"] * 9)
    wait_for_line(notebook, 1)
    assert notebook.page.get_by_role("img", name="A line of slope 1 and a parabola").count() == 1

    box = handle(notebook).bounding_box()
    start = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    drag(notebook, start, (start[0] + 100, start[1]))
    notebook.page.wait_for_function("() => Number(document.querySelector('.widget-readout').textContent) > 3")
    slope = int(notebook.page.locator(".widget-readout").inner_text())
    assert 4 <= slope <= 8
    wait_for_line(notebook, slope)
    assert deliveries(notebook) == 1
    notebook.screenshot(f"live_dragged_{request.node.callspec.id}")


def test_zoom_and_hidden_traces_survive_an_update_and_the_page_saves_a_png(in_voila):
    """Oracle: ranges and hidden names before the update, and after a double click, which resets the zoom; the PNG
    header of the saved file, twice the plot's width and height, saved once though the plot is shown twice.
    """
    buttons = """
more, keep = (widgets.Button(description=name) for name in ("More", "Keep"))
more.on_click(lambda _: plot.show(lines(2, go.Scatter(x=x, y=x + 5, name="new"))))
keep.on_click(lambda _: plot.download_png("slope"))
widgets.VBox([slider, more, keep, plot, plot])"""
    notebook = in_voila(SETUP, buttons)
    wait_for_line(notebook, 1)
    notebook.page.locator(".lntutor-live").first.scroll_into_view_if_needed()
    full_range = plot_value(notebook, "gd._fullLayout.xaxis.range")
    area = notebook.page.locator(".nsewdrag").first.bounding_box()
    corner = area["x"] + 0.3 * area["width"], area["y"] + 0.3 * area["height"]
    drag(notebook, corner, (corner[0] + 0.4 * area["width"], corner[1] + 0.4 * area["height"]))
    wait_for_plot(notebook, f"gd._fullLayout.xaxis.range[0] > {full_range[0]} + 0.5")
    zoomed = plot_value(notebook, "[gd._fullLayout.xaxis.range, gd._fullLayout.yaxis.range]")
    notebook.page.locator(".legendtoggle").nth(1).click()
    wait_for_plot(notebook, "gd._fullData[1].visible === 'legendonly'")
    press(notebook, "ArrowRight")
    wait_for_line(notebook, 2)
    notebook.page.get_by_role("button", name="More", exact=True).click()
    wait_for_plot(notebook, "gd._fullData.length === 3")
    assert plot_value(notebook, "[gd._fullLayout.xaxis.range, gd._fullLayout.yaxis.range]") == zoomed
    seen = plot_value(notebook, "Object.fromEntries(gd._fullData.map(trace => [trace.name, trace.visible]))")
    assert seen == {"new": True, "line": True, "x² <i>é</i>": "legendonly"}
    notebook.screenshot("live_zoomed")
    notebook.page.locator(".lntutor-live").first.scroll_into_view_if_needed()
    area = notebook.page.locator(".nsewdrag").first.bounding_box()
    notebook.page.mouse.dblclick(area["x"] + area["width"] / 2, area["y"] + area["height"] / 2)
    wait_for_plot(notebook, "gd._fullLayout.xaxis.autorange === true && gd._fullLayout.yaxis.autorange === true")
    assert plot_value(notebook, "gd._fullLayout.xaxis.range") == pytest.approx(full_range, abs=0.01)

    saved = []
    notebook.page.on("download", lambda download: saved.append(download))
    with notebook.page.expect_download() as waiting:
        notebook.page.get_by_role("button", name="Keep").click()
    content = waiting.value.path().read_bytes()
    assert waiting.value.suggested_filename == "slope.png"
    assert content.startswith(b"\x89PNG")
    [(own, _), _] = widths(notebook)
    assert struct.unpack(">II", content[16:24]) == (2 * own, 840)
    notebook.page.wait_for_timeout(500)
    assert len(saved) == 1


def test_a_reload_keeps_the_plot_and_a_restarted_kernel_draws_in_the_same_page(in_lab):
    """Oracle: the figure on screen before the page of a saved notebook is loaded again, its kernel alive; then the
    new kernel's figure, in a page that has plotly.js already.
    """
    notebook = in_lab(SETUP, SLIDER_AND_PLOT)
    wait_for_line(notebook, 1)
    press(notebook, "ArrowRight")
    wait_for_line(notebook, 2)
    notebook.save()
    notebook.page.reload()
    notebook.wait_for_idle()
    wait_for_line(notebook, 2)
    press(notebook, "ArrowRight")
    wait_for_line(notebook, 3)
    assert deliveries(notebook) == 2  # one per page load
    notebook.screenshot("live_reloaded")

    notebook.menu("Kernel", "kernelmenu:restart-and-clear")
    notebook.page.locator(".jp-Dialog .jp-mod-accept").click()
    notebook.page.locator(".lntutor-live").wait_for(state="detached")
    notebook.wait_for_idle()
    notebook.run_all()
    wait_for_line(notebook, 1)
    press(notebook, "ArrowRight")
    wait_for_line(notebook, 2)
    assert deliveries(notebook) == 2


def test_three_plots_share_one_library(in_lab):
    """Oracle: the messages that the page receives, by size; plotly.js compressed has 1.7 MB."""
    notebook = in_lab(SETUP, "widgets.VBox([plot, live_plot(lines(2)), live_plot(lines(3))])", "live_plot(lines(4))")
    for index in range(4):
        wait_for_line(notebook, index + 1, index)
    assert deliveries(notebook) == 1
    assert sum(notebook.frames) < 2_500_000
    notebook.screenshot("live_three")


def test_widths_fit_in_boxes(run_cells, request):
    """Oracle: the box's width, which the plots share, and the slider's, which stays."""
    notebook = run_cells(
        SETUP, "widgets.VBox([widgets.HBox([live_plot(lines(2)), live_plot(lines(3))]), widgets.HBox([slider, plot])])"
    )
    for index in range(3):
        wait_for_plot(notebook, index=index)
    box = notebook.page.locator(".widget-hbox").first.bounding_box()["width"]
    (first, first_drawn), (second, second_drawn), (third, third_drawn) = widths(notebook)
    assert first == pytest.approx(second, abs=1)
    assert first + second <= box + 1
    assert first + second > 0.95 * box
    slider = notebook.page.locator(".widget-slider").bounding_box()["width"]
    assert slider == 300
    assert 0.9 * (box - slider) < third <= box - slider
    assert (first_drawn, second_drawn, third_drawn) == (first, second, third)
    heights = "[...document.querySelectorAll('.lntutor-live')].map(el => el.clientHeight)"
    assert notebook.page.evaluate(heights) == [420] * 3
    assert not notebook.page.evaluate(
        "[...document.querySelectorAll('.widget-box')].some(box => box.scrollWidth > box.clientWidth + 1)"
    )
    notebook.screenshot(f"live_boxes_{request.node.callspec.id}")


def test_a_plot_that_was_hidden_is_right_when_it_shows(in_lab):
    """Oracle: the tab's width, and the figure that came while it was hidden."""
    notebook = in_lab(
        SETUP, "widgets.VBox([slider, widgets.Tab([widgets.Label('first'), plot], titles=['Words', 'Plot'])])"
    )
    press(notebook, "ArrowRight")
    notebook.page.locator(".lm-TabBar-tab", has_text="Plot").last.click()
    wait_for_line(notebook, 2)
    [(own, drawn)] = widths(notebook)
    assert own == drawn > 700


@pytest.mark.parametrize("lecture", [False, True])
def test_a_drawing_keeps_its_proportions_on_a_narrow_page(in_voila, lecture):
    """Oracle: the browser's boxes: the words' over those of the rectangles around them, and of the whole plot."""
    notebook = in_voila(
        "from lntutor import figures\nfrom lntutor.page import live\n"
        f"live.live_plot(figures.course_map(lecture={lecture}))"
    )
    for width in (1280, 960, 500):
        notebook.page.set_viewport_size({"width": width, "height": 900})
        wait_for_plot(notebook, f"gd._fullLayout.width <= {width} && gd._fullLayout.width > {width} - 100")
        over = """() => {
            const box = (node) => node.getBoundingClientRect()
            const within = (a, b) => a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom
            const plot = box(document.querySelector('.lntutor-live .main-svg'))
            const rectangles = [...document.querySelectorAll('.shapelayer path')].map(box)
            const wide = (word) => rectangles.some(r => Math.abs(r.left + r.right - word.left - word.right) < 2
                && r.top < word.top && word.bottom < r.bottom && word.width > r.width)
            return [...document.querySelectorAll('.annotation-text, .textpoint')]
                .filter(node => !within(box(node), plot) || wide(box(node))).map(node => node.textContent) }"""
        assert notebook.page.evaluate(over) == []


def test_a_second_notebook_in_the_page_uses_the_same_library(in_lab, scratch):
    """Oracle: the messages that the page receives, by size, from two kernels."""
    write_notebook(scratch / "second.ipynb", SETUP, "live_plot(lines(7))")
    notebook = in_lab(SETUP, "plot")
    wait_for_line(notebook, 1)
    notebook.page.locator(".jp-DirListing-item", has_text="second.ipynb").dblclick()
    notebook.page.locator(".lm-TabBar-tab.jp-mod-current", has_text="second.ipynb").wait_for()
    notebook.wait_for_idle()
    notebook.menu("Run", "runmenu:run-all")
    wait_for_line(notebook, 7, index=1)
    assert deliveries(notebook) == 1


BUSY = """\
from IPython.display import Javascript, display

later = live_plot(lines(2), alt="A line")
display(Javascript("const start = performance.now(); while (performance.now() - start < 3000) { }"))
later"""


def test_a_plot_that_comes_while_the_page_is_busy_still_follows_the_kernel(in_lab):
    """Oracle: the line that the kernel sent last; anywidget alone gives a widget up after 2 s, and the test fails."""
    notebook = in_lab(SETUP, SLIDER_AND_PLOT, BUSY, "later.show(lines(5))")
    wait_for_line(notebook, 5, index=1)
