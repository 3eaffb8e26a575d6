"""The live plot, as far as it can be seen without a page: tests/browser/test_live.py looks at the rest."""

import base64
import gzip
import json

import numpy as np
import plotly.graph_objects as go
import pytest
from plotly.offline import get_plotlyjs

from lntutor.page import live
from lntutor.page.live import LivePlot, live_plot


def figure(slope: float = 1.0, **layout) -> go.Figure:
    """A line through four points."""
    return go.Figure(go.Scatter(x=np.arange(4.0), y=slope * np.arange(4.0)), layout=layout)


@pytest.fixture
def messages(monkeypatch) -> list[tuple[dict, list]]:
    """What every live plot sends to its page."""
    sent = []
    monkeypatch.setattr(LivePlot, "_send", lambda self, message, buffers=None: sent.append((message, buffers)))
    return sent


def drawn(plot: LivePlot) -> list[float]:
    """The heights that the message of the first trace carries, decoded as plotly.js decodes them."""
    y = json.loads(plot.picture)["data"][0]["y"]
    return np.frombuffer(base64.b64decode(y["bdata"]), dtype=y["dtype"]).tolist()


def test_the_figure_travels_whole_and_stays_at_hand():
    """Oracle: the go.Figure that was given, after plotly.py has read the message back."""
    given = figure(2.0, title={"text": "Slope 2"})
    plot = live_plot(given)
    assert isinstance(plot, LivePlot)
    assert plot.figure is given
    sent = json.loads(plot.picture)
    assert go.Figure({"data": sent["data"], "layout": sent["layout"]}) == given
    assert drawn(plot) == [0, 2, 4, 6]


def test_show_replaces_the_picture_in_one_message(messages):
    """Oracle: the number of messages, and the new figure's own numbers."""
    plot = LivePlot(figure(1.0), alt="one")
    messages.clear()
    plot.show(figure(3.0), alt="three")
    assert len(messages) == 1
    assert set(messages[0][0]["state"]) == {"picture"}
    assert drawn(plot) == [0, 3, 6, 9]
    assert plot.alt == json.loads(plot.picture)["alt"] == "three"
    plot.show(figure(3.0), alt="three")
    assert len(messages) == 1  # the same again sends nothing


def test_messages_and_the_saved_state_are_small():
    """Oracle: 9 kB, of which plotly's template takes 6.5; base64's 4/3; plotly.js, of 4.8 MB, is not in the state."""
    assert len(LivePlot(figure()).picture) < 9_000
    assert len(LivePlot(figure(template="none")).picture) < 2_000
    values = np.random.default_rng(0).normal(size=30_000)
    assert len(LivePlot(go.Figure(go.Scatter(y=values))).picture) < 4 / 3 * values.nbytes + 9_000
    assert sum(len(str(value)) for value in LivePlot(figure()).get_state().values()) < 40_000


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_a_number_travels_too(value):
    """Oracle: JSON, which knows no NaN; plotly.js leaves a gap for null."""
    plot = live_plot(go.Figure(go.Scatter(y=[1.0, value, 2.0])))
    picture = json.loads(plot.picture, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert picture["data"][0]["y"] == [1.0, None, 2.0]


@pytest.mark.parametrize(
    ("title", "meta", "given", "expected"),
    [
        ("Title", {"alt": "The words"}, "Asked for", "Asked for"), ("Title", {"alt": "The words"}, "", "The words"),
        ("Title", ["no", "dict"], "", "Title"), ("Title", None, "", "Title"), (None, None, "", ""),
    ],
)  # fmt: skip
def test_the_text_alternative_is_the_first_there_is(title, meta, given, expected):
    """Oracle: the order asked for, the figure's meta, its title."""
    plot = live_plot(figure(title={"text": title}, meta=meta), alt=given)
    assert plot.alt == json.loads(plot.picture)["alt"] == expected
    plot.show(figure(title={"text": "Another"}))
    assert plot.alt == "Another"


@pytest.mark.parametrize(("asked", "layout", "expected"), [(300, {"height": 500}, 300), (None, {"height": 500}, 500)])
def test_the_height_is_the_first_there_is(asked, layout, expected):
    """Oracle: the order asked for, the figure's own, 420."""
    plot = live_plot(figure(**layout), height=asked)
    assert json.loads(plot.picture)["height"] == expected
    plot.show(figure())
    assert json.loads(plot.picture)["height"] == (asked or 420)


def test_what_is_not_a_figure_is_refused():
    """Oracle: the message says what was given and what is allowed; the last picture stays."""
    plot = live_plot(figure())
    before = plot.picture, plot.figure
    with pytest.raises(TypeError, match=r"must be a plotly\.graph_objects\.Figure, got list"):
        plot.show([1, 2])
    assert (plot.picture, plot.figure) == before


def test_a_page_that_asks_gets_plotlyjs_once(messages):
    """Oracle: the source in the installed plotly package; a page that asks through three plots gets one."""
    plots = [live_plot(figure(slope)) for slope in (1.0, 2.0, 3.0)]
    messages.clear()
    for plot in plots:
        plot._handle_custom_msg({"type": "plotly", "page": "first"}, [])
    assert len(messages) == 1
    plots[0]._handle_custom_msg({"type": "plotly", "page": "second"}, [])
    assert len(messages) == 2
    for message, buffers in messages:
        assert message["content"] == {"type": "plotly"}
        assert gzip.decompress(buffers[0]).decode() == get_plotlyjs()
        assert len(buffers[0]) < 2e6


def test_a_page_may_ask_again_when_the_answer_was_lost(messages, monkeypatch):
    """Oracle: a clock that has moved on by the pause; a message of another kind is left unanswered."""
    plot = live_plot(figure())
    messages.clear()
    plot._handle_custom_msg({"type": "else"}, [])
    assert not messages
    plot._handle_custom_msg({"type": "plotly", "page": "third"}, [])
    now = live.time.monotonic() + live.PAUSE
    monkeypatch.setattr(live.time, "monotonic", lambda: now)
    plot._handle_custom_msg({"type": "plotly", "page": "third"}, [])
    assert len(messages) == 2


@pytest.mark.parametrize(("name", "file"), [("curve", "curve.png"), ("curve.png", "curve.png"), ("a/b.svg", "b.png")])
def test_the_page_is_told_to_save_a_png(messages, name, file):
    """Oracle: the message that live.js waits for; a file name without a folder."""
    plot = live_plot(figure())
    messages.clear()
    plot.download_png(name)
    assert messages[0][0]["content"] == {"type": "png", "name": file}


def test_a_plot_carries_a_twin_for_pages_without_a_kernel():
    """Oracle: the picture in it is the figure; markup in words cannot end the script or run."""
    given = figure(2.0, title={"text": "</script><b>x</b>"})
    bundle = live_plot(given)._repr_mimebundle_()[0]
    assert "application/vnd.jupyter.widget-view+json" in bundle
    twin = bundle["text/html"]
    assert "<b>" not in twin.split('<script type="application/json">')[0]
    picture = twin.split('<script type="application/json">')[1].split("</script>")[0]
    assert go.Figure(json.loads(picture)["data"]) == go.Figure(given.data)
    assert json.loads(picture)["layout"]["title"]["text"] == "</script><b>x</b>"
