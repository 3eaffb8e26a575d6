"""Downloads against a real server that misbehaves on purpose: what is kept is whole, and the next call succeeds."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lntutor as ln
from lntutor import download
from lntutor.__main__ import main
from lntutor.download import MULTI30K, CorpusError, Published, fetch_files

CONTENT = bytes(range(256)) * 1200  # 300 kB, several chunks
FILE = Published("train.de.gz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), "")
HALF = len(CONTENT) // 2


class Handler(BaseHTTPRequestHandler):
    """The first folder of the path says how the server behaves."""

    def do_GET(self):
        _, way, name = self.path.split("/", 2)
        self.server.asked.append((way, self.headers.get("Range")))
        getattr(self, way, self.missing)(name)

    def log_message(self, *args):
        pass

    def content(self, name):
        return self.server.files[name]

    def answer(self, status, data=b"", length=None, **headers):
        self.send_response(status)
        for header, value in headers.items():
            self.send_header(header.replace("_", "-"), value)
        if length != 0:
            self.send_header("Content-Length", str(length or len(data)))
        self.end_headers()
        self.wfile.write(data)

    def good(self, name, end=None, total=None):
        """As a proper server: ranges where asked for; `end`: the connection is cut there."""
        data, begun = self.content(name), self.headers.get("Range")
        if begun is None:
            return self.answer(200, data[:end], total or len(data))
        first = int(begun.removeprefix("bytes=").removesuffix("-"))
        if first >= len(data):
            return self.answer(416, Content_Range=f"bytes */{len(data)}")
        rest = f"bytes {first}-{len(data) - 1}/{len(data)}"
        return self.answer(206, data[first:end], len(data) - first, Content_Range=rest)

    def cut(self, name):
        self.good(name, end=HALF)

    def cut_at_once(self, name):
        self.good(name, end=0)

    def cut_without_length(self, name):
        self.answer(200, self.content(name)[:HALF], length=0)

    def no_ranges(self, name):
        self.answer(200, self.content(name))

    def other_range(self, name):
        data = self.content(name)
        if self.headers.get("Range"):
            self.answer(206, data[7:], Content_Range=f"bytes 7-{len(data) - 1}/{len(data)}")
        else:
            self.answer(200, data)

    def only_parts(self, name):
        self.answer(206, self.content(name)[7:], Content_Range="bytes 7-9/10")

    def page(self, name):
        self.answer(200, b"<!DOCTYPE html><title>Log in</title>", Content_Type="text/html; charset=utf-8")

    def page_in_disguise(self, name):
        self.answer(200, b"<!DOCTYPE html><title>Log in</title>", Content_Type="application/gzip")

    def wrong(self, name):
        self.answer(200, self.content(name)[::-1])

    def endless(self, name):
        self.answer(200, self.content(name) * 20)

    def moved(self, name):
        self.answer(302, Location=f"/good/{name}")

    def elsewhere(self, name):
        self.answer(302, Location=f"http://localhost:{self.server.server_port}/good/{name}")

    def to_another_port(self, name):
        self.answer(302, Location=f"http://127.0.0.1:9/good/{name}")

    def to_a_file(self, name):
        self.answer(302, Location="file:///etc/hostname")

    def to_ftp(self, name):
        self.answer(302, Location=f"ftp://127.0.0.1:{self.server.server_port}/{name}")

    def in_circles(self, name):
        self.answer(302, Location=f"/in_circles/{name}x")

    def never_ends(self, name):
        """Bytes without a length for as long as anybody listens."""
        self.send_response(200)
        self.end_headers()
        while not self.server.over.is_set():
            try:
                self.wfile.write(b"x" * 65536)
            except OSError:
                self.server.reached.set()
                return

    def longer_than_told(self, name):
        self.answer(200, self.content(name) + b"more", len(self.content(name)) - 5)

    def missing(self, name):
        self.answer(404)

    def hangs(self, name, sent=0):
        """So many bytes, then nothing until the test is over."""
        data = self.content(name)
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:sent])
        self.wfile.flush()
        self.server.reached.set()
        self.server.over.wait(60)

    def hangs_half_way(self, name):
        self.hangs(name, HALF)


@pytest.fixture
def server(monkeypatch):
    """A server on this machine; `server.address("good")` is where it behaves so."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.asked = {FILE.name: CONTENT}, []
        server.reached, server.over = threading.Event(), threading.Event()
        server.address = lambda way: f"http://127.0.0.1:{server.server_port}/{way}/"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A reader who has downloaded nothing and named no folder."""
    monkeypatch.setenv("LNTUTOR_HOME", str(tmp_path / "home"))
    for entry in download.CORPORA.values():
        if entry.variable:
            monkeypatch.delenv(entry.variable, raising=False)
    return tmp_path / "home"


@pytest.fixture(scope="session")
def multi30k():
    """The folder of the real files."""
    folder = os.environ.get("LNTUTOR_MULTI30K")
    if not folder:
        pytest.skip("LNTUTOR_MULTI30K names no folder: Multi30k may not be passed on, so it is not in the project")
    return Path(folder)


def fetch(server, way, folder):
    """One file; the sum of the bytes that were reported."""
    seen = []
    fetch_files((FILE,), server.address(way), folder, seen.append)
    assert (folder / FILE.name).read_bytes() == CONTENT
    assert [path.name for path in folder.iterdir()] == [FILE.name]
    return sum(seen)


@pytest.mark.parametrize("way", ["good", "no_ranges", "other_range", "moved"])
@pytest.mark.parametrize(
    "kept", [None, b"", CONTENT[:HALF], CONTENT, b"x" * HALF, b"x" * len(CONTENT), CONTENT + b"x"],
    ids=["nothing", "no bytes", "half", "all, not verified", "another half", "another file", "too much"],
)  # fmt: skip
def test_whatever_an_earlier_call_left_the_next_succeeds(server, tmp_path, way, kept):
    """Oracle: the bytes on the server; every byte of the file is reported once in the sum."""
    if kept is not None:
        (tmp_path / f"{FILE.name}.part").write_bytes(kept)
    assert fetch(server, way, tmp_path) == FILE.size


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=st.integers(0, len(CONTENT)), damaged=st.booleans())
def test_a_download_goes_on_from_any_byte(server, tmp_path, kept, damaged):
    """Oracle: the bytes on the server, and the range that it was asked for."""
    server.asked.clear()
    (tmp_path / FILE.name).unlink(missing_ok=True)
    (tmp_path / f"{FILE.name}.part").write_bytes(b"x" * min(1, kept) * damaged + CONTENT[damaged * min(1, kept) : kept])
    fetch(server, "good", tmp_path)
    expected = f"bytes={kept}-" if 0 < kept < FILE.size else None
    assert server.asked[:1] == ([("good", expected)] if kept < FILE.size or damaged else [])


def test_what_is_there_is_not_asked_for_again(server, tmp_path):
    """Oracle: the server's list of requests."""
    fetch(server, "good", tmp_path)
    assert fetch(server, "good", tmp_path) == FILE.size
    assert len(server.asked) == 1


