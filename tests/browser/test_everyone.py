"""Everyone can use the explorers: by keys alone, through a screen reader, enlarged, without motion.

Most tests share one page of the app that holds the explorers and the kinds of questions: opening pages is what takes
time. They leave it as they found it, or say what they change.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from lntutor.explore import PlacementExplorer, TheoremExplorer
from lntutor.publish import gallery
from tests.browser.jupyter import HERE, SECONDS, VIEWPORT, Notebook, Server, app_server, new_notebook, write_notebook
from tests.browser.test_live import wait_for_plot
from tests.browser.test_site import MOVING, violations

SMALL = {
    "PlacementExplorer": "",
    "TheoremExplorer": "depth=4, width=32",
    "BoundednessExplorer": "width=32, depth=2",
    "AttentionExplorer": "",
    "LayerNormExplorer": "",
    "TrainingExplorer": "depth=1, width=16, steps=2000",
    "CurvatureExplorer": "depth=1, width=16, pairs=1000, products=200",
}
QUESTIONS = """\
from IPython.display import display
from lntutor import lesson

display(
    lesson.Predict("a", "Which?", choices=["one", "two"], reveal=lambda: "two"),
    lesson.Predict("b", "How many hands?", choices=["one", "two"], class_mode=True, reveal=lambda: "two"),
    lesson.Predict("c", "How large?", value=(0, 100, 1), reveal=lambda: 64.2),
    lesson.Predict("d", "Which curve?", curve=([1, 2, 4], 0.1, 10), log=True, reveal=lambda: [3, 2, 1]),
    lesson.readiness(),
)"""
# In the page: all that takes keys, in the order in which it stands there; of a group of choices, the one that is made.
STOPS = """root => [...root.querySelectorAll(
    'a[href], button:enabled, select, input:enabled, summary, [tabindex="0"], [contenteditable="true"]')]
    .filter(node => node.checkVisibility({ visibilityProperty: true }) && node.getAttribute('tabindex') !== '-1')
    .filter((node, _, all) => {
        const group = all.filter(one => node.type === 'radio' && one.name === node.name)
        return !group.length || node === (group.find(one => one.checked) ?? group[0])
    })"""
NAMED = """node => (node.ariaLabel || node.labels?.[0]?.innerText || node.innerText || node.title || '').trim()"""
WALK = f"""async () => {{
    const stops = ({STOPS})(document.body)
    return stops.map({NAMED})
}}"""
FOCUS = f"""() => {{
    const node = document.activeElement
    const isSeen = (one) => {{
        const {{ opacity, outlineStyle, outlineWidth }} = getComputedStyle(one)
        return opacity !== '0' && outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2
    }}
    const seen = [node, node.nextElementSibling, node.closest('label')].some(one => one && isSeen(one))
    const box = node.getBoundingClientRect()
    return {{ index: ({STOPS})(document.body).indexOf(node), name: ({NAMED})(node), seen,
        inside: box.bottom > 0 && box.top < innerHeight }}
}}"""
# In the page: where the words end in the cells of a table's first two rows.
ENDS = """rows => rows.slice(0, 2).map(row => [...row.children].map(cell => {
    const words = document.createRange()
    words.selectNodeContents(cell)
    return words.getBoundingClientRect().right
}))"""
# In the page: what is cut off, or lies over something else, in every explorer.
CROWDED = """() => {
    const found = []
    const name = node => `${node.closest('.lntutor-explorer, .lntutor-ask')?.dataset.name ?? ''} `
        + `<${node.className?.baseVal ?? node.className}> ${node.textContent.trim().slice(0, 40)}`
    const apart = (nodes, why) => {
        const boxes = nodes.map(node => [node, node.getBoundingClientRect()]).filter(([, box]) => box.width)
        boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left)
            const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)
            if (across > 2 && down > 2) found.push(`${why}: ${name(one)} | ${name(other)}, ${[across, down]}`)
        }))
    }
    const inside = (node, outer, why) => {
        const a = node.getBoundingClientRect(), b = outer.getBoundingClientRect()
        const room = [a.left - b.left, b.right - a.right, a.top - b.top, b.bottom - a.bottom]
        if (a.width && Math.min(...room) < -2) found.push(`${why}: ${name(node)}, ${room}`)
    }
    if (document.documentElement.scrollWidth > innerWidth) found.push(`page: ${document.documentElement.scrollWidth}`)
    for (const box of document.querySelectorAll('.widget-box'))
        if (box.scrollWidth > box.clientWidth + 1) found.push(`box scrolls sideways: ${name(box)}`)
    for (const root of document.querySelectorAll('.lntutor-explorer')) {
        const controls = [...root.querySelectorAll('[data-part]')].filter(node => node.checkVisibility())
        apart(controls, 'controls overlap')
        for (const control of controls) inside(control, root, 'control cut off')
        for (const part of root.querySelectorAll('.lnk-panel :is(button, label, output, .lnk-slider > span)'))
            if (part.scrollWidth > part.clientWidth + 1) found.push(`words cut off: ${name(part)}`)
        for (const svg of root.querySelectorAll('.main-svg')) {
            const words = [...svg.querySelectorAll('text')].filter(text => text.textContent.trim())
            for (const text of words) inside(text, svg.closest('.js-plotly-plot'), 'words cut off')
        }
        const plot = root.querySelector('.js-plotly-plot')
        const around = '.gtitle, .gtitle-subtitle, .xtitle, .x2title, .ytitle, .y2title, .legend, .annotation-text'
        apart([...plot.querySelectorAll(around)].filter(node => !node.parentNode.closest('.legend')), 'words overlap')
    }
    return found
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app as `make app` starts it, with a page more."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TMPDIR", "TEMP", "TMP"):
            patch.setenv(name, str(home))
        with app_server(home) as server:
            [folder] = home.glob("lntutor-*/pages")
            cells = [f"from lntutor.explore import {name}\n\n{name}({state})" for name, state in SMALL.items()]
            write_notebook(folder / "everyone.ipynb", *cells, QUESTIONS)
            yield server


