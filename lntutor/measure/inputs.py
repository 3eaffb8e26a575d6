"""The inputs of a network and the loss of its output: drawn by seed, the same for every placement."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lntutor.model.config import Batch, Inputs, ModelConfig
from lntutor.model.parameters import embedding_gain, positions
from lntutor.model.random_streams import random_stream
from lntutor.model.transformer import Sequence
from lntutor.model.weight_bank import BANK


@dataclass(frozen=True)
class Feed:
    """The inputs for some seeds, one sequence per side, and the loss of an output; several seeds are a leading axis."""

    sequences: tuple[Sequence, ...]
    loss: Callable[[Tensor], Tensor]  # (K·B·n, d) → sum over seeds and K repeats of the mean over positions
    slope: Callable[[Tensor], Tensor]  # its gradient, (K·B·n, d) → (K·B·n, d)


def tied(cfg: ModelConfig, inputs: Inputs, side: str) -> tuple[int, float, float]:
    """(words, standard deviation of the embedding's entries, factor that brings embedded words to variance 1)."""
    words = inputs.vocab
    if isinstance(inputs.kind, Batch):
        words = inputs.kind.vocab[side == "decoder" and len(cfg.sides) == 2]
    return words, embedding_gain(cfg, side) * inputs.head / sqrt(cfg.width), sqrt(cfg.width) / inputs.head


def word_numbers(cfg: ModelConfig, inputs: Inputs, seeds: Iterable[int]) -> dict[str, np.ndarray]:
    """{side: (S, B, n) word numbers, …, "labels": …}; random words are all different."""
    batch = inputs.kind
    if not isinstance(batch, Batch):
        count = inputs.batch * inputs.tokens

        def draw(what):
            words = [random_stream(seed, what).permutation(inputs.vocab)[:count] for seed in seeds]
            return np.stack(words).reshape(-1, inputs.tokens, inputs.batch).transpose(0, 2, 1)

        return {name: draw(name) for name in (*cfg.sides, "labels")}
    if (len(cfg.sides) == 2) != (batch.target is not None):
        need = "with" if len(cfg.sides) == 2 else "without"
        raise ValueError(f"stack={cfg.stack!r} needs a batch {need} target sentences")
    read = [batch.source] if batch.target is None else [batch.source, batch.target]
    ids = dict(zip(cfg.sides, read, strict=True)) | {"labels": batch.labels}
    return {name: np.broadcast_to(a, (len(tuple(seeds)), *a.shape)) for name, a in ids.items()}


def feed(cfg: ModelConfig, inputs: Inputs, seeds: tuple[int, ...], dtype: torch.dtype) -> Feed:
    """The inputs and the loss for these seeds; fewer tokens or a smaller width take a part of the same numbers."""
    ids = word_numbers(cfg, inputs, seeds)
    text = inputs.kind != "gaussian"
    sequences = tuple(_sequence(cfg, inputs, side, ids[side], seeds, dtype, text) for side in cfg.sides)
    last, batch, (rows, n) = cfg.sides[-1], inputs.kind, ids["labels"].shape[1:]
    real = torch.from_numpy(batch.labels != batch.pad) if isinstance(batch, Batch) else None
    weight = torch.ones(rows * n, dtype=dtype) if real is None else real.flatten().to(dtype)
    weight = weight / weight.sum()
    if inputs.loss == "probe":
        probes = [BANK.ready(seeds, ("probe", b), (n, cfg.width), 1.0, dtype) for b in range(rows)]
        probe = F.normalize(torch.cat(probes, -2), dim=-1) * weight[:, None]

        @torch.enable_grad()
        def loss(out):
            return (by_seed(out, seeds).unflatten(-2, (-1, rows * n)) * probe[:, None]).sum()

        def slope(out):
            return squeeze(probe.repeat(1, out.shape[-2] // (rows * n), 1))

    else:
        words, std, _ = tied(cfg, inputs, last)
        name, shape = (("embedding", last), (words, cfg.width)) if text else (("head",), (cfg.width, inputs.vocab))
        head = BANK.ready(seeds, name, shape, std if text else inputs.head / sqrt(cfg.width), dtype)
        head = head.mT if text else head  # (S, d, V)
        labels = torch.from_numpy(np.array(ids["labels"])).flatten(1)  # (S, B·n)

        @torch.enable_grad()
        def loss(out):
            repeats = out.shape[-2] // (rows * n)
            logits = by_seed(out, seeds) @ head
            nll = F.cross_entropy(logits.flatten(0, 1), labels.repeat(1, repeats).flatten(), reduction="none")
            return (nll.unflatten(0, (-1, rows * n)) * weight).sum()

        def slope(out):  # (softmax − one at the label)·weight·headᵀ
            repeats = out.shape[-2] // (rows * n)
            p = (by_seed(out, seeds) @ head).softmax(-1)
            p.scatter_add_(-1, labels.repeat(1, repeats)[..., None], p.new_full((*p.shape[:2], 1), -1))
            return squeeze((p * weight.repeat(repeats)[:, None]) @ head.mT)

    return Feed(sequences, loss, slope)


def _sequence(cfg, inputs, side, ids, seeds, dtype, text) -> Sequence:
    _, rows, n = ids.shape
    if not text:
        gain = embedding_gain(cfg, side)
        parts = [BANK.ready(seeds, ("input", side, b), (n, cfg.width), gain, dtype) for b in range(rows)]
        return Sequence(squeeze(torch.cat(parts, -2)), rows)
    words, std, factor = tied(cfg, inputs, side)
    table = BANK.ready(seeds, ("embedding", side), (words, cfg.width), std, dtype)
    index = torch.from_numpy(np.array(ids)).flatten(1)  # (S, B·n)
    x = torch.stack([rows_of[i] for rows_of, i in zip(table, index, strict=True)]) * factor
    x = x + torch.from_numpy(positions(n, cfg.width)).to(dtype).repeat(rows, 1)
    real = torch.from_numpy(ids[0] != inputs.kind.pad) if isinstance(inputs.kind, Batch) else None
    return Sequence(squeeze(x), rows, real)


def squeeze(x: Tensor) -> Tensor:
    """Without the axis of seeds if there is only one, as plain products are faster than batches of one."""
    return x if len(x) > 1 else x[0]


def by_seed(x: Tensor, seeds: tuple[int, ...]) -> Tensor:
    """With the axis of seeds, also for one seed."""
    return x if len(seeds) > 1 else x[None]
