"""`python -m lntutor doctor`: is this installation complete? One line per finding, with the fix."""

import argparse
import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lntutor import ROOT
from lntutor.publish.browser import find_browser

MINIMUM_PYTHON = (3, 11)
PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;#]+)")

# L = ‖A x‖², so ∂L/∂x = 2 Aᵀ A x = (268, 380): exact in float32.
PROBE = """
import torch
A = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
x = torch.tensor([5.0, 6.0], requires_grad=True)
((A @ x) ** 2).sum().backward()
print("gradient", x.grad.tolist(), flush=True)
import torchtext
print("torchtext", torchtext.__version__, flush=True)
"""
PROBE_GRADIENT = "gradient [268.0, 380.0]"


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    level: str  # ok | warn | FAIL
    subject: str
    found: str
    fix: str = ""

    def __str__(self) -> str:
        line = f"{self.level:<4}  {self.subject}: {self.found}"
        return f"{line}. To fix: {self.fix}" if self.fix else line


def check_installation(root: Path = ROOT) -> Iterator[Finding]:
    """Run every check; none depends on another."""
    yield check_python()
    yield from check_packages(root)
    yield from check_torch(root)
    yield check_kernel()
    yield from check_server()
    yield check_browser()
    yield from check_data(root / "data")
    yield from check_downloads()


def check_python(version: tuple[int, ...] = tuple(sys.version_info[:3]), venv: Path = ROOT / ".venv") -> Finding:
    """Python is new enough, and is the one in .venv if there is one."""
    found = ".".join(map(str, version)) + f" in {sys.prefix}"
    if version[:2] >= MINIMUM_PYTHON:
        if venv.is_dir() and venv.resolve() != Path(sys.prefix).resolve():
            return Finding("warn", "Python", f"{found}, and the course is set up in {venv}", "activate that one first")
        return Finding("ok", "Python", found)
    needed = ".".join(map(str, MINIMUM_PYTHON))
    return Finding("FAIL", "Python", found, f"install Python {needed} or newer, then run `make lab`")


def pinned_versions(root: Path = ROOT) -> dict[str, str]:
    """name → version, from requirements.txt, or from the installed package if there is no clone."""
    path = root / "requirements.txt"
    if path.is_file():
        lines = path.read_text(encoding="utf-8").splitlines()
    else:
        lines = importlib.metadata.requires("lntutor") or []
    return {pin["name"]: pin["version"] for line in lines if (pin := PIN.match(line))}


def check_packages(root: Path = ROOT) -> Iterator[Finding]:
    """Every pinned package has the pinned version; a build label such as +cpu is ignored."""
    for name, wanted in pinned_versions(root).items():
        fix = _install(f"{name}=={wanted}")
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "not installed"
        right = found.partition("+")[0] == wanted
        yield Finding("ok", name, found) if right else Finding("FAIL", name, f"{found}, {wanted} is needed", fix)


def check_torch(root: Path = ROOT) -> Iterator[Finding]:
    """torch computes a known gradient and torchtext imports, tried in another process because it may crash."""
    output, error = _run_python(sys.executable, PROBE)
    pins = pinned_versions(root)
    if PROBE_GRADIENT in output:
        yield Finding("ok", "torch computes", "a matrix product and its gradient are right")
    else:
        found = next((line for line in output if line.startswith("gradient")), error)
        yield Finding("FAIL", "torch computes", found, _install(f"--force-reinstall torch=={pins['torch']}"))
    if any(line.startswith("torchtext") for line in output):
        yield Finding("ok", "torchtext imports", "yes")
    else:
        fix = _install(f"--force-reinstall --no-deps torchtext=={pins['torchtext']}")
        yield Finding("FAIL", "torchtext imports", error, fix)


def check_kernel() -> Finding:
    """The kernel that JupyterLab starts is the Python of this environment."""
    subject, fix = "kernel", f'"{sys.executable}" -m ipykernel install --sys-prefix'
    try:
        from jupyter_client.kernelspec import KernelSpecManager

        spec = KernelSpecManager().get_kernel_spec("python3")
    except Exception as error:  # whatever is broken, the finding says it
        return Finding("FAIL", subject, f"none found ({type(error).__name__}: {error})", fix)
    program = spec.argv[0]
    if program in {"python", "python3"}:  # Jupyter runs its own Python for these
        program = sys.executable
    output, error = _run_python(program, "import sys; print(sys.prefix)")
    prefix = output[0] if output else error
    if output and Path(prefix).resolve() == Path(sys.prefix).resolve():
        return Finding("ok", subject, f"JupyterLab and its kernel share {sys.prefix}")
    found = f"{spec.resource_dir} starts {program} ({prefix}), not Python of {sys.prefix}"
    return Finding("FAIL", subject, found, f"{fix}; or remove that folder")


