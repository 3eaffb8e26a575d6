"""One attention on its own: a sentence through softmax(QKᵀ/√d), and what happens to the softmax as d grows."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

import numpy as np
import pandas as pd

from lntutor.config import flag, seed_list, whole
from lntutor.reading import positions, random_stream

MOST_WORDS = 24


def words_of(sentence: str) -> list[str]:
    """The words of a sentence, or a ValueError that says how many there may be."""
    words = str(sentence).split()
    if not 1 <= len(words) <= MOST_WORDS:
        raise ValueError(f"the sentence must have 1 to {MOST_WORDS} words, got {len(words)}")
    return words


def softmax(scores: np.ndarray) -> np.ndarray:
    """Over the last axis; −∞ gives 0."""
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def entropy(p: np.ndarray) -> np.ndarray:
    """−Σ p ln p over the last axis, in nats."""
    return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1)


def sentence_attention(
    sentence: str, *, width: int = 64, heads: int = 4, scaled: bool = True, causal: bool = False, seed: int = 0
) -> tuple[list[str], np.ndarray]:
    """The words, and attention weights (heads, n, n) of random W_Q, W_K with entries N(0, 1/d).

    A word has the same random vector wherever it stands, whatever the rest of the sentence is; its position is
    added. Scores are q·k/√d_head, or q·k where `scaled` is False.
    """
    words, d, H = words_of(sentence), whole("width", width, 2, 4096), whole("heads", heads, 1, 256)
    (seed,) = seed_list(seed)
    if d % H:
        raise ValueError(f"heads must divide width, got heads={H} and width={d}")
    x = np.stack([random_stream(seed, "word", word.lower()).standard_normal(d) for word in words])
    x = (x + positions(len(words), d)) / sqrt(1.5)  # positions have mean square ½
    q, k = (
        (x @ random_stream(seed, "sentence", name).standard_normal((d, d)) / sqrt(d)).reshape(-1, H, d // H)
        for name in ("W_Q", "W_K")
    )
    scores = np.einsum("ihd,jhd->hij", q, k) / (sqrt(d // H) if flag("scaled", scaled) else 1)
    if flag("causal", causal):
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    return words, softmax(scores)


def softmax_saturation(widths: Iterable[int], *, keys: int = 8, seeds=range(20)) -> pd.DataFrame:
    """Entropy of softmax(q·k) over some keys, and ‖∂p/∂s‖_F = ‖diag p − pᵀp‖_F, with and without 1/√d.

    q and k are N(0, I_d), so that q·k has variance d. Columns: d, scaled, seed, entropy, gradient.
    """
    keys, rows = whole("keys", keys, 2, 1024), []
    for d in (whole("width", width, 1, 4096) for width in widths):
        for seed in seed_list(seeds):
            random = random_stream(seed, "saturation", d)
            scores = random.standard_normal((keys, d)) @ random.standard_normal(d)
            for scaled in (True, False):
                p = softmax(scores / (sqrt(d) if scaled else 1))
                rows.append((d, scaled, seed, float(entropy(p)), float(np.linalg.norm(np.diag(p) - np.outer(p, p)))))
    return pd.DataFrame(rows, columns=["d", "scaled", "seed", "entropy", "gradient"])
