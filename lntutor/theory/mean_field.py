"""Mean-field theory beside every measurement, and the paper's lemmas and theorem.

The placement's own rule runs on streams (streams.py), so every placement, yours included, has its predicted curve
without a forward pass; softmax attention adds the weights measured in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from math import log, sqrt

import numpy as np
import pandas as pd

from lntutor.config import Batch, Inputs, ModelConfig, choice, depth_list, flag, instance, seed_list
from lntutor.matrices import Matrix, blocks_with, matrices, parameters, scale
from lntutor.placements import At, blocks
from lntutor.reading import Reading, positions
from lntutor.streams import Array, Mixture, Stream, backward, diagonal, outer, root

MATRICES = 17  # tokens × tokens, that a sub-layer keeps, forward and back
LIMIT = 8 * 2**30  # bytes
QUANTITIES = ("signal", "backward", "gradient", "similarity", "last_layer")


# The paper's statements ----------------------------------------------------------------------------------------


def lemma_1(variance: float, width: int) -> float:
    """E‖ReLU(X)‖² = σ²d/2 for X ~ N(0, σ²I_d) (Xiong et al. 2020, Lemma 1)."""
    return variance * width / 2


def lemma_2_post(width: int) -> float:
    """E‖x⁵‖² = 3d/2: Post-LN's sum before the last norm of any layer (Xiong et al. 2020, Lemma 2)."""
    return 1.5 * width


def lemma_2_pre(layer: int, width: int) -> tuple[float, float]:
    """(1 + l/2)d ≤ E‖x_l‖² ≤ (1 + 3l/2)d: Pre-LN's stream after l layers (Xiong et al. 2020, Lemma 2)."""
    return (1 + layer / 2) * width, (1 + 1.5 * layer) * width


def layer_norm_jacobian(x: Array) -> Array:
    """J = (√d/‖y‖)(I − ŷᵀŷ)(I − 11ᵀ/d) with y = x(I − 11ᵀ/d): the derivative of LN without ε (Lemma 3's proof)."""
    d = len(x)
    centre = np.eye(d) - 1 / d
    y = x @ centre
    unit = y / np.linalg.norm(y)
    return sqrt(d) / np.linalg.norm(y) * (np.eye(d) - np.outer(unit, unit)) @ centre


def lemma_3(x: Array) -> float:
    """‖J_LN(x)‖₂ = √d/‖y‖, y = x minus its mean (Xiong et al. 2020, Lemma 3, with its constant)."""
    y = np.asarray(x, float) - np.mean(x)
    return sqrt(len(y)) / float(np.linalg.norm(y))


THEOREM_1 = {"post": lambda L: 1.5, "pre": lambda L: 1 + L / 2}  # Lemma 2: E‖input of the last norm‖²/d, from below


def theorem_bound(cfg: ModelConfig) -> float:
    """The bound on ‖∂L/∂W^{2,L}‖_F at one position, with the constant of its proof (Xiong et al. 2020, Theorem 1).

    Every entry of ReLU(x³W¹) is at most √(2 ln(100d)), the gradient at the output has length at most 1, and
    ‖J_LN(z)‖² = d/‖z‖² with ‖z‖² ≥ α₀E‖z‖², α₀ = 1/10. Bounding each of the d² entries by these gives
    d√(20 ln(100d)/q), where q = E‖z‖²/d: d√(40/3·ln(100d)) for Post-LN, d√(40 ln(100d)/(L + 2)) for Pre-LN.
    """
    if instance("cfg", cfg, ModelConfig).placement.key not in THEOREM_1:
        raise ValueError(
            f"Theorem 1 speaks of {' and '.join(THEOREM_1)}, got placement={cfg.placement.key!r}; "
            "predict(cfg, 'gradient') covers every placement"
        )
    q = THEOREM_1[cfg.placement.key](cfg.depth)
    return cfg.width * sqrt(20 * log(100 * cfg.width) / q)


def theorem_probability(epsilon: float, delta: float) -> float:
    """0.99 − δ − ε/(0.9 + ε): how often the bound holds, for (ε, δ)-bounded norms (Xiong et al. 2020, Theorem 1)."""
    return 0.99 - delta - epsilon / (0.9 + epsilon)


