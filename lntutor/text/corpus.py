"""Parallel text for training: vocabularies built by torchtext, and batches of word numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import count, takewhile
from numbers import Integral
from pathlib import Path

import numpy as np

from lntutor.model.checks import as_tuple, check_choice, check_flag, check_int, check_type, short_repr
from lntutor.model.config import TASKS, Batch
from lntutor.model.random_streams import random_stream
from lntutor.text import download
from lntutor.text.sentence_pairs import LANGUAGES, SENTENCE_LIMIT, SPLITS, CorpusError, ParallelText, read_parallel
from lntutor.text.tokens import join_pieces, join_words, split_words

__all__ = ["SPLITS", "Corpus", "CorpusError", "Vocabulary", "load_corpus"]

SPECIALS = ("<unk>", "<pad>", "<s>", "</s>", "<mask>")
UNKNOWN, PAD, START, END, MASK = range(5)
MASKED = 0.15  # share of words that a model of masked words predicts (Devlin et al. 2019, section 3.1)


@dataclass(frozen=True)
class Vocabulary:
    """Words and their numbers."""

    words: tuple[str, ...]  # words[i] has number i

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words) if number >= len(SPECIALS)}

    def encode(self, words: Sequence[str]) -> list[int]:
        """The number of each word, UNKNOWN where it has none."""
        numbers = self._numbers
        return [numbers.get(word, UNKNOWN) for word in words]

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """The words of these numbers up to END, without PAD and START."""
        before = takewhile(lambda number: number != END, numbers)
        return [self.words[number] for number in before if number not in (PAD, START)]


@dataclass(frozen=True)
class Sentences:
    """Word numbers of many sentences in one array; each sentence ends with END."""

    numbers: np.ndarray  # (words of all sentences,)
    starts: np.ndarray  # (sentences,)
    lengths: np.ndarray  # (sentences,), END included

    @classmethod
    def of(cls, sentences: Iterable[Sequence[int]]) -> Sentences:
        """From lists of word numbers; END is added."""
        sentences = [[*numbers, END] for numbers in sentences]
        lengths = np.array([len(numbers) for numbers in sentences])
        flat = np.fromiter((number for numbers in sentences for number in numbers), np.int32, lengths.sum())
        return cls(flat, lengths.cumsum() - lengths, lengths)

    def __post_init__(self):
        for array in (self.numbers, self.starts, self.lengths):
            array.setflags(write=False)

    def rows(self, which: np.ndarray, numbers: np.ndarray | None = None) -> np.ndarray:
        """(B, n): these sentences, padded; from an array like `self.numbers`, if another one is given."""
        lengths = self.lengths[which]
        column = np.arange(lengths.max())
        inside = column < lengths[:, None]  # (B, n)
        at = np.where(inside, self.starts[which][:, None] + column, 0)
        return np.where(inside, (self.numbers if numbers is None else numbers)[at], PAD).astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Pairs of German and English sentences, their vocabularies, and batches of them."""

    name: str
    checksum: str  # one SHA-256 over the names and texts of all files read
    checksums: dict[str, str]  # file name → SHA-256 of the file, as sha256sum prints it
    source: Vocabulary  # German
    target: Vocabulary  # English
    lower: bool
    pieces: bool  # the files hold pieces of words, joined by "@@ "
    _pairs: dict[str, tuple[tuple[str, str], ...]]
    _sentences: dict[tuple[str, str], Sentences]  # by split and language

    def __repr__(self):
        sizes = ", ".join(f"{split} {len(self._pairs[split])}" for split in SPLITS)
        words = f"{len(self.source)} German and {len(self.target)} English words"
        return f"Corpus({self.name}: {sizes} pairs; {words}; SHA-256 {self.checksum[:12]}…)"

    def fingerprint(self) -> tuple:
        """Everything that identifies this text, for the names of stored results."""
        return self.name, self.checksum, self.lower, len(self.source), len(self.target), len(self.pairs("train"))

    def pairs(self, split: str) -> tuple[tuple[str, str], ...]:
        """(German, English) as written in the files."""
        return self._pairs[check_choice("split", split, SPLITS)]

    def tokens(self, sentence: str, language: str = "de") -> list[str]:
        """The words of a sentence, as in the vocabularies."""
        check_choice("language", language, LANGUAGES)
        return _tokens(check_type("sentence", sentence, str), self.lower, self.pieces)

    def text(self, words: Sequence[str]) -> str:
        """These words as one sentence, as sacrebleu scores it: punctuation and pieces joined to their words."""
        words = [check_type("words", word, str) for word in as_tuple("words", words, "['a', 'dog']")]
        return (join_pieces if self.pieces else join_words)(words)

    def batches(
        self, split: str, size: int, *, seed: int | None = None, task: str = "translation", pool: int = 1
    ) -> Iterator[Batch]:
        """Every pair once: sorted by length if seed is None, else in an order drawn from the seed.

        With a seed, `pool` batches are drawn together and sorted by length. A larger pool means less padding, but
        training learns less from batches of one length (`benchmarks/training.py`).
        """
        _check(split, size, seed, task, pool)
        return self._pass(split, size, seed, 0, task, pool)

    def stream(self, split: str, size: int, *, seed: int, task: str = "translation", pool: int = 1) -> Iterator[Batch]:
        """Endless batches: pass after pass, each in a new order; the first pass is that of `batches`."""
        _check(split, size, check_int("seed", seed, 0, 2**31 - 1), task, pool)
        return (batch for number in count() for batch in self._pass(split, size, seed, number, task, pool))

    def batch(self, split: str, pairs: int | Sequence[int], *, task: str = "translation") -> Batch:
        """One batch, in this order: the first `pairs` pairs if it is a number, else the pairs with these indices."""
        _check(split, 1, None, task)
        most = len(self._pairs[split])
        if isinstance(pairs, Integral):
            which = np.arange(check_int("pairs", pairs, 1, most))
        else:
            pairs = as_tuple("pairs", pairs, "[0, 1, 2]")
            which = np.array([check_int("pair", pair, 0, most - 1) for pair in pairs], dtype=int)
            if not which.size:
                raise ValueError("pairs must name at least one pair, got none")
        return self._batch(split, which, self._masks(split, None, 0) if task == "masked_words" else None)

    def padding(self, split: str = "train", size: int = 64, *, seed: int | None = 0, pool: int = 1) -> float:
        """Share of positions that are padding in one pass of `batches`."""
        _check(split, size, seed, "translation", pool)
        german, english = (self._sentences[split, language].lengths for language in LANGUAGES)
        order = self._order(split, size, seed, 0, "translation", pool)
        positions = sum(len(which) * int(german[which].max() + english[which].max()) for which in order)
        return 1 - int(german.sum() + english.sum()) / positions

    def encode_sources(self, sentences: Sequence[str]) -> np.ndarray:
        """(B, n) padded German word numbers with END, ready to be translated."""
        listed = as_tuple("sentences", sentences, "['ein Hund', 'eine Katze']")
        if isinstance(sentences, str) or not listed:
            raise ValueError(f"sentences must be a list of at least one German sentence, got {short_repr(sentences)}")
        for sentence in listed:
            if len(check_type("sentence", sentence, str)) > SENTENCE_LIMIT:
                raise ValueError(f"a sentence may have {SENTENCE_LIMIT} characters, got one of {len(sentence)}")
        rows = Sentences.of(self.source.encode(self.tokens(sentence)) for sentence in listed)
        return rows.rows(np.arange(len(listed)))

    def _pass(self, split: str, size: int, seed: int | None, number: int, task: str, pool: int) -> Iterator[Batch]:
        masks = self._masks(split, seed, number) if task == "masked_words" else None
        for which in self._order(split, size, seed, number, task, pool):
            yield self._batch(split, which, masks)

    def _order(self, split: str, size: int, seed: int | None, number: int, task: str, pool: int) -> list[np.ndarray]:
        """The pairs of each batch of a pass: pools of drawn pairs are sorted by length, cut into batches, and mixed."""
        german, english = (self._sentences[split, language].lengths for language in LANGUAGES)
        keys = (english,) if task == "masked_words" else (english, german)  # German first, then English
        if seed is None:
            return _cut(np.lexsort(keys), size)
        rng = random_stream("batches", split, seed, number)
        drawn = rng.permutation(len(german))
        pools = (part[np.lexsort([key[part] for key in keys])] for part in _cut(drawn, pool * size))
        batches = [which for part in pools for which in _cut(part, size)]
        return [batches[i] for i in rng.permutation(len(batches))]

    def _batch(self, split: str, which: np.ndarray, masks: tuple[np.ndarray, np.ndarray] | None) -> Batch:
        german, english = (self._sentences[split, language] for language in LANGUAGES)
        if masks is not None:
            source, labels = (english.rows(which, numbers) for numbers in masks)
            return Batch(source, None, labels, PAD, (len(self.target), len(self.target)))
        labels = english.rows(which)
        target = np.full_like(labels, START)
        target[:, 1:] = np.where(labels[:, :-1] == END, PAD, labels[:, :-1])
        return Batch(german.rows(which), target, labels, PAD, (len(self.source), len(self.target)))

    def _masks(self, split: str, seed: int | None, number: int) -> tuple[np.ndarray, np.ndarray]:
        """(input, label) at every English word of the split, for training on masked words.

        15 % of the words of each sentence, at least one, are to be predicted (Devlin et al. 2019, section 3.1): 80 % of
        them become MASK, 10 % a random word, 10 % stay. Unknown words are chosen only if a sentence has no others.
        """
        english, rng = self._sentences[split, "en"], random_stream("masks", split, seed, number)
        words, size = english.numbers, len(english.lengths)
        sentence = np.repeat(np.arange(size), english.lengths)
        known = np.bincount(sentence[words >= len(SPECIALS)], minlength=size)
        candidate = (words >= len(SPECIALS)) | ((words == UNKNOWN) & (known == 0)[sentence])
        candidates = np.bincount(sentence[candidate], minlength=size)
        wanted = np.maximum(1, np.floor(MASKED * candidates + rng.random(size)))  # 15 % on average
        drawn = np.lexsort((rng.random(len(words)), ~candidate, sentence))  # candidates first, in drawn order
        rank = np.empty_like(drawn)
        rank[drawn] = np.arange(len(words)) - english.starts[sentence]
        chosen = rank < wanted[sentence]
        lot = rng.random(len(words))
        other = rng.integers(len(SPECIALS), len(self.target), len(words), dtype=words.dtype)
        read = np.where(chosen & (lot < 0.8), MASK, np.where(chosen & (lot < 0.9), other, words))
        return read, np.where(chosen, words, PAD)


