"""What serves `make app`: Voilà with our start page, warm kernels, a limit on them, and nothing else to read.

A warm kernel has imported the course and drawn one figure before anyone asks for it; it serves any page.
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

import tornado.ioloop
import tornado.web
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from plotly.offline import get_plotlyjs, get_plotlyjs_version
from traitlets import Float, Int, Unicode
from traitlets.config import Config
from voila.app import Voila
from voila.shutdown_kernel_handler import VoilaShutdownKernelHandler

from lntutor.notes import HOME

TEMPLATES = Path(__file__).resolve().parent / "jupyter" / "app"
# All that is answered besides our own pages: kernels of open pages, the page's scripts and styles, the notebooks.
SERVED = (
    "/api/kernels/",
    "/voila/templates/",
    "/voila/static/",
    "/voila/api/themes/",
    "/voila/labextensions/",
    "/voila/render/",
    "/voila/execution/",
)
EXTENSIONS = ["@voila-dashboards/widgets-manager8", "@jupyter-widgets/jupyterlab-manager", "anywidget"]
# The first figure of a kernel loads much of torch and plotly. The widgets are closed: a page would fetch them all.
WARM = """\
import lntutor.explore
from ipywidgets import Widget

lntutor.explore.GradientExplorer()
Widget.close_all()
del lntutor, Widget
"""


class Kernels(AsyncMappingKernelManager):
    """Kernels with a limit; a few of them are warm before a page asks."""

    limit = Int(8, config=True, help="pages that are open at once")
    warm = Int(0, config=True, help="kernels that are kept warm")
    pause = Float(4, config=True, help="seconds from the opening of a page to the warming of the next kernel")
    homes = Unicode(config=True, help="folder in which every kernel keeps notes of its own; empty: those of the user")

    def __init__(self, **options):
        super().__init__(**options)
        self._warmed: list[asyncio.Task] = []
        self._starting = 0

    def fill(self) -> None:
        """Begin to warm what is missing, as far as the limit goes."""
        while len(self._warmed) < self.warm and self._in_use() < self.limit:
            self._warmed.append(asyncio.get_running_loop().create_task(self._warm_one()))

    async def start_kernel(self, **options) -> str:
        """The id of a warm kernel where there is one, else of a new one; 503 when too many are open."""
        asyncio.get_running_loop().call_later(self.pause, self.fill)
        while self._warmed:
            try:
                return await self._warmed.pop(0)
            except Exception:
                self.log.exception("A kernel could not be warmed; the page starts one of its own.")
        if self._in_use() >= self.limit:
            words = f"{self.limit} pages are open, and this computer has memory for no more. Close one, then reload."
            raise tornado.web.HTTPError(503, words)
        return await self._start(**options)

    async def cull_kernel_if_idle(self, kernel_id: str) -> None:
        """End a kernel whose page is gone; one that waits warm is idle by its nature."""
        done = (task for task in self._warmed if task.done() and not task.cancelled() and not task.exception())
        if kernel_id not in {task.result() for task in done}:
            await super().cull_kernel_if_idle(kernel_id)

    def _in_use(self) -> int:
        """Kernels that run, also those that are only starting."""
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
            await client.wait_for_ready(timeout=120)
            await client.execute_interactive(WARM, silent=True, store_history=False, timeout=120)
        finally:
            client.stop_channels()
        return kernel


@cache
def plotly_module() -> bytes:
    """plotly.js of the installed package as a module, compressed; live.js makes the same of what a kernel sends."""
    source = f"const module = {{ exports: {{}} }};\n{get_plotlyjs()}\nexport default module.exports;"
    return gzip.compress(source.encode(), compresslevel=6)


class Start(JupyterHandler):
    """The gallery."""

    def initialize(self, html: str):
        self.html = html

    @tornado.web.authenticated
    def get(self):
        self.write(self.html)


class Door(JupyterHandler):
    """Asks for the word of the address; Jupyter keeps a cookie once it was right."""

    @allow_unauthenticated
    def get(self):
        if self.current_user:
            self.redirect(self.base_url)
            return
        self.set_status(403)
        self.write((TEMPLATES / "door.html").read_text(encoding="utf-8"))


class Here(JupyterHandler):
    """Tells an open page that there is still somebody to draw it."""

    @allow_unauthenticated
    def get(self):
        self.set_status(204)


class Plotly(JupyterHandler):
    """plotly.js as a module, so that a page loads it while its kernel computes, and keeps it for the next page."""

    @allow_unauthenticated
    def get(self):
        self.set_header("Content-Type", "text/javascript")
        self.set_header("Content-Encoding", "gzip")
        self.set_header("Cache-Control", "public, max-age=31536000, immutable")  # its address names the version
        self.write(plotly_module())


class Leave(VoilaShutdownKernelHandler):
    """Ends the kernel of a page that is closed. Such a page can send no cookie's twin, which Voilà's own asks for."""

    def check_xsrf_cookie(self) -> None:
        if not self.check_origin():
            raise tornado.web.HTTPError(404)


class Nowhere(JupyterHandler):
    """Any other address."""

    @allow_unauthenticated
    def get(self):
        raise tornado.web.HTTPError(404)


class App(Voila):
    """Voilà over a folder of notebooks, with our start page and templates, and no look at other files."""

    start_page = Unicode(help="HTML of the gallery")

    def setup_template_dirs(self) -> None:
        super().setup_template_dirs()
        self.template_paths.insert(0, str(TEMPLATES))

    def init_settings(self) -> dict:
        """Voilà's settings, with one set of templates for all that may go wrong."""
        settings = super().init_settings()
        return {**settings, "jinja2_env": settings["voila_jinja2_env"]}

    def init_handlers(self) -> list:
        """Our pages, and of Voilà's those that they need: no tree, no contents, no files."""
        needed = [handler for handler in super().init_handlers() if str(handler[0]).startswith(SERVED)]
        return [
            ("/", Start, {"html": self.start_page}),
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
        """Open the start page itself; Voilà would open a page of its own that asks another machine for a font."""
        threading.Thread(target=partial(webbrowser.open, self.address), daemon=True).start()

    @property
    def address(self) -> str:
        """Where this machine's own browser finds the start page."""
        host = "127.0.0.1" if self.ip in ("", "0.0.0.0") else self.ip
        return f"http://{host}:{self.port}/{self.token or ''}"


def build(folder: Path, page: str, *, ip: str, port: int, word: str, lecture: bool, kernels: dict) -> App:
    """The app over this folder, ready to start; `kernels` sets the traits of `Kernels`."""
    config = Config()
    config.App = Config(ip=ip, port=port, port_retries=0, root_dir=str(folder), config_file_paths=[], log_level="ERROR")
    config.VoilaConfiguration = Config(
        allow_template_override="NO",
        allow_theme_override="NO",
        extension_allowlist=EXTENSIONS,
        file_allowlist=[],
        multi_kernel_manager_class=f"{__name__}.Kernels",
        resources={"lecture": lecture, "plotlyjs": get_plotlyjs_version()},
        strip_sources=True,
    )
    config.Kernels = Config(cull_idle_timeout=600, cull_interval=60, **kernels)
    app = App(config=config, start_page=page, token=word or None)
    app.initialize([])
    plotly_module()
    for name in ("tornado.access", "tornado.general"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # A page elsewhere cannot have a browser call this machine by another name.
    app.tornado_settings = {"allow_remote_access": not ip_address(ip).is_loopback}
    return app
