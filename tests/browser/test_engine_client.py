"""The page's side of the playground's workers: the newest request wins, and every refusal is a sentence."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

import lntutor as ln
from lntutor.page.playground.page import as_script, graph_of
from lntutor.publish.browser import find_browser
from tests.browser.jupyter import FLAGS
from tests.browser.page_engine import DEFAULTS, Engine, engine_page, job

SMALL = {"depth": 2, "width": 32}
LOG = """async ([configs, wait]) => {
    const client = open(""), heard = []
    const ended = new Promise((resolve) => configs.forEach((config, i) => {
        const onResult = (result) => {
            heard.push([i, result.config.depth, result.gradients.length, result.done])
            if (result.done && i === configs.length - 1) resolve()
        }
        setTimeout(() => client.request(config, { onResult, onError: resolve }), i * wait)
    }))
    await ended
    await new Promise((resolve) => setTimeout(resolve, 200))
    client.close()
    return heard
}"""


def config(**changes) -> dict:
    return DEFAULTS | {"graph": graph_of(ln.PLACEMENTS["pre"])[0]} | changes


@pytest.mark.parametrize("wait", [0, 5])
def test_the_newest_of_ten_quick_requests_wins(engine, wait):
    """Oracle: the order of the requests; nothing of an older one comes after a newer one was asked."""
    configs = [config(depth=depth, seeds=2) for depth in range(12, 2, -1)]
    heard = engine.page.evaluate(LOG, [configs, wait])
    order = [i for i, *_ in heard]
    assert order == sorted(order)
    last = [entry for entry in heard if entry[0] == 9]
    assert [entry[3] for entry in last] == [False] * (len(last) - 1) + [True]
    assert {(depth, rows) for _, depth, rows, _ in last} == {(3, 3 * 16)}
    if not wait:
        assert set(order) == {9}


def test_results_come_in_parts_and_the_first_has_one_seed(engine):
    """Oracle: the seeds that each result says it holds."""
    counts = engine.page.evaluate(
        """(config) => new Promise((resolve, reject) => {
            const client = open(""), counts = []
            client.request(config, { onError: reject, onResult: (result) => {
                counts.push([result.seeds, ...new Set(result.gradients.map(({ values }) => values.length))])
                if (result.done) resolve(counts)
            } })
        })""",
        config(**SMALL, seeds=3),
    )
    assert counts[0] == [1, 1]
    assert counts[-1] == [3, 3]
    assert all(seeds == length for seeds, length in counts)
    assert [seeds for seeds, _ in counts] == sorted(seeds for seeds, _ in counts)


def test_a_closed_client_says_nothing_more(engine):
    """Oracle: the calls counted."""
    calls = engine.page.evaluate(
        """async (config) => {
            let calls = 0
            const client = open("")
            client.request(config, { onResult: () => calls++, onError: () => calls++ })
            client.close()
            await new Promise((resolve) => setTimeout(resolve, 300))
            return calls
        }""",
        config(**SMALL),
    )
    assert calls == 0


AHEAD = """async ([first, second]) => {
    const client = open("")
    await ask(client, first)
    for (let i = 0; i < 100 && client.ready.size < 2; i++) await new Promise((resolve) => setTimeout(resolve, 50))
    const heard = []
    let tasks = 0
    const count = new MessageChannel()
    count.port1.onmessage = () => tasks++
    const last = await new Promise((resolve, reject) => {
        const onResult = (result) => (heard.push([tasks, result.seeds]), result.done && resolve(plain(result)))
        client.request(second, { onError: reject, onResult })
        count.port2.postMessage(0)
    })
    client.close()
    const fresh = open("")
    const alone = await ask(fresh, second)
    fresh.close()
    return [heard, last, alone]
}"""


@pytest.mark.parametrize(("to", "theory"), [(7, True), (5, True), (7, False)])
def test_the_next_key_on_the_depth_slider_is_answered_before_the_worker_is_asked(engine, to, theory):
    """Oracle: the same request to a client that has measured nothing ahead; the first answer comes within the task."""
    first, second = (config(depth=depth, width=32, seeds=2, theory=theory) for depth in (6, to))
    heard, ours, alone = engine.page.evaluate(AHEAD, [first, second])
    assert heard[0] == [0, 1]
    assert heard[-1][1] == 2
    assert {name: ours[name] for name in ("gradients", "signals", "done")} == {
        name: alone[name] for name in ("gradients", "signals", "done")
    }


def held(page: Page) -> int:
    """Bytes of the kernel's memory in the newest worker."""
    return page.workers[-1].evaluate("shop.memory.memory.buffer.byteLength")


