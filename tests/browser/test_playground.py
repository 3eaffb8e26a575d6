"""The playground as readers meet it: from disk, in JupyterLab, in Voilà; by mouse, finger and keys."""

import json
import math
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser, Page

import lntutor as ln
from lntutor.explore import Playground as Widget
from lntutor.measure.recorder import AGREEMENT, FAINT, GRADIENT_COLUMNS
from lntutor.model.parameters import matrices
from lntutor.model.placements import ALL_SLOTS, SLOTS, in_slots
from lntutor.model.state import model_config, model_inputs
from lntutor.page.playground import page as playground
from lntutor.theory.paper import lemma_2_pre
from tests.browser.jupyter import HERE, SECONDS
from tests.browser.test_site import MOVING, violations

SMALL = {"depth": 3, "width": 32, "heads": 2, "tokens": 8, "seeds": 2}
ROOT = "[data-lntutor=playground]"
MATRIX = ["side", "layer", "block", "parameter", "seed"]
# In the page, before its scripts: workers whose answers `delay(message)` holds back and `change(message)` rewrites.
WORKERS = """
globalThis.delay = () => 0
globalThis.workers = 0
globalThis.change = (message) => message
const Real = globalThis.Worker
globalThis.Worker = class extends Real {
  set onmessage(act) {
    super.onmessage = ({ data }) => {
      const message = { ...data, seed: this.seed, which: this.which }
      const wait = delay(message)
      this.last = (this.last ?? Promise.resolve()).then(() => new Promise((done) => setTimeout(done, wait)))
      this.last.then(() => act({ data: change(message) })) // in their order
    }
  }
  postMessage(message) {
    if (message.wasm) [this.seed, this.which] = [message.seed, ++workers]
    super.postMessage(message)
  }
}
"""


class Playground:
    """A playground in a page: what the reader does, and what the page then has."""

    def __init__(self, page: Page, index: int = 0):
        self.page = page
        self.root = page.locator(ROOT).nth(index)

    @property
    def state(self) -> dict:
        return self.root.evaluate("node => node.state")

    def set(self, **state) -> None:
        self.root.evaluate("(node, state) => { node.state = state }", state)

    def settled(self, **wanted) -> pd.DataFrame:
        """The table, once the state has what is `wanted` and all networks have answered."""
        same = "String(node.state[name]) === String(value)"
        self.wait(f"Object.entries(given[0]).every(([name, value]) => {same})", wanted)
        state = self.state
        models = len({state["placement"], *state["compare"]})
        count = models * len(matrices(config(state))) * state["seeds"]
        node = self.root.element_handle()
        full = "([node, count]) => node.table.length === count && !('stale' in node.dataset)"
        self.page.wait_for_function(full, arg=[node, count], timeout=60 * SECONDS)
        values = node.evaluate("node => node.table.map((row) => ({ ...row, value: String(row.value) }))")
        return pd.DataFrame(values).assign(value=lambda table: table["value"].astype(float))

    def part(self, name: str):
        return self.root.locator(f".lnp-{name}")

    def text(self, name: str) -> str:
        return self.part(name).first.inner_text()

    def slot(self, slot: str):
        return self.root.locator(f".lnp-slot[data-slot={slot}]")

    def slots(self) -> str:
        """The slots that are switched on, as the drawing has them."""
        return "".join(slot for slot in SLOTS if self.slot(slot).get_attribute("aria-checked") == "true")

    def chip(self, key: str):
        return self.root.locator(f".lnk-chip[data-key={key}]")

    def slider(self, label: str):
        return self.root.get_by_role("slider", name=label, exact=True)

    def choose(self, words: str) -> None:
        """Press an item of the menu Data."""
        self.root.locator("summary", has_text="Data").click()
        self.root.get_by_role("button", name=words, exact=True).click()

    def middle(self, slot: str) -> tuple[float, float]:
        box = self.slot(slot).bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def wait(self, condition: str, *given) -> None:
        """Wait until a condition on `node`, the playground's element, and `given` holds."""
        call = f"([node, ...given]) => {condition}"
        self.page.wait_for_function(call, arg=[self.root.element_handle(), *given], timeout=30 * SECONDS)

    def wait_for_rows(self, count: int) -> None:
        """Wait until the table that the reader can open has so many rows and every cell is filled."""
        cells = "[...node.querySelectorAll('.lnp-table td')].every(cell => cell.innerText)"
        self.wait(f"node.querySelectorAll('.lnp-table tbody tr').length === given[0] && {cells}", count)

    def rows(self) -> pd.DataFrame:
        """The table of numbers that the reader can open."""
        cells = "nodes => nodes.map(row => [...row.children].map(cell => cell.textContent))"
        head, *rows = self.root.locator(".lnp-table tr").evaluate_all(cells)
        return pd.DataFrame(rows, columns=head)


def config(state: dict) -> ln.ModelConfig:
    """The model of a state; a placement that only the page knows is one of slots."""
    return model_config(state, state["placement"] if state["placement"] in ln.PLACEMENTS else in_slots(state["slots"]))


def measured(state: dict) -> pd.DataFrame:
    """The gradients of a state, measured here."""
    return ln.gradient_norms(config(state), seeds=range(state["seeds"]), inputs=model_inputs(state))


def agree(page: pd.DataFrame, python: pd.DataFrame) -> None:
    """The same rows, the same flags, and values that are the same to AGREEMENT."""
    assert list(page) == list(GRADIENT_COLUMNS)
    one, other = (table.set_index(MATRIX).sort_index() for table in (page, python))
    assert one.index.equals(other.index)
    assert (one["below_floor"] == other["below_floor"]).all()
    kept = ~other["below_floor"] & (other["value"] > FAINT * other["value"].max())
    assert one["value"][kept].tolist() == pytest.approx(other["value"][kept].tolist(), rel=AGREEMENT)


