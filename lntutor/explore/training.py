"""The training explorer: press Run, and loss, rate and gradient grow before your eyes; runs stay to be compared."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import ipywidgets as w
import pandas as pd

from lntutor import figures
from lntutor.config import OPTIMIZERS, SCHEDULES, TASKS
from lntutor.download import locate
from lntutor.explore import controls as c
from lntutor.explore.runs import (
    FIGURES,
    MOST_RUNS,
    OPTIMIZER_NAMES,
    TASK_NAMES,
    Setting,
    corpora,
    count,
    duration,
    in_common,
    names,
    plan,
    results,
    runs_in_words,
    seconds_a_step,
    setting_of,
)
from lntutor.explore.working import WorkingExplorer
from lntutor.figures.parts import empty

PAIRS, SAMPLES = 200, 3  # held-out sentences that are translated, and shown
RATES = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2, 3e-2, 5e-2, 1e-1)
WARMUPS = (0, 1, 10, 20, 50, 100, 200, 400, 1000)
STEPS = (20, 50, 100, 200, 300, 500, 1000, 2000)
DECIDED = ("placements", "warmup", "optimizer")  # by a preset; moving one of them leaves it
COLUMNS = [
    "run", "placement", "depth", "width", "optimizer", "warmup", "seed", "corpus", "status",
    "step", "loss", "val_loss", "lr", "gradient", "tokens_per_second",
]  # fmt: skip


class TrainingExplorer(WorkingExplorer):
    """Does it learn? LN position × warm-up × optimiser × learning rate × depth, several runs over one another.

    Controls say what the next Run does; they start nothing, and they lose nothing. A training has a thread of its own,
    and waits for its turn where another explorer of this kernel trains. In a cell: `run()`, `wait()`, `stop()`, `runs`.
    """

    WORK = "training"
    MOST = MOST_RUNS
    FIRST = ("placements", "warmup", "optimizer", "lr", "depth")
    APART = ("preset",)
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "figure 2": {"preset": "figure 2", "placements": ["post"], "task": "translation", "lr": 1e-2},
        "figure 4": {"preset": "figure 4", "placements": ["post", "pre"], "task": "translation", "lr": 1e-2},
        "figure 5": {"preset": "figure 5", "placements": ["post", "pre"], "task": "masked_words", "lr": 1e-2},
    }
    pace: ClassVar[float] = 1.0  # how many times as long as `seconds_a_step` says a step took, when last measured

    def make_controls(self):
        """What the next Run does."""
        optimizers = [(OPTIMIZER_NAMES[key], key) for key in OPTIMIZERS]
        tasks = [(TASK_NAMES[key], key) for key in TASKS]
        presets = [("as the controls say", ""), *((FIGURES[name], name) for name in self.PRESETS)]
        return {
            "preset": c.named(
                w.Dropdown(options=presets, value=""),
                "Runs",
                "What Run trains: what the controls say, or the runs of a figure of the paper",
                "min(360px, 98%)",
            ),
            "placements": c.placement_picker(("post", "pre")),
            "warmup": c.steps("Warm-up", 0, WARMUPS, "Steps in which the learning rate grows to its highest"),
            "optimizer": c.pick("Optimiser", "adam", optimizers, "Adam, SGD with momentum, RAdam, Adam with v₀ = g₀²"),
            "lr": c.steps("Learning rate", 1e-2, [(f"{v:g}", v) for v in RATES], "The highest rate of the schedule"),
            "depth": c.whole("Depth", 2, 1, 6, "Layers of each side"),
            "width": c.pick("Width", 64, (16, 32, 64, 128), "Features of a token, d; four heads, FFN 4 × width"),
            "steps": c.steps("Steps", 500, STEPS, "Steps of a run, 64 sentences each"),
            "seeds": c.whole("Seeds", 1, 1, 5, "How many runs of each: other weights, other order of sentences"),
            "task": c.pick("Task", "translation", tasks, "Translate, or guess masked words (an encoder, English)"),
            "corpus": c.pick("Corpus", "captions", corpora(), "Sentences in German and English"),
            "schedule": c.pick("Schedule", "inverse_sqrt", SCHEDULES, "The rate after a warm-up"),
            "label_smoothing": c.steps("Smoothing", 0.1, (0.0, 0.05, 0.1, 0.2), "Label smoothing in the training loss"),
            "lecture": c.lecture_type(),
        }

    # Runs ------------------------------------------------------------------------------------------------------

    @property
    def runs(self) -> dict[str, Any]:
        """Name → Run, of every run on screen; one that is under way as far as it is."""
        runs = self._on_screen()
        return dict(zip(self._names(runs), runs, strict=True))

    def _names(self, runs: list, seeds: bool = True) -> list[str]:
        """Names among all that is on screen and to come, so that they stay while a queue is worked through."""
        known = [setting_of(run) for run in runs]
        return names([*known, *(s for s in self._queue if s not in known)], seeds)[: len(runs)]

    def wanted(self, state: dict[str, Any]) -> list[Setting]:
        """The plan, without what has been run."""
        done = [setting_of(run) for run in self._done if run.status != "stopped"]
        return [setting for setting in plan(state) if setting not in done]

    def length(self, job: Setting) -> int:
        """Steps of a run."""
        return job.how.steps

    def steps_of(self, progress) -> int:
        """The step that a run has come to."""
        return progress.step

    def counted(self, jobs: int) -> str:
        """So many runs."""
        return count(jobs, "run")

    def do(self, job: Setting) -> None:
        """Train, and translate where the training came to its end."""
        from lntutor import corpus, training  # here: they take seconds, and not every page trains

        self._phase = "reading"
        with self._change:
            self._done = [run for run in self._done if setting_of(run) != job]
        self.refresh()
        steps = training.steps(job.model, job.how, corpus.load_corpus(job.corpus))
        self._phase, started = "training", time.perf_counter()
        last = self.follow(steps, lambda progress: progress.run())
        if last is None:
            return
        type(self).pace = (time.perf_counter() - started) / last.step / seconds_a_step(job)
        run = last.run()
        if run.status == "finished" and job.how.task == "translation" and not self._stopping.is_set():
            self._live, self._phase = run, "translating"
            self.refresh()
            run = training.finish(last, pairs=PAIRS, samples=SAMPLES)
        self.finish(job, run)

    # Picture and words -----------------------------------------------------------------------------------------

    def measure(self, state, quick):
        """Every step of every run on screen; columns: those of the setting, then those of a run's table."""
        runs = self._on_screen()
        parts = [
            run.table.assign(
                run=name,
                placement=run.model.placement.key,
                depth=run.model.depth,
                width=run.model.width,
                optimizer=run.how.optimizer,
                warmup=run.how.warmup,
                seed=run.how.seed,
                corpus=run.corpus,
                status=run.status,
            )[COLUMNS]
            for name, run in zip(self._names(runs, seeds=False), runs, strict=True)
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)

    def draw(self, state, tables, pinned):
        """The curves, or a sentence on what Run will do."""
        if not len(tables):
            wanted = plan(state)
            runs = f"{count(len(wanted), 'run')} of {state['steps']} steps"
            said = "The first step is on its way." if self._busy else f"Press Run: {runs} will be drawn here."
            return empty(said, state["lecture"], in_common(wanted))
        known = [setting_of(run) for run in self._on_screen()]
        ahead = max((setting.how.steps for setting in self._queue), default=None)
        return figures.training_curves(tables, steps=ahead, note=in_common(known), lecture=state["lecture"])

    def plan_words(self, state: dict[str, Any]) -> str:
        """What Run will do, and how long it takes."""
        wanted, everything = self.wanted(state), plan(state)
        if not wanted:
            return "All that Run would do is on screen; Clear removes it."
        rest = len(everything) - len(wanted)
        also = f" ({rest} more {'is' if rest == 1 else 'are'} on screen already)" if rest else ""
        seconds = self.pace * sum(setting.how.steps * seconds_a_step(setting) for setting in wanted)
        each = "Each: " if len(wanted) > 1 else ""
        known = [setting_of(run) for run in self._done]
        return f"Run: {runs_in_words(wanted, known)}{also}. {each}{in_common(wanted)}. About {duration(seconds)}."

    def progress_words(self, queue: list[Setting], live, at) -> str:
        """Where the run under way is."""
        name = self._names([live])[0] if live is not None else names(queue)[0]
        more = f"; {len(queue) - 1} more to come" if len(queue) > 1 else ""
        if self._phase == "reading":
            return f"Reading {queue[0].corpus}{more}."
        if self._phase == "translating":
            return f"{name}: translating {PAIRS} held-out sentences{more}."
        if at is None:
            return f"{name}: the first step{more}."
        return f"{name}: step {at.step} of {at.of}, {duration(at.seconds_left)} left{more}."

    def summary(self, done: list) -> str:
        """How the runs ended, and what they translate."""
        return results(dict(zip(self._names(done), done, strict=True)))

    def _fill_table(self) -> None:
        """The steps at which was validated: a few rows a run."""
        if self.shown.layout.display != "none":
            rows = self.tables[self.tables["val_loss"].notna()]
            said = f"<p>The {len(rows)} steps with a validation loss; Save CSV has all {len(self.tables)}.</p>"
            self._show_rows(said, rows)

    # The page --------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        super()._build()
        self.add_class("lntutor-training")

    def beside(self, mine: dict[str, w.Button]) -> list[w.Widget]:
        """The list of presets before the buttons."""
        self.preset = self.controls["preset"]
        return [self.preset, *super().beside(mine)]

    def _preset_list(self) -> list[w.Widget]:
        return []  # a control here: it stands by the Run button, and is part of the state

    def _apply(self, state: dict[str, Any], check: bool = False) -> None:
        super()._apply({**self._preset(state.get("preset")), **state}, check)

    def _preset(self, name: str | None) -> dict[str, Any]:
        return super()._preset(None if isinstance(name, str) and not name else name)

    def _set_control(self, name: str, value: Any) -> None:
        if name == "corpus":
            locate(value)  # says how to get one that is not here
        super()._set_control(name, value)

    def _moved(self, change) -> None:
        if self._quiet:
            return
        preset = self.controls["preset"]
        if change.owner is preset and change.new:
            self._guarded(lambda: self.set(**self.PRESETS[change.new]))  # size, steps and type stay as they are
            return
        if preset.value and any(change.owner is self.controls[name] for name in DECIDED):
            self._apply({"preset": ""})
        self.refresh()
