"""The stored map of rates and warm-ups, whose squares open their run: its losses and its translations."""

from __future__ import annotations

import html
from typing import Any, ClassVar

import pandas as pd

from lntutor import figures
from lntutor.experiments.stored import stored_table, warmup
from lntutor.explore import controls as c
from lntutor.explore.base import Explorer
from lntutor.figures.stored_runs import of_run
from lntutor.page.kit.handles import Handle

PLACEMENTS = {"post": "Post-LN", "pre": "Pre-LN"}
VALUES = {"val_loss": "loss", "bleu": "BLEU"}
RATES, WARMUPS = (sorted({getattr(how, name) for _, how in warmup().values()}) for name in ("lr", "warmup"))
SENTENCES = 5
NOTE = "Line and translation: seed 0, trained once more; round-off moves its end at high rates."


class RatesExplorer(Explorer):
    """Rate × warm-up × placement, trained and stored: choose a square, and read the run's losses and translations."""

    FIRST = ("value", "sentence")  # the square is chosen on the map
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "high rate, no warm-up": {},
        "high rate, warm-up": {"warmup": 100},
        "moderate rate": {"lr": 0.003},
        "Pre-LN, high rate": {"placement": "pre"},
    }

    def make_controls(self):
        """The square, the number in the squares, and the sentence that is translated."""
        return {
            "placement": c.choice("Placement", "post", PLACEMENTS, "Which map the square is on"),
            "lr": c.choice("Learning rate", 0.01, {rate: f"{rate:g}" for rate in RATES}, "The square's row"),
            "warmup": c.choice("Warm-up steps", 0, tuple(WARMUPS), "The square's column"),
            "value": c.choice("In the squares", "val_loss", VALUES, "The number that is shown, at the last step"),
            "sentence": c.int_slider("Sentence", 1, 1, SENTENCES, "Which held-out sentence the run translates"),
            "lecture": c.lecture_switch(),
        }

    def make_handles(self):
        return {"square": Handle("Chosen square", "warmup", "lr", panel="placement")}

    def measure(self, state, quick):
        """{"map", "validations", "losses", "translations"}: the stored tables, all runs."""
        runs = stored_table("warmup")
        ends = runs[runs["step"] == runs.groupby(["run", "seed"])["step"].transform("max")]
        return {
            "map": ends.assign(value=ends[state["value"]]),
            "validations": runs.assign(loss=runs["val_loss"]),
            "losses": stored_table("warmup_losses"),
            "translations": stored_table("warmup_translations"),
        }

    def _key(self, state, quick):
        return (state["value"],)  # the tables hold all runs

    def draw(self, state, tables):
        """The maps, and the losses of the chosen run."""
        return figures.run_map(
            tables["map"], tables["losses"], tables["validations"], chosen=square(state), lecture=state["lecture"],
            what=VALUES[state["value"]], lower_is_better=state["value"] == "val_loss", note=NOTE,
        )  # fmt: skip

    def table(self) -> pd.DataFrame:
        """The losses of the chosen run: every ten steps in training, and the validations of every seed."""
        parts = {"training": self.tables["losses"], "validation": self.tables["validations"]}
        rows = [of_run(part, square(self.state())).assign(kind=kind) for kind, part in parts.items()]
        return pd.concat(rows, ignore_index=True)[["kind", "placement", "lr", "warmup", "seed", "step", "loss"]]

    def label(self, state) -> str:
        warm = f"warm-up {state['warmup']}" if state["warmup"] else "no warm-up"
        return f"{PLACEMENTS[state['placement']]}, rate {state['lr']:g}, {warm}"

    def status_line(self, state) -> str:
        """A sentence, as the run of seed 0 translates it."""
        rows = of_run(self.tables["translations"], square(state))
        if len(rows) < state["sentence"]:
            return f"{html.escape(self.label(state))}: no translation of sentence {state['sentence']} is stored."
        row = rows.iloc[state["sentence"] - 1]
        source, right, ours = (html.escape(str(row[name])) for name in ("source", "reference", "translation"))
        return f"“{source}” → <b>{ours or '(nothing)'}</b><br>Right: {right} (seed {row['seed']})"


def square(state: dict[str, Any]) -> tuple[str, float, int]:
    """The chosen square of the maps."""
    return state["placement"], state["lr"], state["warmup"]
