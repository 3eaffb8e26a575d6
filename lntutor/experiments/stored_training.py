"""Sizes of the stream and of the gradients by layer, before and after training."""

from __future__ import annotations

from copy import copy
from functools import partial

import pandas as pd
import torch

from lntutor.experiments.stored_spectra import SIX_LAYERS, SIX_SIZE, StoredSweep
from lntutor.measure.recorder import Recorder
from lntutor.model.config import Batch, TrainConfig
from lntutor.model.placements import PLACEMENTS
from lntutor.text.corpus import Corpus
from lntutor.training.network import Learner, Quick
from lntutor.training.trainer import Trainer

HOW = TrainConfig(lr=4e-3, warmup=50, steps=300, batch=32, schedule="constant", validate_every=10**6)
PAIRS = 64  # held-out pairs to measure on


def layer_sizes(learner: Learner, batch: Batch) -> pd.DataFrame:
    """The stream and the gradient of W_2 in every layer, at the learner's present weights.

    Columns: side, layer, signal (‖x‖²/d after the layer), gradient (‖∂L/∂W_2‖_F).
    """
    watch, twin = Recorder(lambda name: False), copy(learner)
    twin.reads = partial(Quick, watch=watch)
    loss, signals = twin.loss(batch)[0], watch.signals
    sizes = {at[:2]: float(x.detach().square().mean()) for at, x in signals.items() if at[2] == "out"}
    slopes = torch.autograd.grad(loss, [learner.weights[*at, "ffn", "W_2"] for at in sizes])
    rows = [(*at, size, float(g.double().norm())) for (at, size), g in zip(sizes.items(), slopes, strict=True)]
    return pd.DataFrame(rows, columns=["side", "layer", "signal", "gradient"])


def trained(text: Corpus, placement: str, seed: int) -> pd.DataFrame:
    """The stream and the gradient of W_2 by layer, before and after training with a short warm-up."""
    trainer = Trainer(SIX_LAYERS.with_(placement=placement), HOW.with_(seed=seed), text)
    batch = text.batch("val", PAIRS)
    parts = [layer_sizes(trainer.learner, batch).assign(step=0, loss=float("nan"))]
    for step in range(1, HOW.steps + 1):
        trainer.step(step)
        if trainer.status == "diverged":
            break
    else:
        parts.append(layer_sizes(trainer.learner, batch).assign(step=HOW.steps, loss=trainer.validate()))
    return pd.concat(parts, ignore_index=True)


TRAINED = {
    "trained": StoredSweep(
        trained,
        {"placement": tuple(PLACEMENTS), "seed": range(3)},
        f"encoder-decoder of {SIX_SIZE}; {HOW.steps} steps "
        f"of {HOW.batch} sentences, Adam {HOW.lr:g}, warm-up {HOW.warmup}; the first {PAIRS} validation pairs; 3 seeds",
    )
}
