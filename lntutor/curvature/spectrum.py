"""The spectrum of the Hessian of a loss, by Lanczos: an `Iteration` on an operator (hessian.py) gives a `Spectrum`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, asdict, dataclass, field, fields

import numpy as np
import pandas as pd
from torch import Tensor

from lntutor.curvature.hessian import MEMORY, Operator, Scaled, adam_scale, chosen, operator_at_start, relative_scale
from lntutor.curvature.lanczos import Lanczos, density, start_vector
from lntutor.measure.gradients import PARAMETERS
from lntutor.model.checks import as_numbers, as_tuple, check_choice, check_flag, check_int, check_number, check_type
from lntutor.model.config import Batch, ModelConfig
from lntutor.text.corpus import Corpus
from lntutor.training.network import Learner
from lntutor.training.progress import progress_bar

SPECTRUM_KINDS = ("hessian", "gauss_newton", "relative", "adam")
POINTS = 801  # of a smoothed curve
MOST_PROBES, MOST_STEPS = 1000, 100_000


@dataclass(frozen=True)
class Spectrum:
    """An estimated spectrum: the eigenvalues of every probe's matrix T, each with its share of all eigenvalues."""

    eigenvalues: np.ndarray  # (probes × steps,), ascending
    weights: np.ndarray  # (probes × steps,); they sum to one
    lambda_max: float
    lambda_max_error: float  # an eigenvalue of the Hessian is at most this far away
    lambda_min: float
    lambda_min_error: float
    probes: int
    steps: int  # products of each probe
    seed: int
    size: int = 0  # rows of the matrix
    kind: str = "hessian"
    placement: str = ""
    depth: int = 0
    width: int = 0
    corpus: str = ""
    checksum: str = ""  # of the corpus
    split: str = ""
    pairs: int = 0
    loss: float = float("nan")  # nats per word, where the curvature was taken

    def __post_init__(self):
        for name in ("eigenvalues", "weights"):
            array = as_numbers(name, getattr(self, name), 1)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if not len(self.eigenvalues) == len(self.weights) > 0:
            counts = f"{len(self.eigenvalues)} and {len(self.weights)}"
            raise ValueError(f"eigenvalues and weights must be equally many, one or more, got {counts}")

    @property
    def rms(self) -> float:
        """√(mean λ²): how much the gradient changes for a step of length one in a random direction."""
        return float(np.sqrt(self.weights @ self.eigenvalues**2))

    @property
    def mean(self) -> float:
        """Mean λ, the trace over the size."""
        return float(self.weights @ self.eigenvalues)

    def smooth(self, width: float | None = None, x=None) -> pd.DataFrame:
        """The density as a curve: a Gaussian of this width per eigenvalue (default: a hundredth of the range).

        Columns: placement, seed, x, density, lambda_min, lambda_max.
        """
        low, high = self.lambda_min, self.lambda_max
        width = (high - low) / 100 or 1e-6 if width is None else check_number("width", width, 0, 1e12, above=True)
        x = np.linspace(low - 4 * width, high + 4 * width, POINTS) if x is None else as_numbers("x", x, 1)
        curve = {"x": x, "density": density(self.eigenvalues, self.weights, width, x)}
        ends = {"lambda_min": low, "lambda_max": high}
        return pd.DataFrame({"placement": self.placement, "seed": self.seed, **curve, **ends})

    def table(self) -> pd.DataFrame:
        """One row per eigenvalue of T: eigenvalue, weight, and the other fields of the spectrum."""
        about = {name: value for name, value in asdict(self).items() if name not in ("eigenvalues", "weights")}
        return pd.DataFrame({"eigenvalue": self.eigenvalues, "weight": self.weights}).assign(**about)

    @classmethod
    def of_table(cls, rows: pd.DataFrame) -> Spectrum:
        """The spectrum that has this `table`."""
        needed = ["eigenvalue", "weight", *(f.name for f in fields(cls)[2:] if f.default is MISSING)]
        missing = [name for name in needed if name not in check_type("rows", rows, pd.DataFrame)]
        if missing or rows.empty:
            raise ValueError(f"rows must be a spectrum's table, got one without {', '.join(missing) or 'rows'}")
        rows = rows.sort_values("eigenvalue", kind="stable")
        about = {f.name: rows[f.name].tolist()[0] for f in fields(cls)[2:] if f.name in rows}
        weights = rows["weight"].to_numpy(float)
        return cls(rows["eigenvalue"].to_numpy(float).copy(), weights / weights.sum(), **about)


