"""Lecture mode: one switch for the type of all figures, explorers and questions."""

from __future__ import annotations

import weakref
from typing import Any

from lntutor.figures.lecture_type import lecturing, switch
from lntutor.model.checks import check_flag

# Widgets with the class, wherever they stand; then the page around them while jupyterlab-slideshow presents: the code
# of a cell that shows a figure, a question or the ledger is hidden, until Enter opens it.
CSS = """
.lntutor-lecture { font-size: 20px; }
.lntutor-lecture .widget-html-content { font-size: 20px; line-height: 1.4; }
.lntutor-lecture .widget-html-content :is(table, summary) { font-size: 19px; }
.lntutor-lecture .lntutor-prose { max-width: none; }
body[data-jp-deck-mode="presenting"] .jp-OutputArea-promptOverlay { display: none; }
body[data-jp-deck-mode="presenting"]:has(.lntutor-lecture) {
  --jp-content-font-size1: 20px; --jp-code-font-size: 18px; --jp-content-line-height: 1.45; }
body[data-jp-deck-mode="presenting"]:has(.lntutor-lecture) .jp-RenderedHTMLCommon table { font-size: 18px; }
body[data-jp-deck-mode="presenting"]:has(.lntutor-lecture) .jp-Deck.jp-NotebookPanel { left: 24px; right: 64px; }
body[data-jp-deck-mode="presenting"]:has(.lntutor-lecture) .jp-Deck .jp-Collapser { visibility: hidden; }
body[data-jp-deck-mode="presenting"]:has(.lntutor-lecture) .jp-Deck .cm-content {
  white-space: break-spaces; overflow-wrap: anywhere; flex-shrink: 1; }
body[data-jp-deck-mode="presenting"]:has(.lntutor-lecture) .jp-Notebook.jp-mod-commandMode
  .jp-CodeCell:has(.jp-OutputArea-output :is(.lntutor-lecture, caption)) .jp-Cell-inputWrapper { display: none; }
/* Nobody reads a telephone from the back row. */
@media (max-width: 599px) {
  .lntutor-lecture:not(#_), .lntutor-lecture:not(#_) :is(.widget-html-content, table, summary, select, input, button) {
    font-size: medium; }
  .lntutor-lecture:not(#_) { --question: medium; --jp-widgets-font-size: medium; --jp-ui-font-size1: medium; }
}
"""

FOLLOWERS: weakref.WeakSet[Any] = weakref.WeakSet()  # what is on the page; each has `lecture_changed(on)`


def lecture(on: bool = True) -> None:
    """Large type for a lecture hall: in every explorer and question on this page, and in every figure from now on.

    `False` goes back to normal type. A figure that is already drawn stays unchanged: run its cell again.
    """
    switch(check_flag("on", on))
    for follower in list(FOLLOWERS):
        follower.lecture_changed(on)


def follow(widget: Any, on: bool | None = None) -> None:
    """Let a widget follow the switch from now on; it starts with the switch's value, or with `on`."""
    FOLLOWERS.add(widget)
    mark(widget, lecturing(on))


def mark(widget: Any, on: bool) -> None:
    """Set or remove the class by which CSS makes the type large."""
    (widget.add_class if on else widget.remove_class)("lntutor-lecture")
