"""Nothing of an answer stands in view before the guess: each lesson is read as a page with nothing guessed.

In view are prose outside of folds, code that is not folded away, and outputs, but not those of questions: they cover
themselves. Of a figure its title, legend and notes are in view. The answers are those of the lesson's run. What counts
as telling one, so that equal numbers do not count:

- A measured number counts as it is written: rounded to its digits, as a fraction or in per cent. With three digits it
  counts from the top of the lesson to the end of the question's section, but not in tables of other sections, which
  have too many; with fewer, near the question: from the start of its section to two cells after it. Zeros at the end
  are no digits, and one digit must be right to 4 per cent.
- A whole number up to 100 stands everywhere, so it counts only near, before the first word of the question's unit.
  If the answer is such a number, nothing else tells it. 100 % and what the question itself gives tell nothing.
- A curve is told by a cell near it that has more than half of its numbers, not counting these small ones.
- A choice is told by a cell near it that has its words and not those of all other choices. One word is never counted.
"""

import ast
import html
import json
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from fractions import Fraction

import nbformat
import plotly.graph_objects as go
import pytest

from lntutor.page.live import static_twin
from tests.notebooks.runs import NOTEBOOKS, run

FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
UNSEEN = re.compile(r"<(script|style|details)\b.*?</\1>", re.DOTALL)  # of an output in HTML
CHARACTERS = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "−": "-"}
LATEX = re.compile(r"\\[td]?frac\s*(?:\{(\d+)\}|(\d))\s*(?:\{(\d+)\}|(\d))")
NUMBER = re.compile(r"(?<![\w.^/])(\d+/\d+|\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?![\w/]|\.\d) ?(%|[a-z]*)")
FIGURE = re.compile(
    r'<figure class="lntutor-static".*?<script type="application/json">(.*?)</script></figure>', re.DOTALL
)
TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
A_SECTION = re.compile(r"^## ", re.MULTILINE)
MANY, SMALL = 3, 100  # digits that are no chance; whole numbers up to this are
SOON = 2  # cells after a question
EXACT = 0.04  # a number with one digit is told by what is as near to it


@dataclass
class Asked:
    """A question of a lesson, where it stands, and what was measured."""

    name: str
    at: int  # the index of its cell
    unit: str
    page: str  # what it shows, in HTML
    answer: object

    @property
    def choices(self) -> set[str]:
        """What it offers, one line per choice."""
        listed = [re.sub(r" <b>\(.*", "", line) for line in re.findall(r"<li>(.*?)</li>", self.page)]
        return {html.unescape(line) for line in listed}

    @property
    def given(self) -> list[float]:
        """The numbers in its words."""
        return [number.value for number in numbers(self.page.partition("</p>")[0])]


@dataclass(frozen=True)
class Number:
    """A number as it is written."""

    value: float
    digits: int
    half: float  # of a unit in its last place
    word: str  # after it

    @property
    def small(self) -> bool:
        return self.value.is_integer() and self.value <= SMALL and self.half == (0.005 if self.word == "%" else 0.5)

    def is_rounded(self, exact: float) -> bool:
        return abs(abs(exact) - self.value) <= min(self.half, EXACT * self.value) * (1 + 1e-9)


def numbers(text: str) -> Iterator[Number]:
    """Every number of a text, fractions of TeX included."""
    for character, plain in CHARACTERS.items():
        text = text.replace(character, plain)
    text = LATEX.sub(lambda found: f" {found[1] or found[2]}/{found[3] or found[4]} ", text)
    for written, word in NUMBER.findall(text):
        if "/" in written:
            top, bottom = map(int, written.split("/"))
            if bottom and Fraction(top, bottom).denominator > 1:
                yield Number(top / bottom, 2, 0.02 * top / bottom, word)
            continue
        mantissa, _, power = written.partition("e")
        places = len(mantissa.partition(".")[2]) - int(power or 0)
        shift = 2 if word == "%" else 0
        digits = len(mantissa.replace(".", "").strip("0"))
        yield Number(float(written) / 10**shift, digits, 0.5 * 10.0 ** -(places + shift), word)


