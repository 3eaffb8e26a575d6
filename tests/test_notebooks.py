"""Every notebook runs from top to bottom in a kernel of its own."""

import functools
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "notebooks").glob("*.ipynb"))


@functools.cache
def run_notebook(path: Path) -> list[nbformat.NotebookNode]:
    """All outputs of the notebook; nothing is written. A cell that raises, raises here."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=600,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.mark.notebook
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_without_errors_or_warnings(path):
    """Oracle: the kernel reports no error and nothing on the error stream."""
    before = path.read_bytes()
    outputs = run_notebook(path)
    assert outputs
    for output in outputs:
        assert output.output_type != "error"
        assert output.get("name") != "stderr", output.text
    assert path.read_bytes() == before


@pytest.mark.notebook
def test_the_first_notebook_says_that_the_environment_works():
    """Oracle: the doctor's lines, run inside a kernel."""
    printed = "".join(output.get("text", "") for output in run_notebook(NOTEBOOKS[0]))
    assert "ok    torch computes" in printed
    assert "FAIL" not in printed