def broken_assumptions(cfg: ModelConfig, inputs: Inputs = Inputs(), *, brief: bool = False) -> tuple[str, ...]:
    """What `cfg` breaks of the theorem's setting (section 3.3), a sentence each, or a few words if `brief`."""
    instance("cfg", cfg, ModelConfig)
    instance("inputs", inputs, Inputs)
    flag("brief", brief)
    variances = all(abs(scale(cfg, m) ** 2 * m.shape[0] - 1) < 1e-9 for m in matrices(cfg) if m.layer == 1)
    softmax, label = cfg.attention != "uniform", cfg.placement.label
    checks = (  # (does it hold, what there is instead, a sentence)
        (cfg.placement.key in THEOREM_1, label, f"Theorem 1 is about Post-LN and Pre-LN, this is {label}."),
        (cfg.stack == "encoder", cfg.stack, f"The theorem's model is an encoder, not this {cfg.stack}."),
        (
            not softmax,
            "softmax attention",
            "Attention is a softmax; the theorem sets W_Q = W_K = 0, which makes it a mean.",
        ),
        (cfg.heads == 1 or not softmax, f"{cfg.heads} heads", f"There are {cfg.heads} heads; the theorem has one."),
        (not cfg.output_projection, "W_O", "Attention ends in W_O; the theorem has none."),
        (
            cfg.ffn == cfg.width,
            f"FFN of {cfg.ffn}",
            f"The FFN has {cfg.ffn} hidden units; the theorem's has as many as the width, {cfg.width}.",
        ),
        (
            variances,
            f"{cfg.init} init",
            f"The weights have other variances than the theorem's 1/fan_in (init={cfg.init!r}).",
        ),
        (
            cfg.norm == "layer" and cfg.placement.norm is None,
            "RMSNorm" if cfg.norm == "rms" else "another norm",
            "The norm is not LayerNorm.",
        ),
        (
            inputs.kind == "gaussian",
            "words as inputs",
            "The inputs are words and the head is tied to them; the theorem's are Gaussian.",
        ),
    )
    return tuple(words if brief else sentence for holds, words, sentence in checks if not holds)


# The rule on streams -------------------------------------------------------------------------------------------


class MeanField(Reading):
    """The placement's rule on streams. `maps` are measured attention weights, needed for softmax attention.

    Leading axes are (seeds, sentences). Sentences that nothing tells apart are computed once.
    """

    def __init__(self, cfg: ModelConfig, inputs: Inputs, maps: dict[tuple, Array] | None = None):
        check_memory(cfg, inputs)
        super().__init__(cfg)
        self.inputs, self.maps = inputs, maps
        self.tape: list[Stream] = []
        self.sites: dict[tuple, Stream] = {}
        self.products: dict[tuple, tuple[Stream, Stream, int]] = {}

    def site(self, side, layer, site, x):
        self.sites[side, layer, site] = x

    def close(self) -> None:
        """Let the streams go: they and their tape hold each other."""
        self.tape.clear()

    def run(self) -> Stream:
        """Both sides, from the inputs to the output."""
        memory = None
        for side in self.cfg.sides:
            state = self.begin(side)
            for layer in range(1, self.cfg.depth + 1):
                state = self.layer(side, layer, state, None, memory)
            memory = self.finish(side, state)
        return memory

    def begin(self, side: str):
        """What flows into the first layer."""
        return self.start(side, Stream(self.tape, Mixture.fresh(input_covariance(self.cfg, self.inputs, side))))

    def norm(self, x: Stream, name: tuple, at: At) -> Stream:
        """LN, RMSNorm or the placement's own."""
        custom = self.cfg.placement.norm
        return custom(x, at) if custom else x.normalised(self.cfg.norm)

    def variance(self, x: Stream) -> Array:
        """Mean over tokens and sentences of E‖x‖²/d, (seeds, 1, 1)."""
        return diagonal(x.cov).mean((-2, -1))[..., None, None]

    def linear(self, x: Stream, at: At, block: str, parameter: str) -> Stream:
        """x W, noted for the gradient of W."""
        shape = parameters(self.cfg, block)[parameter]
        matrix = Matrix(at.side, at.layer, block, parameter, shape)
        y = x.linear(shape[0], scale(self.cfg, matrix) ** 2)
        self.products[matrix.name] = (x, y, shape[0])
        return y

    def ffn(self, x: Stream, at: At, N: Callable) -> Stream:
        """ReLU(x W_1) W_2."""
        hidden = self.linear(x, at, "ffn", "W_1").relu()
        return self.linear(self.tap("hidden", hidden, at, N), at, "ffn", "W_2")

    def attention(self, x: Stream, sequence, memory: Stream | None, block: str, at: At, N: Callable) -> Stream:
        """The values mixed by attention weights: equal shares, or those that were measured."""
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
        """Gradients of every stream, for the loss that `inputs` asks for."""
        return backward(out, loss_gram(self.cfg, self.inputs, out.cov), stop)

    def weight_gradient(self, name: tuple, grads: dict[Stream, Mixture]) -> float:
        """√E‖∂L/∂W‖²_F with ‖∂L/∂W‖² = fan_in · Σ_ij C_ij G_ij, over the tokens of all sentences."""
        x, y, fan_in = self.products[name]
        if y not in grads:
            return 0.0
        squares = fan_in * (x.cov * grads[y].cov).sum((-2, -1))  # (seeds, sentences)
        return sqrt(max(float(squares.sum(-1).mean()), 0.0) * copies(self.inputs, squares))


