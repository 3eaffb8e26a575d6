"""What everyone needs of a page and ipywidgets leaves out, for the explorers and the questions.

Names for sliders, news that a screen reader reads out, a visible focus, no motion where the reader asks for none, room
on a narrow page, buttons that act on the last value set.
"""

from pathlib import Path

from anywidget import AnyWidget

from lntutor.page.live import PATIENCE

# ipywidgets takes the outline from some of its inputs, by rules that only an id outweighs.
CSS = """
:is(.lntutor-explorer, .lntutor-ask):not(#_) :focus-visible {
  outline: 3px solid #0072B2 !important; outline-offset: 1px; }
:is(.lntutor-explorer, .lntutor-ask) .mod-primary:enabled { background: #005A8E; color: #fff; }
.lntutor-explorer .lntutor-fold { border: 1px solid #767676; padding: 6px; box-sizing: border-box; }
.lntutor-explorer :is(.widget-html, .widget-html-content) { min-width: 0; max-width: 100%; }
.lntutor-reach { position: relative; height: 1px; margin: 0; overflow: hidden; }
.lntutor-aloud { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
@media (prefers-reduced-motion: reduce) {
  :is(.lntutor-explorer, .lntutor-ask, .lntutor-live) :is(*, ::before, ::after) {
    transition: none !important; animation: none !important; }
}
"""


class Accessibility(AnyWidget):
    """Goes among the children of an explorer or a question, shows nothing, and looks after the controls around it."""

    _esm = PATIENCE + Path(__file__).with_suffix(".js").read_text("utf-8")  # as in live.py: not a Path
    _css = CSS

    def __init__(self):
        super().__init__()
        self.add_class("lntutor-reach")
