"""Every exercise of every notebook: its starter, its solution, and each mistake that its check knows by name.

In a notebook an exercise is a code cell that ends in `check("name", answer)`, and after it markdown with
`<details><summary>Hint 1</summary>`, `Hint 2` and `Solution`, the last with a ```python block.
"""

import ast
import itertools
import linecache
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import nbformat
import numpy as np
import pytest
import torch

import lntutor as ln
from lntutor.lesson.exercises import Exercise, Mistake, Result, check, exercises, gradients
from tests.lesson import answers
from tests.lesson.answers.attention import attention

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
SEEDS = range(5)  # random inputs on which every answer is judged
FOLD = re.compile(r"<details>\s*<summary>(Hint 1|Hint 2|Solution)</summary>(.*?)</details>", re.DOTALL)
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)

# A notebook in small, as cells of code and markdown
EXAMPLE = [
    ("code", "import torch\n\nfrom lntutor.lesson import check"),
    ("code", 'def double(x):\n    ...\n\n\ncheck("double", double)'),
    ("markdown", "<details><summary>Hint 1</summary>\n\nTwo.\n\n</details>"),
    ("markdown", "<details><summary>Hint 2</summary>+</details>"),
    ("markdown", "<details><summary>Solution</summary>\n```python\ndef double(x):\n    return 2 * x\n```\n</details>"),
    ("code", 'check("half", half)'),
]

# What learners write: exercise → mistake → sources, in other words than the package's own; a module a notebook
WRONG = {
    exercise: mistakes
    for module in iter_modules(answers.__path__)
    for exercise, mistakes in import_module(f"{answers.__name__}.{module.name}").WRONG.items()
}


# Reading a notebook --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """An exercise as it stands in a notebook."""

    name: str
    answer: str  # the expression that is handed to the check
    setup: str  # imports and definitions of the cells before
    starter: str
    folds: dict[str, str]

    @property
    def solution(self) -> str:
        return "\n".join(CODE.findall(self.folds.get("Solution", "")))


def tasks_of(cells: list[tuple[str, str]]) -> list[Task]:
    """Every exercise of a notebook, with what is folded between it and the next code cell."""
    tasks, setup = [], []
    for i, (kind, source) in enumerate(cells):
        if kind != "code":
            continue
        call = check_call(source)
        if call:
            after = itertools.takewhile(lambda cell: cell[0] != "code", cells[i + 1 :])
            folds = dict(FOLD.findall("\n".join(text for _, text in after)))
            name, answer = ast.literal_eval(call.args[0]), ast.unparse(call.args[1])
            tasks.append(Task(name, answer, "\n".join(setup), source, folds))
        else:
            setup += definitions(source)
    return tasks


def check_call(source: str) -> ast.Call | None:
    """The `check(…)` in which a cell ends."""
    try:
        last = ast.parse(source).body[-1]
    except (SyntaxError, IndexError):
        return None
    call = last.value if isinstance(last, ast.Expr) else None
    return call if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] == "check" else None


def definitions(source: str) -> list[str]:
    """Imports, functions and classes of a cell: what an exercise may use without running the whole notebook."""
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    try:
        return [ast.unparse(node) for node in ast.parse(source).body if isinstance(node, kinds)]
    except SyntaxError:
        return []


numbers = itertools.count()


def answer_of(source: str, expression: str, setup: str = "import torch"):
    """The reader's answer, from a cell that Python can show lines of, as in a notebook."""
    space, name = {}, f"<cell {next(numbers)}>"
    exec(setup, space)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not (isinstance(node, ast.Expr) and check_call(ast.unparse(node)))]
    exec(compile(tree, name, "exec"), space)
    return eval(expression, space)


def results(exercise, answer) -> list[Result]:
    return [check(exercise, answer, seed=seed) for seed in SEEDS]


CELLS = {p.stem: [(c.cell_type, c.source) for c in nbformat.read(p, as_version=4).cells] for p in NOTEBOOKS}
IN_NOTEBOOKS = [(name, task) for name, cells in CELLS.items() for task in tasks_of(cells)]
MARKS = {"rescue": pytest.mark.notebook}  # it trains: as long as one
each_task = pytest.mark.parametrize(
    "task",
    [pytest.param(task, id=f"{where}-{task.name}", marks=MARKS.get(task.name, ())) for where, task in IN_NOTEBOOKS],
)
each_exercise = pytest.mark.parametrize(
    "exercise", [pytest.param(one, id=one.name, marks=MARKS.get(one.name, ())) for one in exercises().values()]
)


