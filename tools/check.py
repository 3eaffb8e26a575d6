"""All checks in one run: lint, format, then pytest with whatever arguments were given.

A failing lint does not keep the tests from running; the exit code counts both.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINT = (["ruff", "check", "."], ["ruff", "format", "--check", "."])
PARALLEL = ["-n", "auto", "--dist", "loadgroup", "--no-loadscope-reorder"]  # a process a core; see tests/conftest.py


def run(module: list[str]) -> int:
    """Exit code of `python -m module …` in the project folder."""
    print("$", *module, flush=True)
    return subprocess.call([sys.executable, "-m", *module], cwd=ROOT)


def main(pytest_arguments: list[str]) -> int:
    """1 if lint or tests failed; pytest speaks last."""
    failed = [" ".join(step) for step in LINT if run(step)]
    if failed:
        print("FAILED:", ", ".join(failed), "(try `make format`); the tests run all the same", flush=True)
    return 1 if run(["pytest", *PARALLEL, *pytest_arguments]) or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
