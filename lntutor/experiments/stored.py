"""Tables that take too long for a lesson: `python -m lntutor results NAME` writes one to data/results.

The first lines of each file hold the command that made it, the corpus and the sizes. Runs and measurements are cached
one by one, so an interrupted command goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path

import pandas as pd

from lntutor import ROOT
from lntutor.experiments.compare import Case, compare, curves, finals, gradients
from lntutor.experiments.stored_spectra import SIX_LAYERS, SPECTRA
from lntutor.experiments.stored_training import TRAINED
from lntutor.model.checks import check_choice
from lntutor.model.config import ModelConfig, TrainConfig
from lntutor.model.placements import PLACEMENTS, Placement, each, final_norm
from lntutor.text import files
from lntutor.text.corpus import Corpus, load_corpus
from lntutor.training.trainer import Run

FOLDER = ROOT / "data" / "results"
STORED_CORPORA = ("captions", "multi30k")
GO_ON = "The runs that have ended are remembered, and the same command goes on from there"
SMALL_MODEL = ModelConfig("post", depth=2, width=64, heads=4, ffn=256)  # the model of most tables
QUICK_TRAINING = TrainConfig(steps=300, batch=32, schedule="constant")  # so that warm-up changes only the first steps
LONG = TrainConfig(steps=600, batch=32, validate_every=50)  # the paper's schedule
PRE_WITHOUT_SKIP = Placement(
    "no residual, LN first", "x ← f(N(x)), final N", each(lambda x, f, N, at: f(N(x))), finish=final_norm,
    key="no_residual_pre",
)  # fmt: skip


# The experiments -----------------------------------------------------------------------------------------------


def _pair(cfg: ModelConfig = SMALL_MODEL) -> list[ModelConfig]:
    return [cfg.with_(placement=key) for key in ("post", "pre")]


def _cases(*cases: Case) -> dict[str, Case]:
    def name(cfg: ModelConfig, how: TrainConfig) -> str:
        warm = f"warm-up {how.warmup}" if how.warmup else "no warm-up"
        return f"{cfg.placement.label}, {how.optimizer} {how.lr:g}, {warm}"

    return {name(*case): case for case in cases}


def warmup() -> dict[str, Case]:
    """Rate × warm-up for Post-LN and Pre-LN with Adam: the heat map."""
    rates, warmups = (3e-4, 1e-3, 3e-3, 1e-2), (0, 25, 100, 200)
    return _cases(*((m, QUICK_TRAINING.with_(lr=lr, warmup=w)) for m in _pair() for lr in rates for w in warmups))


def optimizers() -> dict[str, Case]:
    """SGD with and without warm-up, RAdam and GI-Adam without: can an optimiser replace warm-up?"""
    sgd = [QUICK_TRAINING.with_(optimizer="sgd", lr=lr, warmup=w) for lr in (0.03, 0.1, 0.3) for w in (0, 100)]
    others = [QUICK_TRAINING.with_(optimizer=name, lr=lr) for name in ("radam", "gi_adam") for lr in (3e-3, 1e-2)]
    return _cases(*((m, how) for m in _pair() for how in (*sgd, *others)))


def four() -> dict[str, Case]:
    """The talk's four requirements, left out one at a time, for Post-LN and Pre-LN, each at three rates."""
    cases = {}
    for key, skipless in (("post", "no_residual"), ("pre", PRE_WITHOUT_SKIP)):
        m = SMALL_MODEL.with_(placement=key)
        for lr in (1e-3, 3e-3, 1e-2):
            how = QUICK_TRAINING.with_(lr=lr, warmup=100)
            cases |= {
                f"{key}, nothing, {lr:g}": (m, how),
                f"{key}, warm-up, {lr:g}": (m, how.with_(warmup=0)),
                f"{key}, LN, {lr:g}": (m.with_(placement="none"), how),
                f"{key}, residual, {lr:g}": (m.with_(placement=skipless), how),
            }
        for lr in (0.03, 0.1, 0.3):
            cases[f"{key}, Adam, {lr:g}"] = (m, QUICK_TRAINING.with_(optimizer="sgd", lr=lr, warmup=100))
    return cases


