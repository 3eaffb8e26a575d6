"""The playground's engine alone in a page, and its tables beside Python's: for the tests and for the benchmark."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from playwright.sync_api import Browser, Page

import lntutor as ln
from lntutor.measure.gradients import norms_and_floors
from lntutor.measure.recorder import AGREEMENT, FAINT, Uses, there_and_back
from lntutor.model.parameters import matrices
from lntutor.model.placements import has_skip
from lntutor.page.playground.page import as_script, graph_of, module

MATRIX = ["side", "layer", "block", "parameter"]
SITE = ["side", "layer", "site"]
MEASURES = {"gradients": (MATRIX, ln.gradient_norms), "signals": (SITE, ln.signal_norms)}
ROUND_OFF = 1e-7  # theory takes roots of sums: where x − x is 0, √ε is left
DEFAULTS: dict[str, Any] = {
    "depth": 6, "width": 128, "stack": "encoder-decoder", "heads": 4, "tokens": 16, "attention": "softmax",
    "init": "xavier", "ffn": 4, "output_projection": True, "norm": "layer", "seeds": 1, "theory": True, "along": None,
}  # fmt: skip
NAMES = "Client, KERNEL, WORKER"
ASK = """
globalThis.open = (sample) => new Client({ sample })
globalThis.plain = (result) => JSON.parse(JSON.stringify(result, (key, value) => {
  if (key === "config") return undefined
  if (ArrayBuffer.isView(value)) return [...value]
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value
}))
globalThis.ask = (client, config) => new Promise((resolve) => client.request(config, {
  onResult: (result) => result.done && resolve(plain(result)),
  onError: (sentence) => resolve({ sentence }),
}))
globalThis.askAll = async (jobs, graphs, sample) => {
  const client = globalThis.kept[sample] ??= open(sample)
  const results = []
  for (const { graph, ...job } of jobs) results.push(await ask(client, { ...job, graph: graphs[graph] }))
  return results
}
globalThis.kept = {}
globalThis.ready = true
"""  # the engine's `Client`, asked job by job; JSON has no Infinity


@dataclass(frozen=True)
class Job:
    """A placement at some settings, as the page's config and as Python's."""

    placement: Any  # a Placement or its key
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        return DEFAULTS | self.changes

    @property
    def cfg(self) -> ln.ModelConfig:
        own = {name: self.settings[name] for name in ("depth", "width", "heads", "stack", "attention", "init", "norm")}
        ffn = self.settings["ffn"] * self.settings["width"]
        return ln.ModelConfig(self.placement, ffn=ffn, output_projection=self.settings["output_projection"], **own)

    @property
    def measured(self) -> dict[str, Any]:
        """The keywords of every measurement."""
        return {"seeds": range(self.settings["seeds"]), "inputs": ln.Inputs(tokens=self.settings["tokens"])}

    def __str__(self) -> str:
        return f"{self.cfg.placement.key} {self.changes}"


def job(placement: Any, **changes: Any) -> Job:
    """A job that differs from the defaults by these settings."""
    return Job(placement, changes)


class Engine:
    """A page that holds the engine and nothing else."""

    def __init__(self, page: Page):
        self.page = page
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)

    def load(self, folder: Path, head: str = "") -> None:
        """Open a file with the engine's code; `head` comes before it."""
        path = folder / "engine.html"
        script = f"{module()}\nObject.assign(globalThis, {{ {NAMES} }})\n{ASK}"
        path.write_text(f"<!doctype html><meta charset=utf-8>{head}<script type=module>\n{script}</script>", "utf-8")
        self.page.goto(path.as_uri())
        self.page.wait_for_function("globalThis.ready")

    def run(self, jobs: list[Job], sample: str = "") -> list[dict]:
        """The last result of each job, one after the other; {"sentence": …} where there is none."""
        graphs, asked = {}, []
        for one in jobs:
            graph, error = graph_of(one.cfg.placement)
            assert graph, error
            name = str(id(one.cfg.placement))
            graphs[name] = graph
            asked.append(one.settings | {"graph": name})
        # as text: Playwright takes seconds to walk through objects of this size
        given = as_script([asked, graphs, sample])
        text = self.page.evaluate("async (text) => JSON.stringify(await askAll(...JSON.parse(text)))", given)
        return json.loads(text)


