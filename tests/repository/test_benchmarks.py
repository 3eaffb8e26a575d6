"""Every benchmark still runs: in its short mode, without a look at the times that it measures."""

import ast
import re
import subprocess
import sys

import pytest

from tests.processes import ROOT

BENCHMARKS = sorted((ROOT / "benchmarks").glob("[a-z]*.py"))


@pytest.mark.notebook  # starts servers, kernels and a browser
@pytest.mark.timeout(600)
@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda script: script.stem)
def test_a_benchmark_runs_and_ends_with_its_ratio(script):
    """Oracle: exit code 0 and one line `ratio X.X`, the last; or a sentence that names what is missing here."""
    done = subprocess.run([sys.executable, script, "--short"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    if last.startswith("left out: "):
        pytest.skip(last)
    assert re.fullmatch(r"ratio \d+\.\d+", last)
    assert not [line for line in lines if line.startswith("ratio ")]


@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda script: script.stem)
def test_a_benchmark_names_its_peer(script):
    """Oracle: the docstring on top of the file."""
    assert re.search("^Ratio: | Ratio: |Peer: ", ast.get_docstring(ast.parse(script.read_text("utf-8"))), re.MULTILINE)
