"""Translating with a trained model: greedy and beam decoding, and BLEU."""

from __future__ import annotations

from collections import abc

import torch
from torch import Tensor

from lntutor.model.checks import check_int
from lntutor.model.transformer import Sequence
from lntutor.text.corpus import END, MASK, PAD, START, UNKNOWN, Corpus
from lntutor.training.network import Learner

NEVER = [UNKNOWN, PAD, START, MASK]  # never part of a translation


def bleu(translations: abc.Sequence[str], references: abc.Sequence[str]) -> float:
    """Corpus BLEU by sacrebleu, 0 to 100, ignoring case."""
    if not references or len(translations) != len(references):
        given = f"{len(translations)} and {len(references)}"
        raise ValueError(f"BLEU needs as many translations as references, at least one, got {given}")
    from sacrebleu import corpus_bleu

    return float(corpus_bleu(list(translations), [list(references)], lowercase=True, force=True).score)


def longest(source: Tensor) -> Tensor:
    """(B, n) word numbers → (B,): the most words of a translation, 1.5 times those of its source plus 5."""
    return (source != PAD).sum(1) * 3 // 2 + 5


@torch.no_grad()
def greedy(learner: Learner, source: Tensor) -> list[list[int]]:
    """Take the most likely next word until END: (B, n) German → English word numbers."""
    memory, target = _read(learner, source), torch.full((len(source), 1), START)
    open_ = torch.arange(len(source))  # the sentences that have not ended
    done: list[list[int]] = [[] for _ in source]
    limit = longest(source)
    while len(open_):
        word = _next(learner, memory, target).argmax(-1)  # (B',)
        for row, number in zip(open_.tolist(), word.tolist(), strict=True):
            done[row].append(number)
        goes_on = (word != END) & (target.shape[1] < limit[open_])
        open_, target = open_[goes_on], torch.cat([target, word[:, None]], 1)[goes_on]
        memory = _rows(memory, goes_on.nonzero().squeeze(1))
    return [words[:-1] if words[-1] == END else words for words in done]


@torch.no_grad()
def beam_search(learner: Learner, source: Tensor, beam: int = 4) -> list[list[int]]:
    """The best of `beam` hypotheses that have ended, by log-probability per word: (B, n) German → English numbers."""
    beam, limit = check_int("beam", beam, 1, 64), longest(source)
    open_ = torch.arange(len(source))  # the sentences with fewer than `beam` hypotheses that have ended
    memory = _rows(_read(learner, source), open_.repeat_interleave(beam))
    target = torch.full((len(source), beam, 1), START)
    score = torch.full((len(source), beam), -torch.inf)
    score[:, 0] = 0  # all hypotheses are equal at first, so only one is used
    ended: list[list[tuple[float, list[int]]]] = [[] for _ in source]
    while len(open_):
        length = target.shape[2]
        log_p = _next(learner, memory, target.flatten(0, 1)).unflatten(0, (-1, beam))  # (B', beam, V)
        value, place = (score[:, :, None] + log_p).flatten(1).topk(2 * beam)  # (B', 2·beam)
        parent, word = place // log_p.shape[2], place % log_p.shape[2]
        for row, k in ((word == END) & value.isfinite())[:, :beam].nonzero().tolist():
            words = target[row, parent[row, k], 1:].tolist()
            ended[open_[row]].append((float(value[row, k]) / length, words))
        score, kept = value.masked_fill(word == END, -torch.inf).topk(beam)
        parent, word = parent.gather(1, kept), word.gather(1, kept)  # (B', beam)
        target = torch.cat([target.gather(1, parent[:, :, None].expand(-1, -1, length)), word[:, :, None]], 2)
        for row in (limit[open_] == length).nonzero().flatten().tolist():  # at the limit, the best one counts as ended
            ended[open_[row]] = (ended[open_[row]] or [(0.0, target[row, 0, 1:].tolist())]) * beam
        goes_on = torch.tensor([len(ended[i]) < beam for i in open_], dtype=torch.bool)
        open_, target, score = open_[goes_on], target[goes_on], score[goes_on]
        memory = _rows(memory, (goes_on.nonzero() * beam + torch.arange(beam)).flatten())
    return [max(hypotheses)[1] for hypotheses in ended]


@torch.no_grad()
def translate(
    learner: Learner, corpus: Corpus, sentences: abc.Sequence[str], *, beam: int = 1, size: int = 64
) -> list[str]:
    """German sentences in English, by greedy search (beam 1) or beam search, `size` sentences at a time."""
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))  # similar lengths: less padding
    found: dict[int, str] = {}
    for start in range(0, len(order), size):
        part = order[start : start + size]
        source = torch.from_numpy(corpus.encode_sources([sentences[i] for i in part]))
        numbers = greedy(learner, source) if beam == 1 else beam_search(learner, source, beam)
        found |= {i: corpus.text(corpus.target.decode(words)) for i, words in zip(part, numbers, strict=True)}
    return [found[i] for i in range(len(sentences))]


def _read(learner: Learner, source: Tensor) -> Sequence:
    """The memory that the decoder reads: (B, n) word numbers → the encoder's output."""
    sequence = learner.embed("encoder", source)
    x = sequence.laid_out(learner.model().run("encoder", sequence)).flatten(0, 1)  # padded: sentences leave
    return Sequence(x, len(source), source != learner.pad)


def _next(learner: Learner, memory: Sequence, target: Tensor) -> Tensor:
    """(B, m) words so far → (B, V) log-probabilities of the next."""
    sequence = learner.embed("decoder", target)
    out = sequence.laid_out(learner.model().run("decoder", sequence, memory))  # (B, m, d)
    log_p = learner.log_probabilities(out[:, -1])
    log_p[:, NEVER] = -torch.inf
    return log_p


def _rows(memory: Sequence, rows: Tensor) -> Sequence:
    """Some sentences of the memory."""
    x = memory.x.unflatten(0, (memory.batch, -1))[rows].flatten(0, 1)
    return Sequence(x, len(rows), None if memory.real is None else memory.real[rows])
