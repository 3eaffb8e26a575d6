"""`python -m lntutor data`: lists the corpora and where they are, and downloads Multi30k."""

from __future__ import annotations

import argparse
import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from hashlib import sha256
from pathlib import Path

import platformdirs

from lntutor import ROOT
from lntutor.text import sentence_pairs
from lntutor.text.files import put, tidy
from lntutor.text.sentence_pairs import SUMS, CorpusError, ParallelText, looks_like_page, read_parallel

CAPTIONS = ROOT / "data" / "captions"
FOLDER = "LNTUTOR_CORPORA"  # environment variable: the folder of downloaded corpora, if not the user's cache
FETCH = "python -m lntutor data multi30k"
TIMEOUT = 30  # seconds without data
CHUNK = 16 * 1024  # bytes


@dataclass(frozen=True)
class Published:
    """One file of a corpus as its authors published it."""

    name: str
    size: int  # bytes
    sha256: str
    text: str  # SHA-256 of the decompressed text


# Elliott et al. 2016, task 1; from the authors' repository.
ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
MULTI30K = (
    Published("train.de.gz", 637044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
              "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
    Published("train.en.gz", 568929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
              "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
    Published("val.de.gz", 24681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
              "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
    Published("val.en.gz", 21650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
              "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
    Published("test_2016_flickr.de.gz", 22890, "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
              "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16"),
    Published("test_2016_flickr.en.gz", 21077, "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
              "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182"),
)  # fmt: skip
FILES = f"{', '.join(file.name for file in MULTI30K)} from {ADDRESS}"
BY_HAND = (
    f"Without a connection: on a computer that has one, save these six files in one folder, {FILES}; "
    f"bring the folder here and run: {FETCH} --folder THE_FOLDER"
)


@dataclass(frozen=True)
class Entry:
    """A corpus that has a name."""

    what: str
    licence: str
    get: str  # how to get it
    variable: str = ""  # environment variable that names its folder


CORPORA = {
    "captions": Entry(
        "German and English captions from a grammar written for this course", "as the course",
        "comes with a clone of the course: git checkout -- data/captions",
    ),
    "multi30k": Entry(
        "29,000 captions of photographs, written in English and translated into German (Elliott et al. 2016)",
        "non-commercial research and education only",
        f"{FETCH} (1.3 MB); or set LNTUTOR_MULTI30K to a folder that has it", "LNTUTOR_MULTI30K",
    ),
    "iwslt14": Entry(
        "TED talks, the corpus of the paper's Fig. 2 (Cettolo et al. 2014)",
        "may not be passed on, so it is neither here nor downloaded",
        "run fairseq's prepare-iwslt14.sh, and set LNTUTOR_IWSLT14 to the folder that it makes", "LNTUTOR_IWSLT14",
    ),
}  # fmt: skip


# Where a corpus is ---------------------------------------------------------------------------------------------


def cache_folder(name: str) -> Path:
    """Where a downloaded corpus is kept: below LNTUTOR_CORPORA if that is set, else in the user's cache folder.

    Not below LNTUTOR_HOME, which is a new folder for each kernel of a class.
    """
    if named := os.environ.get(FOLDER):
        return Path(os.path.expanduser(named)) / name
    return Path(platformdirs.user_cache_dir("lntutor", appauthor=False)) / "corpora" / name


def locate(name: str | Path, folder: str | Path | None = None) -> tuple[str, Path]:
    """A corpus's name and its folder, or a CorpusError that says how to get it."""
    path = _absolute("name", name)
    if not isinstance(name, str) or name not in CORPORA:
        if folder is not None or not str(name) or not path.exists():
            near = get_close_matches(str(name), CORPORA, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            known = f"There are {', '.join(CORPORA)}; or give a folder of train, val and test, each .de and .en"
            raise CorpusError(f"there is no corpus and no folder {str(name)[:200]!r}.{hint} {known}")
        return path.name, path
    entry = CORPORA[name]
    if folder is not None or (entry.variable and os.environ.get(entry.variable)):
        if folder is not None:
            giver, path = f"folder={str(folder)[:200]!r}", _absolute("folder", folder)
        else:
            giver, path = f"the variable {entry.variable}", _absolute(entry.variable, os.environ[entry.variable])
        if not path.exists():
            raise CorpusError(f"{giver} should name where {name} is, but there is no {path}. To get it: {entry.get}")
        return name, path
    path = CAPTIONS if name == "captions" else cache_folder(name)
    missing = missing_files(path) if name == "multi30k" else []
    if not path.is_dir() or len(missing) == len(MULTI30K):
        raise CorpusError(f"{name} is not on this computer. To get it: {entry.get}")
    if missing:
        raise CorpusError(f"{path} lacks {', '.join(missing)}: the download was not finished. To fix: {FETCH}")
    return name, path


def _absolute(name: str, path: str | Path) -> Path:
    """The absolute path; a CorpusError if this is no possible path."""
    try:
        if not isinstance(path, str | Path):
            raise ValueError
        absolute = Path(os.path.abspath(Path(path).expanduser()))
        os.stat(absolute)
    except (ValueError, RuntimeError):  # NUL, half a surrogate pair; ~nobody
        raise CorpusError(f"{name} must be the name of a corpus or a folder, got {path!r}") from None
    except OSError as error:  # a missing or unreadable file is reported later
        if error.errno == errno.ENAMETOOLONG:
            raise CorpusError(f"{name} is too long for a path, {len(str(path))} characters") from None
    return absolute


def missing_files(folder: Path, files: Sequence[Published] = MULTI30K) -> list[str]:
    """The names of the published files that are not in the folder."""
    return [file.name for file in files if not (folder / file.name).is_file()]


def remedy(name: str, path: Path) -> str:
    """What a reader can do about damaged files of a corpus."""
    if name == "captions" and path == CAPTIONS:
        return "git checkout -- data/captions"
    if path == cache_folder(name):
        return FETCH
    if name == "multi30k":
        return f"{FETCH}, or read this folder as a corpus of its own: load_corpus({str(path)!r})"
    return f"get the files again, or correct {SUMS}"


def verify(name: str, path: Path, text: ParallelText) -> None:
    """Check a corpus by its checksums: Multi30k by those above, others by their SHA256SUMS."""
    if name == "multi30k":
        wanted = {file.name.removesuffix(".gz"): file.text for file in MULTI30K}
        wanted |= {f"test.{language}": wanted[f"test_2016_flickr.{language}"] for language in ("de", "en")}
        sentence_pairs.compare_sums(path, text.texts, wanted, remedy(name, path))
    elif name == "captions" or (path / SUMS).is_file():
        sentence_pairs.check_sums(path, text.stored, remedy(name, path))


# Getting it ----------------------------------------------------------------------------------------------------


def fetch_files(
    files: Sequence[Published], address: str, folder: Path, received: Callable[[int], object] = lambda size: None
) -> None:
    """Download the files that the folder lacks; `received` is called with the size of each block of data.

    pooch writes to a temporary file, compares its SHA-256 and moves it, so there are no half-written files.
    """
    import pooch  # here: most commands download nothing
    from requests import HTTPError, RequestException

    pooch.get_logger().setLevel("ERROR")
    tidy(folder, "tmp*")
    registry = pooch.create(folder, address, registry={file.name: f"sha256:{file.sha256}" for file in files})
    for file in files:
        url = registry.get_url(file.name)
        try:
            download = partial(_download, file, received)
            registry.fetch(file.name, downloader=download)  # pyright: ignore[reportArgumentType] - pooch's type is wrong
        except HTTPError as error:
            raise CorpusError(f"{error}. {BY_HAND}") from error
        except RequestException as error:
            reason = f"there is no connection, or it was cut ({type(error).__name__}). Run the same command again"
            raise CorpusError(f"{url} could not be downloaded: {reason}. {BY_HAND}") from error
        except OSError as error:
            raise _unwritable(folder, error) from error
        except CorpusError:
            raise
        except ValueError as error:  # the checksums differ
            message = f"{url} is not {file.name} as published (SHA-256 differs), so it was not kept"
            raise CorpusError(f"{message}. {BY_HAND}") from error


def _download(file: Published, received: Callable[[int], object], url: str, path: str, _pooch: object) -> None:
    """Write the response to pooch's temporary file, and stop if it is too long."""
    import requests

    with (
        requests.get(url, headers={"Accept-Encoding": "identity"}, stream=True, timeout=TIMEOUT) as response,
        open(path, "w+b") as out,
    ):
        response.raise_for_status()
        for data in response.iter_content(CHUNK):
            out.write(data)
            received(len(data))
            if out.tell() > file.size:
                break
        out.seek(0)
        if looks_like_page(out.read(256)):
            question = "does this network want you to log in first?"
            raise CorpusError(f"{url} gave a web page instead of {file.name}: {question} {BY_HAND}")
    with suppress(OSError):  # a disk without such modes
        os.chmod(path, 0o644)  # else only its owner could read it


def copy_files(files: Sequence[Published], source: Path, folder: Path) -> None:
    """Copy the files from another folder, after comparing their checksums."""
    if missing := missing_files(source, files):
        raise CorpusError(f"{source} lacks {', '.join(missing)}: it must hold the files as published, {FILES}")
    contents = {file.name: (source / file.name).read_bytes() for file in files}
    if wrong := [file.name for file in files if sha256(contents[file.name]).hexdigest() != file.sha256]:
        raise CorpusError(f"{source}: {', '.join(wrong)} not as published (SHA-256 differs). Get them again: {FILES}")
    try:
        for name, content in contents.items():
            put(folder / name, content)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _unwritable(folder: Path, error: OSError) -> CorpusError:
    reason = error.strerror or "Permission denied"  # pooch replaces the text of that error alone
    return CorpusError(f"{folder} cannot be written ({reason}). Set {FOLDER} to a folder of yours, and try again")


# The command ---------------------------------------------------------------------------------------------------


def describe(name: str) -> str:
    """Four lines on a corpus: its name, what it is, its licence, and where it is or how to get it."""
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


def run(args: argparse.Namespace) -> None:
    """List the corpora, or get one."""
    if args.name is None:
        print("\n\n".join(map(describe, CORPORA)))
        print("\nAny other folder of {train,val,test}.{de,en}: ln.load_corpus('the/folder')")
        return
    try:
        print(_get(args.name, args.folder))
    except CorpusError as error:
        error.exit_code = 1  # pyright: ignore[reportAttributeAccessIssue] - asked for correctly, but getting it failed
        raise
    except KeyboardInterrupt as stop:
        stop.add_note("Run the same command again; finished files are kept.")
        raise


def _get(name: str, folder: Path | None) -> str:
    """Get a corpus, check it, and return a message that says where it is."""
    entry, path = CORPORA[name], cache_folder(name)
    if name != "multi30k":
        path = locate(name, folder)[1]
    elif folder is not None:
        copy_files(MULTI30K, folder.expanduser(), path)
    else:
        total = sum(file.size for file in MULTI30K if file.name in missing_files(path))
        from tqdm.auto import tqdm

        with tqdm(total=total, unit="B", unit_scale=True, desc=name, leave=False, disable=None) as bar:
            fetch_files(MULTI30K, ADDRESS, path, bar.update)
    text = read_parallel(path)
    verify(name, path, text)
    sizes = ", ".join(f"{split} {len(pairs)}" for split, pairs in text.pairs.items())
    message = f"{name} is here: {path}, {sizes} pairs. Licence: {entry.licence}."
    if name == "multi30k" and os.environ.get(entry.variable):
        message += f" But {entry.variable} is set, and the folder it names goes first."
    if name == "iwslt14" and folder is not None:
        message += f" Set {entry.variable} to this path, and load_corpus({name!r}) finds it."
    return message
