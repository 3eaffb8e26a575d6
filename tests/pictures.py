"""What the tests of figures share: a trace by its name, a title in one line, and what every figure must be."""

import pandas as pd
import plotly.graph_objects as go

from lntutor import figures


def trace(fig, uid):
    """The trace of this name."""
    return next(t for t in fig.data if t.uid == uid)


def title(fig):
    """The finding, in one line."""
    return fig.layout.title.text.replace("<br>", " ")


def accepted(make, lecture):
    """Plotly's own validation, and names of its own for every trace; title and note stand in the text alternative."""
    fig = make(lecture=lecture, note="At this size.")
    go.Figure(fig.to_dict())
    alt = figures.alt_text(fig)
    assert len(alt) > 80
    assert "At this size." in alt
    spoken = title(fig).replace("&amp;", "&").replace("<sub>", "_").replace("</sub>", "")
    assert spoken.rstrip(".") in alt
    assert "$" not in fig.to_json()
    assert len({t.uid for t in fig.data}) == len(fig.data)


def empty(make):
    """A table without rows is said in a sentence, in the picture and in its text alternative."""
    fig = make(pd.DataFrame())
    assert not fig.data
    assert figures.alt_text(fig).startswith("There ")
