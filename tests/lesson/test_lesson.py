"""The lesson kit in process: what is covered, what is shown, what is kept, and what is said when something fails."""

import json
import re
import subprocess
import sys
import time
from html import escape

import ipywidgets as w
import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
import torch
from filelock import FileLock

from lntutor import lesson
from lntutor.figures.style import STYLES
from lntutor.lesson import Predict, inventory, inventory_score, question, readiness
from lntutor.lesson import notes as store
from lntutor.lesson.quiz_items import INVENTORY, READINESS
from lntutor.page import live
from lntutor.page.kit.panel import Panel
from tests.processes import run_python

pytestmark = pytest.mark.usefixtures("notes")
CHOICES = ["it grows", "it stays", "it falls"]
NAMED = {  # misconceptions that the inventory must meet by name
    "a bigger gradient is a bigger step under Adam", "LN normalises gradients", "LN runs over the batch",
    "LN runs over the sequence", "Pre-LN is balanced", "Pre-LN is always better", "a growing stream is instability",
    "an upper bound is a size", "by layer and by depth are the same plot",
}  # fmt: skip


class Covered:
    """A measurement that counts how often it is run."""

    def __init__(self, result):
        self.result, self.calls = result, 0

    def __call__(self):
        self.calls += 1
        return self.result


def visible_text(predict) -> str:
    """All words that the reader sees, figures by their text alternative."""

    def texts(widget) -> list[str]:
        if isinstance(widget, Panel):
            parts = [part for part in widget.parts.values() if not part.hidden]
            return [part.value if part.kind == "words" else part.description for part in parts]
        if widget.layout.display == "none":
            return []
        if isinstance(widget, w.Box) and not hasattr(widget, "figure"):
            return [part for child in widget.children for part in texts(child)]
        if hasattr(widget, "figure"):
            return [widget.alt]
        return [getattr(widget, "value", None) or getattr(widget, "description", "")]

    return "\n".join(part.replace(question.CSS, "") for part in texts(predict) if isinstance(part, str))


def seen_buttons(predict) -> list[str]:
    return [b.description for b in predict.buttons.values() if not b.hidden]


def figure(title="What was covered") -> go.Figure:
    return go.Figure(go.Scatter(y=[1, 2]), layout={"title": {"text": title}, "meta": {"alt": title}})


def choice(**options) -> Predict:
    return Predict("growth", "What happens?", choices=CHOICES, **{"reveal": Covered("it falls"), **options})


def guessed(answer: str, **options) -> Predict:
    """A question that has got its guess."""
    predict = choice(**options)
    predict.control.value = answer
    predict.store()
    return predict


# Covered until a guess -----------------------------------------------------------------------------------------


def test_nothing_is_measured_before_the_guess_and_then_both_are_shown_together_at_once():
    """Oracle: the number of calls, every word on the page and in its twin, the choices marked by text, and a clock."""
    covered = Covered((figure(), "it falls"))
    predict = choice(reveal=covered, because="LN divides by the size.")
    assert covered.calls == 0
    assert not predict.revealed
    assert seen_buttons(predict) == ["Store my guess", "Skip"]
    for text in (visible_text(predict), predict.static()):
        assert "What happens?" in text
        assert not re.search("covered|measured:|LN divides", text)
    predict.control.value = "it stays"
    start = time.perf_counter()
    predict.buttons["store"].click()
    assert time.perf_counter() - start < 0.5  # a reader does not notice 0.1 s; five times that, on a busy machine
    text = visible_text(predict)
    assert covered.calls == 1
    assert "You guessed <b>it stays</b>; measured: <b>it falls</b>." in text
    assert "<li>it stays <b>(◇ your guess)</b></li>" in text
    assert "<li>it falls <b>(● measured)</b></li>" in text
    assert "What was covered" in text
    assert "<details><summary>Why</summary><p>LN divides by the size.</p></details>" in text
    assert seen_buttons(predict) == ["Guess again"]
    assert not any(word in text.lower() for word in ("wrong", "incorrect", "score", "!"))


