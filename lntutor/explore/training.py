"""The training explorer: press Run, and loss, rate and gradient grow before your eyes; runs stay to be compared."""

from __future__ import annotations

import atexit
import html
import threading
import time
import weakref
from typing import Any, ClassVar

import ipywidgets as w
import pandas as pd

from lntutor import figures
from lntutor.config import OPTIMIZERS, SCHEDULES, TASKS
from lntutor.download import locate
from lntutor.explore import controls as c
from lntutor.explore.base import Explorer
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
from lntutor.figures.parts import empty

REDRAW = 0.22  # seconds between two pictures of a run under way
PAIRS, SAMPLES = 200, 3  # held-out sentences that are translated, and shown
RATES = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 2e-2, 3e-2, 5e-2, 1e-1)
WARMUPS = (0, 1, 10, 20, 50, 100, 200, 400, 1000)
STEPS = (20, 50, 100, 200, 300, 500, 1000, 2000)
DECIDED = ("placements", "warmup", "optimizer")  # by a preset; moving one of them leaves it
COLUMNS = [
    "run", "placement", "depth", "width", "optimizer", "warmup", "seed", "corpus", "status",
    "step", "loss", "val_loss", "lr", "gradient", "tokens_per_second",
]  # fmt: skip

STYLE = """<style>
.lntutor-training .lntutor-status .widget-html-content { line-height: 1.4; height: auto; white-space: normal; }
.lntutor-results table { border-collapse: collapse; margin: 6px 0 12px; }
.lntutor-results caption { text-align: left; font-weight: bold; padding: 4px 0; }
.lntutor-results :is(th, td) {
  text-align: left; vertical-align: top; padding: 2px 14px 2px 0; line-height: 1.4; white-space: normal; }
.lntutor-results tbody th { font-weight: normal; white-space: nowrap; }
.lntutor-results tbody + tbody tr:first-child > * { padding-top: 10px; }
.lntutor-results .source td { font-weight: bold; }
</style>"""

