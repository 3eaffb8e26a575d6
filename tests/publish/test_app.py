"""How the app is started, what it says and what it serves; tests/browser/test_app.py opens it for real."""

import asyncio
import re
import socket
import sys

import nbformat
import pytest
import tornado.web
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

from lntutor import app, explore, gallery, serving
from lntutor.__main__ import main

KERNELS = {"limit": 2, "warm": 0, "homes": ""}


@pytest.fixture
def taken():
    """A port that another program has."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.fixture
def built(tmp_path):
    """A function that makes the app, not started, over a folder of its own."""

    def build(ip="127.0.0.1", word=""):
        return serving.build(tmp_path, "page", ip=ip, port=8866, word=word, lecture=True, kernels=KERNELS)

    yield build
    serving.App.clear_instance()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--port", "0"], "must be a number from 1 to 65535, got '0'"),
        (["--port", "http"], "must be a number from 1 to 65535, got 'http'"),
        (["--ip", "my-laptop"], "must be an address of this machine, as 192.168.1.20, got 'my-laptop'"),
        (["--word", "short"], "must be at least six small letters a to z, got 'short'"),
        (["--pages", "0"], "must be a whole number, at least 1, got '0'"),
        (["--warm", "-1"], "must be a whole number, at least 0, got '-1'"),
        (["--classroom", "--ip", "10.0.0.1"], "not allowed with argument --classroom"),
    ],
)
def test_a_bad_option_is_answered_with_what_is_allowed(arguments, words, capsys):
    """Oracle: the sentence, and the exit code of a wrong command line."""
    with pytest.raises(SystemExit, match="2"):
        main(["app", *arguments])
    assert words in capsys.readouterr().err


def test_a_taken_port_is_named(taken, capsys):
    """Oracle: the port in the sentence, and no server started."""
    assert main(["app", "--port", str(taken)]) == 2
    assert f"port {taken} is taken" in capsys.readouterr().err


def test_without_a_port_the_next_free_one_is_taken(taken, monkeypatch):
    """Oracle: the default port is another program's."""
    monkeypatch.setattr(app, "PORT", taken)
    assert taken < app.free_port("127.0.0.1", None) < taken + 10


def test_an_address_of_another_machine_is_refused():
    """Oracle: the operating system, which has no such address (RFC 5737)."""
    with pytest.raises(OSError, match=r"cannot listen at 192\.0\.2\.7"):
        app.free_port("192.0.2.7", 8866)


def test_a_missing_voila_is_answered_with_the_command_that_installs_it(monkeypatch, capsys):
    """Oracle: an import that fails."""
    monkeypatch.setitem(sys.modules, "lntutor.serving", None)
    monkeypatch.delattr("lntutor.serving")
    assert main(["app", "--no-browser"]) == 1
    assert "pip install -r requirements.txt" in capsys.readouterr().err


def test_every_tile_has_a_notebook_and_nothing_else_is_served(tmp_path):
    """Oracle: the gallery's list; every explorer is one of the package."""
    folder = app.write_notebooks(tmp_path / "pages")
    tiles = [*gallery.EXPLORERS, *gallery.NOTEBOOKS]
    assert {path.name for path in folder.rglob("*")} == {f"{tile.key}.ipynb" for tile in tiles}
    assert {tile.key for tile in gallery.EXPLORERS} == {name for name in explore.__all__ if name.endswith("Explorer")}
    for tile in tiles:
        notebook = nbformat.read(folder / f"{tile.key}.ipynb", as_version=4)
        nbformat.validate(notebook)
        assert notebook.metadata.title == tile.title
        assert f"/voila/render/{tile.key}.ipynb" in app.start_page()


def test_every_tile_has_a_picture_that_is_small():
    """Oracle: the files; 60 KB each keep the start page near 1 MB."""
    for tile in [*gallery.EXPLORERS, *gallery.NOTEBOOKS]:
        assert 0 < (gallery.PICTURES / f"{tile.key}.webp").stat().st_size < 60_000


def test_the_start_page_asks_no_other_machine():
    """Oracle: no address with a host in the page."""
    assert not re.findall(r"(?:src|href)=[\"'](?:https?:)?//", app.start_page())


def test_the_templates_ask_no_other_machine():
    """Oracle: no address with a host in what we put in place of Voilà's templates."""
    for path in serving.TEMPLATES.iterdir():
        assert not re.search("//(?! )", path.read_text(encoding="utf-8"))  # with a space, it begins a comment


def test_this_machine_alone_is_told_in_one_line():
    """Oracle: the address, and no word in it."""
    first, *rest = app.announcement("127.0.0.1", 8866, "", 5)
    assert first == "The app is at http://127.0.0.1:8866/ for this machine alone."
    assert rest == ["At most 5 pages are open at once. Press Ctrl-C to end."]


def test_a_classroom_is_told_the_address_and_what_is_exposed():
    """Oracle: the sentences that matter."""
    address = "192.168.1.20"
    said = "\n".join(app.announcement(address, 8866, "kotabemiru", 5))
    assert f"http://{address}:8866/kotabemiru\n" in said
    assert "each page runs a Python process here" in said
    assert "cannot edit or run code of their own, and cannot read other files" in said
    assert "Ctrl-C" in said
    assert "whoever finds the port is in" in "\n".join(app.announcement("0.0.0.0", 8866, "", 5))


