"""Shared settings of the tests: one torch thread, and the same hypothesis examples every time."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile("lntutor", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lntutor")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that drive a browser, and say which tests share a process where there are several.

    A file stays together, for the sake of its servers, and so does a notebook, which runs once for many tests. Quick
    tests come first, then notebooks, whose training runs are remembered when the browser opens them.
    """
    tests = Path(__file__).parent
    for item in items:
        if tests / "browser" in item.path.parents:
            item.add_marker("browser")
        notebook = getattr(item, "callspec", None) and item.callspec.params.get("path")
        name = notebook.stem if isinstance(notebook, Path) and notebook.suffix == ".ipynb" else ""
        item.add_marker(pytest.mark.xdist_group(f"{item.path.relative_to(tests).as_posix()} {name}"))
    items.sort(key=lambda item: [bool(item.get_closest_marker(name)) for name in ("browser", "notebook")])


@pytest.fixture(autouse=True, scope="session")
def own_notes(tmp_path_factory):
    """Notes of a reader who has just arrived: those of whoever runs the tests are left alone.

    Training runs are remembered for as long as the tests take, and for all their processes.
    """
    os.environ["LNTUTOR_HOME"] = str(tmp_path_factory.mktemp("notes"))
    own = tmp_path_factory.getbasetemp()
    os.environ["LNTUTOR_CACHE"] = str((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small matrices on a busy machine: more threads wait for each other, here and in the kernels that tests start."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture
def no_pause(monkeypatch):
    """For explorers: nothing happens in the background, and an error in a callback fails the test."""
    from lntutor.explore import base

    monkeypatch.setattr(base, "PAUSE", 3600)
    monkeypatch.setattr(base, "SOON", 3600)
    monkeypatch.setenv(base.STRICT, "1")