TURN = threading.Lock()  # one training at a time in a kernel
_UNDER_WAY: weakref.WeakSet[TrainingExplorer] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Have no thread in the middle of a step when the kernel ends."""
    for explorer in list(_UNDER_WAY):
        explorer.stop()
        explorer._worker.join(2)


class TrainingExplorer(Explorer):
    """Does it learn? LN position × warm-up × optimiser × learning rate × depth, several runs over one another.

    Controls say what the next Run does; they start nothing, and they lose nothing. A training has a thread of its own,
    and waits for its turn where another explorer of this kernel trains. In a cell: `run()`, `wait()`, `stop()`, `runs`.
    """

    PINS = False
    FIRST = ("placements", "warmup", "optimizer", "lr", "depth")
    APART = ("preset",)
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "figure 2": {"preset": "figure 2", "placements": ["post"], "task": "translation", "lr": 1e-2},
        "figure 4": {"preset": "figure 4", "placements": ["post", "pre"], "task": "translation", "lr": 1e-2},
        "figure 5": {"preset": "figure 5", "placements": ["post", "pre"], "task": "masked_words", "lr": 1e-2},
    }
    pace: ClassVar[float] = 1.0  # how many times as long as `seconds_a_step` says a step took, when last measured

    def __init__(self, preset: str | None = None, **state):
        self._worker, self._stopping, self._busy = threading.Thread(), threading.Event(), False
        self._done: list = []  # runs that have ended,
        self._change = threading.Lock()  # and who may change that list: the thread that trains and Clear both do
        self._live: Any = None  # the run under way, as far as it is
        self._queue: list[Setting] = []  # the setting under way and those after it
        self._progress: Any = None
        self._phase = self._outcome = ""
        self._steps_done = 0
        self.failure: Exception | None = None  # what ended the last training, where that was a mistake of ours
        super().__init__(preset, **state)

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
                "360px",
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
            "lecture": c.tick("Lecture type", False, "Type for the back row"),
        }

    # Runs ------------------------------------------------------------------------------------------------------

    @property
    def runs(self) -> dict[str, Any]:
        """Name → Run, of every run on screen; one that is under way as far as it is."""
        runs = self._on_screen()
        return dict(zip(self._names(runs), runs, strict=True))

    @property
    def running(self) -> bool:
        """Whether a training is under way or waits for its turn."""
        return self._busy

    def run(self) -> None:
        """Start what the controls ask for, in a thread of its own; runs that are on screen are not made again."""
        if self._busy:
            raise ValueError("A training is under way: stop() ends it, wait() waits for its end.")
        self._queue = self._wanted(self.state())
        if self._queue:
            self._busy, self._phase, self._outcome, self.failure = True, "reading", "", None
            self._stopping.clear()
            self._steps_done, self.bar.value = 0, 0
            self.bar.max = sum(setting.how.steps for setting in self._queue)
            self._worker = threading.Thread(target=self._train_all, daemon=True, name="lntutor training")
            _UNDER_WAY.add(self)
            self._worker.start()
        self.refresh()

    def stop(self) -> None:
        """End the training soon; what was measured stays."""
        self._stopping.set()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the training has ended; an interrupt stops it. A mistake in it is raised here."""
        try:
            if self._worker.ident is not None:
                self._worker.join(timeout)
        except KeyboardInterrupt:
            self.stop()
            raise
        if self.failure is not None:
            raise self.failure

    def clear(self) -> None:
        """Remove the runs that have ended."""
        with self._change:
            self._done, self._outcome, self.failure = [], "", None
        self.refresh()

    def close(self) -> None:
        """Stop, and take the explorer from the page."""
        self.stop()
        super().close()

    def _on_screen(self) -> list:
        live = self._live
        return [*self._done, live] if live is not None else self._done

    def _names(self, runs: list, seeds: bool = True) -> list[str]:
        """Names among all that is on screen and to come, so that they stay while a queue is worked through."""
        known = [setting_of(run) for run in runs]
        return names([*known, *(s for s in self._queue if s not in known)], seeds)[: len(runs)]

    def _wanted(self, state: dict[str, Any]) -> list[Setting]:
        """The plan, without what has been run."""
        done = [setting_of(run) for run in self._done if run.status != "stopped"]
        return [setting for setting in plan(state) if setting not in done]

    # The thread that trains ------------------------------------------------------------------------------------

    def _train_all(self) -> None:
        started, before = time.perf_counter(), len(self._queue)
        try:
            if self._take_turn():
                try:
                    with c.one_thread():
                        while self._queue and not self._stopping.is_set():
                            self._train_one(self._queue[0])
                            self._queue = self._queue[1:]
                finally:
                    TURN.release()
        except Exception as error:  # shown in the status line, and raised by `wait`
            self.failure = error
            with self._change:
                self._done = self._on_screen()[-MOST_RUNS:]
        ended = before - len(self._queue)
        taken = duration(time.perf_counter() - started)
        if self.failure is None:
            self._outcome = "Stopped." if self._stopping.is_set() else f"{count(ended, 'run')} done in {taken}."
        self._live, self._progress, self._queue, self._busy = None, None, [], False
        _UNDER_WAY.discard(self)
        self.refresh()

    def _take_turn(self) -> bool:
        """Wait until no other explorer trains; False where Stop comes first."""
        if not TURN.acquire(blocking=False):
            self._phase = "waiting"
            self.refresh()
            while not TURN.acquire(timeout=0.1):
                if self._stopping.is_set():
                    return False
        return True

    def _train_one(self, setting: Setting) -> None:
        from lntutor import corpus, training  # here: they take seconds, and not every page trains

        self._phase = "reading"
        with self._change:
            self._done = [run for run in self._done if setting_of(run) != setting]
        self.refresh()
        steps = training.steps(setting.model, setting.how, corpus.load_corpus(setting.corpus))
        last, started, due = None, time.perf_counter(), 0.0
        self._phase = "training"
        try:
            for last in steps:
                self._progress = last
                if self._stopping.is_set():
                    break
                if time.perf_counter() >= due:
                    self._live = last.run()
                    self.refresh()
                    due = time.perf_counter() + REDRAW
        finally:
            steps.close()
        if last is None:
            return
        type(self).pace = (time.perf_counter() - started) / last.step / seconds_a_step(setting)
        run = last.run()
        if run.status == "finished" and setting.how.task == "translation" and not self._stopping.is_set():
            self._live, self._phase = run, "translating"
            self.refresh()
            run = training.finish(last, pairs=PAIRS, samples=SAMPLES)
        self._steps_done += setting.how.steps
        with self._change:
            self._done = [*self._done, run][-MOST_RUNS:]
        self._live = self._progress = None
        self.refresh()

    # Picture and words -----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Draw at once: nothing is measured when a control moves."""
        self.settle()

    def _tables(self, state, quick):
        return self.measure(state, quick)  # runs grow: nothing to remember

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

    def label(self, state) -> str:
        """What Run will do, in words."""
        return self._plan_words(state)

    def said(self, state, seconds: float) -> str:
        """What is under way, or how it ended and what Run will do next."""
        if self._busy:
            return html.escape(self._progress_words())
        words = html.escape(f"{self._outcome} {self._plan_words(state)}".strip())
        if self.failure is None:
            return words
        failure = html.escape(f"{type(self.failure).__name__}: {self.failure}")
        return f'<span class="wrong">{failure} The training has ended.</span> {words}'

    def _plan_words(self, state: dict[str, Any]) -> str:
        wanted, everything = self._wanted(state), plan(state)
        if not wanted:
            return "All that Run would do is on screen; Clear removes it."
        rest = len(everything) - len(wanted)
        also = f" ({rest} more {'is' if rest == 1 else 'are'} on screen already)" if rest else ""
        seconds = self.pace * sum(setting.how.steps * seconds_a_step(setting) for setting in wanted)
        each = "Each: " if len(wanted) > 1 else ""
        known = [setting_of(run) for run in self._done]
        return f"Run: {runs_in_words(wanted, known)}{also}. {each}{in_common(wanted)}. About {duration(seconds)}."

    def _progress_words(self) -> str:
        if self._phase == "waiting":
            ways = "Stop gives up the place, Stop the other ends that one."
            return f"Waiting for another training in this kernel to end. {ways}"
        queue, live = self._queue, self._live  # as they are now: the other thread replaces them
        if self._stopping.is_set() or not queue:
            return "Stopping."
        name = self._names([live])[0] if live is not None else names(queue)[0]
        more = f"; {len(queue) - 1} more to come" if len(queue) > 1 else ""
        if self._phase == "reading":
            return f"Reading {queue[0].corpus}{more}."
        if self._phase == "translating":
            return f"{name}: translating {PAIRS} held-out sentences{more}."
        at = self._progress
        if at is None:
            return f"{name}: the first step{more}."
        return f"{name}: step {at.step} of {at.of}, {duration(at.seconds_left)} left{more}."

    def _draw_once(self, quick: bool) -> None:
        super()._draw_once(quick)
        self.error = self.error or self.failure
        self._show_buttons()
        done = self._done
        self.results.value = results(dict(zip(self._names(done), done, strict=True))) if done else ""

    def _show_buttons(self) -> None:
        try:
            nothing = not self._wanted(self.state())
        except ValueError:
            nothing = True
        self.buttons["run"].disabled = self._busy or nothing
        self.buttons["stop"].disabled = not self._busy or self._stopping.is_set()
        self.buttons["clear"].disabled = not self._done
        self.buttons["other"].layout.display = None if self._busy and self._phase == "waiting" else "none"
        self.bar.layout.visibility = "visible" if self._busy else "hidden"
        at = self._progress
        self.bar.value = self._steps_done + (at.step if at is not None else 0)

    def _fill_table(self) -> None:
        """The steps at which was validated: a few rows a run."""
        if self.shown.layout.display != "none":
            rows = self.tables[self.tables["val_loss"].notna()]
            said = f"<p>The {len(rows)} steps with a validation loss; Save CSV has all {len(self.tables)}.</p>"
            self.shown.value = said + rows.to_html(index=False, float_format=lambda v: f"{v:.4g}", border=0)

    # The page --------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        super()._build()
        self.add_class("lntutor-training")
        self.results = w.HTML(layout=w.Layout(max_height="560px", overflow="auto"))
        self.results.add_class("lntutor-results")
        first, *rest = self.children
        rest.remove(self.status)
        at = rest.index(self.plot)
        self.children = [first, *rest[:at], self.launch, self.status, self.plot, self.results, *rest[at + 1 :]]

    def _buttons(self) -> w.Box:
        row = super()._buttons()
        self.preset = self.controls["preset"]
        mine = {
            "run": self._button("Run", "Train what the line below says", self.run),
            "stop": self._button("Stop", "End the training; what was measured stays", self._press_stop),
            "clear": self._button("Clear", "Remove the runs that have ended", self.clear),
            "other": self._button("Stop the other", "End the training that this one waits for", self._stop_other),
        }
        mine["run"].button_style = "primary"
        self.buttons = mine | self.buttons
        self.bar = w.IntProgress(0, 0, 1, layout=w.Layout(width="auto", flex="1 1 120px"))
        self.bar.tooltip = "How much of the training is done"
        look = w.HTML(STYLE, layout=w.Layout(display="none"))
        self.launch = w.Box([look, self.preset, *mine.values(), self.bar], layout=w.Layout(flex_flow="row wrap"))
        return row

    def _preset_list(self) -> list[w.Widget]:
        return []  # a control here: it stands by the Run button, and is part of the state

    def _stop_other(self) -> None:
        """End the training that has the turn: its own page may be gone, as when its cell was run again."""
        for explorer in list(_UNDER_WAY):
            if explorer._phase != "waiting":
                explorer.stop()

    def _press_stop(self) -> None:
        self.stop()
        self.refresh()

    def _twin(self) -> str:
        return f'{super()._twin()}{STYLE}<div class="lntutor-results">{self.results.value}</div>'

    def _apply(self, state: dict[str, Any], check: bool = False) -> None:
        super()._apply({**self._preset(state.get("preset")), **state}, check)

    def _preset(self, name: str | None) -> dict[str, Any]:
        return super()._preset(name or None)

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
