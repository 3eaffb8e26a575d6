"""`python -m lntutor claims`: run the lessons and store what they record of each claim in data/results/claims.csv.

Each notebook runs anew in a kernel of its own, as a new reader with all answers shown: your own notes are neither read
nor changed, and no notebook is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import pandas as pd
from markupsafe import Markup

from lntutor.experiments import stored as results
from lntutor.lesson.claims import CLAIMS, FILE, NOT_YET, STORED, Claim, Ledger, counted, stored, stored_ledger
from lntutor.lesson.run_notebook import FOLDER, LessonError, by_number, run_anew
from lntutor.page.document import render
from lntutor.text import files

TEMPLATE = Path(__file__).resolve().parent / "ledger.html.j2"
BODY = """\
<h1>The claims ledger</h1>
<p>Every claim of the paper, the talk and those who came after that this course puts to the test: what was measured, how
far it spreads, our verdict, and the command that measures it again.</p>
<p><b>{counted}</b></p>
"""


# Notebooks -----------------------------------------------------------------------------------------------------


def lessons(numbers: Iterable[str] = ()) -> list[Path]:
    """The notebooks with these numbers, or all that have claims."""
    claimed = {claim.notebook for claim in CLAIMS.values()}
    paths = [path for path in FOLDER.glob("*.ipynb") if path.stem[:2] in claimed]
    return by_number(paths, numbers, " with claims")


def records_of(path: Path) -> dict[str, dict]:
    """Run a notebook; what it recorded, by claim, without the claims of other notebooks."""
    records = run_anew(path)[1]
    return {key: records[key] for key in records if key in CLAIMS and CLAIMS[key].notebook == path.stem[:2]}


# The table -----------------------------------------------------------------------------------------------------


def command(notebook: str, tables: Iterable[str] = ()) -> str:
    """The commands that measure a claim again: those for its stored tables, then the one that runs its notebook."""
    names: dict[str, list[str]] = {}
    for stem in tables:
        name, corpus = stem.rsplit("_", 1)
        names.setdefault(corpus, []).append(name)
    default = results.STORED_CORPORA[0]
    made = [
        f"python -m lntutor results {' '.join(stems)}" + (f" --corpus {corpus}" if corpus != default else "")
        for corpus, stems in names.items()
    ]
    return "; ".join([*made, f"python -m lntutor claims {notebook}"])


def kept() -> dict[str, dict]:
    """The rows of the stored file by claim; none where the file is missing or damaged."""
    try:
        return {str(claim): entry for claim, entry in stored().to_dict("index").items()}
    except ValueError:
        return {}


def row(claim: Claim, entry: dict) -> dict[str, str]:
    """One row of the file, from what a notebook recorded or from an older row."""
    again = entry.get("command") or command(claim.notebook, entry.get("tables", ()))
    found = [entry.get("measured", NOT_YET), entry.get("spread", ""), entry.get("verdict", NOT_YET), again]
    values = [claim.key, claim.notebook, claim.source, claim.where, claim.sentence, *found]
    return dict(zip(STORED, values, strict=True))


def write(entries: dict[str, dict]) -> None:
    """Write the file: every claim in order, with its entry where there is one."""
    table = pd.DataFrame([row(claim, entries.get(key, {})) for key, claim in CLAIMS.items()], columns=STORED)
    head = [
        "python -m lntutor claims",
        f"torch {version('torch').partition('+')[0]} at the last run",
        "what the lessons in notebooks/ record, each run in a kernel of its own; a row's command measures it again",
    ]
    results.write(table, results.FOLDER / FILE, head)


def page() -> str:
    """The stored ledger as one HTML file that needs nothing else."""
    return render(TEMPLATE, body=Markup(body()))


def body() -> str:
    """The stored ledger under its heading, one table per notebook, as HTML."""
    whole = stored_ledger()
    parts = [(title, Ledger(part, counted(part["verdict"].replace("", NOT_YET)))) for title, part in whole.parts()]
    tables = [f"<h2>{title}</h2>{part._repr_html_()}" for title, part in parts]
    return "\n".join([BODY.format(counted=whole.caption), *tables])


def update(path: Path) -> list[str]:
    """Run a notebook and replace its rows; the claims for which it recorded nothing."""
    number, records = path.stem[:2], records_of(path)
    others = {key: entry for key, entry in kept().items() if key in CLAIMS and CLAIMS[key].notebook != number}
    write(others | records)
    return [key for key, claim in CLAIMS.items() if claim.notebook == number and key not in records]


# The command ---------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("numbers", nargs="*", metavar="NN", help="numbers of notebooks, such as 06 (default: all)")
    page_help = "write the stored ledger as a web page and run nothing"
    parser.add_argument("--page", type=Path, metavar="FILE", help=page_help)


def run(args: argparse.Namespace) -> int:
    """Run each notebook in turn and rewrite the file after each; or write what the file has as a page."""
    if args.page:
        files.put(args.page, page())
        print(f"written: {args.page}")
        return 0
    try:
        ended = [_update_and_report(path) for path in lessons(args.numbers)]
    except (OSError, KeyboardInterrupt) as error:
        error.add_note(f"data/results/{FILE} has the rows of the notebooks that ended.")
        raise
    if any(ended):
        print(f"written: data/results/{FILE}")
    return 0 if all(ended) else 1


def _update_and_report(path: Path) -> bool:
    """Update the rows of a notebook and say which are missing; whether it ran to its end."""
    try:
        missing = update(path)
    except LessonError as error:
        print(f"{error}. Its rows stay as they were.", file=sys.stderr)
        return False
    if missing:
        print(f"{path.stem} recorded nothing for {', '.join(missing)}")
    return True
