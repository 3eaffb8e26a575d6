"""One torch thread for live work, entered and left by several threads at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from lntutor.model.threads import one_thread


@pytest.fixture
def two_threads():
    """A process in which torch uses two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def in_new_thread() -> int:
    """torch's count in a thread that has just been started."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


@pytest.mark.parametrize("first_out", ["first in", "last in"])
def test_calls_that_overlap_leave_every_count_as_it_was(two_threads, first_out):
    """Oracle: torch's own count, in both threads inside and after, here, and in a new thread."""
    inside, leave = ({name: threading.Event() for name in ("first in", "last in")} for _ in range(2))

    def work(name: str) -> tuple[int, int]:
        with one_thread():
            inside[name].set()
            assert leave[name].wait(10)
            within = torch.get_num_threads()
        return within, torch.get_num_threads()

    with ThreadPoolExecutor(2) as pool:
        working = {}
        for name, entered in inside.items():
            working[name] = pool.submit(work, name)
            assert entered.wait(10)
        for name in sorted(leave, key=lambda name: name != first_out):
            leave[name].set()
            assert working[name].result(10) == (1, 2)
    assert (torch.get_num_threads(), in_new_thread()) == (2, 2)


def test_a_block_inside_a_block_stays_on_one_thread(two_threads):
    """Oracle: torch's own count."""
    with one_thread():
        with one_thread():
            pass
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
