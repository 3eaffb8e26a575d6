"""Files that are whole at any time: written beside their place, then put there in one step.

Every file that this package leaves behind goes through here or, where it comes from the network, through
`download.fetch`. A process that is killed leaves the old file or the new one, and maybe a part with a name of ours,
which a later process removes.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX, SUFFIX = ".lntutor-", ".part"  # of what is being written
OLD = 3600.0  # seconds after which a part belongs to nobody
_tidied: set[Path] = set()


def put(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Put a file in its place whole, text as UTF-8; where that fails the old one stays, and nothing else."""
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


def tidy(folder: Path) -> None:
    """Once a process: remove the parts that killed ones left here, by a clock that may have been set since."""
    if folder in _tidied:
        return
    _tidied.add(folder)
    for part in folder.glob(f"{PREFIX}*{SUFFIX}"):
        with suppress(OSError):
            if abs(time.time() - part.stat().st_mtime) > OLD:
                part.unlink()