def test_without_a_pick_the_reader_is_asked_for_one_and_skip_shows_the_measurement_without_a_guess():
    """Oracle: the sentence, that nothing ran before Skip, and that no guess is in the notes or the file."""
    predict = choice()
    predict.store()
    assert "Pick an answer first, or press Skip." in predict.status.value
    assert not predict.revealed
    assert predict._reveal.calls == 0
    predict.control.value = "it stays"
    predict.buttons["skip"].click()
    assert "Measured: <b>it falls</b>." in visible_text(predict)
    assert "your guess" not in visible_text(predict)
    assert lesson.guess_of("growth") is None


def test_a_second_click_changes_nothing_and_guess_again_covers_and_asks_once_more():
    """Oracle: the first guess; the page before it; the measurement is not run twice; a right guess has both marks."""
    predict = guessed("it grows")
    predict.control.value = "it falls"
    predict.store()
    assert predict.guess == "it grows"
    predict.buttons["again"].click()
    assert predict.control.value is None
    assert "measured" not in visible_text(predict)
    assert seen_buttons(predict) == ["Store my guess", "Skip"]
    predict.control.value = "it falls"
    predict.store()
    assert predict.guess == "it falls"
    assert predict._reveal.calls == 1
    assert "<li>it falls <b>(◇ your guess, ● measured)</b></li>" in visible_text(predict)


def test_running_the_cell_again_shows_the_stored_guess_unless_it_no_longer_fits(new_kernel):
    """Oracle: the first widget's guess; an edited cell and a new kernel ask anew, and a later Skip keeps the guess."""
    guessed("it stays")
    again = choice()
    assert again.revealed
    assert "You guessed <b>it stays</b>" in visible_text(again)
    for edited in ({"choices": ["up", "down"]}, {"value": (0, 1)}, {"curve": ([1, 2], 0, 1)}):
        assert not Predict("growth", "What happens?", reveal=Covered(1), **edited).revealed
    new_kernel()
    later = choice()
    assert not later.revealed
    later.skip()
    new_kernel()
    assert lesson.guess_of("growth") == "it stays"


# Values and curves ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measured", [2.5, np.float32(2.5), np.array(2.5), torch.tensor(2.5)])
def test_a_value_is_drawn_beside_the_guess(measured):
    """Oracle: the two numbers, in the sentence and as marks of different shapes."""
    predict = Predict("variance", "How large?", value=(0, 10, 0.5), unit="nats", reveal=Covered(measured))
    assert predict.control.values == [i / 2 for i in range(21)]
    assert predict.control.value is None
    predict.store()
    assert "Set the slider first, or press Skip." in predict.status.value
    predict.control.value = 4
    predict.store()
    assert "You guessed <b>4 nats</b>; measured: <b>2.5 nats</b>." in visible_text(predict)
    plot = next(child for child in predict._revealed_area.children if hasattr(child, "figure"))
    traces = {trace.name: (trace.x[0], trace.marker.symbol) for trace in plot.figure.data}
    assert traces == {"measured": (2.5, "circle"), "your guess": (4.0, "diamond-open")}
    assert plot.alt == "Marks on a line from 0 to 10. You guessed 4 nats; measured: 2.5 nats."
    go.Figure(plot.figure.to_dict())  # plotly checks every value


@pytest.mark.parametrize("measured", [300.0, 0.0, -5.0])
def test_a_measurement_off_the_slider_is_still_drawn(measured):
    """Oracle: the range of the axis, on which both marks lie."""
    predict = Predict("size", "How large?", value=(1, 100), log=True, reveal=Covered(measured))
    predict.control.value = 10
    predict.store()
    assert predict.guess == pytest.approx(10)
    drawn = predict._revealed_area.children[1].figure
    low, high = drawn.layout.xaxis.range
    places = np.log10([10, measured]) if drawn.layout.xaxis.type == "log" else np.array([10, measured])
    assert (low <= places).all()
    assert (places <= high).all()


