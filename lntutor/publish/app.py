"""`python -m lntutor app`: every explorer and notebook as a page without code, from one start page.

By default only this machine can open it; `--classroom` opens it to a class and says what that means.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import secrets
import socket
import tempfile
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from lntutor.figures.lecture_type import LECTURE
from lntutor.publish import gallery
from lntutor.publish.lab import ROOT, find_notebook, lab_environment, port_number

LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"
PORT = 8866
KERNEL = 400e6  # bytes per open page, measured by benchmarks/app.py
TAKEN = {errno.EADDRINUSE, getattr(errno, "WSAEADDRINUSE", errno.EADDRINUSE)}
INTRO = """\
<link rel="prefetch" as="script" href="/voila/static/voila.js">
<p>Click a picture. An explorer takes a few seconds to open, a notebook up to a few minutes: it computes everything it
shows.</p>
"""
MORE = """\
<p style="margin-top: 2em">These pages show no code. <code>make lab</code> opens the same notebooks in JupyterLab, where
you can read and write it.</p>
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("--port", type=port_number, help=f"port to listen at (default: {PORT}, or the next free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address, do not open a browser")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--classroom", action="store_true", help="open the app to everyone on this machine's network")
    who.add_argument("--ip", type=_address, help=f"address to listen at (default: {LOOPBACK}, this machine only)")
    word = parser.add_mutually_exclusive_group()
    word.add_argument("--word", type=_word, help="password word for others (default: a random one)")
    word.add_argument("--no-word", action="store_true", help="let others in without a password word")
    parser.add_argument("--pages", type=_count, help="largest number of open pages (default: what the memory allows)")
    parser.add_argument(
        "--warm", type=lambda text: _count(text, 0), default=1, help="kernels started in advance (default: 1)"
    )
    parser.add_argument("--small-type", action="store_true", help="normal type instead of large type for a lecture")


def run(args: argparse.Namespace) -> None:
    """Serve until interrupted."""
    ip = args.ip or (EVERYWHERE if args.classroom else LOOPBACK)
    find_notebook()
    port = free_port(ip, args.port)
    from lntutor.publish import server as serving

    word = "" if args.no_word or not is_open(ip) else args.word or new_word()
    lecture, limit = not args.small_type, args.pages or page_limit()
    os.environ.update(app_environment(lecture))
    with tempfile.TemporaryDirectory(prefix="lntutor-") as folder:
        pages = write_notebooks(Path(folder, "pages"))
        kernels = {"limit": limit, "warm": min(args.warm, limit), "homes": f"{folder}/notes" if is_open(ip) else ""}
        app = serving.build(pages, start_page(), ip=ip, port=port, word=word, lecture=lecture, kernels=kernels)
        app.open_browser = not args.no_browser
        print(*announcement(ip, port, word, limit), sep="\n", flush=True)
        app.start()


def app_environment(lecture: bool = True, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment variables of the kernels; what the user has set stays."""
    return {**lab_environment(environ), LECTURE: environ.get(LECTURE, "1") if lecture else "0"}


def write_notebooks(folder: Path) -> Path:
    """Fill a folder with all that is served: one small notebook per explorer, copies of the course's notebooks."""
    import nbformat

    folder.mkdir()
    for tile in gallery.EXPLORERS:
        nbformat.write(explorer_notebook(tile), folder / f"{tile.key}.ipynb")
    for tile in gallery.NOTEBOOKS:
        notebook = nbformat.read(ROOT / "notebooks" / f"{tile.key}.ipynb", as_version=4)
        notebook.metadata["title"] = tile.title
        nbformat.write(notebook, folder / f"{tile.key}.ipynb")
    return folder


def explorer_notebook(tile: gallery.Tile):
    """A notebook with a heading, one sentence and the explorer."""
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    cells = [
        new_markdown_cell(f"# {tile.title}\n\n{tile.summary}"),
        new_code_cell(f"from lntutor.explore import {tile.key}\n\n{tile.key}()"),
    ]
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "title": tile.title})


def start_page() -> str:
    """The gallery, whose tiles open Voilà's pages; the playground's is a page that needs no kernel."""

    def link(tile: gallery.Tile) -> str:
        return "/playground.html" if tile is gallery.PLAYGROUND else f"/voila/render/{tile.key}.ipynb"

    return gallery.page(link, INTRO, MORE)


def announcement(ip: str, port: int, word: str, pages: int) -> list[str]:
    """The lines printed at the start: the address, who can open it, how to end it."""
    end = f"At most {pages} pages are open at once. Press Ctrl-C to end."
    if not is_open(ip):
        return [f"The app is at http://{_host(ip)}:{port}/ for this machine only.", end]
    addresses = [f"  http://{_host(address)}:{port}/{word}" for address in own_addresses(ip)]
    return [
        "The app is open to your network, not encrypted. Students type:",
        *addresses,
        "Anyone who reaches this machine and knows the word" if word else "Anyone who reaches this machine",
        "  can open these pages, and each page runs a Python process here;",
        "  cannot edit or run code of their own, and cannot read other files.",
        *([] if word else ["There is no word (--no-word): whoever finds the port is in."]),
        end,
    ]


def is_open(ip: str) -> bool:
    """Whether other machines can reach this address."""
    return not ip_address(ip).is_loopback


def own_addresses(ip: str) -> list[str]:
    """The addresses at which others reach this machine when it listens at `ip`."""
    if not ip_address(ip).is_unspecified:
        return [ip]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: the system only chooses the interface
            return [probe.getsockname()[0]]
        except OSError:
            return [socket.gethostname()]


def new_word(syllables: int = 5) -> str:
    """A random word, easy to read out and to type: one of three billion."""
    return "".join(secrets.choice("bdfghjklmnprstvz") + secrets.choice("aeiou") for _ in range(syllables))


def page_limit() -> int:
    """Number of pages that fit into three quarters of the free memory."""
    import psutil

    return max(1, int(0.75 * psutil.virtual_memory().available / KERNEL))


def free_port(ip: str, asked: int | None) -> int:
    """The port asked for, or the first free one of ten; a ValueError says what to do if there is none."""
    for port in [asked] if asked else range(PORT, PORT + 10):
        family = socket.AF_INET6 if ip_address(ip).version == 6 else socket.AF_INET
        with socket.socket(family) as probe:
            if os.name != "nt":  # on Windows this would allow two servers on one port
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((ip, port))
                return port
            except PermissionError:
                raise ValueError(f"port {port} is reserved for administrators: choose one from 1024 on") from None
            except OSError as error:
                if error.errno not in TAKEN:
                    message = f"this machine cannot listen at {ip} ({error.strerror}): try --classroom"
                    raise ValueError(message) from None
    which = f"port {asked} is" if asked else f"ports {PORT} to {PORT + 9} are"
    raise ValueError(f"{which} taken, perhaps by this app in another window: end that, or choose another by --port")


def _host(ip: str) -> str:
    """The address as written in a URL."""
    return f"[{ip}]" if ":" in ip else ip


def _address(text: str) -> str:
    try:
        return str(ip_address(LOOPBACK if text == "localhost" else text))
    except ValueError:
        message = f"must be an address of this machine, such as 192.168.1.20, got {text!r}"
        raise argparse.ArgumentTypeError(message) from None


def _word(text: str) -> str:
    if not re.fullmatch("[a-z]{6,}", text):
        raise argparse.ArgumentTypeError(f"must be at least six small letters a to z, got {text!r}")
    return text


def _count(text: str, least: int = 1) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least {least}, got {text!r}")
    return int(text)
