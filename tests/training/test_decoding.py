"""Decoding and BLEU, against exhaustive search and sacrebleu's own command."""

import math
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import torch

from lntutor.model.config import ModelConfig
from lntutor.text.corpus import END, MASK, PAD, START, UNKNOWN, load_corpus
from lntutor.text.sentence_pairs import SENTENCE_LIMIT
from lntutor.training import decoding
from lntutor.training.decoding import beam_search, bleu, greedy, longest, translate
from lntutor.training.network import Learner

CFG = ModelConfig("post", depth=1, width=16, heads=2, ffn=16)


def sources(count, words, seed=0):
    rng = np.random.default_rng(seed)
    ids = np.full((count, 6), PAD)
    for row in ids:
        n = rng.integers(2, 7)
        row[:n] = [*rng.integers(5, words, n - 1), END]
    return torch.from_numpy(ids)


def sharp(words, seed):
    """An untrained model whose head is sharp enough for translations to end."""
    learner = Learner(CFG, (words, words), pad=PAD, seed=seed)
    learner.weights["embedding", "decoder"].data.mul_(3)
    return learner


@pytest.mark.parametrize("seed", range(4))
def test_a_beam_of_one_is_greedy(seed):
    """Oracle: greedy search, written without scores."""
    learner, source = sharp(12, seed), sources(9, 12, seed)
    assert beam_search(learner, source, 1) == greedy(learner, source)


def score(learner, source, words):
    """Log-probability per word of one translation, END included: one forward pass, no search."""
    ids = torch.tensor([[START, *words]])
    memory = learner.embed("encoder", source[None, source != PAD])
    out = learner.model()(memory, learner.embed("decoder", ids))
    log_p = learner.log_probabilities(out)
    return float(log_p[range(len(words) + 1), [*words, END]].sum()) / (len(words) + 1)


@torch.no_grad()
@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_finds_the_best_of_all_translations(seed, monkeypatch):
    """Oracle: every sentence of at most two of the four words, scored one by one."""
    monkeypatch.setattr(decoding, "longest", lambda source: torch.full((len(source),), 3))
    learner, source = sharp(9, seed), sources(3, 9, seed)
    found = beam_search(learner, source, 40)
    for row, words in zip(source, found, strict=True):
        every = [list(w) for n in range(3) for w in product(range(5, 9), repeat=n)]
        best = max(every, key=lambda w: score(learner, row, w))
        assert score(learner, row, words) == pytest.approx(score(learner, row, best), abs=1e-5)


def test_translations_never_hold_what_is_no_word_and_always_end():
    """Oracle: the list of special words, and the limit of length."""
    learner, source = Learner(CFG, (12, 12), pad=PAD), sources(16, 12)
    for found in (greedy(learner, source), beam_search(learner, source, 3)):
        for words, row in zip(found, source, strict=True):
            assert not set(words) & {UNKNOWN, PAD, START, END, MASK}
            assert len(words) <= 1.5 * int((row != PAD).sum()) + 5


def test_a_sentence_is_translated_alike_in_any_company():
    """Oracle: the same sentences one at a time; padding and order change nothing."""
    corpus = load_corpus("captions")
    learner = Learner(CFG, (len(corpus.source), len(corpus.target)), pad=PAD, seed=1)
    learner.weights["embedding", "decoder"].data.mul_(3)
    german = [pair[0] for pair in corpus.pairs("val")[:12]]
    together = translate(learner, corpus, german, size=5)
    assert together == [translate(learner, corpus, [sentence])[0] for sentence in german]


@torch.no_grad()
def test_the_longest_translation_of_the_longest_sentence_has_positions():
    """Oracle: Vaswani et al. 2017, section 3.5, written out for one place beyond 4096; then a decoding step there."""
    corpus = load_corpus("captions")
    source = torch.from_numpy(corpus.encode_sources(["." * SENTENCE_LIMIT]))
    place = int(longest(source)[0]) - 1
    assert place > 6000
    learner = Learner(CFG, (len(corpus.source), len(corpus.target)), pad=PAD)
    words = torch.full((1, place + 1), START)
    found = learner.embed("decoder", words).x[place] - learner.weights["embedding", "decoder"][START] * CFG.width**0.5
    angles = [place / 10_000 ** (2 * i / CFG.width) for i in range(CFG.width // 2)]
    expected = [f(angle) for angle in angles for f in (math.sin, math.cos)]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    log_p = decoding._next(learner, decoding._read(learner, source), words)
    assert torch.isfinite(log_p.max())


def test_bleu_is_what_sacrebleus_command_says(tmp_path):
    """Oracle: `python -m sacrebleu -lc -b` on files."""
    references = ["A man is climbing up a tree.", "Two women are reading a letter.", "A dog runs."]
    translations = ["a man is climbing a tree.", "two women read the letter.", "a dog runs."]
    (tmp_path / "ref").write_text("\n".join(references) + "\n", encoding="utf-8")
    (tmp_path / "hyp").write_text("\n".join(translations) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-lc", "-b", "-w", "6"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert bleu(translations, references) == pytest.approx(float(printed), abs=1e-5)
