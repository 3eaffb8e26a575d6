"""Mean-field predictions: the placement's own rule runs on streams (streams.py) in place of tensors.

So every placement, yours included, has a predicted curve. Uniform attention needs no forward pass; softmax attention
takes its weights from one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd

from lntutor.model.checks import check_choice, check_type, depth_list, seed_list
from lntutor.model.config import Batch, Inputs, ModelConfig
from lntutor.model.parameters import Matrix, blocks_with, embedding_gain, matrices, parameters, positions, scale
from lntutor.model.placements import At, blocks, reads_depth
from lntutor.model.random_streams import random_stream
from lntutor.model.rule import Reading
from lntutor.theory.streams import Array, Mixture, Stream, backward, diagonal, outer, root

MATRICES = 17  # of tokens × tokens, kept per sub-layer, forward and back
LIMIT = 8 * 2**30  # bytes
QUANTITIES = ("signal", "backward", "gradient", "similarity", "last_layer")


# The rule on streams -------------------------------------------------------------------------------------------


class MeanField(Reading):
    """The placement's rule on streams. `maps` are measured attention weights, needed for softmax attention.

    Leading axes are (seeds, sentences). Sentences with the same statistics are computed once.
    """

    def __init__(self, cfg: ModelConfig, inputs: Inputs, maps: dict[tuple, Array] | None = None):
        check_memory(cfg, inputs)
        super().__init__(cfg)
        self.inputs, self.maps = inputs, maps or {}
        self.tape: list[Stream] = []
        self.sites: dict[tuple, Stream] = {}
        self.products: dict[tuple, tuple[Stream, Stream, int]] = {}

    def site(self, side, layer, site, x):
        self.sites[side, layer, site] = x

    def close(self) -> None:
        """Free the streams, which would otherwise live on, as streams and tape refer to each other."""
        self.tape.clear()

    def run(self, after: Callable[[str, int, Any, int], None] = lambda side, layer, state, below: None) -> Stream:
        """From the inputs to the output; calls `after(side, layer, state, length of the tape before the layer)`."""
        memory = None
        for side in self.cfg.sides:
            state = self.start(side, Stream(self.tape, Mixture.fresh(input_covariance(self.cfg, self.inputs, side))))
            for layer in range(1, self.cfg.depth + 1):
                below = len(self.tape)
                state = self.layer(side, layer, state, None, memory)
                after(side, layer, state, below)
            memory = self.finish(side, state)
        assert memory is not None  # there is at least one side
        return memory

    def norm(self, x: Stream, name: tuple, at: At) -> Stream:
        """LN, RMSNorm or the placement's own."""
        custom = self.cfg.placement.norm
        return custom(x, at) if custom else x.normalised(self.cfg.norm)

    def variance(self, x: Stream) -> Array:
        """Mean over tokens and sentences of E‖x‖²/d, (seeds, 1, 1)."""
        return diagonal(x.cov).mean((-2, -1))[..., None, None]

    def linear(self, x: Stream, at: At, block: str, parameter: str) -> Stream:
        """x W, kept for the gradient of W."""
        shape = parameters(self.cfg, block)[parameter]
        matrix = Matrix(at.side, at.layer, block, parameter, shape)
        if matrix.name in self.products:  # a fresh matrix per call is what the streams assume
            raise ValueError(f"The theory reads each sub-layer once per layer; this rule calls {block} again")
        y = x.linear(shape[0], scale(self.cfg, matrix) ** 2)
        self.products[matrix.name] = (x, y, shape[0])
        return y

    def ffn(self, x: Stream, at: At, N: Callable) -> Stream:
        """ReLU(x W_1) W_2."""
        hidden = self.linear(x, at, "ffn", "W_1").relu()
        return self.linear(self.tap("hidden", hidden, at, N), at, "ffn", "W_2")

    def attention(self, x: Stream, sequence, memory, block: str, at: At, N: Callable) -> Stream:
        """The values mixed by attention weights: equal ones, or those that were measured."""
        keys = x if block == "self" else memory
        q = k = None
        if self.cfg.attention == "softmax":
            q = self.tap("q", self.linear(x, at, block, "W_Q"), at, N)
            k = self.tap("k", self.linear(keys, at, block, "W_K"), at, N)
            weights = self.maps[at.side, at.layer, block]
        else:
            weights = equal_shares(self.cfg, self.inputs, at.side, block)
        v = self.tap("v", self.linear(keys, at, block, "W_V"), at, N)
        heads = self.tap("heads", v.mixed(weights, q, k), at, N)
        return self.linear(heads, at, block, "W_O") if self.cfg.output_projection else heads

    def gradients(self, out: Stream, stop: int = 0) -> dict[Stream, Mixture]:
        """Gradients of every stream, for the loss of `inputs`."""
        return backward(out, loss_gram(self.cfg, self.inputs, out.cov), stop)

    def weight_gradient(self, name: tuple, grads: dict[Stream, Mixture]) -> float:
        """√E‖∂L/∂W‖²_F with ‖∂L/∂W‖² = fan_in · Σ_ij C_ij G_ij, over the tokens of all sentences."""
        found = self.products.get(name)
        if found is None or found[1] not in grads:
            return 0.0
        x, y, fan_in = found
        squares = fan_in * (x.cov * grads[y].cov).sum((-2, -1))  # (seeds, sentences)
        return sqrt(max(float(squares.sum(-1).mean()), 0.0) * copies(self.inputs, squares))


