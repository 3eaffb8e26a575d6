"""The files around the package say the same thing, and what they say is true."""

import json
import os
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import lntutor
from lntutor.__main__ import COMMANDS
from lntutor.lesson.claims import stored
from lntutor.publish import doctor
from tests.processes import ROOT, run_python
from tools import bootstrap

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))  # and not the checkpoints that JupyterLab keeps
READABLE_HOSTS = {"arxiv.org", "doi.org", "tljh.jupyter.org", "mybinder.org", "127.0.0.1", "localhost"}
NO_HOSTS = {"localhost.invalid", "www.w3.org"}  # a name that no machine has, for a test; the name of SVG, never opened
DATA_HOSTS = {"raw.githubusercontent.com": "lntutor/text/download.py"}  # where Multi30k is published → who may name it
PROSE = [ROOT / "README.md", *sorted((ROOT / "data").rglob("*.md")), *sorted((ROOT / "notebooks").rglob("*.md"))]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def requirement_lines(name: str) -> list[str]:
    return [text for line in read(name).splitlines() if (text := line.partition("#")[0].strip())]


def project_files() -> list[Path]:
    """What git holds or would take, of the text files."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout, so there is no list of its files")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


def markdown_of(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_is_one_exact_version(name):
    """Oracle: the form name==version, which names one release and nothing else."""
    lines = [line for line in requirement_lines(name) if line != "-r requirements.txt"]
    assert lines
    assert not [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==\d+(\.\d+)+", line)]
    assert len({line.partition("==")[0] for line in lines}) == len(lines)


def test_environment_yml_has_the_versions_of_requirements_txt():
    """Oracle: requirements.txt, in its order."""
    environment = yaml.safe_load(read("environment.yml"))
    assert environment["channels"] == ["conda-forge"]
    *conda, pip = environment["dependencies"]
    assert conda == ["python=3.11", "pip"]
    assert pip["pip"] == [*requirement_lines("requirements.txt"), "-e ."]


def test_what_runs_the_lessons_and_makes_pages_comes_with_what_students_install():
    """Oracle: the installed packages' own lists of what they need, from requirements.txt on, without extras."""
    waiting, found = [line.partition("==")[0] for line in requirement_lines("requirements.txt")], set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            needs = map(Requirement, metadata.requires(name) or [])
            waiting += [need.name for need in needs if not need.marker or need.marker.evaluate({"extra": ""})]
    assert found >= {"nbclient", "nbformat", "jinja2", "markupsafe"}


def test_pyproject_says_the_same_as_the_lists_the_package_and_the_set_up():
    """Oracle: the metadata of the installed package, which setuptools made from pyproject.toml, has requirements.txt;
    slides are tested with the versions that lecturers install; one version of Python and one of the package.
    """
    project = tomllib.loads(read("pyproject.toml"))["project"]
    assert "dependencies" in project["dynamic"]
    try:
        installed = metadata.requires("lntutor")
    except metadata.PackageNotFoundError:
        pytest.fail("lntutor is not installed here: run `make unit`")
    assert sorted(line for line in installed if "extra ==" not in line) == sorted(requirement_lines("requirements.txt"))
    assert set(project["optional-dependencies"]["slides"]) <= set(requirement_lines("requirements-dev.txt"))
    assert project["requires-python"] == ">=" + bootstrap.dotted(bootstrap.MINIMUM)
    assert doctor.MINIMUM_PYTHON == bootstrap.MINIMUM
    assert lntutor.__version__ == project["version"]


def test_make_alone_lists_every_target():
    """Oracle: the targets that the Makefile declares as commands."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # of an outer make
    output = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, env=clean).stdout
    declared = re.search(r"^\.PHONY: (.*)$", read("Makefile"), re.MULTILINE)[1].split()
    listed = [line.split()[1] for line in output.splitlines()]
    assert listed == declared
    assert all(len(line.split()) > 3 for line in output.splitlines())


def test_commands_in_the_readme_exist_and_the_test_command_is_that_of_ci():
    """Oracle: the Makefile and the command line's own list; the last line of .ci/run."""
    readme = read("README.md")
    assert read(".ci/run").strip().splitlines()[-1] == "make test"
    assert re.search(r"^make test\b", readme, re.MULTILINE)
    for target in re.findall(r"\bmake ([a-z]+)\b(?=[`\s]*(?:#|`|$))", readme, re.MULTILINE):
        assert re.search(rf"^{target}:", read("Makefile"), re.MULTILINE), target
    used = re.findall(r"python -m lntutor ([a-z]+)", readme)
    assert used
    assert set(used) <= set(COMMANDS)


def test_no_file_names_a_private_path():
    """Oracle: the usual places of home folders, spelt in pieces so that this file passes."""
    places = "|".join(("home", "Users", "root", "work"))
    pattern = re.compile(rf"(?<![\w.~}}])/(?:{places})/\w")
    for path in project_files():
        found = pattern.search(path.read_text(encoding="utf-8"))
        assert not found, f"{path.relative_to(ROOT)}: {found[0]}"


