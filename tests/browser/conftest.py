"""A real JupyterLab, started as `python -m lntutor lab` starts it, in a real browser."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from lntutor.browser import find_browser

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
SECONDS = 1000  # Playwright counts in milliseconds


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test in this folder, and run notebooks and browser after the quick tests."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("browser")
    items.sort(key=lambda item: [bool(item.get_closest_marker(name)) for name in ("browser", "notebook")])


@dataclass(frozen=True)
class Server:
    """A running JupyterLab."""

    url: str  # ends in /
    token: str
    pid: int


@dataclass
class Notebook:
    """A notebook open in JupyterLab, and what its page complained about."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Note errors in the console and every request to another machine."""
        self.page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        self.page.on("console", self._note_console)
        self.page.on("request", lambda request: self._note_address(request.url))
        self.page.on("websocket", lambda socket: self._note_address(socket.url))

    def _note_console(self, message) -> None:
        if message.type == "error":
            self.complaints.append(f"console: {message.text} ({message.location.get('url')})")

    def _note_address(self, url: str) -> None:
        address = urlsplit(url)
        if address.scheme not in {"data", "blob"} and address.hostname != "127.0.0.1":
            self.complaints.append(f"left the machine: {url}")

    def open(self, server: Server, name: str) -> None:
        """Open a notebook in a workspace of its own, where no tab is restored, and wait for its kernel."""
        address = f"{server.url}lab/workspaces/{uuid.uuid4().hex}/tree/notebooks/{name}.ipynb"
        self.page.goto(f"{address}?token={server.token}")
        self.wait_for_idle()

    def wait_for_idle(self) -> None:
        """Wait until the kernel is connected and has nothing to do, as the status bar says."""
        status = self.page.locator("#jp-main-statusbar").get_by_text("Python 3 (ipykernel) | Idle")
        status.wait_for(state="attached", timeout=120 * SECONDS)

    def title(self) -> str:
        """The name on the tab in front."""
        return self.page.locator("#jp-main-dock-panel .lm-TabBar-tab.jp-mod-current").inner_text().strip()

    def run_all(self, timeout: float = 240) -> None:
        """Run every cell by the menu, as a reader does, and wait until the last one has its number."""
        self.page.locator(".lm-MenuBar-item", has_text="Run").first.click()
        self.page.locator('[data-command="runmenu:run-all"]').click()
        self.page.wait_for_function(
            """() => {
                const prompts = [...document.querySelectorAll('.jp-CodeCell .jp-InputArea-prompt')]
                return prompts.length > 0 && prompts.every(prompt => /\\[\\d+\\]/.test(prompt.textContent))
            }""",
            timeout=timeout * SECONDS,
        )
        self.wait_for_idle()

    def outputs(self) -> str:
        """The text of all outputs."""
        return "\n".join(self.page.locator(".jp-OutputArea-output").all_text_contents())

    def errors(self) -> list[str]:
        """The text of every output that is an error or a warning."""
        kinds = ("error", "stderr")
        selector = ", ".join(f'[data-mime-type="application/vnd.jupyter.{kind}"]' for kind in kinds)
        return self.page.locator(selector).all_text_contents()

    def screenshot(self, name: str) -> Path:
        """A picture of the page, for people to look at."""
        path = HERE / "screenshots" / f"{name}.png"
        self.page.screenshot(path=path)
        return path


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab with its default settings in an empty home; only autosave is off, to spare the notebooks."""
    home = tmp_path_factory.mktemp("home")
    runtime = home / "runtime"
    settings = home / "settings" / "@jupyterlab" / "docmanager-extension"
    settings.mkdir(parents=True)
    (settings / "plugin.jupyterlab-settings").write_text('{"autosave": false}')
    jupyter = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")} | {
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
    }
    log = home / "log"
    command = [sys.executable, "-m", "lntutor", "lab", "--no-browser"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=jupyter, stdout=output, stderr=output)
    try:
        yield wait_for_server(process, runtime, log)
    finally:
        process.terminate()
        process.wait(30)


def wait_for_server(process: subprocess.Popen, runtime: Path, log: Path, seconds: float = 90) -> Server:
    """The address and token that the server writes down once it serves."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        for path in runtime.glob("jpserver-*.json"):
            info = json.loads(path.read_text() or "null")
            if info:
                return Server(info["url"], info["token"], info["pid"])
        time.sleep(0.1)
    pytest.fail(f"JupyterLab did not start within {seconds:.0f} s:\n{log.read_text()}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium or Chrome; without one the tests are skipped, or fail where CI=true."""
    program = find_browser()
    if program is None:
        reason = "no Chromium or Chrome found: install one or set LNTUTOR_BROWSER"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def notebook(browser: Browser) -> Iterator[Notebook]:
    """An empty page; the test fails at its end if the page complained."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    notebook = Notebook(context.new_page())
    notebook.watch()
    yield notebook
    context.close()
    assert not notebook.complaints