def test_a_curve_is_drawn_over_the_guess():
    """Oracle: drawn and measured heights; hollow and dashed against filled and solid; two numbers are no pair."""
    predict = Predict("curve", "Draw it.", curve=([1, 2, 4], 0, 8), reveal=Covered([1.0, 2.0, 3.0]))
    predict.control.value = (5, None, 7)
    predict.store()
    assert "Draw the whole curve first, or press Skip." in predict.status.value
    predict.control.value = (5, 6, 7)
    predict.store()
    plot = predict._revealed_area.children[1]
    looks = {t.name: (list(t.y), t.marker.symbol, t.line.dash) for t in plot.figure.data}
    assert looks == {"your guess": ([5, 6, 7], "diamond-open", "dash"), "measured": ([1, 2, 3], "circle", "solid")}
    assert "your guess: 5 at 1, 6 at 2, 7 at 4. measured: 1 at 1" in plot.alt
    go.Figure(plot.figure.to_dict())
    assert not {t.marker.color for t in plot.figure.data} & {colour for colour, *_ in STYLES.values()}
    predict = Predict("two places", "Draw it.", curve=(["post", "pre"], 0.1, 8), log=True, reveal=Covered((1.0, 2.0)))
    predict.skip()
    assert [list(trace.y) for trace in predict._revealed_area.children[1].figure.data] == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (figure(), "What was covered"), ("<i>Some words</i>", "<i>Some words</i>"), (w.HTML("a widget"), "a widget"),
        (pd.DataFrame({"value": [3.25]}), "3.25"), ({"a": 1}, ">{&#x27;a&#x27;: 1}</pre>"), (None, "You guessed"),
        ((figure(), None), "What was covered"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [{"choices": CHOICES}, {"value": (0, 1)}, {"curve": ([1, 2], 0, 1)}])
def test_whatever_is_revealed_is_shown_and_has_a_twin(result, content, kind):
    """Oracle: the thing's own words, on the page and without a kernel."""
    predict = Predict("any", "What?", reveal=Covered(result), **kind)
    predict.control.value = CHOICES[0] if "choices" in kind else 0.5 if "value" in kind else (0.5, 1)
    predict.store()
    assert content in visible_text(predict)
    assert content in predict.static()
    assert "You guessed" in visible_text(predict)
    assert "measured" not in predict._revealed_area.children[0].value


def test_an_explorer_can_be_covered():
    """Oracle: its own figure, in the page and in the twin."""
    from lntutor.explore import LayerNormExplorer

    predict = choice(reveal=lambda: (LayerNormExplorer(), "it falls"))
    predict.skip()
    explorer = predict._revealed_area.children[-1]
    assert isinstance(explorer, LayerNormExplorer)
    assert escape(live.text_alternative(explorer.figure)) in predict.static()


def test_what_tells_the_answer_too_is_covered_with_it_and_shown_with_it():
    """Oracle: the words on the page and in its twin, and its large type; the question's cell may run again before."""
    choice()
    after = lesson.After("growth", "Post-LN:", "to layer 12: <0.05", pd.DataFrame({"value": [3.25]}), figure())
    predict = choice()
    for text in (visible_text(after), after.static()):
        assert "shown after your guess" in text
        assert not re.search("0.05|3.25|covered", text)
    predict.control.value = "it stays"
    predict.store()
    for text in (visible_text(after), after.static()):
        assert '<pre tabindex="0">Post-LN:\nto layer 12: &lt;0.05</pre>' in text
        assert "3.25" in text
        assert "What was covered" in text
        assert "shown after" not in text
    lesson.lecture()
    assert "lntutor-lecture" in after._dom_classes
    lesson.lecture(False)
    assert "lntutor-lecture" not in after._dom_classes
    predict.again()
    assert "0.05" not in visible_text(after)
    lesson.reveal_all()
    assert after.static().index("<summary>Guess first, then open this</summary>") < after.static().index("0.05")