def test_many_sizes_in_a_row_keep_the_memory_bounded(browser, tmp_path):
    """Oracle: the bytes of the kernel's memory, which the largest network sets; samples are forgotten in between."""
    sizes = [(48, 256), (2, 16), (30, 192), (40, 256), (6, 96), (48, 256)]
    with engine_page(browser, tmp_path) as engine:
        used, most = [], 0
        for depth, width in sizes:
            [result] = engine.run([job("post", depth=depth, width=width, theory=False, tokens=4)])
            assert result["done"]
            used.append(engine.page.workers[-1].evaluate("shop.bank.used"))
            most = most or held(engine.page)
        limit = engine.page.evaluate("Number((0, Function)(`${WORKER}; return WEIGHTS`)())")
        assert used[0] > limit > used[1]
        assert held(engine.page) < 1.05 * max(most, limit)


def test_samples_that_were_forgotten_are_drawn_again_alike(browser, tmp_path):
    """Oracle: the result before they were forgotten."""
    with engine_page(browser, tmp_path) as engine:
        asked = job("post", **SMALL, theory=False)
        [before] = engine.run([asked])
        engine.page.workers[-1].evaluate("shop.bank.used = 2 ** 40")
        engine.run([job("post", depth=3, width=48, theory=False)])
        [after] = engine.run([asked])
        assert before["gradients"] == after["gradients"]


def test_a_model_too_large_for_the_page_gets_a_sentence_and_a_smaller_one_goes_on(engine):
    """Oracle: the words of the sentence; the same client then answers."""
    asked = [job("post", depth=48, width=256, ffn=4, heads=8, tokens=64, theory=False), job("post", **SMALL)]
    refused, answered = engine.run(asked)
    assert refused["sentence"].startswith("Depth 48, width 256 needs ")
    assert "Make one of them smaller." in refused["sentence"]
    assert answered["done"]


# Browsers that cannot ------------------------------------------------------------------------------------------

ANSWER = """async (text) => (await ask(open(""), JSON.parse(text))).sentence"""
IN_WORKERS = """<script>
    const Plain = Blob
    Blob = class extends Plain { constructor(parts, kind) { super([`%s\\n`, ...parts], kind) } }
</script>"""
UNABLE = {
    "no Worker": ("<script>delete globalThis.Worker</script>", "runs no workers here"),
    "no blob addresses": ("<script>URL.createObjectURL = () => { throw new Error() }</script>", "runs no workers here"),
    "workers forbidden": (
        """<meta http-equiv=Content-Security-Policy content="worker-src 'none'">""",
        "runs no workers here",
    ),
    "no WebAssembly": (IN_WORKERS % "delete globalThis.WebAssembly", "WebAssembly with SIMD"),
    "kernel refused": (
        IN_WORKERS % "WebAssembly.instantiate = async () => { throw new WebAssembly.CompileError() }",
        "WebAssembly with SIMD",
    ),
    "out of memory": (
        IN_WORKERS % "WebAssembly.Memory.prototype.grow = () => { throw new RangeError('no room') }",
        "Make the model smaller, or load the page again.",
    ),
}


def open_engine(page: Page, folder, head: str = "") -> Engine:
    """An engine whose page may complain."""
    engine = Engine(page)
    engine.load(folder, head)
    return engine


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(offline=True)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("case", UNABLE)
def test_a_browser_that_cannot_compute_says_so_in_a_sentence(page, tmp_path, case):
    """Oracle: the words, twice: a second request must not hang."""
    head, words = UNABLE[case]
    engine = open_engine(page, tmp_path, head)
    for _ in range(2):
        assert words in page.evaluate(ANSWER, as_script(config(**SMALL)))
    assert not [text for text in engine.complaints if text.startswith("uncaught")]


def test_a_browser_without_simd_says_so_in_a_sentence(browser, tmp_path):
    """Oracle: a real Chromium that was told to forget the processor's SSE 4.1, as V8's SIMD needs it."""
    program = find_browser()
    flags = [*FLAGS, "--js-flags=--no-enable-sse4-1 --no-enable-avx"]
    with browser.browser_type.launch(executable_path=program, args=flags) as plain:
        page = plain.new_page()
        open_engine(page, tmp_path)
        body = "1,8,0,65,0,253,15,253,98,11"  # i32.const 0, i8x16.splat, i8x16.popcnt
        bytes_ = f"0,97,115,109,1,0,0,0,1,5,1,96,0,1,123,3,2,1,0,10,10,{body}"
        probe = f"WebAssembly.validate(new Uint8Array([{bytes_}]))"
        if page.evaluate(probe):
            pytest.skip("this Chromium has SIMD in any case")
        assert "WebAssembly with SIMD" in page.evaluate(ANSWER, as_script(config(**SMALL)))


def test_a_worker_that_stopped_is_replaced(engine):
    """Oracle: a sentence for a request that fails in the worker, and numbers for the next."""
    failing = config(**SMALL, tokens=-1)
    sentence = engine.page.evaluate(ANSWER, as_script(failing))
    assert sentence.endswith("Make the model smaller, or load the page again.")
    [result] = engine.run([job("pre", **SMALL)])
    assert result["done"]
