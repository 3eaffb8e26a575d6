"""`python -m lntutor claims`: run the lessons, and store what they record of every claim in data/results/claims.csv.

Each notebook runs in a kernel of its own, with all answers shown, for a reader who has just arrived: the notes of
whoever asks for it are neither read nor changed, and no notebook is written.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from textwrap import shorten

import nbformat
import pandas as pd
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from lntutor import notes, results, store
from lntutor.claims import CLAIMS, FILE, NOT_YET, STORED, Claim, stored, stored_ledger
from lntutor.lab import ROOT, lab_environment

FOLDER = ROOT / "notebooks"
PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>The claims ledger of lntutor</title>
<style>
body {{ font: 16px/1.45 'Open Sans', 'Segoe UI', Arial, 'DejaVu Sans', sans-serif; color: #222; margin: 2em; }}
table {{ border-collapse: collapse; font-size: 14px; }}
tr {{ border-top: 1px solid #e4e4e4; }}
</style>
</head>
<body>
<main>
<h1>The claims ledger</h1>
<p>Every claim of the paper, the talk and those who came after that this course puts to the test: what was measured, how
far it spreads, our verdict, and the command that measures it again.</p>
{ledger}
</main>
</body>
</html>
"""


class LessonError(Exception):
    """A notebook that did not run to its end; the message says where and why."""


# Notebooks -----------------------------------------------------------------------------------------------------


def lessons(numbers: Iterable[str] = ()) -> list[Path]:
    """The notebooks of these numbers, or all of those that have claims and are here."""
    claimed = {claim.notebook for claim in CLAIMS.values()}
    here = {path.stem[:2]: path for path in sorted(FOLDER.glob("*.ipynb")) if path.stem[:2] in claimed}
    wanted = {number: number.zfill(2)[:2] for number in numbers} or {number: number for number in here}
    for given, number in wanted.items():
        if number not in here:
            raise ValueError(f"there is no notebook {given!r} with claims; there are {', '.join(here) or 'none'}")
    return [here[number] for number in sorted(set(wanted.values()))]


def records_of(path: Path) -> dict[str, dict]:
    """What a notebook records, by claim; entries of other notebooks' claims are not its business."""
    with tempfile.TemporaryDirectory(prefix="lntutor-", ignore_cleanup_errors=True) as home:
        execute(path, {"LNTUTOR_REVEAL": "1", notes.HOME: home})
        file = Path(home) / notes.FILE
        records = json.loads(file.read_text(encoding="utf-8")).get("records", {}) if file.is_file() else {}
    return {key: records[key] for key in records if key in CLAIMS and CLAIMS[key].notebook == path.stem[:2]}


def execute(path: Path, environment: dict[str, str]) -> None:
    """Run a notebook from top to bottom, with a bar that counts its cells; a cell that fails raises LessonError."""
    from tqdm.auto import tqdm

    try:
        notebook = nbformat.read(path, as_version=4)
    except ValueError as error:
        raise LessonError(f"{path.stem} is not a notebook: {_short(error)}") from None
    how = {"store_widget_state": False, "resources": {"metadata": {"path": str(path.parent)}}}
    client = NotebookClient(notebook, kernel_name="python3", **how)
    kernel = {"env": {**os.environ, **lab_environment(), **environment}, "stderr": subprocess.DEVNULL}
    try:
        # cell by cell, because NotebookClient.execute() turns an interrupt into an error of its own
        with client.setup_kernel(**kernel), tqdm(notebook.cells, desc=path.stem, unit="cell") as bar:
            for index, cell in enumerate(bar):
                try:
                    client.execute_cell(cell, index)
                except CellExecutionError as error:
                    raise LessonError(_where(path, notebook, index, f"{error.ename}: {error.evalue}")) from None
                except DeadKernelError:
                    raise LessonError(_where(path, notebook, index, "its kernel died, out of memory maybe")) from None
    except RuntimeError as error:
        raise LessonError(f"{path.stem} got no kernel: {_short(error)}") from None


