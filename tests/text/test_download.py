"""Downloads against a real server that misbehaves on purpose: a file is whole or absent, and the next call succeeds."""

import hashlib
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import lntutor as ln
from lntutor.__main__ import main
from lntutor.text import download, files
from lntutor.text.download import MULTI30K, CorpusError, Published, fetch_files

CONTENT = bytes(range(256)) * 1200  # 300 kB, several chunks
FILE = Published("train.de.gz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), "")
HALF = len(CONTENT) // 2
PAGE = b"<!DOCTYPE html><title>Log in</title>"
# The first folder of an address → what the server answers there: status, body, headers.
ANSWERS = {
    "good": lambda data, name: (200, data, {}),
    "moved": lambda data, name: (302, b"", {"Location": f"/good/{name}"}),
    "cut": lambda data, name: (200, data[:HALF], {"Content-Length": len(data)}),
    "cut_without_length": lambda data, name: (200, data[:HALF], {"Content-Length": None}),
    "page": lambda data, name: (200, PAGE, {"Content-Type": "text/html; charset=utf-8"}),
    "page_in_disguise": lambda data, name: (200, PAGE, {"Content-Type": "application/gzip"}),
    "wrong": lambda data, name: (200, data[::-1], {}),
    "part": lambda data, name: (206, data[7:], {"Content-Range": "bytes 7-9/10"}),
    "to_a_file": lambda data, name: (302, b"", {"Location": "file:///etc/hostname"}),
    "in_circles": lambda data, name: (302, b"", {"Location": f"/in_circles/{name}x"}),
    "missing": lambda data, name: (404, b"", {}),
}


class Handler(BaseHTTPRequestHandler):
    """Answers as ANSWERS says, or sends half of the file and waits, or never stops sending."""

    def do_GET(self):
        _, way, name = self.path.split("/", 2)
        data = self.server.files.get(name, b"")
        self.server.asked.append(name)
        if way in ANSWERS:
            self.answer(*ANSWERS[way](data, name))
        elif way == "hangs":
            self.answer(200, data[:HALF], {"Content-Length": len(data)})
            self.server.reached.set()
            self.server.over.wait(60)
        elif way == "never_ends":
            self.answer(200, b"", {"Content-Length": None})
            while not self.server.over.is_set():
                try:
                    self.wfile.write(b"x" * 65536)
                except OSError:
                    return

    def answer(self, status, body, headers):
        self.send_response(status)
        for header, value in ({"Content-Length": len(body)} | headers).items():
            if value is not None:
                self.send_header(header, str(value))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *args):
        pass


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
    monkeypatch.setenv("LNTUTOR_CORPORA", str(tmp_path / "home"))
    for entry in download.CORPORA.values():
        if entry.variable:
            monkeypatch.delenv(entry.variable, raising=False)
    return tmp_path / "home"


def fetch(server, way, folder):
    """One file, which is then alone in its folder; the number of bytes that were reported."""
    seen = []
    fetch_files((FILE,), server.address(way), folder, seen.append)
    assert (folder / FILE.name).read_bytes() == CONTENT
    assert [path.name for path in folder.iterdir()] == [FILE.name]
    return sum(seen)


@pytest.mark.parametrize("way", ["good", "moved"])
def test_a_file_is_downloaded_once_quietly_and_again_if_it_was_damaged(server, tmp_path, way, capfd):
    """Oracle: the bytes on the server, its list of requests, and a terminal on which pooch says nothing."""
    assert fetch(server, way, tmp_path / "new") == FILE.size
    asked = len(server.asked)
    assert fetch(server, way, tmp_path / "new") == 0
    assert len(server.asked) == asked
    (tmp_path / "new" / FILE.name).write_bytes(b"x")
    assert fetch(server, way, tmp_path / "new") == FILE.size
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(os.name == "nt", reason="such modes are of POSIX")
def test_a_downloaded_file_can_be_read_by_others(server, tmp_path):
    """Oracle: its mode; one folder of corpora may serve a class."""
    fetch(server, "good", tmp_path)
    assert stat.S_IMODE((tmp_path / FILE.name).stat().st_mode) == 0o644


