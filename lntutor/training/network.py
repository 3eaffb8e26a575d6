"""A Transformer that learns: all its weights, and its loss on a batch of text.

The matrices start as the weight bank's samples, so every placement starts from the same numbers. Biases start at 0,
the gains of norms at 1, and other weights of a placement (`At.learned`) at the value that it names. All weights of a
group are views of one flat vector, so that an optimiser's step and the gradient's norm are one operation each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional as F

from lntutor.model.config import Batch, ModelConfig
from lntutor.model.parameters import embedding_gain, matrices, positions, scale
from lntutor.model.transformer import Packing, Sequence, Transformer, small_weights
from lntutor.model.weight_bank import BANK, check_weights


class Quick(Transformer):
    """The same pass with torch's own attention: faster, but without attention weights and second derivatives."""

    def attend(self, name, q, k, v, visible):
        if name[::2] == ("decoder", "self"):  # padding follows the words, so a causal mask hides it
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible)


def initial_weights(cfg: ModelConfig, seed: int, vocab: tuple[int, ...], dtype=torch.float32) -> dict[tuple, Tensor]:
    """Name → tensor: matrices, their biases, one embedding per side, gains and biases of norms, weights of the rule."""
    check_weights(cfg, dtype.itemsize)
    weights = {}
    for m in matrices(cfg):
        weights[m.name] = BANK.samples(seed, m.name, *m.shape) * scale(cfg, m)
        weights[*m.name[:3], m.parameter.replace("W", "b")] = torch.zeros(m.shape[1])
    for side, words in zip(cfg.sides, vocab, strict=True):
        samples = BANK.samples(seed, ("embedding", side), words, cfg.width)
        weights["embedding", side] = samples * embedding_gain(cfg, side) / sqrt(cfg.width)
    return {name: tensor.to(dtype) for name, tensor in (weights | small_weights(cfg, weights)).items()}


def flatten(weights: dict[tuple, Tensor], group_of: Callable[[tuple], str]) -> tuple[dict[tuple, Tensor], dict]:
    """({name: view, a leaf of autograd}, {group: its flat tensor}); gradients are views of flat gradients."""
    groups = {name: [n for n in weights if group_of(n) == name] for name in dict.fromkeys(map(group_of, weights))}
    views, flats = {}, {}
    for group, names in groups.items():
        flat = torch.cat([weights[name].flatten() for name in names])
        flat.grad = torch.zeros_like(flat)
        sizes = [weights[name].numel() for name in names]
        for name, part, grad in zip(names, flat.split(sizes), flat.grad.split(sizes), strict=True):
            views[name] = part.view(weights[name].shape).requires_grad_()
            views[name].grad = grad.view(weights[name].shape)
        flats[group] = flat
    return views, flats


def _positions(n: int, width: int, dtype: torch.dtype) -> Tensor:
    """A table of at least n positions; a power of two of them, so that few tables are made."""
    return _position_table(max(4096, 1 << (n - 1).bit_length()), width, dtype)


@lru_cache(maxsize=8)
def _position_table(n: int, width: int, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(positions(n, width)).to(dtype)


class Learner:
    """A model of text with weights that learn: words in, the logarithm of each next word's probability out.

    Words are embedded with factor √d and sinusoidal positions; the head is the last side's embedding (Vaswani et
    al. 2017, section 3.4). `group_of` puts weights into groups with a learning rate of their own.
    """

    reads: Callable[..., Transformer] = Quick  # the class of the forward pass

    def __init__(
        self, cfg: ModelConfig, vocab: tuple[int, ...], *, pad: int, seed: int = 0, dropout: float = 0.0,
        group_of: Callable[[tuple], str] = lambda name: "all", dtype: torch.dtype = torch.float32,
    ):  # fmt: skip
        self.cfg, self.pad, self.dropout = cfg, pad, dropout
        self.weights, self.flats = flatten(initial_weights(cfg, seed, vocab, dtype), group_of)
        self.profile: dict | None = None  # for a placement with `profile`: the variances at initialisation
        self._random = torch.Generator().manual_seed(seed)  # for dropout

    def model(self, learning: bool = False) -> Transformer:
        """The forward pass with the present weights; with dropout while learning."""
        drop = self._drop if learning and self.dropout else None
        return self.reads(self.cfg, self.weights, profile=self.profile, drop=drop)

    def _drop(self, x: Tensor) -> Tensor:
        kept = torch.rand(x.shape, generator=self._random, dtype=x.dtype) >= self.dropout
        return x * kept / (1 - self.dropout)

    def embed(self, side: str, ids: Tensor) -> Sequence:
        """(B, n) word numbers → the embedded sequence of a side: its N words, without the padding."""
        real = ids != self.pad
        packing = None if real.all() else Packing(real)
        places = torch.arange(ids.numel()) if packing is None else packing.places
        table = self.weights["embedding", side]
        x = F.embedding(ids.flatten()[places], table) * sqrt(self.cfg.width)  # (N, d)
        x = x + _positions(ids.shape[1], self.cfg.width, x.dtype)[places % ids.shape[1]]
        return Sequence(x, len(ids), None if packing is None else real, packing)

    def log_probabilities(self, out: Tensor) -> Tensor:
        """(N, d) outputs → (N, V): log softmax over the words of the last side."""
        return (out @ self.weights["embedding", self.cfg.sides[-1]].T).log_softmax(-1)

    def predictions(self, batch: Batch, learning: bool = False) -> tuple[Tensor, Tensor]:
        """(N, V) log-probabilities at the positions with a word to predict, and these words, (N,)."""
        model = self.model(learning)
        ids = [torch.from_numpy(a) for a in (batch.source, batch.target) if a is not None]
        sequences = [self.embed(side, part) for side, part in zip(self.cfg.sides, ids, strict=True)]
        if model.drop:
            sequences = [replace(s, x=model.drop(s.x)) for s in sequences]
        if self.cfg.placement.profile and self.profile is None:
            self.profile = model.profiled(*sequences)
        out = model(*sequences)
        labels = torch.from_numpy(batch.labels).flatten()
        if sequences[-1].packing is not None:
            labels = labels[sequences[-1].packing.places]
        at = (labels != batch.pad).nonzero().squeeze(1)
        if len(at) < len(out):
            out, labels = out[at], labels[at]
        return self.log_probabilities(out), labels

    def loss(self, batch: Batch, smoothing: float = 0.0, learning: bool = False) -> tuple[Tensor, Tensor, int]:
        """(loss to minimise, negative log-likelihood in nats per word, words); means over the words to predict.

        Label smoothing ε mixes the target with the uniform distribution: (1 − ε)·NLL − ε·mean log p.
        """
        log_p, labels = self.predictions(batch, learning)
        goal = F.nll_loss(log_p, labels)
        nll = goal.detach()
        if smoothing:
            goal = (1 - smoothing) * goal - smoothing / log_p.numel() * log_p.sum()
        return goal, nll, len(labels)

    def zero_grad(self) -> None:
        """Set the gradients to zero, in place."""
        for flat in self.flats.values():
            flat.grad.zero_()

    def gradient_norm(self) -> float:
        """‖∂L/∂θ‖ over all weights."""
        norms = (torch.linalg.vector_norm(flat.grad, dtype=torch.float64) for flat in self.flats.values())
        return sqrt(sum(float(norm) ** 2 for norm in norms))
