"""A Transformer that learns: all its weights as views of a few flat buffers, and its loss on a batch of text.

The matrices start as the weight bank's samples, so every placement starts from the same numbers. Biases start at 0,
the gains of norms at 1, and what else a placement lets learn (`At.learned`) where it says. An optimiser sees one long
vector a group, which makes its step, and the gradient's norm, one operation each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional as F

from lntutor.config import Batch, ModelConfig
from lntutor.matrices import matrices, scale
from lntutor.model import Packing, Sequence, Transformer
from lntutor.placements import At
from lntutor.reading import positions
from lntutor.weights import BANK, check_weights


class Quick(Transformer):
    """The same pass with torch's own attention: quicker, but it shows no weights and has no second derivative."""

    def attend(self, name, q, k, v, visible):
        if name[::2] == ("decoder", "self"):  # padding stands behind the words: who looks back does not see it
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible)


class Sizes(Transformer):
    """A reading that notes what learns beside the matrices: gains and biases of norms, and what the rule asks for."""

    def __init__(self, cfg: ModelConfig, weights):
        super().__init__(cfg, weights)
        self.found: dict[tuple, Tensor] = {}

    def norm(self, x, name, at):
        width = x.shape[-1]
        self.found[*name, "gain"], self.found[*name, "bias"] = torch.ones(width), torch.zeros(width)
        return super().norm(x, name, at)

    def learned(self, name, start, per):
        shape = {"": (), "head": (self.cfg.heads, 1, 1), "feature": (self.cfg.width,)}[per]
        self.found[name] = torch.full(shape, start)
        return start


def initial_weights(cfg: ModelConfig, seed: int, vocab: tuple[int, ...], dtype=torch.float32) -> dict[tuple, Tensor]:
    """Name → tensor: matrices, their biases, an embedding a side, gains and biases of norms, what else learns."""
    check_weights(cfg, dtype.itemsize)
    weights = {}
    for m in matrices(cfg):
        weights[m.name] = BANK.samples(seed, m.name, *m.shape) * scale(cfg, m)
        weights[*m.name[:3], m.parameter.replace("W", "b")] = torch.zeros(m.shape[1])
    for side, words in zip(cfg.sides, vocab, strict=True):
        gain = cfg.placement.gain(At(side, 0, cfg.depth, cfg.stack), "embedding")
        weights["embedding", side] = BANK.samples(seed, ("embedding", side), words, cfg.width) * gain / sqrt(cfg.width)
    look = Sizes(cfg, weights)
    with torch.no_grad():
        look(*(Sequence(torch.ones(2, cfg.width)) for _ in cfg.sides))
    return {name: tensor.to(dtype) for name, tensor in (weights | look.found).items()}


def flatten(weights: dict[tuple, Tensor], group_of: Callable[[tuple], str]) -> tuple[dict[tuple, Tensor], dict]:
    """(name → view that learns, group → the flat tensor under its views); gradients are views of flat gradients."""
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


@lru_cache(maxsize=8)
def _positions(n: int, width: int, dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(positions(n, width)).to(dtype)


class Learner:
    """A model of text with weights that learn: words in, the logarithm of each next word's probability out.

    Words are embedded with factor √d and sinusoidal positions; the head is the last side's embedding (Vaswani et
    al. 2017, section 3.4). `group_of` puts weights into groups with a learning rate of their own.
    """

    reads: type[Transformer] = Quick  # who carries words through the layers

    def __init__(
        self,
        cfg: ModelConfig,
        vocab: tuple[int, ...],
        *,
        pad: int,
        seed: int = 0,
        dropout: float = 0.0,
        group_of: Callable[[tuple], str] = lambda name: "all",
        dtype: torch.dtype = torch.float32,
    ):
        self.cfg, self.pad, self.dropout = cfg, pad, dropout
        self.weights, self.flats = flatten(initial_weights(cfg, seed, vocab, dtype), group_of)
        self.profile: dict | None = None  # of a placement that profiles: its variances at initialisation
        self._random = torch.Generator().manual_seed(seed)  # of dropout

    def model(self, learning: bool = False) -> Transformer:
        """The forward pass with the weights as they are; with dropout while learning."""
        drop = self._drop if learning and self.dropout else None
        return self.reads(self.cfg, self.weights, profile=self.profile, drop=drop)

    def _drop(self, x: Tensor) -> Tensor:
        kept = torch.rand(x.shape, generator=self._random, dtype=x.dtype) >= self.dropout
        return x * kept / (1 - self.dropout)

    def embed(self, side: str, ids: Tensor) -> Sequence:
        """(B, n) word numbers as what a side reads: its N words, without the padding."""
        real = ids != self.pad
        packing = None if real.all() else Packing(real)
        places = torch.arange(ids.numel()) if packing is None else packing.places
        table = self.weights["embedding", side]
        x = F.embedding(ids.flatten()[places], table) * sqrt(self.cfg.width)  # (N, d)
        x = x + _positions(4096, self.cfg.width, x.dtype)[places % ids.shape[1]]
        return Sequence(x, len(ids), None if packing is None else real, packing)

    def log_probabilities(self, out: Tensor) -> Tensor:
        """(N, d) outputs → (N, V): log softmax over the words of the last side."""
        return (out @ self.weights["embedding", self.cfg.sides[-1]].T).log_softmax(-1)

    def predictions(self, batch: Batch, learning: bool = False) -> tuple[Tensor, Tensor]:
        """(N, V) log-probabilities at the positions where there is a word to predict, and these words, (N,)."""
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
        """(what is minimised, negative log-likelihood in nats a word, words), means over the words to predict.

        Label smoothing ε mixes the target with all words alike: (1 − ε)·NLL − ε·mean log p.
        """
        log_p, labels = self.predictions(batch, learning)
        goal = F.nll_loss(log_p, labels)
        nll = goal.detach()
        if smoothing:
            goal = (1 - smoothing) * goal - smoothing / log_p.numel() * log_p.sum()
        return goal, nll, len(labels)

    def zero_grad(self) -> None:
        """Forget the gradients; the buffers stay."""
        for flat in self.flats.values():
            flat.grad.zero_()

    def gradient_norm(self) -> float:
        """‖∂L/∂θ‖ over all weights."""
        return sqrt(
            sum(float(torch.linalg.vector_norm(flat.grad, dtype=torch.float64)) ** 2 for flat in self.flats.values())
        )
