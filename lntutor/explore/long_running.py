"""What explorers share that start long work: a thread of its own, one at a time in a kernel, Run, Stop and a bar."""

from __future__ import annotations

import html
import threading
import time
import weakref
from collections.abc import Callable, Generator
from typing import Any, ClassVar

import ipywidgets as w

from lntutor.explore import controls as c
from lntutor.explore.base import LAST, Explorer, give_back, scrolled
from lntutor.explore.runs import duration

REDRAW = 0.22  # seconds between two pictures of work under way

STYLE = """<style>
.lntutor-working .lntutor-status .widget-html-content { line-height: 1.4; height: auto; white-space: normal; }
.lntutor-results table { border-collapse: collapse; margin: 6px 0 12px; }
.lntutor-results caption { text-align: left; font-weight: bold; padding: 4px 0; }
.lntutor-results :is(th, td) {
  text-align: left; vertical-align: top; padding: 2px 14px 2px 0; line-height: 1.4; white-space: normal; }
.lntutor-results tbody th { font-weight: normal; white-space: nowrap; }
.lntutor-results tbody + tbody tr:first-child > * { padding-top: 10px; }
.lntutor-results .source td { font-weight: bold; }
</style>"""

TURN = threading.Lock()  # one long work at a time in a kernel
_UNDER_WAY: weakref.WeakSet[WorkingExplorer] = weakref.WeakSet()


