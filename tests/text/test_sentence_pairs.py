"""Good files are read; a bad one is refused with its name, the line and what to do."""

import gzip
import hashlib
from pathlib import Path

import pytest

import lntutor as ln
from lntutor.text import sentence_pairs as parallel
from lntutor.text.sentence_pairs import LANGUAGES, SPLITS, CorpusError, read_parallel

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


def test_a_sign_that_splitlines_cuts_at_does_not_shift_lines(tmp_path):
    """Oracle: two lines were written; str.splitlines sees ten."""
    signs = "a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i"
    assert len(signs.splitlines()) == 9
    text = read_parallel(write(tmp_path, train_de=f"{signs}\nzwei\n".encode()))
    assert text.pairs["train"] == ((signs, "train en 1"), ("zwei", "train en 2"))


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


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_with_its_name_and_line(tmp_path, changes, message):
    """Oracle: the damage done on purpose."""
    with pytest.raises(CorpusError, match=message) as refused:
        read_parallel(write(tmp_path, **changes))
    assert str(tmp_path) in str(refused.value)


def test_one_pair_of_files_is_not_a_corpus(tmp_path):
    """Oracle: the message must say what is expected and what was found."""
    for language in LANGUAGES:
        (tmp_path / f"all.{language}").write_text("x\n")
    with pytest.raises(CorpusError, match=r"no train\.de .*expected train\.de, .*test\.en .*found all\.de, all\.en"):
        read_parallel(tmp_path)
    with pytest.raises(CorpusError, match=r"nowhere does not exist: give a folder, expected train\.de"):
        read_parallel(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match=r"all\.de is a file, not a folder: give a folder, expected train\.de"):
        read_parallel(tmp_path / "all.de")


def test_a_text_of_too_many_bytes_is_not_read(tmp_path, monkeypatch):
    """Oracle: a limit of a thousand bytes, and a text of five thousand."""
    monkeypatch.setattr(parallel, "TEXT_LIMIT", 1000)
    with pytest.raises(CorpusError, match=r"train\.de has more than"):
        read_parallel(write(tmp_path, train_de=b"eins\n" * 1000))


def test_files_of_macos_are_left_alone(tmp_path):
    """Oracle: ._train.de beside train.de, which holds no text."""
    write(tmp_path)
    (tmp_path / "._train.de").write_bytes(b"\0\5\x16\7")
    assert len(read_parallel(tmp_path).pairs["train"]) == 2


@pytest.mark.parametrize("name", ["de-en.tgz", "de-en.tar.gz", "de-en/train.tags.de-en.de"])
def test_the_original_of_iwslt14_is_answered_with_the_script_that_prepares_it(tmp_path, monkeypatch, name):
    """Oracle: the name of fairseq's script; the archive is not read, so that it may hold anything."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"anything")
    monkeypatch.setenv("LNTUTOR_IWSLT14", str(tmp_path / Path(name).parts[0]))
    with pytest.raises(CorpusError, match=r"run fairseq's prepare-iwslt14\.sh and name the folder that it makes"):
        ln.load_corpus("iwslt14")


def test_a_bomb_is_not_unpacked_to_its_end(tmp_path):
    """Oracle: the limit as it is, and a .gz of less than a megabyte that unpacks to 672 MB, in many parts."""
    bomb = gzip.compress(bytes(2**24), 9) * 40
    assert len(bomb) < 2**20
    with pytest.raises(CorpusError, match=r"train\.de\.gz unpacks to more than 128 MB"):
        read_parallel(write(tmp_path, train_de=None, train_de_gz=bomb))


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