# When something fails ------------------------------------------------------------------------------------------


def test_an_error_in_the_measurement_becomes_a_sentence_and_is_raised_under_test(monkeypatch):
    """Oracle: the exception's own words; the guess is kept and the next try succeeds."""
    with pytest.raises(ZeroDivisionError):
        Predict("strict", "What?", value=(0, 1), reveal=lambda: 1 / 0).skip()
    monkeypatch.delenv("LNTUTOR_STRICT")
    results = [lambda: {}["<corpus>"], lambda: "it falls"]
    predict = guessed("it grows", reveal=lambda: results.pop(0)())
    message = "The measurement did not run (KeyError: &#x27;&lt;corpus&gt;&#x27;). Your guess is kept."
    assert message in predict.status.value
    assert predict.guess == "it grows"
    predict.refresh()
    assert "measured: <b>it falls</b>" in visible_text(predict)
    assert predict.error is None


@pytest.mark.parametrize(
    ("kind", "given"),
    [({"choices": CHOICES}, "it explodes"), ({"value": (0, 1)}, "much"), ({"curve": ([1, 2], 0, 1)}, [1, 2, 3])],
)
def test_a_measured_answer_that_does_not_fit_is_named(kind, given):
    """Oracle: the sentence says what was given and what is allowed."""
    predict = Predict("fit", "What?", reveal=Covered((figure(), given)), **kind)
    with pytest.raises(ValueError, match=r"measured must be .*; got " + repr(given).replace("[", r"\[")):
        predict.skip()


# Lectures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "revealed"), [("1", True), ("0", False), ("", False)])
def test_the_environment_reveals_everything(monkeypatch, value, revealed):
    """Oracle: the measurement on the page as soon as it is made."""
    monkeypatch.setenv("LNTUTOR_REVEAL", value)
    predict = choice()
    assert predict.revealed is revealed
    assert ("Measured: <b>it falls</b>" in visible_text(predict)) is revealed
    assert (seen_buttons(predict) == []) is revealed


def test_the_switch_reveals_what_is_on_the_page_and_covers_it_again():
    """Oracle: the words on the page, before and after; a replaced widget is left alone."""
    old, new, guessed = choice(), choice(), Predict("two", "And?", choices=CHOICES, reveal=Covered("it falls"))
    guessed.control.value = "it grows"
    guessed.store()
    lesson.reveal_all(True)
    assert "Measured: <b>it falls</b>" in visible_text(new)
    assert old._reveal.calls == 0
    lesson.reveal_all(False)
    assert "easured" not in visible_text(new)
    assert "You guessed <b>it grows</b>" in visible_text(guessed)


def test_two_votes_stay_beside_the_measurement():
    """Oracle: the counts entered, as bars of two patterns, and the measured choice in words."""
    covered = Covered("it falls")
    predict = choice(reveal=covered, class_mode=True)
    assert seen_buttons(predict) == ["First vote", "Skip"]
    predict.store()
    assert "Enter how many hands each choice got." in predict.status.value
    for votes, button in (([20, 5, 5], "First vote"), ([2, 3, 25], "Second vote")):
        assert covered.calls == 0
        assert seen_buttons(predict)[0] == button
        assert predict.control.value == (0, 0, 0)
        predict.control.value = votes
        predict.buttons["store"].click()
    plot = predict._revealed_area.children[1]
    bars = {trace.name: (list(trace.x), trace.marker.pattern.shape) for trace in plot.figure.data}
    assert bars == {"first vote": ([20, 5, 5], ""), "second vote": ([2, 3, 25], "/")}
    assert [("measured" in label) for label in plot.figure.data[0].y] == [False, False, True]
    assert "second vote: 2 for it grows, 3 for it stays, 25 for it falls. measured: it falls." in plot.alt
    assert lesson.guess_of("growth") == "20 : 5 : 5, then 2 : 3 : 25 hands"
    go.Figure(plot.figure.to_dict())
    again = choice(class_mode=True)
    assert list(again._revealed_area.children[1].figure.data[1].x) == [2, 3, 25]


