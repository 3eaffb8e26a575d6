"""The servers, the browser and the pages that the tests of this folder use."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from lntutor.publish.browser import find_browser
from tests.browser.jupyter import (
    SECONDS,
    Notebook,
    Server,
    chromium,
    jupyterlab,
    new_notebook,
    project_command,
    scratch_command,
    voila,
    write_notebook,
)
from tests.browser.page_engine import Engine, engine_page


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab over the project, as `python -m lntutor lab` starts it."""
    with jupyterlab(tmp_path_factory.mktemp("home"), project_command()) as server:
        yield server


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for notebooks that tests write, far from those for readers."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="session")
def scratch_server(tmp_path_factory: pytest.TempPathFactory, scratch: Path) -> Iterator[Server]:
    """JupyterLab over the folder of the tests' own notebooks."""
    with jupyterlab(tmp_path_factory.mktemp("home"), scratch_command(scratch)) as server:
        yield server


@pytest.fixture(scope="session")
def voila_server(tmp_path_factory: pytest.TempPathFactory, scratch: Path) -> Iterator[Server]:
    """Voilà over the same folder."""
    with voila(tmp_path_factory.mktemp("home"), scratch) as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium or Chrome; without one the tests are skipped, or fail where CI=true."""
    program = find_browser()
    if program is None:
        reason = "no Chromium or Chrome found: install one or set LNTUTOR_BROWSER"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    with chromium(program) as browser:
        yield browser


@pytest.fixture(scope="module")
def engine(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The playground's engine alone in a page, one for a file's tests, as it keeps its samples."""
    with engine_page(browser, tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.fixture
def notebook(browser: Browser) -> Iterator[Notebook]:
    """An empty page; the test fails at its end if the page complained."""
    with new_notebook(browser) as notebook:
        yield notebook
    assert not notebook.complaints


@pytest.fixture
def in_lab(request: pytest.FixtureRequest, scratch: Path, notebook: Notebook) -> Callable[..., Notebook]:
    """A function that runs these cells in JupyterLab."""

    def run(*cells: str) -> Notebook:
        name = write_notebook(scratch / f"{request.node.originalname}.ipynb", *cells).stem
        server = request.getfixturevalue("scratch_server")
        server.end_kernels()
        notebook.open(server, name, folder="")
        notebook.run_all()
        assert not notebook.errors()
        return notebook

    return run


@pytest.fixture
def in_voila(request: pytest.FixtureRequest, scratch: Path, notebook: Notebook) -> Callable[..., Notebook]:
    """A function that shows the outputs of these cells in Voilà."""

    def run(*cells: str) -> Notebook:
        path = write_notebook(scratch / f"{request.node.originalname}.ipynb", *cells)
        server = request.getfixturevalue("voila_server")
        notebook.page.goto(f"{server.url}voila/render/{path.name}", timeout=120 * SECONDS)
        assert not notebook.errors()
        return notebook

    return run


@pytest.fixture(params=["in_lab", "in_voila"])
def run_cells(request: pytest.FixtureRequest) -> Callable[..., Notebook]:
    """A function that runs these cells in JupyterLab and, in a second test, in Voilà."""
    return request.getfixturevalue(request.param)
