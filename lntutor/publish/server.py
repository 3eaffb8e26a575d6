"""The server of `make app`: Voilà with our start page, warm kernels, a limit on their number, and no other files.

A warm kernel has imported the course and drawn one figure before anyone asks for it, and serves any page: from click to
curve it saves half the time (benchmarks/app.py). Voilà's own preheating keeps kernels per notebook, so that 19 pages
would need 19 of them, each of which has run its whole notebook.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import subprocess
import threading
import webbrowser
from functools import cache, partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import tornado.ioloop
import tornado.web
from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from plotly.offline import get_plotlyjs, get_plotlyjs_version
from traitlets import Float, Int, Unicode
from traitlets.config import Config
from voila.app import Voila
from voila.shutdown_kernel_handler import VoilaShutdownKernelHandler

from lntutor.lesson.notes import HOME
from lntutor.page import document
from lntutor.page.document import render
from lntutor.page.playground import page as playground

TEMPLATES = Path(__file__).resolve().parent / "jupyter" / "app"
# What is served besides our own pages: the kernels of open pages, scripts and styles, the notebooks.
SERVED = (
    "/api/kernels/", "/voila/templates/", "/voila/static/", "/voila/api/themes/", "/voila/labextensions/",
    "/voila/render/", "/voila/execution/",
)  # fmt: skip
EXTENSIONS = ["@voila-dashboards/widgets-manager8", "@jupyter-widgets/jupyterlab-manager", "anywidget"]
# A kernel's first figure loads much of torch and plotly. The widgets are closed, or the page would fetch them all.
WARM = """\
import lntutor.explore
from ipywidgets import Widget

lntutor.explore.TheoremExplorer()
Widget.close_all()
del lntutor, Widget
"""


class Kernels(AsyncMappingKernelManager):
    """Kernels up to a limit, a few of which are warm before a page asks for one."""

    limit = Int(8, config=True, help="largest number of open pages")
    warm = Int(0, config=True, help="number of kernels kept warm")
    pause = Float(4, config=True, help="seconds from the opening of a page to warming the next kernel")
    homes = Unicode(config=True, help="folder with one folder of notes per kernel; empty: the notes of the user")

    def __init__(self, **options):
        super().__init__(**options)
        self._warmed: list[asyncio.Task] = []
        self._starting = 0

    def fill(self) -> None:
        """Start warming the missing kernels, within the limit."""
        while len(self._warmed) < self.warm and self._in_use() < self.limit:
            self._warmed.append(asyncio.get_running_loop().create_task(self._warm_one()))

    async def start_kernel(self, **options) -> str:
        """The id of a warm kernel if there is one, else of a new one; HTTP 503 at the limit."""
        asyncio.get_running_loop().call_later(self.pause, self.fill)
        while self._warmed:
            try:
                return await self._warmed.pop(0)
            except Exception:
                self.log.exception("A kernel could not be warmed; the page starts one of its own.")
        if self._in_use() >= self.limit:
            reason = f"{self.limit} pages are open, and this computer has memory for no more. Close one, then reload."
            raise tornado.web.HTTPError(503, reason)
        return await self._start(**options)

    async def cull_kernel_if_idle(self, kernel_id: str) -> None:
        """End a kernel whose page is gone, but none that is waiting warm."""
        done = (task for task in self._warmed if task.done() and not task.cancelled() and not task.exception())
        if kernel_id not in {task.result() for task in done}:
            await super().cull_kernel_if_idle(kernel_id)

    def _in_use(self) -> int:
        """Number of kernels that run or are starting."""
        return len(self) + self._starting

    async def _start(self, **options) -> str:
        self._starting += 1
        try:
            if self.homes:
                home = Path(self.homes, os.urandom(8).hex())
                options["env"] = {**options.get("env", os.environ), HOME: str(home)}
            return await super()._async_start_kernel(stderr=subprocess.DEVNULL, **options)
        finally:
            self._starting -= 1

    async def _warm_one(self) -> str:
        kernel = await self._start(kernel_name="python3", path="", env=dict(os.environ))
        client = self.get_kernel(kernel).client()
        client.start_channels()
        try:
            await ensure_async(client.wait_for_ready(timeout=120))
            await ensure_async(client.execute_interactive(WARM, silent=True, store_history=False, timeout=120))
        finally:
            client.stop_channels()
        return kernel


@cache
def plotly_module() -> bytes:
    """The installed plotly.js as a gzipped JavaScript module, as live.js makes it from what a kernel sends."""
    source = f"const module = {{ exports: {{}} }};\n{get_plotlyjs()}\nexport default module.exports;"
    return gzip.compress(source.encode(), compresslevel=6)


class Start(JupyterHandler):
    """The start page, or another page that is known as a whole."""

    def initialize(self, html: str):
        self.html = html

    @tornado.web.authenticated
    def get(self):
        self.write(self.html)


class Door(JupyterHandler):
    """Asks for the word in the address; once it was right, Jupyter keeps a cookie."""

    @allow_unauthenticated
    def get(self):
        if self.current_user:
            self.redirect(self.base_url)
            return
        self.set_status(403)
        self.write(render(TEMPLATES / "door.html"))


class Here(JupyterHandler):
    """Tells an open page that the server is still running."""

    @allow_unauthenticated
    def get(self):
        self.set_status(204)


class Plotly(JupyterHandler):
    """plotly.js as a module: a page loads it while its kernel computes, and the browser keeps it for the next page."""

    @allow_unauthenticated
    def get(self):
        self.set_header("Content-Type", "text/javascript")
        self.set_header("Content-Encoding", "gzip")
        self.set_header("Cache-Control", "public, max-age=31536000, immutable")  # its address names the version
        self.write(plotly_module())


class Leave(VoilaShutdownKernelHandler):
    """Ends the kernel of a closed page, which cannot send the XSRF token that Voilà's own handler asks for."""

    def check_xsrf_cookie(self) -> None:
        if not self.check_origin():
            raise tornado.web.HTTPError(404)


