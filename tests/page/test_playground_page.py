"""The playground's data, its module and its page: complete, self-contained, and safe to carry any words."""

import base64
import json
import re
from html.parser import HTMLParser

import pytest

import lntutor as ln
from lntutor import figures
from lntutor.model.placements import ALL_SLOTS, At, Box, draw, in_slots
from lntutor.page.playground import page

MARKUP = '</script><!--<script><img src=x onerror="window.hacked=1">'
NAMED = {"C": "post", "AD": "pre", "ABD": "peri", "BD": "res_post", "": "none"}  # read off the formulas


@pytest.fixture
def mine():
    """A reader's own placement with markup in its words."""
    ln.PLACEMENTS["mine"] = ln.Placement(MARKUP, MARKUP, ln.each(lambda x, f, N, at: N(f(x) + x)), reference=MARKUP)
    yield "mine"
    ln.PLACEMENTS.pop("mine", None)


class Scripts(HTMLParser):
    """The scripts of a page as Python's parser finds them, and all attributes that name another file."""

    def __init__(self, html: str):
        super().__init__()
        self.scripts, self.addresses, self.tags = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script":
            self.scripts[-1] += data

    def handle_endtag(self, tag):
        if tag == "script":
            self.tags.append("")


def boxes(box: Box) -> tuple:
    """What a rule does, without the objects: kinds and what feeds them; the terms of a sum in any order."""
    inputs = [boxes(each) for each in box.inputs]
    return (box.kind, box.factor, *(sorted(inputs, key=repr) if box.kind == "sum" else inputs))


# Data ----------------------------------------------------------------------------------------------------------


def test_every_placement_is_there_in_order_with_its_look_its_words_and_a_graph():
    """Oracle: PLACEMENTS and the styles of the figures."""
    placements = page.data()["placements"]
    assert list(placements) == list(ln.PLACEMENTS)
    for key, given in placements.items():
        placement, style = ln.PLACEMENTS[key], figures.placement_style(key)
        assert [given[name] for name in ("color", "marker", "dash")] == [style["color"], style["symbol"], style["dash"]]
        for name in ("label", "formula", "reference", "year"):
            assert given[name] == getattr(placement, name)
        assert given["graph"]
        assert not given["error"]
        assert not given["own"]
    json.dumps(page.data(), allow_nan=False)


def test_a_placement_that_cannot_be_exported_has_a_sentence_in_place_of_a_graph(mine, monkeypatch):
    """Oracle: the words of the error; the others keep their graphs."""

    def refuse(placement):
        raise ValueError("too much to ask")

    monkeypatch.setattr(page, "exported", refuse)
    page.graph_of.cache_clear()
    try:
        assert page.graph_of(ln.PLACEMENTS["mine"]) == (None, "too much to ask")
        assert page.data()["placements"]["mine"]["error"] == "too much to ask"
    finally:
        page.graph_of.cache_clear()


def test_a_graph_is_made_once_and_anew_for_a_new_rule(mine, monkeypatch):
    """Oracle: the calls counted."""
    made = []
    monkeypatch.setattr(page, "exported", lambda placement: made.append(placement) or {})
    page.graph_of.cache_clear()
    try:
        for _ in range(2):
            page.data()
            assert len(made) == len(ln.PLACEMENTS) + 16  # and every choice of slots
        ln.PLACEMENTS["mine"] = ln.Placement("Other", "x", ln.each(lambda x, f, N, at: x + f(N(x))))
        assert page.data()["placements"]["mine"]["own"]
        assert len(made) == len(ln.PLACEMENTS) + 16 + 1
    finally:
        page.graph_of.cache_clear()


# Slots ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", ALL_SLOTS)
def test_slots_make_the_rule_that_their_names_say(slots):
    """Oracle: the rule written by hand on boxes, for each combination."""
    at = At("decoder", 1, 4, "encoder-decoder")
    drawn = draw(in_slots(slots), at)
    norm = lambda x: Box("norm", (x,))  # noqa: E731
    x = Box("input")
    for block in ("self", "cross", "ffn"):
        y = Box(block, (norm(x) if "A" in slots else x,))
        x = Box("sum", (x, norm(y) if "B" in slots else y))
        x = norm(x) if "C" in slots else x
    assert boxes(drawn.out) == boxes(norm(x) if "D" in slots else x)


