"""Quiz: questions with one right answer each, whose other answers are misconceptions with a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from lntutor.lesson.notes import NOTES
from lntutor.lesson.question import CSS, Question, prose, revealing
from lntutor.lesson.quiz_items import INVENTORY, READINESS, Item
from lntutor.model.checks import as_tuple, check_choice, check_flag, check_type
from lntutor.page.accessibility import Accessibility
from lntutor.page.kit.answers import Options, Words
from lntutor.page.kit.panel import Button, Panel, Part

WHEN = ("before", "after")  # the course


class Quiz(Question):
    """Questions with one right answer each, whose other answers are misconceptions with a name.

    Answers are stored with one press. `explain=False` then says only that they are stored; `earlier` names a quiz
    whose answers are shown beside these.
    """

    def __init__(self, items: Sequence[Item], name: str, *, explain: bool = True, earlier: str = ""):
        items = [check_type("items", item, Item) for item in as_tuple("items", items, "READINESS")]
        if not items:
            raise ValueError("a quiz needs at least one item, got items=[]")
        check_flag("explain", explain)
        check_type("earlier", earlier, str)
        super().__init__(name)
        self.items, self.explain, self.earlier = {item.key: item for item in items}, explain, earlier
        self.controls = {
            item.key: Options([c.text for c in item.choices], description=f"Your answer to question {i}")
            for i, item in self._numbered()
        }
        self.feedback = {item.key: Words(value="") for item in items}
        about = "Keep the answers; you may leave some out"
        self.button = Button("Store my answers", self.store, primary=True, tooltip=about)
        self.panel = Panel({**dict(self._parts()), "store": self.button})
        self.children = [prose(CSS), self.panel, self.status, Accessibility()]
        self._restore()
        self.refresh()

    @property
    def answers(self) -> dict[str, str]:
        """Item → stored answer, of this session."""
        return self._known(NOTES.get("answers", self.name) or {})

    @property
    def earlier_answers(self) -> dict[str, str]:
        """Item → answer to the earlier quiz, in this session or before."""
        return self._known(NOTES.everywhere("answers").get(self.earlier, {}))

    def store(self) -> None:
        """Store the picked answers, and show the feedback."""
        with self._lock:
            picked = {key: control.value for key, control in self.controls.items() if control.value is not None}
            if not picked:
                self._show_status("Pick an answer first; you may leave some out.")
                return
            NOTES.put("answers", self.name, picked)
            self.refresh()

    def refresh(self) -> None:
        """Show the feedback on the stored answers."""
        with self._lock:
            for key, item in self.items.items():
                self.feedback[key].value = self._feedback(item)
            self._show_status(self._summary())

    def static(self) -> str:
        parts = [f"<p>{i}. {item.prompt}</p>{_listed(item)}{self._feedback(item)}" for i, item in self._numbered()]
        return f'<div class="lntutor-ask">{"".join(parts)}</div>'

    def _numbered(self) -> Iterator[tuple[int, Item]]:
        return enumerate(self.items.values(), 1)

    def _parts(self) -> Iterable[tuple[str, Part]]:
        """Prompt, choices and feedback of every question, by name."""
        for i, item in self._numbered():
            yield f"{item.key} prompt", Words(value=f"<p><b>{i}.</b> {item.prompt}</p>")
            yield item.key, self.controls[item.key]
            yield f"{item.key} feedback", self.feedback[item.key]

    def _restore(self) -> None:
        for key, answer in self.answers.items():
            self.controls[key].value = answer

    def _known(self, stored: dict) -> dict[str, str]:
        """The stored answers that are still among the choices."""
        texts = {key: {choice.text for choice in item.choices} for key, item in self.items.items()}
        return {key: text for key, text in stored.items() if isinstance(text, str) and text in texts.get(key, ())}

    def _feedback(self, item: Item) -> str:
        answer, before = self.answers.get(item.key), self.earlier_answers.get(item.key)
        if revealing():
            return _explained(item)
        if answer is None:
            return ""
        if not self.explain:
            return "<p>Stored.</p>"
        return _compared(before, answer) * bool(self.earlier) + _answered(item, answer)

    def _summary(self) -> str:
        if not self.answers or revealing():
            return ""
        stored = f"{len(self.answers)} of {len(self.items)} answered and stored."
        if not self.earlier:
            return stored
        both = [key for key in self.answers if key in self.earlier_answers]
        changed = sum(self.answers[key] != self.earlier_answers[key] for key in both)
        return f"{stored} You have changed your mind on {changed} of the {len(both)} that you answered both times."


def _listed(item: Item) -> str:
    return "<ol>" + "".join(f"<li>{escape(choice.text)}</li>" for choice in item.choices) + "</ol>"


def _compared(before: str | None, now: str) -> str:
    then = f"“{escape(before)}”" if before else "no answer"
    return f"<p>Before: {then}. Now: “{escape(now)}”.</p>"


def _answered(item: Item, answer: str) -> str:
    """The feedback on an answer."""
    choice = next(choice for choice in item.choices if choice.text == answer)
    if not choice.misconception:
        return f"<p>✓ Yes. {escape(choice.explanation)}</p>"
    right, read = item.right, f"<p>To read: {escape(item.read)}</p>" if item.read else ""
    return (
        f"<p>△ A common view (<i>{escape(choice.misconception)}</i>). {escape(choice.explanation)}</p>"
        f"<details><summary>The answer</summary><p>“{escape(right.text)}”. "
        f"{escape(right.explanation)}</p></details>{read}"
    )


def _explained(item: Item) -> str:
    """All explanations of an item."""
    others = "".join(
        f"<li>“{escape(c.text)}” (<i>{escape(c.misconception)}</i>): {escape(c.explanation)}</li>"
        for c in item.choices
        if c.misconception
    )
    return f"<p>✓ “{escape(item.right.text)}”. {escape(item.right.explanation)}</p><ul>{others}</ul>"


def readiness() -> Quiz:
    """Three questions on what the course takes for granted, with what to read where one is shaky."""
    return Quiz(READINESS, "readiness")


def inventory(when: str) -> Quiz:
    """Ten questions on the course's ideas: "before" stores the answers, "after" shows both times and explains."""
    check_choice("when", when, WHEN)
    if when == "before":
        return Quiz(INVENTORY, "inventory.before", explain=False)
    return Quiz(INVENTORY, "inventory.after", earlier="inventory.before")


def inventory_score(when: str) -> int:
    """How many of the ten questions were answered rightly, before or after the course."""
    answers = NOTES.everywhere("answers").get(f"inventory.{check_choice('when', when, WHEN)}", {})
    return sum(answers.get(item.key) == item.right.text for item in INVENTORY)
