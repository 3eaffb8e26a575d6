"""The doctor finds what is broken on purpose, says the fix, and never breaks itself."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lntutor.publish import doctor
from lntutor.publish.browser import find_browser
from lntutor.text import download


@pytest.fixture
def clone(tmp_path):
    """A project folder with a healthy list of versions and a file of data with its checksum."""
    numpy = doctor.pinned_versions()["numpy"]
    (tmp_path / "requirements.txt").write_text(f"# a comment\nnumpy=={numpy}  # another\n")
    folder = tmp_path / "data" / "captions"
    folder.mkdir(parents=True)
    (folder / "train.en").write_bytes(b"a dog\n")
    digest = hashlib.sha256(b"a dog\n").hexdigest()
    (folder / "SHA256SUMS").write_text(f"{digest}  train.en\n")
    return tmp_path


def run_doctor(**environ):
    """`python -m lntutor doctor` as a process of its own."""
    command = [sys.executable, "-m", "lntutor", "doctor"]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environ, cwd=doctor.ROOT)


def test_this_installation_is_complete():
    """Oracle: the environment in which the tests run is the pinned one."""
    done = run_doctor()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout
    for name in doctor.pinned_versions():
        assert f"ok    {name}: " in done.stdout


def test_a_healthy_clone_has_no_findings_but_ok(clone):
    """Oracle: the clone was made healthy."""
    findings = [*doctor.check_packages(clone), *doctor.check_data(clone / "data")]
    assert [finding.level for finding in findings] == ["ok", "ok"]


VERSIONS = [  # required, installed, what is said
    ("numpy==0.1", "2.0.0", "2.0.0, 0.1 is needed"),
    ("no-such-package==1.0", None, "not installed, 1.0 is needed"),
    ("torch==2.13.0", "2.13.0+cpu", ""),  # a build label does not matter
    ("torch==2.13.0", "2.13.01", "2.13.01, 2.13.0 is needed"),
]


@pytest.mark.parametrize(("required", "installed", "found"), VERSIONS)
def test_a_version_is_the_pinned_one_or_fails_with_its_fix(clone, monkeypatch, required, installed, found):
    """Oracle: PEP 440, where ==2.13.0 admits 2.13.0+cpu; importlib knows no such package."""
    (clone / "requirements.txt").write_text(f"{required}\n")
    if installed:
        monkeypatch.setattr("importlib.metadata.version", lambda name: installed)
    (finding,) = doctor.check_packages(clone)
    assert finding.level == ("FAIL" if found else "ok")
    assert found in finding.found
    assert finding.fix == (f'"{sys.executable}" -m pip install {required}' if found else "")


def test_an_old_python_and_one_beside_the_one_that_was_set_up_are_named(tmp_path):
    """Oracle: 3.10 comes before 3.11; a folder that is not this environment, and one that is."""
    old = doctor.check_python((3, 10, 4))
    assert (old.level, "3.10.4" in old.found, "3.11" in old.fix) == ("FAIL", True, True)
    other = doctor.check_python(venv=tmp_path)
    assert (other.level, str(tmp_path) in other.found) == ("warn", True)
    assert doctor.check_python(venv=Path(sys.prefix)).level == "ok"
    assert doctor.check_python(venv=tmp_path / "none").level == "ok"


DAMAGE = {  # of a file of data or of a download, and what is said
    "corrupt": (lambda file: file.write_bytes(b"a cat\n"), "has changed"),
    "missing": (lambda file: file.rename(file.with_suffix(".part")), "cannot be read (No such file"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_data_fails_with_the_file_and_the_fix(clone, damage):
    """Oracle: SHA-256 of the bytes that were written, after they were damaged on purpose."""
    harm, found = DAMAGE[damage]
    harm(clone / "data" / "captions" / "train.en")
    (finding,) = doctor.check_data(clone / "data")
    assert (finding.level, finding.fix) == ("FAIL", "git checkout -- data/captions")
    assert f"train.en {found}" in finding.found


def test_a_list_of_checksums_that_is_none_fails_and_no_data_is_no_failure(clone, tmp_path):
    """Oracle: a page in place of the list; an empty folder lists nothing."""
    (clone / "data" / "captions" / "SHA256SUMS").write_text("<html>\n")
    (finding,) = doctor.check_data(clone / "data")
    assert (finding.level, finding.fix) == ("FAIL", "git checkout -- data/captions")
    assert "SHA256SUMS line 1 is not" in finding.found
    (finding,) = doctor.check_data(tmp_path / "nothing")
    assert (finding.level, finding.found) == ("ok", "none to check yet")


@pytest.fixture
def downloaded(tmp_path, monkeypatch):
    """A folder of downloaded corpora with two files in it, published under their true checksum."""
    monkeypatch.setenv("LNTUTOR_CORPORA", str(tmp_path))
    digest = hashlib.sha256(b"a dog\n").hexdigest()
    files = tuple(download.Published(name, 6, digest, "") for name in ("train.de.gz", "train.en.gz"))
    monkeypatch.setattr(download, "MULTI30K", files)
    folder = download.cache_folder("multi30k")
    folder.mkdir(parents=True)
    for file in files:
        (folder / file.name).write_bytes(b"a dog\n")
    return folder


def test_a_download_that_is_whole_is_ok_and_none_is_not_mentioned(downloaded):
    """Oracle: SHA-256 of the bytes that were written; then the files are gone, then the folder."""
    (finding,) = doctor.check_downloads()
    assert (finding.level, finding.subject) == ("ok", str(downloaded))
    for file in downloaded.iterdir():
        file.unlink()
    assert list(doctor.check_downloads()) == []
    downloaded.rmdir()
    assert list(doctor.check_downloads()) == []


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_download_fails_with_the_command_that_downloads(downloaded, damage):
    """Oracle: the file was damaged on purpose; git never had it, so git cannot bring it back."""
    harm, found = DAMAGE[damage]
    harm(downloaded / "train.en.gz")
    (finding,) = doctor.check_downloads()
    assert finding.level == "FAIL"
    assert f"train.en.gz {found}" in finding.found
    assert finding.fix.startswith("python -m lntutor data multi30k")
    assert "git" not in finding.fix


BROKEN = {
    "does not import": ("raise ImportError('libtorch.so is missing')", "libtorch.so is missing"),
    "kills its process": ("import os; os.abort()", "ended with code"),
    "does not compute": ("def tensor(*_, **__): raise RuntimeError('no kernel image')", "no kernel image"),
}


@pytest.mark.parametrize("torch", BROKEN)
def test_a_broken_torch_is_reported_and_the_exit_code_says_so(tmp_path, torch):
    """Oracle: a module named torch, first on the path, that is broken in three ways."""
    source, reason = BROKEN[torch]
    (tmp_path / "torch.py").write_text(source)
    done = run_doctor(PYTHONPATH=str(tmp_path))
    assert done.returncode == 1, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("FAIL  torch computes"))
    assert reason in line
    assert "pip install --force-reinstall torch==" in line
    assert "FAIL  torchtext imports" in done.stdout
    assert "ok    numpy" in done.stdout  # the other checks still ran


def test_a_kernel_of_another_environment_fails(tmp_path, monkeypatch):
    """Oracle: a kernel that Jupyter finds first and that starts another program."""
    kernel = tmp_path / "kernels" / "python3"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text('{"argv": ["/nowhere/python"], "display_name": "elsewhere"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    finding = doctor.check_kernel()
    assert finding.level == "FAIL"
    assert "/nowhere/python" in finding.found
    assert "ipykernel install --sys-prefix" in finding.fix


def test_a_server_of_another_environment_is_a_warning(monkeypatch):
    """Oracle: a parent process that runs the base interpreter, outside this environment."""
    base = getattr(sys, "_base_executable", sys.executable)
    if sys.prefix == sys.base_prefix:
        pytest.skip("no environment, so there is no other one")
    with subprocess.Popen([base, "-c", "input()"], stdin=subprocess.PIPE) as server:
        monkeypatch.setenv("JPY_PARENT_PID", str(server.pid))
        (finding,) = doctor.check_server()
        server.communicate(b"\n")
    assert finding.level == "warn"
    assert sys.base_prefix in finding.found


def test_a_browser_is_found_on_the_path_or_by_its_variable_and_none_is_a_warning(tmp_path, monkeypatch):
    """Oracle: a program put there on purpose; then an empty PATH and a machine whose default browser is unknown."""

    def no_browser():
        raise doctor.webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(doctor, "find_browser", lambda: None)
    monkeypatch.setattr(doctor.webbrowser, "get", no_browser)
    finding = doctor.check_browser()
    assert (finding.level, "Chromium" in finding.fix) == ("warn", True)
    program = tmp_path / "google-chrome"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_browser({"PATH": str(tmp_path)}) == str(program)
    assert find_browser({"PATH": "", "LNTUTOR_BROWSER": str(program)}) == str(program)
