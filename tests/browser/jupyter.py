"""A real JupyterLab and a real Voilà in a real browser, for the tests and for the benchmarks."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
from jupyter_client import BlockingKernelClient
from playwright.sync_api import Browser, Locator, Page, Route, WebSocket, sync_playwright

from lntutor.publish.lab import lab_arguments, lab_environment

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
FONTS = ("s", "-anonymous-pro", "-atkinson-hyperlegible", "-dejavu-sans-mono", "-fira-code")  # come with the slides
LAB_ONLY = ["jupyterlab-jupytext", "jupyterlab-slideshow", *(f"@deathbeds/jupyterlab-font{name}" for name in FONTS)]
# Plain Voilà keeps the kernel of every page that was closed: after a hundred pages the memory is full.
CULL = ["--MappingKernelManager.cull_idle_timeout=20", "--MappingKernelManager.cull_interval=5"]
SECONDS = 1000  # Playwright counts in milliseconds
VIEWPORT = {"width": 1280, "height": 900}


@dataclass(frozen=True)
class Server:
    """A running JupyterLab or Voilà."""

    url: str  # ends in /
    token: str
    pid: int
    home: Path

    def end_kernels(self) -> None:
        """End the kernels that earlier pages left behind."""
        for kernel in json.loads(self._ask("GET", "api/kernels")):
            self._ask("DELETE", f"api/kernels/{kernel['id']}")

    def ask(self, code: str, timeout: float = 600) -> str:
        """What code prints in the kernel that started last; an error there is raised here."""
        newest = max(self.home.rglob("kernel-*.json"), key=lambda path: path.stat().st_mtime)
        printed: list[str] = []

        def note(message: dict) -> None:
            if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                printed.append(message["content"]["text"])

        client = BlockingKernelClient(connection_file=str(newest))
        client.load_connection_file()
        client.start_channels()
        try:
            reply = client.execute_interactive(code, store_history=False, output_hook=note, timeout=timeout)["content"]
        finally:
            client.stop_channels()
        if reply["status"] != "ok":
            raise RuntimeError("\n".join(reply["traceback"]))
        return "".join(printed)

    def _ask(self, method: str, path: str) -> bytes:
        headers = {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(f"{self.url}{path}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()


@dataclass
class Notebook:
    """A notebook open in a page, what the page complained about, and what it received over its sockets."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)  # bytes of every message from the server

    def watch(self) -> None:
        """Note errors in the console, every request to another machine and the size of every message."""
        self.page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        self.page.on("console", self._note_console)
        self.page.on("request", lambda request: self._note_address(request.url))
        self.page.on("websocket", self._note_socket)
        self.page.route("**/npm/@fortawesome/**", self._no_icons)

    def _note_console(self, message) -> None:
        if message.type == "error":
            self.complaints.append(f"console: {message.text} ({message.location.get('url')})")

    def _note_address(self, url: str) -> None:
        address = urlsplit(url)
        if address.scheme not in {"data", "blob"} and address.hostname != "127.0.0.1" and "@fortawesome" not in url:
            self.complaints.append(f"left the machine: {url}")

    def _note_socket(self, socket: WebSocket) -> None:
        self._note_address(socket.url)
        socket.on("framereceived", lambda frame: self.frames.append(len(frame)))

    def _no_icons(self, route: Route) -> None:
        """Voilà's own page asks another machine for a font of icons; the page must do without."""
        route.fulfill(status=200, content_type="text/css", body="")

    def open(self, server: Server, name: str, folder: str = "notebooks/") -> None:
        """Open a notebook in a workspace of its own, where no tab is restored, and wait for its kernel."""
        address = f"{server.url}lab/workspaces/{uuid.uuid4().hex}/tree/{folder}{name}.ipynb"
        self.page.goto(f"{address}?token={server.token}")
        self.wait_for_idle()

    def wait_for_idle(self) -> None:
        """Wait until the kernel is connected and has nothing to do, as the status bar says."""
        status = self.page.locator("#jp-main-statusbar").get_by_text("Python 3 (ipykernel) | Idle")
        status.wait_for(state="attached", timeout=120 * SECONDS)

    def title(self) -> str:
        """The name on the tab in front."""
        return self.page.locator("#jp-main-dock-panel .lm-TabBar-tab.jp-mod-current").inner_text().strip()

    def menu(self, name: str, command: str) -> None:
        """Choose a command by the menu, as a reader does."""
        self.page.locator(".lm-MenuBar-item", has_text=name).first.click()
        self.page.locator(f'.lm-Menu-item[data-command="{command}"]').click()

    def run_all(self, timeout: float = 360) -> None:
        """Run every cell by the menu, as a reader does, and wait until the last one has its number."""
        self.menu("Run", "runmenu:run-all")
        self.page.wait_for_function(
            """() => {
                const prompts = [...document.querySelectorAll('.jp-CodeCell .jp-InputArea-prompt')]
                return prompts.length > 0 && prompts.every(prompt => /\\[\\d+\\]/.test(prompt.textContent))
            }""",
            timeout=timeout * SECONDS,
        )
        self.wait_for_idle()

    def save(self) -> None:
        """Save the notebook by the menu and wait until its tab says so."""
        self.menu("File", "docmanager:save")
        self.page.locator(".jp-mod-dirty").wait_for(state="detached")

    def outputs(self) -> str:
        """The text of all outputs."""
        return "\n".join(self.page.locator(".jp-OutputArea-output").all_text_contents())

    def errors(self) -> list[str]:
        """The text of every output that is an error or a warning."""
        kinds = ("error", "stderr")
        selector = ", ".join(f'[data-mime-type="application/vnd.jupyter.{kind}"]' for kind in kinds)
        return self.page.locator(selector).all_text_contents()

    def button(self, name: str) -> Locator:
        """A button of the explorer by its name."""
        return self.page.locator(".lntutor-explorer").get_by_role("button", name=name, exact=True)

    def wait_for_status(self, text: str) -> str:
        """Wait until the explorer's status line has this text; all that it says then."""
        status = self.page.locator(".lntutor-explorer .lntutor-status", has_text=text)
        status.wait_for(state="attached", timeout=120 * SECONDS)
        return status.inner_text()

    def slider(self, name: str) -> Locator:
        """A slider of the explorer by its name, in view, with the keys."""
        slider = self.page.locator(".lntutor-explorer").get_by_role("slider", name=name, exact=True)
        slider.scroll_into_view_if_needed()
        slider.focus()
        return slider

    def choose(self, item: str, index: int = 0) -> None:
        """An item of the menu of data."""
        menu = self.page.locator(".lntutor-explorer .lnk-menu").nth(index)
        menu.locator("summary").click()
        menu.get_by_role("button", name=item, exact=True).click()

    def chip(self, label: str) -> Locator:
        """A placement of the explorer."""
        return self.page.locator(".lntutor-explorer .lnk-chip", has_text=re.compile(f"^{re.escape(label)}$")).first

    def screenshot(self, name: str) -> Path:
        """A picture of the page, for people to look at."""
        path = HERE / "screenshots" / f"{name}.png"
        self.page.screenshot(path=path)
        return path