def number(text: str) -> float:
    """A number as the page writes it."""
    return float(text.replace("−", "-"))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the playground's file."""
    path = tmp_path_factory.mktemp("page") / "playground.html"
    path.write_text(playground.page(), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def open_page(browser: Browser, file: str) -> Iterator[Callable[..., Playground]]:
    """A function that opens the file in a browser of its own; a page that asks for a file or complains is a failure."""
    complaints, contexts = [], []

    def run(hash: str = "", address: str = "", script: str = "", size=(1280, 720), **options) -> Playground:
        viewport = dict(zip(("width", "height"), size, strict=True))
        context = browser.new_context(viewport=viewport, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        if script:
            page.add_init_script(script)
        page.on("pageerror", lambda error: complaints.append(f"uncaught: {error}"))
        page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        own = (address or file, "data:", "blob:")
        page.on("request", lambda r: None if r.url.startswith(own) else complaints.append(r.url))
        page.goto((address or file) + hash)
        page.locator(ROOT).first.wait_for()
        return Playground(page)

    yield run
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture(scope="module")
def shared(browser: Browser, file: str) -> Iterator[Page]:
    """One page for the tests that leave it as they found it."""
    context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(file)
    yield page
    context.close()
    assert not complaints


@pytest.fixture
def view(shared: Page) -> Playground:
    """The shared page's playground, reset, with a small model."""
    view = Playground(shared)
    view.root.get_by_role("button", name="Reset").click()
    view.set(**SMALL)
    view.settled(**SMALL)
    return view


# From disk -----------------------------------------------------------------------------------------------------


def test_the_file_opens_without_a_network_and_shows_a_picture(open_page):
    """Oracle: gradient_norms of the usual model; the requests of the page, of which there are none."""
    view = open_page()
    agree(view.settled(), measured(view.state))
    assert view.state == playground.START
    assert view.slots() == "C"
    assert view.text("rule") == "x ← N(x + f(x))"
    assert view.text("name") == "Post-LN, Vaswani et al. 2017"
    view.page.screenshot(path=HERE / "screenshots" / "playground.png")


def test_all_sixteen_choices_of_slots_give_pythons_numbers_and_the_named_ones_their_names(view):
    """Oracle: gradient_norms of in_slots; the formulas by hand. One click leads from each choice to the next."""
    named = {"C": "post", "AD": "pre", "ABD": "peri", "BD": "res_post", "": "none"}
    seen = set()
    for index in range(16):
        gray, before = index ^ index >> 1, (index - 1) ^ (index - 1) >> 1
        slots = "".join(slot for bit, slot in enumerate(SLOTS) if gray >> bit & 1)
        if index == 0:
            view.set(slots="")
        else:
            view.slot(SLOTS[(gray ^ before).bit_length() - 1]).click()
        key = named.get(slots, "")
        table = view.settled(slots=slots, placement=key)
        assert set(table["placement"]) == {key or f"slots_{slots}"}
        agree(table, measured(view.state))
        assert view.slots() == slots
        f = "f(N(x))" if "A" in slots else "f(x)"
        f = f"N({f})" if "B" in slots else f
        rule = f"x ← N(x + {f})" if "C" in slots else f"x ← x + {f}"
        assert view.text("rule") == rule + (", then N at the end" if "D" in slots else "")
        name = view.text("name")
        assert name.startswith(ln.PLACEMENTS[key].label if key else "a placement without a name yet")
        pressed = view.root.locator(".lnk-chip[aria-pressed=true]").evaluate_all("all => all.map(c => c.dataset.key)")
        assert pressed == ([key] if key else [])
        seen.add(slots)
    assert seen == set(ALL_SLOTS)


def test_every_placement_is_a_chip_and_those_without_slots_show_their_boxes(view):
    """Oracle: PLACEMENTS, and gradient_norms of one without slots."""
    view.root.locator(".lnk-more").click()
    shown = view.root.locator(".lnk-chip:visible").evaluate_all("all => all.map(chip => chip.dataset.key)")
    assert set(shown) == set(ln.PLACEMENTS)
    for key in ln.PLACEMENTS:
        view.chip(key).click()
        view.wait("node.querySelector('.lnp-name').innerText.startsWith(given[0])", ln.PLACEMENTS[key].label)
        slots = playground.slots_of(ln.PLACEMENTS[key])
        assert view.part("slots").is_visible() == (slots is not None)
        assert view.part("diagrams").is_visible() == (slots is None)
        assert view.part("diagrams").locator("[role=img]").count() == (1 if slots is None else 0) or slots is not None
    view.set(depth=4)
    view.chip("mix").click()
    agree(view.settled(placement="mix"), measured(view.state))
    above = view.root.get_by_role("button", name="The layer above")
    above.press("Enter")
    view.root.get_by_text("layer 2 of 4").wait_for()
    assert view.page.evaluate("document.activeElement.ariaLabel") == "The layer above"
    view.root.get_by_role("button", name="Back to the slots").click()
    view.settled(slots="BD")  # those of the last placement that has any
    view.root.locator(".lnk-more").click()
    assert view.chip("b2t").is_hidden()


def test_a_norm_is_dragged_to_another_slot_and_out_and_escape_gives_it_up(view):
    """Oracle: the browser's mouse; the network answers while the norm is over a slot, and the state only when it is
    dropped.
    """
    mouse = view.page.mouse

    def drag(start: tuple[float, float], end: tuple[float, float]) -> None:
        mouse.move(*start)
        mouse.down()
        mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        mouse.move(*end)

    drag(view.middle("C"), view.middle("A"))
    view.wait("node.querySelector('.lnp-rule').innerText === 'x ← x + f(N(x))'")
    assert view.state["slots"] == "C"
    mouse.up()
    agree(view.settled(slots="A", placement=""), measured(view.state))
    box = view.root.locator(".lnp-spare").bounding_box()
    drag((box["x"] + 20, box["y"] + 20), view.middle("D"))
    mouse.up()
    view.settled(slots="AD", placement="pre")
    left, down = view.middle("D")
    drag((left, down), (left + 260, down + 200))
    mouse.up()
    view.settled(slots="A")
    drag(view.middle("A"), view.middle("B"))
    view.wait("node.querySelector('.lnp-rule').innerText === 'x ← x + N(f(x))'")
    view.page.keyboard.press("Escape")
    mouse.up()
    view.wait("node.querySelector('.lnp-rule').innerText === 'x ← x + f(N(x))'")
    view.settled(slots="A")


def test_a_finger_drags_and_taps(open_page):
    """Oracle: the touches of the browser's own input."""
    view = open_page(size=(390, 844), has_touch=True, is_mobile=True)
    view.set(**SMALL)
    client = view.page.context.new_cdp_session(view.page)
    view.slot("C").scroll_into_view_if_needed()

    def touch(kind: str, *points: tuple[float, float]) -> None:
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y} for x, y in points]})

    start, end = view.middle("C"), view.middle("B")
    scrolled = view.page.evaluate("scrollY")
    touch("touchStart", start)
    for part in (0.1, 0.4, 0.7, 1.0):
        touch("touchMove", tuple(a + part * (b - a) for a, b in zip(start, end, strict=True)))
    touch("touchEnd")
    view.settled(slots="B")
    assert view.page.evaluate("scrollY") == scrolled
    view.page.touchscreen.tap(*view.middle("D"))
    agree(view.settled(slots="BD", placement="res_post"), measured(view.state))
    view.chip("pre").tap()
    view.settled(placement="pre")


def test_keys_alone_move_a_norm(view):
    """Oracle: the rule of the keys: arrows take the norm along, Space and Enter switch a slot."""
    view.slot("C").focus()
    for key, slots, focused in (
        ("ArrowUp", "D", "D"), ("ArrowDown", "C", "C"), ("ArrowDown", "B", "B"), ("ArrowDown", "A", "A"),
        ("ArrowDown", "A", "A"), ("Space", "", "A"), ("ArrowUp", "", "B"), ("Enter", "B", "B"), ("ArrowUp", "C", "C"),
    ):  # fmt: skip
        view.page.keyboard.press(key)
        assert view.state["slots"] == slots, key
        assert view.page.evaluate("document.activeElement.dataset.slot") == focused
    agree(view.settled(slots="C", placement="post"), measured(view.state))
    assert view.slot("C").get_attribute("aria-label") == "Norm after the sum"


def test_sliders_and_number_fields_take_keys(view):
    """Oracle: gradient_norms of the depth and width that the slider says."""
    depth = view.slider("Depth")
    depth.press("ArrowRight")
    depth.press("ArrowRight")
    agree(view.settled(depth=5), measured(view.state))
    assert depth.get_attribute("aria-valuetext") == "5"
    width = view.slider("Width")
    width.press("ArrowRight")
    agree(view.settled(width=48), measured(view.state))
    assert width.get_attribute("aria-valuetext") == "48"
    typed = view.root.get_by_label("Depth, as a number")
    typed.fill("2")
    typed.press("Enter")
    view.settled(depth=2)
    typed.press("ArrowUp")
    view.settled(depth=3)
    depth.press("End")
    assert view.state["depth"] == 48
    depth.press("Home")
    view.settled(depth=1)