def test_named_slots_are_found_and_others_are_not(mine):
    """Oracle: the formulas, read by hand; a rule with its sum the other way round is the same."""
    found = {key: page.slots_of(placement) for key, placement in ln.PLACEMENTS.items()}
    assert {slots: key for key, slots in found.items() if slots is not None and key != "mine"} == NAMED
    assert found["mine"] == "C"
    assert {slots: page.name_of(slots) for slots in ALL_SLOTS} == {slots: NAMED.get(slots, "") for slots in ALL_SLOTS}


# The page ------------------------------------------------------------------------------------------------------


def test_the_page_is_one_file_of_at_most_two_megabytes_that_asks_for_no_other(mine):
    """Oracle: Python's HTML parser; the bytes."""
    html = page.page()
    found = Scripts(html)
    assert len(html.encode()) <= 2_000_000
    assert found.addresses == ["data:,"]
    assert len(found.scripts) == 2
    assert not {"img", "link", "iframe"} & set(found.tags) - {"link"}
    assert not re.search(r"@import|url\(", page.style())
    assert not re.search(r"^\s*(?:import|export)\b", found.scripts[1], re.MULTILINE)


def test_no_words_of_a_placement_end_the_script_that_carries_them(mine):
    """Oracle: Python's HTML parser reads back the very words."""
    found = Scripts(page.page())
    assert json.loads(found.scripts[0])["placements"]["mine"]["label"] == MARKUP
    assert "<" not in found.scripts[0]
    assert "img" not in found.tags


def test_links_stand_above_the_playground_with_their_words_as_words():
    """Oracle: the HTML written by hand."""
    assert '<a href="index.html">All &lt;pages&gt;</a>' in page.page([("All <pages>", "index.html")])
    assert "<nav" not in page.page()


def test_the_module_carries_kernel_and_worker_as_text_and_ends_in_what_anywidget_calls():
    """Oracle: JSON, the bytes and the sources on disk; the scripts themselves would not end a script element."""
    text = page.module()
    assert text.count("\nexport ") == 1
    assert text.endswith("\nexport default { render }\n")
    kernel = json.loads(re.search(r'^const KERNEL = (".*")$', text, re.MULTILINE)[1])
    assert base64.b64decode(kernel) == (page.HERE / "kernel.wasm").read_bytes()
    worker = json.loads(re.search(r'^const WORKER = (".*")$', text, re.MULTILINE)[1])
    for name in (*page.SHARED, *page.WORKER):
        assert (page.HERE / name).read_text(encoding="utf-8") in worker
    assert not re.search(r"</script|<!--", text, re.IGNORECASE)


def test_top_level_names_are_used_once_as_all_scripts_share_a_scope():
    """Oracle: the declarations that begin a line; the worker's scripts are a scope of their own."""
    names = {path.name for path in page.HERE.glob("*.js")}
    for scope in (names - {*page.WORKER, "page.js"}, names - {*page.WORKER, "widget.js"}, {*page.SHARED, *page.WORKER}):
        text = "\n".join((page.HERE / name).read_text(encoding="utf-8") for name in sorted(scope))
        declared = re.findall(r"^(?:async )?(?:const|let|function\*?|class) (\w+)", text, re.MULTILINE)
        assert len(declared) == len(set(declared)), {name for name in declared if declared.count(name) > 1}


# The link ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, ""),
        ({"depth": 12, "theory": False}, "depth=12&theory=false"),
        ({"placement": "pre", "slots": "AD"}, "placement=pre"),
        ({"placement": "b2t", "slots": None}, "placement=b2t"),
        ({"placement": "", "slots": "ABC"}, "slots=ABC"),
        ({"compare": ["pre", "peri"]}, "compare=pre,peri"),
    ],
)
def test_a_link_says_what_differs_from_the_start(changes, text):
    """Oracle: the text written by hand; tests/browser has the page's own side."""
    assert page.link(page.START | changes) == text
