"""How JupyterLab is started; tests/browser starts it for real."""

import pytest
from jupyterlab.labapp import LabApp

from lntutor.publish import lab


@pytest.mark.parametrize("name", ["00_start_here", "00_start_here.ipynb", "notebooks/00_start_here.ipynb"])
def test_a_notebook_is_found_by_name_or_path(name):
    """Oracle: the path of the first notebook."""
    assert lab.find_notebook(name) == lab.ROOT / "notebooks" / "00_start_here.ipynb"


def test_a_folder_without_notebooks_is_named(tmp_path):
    """Oracle: the folder that was searched stands in the message."""
    with pytest.raises(LookupError, match="run this from a clone"):
        lab.find_notebook(root=tmp_path)


def test_every_option_is_one_that_jupyterlab_knows():
    """Oracle: JupyterLab's own parser; the server is on loopback and no option touches the token or lets others in."""
    for options in ({}, {"browser": False}, {"port": 9999}):
        app = LabApp()
        app.parse_command_line(lab.lab_arguments(lab.find_notebook(), **options))
        assert not app.extra_args
        assert app.config.ServerApp.ip == "127.0.0.1"
        assert app.config.ServerApp.get("open_browser", True) is options.get("browser", True)
        assert app.config.LabApp.default_url == "/lab/tree/notebooks/00_start_here.ipynb"
        assert not {"token", "password", "allow_origin", "disable_check_xsrf"} & set(app.config.ServerApp)
        assert "IdentityProvider" not in app.config


@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_root_is_allowed_only_where_the_user_is_root(monkeypatch, user, allowed):
    """Oracle: Jupyter's --allow-root, wanted in containers alone."""
    monkeypatch.setattr("os.geteuid", lambda: user, raising=False)
    assert ("--allow-root" in lab.lab_arguments(lab.find_notebook())) is allowed


def test_a_config_path_of_the_user_is_kept_and_a_kernel_has_one_thread_unless_the_user_says_otherwise():
    """Oracle: both folders stand in the variable; the variable that torch reads."""
    assert lab.lab_environment({})["JUPYTER_CONFIG_PATH"] == str(lab.CONFIG)
    both = lab.lab_environment({"JUPYTER_CONFIG_PATH": "mine"})["JUPYTER_CONFIG_PATH"]
    assert both.endswith("mine")
    assert str(lab.CONFIG) in both
    assert lab.lab_environment({})["OMP_NUM_THREADS"] == "1"
    assert lab.lab_environment({"OMP_NUM_THREADS": "4"})["OMP_NUM_THREADS"] == "4"
