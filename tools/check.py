"""All checks in one run: lint, format, types, then pytest with the arguments given; the slowest tests come last.

The tests run even if lint fails; the exit code counts both.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINT = (["ruff", "check", "."], ["ruff", "format", "--check", "."], ["basedpyright", "--pythonpath", sys.executable])
PARALLEL = ["-n", "auto", "--dist", "loadgroup", "--no-loadscope-reorder"]  # one process per core: tests/conftest.py
SLOWEST = ["--durations=20", "--durations-min=1"]


def run(module: list[str]) -> int:
    """Exit code of `python -m module …` in the project folder."""
    print("$", *module, flush=True)
    return subprocess.call([sys.executable, "-m", *module], cwd=ROOT)


def main(pytest_arguments: list[str]) -> int:
    """1 if lint or tests failed, else 0; pytest prints last."""
    failed = [" ".join(step) for step in LINT if run(step)]
    if failed:
        print("FAILED:", ", ".join(failed), "(try `make format`); the tests run anyway", flush=True)
    return 1 if run(["pytest", *PARALLEL, *SLOWEST, *pytest_arguments]) or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
