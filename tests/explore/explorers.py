"""Helpers for tests of explorers: all of them, values of their controls, and the two that do long work."""

import html
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

import lntutor as ln
from lntutor import explore
from lntutor.curvature import spectrum as curvature
from lntutor.explore.long_running import LongRunningExplorer
from lntutor.page.kit.panel import Chips, Control, Layers, Slider, Switch, TextField
from lntutor.text import corpus
from lntutor.training import trainer

NAMES = [name for name in explore.__all__ if name != "Playground"]  # whose controls are the page's own
WORKING = ("CurvatureExplorer", "TrainingExplorer", "TransplantExplorer")  # whose picture changes when Run is pressed
EXPLORERS = [getattr(explore, name) for name in NAMES]
SMALL = {"depth": 2, "width": 32, "tokens": 4, "seeds": 2}
SENTENCES = ("one", "to be or not to be", "<b>bold</b> & <script>alert(1)</script>", "ümläut 漢字 🙂", "", "a " * 30)


def has_several(control: Control) -> bool:
    """Whether its value is some of its options."""
    return isinstance(control, Layers) or (isinstance(control, Chips) and control.several)


def small(explorer: type, **state: Any):
    """An explorer of a small model."""
    return explorer(**{name: value for name, value in SMALL.items() if name in explorer().controls} | state)


def all_values(control: Control) -> list:
    """Every value of a control; a few of a text."""
    if isinstance(control, TextField):
        return list(SENTENCES)
    if isinstance(control, Switch):
        return [False, True]
    return list(control.values if isinstance(control, Slider) else control.options)


def some_values(control: Control) -> list:
    """Ends and middle of a slider, every option of a list, some sets of placements, some sentences."""
    values = all_values(control)
    if has_several(control):
        return [tuple(values[:1]), tuple(values), tuple(values[2:4])]
    if isinstance(control, Slider):
        return [values[0], values[len(values) // 2], values[-1]]
    return values


def choose(explorer, item: str) -> None:
    """Press an item of the menu of data."""
    explorer.buttons["data"].actions[item]()


def status_text(explorer) -> str:
    """The status line as it is read."""
    return html.unescape(explorer.status.value.split("</style>")[-1])


def without_clock(text: str) -> str:
    """A status line without the times in it."""
    return re.sub(r" · \d+ ms$|[Aa]bout \d+ (s|min)", "", text)


def same_picture(explorer, other) -> bool:
    """Whether two explorers, or an explorer and a figure, show the same."""
    return explorer.figure.to_json() == getattr(other, "figure", other).to_json()


def finish(explorer):
    """Press Run, and wait for the end."""
    explorer.run()
    explorer.wait(120)
    return explorer


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


# Explorers that do long work ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """One kind of long work: how to ask an explorer for a little of it, and how to do the same without an explorer."""

    explorer: type[LongRunningExplorer]
    tiny: dict[str, Any]
    results: str  # where the explorer keeps what it has made
    noun: str  # "1 run of 20 steps"
    nouns: str
    unit: str
    direct: Callable[..., Any]  # the same result for a placement, made directly
    same: Callable[[Any, Any], None]  # raises where two results differ
    line: str  # the uid of a curve begins with this

    def new(self, **state: Any):
        """An explorer that has not started yet."""
        return self.explorer(**{**self.tiny, **state})

    def finished(self, **state: Any):
        """An explorer that has done what it was asked for."""
        return finish(self.new(**state))

    def made(self, explorer) -> dict[str, Any]:
        return getattr(explorer, self.results)

    @property
    def steps(self) -> int:
        return self.tiny[self.unit]


def trained(placement="post", warmup=0, optimizer="adam", task="translation", seed=0):
    """The run of a tiny explorer, made by `train`."""
    cfg = ln.ModelConfig(placement, 1, 16, 4, 64, "encoder" if task == "masked_words" else "encoder-decoder")
    how = ln.TrainConfig(optimizer, 1e-3, warmup, steps=20, task=task, seed=seed, validate_every=2)
    return trainer.train(cfg, how, corpus.load_corpus(), pairs=8, samples=3, progress=False)


def same_run(run, other) -> None:
    """Equal but for the speed."""
    pd.testing.assert_frame_equal(*(one.table.drop(columns="tokens_per_second") for one in (run, other)))
    for name in ("model", "how", "status", "bleu", "samples"):
        assert getattr(run, name) == getattr(other, name)


def measured(placement="post", steps=10, depth=1, **how):
    """The spectrum of a tiny explorer, made by `hessian_spectrum`."""
    cfg = ln.ModelConfig(placement, depth, 16, 4, 64)
    return ln.hessian_spectrum(cfg, corpus.load_corpus(), pairs=10, steps=steps, progress=False, **how)


def same_spectrum(spectrum, other) -> None:
    """Equal in every number."""
    pd.testing.assert_frame_equal(spectrum.table(), other.table())


TRAINING = Work(
    explore.TrainingExplorer, {"depth": 1, "width": 16, "steps": 20, "lr": 1e-3}, "runs", "run", "runs", "steps",
    trained, same_run, "loss",
)  # fmt: skip
CURVATURE = Work(
    explore.CurvatureExplorer, {"depth": 1, "width": 16, "pairs": 10, "products": 10}, "spectra", "spectrum",
    "spectra", "products", measured, same_spectrum, "density",
)  # fmt: skip


def wrap_work(patch, before_item: Callable[[int], None]) -> None:
    """In an explorer's thread, call `before_item(number)` before it hears of a training step or a product."""

    def wrapped(work: Callable) -> Callable:
        def items(*arguments):
            for number, item in enumerate(work(*arguments), start=1):
                if threading.current_thread() is not threading.main_thread():
                    before_item(number)
                yield item

        return items

    patch.setattr(trainer, "steps", wrapped(trainer.steps))
    patch.setattr(curvature.Iteration, "run", wrapped(curvature.Iteration.run))
