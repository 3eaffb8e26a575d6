"""`python -m lntutor playground FILE`: the playground as one HTML file, which needs no network and no Python."""

from __future__ import annotations

import argparse
from pathlib import Path

from lntutor.text import files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the file to write, such as playground.html")


def run(args: argparse.Namespace) -> None:
    """Write the page; an older file stays until the new one is complete."""
    path = check(args.file)
    from lntutor.page.playground.page import page

    content = page().encode()
    files.put(path, content)
    print(f"{path}, {len(content) / 1e6:.1f} MB: open it in a browser, send it, or put it on any web server")


def check(path: Path) -> Path:
    """Refuse what is no page, and a folder that is not there."""
    if "\0" in str(path) or path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"FILE must be the name of a page, such as playground.html, got {str(path)!r}")
    if path.is_dir():
        raise ValueError(f"FILE must be a file, got {path}, which is a folder: name a file in it")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}: make it first, or name another")
    return path
