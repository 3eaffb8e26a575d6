"""The claims ledger: what the paper and the talk say, what the reader guessed, and what was measured here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from html import escape
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from lntutor.lesson.notes import NOTES
from lntutor.model.checks import as_tuple, check_type, short_repr

VERDICTS = ("holds", "holds at this size", "does not hold here", "open", "out of reach")  # the last: on a CPU
PLURAL = {"holds": "hold", "holds at this size": "hold at this size", "does not hold here": "do not hold here"}
NOT_YET, NOT_RUN = "not measured yet", "not run"
NO_GUESS = "no guess"
COLUMNS = ["claim", "source", "your guess", "measured", "spread", "verdict"]
SHARES = {"claim": 27, "source": 13, "your guess": 9, "measured": 26, "spread": 13, "verdict": 9, "your run": 9,
          "command": 16}  # fmt: skip
STYLE = """\
<style>
.lntutor-ledger { container-type: inline-size; }
.lntutor-ledger table { table-layout: fixed; width: 100%; max-width: 80em; border-collapse: collapse; }
.lntutor-ledger table :is(th, td) { text-align: left; vertical-align: top; padding: 4px 6px; white-space: normal;
  overflow-wrap: break-word; }
.lntutor-ledger table th[scope=row] { font-weight: normal; }
.lntutor-ledger caption { text-align: left; padding: 4px 6px; }
@container (max-width: 40em) { /* too narrow for columns: each row is a card */
  .lntutor-ledger :is(table, caption, tbody, tr, th, td) { display: block; }
  .lntutor-ledger table :is(thead, colgroup, td:empty) { display: none; }
  .lntutor-ledger table tr:has(td) { margin: 8px 0; padding: 4px; border-radius: 8px;
    border: 1px solid color-mix(in srgb, currentColor 40%, transparent); }
  .lntutor-ledger table :is(th, td) { border: 0; padding: 2px 6px; }
  .lntutor-ledger table th[scope=row] { font-weight: bold; }
  .lntutor-ledger td::before { content: attr(data-name) ": "; font-style: italic; }
}
</style>"""
FILE = "claims.csv"  # in data/results: the whole ledger, written by `python -m lntutor claims`
STORED = ["key", "notebook", "source", "where", "claim", "measured", "spread", "verdict", "command"]


# The claims ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """A statement of a paper or a talk, and where it stands."""

    key: str  # stable: notebooks record their measurements under it
    source: str
    where: str
    sentence: str
    notebook: str  # two digits: the notebook that measures it


VASWANI, PAPER, TALK = "Vaswani et al. 2017", "Xiong et al. 2020", "Zhang & Mackey 2022"
_CLAIMS = [
    # 01_attention
    ("attention.variance", VASWANI, "section 3.2.1, footnote", "01",
     "The dot product q·k of independent coordinates with mean 0 and variance 1 has variance d."),
    ("attention.saturation", VASWANI, "section 3.2.1", "01",
     "Without the factor 1/√d, large d pushes the softmax to where its gradient is extremely small."),
    ("talk.rows", TALK, "slide Scaled Dot-Product Attention", "01",
     "Q = XW_Q with X = [x₁, …, xₙ], xᵢ ∈ ℝᵈ, and W_Q ∈ ℝ^(d×d)."),
    # 02_layer_norm
    ("talk.sigma", TALK, "slide Layer Normalization", "02",
     "σ = (1/d)·√Σ(a − μ)² makes the variance of the output 1."),
    ("talk.per_layer", TALK, "slide Layer Normalization", "02",
     "LN makes the activations of each layer have mean 0 and variance 1."),
    ("lemma3", PAPER, "Lemma 3", "02",
     "The Jacobian of LN has spectral norm O(√d/‖x‖): the gradient is divided by the size of what went in."),
    ("paper.jacobian_power", PAPER, "appendix, proof of Lemma 3", "02",
     "The Jacobian of LN contains ‖y‖ to the power 3/2."),
    # 03_placement
    ("lemma1", PAPER, "Lemma 1", "03",
     "For X ~ N(0, σ²I_d), E‖ReLU(X)‖² = σ²d/2."),
    ("lemma2.post", PAPER, "Lemma 2", "03",
     "Post-LN: the sum before a layer's last LN has E‖x⁵‖² = (3/2)d in every layer."),
    ("lemma2.pre", PAPER, "Lemma 2", "03",
     "Pre-LN: after l layers (1 + l/2)d ≤ E‖x_l‖² ≤ (1 + 3l/2)d."),
    ("talk.linear", TALK, "slide Assumptions made for Theorem 1", "03",
     "With W_Q = W_K = 0 attention reduces to a linear layer."),
    ("talk.proposal", TALK, "slide Main Contribution", "03",
     "Changing the location of LN is the paper's proposal (read here as: Pre-LN is new)."),
    # 04_mean_field
    ("theorem1.post", PAPER, "Theorem 1", "04",
     "Post-LN: the last layer's gradient ‖∂L/∂W_2‖_F is at most O(d√(ln d)), whatever the depth."),
    ("theorem1.pre", PAPER, "Theorem 1", "04",
     "Pre-LN: the last layer's gradient ‖∂L/∂W_2‖_F is at most O(d√(ln d / L)): it falls with depth as 1/√L."),
    ("theorem1.probability", PAPER, "Theorem 1", "04",
     "The bound holds with probability at least 0.99 − δ − ε/(0.9 + ε)."),
    ("definition1.bounded", PAPER, "Definition 1 and the remark after it", "04",
     "In real models ‖x‖² is (ε, δ)-bounded with ε = 0.1 and δ = 0.125."),
    ("talk.explodes", TALK, "slide Criticisms of Theorem 1", "04",
     "The gradient of Post-LN explodes: its norm increases (read here: with depth)."),
    # 05_gradients
    ("figure3.decoder", PAPER, "Figure 3a, b", "05",
     "Post-LN, 6-6, at initialisation: the gradient grows towards the output, about 21 times from layer 1 to layer 6 "
     "(here: in the decoder)."),
    ("figure3.encoder", PAPER, "Figure 3a, b", "05",
     "Post-LN, 6-6, at initialisation: the gradient grows towards the output (here: in the encoder)."),
    ("figure3.pre", PAPER, "Figure 3a, b and appendix F", "05",
     "Pre-LN, 6-6, at initialisation: the gradient is about the same in every layer."),
    ("figure3.depth.post", PAPER, "Figure 3c, d", "05",
     "Post-LN: from 6-6 to 14-14 layers the last layer's gradient stays about the same."),
    ("figure3.depth.pre", PAPER, "Figure 3c, d", "05",
     "Pre-LN: from 6-6 to 14-14 layers the last layer's gradient falls."),
    ("liu.decoder", "Liu et al. 2020", "on Post-LN's gradients", "05",
     "Gradients of Post-LN vanish towards the input in decoders only."),
    # 06_warmup
    ("figure2.warmup", PAPER, "Figure 2a", "06",
     "Post-LN with Adam needs warm-up: BLEU 8.45 without, about 34 with 4000 steps."),
    ("figure2.sensitive", PAPER, "Figure 2a", "06",
     "Post-LN is sensitive to warm-up and rate: with 500 steps BLEU is 31.16 at rate 5e-4 and 2.77 at 1e-3."),
    ("figure2.sgd", PAPER, "Figure 2b", "06",
     "With SGD Post-LN needs warm-up too: without it BLEU stays barely above 0."),
    ("figure3.after_warmup", PAPER, "Figure 3a, b", "06",
     "After warm-up the gradients of Post-LN are small in all layers."),
    ("figure4.no_warmup", PAPER, "Figure 4", "06",
     "Pre-LN without warm-up reaches what Post-LN reaches with it."),
    ("figure4.faster", PAPER, "Figure 4a, b", "06",
     "Pre-LN trains faster: its 9th checkpoint equals Post-LN's 15th."),
    ("figure5.bert", PAPER, "Figure 5", "06",
     "BERT base: Pre-LN reaches validation loss 1.69 after 500k steps, Post-LN after 700k, \"40 % less\"."),
    ("talk.adam", TALK, "slide Training Difficulties", "06",
     "To converge, Transformers require an adaptive optimizer, not SGD."),
    ("talk.residual", TALK, "slide Training Difficulties", "06",
     "To converge, Transformers require residual connections."),
    ("talk.layer_norm", TALK, "slide Training Difficulties", "06",
     "To converge, Transformers require layer normalization."),
    ("talk.warmup", TALK, "slide Training Difficulties", "06",
     "To converge, Transformers require learning rate warm-up."),
    ("kalra.warmup", "Kalra & Barkeshli 2024", "on warm-up", "06",
     "What warm-up buys is a larger target learning rate."),
    # 07_criticisms
    ("paper.cause", PAPER, "abstract", "07",
     "Large gradients near the output make training with a large rate unstable, which is why warm-up helps."),
    ("paper.uniform", PAPER, "section 3.3", "07",
     "W_Q = W_K = 0, uniform attention, is a fair picture of attention at initialisation."),
    ("appendixF.post", PAPER, "appendix F", "07",
     "Post-LN: gradients of lower layers carry a factor (2/3)^((L − l)/2)."),
    ("talk.one_over_d", TALK, "slide Assumptions for Theorem 1", "07",
     "Softmax(0) = (1/d, …, 1/d), so that attention is (1/d)·ΣV_i."),
    ("talk.loose", TALK, "slide Criticisms of Theorem 1", "07",
     "The upper bound of Theorem 1 might not be tight."),
    ("talk.unexplained", TALK, "slide Criticisms of Theorem 1", "07",
     "Theorem 1 does not explain why the norm grows within a network, which is what is observed."),
    ("talk.large", TALK, "slide Authors' Conclusions", "07",
     "From the bound: the last layer's gradient is large at initialisation."),
    # 08_curvature
    ("talk.curvature", TALK, "slide Results, Hessian spectra", "08",
     "At initialisation the loss surface of Post-LN has more curvature than that of Pre-LN."),
    ("talk.lanczos", TALK, "slide Our Experiments", "08",
     "Lanczos approximates the Hessian."),
    ("gilmer.sharpness", "Gilmer et al. 2021", "on training instability", "08",
     "Training is unstable where the largest eigenvalue of the Hessian exceeds 2/η."),
    # 09_after_the_paper
    ("paper.well_behaved", PAPER, "abstract", "09",
     "With LN inside the residual branch the gradients are well-behaved at initialisation, at every depth."),
    ("kim.order", "summaries of Kim et al. 2025", "on Peri-LN", "09",
     "Gradients at initialisation are ordered Post-LN > Pre-LN > Peri-LN."),
    ("kim.variance", "Kim et al. 2025", "abstract", "09",
     "Peri-LN balances the growth of variance, where Pre-LN is prone to massive activations (read here: training "
     "enlarges Pre-LN's stream more)."),
    ("kim.better", "Kim et al. 2025", "abstract", "09",
     "Up to 3.2 billion weights, Peri-LN converges more stably than Pre-LN and Post-LN."),
    ("dong.rank", "Dong et al. 2021", "abstract", "09",
     "Without skips, attention's output converges doubly exponentially to rank one: all tokens become one "
     "(theirs without FFNs, too; here with FFN and LN)."),
    ("liu.amplifies", "Liu et al. 2020", "abstract", "09",
     "Post-LN depends heavily on its residual branches, and so amplifies small changes of the weights."),
    ("liu.cause", "Liu et al. 2020", "abstract", "09",
     "Unbalanced gradients are not the root cause of the instability of training."),
    ("huang.without", "Huang et al. 2020", "abstract", "09",
     "T-Fixup's initialisation enables training without warm-up or layer normalization."),
    ("huang.deep", "Huang et al. 2020", "abstract", "09",
     "With T-Fixup 200 layers in both encoder and decoder train without difficulty."),
    ("shleifer.early", "Shleifer et al. 2021", "abstract", "09",
     "In Pre-LN, in pretraining, early layers have much larger gradients than later ones; NormFormer alleviates it."),
    ("shleifer.faster", "Shleifer et al. 2021", "abstract", "09",
     "NormFormer with 1.3 billion weights reaches equal perplexity 24 % faster."),
    ("ding.nan", "Ding et al. 2021", "abstract", "09",
     "A second norm at the end of every branch (Sandwich-LN, the rule of Peri-LN) helps to eliminate NaN losses."),
    ("swin.milder", "Liu et al. 2022", "on Swin v2's res-post-norm", "09",
     "With LN at the end of the branch the stream is much milder than Pre-LN's in deep layers (read here: smaller "
     "after training)."),
    ("olmo.alone", "OLMo team 2025", "section 3.3.2", "09",
     "LN at the end of the branch does not give good results by itself (with norms on queries and keys it does)."),
    ("wang.update", "Wang et al. 2022", "section 4.3, figure 5", "09",
     "In the first steps the model update of Post-LN explodes with depth, and DeepNorm's is nearly constant."),
    ("wang.thousand", "Wang et al. 2022", "abstract", "09",
     "DeepNorm scales Transformers to 1,000 layers without difficulty."),
    ("takase.source", "Takase et al. 2022", "abstract", "09",
     "The LN in Post-LN is the source of its vanishing gradients, and Pre-LN prevents them."),
    ("takase.deep", "Takase et al. 2022", "abstract", "09",
     "B2T trains stably in shallow and deep settings."),
    ("xie.collapse", "Xie et al. 2023", "abstract", "09",
     "Pre-LN's representations collapse, deep layers being much alike; ResiDual's stay diverse."),
    ("xie.gradient", "Xie et al. 2023", "abstract", "09",
     "ResiDual has a lower bound on the gradient, which avoids Post-LN's vanishing."),
    ("li.uniform", "Li et al. 2025", "abstract", "09",
     "Mix-LN's gradients are more uniform across layers than Pre-LN's and Post-LN's."),
    ("sun.variance", "Sun et al. 2025", "abstract", "09",
     "Pre-LN's output variance grows exponentially with depth; LayerNorm Scaling mitigates it."),
    ("sun.identity", "Sun et al. 2025", "abstract", "09",
     "Pre-LN's deep blocks come near the identity and contribute little; LayerNorm Scaling mends it."),
    ("zhuo.flow", "Zhuo et al. 2025", "abstract", "09",
     "HybridNorm improves the gradient flow (read here: more even gradients than Pre-LN's and Post-LN's)."),
    ("zhu.alpha", "Zhu et al. 2025", "figure 8, right", "09",
     "After training, Dynamic Tanh's α goes with one over the standard deviation of its input, norm by norm."),
    ("zhu.match", "Zhu et al. 2025", "abstract", "09",
     "Networks with Dynamic Tanh match or exceed those with norms, mostly without tuning."),
]  # fmt: skip
CLAIMS = {key: Claim(key, source, where, sentence, notebook) for key, source, where, notebook, sentence in _CLAIMS}


# Measurements --------------------------------------------------------------------------------------------------


def record(
    key: str, measured, *, verdict: str, spread=None, guess=None, size: str = "", tables: Iterable[str] = ()
) -> None:
    """Fill a row of the ledger: words, a number, or an array over seeds, which becomes mean ± standard deviation.

    The guess is the one stored by the `Predict` of the same name, unless another is given (`guess_of(name)` has
    those of other questions). `size` says at which size it was measured, `tables` on which stored tables it rests:
    "warmup" on captions, "figure2_multi30k" on another text. What is out of reach says in words what it would need.
    """
    if not isinstance(key, str) or key not in CLAIMS:
        near = get_close_matches(str(key), CLAIMS, 3, 0.4) or list(CLAIMS)[:3]
        raise ValueError(
            f"There is no claim {short_repr(key)}. Near it are {', '.join(near)}; see lntutor.lesson.claims.CLAIMS."
        )
    if not isinstance(verdict, str) or verdict not in VERDICTS:
        allowed = ", ".join(map(repr, VERDICTS))
        raise ValueError(f"The verdict on {key} must be one of {allowed}, got {short_repr(verdict)}.")
    if verdict == "out of reach" and not isinstance(measured, str):
        advice = "say in words what measuring it would need"
        raise ValueError(f"{key} is out of reach: {advice}, got {short_repr(measured)}.")
    check_type("size", size, str)
    tables = as_tuple("tables", tables, "('warmup', 'figure2_multi30k')")
    text, computed = _as_text(key, measured)
    entry: dict[str, Any] = {
        "measured": f"{text} ({size})" if size else text,
        "spread": computed if spread is None else f"± {_number(spread)}" if is_number(spread) else str(spread),
        "verdict": verdict,
    }
    if guess is not None:
        entry["guess"] = _number(guess) if is_number(guess) else str(guess)
    if tables:
        entry["tables"] = _files(key, tables)
    NOTES.put("records", key, entry)


def _files(key: str, tables: Iterable[str]) -> list[str]:
    """Names of tables → names of their files, which name the corpus too: "warmup" is "warmup_captions"."""
    from lntutor.experiments import stored as results  # imported here: it needs torch, which the ledger does without

    stored = results.stems()
    files = []
    for name in tables:
        file = next((stem for stem in (name, f"{name}_{results.STORED_CORPORA[0]}") if stem in stored), None)
        if file is None:
            near = get_close_matches(str(name), stored, 3, 0.4) or stored
            raise ValueError(f"data/results has no table {name!r} for {key} to rest on. Near it are {', '.join(near)}.")
        files.append(file)
    return files


def _as_text(key: str, measured) -> tuple[str, str]:
    """A measurement and its spread over seeds, as text."""
    if isinstance(measured, str):
        if not measured.strip():
            raise ValueError(f"What was measured for {key} is empty; give words, a number or an array over seeds.")
        return measured, ""
    try:
        values = np.asarray(measured, float).ravel()
    except (TypeError, ValueError, OverflowError):
        allowed, kind = "words, a number or an array over seeds", type(measured).__name__
        raise ValueError(f"What was measured for {key} must be {allowed}, got {kind}.") from None
    if not values.size or not np.isfinite(values).all():
        message = f"What was measured for {key} must be finite numbers, got {short_repr(measured)}"
        raise ValueError(f"{message}; otherwise give words.")
    if values.size == 1:
        return _number(values[0]), ""
    return _number(values.mean()), f"± {_number(values.std(ddof=1))} over {values.size} seeds"


def is_number(value: Any) -> bool:
    """Whether this is a finite number, and not True or False."""
    try:
        return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and isfinite(value)
    except OverflowError:  # an int that no float holds
        return False


def _number(value) -> str:
    return f"{float(value):.3g}".replace("-", "−")


# The ledger ----------------------------------------------------------------------------------------------------


def ledger(notebook: str | int | None = None) -> pd.DataFrame:
    """One row per claim, by key: claim, source, your guess, measured, spread, verdict; of one notebook or of all."""
    number = _notebook(notebook)
    records, guesses = NOTES.everywhere("records"), NOTES.everywhere("guesses")
    claims = [claim for claim in CLAIMS.values() if number in (None, claim.notebook)]
    rows = [_row(claim, records.get(claim.key, {}), guesses.get(claim.key, {})) for claim in claims]
    return pd.DataFrame(rows, columns=COLUMNS, index=pd.Index([claim.key for claim in claims], name="key"))


def _row(claim: Claim, entry: dict, guess: dict) -> tuple[str, ...]:
    guessed = entry.get("guess") or guess.get("words") or NO_GUESS
    measured, verdict = entry.get("measured", NOT_YET), entry.get("verdict", NOT_YET)
    source = f"{claim.source}, {claim.where}"
    return claim.sentence, source, str(guessed), str(measured), str(entry.get("spread", "")), str(verdict)


def _notebook(notebook: str | int | None) -> str | None:
    """The two digits of a notebook that is given as "01_attention", "01" or 1; None for all notebooks."""
    if notebook is None:
        return None
    number = f"{notebook:02d}" if isinstance(notebook, int) else str(notebook)[:2]
    known = sorted({claim.notebook for claim in CLAIMS.values()})
    if number not in known:
        raise ValueError(f"Notebooks with claims are {', '.join(known)}; got {short_repr(notebook)}.")
    return number


def stored() -> pd.DataFrame:
    """What `python -m lntutor claims` stored: one row per claim, columns STORED; `attrs` has the lines at its head."""
    from lntutor.experiments import stored as results

    path, again = results.FOLDER / FILE, "`python -m lntutor claims` runs the lessons and writes it, in ten minutes"
    if not path.is_file():
        raise ValueError(f"There is no data/results/{FILE}: {again}.")
    try:
        table = results.load(path, dtype=str, keep_default_na=False)
        return table[STORED].set_index("key")
    except (ValueError, KeyError):  # such as a half-done merge
        raise ValueError(f"data/results/{FILE} is not a table with the columns {', '.join(STORED)}: {again}.") from None


@dataclass(frozen=True)
class Ledger:
    """The ledger as a table in the page, with a caption that says how much of it is filled."""

    table: pd.DataFrame
    caption: str

    def __repr__(self) -> str:
        return "\n".join([self.caption, *self._lines()])

    def _lines(self) -> Iterator[str]:
        for title, part in self.parts():
            yield from [title] if title else []
            for _, row in part.iterrows():
                yield f"{row['claim']} [{row['source']}]"
                yield "    " + "; ".join(f"{name}: {row[name]}" for name in part.columns[2:] if str(row[name]))

    def parts(self) -> list[tuple[str, pd.DataFrame]]:
        """The rows of each notebook under its number; of one notebook alone, without."""
        parts = list(self.table.groupby([CLAIMS[key].notebook for key in self.table.index]))
        return [(f"Notebook {number}" if len(parts) > 1 else "", part) for number, part in parts]

    def _repr_html_(self) -> str:
        columns = list(self.table.columns)
        total = sum(SHARES[name] for name in columns)
        widths = "".join(f'<col style="width:{SHARES[name] / total:.1%}">' for name in columns)
        head = "".join(f'<th scope="col">{name}</th>' for name in columns)
        caption = f"<caption><b>{escape(self.caption)}</b></caption>"
        bodies = "".join(_body(title, part) for title, part in self.parts())
        top = f"{caption}<colgroup>{widths}</colgroup><thead><tr>{head}</tr></thead>"
        return f'{STYLE}<div class="lntutor-ledger"><table>{top}{bodies}</table></div>'


def _body(title: str, part: pd.DataFrame) -> str:
    """The rows of one notebook, in HTML."""
    over = f'<tr><th scope="rowgroup" colspan="{len(part.columns)}">{title}</th></tr>' if title else ""
    names = part.columns[1:]
    rows = "".join(
        f'<tr><th scope="row">{escape(claim)}</th>'
        + "".join(f'<td data-name="{name}">{escape(value)}</td>' for name, value in zip(names, rest, strict=True))
        + "</tr>"
        for claim, *rest in part.itertuples(index=False)
    )
    return f"<tbody>{over}{rows}</tbody>"


def show_ledger(notebook: str | int | None = None) -> Ledger:
    """The ledger of one notebook, or of all, to end a cell with."""
    table = ledger(notebook)
    filled = sum(verdict != NOT_YET for verdict in table["verdict"])
    which = "of all notebooks" if notebook is None else f"of notebook {_notebook(notebook)}"
    caption = " ".join([f"Claims {which}: {filled} of {len(table)} measured.", NOTES.warning()]).strip()
    return Ledger(table, caption)


def whole_ledger() -> Ledger:
    """Every claim with the measurement that is stored, your guess, and the verdict of your own run of its notebook."""
    mine, kept = ledger(), stored().reindex(list(CLAIMS))
    table = mine.assign(
        measured=kept["measured"].fillna(NOT_YET),
        spread=kept["spread"].fillna(""),
        verdict=kept["verdict"].fillna(NOT_YET),
        **{"your run": mine["verdict"].replace(NOT_YET, NOT_RUN)},
    )
    same = table["verdict"] == table["your run"]
    ran = f"Of these you measured {(table['your run'] != NOT_RUN).sum()}, {same.sum()} with the same verdict."
    return Ledger(table, " ".join([counted(table["verdict"]), ran, NOTES.warning()]).strip())


def stored_ledger() -> Ledger:
    """Every claim with what is stored of it and the command that measures it again: the ledger without a reader."""
    kept = stored().reindex(list(CLAIMS))
    source = [f"{claim.source}, {claim.where}" for claim in CLAIMS.values()]
    table = kept.reindex(columns=["measured", "spread", "verdict", "command"]).fillna("")
    table.insert(0, "source", source)
    table.insert(0, "claim", [claim.sentence for claim in CLAIMS.values()])
    return Ledger(table, counted(kept["verdict"].fillna(NOT_YET)))


def counted(verdicts: Iterable[str]) -> str:
    """How many claims hold, and how many do not, in a sentence."""
    found = list(verdicts)
    counts = {verdict: found.count(verdict) for verdict in (*VERDICTS, NOT_YET)}
    counted = [f"{n} {verdict if n == 1 else PLURAL.get(verdict, verdict)}" for verdict, n in counts.items() if n]
    return f"{len(found)} claims: {', '.join(counted)}."