@contextmanager
def engine_page(browser: Browser, folder: Path, head: str = "") -> Iterator[Engine]:
    """An engine in a page of its own, which must not complain."""
    context = browser.new_context(offline=True)
    engine = Engine(context.new_page())
    engine.load(folder, head)
    yield engine
    context.close()
    assert not engine.complaints


# Tables --------------------------------------------------------------------------------------------------------


def long_table(rows: list[dict], keys: list[str]) -> pd.DataFrame:
    """The page's rows as Python's tables have them: one per seed, with below_floor; indexed by keys and seed."""
    found = [
        (*(row[key] for key in keys), seed, float(value), bool(row.get("below", [0] * (seed + 1))[seed]))
        for row in rows
        for seed, value in enumerate(row["values"])
    ]
    return pd.DataFrame(found, columns=[*keys, "seed", "value", "below_floor"]).set_index([*keys, "seed"])


def theories(rows: list[dict], keys: list[str]) -> pd.Series:
    """The page's theory by keys."""
    index = pd.MultiIndex.from_tuples([tuple(row[key] for key in keys) for row in rows], names=keys)
    return pd.Series([float(row["theory"]) for row in rows], index)


def visible(values: pd.Series) -> pd.Series:
    """Where a value is above FAINT × the table's maximum, or not finite."""
    size = values.abs()
    finite = size[np.isfinite(size)]
    return ~(size <= FAINT * (finite.max() if len(finite) else 0.0))


def apart(page: pd.Series, python: pd.Series) -> pd.Series:
    """|page − Python| / |Python|; 0 where both are the same infinity or both are NaN."""
    same = (page == python) | (page.isna() & python.isna())
    with np.errstate(all="ignore"):
        return ((page - python).abs() / python.abs()).where(~same, 0.0).fillna(np.inf)


def far(page: pd.Series, python: pd.Series) -> list[str]:
    """What differs by more than AGREEMENT, among the visible values."""
    page = page.reindex(python.index)
    found = apart(page, python)
    bad = (found > AGREEMENT) & visible(python)
    return [f"{i}: page {page[i]:.6g}, Python {python[i]:.6g}" for i in python.index[bad]]


def per_seed(measure: Callable, one: Job, keys: list[str], **more: Any) -> pd.DataFrame:
    """Python's table by keys and seed. Each seed is measured alone: the floor knows the largest value of a group."""
    given = one.measured
    tables = [measure(one.cfg, seeds=seed, inputs=given["inputs"], **more) for seed in given["seeds"]]
    found = pd.concat(tables).set_index([*keys, "seed"])
    return found.sort_index(level="seed", sort_remaining=False, kind="stable")


def floors(one: Job) -> pd.Series:
    """Python's floors of round-off by matrix and seed."""
    return pd.concat([floors_of_seed(one, seed) for seed in one.measured["seeds"]])


def floors_of_seed(one: Job, seed: int) -> pd.Series:
    cfg, watch = one.cfg, Uses()
    there_and_back(cfg, (seed,), one.measured["inputs"], torch.float32, watch)
    pairs = watch.pairs(tuple(m.name for m in matrices(cfg)), (seed,))
    values, found = norms_and_floors(pairs, watch.maps, (seed,), "float32")
    if not all(has_skip(cfg.placement, cfg.stack, side, cfg.depth) for side in cfg.sides):
        found.clamp_min_(torch.finfo(torch.float32).eps * values.max())
    index = pd.MultiIndex.from_tuples([(*name, seed) for name in pairs], names=[*MATRIX, "seed"])
    return pd.Series(found[:, 0].numpy(), index)