class WorkingExplorer(Explorer):
    """Controls say what the next Run does; they start nothing, and they lose nothing.

    The work has a thread of its own, and waits for its turn where another explorer of this kernel works. A subclass
    says which jobs a state asks for (`wanted`), does one of them (`do`), and finds the words for all of it.
    """

    PINS = False
    WORK: ClassVar[str]  # what it does, as a noun: "training"
    MOST: ClassVar[int]  # results on screen

    def __init__(self, preset: str | None = None, **state):
        self._worker, self._stopping, self._busy = threading.Thread(), threading.Event(), False
        self._done: list = []  # results that are complete, or stopped,
        self._change = threading.Lock()  # and who may change that list: the thread that works and Clear both do
        self._live: Any = None  # the result under way, as far as it is
        self._queue: list = []  # the job under way and those after it
        self._progress: Any = None
        self._phase = self._outcome = ""
        self._steps_done = 0
        self.failure: Exception | None = None  # what ended the last work
        super().__init__(preset, **state)

    # What a subclass says --------------------------------------------------------------------------------------

    def wanted(self, state: dict[str, Any]) -> list:
        """The jobs that Run would do, without what is on screen."""
        raise NotImplementedError

    def length(self, job) -> int:
        """How many steps a job has."""
        raise NotImplementedError

    def steps_of(self, progress) -> int:
        """How many of its job's steps lie behind this item of progress."""
        raise NotImplementedError

    def do(self, job) -> None:
        """One job, from its start to `finish`."""
        raise NotImplementedError

    def counted(self, jobs: int) -> str:
        """So many jobs, in words."""
        raise NotImplementedError

    def plan_words(self, state: dict[str, Any]) -> str:
        """What Run will do, and how long it takes."""
        raise NotImplementedError

    def progress_words(self, queue: list, live: Any, at: Any) -> str:
        """What is under way, and how much time is left."""
        raise NotImplementedError

    def summary(self, done: list) -> str:
        """How the results ended, in HTML."""
        raise NotImplementedError

    # Work ------------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether work is under way or waits for its turn."""
        return self._busy

    def run(self) -> None:
        """Start what the controls ask for, in a thread of its own; what is on screen is not made again."""
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
            self.bar.max = sum(map(self.length, self._queue))
            self._worker = threading.Thread(target=self._do_all, daemon=True, name=f"lntutor {self.WORK}")
            _UNDER_WAY.add(self)
            self._worker.start()
        self.refresh()

    def stop(self) -> None:
        """End the work soon; what was measured stays."""
        self._stopping.set()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the work has ended; an interrupt stops it. A mistake in it is raised here."""
        try:
            if self._worker.ident is not None:
                self._worker.join(timeout)
        except KeyboardInterrupt:
            self.stop()
            raise
        if self.failure is not None:
            raise self.failure

    def clear(self) -> None:
        """Remove the results that are complete, and those that were stopped."""
        with self._change:
            self._done, self._outcome, self.failure = [], "", None
        self.refresh()

    def close(self) -> None:
        """Stop, and take the explorer from the page."""
        self.stop()
        super().close()

    def end(self) -> None:
        """Stop, and wait a moment for the step that is under way."""
        self.stop()
        if self._worker.ident is not None:
            self._worker.join(LAST)
        super().end()

    def _on_screen(self) -> list:
        live = self._live
        return [*self._done, live] if live is not None else self._done

    # In the thread that works ----------------------------------------------------------------------------------

    def _do_all(self) -> None:
        started, before = time.perf_counter(), len(self._queue)
        try:
            if self._take_turn():
                try:
                    with c.one_thread():
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
            self._outcome = "Stopped." if self._stopping.is_set() else f"{self.counted(ended)} done in {taken}."
        self._live, self._progress, self._queue, self._busy = None, None, [], False
        _UNDER_WAY.discard(self)
        self.refresh()
        give_back()

    def _take_turn(self) -> bool:
        """Wait until no other explorer works; False where Stop comes first."""
        if not TURN.acquire(blocking=False):
            self._phase = "waiting"
            self.refresh()
            while not TURN.acquire(timeout=0.1):
                if self._stopping.is_set():
                    return False
        return True

    def follow(self, items: Generator, result: Callable[[Any], Any]) -> Any:
        """Go through a job's items of progress, drawing now and then what has come of it; the last item."""
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
        """Put a result to those that have ended."""
        self._steps_done += self.length(job)
        with self._change:
            self._done = [*self._done, result][-self.MOST :]
        self._live = self._progress = None
        self.refresh()

    # Picture and words -----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Draw at once: nothing is measured when a control moves."""
        self.settle()

    def _tables(self, state, quick):
        return self.measure(state, quick)  # results grow: nothing to remember

    def label(self, state) -> str:
        """What Run will do, in words."""
        return self.plan_words(state)

    def said(self, state, seconds: float) -> str:
        """What is under way, or how it ended and what Run will do next."""
        if self._busy:
            return html.escape(self._progress_words())
        words = html.escape(f"{self._outcome} {self.plan_words(state)}".strip())
        if self.failure is None:
            return words
        kind = "" if isinstance(self.failure, ValueError) else f"{type(self.failure).__name__}: "
        failure = html.escape(f"{kind}{self.failure}")
        return f'<span class="wrong">{failure} The {self.WORK} has ended.</span> {words}'

    def _progress_words(self) -> str:
        if self._phase == "waiting":
            other = next((e.WORK for e in list(_UNDER_WAY) if e._phase != "waiting"), self.WORK)
            which = f"another {other}" if other == self.WORK else f"a {other}"
            ways = "Stop gives up the place, Stop the other ends that one."
            return f"Waiting for {which} in this kernel to end. {ways}"
        queue, live, at = self._queue, self._live, self._progress  # as they are now: the other thread replaces them
        if self._stopping.is_set() or not queue:
            return "Stopping."
        return self.progress_words(queue, live, at)

    def _draw_once(self, quick: bool) -> None:
        super()._draw_once(quick)
        self.error = self.error or self.failure
        self._show_buttons()
        summary = self._summary()
        self.results.value = scrolled(summary, "How it ended", 560) if summary else ""

    def _summary(self) -> str:
        done = self._done
        return self.summary(done) if done else ""

    def _show_buttons(self) -> None:
        try:
            nothing = not self.wanted(self.state())
        except ValueError:
            nothing = True
        self.buttons["run"].disabled = self._busy or nothing
        self.buttons["stop"].disabled = not self._busy or self._stopping.is_set()
        self.buttons["clear"].disabled = not self._done
        self.buttons["other"].layout.display = None if self._busy and self._phase == "waiting" else "none"
        self.bar.layout.visibility = "visible" if self._busy else "hidden"
        at = self._progress
        self.bar.value = self._steps_done + (self.steps_of(at) if at is not None else 0)

    # The page --------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        super()._build()
        self.add_class("lntutor-working")
        self.results = w.HTML()
        self.results.add_class("lntutor-results")
        first, *rest = self.children
        rest.remove(self.status)
        at = rest.index(self.plot)
        self.children = [first, *rest[:at], self.launch, self.status, self.plot, self.results, *rest[at + 1 :]]

    def _buttons(self) -> w.Box:
        row = super()._buttons()
        work = self.WORK
        mine = {
            "run": self._button("Run", "Do what the line below says", self._press_run),
            "stop": self._button("Stop", f"End the {work}; what was measured stays", self._press_stop),
            "clear": self._button("Clear", "Remove what has ended", self.clear),
            "other": self._button("Stop the other", f"End what this {work} waits for", self._stop_other),
        }
        mine["run"].button_style = "primary"
        self.buttons = mine | self.buttons
        self.bar = w.IntProgress(0, 0, 1, layout=w.Layout(width="auto", flex="1 1 120px"))
        self.bar.tooltip = f"How much of the {work} is done"
        look = w.HTML(STYLE, layout=w.Layout(display="none"))
        row_of_work = [look, *self.beside(mine), self.bar]
        self.launch = w.Box(row_of_work, layout=w.Layout(flex_flow="row wrap"))
        return row

    def beside(self, mine: dict[str, w.Button]) -> list[w.Widget]:
        """What stands beside the bar, in its order."""
        return list(mine.values())

    def _stop_other(self) -> None:
        """End the work that has the turn: its own page may be gone, as when its cell was run again."""
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
        return f'{super()._twin()}{STYLE}<div class="lntutor-results">{self._summary()}</div>'
