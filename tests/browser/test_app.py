"""The app in a real browser: its start page, an explorer in it, and what is refused."""

from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from lntutor.publish import app, gallery
from tests.browser.jupyter import SECONDS, Notebook, Server, app_server, status_code
from tests.browser.test_live import plot_value, wait_for_plot

WORD = "kotabemiru"
ASK = """() => new Promise(resolve => {
    const kernel = JSON.parse(document.querySelector('#jupyter-config-data').textContent).kernelId
    const socket = new WebSocket(`ws://${location.host}/api/kernels/${kernel}/channels?session_id=other`)
    const replies = []
    const send = (msg_type, content) => socket.send(JSON.stringify({
        header: { msg_id: msg_type, msg_type, username: '', session: 'other', date: '2020-01-01', version: '5' },
        parent_header: {}, metadata: {}, content, channel: 'shell', buffers: [],
    }))
    socket.onopen = () => {
        send('execute_request', { code: '1 / 0', silent: false, store_history: false, user_expressions: {} })
        send('comm_info_request', { target_name: 'none' })
    }
    socket.onmessage = ({ data }) => {
        const message = typeof data === 'string' ? JSON.parse(data) : {}
        if (message.channel === 'shell' && message.parent_header.session === 'other') replies.push(message.msg_type)
        if (message.msg_type === 'comm_info_reply') resolve(replies)
    }
})"""
LOADED = "() => [...document.images].filter(image => image.complete && image.naturalWidth > 400).length"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app for this machine alone, as `make app` starts it."""
    with app_server(tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture
def strict(notebook: Notebook) -> Notebook:
    """A page in which even Voilà's font of icons, which other tests overlook, is a complaint."""
    notebook.page.on(
        "request", lambda request: notebook.complaints.append(request.url) if "@fortawesome" in request.url else None
    )
    return notebook


def test_the_start_page_opens_an_explorer_that_follows_its_slider(server, strict):
    """Oracle: a loaded picture per explorer, the number of layers drawn; a complaint or a request elsewhere fails."""
    page = strict.page
    page.goto(server.url)
    assert page.locator("ul.tiles a").count() == len(gallery.TILES)
    assert page.evaluate(LOADED) == len((gallery.PLAYGROUND, *gallery.EXPLORERS))
    strict.screenshot("app_gallery")

    page.get_by_role("link", name="Theorem 1").click()
    wait_for_plot(strict)
    assert page.locator(".jp-InputArea-editor").count() == 0  # no code
    before = plot_value(strict, "Math.max(...gd._fullData[0].x)")
    strict.slider("Depth L").press("ArrowRight")
    wait_for_plot(strict, f"Math.max(...gd._fullData[0].x) === {before} + 1")
    strict.screenshot("app_explorer")

    kernel = page.evaluate("JSON.parse(document.querySelector('#jupyter-config-data').textContent).kernelId")
    assert status_code(f"{server.url}api/kernels/{kernel}") == 200
    page.get_by_role("link", name="All explorers and notebooks").click()
    page.locator("ul.tiles").first.wait_for()
    ended = f"async () => (await fetch('/api/kernels/{kernel}')).status === 404"
    page.evaluate(f"async () => {{ while (!(await ({ended})())) await new Promise(r => setTimeout(r, 200)) }}")
    strict.complaints = [
        complaint for complaint in strict.complaints if kernel not in complaint
    ]  # the last answer, 404


def test_a_page_cannot_run_code_of_its_own_and_other_sites_reach_no_kernel(server, notebook):
    """Oracle: a kernel answers in order; asked to run code and then for its widgets, it answers the second alone.

    HTTP's 403 to a socket that another site's page opens, and to a request under another name for this machine.
    """
    notebook.page.goto(f"{server.url}voila/render/PlacementExplorer.ipynb", timeout=60 * SECONDS)
    wait_for_plot(notebook)
    assert notebook.page.evaluate(ASK) == ["comm_info_reply"]
    kernel = notebook.page.evaluate("JSON.parse(document.querySelector('#jupyter-config-data').textContent).kernelId")
    channels = f"{server.url}api/kernels/{kernel}/channels"
    assert handshake(channels) == 101
    assert handshake(channels, Host="localhost.invalid") == 403
    assert handshake(channels, Origin="http://localhost.invalid") == 403


def handshake(url: str, **headers: str) -> int:
    """What a server answers to a page that opens a socket; urllib would close the connection."""
    wanted = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    address = urlsplit(url)
    with closing(HTTPConnection(address.netloc, timeout=30)) as connection:
        connection.request("GET", address.path, headers={**wanted, "Sec-WebSocket-Key": "A" * 22 + "==", **headers})
        return connection.getresponse().status


def test_a_page_follows_the_systems_theme(server, notebook):
    """Oracle: the grounds of page and plot and the colour of a heading, before and after the system's change."""
    page = notebook.page
    page.emulate_media(color_scheme="dark")
    page.goto(f"{server.url}voila/render/PlacementExplorer.ipynb", timeout=60 * SECONDS)
    wait_for_plot(notebook, "gd._fullLayout.paper_bgcolor === '#1b2028'")
    ground = "getComputedStyle(document.querySelector('#rendered_cells')).backgroundColor"
    assert page.evaluate(ground) == "rgb(19, 23, 29)"
    ink = "getComputedStyle(document.querySelector('.jp-RenderedMarkdown h1')).color"
    assert page.evaluate(ink) == "rgb(255, 255, 255)"
    notebook.screenshot("app_dark")
    page.emulate_media(color_scheme="light")
    wait_for_plot(notebook, "gd._fullLayout.paper_bgcolor === 'white'")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert page.evaluate(ink) == "rgba(0, 0, 0, 0.87)"


def test_nothing_but_the_pages_can_be_read(server):
    """Oracle: files and folders that are there, in the project and in what is served."""
    refused = [
        "voila/files/README.md",
        "voila/files/00_start_here.ipynb",
        "voila/files/../README.md",
        "voila/render/README.md",
        "voila/render/..%2Fnotebooks%2F00_start_here.ipynb",
        "voila/tree",
        "voila/api/contents",
        "voila/static/../../../README.md",
        "api/contents",
        "README.md",
    ]
    answers = {path: status_code(server.url + path) for path in refused}
    assert set(answers.values()) <= {403, 404}, answers


def test_a_class_needs_the_word(tmp_path, notebook):
    """Oracle: pages with and without the word, at this machine's address in its network."""
    [address] = app.own_addresses("0.0.0.0")
    with app_server(tmp_path, "--classroom", "--warm=0", f"--word={WORD}", word=WORD) as server:
        url = server.url if address.startswith("127.") else server.url.replace("127.0.0.1", address)
        for path in ("", "wrongword", "voila/render/TheoremExplorer.ipynb"):
            assert status_code(url + path) == 403
        assert status_code(f"{url}api/kernels/{'-'.join(['a'] * 5)}") == 403
        assert status_code(f"{url}{WORD}") == 200
        notebook.page.goto(server.url)
        notebook.page.get_by_label("the word").fill(WORD)
        notebook.screenshot("app_door")
        notebook.page.get_by_role("button", name="Open").click()
        notebook.page.locator("ul.tiles").first.wait_for(timeout=10 * SECONDS)
        notebook.complaints = [
            complaint for complaint in notebook.complaints if "403" not in complaint
        ]  # the door itself
