"""A class on a server: the environment that one is built from, the page that says how, and twenty kernels at once."""

import ast
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlparse

import pytest
import yaml

import lntutor as ln
from benchmarks.classroom import arrive, memory
from lntutor.explore import TheoremExplorer
from lntutor.model.weight_bank import memory_limit
from tests.processes import ROOT

PAGE = (ROOT / "notebooks" / "SERVER.md").read_text(encoding="utf-8")
OFFLINE = "LNTUTOR_OFFLINE"  # set where there is no package index, and the environment cannot be built
STUDENTS = 6  # benchmarks/classroom.py has 20


def config_of_the_page() -> SimpleNamespace:
    """What the page's settings for a JupyterHub say."""
    c = SimpleNamespace(Spawner=SimpleNamespace(environment={}))
    exec(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], {"c": c})
    return c.Spawner


def test_the_settings_on_the_page_are_those_of_lntutor_lab():
    """Oracle: the folder of our defaults, and the variables that the package reads."""
    environment = config_of_the_page().environment
    folder = Path(environment["JUPYTER_CONFIG_PATH"]).relative_to("/opt/lntutor")
    assert (ROOT / folder / "labconfig").is_dir()
    assert environment["OMP_NUM_THREADS"] == "1"
    assert memory_limit(environment) == 512 * 2**20
    assert set(environment) == {"JUPYTER_CONFIG_PATH", "OMP_NUM_THREADS", "LOKY_MAX_CPU_COUNT", "LNTUTOR_MEMORY"}


def test_the_links_on_the_page_lead_to_a_notebook():
    """Oracle: the folder notebooks/; nbgitpuller's path begins with the name of a student's copy, Binder's does not."""
    links = [line for line in PAGE.splitlines() if "urlpath=" in line]
    for line, copy in zip(links, ("lntutor/", ""), strict=True):
        (path,) = parse_qs(urlparse(line.strip()).query)["urlpath"]
        assert (ROOT / path.removeprefix(f"lab/tree/{copy}")).is_file()


def test_one_variable_keeps_training_in_one_process(monkeypatch):
    """Oracle: the ids of the processes that computed, with the variable and with two jobs asked for."""
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")

    def process(how: ln.TrainConfig, seed: int) -> int:
        return os.getpid()

    def processes(jobs: int | None = None) -> set[int]:
        return set(
            ln.sweep(process, {"seed": range(4)}, ln.TrainConfig(), keep=False, progress=False, jobs=jobs)["value"]
        )

    assert processes() == {os.getpid()}
    assert os.getpid() not in processes(jobs=2)


@pytest.fixture
def folder(tmp_path):
    """A folder whose gigabytes are gone after the test."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


def copy_of_the_project(folder: Path) -> Path:
    """What git holds, without its history."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout, so there is no list of its files")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.mark.notebook
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(os.environ.get(OFFLINE)), reason=f"{OFFLINE} is set")
def test_environment_yml_builds_an_environment_that_runs_an_explorer(folder):
    """Oracle: pip, called as conda calls it, the doctor of the new environment, and the title that we compute."""
    project = copy_of_the_project(folder / "project")
    *_, pip = yaml.safe_load((project / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    (project / "condaenv.requirements.txt").write_text("\n".join(pip["pip"]), encoding="utf-8")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}

    def run(*command: str | Path, cwd: Path = folder) -> str:
        done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = ("-m", "pip", "install", "-U", "-r", "condaenv.requirements.txt", "--exists-action=b", "--no-compile")
    run(python, *install, cwd=project)
    assert "FAIL" not in run(python, "-m", "lntutor", "doctor")
    code = """
import lntutor
from lntutor.explore import TheoremExplorer
explorer = TheoremExplorer(depth=3)
explorer.settle()
print(lntutor.__file__, explorer.figure.layout.title.text, sep="\\n")
"""
    where, title = run(python, "-c", code).strip().split("\n", 1)
    assert Path(where).is_relative_to(project)
    assert title == figure_of(3)[0]


def figure_of(depth: int, width: int = 128) -> tuple[str, float]:
    """The title that an explorer with this setting shows, and the sum of its numbers."""
    explorer = TheoremExplorer(depth=depth, width=width)
    explorer.settle()
    return explorer.figure.layout.title.text, float(explorer.table()["value"].sum())


@pytest.mark.notebook
@pytest.mark.timeout(900)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the share of memory is Linux's")
def test_kernels_side_by_side_each_show_their_own_figure(no_pause, capsys):
    """Oracle: the same settings in this process."""
    with ExitStack() as stack:
        students = arrive(STUDENTS, stack)
        for depth, student in enumerate(students, start=1):  # all asked before any is answered
            student.client.execute(f"explorer.set(depth={depth}, width=64); explorer.settle()")
        for depth, student in enumerate(students, start=1):
            shown = student.ask("(explorer.figure.layout.title.text, float(explorer.table()['value'].sum()))")
            title, total = figure_of(depth, width=64)
            assert ast.literal_eval(shown) == (title, pytest.approx(total, rel=1e-6))
        shares = [pss for _, pss in memory(students)]
    with capsys.disabled():
        print(f"\n{STUDENTS} kernels with an explorer: {sum(shares) / STUDENTS:.0f} MB each, {sum(shares):.0f} in all")
