"""How figures look: two templates, one colour, dash and marker per placement, and text that is safe to print."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape, unescape
from itertools import takewhile
from textwrap import wrap
from zlib import crc32

import plotly.graph_objects as go

from lntutor.figures.lecture_type import lecturing
from lntutor.model.checks import check_flag, check_type
from lntutor.model.placements import PLACEMENTS

INK, PALE, GRID = "#222222", "#767676", "#E4E4E4"
FAMILY = "'Open Sans', 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"

# Okabe and Ito's colours. Orange, sky blue, yellow and purple are darkened until a mark stands out from white
# by 3:1; black is a placement's colour too, so theory differs from measurement by its shape, not by its colour.
VERMILLION, BLUE, GREEN, PURPLE, BLACK = "#D55E00", "#0072B2", "#009E73", "#B5588B", "#000000"
ORANGE, SKY, OLIVE, GREY = "#B27B00", "#2B8FC4", "#857A00", "#767676"
STYLES = {  # key → colour, dash, marker
    "post": (VERMILLION, "solid", "circle"),
    "pre": (BLUE, "dash", "square"),
    "none": (BLACK, "dot", "x"),
    "no_residual": (GREY, "2px,4px", "cross"),
    "peri": (GREEN, "dashdot", "diamond"),
    "res_post": (PURPLE, "longdash", "triangle-up"),
    "deepnorm": (ORANGE, "longdashdot", "pentagon"),
    "b2t": (SKY, "12px,3px", "triangle-right"),
    "residual": ("#6B3FA0", "8px,2px,2px,2px", "triangle-left"),
    "mix": (OLIVE, "4px,2px", "hexagon2"),
    "lns": ("#00604A", "16px,4px,4px,4px", "octagon"),
    "admin": ("#E0218A", "24px,6px", "diamond-wide"),
    "tfixup": ("#7F2A00", "5px,2px,1px,2px", "star-triangle-up"),
    "normformer": ("#00808A", "10px,4px,2px,4px,2px,4px", "triangle-ne"),
    "hybrid": ("#3D3DFF", "18px,3px,3px,3px,3px,3px", "triangle-sw"),
    "dyt": ("#5F8A00", "3px,3px", "star-triangle-down"),
}
RUNS = ((PURPLE, "solid", "circle"), (GREEN, "dash", "square"), (ORANGE, "dot", "diamond"), (BLACK, "dashdot", "x"))
LINES = (BLACK, PURPLE, GREEN, ORANGE, SKY)  # of schedules; none that stands for Post-LN or Pre-LN
NEW_COLOURS = ("#A5142A", "#1F4E9C", "#7A5230", "#3F7D20", "#9C2F9C", "#44546A", "#B0447A")
NEW_DASHES = ("6px,6px", "10px,2px,2px,6px", "3px,6px", "14px,6px", "1px,3px,6px,3px")
NEW_SYMBOLS = (
    "star", "triangle-down", "bowtie", "hourglass", "star-diamond", "hexagram", "star-square", "diamond-tall",
)  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """Type and strokes of one variant, in pixels."""

    text: int
    title: int
    small: int
    line: float
    thin: float
    marker: int
    columns: int  # characters of a title that fit on a line, at 700 px; in a lecture at 900
    tall: float  # factor on heights
    large: bool  # whether it is for the back row


NORMAL_SIZES = Sizes(text=14, title=17, small=12, line=2, thin=1.5, marker=9, columns=78, tall=1, large=False)
LECTURE_SIZES = Sizes(text=20, title=24, small=18, line=3.5, thin=2.5, marker=14, columns=72, tall=0.92, large=True)


def sizes(lecture: bool | None) -> Sizes:
    """Large sizes or normal ones; None asks the switch of lecture mode."""
    if lecture is not None:
        check_flag("lecture", lecture)
    return LECTURE_SIZES if lecturing(lecture) else NORMAL_SIZES


def _template(size: Sizes) -> go.layout.Template:
    grid = {"gridcolor": GRID, "gridwidth": 1, "zeroline": False, "automargin": True}
    ticks = {"ticks": "outside", "tickcolor": PALE, "ticklen": 4, "tickfont_size": size.text - 1}
    line = {"linecolor": PALE, "showline": True, "exponentformat": "power"}
    axis = {**grid, **ticks, **line, "title": {"font_size": size.text, "standoff": 8}}
    title = {"x": 0.012, "xref": "container", "xanchor": "left", "yref": "container", "yanchor": "top"}
    legend = {"x": 0, "xanchor": "left", "y": 0, "yref": "container", "yanchor": "bottom", "orientation": "h"}
    layout = {
        "font": {"family": FAMILY, "size": size.text, "color": INK}, "title": {"font_size": size.title, **title},
        "paper_bgcolor": "white", "plot_bgcolor": "white", "colorway": [colour for colour, *_ in STYLES.values()],
        "hovermode": "closest", "hoverlabel": {"bgcolor": "white", "font": {"size": size.text, "color": INK}},
        "legend": {"font_size": size.text, "itemsizing": "trace", "tracegroupgap": 0, **legend},
        "margin": {"l": 12, "r": 16, "t": 40, "b": 12}, "xaxis": axis, "yaxis": axis,
    }  # fmt: skip
    return go.layout.Template(layout=layout)


TEMPLATE, LECTURE_TEMPLATE = _template(NORMAL_SIZES), _template(LECTURE_SIZES)


def placement_style(key: str) -> dict[str, str]:
    """Colour, dash and marker of a placement; one that is not built in gets its own from its name.

    Those in PLACEMENTS have markers of their own while there are any left, the one that was there first keeps its own.
    """
    if check_type("key", key, str) in STYLES:
        colour, dash, symbol = STYLES[key]
        return {"color": colour, "dash": dash, "symbol": symbol}
    taken: set[str] = set()
    for other in takewhile(lambda other: other != key, PLACEMENTS if key in PLACEMENTS else ()):
        if other not in STYLES:
            taken.add(_new_style(other, taken)["symbol"])
    return _new_style(key, taken)


def _new_style(key: str, taken: set[str]) -> dict[str, str]:
    """A style by a hash of the name, and the next free marker where that one is taken."""
    number, parts = crc32(key.encode(errors="backslashreplace")), []
    for choices in (NEW_COLOURS, NEW_SYMBOLS, NEW_DASHES):
        number, i = divmod(number, len(choices))
        parts.append(choices[i])
    colour, symbol, dash = parts
    first = NEW_SYMBOLS.index(symbol)
    free = (one for one in NEW_SYMBOLS[first:] + NEW_SYMBOLS[:first] if one not in taken)
    return {"color": colour, "dash": dash, "symbol": next(free, symbol)}


def placement_label(key: str) -> str:
    """What readers call a placement, safe to print in a figure."""
    return safe(PLACEMENTS[key].label if key in PLACEMENTS else key)


def in_order(keys: Iterable[str]) -> list[str]:
    """Placements in the order of PLACEMENTS, unknown ones after them: the same for every table."""
    known = list(PLACEMENTS)
    return sorted(set(keys), key=lambda k: (known.index(k) if k in known else len(known), str(k)))


def darker(colour: str, share: float = 0.5) -> str:
    """A colour mixed with black."""
    return "#" + "".join(f"{round(int(colour[i : i + 2], 16) * share):02X}" for i in (1, 3, 5))


def for_text(colour: str) -> str:
    """A series' colour, darkened for text: each has a contrast to white of at least 4.5:1."""
    return darker(colour, 0.75)


# Text ----------------------------------------------------------------------------------------------------------


def safe(text: object) -> str:
    """The text, escaped: markup, entities and TeX in it are shown, not interpreted."""
    return escape(str(text), quote=False).replace("$", "&#36;")


def plain(text: str) -> str:
    """What a reader sees of a marked-up text, for screen readers."""
    text = re.sub(r"<br ?/?>", " ", text).replace("\n", ". ")
    text = re.sub(r"<sub>(.*?)</sub>", r"_\1", text)
    return unescape(re.sub(r"</?(?:b|i|sup|span)[^<>]*>", "", text))


def wrapped(text: str, columns: int) -> str:
    """Text broken into lines of so many visible characters; tags and entities count as what they show.

    For figures that plotly draws alone: Save HTML, a page without a kernel, any other front end. Where our own script
    draws, page/fit.js breaks lines again for the width that it measures.
    """
    hidden: list[str] = []

    def hide(match):  # while lines are counted, each piece of markup is one private character; so is one of the text's
        hidden.append(match[0])
        return chr(0xF0000 + len(hidden) - 1)

    short = re.sub(r"<sub>.*?</sub>|<[^<>]+>|&#?\w+;|[\U000F0000-\U0010FFFF]", hide, text)
    lines = [line for part in short.split("\n") for line in wrap(part, columns, break_on_hyphens=False) or [""]]
    return re.sub("[\U000f0000-\U0010ffff]", lambda m: hidden[ord(m[0]) - 0xF0000], "<br>".join(lines))


def parameter_name(parameter: str) -> str:
    """W_2 as W with a lowered 2."""
    letter, _, index = str(parameter).partition("_")
    return safe(letter) + (f"<sub>{safe(index)}</sub>" if index else "")


def number(value: float, digits: int = 3) -> str:
    """A number as text: three digits, a true minus."""
    text = f"{value:.{digits}g}"
    if "e" in text:
        mantissa, _, power = text.partition("e")
        text = f"{mantissa}e{int(power)}"
    return text.replace("-", "−")


def fixed(value: float, digits: int = 2) -> str:
    """A number with fixed decimals, never minus zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def times(ratio: float) -> str:
    """A ratio, such as 5.0× or 130×."""
    if 100 <= ratio < 1e4:
        return f"{float(f'{ratio:.2g}'):.0f}×"
    return (f"{ratio:.1f}" if 0.1 <= ratio < 100 else number(ratio, 2)) + "×"