def test_a_number_out_of_range_is_one_sentence_and_the_good_picture_comes_back(view):
    """Oracle: the sentence; the state, which stays; the mark, which goes with the next good number."""
    before = view.text("finding")
    typed = view.root.get_by_label("Depth, as a number")
    for given in ("1000000", "2.5", "-1"):
        typed.fill(given)
        typed.press("Enter")
        view.part("error").get_by_text(f"depth must be 1..48, got {given}. The last good picture stays.").wait_for()
        assert view.state["depth"] == 3
        assert view.text("finding") == before
        assert view.text("busy") == "the last good picture"
    typed.fill("3")
    typed.press("Enter")
    view.wait("!('stale' in node.dataset) && node.querySelector('.lnp-error').hidden")
    typed.fill("1e6")
    typed.press("Tab")
    assert typed.input_value() == "3"


def test_a_script_sets_the_state_and_reads_it(view):
    """Oracle: what was set; a setting that makes no sense changes nothing."""
    for state in ({"stack": "decoder", "norm": "rms"}, {"attention": "uniform", "init": "torch", "tokens": 4},
                  {"ffn": 2, "output_projection": False, "stack": "encoder", "placement": "deepnorm"}):  # fmt: skip
        view.set(**state)
        agree(view.settled(**state), measured(view.state))
    kept = view.state
    for wrong in ({"depth": "6"}, {"nonsense": 1}, {"width": None}, {"slots": "CX"}, {"placement": "<img src=x>"}):
        view.set(**wrong)
        [name] = wrong
        view.wait("node.querySelector('.lnp-error').innerText.includes(given[0])", name)
        assert view.state == kept
    assert view.part("error").locator("img").count() == 0


# The link ------------------------------------------------------------------------------------------------------


def test_the_address_holds_the_view_and_survives_a_reload(open_page):
    """Oracle: page.link, the same rule in Python."""
    view = open_page()
    wanted = SMALL | {"slots": "AB", "view": "signal", "theory": False, "output_projection": False, "compare": ["pre"]}
    view.set(**wanted)
    view.page.wait_for_function("text => location.hash === `#${text}`", arg=playground.link(view.state))
    kept = view.state
    view.page.reload()
    view.page.locator(ROOT).wait_for()
    assert view.state == kept
    agree(view.settled().query("placement == 'slots_AB'"), measured(kept))
    view.page.evaluate("location.hash = '#placement=pre&depth=2&width=16&seeds=1'")
    agree(view.settled(placement="pre", slots="AD", view="gradient"), measured(view.state))
    view.root.get_by_role("button", name="Reset").click()
    view.page.wait_for_function("location.hash === ''")


@pytest.mark.parametrize(
    ("hash", "sentence"),
    [
        ("#depth=1000000", "depth must be 1..48, got 1000000"),
        ("#placement=nonsense&depth=3", "placement must be one of post, pre, "),
        ("#compare=pre,prr", "compare must be placements out of post, pre, "),
        ("#slots=XYZ", "slots must be letters out of A, B, C, D, got 'XYZ'"),
        ("#width=abc", "width must be one of 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, got 'abc'"),
        ("#theory=maybe", "theory must be one of true, false, got 'maybe'"),
        ("#%E0%A4%A=1&x", "there is no setting "),
        ("#__proto__=1", "there is no setting __proto__"),
        ("#placement=__proto__", "placement must be one of "),
    ],
)
def test_a_bad_link_is_one_sentence_above_a_good_picture(shared, file, hash, sentence):
    """Oracle: the sentence by hand; the state before, and its picture, marked."""
    view = Playground(shared)
    view.root.get_by_role("button", name="Reset").click()
    view.page.goto("about:blank")
    view.page.goto(file + hash)
    view.part("error").get_by_text(sentence).wait_for()
    view.wait("node.querySelector('.lnp-error').innerText.endsWith('. The last good picture stays.')")
    assert view.state == playground.START
    view.wait("node.table.length === given[0]", len(matrices(config(view.state))) * 3)
    assert view.part("number").count() == 12
    assert view.text("busy") == "the last good picture"
    view.slider("Depth").press("ArrowRight")
    view.wait("node.querySelector('.lnp-error').hidden")
    view.settled(depth=7)
    view.page.goto("about:blank")
    view.page.goto(file)
    view.root.wait_for()


# Pictures ------------------------------------------------------------------------------------------------------


def lengths(view: Playground) -> list[float]:
    """The lengths of the bars, in the order in which they are drawn."""
    path = view.root.locator("svg:not([hidden]) path.lnp-bar").get_attribute("d")
    rounded = re.findall(r"M\S+ \S+h(\S+?)a(\S+)", path)  # a straight part between two corners
    return [float(straight) + 2 * float(radius) for straight, radius in rounded]


def test_bars_are_as_long_as_the_logarithms_of_pythons_means_and_say_them(view):
    """Oracle: gradient_norms; a straight line through length over logarithm."""
    view.set(placement="post", depth=6, parameter="W_1")
    view.settled(depth=6)
    view.wait("node.querySelectorAll('.lnp-number').length === 12")
    rows = measured(view.state).query("parameter == 'W_1'").groupby(["side", "layer"], sort=False)["value"].mean()
    for side in ("encoder", "decoder"):
        values = rows[side].tolist()
        column = slice(0, 6) if side == "encoder" else slice(6, 12)
        told = [number(text) for text in view.part("number").all_text_contents()[column]]
        assert told == pytest.approx(values, rel=5e-3)
    drawn, logs = lengths(view), rows.map(math.log).tolist()
    slope = (max(drawn) - min(drawn)) / (max(logs) - min(logs))
    assert slope > 20
    assert drawn == pytest.approx([max(drawn) + slope * (value - max(logs)) for value in logs], abs=0.5)
    # the readout of the row under the pointer, and the screen reader's words
    box = view.root.locator("svg.lnp-picture:not([hidden])").bounding_box()
    view.page.mouse.move(box["x"] + box["width"] - 100, box["y"] + box["height"] - 90)
    view.wait("node.querySelector('.lnp-readout').innerText.startsWith('decoder layer 1: ')")
    first = view.text("readout").split(": ")[1].split()[0]
    assert number(first) == pytest.approx(rows["decoder"][1], rel=5e-3)
    view.page.mouse.move(5, 5)
    label = view.root.locator("svg.lnp-picture:not([hidden])").get_attribute("aria-label")
    ratio = rows["decoder"][6] / rows["decoder"][1]
    assert f"the top decoder layer's gradient of W_1 is {ratio:.1f}× the bottom's (2 networks)." in label


def test_theory_and_the_range_over_networks_are_those_of_python(view):
    """Oracle: predict, and the smallest and the largest of gradient_norms, beside the open table of numbers."""
    view.set(placement="pre", parameter="W_Q", seeds=3)
    view.settled(placement="pre", seeds=3)
    view.choose("Show or hide the table")
    view.wait_for_rows(9)
    table, cfg = view.rows(), config(view.state)
    keys = ["side", "layer", "block"]
    seeds = measured(view.state).query("parameter == 'W_Q'").groupby(keys, sort=False)["value"]
    theory = ln.predict(cfg, "gradient", seeds=range(3), inputs=model_inputs(view.state)).query("parameter == 'W_Q'")
    assert [tuple(row) for row in table[keys].astype({"layer": int}).to_numpy()] == list(seeds.groups)
    for name, wanted in (("mean", seeds.mean()), ("lowest", seeds.min()), ("highest", seeds.max()),
                         ("theory", theory.set_index(keys)["value"])):  # fmt: skip
        assert table[name].map(number).tolist() == pytest.approx(wanted.tolist(), rel=2e-3), name
    view.choose("Show or hide the table")
    assert view.part("table").is_hidden()


