"""The kit: controls that a hand likes, with one look, for the playground, the explorers and the questions."""

from pathlib import Path

_HERE = Path(__file__).parent
COLOURS = (_HERE / "colours.js").read_text("utf-8")
SCRIPT = "\n".join((COLOURS, *((_HERE / name).read_text("utf-8") for name in ("nodes.js", "keys.js", "controls.js"))))
STYLE = (_HERE / "kit.css").read_text("utf-8")