def check_server() -> Iterator[Finding]:
    """Inside a notebook: the server that started this kernel runs in the same environment."""
    if "JPY_PARENT_PID" not in os.environ:
        return
    try:
        import psutil

        program = psutil.Process(int(os.environ["JPY_PARENT_PID"])).cmdline()[0]
    except Exception:  # no such process, no permission or no psutil: nothing to report
        return
    output, _ = _run_python(program, "import sys; print(sys.prefix)")
    if not output:
        return
    if Path(output[0]).resolve() == Path(sys.prefix).resolve():
        yield Finding("ok", "server", "runs in the same environment as this kernel")
    else:
        fix = "start JupyterLab with `make lab`, or install ipywidgets and anywidget there too"
        yield Finding("warn", "server", f"runs in {output[0]}, this kernel in {sys.prefix}", fix)


def check_browser() -> Finding:
    """There is a browser; JupyterLab can also be opened by hand, so a missing one is only a warning."""
    try:
        if found := find_browser():
            return Finding("ok", "browser", found)
        return Finding("ok", "browser", f"{webbrowser.get().name} (browser tests need Chromium or Chrome)")
    except ValueError as error:
        return Finding("warn", "browser", str(error))
    except webbrowser.Error:
        fix = "install any browser; the browser tests need Chromium or Chrome"
        return Finding("warn", "browser", "none found", fix)


def check_data(folder: Path) -> Iterator[Finding]:
    """Every file listed in a SHA256SUMS below `folder` exists and is unchanged."""
    lists = sorted(folder.rglob("SHA256SUMS"))
    if not lists:
        yield Finding("ok", "data", "none to check yet")
    for sums in lists:
        place = sums.parent.relative_to(folder.parent).as_posix()
        yield _files_finding(place, list(_damaged_files(sums)), f"git checkout -- {place}")


def check_downloads() -> Iterator[Finding]:
    """If Multi30k was downloaded, even in part: every file exists and is as published."""
    try:
        from lntutor.text.download import FETCH, MULTI30K, cache_folder, missing_files
    except ImportError:  # a missing package, reported above
        return
    folder = cache_folder("multi30k")
    if len(missing_files(folder, MULTI30K)) == len(MULTI30K):
        return
    problems = [problem for file in MULTI30K if (problem := _damage(folder / file.name, file.sha256))]
    yield _files_finding(str(folder), problems, f"{FETCH}; or delete this folder")


def _files_finding(place: str, problems: list[str], fix: str) -> Finding:
    if problems:
        return Finding("FAIL", place, "; ".join(problems), fix)
    return Finding("ok", place, "every file matches its checksum")


def _damaged_files(sums: Path) -> Iterator[str]:
    """One sentence per damaged file that `sums` lists."""
    for number, line in enumerate(sums.read_text(encoding="utf-8").splitlines(), start=1):
        listed = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line)
        if not listed:
            yield f"{sums.name} line {number} is not a checksum and a file name"
        elif problem := _damage(sums.parent / listed[2], listed[1]):
            yield problem


def _damage(path: Path, wanted: str) -> str:
    """What is wrong with a file that should have this SHA-256; empty if nothing is."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror})"
    return "" if found == wanted else f"{path.name} has changed"


def _install(what: str) -> str:
    """The command that installs into this environment."""
    return f'"{sys.executable}" -m pip install {what}'


def _run_python(program: str, code: str) -> tuple[list[str], str]:
    """Lines printed by `program -c code`, and the last line of the error if it failed."""
    try:
        done = subprocess.run([program, "-c", code], capture_output=True, text=True, timeout=180)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], str(error)
    last = done.stderr.strip().splitlines()[-1:] or [f"ended with code {done.returncode}"]
    return done.stdout.splitlines(), last[0] if done.returncode else ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """This command has no options."""


def run(args: argparse.Namespace) -> int:
    """Print each finding as it comes; exit code 1 if any failed."""
    failed = 0
    for finding in check_installation():
        print(finding, flush=True)
        failed += finding.level == "FAIL"
    print(f"\n{failed} to fix" if failed else "\nEverything is fine.")
    return 1 if failed else 0
