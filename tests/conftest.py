"""Shared settings of the tests: one torch thread, and the same hypothesis examples every time."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile("lntutor", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lntutor")


TESTS = Path(__file__).parent
LONGEST = (  # groups of a minute or more, longest first: with one of them last, one core works and the other waits
    "browser/test_explore.py", "browser/test_live.py", "browser/test_lesson.py", "07_criticisms", "06_warmup",
    "publish/test_server.py", "08_curvature", "09_after_the_paper", "repository/test_benchmarks.py",
    "browser/test_everyone.py", "05_gradients", "04_mean_field", "browser/test_faults.py",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that drive a browser, group those that run in one process, and set the order of the groups.

    A group is a file, whose tests share servers, or a notebook in a file, which runs once for many tests. Quick tests
    come first, then notebooks, whose runs are remembered when the browser opens them; the longest first in each part.
    """
    for item in items:
        if TESTS / "browser" in item.path.parents:
            item.add_marker("browser")
        item.add_marker(pytest.mark.xdist_group(group(item)))
    items.sort(key=order)


def group(item: pytest.Item) -> str:
    """The file of a test, and the notebook that it is about."""
    path = item.callspec.params.get("path") if hasattr(item, "callspec") else None
    notebook = path.stem if isinstance(path, Path) and path.suffix == ".ipynb" else ""
    return f"{item.path.relative_to(TESTS).as_posix()} {notebook}".strip()


def order(item: pytest.Item) -> tuple[bool, bool, int]:
    """In a browser, in a notebook, and the place among the longest."""
    name = group(item)
    place = next((i for i, part in enumerate(LONGEST) if part in name), len(LONGEST))
    return *(bool(item.get_closest_marker(mark)) for mark in ("browser", "notebook")), place


@pytest.fixture(autouse=True, scope="session")
def own_notes(tmp_path_factory):
    """A new reader's empty notes and corpora, and one cache for all processes of the session: nothing trains twice."""
    os.environ["LNTUTOR_HOME"] = str(tmp_path_factory.mktemp("notes"))
    os.environ["LNTUTOR_CORPORA"] = str(tmp_path_factory.mktemp("corpora"))
    own = tmp_path_factory.getbasetemp()
    os.environ["LNTUTOR_CACHE"] = str((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """One torch thread, here and in kernels that tests start: threads on small matrices wait for each other."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session")
def corpus():
    """The captions that ship."""
    from lntutor.text.corpus import load_corpus

    return load_corpus("captions")


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    """An empty cache for one test."""
    monkeypatch.setenv("LNTUTOR_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def no_pause(monkeypatch):
    """Explorers do nothing in the background, and an error in a callback fails the test."""
    from lntutor.explore import base

    monkeypatch.setattr(base, "PAUSE", 3600)
    monkeypatch.setenv(base.STRICT, "1")
