"""The live plot: a go.Figure drawn in place in the page.

A figure travels as one string of JSON, and `Plotly.react` changes the picture to it. plotly.js itself comes from the
installed plotly package, so nothing is fetched from elsewhere. It is never part of the widget's state: a page that
has none yet asks for it, once for all its plots.
"""

from __future__ import annotations

import gzip
import json
import time
import uuid
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from anywidget import AnyWidget
from plotly.offline import get_plotlyjs, get_plotlyjs_version
from plotly.utils import PlotlyJSONEncoder
from traitlets import Unicode

from lntutor.figures.lecture_type import lecturing
from lntutor.page import kit, lecture_mode

HERE = Path(__file__).parent
PATIENCE = (HERE / "patience.js").read_text("utf-8")  # comes first in the module of every widget
# What fits a figure to its page, in live plots and on the site's pages: colours, line breaks, panels over one another.
FIT = "\n".join((kit.COLOURS, *((HERE / name).read_text("utf-8") for name in ("theme.js", "fit.js"))))
HEIGHT = 420  # pixels, where neither the caller nor the figure says
KERNEL = uuid.uuid4().hex  # tells the kernels apart that one page talks to
PAUSE = 5.0  # seconds in which a page is not sent the library twice, however often it asks
GONE = (  # restarted, say, or out of memory
    "The kernel that drew this is gone: controls change nothing. Run the cell again, or load a page without code again."
)
SERVED: dict[str, float] = {}  # page → when it was last sent the library
DRAW_STATIC = """
    for (const figure of window.Plotly ? document.querySelectorAll("figure.lntutor-static:not([data-drawn])") : []) {
        const picture = JSON.parse(figure.querySelector("script").textContent)
        figure.dataset.drawn = true
        figure.querySelector("p").hidden = true
        const plot = figure.appendChild(document.createElement("div"))
        const layout = { ...picture.layout, height: picture.height }
        for (const trace of picture.data) if (trace.uid) trace.uid = trace.uid.replaceAll("/", "_2f")
        Plotly.newPlot(plot, picture.data, layout, { responsive: true, displaylogo: false })
    }
"""


def live_plot(figure: go.Figure, alt: str = "", height: int | None = None) -> LivePlot:
    """The figure as a widget, drawn in the page."""
    return LivePlot(figure, alt=alt, height=height)


def text_alternative(figure: go.Figure) -> str:
    """The figure in words: `layout.meta["alt"]` if it carries one, else its title."""
    meta = figure.layout.meta
    alt = meta.get("alt") if isinstance(meta, dict) else None
    return alt or figure.layout.title.text or ""


def encode(figure: go.Figure, alt: str, height: int) -> str:
    """Figure, text alternative and height as one string of JSON; numpy arrays in base64, as plotly.js reads them."""
    picture = figure.to_dict() | {"alt": alt, "height": height}
    return json.dumps(picture, cls=PlotlyJSONEncoder, separators=(",", ":"))


def static_twin(figure: go.Figure, alt: str = "") -> str:
    """The figure as HTML for a page without a kernel: drawn where the page has plotly.js, in words where not."""
    alt = alt or text_alternative(figure)
    picture = encode(figure, alt, figure.layout.height or HEIGHT).replace("<", "\\u003c")  # no tag ends the script
    return (
        f'<figure class="lntutor-static" role="img" aria-label="{escape(alt)}"><p>{escape(alt)}</p>'
        f'<script type="application/json">{picture}</script></figure><script>{DRAW_STATIC}</script>'
    )


def with_twin(bundle, html: str):
    """What a widget displays as, and this HTML beside it for pages that cannot show widgets."""
    if isinstance(bundle, tuple):  # anywidget gives data and metadata
        return with_twin(bundle[0], html), *bundle[1:]
    return {**bundle, "text/html": html} if bundle else bundle


@cache
def library() -> bytes:
    """plotly.js of the installed plotly package, compressed: 1.7 MB in place of 4.8."""
    return gzip.compress(get_plotlyjs().encode(), compresslevel=1)