# Notebooks -----------------------------------------------------------------------------------------------------


@each_task
def test_the_solution_is_right_and_the_starter_is_not_attempted(task):
    """Oracle: the check, on fresh inputs."""
    for source, status in ((task.solution, "right"), (task.starter, "not attempted")):
        answer = answer_of(source, task.answer, task.setup)
        assert {result.status for result in results(task.name, answer)} == {status}


@each_task
def test_every_exercise_has_two_hints_and_a_solution(task):
    """Oracle: the folds after its cell; neither hint has the solution in it."""
    assert set(task.folds) == {"Hint 1", "Hint 2", "Solution"}
    last = [line.strip() for line in task.solution.splitlines() if line.strip()][-1]
    assert all(last not in task.folds[hint] for hint in ("Hint 1", "Hint 2"))


def test_a_notebook_is_read_as_its_reader_sees_it():
    """Oracle: the example's cells, and one that has lost its solution."""
    double, half = tasks_of(EXAMPLE)
    assert (double.name, half.name) == ("double", "half")
    assert double.setup == "import torch\nfrom lntutor.lesson import check"
    assert [double.folds[hint].strip() for hint in ("Hint 1", "Hint 2")] == ["Two.", "+"]
    assert double.solution == "def double(x):\n    return 2 * x\n"
    without = [cell for cell in EXAMPLE if "Solution" not in cell[1]]
    assert [set(task.folds) for task in tasks_of(without)] == [{"Hint 1", "Hint 2"}, set()]
    assert tasks_of([("code", "%timeit x"), ("code", ""), ("code", "recheck(1)")]) == []


# Mistakes by name ----------------------------------------------------------------------------------------------


@each_exercise
def test_every_mistake_gets_its_own_words(exercise):
    """Oracle: learners' code of this file; a mistake without an example, or an example without a mistake, fails."""
    examples = WRONG.get(exercise.name, {})
    assert set(examples) == {mistake.name for mistake in (*exercise.mistakes, *exercise.rules)}
    messages = set()
    for mistake in (*exercise.mistakes, *exercise.rules):
        assert examples[mistake.name]
        for source in examples[mistake.name]:
            for result in results(exercise, answer_of(source, exercise.name)):
                assert (result.status, result.mistake) == ("mistake", mistake.name), source
                assert result.message == f"{mistake.message} {exercise.hint}"
                messages.add(result.message)
    assert len(messages) == len(exercise.mistakes) + len(exercise.rules)


@each_exercise
def test_an_exercise_is_in_a_notebook_and_its_mistakes_teach_without_giving_the_solution_away(exercise):
    """Oracle: the `check` cells of the notebooks; no code in the words, and the hint is named."""
    assert exercise.name in {task.name for _, task in IN_NOTEBOOKS}
    for mistake in (*exercise.mistakes, *exercise.rules):
        assert not re.search(r"softmax\(|tril|masked_fill|reshape\(|transpose|return ", mistake.message)
        assert "wrong" not in mistake.message.lower()
        assert "!" not in mistake.message
    assert "Hint" in exercise.hint


def test_of_two_mistakes_the_first_that_shows_is_named_and_the_other_after_it():
    """Oracle: a learner who has no √d and no mask yet, then adds one of them."""
    sources = [attention(scale="", before=""), attention(before="")]
    named = [{r.mistake for r in results("attention", answer_of(source, "attention"))} for source in sources]
    assert named == [{"missing √d"}, {"mask ignored"}]


# The check itself ----------------------------------------------------------------------------------------------

DOUBLE = Exercise(
    "double", "function", lambda x: x + x, "Twice.", "See Hint 1.",
    inputs=(lambda random: (torch.tensor(random.standard_normal(2)),), lambda random: (torch.zeros(2, 3),)),
    mistakes=(
        Mistake("squared", "That is the square.", (lambda x: x**2,)),
        Mistake(
            "negative", "The sign is the other way.", seen=lambda args, got, expected: np.array_equal(got, -expected),
        ),
    ),
)  # fmt: skip
SLOPE = Exercise(
    "slope", "value", -0.5, "It is the limit.", "See Hint 2.", mistakes=(Mistake("sign", "Falls.", (0.5,)),)
)
WORD = Exercise(
    "word", "text", ("keys", "the keys"), "Yes, n of them.", "Count.",
    mistakes=(Mistake("d", "Over d?", ("features",)),),
)  # fmt: skip
JAR = Exercise(
    "jar", "object", lambda jar: isinstance(jar, dict) and "lid" in jar, "It closes.", "See Hint 1.",
    mistakes=(Mistake("open", "Something is missing on top.", seen=lambda arguments, jar, expected: jar == {}),),
)  # fmt: skip