def differently_flagged(one: Job, page: pd.DataFrame, python: pd.DataFrame) -> list[str]:
    """Values that one of the two takes for round-off and the other not.

    They may differ where one of them is within 1 % of the floor, or where both are noise near it, as float64 shows.
    """
    page = page.reindex(python.index)
    differ = python.index[page["below_floor"] != python["below_floor"]]
    if not len(differ):
        return []
    exact = per_seed(ln.gradient_norms, one, MATRIX, dtype="float64")["value"]
    floor, wrong = floors(one).reindex(python.index, fill_value=0.0), []
    for i in differ:
        values = page["value"][i], python["value"][i]
        near = min(abs(value - floor[i]) for value in values) <= 0.01 * floor[i]
        noise = max(values) < 2 * floor[i] and exact[i] < floor[i] / 2
        if not (near or noise):
            wrong.append(f"{i}: page {values[0]:.4g}, Python {values[1]:.4g}, {exact[i]:.4g}, floor {floor[i]:.4g}")
    return wrong


def noise_of(python: pd.Series, exact: pd.Series) -> pd.Series:
    """How far float32 is from float64 in Python: the most among the visible values of one parameter or site.

    A single value may be near by chance.
    """
    off = apart(python, exact.reindex(python.index)).where(visible(python), 0.0)
    return off.groupby(python.index.names[-2]).transform("max")


def beyond_chaos(page: pd.Series, python: pd.Series, exact: pd.Series) -> list[str]:
    """What differs from float64 by more than AGREEMENT and three times what float32 in Python differs."""
    page, exact = page.reindex(python.index), exact.reindex(python.index)
    bad = (apart(page, exact) > AGREEMENT + 3 * noise_of(python, exact)) & visible(python)
    return [f"{i}: page {page[i]:.6g}, float32 {python[i]:.6g}, float64 {exact[i]:.6g}" for i in python.index[bad]]


@dataclass
class Verdict:
    """What is wrong with a job's result; `strict` is False where float32 itself is chaotic there."""

    job: str
    wrong: list[str]
    strict: bool = True


def compared(one: Job, result: dict) -> Verdict:
    """A result of the page against gradient_norms, signal_norms and predict."""
    if "sentence" in result:
        return Verdict(str(one), [result["sentence"]])
    python = {name: per_seed(measure, one, keys) for name, (keys, measure) in MEASURES.items()}
    page = {name: long_table(result[name], keys) for name, (keys, _) in MEASURES.items()}
    if any(set(page[name].index) != set(python[name].index) for name in MEASURES):
        return Verdict(str(one), ["other rows than Python's"])
    # values that Python takes for round-off have no digits to compare
    shown = {"gradients": ~python["gradients"]["below_floor"], "signals": slice(None)}
    measured = {name: python[name]["value"][shown[name]] for name in MEASURES}
    drawn = {name: page[name]["value"] for name in MEASURES}
    wrong = [text for name in MEASURES for text in far(drawn[name], measured[name])]
    flags = differently_flagged(one, page["gradients"], python["gradients"])
    if wrong or flags:
        kind = {"dtype": "float64"}
        exact = {name: per_seed(measure, one, keys, **kind)["value"] for name, (keys, measure) in MEASURES.items()}
        noise = max(noise_of(measured[name], exact[name]).max() for name in MEASURES)
        if noise > AGREEMENT / 3:
            still = [text for name in MEASURES for text in beyond_chaos(drawn[name], measured[name], exact[name])]
            return Verdict(str(one), still, strict=False)
    return Verdict(str(one), wrong + flags + theory_apart(one, result, python["gradients"]))


def theory_apart(one: Job, result: dict, measured: pd.DataFrame) -> list[str]:
    """What the page's theory says otherwise than `predict`."""
    if not one.settings["theory"]:
        return []
    wrong = []
    for name, keys, quantity in (("gradients", MATRIX, "gradient"), ("signals", SITE, "signal")):
        try:
            python = ln.predict(one.cfg, quantity, **one.measured).set_index(keys)["value"]
        except ValueError as error:
            note = result["theoryNote"]
            return [] if str(error) == note else [f"theory: page {note!r}, Python {error}"]
        if result["theoryNote"]:
            return [result["theoryNote"]]
        if quantity == "gradient":
            drawn = ~measured["below_floor"] & (measured["value"] != 0)  # theory leaves round-off of x − x
            shown = drawn.groupby(keys, sort=False).all()
            python = python[shown.reindex(python.index)]
        python = python[~(python < ROUND_OFF)]
        wrong += [f"theory of {quantity} {text}" for text in far(theories(result[name], keys), python)]
    return wrong
