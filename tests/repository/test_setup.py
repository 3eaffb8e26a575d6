"""The set-up: which Python it takes, when it installs, what it says. No network is used."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT
from tools import bootstrap, check, install_browser


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Put fake Pythons on an otherwise empty PATH: programs(python3="3 9 1 1", …)."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def add(**answers):
        for name, answer in answers.items():
            program = folder / name.replace("_", ".")
            program.write_text(f"#!/bin/sh\n{answer if 'exit' in answer else 'echo ' + answer}\n")
            program.chmod(0o755)
        return folder

    return add


@pytest.fixture
def project(tmp_path):
    """A project folder with the files that decide what is installed, and an empty .venv."""
    root = tmp_path / "a project"
    (root / ".venv").mkdir(parents=True)
    for name in bootstrap.FILES["dev"]:
        (root / name).write_text(name)
    return root


PYTHON = bootstrap.Interpreter("python", (3, 11), True, True)


FOUND = {  # fakes on the PATH, PYTHON → the one that is taken
    "the first that is new enough": (
        {"python3": "3 9 1 1", "python3_12": "3 12 1 1", "python3_13": "3 13 1 1"}, None, "python3.12",
    ),
    "the first that runs": (  # shims of version managers exist and exit with 127
        {"python3": "exit 127", "python": "echo Python 2", "python3_13": "3 13 1 1"}, None, "python3.13",
    ),
    "the one asked for": ({"python3": "3 13 1 1", "mine": "3 11 1 1"}, "mine", "mine"),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_a_python_for_this_is_found(programs, case):
    """Oracle: the versions of the fakes."""
    fakes, asked, taken = FOUND[case]
    folder = programs(**fakes)
    assert bootstrap.find_python(asked).program == str(folder / taken)
    with pytest.raises(bootstrap.SetupError, match="PYTHON=none does not run"):
        bootstrap.find_python("none")


NO_PYTHON = {  # fakes on the PATH → what the message has
    "all too old": ({"python3": "3 9 1 1", "python": "3 8 1 1"},
                    ["Python 3.11 or newer", "is Python 3.9", "is Python 3.8", "apt-get install", "PYTHON="]),
    "none at all": ({}, ["none was found"]),
    "one without venv": ({"python3": "3 12 0 1"}, ["apt-get install python3.12-venv"]),  # as Debian names it
}  # fmt: skip


@pytest.mark.parametrize("case", NO_PYTHON)
def test_a_machine_without_a_python_for_this_is_told_what_to_do(programs, case):
    """Oracle: the versions of the fakes, and a way out."""
    fakes, message = NO_PYTHON[case]
    programs(**fakes)
    with pytest.raises(bootstrap.SetupError) as error:
        bootstrap.find_python()
    assert all(part in str(error.value) for part in message)


def test_this_python_describes_itself():
    """Oracle: sys.version_info of the running interpreter."""
    python = bootstrap.probe(sys.executable)
    assert python.version == sys.version_info[:2]
    assert python.has_pip


def test_a_stamp_holds_until_a_list_changes_or_the_folder_moves(project):
    """Oracle: the bytes of the files, not their times; an editable install holds the absolute path."""

    def installed(tools: str = "students", version: tuple = (3, 11), root: Path = project) -> bool:
        return bootstrap.is_installed(root, root / ".venv", tools, version)

    assert not installed()
    bootstrap.write_stamp(project, project / ".venv", "students", (3, 11))
    assert installed()
    os.utime(project / "requirements.txt", (0, 0))
    assert installed()
    assert not installed(version=(3, 12))
    assert not installed("dev")
    moved = project.rename(project.with_name("elsewhere"))
    assert not installed(root=moved)
    moved.rename(project)
    (project / "requirements.txt").write_text("changed")
    assert not installed()


@pytest.mark.parametrize("failing_step", [1, 2])
def test_a_failed_install_leaves_no_stamp(project, monkeypatch, failing_step):
    """Oracle: there was a stamp before; pip fails at its first or its second step."""
    venv = project / ".venv"
    bootstrap.write_stamp(project, venv, "students", (3, 11))
    commands = []
    monkeypatch.setattr(bootstrap, "run", lambda step: commands.append(step) or len(commands) < failing_step)
    with pytest.raises(bootstrap.SetupError, match="its own message is above"):
        bootstrap.install(project, venv, "dev", PYTHON)
    assert len(commands) == failing_step
    assert not list(venv.iterdir())


def test_a_finished_install_is_stamped_and_not_repeated(project, monkeypatch):
    """Oracle: the test tools include what students install, so both are stamped; then nothing runs."""
    commands = []
    monkeypatch.setattr(bootstrap, "run", lambda command: commands.append(command) or True)
    monkeypatch.setattr(bootstrap, "make_venv", lambda venv, asked: PYTHON)
    bootstrap.set_up(project, "dev")
    assert [str(project / "requirements-dev.txt") in command for command in commands] == [True, False]
    assert commands[1][-2:] == ["-e", str(project)]
    bootstrap.set_up(project, "dev")
    bootstrap.set_up(project, "students")
    assert len(commands) == 2


def test_a_broken_environment_is_made_anew(project, programs, monkeypatch):
    """Oracle: .venv/bin/python does not run, so venv is called with --clear; the other Python does it."""
    folder = programs(python3="3 12 1 1")
    commands = []

    def make(command):
        commands.append(command)
        program = bootstrap.venv_python(project / ".venv")
        program.parent.mkdir(parents=True)
        shutil.copy(folder / "python3", program)
        return True

    monkeypatch.setattr(bootstrap, "run", make)
    assert bootstrap.make_venv(project / ".venv").version == (3, 12)
    assert commands == [[str(folder / "python3"), "-m", "venv", "--clear", str(project / ".venv")]]
    assert bootstrap.make_venv(project / ".venv").version == (3, 12)  # whole now: nothing is made
    assert len(commands) == 1


def test_another_python_asked_for_makes_the_environment_anew(project, programs, monkeypatch):
    """Oracle: .venv has 3.12, PYTHON names 3.13; a venv that fails is said."""
    folder = programs(python3="3 12 1 1", newer="3 13 1 1")
    program = bootstrap.venv_python(project / ".venv")
    program.parent.mkdir(parents=True)
    (folder / "python3").rename(program)
    commands = []
    monkeypatch.setattr(bootstrap, "run", lambda command: commands.append(command) or True)
    bootstrap.make_venv(project / ".venv", "newer")
    assert commands[0][0] == str(folder / "newer")
    monkeypatch.setattr(bootstrap, "run", lambda command: False)
    with pytest.raises(bootstrap.SetupError, match="remove that folder"):
        bootstrap.make_venv(project / ".venv", "newer")


def test_the_message_about_pip_names_the_usual_causes():
    """Oracle: network, missing build, disk."""
    message = bootstrap.pip_message("students", PYTHON)
    causes = ("requirements.txt", "HTTPS_PROXY", "No matching distribution", "3.11", "GB are free")
    assert all(cause in message for cause in causes)


def test_an_old_python_can_read_the_bootstrap():
    """Oracle: the grammar of Python 3.7."""
    ast.parse((ROOT / "tools" / "bootstrap.py").read_text(encoding="utf-8"), feature_version=(3, 7))


def test_make_says_what_to_do_where_there_is_no_python(tmp_path):
    """Oracle: a PATH that holds nothing but make and sh."""
    for name in ("make", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name))
    command = [tmp_path / "make", "doctor"]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode != 0
    assert "Install Python 3.11 or newer" in done.stderr


def test_a_browser_is_installed_only_where_it_may_be(monkeypatch, capsys):
    """Oracle: root needs nothing before apt-get; a user without sudo may not call it, and is told the package. The exit
    code is 0, so that the other tests run.
    """
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert install_browser.root_prefix() == []
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert install_browser.root_prefix() is None
    monkeypatch.setattr(install_browser, "find_browser", lambda: None)
    assert install_browser.main() == 0
    assert "apt-get install chromium" in capsys.readouterr().err


@pytest.mark.parametrize("failing", ["nothing", "check", "format", "basedpyright", "pytest"])
def test_every_step_runs_and_every_failure_counts(monkeypatch, failing):
    """Oracle: ruff check, ruff format, basedpyright and pytest, in this order, whichever fails."""
    steps = []
    monkeypatch.setattr(check, "run", lambda step: steps.append(step) or int(failing in step))
    assert check.main(["-q"]) == (failing != "nothing")
    assert [step[0] for step in steps] == ["ruff", "ruff", "basedpyright", "pytest"]
    assert steps[-1] == ["pytest", *check.PARALLEL, *check.SLOWEST, "-q"]


def test_where_there_are_several_processes_a_file_keeps_to_one(request):
    """Oracle: the group that pytest-xdist puts behind a test's name. With a pytest whose names it cannot change, every
    server and every notebook would be started once per process, and nothing said.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("there is one process")
    assert request.node.nodeid.endswith("@repository/test_setup.py")
