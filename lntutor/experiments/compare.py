"""Compare training runs: cases × seeds, each trained once and kept in the cache, and tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from lntutor.experiments import cache
from lntutor.experiments.cells import Cell, compute, remembered
from lntutor.experiments.fingerprint import fingerprint
from lntutor.model.checks import check_int, seed_list, short_repr
from lntutor.model.config import ModelConfig, TrainConfig
from lntutor.text.corpus import Corpus
from lntutor.training.trainer import Run, Sample, check_run, train

Case = tuple[ModelConfig, TrainConfig]


def compare(
    cases: Mapping[str, Case], corpus: Corpus, *, seeds: Iterable[int] = range(3), pairs: int = 200,
    keep: bool = True, jobs: int | None = None, client: Any = None, progress: bool = True,
) -> dict[str, list[Run]]:  # fmt: skip
    """Train every case with every seed: name → its runs, one per seed.

    Runs with the same code on the same text are read from the cache. The others run on all cores, or on the Dask
    cluster of `client`. An interrupt keeps the runs that have ended, and the next call goes on from there.
    """
    seeds, pairs = seed_list(seeds), check_int("pairs", pairs, 0, 10**9)
    _check_cases(cases, corpus)
    wanted = {
        (name, seed): _cell(cfg, how.with_(seed=seed), corpus, pairs)
        for name, (cfg, how) in cases.items()
        for seed in seeds
    }
    options = {"keep": keep, "jobs": jobs, "client": client, "long": True, "progress": progress, "unit": "run"}
    runs = dict(zip(wanted, compute(_one, list(wanted.values()), read=_read, **options), strict=True))
    return {name: [runs[name, seed] for seed in seeds] for name in cases}


def _check_cases(cases: Mapping[str, Case], corpus: Corpus) -> None:
    """A ValueError unless this is a dict of (ModelConfig, TrainConfig)."""
    if not isinstance(cases, Mapping) or not cases:
        example = "{'Post-LN': (ModelConfig(), TrainConfig())}"
        raise ValueError(f"cases must be a dict such as {example}, got {short_repr(cases)}")
    for name, case in cases.items():
        if not isinstance(case, tuple) or len(case) != 2:
            raise ValueError(f"cases[{name!r}] must be (ModelConfig, TrainConfig), got {short_repr(case)}")
        check_run(*case, corpus)


def _cell(cfg: ModelConfig, how: TrainConfig, corpus: Corpus, pairs: int) -> Cell:
    label = f"{cfg.placement.label}, {how.optimizer} {how.lr:g}, warm-up {how.warmup}, seed {how.seed}"
    key = cache.key("run", fingerprint((train, cfg, how, corpus, pairs)))
    return Cell((cfg, how, corpus, pairs), key, label)


def _one(cfg: ModelConfig, how: TrainConfig, corpus: Corpus, pairs: int) -> dict:
    """A run, as it is written to the cache."""
    run = train(cfg, how, corpus, pairs=pairs, progress=False)
    if run.status == "stopped":  # only complete runs are kept
        raise KeyboardInterrupt
    tables = {name: getattr(run, name).to_dict("list") for name in ("table", "gradients")}
    facts = {name: getattr(run, name) for name in ("corpus", "checksum", "status", "bleu")}
    return tables | facts | {"samples": [asdict(sample) for sample in run.samples]}


def recall(cfg: ModelConfig, how: TrainConfig, corpus: Corpus, pairs: int = 200) -> Run | None:
    """The run of this case in the cache, or None."""
    cell = _cell(cfg, how, corpus, pairs)
    return next((run for _, run in remembered({cell.key: cell}, _read)), None)


def _read(entry: dict, cell: Cell) -> Run:
    samples = tuple(Sample(**sample) for sample in entry.pop("samples"))
    tables = {name: pd.DataFrame(entry.pop(name)) for name in ("table", "gradients")}
    return Run(*cell.arguments[:2], samples=samples, **tables, **entry)


# Tables of runs ----------------------------------------------------------------------------------------


def curves(runs: Mapping[str, list[Run]]) -> pd.DataFrame:
    """Every step of every run: run, placement, seed and the columns of `Run.table`."""
    return _stack(runs, lambda run: run.table)


def gradients(runs: Mapping[str, list[Run]]) -> pd.DataFrame:
    """Every measured gradient of every run: run, and the columns of `Run.gradients`."""
    return _stack(runs, lambda run: run.gradients)


def _stack(runs, of) -> pd.DataFrame:
    named = [(name, run) for name, each in runs.items() for run in each]
    parts = [of(run).assign(run=name, placement=run.model.placement.key, seed=run.how.seed) for name, run in named]
    return pd.concat(parts, ignore_index=True)


def finals(runs: Mapping[str, list[Run]]) -> pd.DataFrame:
    """One row per run: run, placement, optimizer, lr, warmup, seed, status, steps, val_loss, bleu.

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
        for name, each in runs.items()
        for run in each
    ]  # fmt: skip
    return pd.DataFrame(rows)
