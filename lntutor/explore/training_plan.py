"""Runs of the training explorer as text: their settings and names, the plan, and tables of results in HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pandas as pd

from lntutor.model.config import ModelConfig, TrainConfig
from lntutor.model.placements import PLACEMENTS
from lntutor.text.download import CORPORA, locate
from lntutor.text.sentence_pairs import CorpusError

MOST_RUNS = 12  # in one plan, and on screen
OPTIMIZER_NAMES = {"adam": "Adam", "sgd": "SGD", "radam": "RAdam", "gi_adam": "GI-Adam"}
MAIN = ("optimizer", "lr", "warmup", "depth", "width", "task", "corpus")  # parts of a setting worth naming
TASK_NAMES = {"translation": "translation", "masked_words": "masked words"}
COMPARISONS = {  # what each preset runs; the other controls decide the rest
    "figure 2": (
        {"placement": "post", "optimizer": "adam", "warmup": 0},
        {"placement": "post", "optimizer": "adam", "warmup": 1},  # the paper's "none", which decays at once
        {"placement": "post", "optimizer": "adam", "warmup": 50},
        {"placement": "post", "optimizer": "adam", "warmup": 200},
        {"placement": "post", "optimizer": "sgd", "lr": 0.1, "warmup": 1},
        {"placement": "post", "optimizer": "sgd", "lr": 0.1, "warmup": 200},
    ),
    "figure 4": (
        {"placement": "post", "optimizer": "adam", "warmup": 200},
        {"placement": "pre", "optimizer": "adam", "warmup": 0},
        {"placement": "pre", "optimizer": "radam", "warmup": 0},
    ),
    "figure 5": (
        {"placement": "post", "optimizer": "adam", "warmup": 200},
        {"placement": "pre", "optimizer": "adam", "warmup": 0},
    ),
}
FIGURES = {  # of Xiong et al. 2020
    "figure 2": "figure 2: warm-up in Post-LN",
    "figure 4": "figure 4: Pre-LN without warm-up",
    "figure 5": "figure 5: masked words",
}


@dataclass(frozen=True)
class RunSetting:
    """Everything that a run depends on."""

    model: ModelConfig
    how: TrainConfig
    corpus: str

    @property
    def length(self) -> int:
        """Steps of the run."""
        return self.how.steps

    def phrases(self) -> dict[str, str]:
        """Part of the setting → text."""
        model, how = self.model, self.how
        sides = "+".join([str(model.depth)] * len(model.sides))
        return {
            "placement": PLACEMENTS.find(model.placement).label,
            "optimizer": OPTIMIZER_NAMES[how.optimizer],
            "lr": f"lr {how.lr:g}",
            "warmup": f"warm-up {how.warmup}" if how.warmup else "no warm-up",
            "schedule": how.schedule.replace("_", " "),
            "depth": f"{sides} layer{'' if sides == '1' else 's'}",
            "width": f"width {model.width}",
            "task": TASK_NAMES[how.task],
            "corpus": self.corpus,
            "label_smoothing": f"label smoothing {how.label_smoothing:g}",
            "steps": f"{how.steps} steps",
            "seed": f"seed {how.seed}",
        }


def setting_of(run) -> RunSetting:
    """The setting of a run that was made."""
    return RunSetting(run.model, run.how, run.corpus)


def names(settings: Sequence[Any], seeds: bool = True, others: Sequence[Any] = ()) -> list[str]:
    """A name per setting: its placement and the parts in which they and `others` differ; equal names are numbered."""
    texts = [setting.phrases() for setting in [*settings, *(other for other in others if other not in settings)]]
    again = [texts[:i].count(own) for i, own in enumerate(texts)]
    differ = [part for part in texts[0] if len({own[part] for own in texts}) > 1] if texts else []
    differ = [part for part in differ if part != "placement" and (seeds or part != "seed")]
    rates = {(own.get("optimizer"), own.get("lr")) for own in texts}
    if "optimizer" in differ and len(rates) == len({optimizer for optimizer, _ in rates}):
        differ = [part for part in differ if part != "lr"]  # each optimiser has its own
    short = [", ".join([own["placement"], *(own[part] for part in differ)]) for own in texts]
    return [f"{name} ({n + 1})" if n else name for name, n in zip(short, again, strict=True)][: len(settings)]


def in_common(settings: Sequence[Any], main: Sequence[str] = MAIN) -> str:
    """The main parts that all settings share."""
    texts = [setting.phrases() for setting in settings]
    return ", ".join(texts[0][part] for part in main if len({own[part] for own in texts}) == 1)


def plan(state: dict[str, Any]) -> list[RunSetting]:
    """The runs that the controls ask for, in order: those of the preset, or one per placement, for every seed."""
    same = {"optimizer": state["optimizer"], "warmup": state["warmup"]}
    own = [{"placement": key, **same} for key in state["placements"]]
    rows = COMPARISONS[state["preset"]] if state["preset"] else own
    if not rows:
        raise ValueError("Choose at least one placement.")
    settings = [_setting(state, row, seed) for row in rows for seed in range(state["seeds"])]
    if len(settings) > MOST_RUNS:
        raise ValueError(f"At most {MOST_RUNS} runs at once, got {len(settings)}: choose fewer placements or seeds.")
    return settings


def _setting(state: dict[str, Any], row: dict[str, Any], seed: int) -> RunSetting:
    stack = "encoder" if state["task"] == "masked_words" else "encoder-decoder"
    width, steps = state["width"], state["steps"]
    model = ModelConfig(row["placement"], state["depth"], width, 4, 4 * width, stack)
    how = TrainConfig(
        row["optimizer"], row.get("lr", state["lr"]), row["warmup"], state["schedule"], steps, seed=seed,
        task=state["task"], label_smoothing=state["label_smoothing"], validate_every=max(1, steps // 10),
    )  # fmt: skip
    return RunSetting(model, how, state["corpus"])


def corpora() -> list[str]:
    """The corpora that are on this computer."""
    found = []
    for name in CORPORA:
        with suppress(CorpusError):
            found.append(locate(name)[0])
    return found


def seconds_per_step(setting: RunSetting) -> float:
    """A rough guess for one core of a laptop; the explorer's `pace` corrects it."""
    sides = len(setting.model.sides)
    return sides * setting.model.depth * (0.003 + 0.00006 * setting.model.width)


