"""The gallery: a tile for every explorer and every notebook, in HTML that needs nothing from the network.

The start page of `make app` and that of `make site` are the same page with other links.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from html import escape
from typing import NamedTuple

from lntutor.lab import ROOT

PICTURES = ROOT / "notebooks" / "pictures"  # taken from the real thing by tools/picture.py


class Tile(NamedTuple):
    """One thing to open."""

    key: str  # the class of an explorer, or the stem of a notebook; the name of its picture, too
    title: str
    words: str  # what it shows or asks, in a sentence

    @property
    def picture(self) -> str:
        """Its thumbnail as an address that holds the picture itself; empty where none has been taken."""
        path = PICTURES / f"{self.key}.webp"
        return f"data:image/webp;base64,{base64.b64encode(path.read_bytes()).decode()}" if path.is_file() else ""


EXPLORERS = (
    Tile("GradientExplorer", "Gradients", "The gradient of every layer moves with depth, width and the place of LN."),
    Tile("SignalExplorer", "Signal", "How the stream grows from layer to layer, and how alike its tokens become."),
    Tile("PlacementExplorer", "Placements", "Sixteen places for LN, each drawn from its one line of maths."),
    Tile("TheoremExplorer", "Theorem 1", "Measured, predicted and bounded: the last layer's gradient over L and d."),
    Tile("BoundednessExplorer", "(ε, δ)", "Slide ε, read δ: how sure is the theorem?"),
    Tile("AttentionExplorer", "Attention", "A sentence that you type, and why its scores are divided by √d."),
    Tile("LayerNormExplorer", "Layer norm", "A vector before and after, three slips of the formula, the Jacobian."),
    Tile("TrainingExplorer", "Training", "Press Run: loss, rate, gradient and BLEU, live, with warm-up and without."),
    Tile("CurvatureExplorer", "Curvature", "Press Run: the Hessian's spectrum comes into view, product by product."),
)
NOTEBOOKS = (
    Tile("00_start_here", "00 Start here", "What goes wrong when you stack Transformer layers?"),
    Tile("01_attention", "01 Attention", "Why divide by √d, and where does attention sit?"),
    Tile("02_layer_norm", "02 Layer norm", "What exactly does LN do, forward and backward?"),
    Tile("03_placement", "03 Placement", "Where can LN stand, and what does it do to the signal?"),
    Tile("04_mean_field", "04 Mean field", "Why is the last layer's gradient large in Post-LN?"),
    Tile("05_gradients", "05 Gradients", "What do real Transformers show?"),
    Tile("06_warmup", "06 Warm-up", "Does it matter for training?"),
    Tile("07_criticisms", "07 Criticisms", "Does the theorem explain it?"),
    Tile("08_curvature", "08 Curvature", "Is Post-LN's loss surface more curved?"),
    Tile("09_after_the_paper", "09 After the paper", "What came after?"),
)
PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>lntutor: where does layer normalization go?</title>
<style>
body {{ font: 20px/1.4 'Open Sans', 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif; color: #222;
  background: #fff; margin: 0 auto; max-width: 1500px; padding: 1.2em 1.6em 3em; }}
h1 {{ font-size: clamp(28px, 4vw, 40px); line-height: 1.15; margin: 0 0 .2em; }}
h2 {{ font-size: 28px; margin: 1.2em 0 .5em; }}
p {{ margin: .3em 0; max-width: 60em; }}
ul.tiles {{ list-style: none; margin: 0; padding: 0; display: grid; gap: 20px;
  grid-template-columns: repeat(auto-fill, minmax(min(300px, 100%), 1fr)); }}
ul.tiles a {{ display: flex; flex-direction: column; height: 100%; box-sizing: border-box; color: inherit;
  text-decoration: none; border: 1px solid #767676; border-radius: 6px; overflow: hidden; background: #fff; }}
ul.tiles a:hover, ul.tiles a:focus-visible {{ outline: 4px solid #0072B2; outline-offset: 1px; }}
ul.tiles img {{ display: block; width: 100%; height: auto; aspect-ratio: 16 / 10; object-fit: cover;
  object-position: top left; border-bottom: 1px solid #e4e4e4; }}
ul.tiles strong {{ font-size: 24px; padding: .4em .7em 0; }}
ul.tiles span {{ padding: .1em .85em .8em; }}
</style>
</head>
<body>
<header>
<h1>Why does it matter where layer normalization goes?</h1>
{intro}
</header>
<main>
<h2>Explorers</h2>
<ul class="tiles">
{explorers}
</ul>
<h2>Notebooks</h2>
<ul class="tiles">
{notebooks}
</ul>
{more}
</main>
</body>
</html>
"""


def page(link: Callable[[Tile], str], intro: str, more: str = "") -> str:
    """The start page: each tile opens `link(tile)`, one without an address is left out; intro and more are HTML."""
    explorers, notebooks = (
        "\n".join(_tile(tile, link(tile)) for tile in tiles if link(tile)) for tiles in (EXPLORERS, NOTEBOOKS)
    )
    return PAGE.format(intro=intro, explorers=explorers, notebooks=notebooks, more=more)


def _tile(tile: Tile, address: str) -> str:
    picture = f'<img src="{tile.picture}" alt="" width="480" height="300">' if tile.picture else ""
    return (
        f'<li><a href="{escape(address)}">{picture}<strong>{escape(tile.title)}</strong>'
        f"<span>{escape(tile.words)}</span></a></li>"
    )
