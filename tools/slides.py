"""Present every notebook on a screen of 1280 × 720 and say which slides are taller: they scroll.

`.venv/bin/python tools/slides.py` (needs the tools of requirements-dev.txt and a browser); numbers after it, as
`00 05`, choose notebooks, and `--pictures FOLDER` keeps a picture of every slide.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks._timing import show  # noqa: E402
from lntutor.lesson.run_notebook import FOLDER, by_number  # noqa: E402
from lntutor.publish.browser import find_browser  # noqa: E402
from tests.browser.jupyter import Notebook, chromium, jupyterlab, new_notebook, project_command  # noqa: E402
from tests.browser.test_lecture import HEIGHT, ON_SCREEN, SCREEN, present  # noqa: E402

IDENTITY = f"""() => {{
    const cells = [...document.querySelectorAll('{ON_SCREEN}')]
    return cells.map(cell => cell.textContent.slice(0, 80)).join('|')
}}"""
LAST = 8  # presses of the space bar that change nothing: the end


def main() -> None:
    """Walk through the slides of the notebooks that are asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("numbers", nargs="*", help="of notebooks, as 00 05")
    parser.add_argument("--pictures", type=Path, help="folder for a picture of every slide")
    args = parser.parse_args()
    try:
        lessons = by_number(FOLDER.glob("*.ipynb"), args.numbers)
    except ValueError as error:
        parser.error(str(error))
    os.environ["LNTUTOR_REVEAL"] = "1"
    rows = []
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        chromium(find_browser()) as browser,
        jupyterlab(Path(home), [*project_command(), "--lecture"]) as server,
    ):
        for lesson in lessons:
            server.end_kernels()
            with new_notebook(browser) as notebook:
                present(notebook, server, lesson.stem)
                rows.append((lesson.stem, *summary(heights(notebook, lesson.stem, args.pictures))))
            print(*rows[-1], flush=True)
    slides, taller = (sum(row[column] for row in rows) for column in (1, 2))
    show(rows, ("notebook", "slides", "taller", "px over, by slide"))
    print(f"{taller} of {slides} slides are taller than {SCREEN['height']} px")


def heights(notebook: Notebook, name: str, pictures: Path | None) -> list[float]:
    """Of every slide, in pixels."""
    found, before, same = [], None, 0
    while same < LAST:
        notebook.page.wait_for_timeout(300)  # plots fit themselves to the slide
        now = notebook.page.evaluate(IDENTITY)
        same = same + 1 if now == before else 0
        if not same:
            found.append(notebook.page.locator(ON_SCREEN).evaluate_all(HEIGHT))
            if pictures:
                notebook.page.screenshot(path=pictures / f"{name}_{len(found):02d}.png")
        before = now
        notebook.page.keyboard.press("Space")
    return found


def summary(found: list[float]) -> tuple[int, int, str]:
    """How many slides, how many too tall, and by how much, each with its number."""
    over = {i: height - SCREEN["height"] for i, height in enumerate(found, start=1) if height > SCREEN["height"]}
    return len(found), len(over), ", ".join(f"{i}: {px:.0f}" for i, px in over.items())


if __name__ == "__main__":
    main()