def test_one_vote_can_be_revealed_too():
    """Oracle: the bars of the first vote alone."""
    predict = choice(class_mode=True)
    predict.control.value = (9, 0, 0)
    predict.store()
    assert "First vote stored: 9 hands." in predict.status.value
    assert not predict.revealed
    predict.skip()
    assert [list(trace.x) for trace in predict._revealed_area.children[1].figure.data] == [[9, 0, 0]]


def test_one_switch_makes_every_question_a_class_vote(monkeypatch):
    """Oracle: ranges of a slider by hand; what was stored alone is asked anew; a curve is drawn by all together."""
    one = guessed("it stays")
    value = Predict("size", "How large?", value=(1, 10_000), log=True, unit="nats", reveal=Covered(300.0))
    curve = Predict("curve", "Draw it.", curve=([1, 2], 0, 8), reveal=Covered([1.0, 2.0]))
    lesson.class_votes()
    assert one.control.captions == CHOICES
    assert not one.revealed
    ranges = ["up to 10 nats", "10 to 100 nats", "100 to 1,000 nats", "more than 1,000 nats"]
    assert value.control.captions == ranges
    assert curve.control.value == (None, None)
    for hands in ((1, 2, 3, 4), (0, 0, 10, 0)):
        value.control.value = hands
        value.store()
    assert "Measured: <b>300 nats</b>." in visible_text(value)
    assert [("measured" in label) for label in value._revealed_area.children[1].figure.data[0].y] == [0, 0, 1, 0]
    lesson.class_votes(False)
    assert one.control.options == CHOICES
    monkeypatch.setenv("LNTUTOR_VOTES", "1")
    assert choice().control.captions == CHOICES


@pytest.mark.parametrize(
    ("kind", "entry", "words"),
    [
        ({"choices": CHOICES}, {"guess": "it stays", "words": "it stays"}, "You guessed <b>it stays</b>"),
        ({"value": (0, 10, 1)}, {"guess": 3.3, "words": "3.3"}, "You guessed <b>3.3</b>"),
        ({"curve": ([1, 2], 0, 1)}, {"guess": [0.505, 7], "words": ""}, "You guessed <b>0.505, 7</b>"),
        ({"choices": CHOICES, "class_mode": True}, {"guess": [[1, 2, 3]], "skipped": True}, "1 for it grows"),
    ],
)
def test_notes_of_earlier_versions_are_read(notes, kind, entry, words):
    """Oracle: entries as they were written before guesses could be empty, off the slider's stops too."""
    notes.put("guesses", "old", entry)
    predict = Predict("old", "What?", reveal=Covered((figure(), None)), **kind)
    assert predict.revealed
    assert words in visible_text(predict)


# What is kept --------------------------------------------------------------------------------------------------


def test_another_process_knows_the_guess_without_widgets(tmp_path):
    """Oracle: a second Python, which has nothing but the file, and its modules."""
    guessed("it stays")
    code = "import sys, lntutor.lesson.quiz_items; from lntutor.lesson.notes import guess_of as g; "
    code += "print(g('growth'), g('other'), {'ipywidgets', 'plotly'} & set(sys.modules))"
    assert run_python(code).strip() == "it stays None set()"
    assert {path.name for path in tmp_path.iterdir()} == {"notes.json", "notes.lock"}


WRITER = """
import sys
from pathlib import Path
from lntutor.lesson import notes as module
module.WAIT = 60  # on a busy machine
who, here = sys.argv[1], Path(sys.argv[2])
notes = module.Notes()
(here / f"{who} is ready").touch()
while not (here / "go").exists():
    pass
for number in range(60):
    notes.put("guesses", f"{who} {number}", {"guess": number})
print(notes.warning())
"""