class Nowhere(JupyterHandler):
    """Answers any other address with 404."""

    @allow_unauthenticated
    def get(self):
        raise tornado.web.HTTPError(404)


class App(Voila):
    """Voilà over a folder of notebooks, with our start page and templates, without access to other files."""

    start_page = Unicode(help="HTML of the gallery")
    playground = Unicode(help="HTML of the playground, which needs no kernel")

    def setup_template_dirs(self) -> None:
        super().setup_template_dirs()
        self.template_paths[:0] = [str(TEMPLATES), str(document.FOLDER)]

    def init_settings(self) -> dict:
        """Voilà's settings, with our templates for error pages too."""
        settings: Any = super().init_settings()
        return settings | {"jinja2_env": settings["voila_jinja2_env"]}

    def init_handlers(self) -> list:
        """Our pages and those of Voilà's handlers that they need: no tree, no contents, no files."""
        handlers: Any = super().init_handlers()
        needed = [handler for handler in handlers if str(handler[0]).startswith(SERVED)]
        return [
            ("/", Start, {"html": self.start_page}),
            ("/playground.html", Start, {"html": self.playground}),
            ("/login", Door),
            ("/here", Here),
            (r"/plotly-[\d.]+\.js", Plotly),
            (r"/([a-z]+)", tornado.web.RedirectHandler, {"url": "/?token={0}", "permanent": False}),
            (r"/voila/api/shutdown/(.*)", Leave),
            *needed,
            (r"/.*", Nowhere),
        ]

    def listen(self) -> None:
        tornado.ioloop.IOLoop.current().add_callback(self.kernel_manager.fill)
        super().listen()

    def launch_browser(self) -> None:
        """Open the start page; Voilà would open a page of its own that loads a font from another machine."""
        threading.Thread(target=partial(webbrowser.open, self.address), daemon=True).start()

    @property
    def address(self) -> str:
        """The start page's address for a browser on this machine."""
        host = "127.0.0.1" if self.ip in ("", "0.0.0.0") else self.ip
        return f"http://{host}:{self.port}/{self.token or ''}"


def build(folder: Path, page: str, *, ip: str, port: int, word: str, lecture: bool, kernels: dict) -> App:
    """The app over a folder, ready to start; `kernels` sets the traits of `Kernels`."""
    config = Config()
    config.App = Config(ip=ip, port=port, port_retries=0, root_dir=str(folder), config_file_paths=[], log_level="ERROR")
    config.VoilaConfiguration = Config(
        allow_template_override="NO", allow_theme_override="NO", extension_allowlist=EXTENSIONS, file_allowlist=[],
        multi_kernel_manager_class=f"{__name__}.Kernels", strip_sources=True,
        resources={"lecture": lecture, "plotlyjs": get_plotlyjs_version()},
    )  # fmt: skip
    config.Kernels = Config(cull_idle_timeout=600, cull_interval=60, **kernels)
    home = [("All explorers and lessons", "/")]
    app = App(config=config, start_page=page, playground=playground.page(home), token=word or None)
    app.initialize([])
    plotly_module()
    for name in ("tornado.access", "tornado.general"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # On loopback, requests under another host name are refused (DNS rebinding).
    app.tornado_settings = {"allow_remote_access": not ip_address(ip).is_loopback}
    return app
