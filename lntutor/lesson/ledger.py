"""`python -m lntutor claims`: run the lessons, and store what they record of every claim in data/results/claims.csv.

Each notebook runs in a kernel of its own, with all answers shown, for a reader who has just arrived: the notes of
whoever asks for it are neither read nor changed, and no notebook is written.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from lntutor import files, notes, results
from lntutor.claims import CLAIMS, FILE, NOT_YET, STORED, Claim, stored, stored_ledger
from lntutor.lessons import FOLDER, LessonError, execute, numbered

KEPT = f"the rows of the notebooks that have ended are in data/results/{FILE}"
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
{body}
</main>
</body>
</html>
"""
BODY = """\
<h1>The claims ledger</h1>
<p>Every claim of the paper, the talk and those who came after that this course puts to the test: what was measured, how
far it spreads, our verdict, and the command that measures it again.</p>
<div class="output" tabindex="0">{ledger}</div>
"""


# Notebooks -----------------------------------------------------------------------------------------------------


def lessons(numbers: Iterable[str] = ()) -> list[Path]:
    """The notebooks of these numbers, or all of those that have claims and are here."""
    claimed = {claim.notebook for claim in CLAIMS.values()}
    paths = [path for path in FOLDER.glob("*.ipynb") if path.stem[:2] in claimed]
    return numbered(paths, numbers, " with claims")


def records_of(path: Path) -> dict[str, dict]:
    """What a notebook records, by claim; entries of other notebooks' claims are not its business."""
    with tempfile.TemporaryDirectory(prefix="lntutor-", ignore_cleanup_errors=True) as home:
        execute(path, {"LNTUTOR_REVEAL": "1", notes.HOME: home})
        file = Path(home) / notes.FILE
        records = json.loads(file.read_text(encoding="utf-8")).get("records", {}) if file.is_file() else {}
    return {key: records[key] for key in records if key in CLAIMS and CLAIMS[key].notebook == path.stem[:2]}


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
    return PAGE.format(body=body())


def body() -> str:
    """The stored ledger under its heading."""
    return BODY.format(ledger=stored_ledger()._repr_html_())


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
            files.put(args.page, page())
            print(f"written: {args.page}")
            return 0
        paths = lessons(args.numbers)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    try:
        ended = [_told(path) for path in paths]
    except KeyboardInterrupt:
        print(f"stopped; {KEPT}")
        return 130
    except OSError as error:
        print(f"data/results cannot be written ({error.strerror or error}); {KEPT}", file=sys.stderr)
        return 1
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
