"""`python -m lntutor site`: the course as static pages that open from disk, without a network and without Python.

Every notebook is run in a kernel of its own, with all answers there but folded; what has not changed since is not run
again. The pages are made beside their place; each is put there whole.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from html import escape
from pathlib import Path

from lntutor import files
from lntutor.lab import ROOT

HERE = Path(__file__).resolve().parent
MARK = ".made-by-lntutor"  # a folder with this file may be replaced
ALL = ("All pages", "index.html")
GUIDES = {"TEACHING.md": "teaching.html", "SERVER.md": "server.html"}  # in notebooks/
SHEET = "sheet.html"  # empty axes, to print
INTRO = """\
<p>Move LN, and the gradient of every layer moves with it. These pages open from disk: no network, no Python. Figures
answer the mouse, predictions are folded until you open them, and the code is behind every picture. One explorer has
controls that work here, over a fixed grid; <code>make lab</code> and <code>make app</code> have nine, live.</p>
"""


def asset_files() -> dict[str, bytes]:
    """Name → content of what the pages share."""
    from plotly.offline import get_plotlyjs

    files = {"plotly.min.js": get_plotlyjs().encode()}
    files["temml.min.js"] = gzip.decompress((HERE / "vendor" / "temml.min.js.gz").read_bytes())
    for path in ("vendor/temml.css", "vendor/stix-two-math.woff2", "page.css", "page.js"):
        files[Path(path).name] = (HERE / path).read_bytes()
    return files


def addresses() -> dict[str, str]:
    """File of the course → page of the site."""
    from lntutor.gallery import NOTEBOOKS

    guides = {name: page for name, page in GUIDES.items() if (ROOT / "notebooks" / name).is_file()}
    sheet = {SHEET: SHEET} if (ROOT / "notebooks" / SHEET).is_file() else {}
    return (
        {f"{tile.key}.ipynb": f"{tile.key}.html" for tile in NOTEBOOKS} | guides | sheet | {"claims.csv": "ledger.html"}
    )


def start_page(pages: Iterable[str]) -> str:
    """The gallery, with links to these pages."""
    from lntutor import gallery

    pages = set(pages)

    def link(tile: gallery.Tile) -> str:
        own = "gradients.html" if tile.key == "GradientExplorer" else f"{tile.key}.html"
        return own if own in pages else ""

    others = {
        "ledger.html": "The claims ledger: every claim, what was measured here, and our verdict",
        "teaching.html": "For lecturers: three plans, questions to vote on, tasks for pairs",
        SHEET: "Empty axes to sketch predictions on, to print",
        "server.html": "A class on a server",
    }
    rest = "".join(f'<li><a href="{page}">{words}</a></li>' for page, words in others.items() if page in pages)
    return gallery.page(link, INTRO, f"<h2>More</h2><ul>{rest}</ul>" if rest else "")


def lesson_page(stem: str, notebook) -> str:
    """A notebook that has been run, as a page with links to its neighbours."""
    from lntutor.gallery import NOTEBOOKS
    from lntutor.site.pages import notebook_page

    keys = [tile.key for tile in NOTEBOOKS]
    at = keys.index(stem)
    near = [("Before: ", at - 1), ("Next: ", at + 1)]
    around = [(words + NOTEBOOKS[i].title, f"{keys[i]}.html") for words, i in near if 0 <= i < len(keys)]
    return notebook_page(notebook, addresses(), [ALL, *around])


def ledger_page() -> str:
    """The stored ledger."""
    from lntutor import ledger
    from lntutor.site.pages import page

    return page(ledger.body(), [ALL])


def guide_page(path: Path) -> str:
    """A guide in Markdown."""
    from lntutor.site.pages import markdown_page

    return markdown_page(path.read_text(encoding="utf-8"), addresses(), [ALL])


def build(out: Path, numbers: Iterable[str] = (), grid: dict | None = None) -> list[str]:
    """Make the site in a folder, in place of the one that was there; the names of its pages.

    `numbers` names notebooks, such as "04" (none: all of them); `grid` a part of the explorer's grid.
    """
    from lntutor import lessons
    from lntutor.site import explorer

    paths = lessons.numbered(lessons.FOLDER.glob("*.ipynb"), numbers)
    check(out)
    links = f'<a href="{ALL[1]}">{escape(ALL[0])}</a>'
    texts = {f"{path.stem}.html": lesson_page(path.stem, lessons.revealed(path)) for path in paths}
    texts |= {"gradients.html": explorer.page(links, **(grid or {})), "ledger.html": ledger_page()}
    for name, page in addresses().items():
        if name in GUIDES:
            texts[page] = guide_page(ROOT / "notebooks" / name)
        elif name == SHEET:
            texts[page] = (ROOT / "notebooks" / SHEET).read_text(encoding="utf-8")
    texts["index.html"] = start_page(texts)
    put(out, {name: text.encode() for name, text in texts.items()})
    return sorted(texts)


def check(out: Path) -> None:
    """Refuse a folder with files of somebody else's in it, and one that cannot be written, before the work."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out must be a folder, got {out}, which is a file: name another")
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise ValueError(f"{out} has files that this command did not make: empty it, or name another folder with --out")
    out.resolve().parent.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=out.resolve().parent).close()


def put(out: Path, pages: dict[str, bytes]) -> None:
    """Write all files beside their place, then put each there; what is no longer part of the site leaves last.

    Whatever stops this, every page is whole, and the next call makes a whole site.
    """
    out = out.resolve()
    new = out.with_name(f".{out.name}.part")
    assets = {f"assets/{name}": data for name, data in asset_files().items()}
    contents = {MARK: b"python -m lntutor site\n", **assets, **pages}  # the mark first: the folder is ours from then on
    shutil.rmtree(new, ignore_errors=True)  # of a call that was killed
    try:
        for name, content in contents.items():
            files.put(new / name, content)
        if not out.exists():
            os.replace(new, out)
            return
        for name in contents:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(new / name, out / name)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    for path in sorted(out.rglob("*"), reverse=True):  # what is in a folder before the folder
        if path.is_file() and path.relative_to(out).as_posix() not in contents:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


# The command ---------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which notebooks, and where to."""
    parser.add_argument("numbers", nargs="*", metavar="NN", help="numbers of notebooks, such as 04 (default: all)")
    parser.add_argument("--out", type=Path, default=ROOT / "site", metavar="FOLDER", help="where to (default: site/)")


def run(args: argparse.Namespace) -> int:
    """Make the site; what was there stays until the new one is whole."""
    from lntutor.lessons import LessonError

    try:
        pages = build(args.out, args.numbers)
    except LessonError as error:
        print(f"{error}. No page was written.", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error}. The notebooks that have run are remembered; the same command goes on.", file=sys.stderr)
        return 2
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "\nStopped. The same command goes on from here: the notebooks that have run are remembered.",
            file=sys.stderr,
        )
        return 130
    size = sum(path.stat().st_size for path in args.out.rglob("*") if path.is_file())
    print(f"{len(pages)} pages, {size / 1e6:.1f} MB: open {args.out / 'index.html'} in a browser")
    return 0