# The page ------------------------------------------------------------------------------------------------------


def in_view(cell: nbformat.NotebookNode, tables: bool = True) -> str:
    """All text of a cell that its reader sees before any guess, with tables or without."""
    if cell.cell_type != "code":
        return FOLDED.sub("", cell.source)
    folded = cell.metadata.get("jupyter", {}).get("source_hidden")
    outputs = [output_in_view(output, tables) for output in cell.outputs]
    return "\n".join(["" if folded else code_in_view(cell.source), *outputs])


def code_in_view(source: str) -> str:
    """Code without what a question offers: its choices and the ends of its sliders are no answers."""
    for call in calls(source):
        for keyword in call.keywords:
            if keyword.arg in ("choices", "value", "curve"):
                source = source.replace(ast.get_source_segment(source, keyword.value) or "", "")
    return source


def output_in_view(output: nbformat.NotebookNode, tables: bool) -> str:
    """Printed text, and HTML without tags."""
    data = output.get("data", {})
    if "text/html" not in data:
        return output.get("text") or data.get("text/plain", "")
    if "lntutor-ask" in data["text/html"]:
        return ""
    page = FIGURE.sub(text_of_figure, data["text/html"])
    return html.unescape(re.sub(r"<[^>]*>", " ", UNSEEN.sub("", page if tables else TABLE.sub("", page))))


def text_of_figure(figure: re.Match) -> str:
    """Its title, the names in its legend, and its annotations."""
    picture = json.loads(figure[1])
    layout = picture["layout"]
    names = [trace.get("name") or "" for trace in picture["data"] if trace.get("showlegend", True)]
    notes = [note["text"] for note in layout.get("annotations", ())]
    return "; ".join([layout.get("title", {}).get("text", ""), *names, *notes])


def calls(source: str) -> list[ast.Call]:
    """The questions that a cell asks."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [call for call in found if getattr(call.func, "id", "") == "Predict"]


def asked(notebook: nbformat.NotebookNode, answers: dict) -> list[Asked]:
    """The questions of a lesson that have a measured answer, in their order."""
    found = []
    for at, cell in enumerate(notebook.cells):
        for call in calls(cell.source) if cell.cell_type == "code" else []:
            name, page = ast.literal_eval(call.args[0]), cell.outputs[-1]["data"]["text/html"]
            unit = next((ast.literal_eval(one.value) for one in call.keywords if one.arg == "unit"), "")
            if answers[name] is not None:
                found.append(Asked(name, at, unit, page, answers[name]))
    return found


# What tells an answer ------------------------------------------------------------------------------------------


def tells_number(text: str, answer: float, unit: str, near: bool, given: Container[float] = ()) -> bool:
    exact = answer / 100 if unit == "%" else answer
    for number in numbers(text):
        if not number.is_rounded(exact) or number.value in given:
            continue
        if number.small or (exact.is_integer() and exact <= SMALL):
            if near and number.small and number.word not in ("", "%") and number.word == unit.split(" ")[0]:
                return True
        elif near or number.digits >= MANY:
            return True
    return False


def tells_curve(text: str, answers: list[float]) -> bool:
    written = [number for number in numbers(text) if not number.small]
    told = {answer for answer in answers if any(number.is_rounded(answer) for number in written)}
    return len(told) > len(answers) / 2


def words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def tells_choice(text: str, answer: str, choices: set[str]) -> bool:
    told = {choice for choice in choices if f" {words(choice)} " in f" {words(text)} "}
    return " " in answer and answer in told and told < choices


def told_by(question: Asked, notebook: nbformat.NotebookNode) -> list[int]:
    """The cells in view that tell the answer, up to the end of the question's section."""
    starts = [i for i, cell in enumerate(notebook.cells) if cell.cell_type != "code" and A_SECTION.search(cell.source)]
    start = max((i for i in starts if i <= question.at), default=0)
    end = min((i for i in starts if i > question.at), default=len(notebook.cells))
    found = []
    for i in range(end):
        text, answer = in_view(notebook.cells[i], tables=i >= start), question.answer
        near = start <= i <= question.at + SOON
        if isinstance(answer, str):
            told = near and tells_choice(text, answer, question.choices)
        elif isinstance(answer, list):
            told = near and tells_curve(text, answer)
        else:
            told = tells_number(text, answer, question.unit, near, question.given)
        found += [i] * told
    return found


