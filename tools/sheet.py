"""Write notebooks/sheet.html: six empty axes on two pages, to sketch predictions on. `python tools/sheet.py`"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import log
from pathlib import Path

from lntutor.text.files import put

TARGET = Path(__file__).resolve().parent.parent / "notebooks" / "sheet.html"
WIDE, HIGH = 180, 63  # of a drawing, in mm: three fit on A4 and on Letter
LEFT, RIGHT, TOP, BOTTOM = 18, 176, 6, 52  # its frame


@dataclass(frozen=True)
class Axis:
    """What one axis says: its name with the unit, where it is marked, and its ends."""

    name: str
    marks: tuple
    low: float
    high: float
    log: bool = False

    def share(self, value: float) -> float:
        """How far along the axis a value stands, from 0 to 1."""
        if self.log:
            return log(value / self.low) / log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Panel:
    """One drawing, and the question that it is for."""

    question: str
    x: Axis
    y: Axis
    frames: tuple[str, ...] = ("",)  # one or two side by side, with a name each


GRADIENT = (0.1, 0.2, 0.5, 1, 2, 5, 10)
LOSS = Axis("loss (nats per word)", tuple(range(8)), 0, 7)
STEPS = Axis("training step (32 sentences each)", tuple(range(0, 301, 50)), 0, 300)
PANELS = (
    Panel("12 layers, one token: how large is the stream after each layer?",
          Axis("‖x‖²/d (squared size of a feature, no unit, log)", (0.5, 1, 2, 5, 10, 20, 50, 100), 0.5, 100, log=True),
          Axis("layer (0: input)", tuple(range(0, 13, 2)), -0.5, 12.5)),
    Panel("Networks of 1 to 24 layers: how large is the gradient of W₂ in the LAST layer? (width 128, one token)",
          Axis("depth L (layers, log)", (1, 2, 3, 6, 12, 24), 1, 24, log=True),
          Axis("‖∂L/∂W₂‖ (log)", (1, 2, 5, 10, 20, 50, 100), 1, 100, log=True)),
    Panel("6 + 6 layers, before training: how large is the gradient of W₂ in each layer?",
          Axis("‖∂L/∂W₂‖ (no unit, log)", GRADIENT, 0.1, 10, log=True),
          Axis("layer (1: input)", tuple(range(1, 7)), 0.5, 6.5), ("encoder", "decoder")),
    Panel("2 + 2 layers, Adam at the high rate 0.01, NO warm-up: how does the loss go?", STEPS, LOSS),
    Panel("The same with 100 steps of warm-up: how does the loss go?", STEPS, LOSS),
    Panel("6 + 6 layers, at the start: how are the Hessian's eigenvalues spread?",
          Axis("eigenvalue λ (nats a squared unit of weight)", tuple(range(-60, 61, 20)), -80, 80),
          Axis("density (log)", (1e-8, 1e-6, 1e-4, 0.01, 1), 1e-9, 1, log=True)),
)  # fmt: skip
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Draw before you look: six empty axes</title>
<!-- Made by tools/sheet.py. Print at 100 %, A4 or Letter, without headers and footers. -->
<style>
@page {{ margin: 12mm; }}
body {{ margin: 0 auto; width: 180mm; font: 10.5pt/1.3 Arial, Helvetica, 'DejaVu Sans', sans-serif; color: #000;
  background: #fff; }}
.page {{ height: 250mm; break-inside: avoid; display: flex; flex-direction: column; justify-content: space-between; }}
.page + .page {{ break-before: page; }}
header {{ display: flex; justify-content: space-between; font-size: 9pt; white-space: nowrap;
  border-bottom: 0.3mm solid #000; padding-bottom: 1mm; }}
header p {{ margin: 0; }}
section p {{ margin: 0; }}
.question {{ font-weight: bold; }}
.votes {{ margin-top: 1.5mm; display: flex; gap: 9mm; align-items: center; }}
.votes i {{ display: inline-block; width: 7mm; height: 5.5mm; border: 0.3mm solid #000; vertical-align: middle;
  margin-left: 1.5mm; }}
.why {{ flex: 1; border-bottom: 0.2mm solid #000; height: 5.5mm; }}
svg {{ display: block; width: 180mm; height: 63mm; }}
text {{ font: 3.3px Arial, Helvetica, 'DejaVu Sans', sans-serif; }}
@media screen {{ body {{ padding: 8mm 0; }} .page + .page {{ margin-top: 15mm; }} }}
</style>
</head>
<body>
{pages}
</body>
</html>
"""
HEADER = """<header><p><b>Draw before you look</b>, page {number} of 2</p>
<p>Post-LN: full line, ●. Pre-LN: dashed, ■.</p><p>Name ____________________</p></header>"""
SECTION = """<section>
<p class="question">{number}. {question}</p>
{drawing}
<div class="votes"><span>First vote<i></i></span><span>Second vote<i></i></span><span>Because</span><span
class="why"></span></div>
</section>"""


