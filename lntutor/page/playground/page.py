"""The playground put together: its data, one ES module for a widget, one HTML file that opens from disk."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup

from lntutor.figures.lecture_type import lecturing
from lntutor.figures.style import STYLES, placement_style
from lntutor.model.placements import ALL_SLOTS, PLACEMENTS, Placement, in_slots
from lntutor.model.random_streams import DRAWN
from lntutor.model.state import DEFAULTS
from lntutor.page import kit
from lntutor.page.document import render
from lntutor.page.live import PATIENCE
from lntutor.page.playground.graph import exported

HERE = Path(__file__).resolve().parent
SHARED = ("rules.js",)  # first in the page and in its workers
WORKER = ("engine.js", "theory.js", "worker.js")  # in workers only
ADAPTERS = ("widget.js", "page.js")  # the two ways in: under a kernel, and alone
START: dict[str, Any] = {  # the state of a new playground
    "placement": "post", "slots": "C", **DEFAULTS,
    "parameter": "W_2", "view": "gradient", "theory": True, "lemma2": False, "lecture": False, "compare": [],
}  # fmt: skip
THEOREM: dict[str, Any] = {
    "stack": "encoder", "heads": 1, "attention": "uniform", "init": "theory", "ffn": 1, "output_projection": False,
    "width": 256, "compare": ["pre"],
}  # fmt: skip
FIGURE_3: dict[str, Any] = {"width": 512, "heads": 4, "ffn": 2, "init": "torch", "compare": ["pre"]}
PRESETS: dict[str, dict[str, Any]] = {  # settings by name; the others are as at the start
    "post and pre": {"compare": ["pre"]},
    "theorem": THEOREM,
    "theorem by depth": {**THEOREM, "view": "depth", "depth": 24},
    "figure 3": FIGURE_3,
    "figure 3c": {**FIGURE_3, "view": "depth", "depth": 14, "seeds": 2},
    "lemma 2": {**THEOREM, "tokens": 1, "view": "signal", "lemma2": True},
    "token collapse": {
        "stack": "encoder", "attention": "uniform", "depth": 24, "tokens": 32, "view": "similarity", "compare": ["pre"],
    },
    "with LN and skip": {
        "depth": 12, "compare": [key for key in PLACEMENTS if key not in ("post", "none", "no_residual", "tfixup")],
    },
}  # fmt: skip


def start() -> dict[str, Any]:
    """The state of a playground that opens now."""
    return START | {"lecture": lecturing()}


def data() -> dict[str, Any]:
    """What the page is given: every placement there is now with its graph and look, every choice of slots."""
    placements = {key: _placement(key, placement) for key, placement in PLACEMENTS.items()}
    slots = {some: graph_of(in_slots(some))[0] for some in ALL_SLOTS}
    sample = repr(DRAWN) if DRAWN else ""
    return {"placements": placements, "slots": slots, "defaults": start(), "presets": PRESETS, "sample": sample}


def _placement(key: str, placement: Placement) -> dict[str, Any]:
    style = placement_style(key)
    graph, error = graph_of(placement)
    return {
        "label": placement.label, "formula": placement.formula, "reference": placement.reference,
        "year": placement.year, "color": style["color"], "marker": style["symbol"], "dash": style["dash"],
        "graph": graph, "slots": slots_of(placement), "error": error, "own": key not in STYLES,
    }  # fmt: skip


@lru_cache(maxsize=256)
def graph_of(placement: Placement) -> tuple[dict[str, Any] | None, str]:
    """The graph of a placement's rule, or None and a sentence that says why it has none."""
    try:
        return exported(placement), ""
    except ValueError as error:
        return None, str(error)


def error_of(key: str) -> str:
    """Why the page cannot compute a placement, in a sentence; "" if it can."""
    return graph_of(PLACEMENTS[key])[1]


@lru_cache(maxsize=256)
def slots_of(placement: Placement) -> str | None:
    """The slots that hold the norms of a placement; None where slots cannot express its rule."""
    text = _canonical(placement)
    return next((slots for slots in ALL_SLOTS if text and text == _canonical(in_slots(slots))), None)


@lru_cache(maxsize=256)
def _canonical(placement: Placement) -> str:
    """The graph as text, with the inputs of a sum in order; "" if there is none."""

    def ordered(part):
        if isinstance(part, dict):
            return {name: ordered(value) for name, value in part.items() if name != "sum"}
        if isinstance(part, list) and part[:1] == ["sum"]:
            return ["sum", *sorted(part[1:])]
        return [ordered(value) for value in part] if isinstance(part, list) else part

    graph, _ = graph_of(placement)
    return json.dumps(ordered(graph), sort_keys=True) if graph else ""


def name_of(slots: str) -> str:
    """The first placement with norms in these slots, or ""."""
    return next((key for key, placement in PLACEMENTS.items() if slots_of(placement) == slots), "")


def link(state: dict[str, Any]) -> str:
    """What differs from the start, as it stands behind the # of the page's address."""
    shown = {name: value for name, value in state.items() if value != START[name]}
    shown.pop("slots" if state["placement"] else "placement", None)
    return urlencode({name: _in_link(value) for name, value in shown.items()}, safe=",")


def _in_link(value: Any) -> Any:
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else value


def as_script(value: Any) -> str:
    """A value as JSON that no browser takes for the end of a script."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def module() -> str:
    """The ES module of the widget."""
    return f"{PATIENCE}\n{_code()}\n{_read('widget.js')}\nexport default {{ render }}\n"


def style() -> str:
    """The style sheet."""
    return f"{kit.STYLE}\n{_read('playground.css')}"


def page(links: Iterable[tuple[str, str]] = ()) -> str:
    """One HTML file that needs nothing else; `links` are (text, address) above the playground."""
    return render(
        HERE / "page.html.j2",
        links=tuple(links),
        style=Markup(style()),
        data=Markup(as_script(data())),
        script=Markup(f"{_code()}\n{_read('page.js')}"),
    )


def _code() -> str:
    """All scripts but the adapters, one after the other, in one scope; what workers run comes first, as text."""
    kernel = base64.b64encode((HERE / "kernel.wasm").read_bytes()).decode()
    worker = "\n".join(map(_read, SHARED + WORKER))
    texts = f"const KERNEL = {as_script(kernel)}\nconst WORKER = {as_script(worker)}\n"
    others = sorted({path.name for path in HERE.glob("*.js")}.difference(SHARED, WORKER, ADAPTERS))
    return texts + "\n".join((kit.SCRIPT, *map(_read, (*SHARED, *others))))


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
