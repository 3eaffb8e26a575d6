"""The warm-up transplant: a network of which some parts are warmed up, and the share of the gain that this brings."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import numpy as np
import pandas as pd

from lntutor.experiments.compare import Case
from lntutor.experiments.stored import EXPERIMENTS, stored_table
from lntutor.model.checks import check_choice
from lntutor.model.config import ModelConfig
from lntutor.training.optimizers import groups

EMBEDDINGS = "embeddings"
NETWORKS = {  # name → (stored table, placement)
    "post, 2-2": ("transplant", "post"),
    "pre, 2-2": ("transplant", "pre"),
    "post, 6-6": ("transplant_deep", "post"),
}
COLUMNS = ["case", "placement", "seed", "val_loss"]


def parts(cfg: ModelConfig) -> tuple[str, ...]:
    """What can be warmed up, from the input up: the embeddings, and every layer of every side."""
    return (EMBEDDINGS, *(f"{side}.{layer}" for side in cfg.sides for layer in range(1, cfg.depth + 1)))


def parts_of(case: Case) -> tuple[str, ...]:
    """The parts that a run warms up."""
    cfg, how = case
    group = groups(cfg, how)
    layers = {f"{side}.{layer}": (side, layer) for side in cfg.sides for layer in range(1, cfg.depth + 1)}
    places = {EMBEDDINGS: ("embedding", cfg.sides[0]), **layers}
    return tuple(part for part in parts(cfg) if how.warmup and group(places[part]) == "warm")


def case_of(network: str, warmed: Collection[str]) -> Case:
    """The run that warms up these parts alone."""
    cfg, how = _cases(check_choice("network", network, tuple(NETWORKS)))["everything"]
    for part in warmed:
        check_choice("part", part, parts(cfg))
    if not warmed:
        return cfg, how.with_(warmup=0)
    layers = tuple(part for part in parts(cfg) if part != EMBEDDINGS)
    if EMBEDDINGS in warmed:
        return cfg, how.with_(warmup_except=tuple(part for part in layers if part not in warmed))
    return cfg, how.with_(warmup_only=tuple(part for part in layers if part in warmed))


def stored_ways(network: str) -> dict[str, tuple[str, ...]]:
    """Name → parts that are warmed up, of the runs that are stored."""
    return {name: parts_of(case) for name, case in _cases(network).items()}


def way(network: str, warmed: Collection[str]) -> str:
    """What is warmed up, in words: as the stored table says it, or a list."""
    cfg, _ = _cases(network)["everything"]
    chosen = tuple(part for part in parts(cfg) if part in warmed)
    for name, stored in stored_ways(network).items():
        if chosen == stored:
            return name
    left = tuple(part for part in parts(cfg) if part not in warmed)
    short = EMBEDDINGS in chosen and len(left) < len(chosen)
    return f"all but {_listed(cfg, left)}" if short else _listed(cfg, chosen)


def _listed(cfg: ModelConfig, names: tuple[str, ...]) -> str:
    """The names, a whole side as one."""
    words = [EMBEDDINGS] if EMBEDDINGS in names else []
    for side in cfg.sides:
        of_side = [name for name in names if name.startswith(side)]
        words += [f"the {side}"] if len(of_side) == cfg.depth else of_side
    return " + ".join(words)


def stored_ends(network: str) -> pd.DataFrame:
    """The last validation loss of every stored run, infinite where it diverged: case, placement, seed, val_loss."""
    name, placement = NETWORKS[check_choice("network", network, tuple(NETWORKS))]
    return _ends(name, placement).copy()


@cache
def _ends(name: str, placement: str) -> pd.DataFrame:
    table = stored_table(name)
    table = table[table["placement"] == placement]
    ends = table.groupby(["run", "seed"], sort=False).tail(1)
    lost = ends["val_loss"].where(ends["status"] != "diverged", np.inf)
    return ends.assign(val_loss=lost, case=ends["run"].str.partition(", ")[2])[COLUMNS].reset_index(drop=True)


def shares_of_gain(ends: pd.DataFrame, scale: pd.DataFrame) -> pd.Series:
    """Of every run, the share of the gain: 0 is the mean loss with nothing warmed up in `scale`, 1 with everything."""
    cold, warm = (scale[scale["case"] == name]["val_loss"].mean() for name in ("nothing", "everything"))
    return (cold - ends["val_loss"]) / (cold - warm)


def _cases(network: str) -> dict[str, Case]:
    """Way → its run."""
    name, placement = NETWORKS[network]
    cases = EXPERIMENTS[name].cases()  # pyright: ignore[reportAttributeAccessIssue] - training runs, not a sweep
    return {run.partition(", ")[2]: case for run, case in cases.items() if run.startswith(f"{placement}, ")}
