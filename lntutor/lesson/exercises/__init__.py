"""Exercises and their check: what a right answer is, and which mistakes are known by name.

Each module of this package has the exercises of one notebook, in a tuple `EXERCISES`. The check tells apart *not
attempted*, *right*, each named mistake, an error in the reader's code, and something else. Every function is tried on
fresh random inputs against a reference that is written in another way than the lesson teaches.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import secrets
import textwrap
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from html import escape
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
import torch

from lntutor.model.checks import as_tuple, check_choice, check_int, short_repr

KINDS = ("function", "value", "text", "object")
ROUNDS = 2  # times that each kind of input is drawn
SYMBOLS = {  # status → symbol and text, so that colour is not needed
    "not attempted": ("○", "Not attempted yet"),
    "right": ("✓", "Right"),
    "mistake": ("△", "Not yet"),
    "error": ("!", "Your code stopped"),
    "other": ("≠", "Not yet"),
}


# What an exercise is -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mistake:
    """A mistake known by name. Its message teaches, and leaves the solution to the reader.

    `wrong` are answers that make it, functions or values. Or `seen(arguments, got, expected)` recognises it, with the
    two results as numpy arrays of any shape, or as the texts and objects that they are.
    """

    name: str
    message: str
    wrong: tuple[Any, ...] = ()
    seen: Callable[[tuple, Any, Any], bool] | None = None


def rule(name: str, message: str, broken: Callable[[Any], bool]) -> Mistake:
    """A mistake visible in the answer itself; a rule is tried only where the answer keeps all rules before it."""
    return Mistake(name, message, seen=lambda arguments, answer, expected: broken(answer))


def maker(draw: Callable[..., tuple]) -> Callable[..., Callable[[np.random.Generator], tuple]]:
    """`draw(random, …)` → a function of the other arguments, which returns one of an exercise's `inputs`."""
    return lambda *given, **named: lambda random: draw(random, *given, **named)


def normal(random: np.random.Generator, *shape: int) -> torch.Tensor:
    """Independent normal numbers in float32."""
    return torch.tensor(random.standard_normal(shape), dtype=torch.float32)


def identity(value: Any) -> Any:
    """The value itself."""
    return value