@pytest.mark.parametrize(
    "source",
    [
        "double = None", "double = ...", "def double(x):\n    ...", "def double(x):\n    return ...",
        "def double(x):\n    pass", 'def double(x):\n    """Twice x."""', "def double(x):\n    return None",
        "def double(x):\n    raise NotImplementedError('yours')", "def double(x):\n    y = ...\n    return y",
        "def double(x):\n    y = ...\n    return y + 1", "def double(x):\n    n = len(x)\n    return x * ...",
        "double = lambda x: ...",
    ],
)  # fmt: skip
def test_what_is_not_attempted(source):
    """Oracle: forms of a starter, whether or not they run."""
    result = check(DOUBLE, answer_of(source, "double"))
    assert result.status == "not attempted"
    assert "See Hint 1." in result.message


@pytest.mark.parametrize(
    "source",
    [
        "def double(x):\n    return 2 * x", "def double(x):\n    return x[..., :] * 2",
        "def double(x):\n    x *= 2\n    return x", "def double(x, twice=2):\n    ...\n    return x.numpy() * twice",
        "double = lambda x: (x + x).tolist()", "import operator, functools\ndouble = functools.partial(torch.mul, 2)",
    ],
)  # fmt: skip
def test_what_is_right(source):
    """Oracle: twice x, in any form; dots of an index are no placeholder, and inputs may be changed."""
    result = check(DOUBLE, answer_of(source, "double"))
    assert result.status == "right", result
    assert result.message == "Twice."


@pytest.mark.parametrize(
    ("source", "status", "message"),
    [
        ("def double(x):\n    return x * x", "mistake", "That is the square. See Hint 1."),
        ("def double(x):\n    return -2 * x", "mistake", "The sign is the other way. See Hint 1."),
        ("def double(x):\n\n    return x.shape[7]", "error", r"IndexError: .*\nIt arose in line 3 .*x.shape\[7\]"),
        ("def double(x):\n    exit(1)", "error", "SystemExit"),
        ("def double(x, y):\n    return x", "error", r"called as double\(x\), and yours takes \(x, y\)"),
        ("def double():\n    return 1", "error", r"yours takes \(\)"),
        ("def double(x):\n    return (2 * x).sum()", "other", r"gave the shape \(\); expected is \(2,\)"),
        ("def double(x):\n    return 'twice'", "other", "gave an object of the type str; expected is numbers"),
        ("def double(x):\n    y = 2 * x", "other", "returns nothing: end it with return"),
        ("def double(x):\n    return 3 * x", "other", r"Called with x = \[.*\].\nAt \[0\] it gave .*; expected is"),
        ("def double(x):\n    return x * float('nan')", "other", "gave nan; expected"),
        ("def double(x):\n    return x.zero_()", "other", "expected is"),  # and the inputs stay as they were
        ("double = torch.ones(3)", "other", "asks for a function, and got numbers of the shape"),
        ("double = 'x'", "other", "got an object of the type str"),
    ],
)
def test_what_is_said_of_other_answers(source, status, message):
    """Oracle: the words, which name what was given."""
    result = check(DOUBLE, answer_of(source, "double"))
    assert result.status == status
    assert re.search(message, result.message), result.message


@pytest.mark.parametrize(
    ("exercise", "answer", "status"),
    [
        (SLOPE, -0.5, "right"), (SLOPE, np.float32(-0.50001), "right"), (SLOPE, torch.tensor(-0.5), "right"),
        (SLOPE, 0.5, "mistake"), (SLOPE, -0.44, "other"), (SLOPE, float("nan"), "other"), (SLOPE, [1, 2], "other"),
        (SLOPE, "minus a half", "other"), (SLOPE, None, "not attempted"), (SLOPE, ..., "not attempted"),
        (WORD, "Keys.", "right"), (WORD, "  the KEYS ", "right"), (WORD, "features", "mistake"),
        (WORD, "queries", "other"), (WORD, 3, "other"), (WORD, "", "not attempted"), (WORD, "...", "not attempted"),
        (WORD, ..., "not attempted"), (JAR, {"lid": "blue"}, "right"), (JAR, {}, "mistake"), (JAR, "a jar", "other"),
        (JAR, ..., "not attempted"),
    ],
)  # fmt: skip
def test_values_words_and_objects_are_judged(exercise, answer, status):
    """Oracle: the status; a value that is not it is never told."""
    result = check(exercise, answer)
    assert result.status == status
    if status == "other":
        assert "0.5" not in result.message.replace("−0.44", "")