def check_memory(cfg: ModelConfig, inputs: Inputs) -> None:
    """Refuse, before anything is computed, what would take more than LIMIT bytes: tokens × tokens for every step."""
    sentences, n = 1, inputs.tokens
    if isinstance(inputs.kind, Batch):
        sentences, n = inputs.kind.labels.shape[0], max(inputs.kind.source.shape[1], inputs.kind.labels.shape[1])
    need = 8 * MATRICES * sentences * n**2 * cfg.depth * sum(len(blocks(cfg.stack, side)) for side in cfg.sides)
    if need > LIMIT:
        said = f"The theory of depth={cfg.depth} with {sentences} × {n} tokens needs {need / 2**30:.0f} GiB"
        raise ValueError(f"{said}, the limit is {LIMIT / 2**30:.0f} GiB; take fewer layers or tokens")


def copies(inputs: Inputs, over_sentences: Array) -> int:
    """How many sentences each entry of the last axis stands for."""
    sentences = len(inputs.kind.source) if isinstance(inputs.kind, Batch) else inputs.batch
    return sentences // over_sentences.shape[-1]


def ids_of(cfg: ModelConfig, inputs: Inputs, side: str) -> Array | None:
    """(1, B, n) word numbers of a corpus batch; None for random inputs."""
    if not isinstance(inputs.kind, Batch):
        return None
    return (inputs.kind.target if side == "decoder" and len(cfg.sides) == 2 else inputs.kind.source)[None]


def real_tokens(cfg: ModelConfig, inputs: Inputs, side: str) -> Array:
    """(1, B or 1, n) 1 for words, 0 for padding."""
    ids = ids_of(cfg, inputs, side)
    return np.ones((1, 1, inputs.tokens)) if ids is None else (ids != inputs.kind.pad).astype(float)


def input_covariance(cfg: ModelConfig, inputs: Inputs, side: str) -> Array:
    """(1, B or 1, n, n): tokens are independent; equal words are equal, and positions add what they share."""
    gain = cfg.placement.gain(At(side, 0, cfg.depth, cfg.stack), "embedding")
    ids = ids_of(cfg, inputs, side)
    n = inputs.tokens if ids is None else ids.shape[-1]
    same = np.eye(n)[None, None] if ids is None else (ids[..., :, None] == ids[..., None, :]).astype(float)
    if inputs.kind == "gaussian":
        return gain**2 * same
    where = positions(n, cfg.width)
    return gain**2 * same + where @ where.T / cfg.width


