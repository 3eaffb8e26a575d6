"""tqdm on a monotonic clock."""

from __future__ import annotations

from time import monotonic
from typing import Any


def progress_bar(*items: Any, **options: Any):
    """A tqdm bar. tqdm's own clock is the time of day: when that is set back, a bar stands still."""
    from tqdm.auto import tqdm

    bar: Any = tqdm(*items, **options)
    bar._time = monotonic
    bar.start_t = bar.last_print_t = monotonic()
    return bar
