"""The curvature explorer: press Run, and the Hessian's spectrum takes shape product by product."""

from __future__ import annotations

import html
import time
from typing import Any, ClassVar, NamedTuple

import pandas as pd

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore import curvature_plan as plans
from lntutor.explore.base import ROWS
from lntutor.explore.curvature_plan import KIND_NAMES, MATRICES, UNITS, MeasuredSpectrum, SpectrumJob, plan
from lntutor.explore.long_running import LongRunningExplorer
from lntutor.explore.training_plan import duration, in_common, names
from lntutor.figures.drawing import empty
from lntutor.page.kit.panel import Button

PAIRS = (10, 30, 100, 300, 1000)
PRODUCTS = (10, 20, 30, 50, 80, 120, 200)
SHARES = (0.003, 0.005, 0.007, 0.01, 0.015, 0.02, 0.03, 0.05)
RATES = (1e-3, 3e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.3, 0.5, 1.0)
COLUMNS = ("placement", "depth", "width", "pairs", "kind", "seed", "eigenvalue", "weight")
REMARKS = {  # on the line at 2/η
    "relative": "2/η says nothing of relative changes, and is not drawn.",
    "adam": "2/η is for a step without momentum.",
}


class Picture(NamedTuple):
    """What is drawn: spectra, and their curves at this bandwidth."""

    spectra: list[MeasuredSpectrum]
    curves: pd.DataFrame  # run, placement, seed, x, density, lambda_min, lambda_max
    width: float  # of a bell