def equal_shares(cfg: ModelConfig, inputs: Inputs, side: str, block: str) -> Array:
    """(1, B or 1, 1, n, m): uniform attention, over what a query may see."""
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
    and is sampled beyond.
    """
    side = cfg.sides[-1]
    words, labels = inputs.vocab, None
    if isinstance(inputs.kind, Batch):
        words, labels = inputs.kind.vocab[len(cfg.sides) - 1], inputs.kind.labels[None]
    n = C.shape[-1]
    same = np.eye(n)[None, None] if labels is None else (labels[..., :, None] == labels[..., None, :]).astype(float)
    real = real_tokens(cfg, inputs, side) if labels is None else (labels != inputs.kind.pad).astype(float)
    count = real.sum() * copies(inputs, real[..., 0])
    if inputs.loss == "probe":
        return np.broadcast_to(np.eye(n), C.shape) * outer(real) / count**2
    gain = cfg.placement.gain(At(side, 0, cfg.depth, cfg.stack), "embedding") if inputs.kind != "gaussian" else 1.0
    variance = (gain * inputs.head) ** 2  # s²d
    logits = variance * C
    overlap = np.exp(logits) / words if logits.max() < 3 else sampled_overlap(logits, words)
    return variance * (same - 2 / words + overlap) * outer(real) / count**2


def sampled_overlap(logits: Array, words: int, draws: int = 16) -> Array:
    """E p_i·p_j for softmax over `words` Gaussian logits with this covariance between tokens."""
    random = np.random.default_rng(0)
    half, total = root(logits), np.zeros_like(logits)
    for _ in range(draws):
        z = half @ random.standard_normal((logits.shape[-1], words))
        p = np.exp(z - z.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        total = total + p @ p.mT
    return total / draws


# Predictions, as the tables of measure.py ----------------------------------------------------------------------


def predict(
    cfg: ModelConfig,
    quantity: str,
    *,
    inputs: Inputs = Inputs(),
    depths: Iterable[int] | None = None,
    parameter: str = "W_2",
    seeds=range(3),
) -> pd.DataFrame:
    """The theory's table beside a measurement: the same columns, with the seed missing.

    quantity: "signal" (`signal_norms`), "backward" (`backward_norms`), "gradient" (`gradient_norms`: √E‖·‖²),
    "similarity" (`token_similarity`), "last_layer" (`last_layer_gradients`, needs `depths`). Uniform attention
    needs no forward pass; softmax attention takes the weights measured for these seeds. W_Q and W_K see only how
    tokens differ: where tokens have nearly collapsed, as in deep Post-LN, their predictions are the least exact.
    """
    instance("cfg", cfg, ModelConfig)
    instance("inputs", inputs, Inputs)
    choice("quantity", quantity, QUANTITIES)
    with np.errstate(over="ignore", invalid="ignore"):  # a deep stream without LN is beyond the numbers there are
        if quantity == "last_layer":
            return _last_layer(cfg, inputs, depths, parameter, seeds)
        with closing(MeanField(cfg, inputs, _maps(cfg, inputs, seeds))) as field:
            return _predicted(field, quantity)


def _predicted(field: MeanField, quantity: str) -> pd.DataFrame:
    """One quantity's table, from one pass forward and back."""
    cfg, inputs, out = field.cfg, field.inputs, field.run()
    if quantity == "gradient":
        grads = field.gradients(out)
        return _gradient_table(cfg, [(*name, field.weight_gradient(name, grads)) for name in field.products])
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
    from lntutor.measure import attention_weights

    return attention_weights(cfg, seeds=seeds, inputs=inputs)


def _last_layer(cfg: ModelConfig, inputs: Inputs, depths, parameter: str, seeds) -> pd.DataFrame:
    """One pass for every depth where layers are shared (one stack, a depth-free rule), else one model a depth."""
    if depths is None:
        raise ValueError("predict(cfg, 'last_layer') needs depths, such as depths=range(1, 25)")
    depths, side, rows = depth_list(depths), cfg.sides[-1], []
    names = blocks_with(cfg, parameter)
    shared = cfg.placement.depth_free and len(cfg.sides) == 1
    for group in [depths] if shared else [[depth] for depth in depths]:
        deepest = cfg.with_(depth=group[-1])
        with closing(MeanField(deepest, inputs, _maps(deepest, inputs, seeds))) as field:
            memory = None
            for here in deepest.sides:
                state = field.begin(here)
                for layer in range(1, deepest.depth + 1):
                    below = len(field.tape)
                    state = field.layer(here, layer, state, None, memory)
                    if here == side and layer in group:
                        grads = field.gradients(field.finish(here, state), stop=below)
                        for name in ((here, layer, block, parameter) for block in names):
                            rows.append((*name, field.weight_gradient(name, grads)))
                memory = field.finish(here, state)
    result = _gradient_table(cfg, rows)
    result["depth"] = result["layer"]
    return result


def _gradient_table(cfg: ModelConfig, rows: list[tuple]) -> pd.DataFrame:
    result = _table(cfg, ("side", "layer", "block", "parameter"), rows)
    result["below_floor"] = False
    return result


def _table(cfg: ModelConfig, columns: tuple[str, ...], rows: list[tuple]) -> pd.DataFrame:
    result = pd.DataFrame(rows, columns=[*columns, "value"])
    result.insert(len(columns), "seed", pd.array([pd.NA] * len(rows), dtype="Int64"))
    for i, (name, value) in enumerate((("placement", cfg.placement.key), ("depth", cfg.depth), ("width", cfg.width))):
        result.insert(i, name, value)
    return result
