"""Assumptions, seesaw and transplant in one page of JupyterLab: mouse, keys and touch; the picker of layers."""

import json

from lntutor.explore import AssumptionExplorer, SeesawExplorer, TransplantExplorer
from tests.browser.jupyter import SECONDS, Notebook
from tests.browser.test_live import wait_for_plot

NAMES = ("TransplantExplorer", "AssumptionExplorer", "SeesawExplorer")
CHOSEN = "() => [...document.querySelectorAll('[data-layer][aria-pressed=true]')].map(box => box.dataset.layer).sort()"


def wait_for_title(notebook: Notebook, explorer, index: int) -> None:
    """Wait until a plot has the title that an explorer of this process computes from its numbers."""
    explorer.settle()
    wanted = explorer.figure.layout.title.text.replace("<br>", " ").replace("\u00a0", " ")
    found = "gd._fullLayout.title.text.replaceAll('<br>', ' ').replaceAll('\u00a0', ' ')"
    wait_for_plot(notebook, f"{found} === {json.dumps(wanted)}", index)


def test_layers_are_chosen_by_mouse_keys_and_touch_and_each_picture_follows_its_controls(in_lab):
    """Oracle: the layers that are pressed after each gesture, and the titles computed in this process."""
    notebook = in_lab(*(f"from lntutor.explore import {name}\n{name}()" for name in NAMES))
    page = notebook.page
    for index in range(3):
        wait_for_plot(notebook, index=index)

    def box(name: str):
        return page.locator(f'[data-layer="{name}"]')

    def middle(name: str) -> tuple[float, float]:
        place = box(name).bounding_box()
        return place["x"] + place["width"] / 2, place["y"] + place["height"] / 2

    def expect(*names: str) -> None:
        assert page.evaluate(CHOSEN) == sorted(names)
        wait_for_title(notebook, TransplantExplorer(warmed=names), 0)

    box("embeddings").scroll_into_view_if_needed()
    box("decoder.2").click()
    expect("decoder.2")
    page.mouse.move(*middle("encoder.1"))  # a stroke over three boxes, one of them on already
    page.mouse.down()
    for name in ("encoder.2", "decoder.2", "decoder.1"):
        page.mouse.move(*middle(name), steps=8)
    page.mouse.up()
    expect("decoder.1", "decoder.2", "encoder.1", "encoder.2")
    box("decoder.2").click()
    box("encoder.1").click()
    box("decoder.1").click()
    expect("encoder.2")
    box("decoder.2").click(modifiers=["Shift"])  # from decoder.1, the last one, which is off
    expect("encoder.2")
    page.get_by_role("button", name="All of the encoder").click()
    expect("encoder.1", "encoder.2")

    cells = page.locator(".jp-Cell").count()
    box("embeddings").focus()
    for key in ("Space", "ArrowUp", "ArrowRight", "Space", "Shift+ArrowUp", "b", "x"):
        page.keyboard.press(key)
    assert page.locator(".jp-Cell").count() == cells  # letters stay with the picker
    assert page.evaluate("() => document.activeElement.dataset.layer") == "decoder.2"
    expect("decoder.1", "decoder.2", "embeddings", "encoder.1", "encoder.2")
    notebook.screenshot("transplant_everything")

    touch = page.context.new_cdp_session(page)
    for kind, name in (("touchStart", "decoder.1"), ("touchMove", "decoder.2"), ("touchEnd", None)):
        points = [dict(zip("xy", middle(name), strict=True))] if name else []
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    expect("embeddings", "encoder.1", "encoder.2")
    run = page.locator(".lntutor-transplant").get_by_role("button", name="Run", exact=True)
    assert run.is_enabled()
    page.get_by_text("“all but the decoder” is not stored").wait_for()
    page.get_by_role("radio", name="Post-LN, 6-6").check()
    box("decoder.6").wait_for(timeout=30 * SECONDS)

    page.get_by_role("switch", name="Decoder").check()
    page.get_by_role("radio", name="every layer").check()
    wait_for_title(notebook, AssumptionExplorer(cross=True, view="layer"), 1)
    assert page.get_by_role("switch", name="Causal mask").is_disabled()
    notebook.screenshot("assumptions_decoder")
    page.locator(".lnk-chip", has_text="Peri-LN").last.click()
    depth = page.get_by_role("slider", name="Depth L").last
    depth.focus()
    page.keyboard.press("ArrowRight")
    wait_for_title(notebook, SeesawExplorer(placements=["post", "pre", "peri"], depth=7), 2)
    notebook.screenshot("seesaw_of_three")