@pytest.fixture(scope="module")
def together(browser: Browser, server: Server) -> Iterator[Notebook]:
    """The page of all explorers, drawn, with every fold open; it fails at its end if the page complained."""
    with new_notebook(browser) as notebook:
        page = notebook.page
        page.goto(f"{server.url}voila/render/everyone.ipynb", timeout=180 * SECONDS)
        for index in range(len(SMALL)):
            wait_for_plot(notebook, index=index)
        page.locator(".lntutor-ask").last.get_by_role("radio").last.wait_for()
        page.evaluate(
            """names => document.querySelectorAll('.lntutor-explorer')
                .forEach((root, i) => { root.dataset.name = names[i] })""",
            list(SMALL),
        )
        yield notebook
    assert not notebook.complaints


@pytest.fixture
def page(together: Notebook) -> Iterator[Page]:
    """That page at its usual size."""
    yield together.page
    together.page.set_viewport_size(VIEWPORT)


def to_the_top(page: Page) -> None:
    """Take the focus away, so that Tab begins at the top."""
    page.evaluate("document.body.tabIndex = -1, document.body.focus(), document.body.removeAttribute('tabindex')")


def explorer(page: Page, name: str):
    return page.locator(f".lntutor-explorer[data-name={name}]")


def button(page: Page, name: str, label: str):
    return explorer(page, name).get_by_role("button", name=label, exact=True)


def control(page: Page, name: str, label: str):
    return explorer(page, name).get_by_role("slider", name=label, exact=True)


def alt(page: Page, name: str) -> str:
    return explorer(page, name).locator(".lntutor-live").get_by_role("img").get_attribute("aria-label")


def wait_for_alt(page: Page, name: str, condition: str, *given: str) -> None:
    """Wait until a condition on `words`, the text alternative of an explorer's picture, and `given` holds."""
    look = f"document.querySelector('[data-name={name}] [role=img]').ariaLabel"
    page.wait_for_function(f"given => (words => {condition})({look})", arg=list(given), timeout=60 * SECONDS)


# By keys alone -----------------------------------------------------------------------------------------------------


def test_more_opens_by_enter_and_by_space(page):
    """Oracle: the switch that stands in every fold is in sight; the folds stay open for the tests that follow."""
    assert set(SMALL) == {tile.key for tile in gallery.EXPLORERS}
    for key, name in zip(["Enter", "Space"] * 5, SMALL, strict=False):
        large = explorer(page, name).get_by_role("switch", name="Large type")
        assert not large.is_visible()
        explorer(page, name).locator(".lnk-fold > summary").press(key)
        large.wait_for()


def test_tab_reaches_every_control_in_order_and_shows_where_it_is(page):
    """Oracle: all that takes keys in the page, in its order; the outline of what has the focus; no plot among them."""
    names = page.evaluate(WALK)
    assert len(names) > 100
    to_the_top(page)
    for index, name in enumerate(names):
        page.keyboard.press("Tab")
        here = page.evaluate(FOCUS)
        assert here == {"index": index, "name": name, "seen": True, "inside": True}, (index, name)
        assert here["name"], index