def test_two_processes_that_write_at_once_lose_nothing(tmp_path, monkeypatch):
    """Oracle: 60 entries of each of two processes, which wait for each other before the first."""
    home = tmp_path / "home"
    monkeypatch.setenv("LNTUTOR_HOME", str(home))
    command = [sys.executable, "-c", WRITER]
    writers = [subprocess.Popen([*command, who, tmp_path], stdout=subprocess.PIPE, text=True) for who in ("a", "b")]
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("* is ready"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    (tmp_path / "go").touch()
    assert [writer.communicate(timeout=60)[0] for writer in writers] == ["\n", "\n"]
    stored = json.loads((home / "notes.json").read_text())["guesses"]
    assert set(stored) == {f"{who} {number}" for who in ("a", "b") for number in range(60)}


def test_a_lock_that_is_never_released_keeps_the_notes_in_the_session(tmp_path, notes, monkeypatch):
    """Oracle: another holder of the lock; the file stays as it was, and works again once the lock is free."""
    monkeypatch.setattr("lntutor.lesson.notes.WAIT", 0.1)
    with FileLock(tmp_path / "notes.lock"):
        notes.put("guesses", "a", {"guess": 1})
        notes.forget()
        notes.put("guesses", "a", {"guess": 2})
    assert notes.get("guesses", "a") == {"guess": 2}
    assert "this session only: another notebook has been writing" in notes.warning()
    assert not (tmp_path / "notes.json").exists()
    notes.put("guesses", "b", {"guess": 3})
    assert set(json.loads((tmp_path / "notes.json").read_text())["guesses"]) == {"b"}


def test_forget_deletes_everything(tmp_path):
    """Oracle: no file but an empty lock, and the question on the page is covered again."""
    predict = guessed("it stays")
    lesson.forget()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"notes.lock": b""}
    assert not predict.revealed
    assert "measured" not in visible_text(predict)
    lesson.forget()


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"guesses": []}', '{"guesses": {"a": 1}}', "[" * 10**5])
def test_a_corrupt_file_is_set_aside_and_said(tmp_path, content):
    """Oracle: the old content under another name, a new file, and one sentence."""
    (tmp_path / "notes.json").write_text(content)
    predict = guessed("it stays")
    assert predict.revealed
    assert "could not be read" in predict.status.value
    assert (tmp_path / "notes.broken").read_text() == content
    assert json.loads((tmp_path / "notes.json").read_text())["guesses"]["growth"]["guess"] == "it stays"
    (tmp_path / "notes.json").write_bytes(b"\xff\xfe")
    assert lesson.guess_of("other") is None
    assert (tmp_path / "notes.broken2").read_bytes() == b"\xff\xfe"


def test_a_folder_that_cannot_be_written_never_breaks_a_lesson(tmp_path, monkeypatch):
    """Oracle: the lesson goes on, and one sentence says why, once. A file stands where the folder should."""
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("LNTUTOR_HOME", str(tmp_path / "taken"))
    warned = []
    for name in ("one", "two"):
        predict = Predict(name, "What?", value=(0, 1), reveal=Covered(0.3))
        predict.control.value = 0.5
        predict.store()
        assert "measured: <b>0.3</b>" in visible_text(predict)
        warned.append("cannot be written" in predict.status.value)
    assert warned == [True, False]
    assert lesson.guess_of("one") == "0.5"
    lesson.forget()


def test_an_interrupted_write_leaves_the_old_file(tmp_path, notes, monkeypatch):
    """Oracle: the file before; nothing half-written stays beside it."""
    notes.put("guesses", "a", {"guess": 1})
    before = (tmp_path / "notes.json").read_bytes()
    monkeypatch.setattr(store.os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    notes.put("guesses", "b", {"guess": 2})
    assert (tmp_path / "notes.json").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"notes.json", "notes.lock"}
    assert "No space left on device" in notes.warning()
    assert notes.warning() == ""


