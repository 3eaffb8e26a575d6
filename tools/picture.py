"""Take the README's picture: the gradient explorer in a real JupyterLab, as a reader sees it.

`.venv/bin/python tools/picture.py` (needs the tools of requirements-dev.txt and a browser) writes
notebooks/pictures/gradient_explorer.png.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from lntutor.browser import find_browser  # noqa: E402
from tests.browser.jupyter import SECONDS, chromium, jupyterlab, new_notebook, scratch_command, write_notebook  # noqa: E402

PICTURE = ROOT / "notebooks" / "pictures" / "gradient_explorer.png"
CELLS = ("from lntutor.explore import GradientExplorer", "GradientExplorer(seeds=5)")


def main() -> None:
    """Open, run, wait until all seeds are drawn, and take the output's picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium(find_browser()) as browser:
        home, scratch = Path(folder, "home"), Path(folder, "scratch")
        home.mkdir()
        scratch.mkdir()
        write_notebook(scratch / "picture.ipynb", *CELLS)
        with jupyterlab(home, scratch_command(scratch)) as server, new_notebook(browser) as notebook:
            notebook.page.set_viewport_size({"width": 1280, "height": 1200})
            notebook.open(server, "picture", folder="")
            notebook.run_all()
            notebook.page.locator(".lntutor-live .main-svg").first.wait_for(timeout=60 * SECONDS)
            notebook.page.wait_for_timeout(4 * SECONDS)
            notebook.page.locator(".jp-OutputArea-output", has=notebook.page.locator(".lntutor-live")).screenshot(
                path=PICTURE
            )


if __name__ == "__main__":
    main()
