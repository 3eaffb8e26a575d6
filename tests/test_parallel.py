"""Good files are read whole; a bad one is refused with its name, the line and the way out."""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lntutor import parallel
from lntutor.parallel import IWSLT_TEST, LANGUAGES, SPLITS, CorpusError, read_parallel

GOOD = {
    f"{split}.{language}": f"{split} {language} 1\n{split} {language} 2\n" for split in SPLITS for language in LANGUAGES
}


def write(folder, **changes):
    """A folder of good files, some changed: train_de=b"…", or None for a file that is not there."""
    folder.mkdir(exist_ok=True)
    texts = {name: text.encode() for name, text in GOOD.items()}
    texts |= {name.replace("_", ".", 1).replace("_", "."): data for name, data in changes.items()}
    for name, data in texts.items():
        if data is not None:
            (folder / name).write_bytes(data)
    return folder


def tar(path, members, mode="w:gz"):
    """An archive of (name, bytes or TarInfo type)."""
    with tarfile.open(path, mode) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes) and len(content) != 1:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                info.type, info.linkname = content, "/etc/passwd"
                archive.addfile(info)
    return path


def test_a_folder_is_read_as_written(tmp_path):
    """Oracle: the strings that were written."""
    text = read_parallel(write(tmp_path))
    assert text.pairs["val"] == (("val de 1", "val en 1"), ("val de 2", "val en 2"))
    assert text.stored["train.de"] == hashlib.sha256(GOOD["train.de"].encode()).hexdigest()


@pytest.mark.parametrize("stem", ["val", "valid", "validation", "dev"])
def test_validation_goes_by_several_names(tmp_path, stem):
    """Oracle: the same text under another name."""
    write(tmp_path)
    for language in LANGUAGES:
        (tmp_path / f"val.{language}").rename(tmp_path / f"{stem}.{language}")
    assert read_parallel(tmp_path).pairs["val"][0] == ("val de 1", "val en 1")