def test_every_kind_of_control_answers_to_keys(page):
    """Oracle: the words of the same figures drawn in this process, as the page has them for a screen reader."""
    name, moved = "TheoremExplorer", TheoremExplorer(depth=6, width=32, along="width")
    control(page, name, "Depth L").press("ArrowRight")
    field = explorer(page, name).get_by_label("Depth L, as a number")
    field.press("ArrowUp")
    explorer(page, name).get_by_role("radio", name="depth", exact=True).press("ArrowRight")
    moved.settle()
    wait_for_alt(page, name, "words === given[0]", moved.plot.alt)
    explorer(page, name).get_by_role("radio", name="width", exact=True).first.press("ArrowLeft")
    field.press("Control+A")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    moved.set(depth=4, along="depth")
    moved.settle()
    wait_for_alt(page, name, "words === given[0]", moved.plot.alt)
    button(page, "PlacementExplorer", "Pre-LN").press("Space")
    wait_for_alt(page, "PlacementExplorer", "words === given[0]", PlacementExplorer(placement="pre").plot.alt)
    before = alt(page, "AttentionExplorer")
    explorer(page, "AttentionExplorer").get_by_role("switch", name="Causal mask").press("Space")
    wait_for_alt(page, "AttentionExplorer", "words !== given[0]", before)
    explorer(page, "AttentionExplorer").get_by_label("Sentence").press("End")
    page.keyboard.type(" today")
    wait_for_alt(page, "AttentionExplorer", "words.includes('7 queries')")


@pytest.mark.parametrize("name", SMALL)
def test_a_slider_says_its_value_as_the_page_shows_it_and_moves_the_picture(page, name):
    """Oracle: the number beside the slider; the words of the picture, or where Run is waited for of the status."""
    slider = explorer(page, name).get_by_role("slider").first
    before, status = alt(page, name), explorer(page, name).locator(".lntutor-status").inner_text()
    value = slider.get_attribute("aria-valuetext")
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    page.wait_for_function(
        """([name, value, before, status]) => {
            const root = document.querySelector(`[data-name=${name}]`)
            const slider = root.querySelector('input[type=range]')
            const text = slider.getAttribute('aria-valuetext')
            const moved = root.querySelector('[role=img]').ariaLabel !== before
                || root.querySelector('.lntutor-status').innerText !== status
            return text !== value && text === slider.nextElementSibling.value && moved
        }""",
        arg=[name, value, before, status],
        timeout=60 * SECONDS,
    )


def test_buttons_copy_show_and_reset_by_keys(page):
    """Oracle: the line of code, the rows of the table, which keys scroll, the words at the start; Escape closes."""
    name = "TheoremExplorer"
    menu = explorer(page, name).locator(".lnk-menu summary")
    menu.press("Enter")
    button(page, name, "Copy as Python").press("Enter")
    copied = explorer(page, name).locator(".lntutor-foot").get_by_label("Copied text")
    copied.wait_for()
    assert copied.input_value().startswith(f"{name}(")
    menu.press("Space")
    button(page, name, "Save numbers (CSV)").press("Escape")
    assert menu.evaluate("node => node === document.activeElement && !node.parentNode.open")
    menu.press("Space")
    button(page, name, "Show or hide the table").press("Space")
    numbers = explorer(page, name).get_by_role("region", name="The numbers of the picture")
    numbers.wait_for()
    head, row = numbers.locator("tr").evaluate_all(ENDS)
    assert head == pytest.approx(row, abs=1)
    numbers.press("End")
    numbers.evaluate("async node => { while (!node.scrollTop) await new Promise(requestAnimationFrame) }")
    button(page, name, "Reset").press("Enter")
    start = TheoremExplorer()
    start.settle()
    wait_for_alt(page, name, "words === given[0]", start.plot.alt)


@pytest.mark.parametrize("name", ["TrainingExplorer", "CurvatureExplorer"])
def test_run_and_stop_by_keys(page, name):
    """Oracle: what the status line says; from Run, which is off while it runs, the focus goes to Stop."""
    button(page, name, "Run").press("Enter")
    page.wait_for_function(
        "name => /(step|product) \\d/.test(document.querySelector(`[data-name=${name}] .lntutor-status`).innerText)",
        arg=name,
        timeout=120 * SECONDS,
    )
    assert page.evaluate("document.activeElement.innerText") == "Stop"
    page.keyboard.press("Space")
    explorer(page, name).locator(".lntutor-status", has_text="Stopped.").wait_for(timeout=60 * SECONDS)
    explorer(page, name).get_by_role("radio", name="How it ended").press("Space")
    explorer(page, name).get_by_role("region", name="How it ended").wait_for()
    explorer(page, name).get_by_role("radio", name="Picture").press("Space")
    page.wait_for_function(
        "name => /Stopped/.test(document.querySelector(`[data-name=${name}] [role=status]`).textContent)", arg=name
    )


# Through a screen reader -------------------------------------------------------------------------------------------


def test_axe_finds_no_barrier_with_everything_open(page):
    """Oracle: axe-core, serious and critical, over all explorers and kinds of questions."""
    assert not violations(page)


