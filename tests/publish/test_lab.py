"""How JupyterLab is started; tests/browser starts it for real."""

import pytest
from jupyterlab.labapp import LabApp

from lntutor import lab
from lntutor.__main__ import main


@pytest.mark.parametrize("name", ["00_start_here", "00_start_here.ipynb", "notebooks/00_start_here.ipynb"])
def test_a_notebook_is_found_by_name_or_path(name):
    """Oracle: the path of the first notebook."""
    assert lab.find_notebook(name) == lab.ROOT / "notebooks" / "00_start_here.ipynb"


def test_a_mistyped_notebook_is_answered_with_the_nearest(capsys):
    """Oracle: the name that was meant, and no server started."""
    assert main(["lab", "00_star_here"]) == 2
    assert "did you mean '00_start_here'?" in capsys.readouterr().err


def test_a_folder_without_notebooks_is_named(tmp_path):
    """Oracle: the folder that was searched stands in the message."""
    with pytest.raises(LookupError, match="run this from a clone"):
        lab.find_notebook(root=tmp_path)


def test_every_option_is_one_that_jupyterlab_knows():
    """Oracle: JupyterLab's own parser; the server is on loopback and no option touches the token."""
    arguments = lab.lab_arguments(lab.find_notebook(), browser=False)
    app = LabApp()
    app.parse_command_line(arguments)
    assert not app.extra_args
    assert app.config.ServerApp.ip == "127.0.0.1"
    assert app.config.ServerApp.open_browser is False
    assert app.config.LabApp.default_url == "/lab/tree/notebooks/00_start_here.ipynb"
    assert not any("token" in argument or "password" in argument for argument in arguments)


@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_root_is_allowed_only_where_the_user_is_root(monkeypatch, user, allowed):
    """Oracle: Jupyter's --allow-root, wanted in containers alone."""
    monkeypatch.setattr("os.geteuid", lambda: user, raising=False)
    assert ("--allow-root" in lab.lab_arguments(lab.find_notebook())) is allowed


def test_a_config_path_of_the_user_is_kept():
    """Oracle: both folders stand in the variable."""
    assert lab.lab_environment({})["JUPYTER_CONFIG_PATH"] == str(lab.CONFIG)
    both = lab.lab_environment({"JUPYTER_CONFIG_PATH": "mine"})["JUPYTER_CONFIG_PATH"]
    assert both.endswith("mine")
    assert str(lab.CONFIG) in both


def test_a_kernel_has_one_thread_unless_the_user_says_otherwise():
    """Oracle: the variable that torch reads."""
    assert lab.lab_environment({})["OMP_NUM_THREADS"] == "1"
    assert lab.lab_environment({"OMP_NUM_THREADS": "4"})["OMP_NUM_THREADS"] == "4"