def figure2() -> dict[str, Case]:
    """Figure 2 in small: Post-LN, Adam and SGD at two rates each, the paper's schedule.

    Warm-up 1 is the paper's "none", which decays at once; 0 is a constant rate.
    """
    adam = [LONG.with_(lr=lr, warmup=w) for lr in (5e-3, 1e-2) for w in (0, 1, 50, 200)]
    sgd = [LONG.with_(optimizer="sgd", lr=lr, warmup=w) for lr in (0.1, 0.5) for w in (1, 200)]
    return _cases(*((SMALL_MODEL, how) for how in (*adam, *sgd)))


def figure4() -> dict[str, Case]:
    """Figure 4 in small: Post-LN with warm-up against Pre-LN without, with Adam and with RAdam, at two rates."""
    post, pre = _pair()
    cases = [(post, LONG.with_(lr=lr, warmup=200)) for lr in (5e-3, 1e-2)]
    cases += [(pre, LONG.with_(optimizer=name, lr=lr)) for name in ("adam", "radam") for lr in (5e-3, 1e-2)]
    return _cases(*cases)


def figure5() -> dict[str, Case]:
    """Figure 5 in small: masked words, an encoder of four layers, Post-LN with warm-up and Pre-LN without."""
    how = TrainConfig(task="masked_words", schedule="linear", steps=600, batch=64, validate_every=25)
    post, pre = _pair(SMALL_MODEL.with_(stack="encoder", depth=4))
    cases = [(post, how.with_(lr=lr, warmup=w)) for lr in (1e-3, 3e-3) for w in (0, 100)]
    return _cases(*cases, *((pre, how.with_(lr=lr)) for lr in (1e-3, 3e-3)))


def layers() -> dict[str, Case]:
    """Figure 3's third bar: the gradient of every layer of a 6-6 model over training, with and without warm-up.

    At 0.001 both placements train; at 0.003 Post-LN does not.
    """
    how = QUICK_TRAINING.with_(steps=200, validate_every=20)
    hows = [how.with_(lr=lr, warmup=w) for lr in (1e-3, 3e-3) for w in (0, 100)]
    post, pre = _pair(SMALL_MODEL.with_(depth=6))
    return _cases(*((post, how) for how in hows), *((pre, how) for how in hows[:2]))


def transplanted(cfg: ModelConfig, how: TrainConfig) -> dict[str, Case]:
    """Runs by what is warmed up: nothing, everything, one side, the first or last layer, or all but that layer."""
    first, last = "encoder.1", f"decoder.{cfg.depth}"
    ways = {"nothing": {"warmup": 0}, "everything": {}, "the encoder": {"warmup_only": "encoder"},
            "the decoder": {"warmup_only": "decoder"}}  # fmt: skip
    for layer in (last, first):
        ways |= {f"{layer} alone": {"warmup_only": layer}, f"all but {layer}": {"warmup_except": layer}}
    return {f"{cfg.placement.key}, {name}": (cfg, how.with_(**changes)) for name, changes in ways.items()}


def transplant() -> dict[str, Case]:
    """Warm up some layers only, in a 2-2 model at 0.01: is it the last decoder layer, whose gradient is large?"""
    post, pre = (transplanted(m, QUICK_TRAINING.with_(lr=1e-2, warmup=100, validate_every=50)) for m in _pair())
    return post | pre


def transplant_deep() -> dict[str, Case]:
    """The same in a 6-6 Post-LN model, at a rate at which it trains with warm-up alone."""
    return transplanted(SMALL_MODEL.with_(depth=6), QUICK_TRAINING.with_(lr=2e-3, warmup=200, steps=400))


def rates() -> dict[str, Case]:
    """Up to which rate every placement trains without warm-up: the 6-6 model whose spectra are stored."""
    lrs = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2)
    models = [SIX_LAYERS.with_(placement=key) for key in PLACEMENTS]
    return _cases(*((m, QUICK_TRAINING.with_(lr=lr, steps=150, validate_every=150)) for m in models for lr in lrs))


