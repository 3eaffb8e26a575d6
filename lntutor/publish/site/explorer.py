"""The gradient explorer as one file: controls, a fixed grid of numbers and plotly.js, opened from disk."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

from plotly.utils import PlotlyJSONEncoder

from lntutor.figures.style import (
    LECTURE,
    LECTURE_TEMPLATE,
    NORMAL,
    TEMPLATE,
    darker,
    placement_label,
    placement_style,
)
from lntutor.measure import PARAMETERS
from lntutor.site import grid

HERE = Path(__file__).resolve().parent


def page(links: str = "", **part) -> str:
    """The page over the whole grid, or over a `part` of it: placements, widths, depths."""
    about, numbers = grid.packed(**part)
    about |= {
        "parameters": list(PARAMETERS),
        "labels": {key: placement_label(key) for key in about["placements"]},
        "styles": {key: _style(key) for key in about["placements"]},
        "templates": [TEMPLATE.to_plotly_json(), LECTURE_TEMPLATE.to_plotly_json()],
        "sizes": [vars(NORMAL), vars(LECTURE)],
    }
    library = (HERE / "vendor" / "plotly-basic.min.js.gz").read_bytes()
    parts = {
        "LINKS": links,
        "SEEDS": str(about["seeds"]),
        "GRID": in_words(about),
        "ABOUT": json.dumps(about, cls=PlotlyJSONEncoder, separators=(",", ":")).replace("</", "<\\/"),
        "NUMBERS": _text(gzip.compress(numbers, 9, mtime=0)),
        "LIBRARY": _text(library),
        "SCRIPT": (HERE / "explorer.js").read_text(encoding="utf-8"),
    }
    html = (HERE / "explorer.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        html = html.replace(f"<!--{name}-->", part)
    return html


def in_words(about: dict) -> str:
    """What the grid has, in a sentence."""
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