def test_the_notebook_gets_the_widget_and_its_twin_for_pages_without_a_kernel(monkeypatch):
    """Oracle: the two entries of the bundle."""
    monkeypatch.setenv("LNTUTOR_REVEAL", "1")
    predict = choice(reveal=Covered((figure(), "it falls")))
    bundle = predict._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "What happens?" in bundle["text/html"]
    assert live.static_twin(figure()) in bundle["text/html"]
    assert "1." in readiness()._repr_mimebundle_()["text/html"]


# Questions -----------------------------------------------------------------------------------------------------


def test_the_readiness_check_teaches_and_leaves_out_stored_answers_that_make_no_sense(notes):
    """Oracle: the words of the choice that was picked, and what to read; of four stored answers one is a choice."""
    quiz = readiness()
    assert [item.key for item in READINESS] == ["chain_rule", "frobenius", "variance_of_sum"]
    quiz.store()
    assert "Pick an answer first" in quiz.status.value
    quiz.controls["frobenius"].value = "25"
    quiz.controls["variance_of_sum"].value = "d"
    quiz.button.click()
    assert "squared norm" in quiz.feedback["frobenius"].value
    assert "To read:" in quiz.feedback["frobenius"].value
    assert quiz.feedback["variance_of_sum"].value.startswith("<p>✓ Yes.")
    assert quiz.feedback["chain_rule"].value == ""
    assert "2 of 3 answered" in quiz.status.value
    assert readiness().controls["frobenius"].value == "25"
    assert all(item.read for item in READINESS)
    notes.put("answers", "readiness", {"chain_rule": "gone", "frobenius": 3, "other": "x", "variance_of_sum": "d"})
    assert readiness().answers == {"variance_of_sum": "d"}


def test_the_inventory_before_says_only_that_it_is_stored():
    """Oracle: no explanation anywhere."""
    quiz = inventory("before")
    for item in INVENTORY:
        quiz.controls[item.key].value = item.choices[0].text
    quiz.store()
    assert {feedback.value for feedback in quiz.feedback.values()} == {"<p>Stored.</p>"}
    assert "10 of 10 answered" in quiz.status.value


def test_the_inventory_after_shows_both_answers(new_kernel):
    """Oracle: the answers of the first time, from another kernel, and those of the second."""
    before = inventory("before")
    before.controls["adam_step"].value = INVENTORY[2].choices[0].text
    before.controls["ln_axis"].value = INVENTORY[0].right.text
    before.store()
    new_kernel()
    after = inventory("after")
    for item in INVENTORY:
        after.controls[item.key].value = item.right.text
    after.store()
    feedback = after.feedback["adam_step"].value
    assert "Before: “the first is 100 times larger”. Now: “both are about the learning rate”." in feedback
    assert "✓ Yes." in feedback
    assert "Before: no answer" in after.feedback["ln_backward"].value
    assert "changed your mind on 1 of the 2" in after.status.value
    assert [inventory_score(when) for when in ("before", "after")] == [1, 10]  # by hand: one of two, then all


def test_the_inventory_has_ten_items_and_the_named_misconceptions():
    """Oracle: the misconceptions listed above; counts."""
    assert len(INVENTORY) == 10
    named = {choice.misconception for item in INVENTORY for choice in item.choices}
    assert named >= NAMED
    assert len({item.key for item in INVENTORY}) == 10
    for item in (*INVENTORY, *READINESS):
        assert all(choice.explanation for choice in item.choices)
    places = [item.choices.index(item.right) for item in INVENTORY]
    assert all(places.count(place) >= 3 for place in (0, 1, 2))  # the right answer has no usual place


def test_lecture_mode_shows_every_explanation(monkeypatch):
    """Oracle: the words of every choice."""
    monkeypatch.setenv("LNTUTOR_REVEAL", "1")
    for quiz, items in ((inventory("before"), INVENTORY), (readiness(), READINESS)):
        for item in items:
            assert all(escape(choice.explanation) in quiz.feedback[item.key].value for choice in item.choices)
