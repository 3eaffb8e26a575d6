"""How many torch threads work uses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LOCK = threading.Lock()
_OWN = threading.local()  # .depth: how many `one_thread` blocks this thread is inside
_inside = 0  # threads inside a block
_before = 0  # torch's count when the first of them entered


@contextmanager
def one_thread() -> Iterator[None]:
    """Run on one torch thread: beside a browser and a server, more threads wait for each other.

    torch keeps one count per thread and one for threads to come, and `set_num_threads` sets both. So the count to
    restore is read by the first thread that enters, and every thread restores it for itself when it leaves.
    """
    global _inside, _before
    _OWN.depth = getattr(_OWN, "depth", 0) + 1
    if _OWN.depth == 1:
        count = torch.get_num_threads()  # asked for in any case: only then does `set` last in a new thread
        with _LOCK:
            if not _inside:
                _before = count
            _inside += 1
            torch.set_num_threads(1)
    try:
        yield
    finally:
        _OWN.depth -= 1
        if not _OWN.depth:
            with _LOCK:
                _inside -= 1
                torch.set_num_threads(_before)