def check_memory(cfg: ModelConfig, inputs: Inputs) -> None:
    """A ValueError, before anything is computed, if the tokens × tokens matrices need more than LIMIT bytes."""
    sentences, n = 1, inputs.tokens
    if isinstance(inputs.kind, Batch):
        sentences, n = inputs.kind.labels.shape[0], max(inputs.kind.source.shape[1], inputs.kind.labels.shape[1])
    need = 8 * MATRICES * sentences * n**2 * cfg.depth * sum(len(blocks(cfg.stack, side)) for side in cfg.sides)
    if need > LIMIT:
        message = f"The theory of depth={cfg.depth} with {sentences} × {n} tokens needs {need / 2**30:.0f} GiB"
        raise ValueError(f"{message}, the limit is {LIMIT / 2**30:.0f} GiB; take fewer layers or tokens")


def copies(inputs: Inputs, over_sentences: Array) -> int:
    """How many sentences each entry of the last axis stands for."""
    sentences = len(inputs.kind.source) if isinstance(inputs.kind, Batch) else inputs.batch
    return sentences // over_sentences.shape[-1]


def ids_of(cfg: ModelConfig, batch: Batch, side: str) -> Array:
    """(1, B, n) word numbers of a corpus batch."""
    ids = batch.target if side == "decoder" and len(cfg.sides) == 2 else batch.source
    return ids[None]  # pyright: ignore[reportOptionalSubscript] - an encoder-decoder's batch has a target


def real_tokens(cfg: ModelConfig, inputs: Inputs, side: str) -> Array:
    """(1, B or 1, n): 1 for words, 0 for padding."""
    if not isinstance(inputs.kind, Batch):
        return np.ones((1, 1, inputs.tokens))
    return (ids_of(cfg, inputs.kind, side) != inputs.kind.pad).astype(float)


def equal_words(ids: Array) -> Array:
    """(…, n) word numbers → (…, n, n): 1 where two tokens are the same word, else 0."""
    return (ids[..., :, None] == ids[..., None, :]).astype(float)


def input_covariance(cfg: ModelConfig, inputs: Inputs, side: str) -> Array:
    """(1, B or 1, n, n): tokens are independent, except equal words; positions add their own covariance."""
    gain = embedding_gain(cfg, side)
    if isinstance(inputs.kind, Batch):
        same = equal_words(ids_of(cfg, inputs.kind, side))
    else:
        same = np.eye(inputs.tokens)[None, None]
    if inputs.kind == "gaussian":
        return gain**2 * same
    where = positions(same.shape[-1], cfg.width)
    return gain**2 * same + where @ where.T / cfg.width


def equal_shares(cfg: ModelConfig, inputs: Inputs, side: str, block: str) -> Array:
    """(1, B or 1, 1, n, m): uniform attention over the visible keys."""
    n = real_tokens(cfg, inputs, side).shape[-1]
    keys = real_tokens(cfg, inputs, side if block == "self" else "encoder")[..., None, None, :]
    visible = np.broadcast_to(keys, (*keys.shape[:-2], n, keys.shape[-1]))
    if block == "self" and side == "decoder":
        visible = np.tril(visible)
    return visible / visible.sum(-1, keepdims=True)


def loss_gram(cfg: ModelConfig, inputs: Inputs, C: Array) -> Array:
    """G at the output, for the mean over positions of the loss.

    Probe: orthogonal unit vectors. Cross-entropy: ∂ = (p − e_y)W with W of variance s², so
    G_ij = s²d E[(p_i − e_i)·(p_j − e_j)]; E p_i·p_j = exp(s²d C_ij)/V while the softmax is far from saturation,
    and is sampled otherwise.
    """
    side, n = cfg.sides[-1], C.shape[-1]
    if isinstance(inputs.kind, Batch):
        words, labels = inputs.kind.vocab[len(cfg.sides) - 1], inputs.kind.labels[None]
        same, real = equal_words(labels), (labels != inputs.kind.pad).astype(float)
    else:
        words, same, real = inputs.vocab, np.eye(n)[None, None], real_tokens(cfg, inputs, side)
    count = real.sum() * copies(inputs, real[..., 0])
    if inputs.loss == "probe":
        return np.broadcast_to(np.eye(n), C.shape) * outer(real) / count**2
    gain = embedding_gain(cfg, side) if inputs.kind != "gaussian" else 1.0
    variance = (gain * inputs.head) ** 2  # s²d
    logits = variance * C
    overlap = np.exp(logits) / words if logits.max() < 3 else sampled_overlap(logits, words)
    return variance * (same - 2 / words + overlap) * outer(real) / count**2