def test_the_finding_is_said_once_when_the_hand_rests(page):
    """Oracle: the title of the last picture; what a screen reader was given to say, counted in the page."""
    name = "TheoremExplorer"
    page.evaluate(
        """name => { window.announced = []
            const line = document.querySelector(`[data-name=${name}] [role=status]`)
            new MutationObserver(() => announced.push(line.textContent)).observe(line, { childList: true }) }""",
        name,
    )
    slider = control(page, name, "Depth L")
    for key in ["ArrowRight"] * 8:
        slider.press(key)
    page.wait_for_function("() => announced.length")
    title = "document.querySelector(`[data-name=${name}] .js-plotly-plot`).layout.title.text.replaceAll('<br>', ' ')"
    page.wait_for_function(f"name => announced.at(-1) === {title}", arg=name)
    assert len(page.evaluate("announced")) <= 3  # eight moves, one seed and then all


# Enlarged, and without motion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1280, 960, 640, 400, 320])
def test_nothing_is_cut_off_or_covered(together, page, width):
    """Oracle: the browser's boxes; 640 pixels are 1280 at 200 %, and 320 are 1280 at 400 % (WCAG 1.4.10)."""
    page.set_viewport_size({"width": width, "height": 2400})  # so high that a picture shows an explorer whole
    for index in range(len(SMALL)):
        wait_for_plot(together, f"gd._fullLayout.width === gd.closest('.lntutor-live').clientWidth && {width}", index)
    for name in SMALL:
        explorer(page, name).screenshot(path=HERE / "screenshots" / f"everyone_{name}_{width}.png")
    assert "\n".join(page.evaluate(CROWDED)) == ""


def test_nothing_moves_by_itself_where_the_reader_asks_for_that(page):
    """Oracle: the computed animations and transitions of everything in the page; some move where nobody asks."""
    assert page.evaluate(MOVING)
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(MOVING) == []
    page.emulate_media(reduced_motion="no-preference")


# The app's own pages -----------------------------------------------------------------------------------------------


def test_the_start_page_and_an_explorers_page_have_no_barrier(server, browser):
    """Oracle: axe-core; a language, a title, a heading and a main part; the way back is the first stop of Tab."""
    with new_notebook(browser) as notebook:
        page = notebook.page
        page.emulate_media(reduced_motion="reduce")
        page.set_viewport_size({"width": 640, "height": 450})
        for address in ("", "voila/render/PlacementExplorer.ipynb"):
            page.goto(f"{server.url}{address}", timeout=120 * SECONDS)
            if address:
                assert page.evaluate(MOVING) == []  # also while it loads
                wait_for_plot(notebook)
            assert page.locator("html").get_attribute("lang") == "en"
            assert page.title()
            assert page.get_by_role("heading", level=1).count() == page.get_by_role("main").count() == 1
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert page.evaluate(MOVING) == []
            assert not violations(page)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.innerText") == "← All explorers and notebooks"
    assert not notebook.complaints


# In JupyterLab -----------------------------------------------------------------------------------------------------


def test_jupyterlab_leaves_the_keys_to_the_explorer(in_lab):
    """Oracle: the slider's value, the fold, the chips; letters that JupyterLab has commands for add and cut no cell.

    Shift+Enter, which is JupyterLab's, still goes to the next cell.
    """
    notebook = in_lab("from lntutor.explore import CurvatureExplorer", "CurvatureExplorer(depth=3, width=32)", "1 + 1")
    page, root = notebook.page, notebook.page.locator(".lntutor-explorer")
    wait_for_plot(notebook)
    slider = notebook.slider("Depth")
    slider.click()
    slider.press("Home")
    cell = page.locator(".jp-Cell.jp-mod-active").get_attribute("data-windowed-list-index")
    for key, depth in {"ArrowUp": 2, "ArrowRight": 3, "ArrowDown": 2, "b": 2, "a": 2, "x": 2, "d": 2}.items():
        slider.press(key)
        page.wait_for_function(f"document.querySelector('[aria-label=Depth]').ariaValueText === '{depth}'")
    for key, is_open in (("Enter", True), ("Space", False)):
        root.locator(".lnk-fold > summary").press(key)
        assert root.locator(".lnk-fold").evaluate("node => node.open") is is_open
    chip = notebook.chip("Pre-LN")
    chip.press("x")
    chip.press("Space")
    page.wait_for_function("document.querySelector('.lnk-chip[data-key=pre]').ariaPressed === 'false'")
    assert page.locator(".jp-Cell.jp-mod-active").get_attribute("data-windowed-list-index") == cell
    assert page.locator(".jp-Cell").count() == 3
    slider.press("Shift+Enter")
    page.locator(".jp-Cell").nth(2).and_(page.locator(".jp-mod-active")).wait_for()
