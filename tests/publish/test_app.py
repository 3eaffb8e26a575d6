"""How the app is started, what it says and what it serves; tests/browser/test_app.py opens it for real."""

import asyncio
import os
import re
import socket

import nbformat
import pytest
import tornado.web
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

from lntutor.__main__ import main
from lntutor.publish import app, gallery
from lntutor.publish import server as serving
from lntutor.text import download

KERNELS = {"limit": 2, "warm": 0, "homes": ""}


@pytest.fixture
def built(tmp_path):
    """A function that makes the app, not started, over a folder of its own."""

    def build(ip="127.0.0.1", word=""):
        return serving.build(tmp_path, "page", ip=ip, port=8866, word=word, lecture=True, kernels=KERNELS)

    yield build
    serving.App.clear_instance()


def test_a_taken_port_is_named_and_without_a_port_the_next_free_one_is_taken(capsys, monkeypatch):
    """Oracle: a port that another program has: it is in the sentence, and no server started; then it is the default."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert main(["app", "--port", str(taken)]) == 2
        assert f"port {taken} is taken" in capsys.readouterr().err
        monkeypatch.setattr(app, "PORT", taken)
        assert taken < app.free_port("127.0.0.1", None) < taken + 10


def test_an_address_of_another_machine_is_refused():
    """Oracle: the operating system, which has no such address (RFC 5737)."""
    with pytest.raises(ValueError, match=r"cannot listen at 192\.0\.2\.7"):
        app.free_port("192.0.2.7", 8866)


def test_every_tile_opens_a_notebook_and_nothing_else_is_served(tmp_path):
    """Oracle: the gallery's list, of which the playground needs no notebook; a picture per explorer, whose 60 KB each
    keep the start page near 1 MB.
    """
    folder = app.write_notebooks(tmp_path / "pages")
    assert 'href="/playground.html"' in app.start_page()
    playground, *tiles = gallery.TILES
    assert playground is gallery.PLAYGROUND
    assert {path.name for path in folder.rglob("*")} == {f"{tile.key}.ipynb" for tile in tiles}
    for tile in tiles:
        notebook = nbformat.read(folder / f"{tile.key}.ipynb", as_version=4)
        nbformat.validate(notebook)
        assert notebook.metadata.title == tile.title
        assert f"/voila/render/{tile.key}.ipynb" in app.start_page()
    for tile in (gallery.PLAYGROUND, *gallery.EXPLORERS):
        assert 0 < (gallery.PICTURES / f"{tile.key}.webp").stat().st_size < 60_000


def test_the_start_page_and_the_templates_ask_no_other_machine():
    """Oracle: no address with a host in the page and in what we put in place of Voilà's templates."""
    assert not re.findall(r"(?:src|href)=[\"'](?:https?:)?//", app.start_page())
    for path in serving.TEMPLATES.iterdir():
        assert not re.search("//(?! )", path.read_text(encoding="utf-8"))  # with a space, it begins a comment


def test_the_announcement_tells_the_address_and_what_is_exposed():
    """Oracle: the sentences that matter; on this machine only, the address and no word in it."""
    end = "At most 5 pages are open at once. Press Ctrl-C to end."
    here = app.announcement("127.0.0.1", 8866, "", 5)
    assert here == ["The app is at http://127.0.0.1:8866/ for this machine only.", end]
    address = "192.168.1.20"
    for word in ("kotabemiru", ""):
        lines = "\n".join(app.announcement(address, 8866, word, 5))
        assert f"http://{address}:8866/{word}\n" in lines
        assert "each page runs a Python process here" in lines
        assert "cannot edit or run code of their own, and cannot read other files" in lines
        assert lines.endswith(end)
        assert ("whoever finds the port is in" in lines) is (not word)


def test_a_new_word_is_one_that_the_option_would_take():
    """Oracle: the check of --word, and two words that differ."""
    first, second = app.new_word(), app.new_word()
    assert app._word(first) == first != second


@pytest.mark.parametrize("ip", ["127.0.0.1", "127.0.0.9", "0.0.0.0", "10.0.0.1"])
def test_only_loopback_is_closed_to_others(ip, built):
    """Oracle: the addresses' meaning; a browser elsewhere cannot call loopback by another name."""
    others = not ip.startswith("127")
    assert app.is_open(ip) is others
    assert built(ip).tornado_settings["allow_remote_access"] is others