def deep() -> dict[str, Case]:
    """Eighteen layers per side, every placement, with warm-up: which of them train at all?"""
    how = QUICK_TRAINING.with_(lr=2e-3, warmup=100, steps=150, validate_every=150)
    return _cases(*((SIX_LAYERS.with_(placement=key, depth=18), how) for key in PLACEMENTS))


def validations(runs: dict[str, list[Run]]) -> pd.DataFrame:
    """One row per validation: the columns of `finals`, the step and its validation loss."""
    ends = finals(runs).drop(columns=["val_loss", "steps"])
    parts = [run.table[["step", "val_loss"]].dropna().assign(run=name, seed=run.how.seed)
             for name, each in runs.items() for run in each]  # fmt: skip
    return ends.merge(pd.concat(parts, ignore_index=True), on=["run", "seed"], how="left")


def gradients_by_layer(runs: dict[str, list[Run]]) -> pd.DataFrame:
    """The gradients of W_2 at every validation, and the run's last validation loss."""
    table = gradients(runs)
    table = table[table["parameter"] == "W_2"].drop(columns=["block", "below_floor"])
    return table.merge(finals(runs)[["run", "seed", "lr", "warmup", "val_loss"]], on=["run", "seed"])


def losses_by_ten(runs: dict[str, list[Run]]) -> pd.DataFrame:
    """The training loss of every run, a mean over ten steps at a time. Columns: those of `of_run`, step, loss."""
    table = curves(runs)
    table["step"] = -(-table["step"] // 10) * 10
    return of_run(runs, table.groupby(["run", "seed", "step"], sort=False)["loss"].mean().reset_index())


def translations(runs: dict[str, list[Run]]) -> pd.DataFrame:
    """The first held-out sentences, translated by every run. Columns: of `of_run`, source, reference, translation."""
    rows = [
        {"run": name, "seed": run.how.seed, **asdict(sample)}
        for name, each in runs.items() for run in each for sample in run.samples
    ]  # fmt: skip
    return of_run(runs, pd.DataFrame(rows))


def of_run(runs: dict[str, list[Run]], table: pd.DataFrame) -> pd.DataFrame:
    """The table with the setting of its runs in front: run, placement, lr, warmup, seed."""
    return finals(runs)[["run", "placement", "lr", "warmup", "seed"]].merge(table, on=["run", "seed"])


@dataclass(frozen=True)
class Experiment:
    """A table made of training runs: cases, each with several seeds."""

    cases: Callable[[], dict[str, Case]]
    seeds: int = 3
    pairs: int = 200  # held-out sentences for BLEU
    table: Callable[[dict[str, list[Run]]], pd.DataFrame] = validations

    @property
    def summary(self) -> str:
        """What is trained."""
        return (self.cases.__doc__ or "").strip()

    def make(self, text: Corpus, jobs: int | None) -> tuple[pd.DataFrame, str]:
        """The table, and the sizes for the head of the file."""
        runs = compare(self.cases(), text, seeds=range(self.seeds), pairs=self.pairs, jobs=jobs)
        one = next(iter(runs.values()))[0]
        m, how = one.model, one.how
        scored = f"; BLEU on the first {self.pairs} test sentences" if self.pairs else ""
        model = f"{m.stack} of depth {m.depth}, width {m.width}, {m.heads} heads, FFN {m.ffn}"
        seeds = f"{self.seeds} seeds" if self.seeds > 1 else "seed 0"
        return self.table(runs), f"{model}; {how.steps} steps of {how.batch} sentences; {seeds}{scored}"


EXPERIMENTS = {
    "warmup": Experiment(warmup),
    "warmup_losses": Experiment(warmup, seeds=1, table=losses_by_ten),
    "warmup_translations": Experiment(warmup, seeds=1, table=translations),
    "optimizers": Experiment(optimizers),
    "four": Experiment(four),
    "figure2": Experiment(figure2, pairs=500),
    "figure4": Experiment(figure4, pairs=500),
    "figure5": Experiment(figure5, pairs=0),
    "layers": Experiment(layers, pairs=0, table=gradients_by_layer),
    "transplant": Experiment(transplant, seeds=4, pairs=0),
    "transplant_deep": Experiment(transplant_deep, pairs=0),
    "rates": Experiment(rates, pairs=0),
    "deep": Experiment(deep, pairs=0),
    **SPECTRA,
    **TRAINED,
}


# Files ---------------------------------------------------------------------------------------------------------


def file_of(name: str, corpus: str) -> Path:
    """The file of a table."""
    return FOLDER / f"{name}_{corpus}.csv"


def stored_table(name: str, corpus: str = "captions") -> pd.DataFrame:
    """A stored table; `table.attrs["made by"]` is the command that made it."""
    path = file_of(check_choice("name", name, tuple(EXPERIMENTS)), check_choice("corpus", corpus, STORED_CORPORA))
    if not path.is_file():
        there = ", ".join(stems()) or "none"
        raise ValueError(
            f"There is no stored table {name}_{corpus}; there are {there}. `python -m lntutor results NAME` makes one, "
            f"NAME among {', '.join(EXPERIMENTS)}, on {' or '.join(STORED_CORPORA)}"
        )
    try:
        return load(path)
    except ValueError as error:  # cut short, or half a merge
        again = f"`git checkout -- data/results` or `python -m lntutor results {name} --corpus {corpus}` makes it again"
        raise ValueError(f"data/results/{path.name} is not a table ({error}): {again}") from None


def stems() -> list[str]:
    """The names of the stored tables, NAME_CORPUS."""
    return sorted(path.stem for path in FOLDER.glob("*_*.csv"))


def load(path: Path, **how) -> pd.DataFrame:
    """A table that `write` wrote: its first lines go into `attrs`, the rest is read by pandas.read_csv(**how)."""
    text = path.read_text(encoding="utf-8").split("\n")
    head = [line[2:] for line in takewhile(lambda line: line.startswith("# "), text)]
    table = pd.read_csv(path, skiprows=len(head), **how)
    table.attrs = {"made by": head[0] if head else "", "setting": head[1:]}
    return table


def write(table: pd.DataFrame, path: Path, head: list[str]) -> None:
    """Write a table, and its checksum into SHA256SUMS beside it."""
    lines = "".join(f"# {line}\n" for line in head)
    files.put(path, lines + table.to_csv(index=False, float_format="%.5g", lineterminator="\n"))
    sums = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in sorted(path.parent.glob("*.csv"))]
    files.put(path.parent / "SHA256SUMS", "".join(sums))


