"""Notebooks run from top to bottom, each in a kernel of its own; none is ever written."""

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

from lntutor import notes, store
from lntutor.bars import progress_bar
from lntutor.lab import ROOT, lab_environment

FOLDER = ROOT / "notebooks"


class LessonError(Exception):
    """A notebook that did not run to its end; the message says where and why."""


def numbered(paths: Iterable[Path], numbers: Iterable[str] = (), kind: str = "") -> list[Path]:
    """Those of these notebooks that have such a number, or all; `kind` says in an error what they have in common."""
    here = {path.stem[:2]: path for path in sorted(paths)}
    wanted = {number: str(number).zfill(2)[:2] for number in numbers} or {number: number for number in here}
    for given, number in wanted.items():
        if number not in here:
            raise ValueError(f"there is no notebook {given!r}{kind}; there are {', '.join(here) or 'none'}")
    return [here[number] for number in sorted(set(wanted.values()))]


def execute(path: Path, environment: dict[str, str]) -> nbformat.NotebookNode:
    """A notebook with its outputs, and a bar that counts its cells meanwhile; a cell that fails raises LessonError."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except ValueError as error:
        raise LessonError(f"{path.stem} is not a notebook: {_short(error)}") from None
    how = {"store_widget_state": False, "resources": {"metadata": {"path": str(path.parent)}}}
    client = NotebookClient(notebook, kernel_name="python3", **how)
    kernel = {"env": {**os.environ, **lab_environment(), **environment}, "stderr": subprocess.DEVNULL}
    try:
        # cell by cell, because NotebookClient.execute() turns an interrupt into an error of its own
        with client.setup_kernel(**kernel), progress_bar(notebook.cells, desc=path.stem, unit="cell") as bar:
            for index, cell in enumerate(bar):
                try:
                    client.execute_cell(cell, index)
                except CellExecutionError as error:
                    raise LessonError(_where(path, notebook, index, f"{error.ename}: {error.evalue}")) from None
                except DeadKernelError:
                    raise LessonError(_where(path, notebook, index, "its kernel died, out of memory maybe")) from None
    except RuntimeError as error:
        raise LessonError(f"{path.stem} got no kernel: {_short(error)}") from None
    return notebook


def _where(path: Path, notebook: nbformat.NotebookNode, index: int, error: str) -> str:
    """Which cell failed, as JupyterLab counts them, and with what."""
    number = sum(cell.cell_type == "code" and bool(cell.source.strip()) for cell in notebook.cells[: index + 1])
    first = notebook.cells[index].source.strip().partition("\n")[0]
    return f"{path.stem} failed in code cell {number}, which begins `{first}`: {_short(error)}"


def _short(error: object) -> str:
    return shorten(str(error), 300, placeholder=" …")


# With all answers shown ----------------------------------------------------------------------------------------


def revealed(path: Path) -> nbformat.NotebookNode:
    """The notebook run for a reader who has just arrived, with all answers shown; run again only after a change."""
    known = store.load(name(path))
    if isinstance(known, dict) and isinstance(known.get("cells"), list):
        return nbformat.from_dict(known)
    with tempfile.TemporaryDirectory(prefix="lntutor-", ignore_cleanup_errors=True) as home:
        notebook = execute(path, {"LNTUTOR_REVEAL": "1", notes.HOME: home})
    remember(path, notebook)
    return notebook


def remember(path: Path, notebook: nbformat.NotebookNode) -> None:
    """Keep a notebook that was run with all answers shown."""
    store.save(name(path), json.dumps(notebook))


def name(path: Path) -> str:
    """What the outputs depend on, as the name of an entry: the notebook, the whole package, the stored tables."""
    package = sorted(file for file in Path(__file__).parent.rglob("*") if file.suffix in (".py", ".js"))
    files = [path, *package, *sorted((ROOT / "data" / "results").glob("*.csv"))]
    contents = [(file.name, hashlib.blake2b(file.read_bytes()).hexdigest()) for file in files]
    return f"lesson-{path.stem}-{store.key('lesson', contents)}"
