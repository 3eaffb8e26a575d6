"""Read parallel text from a folder; a CorpusError names the file and line of any fault."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

SPLITS = ("train", "val", "test")
LANGUAGES = ("de", "en")
STEMS = {"train": ("train",), "val": ("val", "valid", "validation", "dev"), "test": ("test", "test_2016_flickr")}
SUMS = "SHA256SUMS"
EXPECTED = "expected train.de, train.en, val.de, val.en, test.de and test.en (valid or dev for val; .gz is fine)"

PREPARE = "run fairseq's prepare-iwslt14.sh and name the folder that it makes, iwslt14.tokenized.de-en"

TEXT_LIMIT = 128 * 2**20  # bytes of one file, decompressed
SENTENCE_LIMIT = 4000  # characters; attention takes memory by the square of a sentence's length


class CorpusError(ValueError):
    """A corpus is missing or damaged; the message names the file, the line and what to do."""


@dataclass(frozen=True)
class ParallelText:
    """All pairs of a corpus as written in its files, and the files' checksums."""

    pairs: Mapping[str, tuple[tuple[str, str], ...]]  # split → (German, English)
    stored: Mapping[str, str]  # file name → SHA-256 of the file, as sha256sum prints it
    texts: Mapping[str, str]  # the same without .gz → SHA-256 of the decompressed text

    @property
    def checksum(self) -> str:
        """One SHA-256 over the names and the texts."""
        return hashlib.sha256("".join(f"{s}  {name}\n" for name, s in sorted(self.texts.items())).encode()).hexdigest()


def read_parallel(path: Path) -> ParallelText:
    """The corpus in a folder of {train,val,test}.{de,en}."""
    if path.is_file() and path.name.endswith((".tgz", ".tar", ".tar.gz", ".zip")):
        raise CorpusError(f"{path} is an archive, and only folders are read. For IWSLT14, {PREPARE}")
    if not path.is_dir():
        what = "is a file, not a folder" if path.exists() else "does not exist"
        raise CorpusError(f"{path} {what}: give a folder, {EXPECTED}")
    names = _names(path)
    if any(name.startswith("train.tags.") for name in names):
        raise CorpusError(f"{path} has IWSLT14's original files: {PREPARE}")
    found = {split: _find(path, names, split) for split in SPLITS}  # all files, before one is read
    pairs, stored, texts = {}, {}, {}
    for split, files in found.items():
        german, english = (_lines(file, stored, texts) for file in files)
        _check_pairs(files, german, english)
        pairs[split] = tuple(zip(german, english, strict=True))
    return ParallelText(pairs, stored, texts)


def check_sums(folder: Path, found: Mapping[str, str], fix: str) -> None:
    """Check that the folder's SHA256SUMS lists each file that was read, with the checksum that was found."""
    try:
        listed = re.findall(r"^([0-9a-f]{64}) [ *](.+?)\r?$", (folder / SUMS).read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{folder / SUMS} cannot be read ({error}). To fix: {fix}") from error
    compare_sums(folder, found, {name: digest for digest, name in listed}, fix)


def compare_sums(folder: Path, found: Mapping[str, str], wanted: Mapping[str, str], fix: str) -> None:
    """Check that each file has the checksum that is `wanted`."""
    for name, digest in found.items():
        if wanted.get(name) != digest:
            raise CorpusError(f"{folder / name} is not the file that belongs here (SHA-256 {digest}). To fix: {fix}")


def _lines(path: Path, stored: dict[str, str], texts: dict[str, str]) -> list[str]:
    """The lines of a file, without their line ends; its checksums are added to `stored` and `texts`."""
    data = _read(path)
    stored[path.name] = hashlib.sha256(data).hexdigest()
    if path.suffix == ".gz":
        data = _gunzip(data, path)
    texts[path.name.removesuffix(".gz")] = hashlib.sha256(data).hexdigest()
    return _decode(data, path)


def _find(folder: Path, names: list[str], split: str) -> tuple[Path, Path]:
    """The German and the English file of a split; train.de is preferred to train.de.gz."""
    german, english = ({}, {})  # stem → name
    for by_stem, language in ((german, "de"), (english, "en")):
        for name in sorted(names, reverse=True):
            stem = name.removesuffix(".gz")
            if stem.endswith(f".{language}"):
                by_stem[stem.removesuffix(f".{language}")] = name
    both = [stem for stem in german if stem in english]
    stems = [stem for stem in STEMS[split] if stem in both]
    stems = stems or [stem for stem in both if re.match(rf"(?:{'|'.join(STEMS[split])})[._-]", stem)]
    if len(stems) == 1 or stems[:1] == ["test"]:
        return folder / german[stems[0]], folder / english[stems[0]]
    if stems:
        raise CorpusError(f"{folder} has several texts for {split}, {', '.join(sorted(stems))}: keep one")
    found = ", ".join(sorted(name for name in names if name != SUMS)[:12]) or "no file"
    raise CorpusError(f"{folder} has no {split}.de with its {split}.en: {EXPECTED}, found {found}")


def _check_pairs(paths: tuple[Path, Path], german: list[str], english: list[str]) -> None:
    """A CorpusError unless every line has a translation."""
    if len(german) != len(english):
        found = f"{paths[0]} has {len(german)} lines and {paths[1].name} has {len(english)}"
        missing = f"from line {min(len(german), len(english)) + 1} on one is missing"
        raise CorpusError(f"{found}: line by line they must be translations of each other, and {missing}")
    if not german:
        raise CorpusError(f"{paths[0]} and {paths[1].name} hold no sentences")
    for number, pair in enumerate(zip(german, english, strict=True), start=1):
        for path, sentence, other in zip(paths, pair, reversed(paths), strict=True):
            if not sentence or sentence.isspace():
                twin = f"the translation of line {number} of {other.name}"
                raise CorpusError(f"{path}, line {number} is blank: it must hold {twin}. Fill or delete both lines")


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


def _gunzip(data: bytes, path: Path) -> bytes:
    """The decompressed text of a .gz, or a CorpusError."""
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
    """The lines of UTF-8 text. Only \\n or \\r\\n ends a line: U+2028, \\x0b and \\x85 may occur inside a sentence."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise CorpusError(f"{path} is empty: it must hold one sentence per line")
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
            found = f"{len(line)} characters, at most {SENTENCE_LIMIT} are read"
            raise CorpusError(f"{path}, line {number} has {found}: split it into sentences, in both languages")
    return [line.removesuffix("\r") for line in lines]


def _line(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1