def test_the_view_of_the_signal_agrees(view):
    """Oracle: signal_norms."""
    view.set(placement="pre", stack="encoder")
    view.root.get_by_role("radio", name="Signal").check()
    view.settled(placement="pre", view="signal")
    view.choose("Show or hide the table")
    view.wait("node.querySelector('.lnp-table caption')?.innerText.startsWith('Size of the stream')")
    python = ln.signal_norms(config(view.state), seeds=range(2), inputs=model_inputs(view.state))
    means = python.groupby(["layer", "site"], sort=False)["value"].mean()
    rows = view.rows()
    final = rows["site"] == "final"
    assert rows["layer"][final].tolist() == ["4"]  # drawn above the last layer
    told = {(int(layer), site): number(mean) for layer, site, mean in rows[["layer", "site", "mean"]].to_numpy()}
    wanted = {(4 if site == "final" else layer, site): value for (layer, site), value in means.items()}
    assert told == pytest.approx(wanted, rel=2e-3)
    assert "stream grows" in view.text("finding")
    view.choose("Show or hide the table")


def test_the_last_layer_by_depth_agrees_and_says_its_slope(view):
    """Oracle: last_layer_gradients and predict; numpy's least squares in log–log."""
    view.set(placement="pre", theory=True)
    view.root.get_by_role("radio", name="By depth").check()
    view.settled(view="depth")
    view.choose("Show or hide the table")
    depths = [1, 2, 3, 4, 8]
    view.wait_for_rows(len(depths))
    asked = {"depths": depths, "parameter": "W_2", "seeds": range(2), "inputs": model_inputs(view.state)}
    cfg = config(view.state)
    python = ln.last_layer_gradients(cfg, **asked).groupby("depth")["value"].mean()
    theory = ln.predict(cfg, "last_layer", **asked).set_index("depth")["value"]
    rows = view.rows().astype({"depth": int}).set_index("depth")
    assert rows["mean"].map(number).to_dict() == pytest.approx(python.to_dict(), rel=2e-3)
    assert rows["theory"].map(number).to_dict() == pytest.approx(theory.to_dict(), rel=2e-3)
    slopes = [np.polyfit(np.log(depths), np.log(table[depths]), 1)[0] for table in (python, theory)]
    told = re.search(r"slope (\S+) in log–log, theory (\S+)\.$", view.text("finding"))
    assert [number(told[1]), number(told[2])] == pytest.approx(slopes, abs=6e-3)
    view.choose("Show or hide the table")
    view.root.locator("summary", has_text="Data").press("Escape")
    view.root.get_by_role("radio", name="Gradient").check()
    view.wait("node.querySelector('.lnp-curves').hasAttribute('hidden') && node.querySelectorAll('.lnp-number').length")


def test_what_was_there_before_stays_as_a_shadow_and_in_words(view):
    """Oracle: the words by hand; the shadow's path."""
    before = view.text("finding")
    ratio = re.search(r"is (\S+×)", before)[1]
    view.chip("pre").click()
    view.settled(placement="pre")
    assert f"Before (Post-LN): the top was {ratio} the bottom." in view.text("ago")
    assert view.root.locator("svg:not([hidden]) path.lnp-shadow").get_attribute("d")
    view.part("legend").get_by_text("before: Post-LN").wait_for()
    for _ in range(3):  # one gesture is one change
        view.slider("Depth").press("ArrowRight")
    view.settled(depth=6)
    assert view.text("ago").startswith("Before (depth 3)")


def test_pins_stay_in_both_pictures_until_they_are_removed(view):
    """Oracle: the legend and the lines, at most four."""
    pin = view.root.get_by_role("button", name="Pin", exact=True)
    pin.click()
    view.root.get_by_text("pinned: Post-LN, depth 3, width 32, heads 2, tokens 8, networks 2").wait_for()
    for key in ("pre", "peri", "none", "res_post"):
        view.chip(key).click()
        view.settled(placement=key)
        pin.click()
        pin.click()  # the same twice is one
    view.wait("node.querySelectorAll('.lnp-legend button').length === 4")
    lines = [view.root.locator(f"svg:not([hidden]) path.lnp-otherline >> nth={i}").get_attribute("d") for i in range(4)]
    assert all(lines)
    view.set(view="depth")
    view.wait("!node.querySelector('.lnp-curves').hasAttribute('hidden')")
    assert view.root.get_by_text("(in the other pictures)").count() == 4
    view.wait("node.querySelector('.lnp-finding').innerText.includes('slope')")
    view.settled(view="depth")
    pin.click()
    view.chip("post").click()
    view.settled(placement="post")
    view.wait("node.querySelectorAll('.lnp-curves path.lnp-otherline')[3]?.getAttribute('d')")
    assert view.root.get_by_text("(in the other pictures)").count() == 3
    assert re.fullmatch(r"Before \(Res-Post-LN\): slope \S+\.", view.text("ago"))
    remove = view.root.get_by_role("button", name="Remove pinned:")
    for left in (3, 2, 1, 0):
        remove.first.click()
        view.wait("node.querySelectorAll('.lnp-legend button').length === given[0]", left)
    view.wait("!node.querySelectorAll('.lnp-curves path.lnp-otherline')[3].getAttribute('d')")
    view.root.get_by_role("button", name="Reset").click()
    assert view.state == playground.START


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"placement": "none", "depth": 48, "width": 128}, "too large a number (overflow) in every layer"),
        ({"placement": "none", "depth": 48, "width": 128, "view": "signal"}, "overflow in "),
        ({"placement": "post", "tokens": 1, "parameter": "W_Q"}, "exactly 0 in every layer: no path leads from it"),
        ({"placement": "no_residual", "depth": 24, "width": 16, "tokens": 16, "parameter": "W_Q"}, "only round-off "),
        ({"placement": "none", "depth": 48, "width": 128, "view": "depth"}, "overflow at depth 48"),
    ],
)
def test_what_is_no_number_is_said_in_words(view, state, words):
    """Oracle: gradient_norms, which is not finite, 0 or below its floor there; the words in sentence and picture."""
    view.set(**state)
    page, python = view.settled(), measured(view.state)
    drawn = python.query(f"parameter == '{view.state['parameter']}' and side == 'decoder'")
    kind = next(kind for kind in ("overflow", "exactly 0", "only round-off") if kind in words)
    values, below = drawn["value"], drawn["below_floor"]
    assert {"overflow": ~np.isfinite(values), "exactly 0": values == 0, "only round-off": below}[kind].any()
    if kind != "overflow":  # where it begins, in Python, depends on the order of a sum
        agree(page, python)
    view.wait("node.querySelector('.lnp-finding').innerText.includes(given[0])", words)
    assert kind in " ".join(view.part("odd").all_text_contents())
    paths = view.root.locator("svg.lnp-picture path").evaluate_all("all => all.map(path => path.getAttribute('d'))")
    assert not [path for path in paths if path and ("NaN" in path or "Infinity" in path)]


