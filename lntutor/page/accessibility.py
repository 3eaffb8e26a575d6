"""What everyone needs of the explorers and the questions in a page.

News that a screen reader reads out, no motion where the reader asks for none, buttons that act on the last value set.
"""

from pathlib import Path

from anywidget import AnyWidget

from lntutor.page.live import PATIENCE

CSS = """
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
