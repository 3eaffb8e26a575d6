"""Fixtures of explorers: little work, at the pace of the test."""

import threading

import pytest

import lntutor as ln
from lntutor.explore import long_running
from lntutor.explore import training as training_explorer
from lntutor.training import trainer
from tests.explore.explorers import CURVATURE, TRAINING, until, wrap_work


@pytest.fixture
def quick_work(no_pause, monkeypatch):
    """Few sentences are translated and validated on, and every step is drawn."""
    monkeypatch.setattr(trainer, "VALIDATION", 1)
    monkeypatch.setattr(training_explorer, "PAIRS", 8)
    monkeypatch.setattr(long_running, "REDRAW", 0.0)


@pytest.fixture(params=[TRAINING, CURVATURE], ids=["training", "curvature"])
def work(request, quick_work):
    """Each kind of long work."""
    return request.param


@pytest.fixture
def gate(quick_work, monkeypatch):
    """Work goes on only as many steps as the test lets through."""
    gate = threading.Semaphore(0)

    def wait(_number: int) -> None:
        assert gate.acquire(timeout=60)

    wrap_work(monkeypatch, wait)
    return gate


@pytest.fixture
def start(gate):
    """A function that presses Run and waits until so many steps are made."""

    def start(explorer, steps: int) -> None:
        explorer.run()
        gate.release(steps)
        until(lambda: len(explorer.table()) == steps)

    return start


@pytest.fixture
def assign_mine():
    """A function that makes a rule the placement "mine" of the reader, until the test ends."""

    def assign(rule, formula: str = "x ← …", *reference) -> None:
        ln.PLACEMENTS["mine"] = ln.Placement("Mine", formula, rule, *reference)

    yield assign
    ln.PLACEMENTS.pop("mine", None)
