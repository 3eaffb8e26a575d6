"""The warm-up transplant: choose the layers that are warmed up, and read the loss and its share of the gain."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import pandas as pd

from lntutor import figures
from lntutor.experiments import transplant
from lntutor.explore import controls as c
from lntutor.explore import training_plan as plans
from lntutor.explore.long_running import LongRunningExplorer
from lntutor.explore.training_plan import RunSetting, setting_of
from lntutor.figures.style import placement_label
from lntutor.page.kit.panel import Layers

SIDES, MOST_LAYERS = ("encoder", "decoder"), 6
CORPUS = "captions"
CAPTIONS = {
    name: f"{placement_label(key)}, {name.partition(', ')[2]}" for name, (_, key) in transplant.NETWORKS.items()
}


class TransplantExplorer(LongRunningExplorer):
    """Which layers need warm-up? What is stored is shown at once, anything else after Run.

    In a cell: `run()`, `wait()`, `stop()`, `runs`.
    """

    WORK, LOOK = "training", "lntutor-transplant"
    JOB = ("run", "runs")
    MOST = 48
    FIRST = ("network", "warmed", "everything")
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "last layer alone": {"warmed": ["decoder.2"]},
        "all but the last": {"warmed": ["embeddings", "encoder.1", "encoder.2", "decoder.1"]},
        "first layer alone": {"warmed": ["encoder.1"]},
        "6-6, the decoder": {"network": "post, 6-6", "warmed": [f"decoder.{i}" for i in range(1, 7)]},
    }
    pace: ClassVar[float] = 1.0  # seconds of a step when last measured, over `seconds_per_step`

    def make_controls(self):
        """The network, and what is warmed up."""
        tip = "Click a layer, or draw over several; with keys: arrows, Space, and Shift for several"
        self.picker = Layers((), SIDES, 2, MOST_LAYERS, transplant.EMBEDDINGS, description="Warmed up", tooltip=tip)
        return {
            "network": c.choice("Network", "post, 2-2", CAPTIONS, "Layers of each side"),
            "warmed": self.picker,
            "seeds": c.int_slider("Runs", 1, 1, 4, "How many runs of what is not stored: other weights in each"),
            "everything": c.switch("All that is stored", False, "Show every stored way, not the chosen one alone"),
            "lecture": c.lecture_switch(),
        }

    # Runs ------------------------------------------------------------------------------------------------------

    @property
    def runs(self) -> dict[str, Any]:
        """Name → run that was made here."""
        return {f"{self._way(run)}, seed {run.how.seed}": run for run in self._done}

    def wanted(self, state: dict[str, Any]) -> list[RunSetting]:
        """The runs of the chosen parts, unless they are stored or on screen."""
        self._check(state)
        if transplant.way(state["network"], state["warmed"]) in transplant.stored_ways(state["network"]):
            return []
        done = [setting_of(run) for run in self._done]
        return [setting for setting in self._plan(state) if setting not in done]

    def _plan(self, state: dict[str, Any]) -> list[RunSetting]:
        cfg, how = transplant.case_of(state["network"], state["warmed"])
        return [RunSetting(cfg, how.with_(seed=seed), CORPUS) for seed in range(state["seeds"])]

    def steps_of(self, progress) -> int:
        """Steps done."""
        return progress.step

    def do(self, job: RunSetting) -> None:
        """Train; a run that was stopped is not kept, as it has no last loss."""
        from lntutor.text import corpus
        from lntutor.training import trainer as training  # imported here: it takes seconds

        steps = training.steps(job.model, job.how, corpus.load_corpus(job.corpus))
        self._phase, started = "training", time.perf_counter()
        last = self.follow(steps, lambda progress: None)
        if last is None or (run := last.run()).status == "stopped":
            return
        type(self).pace = (time.perf_counter() - started) / last.step / plans.seconds_per_step(job)
        self.finish(job, run)

    # Picture and text -----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Draw the network that is chosen."""
        self.picker.depth = self._depth(self.controls["network"].value)
        super().refresh()

    def measure(self, state, quick):
        """One row per run: case, placement, seed, val_loss, here (whether it was run here)."""
        self._check(state)
        network, way = state["network"], transplant.way(state["network"], state["warmed"])
        stored = transplant.stored_ends(network).assign(here=False)
        shown = [*transplant.stored_ways(network)] if state["everything"] else ["nothing", way, "everything"]
        cfg = transplant.case_of(network, ())[0]
        mine = [(self._way(r), cfg.placement.key, r.how.seed, r.val_loss, True) for r in self._done if r.model == cfg]
        parts = [stored[stored["case"].isin(shown)], pd.DataFrame(mine, columns=stored.columns)]
        table = pd.concat([part for part in parts if len(part)])
        order = {case: i for i, case in enumerate(["nothing", *dict.fromkeys(table["case"]), "everything"])}
        return table.sort_values("case", key=lambda cases: cases.map(order), kind="stable", ignore_index=True)

    def draw(self, state, tables):
        """The rows, the chosen one ringed."""
        way = transplant.way(state["network"], state["warmed"])
        cfg, how = transplant.case_of(state["network"], ("encoder.1",))
        note = f"captions, width {cfg.width}, Adam {how.lr:g}, warm-up {how.warmup} of {how.steps} steps"
        return figures.transplant(tables, chosen=way, note=note, lecture=state["lecture"])

    def table(self) -> pd.DataFrame:
        """The rows, with each run's share of the gain."""
        return self.tables.assign(gain=transplant.shares_of_gain(self.tables, self.tables[~self.tables["here"]]))

    def plan_text(self, state: dict[str, Any]) -> str:
        """Where the numbers are from, or what Run will do."""
        network, way = state["network"], transplant.way(state["network"], state["warmed"])
        ways = [*transplant.stored_ways(network)]
        rows = self.table()
        rows = rows[rows["case"] == way]
        shares = "" if not len(rows) else f" Share of the gain, run by run: {', '.join(map(_percent, rows['gain']))}."
        if way in ways:
            return f"Stored with the course: {way}, {len(rows)} runs.{shares}"
        wanted, plan = self.wanted(state), self._plan(state)
        missing = f"“{way}” is not stored; stored are {', '.join(ways)}."
        if not wanted:
            return f"“{way}” was run here.{shares}"
        seconds = self.pace * sum(one.length * plans.seconds_per_step(one) for one in wanted)
        rest = f" ({len(plan) - len(wanted)} of {len(plan)} on screen already)" if len(wanted) < len(plan) else ""
        work = f"{self.count_text(len(wanted))} of {plan[0].length} steps{rest}, about {plans.duration(seconds)}"
        return f"{missing}{shares} Run trains it here: {work}."

    def progress_text(self, queue: list[RunSetting], live, at) -> str:
        """The current step, and the time left."""
        name, more = self._way(queue[0]), f"; {len(queue) - 1} more to come" if len(queue) > 1 else ""
        if at is None:
            return f"{name}: the first step{more}."
        return f"{name}: step {at.step} of {at.of}, {plans.duration(at.seconds_left)} left{more}."

    def summary(self) -> str:
        """The picture has it all."""
        return ""

    # The page --------------------------------------------------------------------------------------------------

    def launch_buttons(self):
        """Name → button, beside the bar."""
        buttons = super().launch_buttons()
        buttons["stop"].tooltip = "End the training; a run that has not ended has no last loss and is dropped"
        return buttons

    def _moved(self, change) -> None:
        """In another network the same way stays chosen where both have it; layers that are not there are dropped."""
        if not self._quiet and change.owner is self.controls["network"]:
            before = transplant.stored_ways(change.old)
            place = {parts: i for i, parts in enumerate(before.values())}.get(self.picker.value)
            ways = list(transplant.stored_ways(change.new).values())
            self.picker.depth = self._depth(change.new)
            kept = tuple(name for name in self.picker.value if name in self.picker.drawn)
            self._apply({"warmed": kept if place is None else ways[place]})
        super()._moved(change)

    @staticmethod
    def _depth(network: str) -> int:
        return transplant.case_of(network, ())[0].depth

    @staticmethod
    def _way(run: Any) -> str:
        """What a run, or the setting of one, warms up."""
        key = f"{run.model.placement.key}, {run.model.depth}-{run.model.depth}"
        return transplant.way(key, transplant.parts_of((run.model, run.how)))

    def _check(self, state: dict[str, Any]) -> None:
        """A ValueError where a chosen layer is not in this network."""
        known = transplant.parts(transplant.case_of(state["network"], ())[0])
        for name in state["warmed"]:
            if name not in known:
                raise ValueError(f"{CAPTIONS[state['network']]} has no {name}; it has {', '.join(known)}.")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %".replace("-", "−")
