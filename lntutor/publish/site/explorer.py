"""The gradient explorer as one file: controls, a fixed grid of numbers and plotly.js, opened from disk."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

from markupsafe import Markup
from plotly.utils import PlotlyJSONEncoder

from lntutor.figures.style import (
    LECTURE_SIZES,
    LECTURE_TEMPLATE,
    NORMAL_SIZES,
    TEMPLATE,
    darker,
    placement_label,
    placement_style,
)
from lntutor.measure.gradients import PARAMETERS
from lntutor.page.document import render
from lntutor.publish.site import grid

HERE = Path(__file__).resolve().parent


def page(links: str = "", **part) -> str:
    """The page over the whole grid, or over a part of it given by placements, widths and depths."""
    about, numbers = grid.packed(**part)
    about |= {
        "parameters": list(PARAMETERS),
        "labels": {key: placement_label(key) for key in about["placements"]},
        "styles": {key: _style(key) for key in about["placements"]},
        "templates": [TEMPLATE.to_plotly_json(), LECTURE_TEMPLATE.to_plotly_json()],
        "sizes": [vars(NORMAL_SIZES), vars(LECTURE_SIZES)],
    }
    library = (HERE / "vendor" / "plotly-basic.min.js.gz").read_bytes()
    return render(
        HERE / "explorer.html.j2",
        links=Markup(links),
        seeds=about["seeds"],
        grid=describe(about),
        about=Markup(json.dumps(about, cls=PlotlyJSONEncoder, separators=(",", ":")).replace("</", "<\\/")),
        numbers=_text(gzip.compress(numbers, 9, mtime=0)),
        library=_text(library),
        script=Markup((HERE / "explorer.js").read_text(encoding="utf-8")),
    )


def describe(about: dict) -> str:
    """What the grid contains, in one sentence."""
    depths, widths = (", ".join(map(str, about[name])) for name in ("depths", "widths"))
    return (
        f"It has the depths {depths}, the widths {widths} and {len(about['placements'])} placements, "
        f"with {about['seeds']} seeds; encoder and decoder, 4 heads, FFN 4 × width, 16 random tokens, Xavier start."
    )


def _style(key: str) -> dict[str, str]:
    style = placement_style(key)
    return {**style, "dark": darker(style["color"])}


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