def _where(path: Path, notebook: nbformat.NotebookNode, index: int, error: str) -> str:
    """Which cell failed, as JupyterLab counts them, and with what."""
    number = sum(cell.cell_type == "code" and bool(cell.source.strip()) for cell in notebook.cells[: index + 1])
    first = notebook.cells[index].source.strip().partition("\n")[0]
    return f"{path.stem} failed in code cell {number}, which begins `{first}`: {_short(error)}"


def _short(error: object) -> str:
    return shorten(str(error), 300, placeholder=" …")


# The table -----------------------------------------------------------------------------------------------------


def command(notebook: str, tables: Iterable[str] = ()) -> str:
    """What measures a claim again: the commands that make the tables on which it rests, then that of its notebook."""
    names: dict[str, list[str]] = {}
    for stem in tables:
        name, corpus = stem.rsplit("_", 1)
        names.setdefault(corpus, []).append(name)
    plain = results.CORPORA[0]  # the text that a command takes unless told otherwise
    made = [
        f"python -m lntutor results {' '.join(several)}" + (f" --corpus {corpus}" if corpus != plain else "")
        for corpus, several in names.items()
    ]
    return "; ".join([*made, f"python -m lntutor claims {notebook}"])


def kept() -> dict[str, dict]:
    """The rows of the file as it is, by claim; of one that is not there or makes no sense, none."""
    try:
        return stored().to_dict("index")
    except ValueError:
        return {}


def row(claim: Claim, entry: dict) -> dict[str, str]:
    """A row of the file, from what a notebook recorded or from an older row."""
    return {
        "key": claim.key,
        "notebook": claim.notebook,
        "source": claim.source,
        "where": claim.where,
        "claim": claim.words,
        "measured": entry.get("measured", NOT_YET),
        "spread": entry.get("spread", ""),
        "verdict": entry.get("verdict", NOT_YET),
        "command": entry.get("command") or command(claim.notebook, entry.get("tables", ())),
    }


def write(entries: dict[str, dict]) -> None:
    """Put the whole table in its place: every claim in order, with its entry where there is one."""
    table = pd.DataFrame([row(claim, entries.get(key, {})) for key, claim in CLAIMS.items()], columns=STORED)
    head = [
        "python -m lntutor claims",
        f"torch {version('torch').partition('+')[0]} at the last run",
        "what the lessons in notebooks/ record, each run in a kernel of its own; a row's command measures it again",
    ]
    results.write(table, results.FOLDER / FILE, head)


def page() -> str:
    """The stored ledger as one HTML file that needs nothing else."""
    return PAGE.format(ledger=stored_ledger()._repr_html_())


def update(path: Path) -> list[str]:
    """Run a notebook and write its rows anew; the claims of which it recorded nothing."""
    number, records = path.stem[:2], records_of(path)
    others = {key: entry for key, entry in kept().items() if key in CLAIMS and CLAIMS[key].notebook != number}
    write(others | records)
    return [key for key, claim in CLAIMS.items() if claim.notebook == number and key not in records]


# The command ---------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which notebooks."""
    parser.add_argument("numbers", nargs="*", metavar="NN", help="numbers of notebooks, such as 06 (default: all)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="run nothing; write the stored ledger as a web page")


def run(args: argparse.Namespace) -> int:
    """Run each notebook in turn; the file is whole after each of them. Or write what it has as a page."""
    try:
        if args.page:
            store.put(args.page, page())
            print(f"written: {args.page}")
            return 0
        paths = lessons(args.numbers)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    try:
        ended = [_told(path) for path in paths]
    except KeyboardInterrupt:
        print(f"stopped; the rows of the notebooks that have ended are in data/results/{FILE}")
        return 130
    if any(ended):
        print(f"written: data/results/{FILE}")
    return 0 if all(ended) else 1


def _told(path: Path) -> bool:
    """Update the rows of a notebook and say what is missing; whether it ran to its end."""
    try:
        silent = update(path)
    except LessonError as error:
        print(f"{error}. Its rows are left as they were.", file=sys.stderr)
        return False
    if silent:
        print(f"{path.stem} recorded nothing of {', '.join(silent)}")
    return True