def test_a_new_word_is_one_that_the_option_would_take():
    """Oracle: the check of --word, and two words that differ."""
    first, second = app.new_word(), app.new_word()
    assert app._word(first) == first != second


@pytest.mark.parametrize(
    ("ip", "others"), [("127.0.0.1", False), ("127.0.0.9", False), ("0.0.0.0", True), ("10.0.0.1", True)]
)
def test_only_loopback_is_closed_to_others(ip, others, built):
    """Oracle: the addresses' meaning; a browser elsewhere cannot call loopback by another name."""
    assert app.is_open(ip) is others
    assert built(ip).tornado_settings["allow_remote_access"] is others


def test_large_type_is_the_default_and_can_be_turned_off():
    """Oracle: the variable that figures and explorers read."""
    assert app.app_environment(environ={})["LNTUTOR_LECTURE"] == "1"
    assert app.app_environment(False, environ={})["LNTUTOR_LECTURE"] == "0"
    assert app.app_environment(environ={"LNTUTOR_LECTURE": "0"})["LNTUTOR_LECTURE"] == "0"


def test_code_is_hidden_and_no_file_is_served(built):
    """Oracle: Voilà's own settings."""
    settings = built().voila_configuration
    assert settings.strip_sources
    assert settings.file_allowlist == []
    assert (settings.allow_template_override, settings.allow_theme_override) == ("NO", "NO")
    assert not settings.show_tracebacks


def test_settings_of_the_user_for_voila_open_nothing(built, tmp_path, monkeypatch):
    """Oracle: a voila.json in the folder that would allow all files and another address."""
    (tmp_path / "voila.json").write_text(
        '{"VoilaConfiguration": {"file_allowlist": [".*"]}, "Voila": {"ip": "0.0.0.0"}}'
    )
    monkeypatch.chdir(tmp_path)
    made = built()
    assert (made.voila_configuration.file_allowlist, made.ip) == ([], "127.0.0.1")


@pytest.fixture
def manager(monkeypatch, tmp_path):
    """Kernels that are only counted."""
    started = []

    async def start(self, **options):
        started.append(options)
        self._kernels[f"kernel {len(started)}"] = object()
        return f"kernel {len(started)}"

    monkeypatch.setattr(AsyncMappingKernelManager, "_async_start_kernel", start)
    manager = serving.Kernels(limit=2, warm=0, pause=0, homes=str(tmp_path))
    manager.started = started
    return manager


def test_more_pages_than_the_limit_are_refused_with_a_sentence(manager):
    """Oracle: two of three pages open."""

    async def open_three():
        await manager.start_kernel(kernel_name=NATIVE_KERNEL_NAME)
        await manager.start_kernel(kernel_name=NATIVE_KERNEL_NAME)
        with pytest.raises(tornado.web.HTTPError, match="2 pages are open") as refused:
            await manager.start_kernel(kernel_name=NATIVE_KERNEL_NAME)
        return refused.value.status_code

    assert asyncio.run(open_three()) == 503


def test_each_kernel_of_a_class_keeps_notes_of_its_own(manager):
    """Oracle: the folders of two kernels, and the environment that each was started with otherwise."""

    async def open_two():
        for _ in range(2):
            await manager.start_kernel(env={"LNTUTOR_REVEAL": "1"})

    asyncio.run(open_two())
    first, second = (options["env"] for options in manager.started)
    assert first["LNTUTOR_HOME"] != second["LNTUTOR_HOME"]
    assert first["LNTUTOR_REVEAL"] == "1"


def test_a_warm_kernel_is_handed_out_first_and_replaced(manager, monkeypatch):
    """Oracle: the ids in the order in which they were started."""

    async def warm_one(self):
        return await self._start()

    monkeypatch.setattr(serving.Kernels, "_warm_one", warm_one)
    manager.warm = 1

    async def open_one():
        manager.fill()
        first = await manager.start_kernel()
        await asyncio.sleep(0.05)  # the pause is over
        return first, await manager.start_kernel()

    assert asyncio.run(open_one()) == ("kernel 1", "kernel 2")


def test_a_kernel_that_could_not_be_warmed_is_no_matter(manager, monkeypatch, caplog):
    """Oracle: the page gets a kernel of its own."""

    async def fail(self):
        raise RuntimeError("no memory")

    monkeypatch.setattr(serving.Kernels, "_warm_one", fail)
    manager.warm = 1

    async def open_one():
        manager.fill()
        return await manager.start_kernel()

    assert asyncio.run(open_one()) == "kernel 1"


def test_a_warm_kernel_is_not_ended_for_being_idle(manager, monkeypatch):
    """Oracle: which kernels the parent class is asked about."""
    asked = []

    async def cull(self, kernel_id):
        asked.append(kernel_id)

    async def warm_one(self):
        return "waits"

    monkeypatch.setattr(AsyncMappingKernelManager, "cull_kernel_if_idle", cull)
    monkeypatch.setattr(serving.Kernels, "_warm_one", warm_one)
    manager.warm = 1

    async def look():
        manager.fill()
        await asyncio.sleep(0)
        for kernel in ("waits", "page is gone"):
            await manager.cull_kernel_if_idle(kernel)

    asyncio.run(look())
    assert asked == ["page is gone"]
