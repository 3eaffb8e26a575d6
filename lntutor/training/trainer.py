"""Training runs: a model, a TrainConfig and a corpus → a table with one row per step.

`train` runs to the end; `steps` is a generator, for callers that draw or stop between two steps. A run whose loss is no
longer finite ends there with the status "diverged".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import isfinite, nan

import pandas as pd
import torch

from lntutor.measure.recorder import GRADIENT_COLUMNS
from lntutor.model.checks import check_flag, check_int, check_type
from lntutor.model.config import Batch, ModelConfig, TrainConfig
from lntutor.model.parameters import matrices
from lntutor.text.corpus import PAD, Corpus
from lntutor.training.decoding import bleu, translate
from lntutor.training.network import Learner
from lntutor.training.optimizers import groups, learning_rate, optimizer, set_rates
from lntutor.training.progress import progress_bar

COLUMNS = ("step", "loss", "val_loss", "lr", "gradient", "tokens_per_second")
STACK = {"translation": "encoder-decoder", "masked_words": "encoder"}  # the stack that a task needs
VALIDATION = 16  # batches of VALIDATION_SIZE sentences, at most
VALIDATION_SIZE = 128


@dataclass(frozen=True)
class Sample:
    """A held-out sentence and its translation by the model."""

    source: str
    reference: str
    translation: str


@dataclass(frozen=True)
class Run:
    """The measurements of a training run.

    `table`: step, loss (nats per word, without label smoothing), val_loss (missing where not measured), lr (of the
    layers that are warmed up), gradient (norm of the whole gradient, with label smoothing, before clipping),
    tokens_per_second. `gradients`: step and the columns of `gradient_norms`, for the same gradient, at step 1 and at
    every validation.
    """

    model: ModelConfig
    how: TrainConfig
    corpus: str
    checksum: str
    table: pd.DataFrame
    gradients: pd.DataFrame
    status: str  # "finished", "stopped", "diverged"
    bleu: float | None = None  # on held-out sentences; None where nothing was translated
    samples: tuple[Sample, ...] = ()

    @property
    def val_loss(self) -> float:
        """The last validation loss; infinite where the run diverged."""
        known = self.table["val_loss"].dropna()
        return float("inf") if self.status == "diverged" else float(known.iloc[-1]) if len(known) else nan


@dataclass(frozen=True)
class TrainingProgress:
    """A run after one of its steps."""

    step: int
    of: int
    row: dict[str, float]
    seconds_left: float
    run: Callable[[], Run] = field(repr=False)  # the run so far
    learner: Learner = field(repr=False)
    corpus: Corpus = field(repr=False)


def steps(cfg: ModelConfig, how: TrainConfig, corpus: Corpus) -> Iterator[TrainingProgress]:
    """Train, one item per step; close the generator to stop. The same seed gives the same losses."""
    trainer = Trainer(cfg, how, corpus)
    started = time.perf_counter()
    for step in range(1, how.steps + 1):
        row = trainer.step(step)
        left = (time.perf_counter() - started) / step * (how.steps - step)
        yield TrainingProgress(step, how.steps, row, left, trainer.run, trainer.learner, corpus)
        if trainer.status == "diverged":
            return


def train(
    cfg: ModelConfig, how: TrainConfig, corpus: Corpus, *,
    pairs: int = 200, beam: int = 1, samples: int = 5, progress: bool = True,
) -> Run:  # fmt: skip
    """Train with a progress bar, then translate `pairs` held-out sentences and compute BLEU.

    An interrupt while training keeps the steps so far; an interrupt while translating keeps the run without BLEU.
    """
    check_run(cfg, how, corpus)
    _check(pairs, beam, samples)  # before the work
    check_flag("progress", progress)
    last = None
    with progress_bar(total=how.steps, desc=cfg.placement.label, unit="step", disable=not progress) as bar:
        try:
            for last in steps(cfg, how, corpus):
                bar.update()
                if isfinite(last.row["val_loss"]):
                    bar.set_postfix(val_loss=f"{last.row['val_loss']:.2f}", refresh=False)
        except KeyboardInterrupt:
            if last is None:
                raise
            bar.set_postfix_str("stopped; what was measured is kept")
    assert last is not None  # there is at least one step
    try:
        return finish(last, pairs=pairs, beam=beam, samples=samples)
    except KeyboardInterrupt:
        return replace(last.run(), status="stopped")


def check_run(cfg: ModelConfig, how: TrainConfig, corpus: Corpus) -> None:
    """A ValueError if one of the three has the wrong type."""
    check_type("cfg", cfg, ModelConfig)
    check_type("how", how, TrainConfig)
    check_type("corpus", corpus, Corpus, "; load_corpus('captions') gives one")


def _check(pairs: int, beam: int, samples: int) -> None:
    check_int("pairs", pairs, 0, 10**9)
    check_int("beam", beam, 1, 64)
    check_int("samples", samples, 0, 10**9)


def finish(progress: TrainingProgress, *, pairs: int = 200, beam: int = 1, samples: int = 5) -> Run:
    """The run so far, with BLEU and samples: the first `pairs` sentences of the test split, translated."""
    _check(pairs, beam, samples)
    run = progress.run()
    if run.how.task != "translation" or run.status == "diverged" or not pairs:
        return run
    corpus = progress.corpus
    sources, references = zip(*corpus.pairs("test")[:pairs], strict=True)
    if corpus.pieces:  # pieces of words are joined before scoring
        references = [corpus.text(corpus.tokens(reference, "en")) for reference in references]
    translations = translate(progress.learner, corpus, sources, beam=beam)
    examples = tuple(Sample(*three) for three in zip(sources, references, translations, strict=True))[:samples]
    return replace(run, bleu=bleu(translations, references), samples=examples)


class Trainer:
    """A run in progress: the learner, its optimiser, and the rows so far."""

    def __init__(self, cfg: ModelConfig, how: TrainConfig, corpus: Corpus):
        check_run(cfg, how, corpus)
        if cfg.stack != STACK[how.task]:
            need, given = f"stack={STACK[how.task]!r}", f"stack={cfg.stack!r}"
            raise ValueError(f"task={how.task!r} needs a model with {need}, got {given}; use cfg.with_({need})")
        self.cfg, self.how, self.corpus = cfg, how, corpus
        vocab = (len(corpus.source), len(corpus.target))[-len(cfg.sides) :]
        self.learner = Learner(cfg, vocab, pad=PAD, seed=how.seed, dropout=how.dropout, group_of=groups(cfg, how))
        self.optimizer = optimizer(how, self.learner.flats)
        self.batches = corpus.stream("train", how.batch, seed=how.seed, task=how.task)
        self.held_out: list[Batch] = []
        self.rows: list[dict[str, float]] = []
        self.norms: list[tuple] = []
        self.status = "stopped"  # until it has finished or diverged

    def step(self, step: int) -> dict[str, float]:
        """One step of the optimiser: its row of the table."""
        started = time.perf_counter()
        nll, words = self.backward(next(self.batches))
        gradient = self.learner.gradient_norm()
        row = {"step": step, "loss": nll, "val_loss": nan, "lr": learning_rate(self.how, step), "gradient": gradient}
        measured = step in (1, self.how.steps) or step % self.how.validate_every == 0
        norms = []
        if not isfinite(nll):
            self.status = "diverged"
        else:
            norms = self.gradient_rows(step) if measured else []
            self.update(step, gradient)
        row["tokens_per_second"] = words / (time.perf_counter() - started)
        if self.status != "diverged" and measured and step > 1:
            row["val_loss"] = self.validate()
        self.norms += norms
        self.rows.append(row)  # last, so that an interrupted step leaves no row
        if self.status != "diverged" and step == self.how.steps:
            broken = step > 1 and not isfinite(row["val_loss"])  # by the last update: there is no later step to show it
            self.status = "diverged" if broken else "finished"
        return row

    @torch.enable_grad()
    def backward(self, batch: Batch) -> tuple[float, int]:
        """Loss and gradient on a batch: (nats per word, words)."""
        self.learner.zero_grad()
        goal, nll, words = self.learner.loss(batch, self.how.label_smoothing, learning=True)
        goal.backward()
        return float(nll.detach()), words

    def update(self, step: int, gradient: float) -> None:
        """Move the weights, with the gradient clipped to `how.clip` where that is set."""
        if self.how.clip and gradient > self.how.clip:
            for flat in self.learner.flats.values():
                flat.grad.mul_(self.how.clip / gradient)
        set_rates(self.optimizer, self.how, step)
        self.optimizer.step()

    @torch.no_grad()
    def validate(self) -> float:
        """Negative log-likelihood of the validation split, in nats per word."""
        if not self.held_out:
            batches = list(self.corpus.batches("val", VALIDATION_SIZE, task=self.how.task))
            self.held_out = batches[:: -(-len(batches) // VALIDATION)]  # of all lengths
        losses = [self.learner.loss(batch)[1:] for batch in self.held_out]
        return float(sum(nll * words for nll, words in losses) / sum(words for _, words in losses))

    def gradient_rows(self, step: int) -> list[tuple]:
        """The norm of every weight matrix's gradient at this step."""
        cfg, weights, seed = self.cfg, self.learner.weights, self.how.seed
        head = step, cfg.placement.key, cfg.depth, cfg.width
        grads = ((m, weights[m.name].grad) for m in matrices(cfg))
        return [(*head, *m.name, seed, float(grad.double().norm()), False) for m, grad in grads if grad is not None]

    def run(self) -> Run:
        """The run so far."""
        table = pd.DataFrame(self.rows, columns=list(COLUMNS))
        norms = [row for row in self.norms if row[0] <= len(self.rows)]
        gradients = pd.DataFrame(norms, columns=["step", *GRADIENT_COLUMNS])
        return Run(self.cfg, self.how, self.corpus.name, self.corpus.checksum, table, gradients, self.status)
