"""Several training runs side by side: cases × seeds, on this machine's cores, each trained once and remembered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields

import pandas as pd

from lntutor import store
from lntutor.config import ModelConfig, TrainConfig, seed_list, whole
from lntutor.corpus import Corpus
from lntutor.training import Run, Sample, train

Case = tuple[ModelConfig, TrainConfig]
store.code()  # now, in every process: the code that was imported, not what the files hold later


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
    from joblib import Parallel, cpu_count, delayed
    from tqdm.auto import tqdm

    seeds, pairs = seed_list(seeds), whole("pairs", pairs, 0, 10**9)
    jobs = cpu_count() if jobs is None else whole("jobs", jobs, 1, 1024)
    wanted = {(name, seed): (cfg, how.with_(seed=seed)) for name, (cfg, how) in cases.items() for seed in seeds}
    every = list(dict.fromkeys(wanted.values()))  # two names for one case are one run
    kept = {case: run for case in every if keep and (run := recall(*case, corpus, pairs)) is not None}
    rest = [case for case in every if case not in kept]
    jobs = min(len(rest), jobs)
    words = f"{len(every)} runs" + (f", {len(kept)} remembered" if kept else "")
    with tqdm(total=len(every), initial=len(kept), desc=words, unit="run", disable=not progress) as bar:
        if jobs > 1:
            work = (delayed(_one)(i, *case, corpus, pairs, keep) for i, case in enumerate(rest))
            done = Parallel(jobs, return_as="generator_unordered")(work)
        else:
            done = (_one(i, *case, corpus, pairs, keep) for i, case in enumerate(rest))
        for i, run in done:
            kept[rest[i]] = run
            bar.update()
    return {name: [kept[wanted[name, seed]] for seed in seeds] for name in cases}


def _one(i: int, cfg: ModelConfig, how: TrainConfig, corpus: Corpus, pairs: int, keep: bool) -> tuple[int, Run]:
    """The i-th run, on one thread: several share the machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        run = train(cfg, how, corpus, pairs=pairs, progress=False)
    finally:
        torch.set_num_threads(before)
    if run.status == "stopped":  # `train` keeps what it has; a comparison wants whole runs
        raise KeyboardInterrupt
    if keep:
        store.save(_key(cfg, how, corpus, pairs), _write(run))
    return i, run


def recall(cfg: ModelConfig, how: TrainConfig, corpus: Corpus, pairs: int = 200) -> Run | None:
    """The run of this case that the store has, if any."""
    entry = store.load(_key(cfg, how, corpus, pairs))
    try:
        return None if entry is None else _read(entry, cfg, how)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # of another shape than ours: trained again


def _key(cfg: ModelConfig, how: TrainConfig, corpus: Corpus, pairs: int) -> str:
    placement = cfg.placement
    rule = [store.fingerprint(getattr(placement, f.name)) for f in fields(placement) if f.name != "taps"]
    taps = [(name, store.fingerprint(tap)) for name, tap in sorted(placement.taps.items())]
    sizes = len(corpus.source), len(corpus.target), len(corpus.pairs("train"))
    return store.key("run", repr(cfg), rule, taps, how, corpus.name, corpus.checksum, corpus.lower, sizes, pairs)


def _write(run: Run) -> dict:
    tables = {name: getattr(run, name).to_dict("list") for name in ("table", "gradients")}
    told = {name: getattr(run, name) for name in ("corpus", "checksum", "status", "bleu")}
    return tables | told | {"samples": [asdict(sample) for sample in run.samples]}


def _read(entry: dict, cfg: ModelConfig, how: TrainConfig) -> Run:
    samples = tuple(Sample(**sample) for sample in entry.pop("samples"))
    tables = {name: pd.DataFrame(entry.pop(name)) for name in ("table", "gradients")}
    return Run(cfg, how, samples=samples, **tables, **entry)


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
