"""Close an explorer when the cells that made or showed it have been run again.

The page drops the old output without telling the kernel. Without this module the old explorer would go on computing,
and ipywidgets would keep it for as long as the kernel lives.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

_HELD: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()  # explorer → cell → which run of it
_HOOKED: weakref.WeakSet[Any] = weakref.WeakSet()  # shells that call `_close_replaced` after each cell


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def _run(shell: Any) -> tuple[str, str] | None:
    """(cell, id of this run of it); None where the page does not say."""
    request = shell.get_parent() if hasattr(shell, "get_parent") else {}
    cell = request.get("metadata", {}).get("cellId")
    return (cell, request["header"]["msg_id"]) if cell else None


def hold(explorer: Any) -> None:
    """Note that the running cell makes or shows this explorer."""
    shell = _shell()
    run = _run(shell)
    if run is None:
        return
    cell, request = run
    _HELD.setdefault(explorer, {})[cell] = request
    if shell not in _HOOKED:
        _HOOKED.add(shell)
        shell.events.register("post_run_cell", lambda _result: _close_replaced(shell))


def _close_replaced(shell: Any) -> None:
    """Close the explorers that only an earlier run of this cell held, except those that the reader has named."""
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