def duration(seconds: float) -> str:
    """Seconds, or minutes where there are many."""
    return f"{max(1, round(seconds))} s" if seconds < 99 else f"{seconds / 60:.0f} min"


def outcome(run) -> str:
    """How a run ended."""
    last = int(run.table["step"].iloc[-1])
    return f"finished, {last} steps" if run.status == "finished" else f"{run.status} at step {last}"


def results(runs: dict[str, Any]) -> str:
    """Two tables in HTML: how every run ended, and how every model translates held-out sentences."""
    columns = ("Run", "Ended", "Validation loss", "BLEU", "Words per second")
    head = "".join(f'<th scope="col">{word}</th>' for word in columns)
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td>{outcome(run)}</td>'
        f"<td>{_last(run.table['val_loss'].dropna())}</td>"
        f"<td>{'–' if run.bleu is None else f'{run.bleu:.1f}'}</td>"
        f"<td>{run.table['tokens_per_second'].median():,.0f}</td></tr>"
        for name, run in runs.items()
    )
    table = f"<table><caption>How the runs ended</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return table + samples(runs)


def samples(runs: dict[str, Any]) -> str:
    """Held-out sentences, their reference and every model's translation, as a table in HTML."""
    translated: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for name, run in runs.items():
        for sample in run.samples:
            translated.setdefault((sample.source, sample.reference), []).append((name, sample.translation))
    row = '<tr{}><th scope="row">{}</th><td lang="{}">{}</td></tr>'
    bodies = [
        row.format(' class="source"', "German", "de", html.escape(source))
        + row.format("", "Reference", "en", html.escape(reference))
        + "".join(row.format("", html.escape(name), "en", _cut(text)) for name, text in translations)
        for (source, reference), translations in translated.items()
    ]
    if not bodies:
        return ""
    caption = "<caption>Sentences that were held out</caption>"
    return f"<table>{caption}{''.join(f'<tbody>{body}</tbody>' for body in bodies)}</table>"


def _cut(text: str, most: int = 20) -> str:
    """The first words of a translation, escaped: a model may repeat itself for ever."""
    words = text.split()
    return html.escape(" ".join(words[:most])) + (" …" if len(words) > most else "") or "–"


def _last(values: pd.Series) -> str:
    return f"{values.iloc[-1]:.2f}" if len(values) else "–"