def make(name: str, corpus: str = "captions", *, jobs: int | None = None, folder: Path | None = None) -> pd.DataFrame:
    """Run an experiment and write its table."""
    import torch

    experiment, text = EXPERIMENTS[check_choice("name", name, tuple(EXPERIMENTS))], load_corpus(corpus)
    table, setting = experiment.make(text, jobs)
    head = [
        f"python -m lntutor results {name} --corpus {corpus}",
        f"{text.name}, SHA-256 {text.checksum}, torch {torch.__version__.partition('+')[0]}",
        setting,
    ]
    write(table, (folder or FOLDER) / file_of(name, corpus).name, head)
    return table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m lntutor results`."""
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"among {', '.join(EXPERIMENTS)} (default: all)")
    parser.add_argument("--corpus", choices=STORED_CORPORA, default="captions", help="the text (default: captions)")
    parser.add_argument("--jobs", type=int, help="runs at a time (default: as many as there are cores)")


def run(args: argparse.Namespace) -> None:
    """Make the tables one by one."""
    unknown = [name for name in args.names if name not in EXPERIMENTS]
    if unknown:
        raise ValueError(f"there is no experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}")
    for name in args.names or EXPERIMENTS:
        print(f"{name}: {EXPERIMENTS[name].summary}")
        try:
            make(name, args.corpus, jobs=args.jobs)
        except OSError as error:
            error.add_note(f"data/results was not written. {GO_ON}.")
            raise
        print(f"written: data/results/{file_of(name, args.corpus).name}")
