"""`python -m lntutor lab`: JupyterLab on this machine alone, at the notebook asked for."""

import argparse
import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from lntutor.lecturing import LECTURE

ROOT = Path(__file__).resolve().parent.parent
START = "00_start_here"
CONFIG = Path(__file__).resolve().parent / "jupyter"  # holds labconfig/: no news pop-up, no update check


def find_notebook(name: str = START, root: Path = ROOT) -> Path:
    """The notebook with this name, stem or path below `root/notebooks`."""
    notebooks = {path.stem: path for path in sorted((root / "notebooks").glob("*.ipynb"))}
    if not notebooks:
        raise LookupError(f"no notebooks in {root / 'notebooks'}: run this from a clone of the project")
    stem = Path(name).stem
    if stem in notebooks:
        return notebooks[stem]
    near = get_close_matches(stem, notebooks, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise LookupError(f"no notebook {name!r}: {hint}there are {', '.join(notebooks)}")


def lab_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that let JupyterLab find our defaults; the user's own settings still win.

    One thread: with small matrices, and a browser and a server beside the kernel, more wait for each other.
    """
    paths = [str(CONFIG), environ.get("JUPYTER_CONFIG_PATH", "")]
    threads = environ.get("OMP_NUM_THREADS", "1")
    return {"JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": threads}


def lab_arguments(notebook: Path, *, port: int = 8888, browser: bool = True, root: Path = ROOT) -> list[str]:
    """Arguments for JupyterLab: loopback only, its own token, opening at the notebook."""
    page = quote(notebook.relative_to(root).as_posix())
    arguments = [
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{page}",
    ]
    if not browser:
        arguments.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--allow-root")  # in a container; Jupyter refuses to start as root otherwise
    return arguments


def how_to_present() -> str:
    """What a lecturer does next, in a line."""
    if find_spec("jupyterlab_slideshow") is None:
        return "Large type is on. For slides, once: python -m pip install -e '.[slides]', then start again."
    return (
        "Run all cells, select the first one, press the cards in the toolbar. Space: on. Shift Space: back. Esc: stop."
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("notebook", nargs="?", default=START, help=f"name of a notebook (default: {START})")
    parser.add_argument("--port", type=port_number, default=8888, help="first port to try (default: 8888)")
    parser.add_argument("--no-browser", action="store_true", help="print the address, open nothing")
    parser.add_argument("--lecture", action="store_true", help="large type in every figure, explorer and question")


def port_number(text: str) -> int:
    """A port, as it is typed."""
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 65535, got {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    try:
        notebook = find_notebook(args.notebook)
        from jupyterlab.labapp import LabApp
    except LookupError as error:
        print(error, file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"JupyterLab does not load in {sys.prefix} ({error}).", file=sys.stderr)
        print("Run `make lab`, or: python -m pip install -r requirements.txt", file=sys.stderr)
        return 1
    os.environ.update(lab_environment())
    if args.lecture:
        os.environ[LECTURE] = "1"
        print(how_to_present())
    LabApp.launch_instance(lab_arguments(notebook, port=args.port, browser=not args.no_browser))
    return 0
