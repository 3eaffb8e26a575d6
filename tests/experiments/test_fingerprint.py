"""What a function is: the keys of remembered results change with the code that runs, and with nothing else."""

import threading

import numpy as np
import pytest

import lntutor as ln
from lntutor import figures
from lntutor.experiments.fingerprint import SOURCES, fingerprint, module_code
from tests.processes import run_python

CFG = ln.ModelConfig("post", depth=2, width=16, heads=2, ffn=16)


def test_a_rule_is_known_by_what_it_does():
    """Oracle: a closure, a default, an array or an object that holds another number; test_sweep defines names anew."""

    def scaled(by):
        return lambda x: by * x

    assert fingerprint(scaled(2)) == fingerprint(scaled(2))
    assert fingerprint(scaled(2)) != fingerprint(scaled(3))
    one, two = (lambda x, *, by=by: by * x for by in (1, 2))
    assert fingerprint(one) != fingerprint(two)
    assert fingerprint(scaled(np.zeros(2000))) != fingerprint(scaled(np.eye(2000)[1000]))

    class Scaled:
        def __init__(self, by):
            self.by = by

        def rule(self, x):
            return self.by * x

    assert fingerprint(Scaled(1).rule) != fingerprint(Scaled(2).rule)


def test_what_a_function_reads_is_told_from_what_only_has_its_name():
    """Oracle: a global `table` that changes is not the attribute `table` that the function asks for."""
    names = {"table": 1}
    exec("def f(x): return x.table", names)
    before = fingerprint(names["f"])
    names["table"] = 2
    assert fingerprint(names["f"]) == before
    assert fingerprint(object.__new__(threading.Thread)) is not None
    lock = threading.Lock()
    assert fingerprint(lock) != fingerprint(lock)  # has no name of its own: never the same twice


@pytest.fixture
def edit(monkeypatch):
    """Change the text of a module of the package, as `fingerprint` sees it."""

    def edit(module, change):
        monkeypatch.setitem(SOURCES, module, change(SOURCES[module]))
        module_code.cache_clear()

    yield edit
    monkeypatch.undo()
    module_code.cache_clear()


def lntutor_function(placement):
    """Sizes of signals, by way of the facade."""
    return ln.signal_norms(CFG.with_(placement=placement), seeds=[0])["value"].iloc[-1]


def importing_function(placement):
    """The same, with an import of its own."""
    import lntutor

    return lntutor.signal_norms(CFG.with_(placement=placement), seeds=[0])["value"].iloc[-1]


@pytest.mark.parametrize(
    ("function", "runs"),
    [
        (ln.gradient_norms, ln.gradient_norms), (lntutor_function, ln.signal_norms),
        (importing_function, ln.signal_norms),
    ],
)  # fmt: skip
def test_a_cell_depends_on_the_code_that_it_runs_and_on_nothing_else(edit, function, runs):
    """Oracle: what Python imports to run it, in a process of its own."""
    code = f"import sys, {runs.__module__}; print(*(name for name in sys.modules if name.startswith('lntutor.')))"
    ran = set(run_python(code).split())
    before = fingerprint(function)
    for name in sorted(SOURCES.keys() - {"lntutor"}):
        edit(name, lambda text: text + "\nEXTRA = 1\n")
        assert (fingerprint(function) != before) == (name in ran), name
        edit(name, lambda text: text.removesuffix("\nEXTRA = 1\n"))
    assert fingerprint(function) == before


def test_a_function_may_reach_the_package_by_any_facade_or_module(edit):
    """Oracle: an edit of the module that has the function; each of these calls it."""

    def by_facade():
        return figures.rank_correlation([1, 2], [2, 1])

    def by_name():
        from lntutor.figures import rank_correlation

        return rank_correlation([1, 2], [2, 1])

    def by_module():
        from lntutor.figures.all_placements import rank_correlation

        return rank_correlation([1, 2], [2, 1])

    functions = by_facade, by_name, by_module
    before = [fingerprint(function) for function in functions]
    edit(figures.rank_correlation.__module__, lambda text: text + "\nEXTRA = 1\n")
    assert all(fingerprint(function) != known for function, known in zip(functions, before, strict=True))


def test_a_comment_or_a_docstring_is_not_code(edit):
    """Oracle: the same key after words were changed, another after a number was."""
    module = ln.gradient_norms.__module__
    before = fingerprint(ln.gradient_norms)
    edit(module, lambda text: text.replace('"""', '"""Other words. ', 1) + "# A remark.\n")
    assert fingerprint(ln.gradient_norms) == before
    edit(module, lambda text: text.replace("0.02", "0.03", 1))
    assert fingerprint(ln.gradient_norms) != before
