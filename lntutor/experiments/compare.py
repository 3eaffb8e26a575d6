"""Several training runs side by side: cases × seeds, on this machine's cores, each trained once and remembered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict

import pandas as pd

from lntutor import store
from lntutor.cells import Cell, compute, remembered
from lntutor.config import ModelConfig, TrainConfig, seed_list, shown, whole
from lntutor.corpus import Corpus
from lntutor.training import Run, Sample, check_run, train

Case = tuple[ModelConfig, TrainConfig]


def compare(
    cases: Mapping[str, Case],
    corpus: Corpus,
    *,
    seeds: Iterable[int] = range(3),
    pairs: int = 200,
    keep: bool = True,
    jobs: int | None = None,
    progress: bool = True,
) -> dict[str, list[Run]]:
    """Train every case with every seed: name → its runs, one a seed.

    A run that was trained before, with the same code on the same text, is read from the store; the others share
    the cores. An interrupt keeps the runs that have ended: the next call goes on from there.
    """
    seeds, pairs = seed_list(seeds), whole("pairs", pairs, 0, 10**9)
    for case in _pairs_of(cases):
        check_run(*case, corpus)
    wanted = {
        (name, seed): _cell(cfg, how.with_(seed=seed), corpus, pairs)
        for name, (cfg, how) in cases.items()
        for seed in seeds
    }
    options = {"keep": keep, "jobs": jobs, "long": True, "progress": progress, "unit": "run"}
    runs = dict(zip(wanted, compute(_one, list(wanted.values()), read=_read, **options), strict=True))
    return {name: [runs[name, seed] for seed in seeds] for name in cases}


def _pairs_of(cases: Mapping[str, Case]) -> list[Case]:
    """The cases, each of two settings, or a ValueError."""
    if not isinstance(cases, Mapping) or not cases:
        example = "{'Post-LN': (ModelConfig(), TrainConfig())}"
        raise ValueError(f"cases must be a dict such as {example}, got {shown(cases)}")
    for name, case in cases.items():
        if not isinstance(case, tuple) or len(case) != 2:
            raise ValueError(f"cases[{name!r}] must be (ModelConfig, TrainConfig), got {shown(case)}")
    return list(cases.values())


def _cell(cfg: ModelConfig, how: TrainConfig, corpus: Corpus, pairs: int) -> Cell:
    words = f"{cfg.placement.label}, {how.optimizer} {how.lr:g}, warm-up {how.warmup}, seed {how.seed}"
    return Cell((cfg, how, corpus, pairs), _key(cfg, how, corpus, pairs), words)


def _one(cfg: ModelConfig, how: TrainConfig, corpus: Corpus, pairs: int) -> dict:
    """A run, as the store has it."""
    run = train(cfg, how, corpus, pairs=pairs, progress=False)
    if run.status == "stopped":  # `train` keeps what it has; a comparison wants whole runs
        raise KeyboardInterrupt
    return _write(run)


def recall(cfg: ModelConfig, how: TrainConfig, corpus: Corpus, pairs: int = 200) -> Run | None:
    """The run of this case that the store has, if any."""
    cell = _cell(cfg, how, corpus, pairs)
    return next((run for _, run in remembered({cell.name: cell}, _read)), None)


def _key(cfg: ModelConfig, how: TrainConfig, corpus: Corpus, pairs: int) -> str:
    return store.key("run", store.fingerprint((cfg, how, corpus, pairs)))


def _write(run: Run) -> dict:
    tables = {name: getattr(run, name).to_dict("list") for name in ("table", "gradients")}
    told = {name: getattr(run, name) for name in ("corpus", "checksum", "status", "bleu")}
    return tables | told | {"samples": [asdict(sample) for sample in run.samples]}


def _read(entry: dict, cell: Cell) -> Run:
    samples = tuple(Sample(**sample) for sample in entry.pop("samples"))
    tables = {name: pd.DataFrame(entry.pop(name)) for name in ("table", "gradients")}
    return Run(*cell.given[:2], samples=samples, **tables, **entry)


# Tables of several runs ----------------------------------------------------------------------------------------


def curves(runs: Mapping[str, list[Run]]) -> pd.DataFrame:
    """Every step of every run: run, placement, seed and the columns of `Run.table`."""
    return _stack(runs, lambda run: run.table)


def gradients(runs: Mapping[str, list[Run]]) -> pd.DataFrame:
    """Every measured gradient of every run: run, and the columns of `Run.gradients`."""
    return _stack(runs, lambda run: run.gradients)


def _stack(runs, of) -> pd.DataFrame:
    parts = [
        of(run).assign(run=name, placement=run.model.placement.key, seed=run.how.seed)
        for name, several in runs.items()
        for run in several
    ]
    return pd.concat(parts, ignore_index=True)


def finals(runs: Mapping[str, list[Run]]) -> pd.DataFrame:
    """One row a run: run, placement, optimizer, lr, warmup, seed, status, steps, val_loss, bleu.

    The validation loss of a run that diverged is infinite, and its BLEU 0 where the task is translation.
    """

    def score(run: Run) -> float | None:
        return 0.0 if run.status == "diverged" and run.how.task == "translation" else run.bleu

    rows = [
        {
            "run": name, "placement": run.model.placement.key, "optimizer": run.how.optimizer, "lr": run.how.lr,
            "warmup": run.how.warmup, "seed": run.how.seed, "status": run.status, "steps": len(run.table),
            "val_loss": run.val_loss, "bleu": score(run),
        }
        for name, several in runs.items()
        for run in several
    ]  # fmt: skip
    return pd.DataFrame(rows)


def steps_to(run: Run, target: float) -> float:
    """The first validated step at which the validation loss is at or below a target; infinite where it never is."""
    reached = run.table[run.table["val_loss"] <= target]
    return float(reached["step"].iloc[0]) if len(reached) else float("inf")
