"""`python -m lntutor site`: the course as static pages that open from disk, without a network and without Python.

Each notebook runs in a kernel of its own, with all answers shown but folded, and is not run again until something
changes. The pages are written to a temporary folder beside their place, then moved there one by one.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from lntutor import ROOT
from lntutor.text import files

HERE = Path(__file__).resolve().parent
MARK = ".made-by-lntutor"  # marks a folder that may be replaced
ALL = ("All pages", "index.html")
PLAYGROUND = ("Playground", "playground.html")
TEACHING = "TEACHING.md"  # has the answers to the votes
GUIDES = {TEACHING: "teaching.html", "SERVER.md": "server.html"}  # in notebooks/
SHEET = "sheet.html"  # empty axes, to print
RESUME = "The notebooks that have run are remembered: the same command goes on from there."
INTRO = """\
<p>Put the layer norm elsewhere, and the gradient of every layer answers: <a href="playground.html">the playground</a>
computes in this browser. All pages open from disk: no network, no Python. Figures respond to the mouse, predictions
stay folded until you open them, and the code is behind every picture. A lesson prints as a handout without answers;
its button <em>with answers</em> prints them too. <code>make lab</code> and <code>make app</code> have live views of all
the rest.</p>
"""


def asset_files() -> dict[str, bytes]:
    """Name → content of the files that all pages share."""
    from plotly.offline import get_plotlyjs

    from lntutor.page.live import FIT

    files = {"plotly.min.js": get_plotlyjs().encode()}
    files["temml.min.js"] = gzip.decompress((HERE / "vendor" / "temml.min.js.gz").read_bytes())
    for path in ("vendor/temml.css", "vendor/stix-two-math.woff2", "page.css", "page.js"):
        files[Path(path).name] = (HERE / path).read_bytes()
    files["page.js"] = FIT.encode() + files["page.js"]
    return files


def addresses() -> dict[str, str]:
    """File of the course → page of the site."""
    from lntutor.publish.gallery import NOTEBOOKS

    guides = {name: page for name, page in GUIDES.items() if (ROOT / "notebooks" / name).is_file()}
    sheet = {SHEET: SHEET} if (ROOT / "notebooks" / SHEET).is_file() else {}
    lessons = {f"{tile.key}.ipynb": f"{tile.key}.html" for tile in NOTEBOOKS}
    return lessons | guides | sheet | {"claims.csv": "ledger.html"}


def notebooks() -> tuple[list[Path], list[Path]]:
    """The notebooks of the course, and others that lie beside them and are left out."""
    from lntutor.lesson import run_notebook as lessons
    from lntutor.publish.gallery import NOTEBOOKS

    here = sorted(lessons.FOLDER.glob("*.ipynb"))
    own = {tile.key for tile in NOTEBOOKS}
    return [path for path in here if path.stem in own], [path for path in here if path.stem not in own]


def start_page(pages: Iterable[str]) -> str:
    """The gallery with links to these pages."""
    from lntutor.publish import gallery

    pages = set(pages)

    def link(tile: gallery.Tile) -> str:
        own = PLAYGROUND[1] if tile is gallery.PLAYGROUND else f"{tile.key}.html"
        return own if own in pages else ""

    others = {
        "ledger.html": "The claims ledger: every claim, what was measured here, and our verdict",
        "teaching.html": "For lecturers: three plans, questions to vote on, tasks for pairs",
        SHEET: "Empty axes to sketch predictions on, to print",
        "server.html": "A class on a server",
    }
    rest = "".join(f'<li><a href="{page}">{text}</a></li>' for page, text in others.items() if page in pages)
    return gallery.page(link, INTRO, f"<h2>More</h2><ul>{rest}</ul>" if rest else "")


def lesson_page(stem: str, notebook) -> str:
    """A notebook with its outputs, as a page with links to its neighbours."""
    from lntutor.publish.gallery import NOTEBOOKS
    from lntutor.publish.site.pages import notebook_page

    keys = [tile.key for tile in NOTEBOOKS]
    at = keys.index(stem)
    near = [("Before: ", at - 1), ("Next: ", at + 1)]
    around = [(label + NOTEBOOKS[i].title, f"{keys[i]}.html") for label, i in near if 0 <= i < len(keys)]
    return notebook_page(notebook, addresses(), [ALL, PLAYGROUND, *around])


def ledger_page() -> str:
    """The stored ledger as a page."""
    from lntutor.lesson import ledger
    from lntutor.publish.gallery import NOTEBOOKS
    from lntutor.publish.site.pages import page

    titles = {tile.key[:2]: tile.title for tile in NOTEBOOKS}
    body = re.sub(r"<h2>Notebook (\d\d)", lambda found: f"<h2>{titles[found[1]]}", ledger.body())
    return page(body, [ALL, PLAYGROUND])


def guide_page(path: Path) -> str:
    """A guide in Markdown as a page."""
    from lntutor.publish.site.pages import markdown_page

    return markdown_page(path.read_text(encoding="utf-8"), addresses(), [ALL, PLAYGROUND])


def build(out: Path, numbers: Iterable[str] = (), teaching: bool = False) -> list[str]:
    """Make the site in a folder, replacing an older one; the names of its pages.

    `numbers` selects notebooks, such as "04" (default: all). With `teaching` the lecturer's page is among them.
    """
    from lntutor.lesson import run_notebook as lessons
    from lntutor.page.playground.page import page as playground

    paths = lessons.by_number(notebooks()[0], numbers)
    check(out)
    texts = {f"{path.stem}.html": lesson_page(path.stem, lessons.run(path)) for path in paths}
    texts |= {PLAYGROUND[1]: playground([ALL]), "ledger.html": ledger_page()}
    for name, page in addresses().items():
        if name in GUIDES and (teaching or name != TEACHING):
            texts[page] = guide_page(ROOT / "notebooks" / name)
        elif name == SHEET:
            texts[page] = (ROOT / "notebooks" / SHEET).read_text(encoding="utf-8")
    texts["index.html"] = start_page(texts)
    put(out, {name: text.encode() for name, text in texts.items()})
    return sorted(texts)


def check(out: Path) -> None:
    """Refuse a folder that holds files of somebody else, and one that cannot be written, before any notebook runs."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out must be a folder, got {out}, which is a file: name another")
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise ValueError(f"{out} has files that this command did not make: empty it, or name another folder with --out")
    parent = out.resolve().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=parent).close()
    except OSError as error:
        raise ValueError(f"{parent} cannot be written ({error.strerror}): name another folder with --out") from None


