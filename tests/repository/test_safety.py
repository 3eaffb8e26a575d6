"""Nothing from outside is run: not a file, not a word that somebody types, not a page that is served or downloaded."""

import ast
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import plotly.io as pio
import pytest

import lntutor as ln
from lntutor import figures, lesson
from lntutor.explore import AttentionExplorer, PlacementExplorer
from lntutor.lesson import claims, notes
from lntutor.lesson.exercises import check
from lntutor.lesson.quiz_items import Choice, Item
from tests.processes import ROOT

CODE = sorted(path for folder in ("lntutor", "tools", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

# Code that is not ours ------------------------------------------------------------------------------------------

RUNS = {  # what would run, or unpack into objects, something that came as data
    "eval", "exec", "compile", "__import__", "pickle.load", "pickle.loads", "pickle.Unpickler", "torch.load",
    "joblib.load", "pd.read_pickle", "pandas.read_pickle", "np.load", "numpy.load", "yaml.load", "yaml.unsafe_load",
    "marshal.load", "marshal.loads", "shelve.open", "os.system", "os.popen", "subprocess.getoutput", "dill.load",
    "cloudpickle.load", "cloudpickle.loads", "torch.hub.load",
}  # fmt: skip


def dangers(source: str) -> list[str]:
    """Calls in some code that would run what came as data."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            switches = [word for word in node.keywords if word.arg in ("shell", "allow_pickle")]
            found += [f"{name}({word.arg}=…)" for word in switches if ast.unparse(word.value) != "False"]
            found += [name] if name in RUNS else []
        if isinstance(node, ast.ImportFrom) and node.module in ("pickle", "marshal", "shelve", "dill", "cloudpickle"):
            found.append(f"from {node.module}")
    return found


@pytest.mark.parametrize("path", [*CODE, *NOTEBOOKS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_code_runs_what_came_as_data(path):
    """Oracle: Python's own syntax tree, without pickles, eval and shells; a cell with a magic does not parse."""
    sources = [path.read_text(encoding="utf-8")]
    if path.suffix == ".ipynb":
        cells = json.loads(sources[0])["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert not [danger for source in sources for danger in dangers(source)]


def test_the_search_finds_what_it_looks_for():
    """Oracle: code that does run what came as data, and code that does not."""
    for code in (
        "eval('1')", "pickle.loads(b'')", "torch.load(f)", "np.load(f)", "run(c, shell=True)", "run(c, shell=x)",
        "from pickle import loads", "x = [exec(c) for c in d]", "np.lib.format.read_array(f, allow_pickle=True)",
    ):  # fmt: skip
        assert dangers(code), code
    assert not dangers("run(c, shell=False); pickle.dumps(x); evaluate(x); json.loads(t)")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_not_trusted_and_asks_no_other_machine(path):
    """Oracle: the format's fields; no frame, script, picture or style in prose or code that names a host."""
    content = json.loads(path.read_text(encoding="utf-8"))
    assert "signature" not in content["metadata"]
    for cell in content["cells"]:
        source = "".join(cell["source"])
        assert "trusted" not in cell["metadata"]
        assert not re.search(r"<\s*(script|iframe|object|embed|link|img|style)\b", source, re.IGNORECASE), cell["id"]
        assert not re.search(r"!\[[^\]]*\]\(\s*(https?:)?//", source), cell["id"]
        assert not re.search(r"\b(IFrame|Javascript|urlopen|urlretrieve|requests)\b", source), cell["id"]


# Words that somebody types --------------------------------------------------------------------------------------

MARKUP = '<img src=x onerror=window.hacked=1><script>window.hacked=1</script><a href="javascript:hacked()">x</a>'
WORD = MARKUP.replace(" ", "/")  # the same as one word, which browsers read as well


class Elements(HTMLParser):
    """The elements of a page, with the attributes that could run something."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def assert_shown(page: str, typed: str = MARKUP) -> None:
    """What was typed stands in the page as words, and is no part of it as markup."""
    elements = Elements(page)
    assert typed in elements.text
    for tag, attributes in elements.found:
        assert not (tag == "img" and attributes.get("src") == "x")
        assert not any("hacked" in str(value) and name.startswith(("on", "href")) for name, value in attributes.items())
    assert not re.search(r"<script>window\.hacked", page)


def written(part) -> Iterator[str]:
    """All texts of a figure that plotly draws, in which it reads a little HTML: no keys, no text for screen readers."""
    if isinstance(part, dict):
        part = [value for name, value in part.items() if name not in ("meta", "uid", "legendgroup")]
    if isinstance(part, list):
        for value in part:
            yield from written(value)
    elif isinstance(part, str):
        yield part


def assert_drawn(figure, typed: str) -> None:
    """A figure has what was typed, with every sign that plotly would read as markup spelt out."""
    texts = list(written(figure.to_dict()))
    assert not [text for text in texts if re.search("<(img|script|a[ /])", text)]
    start = typed[:12].replace("<", "&lt;")
    assert [text for text in texts if start in text]
    page = pio.to_html(figure, include_plotlyjs=False)  # Save HTML
    assert "<script>window.hacked" not in page
    assert "<img" not in page


@pytest.fixture
def mine(no_pause):
    """A reader's own placement, with markup in its words."""
    ln.PLACEMENTS["mine"] = ln.Placement(MARKUP, MARKUP, ln.PLACEMENTS["post"].layer, reference=MARKUP)
    yield "mine"
    del ln.PLACEMENTS["mine"]


def pages_of(explorer) -> str:
    """All HTML that an explorer shows: its status line, its table, and its twin without a kernel."""
    explorer._toggle_table()
    explorer.settle()
    return explorer.status.value + explorer.table_area.value + explorer._twin()


def test_a_sentence_with_markup_is_shown_in_the_attention_explorer(no_pause):
    """Oracle: Python's HTML parser on the table and the twin; the texts of the figure."""
    explorer = AttentionExplorer(sentence=f"{WORD} b")
    assert_shown(pages_of(explorer), WORD)
    assert_drawn(explorer.figure, WORD)
    explorer.set(sentence=MARKUP * 60)  # too long: the error is shown, not what was typed
    assert "hacked" not in explorer.status.value


def test_no_words_end_the_script_that_carries_a_picture(no_pause):
    """Oracle: what browsers read in a script: its end tag, and "<!--<script", after which that tag does not end it."""
    twin = AttentionExplorer(sentence="a<!--<script> </script> b")._twin()
    carried = twin.partition('<script type="application/json">')[2].partition("</script>")[0]
    assert "<" not in carried
    assert "a<!--<script>" in json.loads(carried)["alt"]


def test_a_placement_with_markup_in_its_words_is_shown_in_explorers(mine):
    """Oracle: the texts of the figures, and Python's HTML parser on what stands around them."""
    explorer = PlacementExplorer(placement=mine)
    page = pages_of(explorer)
    assert_drawn(explorer.figure, MARKUP)
    assert not [tag for tag, _ in Elements(page).found if tag in ("img", "a")]
    assert "<script>window.hacked" not in page


def test_names_of_runs_and_columns_are_shown_in_figures():
    """Oracle: the texts of the figures, with markup wherever a table or a caller may put words."""
    run = pd.DataFrame({"run": MARKUP, "placement": "post", "seed": 0, "step": [1, 2], "loss": [2.0, 1.0]})
    run = run.assign(val_loss=run["loss"], lr=0.1)
    spectrum = pd.DataFrame({"placement": MARKUP, "seed": 0, "x": [0.0, 1.0], "density": [1.0, 0.5]})
    spectrum = spectrum.assign(lambda_min=0.0, lambda_max=1.0)
    rows = pd.DataFrame({"placement": MARKUP, "value": [1.0, 2.0], "where": MARKUP, "seed": [0, 1]})
    for figure in (
        figures.training_curves(run, note=MARKUP),
        figures.spectrum(spectrum, matrix=MARKUP, note=MARKUP),
        figures.values_by_row(rows, row="where", what=MARKUP, note=MARKUP),
        figures.layer_norm_before_after([1.0, 2.0], {MARKUP: [1.0, 2.0]}, note=MARKUP),
        figures.attention_map(np.eye(2), [MARKUP, "b"], note=MARKUP),
        figures.block_diagram(ln.Placement(MARKUP, MARKUP, ln.PLACEMENTS["pre"].layer, reference=MARKUP)),
    ):
        assert_drawn(figure, MARKUP)


def pieces(widget) -> str:
    """The HTML of all that stands in a widget."""
    own = widget.value if type(widget).__name__ == "HTML" else ""
    own += "".join(part.value for part in getattr(widget, "parts", {}).values() if part.kind == "words")
    return own + "".join(pieces(child) for child in getattr(widget, "children", ()))


def ask(class_mode: bool) -> Iterator[str]:
    """Choices, guesses and votes, before and after the guess."""
    asked = lesson.Predict(
        f"markup {class_mode}", "What?", choices=[MARKUP, "b"], reveal=lambda: MARKUP, class_mode=class_mode
    )
    for _ in range(1 + class_mode):
        if class_mode:
            asked.control.value = (3, 0)
        else:
            asked.control.value = MARKUP
        asked.store()
    assert asked.revealed
    yield from (pieces(asked), asked.static())


def unit_and_result() -> Iterator[str]:
    """A unit, and a result that is no HTML of the author's."""
    shouting = type("Shouting", (), {"__repr__": lambda self: MARKUP})()
    asked = lesson.Predict("markup unit", "How many?", value=(0, 1), unit=MARKUP, reveal=lambda: (shouting, 0.5))
    asked.control.value = 0.5
    asked.store()
    yield from (pieces(asked), asked.static())


def error() -> Iterator[str]:
    """The message of an error in the author's code."""

    def fail():
        raise ValueError(MARKUP)

    broken = lesson.Predict("markup error", "What?", choices=["a", "b"], reveal=fail)
    broken.control.value = "a"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LNTUTOR_STRICT", raising=False)
        broken.store()
    yield pieces(broken)


def quiz() -> Iterator[str]:
    """All that is said of an answer."""
    item = Item("k", "?", (Choice(MARKUP, MARKUP), Choice("b", MARKUP, MARKUP)), read=MARKUP)
    for picked in (MARKUP, "b"):
        quiz = lesson.Quiz([item], f"markup {picked[:1]}")
        quiz.controls["k"].value = picked
        quiz.store()
        yield from (pieces(quiz), quiz.static())


def ledger() -> Iterator[str]:
    """The reader's own notes, and a notes file that is somebody else's."""
    claims.record("attention.variance", MARKUP, verdict="open", spread=MARKUP, guess=MARKUP, size=MARKUP)
    yield claims.show_ledger()._repr_html_()
    stored = {"records": {"attention.variance": dict.fromkeys(("measured", "verdict", "spread", "guess"), MARKUP)}}
    notes.path().write_text(json.dumps(stored))
    notes.NOTES._session.clear()
    yield claims.show_ledger()._repr_html_()


PAGES = {
    "a question": lambda: ask(False), "a question to a class": lambda: ask(True), "an error": error, "a quiz": quiz,
    "a unit and a result": unit_and_result, "the ledger": ledger,
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_markup_that_somebody_typed_is_shown(page, tmp_path, monkeypatch):
    """Oracle: Python's HTML parser on the page and on its twin."""
    monkeypatch.setenv(notes.HOME, str(tmp_path))
    monkeypatch.setattr(notes.NOTES, "_session", {})
    for html in PAGES[page]():
        assert_shown(html)


def test_a_folder_of_notes_with_markup_in_its_name_is_shown(tmp_path, monkeypatch):
    """Oracle: Python's HTML parser on the warning that names a file which could not be read."""
    folder = tmp_path / "<img src=x onerror=window.hacked=1>"
    folder.mkdir()
    monkeypatch.setenv(notes.HOME, str(folder))
    monkeypatch.setattr(notes, "NOTES", notes.Notes())
    monkeypatch.setattr(lesson.question, "NOTES", notes.NOTES)
    notes.path().write_text("no notes")
    notes.NOTES.everywhere("guesses")
    question = lesson.Predict("markup folder", "What?", choices=["a", "b"], reveal=lambda: "a")
    assert_shown(pieces(question), folder.name)


@pytest.mark.parametrize(
    "answer", [MARKUP, lambda *args: MARKUP, type(MARKUP, (), {})()], ids=["words", "code", "thing"]
)
def test_what_is_said_of_an_answer_with_markup_is_words(answer):
    """Oracle: Python's HTML parser finds no element but the frame and its paragraphs."""
    for name in ("layer_norm", "why_decoder", "gradient_ratio"):
        page = check(name, answer, seed=0)._repr_html_()
        assert {tag for tag, _ in Elements(page).found} <= {"div", "b", "p"}


# Servers --------------------------------------------------------------------------------------------------------


def test_no_setting_weakens_the_servers():
    """Oracle: the names of Jupyter's settings that let other pages in, anywhere in code or configuration."""
    weak = r"disable_check_xsrf|allow_origin|allow_credentials|xsrf_cookies|token\s*=\s*['\"]['\"]|ticated_access"
    files = [*CODE, *(ROOT / "lntutor").rglob("*.json"), ROOT / "Makefile", *NOTEBOOKS]
    assert not [path.name for path in files if re.search(weak, path.read_text(encoding="utf-8"))]
