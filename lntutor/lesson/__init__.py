"""The lesson kit: predict before you look, have your code checked, and answer questions that teach.

Nothing here is graded. Guesses and answers are notes of the reader (`lntutor.lesson.notes`), kept in the kernel and in
one small file, which `forget()` deletes.
"""

from lntutor import lazy

_HOMES = {
    "After": "lesson.predict",
    "Exercise": "lesson.exercises",
    "Mistake": "lesson.exercises",
    "Predict": "lesson.predict",
    "Quiz": "lesson.quiz",
    "check": "lesson.exercises",
    "class_votes": "lesson.question",
    "forget": "lesson.question",
    "guess_of": "lesson.notes",
    "inventory": "lesson.quiz",
    "inventory_score": "lesson.quiz",
    "judge": "lesson.exercises.after",
    "last_output": "lesson.exercises.criticisms",
    "lecture": "page.lecture_mode",
    "readiness": "lesson.quiz",
    "record": "lesson.claims",
    "reveal_all": "lesson.question",
    "show_ledger": "lesson.claims",
    "w2_gradient": "lesson.exercises.criticisms",
    "whole_ledger": "lesson.claims",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
