"""Measurements of curvature that take too long for a lesson; stored.py writes their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pandas as pd
import torch

from lntutor.curvature.hessian import by_length
from lntutor.curvature.spectrum import ends, hessian_blocks, hessian_spectrum
from lntutor.experiments.sweep import sweep
from lntutor.model.config import ModelConfig, TrainConfig
from lntutor.model.placements import PLACEMENTS
from lntutor.text.corpus import Corpus
from lntutor.training.optimizers import BETAS, learning_rate
from lntutor.training.trainer import Trainer

SIX_LAYERS = ModelConfig("post", depth=6, width=32, heads=4, ffn=128)  # the talk's 6-6 model, for two cores
PAIRS, PRODUCTS = 1000, 30  # of a spectrum
BLOCK_PAIRS, BLOCK_PRODUCTS = 60, 8
END_PAIRS, END_PRODUCTS = 200, 20  # for the ends of a spectrum
LOOK_PAIRS, LOOK_PRODUCTS = 60, 12  # along training
SEEN_AFTER = (0, 1, 10, 50, 100, 300)  # training steps after which the curvature is measured


@dataclass(frozen=True)
class StoredSweep:
    """A table made by a sweep."""

    cell: Callable[..., pd.DataFrame]  # of a corpus and one value per key of `over`
    over: dict[str, Iterable]
    setting: str  # sizes, for the head of the file

    @property
    def summary(self) -> str:
        """What is measured."""
        return (self.cell.__doc__ or "").strip()

    def make(self, text: Corpus, jobs: int | None) -> tuple[pd.DataFrame, str]:
        """The table and its setting; cells that are not in the cache run on all cores."""
        from joblib import cpu_count

        return sweep(self.cell, self.over, base=text, jobs=cpu_count() if jobs is None else jobs), self.setting


def hessian(text: Corpus, placement: str, kind: str, seed: int) -> pd.DataFrame:
    """The talk's experiment: spectra of the Hessian at initialisation, one row per eigenvalue of Lanczos' matrix T."""
    how = {"pairs": PAIRS, "steps": PRODUCTS, "seed": seed, "kind": kind, "memory": 5e9}
    return hessian_spectrum(SIX_LAYERS.with_(placement=placement), text, progress=False, **how).table()


def blocks(text: Corpus, placement: str, seed: int) -> pd.DataFrame:
    """Where the curvature is: both ends of the spectrum of every layer's and matrix's block of the Hessian."""
    cfg = SIX_LAYERS.with_(placement=placement)
    return hessian_blocks(cfg, text, progress=False, pairs=BLOCK_PAIRS, steps=BLOCK_PRODUCTS, seed=seed)


def curvatures(text: Corpus, placement: str, kind: str, seed: int) -> pd.DataFrame:
    """Both ends of the Hessian's spectrum at initialisation and its root mean square, for every placement."""
    how = {"pairs": END_PAIRS, "steps": END_PRODUCTS, "seed": seed, "kind": kind}
    s = hessian_spectrum(SIX_LAYERS.with_(placement=placement), text, progress=False, **how)
    found = {"lambda_max": s.lambda_max, "error": s.lambda_max_error, "lambda_min": s.lambda_min, "rms": s.rms}
    return pd.DataFrame([found])


def along_training(
    text: Corpus, cfg: ModelConfig, how: TrainConfig, *, after: Iterable[int] = SEEN_AFTER, pairs: int = LOOK_PAIRS
) -> pd.DataFrame:
    """Curvature on held-out pairs along a training run, of the loss and preconditioned by Adam.

    Columns: placement, lr, warmup, seed, step, loss, rate (of the next step), lambda_max, lambda_min, adam_max (missing
    before the first step).
    """
    trainer, held_out, rows = Trainer(cfg, how, text), by_length(text, "val", pairs), []
    case = {"placement": cfg.placement.key, "lr": how.lr, "warmup": how.warmup, "seed": how.seed}
    for step in range(max(after) + 1):
        if step:
            trainer.step(step)
        if trainer.status == "diverged":
            break
        if step in after:
            raw = ends(trainer.learner, held_out, steps=LOOK_PRODUCTS)
            squares = adam_squares(trainer, step) if step else None
            seen = ends(trainer.learner, held_out, steps=LOOK_PRODUCTS, squares=squares) if step else None
            found = {"loss": raw.loss, "rate": learning_rate(how, step + 1), "lambda_max": raw.lambda_max}
            found |= {"lambda_min": raw.lambda_min, "adam_max": seen.lambda_max if seen else float("nan")}
            rows.append(case | {"step": step} | found)
    return pd.DataFrame(rows)


def adam_squares(trainer: Trainer, step: int) -> torch.Tensor:
    """Adam's mean of squared gradients after a step, corrected for its start at 0, in the order of the weights."""
    squares = [trainer.optimizer.state[flat]["exp_avg_sq"] for flat in trainer.learner.flats.values()]
    return torch.cat(squares) / (1 - BETAS[1] ** step)


def sharpness(text: Corpus, placement: str, lr: float, warmup: int, seed: int) -> pd.DataFrame:
    """Curvature along training: both ends of the Hessian's spectrum, and the largest eigenvalue that Adam sees."""
    cfg = ModelConfig(placement, depth=2, width=64, heads=4, ffn=256)
    how = TrainConfig(lr=lr, warmup=warmup, seed=seed, steps=300, batch=32, schedule="constant", validate_every=10**6)
    return along_training(text, cfg, how)


SIX_SIZE = f"depth {SIX_LAYERS.depth}, width {SIX_LAYERS.width}, {SIX_LAYERS.heads} heads, FFN {SIX_LAYERS.ffn}"
_SIX_SIX = f"encoder-decoder of {SIX_SIZE}"
SPECTRA = {
    "hessian": StoredSweep(
        hessian, {"placement": ("post", "pre", "peri"), "kind": ("hessian", "relative"), "seed": range(3)},
        f"{_SIX_SIX}; first {PAIRS} validation pairs; {PRODUCTS} products of one probe; 3 seeds",
    ),
    "blocks": StoredSweep(
        blocks, {"placement": ("post", "pre"), "seed": range(3)},
        f"{_SIX_SIX}; first {BLOCK_PAIRS} validation pairs; {BLOCK_PRODUCTS} products a block; 3 seeds",
    ),
    "curvatures": StoredSweep(
        curvatures, {"placement": tuple(PLACEMENTS), "kind": ("hessian", "relative"), "seed": range(3)},
        f"{_SIX_SIX}; first {END_PAIRS} validation pairs; {END_PRODUCTS} products of one probe; 3 seeds",
    ),
    "sharpness": StoredSweep(
        sharpness, {"placement": ("post", "pre"), "lr": (1e-3, 1e-2), "warmup": (0, 100), "seed": range(3)},
        "encoder-decoder of depth 2, width 64, 4 heads, FFN 256; 300 steps of 32 sentences, Adam; curvature on the "
        f"first {LOOK_PAIRS} validation pairs, {LOOK_PRODUCTS} products; 3 seeds",
    ),
}  # fmt: skip