@dataclass(frozen=True)
class LanczosProgress:
    """An iteration after one of its products."""

    product: int
    of: int
    seconds_left: float
    spectrum: Callable[[], Spectrum] = field(repr=False)  # of all products so far


class Iteration:
    """Lanczos from several random vectors (probes), product by product; it can go on after a stop."""

    def __init__(self, operator, *, probes: int = 1, seed: int = 0, **about):
        probes = check_int("probes", probes, 1, MOST_PROBES)
        self.operator, self.seed, self.about = operator, check_int("seed", seed, 0, 2**31 - 1), about
        starts = (start_vector(operator.size, seed, probe, operator.dtype) for probe in range(probes))
        self.probes = [Lanczos(operator.matvec, start) for start in starts]

    @property
    def products(self) -> int:
        """Products of all probes so far."""
        return sum(probe.steps for probe in self.probes)

    def run(self, steps: int) -> Iterator[LanczosProgress]:
        """Bring every probe to this many products, one item per product; close the generator to stop."""
        steps = check_int("steps", steps, 1, MOST_STEPS)
        before, started = self.products, time.perf_counter()
        of = before + sum(max(0, steps - probe.steps) for probe in self.probes)
        while waiting := [p for p in self.probes if p.steps < steps and not p.exhausted]:
            probe = min(waiting, key=lambda p: p.steps)  # in turn, so that a stopped run has used all of them
            probe.step()
            done = self.products - before
            left = (time.perf_counter() - started) / done * (of - before - done)
            yield LanczosProgress(self.products, of, left, self.spectrum)

    def spectrum(self) -> Spectrum:
        """The spectrum from the products so far, of the probes that have made one."""
        ritz = [probe.ritz() for probe in self.probes if probe.steps]
        if not ritz:
            raise ValueError("there is no product yet: run(steps) makes them")
        values, weights = (np.concatenate([getattr(r, name) for r in ritz]) for name in ("values", "weights"))
        order = np.argsort(values, kind="stable")
        top, low = max(ritz, key=lambda r: r.values[-1]), min(ritz, key=lambda r: r.values[0])
        return Spectrum(
            values[order], weights[order] / len(ritz), float(top.values[-1]), float(top.residuals[-1]),
            float(low.values[0]), float(low.residuals[0]), len(ritz), max(probe.steps for probe in self.probes),
            self.seed, self.operator.size, loss=self.operator.loss, **self.about,
        )  # fmt: skip


# A Transformer at initialisation --------------------------------------------------------------------------------


def measurement(
    cfg: ModelConfig, corpus: Corpus, *, pairs: int = 1000, probes: int = 1, seed: int = 0, split: str = "val",
    kind: str = "hessian", only: str = "", memory: float = MEMORY, dtype: str = "float32",
) -> Iteration:  # fmt: skip
    """An iteration on the curvature of a translation loss at initialisation; see `hessian_spectrum`."""
    check_choice("kind", kind, SPECTRUM_KINDS)
    check_int("probes", probes, 1, MOST_PROBES)
    wanted = chosen(check_type("cfg", cfg, ModelConfig), only)
    how = {"gauss_newton": kind == "gauss_newton", "by_hand": not only, "memory": memory, "dtype": dtype}
    operator = operator_at_start(cfg, corpus, pairs=pairs, seed=seed, split=split, **how)
    if only:
        operator = operator.part(wanted)
    about = {"kind": kind, "corpus": corpus.name, "checksum": corpus.checksum, "split": split, "pairs": pairs}
    return Iteration(in_units(operator, kind), probes=probes, seed=seed, **_about(cfg), **about)


def in_units(operator: Operator, kind: str) -> Operator | Scaled:
    """The operator, scaled for the kinds "relative" and "adam"."""
    if kind == "relative":
        return Scaled(operator, relative_scale(operator))
    if kind == "adam":
        return Scaled(operator, adam_scale(operator.gradient().square()))
    return operator


