"""Attention by itself: the weights for one sentence, the softmax as d grows, and the shapes along a Transformer."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

import numpy as np
import pandas as pd

from lntutor.measure.recorder import Recorder
from lntutor.model.checks import as_tuple, check_flag, check_int, check_type, seed_list
from lntutor.model.parameters import positions
from lntutor.model.random_streams import random_stream

MOST_WORDS, MOST_LETTERS = 24, 1000


def words_of(sentence: str) -> list[str]:
    """The words of a sentence, or a ValueError if they are too many."""
    words = check_type("sentence", sentence, str).split()
    if not 1 <= len(words) <= MOST_WORDS:
        raise ValueError(f"the sentence must have 1 to {MOST_WORDS} words, got {len(words)}")
    if len(sentence) > MOST_LETTERS:
        raise ValueError(f"the sentence must have at most {MOST_LETTERS} letters, got {len(sentence)}")
    return words


def softmax(scores: np.ndarray) -> np.ndarray:
    """Softmax over the last axis."""
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def entropy(p: np.ndarray) -> np.ndarray:
    """−Σ p ln p over the last axis, in nats."""
    return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1)


def sentence_attention(
    sentence: str, *, width: int = 64, heads: int = 4, scaled: bool = True, causal: bool = False, seed: int = 0
) -> tuple[list[str], np.ndarray]:
    """The words, and attention weights (heads, n, n) of random W_Q, W_K with entries N(0, 1/d).

    A word has the same random vector in every sentence; its position is added. Scores are q·k/√d_head, or q·k if not
    `scaled`.
    """
    words, d, H = words_of(sentence), check_int("width", width, 2, 4096), check_int("heads", heads, 1, 256)
    seed = check_int("seed", seed, 0, 2**31 - 1)
    if d % H:
        raise ValueError(f"heads must divide width, got heads={H} and width={d}")
    x = np.stack([random_stream(seed, "word", word.lower()).standard_normal(d) for word in words])
    x = (x + positions(len(words), d)) / sqrt(1.5)  # positions have mean square ½
    q, k = (
        (x @ random_stream(seed, "sentence", name).standard_normal((d, d)) / sqrt(d)).reshape(-1, H, d // H)
        for name in ("W_Q", "W_K")
    )
    scores = np.einsum("ihd,jhd->hij", q, k) / (sqrt(d // H) if check_flag("scaled", scaled) else 1)
    if check_flag("causal", causal):
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    return words, softmax(scores)


def softmax_saturation(widths: Iterable[int], *, keys: int = 8, seeds=range(20)) -> pd.DataFrame:
    """Entropy of p = softmax(s) over random keys, with s = q·k or q·k/√d, and the size of its derivatives.

    q and k are N(0, I_d), so that q·k has variance d. Columns: d, scaled, seed, entropy, gradient, query_gradient;
    the last two are ‖∂p/∂s‖_F = ‖diag p − pᵀp‖_F and ‖∂p/∂q‖_F.
    """
    keys, rows = check_int("keys", keys, 2, 1024), []
    for d in (check_int("width", width, 1, 4096) for width in as_tuple("widths", widths, "(8, 64)")):
        for seed in seed_list(seeds):
            random = random_stream(seed, "saturation", d)
            k, q = random.standard_normal((keys, d)), random.standard_normal(d)
            for scaled in (True, False):
                scale = 1 / sqrt(d) if scaled else 1.0
                p = softmax(k @ q * scale)
                J = np.diag(p) - np.outer(p, p)
                by_query = np.linalg.norm(J @ k) * scale
                rows.append((d, scaled, seed, float(entropy(p)), float(np.linalg.norm(J)), float(by_query)))
    return pd.DataFrame(rows, columns=["d", "scaled", "seed", "entropy", "gradient", "query_gradient"])


def journey(watch: Recorder) -> pd.DataFrame:
    """The shapes of one sentence pair in the first layer of each side, recorded in a pass with softmax attention.

    Columns: where, what, letters, shape. n: source tokens, m: target tokens, d: width, H: heads, f: FFN's hidden units.
    """
    rows = []
    for side, own in (("encoder", "n"), ("decoder", "m")):
        rows.append((side, "embedded words + positions", f"({own}, d)", watch.signals[side, 0, "in"]))
        for _, layer, block in [name for name in watch.maps if name[:2] == (side, 1)]:
            rows += _attention_steps(watch, (side, layer, block), own, "n" if block == "cross" else own)
        hidden, out = (watch.products[side, 1, "ffn", name][1] for name in ("W_1", "W_2"))
        rows.append((f"{side}, FFN", "hidden: ReLU(x W_1)", f"({own}, f)", hidden))
        rows.append((f"{side}, FFN", "out: hidden W_2", f"({own}, d)", out))
        last = next(x for (where, _, site), x in watch.signals.items() if (where, site) == (side, "final"))
        rows.append((side, "output, after the last layer", f"({own}, d)", last))
    rows = [(where, what, letters, tuple(x.shape)) for where, what, letters, x in rows]
    return pd.DataFrame(rows, columns=["where", "what", "letters", "shape"])


def _attention_steps(watch: Recorder, name: tuple, own: str, read: str) -> list[tuple]:
    """The steps of one attention; queries are `own` tokens, keys and values are `read` tokens."""
    q, k, _, weights, heads = (t[0] for t in watch.maps[name])
    where = f"{name[0]}, {name[2]}-attention"
    return [
        (where, "queries x W_Q, cut into heads", f"(H, {own}, d/H)", q),
        (where, "keys x W_K (values the same)", f"(H, {read}, d/H)", k),
        (where, "weights softmax(q kᵀ/√(d/H))", f"(H, {own}, {read})", weights),
        (where, "weights × values", f"(H, {own}, d/H)", heads),
        (where, "out: heads side by side, W_O", f"({own}, d)", watch.products[*name, "W_O"][1]),
    ]
