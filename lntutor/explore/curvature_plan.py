"""What a curvature explorer measures, and what came of it, in words: settings, the plan, stored spectra, a table."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lntutor.config import ModelConfig
from lntutor.download import CORPORA, locate
from lntutor.explore.runs import corpora
from lntutor.figures.style import number
from lntutor.placements import PLACEMENTS, Placement

MOST_SPECTRA = 12  # in one plan, and on screen
HELD = 3_000_000_000  # bytes that measurements which could go on may take together
GRAPHS = 1_000_000_000  # bytes for the graphs of one
STORED = "hessian"  # the table of spectra at the size of the talk
HEADS = 4
KIND_NAMES = {
    "hessian": "Hessian",
    "gauss_newton": "Gauss–Newton",
    "relative": "relative to each weight's size",
    "adam": "as Adam sees it",
}
MATRICES = {  # as they are called on the axis
    "hessian": "the Hessian",
    "gauss_newton": "the Gauss–Newton matrix",
    "relative": "the Hessian, relative to the size of the weights",
    "adam": "the Hessian as Adam's first step sees it",
}
UNITS = {"hessian": "", "gauss_newton": "", "relative": "relative", "adam": "adam"}  # those that share an axis
MAIN = ("kind", "depth", "width", "pairs", "corpus", "probes")


@dataclass(frozen=True)
class Setting:
    """All that a spectrum depends on, but for the number of products."""

    key: str
    rule: Placement | None  # None where it was stored
    depth: int
    width: int
    pairs: int
    probes: int
    seed: int
    kind: str
    corpus: str

    @property
    def model(self) -> ModelConfig:
        """Four heads, FFN 4 × width."""
        return ModelConfig(self.rule or self.key, self.depth, self.width, HEADS, 4 * self.width)

    def phrases(self) -> dict[str, str]:
        """The setting in words, part by part."""
        rule = self.rule or PLACEMENTS.get(self.key)
        return {
            "placement": rule.label if rule else self.key,
            "kind": KIND_NAMES.get(self.kind, self.kind),
            "depth": f"{self.depth}+{self.depth} layers",
            "width": f"width {self.width}",
            "pairs": f"{self.pairs} pair{'' if self.pairs == 1 else 's'}",
            "corpus": self.corpus,
            "probes": f"{self.probes} probe{'' if self.probes == 1 else 's'}",
            "seed": f"seed {self.seed}",
        }


@dataclass(frozen=True, eq=False)
class Measured:
    """A spectrum on screen; with its iteration it can go on."""

    setting: Setting
    spectrum: Any  # curvature.Spectrum
    iteration: Any = None  # curvature.Iteration
    graphs: float = 0.0  # bytes that it keeps beside its basis

    @property
    def products(self) -> int:
        """Of the probe that has the fewest; where there is no more to find, as many as anybody asks for."""
        if self.iteration is None:
            return self.spectrum.steps
        return min((probe.steps for probe in self.iteration.probes if not probe.exhausted), default=10**9)


@dataclass(frozen=True)
class Job:
    """Bring a measurement to so many products, from where it is."""

    setting: Setting
    products: int
    before: Measured | None = None

    @property
    def length(self) -> int:
        """Products to make."""
        done = sum(probe.steps for probe in self.before.iteration.probes) if self.goes_on else 0
        return max(1, self.products * self.setting.probes - done)

    @property
    def goes_on(self) -> bool:
        """Whether nothing that was measured is measured again."""
        return self.before is not None and self.before.iteration is not None


def plan(state: dict[str, Any]) -> list[Setting]:
    """The spectra that the controls ask for: one an LN position and seed."""
    if not state["placements"]:
        raise ValueError("Pick at least one LN position.")
    locate(state["corpus"])  # says how to get one that is not here
    settings = [
        Setting(
            key, PLACEMENTS[key], state["depth"], state["width"], state["pairs"], state["probes"], seed, state["kind"],
            state["corpus"],
        )
        for key in state["placements"]
        for seed in range(state["seeds"])
    ]  # fmt: skip
    if len(settings) > MOST_SPECTRA:
        few = "pick fewer LN positions or seeds"
        raise ValueError(f"At most {MOST_SPECTRA} spectra at once, got {len(settings)}: {few}.")
    return settings


def corpus_options() -> list[tuple[str, str]]:
    """Corpora on this computer, and those of which spectra are stored."""
    here = corpora()
    away = [(f"{name} (stored only)", name) for name in CORPORA if name not in here and name == "multi30k"]
    return [*((name, name) for name in here), *away]


# Stored spectra ------------------------------------------------------------------------------------------------


def stored(corpus: str) -> tuple[list[Measured], str]:
    """The spectra that come with the course, and the command that made them."""
    from lntutor import results  # here: it takes seconds, and not every page asks
    from lntutor.curvature import Spectrum

    table = results.read(STORED, corpus)
    groups = table.groupby(["placement", "kind", "seed"], sort=False)
    found = [Spectrum.of_table(rows) for _, rows in groups]
    return [Measured(setting_of(spectrum), spectrum) for spectrum in found], table.attrs["made by"]


def setting_of(spectrum) -> Setting:
    """The setting of a spectrum that was stored."""
    s = spectrum
    return Setting(s.placement, None, s.depth, s.width, s.pairs, s.probes, s.seed, s.kind, s.corpus)


def of_state(found: list[Measured], state: dict[str, Any]) -> list[Measured]:
    """Those of the stored spectra that the controls ask for."""
    if not state["placements"]:
        raise ValueError("Pick at least one LN position.")
    kinds = list(dict.fromkeys(one.setting.kind for one in found))
    if state["kind"] not in kinds:
        there = ", ".join(KIND_NAMES.get(kind, kind) for kind in kinds)
        raise ValueError(f"Of {KIND_NAMES[state['kind']]!r} nothing is stored; there is {there}.")
    of_kind = [one for one in found if one.setting.kind == state["kind"]]
    chosen = [one for one in of_kind if one.setting.key in state["placements"]]
    if not chosen:
        there = ", ".join(dict.fromkeys(one.setting.phrases()["placement"] for one in of_kind))
        raise ValueError(f"Of these LN positions nothing is stored; there are {there}.")
    return chosen


# Cost ----------------------------------------------------------------------------------------------------------


def seconds_a_product(setting: Setting) -> float:
    """About how long a product takes on one core of a laptop, from a few measurements; `pace` corrects it."""
    return 0.02 + setting.pairs * (3e-4 + setting.depth * (2e-4 + 9e-6 * setting.width))


def graph_bytes(iteration, corpus, setting: Setting) -> float:
    """What the graphs that a measurement keeps take, judged by that of the longest sentence."""
    import torch

    from lntutor import curvature

    operator = getattr(iteration.operator, "operator", iteration.operator)  # that of a scaled one
    learner = operator.learner
    weights = list(learner.weights.values())
    kind = curvature.GaussNewtonGraph if setting.kind == "gauss_newton" else curvature.Graph
    words, longest = 0, None
    for batch in curvature.by_length(corpus, "val", setting.pairs, 1):
        words, longest = words + _words(batch), batch
    with torch.enable_grad():
        graph = kind(learner, longest, 1.0, weights)
    return operator.kept * words / _words(longest) * curvature.graph_bytes(graph, weights)


def _words(batch) -> int:
    return sum(int((ids != batch.pad).sum()) for ids in (batch.source, batch.labels))


def basis_bytes(iteration, products: int | None = None) -> int:
    """What the basis of every probe takes, now or after so many products."""
    rows = sum((probe.steps if products is None else products) + 1 for probe in iteration.probes)
    return rows * iteration.operator.size * iteration.operator.dtype.itemsize


def check_room(needed: float) -> None:
    """A measurement that needs more memory than all may hold together is not begun."""
    if needed > HELD:
        ways = "ask for fewer products or probes, or a smaller model"
        raise ValueError(f"It would hold {needed / 1e9:.1f} GB, more than {HELD / 1e9:g} GB: {ways}.")


def let_go(done: list[Measured], room: float) -> list[Measured]:
    """The same spectra; where all that could go on takes too much memory, the oldest cannot go on."""
    kept = []
    for one in reversed(done):
        if one.iteration is not None:
            room -= one.graphs + basis_bytes(one.iteration)
        kept.append(one if room >= 0 else Measured(one.setting, one.spectrum))
    return kept[::-1]


# Words ---------------------------------------------------------------------------------------------------------


def spectra(number: int) -> str:
    """1 spectrum, 2 spectra."""
    return f"{number} spectr{'um' if number == 1 else 'a'}"


def range_of(values: Iterable[int], noun: str) -> str:
    """30 products, 5 to 30 products."""
    values = sorted(set(values))
    return f"{values[0]} {noun}" if len(values) == 1 else f"{values[0]} to {values[-1]} {noun}"


def summary(measured: dict[str, Measured]) -> str:
    """Both ends of every spectrum with their errors, √mean λ², loss and products, as a table in HTML."""
    columns = ("Spectrum", "λ<sub>min</sub>", "λ<sub>max</sub>", "√mean λ²", "Loss", "Products", "Weights")
    head = "".join(f'<th scope="col">{word}</th>' for word in columns)
    rows = "".join(_row(name, one.spectrum) for name, one in measured.items())
    caption = "<caption>Both ends, with ± where they are not settled yet</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(name: str, s) -> str:
    ends = (_with_error(s.lambda_min, s.lambda_min_error), _with_error(s.lambda_max, s.lambda_max_error))
    products = f"{s.steps} × {s.probes}" if s.probes > 1 else str(s.steps)
    cells = (*ends, number(s.rms), f"{s.loss:.3f}", products, f"{s.size:,}")
    return f'<tr><th scope="row">{html.escape(name)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _with_error(value: float, error: float) -> str:
    """The error is told where it is not below the digits that are shown."""
    return number(value) + (f" ± {number(error, 1)}" if error > 1e-3 * abs(value) else "")
