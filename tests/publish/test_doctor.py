"""The doctor finds what is broken on purpose, says the fix, and never breaks itself."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lntutor import doctor, download
from lntutor.browser import find_browser


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


def test_this_installation_is_whole():
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


def test_a_wrong_version_fails_with_the_command_that_mends_it(clone):
    """Oracle: version 0.1 of numpy is not what is installed."""
    (clone / "requirements.txt").write_text("numpy==0.1\n")
    (finding,) = doctor.check_packages(clone)
    assert finding.level == "FAIL"
    assert f"{doctor.pinned_versions()['numpy']}, 0.1 is needed" in str(finding)
    assert finding.fix == f'"{sys.executable}" -m pip install numpy==0.1'


def test_a_missing_package_fails_with_the_command_that_mends_it(clone):
    """Oracle: no package has this name."""
    (clone / "requirements.txt").write_text("no-such-package==1.0\n")
    (finding,) = doctor.check_packages(clone)
    assert finding.level == "FAIL"
    assert "not installed, 1.0 is needed" in finding.found
    assert finding.fix.endswith("-m pip install no-such-package==1.0")


@pytest.mark.parametrize(("installed", "level"), [("2.13.0+cpu", "ok"), ("2.13.01", "FAIL")])
def test_a_build_label_does_not_matter(clone, monkeypatch, installed, level):
    """Oracle: PEP 440, where ==2.13.0 admits 2.13.0+cpu."""
    (clone / "requirements.txt").write_text("torch==2.13.0\n")
    monkeypatch.setattr("importlib.metadata.version", lambda name: installed)
    assert [finding.level for finding in doctor.check_packages(clone)] == [level]


def test_an_old_python_fails():
    """Oracle: 3.10 comes before 3.11."""
    finding = doctor.check_python((3, 10, 4))
    assert finding.level == "FAIL"
    assert "3.10.4" in finding.found
    assert "3.11" in finding.fix


def test_a_python_beside_the_one_that_was_set_up_is_named(tmp_path):
    """Oracle: a folder that is not this environment, and one that is."""
    other = doctor.check_python(venv=tmp_path)
    assert (other.level, str(tmp_path) in other.found) == ("warn", True)
    assert doctor.check_python(venv=Path(sys.prefix)).level == "ok"
    assert doctor.check_python(venv=tmp_path / "none").level == "ok"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "train.en").write_bytes(b"a cat\n"), "train.en has changed"),
        (lambda folder: (folder / "train.en").unlink(), "train.en cannot be read (No such file"),
        (lambda folder: (folder / "SHA256SUMS").write_text("<html>\n"), "SHA256SUMS line 1 is not"),
    ],
    ids=["corrupt", "missing", "not a list"],
)
def test_damaged_data_fails_with_the_file_and_the_fix(clone, damage, words):
    """Oracle: SHA-256 of the bytes that were written, after they were damaged on purpose."""
    damage(clone / "data" / "captions")
    (finding,) = doctor.check_data(clone / "data")
    assert finding.level == "FAIL"
    assert words in finding.found
    assert finding.fix == "git checkout -- data/captions"


@pytest.fixture
def downloaded(tmp_path, monkeypatch):
    """A folder of downloaded corpora with two files in it, published under their true checksum."""
    monkeypatch.setenv("LNTUTOR_HOME", str(tmp_path))
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


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda file: file.write_bytes(b"a cat\n"), "train.en.gz has changed"),
        (lambda file: file.rename(file.with_name("train.en.gz.part")), "train.en.gz cannot be read (No such file"),
    ],
    ids=["corrupt", "unfinished"],
)
def test_a_damaged_download_fails_with_the_command_that_downloads(downloaded, damage, words):
    """Oracle: the file was damaged on purpose; git never had it, so git cannot bring it back."""
    damage(downloaded / "train.en.gz")
    (finding,) = doctor.check_downloads()
    assert finding.level == "FAIL"
    assert words in finding.found
    assert finding.fix.startswith("python -m lntutor data multi30k")
    assert "git" not in finding.fix


def test_no_data_is_said_and_is_no_failure(tmp_path):
    """Oracle: an empty folder lists nothing."""
    (finding,) = doctor.check_data(tmp_path / "data")
    assert (finding.level, finding.found) == ("ok", "none to check yet")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ImportError('libtorch.so is missing')", "libtorch.so is missing"),
        ("import os; os.abort()", "ended with code"),
        ("def tensor(*_, **__): raise RuntimeError('no kernel image')", "no kernel image"),
    ],
    ids=["does not import", "kills its process", "does not compute"],
)
def test_a_broken_torch_is_reported_and_the_exit_code_says_so(tmp_path, source, words):
    """Oracle: a module named torch, first on the path, that is broken in three ways."""
    (tmp_path / "torch.py").write_text(source)
    done = run_doctor(PYTHONPATH=str(tmp_path))
    assert done.returncode == 1, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("FAIL  torch computes"))
    assert words in line
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


def test_no_browser_is_a_warning(monkeypatch):
    """Oracle: an empty PATH and a machine whose default browser is unknown."""

    def no_browser():
        raise doctor.webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(doctor, "find_browser", lambda: None)
    monkeypatch.setattr(doctor.webbrowser, "get", no_browser)
    finding = doctor.check_browser()
    assert finding.level == "warn"
    assert "Chromium" in finding.fix


def test_a_browser_is_found_on_the_path_or_by_its_variable(tmp_path):
    """Oracle: a program put there on purpose."""
    program = tmp_path / "google-chrome"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_browser({"PATH": str(tmp_path)}) == str(program)
    assert find_browser({"PATH": "", "LNTUTOR_BROWSER": str(program)}) == str(program)
    with pytest.raises(ValueError, match="got 'nonsense'"):
        find_browser({"PATH": str(tmp_path), "LNTUTOR_BROWSER": "nonsense"})
