"""The command line as a user meets it."""

import subprocess
import sys

import pytest

from lntutor.__main__ import COMMANDS, main


def test_no_command_prints_help(capsys):
    """Oracle: the dict of commands, each with its summary."""
    assert main([]) == 0
    printed = capsys.readouterr().out
    for name, (summary, _) in COMMANDS.items():
        assert name in printed
        assert summary in printed


@pytest.mark.parametrize(("typed", "meant"), [("docter", "doctor"), ("labs", "lab"), ("date", "data")])
def test_an_unknown_command_is_answered_with_the_nearest(capsys, typed, meant):
    """Oracle: argparse's exit code for a wrong command line, 2."""
    with pytest.raises(SystemExit) as stopped:
        main([typed])
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert repr(typed) in message
    assert f"did you mean {meant!r}?" in message


def test_every_command_has_help(capsys):
    """Oracle: argparse's exit code for help, 0."""
    for name in COMMANDS:
        with pytest.raises(SystemExit) as stopped:
            main([name, "--help"])
        assert stopped.value.code == 0
    assert "usage" in capsys.readouterr().out


def test_the_command_line_loads_nothing_heavy():
    """Oracle: sys.modules of a fresh process."""
    code = "import sys, lntutor.__main__, lntutor.doctor, lntutor.lab, lntutor.download; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not {"torch", "numpy", "pandas", "jupyterlab", "plotly"} & set(loaded)
