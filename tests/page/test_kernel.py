"""The playground's kernel is what its source says, and its tables are numpy's."""

import runpy
from pathlib import Path

import pytest

from lntutor.page.playground import page

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(300)
def test_the_committed_kernel_is_what_its_source_compiles_to(tmp_path):
    """Oracle: ziglang's clang, of the version in requirements-dev.txt, byte by byte."""
    pytest.importorskip("ziglang", reason="pip install -r requirements-dev.txt brings the compiler")
    runpy.run_path(str(ROOT / "tools" / "kernel.py"))["build"](tmp_path / "kernel.wasm")
    assert (tmp_path / "kernel.wasm").read_bytes() == (page.HERE / "kernel.wasm").read_bytes()


def test_the_kernel_is_small_and_the_compiler_is_pinned():
    """Oracle: the file's size; the line of the requirements."""
    assert (page.HERE / "kernel.wasm").stat().st_size < 40_000
    assert "ziglang==" in (ROOT / "requirements-dev.txt").read_text("utf-8")
