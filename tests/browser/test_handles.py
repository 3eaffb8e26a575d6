"""Handles on a plot in JupyterLab: the explorers of the schedule and of stored runs, and Adam's beside them."""

import pytest

from lntutor.explore import AdamExplorer, RatesExplorer, ScheduleExplorer
from tests.browser.jupyter import Notebook
from tests.browser.test_explore import wait_for_picture
from tests.browser.test_live import plot_value, wait_for_plot

NAMES = ("ScheduleExplorer", "AdamExplorer", "RatesExplorer")


def centre(locator) -> tuple[float, float]:
    """The middle of an element, in the page."""
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def place(notebook: Notebook, index: int, x: float, y: float, panel: str = "") -> tuple[float, float]:
    """Where plotly puts a place on its axes, in the page."""
    return tuple(plot_value(notebook, f"""(() => {{
        const [box, layout] = [gd.getBoundingClientRect(), gd._fullLayout]
        const [x, y] = [layout.xaxis{panel}, layout.yaxis{panel}]
        return [box.left + x._offset + x.d2p({x}), box.top + y._offset + y.d2p({y})]
    }})()""", index))  # fmt: skip


def test_handles_are_dragged_by_hand_and_by_keys_and_a_square_opens_its_run(in_lab):
    """Oracle: explorers of this process with the same state; the pointer's own place; plotly's axes; sliders beside."""
    notebook = in_lab(f"from lntutor.explore import {', '.join(NAMES)}", *(f"{name}()" for name in NAMES))
    page, mouse = notebook.page, notebook.page.mouse
    first, second, third = (page.locator(".lntutor-explorer").nth(index) for index in range(3))
    first.scroll_into_view_if_needed()
    expected = ScheduleExplorer()
    wait_for_picture(notebook, expected)
    end, peak, step = (
        first.get_by_role("slider", name=name)
        for name in ("End of warm-up", "Peak of the schedule", "Step that is read")
    )
    assert centre(peak) == pytest.approx(place(notebook, 0, 200, 0.01), abs=1)
    assert min(peak.bounding_box()[side] for side in ("width", "height")) >= 44  # for a finger

    # By keys: the sliders beside them follow, and the other way round.
    end.focus()
    page.keyboard.press("ArrowRight")
    expected.set(warmup=205)
    wait_for_picture(notebook, expected)
    slider = first.get_by_role("slider", name="Warm-up T", exact=True)
    assert slider.get_attribute("aria-valuetext") == "205"
    assert end.get_attribute("aria-valuetext") == "Warm-up T 205"
    peak.focus()
    page.keyboard.press("ArrowDown")
    expected.set(lr=expected.controls["lr"].values[39])
    wait_for_picture(notebook, expected)
    field = first.get_by_label("Warm-up T, as a number")
    field.fill("100")
    field.press("Enter")
    expected.set(warmup=100)
    wait_for_picture(notebook, expected)
    assert centre(end)[0] == pytest.approx(place(notebook, 0, 100, 0)[0], abs=1)

    # By hand: what is held stays under the pointer, also where another picture would have other axes.
    top = plot_value(notebook, "gd._fullLayout.yaxis.range[1]")
    start, target = centre(peak), (place(notebook, 0, 400, 0)[0], place(notebook, 0, 0, top / 8)[1])
    mouse.move(start[0] + 5, start[1] + 3)
    mouse.down()
    mouse.move(target[0] + 5, target[1] + 3, steps=8)
    peak_at = "([node, top]) => Math.abs(node.getAttribute('aria-valuenow') - top / 8) < top / 200"
    page.wait_for_function(peak_at, arg=[peak.element_handle(), top])
    state = {"warmup": int(slider.get_attribute("aria-valuetext")), "lr": float(peak.get_attribute("aria-valuenow"))}
    assert state["warmup"] == pytest.approx(400, abs=5)
    page.wait_for_timeout(300)  # Python's answers are there
    assert plot_value(notebook, "gd._fullLayout.yaxis.range[1]") == top
    assert centre(peak) == pytest.approx(target, abs=4)  # to the nearest value of the slider
    mouse.up()
    expected.set(**state)
    wait_for_picture(notebook, expected)
    wait_for_plot(notebook, f"gd._fullLayout.yaxis.range[1] === {expected.figure.layout.yaxis.range[1]}")
    assert centre(peak) == pytest.approx(place(notebook, 0, state["warmup"], state["lr"]), abs=1)

    # By a finger.
    start, target = centre(step), place(notebook, 0, 500, 0)[0]
    client = page.context.new_cdp_session(page)
    for kind, x in (("touchStart", start[0]), ("touchMove", (start[0] + target) / 2), ("touchMove", target)):
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": start[1]}]})
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    read = first.get_by_role("slider", name="Read at step", exact=True).get_attribute("aria-valuetext")
    assert int(read) == pytest.approx(500, abs=5)
    expected.set(read=int(read))
    wait_for_picture(notebook, expected)
    notebook.screenshot("ScheduleExplorer")

    # Adam, by its controls.
    adam = AdamExplorer(uncorrected=True)
    second.scroll_into_view_if_needed()
    second.get_by_text("Also without correction").click()
    wait_for_picture(notebook, adam, 1)
    notebook.screenshot("AdamExplorer")
    second.get_by_role("radio", name="a thousand times larger").check(force=True)
    wait_for_picture(notebook, AdamExplorer(scale=1000.0), 1)

    # A square of a map: a click, then keys, which go on to the other map.
    runs = RatesExplorer()
    third.scroll_into_view_if_needed()
    wait_for_picture(notebook, runs, 2)
    mouse.click(*place(notebook, 2, 3, 1))
    runs.set(lr=0.001, warmup=200)
    wait_for_picture(notebook, runs, 2)
    square = third.get_by_role("slider", name="Chosen square")
    assert centre(square) == pytest.approx(place(notebook, 2, 3, 1), abs=2)
    assert square.get_attribute("aria-valuetext") == "Warm-up steps 200, Learning rate 0.001, Placement Post-LN"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    runs.set(placement="pre", warmup=0, lr=0.003)
    wait_for_picture(notebook, runs, 2)
    assert centre(square) == pytest.approx(place(notebook, 2, 0, 2, "2"), abs=2)
    assert third.get_by_role("radio", name="Pre-LN", exact=True, include_hidden=True).is_checked()
    assert third.locator(".lntutor-status").inner_text().startswith("“")
    notebook.screenshot("RatesExplorer")