# Files ---------------------------------------------------------------------------------------------------------


def test_numbers_and_pictures_are_saved_and_the_setting_is_copied(view):
    """Oracle: pandas, Python's XML and PNG's own head; Python, which runs the copied line."""
    view.set(slots="AC", theory=False)
    table = view.settled(slots="AC")

    def saved(words: str) -> Path:
        with view.page.expect_download() as waiting:
            view.choose(words)
        assert waiting.value.suggested_filename == f"playground.{words[-4:-1].lower()}"
        return waiting.value.path()

    read = pd.read_csv(saved("Save numbers (CSV)"))
    agree(read, measured(view.state))
    assert read["value"].tolist() == table["value"].tolist()
    svg = ElementTree.parse(saved("Save picture (SVG)")).getroot()
    words = " ".join("".join(node.itertext()) for node in svg.iter("{http://www.w3.org/2000/svg}text"))
    for part in (view.text("rule"), "mean of 2 networks", "Norm before f and after the sum", "layer norm", "Decoder"):
        assert part in words
    assert "drag one" not in words
    png = saved("Save picture (PNG)").read_bytes()
    assert png.startswith(b"\x89PNG")
    wide, high = struct.unpack(">II", png[16:24])
    assert (wide, high) == (2 * int(svg.get("width").split(".")[0]), 2 * float(svg.get("height")))
    (HERE / "screenshots" / "playground_saved.png").write_bytes(png)
    view.choose("Copy as Python")
    line = view.root.get_by_label("Copied text").input_value()
    made = eval(line, {"Playground": Widget})
    assert made.state() == view.state
    assert line == made.code()
    made.close()
    view.choose("Copy link")
    assert view.root.get_by_label("Copied text").input_value().endswith(f"#{playground.link(view.state)}")


# Faults --------------------------------------------------------------------------------------------------------


def test_a_slow_worker_leaves_marks_and_the_newest_move_wins(open_page):
    """Oracle: the words of the draft while one network is held back; the dimmed picture while all are."""
    view = open_page(script=WORKERS)
    view.set(**SMALL)
    view.settled(**SMALL)
    view.page.evaluate("delay = ({ seed, stage }) => seed && stage === 'measured' ? 1500 : 0; 0")
    view.set(width=48)
    view.wait("node.querySelector('.lnp-readout').innerText.endsWith('a draft: 1 of 2 networks; logarithmic')")
    assert "(1 of 2 networks)" in view.text("finding")
    agree(view.settled(width=48), measured(view.state))
    assert "(2 networks)" in view.text("finding")

    view.page.evaluate("delay = ({ stage }) => stage === 'measured' ? 1500 : 0; 0")
    before = view.text("finding")
    view.set(width=64)
    view.wait("node.dataset.stale && node.querySelector('.lnp-busy').innerText === 'computing…'")
    assert view.text("finding") == before
    assert view.root.evaluate("node => node.table") == []  # and not that of another width
    view.page.wait_for_timeout(300)  # the picture fades
    assert float(view.part("frame-of-picture").evaluate("node => getComputedStyle(node).opacity")) < 0.6
    view.set(width=16)
    view.page.evaluate("delay = () => 0; 0")
    agree(view.settled(width=16), measured(view.state))
    assert view.text("busy") == ""


UNABLE = "change = (message) => ({ stage: 'unable', message: 'no SIMD' }); 0"
FAILED = "change = ({ id }) => ({ id, stage: 'failed', message: 'out of memory' }); 0"


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("delete globalThis.Worker", "This browser runs no workers here"),
        ("globalThis.Worker = class { constructor() { throw new Error('no') } }", "This browser runs no workers here"),
        (WORKERS + UNABLE, "This browser cannot run the playground's arithmetic (WebAssembly with SIMD)."),
    ],
)
def test_a_browser_that_cannot_compute_is_one_sentence_beside_the_drawing(open_page, script, sentence):
    """Oracle: the sentence; the layer's drawing, which needs no numbers and still answers."""
    view = open_page(script=script)
    view.part("error").get_by_text(sentence).wait_for()
    assert view.text("error").count("The last good picture stays") == 0  # there is none
    view.slot("A").click()
    view.wait("node.querySelector('.lnp-rule').innerText === 'x ← N(x + f(N(x)))'")
    assert view.slots() == "AC"
    view.part("error").get_by_text(sentence).wait_for()
    assert view.root.evaluate("node => node.table") == []
    view.choose("Save numbers (CSV)")
    view.root.get_by_role("button", name="Pin", exact=True).click()


def test_out_of_memory_is_one_sentence_and_the_last_good_picture_stays(open_page):
    """Oracle: the picture before; the next model, which is computed as ever."""
    view = open_page(script=WORKERS)
    view.set(**SMALL)
    view.settled(**SMALL)
    kept = view.root.locator("svg:not([hidden]) path.lnp-bar").get_attribute("d")
    good = "change = (message) => message; 0"
    for act, words in ((FAILED, "The page could not compute this: out of memory."), (good, "needs ")):
        view.page.evaluate(act)
        view.set(**({"width": 64} if act == FAILED else {"depth": 48, "width": 256, "tokens": 64, "ffn": 4}))
        view.part("error").get_by_text(words).wait_for()
        assert view.text("error").endswith(". The last good picture stays.")
        assert view.text("busy") == "the last good picture"
        assert view.root.locator("svg:not([hidden]) path.lnp-bar").get_attribute("d") == kept
    view.page.evaluate(good)
    view.set(**SMALL)
    view.settled(**SMALL)
    assert view.part("error").is_hidden()
    view.set(width=48)
    agree(view.settled(width=48), measured(view.state))


# Several placements, other sizes, likeness ------------------------------------------------------------------------


def points(view: Playground, name: str) -> np.ndarray:
    """The corners of the first curve of this class, as (x, y)."""
    path = view.root.locator(f"svg:not([hidden]) path.lnp-{name}").first.get_attribute("d")
    return np.array([[float(v) for v in pair.split()] for pair in path.split("M")[1].split("L")])


def test_chips_put_placements_beside_each_other_and_take_them_away(view):
    """Oracle: gradient_norms of each; a line through the curve's places over the logarithms of its means."""
    compare = view.root.get_by_role("switch", name="Compare", exact=True)
    compare.check()
    for key in ("pre", "peri"):
        view.chip(key).click()
    table = view.settled(placement="post", compare=["pre", "peri"])
    for key, rows in table.groupby("placement", sort=False):
        agree(rows.reset_index(drop=True), measured(view.state | {"placement": key}))
    assert [view.chip(key).get_attribute("aria-pressed") for key in ("post", "pre", "peri", "none")] == [
        "true", "true", "true", "false",
    ]  # fmt: skip
    assert re.fullmatch(r"Pre-LN: .+\. Peri-LN: .+\.", view.text("ago"))
    assert view.part("shadow").first.get_attribute("d") == ""
    pre = (
        table.query("placement == 'pre' and side == 'encoder' and parameter == 'W_2'").groupby("layer")["value"].mean()
    )
    places = points(view, "otherline")[:, 0]
    assert np.diff(places) / np.diff(np.log(pre)) == pytest.approx(
        np.full(2, np.ptp(places) / np.ptp(np.log(pre))), rel=0.02
    )
    view.slider("Depth").press("ArrowRight")
    assert set(view.settled(depth=4, compare=["pre", "peri"])["depth"]) == {4}
    view.chip("post").click()  # the next one is the chosen one
    view.settled(placement="pre", compare=["peri"])
    view.root.get_by_role("button", name="Remove Peri-LN").click()
    view.settled(placement="pre", compare=[])
    view.chip("res_post").click()
    view.settled(placement="pre", compare=["res_post"])
    compare.uncheck()
    agree(view.settled(placement="pre", compare=[]), measured(view.state))
    assert not view.root.locator("svg:not([hidden]) path.lnp-otherline").first.get_attribute("d")
    view.chip("post").click()
    view.settled(placement="post", compare=[])


