"""The front of a soak in a real page: moves by keys and mouse, for the tests and for tools/soak.py."""

import json
import time
from typing import NamedTuple

from playwright.sync_api import TimeoutError

from lntutor import explore
from lntutor.page.kit.panel import Chips, Control, Segments, Switch, TextField
from tests.browser.jupyter import ROOT, SECONDS, Notebook
from tests.explore.explorers import all_values
from tests.explore.soak import Move, Moves, Step

LEFT_OUT = ("Save numbers (CSV)", "Save picture (PNG)", "Save live picture (HTML)")  # each is a file in the downloads
SHOWN = """(name, keys) => {
    const plain = v => v == null ? null : typeof v === 'object' ? Array.from(v, plain)
        : typeof v === 'number' && !isFinite(v) ? null : v
    const root = document.querySelector(`.soak-${name}`)
    const control = key => {
        const el = root.querySelector(`[data-part='${key}']`)
        const [range, box, text] = ['range', 'checkbox', 'text'].map(type => el.querySelector(`[type=${type}]`))
        if (range) return el.querySelector('output')?.value ?? Number(range.getAttribute('aria-valuetext'))
        if (box) return box.checked
        if (text) return text.value
        const chips = [...el.querySelectorAll('.lnk-chip')].filter(chip => chip.ariaPressed === 'true')
        return el.querySelector('.lnk-chip') ? chips.map(chip => chip.dataset.key).sort()
            : el.querySelector('label:has(:checked) span').dataset.text
    }
    const plot = root.querySelector('.lntutor-live')
    const gd = plot.querySelector('.js-plotly-plot')
    return {
        controls: Object.fromEntries(keys.map(key => [key, control(key)])),
        alt: plot.querySelector('[role=img]').getAttribute('aria-label'),
        picture: (gd?._fullData ?? []).map(
            (t, i) => [gd.data[i].name ?? null, plain(t.x), plain(t.y), plain(t.z)]),
    }
}"""


def cells(*names: str) -> list[str]:
    """Cells that show these explorers so that they can be driven and asked."""
    start = f"import os, sys\n\nos.environ['LNTUTOR_STRICT'] = '1'\nsys.path.insert(0, {str(ROOT)!r})"
    imports = f"{start}\nfrom lntutor.explore import {', '.join(names)}\nfrom tests.explore.soak import listen"
    return [imports, *(f"listen({name}())" for name in names)]


class Footprint(NamedTuple):
    """What a page takes after its garbage is collected, and its kernel."""

    heap: float  # MB that JavaScript uses
    nodes: int
    listeners: int
    kernel: float  # MB