def test_a_file_that_was_damaged_later_is_replaced(server, tmp_path):
    """Oracle: the bytes on the server."""
    (tmp_path / FILE.name).write_bytes(b"x")
    fetch(server, "good", tmp_path)


REFUSED = {
    "cut": (r"cut; 153600 of 307200 bytes of train\.de\.gz are kept. Run the same command again", HALF),
    "cut_at_once": (r"cut; 0 of 307200 bytes", 0),
    "cut_without_length": (r"cut; 153600 of 307200 bytes", HALF),
    "page": (r"a web page instead of train\.de\.gz: does this network want you to log in", None),
    "page_in_disguise": (r"another file than train\.de\.gz \(a web page", None),
    "wrong": (r"another file than train\.de\.gz \(SHA-256 [0-9a-f]{64}\)\. Nothing of it was kept", None),
    "endless": (r"another file than train\.de\.gz", None),
    "elsewhere": (r"leads on to http://localhost:\d+/good/train\.de\.gz, another host, which is not followed", None),
    "to_another_port": (r"leads on to http://[\d.]+:9/good/train\.de\.gz, another host, which is not", None),
    "to_a_file": (r"answered 302 .*file:///etc/hostname' is not allowed", None),
    "to_ftp": (r"leads on to ftp://.*, another host", None),
    "in_circles": (r"answered 302", None),
    "never_ends": (r"another file than train\.de\.gz", None),
    "longer_than_told": (r"another file than train\.de\.gz|cut; 307195 of 307200 bytes", None),
    "missing": (r"answered 404 Not Found", None),
    "only_parts": (r"answered 206", None),
}


