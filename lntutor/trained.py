"""What training does to a network, layer by layer: the size of its stream and of its gradients, before and after."""

from __future__ import annotations

from copy import copy
from functools import partial

import pandas as pd

from lntutor.config import Batch, TrainConfig
from lntutor.corpus import Corpus
from lntutor.learner import Learner, Quick
from lntutor.model import Watch
from lntutor.placements import PLACEMENTS
from lntutor.spectra import SIX, Measured
from lntutor.training import Trainer

HOW = TrainConfig(lr=4e-3, warmup=50, steps=300, batch=32, schedule="constant", validate_every=10**6)
PAIRS = 64  # held-out pairs on which the layers are looked at


class Stream(Watch):
    """‖x‖²/d of what leaves every layer, mean over words."""

    def __init__(self):
        self.found: dict[tuple[str, int], float] = {}

    def site(self, side, layer, site, x):
        if site == "out":
            self.found[side, layer] = float(x.detach().square().mean())


def by_layer(learner: Learner, batch: Batch) -> pd.DataFrame:
    """The stream and the gradient of W_2 in every layer, with the weights as they are now.

    Columns: side, layer, signal (‖x‖²/d after the layer), gradient (‖∂L/∂W_2‖_F). The learner's gradients are spent.
    """
    seen, twin = Stream(), copy(learner)
    twin.reads = partial(Quick, watch=seen)
    twin.zero_grad()
    twin.loss(batch)[0].backward()
    rows = [
        (side, layer, signal, float(learner.weights[side, layer, "ffn", "W_2"].grad.double().norm()))
        for (side, layer), signal in seen.found.items()
    ]
    return pd.DataFrame(rows, columns=["side", "layer", "signal", "gradient"])


def trained(text: Corpus, placement: str, seed: int) -> pd.DataFrame:
    """The stream and the gradient of W_2 by layer, before and after training with a short warm-up."""
    trainer, batch = Trainer(SIX.with_(placement=placement), HOW.with_(seed=seed), text), text.batch("val", PAIRS)
    parts = [by_layer(trainer.learner, batch).assign(step=0, loss=float("nan"))]
    for step in range(1, HOW.steps + 1):
        trainer.step(step)
        if trainer.status == "diverged":
            break
    else:
        parts.append(by_layer(trainer.learner, batch).assign(step=HOW.steps, loss=trainer.validate()))
    return pd.concat(parts, ignore_index=True)


TRAINED = {
    "trained": Measured(
        trained,
        {"placement": tuple(PLACEMENTS), "seed": range(3)},
        f"encoder-decoder of depth {SIX.depth}, width {SIX.width}, {SIX.heads} heads, FFN {SIX.ffn}; {HOW.steps} steps "
        f"of {HOW.batch} sentences, Adam {HOW.lr:g}, warm-up {HOW.warmup}; the first {PAIRS} validation pairs; 3 seeds",
    ),
}
