"""Explorers that do long work: Run, Stop and a progress bar; a thread per explorer, one at a time in a kernel."""

from __future__ import annotations

import html
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import ipywidgets as w

from lntutor.explore.base import LAST, Explorer, release_memory, scrolled
from lntutor.explore.training_plan import duration
from lntutor.model.threads import one_thread
from lntutor.page.kit.panel import Button, Panel, Progress, Segments

REDRAW = 0.22  # seconds between two drawings of work under way

STYLE = """<style>
.lntutor-results table { border-collapse: collapse; margin: 6px 0 12px; }
.lntutor-results caption { text-align: left; font-weight: bold; padding: 4px 0; }
.lntutor-results :is(th, td) {
  text-align: left; vertical-align: top; padding: 2px 14px 2px 0; line-height: 1.4; white-space: normal; }
.lntutor-results tbody th { font-weight: normal; white-space: nowrap; }
.lntutor-results tbody + tbody tr:first-child > * { padding-top: 10px; }
.lntutor-results .source td { font-weight: bold; }
</style>"""

TURN = threading.Lock()  # held by the explorer that works
_UNDER_WAY: weakref.WeakSet[LongRunningExplorer] = weakref.WeakSet()


class LongRunningExplorer(Explorer):
    """Controls describe the next Run; moving one starts nothing and loses nothing.

    The work has its own thread, and waits while another explorer of this kernel works. A subclass defines which jobs
    a state asks for (`wanted`), does one of them (`do`), and describes plan, progress and results in text.
    """

    WORK: ClassVar[str]  # what it does, as a noun, such as "training"
    LOOK: ClassVar[str]  # its own class of CSS
    JOB: ClassVar[tuple[str, str]]  # one job and several, such as "run" and "runs"
    MOST: ClassVar[int]  # the most results on screen

    def __init__(self, preset: str | None = None, **state):
        self._worker, self._stopping, self._busy = threading.Thread(), threading.Event(), False
        self._done: list = []  # results, complete or stopped
        self._change = threading.Lock()  # held while `_done` changes: the working thread and Clear both change it
        self._live: Any = None  # the unfinished result
        self._queue: list = []  # the current job and those after it
        self._progress: Any = None
        self._phase = self._outcome = ""
        self._steps_done = 0
        self.failure: Exception | None = None  # the error that ended the last work
        super().__init__(preset, **state)

    # What a subclass defines --------------------------------------------------------------------------------------

    def wanted(self, state: dict[str, Any]) -> list:
        """The jobs that Run would do: those whose results are not on screen; each has a `length` in steps."""
        raise NotImplementedError

    def steps_of(self, progress) -> int:
        """How many steps of its job are done at this item of progress."""
        raise NotImplementedError

    def do(self, job) -> None:
        """Do one job, and hand its result to `finish`."""
        raise NotImplementedError

    def plan_text(self, state: dict[str, Any]) -> str:
        """What Run will do, and how long it takes."""
        raise NotImplementedError

    def progress_text(self, queue: list, live: Any, at: Any) -> str:
        """What is being done, and how much time is left."""
        raise NotImplementedError

    def summary(self) -> str:
        """How each result ended, in HTML; empty if there are no results."""
        raise NotImplementedError

    def count_text(self, jobs: int) -> str:
        """A number of jobs with its noun, such as "2 runs"."""
        return f"{jobs} {self.JOB[jobs != 1]}"

    def run_text(self, wanted: list, everything: list, what: str, shared: str, seconds: float) -> str:
        """What Run will do, how much of the plan is done already, and how long it takes."""
        if not wanted:
            return "All that Run would do is on screen; Clear removes it."
        rest = len(everything) - len(wanted)
        also = f" ({rest} more {'is' if rest == 1 else 'are'} on screen already)" if rest else ""
        return f"Run: {what}{also}. {'Each: ' if len(wanted) > 1 else ''}{shared}. About {duration(seconds)}."

    # Work ------------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether work is under way or waits for its turn."""
        return self._busy

    def run(self) -> None:
        """Start what the controls ask for, in a thread of its own; results on screen are not computed again."""
        self.begin(self.wanted)

    def begin(self, jobs: Callable[[dict[str, Any]], list]) -> None:
        """Start the jobs that a state asks for."""
        if self._busy:
            raise ValueError(f"A {self.WORK} is under way: stop() ends it, wait() waits for its end.")
        self._queue = jobs(self.state())
        if self._queue:
            self._busy, self._phase, self._outcome, self.failure = True, "reading", "", None
            self._stopping.clear()
            self._steps_done, self.bar.value = 0, 0
            self.bar.max = sum(job.length for job in self._queue)
            self._worker = threading.Thread(target=self._do_all, daemon=True, name=f"lntutor {self.WORK}")
            _UNDER_WAY.add(self)
            self._worker.start()
        self.refresh()

    def stop(self) -> None:
        """End the work soon; what was measured stays."""
        self._stopping.set()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the work has ended; an interrupt stops it. An error in the work is raised here."""
        try:
            if self._worker.ident is not None:
                self._worker.join(timeout)
        except KeyboardInterrupt:
            self.stop()
            raise
        if self.failure is not None:
            raise self.failure

    def clear(self) -> None:
        """Remove all results that are complete or stopped."""
        with self._change:
            self._done, self._outcome, self.failure = [], "", None
        self.refresh()

    def close(self) -> None:
        """Stop, and remove the explorer from the page."""
        self.stop()
        super().close()

    def end(self) -> None:
        """Stop, and wait briefly for the current step."""
        self.stop()
        if self._worker.ident is not None:
            self._worker.join(LAST)
        super().end()

    def _on_screen(self) -> list:
        live = self._live
        return [*self._done, live] if live is not None else self._done

    # In the working thread ----------------------------------------------------------------------------------

    def _do_all(self) -> None:
        started, before = time.perf_counter(), len(self._queue)
        try:
            if self._take_turn():
                try:
                    with one_thread():
                        while self._queue and not self._stopping.is_set():
                            self.do(self._queue[0])
                            self._queue = self._queue[1:]
                finally:
                    TURN.release()
        except Exception as error:  # shown in the status line, and raised by `wait`
            self.failure = error
            with self._change:
                self._done = self._on_screen()[-self.MOST :]
        ended = before - len(self._queue)
        taken = duration(time.perf_counter() - started)
        if self.failure is None:
            self._outcome = "Stopped." if self._stopping.is_set() else f"{self.count_text(ended)} done in {taken}."
        self._live, self._progress, self._queue, self._busy = None, None, [], False
        _UNDER_WAY.discard(self)
        self.refresh()
        release_memory()

    def _take_turn(self) -> bool:
        """Wait until no other explorer works; False if Stop comes first."""
        if not TURN.acquire(blocking=False):
            self._phase = "waiting"
            self.refresh()
            while not TURN.acquire(timeout=0.1):
                if self._stopping.is_set():
                    return False
        return True

    def follow(self, items: Any, result: Callable[[Any], Any]) -> Any:
        """Run through a job's items of progress, drawing the unfinished result now and then; returns the last item."""
        last, due = None, 0.0
        try:
            for last in items:
                self._progress = last
                if self._stopping.is_set():
                    break
                if time.perf_counter() >= due:
                    self._live = result(last)
                    self.refresh()
                    due = time.perf_counter() + REDRAW
        finally:
            items.close()
        return last

    def finish(self, job, result) -> None:
        """Add a result, complete or stopped."""
        self._steps_done += job.length
        with self._change:
            self._done = [*self._done, result][-self.MOST :]
        self._live = self._progress = None
        self.refresh()

    # Picture and text -----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Draw at once: nothing is measured when a control moves."""
        self.settle()

    def _tables(self, state, quick):
        return self.measure(state, quick)  # results grow: nothing to remember

    def label(self, state) -> str:
        """What Run will do."""
        return self.plan_text(state)

    def status_line(self, state) -> str:
        """The progress of the work, or how it ended and what Run will do next."""
        if self._busy:
            return html.escape(self._progress_text())
        plan = html.escape(f"{self._outcome} {self.plan_text(state)}".strip())
        if self.failure is None:
            return plan
        kind = "" if isinstance(self.failure, ValueError) else f"{type(self.failure).__name__}: "
        failure = html.escape(f"{kind}{self.failure}")
        return f'<span class="wrong">{failure} The {self.WORK} has ended.</span> {plan}'

    def _progress_text(self) -> str:
        if self._phase == "waiting":
            other = next((e.WORK for e in list(_UNDER_WAY) if e._phase != "waiting"), self.WORK)
            which = f"another {other}" if other == self.WORK else f"a {other}"
            ways = "Stop gives up the place, Stop the other ends that one."
            return f"Waiting for {which} in this kernel to end. {ways}"
        queue, live, at = self._queue, self._live, self._progress  # snapshots: the working thread replaces them
        if self._stopping.is_set() or not queue:
            return "Stopping."
        return self.progress_text(queue, live, at)

    def _draw_once(self, quick: bool) -> None:
        super()._draw_once(quick)
        self.error = self.error or self.failure
        self._show_buttons()
        summary = self.summary()
        self.results.value = scrolled(summary, "How it ended", 440) if summary else ""
        self.shown.hidden = not summary
        if not summary:
            self.shown.value = "picture"

    def _show_buttons(self) -> None:
        try:
            nothing = not self.wanted(self.state())
        except ValueError:
            nothing = True
        with self.launch.hold_sync():  # the focus goes from Run to Stop, which must be there by then
            self.buttons["run"].disabled = self._busy or nothing
            self.buttons["stop"].disabled = not self._busy or self._stopping.is_set()
            self.buttons["clear"].disabled = not self._done
            self.buttons["other"].hidden = not (self._busy and self._phase == "waiting")
            self.bar.hidden = not self._busy
        at = self._progress
        self.bar.value = self._steps_done + (self.steps_of(at) if at is not None else 0)

    # The page --------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        super()._build()
        self.add_class("lntutor-working")
        self.add_class(self.LOOK)

    def in_view(self) -> list[w.Widget]:
        """The buttons and the status line above the picture, or the results in its place."""
        self.bar = Progress(description=f"How much of the {self.WORK} is done", hidden=True)
        mine = self.launch_buttons()
        self.buttons = {**mine, **self.buttons}
        self.shown = Segments(
            {"picture": "Picture", "results": "How it ended"}, "picture", description="Show", hidden=True
        )
        self.launch = Panel({**mine, "shown": self.shown, "bar": self.bar}, guard=self._guarded)
        self.launch.add_class("lntutor-launch")
        self.shown.observe(lambda _: self._show_part(), "value")
        self.results = w.HTML()
        self.results.add_class("lntutor-results")
        self._show_part()
        return [self.launch, self.status, self.plot, self.results]

    def _show_part(self) -> None:
        """The picture or the results: both do not fit on a screen."""
        for part, name in ((self.plot, "picture"), (self.results, "results")):
            part.layout.display = None if self.shown.value == name else "none"

    def launch_buttons(self) -> dict[str, Button]:
        """Name → button, beside the bar."""
        work = self.WORK
        return {
            "run": Button("Run", self._press_run, tooltip="Do what the line below says", primary=True),
            "stop": Button("Stop", self._press_stop, tooltip=f"End the {work}; what was measured stays"),
            "clear": Button("Clear", self.clear, tooltip="Remove what has ended"),
            "other": Button("Stop the other", self._stop_other, tooltip=f"End what this {work} waits for", hidden=True),
        }

    def _stop_other(self) -> None:
        """End the work of the other explorer, whose page may be gone."""
        for explorer in list(_UNDER_WAY):
            if explorer._phase != "waiting":
                explorer.stop()

    def _press_run(self) -> None:
        if not self._busy:  # the second click of two
            self.run()

    def _press_stop(self) -> None:
        self.stop()
        self.buttons["stop"].disabled = True  # at once, also while the other thread draws
        self.refresh()

    def _twin(self) -> str:
        return f'{super()._twin()}{STYLE}<div class="lntutor-results">{self.summary()}</div>'