class PageDriver:
    """An explorer in a page that is moved by keys and mouse."""

    def __init__(self, notebook: Notebook, name: str, seed: int = 0):
        self.notebook, self.page, self.name = notebook, notebook.page, name
        self.twin = getattr(explore, name)()  # says which controls and values there are
        self.moves = Moves(self.twin, seed, brief=True)
        self.moves.buttons = [button for button in self.moves.buttons if button not in LEFT_OUT]
        self.kernel, self.mistakes = 0.0, 0
        self.root = self.page.locator(f".soak-{name}")
        self.root.locator(".lnk-fold").evaluate_all("folds => folds.forEach(fold => { fold.open = true })")

    def make(self, move: Move) -> None:
        """Step by step, without waiting for the picture."""
        for step in move:
            self._apply(step)

    def _apply(self, step: Step) -> None:
        if step.name in self.twin.buttons["data"].actions:
            if step.kind == "press" or self.root.get_by_role("region", name="The numbers of the picture").is_visible():
                self.root.locator(".lnk-menu summary").click()
                self.root.get_by_role("button", name=step.name, exact=True).click()
            return
        at = self.root.locator(f"[data-part='{step.name}']")
        if step.kind == "press":
            if at.is_visible() and at.is_enabled():
                self._press(at)
        elif step.kind == "preset":
            at.get_by_role("radio").nth(self.twin.preset.options.index(step.value)).click()
        elif at.is_visible():
            self._set(at, self.twin.controls[step.name], step.value)

    def _press(self, at) -> None:
        """A click; work may end between a look at its Stop and the click, and then there is nothing to press."""
        try:
            at.click(timeout=3 * SECONDS)
        except TimeoutError:
            if at.is_enabled() and at.is_visible():
                raise

    def _set(self, at, control: Control, value) -> None:
        if isinstance(control, Chips):
            more = at.locator(".lnk-more[aria-expanded=false]")
            if more.count():
                more.click()
            for key in control.options:
                chip = at.locator(f"[data-key='{key}']")
                is_wanted = key in (value if control.several else (value,))
                if (chip.get_attribute("aria-pressed") == "true") != is_wanted:
                    chip.click()
        elif isinstance(control, Segments):
            at.get_by_role("radio").nth(control.options.index(value)).click()
        elif isinstance(control, TextField):
            at.locator("input").fill(value)
        elif isinstance(control, Switch):  # not `set_checked`: a Reset under way may set it back for a moment
            if at.locator("input").is_checked() != value:
                at.locator("input").click()
        else:
            values = all_values(control)
            self._slide(at, values.index(value), len(values))

    def _slide(self, at, index: int, count: int) -> None:
        """A slider to one of its values by keys, from the nearer end."""
        at.locator("input[type=range]").focus()
        up = index < count / 2
        steps = index if up else count - 1 - index
        for key in ("Home" if up else "End", *["ArrowRight" if up else "ArrowLeft"] * steps):
            self.page.keyboard.press(key)

    def check(self, seconds: float = 60) -> None:
        """At rest, page and kernel show the same controls and the same picture, and nothing went wrong in either."""
        end = time.monotonic() + seconds
        while True:
            kernel, page = self._kernel_state(seconds), self._page_state()
            if kernel == page or time.monotonic() > end:
                break
            self.page.wait_for_timeout(50)  # a message may be on its way
        assert kernel["controls"] == page["controls"], _differences(kernel["controls"], page["controls"])
        assert kernel == page, f"page: {str(page)[:300]}, kernel: {str(kernel)[:300]}"
        assert not self.notebook.complaints, self.notebook.complaints

    def _kernel_state(self, seconds: float) -> dict:
        """What the kernel's explorer shows once it is at rest."""
        read = f"(document.querySelector('.soak-{self.name}-answer textarea').value || '{{}}')"
        before = self.page.evaluate(f"JSON.parse({read}).count ?? 0")
        self.page.evaluate(f"document.querySelector('.soak-{self.name}-ask').click()")
        self.page.wait_for_function(f"() => JSON.parse({read}).count > {before}", timeout=seconds * SECONDS)
        answer = json.loads(self.page.evaluate(read))
        assert not answer["faults"], answer["faults"]
        self.kernel = answer["rss"]
        return {key: answer[key] for key in ("controls", "alt", "picture")}

    def _page_state(self) -> dict:
        return self.page.evaluate(f"({SHOWN})({self.name!r}, {json.dumps(list(self.twin.controls))})")

    def footprint(self) -> Footprint:
        """Of the page and of its kernel, at the last check."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("HeapProfiler.collectGarbage")
        session.send("Performance.enable")
        found = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
        session.detach()
        heap = found["JSHeapUsedSize"] / 2**20
        return Footprint(heap, int(found["Nodes"]), int(found["JSEventListeners"]), self.kernel)

    def halt(self) -> None:
        """Nothing: every part of a soak begins with Stop and Clear."""

    rest = halt

    def end(self) -> None:
        """Close the explorer of this process that names the controls."""
        self.twin.close()


def _differences(one: dict, other: dict) -> str:
    return "; ".join(f"{key}: kernel {one[key]}, page {other[key]}" for key in one if one[key] != other.get(key))