class LivePlot(AnyWidget):
    """A go.Figure in the page; `show` puts another in its place, and the reader's zoom stays.

    It is as wide as its cell or box, and as high as `height`, the figure's `layout.height` or 420 pixels say. Zoom
    and hidden traces are kept as plotly's `uirevision` has it: one for all figures, unless a figure names its own.

    Messages: the page sends `{"type": "plotly", "page": id}` and gets `{"type": "plotly"}` with the library as a
    buffer; `{"type": "png", "name": …}` has the page save what it shows, `{"type": "download", "name": …,
    "mime": …}` the file in the buffer, and `{"type": "copy", "text": …}` copies a text.
    """

    _esm = PATIENCE + FIT + (HERE / "live.js").read_text("utf-8")  # as text: of a Path, anywidget lets no plot go
    _css = (
        """
        .lntutor-live { width: 100%; flex-shrink: 0; color-scheme: light; }
        body[data-jp-theme-light="false"] .lntutor-live { color-scheme: dark; }
        @media (prefers-color-scheme: dark) { body:not([data-jp-theme-light]) .lntutor-live { color-scheme: dark; } }
        .widget-hbox > .lntutor-live { flex: 1 1 0px; min-width: min(160px, 100%); }
        .lntutor-live > div { position: relative; overflow: hidden; }
        .lntutor-live [role="img"] { position: absolute; inset: 0; pointer-events: none; }
        .lntutor-live p { margin: 1em; color: light-dark(#56616f, #a3aebd); }
        .lntutor-live .js-plotly-plot { position: absolute; left: 0; top: 0; }
        .jupyter-widgets-disconnected > .lntutor-live::before {
            display: block; color: light-dark(#a3260f, #ff9a85); content:
    """
        + f'"{GONE}" }}\n'
        + lecture_mode.CSS
    )
    picture = Unicode().tag(sync=True)
    plotlyjs = Unicode(f"{get_plotlyjs_version()} {KERNEL}").tag(sync=True)  # which one, and from whom

    def __init__(self, figure: go.Figure, *, alt: str = "", height: int | None = None):
        self._height = height
        super().__init__(picture=self._encoded(figure, alt))
        lecture_mode.mark(self, lecturing())
        self.on_msg(self._answer)

    @property
    def figure(self) -> go.Figure:
        """The figure on screen."""
        return self._figure

    @property
    def alt(self) -> str:
        """What a screen reader says of it."""
        return self._alt

    def show(self, figure: go.Figure, alt: str = "") -> None:
        """Draw this figure in place of the last, in one message."""
        self.picture = self._encoded(figure, alt)

    def download_png(self, name: str = "figure.png") -> None:
        """Have the page save what it shows, in light colours, at twice the resolution of the screen."""
        self.send({"type": "png", "name": Path(name).with_suffix(".png").name})

    def download(self, name: str, mime: str, content: bytes) -> None:
        """Have the page save this file."""
        self.send({"type": "download", "name": Path(name).name, "mime": mime}, [content])

    def copy(self, text: str) -> None:
        """Have the page put this text on the clipboard, where the browser lets it."""
        self.send({"type": "copy", "text": text})

    def _encoded(self, figure: go.Figure, alt: str) -> str:
        if not isinstance(figure, go.Figure):
            raise TypeError(f"figure must be a plotly.graph_objects.Figure, got {type(figure).__name__}")
        self._figure, self._alt = figure, alt or text_alternative(figure)
        return encode(figure, self._alt, self._height or figure.layout.height or HEIGHT)

    def _answer(self, _widget, content: dict, _buffers) -> None:
        """Send the library to a page that asks; it may ask again while this kernel is busy."""
        page, now = str(content.get("page")), time.monotonic()
        if content.get("type") == "plotly" and now - SERVED.get(page, -PAUSE) >= PAUSE:
            self.send({"type": "plotly"}, [library()])
            SERVED[page] = time.monotonic()

    def _repr_mimebundle_(self, **options) -> Any:
        return with_twin(super()._repr_mimebundle_(**options), static_twin(self.figure, self.alt))
