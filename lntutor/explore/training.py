"""The training explorer: press Run, and the curves of loss, rate and gradient grow; runs stay for comparison."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import pandas as pd

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore import training_plan as plans
from lntutor.explore.long_running import LongRunningExplorer
from lntutor.explore.training_plan import RunSetting, names, setting_of
from lntutor.figures.drawing import empty
from lntutor.model.config import SCHEDULES
from lntutor.text.download import locate

PAIRS, SAMPLES = 200, 3  # held-out sentences: translated for BLEU, and shown
RATES = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2, 3e-2, 5e-2, 1e-1)
WARMUPS = (0, 1, 10, 20, 50, 100, 200, 400, 1000)
STEPS = (20, 50, 100, 200, 300, 500, 1000, 2000)
DECIDED = ("placements", "warmup", "optimizer")  # decided by a preset; moving one of them leaves the preset
COLUMNS = [
    "run", "placement", "depth", "width", "optimizer", "warmup", "seed", "corpus", "status",
    "step", "loss", "val_loss", "lr", "gradient", "tokens_per_second",
]  # fmt: skip


class TrainingExplorer(LongRunningExplorer):
    """Does it learn? placement × warm-up × optimiser × learning rate × depth, several runs over one another.

    Controls describe the next Run; moving one starts nothing and loses nothing. In a cell: `run()`, `wait()`,
    `stop()`, `runs`.
    """

    WORK, LOOK = "training", "lntutor-training"
    JOB = ("run", "runs")
    MOST = plans.MOST_RUNS
    FIRST = ("placements", "preset", "warmup", "lr", "depth", "optimizer")
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "figure 2": {"preset": "figure 2", "placements": ["post"], "task": "translation", "lr": 1e-2},
        "figure 4": {"preset": "figure 4", "placements": ["post", "pre"], "task": "translation", "lr": 1e-2},
        "figure 5": {"preset": "figure 5", "placements": ["post", "pre"], "task": "masked_words", "lr": 1e-2},
    }
    pace: ClassVar[float] = 1.0  # seconds of a step when last measured, over `seconds_per_step`

    def make_controls(self):
        """What the next Run does."""
        presets = {"": "as set here", **{name: name for name in self.PRESETS}}
        rates = [(f"{rate:g}", rate) for rate in RATES]
        return {
            "preset": c.choice("Runs", "", presets,
                               "What Run trains: what the controls say, or the runs of a figure of the paper"),
            "placements": c.placement_chips(("post", "pre")),
            "warmup": c.step_slider("Warm-up", 0, WARMUPS, "Steps in which the learning rate grows to its highest"),
            "optimizer": c.choice("Optimiser", "adam", plans.OPTIMIZER_NAMES,
                                    "Adam, SGD with momentum, RAdam, Adam with v₀ = g₀²"),
            "lr": c.step_slider("Learning rate", 1e-2, rates, "The highest rate of the schedule"),
            "depth": c.int_slider("Depth", 2, 1, 6, "Layers of each side"),
            "width": c.choice("Width", 64, (16, 32, 64, 128), "Features of a token, d; four heads, FFN 4 × width"),
            "steps": c.step_slider("Steps", 500, STEPS, "Steps of a run, 64 sentences each"),
            "seeds": c.int_slider("Runs of each", 1, 1, 5, "Other weights and another order of sentences in each"),
            "task": c.choice("Task", "translation", plans.TASK_NAMES,
                               "Translate, or guess masked words (an encoder, English)"),
            "corpus": c.choice("Corpus", "captions", plans.corpora(), "Sentences in German and English"),
            "schedule": c.choice("Schedule", "inverse_sqrt", SCHEDULES, "The rate after a warm-up"),
            "label_smoothing": c.step_slider("Smoothing", 0.1, (0.0, 0.05, 0.1, 0.2),
                                             "Label smoothing in the training loss"),
            "lecture": c.lecture_switch(),
        }  # fmt: skip

    # Runs ------------------------------------------------------------------------------------------------------

    @property
    def runs(self) -> dict[str, Any]:
        """Name → Run of all on screen, including an unfinished one."""
        runs = self._on_screen()
        return dict(zip(self._names(runs), runs, strict=True))

    def _names(self, runs: list, seeds: bool = True) -> list[str]:
        """The runs' names, which do not change while the queue gets shorter."""
        return names([setting_of(run) for run in runs], seeds, self._queue)

    def wanted(self, state: dict[str, Any]) -> list[RunSetting]:
        """The plan, without runs that are complete."""
        done = [setting_of(run) for run in self._done if run.status != "stopped"]
        return [setting for setting in plans.plan(state) if setting not in done]

    def steps_of(self, progress) -> int:
        """Steps done."""
        return progress.step

    def do(self, job: RunSetting) -> None:
        """Train; if training was not stopped, translate held-out sentences."""
        from lntutor.text import corpus
        from lntutor.training import trainer as training  # imported here: it takes seconds

        self._phase = "reading"
        with self._change:
            self._done = [run for run in self._done if setting_of(run) != job]
        self.refresh()
        steps = training.steps(job.model, job.how, corpus.load_corpus(job.corpus))
        self._phase, started = "training", time.perf_counter()
        last = self.follow(steps, lambda progress: progress.run())
        if last is None:
            return
        type(self).pace = (time.perf_counter() - started) / last.step / plans.seconds_per_step(job)
        run = last.run()
        if run.status == "finished" and job.how.task == "translation" and not self._stopping.is_set():
            self._live, self._phase = run, "translating"
            self.refresh()
            run = training.finish(last, pairs=PAIRS, samples=SAMPLES)
        self.finish(job, run)

    # Picture and text -----------------------------------------------------------------------------------------

    def measure(self, state, quick):
        """One row per step of every run on screen; columns of the setting, then those of a run's table."""
        runs = self._on_screen()
        parts = [
            run.table.assign(
                run=name, placement=run.model.placement.key, depth=run.model.depth, width=run.model.width,
                optimizer=run.how.optimizer, warmup=run.how.warmup, seed=run.how.seed, corpus=run.corpus,
                status=run.status,
            )[COLUMNS]
            for name, run in zip(self._names(runs, seeds=False), runs, strict=True)
        ]  # fmt: skip
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)

    def draw(self, state, tables):
        """The curves, or a sentence about what Run will do."""
        if not len(tables):
            wanted = plans.plan(state)
            runs = f"{self.count_text(len(wanted))} of {state['steps']} steps"
            message = "The first step is on its way." if self._busy else f"Press Run: {runs} will be drawn here."
            return empty(message, state["lecture"], plans.in_common(wanted))
        known = [setting_of(run) for run in self._on_screen()]
        ahead = max((setting.how.steps for setting in self._queue), default=None)
        return figures.training_curves(tables, steps=ahead, note=plans.in_common(known), lecture=state["lecture"])

    def plan_text(self, state: dict[str, Any]) -> str:
        wanted = self.wanted(state)
        own = names(wanted, others=[setting_of(run) for run in self._done])
        what = f"{self.count_text(len(wanted))} of {state['steps']} steps: {'; '.join(own)}"
        seconds = self.pace * sum(setting.length * plans.seconds_per_step(setting) for setting in wanted)
        return self.run_text(wanted, plans.plan(state), what, plans.in_common(wanted), seconds)

    def progress_text(self, queue: list[RunSetting], live, at) -> str:
        """The current step, and the time left."""
        name = self._names([live])[0] if live is not None else names(queue)[0]
        more = f"; {len(queue) - 1} more to come" if len(queue) > 1 else ""
        if self._phase == "reading":
            return f"Reading {queue[0].corpus}{more}."
        if self._phase == "translating":
            return f"{name}: translating {PAIRS} held-out sentences{more}."
        if at is None:
            return f"{name}: the first step{more}."
        return f"{name}: step {at.step} of {at.of}, {plans.duration(at.seconds_left)} left{more}."

    def summary(self) -> str:
        """How the runs ended, and their translations."""
        done = self._done
        return plans.results(dict(zip(self._names(done), done, strict=True))) if done else ""

    def rows_on_page(self) -> tuple[str, pd.DataFrame]:
        """The steps with a validation loss: a few rows per run."""
        rows = self.tables[self.tables["val_loss"].notna()]
        return f"The {len(rows)} steps with a validation loss; Save numbers has all {len(self.tables)}.", rows

    # The page --------------------------------------------------------------------------------------------------

    def _preset_list(self):
        return {}  # here the preset is a control, and part of the state

    def _apply(self, state: dict[str, Any], check: bool = False) -> None:
        super()._apply({**self._preset(state.get("preset")), **state}, check)

    def _preset(self, name: str | None) -> dict[str, Any]:
        return super()._preset(None if isinstance(name, str) and not name else name)

    def _taken(self, name: str, value: Any) -> Any:
        if name == "corpus":
            locate(value)  # raises with the way to get a missing one
        return super()._taken(name, value)

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