def put(out: Path, pages: dict[str, bytes]) -> None:
    """Write all files beside their place, move each there, then delete files of an older site.

    Whatever interrupts this, every page is complete, and the next call makes a complete site.
    """
    out = out.resolve()
    new = out.with_name(f".{out.name}.part")
    assets = {f"assets/{name}": data for name, data in asset_files().items()}
    contents = {MARK: b"python -m lntutor site\n", **assets, **pages}  # the mark first: from then on the folder is ours
    shutil.rmtree(new, ignore_errors=True)  # left by a call that was killed
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
    for path in sorted(out.rglob("*"), reverse=True):  # files before their folders
        if path.is_file() and path.relative_to(out).as_posix() not in contents:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


# The command ---------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("numbers", nargs="*", metavar="NN", help="numbers of notebooks, such as 04 (default: all)")
    out = {"type": Path, "default": ROOT / "site", "metavar": "FOLDER"}
    parser.add_argument("--out", **out, help="output folder (default: site/)")
    parser.add_argument("--teaching", action="store_true", help="add the lecturer's page, which has the answers")


def run(args: argparse.Namespace) -> None:
    """Make the site; what was there stays until the new one is complete."""
    from lntutor.lesson.run_notebook import LessonError

    for path in notebooks()[1]:
        print(f"left out: {path.name}, not a notebook of the course")
    try:
        pages = build(args.out, args.numbers, args.teaching)
    except (LessonError, OSError, KeyboardInterrupt) as error:
        error.add_note("No page was written." if isinstance(error, LessonError) else RESUME)
        raise
    size = sum(path.stat().st_size for path in args.out.rglob("*") if path.is_file())
    print(f"{len(pages)} pages, {size / 1e6:.1f} MB: open {args.out / 'index.html'} in a browser")