def test_large_type_is_the_default_and_can_be_turned_off():
    """Oracle: the variable that figures and explorers read."""
    assert app.app_environment(environ={})["LNTUTOR_LECTURE"] == "1"
    assert app.app_environment(False, environ={})["LNTUTOR_LECTURE"] == "0"
    assert app.app_environment(environ={"LNTUTOR_LECTURE": "0"})["LNTUTOR_LECTURE"] == "0"


def test_code_is_hidden_no_file_is_served_and_a_request_from_elsewhere_is_refused(built):
    """Oracle: Voilà's own settings, and those of the server that it makes."""
    made = built(word="kotabemiru")
    assert made.token == "kotabemiru"
    requests = made.init_settings()
    assert requests.get("xsrf_cookies", True)
    assert not requests.get("disable_check_xsrf")
    assert not requests.get("allow_origin")
    settings = made.voila_configuration
    assert settings.strip_sources
    assert settings.file_allowlist == []
    assert (settings.allow_template_override, settings.allow_theme_override) == ("NO", "NO")
    assert not settings.show_tracebacks


def test_settings_of_the_user_for_voila_open_nothing(built, tmp_path, monkeypatch):
    """Oracle: a voila.json in the folder that would allow all files and another address."""
    settings = '{"VoilaConfiguration": {"file_allowlist": [".*"]}, "Voila": {"ip": "0.0.0.0"}}'
    (tmp_path / "voila.json").write_text(settings)
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
    for _ in range(2):
        asyncio.run(manager.start_kernel(kernel_name=NATIVE_KERNEL_NAME))
    with pytest.raises(tornado.web.HTTPError, match="2 pages are open") as refused:
        asyncio.run(manager.start_kernel(kernel_name=NATIVE_KERNEL_NAME))
    assert refused.value.status_code == 503


def test_each_kernel_of_a_class_keeps_notes_of_its_own(manager):
    """Oracle: the folders of two kernels, and the environment that each was started with otherwise."""
    for _ in range(2):
        asyncio.run(manager.start_kernel(env={"LNTUTOR_REVEAL": "1"}))
    first, second = (options["env"] for options in manager.started)
    assert first["LNTUTOR_HOME"] != second["LNTUTOR_HOME"]
    assert first["LNTUTOR_REVEAL"] == "1"


@pytest.mark.parametrize("named", [True, False], ids=["LNTUTOR_CORPORA", "the user's cache"])
def test_each_kernel_of_a_class_finds_the_teachers_corpora(manager, monkeypatch, tmp_path, named):
    """Oracle: six files where the teacher's own Python finds them."""
    monkeypatch.setattr(download.platformdirs, "user_cache_dir", lambda *_, **__: str(tmp_path / "cache"))
    if named:
        monkeypatch.setenv("LNTUTOR_CORPORA", str(tmp_path / "named"))
    else:
        monkeypatch.delenv("LNTUTOR_CORPORA", raising=False)
    monkeypatch.delenv("LNTUTOR_HOME", raising=False)
    monkeypatch.delenv("LNTUTOR_MULTI30K", raising=False)
    folder = download.cache_folder("multi30k")
    folder.mkdir(parents=True)
    for file in download.MULTI30K:
        (folder / file.name).write_bytes(b"")
    asyncio.run(manager.start_kernel(env=dict(os.environ)))
    for name, value in manager.started[0]["env"].items():
        monkeypatch.setenv(name, value)
    assert os.environ["LNTUTOR_HOME"]
    assert folder == (tmp_path / "named" / "multi30k" if named else tmp_path / "cache" / "corpora" / "multi30k")
    assert download.locate("multi30k") == ("multi30k", folder)


@pytest.mark.parametrize("fails", [False, True], ids=["warm", "could not be warmed"])
def test_a_warm_kernel_is_handed_out_first_and_replaced_and_is_not_needed(manager, monkeypatch, fails):
    """Oracle: the ids in the order in which they were started, by warming or by the page itself."""

    async def warm_one(self):
        if fails:
            raise RuntimeError("no memory")
        return await self._start()

    async def open_two():
        manager.fill()
        first = await manager.start_kernel()
        await asyncio.sleep(0.05)  # the pause is over
        return first, await manager.start_kernel()

    monkeypatch.setattr(serving.Kernels, "_warm_one", warm_one)
    manager.warm = 1
    assert asyncio.run(open_two()) == ("kernel 1", "kernel 2")


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
