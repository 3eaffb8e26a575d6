"""Which cells of a notebook hold an explorer, so that one leaves the kernel when its cells have been run again.

The page throws the old output away, and no message says so. Without this the old explorer would go on computing, and
ipywidgets would keep it for as long as the kernel lives.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

_HELD: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()  # explorer → cell → which run of it
_TOLD: weakref.WeakSet[Any] = weakref.WeakSet()  # shells that call `_leave` after each cell


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def _run(shell: Any) -> tuple[str, str] | None:
    """The cell that is being run, and which run of it this is; None where the page does not say."""
    request = shell.get_parent() if hasattr(shell, "get_parent") else {}
    cell = request.get("metadata", {}).get("cellId")
    return (cell, request["header"]["msg_id"]) if cell else None


def hold(explorer: Any) -> None:
    """Note that the cell being run makes this explorer, or shows it."""
    shell = _shell()
    run = _run(shell)
    if run is None:
        return
    cell, request = run
    _HELD.setdefault(explorer, {})[cell] = request
    if shell not in _TOLD:
        _TOLD.add(shell)
        shell.events.register("post_run_cell", lambda _result: _leave(shell))


def _leave(shell: Any) -> None:
    """Close the explorers that the cell just run has held before and no cell holds now, but for those with a name."""
    run = _run(shell)
    if run is None:
        return
    cell, request = run
    named = {id(value) for name, value in shell.user_ns.items() if not name.startswith("_")}
    for explorer, cells in list(_HELD.items()):
        if cells.get(cell, request) != request:
            del cells[cell]
        if not cells and id(explorer) not in named:
            del _HELD[explorer]
            explorer.close()
