"""Parallel text in files: found, read whole and checked, or refused with the name of the file and the line."""

from __future__ import annotations

import gzip
import hashlib
import html
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from lntutor.wording import split_words

SPLITS = ("train", "val", "test")
LANGUAGES = ("de", "en")
STEMS = {"train": ("train",), "val": ("val", "valid", "validation", "dev"), "test": ("test", "test_2016_flickr")}
SUMS = "SHA256SUMS"
EXPECTED = "expected train.de, train.en, val.de, val.en, test.de and test.en (valid or dev for val; .gz is fine)"

TEXT_LIMIT = 128 * 2**20  # bytes of one file, decompressed
ARCHIVE_LIMIT = 256 * 2**20  # bytes of an archive, decompressed
MEMBERS_LIMIT = 10_000  # files of an archive
SENTENCE_LIMIT = 4000  # characters; attention takes memory by the square of a sentence's length

# IWSLT14's original files, and what fairseq's prepare-iwslt14.sh makes of them: test is these five, in this order.
IWSLT_TRAIN = "train.tags.de-en.{}"
IWSLT_TEST = tuple(
    f"IWSLT14.{talks}.de-en.{{}}.xml"
    for talks in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
)
TAG = re.compile(r"\s*</?([a-z]+)\b[^>]*>", re.IGNORECASE)
SEGMENT = re.compile(r"<seg id[^>]*>(.*?)</seg>")


class CorpusError(ValueError):
    """A corpus is not there, or not as it should be; the message names the file, the line and the way out."""


@dataclass(frozen=True)
class ParallelText:
    """All pairs of a corpus as written in its files, and what identifies those."""

    pairs: Mapping[str, tuple[tuple[str, str], ...]]  # split → (German, English)
    stored: Mapping[str, str]  # file name → SHA-256 of the file, as sha256sum has it
    texts: Mapping[str, str]  # the same without .gz → SHA-256 of the decompressed text

    @property
    def checksum(self) -> str:
        """One SHA-256 over the names and the texts."""
        return hashlib.sha256("".join(f"{s}  {name}\n" for name, s in sorted(self.texts.items())).encode()).hexdigest()


class _Files:
    """Files by name, each read at most once; remembers the checksums of those that were read."""

    def __init__(self, where: Path, read: Mapping[str, Callable[[], bytes]]):
        self.where, self.read = where, read
        self.stored: dict[str, str] = {}
        self.texts: dict[str, str] = {}

    def lines(self, name: str) -> list[str]:
        """The lines of a file, without their ends."""
        if name not in self.read:
            raise CorpusError(f"{self.where} has no file {name}")
        data = self.read[name]()
        self.stored[name] = hashlib.sha256(data).hexdigest()
        if name.endswith(".gz"):
            data = _gunzip(data, self.where / name)
        self.texts[name.removesuffix(".gz")] = hashlib.sha256(data).hexdigest()
        return _decode(data, self.where / name)


def read_parallel(path: Path) -> ParallelText:
    """The corpus in a folder of {train,val,test}.{de,en}, or in IWSLT14's de-en.tgz, or in that archive unpacked."""
    if path.is_dir():
        files = _Files(path, {name: partial(_read, path / name) for name in _names(path)})
    elif path.is_file():
        files = _Files(path, _unpack(path))
    else:
        raise CorpusError(f"there is no folder {path}: {EXPECTED}")
    original = any(IWSLT_TRAIN.format(language) in files.read for language in LANGUAGES)
    pairs = dict(_read_iwslt(files) if original else _read_splits(files))
    return ParallelText(pairs, files.stored if path.is_dir() else {path.name: _digest(path)}, files.texts)