def sampled_overlap(logits: Array, words: int, draws: int = 16) -> Array:
    """E p_i·p_j for softmax over `words` Gaussian logits with this covariance between tokens."""
    random = random_stream("overlap")
    half, total = root(logits), np.zeros_like(logits)
    for _ in range(draws):
        z = half @ random.standard_normal((logits.shape[-1], words))
        p = np.exp(z - z.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        total = total + p @ p.mT
    return total / draws


# Predictions, as the tables of a measurement --------------------------------------------------------------------


def predict(
    cfg: ModelConfig, quantity: str, *, inputs: Inputs = Inputs(), depths: Iterable[int] | None = None,
    parameter: str = "W_2", seeds=range(3),
) -> pd.DataFrame:  # fmt: skip
    """The theory's table for a measurement: the same columns, with the seed missing.

    quantity: "signal" (`signal_norms`), "backward" (`backward_norms`), "gradient" (`gradient_norms`: √E‖·‖²),
    "similarity" (`token_similarity`), "last_layer" (`last_layer_gradients`, needs `depths`). Softmax attention takes
    the weights measured for these seeds. The gradients of W_Q and W_K depend on the differences between tokens: where
    tokens are nearly equal, as in deep Post-LN, these predictions are the least exact.
    """
    check_type("cfg", cfg, ModelConfig)
    check_type("inputs", inputs, Inputs)
    check_choice("quantity", quantity, QUANTITIES)
    with np.errstate(over="ignore", invalid="ignore"):  # a deep stream without LN overflows
        if quantity == "last_layer":
            return _last_layer(cfg, inputs, depths, parameter, seeds)
        with closing(MeanField(cfg, inputs, _maps(cfg, inputs, seeds))) as field:
            return _predicted(field, quantity)


def _predicted(field: MeanField, quantity: str) -> pd.DataFrame:
    """The table of one quantity, from one pass."""
    cfg, inputs, out = field.cfg, field.inputs, field.run()
    if quantity == "gradient":
        grads = field.gradients(out)
        return _gradient_table(cfg, [(*m.name, field.weight_gradient(m.name, grads)) for m in matrices(cfg)])
    gram = field.gradients(out) if quantity == "backward" else {}
    rows = []
    for (side, layer, site), x in field.sites.items():
        real = real_tokens(cfg, inputs, side)
        if quantity == "similarity":
            value = _mean_cosine(x.cov, real)
        else:
            matrix = x.cov if quantity == "signal" else gram[x].cov if x in gram else np.zeros_like(x.cov)
            values = diagonal(matrix)
            value = float((values * real).sum() / np.broadcast_to(real, values.shape).sum())
        rows.append((side, layer, site, value))
    return _table(cfg, ("side", "layer", "site"), rows)


def _mean_cosine(C: Array, real: Array) -> float:
    if C.shape[-1] < 2:
        raise ValueError("token similarity needs two tokens, got tokens=1; give inputs=Inputs(tokens=2) or more")
    size = np.sqrt(diagonal(C))
    pair = np.broadcast_to(outer(real) * (1 - np.eye(C.shape[-1])), C.shape)
    return float((C / outer(size) * pair).sum() / pair.sum())


def _maps(cfg: ModelConfig, inputs: Inputs, seeds) -> dict[tuple, Array] | None:
    seed_list(seeds)
    if cfg.attention == "uniform":
        return None
    from lntutor.measure.signals import attention_weights

    return attention_weights(cfg, seeds=seeds, inputs=inputs)


def _last_layer(cfg: ModelConfig, inputs: Inputs, depths, parameter: str, seeds) -> pd.DataFrame:
    """One pass for all depths if their models share layers (one side, a rule without the depth), else one per depth."""
    if depths is None:
        raise ValueError("predict(cfg, 'last_layer') needs depths, such as depths=range(1, 25)")
    depths, last, rows = depth_list(depths), cfg.sides[-1], []
    names = blocks_with(cfg, parameter)
    shared = len(cfg.sides) == 1 and not reads_depth(cfg.placement, cfg.stack, depths[-1])
    for group in [depths] if shared else [[depth] for depth in depths]:
        deepest = cfg.with_(depth=group[-1])
        with closing(MeanField(deepest, inputs, _maps(deepest, inputs, seeds))) as field:

            def note(side, layer, state, below, field=field, group=group):
                if side == last and layer in group:
                    grads = field.gradients(field.finish(side, state), stop=below)
                    for name in ((side, layer, block, parameter) for block in names):
                        rows.append((*name, field.weight_gradient(name, grads)))

            field.run(note)
    result = _gradient_table(cfg, rows)
    return result.assign(depth=result["layer"])


def _gradient_table(cfg: ModelConfig, rows: list[tuple]) -> pd.DataFrame:
    return _table(cfg, ("side", "layer", "block", "parameter"), rows).assign(below_floor=False)


def _table(cfg: ModelConfig, columns: tuple[str, ...], rows: list[tuple]) -> pd.DataFrame:
    result = pd.DataFrame(rows, columns=[*columns, "value"])
    result.insert(len(columns), "seed", pd.Series([pd.NA] * len(rows), dtype="Int64"))
    for i, (name, value) in enumerate((("placement", cfg.placement.key), ("depth", cfg.depth), ("width", cfg.width))):
        result.insert(i, name, value)
    return result
