"""One kernel run per notebook, with all answers shown: remembered for all tests and processes of a session."""

import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from lntutor.experiments import cache
from lntutor.lesson import notes
from lntutor.lesson import run_notebook as lessons

NOTEBOOKS = sorted(lessons.FOLDER.glob("*.ipynb"))
COVERED = """\
import json

from lntutor.lesson import question as page

print(json.dumps({name: reference().static() for name, reference in page._ON_PAGE.items()}))
"""  # prints: question → its HTML now
REVEAL = """\
from lntutor.lesson import question as page

page._switch.set()
page._ON_PAGE[{name!r}]().refresh()
"""  # shows one answer; all at once, a busy page gives some of the plots up
FOUND = """\
import json

from lntutor.lesson import question as page
from lntutor.lesson.claims import CLAIMS
from lntutor.lesson.notes import NOTES

pages = {name: reference() for name, reference in page._ON_PAGE.items()}
answers = {name: p._result[1] for name, p in sorted(pages.items()) if hasattr(p, "_result")}
records = {key: NOTES.get("records", key) for key in CLAIMS if NOTES.get("records", key)}
print(json.dumps({"answers": answers, "records": records}))
"""  # prints: prediction → what was measured, and claim → its record; for who has not guessed, this is after all cells


@functools.cache
def run(path: Path) -> tuple[nbformat.NotebookNode, dict]:
    """(the notebook with its outputs, what FOUND printed after the last cell); a cell that raises, raises here."""
    name = lessons.entry_name(path)
    notebook, found = cache.load(name), cache.load(f"{name}-found")
    if notebook and found:
        return nbformat.from_dict(notebook), found
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(FOUND))
    how = {"timeout": 1200, "store_widget_state": False, "resources": {"metadata": {"path": str(path.parent)}}}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        environment = {**os.environ, "LNTUTOR_REVEAL": "1", "LNTUTOR_STRICT": "1", notes.HOME: home}
        NotebookClient(notebook, kernel_name="python3", **how).execute(env=environment, stderr=subprocess.DEVNULL)
    last = notebook.cells.pop()
    printed = "".join(output.text for output in last.outputs if output.get("name") == "stdout")
    lessons.remember(path, notebook)  # the site's tests read it, too
    cache.save(f"{name}-found", printed)
    return notebook, json.loads(printed)
