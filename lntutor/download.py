"""`python -m lntutor data`: which corpora there are, where they lie, and how to get them."""

from __future__ import annotations

import argparse
import errno
import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import platformdirs

from lntutor.bars import progress_bar
from lntutor.files import put
from lntutor.notes import HOME
from lntutor.parallel import SUMS, CorpusError, ParallelText, check_sums, compare_sums, looks_like_page, read_parallel

ROOT = Path(__file__).resolve().parent.parent
CAPTIONS = ROOT / "data" / "captions"
FETCH = "python -m lntutor data multi30k"
TIMEOUT = 30  # seconds without a byte
CHUNK = 64 * 1024


@dataclass(frozen=True)
class Published:
    """One file of a corpus as its authors published it."""

    name: str
    size: int  # bytes
    sha256: str
    text: str  # SHA-256 of what is inside


# Elliott et al. 2016, task 1; from the authors' repository.
ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
MULTI30K = (
    Published(
        "train.de.gz",
        637044,
        "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
        "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    ),
    Published(
        "train.en.gz",
        568929,
        "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
        "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    ),
    Published(
        "val.de.gz",
        24681,
        "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
        "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    ),
    Published(
        "val.en.gz",
        21650,
        "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
        "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    ),
    Published(
        "test_2016_flickr.de.gz",
        22890,
        "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
        "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    ),
    Published(
        "test_2016_flickr.en.gz",
        21077,
        "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
        "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    ),
)


PORTAL = "does this network want you to log in first?"
BY_HAND_FILES = f"{', '.join(file.name for file in MULTI30K)} of {ADDRESS}"
BY_HAND = (
    "Where there is no connection: on a computer that has one, save these six files in one folder, "
    f"{BY_HAND_FILES}; bring the folder here and run: {FETCH} --folder THE_FOLDER"
)


@dataclass(frozen=True)
class Entry:
    """A corpus that is known by name."""

    what: str
    licence: str
    get: str
    variable: str = ""  # of the environment, naming the folder


CORPORA = {
    "captions": Entry(
        "German and English captions from a grammar written for this course",
        "as the course",
        "comes with a clone of the course: git checkout -- data/captions",
    ),
    "multi30k": Entry(
        "29,000 captions of photographs, written in English and translated into German (Elliott et al. 2016)",
        "non-commercial research and education only",
        f"{FETCH} (1.3 MB); or set LNTUTOR_MULTI30K to a folder that has it",
        "LNTUTOR_MULTI30K",
    ),
    "iwslt14": Entry(
        "TED talks, the corpus of the paper's Fig. 2 (Cettolo et al. 2014)",
        "may not be passed on, so it is neither here nor downloaded",
        "set LNTUTOR_IWSLT14 to a folder made by fairseq's prepare-iwslt14.sh, or to the original de-en.tgz",
        "LNTUTOR_IWSLT14",
    ),
}


def cache_folder(name: str) -> Path:
    """Where a downloaded corpus is kept: below LNTUTOR_HOME if that is set, else in the user's cache."""
    home = os.environ.get(HOME)
    return (Path(home) if home else Path(platformdirs.user_cache_dir("lntutor", appauthor=False))) / "corpora" / name


def locate(name: str | Path, folder: str | Path | None = None) -> tuple[str, Path]:
    """A corpus's name, and the folder (or archive) to read; never another corpus than the one asked for."""
    _check_path("name", name)
    if folder is not None:
        _check_path("folder", folder)
    if name not in CORPORA:
        path = _absolute(name)
        if folder is not None or not str(name) or not path.exists():
            near = get_close_matches(str(name), CORPORA, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            known = f"There are {', '.join(CORPORA)}; or give a folder of train, val and test, each .de and .en"
            raise CorpusError(f"there is no corpus and no folder {str(name)[:200]!r}.{hint} {known}")
        return path.name.removesuffix(".tgz"), path
    entry = CORPORA[name]
    named = folder if folder is not None else entry.variable and os.environ.get(entry.variable)
    if named:
        _check_path(entry.variable or "folder", named)
        path = _absolute(named)
        if not path.exists():
            what = f"folder={str(folder)!r}" if folder is not None else f"the variable {entry.variable}"
            raise CorpusError(f"{what} should name where {name} is, but there is no {path}. To get it: {entry.get}")
        return name, path
    path = CAPTIONS if name == "captions" else cache_folder(name)
    missing = missing_files(path) if name == "multi30k" else []
    if not path.is_dir() or len(missing) == len(MULTI30K):
        raise CorpusError(f"{name} is not on this computer. To get it: {entry.get}")
    if missing:
        raise CorpusError(f"{path} lacks {', '.join(missing)}: the download was not finished. To fix: {FETCH}")
    return name, path


def _check_path(name: str, path: str | Path) -> None:
    """A CorpusError where this cannot be a path: another thing than words, or words that no file system takes."""
    try:
        if not isinstance(path, str | Path):
            raise ValueError
        os.stat(_absolute(path))
    except (ValueError, RuntimeError):  # NUL, half a surrogate pair; ~nobody
        raise CorpusError(f"{name} must be the name of a corpus or a folder, got {path!r}") from None
    except OSError as error:  # whether there is such a file, and whether it may be read, is seen later
        if error.errno == errno.ENAMETOOLONG:
            raise CorpusError(f"{name} is too long for a path, {len(str(path))} characters") from None


def _absolute(path: str | Path) -> Path:
    return Path(os.path.abspath(Path(path).expanduser()))


def missing_files(folder: Path, files: Sequence[Published] = MULTI30K) -> list[str]:
    """Those of the published files that the folder has not."""
    return [file.name for file in files if not (folder / file.name).is_file()]


def remedy(name: str, path: Path) -> str:
    """What mends damaged files of a corpus."""
    if name == "captions" and path == CAPTIONS:
        return "git checkout -- data/captions"
    if path == cache_folder(name):
        return FETCH
    if name == "multi30k":
        return f"{FETCH}, or read this folder as a corpus of its own: load_corpus({str(path)!r})"
    return f"get the files again, or correct {SUMS}"


def verify(name: str, path: Path, text: ParallelText) -> None:
    """The text is the corpus that it is called: captions and folders by their SHA256SUMS, Multi30k by ours."""
    if name == "multi30k":
        wanted = {file.name.removesuffix(".gz"): file.text for file in MULTI30K}
        wanted |= {f"test.{language}": wanted[f"test_2016_flickr.{language}"] for language in ("de", "en")}
        compare_sums(path, text.texts, wanted, remedy(name, path))
    elif name == "captions" or (path / SUMS).is_file():
        check_sums(path, text.stored, remedy(name, path))


def fetch_files(
    files: Sequence[Published], address: str, folder: Path, received: Callable[[int], None] = lambda size: None
) -> None:
    """Each file that the folder has not yet, downloaded and verified; `received` hears of the bytes as they come."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            fetch(urljoin(address, file.name), folder / file.name, file, received)
    except OSError as error:
        where = f"{folder} cannot be written ({error.strerror or error})"
        raise CorpusError(f"{where}. Set {HOME} to a folder of yours, and run the same command again") from error


def fetch(url: str, path: Path, file: Published, received: Callable[[int], None] = lambda size: None) -> None:
    """Download to `path`.part, going on where an earlier call stopped; verify; put it in its place.

    Whatever stops this, `path` is either whole or not there, and the next call succeeds.
    """
    part = path.with_name(path.name + ".part")
    if _digest(path) == file.sha256:
        received(file.size)
        return
    begun = _size(part)
    received(begun)
    if _digest(part) != file.sha256:
        if begun >= file.size:  # all bytes are there, and not the right ones
            _restart(part, received)
            begun = 0
        _receive(url, part, file, received)
    if begun and _digest(part) != file.sha256:  # what an earlier call left did not fit
        _restart(part, received)
        _receive(url, part, file, received)
    if _digest(part) != file.sha256:
        found = f"a web page: {PORTAL}" if looks_like_page(part.read_bytes()) else f"SHA-256 {_digest(part)}"
        _restart(part, received)
        raise CorpusError(f"{url} gave another file than {file.name} ({found}). Nothing of it was kept. {BY_HAND}")
    os.replace(part, path)


def _restart(part: Path, received: Callable[[int], None]) -> None:
    received(-_size(part))
    part.unlink(missing_ok=True)


def _receive(url: str, part: Path, file: Published, received: Callable[[int], None]) -> None:
    """Append what `part` lacks; where the server does not go on from there, start anew."""
    begun = _size(part)
    with _open(url, begun) as response:
        if response.headers.get_content_type() == "text/html" and response.status == 200:
            raise CorpusError(f"{url} gave a web page instead of {file.name}: {PORTAL}. {BY_HAND}")
        goes_on = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {begun}-")
        if begun and not goes_on:
            _restart(part, received)
        if response.status == 200 or goes_on:
            _copy(response, part, file, received)
            return
    if not begun:
        raise CorpusError(f"{url} answered {response.status} {response.reason}. {BY_HAND}")
    _receive(url, part, file, received)


def _open(url: str, begun: int) -> http.client.HTTPResponse:
    """The answer to a request for the file from this byte on; 416, no such range, is an answer too."""
    request = urllib.request.Request(url, headers={"Range": f"bytes={begun}-"} if begun else {})
    try:
        return urllib.request.build_opener(_SameHost).open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if begun and error.code == 416:
            return error
        error.close()
        raise CorpusError(f"{url} answered {error.code} {error.reason}. {BY_HAND}") from error
    except (OSError, http.client.HTTPException) as error:
        raise CorpusError(f"{url} could not be reached ({getattr(error, 'reason', error)}). {BY_HAND}") from error


def _copy(response: http.client.HTTPResponse, part: Path, file: Published, received: Callable[[int], None]) -> None:
    """Append the answer to `part`, at once as it comes; an answer longer than the file is not read to its end."""
    got, room = 0, file.size - _size(part)
    expected = room if response.length is None else response.length
    with part.open("ab") as out:
        while got < min(expected, room + 1):  # one byte too many is enough to know another file
            try:
                data = response.read1(CHUNK)
            except (OSError, http.client.HTTPException):
                data = b""
            if not data:
                break
            out.write(data)
            out.flush()  # so that a process that is killed leaves what it had
            got += len(data)
            received(len(data))
    if got < min(expected, room):
        kept = f"{_size(part)} of {file.size} bytes of {file.name} are kept"
        raise CorpusError(f"the connection was cut; {kept}. Run the same command again to go on from there")


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a redirection within a host only: the files are known by one address."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.netloc != old.netloc or new.scheme not in (old.scheme, "https"):
            fp.close()
            raise CorpusError(f"{req.full_url} leads on to {newurl}, another host, which is not followed. {BY_HAND}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _digest(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy_files(files: Sequence[Published], source: Path, folder: Path) -> None:
    """Each file from another folder, verified before it is put in its place."""
    if missing := missing_files(source, files):
        raise CorpusError(f"{source} lacks {', '.join(missing)}: it must hold the files as published, {BY_HAND_FILES}")
    if wrong := [file.name for file in files if _digest(source / file.name) != file.sha256]:
        raise CorpusError(
            f"{source}: {', '.join(wrong)} not as published (SHA-256 differs). Get them again: {BY_HAND_FILES}"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            put(folder / file.name, (source / file.name).read_bytes())
    except OSError as error:
        raise CorpusError(f"{folder} cannot be written ({error.strerror}). Set {HOME} to a folder of yours") from error


def describe(name: str) -> str:
    """Some lines on a corpus: what it is, its licence, and where it is or how to get it."""
    entry = CORPORA[name]
    try:
        here = f"here: {locate(name)[1]}"
    except CorpusError as error:
        here = str(error)
    return f"{name}\n  {entry.what}\n  licence: {entry.licence}\n  {here}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("name", nargs="?", choices=tuple(CORPORA), help="the corpus to get (default: list them all)")
    parser.add_argument("--folder", type=Path, help="take the files from this folder instead of the network")


def run(args: argparse.Namespace) -> int:
    """List the corpora, or get one."""
    if args.name is None:
        print("\n\n".join(map(describe, CORPORA)))
        print("\nAny other folder of {train,val,test}.{de,en}: ln.load_corpus('the/folder')")
        return 0
    try:
        print(_get(args.name, args.folder))
    except CorpusError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped. Run the same command again to go on from there.", file=sys.stderr)
        return 130
    return 0


def _get(name: str, folder: Path | None) -> str:
    """Bring a corpus here, read it once, and say where it is."""
    entry, path = CORPORA[name], cache_folder(name)
    if name != "multi30k":
        path = locate(name, folder)[1]
    elif folder is not None:
        copy_files(MULTI30K, folder.expanduser(), path)
    else:
        total = sum(file.size for file in MULTI30K)
        with progress_bar(total=total, unit="B", unit_scale=True, desc=name, leave=False, disable=None) as bar:
            fetch_files(MULTI30K, ADDRESS, path, bar.update)
    text = read_parallel(path)
    verify(name, path, text)
    sizes = ", ".join(f"{split} {len(pairs)}" for split, pairs in text.pairs.items())
    said = f"{name} is here: {path}, {sizes} pairs. Licence: {entry.licence}."
    if name == "multi30k" and os.environ.get(entry.variable):
        said += f" But {entry.variable} is set, and the folder it names goes first."
    if name == "iwslt14" and folder is not None:
        said += f" Set {entry.variable} to this path, and load_corpus({name!r}) finds it."
    return said