def test_every_address_is_one_that_a_reader_is_meant_to_open():
    """Oracle: a list kept by hand; package registries are the installers' business and not on it."""
    for path in project_files():
        for host in re.findall(r"https?://([\w.-]+)", path.read_text(encoding="utf-8")):
            named_by = path.relative_to(ROOT).as_posix()
            assert host in READABLE_HOSTS | NO_HOSTS or DATA_HOSTS.get(host) == named_by, f"{named_by}: {host}"
    lists = "".join(read(name) for name in ("requirements.txt", "requirements-dev.txt", "environment.yml"))
    assert not re.search(r"index-url|find-links|trusted-host|://", lists)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_without_results_and_has_one_title(notebook):
    """Oracle: the notebook format (nothing would check a stored output); Markdown's headings outside fenced code."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert content["metadata"]["kernelspec"]["name"] == "python3"
    assert "widgets" not in content["metadata"]
    for cell in content["cells"]:
        assert not cell.get("outputs"), cell["id"]
        assert cell.get("execution_count") is None, cell["id"]
    prose = re.sub(r"```.*?```", "", markdown_of(notebook), flags=re.DOTALL)
    assert len(re.findall(r"^# \S", prose, re.MULTILINE)) == 1


@pytest.mark.parametrize("path", [*PROSE, *NOTEBOOKS], ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_resolve(path):
    """Oracle: the file system."""
    text = markdown_of(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:|#|attachment:", target):
            assert (path.parent / target.partition("#")[0]).exists(), target


def test_the_map_links_every_notebook_and_no_other():
    """Oracle: the folder notebooks/."""
    readme = read("README.md")
    linked = re.findall(r"\]\((notebooks/\S+\.ipynb)\)", readme)
    assert sorted(set(linked)) == [path.relative_to(ROOT).as_posix() for path in NOTEBOOKS]
    for row in re.findall(r"^\| \[?(\d\d_\w+).*$", readme, re.MULTILINE):
        assert (ROOT / "notebooks" / f"{row}.ipynb").exists() or f"| {row} |" in readme


def readme_example(heading: str = "## In Python") -> tuple[str, str]:
    """The first python block below a heading of the README, and the text block after it."""
    blocks = re.search(r"```python\n(.*?)```.*?```text\n(.*?)```", read("README.md").partition(heading)[2], re.DOTALL)
    assert blocks, f"README.md has no python block followed by a text block under {heading}"
    return blocks[1], blocks[2]


def test_the_example_in_the_readme_prints_what_it_says():
    """Oracle: running it in a process of its own, warnings being errors."""
    code, output = readme_example()
    assert run_python(code, options=("-W", "error")) == output


EXAMPLES = {  # heading → code before it, number of values, allowed difference
    "Training": ("", r"^(?:post|pre): validation loss ([\d.]+), BLEU", 2, {"abs": 0.4}),
    "Curvature": ('corpus = ln.load_corpus("captions")', r"-?\d+\.\d+", 4, {"rel": 1e-2}),
    "Sweeps": ("", r"\d+\.\d+", 6, {"abs": 0.011}),
    "A placement of your own": ("", r"\d+\.\d+", 12, {"abs": 0.011}),
}


@pytest.mark.notebook  # as long as one
@pytest.mark.parametrize("heading", EXAMPLES)
def test_a_longer_example_in_the_readme_ends_as_it_says(heading):
    """Oracle: running it on one thread; float32 may round differently elsewhere. At the rate of the training example
    round-off grows: its Post-LN has to fail, and only the other loss agrees.
    """
    before, pattern, count, tolerance = EXAMPLES[heading]
    code, output = readme_example(f"### {heading}")
    code = f"import torch\nimport lntutor as ln\ntorch.set_num_threads(1)\n{before}\n{code}"
    readme_values, run_values = (
        [float(value) for value in re.findall(pattern, text, re.MULTILINE)] for text in (output, run_python(code))
    )
    assert len(readme_values) == len(run_values) == count
    if heading == "Training":  # Post-LN, Pre-LN
        assert min(readme_values.pop(0), run_values.pop(0)) > 2.5
    assert run_values == pytest.approx(readme_values, **tolerance)


def test_the_first_notebook_shows_the_example_of_the_readme():
    """Oracle: the README."""
    cells = json.loads(NOTEBOOKS[0].read_text(encoding="utf-8"))["cells"]
    assert readme_example()[0].strip() in ["".join(cell["source"]) for cell in cells]


def test_every_finding_of_the_readme_is_in_the_ledger():
    """Oracle: data/results/claims.csv; each number of a row stands in the claims that it names."""
    section = re.search(r"^## What we found$(.*?)^## ", read("README.md"), re.MULTILINE | re.DOTALL)[1]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) >= 8
    for question, measured, keys in rows:
        claims = stored().loc[re.findall(r"`([^`]+)`", keys), ["claim", "measured", "spread"]]
        known = " ".join(map(str, claims.to_numpy().ravel()))
        for number in re.findall(r"[-−]?\d+(?:\.\d+)?", measured):
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d]|\.\d)", known), f"{question}: {number}"


def test_every_picture_of_the_readme_is_there_and_says_what_it_shows():
    """Oracle: the files; alternative texts of more than two words."""
    pictures = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", read("README.md"))
    assert len(pictures) >= 5
    for text, path in pictures:
        assert (ROOT / path).is_file(), path
        assert len(text.split()) > 4, path