REFUSED = {
    "cut": r"could not be downloaded: there is no connection, or it was cut .*Run the same command again",
    "cut_without_length": r"is not train\.de\.gz as published \(SHA-256 differs\), so it was not kept",
    "hangs": "it was cut",
    "never_ends": r"is not train\.de\.gz as published",
    "page": r"a web page instead of train\.de\.gz: does this network want you to log in",
    "page_in_disguise": r"a web page instead of train\.de\.gz",
    "wrong": r"is not train\.de\.gz as published",
    "part": r"is not train\.de\.gz as published",
    "to_a_file": r"could not be downloaded: .*InvalidSchema",
    "in_circles": r"could not be downloaded: .*TooManyRedirects",
    "missing": r"404 Client Error: Not Found for url: .*/missing/train\.de\.gz\. Without a connection",
}


@pytest.mark.parametrize("way", REFUSED)
@pytest.mark.parametrize("before", [None, b"an old file"], ids=["empty", "old"])
def test_a_bad_answer_is_reported_and_the_next_call_succeeds(server, tmp_path, monkeypatch, way, before):
    """Oracle: the misbehaviour; the folder is as it was before, and a good server then gives the file."""
    monkeypatch.setattr(download, "TIMEOUT", 0.5)
    if before:
        (tmp_path / FILE.name).write_bytes(before)
    with pytest.raises(CorpusError, match=REFUSED[way]) as refused:
        fetch_files((FILE,), server.address(way), tmp_path)
    assert "python -m lntutor data multi30k --folder" in str(refused.value)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([before] if before else [])
    assert fetch(server, "good", tmp_path) == FILE.size


PROCESS = """
import os, sys, json, shutil
from pathlib import Path
from lntutor.text.download import Published, fetch_files
address, folder, at_the_end, file = sys.argv[1:]
if at_the_end == "True":
    shutil.move = lambda *_: os.kill(os.getpid(), 9)
fetch_files((Published(*json.loads(file)),), address, Path(folder))
"""


@pytest.mark.parametrize("way", ["hangs", "good"], ids=["half way", "before it is moved"])
def test_a_killed_process_leaves_a_state_from_which_the_next_call_succeeds(server, tmp_path, monkeypatch, way):
    """Oracle: SIGKILL, which no process can handle; an hour later its unfinished file is removed."""
    file = f'["{FILE.name}", {FILE.size}, "{FILE.sha256}", ""]'
    command = [sys.executable, "-c", PROCESS, server.address(way), str(tmp_path), str(way == "good"), file]
    with subprocess.Popen(command) as process:
        if way == "hangs":
            assert server.reached.wait(60)
            process.kill()
        assert process.wait(60) == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name != FILE.name
    os.utime(left, (time.time() - 2 * files.OLD,) * 2)
    assert fetch(server, "good", tmp_path) == FILE.size


def test_without_a_connection_it_says_exactly_what_to_do(home, capsys, monkeypatch):
    """Oracle: a port where nothing listens; the six names and the command are in the message."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as closed:
        port = closed.server_port
    monkeypatch.setattr(download, "ADDRESS", f"http://127.0.0.1:{port}/")
    assert main(["data", "multi30k"]) == 1
    message = capsys.readouterr().err
    assert "there is no connection" in message
    for part in ("python -m lntutor data multi30k --folder", *(file.name for file in MULTI30K)):
        assert part in message
    with pytest.raises(CorpusError, match=r"not on this computer\. To get it: python -m lntutor data multi30k"):
        ln.load_corpus("multi30k")
    (download.cache_folder("multi30k") / "train.de.gz").write_bytes(b"")
    with pytest.raises(CorpusError, match=r"lacks train\.en\.gz, .* not finished\. To fix: python -m lntutor data"):
        ln.load_corpus("multi30k")


def test_a_folder_that_cannot_be_written_is_named(server, tmp_path, monkeypatch):
    """Oracle: a file where the folder should be; then an error as of a folder that is read-only."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CorpusError, match=r"file cannot be written \(.*\)\. Set LNTUTOR_CORPORA to a folder of yours"):
        fetch_files((FILE,), server.address("good"), tmp_path / "file")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    with pytest.raises(CorpusError, match=r"cannot be written \(Permission denied\)\. Set LNTUTOR_CORPORA"):
        fetch_files((FILE,), server.address("good"), tmp_path)