def load_corpus(
    name: str | Path = "captions", *, folder: str | Path | None = None,
    min_frequency: int = 2, lower: bool = True, limit: int | None = None,
) -> Corpus:  # fmt: skip
    """A corpus by name, "captions", "multi30k" or "iwslt14", or any folder of {train,val,test}.{de,en}.

    Words that occur fewer than `min_frequency` times in the training text are unknown; `limit` keeps only its first
    pairs.
    """
    min_frequency, lower = check_int("min_frequency", min_frequency, 1, 1_000_000), check_flag("lower", lower)
    limit = None if limit is None else check_int("limit", limit, 1, 10**9)
    key, path = download.locate(name, folder)
    return _load(key, path, min_frequency, lower, limit, _stamp(path))


def _stamp(path: Path) -> tuple:
    """A key that changes when a file of the corpus changes."""
    try:
        stats = [(file.name, file.stat()) for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    except OSError:  # reading will report it
        return ()
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


@lru_cache(maxsize=4)
def _load(key: str, path: Path, min_frequency: int, lower: bool, limit: int | None, stamp: tuple) -> Corpus:
    """Read, verify and number a corpus; `stamp` is part of the cache's key."""
    try:
        text = read_parallel(path)
    except CorpusError as error:
        if path not in (download.CAPTIONS, download.cache_folder(key)):
            raise
        raise CorpusError(f"{error}. To fix: {download.remedy(key, path)}") from error
    download.verify(key, path, text)
    return build_corpus(key, text, min_frequency, lower, limit)


def build_corpus(name: str, text: ParallelText, min_frequency: int, lower: bool, limit: int | None) -> Corpus:
    """Vocabularies from the training pairs alone, by torchtext's Field, and every sentence as numbers."""
    from torchtext.data import Field  # here: it takes seconds, and imports torch

    pairs = {split: text.pairs[split][: limit if split == "train" else None] for split in SPLITS}
    pieces = _holds_pieces(text.pairs["train"])
    words_of = partial(_tokens, lower=lower, pieces=pieces)
    vocabularies, sentences = [], {}
    for side, language in enumerate(LANGUAGES):
        words = {split: [words_of(pair[side]) for pair in pairs[split]] for split in SPLITS}
        unknown, pad, start, end, mask = SPECIALS
        field = Field(tokenize=words_of, unk_token=unknown, pad_token=pad, init_token=start, eos_token=end)
        field.build_vocab(words["train"], min_freq=min_frequency, specials=[mask])
        vocabulary = Vocabulary(tuple(field.vocab.itos))
        if len(vocabulary) == len(SPECIALS):
            message = f"{name}: no word of train.{language} occurs {min_frequency} times"
            raise CorpusError(f"{message}. Lower min_frequency, or give more text")
        vocabularies.append(vocabulary)
        sentences |= {(split, language): Sentences.of(map(vocabulary.encode, words[split])) for split in SPLITS}
    source, target = vocabularies
    return Corpus(name, text.checksum, dict(text.stored), source, target, lower, pieces, pairs, sentences)


def _holds_pieces(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether subword-nmt has split the words: at least one sentence in a hundred has its "@@ "."""
    return sum("@@ " in german or "@@ " in english for german, english in pairs) * 100 >= len(pairs)


def _tokens(sentence: str, lower: bool, pieces: bool) -> list[str]:
    return (sentence.lower() if lower else sentence).split() if pieces else split_words(sentence, lower)


def _cut(which: np.ndarray, size: int) -> list[np.ndarray]:
    return [which[i : i + size] for i in range(0, len(which), size)]


def _check(split: str, size: int, seed: int | None, task: str, pool: int = 1) -> None:
    check_choice("split", split, SPLITS)
    check_int("size", size, 1, 65536)
    check_choice("task", task, TASKS)
    check_int("pool", pool, 1, 65536)
    if seed is not None:
        check_int("seed", seed, 0, 2**31 - 1)
