"""Spectra of the curvature explorer: settings, the plan, stored spectra, memory, and a table in HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lntutor.explore.training_plan import corpora
from lntutor.figures.style import number
from lntutor.model.config import ModelConfig
from lntutor.model.placements import PLACEMENTS, Placement
from lntutor.text.download import CORPORA, locate

MOST_SPECTRA = 12  # in one plan, and on screen
HELD = 3_000_000_000  # bytes for all measurements that can go on, together
GRAPHS = 1_000_000_000  # bytes for the graphs of one measurement
STORED = "hessian"  # the stored table of spectra, of the size in the talk
HEADS = 4
KIND_NAMES = {
    "hessian": "Hessian",
    "gauss_newton": "Gauss–Newton",
    "relative": "relative to each weight's size",
    "adam": "as Adam sees it",
}
MATRICES = {  # names on the axis
    "hessian": "the Hessian",
    "gauss_newton": "the Gauss–Newton matrix",
    "relative": "the Hessian, relative to the size of the weights",
    "adam": "the Hessian as Adam's first step sees it",
}
UNITS = {"hessian": "", "gauss_newton": "", "relative": "relative", "adam": "adam"}  # the same unit: on one axis
MAIN = ("kind", "depth", "width", "pairs", "corpus", "probes")


@dataclass(frozen=True)
class SpectrumSetting:
    """Everything that a spectrum depends on, except the number of products."""

    key: str
    rule: Placement | None  # None for a stored spectrum
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
        """Part of the setting → text."""
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
class MeasuredSpectrum:
    """A spectrum on screen; with its iteration it can go on."""

    setting: SpectrumSetting
    spectrum: Any  # curvature.Spectrum
    iteration: Any = None  # curvature.Iteration
    graphs: float = 0.0  # bytes of its kept graphs

    @property
    def products(self) -> int:
        """Products of the probe that has the fewest; endless where every probe is exhausted."""
        if self.iteration is None:
            return self.spectrum.steps
        return min((probe.steps for probe in self.iteration.probes if not probe.exhausted), default=10**9)


@dataclass(frozen=True)
class SpectrumJob:
    """Bring a measurement to this many products per probe."""

    setting: SpectrumSetting
    products: int
    before: MeasuredSpectrum | None = None

    @property
    def length(self) -> int:
        """Products to make."""
        done = self.begun.iteration.products if self.begun else 0
        return max(1, self.products * self.setting.probes - done)

    @property
    def begun(self) -> MeasuredSpectrum | None:
        """The measurement that goes on; None where it starts anew."""
        return self.before if self.before is not None and self.before.iteration is not None else None


def plan(state: dict[str, Any]) -> list[SpectrumSetting]:
    """The spectra that the controls ask for: one per placement and seed."""
    if not state["placements"]:
        raise ValueError("Choose at least one placement.")
    locate(state["corpus"])  # raises with the way to get a missing one
    settings = [
        SpectrumSetting(
            key, PLACEMENTS[key], state["depth"], state["width"], state["pairs"], state["probes"], seed, state["kind"],
            state["corpus"],
        )
        for key in state["placements"]
        for seed in range(state["seeds"])
    ]  # fmt: skip
    if len(settings) > MOST_SPECTRA:
        few = "choose fewer placements or seeds"
        raise ValueError(f"At most {MOST_SPECTRA} spectra at once, got {len(settings)}: {few}.")
    return settings


def corpus_options() -> dict[str, str]:
    """Name → caption of the corpora on this computer, and of those with stored spectra."""
    here = corpora()
    away = [name for name in CORPORA if name not in here and name == "multi30k"]
    return {**{name: name for name in here}, **{name: f"{name} (stored only)" for name in away}}


# Stored spectra ------------------------------------------------------------------------------------------------


def stored(corpus: str) -> tuple[list[MeasuredSpectrum], str]:
    """The spectra that come with the course, and the command that made them."""
    from lntutor.curvature.spectrum import Spectrum
    from lntutor.experiments import stored as results  # imported here: it takes seconds

    table = results.stored_table(STORED, corpus)
    groups = table.groupby(["placement", "kind", "seed"], sort=False)
    found = [Spectrum.of_table(rows) for _, rows in groups]
    return [MeasuredSpectrum(setting_of(spectrum), spectrum) for spectrum in found], table.attrs["made by"]


def setting_of(spectrum) -> SpectrumSetting:
    """The setting of a stored spectrum."""
    s = spectrum
    return SpectrumSetting(s.placement, None, s.depth, s.width, s.pairs, s.probes, s.seed, s.kind, s.corpus)


def of_state(found: list[MeasuredSpectrum], state: dict[str, Any]) -> list[MeasuredSpectrum]:
    """The stored spectra that the controls ask for."""
    if not state["placements"]:
        raise ValueError("Choose at least one placement.")
    kinds = list(dict.fromkeys(one.setting.kind for one in found))
    if state["kind"] not in kinds:
        there = ", ".join(KIND_NAMES.get(kind, kind) for kind in kinds)
        raise ValueError(f"Of {KIND_NAMES[state['kind']]!r} nothing is stored; there is {there}.")
    of_kind = [one for one in found if one.setting.kind == state["kind"]]
    chosen = [one for one in of_kind if one.setting.key in state["placements"]]
    if not chosen:
        there = ", ".join(dict.fromkeys(one.setting.phrases()["placement"] for one in of_kind))
        raise ValueError(f"Of these placements nothing is stored; there are {there}.")
    return chosen


# Cost ----------------------------------------------------------------------------------------------------------


def seconds_per_product(setting: SpectrumSetting) -> float:
    """A rough guess for one core of a laptop; the explorer's `pace` corrects it."""
    return 0.02 + setting.pairs * (3e-4 + setting.depth * (2e-4 + 9e-6 * setting.width))


def graph_bytes(iteration) -> int:
    """The memory of the graphs that a measurement keeps."""
    return getattr(iteration.operator, "operator", iteration.operator).kept_bytes  # of a scaled one


def basis_bytes(iteration, products: int | None = None) -> int:
    """The memory of the bases of all probes, now or after this many products."""
    rows = sum((probe.steps if products is None else products) + 1 for probe in iteration.probes)
    return rows * iteration.operator.size * iteration.operator.dtype.itemsize


def check_room(needed: float) -> None:
    """A ValueError if a measurement needs more memory than all measurements together may take."""
    if needed > HELD:
        ways = "ask for fewer products or probes, or a smaller model"
        raise ValueError(f"It would hold {needed / 1e9:.1f} GB, more than {HELD / 1e9:g} GB: {ways}.")


def let_go(done: list[MeasuredSpectrum], room: float) -> list[MeasuredSpectrum]:
    """The same spectra; those that exceed the memory, the oldest first, lose what they need to go on."""
    kept = []
    for one in reversed(done):
        if one.iteration is not None:
            room -= one.graphs + basis_bytes(one.iteration)
        kept.append(one if room >= 0 else MeasuredSpectrum(one.setting, one.spectrum))
    return kept[::-1]


# Text ---------------------------------------------------------------------------------------------------------


def range_of(values: Iterable[int], noun: str) -> str:
    """30 products, 5 to 30 products."""
    values = sorted(set(values))
    return f"{values[0]} {noun}" if len(values) == 1 else f"{values[0]} to {values[-1]} {noun}"


def summary(measured: dict[str, MeasuredSpectrum]) -> str:
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
    """The value, with its error where the digits shown do not hide it."""
    return number(value) + (f" ± {number(error, 1)}" if error > 1e-3 * abs(value) else "")