@pytest.mark.parametrize(("way", "words", "kept"), [(way, *rest) for way, rest in REFUSED.items()], ids=REFUSED)
def test_a_bad_answer_is_said_and_the_next_call_succeeds(server, tmp_path, way, words, kept):
    """Oracle: the misbehaviour; nothing but honest bytes is kept, and a good server then gives the file."""
    with pytest.raises(CorpusError, match=words):
        fetch_files((FILE,), server.address(way), tmp_path)
    part = tmp_path / f"{FILE.name}.part"
    assert (part.stat().st_size if part.exists() else None) == kept
    assert not (tmp_path / FILE.name).exists()
    assert fetch(server, "good", tmp_path) == FILE.size
    assert server.asked[-1] == ("good", f"bytes={kept}-" if kept else None)


@pytest.mark.parametrize(
    ("old", "new", "followed"),
    [
        ("https://localhost/a", "https://localhost/b", True),
        ("http://localhost/a", "https://localhost/b", True),
        ("https://localhost/a", "http://localhost/b", False),
        ("https://localhost/a", "https://localhost:8443/b", False),
        ("https://localhost/a", "https://localhost.invalid/b", False),
        ("https://localhost/a", "https://localhost@127.0.0.1/b", False),
        ("https://localhost/a", "ftp://localhost/b", False),
    ],
)
def test_a_redirection_stays_at_its_host_and_encrypted(old, new, followed):
    """Oracle: the two addresses; only the path may change, and http may become https."""
    request = urllib.request.Request(old)
    ask = partial(download._SameHost().redirect_request, request, io.BytesIO(), 302, "Found", {}, new)
    if followed:
        assert ask().full_url == new
    else:
        with pytest.raises(CorpusError, match="another host, which is not followed"):
            ask()


def test_a_log_in_page_does_not_cost_what_was_kept(server, tmp_path):
    """Oracle: the half that an earlier call left."""
    part = tmp_path / f"{FILE.name}.part"
    part.write_bytes(CONTENT[:HALF])
    with pytest.raises(CorpusError, match="web page"):
        fetch_files((FILE,), server.address("page"), tmp_path)
    assert part.read_bytes() == CONTENT[:HALF]


def test_a_server_that_falls_silent_is_not_waited_for(server, tmp_path, monkeypatch):
    """Oracle: a server that sends half and hangs; what came is kept."""
    monkeypatch.setattr(download, "TIMEOUT", 0.5)
    with pytest.raises(CorpusError, match="cut; 153600 of 307200"):
        fetch_files((FILE,), server.address("hangs_half_way"), tmp_path)
    with pytest.raises(CorpusError, match="cut; 0 of"):
        fetch_files((FILE,), server.address("hangs"), tmp_path / "other")


PROCESS = """
import os, sys, json
from pathlib import Path
from lntutor.download import Published, fetch_files
address, folder, at_the_end, file = sys.argv[1:]
if at_the_end == "True":
    os.replace = lambda *_: os.kill(os.getpid(), 9)
fetch_files((Published(*json.loads(file)),), address, Path(folder))
"""


