"""The progress bar of all long work, by a clock that nobody sets."""

from __future__ import annotations

from time import monotonic
from typing import Any


def progress_bar(*items: Any, **options: Any):
    """tqdm's bar, whose own clock is the time of day: set back, it would stand still and count negative time."""
    from tqdm.auto import tqdm

    bar = tqdm(*items, **options)
    bar._time = monotonic
    bar.start_t = bar.last_print_t = monotonic()
    return bar