def test_a_picture_is_marked_until_the_placements_beside_have_answered(open_page):
    """Oracle: the mark while the second worker is held back; the numbers of both after."""
    view = open_page(script=WORKERS)
    state = SMALL | {"seeds": 1, "compare": ["pre"]}
    view.set(**state)
    view.settled(**state)
    view.page.evaluate("delay = ({ which }) => which === 1 ? 0 : 1500; 0")
    view.set(width=48)
    view.wait("node.dataset.stale && node.querySelector('.lnp-busy').innerText === 'computing…'")
    assert view.root.evaluate("node => node.table") == []
    table = view.settled(width=48)
    agree(table.query("placement == 'pre'"), measured(view.state | {"placement": "pre"}))


def test_the_likeness_of_tokens_agrees_and_one_token_has_none(view):
    """Oracle: token_similarity and predict; the sentence by hand."""
    view.set(placement="post", stack="encoder", attention="uniform", compare=["pre"], view="similarity")
    view.settled(view="similarity")
    view.choose("Show or hide the table")
    view.wait("node.querySelector('.lnp-table caption')?.innerText.startsWith('Mean cosine')")
    rows = view.rows()
    for key, label in (("post", "Post-LN"), ("pre", "Pre-LN")):
        cfg, asked = config(view.state | {"placement": key}), {"inputs": model_inputs(view.state), "seeds": range(2)}
        python = ln.token_similarity(cfg, **asked).query("site == 'out'").groupby("layer")["value"].mean()
        theory = ln.predict(cfg, "similarity", **asked).query("site == 'out'").set_index("layer")["value"]
        own = rows[(rows["placement"] == label) & (rows["site"] == "out")]
        assert own["mean"].map(number).tolist() == pytest.approx(python.tolist(), rel=2e-3, abs=1e-4)
        assert own["theory"].map(number).tolist() == pytest.approx(theory.tolist(), rel=2e-3, abs=1e-4)
    assert "tokens become" in view.text("finding")
    view.choose("Show or hide the table")
    view.set(tokens=1)
    view.part("error").get_by_text(
        "The likeness of tokens needs two tokens or more: set Tokens to 2 or more."
    ).wait_for()


def test_the_last_layer_by_width_agrees(view):
    """Oracle: last_layer_gradients of each width; numpy's least squares in log–log for the placement beside."""
    view.set(placement="post", stack="encoder", compare=["pre"], view="width", width=64)
    view.settled(view="width", width=64)
    view.choose("Show or hide the table")
    widths = [16, 32, 64]
    view.wait_for_rows(2 * len(widths))
    rows, asked = view.rows().astype({"width": int}), {"depths": [3], "parameter": "W_2", "seeds": range(2)}
    for key, label in (("post", "Post-LN"), ("pre", "Pre-LN")):
        state = view.state | {"placement": key}
        tables = [
            ln.last_layer_gradients(config(state | {"width": d}), **asked, inputs=model_inputs(state)) for d in widths
        ]
        means = [table["value"].mean() for table in tables]
        assert rows["mean"][rows["placement"] == label].map(number).tolist() == pytest.approx(means, rel=2e-3)
    slope = np.polyfit(np.log(widths), np.log(means), 1)[0]
    assert number(re.search(r"Pre-LN: slope (\S+)\.$", view.text("ago"))[1]) == pytest.approx(slope, abs=6e-3)
    view.choose("Show or hide the table")


def test_the_band_of_lemma_2_lies_between_its_bounds(view):
    """Oracle: lemma_2_pre; the scale is that of the measured curve, which goes with the logarithm of its means."""
    view.root.locator("summary", has_text="Preset").click()
    view.root.get_by_role("button", name="lemma 2", exact=True).click()
    table = view.settled(**{name: value for name, value in Widget("lemma 2").state().items() if name != "lecture"})
    assert len(table)
    assert view.root.locator("summary", has_text="Preset: lemma 2").count() == 1
    state = view.state | {"placement": "pre"}
    signals = ln.signal_norms(config(state), seeds=range(3), inputs=model_inputs(state)).query("site == 'out'")
    view.wait("node.querySelector('.lnp-legend').innerText.includes('Lemma 2')")
    line = points(view, "otherline")
    slope, start = np.polyfit(line[1:7, 0], np.log(signals.groupby("layer")["value"].mean()), 1)
    band = re.findall(
        r"M([\d.]+) \S+?h([\d.]+)v", view.root.locator("svg:not([hidden]) path.lnp-lemma").get_attribute("d")
    )
    for layer, (left, width) in enumerate(band[:6], 1):
        edges = np.exp(slope * np.array([float(left), float(left) + float(width)]) + start)
        assert edges == pytest.approx(lemma_2_pre(layer, 1), rel=0.02)
    view.set(lemma2=False)
    view.wait("!node.querySelector('.lnp-lemma').getAttribute('d')")


# Two, and parts ------------------------------------------------------------------------------------------------


@pytest.fixture
def parts(open_page, tmp_path: Path) -> Callable[[str], Playground]:
    """A function that opens a page with the module, in which this script runs; it has `data`, `START` and `mount`."""

    def run(script: str) -> Playground:
        path = tmp_path / "parts.html"
        text = f"{playground.module()}\nconst data = {playground.as_script(playground.data())}\n"
        text += f"const small = {json.dumps(playground.START | SMALL)}\n{script}"
        path.write_text(f"<!doctype html><meta charset=utf-8><body><script type=module>\n{text}</script>", "utf-8")
        return open_page(address=path.as_uri())

    return run


def test_two_playgrounds_on_one_page_are_independent(parts):
    """Oracle: gradient_norms of two states."""
    one = parts("for (const stack of ['encoder', 'decoder']) "
                "mountPlayground(document.body, { data, state: { ...small, stack }, onState() {} })")  # fmt: skip
    other = Playground(one.page, 1)
    one.slot("A").click()
    other.slider("Depth").press("ArrowLeft")
    other.root.get_by_role("radio", name="Signal").check()
    agree(one.settled(slots="AC", stack="encoder", view="gradient", depth=3), measured(one.state))
    agree(other.settled(slots="C", stack="decoder", view="signal", depth=2), measured(other.state))
    one.root.locator("summary", has_text="Data").click()
    other.part("finding").click()
    assert one.root.get_by_role("button", name="Copy as Python").is_hidden()


def test_mounted_outside_the_document_it_draws_no_nan_and_fits_once_it_is_inside(parts):
    """Oracle: the attributes of all shapes."""
    view = parts("""
        const box = document.createElement("div")
        const playground = mountPlayground(box, { data, state: small, onState() {} })
        setTimeout(() => {
          globalThis.seen = box.innerHTML
          document.body.append(box)
        }, 500)
    """)
    assert "NaN" not in view.page.evaluate("seen")
    view.settled(**SMALL)
    wide = "node.querySelector('.lnp-{}').clientWidth"
    view.wait(f"Math.abs({wide.format('picture')} - {wide.format('frame-of-picture')}) < 1")
    assert "NaN" not in view.root.inner_html()