@pytest.mark.parametrize(
    ("way", "kept"), [("hangs", 0), ("hangs_half_way", HALF), ("good", len(CONTENT))],
    ids=["before a byte", "half way", "before it is verified"],
)  # fmt: skip
def test_a_killed_process_leaves_a_state_from_which_the_next_call_succeeds(server, tmp_path, way, kept):
    """Oracle: SIGKILL, which no process can handle."""
    file = f'["{FILE.name}", {FILE.size}, "{FILE.sha256}", ""]'
    command = [sys.executable, "-c", PROCESS, server.address(way), str(tmp_path), str(way == "good"), file]
    part = tmp_path / f"{FILE.name}.part"
    with subprocess.Popen(command) as process:
        if way != "good":
            assert server.reached.wait(60)
            while process.poll() is None and not (part.exists() and part.stat().st_size == kept):
                time.sleep(0.02)
            process.kill()
        assert process.wait(60) == -signal.SIGKILL
    assert part.stat().st_size == kept
    server.asked.clear()
    assert fetch(server, "good", tmp_path) == FILE.size
    assert server.asked == {0: [("good", None)], HALF: [("good", f"bytes={HALF}-")]}.get(kept, [])


def test_without_a_connection_it_says_exactly_what_to_do(home, capsys, monkeypatch):
    """Oracle: a port where nothing listens; the address, the six names and the command are in the message."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as closed:
        port = closed.server_port
    monkeypatch.setattr(download, "ADDRESS", f"http://127.0.0.1:{port}/")
    assert main(["data", "multi30k"]) == 1
    message = capsys.readouterr().err
    assert "could not be reached" in message
    assert "python -m lntutor data multi30k --folder" in message
    for file in MULTI30K:
        assert file.name in message
    with pytest.raises(CorpusError, match=r"not on this computer\. To get it: python -m lntutor data multi30k"):
        ln.load_corpus("multi30k")
    (download.cache_folder("multi30k") / "train.de.gz").write_bytes(b"")
    with pytest.raises(CorpusError, match=r"lacks train\.en\.gz, .* not finished\. To fix: python -m lntutor data"):
        ln.load_corpus("multi30k")


def test_a_folder_that_cannot_be_written_is_named(server, tmp_path):
    """Oracle: a file where the folder should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"file cannot be written .*LNTUTOR_HOME"):
        fetch_files((FILE,), server.address("good"), tmp_path / "file")


def test_an_interrupt_is_no_traceback(home, capsys, monkeypatch):
    """Oracle: the shell's exit code of an interrupted program, 130."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "fetch_files", interrupted)
    assert main(["data", "multi30k"]) == 130
    assert "Run the same command again" in capsys.readouterr().err


def test_multi30k_is_not_replaced_by_another_corpus(home):
    """Oracle: nothing was downloaded; and the shipped captions are under another name."""
    with pytest.raises(CorpusError, match=r"not on this computer\. To get it: python -m lntutor data multi30k"):
        ln.load_corpus("multi30k")
    with pytest.raises(CorpusError, match=r"is not the file that belongs here .*load_corpus"):
        ln.load_corpus("multi30k", folder=download.CAPTIONS)


@pytest.mark.parametrize("name", ["multi30k", "iwslt14"])
def test_a_variable_that_names_no_folder_is_said(home, monkeypatch, name):
    """Oracle: the variable's name and what it names."""
    monkeypatch.setenv(f"LNTUTOR_{name.upper()}", str(home / "nowhere"))
    with pytest.raises(CorpusError, match=f"LNTUTOR_{name.upper()} should name .*nowhere"):
        ln.load_corpus(name)


@pytest.mark.parametrize(
    ("given_name", "words"),
    [("captons", "Did you mean 'captions'"), ("", "There are captions, multi30k, iwslt14"), ("no/folder", "no/folder")],
)
def test_an_unknown_name_is_answered_with_those_there_are(given_name, words):
    """Oracle: the names of the corpora."""
    with pytest.raises(CorpusError, match=words):
        ln.load_corpus(given_name)


