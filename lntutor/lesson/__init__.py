"""The lesson kit: predict before you look, have your code checked, and answer questions that teach.

Nothing here is graded. Guesses and answers are notes of the reader (`lntutor.notes`), kept in the kernel and in one
small file, which `forget()` deletes.
"""

from lntutor.exercises import Exercise, Mistake, check
from lntutor.lecturing import lecture
from lntutor.lesson.page import forget, reveal_all
from lntutor.lesson.predict import Predict
from lntutor.lesson.quiz import Quiz, inventory, readiness
from lntutor.notes import guess_of

__all__ = [
    "Exercise",
    "Mistake",
    "Predict",
    "Quiz",
    "check",
    "forget",
    "guess_of",
    "inventory",
    "lecture",
    "readiness",
    "reveal_all",
]