def hessian_spectrum(
    cfg: ModelConfig, corpus: Corpus, *, pairs: int = 1000, steps: int = 80, progress: bool = True, **how
) -> Spectrum:
    """The spectrum of the loss's Hessian at initialisation, on the first `pairs` of a split, by Lanczos.

    Keywords: probes=1, seed=0 (of weights and probes), split="val", kind ("hessian"; "gauss_newton"; "relative", for
    changes relative to each tensor's size; "adam", preconditioned as in Adam's first step), only (one block of the
    matrix: "decoder.6", "encoder", "W_2"), memory (bytes), dtype. An interrupt keeps the products made so far.
    """
    check_int("steps", steps, 1, MOST_STEPS)  # before the work
    check_flag("progress", progress)
    iteration = measurement(cfg, corpus, pairs=pairs, **how)
    total = steps * len(iteration.probes)
    with progress_bar(total=total, desc=cfg.placement.label, unit="product", disable=not progress) as bar:
        try:
            for item in iteration.run(steps):
                bar.update()
                bar.total = item.of
        except KeyboardInterrupt:
            if not iteration.products:
                raise
            bar.set_postfix_str("stopped; the products made so far are kept")
    return iteration.spectrum()


def hessian_blocks(
    cfg: ModelConfig, corpus: Corpus, *, parameters: tuple[str, ...] = PARAMETERS,
    steps: int = 12, progress: bool = True, **how,
) -> pd.DataFrame:  # fmt: skip
    """Both ends of the spectrum of the Hessian's diagonal blocks, one row per layer and matrix.

    Columns: placement, depth, width, side, layer, parameter, seed, size, lambda_max, lambda_min, rms. A layer's W_V of
    self- and cross-attention are one block. Keywords as in `hessian_spectrum`, without `only` and `probes`. An
    interrupt keeps the blocks that are done.
    """
    seed, kind = how.pop("seed", 0), how.pop("kind", "hessian")
    check_choice("kind", kind, ("hessian", "gauss_newton", "relative"))
    check_int("steps", steps, 1, MOST_STEPS)
    check_flag("progress", progress)
    names = as_tuple("parameters", parameters, "('W_1', 'W_2')")
    if not [check_choice("parameters", name, PARAMETERS) for name in names]:
        raise ValueError(f"parameters must name at least one of {', '.join(PARAMETERS)}, got none")
    hessian = operator_at_start(cfg, corpus, seed=seed, gauss_newton=kind == "gauss_newton", by_hand=False, **how)
    places = [(side, layer, p) for side in cfg.sides for layer in range(1, cfg.depth + 1) for p in names]
    rows = []
    with progress_bar(total=len(places), desc=cfg.placement.label, unit="block", disable=not progress) as bar:
        try:
            for side, layer, parameter in places:
                block = hessian.part(chosen(cfg, f"{side}.{layer}.{parameter}"))
                found = _run(Iteration(in_units(block, kind), seed=seed), steps)
                place = {"side": side, "layer": layer, "parameter": parameter, "seed": seed}
                ends = {"lambda_max": found.lambda_max, "lambda_min": found.lambda_min, "rms": found.rms}
                rows.append(_about(cfg) | place | {"size": found.size} | ends)
                bar.update()
        except KeyboardInterrupt:
            if not rows:
                raise
            bar.set_postfix_str("stopped; the blocks that are done are kept")
    return pd.DataFrame(rows)


def ends(
    learner: Learner, batches: Iterable[Batch], *, steps: int = 15, seed: int = 0, squares: Tensor | None = None
) -> Spectrum:
    """The spectrum at a learner's present weights, by few products, which is enough for its two ends.

    With `squares`, Adam's running mean v of squared gradients, the Hessian is preconditioned by Adam.
    """
    operator = Operator(learner, batches)
    scaled = operator if squares is None else Scaled(operator, adam_scale(squares))
    kind = "hessian" if squares is None else "adam"
    return _run(Iteration(scaled, seed=seed, kind=kind, **_about(learner.cfg)), steps)


def _run(iteration: Iteration, steps: int) -> Spectrum:
    for _ in iteration.run(steps):
        pass
    return iteration.spectrum()


def _about(cfg: ModelConfig) -> dict:
    return {"placement": cfg.placement.key, "depth": cfg.depth, "width": cfg.width}
