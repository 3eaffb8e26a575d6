"""Python processes that tests start."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_python(code: str, *arguments: str, options: tuple[str, ...] = (), **environment: str) -> str:
    """What code prints in a process of its own; one that fails raises its error output here."""
    command = [sys.executable, "-X", "utf8", *options, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout
