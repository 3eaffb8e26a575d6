"""JupyterLab as `make lab` opens it."""

import psutil
import pytest

from tests.browser.jupyter import status_code


@pytest.mark.parametrize("path", ["api/contents", "api/kernels", "api/sessions"])
def test_without_the_token_the_server_refuses(server, path):
    """Oracle: HTTP's 403 without the token, 200 with it, under the default settings."""
    assert len(server.token) >= 32
    assert status_code(f"{server.url}{path}") == 403
    assert status_code(f"{server.url}{path}?token=wrong") == 403
    assert status_code(f"{server.url}{path}?token={server.token}") == 200


def test_the_server_listens_on_loopback_only(server):
    """Oracle: the operating system's list of the ports that the process listens on."""
    connections = psutil.Process(server.pid).net_connections(kind="tcp")
    listening = {entry.laddr.ip for entry in connections if entry.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}


def test_the_start_page_opens_at_the_first_notebook(server, notebook):
    """Oracle: the tab in front, having asked for no page in particular."""
    notebook.page.goto(f"{server.url}?token={server.token}")
    notebook.wait_for_idle()
    assert notebook.title() == "00_start_here.ipynb"