@pytest.mark.notebook
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_answer_stands_in_view_before_the_guess(path):
    """Oracle: the answers of the lesson's run, looked for in what a reader sees who has not guessed."""
    notebook, found = run(path)
    questions = asked(notebook, found["answers"])
    assert questions
    told = {
        one.name: [(i, notebook.cells[i].source[:80]) for i in cells]
        for one in questions
        if (cells := told_by(one, notebook))
    }
    assert not told


# The reader of pages itself ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer", "told"),
    [
        ("leaves 0.498 of it", 0.4978, True), ("leaves 0.498 of it", 0.4971, False), (r"$\tfrac32\,l$", 1.497, True),
        (r"$\frac{3}{10}$", 0.3, True), ("3/2 of it", 1.5, True), ("about 50 % of it", 0.4978, True), ("½", 0.5, True),
        ("1e-3", 0.00104, True), ("10 times as large", 10.2, True), ("10 seeds", 10.2, False), ("layer 2", 2.0, False),
        ("x_0.5", 0.5, False), ("100 %", 0.996, False), ("about −0.52", -0.519, True), ("2/3/4", 0.67, False),
        ("123", 123.2, True), ("x is 100 %", 99.6, False),
    ],
)  # fmt: skip
def test_a_number_is_found_as_it_is_written(text, answer, told):
    """Oracle: rounding by hand."""
    assert tells_number(text, answer, "times", near=True) is told


def test_curves_and_choices_are_found():
    """Oracle: the rules at the top of this file, on small examples."""
    assert tells_curve("2.5, 4.0, 5.5", [2.49, 4.02, 5.5, 7.0])
    assert not tells_curve("2.5, 4, 5.5", [2.49, 4.02, 5.5, 7.0])
    choices = {"it is older", "it comes from this paper, 2020", "neither"}
    assert tells_choice("It is older: Baevski", "it is older", choices)
    assert not tells_choice("It is older. It comes from this paper, 2020. Neither.", "it is older", choices)
    assert not tells_choice("Neither is.", "neither", choices)
    assert not tells_choice("It is olderly.", "it is older", choices)


FIGURE_OF_TWO = go.Figure(
    [go.Scatter(y=[7.5], name="a"), go.Scatter(y=[8.5], name="b"), go.Scatter(y=[1], name="c", showlegend=False)],
    layout={"title": {"text": "Twice as large"}, "annotations": [{"text": "here"}], "meta": {"alt": "a is 7.5"}},
)


def test_folds_and_questions_are_not_in_view():
    """Oracle: a page of four cells, read by hand."""
    prose = nbformat.v4.new_markdown_cell("Seen.\n\n<details><summary>Why</summary>\n\nFolded.\n\n</details>")
    asks = nbformat.v4.new_code_cell('Predict("a", "How?", choices=["offered"], unit="shown")')
    asks.outputs = [nbformat.v4.new_output("display_data", {"text/html": '<div class="lntutor-ask">covered</div>'})]
    prints = nbformat.v4.new_code_cell("print(hidden)", metadata={"jupyter": {"source_hidden": True}})
    prints.outputs = [nbformat.v4.new_output("stream", text="printed")]
    table = nbformat.v4.new_code_cell("table")
    table.outputs = [nbformat.v4.new_output("display_data", {"text/html": "<td>3.2&gt;</td><script>no</script>"})]
    table.outputs += [nbformat.v4.new_output("display_data", {"text/html": static_twin(FIGURE_OF_TWO)})]
    view = "\n".join(map(in_view, [prose, asks, prints, table]))
    for text in ("Seen.", 'unit="shown"', "printed", "3.2>", "Twice as large; a; b; here"):
        assert text in view
    for text in ("Folded", "offered", "covered", "hidden", "no<", "td", "7.5"):
        assert text not in view
