"""Build lntutor/page/playground/kernel.wasm from kernel.c, with ziglang's clang. `python tools/kernel.py`"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "lntutor" / "page" / "playground"
FLAGS = (
    "--target=wasm32-freestanding", "-O3", "-msimd128", "-nostdlib", "-fno-builtin", "-s",
    "-Wl,--no-entry", "-Wl,--export=__heap_base",
)  # fmt: skip


def build(target: Path = HERE / "kernel.wasm") -> None:
    """Compile kernel.c to this file."""
    command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, str(HERE / "kernel.c"), "-o", str(target)]
    subprocess.run(command, check=True)
    target.chmod(0o644)


if __name__ == "__main__":
    build()