def mark_label(value: float) -> str:
    """A mark's label; a power of ten, to the ninth, where a number would be long."""
    if 0 < value < 1e-3:
        return "10⁻" + "⁰¹²³⁴⁵⁶⁷⁸⁹"[round(-log(value, 10))]
    return f"{value:g}".replace("-", "−")


def line(x1: float, y1: float, x2: float, y2: float, weight: float = 0.15, dash: str = "") -> str:
    """A straight stroke."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"'
    return f'<line {ends} stroke="#000" stroke-width="{weight}"{dashed}/>'


def text(x: float, y: float, content: str, anchor: str = "middle", more: str = "") -> str:
    """Some words."""
    return f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}"{more}>{escape(content)}</text>'


def frame(panel: Panel, left: float, right: float, name: str, labelled: bool) -> list[str]:
    """One empty frame: a faint grid at the marks, labels under it and, for the first, beside it."""
    box = f'x="{left}" y="{TOP}" width="{right - left}" height="{BOTTOM - TOP}"'
    parts = [f'<rect {box} fill="none" stroke="#000" stroke-width="0.35"/>']
    for value in panel.x.marks:
        x = left + panel.x.share(value) * (right - left)
        parts += [line(x, TOP, x, BOTTOM, 0.1, "0.4 0.8"), text(x, BOTTOM + 4, mark_label(value))]
    for value in panel.y.marks:
        y = BOTTOM - panel.y.share(value) * (BOTTOM - TOP)
        parts.append(line(left, y, right, y, 0.1, "0.4 0.8"))
        parts += [text(left - 1.2, y + 1.2, mark_label(value), "end")] if labelled else []
    parts.append(text((left + right) / 2, BOTTOM + 9, panel.x.name))
    return parts + ([text((left + right) / 2, TOP - 1.5, name)] if name else [])


def drawing(panel: Panel) -> str:
    """The axes of a panel as SVG, in mm."""
    gap, count = 8, len(panel.frames)
    wide = (RIGHT - LEFT - gap * (count - 1)) / count
    parts = [text(0, 0, panel.y.name, more=f' transform="translate(5 {(TOP + BOTTOM) / 2}) rotate(-90)"')]
    for i, name in enumerate(panel.frames):
        left = LEFT + i * (wide + gap)
        parts += frame(panel, left, left + wide, name, labelled=i == 0)
    label = escape(f"Empty axes: {panel.x.name} across, {panel.y.name} up", quote=True)
    return f'<svg viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="{label}">\n' + "\n".join(parts) + "\n</svg>"


def sheet() -> str:
    """The page as HTML that needs nothing else."""
    sections = [
        SECTION.format(number=i, question=escape(panel.question), drawing=drawing(panel))
        for i, panel in enumerate(PANELS, 1)
    ]
    pages = [
        f'<div class="page">\n{HEADER.format(number=n)}\n' + "\n".join(some) + "\n</div>"
        for n, some in enumerate((sections[:3], sections[3:]), 1)
    ]
    return PAGE.format(pages="\n".join(pages))


if __name__ == "__main__":
    put(TARGET, sheet())
