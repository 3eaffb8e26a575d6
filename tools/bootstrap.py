"""Make .venv and install the pinned packages into it: `python3 tools/bootstrap.py [--dev]`.

Any Python from 3.7 on can run this file, with its standard library alone: it looks for one that is new
enough for the course. Nothing outside the project folder is touched. A second run installs nothing unless
a list of versions has changed.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

ROOT = Path(__file__).resolve().parent.parent
MINIMUM = (3, 11)
NAMES = ("python3", "python", "python3.11", "python3.12", "python3.13", "python3.14")

# group → the list that pip installs, and the files that decide what is installed
LISTS = {"students": "requirements.txt", "dev": "requirements-dev.txt"}
FILES = {
    "students": ("requirements.txt", "pyproject.toml"),
    "dev": ("requirements.txt", "pyproject.toml", "requirements-dev.txt"),
}

PROBE = """
import sys
from importlib.util import find_spec
print(sys.version_info[0], sys.version_info[1])
print(int(all(map(find_spec, ["venv", "ensurepip"]))), int(bool(find_spec("pip"))))
"""


class SetupError(Exception):
    """A step of the set-up that failed; the message says what to do."""


class Interpreter(NamedTuple):
    """What a Python program says about itself."""

    program: str
    version: Tuple[int, int]
    makes_venvs: bool
    has_pip: bool

    def __str__(self) -> str:
        return f"{self.program} is Python {dotted(self.version)}"


def dotted(version: Sequence[int]) -> str:
    """(3, 11) → "3.11"."""
    return ".".join(map(str, version))


def probe(name: Union[str, Path]) -> Optional[Interpreter]:
    """The interpreter called `name`, or None where it does not run."""
    program = shutil.which(str(name))
    if program is None:
        return None
    try:
        output = subprocess.check_output([program, "-c", PROBE], stderr=subprocess.DEVNULL, timeout=60)
        major, minor, makes_venvs, has_pip = map(int, output.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return Interpreter(program, (major, minor), bool(makes_venvs), bool(has_pip))


def find_python(asked: Optional[str] = None, names: Sequence[str] = NAMES) -> Interpreter:
    """The first interpreter that is new enough and can make environments; only `asked` if it is given."""
    found = [python for python in map(probe, [asked] if asked else names) if python]
    new_enough = [python for python in found if python.version >= MINIMUM]
    usable = [python for python in new_enough if python.makes_venvs]
    if usable:
        return usable[0]
    if new_enough:
        raise SetupError(no_venv_message(new_enough[0]))
    raise SetupError(no_python_message(asked, found))


def no_venv_message(python: Interpreter) -> str:
    """Debian and Ubuntu ship Python without the part that makes environments."""
    return (
        f"{python}, but its module ensurepip, which makes environments, is missing.\n"
        f"On Debian or Ubuntu: sudo apt-get install python{dotted(python.version)}-venv\n"
        "Then run the same command again."
    )


def no_python_message(asked: Optional[str], found: List[Interpreter]) -> str:
    """No interpreter is new enough."""
    if found:
        what = ", ".join(sorted({str(python) for python in found}))
    else:
        what = f"PYTHON={asked} does not run" if asked else "none was found"
    return (
        f"Python {dotted(MINIMUM)} or newer is needed; {what}.\n"
        "Install one (Debian or Ubuntu: sudo apt-get install python3 python3-venv; macOS: brew install\n"
        "python; or the installer of python.org), then run the same command again. One that is not found\n"
        "by itself can be named: make lab PYTHON=/path/to/python"
    )


def pip_message(group: str, python: Interpreter) -> str:
    """What to do when pip fails."""
    other = "python3.12" if python.version == MINIMUM else "python" + dotted(MINIMUM)
    return (
        f"pip could not install {LISTS[group]}; its own message is above. The usual causes:\n"
        "- No network, or a proxy in between: connect, set HTTPS_PROXY if you need one, and run the same\n"
        "  command again. What was downloaded is kept.\n"
        f'- "No matching distribution" although there is a network: no build for Python {dotted(python.version)}\n'
        f"  on this machine. Try another Python, for instance: make lab PYTHON={other}\n"
        f"- No room: {shutil.disk_usage(str(ROOT)).free / 1e9:.1f} GB are free here."
    )


def venv_python(venv: Path) -> Path:
    """The Python program of an environment."""
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make_venv(venv: Path, asked: Optional[str] = None) -> Interpreter:
    """The interpreter of `venv`, made anew where it is missing, broken, too old or not the one asked for."""
    present = probe(venv_python(venv))
    if present and present.has_pip and present.version >= MINIMUM:
        wanted = find_python(asked) if asked else present
        if wanted.version == present.version:
            return present
    python = find_python(asked)
    say(f"Making {venv.name} with Python {dotted(python.version)} ({python.program})")
    made = run([python.program, "-m", "venv", "--clear", str(venv)]) and probe(venv_python(venv))
    if not made:
        raise SetupError(f"{python.program} could not make {venv}: remove that folder and try again.")
    return made


def fingerprint(root: Path, group: str, version: Sequence[int]) -> str:
    """A hash of all that decides what is installed: the files, the Python, and the place."""
    digest = hashlib.sha256(f"{root}\n{dotted(version)}\n".encode())
    for name in FILES[group]:
        digest.update((root / name).read_bytes())
    return digest.hexdigest()


def stamp_path(venv: Path, group: str) -> Path:
    """The file that says that a group was installed whole."""
    return venv / f".installed-{group}"


def is_installed(root: Path, venv: Path, group: str, version: Sequence[int]) -> bool:
    """Whether the stamp is that of the present files."""
    stamp = stamp_path(venv, group)
    return stamp.is_file() and stamp.read_text() == fingerprint(root, group, version)


def write_stamp(root: Path, venv: Path, group: str, version: Sequence[int]) -> None:
    """Say that a group was installed whole, in one step."""
    part = venv / f".installed-{group}.part"
    part.write_text(fingerprint(root, group, version))
    os.replace(str(part), str(stamp_path(venv, group)))


def install(root: Path, venv: Path, group: str, python: Interpreter) -> None:
    """Install a group with pip, then stamp it: a failure on the way leaves no stamp."""
    for name in LISTS:
        if stamp_path(venv, name).exists():
            stamp_path(venv, name).unlink()
    say(f"Installing {LISTS[group]} into {venv.name}: some minutes the first time")
    pip = [python.program, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    if not run([*pip, "-r", str(root / LISTS[group])]):
        raise SetupError(pip_message(group, python))
    # No build environment, so no download: torch has brought setuptools by now.
    if not run([*pip, "--quiet", "--no-deps", "--no-build-isolation", "-e", str(root)]):
        raise SetupError(f"pip could not install the package in {root}; its own message is above.")
    for name in {"students", group}:
        write_stamp(root, venv, name, python.version)


def run(command: Sequence[str]) -> bool:
    """Run a step with its output on the screen; whether it succeeded."""
    return subprocess.call(command) == 0


def say(line: str) -> None:
    """A line of progress, at once."""
    print(line, flush=True)


def set_up(root: Path, group: str, asked: Optional[str] = None) -> None:
    """Bring .venv to what the files say; nothing is done where it is so already."""
    venv = root / ".venv"
    python = make_venv(venv, asked)
    if not is_installed(root, venv, group, python.version):
        install(root, venv, group, python)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Exit code 0 when .venv is ready."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dev", action="store_true", help="install the test tools as well")
    args = parser.parse_args(argv)
    try:
        set_up(ROOT, "dev" if args.dev else "students", os.environ.get("PYTHON"))
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on from here.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
