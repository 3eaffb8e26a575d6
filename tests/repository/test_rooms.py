"""The rooms of the package: who may import whom, read from the sources."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lntutor
from tests.processes import run_python

PACKAGE = Path(lntutor.__file__).resolve().parent
ORDER = (  # as told in lntutor/__init__.py; rooms on one line do not import each other
    ("model",), ("measure",), ("theory",), ("text",), ("training",), ("curvature",), ("experiments",), ("figures",),
    ("page",), ("explore", "lesson"), ("publish",),
)  # fmt: skip
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
NOT_LOADED = {  # code → modules that it does not need
    "import lntutor; lntutor.ModelConfig()": "torch plotly pandas",
    "import lntutor.__main__, lntutor.publish.doctor, lntutor.publish.lab, lntutor.text.download":
        "torch numpy pandas jupyterlab plotly",
    "import lntutor; lntutor.load_corpus": "torch torchtext",
    "import lntutor; lntutor.predict(lntutor.ModelConfig.theorem(), 'gradient')": "torch plotly",  # uniform attention
    "import lntutor.figures": "torch ipywidgets",
    "import lntutor.explore; lntutor.explore.CurvatureExplorer()":
        "torchtext lntutor.text.corpus lntutor.curvature.spectrum lntutor.experiments.stored",
    "from lntutor.lesson import check\n"
    "check('pre_is_larger', {'depth': 2, 'width': 16, 'tokens': 2})": "lntutor.explore",
}  # fmt: skip
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


def imports(name: str, tree: ast.AST) -> set[str]:
    """The modules that these nodes of a module import; a name that is no module counts as the module it comes from.

    A name of the facade `lntutor` comes from the module that has it.
    """
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names = {alias.name for alias in node.names}
            found |= {f"{base}.{name}" if f"{base}.{name}" in MODULES else base for name in names}
            if base == "lntutor":
                found |= {f"lntutor.{lntutor._HOMES[name]}" for name in names & lntutor._HOMES.keys()}
    return found


def at_import(tree: ast.Module) -> ast.Module:
    """The part of a module that runs when it is imported: no function bodies, nothing under `if TYPE_CHECKING`."""

    class Outside(ast.NodeTransformer):
        def visit_FunctionDef(self, node):
            return None

        visit_AsyncFunctionDef = visit_FunctionDef

        def visit_If(self, node):
            return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)

    return Outside().visit(ast.parse(ast.unparse(tree)))


def room(module: str) -> str:
    """The room of a module; empty for the package itself."""
    return module.split(".")[1] if module.startswith("lntutor.") else ""


def packages(*modules: set[str]) -> set[str]:
    """The top-level packages of these modules."""
    return {name.partition(".")[0] for name in set().union(*modules)}


def loaded_by(module: str) -> set[str]:
    """Modules of the package that importing this one imports, itself included."""
    waiting, found = [module], set()
    while waiting:
        name = waiting.pop()
        if name in MODULES and name not in found:
            found.add(name)
            waiting += [name.rpartition(".")[0], *imports(name, at_import(TREES[name]))]
    return found


def test_the_top_of_the_package_is_small():
    """Oracle: the folder, without what Python and editors put there; 14 entries fit one look."""
    entries = [path.name for path in PACKAGE.iterdir() if not path.name.startswith((".", "__pycache__"))]
    assert len(entries) <= 14
    assert {name for name in entries if name.endswith(".py")} == {"__init__.py", "__main__.py"}
    assert {name for name in entries if not name.endswith(".py")} == set(RANK)


def test_the_docstring_of_the_package_tells_this_order():
    """Oracle: the line with arrows in lntutor/__init__.py."""
    (line,) = [line for line in lntutor.__doc__.splitlines() if line.count("→") > 5]
    assert tuple(tuple(part.strip().split(", ")) for part in line.split("→")) == ORDER


def test_a_module_imports_only_from_earlier_rooms_and_its_own():
    """Oracle: every import statement of every file, also in functions and for types."""
    upward = {
        (name, other)
        for name in MODULES
        for other in imports(name, TREES[name])
        if {room(name), room(other)} <= set(RANK) and room(other) != room(name)
        if RANK[room(other)] >= RANK[room(name)]
    }
    assert upward == set()


def test_there_is_no_cycle_of_imports():
    """Oracle: graphlib, over every import statement; the package's own lazy names are no imports."""
    graph = {name: {other for other in imports(name, TREES[name]) if other in MODULES} - {name} for name in MODULES}
    for name, others in graph.items():
        others -= {"lntutor"} | ({name.rpartition(".")[0]} if room(name) else set())
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        pytest.fail(" → ".join(cycle.args[1]))


def test_theory_and_figures_load_no_torch():
    """Oracle: the imports of their modules, and of every module that these load when they are imported."""
    for name in (name for name in MODULES if room(name) in ("theory", "figures")):
        found = packages(*(imports(other, at_import(TREES[other])) for other in loaded_by(name)))
        assert "torch" not in found, name


@pytest.mark.parametrize("code", NOT_LOADED)
def test_what_is_not_needed_is_not_loaded(code):
    """Oracle: Python's own list of modules, in a fresh process."""
    loaded = set(run_python(f"{code}\nimport sys\nprint(*sys.modules)").splitlines()[-1].split())
    assert "lntutor" in loaded
    assert not loaded & set(NOT_LOADED[code].split())


def test_what_measures_and_trains_knows_no_plots_and_no_widgets():
    """Oracle: every import statement of these rooms."""
    for name in MODULES:
        if room(name) in ("measure", "training", "curvature", "experiments"):
            assert not packages(imports(name, TREES[name])) & {"plotly", "ipywidgets", "anywidget"}, name


def test_every_room_says_what_it_is_for():
    """Oracle: the docstring of its __init__."""
    assert all(ast.get_docstring(TREES[f"lntutor.{name}"]) for name in RANK)
