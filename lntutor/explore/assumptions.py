"""Theorem 1's assumptions as switches: how far off is the theorem once they are as in practice?"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import pandas as pd

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore.base import Explorer
from lntutor.explore.theorem import TOKENS, WIDTHS, probe
from lntutor.figures.style import number, placement_label, times
from lntutor.figures.tables import curves_by_placement
from lntutor.measure.gradients import gradient_norms, last_layer_gradients
from lntutor.model.config import Batch, Inputs, ModelConfig
from lntutor.model.threads import one_thread
from lntutor.theory.mean_field import predict
from lntutor.theory.paper import ASSUMPTIONS, THEOREM_1, appendix_f, theorem_bound, without

SENTENCES = 16
VIEWS = {"depth": "last layer by depth", "layer": "every layer"}
SWITCHES = {  # assumption → caption of what there is in practice
    "softmax": "Softmax",
    "heads": "Four heads",
    "w_o": "W_O",
    "ffn": "FFN of 4d",
    "init": "Xavier init",
    "norm": "RMSNorm",
    "causal": "Causal mask",
    "cross": "Decoder",
    "words": "Sentences",
    "loss": "Cross-entropy",
}


class AssumptionExplorer(Explorer):
    """Switch the assumptions of Theorem 1 off one by one: does W_2's gradient still stand on the theorem's line?"""

    FIRST = ("view", *SWITCHES)
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "as in the proof": {},
        "all as in practice": dict.fromkeys(SWITCHES, True),
        "a decoder, layer by layer": {"cross": True, "view": "layer"},
    }

    def make_controls(self):
        """One switch per assumption, and what is drawn."""
        tooltips = {name: f"The proof: {one.proof}. Practice: {one.practice}" for name, one in ASSUMPTIONS.items()}
        tooltips["heads"] += ". Needs the softmax: with a plain mean all heads do the same"
        return {
            "view": c.choice("Gradient of W₂", "depth", VIEWS, "Theorem 1 speaks of the last layer"),
            **{name: c.switch(caption, False, tooltips[name]) for name, caption in SWITCHES.items()},
            "depth": c.int_slider("Depth L", 12, 2, 24, "Layers; by depth, from a quarter of it"),
            "width": c.step_slider("Width d", 128, WIDTHS[1:], "Features of a token"),
            "tokens": c.step_slider("Tokens n", 16, TOKENS, "Gaussian tokens of the sentence"),
            "seeds": c.seeds_slider(5),
            "lecture": c.lecture_switch(),
        }

    def _build(self) -> None:
        super()._build()
        self.add_class("lntutor-switches")

    def refresh(self):
        """Lock the switches that would change nothing, and draw."""
        on = {name: self.controls[name].value for name in SWITCHES}
        self.controls["heads"].disabled = not on["softmax"]
        self.controls["causal"].disabled = on["cross"]
        super().refresh()

    def measure(self, state, quick):
        """{"measured", "model", "claimed"}: tables with the columns placement, depth or layer, and value.

        `model` is the theorem's own, by the recursion, and `claimed` what Appendix F says of the layers below.
        """
        parts: dict[str, list] = {"measured": [], "model": [], "claimed": []}
        with one_thread():
            for key in THEOREM_1:
                self.stop_if_moved(quick)
                own = ModelConfig.theorem(key, state["depth"], state["width"])
                cfg = without(own, switched(state))
                inputs, seeds = fed(cfg, state), c.seeds_of(state, quick)
                proof = {"inputs": probe(state["tokens"]), "seeds": (0,)}
                if state["view"] == "depth":
                    depths = c.log_spaced(max(1, state["depth"] // 4), state["depth"], 6)
                    parts["measured"].append(last_layer_gradients(cfg, depths, seeds=seeds, inputs=inputs))
                    parts["model"].append(predict(own, "last_layer", depths=depths, **proof))
                    continue
                table = gradient_norms(cfg, seeds=seeds, inputs=inputs, parameters=("W_2",))
                parts["measured"].append(table[table["side"] == cfg.sides[-1]])
                line = predict(own, "gradient", **proof)
                line = line[line["parameter"] == "W_2"]
                parts["model"].append(line)
                top = float(line["value"].iloc[-1])
                below = {"layer": list(appendix_f(key, own.depth)), "placement": key}
                values = [top * factor for factor in appendix_f(key, own.depth).values()]
                parts["claimed"].append(pd.DataFrame({**below, "value": values}))
        return {name: pd.concat(tables, ignore_index=True) for name, tables in parts.items() if tables}

    def draw(self, state, tables):
        """Marks beside the theorem's line."""
        off = [ASSUMPTIONS[name] for name in switched(state)]
        if len(off) in (1, 2):
            setting = "; ".join(f"{one.practice} (in the proof: {one.proof})" for one in off)
        else:
            setting = "; ".join(one.practice for one in off) or "Everything as in the proof"
        note = f"{setting}; d = {state['width']}" + ("" if state["words"] else f", n = {state['tokens']}")
        return figures.assumptions(
            tables["measured"], tables["model"], tables.get("claimed"), along=state["view"], note=note,
            lecture=state["lecture"],
        )  # fmt: skip

    def table(self) -> pd.DataFrame:
        """All rows; the column `kind` tells which."""
        columns = ["kind", "placement", "depth", "layer", "seed", "value"]
        parts = [table.assign(kind=name) for name, table in self.tables.items()]
        return pd.concat([part.reindex(columns=columns).astype({"seed": "Int64"}) for part in parts], ignore_index=True)

    def label(self, state) -> str:
        """How far off the theorem is."""
        ends, sizes = off_by(self.tables["measured"], self.tables["model"], state["view"])
        where = "from layer to layer" if state["view"] == "layer" else "over depth"
        ways = f"{_listed(ends, _percent)} {where}"
        above = {}
        for key, means in curves_by_placement(self.tables["measured"], state["view"]):
            own = ModelConfig.theorem(key, state["depth"], state["width"])
            above[key] = theorem_bound(own) / float(means.mean[-1])
        return (
            f"Theorem 1's model is off by {ways}, by {' and '.join(map(times, sizes.values()))} in size; "
            f"its bound is {' and '.join(map(times, above.values()))} the gradient."
        )