def test_new_placements_are_chips_and_a_rule_written_anew_is_computed_anew(parts):
    """Oracle: the graph of another placement under the same key."""
    view = parts("""
        const of = (key) => ({ ...data.placements[key], slots: null, label: "Mine", own: true })
        globalThis.playground = mountPlayground(document.body, { data, state: small, onState() {} })
        globalThis.put = (key) => playground.setPlacements({ ...data.placements, ...(key ? { mine: of(key) } : {}) })
        globalThis.refuse = () => playground.setPlacements({ ...data.placements,
          mine: { ...of("post"), graph: null, error: "Mine asks for the weather" } })
    """)
    view.page.evaluate("put('pre')")
    view.chip("mine").click()
    view.wait("node.table.length && node.querySelector('.lnp-name').innerText.startsWith('Mine')")
    for key in ("pre", "peri"):
        view.page.evaluate("key => put(key)", key)
        wanted = measured(view.state | {"placement": key})["value"].tolist()
        view.wait("node.table.length === given[0]", len(wanted))
        assert view.root.evaluate("node => node.table.map(row => row.value)") == pytest.approx(wanted, rel=AGREEMENT)
    assert view.text("ago").startswith("Before (Mine)")
    view.page.evaluate("refuse()")
    view.part("error").get_by_text("Mine asks for the weather. The last good picture stays.").wait_for()
    view.page.evaluate("put('')")
    view.settled(placement="post")
    assert view.chip("mine").count() == 0
    assert view.part("error").is_hidden()
    view.page.evaluate("playground.destroy()")
    assert view.root.count() == 0


# Everyone ------------------------------------------------------------------------------------------------------

CUT = """() => {
    const found = []
    const root = document.querySelector('[data-lntutor=playground]')
    const name = (node) => `<${node.className?.baseVal ?? node.className}> ${node.textContent.trim().slice(0, 40)}`
    const within = (node, outer, why) => {
        const [a, b] = [node.getBoundingClientRect(), outer.getBoundingClientRect()]
        const room = [a.left - b.left, b.right - a.right, a.top - b.top, b.bottom - a.bottom]
        if (a.width && Math.min(...room) < -2) found.push(`${why}: ${name(node)} ${room.map(Math.round)}`)
    }
    if (document.documentElement.scrollWidth > innerWidth) found.push(`page ${document.documentElement.scrollWidth}`)
    for (const node of root.querySelectorAll('button, input, p, label, .lnp-item'))
        if (node.checkVisibility()) within(node, root, 'cut off')
    for (const svg of root.querySelectorAll('.lnp-picture:not([hidden]), .lnp-slots'))
        for (const text of svg.querySelectorAll('text'))
            if (text.checkVisibility({ visibilityProperty: true })) within(text, svg, 'words cut off')
    const texts = [...root.querySelectorAll('.lnp-picture:not([hidden]) text')].filter((node) => node.textContent)
    texts.forEach((one, i) => texts.slice(i + 1).forEach((other) => {
        const [a, b] = [one.getBoundingClientRect(), other.getBoundingClientRect()]
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left)
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)
        if (across > 1 && down > 5) found.push(`overlap: ${name(one)} | ${name(other)} ${across} ${down}`)
    }))
    return found
}"""
SIZES = [(390, 844), (640, 360), (1280, 720), (1920, 1080)]  # 640: 1280 at 200 %
STATES = [{}, {"lecture": True}, {"placement": "b2t", "depth": 24},
          {"placement": "", "slots": "ABC", "parameter": "W_Q", "depth": 48},
          {"placement": "pre", "view": "signal", "depth": 12}, {"view": "depth", "lecture": True},
          {"view": "width", "compare": ["pre", "peri", "none", "b2t", "residual"]},
          {"view": "similarity", "stack": "encoder", "depth": 12, "compare": ["pre"], "lecture": True}]  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size[0]))
def test_nothing_is_cut_off_or_overlaps_at_any_size(view, size):
    """Oracle: the browser's boxes, with folds, table and pins; the screenshots are for people."""
    view.page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
    folds = view.root.locator("details")
    for index, state in enumerate(STATES):
        view.set(**(playground.START | {"seeds": 2, "width": 32} | state))
        view.settled()
        if index == 1:
            view.root.get_by_role("button", name="Pin", exact=True).click()
            folds.first.evaluate("node => { node.open = true }")
        if state.get("view") == "depth":
            view.wait("node.querySelector('.lnp-finding').innerText.includes('slope')")
        view.page.wait_for_timeout(150)
        assert view.page.evaluate(CUT) == [], state
        view.page.screenshot(path=HERE / "screenshots" / f"playground_{size[0]}_{index}.png", full_page=True)
        folds.first.evaluate("node => { node.open = false }")
    view.page.set_viewport_size({"width": 1280, "height": 720})


def test_what_matters_is_in_view_on_a_small_laptop(view):
    """Oracle: the boxes of sentence, slots, sliders and all bars in a window of 1280 × 720."""
    view.set(**playground.START)
    view.settled()
    for name in ("finding", "slots", "rule", "sliders", "frame-of-picture", "legend", "buttons"):
        box = view.part(name).bounding_box()
        assert box["y"] >= 0, name
        assert box["y"] + box["height"] <= 720, name


def test_axe_finds_nothing_in_light_and_dark_and_colours_follow_the_system_live(view):
    """Oracle: axe-core with all folds open; the ground's colour."""
    view.choose("Show or hide the table")
    view.root.get_by_role("button", name="Pin", exact=True).click()
    grounds = []
    for scheme in ("dark", "light"):
        view.page.emulate_media(color_scheme=scheme)
        view.wait("node.dataset.theme === given[0]", scheme)
        for state in ({"placement": "hybrid"}, {"placement": "post"}):
            view.set(**state)
            view.settled()
            view.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            view.page.wait_for_timeout(200)
            assert violations(view.page) == []
        grounds.append(view.root.evaluate("node => getComputedStyle(node).backgroundColor"))
    assert len(set(grounds)) == 2
    view.page.emulate_media(color_scheme="light")
    view.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = false)")
    view.choose("Show or hide the table")


def test_tab_reaches_everything_and_shows_where_it_is(view):
    """Oracle: the outline, or the edge of a slot; every stop has a name."""
    view.page.evaluate("document.body.tabIndex = -1, document.body.focus()")
    seen = []
    for _ in range(60):
        view.page.keyboard.press("Tab")
        here = view.page.evaluate(
            """() => {
                const node = document.activeElement
                if (!node.closest('[data-lntutor=playground]')) return null
                const face = node.type === 'radio' ? node.nextElementSibling
                    : node.matches('.lnp-slot') ? node.querySelector('.lnp-norm') : node
                const look = getComputedStyle(face)
                const shown = parseFloat(look.outlineWidth) >= 2 && look.outlineStyle !== 'none'
                    || parseFloat(look.strokeWidth) >= 3
                return [(node.ariaLabel || node.labels?.[0]?.innerText || node.innerText).trim(), shown]
            }"""
        )
        if here is None:
            break
        seen.append(here)
    assert [name for name, shown in seen if not shown or not name] == []
    names = [name for name, _ in seen]
    for wanted in ("Post-LN", "more", "Norm before the sub-layer", "Norm at the very end", "Depth", "Width", "Gradient",
                   "More settings", "Pin", "Reset", "Data"):  # fmt: skip
        assert wanted in names


