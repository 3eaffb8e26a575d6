"""The curvature explorer: press Run, and the Hessian's spectrum comes into view product by product."""

from __future__ import annotations

import html
import time
from typing import Any, ClassVar, NamedTuple

import ipywidgets as w
import pandas as pd

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore import spectra
from lntutor.explore.base import ROWS
from lntutor.explore.runs import duration, in_common, names
from lntutor.explore.spectra import KIND_NAMES, MATRICES, UNITS, Job, Measured, plan
from lntutor.explore.working import WorkingExplorer
from lntutor.figures.parts import empty

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
    """What is drawn: spectra, and their curves as this bandwidth has them."""

    shown: list[Measured]
    curves: pd.DataFrame  # run, placement, seed, x, density, lambda_min, lambda_max
    width: float  # of a bell


class CurvatureExplorer(WorkingExplorer):
    """How sharply does the loss bend at initialisation? The spectrum of its Hessian, LN position by LN position.

    Run starts the Lanczos iterations that the controls ask for, More steps goes on with those on screen, Talk size
    shows spectra that come with the course. The bandwidth only draws anew. In a cell: `run()`, `more()`, `wait()`,
    `stop()`, `spectra`.
    """

    WORK = "measurement"
    MOST = spectra.MOST_SPECTRA
    FIRST = ("placements", "depth", "width", "pairs", "bandwidth")
    APART = ("stored",)
    pace: ClassVar[float] = 1.0  # how many times as long as `seconds_a_product` says a product took, last time

    def __init__(self, preset: str | None = None, **state):
        self._before = 0  # products of the job under way that were made before
        self._stored: dict[str, tuple[list[Measured], str]] = {}  # corpus → spectra that were read, and who made them
        super().__init__(preset, **state)

    def make_controls(self):
        """What the next Run does, and how it is drawn."""
        shares = [(f"{100 * share:g} %", share) for share in SHARES]
        rates = [("none", 0.0), *((f"η = {rate:g}", rate) for rate in RATES)]
        kinds = [(name, key) for key, name in KIND_NAMES.items()]
        return {
            "placements": c.placement_picker(("post", "pre")),
            "depth": c.whole("Depth", 2, 1, 6, "Layers of each side"),
            "width": c.pick("Width", 32, (16, 32, 64, 128), "Features of a token, d; four heads, FFN 4 × width"),
            "pairs": c.steps("Pairs", 100, PAIRS, "Sentence pairs over which the loss is averaged"),
            "bandwidth": c.steps(
                "Bandwidth", 0.01, shares, "Width of each eigenvalue's bell, as a share of the range; draws anew only"
            ),
            "products": c.steps("Products", 30, PRODUCTS, "Lanczos steps, a product with the matrix each"),
            "probes": c.whole("Probes", 1, 1, 10, "Random directions from which Lanczos starts; more make it smoother"),
            "seeds": c.whole("Seeds", 1, 1, 5, "How many spectra of each: other weights, other directions"),
            "kind": c.pick("Curvature", "hessian", kinds, "Which matrix, or in which units for every weight"),
            "corpus": c.pick("Corpus", "captions", spectra.corpus_options(), "Sentences in German and English"),
            "lr": c.pick("2/η line", 0.0, rates, "Above 2/η gradient descent at the rate η is unstable"),
            "lecture": c.lecture_type(),
            "stored": w.ToggleButton(
                False, description="Talk size", tooltip="Spectra of a larger model that come with the course",
                layout=w.Layout(width="auto"),
            ),
        }  # fmt: skip

    # Spectra ---------------------------------------------------------------------------------------------------

    @property
    def spectra(self) -> dict[str, Any]:
        """Name → Spectrum, of every one on screen; one that is under way as far as it is."""
        shown = self._shown(self.state())
        return {name: one.spectrum for name, one in zip(self._names(shown), shown, strict=True)}

    def run(self) -> None:
        """Measure what the controls ask for, in a thread of its own, and go on with what was stopped."""
        self._leave_stored()
        super().run()

    def more(self) -> None:
        """Go on with the spectra on screen: as many products again as the slider says, none of them twice."""
        self._leave_stored()
        self.begin(self.further)

    def wanted(self, state: dict[str, Any]) -> list[Job]:
        """The plan, without what has that many products."""
        done = {one.setting: one for one in self._done}
        jobs = [Job(setting, state["products"], done.get(setting)) for setting in plan(state)]
        return [job for job in jobs if job.before is None or job.before.products < job.products]

    def further(self, state: dict[str, Any]) -> list[Job]:
        """Those on screen that can go on, each by as many products as a run has."""
        going = (one for one in self._visible(state, self._done) if one.iteration is not None and one.products < 10**9)
        return [Job(one.setting, one.products + state["products"], one) for one in going]

    def close(self) -> None:
        """Take the explorer from the page: its spectra stay, but cannot go on."""
        super().close()
        with self._change:
            self._done = spectra.let_go(self._done, 0)

    def length(self, job: Job) -> int:
        """Products to make."""
        return job.length

    def steps_of(self, progress) -> int:
        """Products of this job."""
        return progress.product - self._before

    def counted(self, jobs: int) -> str:
        """So many spectra."""
        return spectra.spectra(jobs)

    def _leave_stored(self) -> None:
        if self.controls["stored"].value:
            self._apply({"stored": False})

    def do(self, job: Job) -> None:
        """Measure, from the start or from where it was."""
        from lntutor import corpus, curvature  # here: they take seconds, and not every page measures

        self._phase = "reading"
        self._live = job.before
        with self._change:
            self._done = [one for one in self._done if one.setting != job.setting]
        self.refresh()
        s, kept = job.setting, job.before if job.goes_on else None
        if kept is None:
            text = corpus.load_corpus(s.corpus)
            told = {"pairs": s.pairs, "probes": s.probes, "seed": s.seed, "kind": s.kind}
            iteration = curvature.measurement(s.model, text, memory=spectra.GRAPHS, **told)
            graphs = spectra.graph_bytes(iteration, text, s)
        else:
            iteration, graphs = kept.iteration, kept.graphs
        needed = graphs + spectra.basis_bytes(iteration, job.products)
        spectra.check_room(needed)
        with self._change:
            self._done = spectra.let_go(self._done, spectra.HELD - needed)
        self._before, self._phase, started = iteration.products, "measuring", time.perf_counter()

        def found() -> Measured:
            return Measured(s, iteration.spectrum(), iteration, graphs)

        try:
            last = self.follow(iteration.run(job.products), lambda at: found())
        except Exception:
            self._live = found() if iteration.products else self._live  # every product, drawn or not
            raise
        if last is None:
            return
        made = iteration.products - self._before
        type(self).pace = (time.perf_counter() - started) / made / spectra.seconds_a_product(s)
        new = found()
        worse = job.before is not None and job.before.products > new.products  # stopped soon after a new start
        self.finish(job, job.before if worse else new)

    # Picture and words -----------------------------------------------------------------------------------------

    def _shown(self, state: dict[str, Any]) -> list[Measured]:
        if state["stored"]:
            return spectra.of_state(self._read(state["corpus"])[0], state)
        return self._visible(state, self._on_screen())

    def _visible(self, state: dict[str, Any], measured: list[Measured]) -> list[Measured]:
        """Those in the units of the kind that is chosen; where there are none, those of the last."""
        units = {UNITS[one.setting.kind] for one in measured}
        unit = UNITS[state["kind"]]
        if measured and unit not in units:
            unit = UNITS[measured[-1].setting.kind]
        return [one for one in measured if UNITS[one.setting.kind] == unit]

    def _read(self, corpus: str) -> tuple[list[Measured], str]:
        if corpus not in self._stored:
            self._stored[corpus] = spectra.stored(corpus)
        return self._stored[corpus]

    def _names(self, shown: list[Measured], seeds: bool = True) -> list[str]:
        """Names among all that is on screen and to come, so that they stay while a queue is worked through."""
        known = [one.setting for one in shown]
        stored = any(setting.rule is None for setting in known)
        ahead = [] if stored else [job.setting for job in self._queue if job.setting not in known]
        return names([*known, *ahead], seeds)[: len(shown)]

    def measure(self, state, quick):
        """Every spectrum on screen as a curve: no new products."""
        shown = self._shown(state)
        found = [one.spectrum for one in shown]
        width = state["bandwidth"] * max((s.lambda_max - s.lambda_min for s in found), default=0.0) or 1e-6
        named = zip(self._names(shown, seeds=False), found, strict=True)
        parts = [s.smooth(width).assign(run=name) for name, s in named]
        return Picture(list(shown), pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(), width)

    def draw(self, state, tables, pinned):
        """The densities, or a sentence on what Run will do."""
        if not tables.shown:
            wanted = plan(state)
            what = f"{spectra.spectra(len(wanted))} of {state['products']} products"
            said = "The first product is on its way." if self._busy else f"Press Run: {what} will be drawn here."
            return empty(said, state["lecture"], in_common(wanted, spectra.MAIN))
        settings = [one.setting for one in tables.shown]
        kinds = {setting.kind for setting in settings}
        products = spectra.range_of((one.spectrum.steps for one in tables.shown), "products")
        note = f"{in_common(settings, spectra.MAIN)}, {products}; bells of width {tables.width:.2g}"
        return figures.spectrum(
            tables.curves,
            two_over_eta=2 / state["lr"] if state["lr"] and kinds != {"relative"} else None,
            matrix=MATRICES[kinds.pop()] if len(kinds) == 1 else "the matrix",
            note=note,
            lecture=state["lecture"],
        )

    def table(self) -> pd.DataFrame:
        """One row an eigenvalue of the small matrix; `Spectrum.of_table` makes a spectrum of those of one."""
        parts = [one.spectrum.table() for one in self.tables.shown] if self.tables else []
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["eigenvalue", "weight"])

    def said(self, state, seconds: float) -> str:
        """Where stored spectra come from; else what is under way, or what Run will do."""
        remark = REMARKS.get(state["kind"], "") if state["lr"] else ""
        if not state["stored"]:
            return f"{super().said(state, seconds)} {remark}".strip()
        made = html.escape(self._read(state["corpus"])[1])
        meanwhile = html.escape(self._progress_words()) if self._busy else ""
        stored = f"Stored spectra, made by <code>{made}</code>. Press Talk size again for your own."
        return f"{stored} {remark} {meanwhile}".strip()

    def plan_words(self, state: dict[str, Any]) -> str:
        """What Run and More steps will do, and how long that takes."""
        wanted, everything = self.wanted(state), plan(state)
        words = [self._run_words(wanted, len(everything) - len(wanted), state["products"])]
        further = self.further(state)
        if further:
            what = f"{state['products']} more products for {spectra.spectra(len(further))} on screen"
            words.append(f"More steps: {what}, about {duration(self._seconds(further))}.")
        hidden = len(self._done) - len(self._visible(state, self._done))
        if hidden:
            words.append(f"{spectra.spectra(hidden)} in other units: choose their curvature to see them.")
        return " ".join(words)

    def _run_words(self, wanted: list[Job], rest: int, products: int) -> str:
        if not wanted:
            return "All that Run would do is on screen; Clear removes it."
        also = f" ({rest} more {'is' if rest == 1 else 'are'} on screen already)" if rest else ""
        settings = [job.setting for job in wanted]
        known = [one.setting for one in self._done if one.setting not in settings]
        called = names([*settings, *known])[: len(wanted)]
        begun = (f" from product {job.before.products}" if job.goes_on else "" for job in wanted)
        what = "; ".join(f"{name}{start}" for name, start in zip(called, begun, strict=True))
        each = "Each: " if len(wanted) > 1 else ""
        shared = in_common(settings, spectra.MAIN)
        number = f"{spectra.spectra(len(wanted))} of {products} products"
        return f"Run: {number}: {what}{also}. {each}{shared}. About {duration(self._seconds(wanted))}."

    def _seconds(self, jobs: list[Job]) -> float:
        """A measurement's start takes about as long as three products."""
        return self.pace * sum(
            (job.length + (0 if job.goes_on else 3)) * spectra.seconds_a_product(job.setting) for job in jobs
        )

    def progress_words(self, queue: list[Job], live, at) -> str:
        """Where the measurement under way is."""
        job, rest = queue[0], queue[1:]
        known = [one.setting for one in self._done]
        name = names([job.setting, *(j.setting for j in rest), *(s for s in known if s != job.setting)])[0]
        more = f"; {len(rest)} more to come" if rest else ""
        if self._phase == "reading":
            return f"{name}: reading {job.setting.corpus}, building the model{more}."
        if at is None:
            return f"{name}: the first product{more}."
        left = duration(at.seconds_left + self._seconds(rest))
        return f"{name}: product {at.product} of {at.of}, {left} left{more}."

    def _fill_table(self) -> None:
        """The eigenvalues, without what is the same in all rows of a spectrum."""
        if self.shown.layout.display != "none":
            rows = self.table()
            rows = rows[[name for name in COLUMNS if name in rows.columns]]
            said = f"<p>{min(len(rows), ROWS)} of {len(rows)} eigenvalues; Save CSV has all, and all that is known.</p>"
            self._show_rows(said, rows.head(ROWS))

    def _summary(self) -> str:
        shown = self.tables.shown if self.tables else []
        return spectra.summary(dict(zip(self._names(shown), shown, strict=True))) if shown else ""

    def _show_buttons(self) -> None:
        super()._show_buttons()
        self.buttons["more"].disabled = self._busy or not self.further(self.state())

    # The page --------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        super()._build()
        self.add_class("lntutor-curvature")

    def beside(self, mine: dict[str, w.Button]) -> list[w.Widget]:
        """More steps beside Stop, and stored spectra one click away."""
        more = self._button("More steps", "Go on with the spectra on screen, without starting again", self.more)
        self.buttons["more"] = more
        return [mine["run"], mine["stop"], more, mine["clear"], self.controls["stored"], mine["other"]]
