"""Vocabularies as torchtext has them, and batches that hold every pair once, with little padding."""

import gzip
import os
import pickle
import shutil
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from torchtext.data import Field

import lntutor as ln
from lntutor.text.corpus import END, MASK, PAD, SPECIALS, SPLITS, START, UNKNOWN, Corpus, CorpusError, build_corpus
from lntutor.text.download import CAPTIONS
from lntutor.text.sentence_pairs import LANGUAGES, ParallelText
from lntutor.text.tokens import split_words
from tests.processes import run_python

VOCABULARY = ["der", "die", "das", "ein", "hund", "katze", "läuft", "springt", ".", ",", "und", "groß"]
WORDS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=9)
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=40)


def small(train, val=None, min_frequency=1, lower=True) -> Corpus:
    """A corpus of these pairs of lists of words."""
    pairs = {"train": train, "val": val or train[:1], "test": train[:1]}
    joined = {split: tuple((" ".join(de), " ".join(en)) for de, en in rows) for split, rows in pairs.items()}
    return build_corpus("small", ParallelText(joined, {}, {}), min_frequency, lower, None)


def rows(ids: np.ndarray) -> list[tuple[int, ...]]:
    """Each row without its padding."""
    return [tuple(row[row != PAD].tolist()) for row in ids]


def contents(batches) -> Counter:
    """Every pair of the batches, counted."""
    return Counter(pair for b in batches for pair in zip(rows(b.source), rows(b.target), rows(b.labels), strict=True))


@pytest.fixture(scope="module")
def multi30k(multi30k_folder) -> Corpus:
    return ln.load_corpus("multi30k", folder=multi30k_folder)


@pytest.fixture(scope="module")
def fields(corpus) -> dict[str, Field]:
    """torchtext alone: fields that read, lower and number the training text as its own tutorials do."""
    made = {}
    for side, language in enumerate(LANGUAGES):
        specials = dict(zip(("unk_token", "pad_token", "init_token", "eos_token"), SPECIALS, strict=False))
        if language == "de":
            specials["init_token"] = None
        field = Field(tokenize=lambda s: split_words(s, lower=False), lower=True, batch_first=True, **specials)
        texts = [field.preprocess(pair[side]) for pair in corpus.pairs("train")]
        field.build_vocab(texts, min_freq=2, specials=["<mask>"] if language == "en" else ["<s>", "<mask>"])
        made[language] = field
    return made


def test_the_captions_are_all_there(corpus):
    """Oracle: wc -l of the files, and their first lines."""
    for split in SPLITS:
        for side, language in enumerate(LANGUAGES):
            lines = (CAPTIONS / f"{split}.{language}").read_text(encoding="utf-8").rstrip("\n").split("\n")
            assert [pair[side] for pair in corpus.pairs(split)] == lines
    assert [len(corpus.pairs(split)) for split in SPLITS] == [10_000, 1000, 1000]


def test_a_result_can_say_which_text_it_is_of(corpus):
    """Oracle: SHA256SUMS of the shipped files."""
    sums = dict(line.split()[::-1] for line in (CAPTIONS / "SHA256SUMS").read_text().splitlines())
    assert corpus.checksums == {name: sums[name] for name in corpus.checksums}
    assert len(corpus.checksums) == 6
    assert corpus.name == "captions"
    assert len(corpus.checksum) == 64
    assert corpus.checksum[:12] in repr(corpus)


def test_words_have_the_numbers_that_torchtext_gives(corpus, fields):
    """Oracle: torchtext's Vocab; the German field has START placed by hand, since it never writes it."""
    assert corpus.target.words == tuple(fields["en"].vocab.itos)
    german = fields["de"].vocab.itos
    assert german[:5] == ["<unk>", "<pad>", "</s>", "<s>", "<mask>"]
    assert corpus.source.words == (*SPECIALS, *german[5:])
    assert [corpus.source.words.index(word) for word in SPECIALS] == [UNKNOWN, PAD, START, END, MASK]