def test_nothing_moves_for_readers_who_want_no_motion(view):
    """Oracle: the browser's durations of animations and transitions."""
    view.page.emulate_media(reduced_motion="reduce")
    assert view.page.evaluate(MOVING) == []
    view.page.emulate_media(reduced_motion="no-preference")


# In notebooks --------------------------------------------------------------------------------------------------

FIRST = f"""\
import lntutor as ln
from lntutor.explore import Playground

playground = Playground(**{SMALL!r})
playground"""
MINE = "ln.PLACEMENTS['mine'] = ln.Placement('Mine', 'x ← {0}', ln.each(lambda x, f, N, at: {0}))"
TABLE = "import json; print(json.dumps(playground.table().to_dict('list')))"


def from_python(ask: Callable[[str], str]) -> pd.DataFrame:
    """The table as Python has it in the kernel, as soon as it has the page's own."""
    return pd.DataFrame(json.loads(ask(TABLE)))


def until(look: Callable[[], bool], page: Page, seconds: float = 20) -> None:
    """Wait until something holds outside the page, which goes on meanwhile."""
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end
        page.wait_for_timeout(100)


def moves(view: Playground, seconds: float = 3) -> None:
    """A key on the slider and a click on a slot change state, sentence and numbers, and do so at once."""
    for act in (lambda: view.slider("Depth").press("ArrowRight"), lambda: view.slot("A").click()):
        state, finding, start = view.state, view.text("finding"), time.monotonic()
        act()
        view.wait("node.querySelector('.lnp-finding').innerText !== given[0]", finding)
        table = view.settled()
        assert time.monotonic() - start < seconds
        assert view.state != state
        assert set(table["depth"]) == {view.state["depth"]}
    assert view.part("error").is_hidden()


def test_in_jupyterlab_page_and_kernel_follow_each_other_and_the_page_needs_no_kernel(in_lab, request, scratch):
    """Oracle: gradient_norms; JupyterLab's cells, which hear no key; its dark theme; the saved file."""
    notebook = in_lab(FIRST, "1", "2")
    server, page = request.getfixturevalue("scratch_server"), notebook.page
    page.set_viewport_size({"width": 1280, "height": 720})
    view = Playground(page)
    agree(view.settled(**SMALL), measured(view.state))
    page.wait_for_timeout(300)
    notebook.screenshot("playground_lab")

    # both ways
    view.slider("Depth").press("ArrowRight")
    view.slot("A").click()
    until(lambda: server.ask("print(playground.state())").strip() == str(view.state), page)
    agree(from_python(server.ask), measured(view.state))
    sent = f"print(playground._sent(playground.state(), {len(view.settled())}) is not None)"
    until(lambda: server.ask(sent).strip() == "True", page)
    agree(from_python(server.ask), measured(view.state))
    server.ask("playground.set(placement='pre', view='signal')")
    view.settled(placement="pre", view="signal", slots="AD", depth=4)
    server.ask("playground.set(**playground.state() | {'view': 'gradient'})")
    view.settled(view="gradient")

    # keys
    cells = page.locator(".jp-Notebook .jp-Cell")
    count = cells.count()
    selected = "[...document.querySelectorAll('.jp-Cell')].findIndex(cell => cell.classList.contains('jp-mod-active'))"
    for place in (view.slider("Depth"), view.slot("D"), view.chip("pre")):
        place.focus()
        before = page.evaluate(selected)
        for key in ("d", "d", "a", "b", "j", "k", "x", "m", "0", "0"):
            page.keyboard.press(key)
        assert cells.count() == count
        assert page.evaluate(selected) == before
        assert page.locator(".jp-Dialog").count() == 0
    assert view.state["placement"] == "pre"

    # placements of the reader
    server.ask(MINE.format("x + f(N(x))"))
    view.chip("mine").wait_for()
    view.chip("mine").click()
    assert view.settled(placement="mine")["value"].tolist() == pytest.approx(view_as(view, "A"), rel=AGREEMENT)
    server.ask(MINE.format("N(x + f(N(x)))"))
    view.wait("node.querySelector('.lnp-rule').innerText === 'x ← N(x + f(N(x)))' || node.state.slots === 'AC'")
    view.wait("node.table.length && node.querySelector('.lnp-ago').innerText.startsWith('Before (Mine)')")
    values = view.settled(placement="mine", slots="AC")["value"].tolist()
    assert values == pytest.approx(view_as(view, "AC"), rel=AGREEMENT)
    server.ask("del ln.PLACEMENTS['mine']")
    view.settled(placement="post")
    assert view.chip("mine").count() == 0

    # saved without the widget's own 5 MB
    notebook.save()
    path = scratch / f"{request.node.originalname}.ipynb"
    assert path.stat().st_size < 20_000

    # busy, restarted, gone
    busy = threading.Thread(target=lambda: server.ask("import time; time.sleep(10)"))
    busy.start()
    page.wait_for_timeout(500)
    moves(view)
    assert busy.is_alive()
    busy.join()
    state = view.state
    until(lambda: server.ask("print(playground.state())").strip() == str(state), page)
    notebook.menu("Kernel", "kernelmenu:restart")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    notebook.wait_for_idle()
    moves(view)
    server.end_kernels()
    page.wait_for_timeout(1000)
    moves(view)
    assert not notebook.errors()

    # dark
    dark(page)
    view.wait("node.dataset.theme === 'dark'")
    page.wait_for_timeout(300)
    notebook.screenshot("playground_lab_dark")


def dark(page: Page) -> None:
    """JupyterLab's dark theme, by the menu."""
    page.locator(".lm-MenuBar-item", has_text="Settings").first.click()
    page.locator(".lm-Menu-item", has_text="Theme").first.hover()
    page.locator(".lm-Menu-item", has_text=re.compile("^JupyterLab Dark$")).click()


def view_as(view: Playground, slots: str) -> list[float]:
    """The gradients of a playground's state with norms in these slots, in the order of the page."""
    rows = measured(view.state | {"placement": "", "slots": slots})
    order = view.root.evaluate("(node, names) => node.table.map(row => names.map(name => row[name]))", MATRIX)
    return rows.set_index(MATRIX)["value"].reindex(pd.MultiIndex.from_tuples(map(tuple, order))).tolist()


def test_in_voila_page_and_kernel_follow_each_other(in_voila, request):
    """Oracle: gradient_norms; the screenshots are for people."""
    notebook = in_voila(FIRST)
    server, page = request.getfixturevalue("voila_server"), notebook.page
    view = Playground(page)
    agree(view.settled(**SMALL), measured(view.state))
    view.slot("B").click()
    view.settled(slots="BC")
    until(lambda: server.ask("print(playground.state())").strip() == str(view.state), page)
    server.ask("playground.set(placement='peri', stack='decoder')")
    agree(view.settled(placement="peri", stack="decoder"), measured(view.state))
    agree(from_python(server.ask), measured(view.state))
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        notebook.screenshot(f"playground_voila_{width}")
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(300)
    assert view.root.get_attribute("data-theme") == "light"  # as Voilà's page around it
    assert violations(page) == []
