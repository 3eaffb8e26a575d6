"""The gallery: a tile for the playground, each explorer and each notebook, in HTML that needs nothing from the network.

`make app` and `make site` have the same start page with different links.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from lntutor import ROOT
from lntutor.page.document import render

PICTURES = ROOT / "notebooks" / "pictures"  # screenshots made by tools/picture.py
TEMPLATE = Path(__file__).resolve().parent / "gallery.html.j2"


class Tile(NamedTuple):
    """One explorer or notebook to open."""

    key: str  # the class of the explorer, and of its picture; or the stem of the notebook
    title: str
    summary: str  # one sentence

    @property
    def picture(self) -> str:
        """Its screenshot as a data: address; empty for a notebook, whose answers it would give away."""
        path = PICTURES / f"{self.key}.webp"
        return f"data:image/webp;base64,{base64.b64encode(path.read_bytes()).decode()}" if path.is_file() else ""


PLAYGROUND = Tile("Playground", "Playground", "Put the layer norm elsewhere, and every layer of the network answers.")
EXPLORERS = (
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
TILES = (PLAYGROUND, *EXPLORERS, *NOTEBOOKS)


def page(link: Callable[[Tile], str], intro: str, more: str = "") -> str:
    """The start page: each tile opens `link(tile)` and is left out where that is empty; intro and more are HTML."""
    tiles = {"Explorers": (PLAYGROUND, *EXPLORERS), "Notebooks": NOTEBOOKS}
    groups = {name: [(tile, link(tile)) for tile in group if link(tile)] for name, group in tiles.items()}
    return render(TEMPLATE, intro=Markup(intro), groups=groups, more=Markup(more))