class CurvatureExplorer(LongRunningExplorer):
    """How sharply does the loss bend at initialisation? The spectrum of its Hessian, one per placement.

    Run starts the Lanczos iterations that the controls ask for, More steps continues those on screen, Talk size shows
    spectra that come with the course. The bandwidth only redraws. In a cell: `run()`, `more()`, `wait()`, `stop()`,
    `spectra`.
    """

    WORK, LOOK = "measurement", "lntutor-curvature"
    JOB = ("spectrum", "spectra")
    MOST = plans.MOST_SPECTRA
    FIRST = ("placements", "depth", "width", "pairs", "bandwidth", "stored")
    pace: ClassVar[float] = 1.0  # seconds of a product when last measured, over `seconds_per_product`

    def __init__(self, preset: str | None = None, **state):
        self._before = 0  # products made before the current job
        self._stored: dict[str, tuple[list[MeasuredSpectrum], str]] = {}  # corpus → spectra, and the command
        super().__init__(preset, **state)

    def make_controls(self):
        """What the next Run measures, and how it is drawn."""
        shares = [(f"{100 * share:g} %", share) for share in SHARES]
        rates = [("none", 0.0), *((f"η = {rate:g}", rate) for rate in RATES)]
        return {
            "placements": c.placement_chips(("post", "pre")),
            "depth": c.int_slider("Depth", 2, 1, 6, "Layers of each side"),
            "width": c.choice("Width", 32, (16, 32, 64, 128), "Features of a token, d; four heads, FFN 4 × width"),
            "pairs": c.step_slider("Pairs", 100, PAIRS, "Sentence pairs over which the loss is averaged"),
            "bandwidth": c.step_slider("Bandwidth", 0.01, shares,
                                       "Width of each eigenvalue's bell, as a share of the range; only redraws"),
            "products": c.step_slider("Products", 30, PRODUCTS, "Lanczos steps: one product with the matrix each"),
            "probes": c.int_slider("Probes", 1, 1, 10, "Random start directions; more make the curve smoother"),
            "seeds": c.int_slider("Spectra of each", 1, 1, 5, "How many spectra of each: other weights and directions"),
            "kind": c.choice("Curvature", "hessian", KIND_NAMES, "Which matrix, or in which units for every weight"),
            "corpus": c.choice("Corpus", "captions", plans.corpus_options(), "Sentences in German and English"),
            "lr": c.step_slider("2/η line", 0.0, rates, "Above 2/η gradient descent at the rate η is unstable"),
            "lecture": c.lecture_switch(),
            "stored": c.switch("Talk size", False, "Spectra of a larger model that come with the course"),
        }  # fmt: skip

    # Spectra ---------------------------------------------------------------------------------------------------

    @property
    def spectra(self) -> dict[str, Any]:
        """Name → Spectrum of all on screen, including an unfinished one."""
        spectra = self._spectra_of(self.state())
        return {name: one.spectrum for name, one in zip(self._names(spectra), spectra, strict=True)}

    def run(self) -> None:
        """Measure what the controls ask for, in its own thread, and continue what was stopped."""
        self._leave_stored()
        super().run()

    def more(self) -> None:
        """Continue the spectra on screen by as many products as the slider says; none is made twice."""
        self._leave_stored()
        self.begin(self.further)

    def wanted(self, state: dict[str, Any]) -> list[SpectrumJob]:
        """The plan, without spectra that have that many products."""
        done = {one.setting: one for one in self._done}
        jobs = [SpectrumJob(setting, state["products"], done.get(setting)) for setting in plan(state)]
        return [job for job in jobs if job.before is None or job.before.products < job.products]

    def further(self, state: dict[str, Any]) -> list[SpectrumJob]:
        """The spectra on screen that can go on, each by as many products as the slider says."""
        going = (one for one in self._visible(state, self._done) if one.iteration is not None and one.products < 10**9)
        return [SpectrumJob(one.setting, one.products + state["products"], one) for one in going]

    def close(self) -> None:
        """Remove the explorer from the page; its spectra stay, but cannot go on."""
        super().close()
        with self._change:
            self._done = plans.let_go(self._done, 0)

    def steps_of(self, progress) -> int:
        """Products of this job."""
        return progress.product - self._before

    def _leave_stored(self) -> None:
        if self.controls["stored"].value:
            self._apply({"stored": False})

    def do(self, job: SpectrumJob) -> None:
        """Measure from the start, or from where the measurement stopped."""
        from lntutor.curvature import spectrum as curvature  # imported here: it takes seconds
        from lntutor.text import corpus

        self._phase = "reading"
        self._live = job.before
        with self._change:
            self._done = [one for one in self._done if one.setting != job.setting]
        self.refresh()
        s, kept = job.setting, job.begun
        if kept is None:
            text = corpus.load_corpus(s.corpus)
            how = {"pairs": s.pairs, "probes": s.probes, "seed": s.seed, "kind": s.kind}
            iteration = curvature.measurement(s.model, text, memory=plans.GRAPHS, **how)
            graphs = plans.graph_bytes(iteration)
        else:
            iteration, graphs = kept.iteration, kept.graphs
        needed = graphs + plans.basis_bytes(iteration, job.products)
        plans.check_room(needed)
        with self._change:
            self._done = plans.let_go(self._done, plans.HELD - needed)
        self._before, self._phase, started = iteration.products, "measuring", time.perf_counter()

        def current() -> MeasuredSpectrum:
            return MeasuredSpectrum(s, iteration.spectrum(), iteration, graphs)

        try:
            last = self.follow(iteration.run(job.products), lambda at: current())
        except Exception:
            self._live = current() if iteration.products else self._live  # with every product, drawn or not
            raise
        if last is None:
            return
        made = iteration.products - self._before
        type(self).pace = (time.perf_counter() - started) / made / plans.seconds_per_product(s)
        new = current()
        worse = job.before is not None and job.before.products > new.products  # stopped soon after a new start
        self.finish(job, job.before if worse else new)

    # Picture and text -----------------------------------------------------------------------------------------

    def _spectra_of(self, state: dict[str, Any]) -> list[MeasuredSpectrum]:
        if state["stored"]:
            return plans.of_state(self._read(state["corpus"])[0], state)
        return self._visible(state, self._on_screen())

    def _visible(self, state: dict[str, Any], measured: list[MeasuredSpectrum]) -> list[MeasuredSpectrum]:
        """The spectra in the units of the chosen kind; if there are none, in the units of the last one."""
        units = {UNITS[one.setting.kind] for one in measured}
        unit = UNITS[state["kind"]]
        if measured and unit not in units:
            unit = UNITS[measured[-1].setting.kind]
        return [one for one in measured if UNITS[one.setting.kind] == unit]

    def _read(self, corpus: str) -> tuple[list[MeasuredSpectrum], str]:
        if corpus not in self._stored:
            self._stored[corpus] = plans.stored(corpus)
        return self._stored[corpus]

    def _names(self, spectra: list[MeasuredSpectrum], seeds: bool = True) -> list[str]:
        """The spectra's names, which do not change while the queue gets shorter."""
        known = [one.setting for one in spectra]
        stored = any(setting.rule is None for setting in known)
        return names(known, seeds, [] if stored else [job.setting for job in self._queue])

    def measure(self, state, quick):
        """Every spectrum on screen as a curve, without new products."""
        spectra = self._spectra_of(state)
        found = [one.spectrum for one in spectra]
        width = state["bandwidth"] * max((s.lambda_max - s.lambda_min for s in found), default=0.0) or 1e-6
        named = zip(self._names(spectra, seeds=False), found, strict=True)
        parts = [s.smooth(width).assign(run=name) for name, s in named]
        return Picture(list(spectra), pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(), width)

    def draw(self, state, tables):
        """The densities, or a sentence about what Run will do."""
        if not tables.spectra:
            wanted = plan(state)
            what = f"{self.count_text(len(wanted))} of {state['products']} products"
            message = "The first product is on its way." if self._busy else f"Press Run: {what} will be drawn here."
            return empty(message, state["lecture"], in_common(wanted, plans.MAIN))
        settings = [one.setting for one in tables.spectra]
        kinds = {setting.kind for setting in settings}
        products = plans.range_of((one.spectrum.steps for one in tables.spectra), "products")
        note = f"{in_common(settings, plans.MAIN)}, {products}; bells of width {tables.width:.2g}"
        line = 2 / state["lr"] if state["lr"] and kinds != {"relative"} else None
        matrix = MATRICES[kinds.pop()] if len(kinds) == 1 else "the matrix"
        return figures.spectrum(tables.curves, two_over_eta=line, matrix=matrix, note=note, lecture=state["lecture"])

    def table(self) -> pd.DataFrame:
        """One row per eigenvalue of the small matrix; `Spectrum.of_table` reads the rows of one spectrum."""
        parts = [one.spectrum.table() for one in self.tables.spectra] if self.tables else []
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["eigenvalue", "weight"])

    def status_line(self, state) -> str:
        """Where stored spectra come from; otherwise progress, or what Run will do."""
        remark = REMARKS.get(state["kind"], "") if state["lr"] else ""
        if not state["stored"]:
            return f"{super().status_line(state)} {remark}".strip()
        made = html.escape(self._read(state["corpus"])[1])
        meanwhile = html.escape(self._progress_text()) if self._busy else ""
        stored = f"Stored spectra, made by <code>{made}</code>. Switch Talk size off for your own."
        return f"{stored} {remark} {meanwhile}".strip()

    def plan_text(self, state: dict[str, Any]) -> str:
        """What Run and More steps will do, and how long that takes."""
        wanted, further = self.wanted(state), self.further(state)
        shared = in_common([job.setting for job in wanted], plans.MAIN)
        what = self._jobs_text(wanted, state["products"])
        parts = [self.run_text(wanted, plan(state), what, shared, self._seconds(wanted))]
        if further:
            more = f"{state['products']} more products for {self.count_text(len(further))} on screen"
            parts.append(f"More steps: {more}, about {duration(self._seconds(further))}.")
        hidden = len(self._done) - len(self._visible(state, self._done))
        if hidden:
            parts.append(f"{self.count_text(hidden)} in other units: choose their curvature to see them.")
        return " ".join(parts)

    def _jobs_text(self, jobs: list[SpectrumJob], products: int) -> str:
        """How many spectra, and their names, with the product from which each goes on."""
        own = names([job.setting for job in jobs], others=[one.setting for one in self._done])
        begun = (f" from product {job.begun.products}" if job.begun else "" for job in jobs)
        each = (f"{name}{start}" for name, start in zip(own, begun, strict=True))
        return f"{self.count_text(len(jobs))} of {products} products: {'; '.join(each)}"

    def _seconds(self, jobs: list[SpectrumJob]) -> float:
        """Estimated time of the jobs; a start takes about as long as three products."""
        return self.pace * sum(
            (job.length + (0 if job.begun else 3)) * plans.seconds_per_product(job.setting) for job in jobs
        )

    def progress_text(self, queue: list[SpectrumJob], live, at) -> str:
        """The current product, and the time left."""
        job, rest = queue[0], queue[1:]
        name = names([job.setting], others=[one.setting for one in [*rest, *self._done]])[0]
        more = f"; {len(rest)} more to come" if rest else ""
        if self._phase == "reading":
            return f"{name}: reading {job.setting.corpus}, building the model{more}."
        if at is None:
            return f"{name}: the first product{more}."
        left = duration(at.seconds_left + self._seconds(rest))
        return f"{name}: product {at.product} of {at.of}, {left} left{more}."

    def rows_on_page(self) -> tuple[str, pd.DataFrame]:
        """The eigenvalues, without the columns that are constant in a spectrum."""
        rows = self.table()
        rows = rows.reindex(columns=[name for name in COLUMNS if name in rows.columns])
        caption = f"{min(len(rows), ROWS)} of {len(rows)} eigenvalues; Save numbers has all, and all that is known."
        return caption, rows.head(ROWS)

    def summary(self) -> str:
        """Both ends of every spectrum on screen."""
        spectra = self.tables.spectra if self.tables else []
        return plans.summary(dict(zip(self._names(spectra), spectra, strict=True))) if spectra else ""

    def _show_buttons(self) -> None:
        super()._show_buttons()
        self.buttons["more"].disabled = self._busy or not self.further(self.state())

    # The page --------------------------------------------------------------------------------------------------

    def launch_buttons(self):
        """More steps beside Stop."""
        mine = super().launch_buttons()
        more = Button("More steps", self.more, tooltip="Go on with the spectra on screen, without starting again")
        return {"run": mine.pop("run"), "stop": mine.pop("stop"), "more": more, **mine}