@dataclass(frozen=True)
class Exercise:
    """A task with a known answer.

    `inputs` are functions from a numpy Generator to the arguments of one call, smallest first; only a function has
    any. A text may have several right wordings. Where the answer is an object, such as a run, `reference` is a
    function that judges it.
    """

    name: str
    kind: str
    reference: Any
    shows: str  # what a right answer shows
    hint: str  # where to look next
    inputs: tuple[Callable[[np.random.Generator], tuple], ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    tolerance: float = 1e-4
    rules: tuple[Mistake, ...] = ()  # what a function that gives the right numbers may still break

    def __post_init__(self):
        check_choice(f"kind of {self.name}", self.kind, KINDS)
        as_tuple("mistakes", self.mistakes, "(Mistake('sign', 'Look at the sign.'),)")
        if (self.kind == "function") != bool(as_tuple("inputs", self.inputs, "(draw,)")):
            raise ValueError(f"{self.name} has the kind {self.kind}: a function has inputs, all others have none")


@dataclass(frozen=True)
class Result:
    """What a check found."""

    exercise: str
    status: str
    message: str
    mistake: str = ""
    seed: int = field(default=0, repr=False)  # of the inputs, to see the same again: check(…, seed=…)

    @property
    def heading(self) -> str:
        """Symbol, exercise and status in one line."""
        symbol, status = SYMBOLS[self.status]
        return f"{symbol} {self.exercise}: {status}" + (f" ({self.mistake})" if self.mistake else "")

    def __repr__(self) -> str:
        return f"{self.heading}\n{self.message}"

    def _repr_html_(self) -> str:
        body = "".join(f"<p style='margin:4px 0'>{escape(line)}</p>" for line in self.message.split("\n") if line)
        style = "border-left:4px solid currentColor;padding:4px 12px;margin:4px 0;max-width:52em"
        return f'<div role="status" style="{style}"><b>{escape(self.heading)}</b>{body}</div>'


@cache
def exercises() -> dict[str, Exercise]:
    """Name → exercise, of all modules of this package."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    listed = [exercise for module in modules for exercise in module.EXERCISES]
    names = [exercise.name for exercise in listed]
    if len(set(names)) < len(names):
        raise ValueError(f"two exercises have the same name: {', '.join(sorted(names))}")
    return dict(zip(names, listed, strict=True))


def find(exercise: str | Exercise) -> Exercise:
    """The exercise of this name."""
    if isinstance(exercise, Exercise):
        return exercise
    known = exercises()
    if not isinstance(exercise, str) or exercise not in known:
        near = get_close_matches(str(exercise), known, 3, 0.4) or sorted(known)
        raise ValueError(f"There is no exercise {short_repr(exercise)}. Did you mean {', '.join(near)}?")
    return known[exercise]


# The check -----------------------------------------------------------------------------------------------------


def check(exercise: str | Exercise, answer: Any, *, seed: int | None = None) -> Result:
    """Judge an answer; see `Result`. Inputs are drawn afresh each time, unless a seed is given."""
    task = find(exercise)
    seed = secrets.randbelow(2**32) if seed is None else check_int("seed", seed, 0, 2**32 - 1)
    if answer is None or answer is Ellipsis:
        message = "Replace the dots with your answer, then run the cell again."
        return _result(task, "not attempted", f"{message} {task.hint}")
    judges = {"function": _check_function, "value": _check_value, "text": _check_text, "object": _check_object}
    try:
        return judges[task.kind](task, answer, seed)
    except Exception as error:  # an answer can be anything, and a check always answers
        message = str(error) if isinstance(error, ValueError) else traceback.format_exception_only(error)[-1].strip()
        return _result(task, "error", f"Your answer could not be read. {message}\n{task.hint}")


def _result(task: Exercise, status: str, message: str, seed: int = 0) -> Result:
    return Result(task.name, status, message, seed=seed)


def _named(task: Exercise, mistake: Mistake, seed: int = 0) -> Result:
    return Result(task.name, "mistake", f"{mistake.message} {task.hint}", mistake.name, seed)


@dataclass(frozen=True)
class Trial:
    """One call: its arguments, the result of the reader's function and the expected result."""

    arguments: tuple
    got: Any
    expected: Any
    difference: str  # as text; empty where there is none


def _check_function(task: Exercise, answer: Any, seed: int) -> Result:
    if not callable(answer):
        message = (
            f"{task.name} asks for a function, and got {_kind(answer)}. Hand over the function itself, without ()."
        )
        return _result(task, "other", message)
    if complaint := _signature_complaint(task, answer):
        return _result(task, "error", complaint)
    try:
        trials = list(_trials(task, answer, seed))
    except (Exception, SystemExit) as error:
        return _after_error(task, answer, error, seed)
    if all(not trial.difference for trial in trials):
        broken = next((one for one in task.rules if one.seen and one.seen((), answer, None)), None)
        return _named(task, broken, seed) if broken else _result(task, "right", task.shows, seed=seed)
    if place := _placeholder(answer):
        return _unfinished(task, place)
    if all(trial.got is None or trial.got is Ellipsis for trial in trials):
        return _without_result(task, answer)
    if mistake := _mistake_of(task, trials):
        return _named(task, mistake, seed)
    first = next(trial for trial in trials if trial.difference)
    message = f"Called with {_call_text(task.reference, first.arguments)}.\n{first.difference}\n{task.hint}"
    return _result(task, "other", message, seed=seed)


def _trials(task: Exercise, answer: Callable, seed: int) -> Iterator[Trial]:
    """Every kind of input, drawn `ROUNDS` times; each call gets its own copy of the arguments."""
    random = np.random.default_rng(seed)
    for make in task.inputs * ROUNDS:
        arguments = make(random)
        expected, got = task.reference(*_copies(arguments)), answer(*_copies(arguments))
        yield Trial(arguments, got, expected, difference(got, expected, task.tolerance))


def _copies(arguments: tuple) -> tuple:
    copy = {torch.Tensor: torch.clone, np.ndarray: np.copy, list: list, dict: dict}
    return tuple(copy.get(type(argument), identity)(argument) for argument in arguments)


def _mistake_of(task: Exercise, trials: list[Trial]) -> Mistake | None:
    """The mistake that explains all trials, or else the only one that explains some kind of input.

    Two slips at once are common, such as a forgotten mask and a forgotten √d. The first that shows is named; the next
    check names the other.
    """
    kinds = [trials[i :: len(task.inputs)] for i in range(len(task.inputs))]
    for group in [trials, *(kind for kind in kinds if any(trial.difference for trial in kind))]:
        made = [mistake for mistake in task.mistakes if _reproduces(mistake, group, task.tolerance)]
        if made and (group is trials or len(made) == 1):
            return made[0]
    return None


def _reproduces(mistake: Mistake, trials: list[Trial], tolerance: float) -> bool:
    """Whether the answer made this mistake in each of these calls, the right ones included."""
    if mistake.seen:
        apart = [trial for trial in trials if trial.difference]
        return all(_seen(mistake, trial.arguments, trial.got, trial.expected) for trial in apart)
    return any(
        all(not difference(trial.got, wrong(*_copies(trial.arguments)), tolerance) for trial in trials)
        for wrong in mistake.wrong
    )


def _seen(mistake: Mistake, arguments: tuple, got: Any, expected: Any) -> bool:
    """Whether the predicate of a mistake recognises an answer; only numbers are tried."""
    return bool(mistake.seen and _array(got) is not None and mistake.seen(arguments, _array(got), _array(expected)))


def _check_value(task: Exercise, answer: Any, seed: int) -> Result:
    apart = difference(answer, task.reference, task.tolerance)
    if not apart:
        return _result(task, "right", task.shows)
    for mistake in task.mistakes:
        same = any(not difference(answer, wrong, task.tolerance) for wrong in mistake.wrong)
        if same or _seen(mistake, (), answer, task.reference):
            return _named(task, mistake)
    numbers = _array(answer)
    comparable = numbers is not None and numbers.shape == np.shape(task.reference)
    message = f"{_short(answer)} is not it." if comparable else apart  # without giving the value away
    return _result(task, "other", f"{message} {task.hint}")


def _check_text(task: Exercise, answer: Any, seed: int) -> Result:
    if not isinstance(answer, str):
        return _result(task, "other", f"{task.name} asks for words in quotes, and got {_kind(answer)}.")
    if not _plain(answer):
        return _result(task, "not attempted", f"Write your answer between the quotes. {task.hint}")
    accepted = (task.reference,) if isinstance(task.reference, str) else task.reference
    if _plain(answer) in map(_plain, accepted):
        return _result(task, "right", task.shows)
    for mistake in task.mistakes:
        same = _plain(answer) in map(_plain, mistake.wrong)
        if same or (mistake.seen and mistake.seen((), answer, task.reference)):
            return _named(task, mistake)
    return _result(task, "other", f"“{answer}” is not it. {task.hint}")


def _check_object(task: Exercise, answer: Any, seed: int) -> Result:
    if task.reference(answer):
        return _result(task, "right", task.shows)
    for mistake in task.mistakes:
        if mistake.seen and mistake.seen((), answer, None):
            return _named(task, mistake)
    return _result(task, "other", f"You handed over {_kind(answer)}, and it is not it. {task.hint}")


def _plain(text: str) -> str:
    """The words alone, without case, spaces and punctuation."""
    return " ".join(re.findall(r"[\w√/+-]+", text.casefold()))


# What differs --------------------------------------------------------------------------------------------------


def difference(got: Any, expected: Any, tolerance: float) -> str:
    """How two answers differ, as text; empty where they agree up to a tolerance relative to the largest entry."""
    ours, theirs = _array(expected), _array(got)
    if ours is None or theirs is None:
        return f"It gave {_kind(got)}; expected is {_kind(expected)}."
    if theirs.shape != ours.shape:
        return f"It gave the shape {theirs.shape}; expected is {ours.shape}."
    finite = np.abs(ours[np.isfinite(ours)])
    atol = tolerance * max(1.0, finite.max(initial=0))
    apart = ~np.isclose(theirs, ours, rtol=0, atol=atol, equal_nan=True)
    if not apart.any():
        return ""
    place = np.unravel_index(int(np.argmax(apart)), apart.shape)
    where = f"At {[int(i) for i in place]} it" if place else "It"
    return f"{where} gave {_number(theirs[place])}; expected is {_number(ours[place])}."


def _array(value: Any) -> np.ndarray | None:
    """The numbers of a tensor, array, list or number; None where it is something else."""
    if value is None or isinstance(value, (str, bytes)):
        return None
    try:
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu().double().numpy()
        if np.iscomplexobj(value):
            return None
        return np.asarray(value, dtype=float)
    except Exception:  # an object of the reader's own may raise anything
        return None


def _number(value: Any) -> str:
    return f"{float(value):.4g}".replace("-", "−")


def _kind(value: Any) -> str:
    """What kind of thing a value is, for a sentence."""
    if value is None or value is Ellipsis:
        return "nothing" if value is None else "…"
    if callable(value):
        return "a function"
    array = _array(value)
    if array is not None:
        return f"numbers of the shape {array.shape}" if array.shape else "a number"
    return f"an object of the type {type(value).__name__}"


def _call_text(function: Callable, arguments: tuple) -> str:
    """Arguments by name: small ones in full, others by shape."""
    names = list(inspect.signature(function).parameters)
    return ", ".join(f"{name} = {_short(value)}" for name, value in zip(names, arguments, strict=False))


def _short(value: Any) -> str:
    array = _array(value)
    if array is None or not array.shape:
        return str(value) if array is None or isinstance(value, int) else _number(value)
    if array.size <= 6:
        return np.array2string(array, precision=3, separator=", ").replace("\n", "")
    return f"{'×'.join(map(str, array.shape))} {'mask' if getattr(value, 'dtype', None) is torch.bool else 'numbers'}"


# The reader's code ---------------------------------------------------------------------------------------------


def _signature_complaint(task: Exercise, answer: Callable) -> str:
    """A sentence, if the function cannot be called as the exercise calls it."""
    arguments = task.inputs[0](np.random.default_rng(0))
    try:
        inspect.signature(answer).bind(*arguments)
    except TypeError:
        called = ", ".join(list(inspect.signature(task.reference).parameters)[: len(arguments)])
        return f"It is called as {task.name}({called}), and yours takes {inspect.signature(answer)}."
    except ValueError:  # a built-in without a signature
        pass
    return ""


def _after_error(task: Exercise, answer: Callable, error: BaseException, seed: int) -> Result:
    """Not attempted, where the starter raises or dots are left; else the error and its line."""
    if isinstance(error, NotImplementedError):
        return _result(task, "not attempted", f"Write the body of the function, then run the cell again. {task.hint}")
    if place := _placeholder(answer):
        return _unfinished(task, place)
    message = f"{type(error).__name__}: {error}"
    return _result(task, "error", f"{message}\n{_line_of(answer, error)}\n{task.hint}", seed=seed)


def _unfinished(task: Exercise, line: str) -> Result:
    return _result(task, "not attempted", f"There are still dots to replace, in the line: {line}\n{task.hint}")


def _without_result(task: Exercise, answer: Callable) -> Result:
    """A function that computes but returns nothing is a mistake; an empty one is not attempted."""
    if _has_work(answer):
        return _result(task, "other", f"Your function computes, and returns nothing: end it with return. {task.hint}")
    return _result(task, "not attempted", f"The function is still empty. {task.hint}")


def _line_of(answer: Callable, error: BaseException) -> str:
    """Where in the reader's own code an error arose."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = getattr(getattr(answer, "__code__", None), "co_filename", None)
    own = [frame for frame in frames if frame.filename == theirs]
    if not own:
        return "It arose outside the lines of your function."
    line = linecache.getline(own[-1].filename, own[-1].lineno or 0).strip()
    return f"It arose in line {own[-1].lineno} of the cell" + (f": {line}" if line else ".")


def _tree(answer: Callable) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(answer)))
    except (OSError, TypeError, SyntaxError):
        return None


def _placeholder(answer: Callable) -> str:
    """The first line with dots to replace; those of an index, x[..., None], do not count."""
    tree = _tree(answer)
    if tree is None:
        return ""
    index = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Subscript) for part in ast.walk(node.slice)}
    dots = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value is Ellipsis and id(n) not in index]
    if not dots:
        return ""
    source = textwrap.dedent(inspect.getsource(answer)).splitlines()
    return source[min(node.lineno for node in dots) - 1].strip()


def _has_work(answer: Callable) -> bool:
    """Whether a function computes something and never returns; a starter may end in `return None`."""
    tree = _tree(answer)
    steps = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)] if tree else []
    returns = any(isinstance(step, ast.Return) for step in steps)
    return not returns and any(not isinstance(step, (ast.Pass, ast.Expr, ast.FunctionDef)) for step in steps)