@pytest.mark.parametrize("answer", [lambda: -0.5, "minus a half"])
def test_what_is_no_number_is_told_so(answer):
    """Oracle: the words, which say what is wanted, and no address in memory."""
    assert "expected is a number" in check(SLOPE, answer).message
    assert "0x" not in check(SLOPE, answer).message


def test_a_result_reads_well_with_and_without_a_page():
    """Oracle: symbol and status in words, and the reader's text escaped."""
    result = check(DOUBLE, answer_of("def double(x):\n    raise ValueError('<b>')", "double"))
    assert repr(result).startswith("! double: Your code stopped\nValueError: <b>")
    assert "&lt;b&gt;" in result._repr_html_()
    assert 'role="status"' in result._repr_html_()
    assert repr(check(DOUBLE, torch.square)).startswith("△ double: Not yet (squared)")
    assert repr(check(DOUBLE, lambda x: 2 * x)) == "✓ double: Right\nTwice."


def test_inputs_are_fresh_and_can_be_drawn_again():
    """Oracle: the arguments that a function sees."""
    seen = []

    def spy(x):
        seen.append(x.tolist())
        return x

    first = check(DOUBLE, spy)
    check(DOUBLE, spy)
    check(DOUBLE, spy, seed=first.seed)
    assert seen[0] != seen[2] != seen[4]
    assert seen[0] != seen[4]
    assert seen[8] == seen[0]


def test_a_setting_is_judged_by_what_is_measured():
    """Oracle: gradient_norms of the same two models, in the explorer's defaults but for what is named."""
    cfg = ln.ModelConfig("pre", depth=3, width=32, ffn=128)
    pre, post = (
        ln.gradient_norms(one, parameters=("W_2",)).query("side == 'decoder' and layer == 1")["value"].to_numpy()
        for one in (cfg, cfg.with_(placement="post"))
    )
    expected = np.exp(np.log(pre / post).mean())
    assert gradients.pre_over_post({"depth": 3, "width": 32, "view": "by layer"}) == pytest.approx(expected, rel=1e-6)


class Copied:
    """What a line that was copied from an explorer makes."""

    def __repr__(self):
        return "Playground(depth=12)"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"dpeth": 12}, "The explorer has no control 'dpeth'; it has depth, width"),
        ({"depth": 0}, "depth must be"),
        (Copied(), "Write the controls that you moved as a dict, .*; you handed over Playground"),
        ("Playground(depth=12)", "Write the controls that you moved as a dict"),
    ],
)
def test_a_setting_that_cannot_be_measured_gets_a_sentence(setting, message):
    """Oracle: the words; they say what is allowed, without the name of an exception."""
    result = check("pre_is_larger", setting)
    assert result.status == "error"
    assert re.search(message, result.message), result.message
    assert "Error" not in result.message


def test_a_norm_without_the_gradient_is_right_in_other_words():
    """Oracle: ways that form n × n matrices, or none; the whole gradient is a mistake by name."""
    ways = [
        lambda X, G: torch.einsum("ia,ja,ib,jb->", X, X, G, G).sqrt(),
        lambda X, G: sum(X[i] @ X[j] * (G[i] @ G[j]) for i in range(len(X)) for j in range(len(X))) ** 0.5,
        lambda X, G: torch.linalg.eigvals((X @ X.T) @ (G @ G.T)).real.sum().sqrt(),
    ]
    assert {check("gradient_norm", way).status for way in ways} == {"right"}


def test_what_is_read_off_the_explorer_is_what_it_shows():
    """Oracle: Fig. 3's model measured, one seed after the other; the tolerance leaves room for either."""
    table = ln.gradient_norms(ln.ModelConfig.figure3("post"), seeds=range(2), parameters=("W_2",))
    by_layer = table.query("side == 'decoder'").pivot_table(index="layer", columns="seed", values="value")
    task = gradients.FALL_PER_LAYER
    np.testing.assert_allclose((by_layer.loc[1] / by_layer.loc[6]) ** (1 / 5), task.reference, atol=task.tolerance)