def check_sums(folder: Path, found: Mapping[str, str], fix: str) -> None:
    """Each file that was read is listed in the folder's SHA256SUMS with the checksum it has."""
    try:
        listed = re.findall(r"^([0-9a-f]{64}) [ *](.+?)\r?$", (folder / SUMS).read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{folder / SUMS} cannot be read ({error}). To fix: {fix}") from error
    compare_sums(folder, found, {name: digest for digest, name in listed}, fix)


def compare_sums(folder: Path, found: Mapping[str, str], wanted: Mapping[str, str], fix: str) -> None:
    """`found` has the checksums that are `wanted`."""
    for name, digest in found.items():
        if wanted.get(name) != digest:
            raise CorpusError(f"{folder / name} is not the file that belongs here (SHA-256 {digest}). To fix: {fix}")


def _read_splits(files: _Files) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Pairs of each split of a folder of *.de and *.en."""
    for split, names in [(split, _find(files, split)) for split in SPLITS]:
        paths = [files.where / name for name in names]
        german, english = map(files.lines, names)
        _check_lengths(paths, german, english)
        for number, pair in enumerate(zip(german, english, strict=True), start=1):
            for path, sentence, other in zip(paths, pair, reversed(names), strict=True):
                if not sentence or sentence.isspace():
                    twin = f"the translation of line {number} of {other}"
                    raise CorpusError(f"{path}, line {number} is blank: it must hold {twin}. Mend or delete both lines")
        yield split, tuple(zip(german, english, strict=True))


def _find(files: _Files, split: str) -> tuple[str, str]:
    """The names of the German and the English file of a split; of train.de and train.de.gz the first."""
    there = [{}, {}]  # stem → name
    for side, language in zip(there, LANGUAGES, strict=True):
        for name in sorted(files.read, reverse=True):
            stem = name.removesuffix(".gz")
            if stem.endswith(f".{language}"):
                side[stem.removesuffix(f".{language}")] = name
    german, english = there
    both = [stem for stem in german if stem in english]
    stems = [stem for stem in STEMS[split] if stem in both]
    stems = stems or [stem for stem in both if re.match(rf"(?:{'|'.join(STEMS[split])})[._-]", stem)]
    if len(stems) == 1 or stems[:1] == ["test"]:
        return german[stems[0]], english[stems[0]]
    if stems:
        raise CorpusError(f"{files.where} has several texts for {split}, {', '.join(sorted(stems))}: keep one")
    names = ", ".join(sorted(name for name in files.read if name != SUMS)[:12]) or "no file"
    raise CorpusError(f"{files.where} has no {split}.de with its {split}.en: {EXPECTED}, found {names}")


def _read_iwslt(files: _Files) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Pairs of IWSLT14's original files, split as fairseq's prepare-iwslt14.sh does.

    Its lines of tags are left out; a training pair is left out where a side has no word or more than 175, or 1.5
    times as many as the other; then every 23rd is for validation. fairseq counts Moses' words, so a few pairs differ.
    """
    train = [_talks(files.lines(IWSLT_TRAIN.format(language))) for language in LANGUAGES]
    _check_lengths([files.where / IWSLT_TRAIN.format(language) for language in LANGUAGES], *train)
    clean = [pair for pair in zip(*train, strict=True) if _is_clean(*pair)]
    if len(clean) < 23:
        raise CorpusError(f"{files.where} has {len(clean)} usable training pairs; every 23rd is for validation")
    yield "train", tuple(pair for number, pair in enumerate(clean, start=1) if number % 23)
    yield "val", tuple(clean[22::23])
    test: list[tuple[str, str]] = []
    for name in IWSLT_TEST:
        sides = [_segments(files.lines(name.format(language))) for language in LANGUAGES]
        _check_lengths([files.where / name.format(language) for language in LANGUAGES], *sides)
        for number, pair in enumerate(zip(*sides, strict=True), start=1):
            for language, sentence in zip(LANGUAGES, pair, strict=True):
                if not sentence:
                    raise CorpusError(f"{files.where / name.format(language)}, segment {number} is blank")
            test.append(pair)
    yield "test", tuple(test)


def _talks(lines: list[str]) -> list[str]:
    """What is said in a file of talks with tags: sentences, titles and descriptions."""
    said = []
    for line in lines:
        tag = TAG.match(line)
        if tag is None or tag[1].lower() in ("title", "description"):
            said.append(re.sub(r"</?(title|description)>", "", line).strip())
    return said


def _segments(lines: list[str]) -> list[str]:
    """The sentences of a file of <seg> elements."""
    return [html.unescape(text).strip().replace("’", "'") for line in lines for text in SEGMENT.findall(line)]


def _is_clean(german: str, english: str) -> bool:
    """Moses' clean-corpus-n.perl with -ratio 1.5 1 175."""
    a, b = len(split_words(german)), len(split_words(english))
    return min(a, b) >= 1 and max(a, b) <= 175 and max(a, b) <= 1.5 * min(a, b)


def _check_lengths(paths: list[Path], german: list[str], english: list[str]) -> None:
    if len(german) != len(english):
        raise CorpusError(
            f"{paths[0]} has {len(german)} lines and {paths[1].name} has {len(english)}: line by line they must be "
            f"translations of each other, and from line {min(len(german), len(english)) + 1} on one is missing"
        )
    if not german:
        raise CorpusError(f"{paths[0]} and {paths[1].name} hold no sentences")


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("._")]
    except OSError as error:
        raise CorpusError(f"{folder} cannot be read ({error.strerror})") from error


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(TEXT_LIMIT + 1)
    except OSError as error:
        raise CorpusError(f"{path} cannot be read ({error.strerror})") from error
    if len(data) > TEXT_LIMIT:
        raise CorpusError(f"{path} has more than {TEXT_LIMIT >> 20} MB, too much for this course: give fewer sentences")
    return data


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _gunzip(data: bytes, path: Path) -> bytes:
    """The text in a .gz, which must be whole."""
    if not data:
        raise CorpusError(f"{path} is empty: get it again")
    if not data.startswith(b"\x1f\x8b"):
        what = "a web page, not a .gz" if looks_like_page(data) else f"not a .gz: it begins with {data[:8]!r}"
        raise CorpusError(f"{path} is {what}. Get the file again")
    try:
        with gzip.open(BytesIO(data)) as file:
            text = file.read(TEXT_LIMIT + 1)
    except EOFError as error:
        raise CorpusError(f"{path} ends too early, it was not copied to its end: get it again") from error
    except (OSError, zlib.error) as error:
        raise CorpusError(f"{path} is damaged ({error}): get it again") from error
    if len(text) > TEXT_LIMIT:
        raise CorpusError(f"{path} unpacks to more than {TEXT_LIMIT >> 20} MB; it is not read")
    return text