def switched(state: dict[str, Any]) -> list[str]:
    """The assumptions that are as in practice."""
    return [name for name in SWITCHES if state[name] and not (name == "heads" and not state["softmax"])]


def fed(cfg: ModelConfig, state: dict[str, Any]) -> Inputs:
    """Gaussian tokens or sentences, and the loss."""
    loss = "cross_entropy" if state["loss"] else "probe"
    return Inputs(_sentences(cfg.stack), loss=loss) if state["words"] else probe(state["tokens"]).with_(loss=loss)


@cache
def _sentences(stack: str) -> Batch:
    """Captions, as each stack is trained on them: masked words, the next word, or a translation."""
    from lntutor.text.corpus import load_corpus  # imported here: it takes a moment

    corpus = load_corpus("captions")
    if stack == "encoder":
        return corpus.batch("val", SENTENCES, task="masked_words")
    pairs = corpus.batch("val", SENTENCES)
    if stack == "encoder-decoder":
        return pairs
    return Batch(pairs.target, None, pairs.labels, pairs.pad, (pairs.vocab[1], 0))  # pyright: ignore[reportArgumentType]


def off_by(measured: pd.DataFrame, model: pd.DataFrame, along: str) -> tuple[dict[str, float], dict[str, float]]:
    """Placement → its ratio of last to first over the model's, and its last value over the model's."""
    own = dict(curves_by_placement(model, along))
    ends, sizes = {}, {}
    for key, means in curves_by_placement(measured, along):
        ratio, wanted = (float(one.mean[-1] / one.mean[0]) for one in (means, own[key]))
        ends[key], sizes[key] = ratio / wanted, float(means.mean[-1] / own[key].mean[-1])
    return ends, sizes


def _listed(values: dict[str, float], show) -> str:
    return " and ".join(f"{show(value)} ({placement_label(key)})" for key, value in values.items())


def _percent(ratio: float) -> str:
    """A few percent, or a factor where it is more than two."""
    away = max(ratio, 1 / ratio)
    return f"{100 * (away - 1):.0f} %" if away < 2 else f"a factor of {number(away, 2)}"