def test_packed_and_plain_text_are_the_same_corpus(tmp_path):
    """Oracle: gzip; the checksum is of what is inside."""
    plain = read_parallel(write(tmp_path / "plain"))
    packed = write(tmp_path / "packed")
    for name, text in GOOD.items():
        (packed / name).unlink()
        (packed / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    packed = read_parallel(packed)
    assert (packed.pairs, packed.checksum) == (plain.pairs, plain.checksum)
    assert set(packed.stored) == {f"{name}.gz" for name in GOOD}


def test_the_checksum_changes_with_the_text_and_with_the_name(tmp_path):
    """Oracle: SHA-256 over both."""
    sums = {read_parallel(write(tmp_path / "a")).checksum}
    sums.add(read_parallel(write(tmp_path / "b", test_en=b"test en 1\ntest en 3\n")).checksum)
    swapped = {name.replace(".", "_"): GOOD[name.replace("val", "test")].encode() for name in GOOD if "val" in name}
    sums.add(read_parallel(write(tmp_path / "c", **swapped)).checksum)
    assert len(sums) == 3


def test_line_ends_of_windows_and_a_byte_order_mark_are_no_part_of_a_sentence(tmp_path):
    """Oracle: the sentences without them."""
    text = read_parallel(write(tmp_path, train_de=b"\xef\xbb\xbfeins\r\nzwei\r\n", train_en=b"one\ntwo"))
    assert text.pairs["train"] == (("eins", "one"), ("zwei", "two"))


@given(st.lists(st.text(st.characters(blacklist_characters="\n\r\0", blacklist_categories=["Cs"]), min_size=1)))
def test_only_a_newline_ends_a_line(sentences):
    """Oracle: str.split on a newline, where splitlines would also cut at U+2028, \\x0b and \\x85."""
    sentences = ["first", *sentences]
    data = "\n".join(sentences).encode()
    assert parallel._decode(data, parallel.Path("train.de")) == sentences


@pytest.mark.parametrize("sign", ["\u2028", "\x0b", "\x85", "\x0c", "\x1e"])
def test_a_sign_that_splitlines_cuts_at_does_not_shift_lines(tmp_path, sign):
    """Oracle: two lines were written."""
    text = read_parallel(write(tmp_path, train_de=f"ei{sign}ns\nzwei\n".encode()))
    assert text.pairs["train"] == ((f"ei{sign}ns", "train en 1"), ("zwei", "train en 2"))


PACKED = gzip.compress(("ein Satz\n" * 5000).encode())
BAD = {
    "unequal": ({"val_de": b"one\n"}, r"val\.de has 1 lines and val\.en has 2: .* from line 2 on"),
    "blank": ({"train_en": b"one\n  \n"}, r"train\.en, line 2 is blank: .* line 2 of train\.de"),
    "blank at the end": ({"train_de": b"eins\n\n"}, r"train\.de, line 2 is blank"),
    "encoding": ({"test_de": "eins\nzw\xf6lf\n".encode("latin-1")}, r"test\.de, line 2 is not UTF-8 .*save the file"),
    "utf-16": ({"test_de": "eins\nzwei\n".encode("utf-16")}, r"test\.de, line 1 .* UTF-16"),
    "nul": ({"val_en": b"one\ntwo\0\n"}, r"val\.en, line 2 holds a NUL byte"),
    "empty": ({"train_de": b""}, r"train\.de is empty"),
    "only newlines": ({"train_de": b"\n\n"}, r"train\.de is empty"),
    "web page": ({"train_de": b"<!DOCTYPE html>\n<html>\n"}, r"train\.de is a web page"),
    "too long": ({"train_en": b"one\n" + b"x" * 5000 + b"\n"}, r"train\.en, line 2 has 5000 characters, at most 4000"),
    "truncated": ({"train_de": None, "train_de_gz": PACKED[:-20]}, r"train\.de\.gz ends too early"),
    "cut in its header": ({"train_de": None, "train_de_gz": PACKED[:5]}, r"train\.de\.gz ends too early"),
    "damaged": ({"train_de": None, "train_de_gz": PACKED[:-6] + b"\1" + PACKED[-5:]}, r"train\.de\.gz is damaged"),
    "page for gz": ({"train_de": None, "train_de_gz": b" <html><body>Log in"}, r"train\.de\.gz is a web page, not"),
    "text for gz": ({"train_de": None, "train_de_gz": b"eins\nzwei\n"}, r"train\.de\.gz is not a \.gz: .*eins"),
    "empty gz": ({"train_de": None, "train_de_gz": gzip.compress(b"")}, r"train\.de\.gz is empty"),
    "no bytes for gz": ({"train_de": None, "train_de_gz": b""}, r"train\.de\.gz is empty"),
    "missing": ({"val_en": None}, r"has no val\.de with its val\.en: expected train\.de, .* found test\.de"),
    "two for one": ({"dev_de": b"x\n", "dev_en": b"x\n"}, r"several texts for val, dev, val: keep one"),
}


@pytest.mark.parametrize(("changes", "words"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_with_its_name_and_line(tmp_path, changes, words):
    """Oracle: the damage done on purpose."""
    with pytest.raises(CorpusError, match=words) as refused:
        read_parallel(write(tmp_path, **changes))
    assert str(tmp_path) in str(refused.value)


def test_one_pair_of_files_is_not_a_corpus(tmp_path):
    """Oracle: the message must say what is expected and what was found."""
    for language in LANGUAGES:
        (tmp_path / f"all.{language}").write_text("x\n")
    with pytest.raises(CorpusError, match=r"no train\.de .*expected train\.de, .*test\.en .*found all\.de, all\.en"):
        read_parallel(tmp_path)
    with pytest.raises(CorpusError, match="there is no folder"):
        read_parallel(tmp_path / "nowhere")


def test_a_text_that_unpacks_to_too_much_is_not_read(tmp_path, monkeypatch):
    """Oracle: a limit of a thousand bytes, and 45,000 packed into few."""
    monkeypatch.setattr(parallel, "TEXT_LIMIT", 1000)
    with pytest.raises(CorpusError, match="unpacks to more than"):
        read_parallel(write(tmp_path / "packed", train_de=None, train_de_gz=PACKED))
    with pytest.raises(CorpusError, match=r"train\.de has more than"):
        read_parallel(write(tmp_path / "plain", train_de=b"eins\n" * 1000))


def test_files_of_macos_are_left_alone(tmp_path):
    """Oracle: ._train.de beside train.de, which holds no text."""
    write(tmp_path)
    (tmp_path / "._train.de").write_bytes(b"\0\5\x16\7")
    assert len(read_parallel(tmp_path).pairs["train"]) == 2


def iwslt(pairs=50):
    """IWSLT14's original files in small: tags between the talks, German tags that English lacks, segments in XML."""
    sentences = [(f"Das ist der Satz Nummer {i} .", f"This is sentence number {i} .") for i in range(pairs)]
    tags = "<url>http://localhost/a</url>|<keywords>a, b</keywords>|<speaker>S</speaker>|<talkid>1</talkid>"
    heads = {
        "de": f"{tags}|<translator href='x'>T</translator>|<title>Ein Titel hier</title>"
        "|<description>TED Talk : Eine Beschreibung</description>",
        "en": f"{tags}|<title>A title here</title>|<description>TED Talk : A description</description>",
    }
    files = {}
    for side, language in enumerate(LANGUAGES):
        lines = [*heads[language].split("|"), *(pair[side] for pair in sentences)]
        lines[-2] += " und noch so viel mehr , dass es nicht passt" * (side == 0)  # 1.5 times as long, and more
        lines[-3] *= side  # blank in German
        files[f"train.tags.de-en.{language}"] = "\n".join(lines) + "\n"
        for name in IWSLT_TEST:
            talks = name.split(".")[2]
            segments = [f'<seg id="{i}"> {talks} {language}{i} &amp; it’s </seg>' for i in (1, 2)]
            body = [
                '<?xml version="1.0" encoding="UTF-8"?>',
                f'<doc docid="1"><title>{talks}</title>',
                *segments,
                "</doc>",
            ]
            files[name.format(language)] = "\n".join(body) + "\n"
    return {name: text.encode() for name, text in files.items()}, sentences


@pytest.mark.parametrize("packed", [True, False], ids=["archive", "folder"])
def test_the_original_of_iwslt14_is_divided_as_fairseq_does(tmp_path, packed):
    """Oracle: prepare-iwslt14.sh by hand: tags out, titles in, bad pairs out, each 23rd for validation."""
    files, sentences = iwslt()
    if packed:
        extra = [("de-en/._train.tags.de-en.de", b"\0\5\x16\7"), ("de-en/README", b"text")]
        path = tar(tmp_path / "de-en.tgz", [*extra, *((f"de-en/{name}", data) for name, data in files.items())])
    else:
        path = tmp_path
        for name, data in files.items():
            (path / name).write_bytes(data)
    text = read_parallel(path)
    heads = [("Ein Titel hier", "A title here"), ("TED Talk : Eine Beschreibung", "TED Talk : A description")]
    kept = [*heads, *sentences[:-3], sentences[-1]]
    assert text.pairs["val"] == (kept[22], kept[45])
    assert text.pairs["train"] == tuple(pair for i, pair in enumerate(kept) if i not in (22, 45))
    talks = ["dev2010", "dev2012", "tst2010", "tst2011", "tst2012"]
    assert text.pairs["test"] == tuple(
        (f"{talk} de{i} & it's", f"{talk} en{i} & it's") for talk in talks for i in (1, 2)
    )
    assert list(text.stored) == ["de-en.tgz"] if packed else len(text.stored) == 12


def test_the_original_of_iwslt14_without_one_of_its_files_is_refused(tmp_path):
    """Oracle: the name of the file that was left out."""
    files, _ = iwslt()
    del files["IWSLT14.TED.tst2011.de-en.en.xml"]
    with pytest.raises(CorpusError, match=r"has no file IWSLT14\.TED\.tst2011\.de-en\.en\.xml"):
        read_parallel(tar(tmp_path / "de-en.tgz", files.items()))
    files, _ = iwslt(pairs=10)
    with pytest.raises(CorpusError, match="has 10 usable training pairs"):
        read_parallel(tar(tmp_path / "de-en.tgz", files.items()))


def test_a_prepared_folder_may_come_as_an_archive(tmp_path):
    """Oracle: the same files in a folder."""
    path = tar(tmp_path / "mine.tgz", [(f"mine/{name}", text.encode()) for name, text in GOOD.items()])
    assert read_parallel(path).pairs == read_parallel(write(tmp_path / "mine")).pairs


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("../train.de", b"eins\n", "'../train.de' leads out of the archive"),
        ("de-en/../../train.de", b"eins\n", "leads out"),
        ("/tmp/train.de", b"eins\n", "leads out"),
        ("C:\\train.de", b"eins\n", "leads out"),
        ("..\\train.de", b"eins\n", "leads out"),
        ("de-en/train.de", tarfile.SYMTYPE, "is a link or a device"),
        ("de-en/train.de", tarfile.LNKTYPE, "is a link or a device"),
        ("de-en/train.de", tarfile.FIFOTYPE, "is a link or a device"),
        ("de-en/train.de", tarfile.CHRTYPE, "is a link or a device"),
    ],
)
def test_an_archive_that_reaches_out_is_refused(tmp_path, name, content, words):
    """Oracle: members made on purpose, after good ones; nothing appears beside the archive."""
    good = [(f"de-en/{file}", text.encode()) for file, text in GOOD.items()]
    path = tar(tmp_path / "de-en.tgz", [*good, (name, content)])
    with pytest.raises(CorpusError, match="de-en.tgz is refused.*" + words.replace(".", r"\.")):
        read_parallel(path)
    assert [file.name for file in tmp_path.iterdir()] == ["de-en.tgz"]


def test_an_archive_that_unpacks_to_too_much_is_not_read(tmp_path, monkeypatch):
    """Oracle: limits set low, and members that pass each of them."""
    path = tar(tmp_path / "de-en.tgz", [("zeros", bytes(200_000)), ("train.de", b"eins\n")])
    monkeypatch.setattr(parallel, "ARCHIVE_LIMIT", 100_000)
    with pytest.raises(CorpusError, match="unpacks to more than"):
        read_parallel(path)
    monkeypatch.undo()
    monkeypatch.setattr(parallel, "TEXT_LIMIT", 3)
    with pytest.raises(CorpusError, match=r"train\.de has more than"):
        read_parallel(path)
    monkeypatch.undo()
    monkeypatch.setattr(parallel, "MEMBERS_LIMIT", 1)
    with pytest.raises(CorpusError, match="holds more than 1 files"):
        read_parallel(path)


def bomb(content: bytes = b"") -> bytes:
    """A .gz of less than a megabyte that unpacks to `content` and 672 MB of zeros; a .gz may have many parts."""
    return gzip.compress(content) + gzip.compress(bytes(2**24), 9) * 40


def test_a_bomb_is_not_unpacked_to_its_end(tmp_path):
    """Oracle: the limits as they are, and files that are small on disk, a text and an archive."""
    header = tarfile.TarInfo("de-en/train.de")
    header.size = 2**24 * 40
    other = tarfile.TarInfo("de-en/zeros")
    other.size = 2**24 * 40
    for name, content, words in (
        ("text", bomb(), "train.de.gz unpacks to more than 128 MB"),
        ("large.tgz", bomb(header.tobuf()), "train.de has more than 128 MB"),
        ("padded.tgz", bomb(other.tobuf()), "unpacks to more than 256 MB"),
    ):
        path = tmp_path / name
        if name == "text":
            write(path, train_de=None, train_de_gz=content)
        else:
            path.write_bytes(content)
        assert len(content) < 2**20 < 600 * 2**20
        with pytest.raises(CorpusError, match=words.replace(".", r"\.")):
            read_parallel(path)


def test_a_file_of_holes_in_an_archive_is_refused(tmp_path):
    """Oracle: a sparse member of 100 MB, which takes none in the archive."""
    path = tmp_path / "holes.tgz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("de-en/train.de")
        member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": "100000000", "GNU.sparse.name": member.name}
        archive.addfile(member)
    with pytest.raises(CorpusError, match=r"'de-en/train\.de' is a link or a device or has holes"):
        read_parallel(path)


def test_links_of_a_folder_are_read_only_where_they_lead_to_a_file(tmp_path):
    """Oracle: the operating system's links, to a file elsewhere, to nothing, to itself, to a folder and to a device."""
    write(tmp_path / "there")
    folder = tmp_path / "links"
    folder.mkdir()
    for name in GOOD:
        (folder / name).symlink_to(tmp_path / "there" / name)
    assert read_parallel(folder).pairs == read_parallel(tmp_path / "there").pairs
    for target in (tmp_path / "nothing", folder / "train.de", tmp_path, Path("/dev/zero")):
        (folder / "train.de").unlink()
        (folder / "train.de").symlink_to(target)
        with pytest.raises(CorpusError, match=r"has no train\.de"):
            read_parallel(folder)


def test_a_damaged_archive_is_refused(tmp_path):
    """Oracle: cut short, a page in its place, twice the same name, nothing at all."""
    files, _ = iwslt()
    path = tar(tmp_path / "de-en.tgz", files.items())
    whole = path.read_bytes()
    for end in (5, 30, len(whole) // 2, len(whole) - 9):
        path.write_bytes(whole[:end])
        with pytest.raises(CorpusError, match=r"de-en\.tgz (ends too early|cannot be read as a \.tgz)"):
            read_parallel(path)
    path.write_bytes(b"<html>")
    with pytest.raises(CorpusError, match=r"is a web page, not a \.tgz"):
        read_parallel(path)
    path.write_bytes(b"")
    with pytest.raises(CorpusError, match=r"cannot be read as a \.tgz"):
        read_parallel(path)
    with pytest.raises(CorpusError, match=r"holds train\.de more than once"):
        read_parallel(tar(path, [("a/train.de", b"eins\n"), ("b/train.de", b"zwei\n")]))
    with pytest.raises(CorpusError, match="found no file"):
        read_parallel(tar(path, [("a/readme", b"eins\n")]))