def looks_like_page(data: bytes) -> bool:
    """Whether these bytes begin like HTML."""
    return data[:256].lstrip().lower().startswith((b"<!doctype", b"<html", b"<head"))


def _decode(data: bytes, path: Path) -> list[str]:
    """Lines of UTF-8. Only \\n (or \\r\\n) ends one: U+2028, \\x0b and \\x85 may stand inside a sentence."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise CorpusError(f"{path} is empty: it must hold one sentence a line")
    if looks_like_page(data):
        raise CorpusError(f"{path} is a web page, not sentences. Get the file again")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CorpusError(f"{path}, line 1 is not UTF-8 but looks like UTF-16: save the file as UTF-8")
    if (at := data.find(b"\0")) >= 0:
        raise CorpusError(f"{path}, line {_line(data, at)} holds a NUL byte, so this is not a file of text")
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = _line(data, error.start)
        raise CorpusError(f"{path}, line {line} is not UTF-8 ({error.reason}): save the file as UTF-8") from error
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if len(line) > SENTENCE_LIMIT:
            raise CorpusError(
                f"{path}, line {number} has {len(line)} characters, at most {SENTENCE_LIMIT} are read: "
                f"split it into sentences, in both languages"
            )
    return [line.removesuffix("\r") for line in lines]


def _line(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1


class _Bounded:
    """A file that refuses to give more than so many bytes."""

    def __init__(self, file: BinaryIO, path: Path):
        self.file, self.path, self.left = file, path, ARCHIVE_LIMIT

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise CorpusError(f"{self.path} unpacks to more than {ARCHIVE_LIMIT >> 20} MB; it is not read")
        return data


def _unpack(path: Path) -> dict[str, Callable[[], bytes]]:
    """The corpus files of an archive by their last name, in memory: nothing is written to disk."""
    wanted = {name.format(language) for name in (IWSLT_TRAIN, *IWSLT_TEST) for language in LANGUAGES}
    wanted |= {f"{stem}.{language}" for stems in STEMS.values() for stem in stems for language in LANGUAGES}
    files: dict[str, Callable[[], bytes]] = {}
    try:
        with path.open("rb") as raw:
            if looks_like_page(head := raw.read(256)):
                raise CorpusError(f"{path} is a web page, not a .tgz. Get the file again")
            raw.seek(0)
            file = gzip.GzipFile(fileobj=raw) if head.startswith(b"\x1f\x8b") else raw
            bounded = _Bounded(file, path)
            with tarfile.open(fileobj=bounded, mode="r|") as archive:
                for number, member in enumerate(archive, start=1):
                    name = _safe_name(member, path)
                    if number > MEMBERS_LIMIT:
                        raise CorpusError(f"{path} holds more than {MEMBERS_LIMIT} files; it is not read")
                    if name not in wanted or not member.isfile():
                        continue
                    if name in files:
                        raise CorpusError(f"{path} holds {name} more than once")
                    if member.size > TEXT_LIMIT:
                        raise CorpusError(f"{path}: {name} has more than {TEXT_LIMIT >> 20} MB; it is not read")
                    files[name] = partial(bytes, archive.extractfile(member).read())
            while bounded.read(2**16):  # to the end, where gzip has its checksum
                pass
    except CorpusError:
        raise
    except EOFError as error:
        raise CorpusError(f"{path} ends too early, it was not copied to its end: get it again") from error
    except (OSError, tarfile.TarError, zlib.error) as error:
        raise CorpusError(f"{path} cannot be read as a .tgz ({error}): give de-en.tgz, or a folder") from error
    return files


def _safe_name(member: tarfile.TarInfo, path: Path) -> str:
    """The last part of a member's name; the archive is refused where a name leaves it, or where one is a link."""
    name = PurePosixPath(member.name.replace("\\", "/"))
    if name.is_absolute() or ".." in name.parts or re.match("[A-Za-z]:", member.name):
        raise CorpusError(f"{path} is refused: {member.name!r} leads out of the archive")
    if not (member.isfile() or member.isdir()) or member.issparse():  # holes take memory that no limit has counted
        raise CorpusError(f"{path} is refused: {member.name!r} is a link or a device or has holes, not a plain file")
    return "" if name.name.startswith("._") else name.name