def status_code(url: str) -> int:
    """What a server answers to a request without cookies."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def write_notebook(path: Path, *cells: str) -> Path:
    """A notebook of code cells."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    nbformat.write(notebook, path)
    return path


def project_command() -> list[str]:
    """JupyterLab over the project, as `make lab` starts it."""
    return [sys.executable, "-m", "lntutor", "lab", "--no-browser"]


def scratch_command(root: Path) -> list[str]:
    """JupyterLab with the same arguments over a folder of its own."""
    return [sys.executable, "-m", "jupyterlab", *lab_arguments(root / "any.ipynb", browser=False, root=root)]


@contextmanager
def jupyterlab(home: Path, command: list[str]) -> Iterator[Server]:
    """JupyterLab with its default settings in an empty home; only autosave is off, to spare the notebooks."""
    settings = home / "settings" / "@jupyterlab" / "docmanager-extension"
    settings.mkdir(parents=True)
    (settings / "plugin.jupyterlab-settings").write_text('{"autosave": false}')
    with _process(command, home) as (process, log):
        info = _wait(lambda: _written(home / "runtime"), process, log)
        _wait(lambda: _answers(f"{info['url']}api?token={info['token']}"), process, log)  # it may not listen yet
        yield Server(info["url"], info["token"], info["pid"], home)


@contextmanager
def voila(home: Path, root: Path, *options: str) -> Iterator[Server]:
    """Voilà over a folder, with its default settings and these in an empty home."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}/"
    others = [f"--VoilaConfiguration.extension_denylist={name}" for name in LAB_ONLY]
    usual = ["--no-browser", "--Voila.ip=127.0.0.1", f"--port={port}", f"--Voila.connection_dir_root={home}"]
    command = [sys.executable, "-m", "voila", *usual, *CULL, *others, *options, str(root)]
    with _process(command, home) as (process, log):
        _wait(lambda: _answers(url), process, log)
        yield Server(url, "", process.pid, home)


@contextmanager
def app_server(home: Path, *options: str, address: str = "127.0.0.1", word: str = "") -> Iterator[Server]:
    """The app as `python -m lntutor app` starts it with these options, in an empty home."""
    port = _free_port()
    url = f"http://{address}:{port}/"
    command = [sys.executable, "-m", "lntutor", "app", "--no-browser", f"--port={port}", *options]
    with _process(command, home) as (process, log):
        _wait(lambda: _answers(f"{url}?token={word}"), process, log)
        yield Server(url, word, process.pid, home)


@contextmanager
def chromium(program: str) -> Iterator[Browser]:
    """Chromium or Chrome without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def new_notebook(browser: Browser) -> Iterator[Notebook]:
    """An empty page, watched."""
    context = browser.new_context(viewport=VIEWPORT)
    notebook = Notebook(context.new_page())
    notebook.watch()
    yield notebook
    context.close()


def _environment(home: Path) -> dict[str, str]:
    """The variables that keep a server to its own home."""
    names = {
        "HOME": "",
        "IPYTHONDIR": "ipython",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    return kept | {name: str(home / part) for name, part in names.items()} | lab_environment({})


@contextmanager
def _process(command: list[str], home: Path) -> Iterator[tuple[subprocess.Popen, Path]]:
    """A server of our own, ended when we leave."""
    log = home / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=_environment(home), stdout=output, stderr=output)
    try:
        yield process, log
    finally:
        process.terminate()
        process.wait(30)


def _wait(look: Callable, process: subprocess.Popen, log: Path, seconds: float = 90):
    """What `look` finds, once it does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if found := look():
            return found
        time.sleep(0.1)
    raise RuntimeError(f"{' '.join(process.args)} did not start within {seconds:.0f} s:\n{log.read_text()}")


def _written(runtime: Path) -> dict | None:
    """What JupyterLab writes down once it serves."""
    return next((json.loads(path.read_text() or "null") for path in runtime.glob("jpserver-*.json")), None)


def _answers(url: str) -> bool:
    """Whether a server answers at this address."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def _free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
