"""Run notebooks from top to bottom, each in a kernel of its own, as a new reader with all answers shown.

A run is remembered until the notebook, the package or a stored table changes, and shared by the site, the ledger and
the tests. No notebook file is ever written.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from textwrap import shorten

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode

from lntutor import ROOT
from lntutor.experiments import cache as store
from lntutor.lesson import notes
from lntutor.lesson.question import REVEAL
from lntutor.training.progress import progress_bar

FOLDER = ROOT / "notebooks"


class LessonError(Exception):
    """A notebook that did not run to its end; the message says where and why."""

    exit_code = 1


def by_number(paths: Iterable[Path], numbers: Iterable[str] = (), kind: str = "") -> list[Path]:
    """The notebooks with these numbers, or all; an error calls them "notebook NN" + `kind`.

    Of several notebooks with one number, the first name counts: 04_a before its duplicate 04_a-Copy1.
    """
    found: dict[str, Path] = {}
    for path in sorted(paths, key=lambda path: path.stem):
        found.setdefault(path.stem[:2], path)
    wanted = {number: str(number).zfill(2)[:2] for number in numbers} or {number: number for number in found}
    for given, number in wanted.items():
        if number not in found:
            raise ValueError(f"there is no notebook {given!r}{kind}; there are {', '.join(found) or 'none'}")
    return [found[number] for number in sorted(set(wanted.values()))]


def run(path: Path) -> NotebookNode:
    """The notebook with its outputs: a remembered run, or a new one."""
    known = store.load(entry_name(path))
    if isinstance(known, dict) and isinstance(known.get("cells"), list):
        return NotebookNode(nbformat.from_dict(known))
    return run_anew(path)[0]


def run_anew(path: Path) -> tuple[NotebookNode, dict[str, dict]]:
    """Run a notebook and remember it; the notebook with its outputs, and what it recorded of claims."""
    with tempfile.TemporaryDirectory(prefix="lntutor-", ignore_cleanup_errors=True) as home:
        notebook = execute(path, {REVEAL: "1", notes.HOME: home})
        file = Path(home) / notes.FILE
        records = json.loads(file.read_text(encoding="utf-8")).get("records", {}) if file.is_file() else {}
    remember(path, notebook)
    return notebook, records


def remember(path: Path, notebook: NotebookNode) -> None:
    """Keep a notebook that was run with all answers shown."""
    store.save(entry_name(path), json.dumps(notebook))


def entry_name(path: Path) -> str:
    """The cache entry of a run, named after all that its outputs depend on: notebook, package and stored tables."""
    package = sorted(file for file in (ROOT / "lntutor").rglob("*") if file.suffix in (".py", ".js"))
    files = [path, *package, *sorted((ROOT / "data" / "results").glob("*.csv"))]
    contents = [(file.name, hashlib.blake2b(file.read_bytes()).hexdigest()) for file in files]
    return f"lesson-{path.stem}-{store.key('lesson', contents)}"


def execute(path: Path, environment: dict[str, str]) -> NotebookNode:
    """Run a notebook with these variables set, under a progress bar; a cell that fails raises LessonError."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except ValueError as error:
        raise LessonError(f"{path.stem} is not a notebook: {_short(error)}") from None
    how = {"store_widget_state": False, "resources": {"metadata": {"path": str(path.parent)}}}
    client = NotebookClient(notebook, kernel_name="python3", **how)
    kernel = {"env": {"OMP_NUM_THREADS": "1", **os.environ, **environment}, "stderr": subprocess.DEVNULL}
    try:
        # cell by cell, because NotebookClient.execute() turns an interrupt into an error of its own
        with client.setup_kernel(**kernel), progress_bar(notebook.cells, desc=path.stem, unit="cell") as bar:
            for index, cell in enumerate(bar):
                try:
                    client.execute_cell(cell, index)
                except CellExecutionError as error:
                    raise LessonError(_failure(path, notebook, index, f"{error.ename}: {error.evalue}")) from None
                except DeadKernelError:
                    reason = "its kernel died, perhaps for lack of memory"
                    raise LessonError(_failure(path, notebook, index, reason)) from None
    except RuntimeError as error:
        raise LessonError(f"{path.stem} got no kernel: {_short(error)}") from None
    return notebook


def _failure(path: Path, notebook: NotebookNode, index: int, reason: str) -> str:
    """Which cell failed, numbered as JupyterLab numbers it, and why."""
    number = sum(cell.cell_type == "code" and bool(cell.source.strip()) for cell in notebook.cells[: index + 1])
    first_line = notebook.cells[index].source.strip().partition("\n")[0]
    return f"{path.stem} failed in code cell {number}, which begins `{first_line}`: {_short(reason)}"


def _short(error: object) -> str:
    return shorten(str(error), 300, placeholder=" …")
