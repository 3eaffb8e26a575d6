"""One attention on its own: a sentence through softmax(QKᵀ/√d), what happens to the softmax as d grows, and the shapes
that a sentence has on its way through the whole machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

import numpy as np
import pandas as pd

from lntutor.config import flag, instance, seed_list, several, whole
from lntutor.measure import Recorder
from lntutor.reading import positions, random_stream

MOST_WORDS, MOST_LETTERS = 24, 1000


def words_of(sentence: str) -> list[str]:
    """The words of a sentence, or a ValueError that says how many there may be."""
    words = instance("sentence", sentence, str).split()
    if not 1 <= len(words) <= MOST_WORDS:
        raise ValueError(f"the sentence must have 1 to {MOST_WORDS} words, got {len(words)}")
    if len(sentence) > MOST_LETTERS:
        raise ValueError(f"the sentence must have at most {MOST_LETTERS} letters, got {len(sentence)}")
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
    seed = whole("seed", seed, 0, 2**31 - 1)
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
    """Entropy of softmax(s) over some keys, s = q·k or q·k/√d, and how much it moves with s and with q.

    q and k are N(0, I_d), so that q·k has variance d. Columns: d, scaled, seed, entropy, gradient, query_gradient;
    the last two are ‖∂p/∂s‖_F = ‖diag p − pᵀp‖_F and ‖∂p/∂q‖_F, which has the keys and the scale as further factors.
    """
    keys, rows = whole("keys", keys, 2, 1024), []
    for d in (whole("width", width, 1, 4096) for width in several("widths", widths, "(8, 64)")):
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
    """What one sentence pair is on its way through the first layer of each side, from a pass with softmax attention.

    Columns: where, what, letters, shape. Letters: n source tokens, m target tokens, d width, H heads, f hidden
    features of the FFN.
    """
    rows = []
    for side, own in (("encoder", "n"), ("decoder", "m")):
        rows.append((side, "embedded words + positions", f"({own}, d)", watch.signals[side, 0, "in"]))
        for _, layer, block in [name for name in watch.maps if name[:2] == (side, 1)]:
            rows += _attention_steps(watch, (side, layer, block), own, "n" if block == "cross" else own)
        hidden, out = (watch.products[side, 1, "ffn", name][1] for name in ("W_1", "W_2"))
        rows.append((f"{side}, FFN", "hidden: ReLU(x W_1)", f"({own}, f)", hidden))
        rows.append((f"{side}, FFN", "out: hidden W_2", f"({own}, d)", out))
        rows.append((side, "output, after the last layer", f"({own}, d)", _last(watch, side)))
    table = pd.DataFrame(rows, columns=["where", "what", "letters", "shape"])
    return table.assign(shape=[tuple(x.shape) for x in table["shape"]])


def _attention_steps(watch: Recorder, name: tuple, own: str, read: str) -> list[tuple]:
    """The steps of one attention of one sentence; queries are `own` tokens, keys and values `read` ones."""
    q, k, _, weights, heads = (t[0] for t in watch.maps[name])
    where = f"{name[0]}, {name[2]}-attention"
    return [
        (where, "queries x W_Q, cut into heads", f"(H, {own}, d/H)", q),
        (where, "keys x W_K (values the same)", f"(H, {read}, d/H)", k),
        (where, "weights softmax(q kᵀ/√(d/H))", f"(H, {own}, {read})", weights),
        (where, "weights × values", f"(H, {own}, d/H)", heads),
        (where, "out: heads side by side, W_O", f"({own}, d)", watch.products[*name, "W_O"][1]),
    ]


def _last(watch: Recorder, side: str):
    return next(x for (where, _, site), x in watch.signals.items() if where == side and site == "final")