def test_an_interrupt_is_no_traceback(home, capsys, monkeypatch):
    """Oracle: the shell's exit code of an interrupted program, 130."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "fetch_files", interrupted)
    assert main(["data", "multi30k"]) == 130
    assert "Run the same command again" in capsys.readouterr().err


def test_multi30k_is_not_replaced_by_another_corpus(home):
    """Oracle: the sums of Multi30k, which the shipped captions do not have."""
    with pytest.raises(CorpusError, match=r"is not the file that belongs here .*load_corpus"):
        ln.load_corpus("multi30k", folder=download.CAPTIONS)


@pytest.mark.parametrize("name", ["multi30k", "iwslt14"])
def test_a_variable_that_names_no_folder_is_answered_with_its_name(home, monkeypatch, name):
    """Oracle: the variable's name and what it names."""
    monkeypatch.setenv(f"LNTUTOR_{name.upper()}", str(home / "nowhere"))
    with pytest.raises(CorpusError, match=f"LNTUTOR_{name.upper()} should name .*nowhere"):
        ln.load_corpus(name)


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


def test_the_published_sums_are_those_of_the_real_files(multi30k_folder):
    """Oracle: SHA256SUMS beside the real files, and the sizes of these."""
    sums = dict(line.split()[::-1] for line in (multi30k_folder / "SHA256SUMS").read_text().splitlines())
    assert sums == {file.name: file.sha256 for file in MULTI30K}
    assert [(multi30k_folder / file.name).stat().st_size for file in MULTI30K] == [file.size for file in MULTI30K]


def test_multi30k_is_downloaded_whole_and_then_loads(multi30k_folder, server, home, capsys, monkeypatch):
    """Oracle: the real files, from a server that cuts the first of them once."""
    server.files = {file.name: (multi30k_folder / file.name).read_bytes() for file in MULTI30K}
    monkeypatch.setattr(download, "ADDRESS", server.address("cut"))
    assert main(["data", "multi30k"]) == 1
    monkeypatch.setattr(download, "ADDRESS", server.address("good"))
    assert main(["data", "multi30k"]) == 0
    assert "train 29000, val 1014, test 1000 pairs" in capsys.readouterr().out
    assert len(ln.load_corpus("multi30k").pairs("train")) == 29_000


def test_multi30k_is_brought_from_a_folder_and_checked(multi30k_folder, home, tmp_path, capsys, monkeypatch):
    """Oracle: the real files; then one of them damaged, there and here."""
    assert main(["data", "multi30k", "--folder", str(multi30k_folder)]) == 0
    kept = download.cache_folder("multi30k")
    assert {path.name for path in kept.iterdir()} == {file.name for file in MULTI30K}
    (kept / "val.de.gz").write_bytes((kept / "val.en.gz").read_bytes())
    with pytest.raises(CorpusError, match=r"val\.de is not the file .* To fix: python -m lntutor data multi30k$"):
        ln.load_corpus("multi30k")
    (kept / "val.de.gz").write_bytes((multi30k_folder / "val.de.gz").read_bytes()[:-30])
    with pytest.raises(CorpusError, match=r"val\.de\.gz ends too early.* To fix: python -m lntutor data multi30k$"):
        ln.load_corpus("multi30k")
    assert main(["data", "multi30k", "--folder", str(kept)]) == 1
    assert "val.de.gz not as published" in capsys.readouterr().err
    (kept / "val.de.gz").unlink()
    assert main(["data", "multi30k", "--folder", str(kept)]) == 1
    assert "lacks val.de.gz" in capsys.readouterr().err
    monkeypatch.setenv("LNTUTOR_MULTI30K", str(multi30k_folder))
    assert "goes first" in download._get("multi30k", multi30k_folder)