def test_batches_are_those_of_torchtext(corpus, fields):
    """Oracle: Field.process, which pads, adds START and END, and numbers."""
    batch = corpus.batch("val", 64)
    texts = zip(*corpus.pairs("val")[:64], strict=True)
    both = zip((fields[language] for language in LANGUAGES), texts, strict=True)
    german, english = (field.process([field.preprocess(s) for s in text]).numpy() for field, text in both)
    swapped = {END: START, START: END}  # the order of the German field's special words
    np.testing.assert_array_equal(batch.source, [[swapped.get(n, n) for n in row] for row in german.tolist()])
    np.testing.assert_array_equal(batch.labels, english[:, 1:])
    assert rows(batch.target) == [row[:-1] for row in rows(english)]
    assert batch.target.shape == batch.labels.shape
    assert (batch.pad, batch.vocab) == (PAD, (len(corpus.source), len(corpus.target)))


@given(PAIRS, st.integers(1, 50), st.sampled_from([None, 0, 1, 12345]), st.integers(1, 100))
def test_a_pass_holds_every_pair_exactly_once(pairs, size, seed, pool):
    """Oracle: all pairs as one batch, in the files' order."""
    corpus = small(pairs)
    batches = list(corpus.batches("train", size, seed=seed, pool=pool))
    assert contents(batches) == contents([corpus.batch("train", len(pairs))])
    assert all(len(batch.source) <= size for batch in batches)
    assert len(batches) == -(-len(pairs) // size)


@given(PAIRS, st.integers(1, 20), st.integers(0, 99))
def test_the_same_seed_gives_the_same_batches(pairs, size, seed):
    """Oracle: a second call, on a corpus built anew."""
    for task in ("translation", "masked_words"):
        first, second = (list(small(pairs).batches("train", size, seed=seed, task=task)) for _ in range(2))
        for one, other in zip(first, second, strict=True):
            np.testing.assert_array_equal(one.source, other.source)
            np.testing.assert_array_equal(one.labels, other.labels)


def test_another_seed_or_pass_gives_another_order_of_the_same_pairs(corpus):
    """Oracle: the multiset of pairs, which stays."""
    passes = [list(corpus.batches("val", 50, seed=seed)) for seed in (0, 1)]
    stream = corpus.stream("val", 50, seed=0)
    passes += [list(islice(stream, 20)) for _ in range(2)]
    assert all(contents(batches) == contents(passes[0]) for batches in passes)
    first = [batch.source.tobytes() for batch in passes[0]]
    assert [batch.source.tobytes() for batch in passes[2]] == first  # the stream begins with the same pass
    assert [batch.source.tobytes() for batch in passes[1]] != first
    assert [batch.source.tobytes() for batch in passes[3]] != first


def test_without_a_seed_batches_are_sorted_and_always_the_same(corpus):
    """Oracle: lengths of the German sentences never fall from batch to batch."""
    batches = list(corpus.batches("test", 30))
    longest = [batch.source.shape[1] for batch in batches]
    assert longest == sorted(longest)
    again = corpus.batches("test", 30)
    assert all((one.source == other.source).all() for one, other in zip(batches, again, strict=True))


@pytest.mark.parametrize("name", ["corpus", "multi30k"])
def test_there_is_little_padding_in_pools_sorted_by_length(name, request):
    """Oracle: padding counted in the batches themselves; drawn batches have several times as much."""
    corpus = request.getfixturevalue(name)
    sides = [ids for batch in corpus.batches("train", 64, seed=0, pool=100) for ids in (batch.source, batch.labels)]
    counted = sum((ids == PAD).sum() for ids in sides) / sum(ids.size for ids in sides)
    assert corpus.padding("train", 64, pool=100) == pytest.approx(counted, abs=1e-12)
    assert counted < 0.1
    assert corpus.padding(seed=None) < counted < corpus.padding() / 4


@given(PAIRS, st.integers(1, 12))
def test_sorting_never_adds_padding_where_both_languages_have_the_same_lengths(pairs, size):
    """Oracle: of all ways to divide numbers into groups of one size, the sorted one has the least sum of maxima."""
    full = len(pairs) // size * size
    assume(full)
    corpus = small([(de, de) for de, _ in pairs[:full]])
    assert corpus.padding(size=size, seed=None) <= corpus.padding(size=size) + 1e-12


def test_masks_are_those_of_bert(corpus):
    """Oracle: Devlin et al. 2019, section 3.1: 15 % of words; of these 80 % masked, 10 % drawn, 10 % as they were."""
    chosen = masked = kept = words = 0
    for number, batch in enumerate(corpus.batches("train", 64, seed=0, task="masked_words")):
        picked = batch.labels != PAD
        assert picked.any(axis=1).all(), number  # at least one per sentence
        assert (batch.labels[picked] >= len(SPECIALS)).all()
        assert batch.target is None
        assert batch.vocab == (len(corpus.target), len(corpus.target))
        words += ((batch.source != PAD) & (batch.source != END)).sum()
        chosen += picked.sum()
        masked += (batch.source[picked] == MASK).sum()
        kept += (batch.source[picked] == batch.labels[picked]).sum()
        assert (batch.source[~picked] != MASK).all()
    assert words == sum(len(corpus.tokens(english, "en")) for _, english in corpus.pairs("train"))
    assert chosen / words == pytest.approx(0.15, abs=0.005)  # at least one raises it in short sentences
    assert masked / chosen == pytest.approx(0.8, abs=0.02)  # five standard deviations of 18,000 draws
    assert kept / chosen == pytest.approx(0.1, abs=0.015)


@given(PAIRS, st.sampled_from([None, 0, 7]), st.integers(1, 3))
def test_masks_change_chosen_words_only_and_never_special_ones(pairs, seed, min_frequency):
    """Oracle: the sentences themselves: put the labels back, and they are there again."""
    try:
        corpus = small(pairs, min_frequency=min_frequency)
    except CorpusError:  # no word is frequent enough
        return
    restored = Counter()
    for batch in corpus.batches("train", 4, seed=seed, task="masked_words"):
        picked = batch.labels != PAD
        restored.update(rows(np.where(picked, batch.labels, batch.source)))
        special = picked & (batch.labels < len(SPECIALS))
        assert (batch.labels[special] == UNKNOWN).all()
        for sentence, marks in zip(np.where(picked, batch.labels, batch.source), special, strict=True):
            assert not marks.any() or (sentence < len(SPECIALS)).all()  # only where there is no other word
    assert restored == Counter(rows(corpus.batch("train", len(pairs)).labels))


def test_validation_masks_are_fixed_whatever_the_size_of_a_batch(corpus):
    """Oracle: the same sentences in batches of another size, and as one batch."""

    def masked(batches) -> Counter:
        """Each sentence as (word, label) without padding, counted."""
        sentences = (row for b in batches for row in np.stack([b.source, b.labels], axis=-1).tolist())
        return Counter(tuple((word, label) for word, label in row if word != PAD) for row in sentences)

    first, again, other = (masked(corpus.batches("val", size, task="masked_words")) for size in (64, 64, 10))
    assert first == again == other
    assert masked([corpus.batch("val", 5, task="masked_words")]) <= first


def test_masks_are_new_in_each_pass_of_training(corpus):
    """Oracle: the positions of two passes."""
    stream = corpus.stream("val", 1000, seed=0, task="masked_words")
    first, second = next(stream), next(stream)
    assert first.labels.shape[0] == second.labels.shape[0] == 1000
    assert sorted(rows(first.labels)) != sorted(rows(second.labels))


@given(st.lists(st.integers(len(SPECIALS), 400), max_size=20))
def test_known_words_come_back(numbers):
    """Oracle: the words themselves; START and PAD are skipped, and nothing after END is read."""
    vocabulary = ln.load_corpus("captions").target
    words = [vocabulary.words[number] for number in numbers]
    assert vocabulary.encode(words) == numbers
    assert vocabulary.decode([START, *numbers, END, PAD, 7]) == words
    assert vocabulary.decode(np.array([*numbers, PAD, PAD], dtype=int)) == words


def test_what_looks_like_a_special_word_is_unknown(corpus):
    """Oracle: a sentence cannot end itself by a word."""
    assert corpus.target.encode([*SPECIALS, "xyzzy"]) == [UNKNOWN] * 6


def test_words_are_known_from_the_training_text_alone():
    """Oracle: counts by hand."""
    corpus = small([(["ein", "hund", "hund"], ["dog", "dog"])], [(["katze", "hund"], ["cat"])], min_frequency=2)
    assert corpus.source.words[5:] == ("hund",)
    assert corpus.batch("val", 1).source.tolist() == [[UNKNOWN, 5, END]]
    with pytest.raises(CorpusError, match=r"small: no word of train\.de occurs 3 times\. Lower min_frequency"):
        small([(["ein", "hund", "hund"], ["dog", "dog"])], min_frequency=3)


def test_case_is_kept_where_asked():
    """Oracle: the words as written."""
    pairs = [(["Ein", "ein"], ["A", "a"])]
    assert small(pairs, lower=False).source.words[5:] == ("Ein", "ein")
    assert small(pairs).source.words[5:] == ("ein",)
    assert small(pairs).tokens("Ein Hund.") == ["ein", "hund", "."]
    assert small(pairs, lower=False).tokens("Ein Hund.") == ["Ein", "Hund", "."]


def test_a_limit_keeps_the_first_training_pairs(corpus):
    """Oracle: the same pairs of the whole corpus; validation and test stay."""
    part = ln.load_corpus("captions", limit=100)
    assert part.pairs("train") == corpus.pairs("train")[:100]
    assert part.pairs("val") == corpus.pairs("val")
    assert part.checksum == corpus.checksum
    assert len(part.target) < len(corpus.target)


def test_sentences_to_translate_are_numbered_like_those_of_the_corpus(corpus):
    """Oracle: the same sentences as a batch."""
    german = [pair[0] for pair in corpus.pairs("val")[:7]]
    np.testing.assert_array_equal(corpus.encode_sources(german), corpus.batch("val", 7).source)
    assert corpus.encode_sources([""]).tolist() == [[END]]


def test_pairs_asked_for_come_in_the_order_asked_for(corpus):
    """Oracle: batches of one pair."""
    batch = corpus.batch("test", [5, 2, 5])
    for row, pair in enumerate((5, 2, 5)):
        assert rows(batch.source)[row] == rows(corpus.batch("test", [pair]).source)[0]


def test_captions_come_together_again(corpus):
    """Oracle: the sentences as written, in lower case: every one."""
    sentences = [sentence for split in SPLITS for pair in corpus.pairs(split) for sentence in pair]
    wrong = [s for s in sentences if corpus.text(corpus.tokens(s)) != s.lower()]
    assert len(wrong) <= 0.01 * len(sentences), wrong[:5]


@pytest.mark.parametrize(("language", "share"), [("de", 0.99), ("en", 0.995)])
def test_multi30k_comes_together_again(multi30k, language, share):
    """Oracle: the sentences as written, in lower case; double blanks and blanks before commas are not kept."""
    sentences = [pair[LANGUAGES.index(language)] for split in SPLITS for pair in multi30k.pairs(split)]
    right = sum(multi30k.text(multi30k.tokens(s)) == s.lower() for s in sentences)
    assert right / len(sentences) > share


def test_multi30k_has_its_known_sizes(multi30k):
    """Oracle: Elliott et al. 2016, and the published test set of that year."""
    assert [len(multi30k.pairs(split)) for split in SPLITS] == [29_000, 1014, 1000]
    assert multi30k.pairs("train")[0][1] == "Two young, White males are outside near many bushes."


def test_multi30k_may_lie_unpacked(multi30k, tmp_path):
    """Oracle: gzip, and the checksum of the packed files."""
    for path in Path(os.environ["LNTUTOR_MULTI30K"]).glob("*.gz"):
        (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    plain = ln.load_corpus("multi30k", folder=tmp_path, limit=100)
    assert plain.checksum == multi30k.checksum


def test_pieces_of_words_are_read_as_they_are_and_joined_for_scores(tmp_path):
    """Oracle: files as fairseq's script leaves them."""
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.de").write_text("und das ist kein w@@ itz .\n" * 3)
        (tmp_path / f"{split}.en").write_text("and it &apos;s no jo@@ ke .\n" * 3)
    corpus = ln.load_corpus("iwslt14", folder=tmp_path)
    assert corpus.pieces
    assert corpus.name == "iwslt14"
    assert "w@@" in corpus.source.words
    assert corpus.tokens(corpus.pairs("test")[0][1], "en") == ["and", "it", "&apos;s", "no", "jo@@", "ke", "."]
    assert corpus.text(corpus.target.decode(corpus.batch("test", 1).labels[0])) == "and it's no joke."


def test_any_folder_is_a_corpus_of_its_own_name(corpus, tmp_path, monkeypatch):
    """Oracle: a copy of the captions under another name, by three paths, then damaged, then without its sums."""
    folder = shutil.copytree(CAPTIONS, tmp_path / "mine")
    mine = ln.load_corpus(folder)
    assert (mine.name, mine.checksum) == ("mine", corpus.checksum)
    monkeypatch.chdir(tmp_path)
    assert ln.load_corpus("mine") is ln.load_corpus(str(folder)) is mine
    monkeypatch.chdir(folder)
    assert ln.load_corpus(".").name == "mine"
    with (folder / "val.en").open("a") as file:
        file.write("one more\n")
    with pytest.raises(CorpusError, match=r"val\.de has 1000 lines and val\.en has 1001"):
        ln.load_corpus(folder)
    with (folder / "val.de").open("a") as file:
        file.write("noch einer\n")
    with pytest.raises(CorpusError, match=r"val\.de is not the file that belongs here .* or correct SHA256SUMS"):
        ln.load_corpus(folder)
    (folder / "SHA256SUMS").unlink()
    assert ln.load_corpus(folder).pairs("val")[-1] == ("noch einer", "one more")


@pytest.mark.parametrize("damage", ["changed", "missing", "blank", "no sums"])
def test_damaged_captions_are_refused_with_the_fix(tmp_path, monkeypatch, damage):
    """Oracle: the damage; git has the file."""
    folder = shutil.copytree(CAPTIONS, tmp_path / "captions")
    monkeypatch.setattr("lntutor.text.download.CAPTIONS", folder)
    file = folder / "test.de"
    text = file.read_text(encoding="utf-8")
    if damage == "changed":
        file.write_text(text.replace("Hund", "Hand"), encoding="utf-8")
    elif damage == "blank":
        file.write_text("\n" + text.partition("\n")[2], encoding="utf-8")
    else:
        (file if damage == "missing" else folder / "SHA256SUMS").unlink()
    with pytest.raises(CorpusError, match=r"To fix: git checkout -- data/captions$"):
        ln.load_corpus("captions")


def test_a_corpus_is_read_once_and_again_when_a_file_changes(tmp_path):
    """Oracle: identity; then the time of a file, which is what a change leaves."""
    folder = shutil.copytree(CAPTIONS, tmp_path / "captions")
    first = ln.load_corpus("captions", folder=folder)
    assert ln.load_corpus("captions", folder=folder) is first
    assert ln.load_corpus("captions", folder=folder, min_frequency=3) is not first
    os.utime(folder / "train.de", (1, 1))
    assert ln.load_corpus("captions", folder=folder) is not first


def test_a_corpus_travels_to_another_process(corpus):
    """Oracle: pickle, by which sweeps send their work."""
    copy = pickle.loads(pickle.dumps(corpus))
    np.testing.assert_array_equal(copy.batch("val", 9).source, corpus.batch("val", 9).source)
    assert copy.text(["a", "dog", "."]) == "a dog."


def test_nobody_changes_a_corpus_by_accident(corpus):
    """Oracle: the second of two batches; attributes and numbers that refuse."""
    corpus.batch("val", 2).source[:] = 0
    assert corpus.batch("val", 2).source.any()
    with pytest.raises(AttributeError):
        corpus.name = "other"
    with pytest.raises(ValueError, match="read-only"):
        corpus._sentences["val", "de"].numbers[0] = 0


def test_torchtext_is_loaded_without_a_warning():
    """Oracle: a fresh process, where every warning is an error."""
    code = "import sys, lntutor as ln; ln.load_corpus('captions', limit=50); print('torchtext' in sys.modules)"
    assert run_python(code, options=("-W", "error")) == "True\n"
