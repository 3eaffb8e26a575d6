"""Words per second in training: our loop against nn.Transformer with a plain padded loader and torch.optim.Adam.

The same model (Post-LN, 2+2 layers, width 64, initialised alike), the same batches, the same rate. They are trained
side by side, a few steps each in turn, and compared turn by turn, so that a busy machine slows all. The final losses
are on the validation split, because speed at a worse loss is less of a gain: the second row is the peer with batches
of sentences of similar length, which is quick, but learns less per step.
Ratio: our words per second over those of nn.Transformer, plain padded, on the first corpus.

    python benchmarks/training.py [--corpus captions multi30k]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks._timing import machine, options, show, show_ratio
from lntutor.model.config import Batch, ModelConfig, TrainConfig
from lntutor.model.parameters import positions
from lntutor.text.corpus import PAD, Corpus, CorpusError, load_corpus
from lntutor.training.trainer import Trainer

CFG = ModelConfig("post", depth=2, width=64, heads=4, ffn=256, init="torch")
HOW = TrainConfig(lr=1e-3, warmup=100, schedule="constant", steps=300, batch=64, validate_every=10**6)
POOL = 100  # batches sorted by length together
TURN = 10  # steps of one before the next has its turn


class Peer(nn.Module):
    """The model as a torch user writes it: nn.Transformer, two embeddings, the head tied to the second."""

    def __init__(self, corpus: Corpus):
        super().__init__()
        d = CFG.width
        self.source, self.target = nn.Embedding(len(corpus.source), d), nn.Embedding(len(corpus.target), d)
        for table in (self.source, self.target):
            nn.init.normal_(table.weight, std=d**-0.5)
        self.net = nn.Transformer(d, CFG.heads, CFG.depth, CFG.depth, CFG.ffn, dropout=0.0, batch_first=True)
        self.net.encoder.norm = self.net.decoder.norm = None  # Post-LN has no final norm
        self.register_buffer("place", torch.from_numpy(positions(512, d)).float())

    def forward(self, source, target):
        d = CFG.width
        x = self.source(source) * d**0.5 + self.place[: source.shape[1]]
        y = self.target(target) * d**0.5 + self.place[: target.shape[1]]
        ahead = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        blank = source == PAD
        out = self.net(
            x, y, tgt_mask=ahead, tgt_is_causal=True, src_key_padding_mask=blank, memory_key_padding_mask=blank,
            tgt_key_padding_mask=target == PAD,
        )  # fmt: skip
        return out @ self.target.weight.T


def plain_loader(corpus: Corpus, size: int) -> Iterator[Batch]:
    """Sentences in a drawn order, padded to the longest of each batch, as by a DataLoader."""
    rng, pairs = np.random.default_rng(0), len(corpus.pairs("train"))
    while True:
        order = rng.permutation(pairs)
        for i in range(0, pairs - size + 1, size):
            yield corpus.batch("train", order[i : i + size].tolist())


def peer_step(corpus: Corpus, batches: Iterator[Batch]) -> tuple[Callable[[int], int], Peer]:
    """A function that makes one step of the peer and returns its number of words."""
    torch.manual_seed(0)
    model = Peer(corpus)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))

    def step(number: int) -> int:
        batch = next(batches)
        optimizer.param_groups[0]["lr"] = HOW.lr * min(1, number / HOW.warmup)
        logits = model(torch.from_numpy(batch.source), torch.from_numpy(batch.target)).flatten(0, 1)
        labels = torch.from_numpy(batch.labels).flatten()
        loss = F.cross_entropy(logits, labels, ignore_index=PAD, label_smoothing=HOW.label_smoothing)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), float("inf"))  # our loop records the norm too
        optimizer.step()
        loss.item()
        return int((batch.labels != PAD).sum())

    return step, model


@torch.no_grad()
def peer_loss(model: Peer, corpus: Corpus) -> float:
    """The peer's validation loss, in nats per word."""
    total = words = 0
    for batch in corpus.batches("val", 128):
        logits = model(torch.from_numpy(batch.source), torch.from_numpy(batch.target)).flatten(0, 1)
        labels = torch.from_numpy(batch.labels).flatten()
        total += float(F.cross_entropy(logits, labels, ignore_index=PAD, reduction="sum"))
        words += int((labels != PAD).sum())
    return total / words


def our_step(corpus: Corpus, batches: Iterator[Batch]) -> tuple[Callable[[int], int], Trainer]:
    """The same for our loop."""
    trainer = Trainer(CFG, HOW, corpus)

    def step(number: int) -> int:
        batch = next(batches)
        trainer.batches = iter([batch])
        trainer.step(number)
        return int((batch.labels != PAD).sum())

    return step, trainer


def measure(corpus: Corpus, steps: int) -> float:
    """Print words per second and final losses, ours and the peers'; our speed over the plain peer's."""
    sorted_batches = corpus.stream("train", HOW.batch, seed=0, pool=POOL)
    plain, plain_model = peer_step(corpus, plain_loader(corpus, HOW.batch))
    by_length, by_length_model = peer_step(corpus, sorted_batches)
    ours, trainer = our_step(corpus, plain_loader(corpus, HOW.batch))
    kinds = {"nn.Transformer, plain padded": plain, "nn.Transformer, by length": by_length, "lntutor": ours}
    speeds: dict[str, list[float]] = {name: [] for name in kinds}
    for first in range(1, steps + 1, TURN):
        for name, step in kinds.items():
            started = time.perf_counter()
            words = sum(step(number) for number in range(first, first + TURN))
            speeds[name].append(words / (time.perf_counter() - started))
    losses = [peer_loss(plain_model, corpus), peer_loss(by_length_model, corpus), trainer.validate()]
    share = [corpus.padding("train", HOW.batch, pool=pool) for pool in (1, POOL)]
    print(f"{corpus.name}: padding {share[0]:.0%} of positions, {share[1]:.0%} by length; {steps} steps")
    base = np.array(speeds["nn.Transformer, plain padded"])
    rows = [
        (name, f"{np.median(speed):.0f}", f"{np.median(np.array(speed) / base):.2f}×", f"{loss:.2f}")
        for (name, speed), loss in zip(speeds.items(), losses, strict=True)
    ]
    show(rows, ("", "words/s", "ratio", "validation loss"))
    return float(np.median(np.array(speeds["lntutor"]) / base))


def main() -> None:
    """Measure every corpus that is here, and print the ratio."""
    args = options(__doc__, corpus=(("captions", "multi30k"), ("captions",)), steps=(HOW.steps, TURN))
    torch.set_num_threads(1)
    print(machine())
    ratios = []
    for name in args.corpus:
        try:
            ratios.append(measure(load_corpus(name), args.steps))
        except CorpusError as error:
            print(f"{name}: {error}")
    if ratios:
        show_ratio(ratios[0])


if __name__ == "__main__":
    main()