def test_the_listing_names_each_corpus_its_licence_and_the_way_to_it(home, capsys, monkeypatch):
    """Oracle: the catalogue; the captions ship, the others are not here until a folder is named."""
    assert main(["data"]) == 0
    printed = capsys.readouterr().out
    for name, entry in download.CORPORA.items():
        assert f"{name}\n  {entry.what}\n  licence: {entry.licence}\n" in printed
    assert f"here: {download.CAPTIONS}" in printed
    assert "To get it: python -m lntutor data multi30k" in printed
    assert "LNTUTOR_IWSLT14" in printed
    monkeypatch.setenv("LNTUTOR_IWSLT14", str(download.CAPTIONS))
    assert download.describe("iwslt14").endswith(f"here: {download.CAPTIONS}")


def test_a_corpus_of_ones_own_can_be_looked_at_on_the_command_line(home, capsys):
    """Oracle: the counts of the shipped captions, read as if they were prepared by hand."""
    sizes = "train 10000, val 1000, test 1000 pairs"
    assert main(["data", "captions"]) == 0
    assert sizes in capsys.readouterr().out
    assert main(["data", "iwslt14", "--folder", str(download.CAPTIONS)]) == 0
    printed = capsys.readouterr().out
    assert sizes in printed
    assert "Set LNTUTOR_IWSLT14" in printed


def test_the_published_sums_are_those_of_the_real_files(multi30k):
    """Oracle: SHA256SUMS beside the real files, and the sizes of these."""
    sums = dict(line.split()[::-1] for line in (multi30k / "SHA256SUMS").read_text().splitlines())
    assert sums == {file.name: file.sha256 for file in MULTI30K}
    assert [(multi30k / file.name).stat().st_size for file in MULTI30K] == [file.size for file in MULTI30K]


def test_multi30k_is_downloaded_whole_and_then_loads(multi30k, server, home, capsys, monkeypatch):
    """Oracle: the real files, from a server that cuts the first of them once."""
    server.files = {file.name: (multi30k / file.name).read_bytes() for file in MULTI30K}
    monkeypatch.setattr(download, "ADDRESS", server.address("cut"))
    assert main(["data", "multi30k"]) == 1
    monkeypatch.setattr(download, "ADDRESS", server.address("good"))
    assert main(["data", "multi30k"]) == 0
    assert "train 29000, val 1014, test 1000 pairs" in capsys.readouterr().out
    assert server.asked[1] == ("good", f"bytes={HALF}-")
    assert len(ln.load_corpus("multi30k").pairs("train")) == 29_000


def test_multi30k_is_brought_from_a_folder_and_checked(multi30k, home, tmp_path, capsys, monkeypatch):
    """Oracle: the real files; then one of them damaged, there and here."""
    assert main(["data", "multi30k", "--folder", str(multi30k)]) == 0
    kept = download.cache_folder("multi30k")
    assert {path.name for path in kept.iterdir()} == {file.name for file in MULTI30K}
    (kept / "val.de.gz").write_bytes((kept / "val.en.gz").read_bytes())
    with pytest.raises(CorpusError, match=r"val\.de is not the file .* To fix: python -m lntutor data multi30k$"):
        ln.load_corpus("multi30k")
    (kept / "val.de.gz").write_bytes((multi30k / "val.de.gz").read_bytes()[:-30])
    with pytest.raises(CorpusError, match=r"val\.de\.gz ends too early.* To fix: python -m lntutor data multi30k$"):
        ln.load_corpus("multi30k")
    assert main(["data", "multi30k", "--folder", str(kept)]) == 1
    assert "val.de.gz not as published" in capsys.readouterr().err
    (kept / "val.de.gz").unlink()
    assert main(["data", "multi30k", "--folder", str(kept)]) == 1
    assert "lacks val.de.gz" in capsys.readouterr().err
    monkeypatch.setenv("LNTUTOR_MULTI30K", str(multi30k))
    assert "goes first" in download._get("multi30k", multi30k)
