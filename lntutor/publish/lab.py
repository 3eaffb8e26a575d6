"""`python -m lntutor lab`: open a notebook in JupyterLab, for this machine only."""

import argparse
import os
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from lntutor import ROOT
from lntutor.figures.lecture_type import LECTURE

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
    """The environment variables with which JupyterLab finds our defaults; the user's own settings win.

    One thread: for small matrices, with a browser and a server beside the kernel, more threads are slower.
    """
    paths = [str(CONFIG), environ.get("JUPYTER_CONFIG_PATH", "")]
    threads = environ.get("OMP_NUM_THREADS", "1")
    return {"JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": threads}


def lab_arguments(notebook: Path, *, port: int = 8888, browser: bool = True, root: Path = ROOT) -> list[str]:
    """Arguments for JupyterLab: loopback only, with its own token, at this notebook."""
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
        arguments.append("--allow-root")  # in a container: Jupyter would refuse to start as root
    return arguments


def how_to_present() -> str:
    """One line that tells a lecturer what to do next."""
    if find_spec("jupyterlab_slideshow") is None:
        return "Large type is on. For slides, once: python -m pip install -e '.[slides]', then start again."
    return (
        "Run all cells, select the first one, press the cards in the toolbar. Space: next. Shift Space: back. Esc: end."
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("notebook", nargs="?", default=START, help=f"the notebook to open (default: {START})")
    parser.add_argument("--port", type=port_number, default=8888, help="first port to try (default: 8888)")
    parser.add_argument("--no-browser", action="store_true", help="print the address, do not open a browser")
    parser.add_argument("--lecture", action="store_true", help="large type in every figure, explorer and question")


def port_number(text: str) -> int:
    """A port number from the command line."""
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 65535, got {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> None:
    """Serve until interrupted."""
    notebook = find_notebook(args.notebook)
    from jupyterlab.labapp import LabApp

    os.environ.update(lab_environment())
    if args.lecture:
        os.environ[LECTURE] = "1"
        print(how_to_present())
    LabApp.launch_instance(lab_arguments(notebook, port=args.port, browser=not args.no_browser))
