"""Write files in one step: under another name first, then renamed, so that no reader sees half a file.

Every file that this package writes is written here or, if it is downloaded, by pooch (`download.fetch_files`). A
process that is killed may leave a temporary file, which a later process removes.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX, SUFFIX = ".lntutor-", ".part"  # of the names of temporary files
OLD = 3600.0  # seconds after which a temporary file counts as left behind
_tidied: set[tuple[Path, str]] = set()


def put(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Write a file in one step, a str as UTF-8; if that fails, the old file stays as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tidy(path.parent)
    handle, name = tempfile.mkstemp(SUFFIX, PREFIX, path.parent)
    part = Path(name)
    try:
        with open(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        with suppress(OSError):  # a disk without such modes
            part.chmod(mode)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def tidy(folder: Path, pattern: str = f"{PREFIX}*{SUFFIX}") -> None:
    """Once per process and folder: remove old temporary files, also those with a time in the future."""
    if (folder, pattern) in _tidied:
        return
    _tidied.add((folder, pattern))
    for part in folder.glob(pattern):
        with suppress(OSError):
            if abs(time.time() - part.stat().st_mtime) > OLD:
                part.unlink()
