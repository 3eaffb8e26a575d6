"""Numbers that travel: what lessons say of networks at initialisation holds for other seeds, threads and precisions.

`CLAIMS` is the table: the notebook of a claim, its text there that states the tolerance, and how it is measured. Whole
lessons are run by `python tools/travel.py`, whose report is benchmarks/travel.csv.
"""

import csv
import itertools
import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch

import lntutor as ln
from lntutor.experiments import cache as store
from lntutor.figures import slope
from lntutor.lesson.claims import stored
from lntutor.measure.recorder import AGREEMENT, FAINT
from lntutor.model import random_streams
from lntutor.model.weight_bank import WeightBank
from tests.processes import ROOT, run_python
from tools import travel

NOTEBOOKS = {path.stem[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))}
SEED_SETS = (1000, 2000)  # first seeds; the lessons begin at 0
ONE = ln.Inputs(tokens=1, loss="probe")
theorem = partial(ln.ModelConfig.theorem, width=128)  # the model of Theorem 1, at the width of most claims


# What is measured: each function returns numbers, and all must lie between two bounds --------------------------


def ratios(cfg: ln.ModelConfig, seeds, dtype, **inputs) -> np.ndarray:
    """W_2's gradient in the top layer over that in the lowest on the last side, one number per seed."""
    table = ln.gradient_norms(cfg, seeds=seeds, inputs=ln.Inputs(**inputs), dtype=dtype, parameters=("W_2",))
    rows = table[table["side"] == cfg.sides[-1]].pivot(index="seed", columns="layer", values="value")
    return (rows[cfg.depth] / rows[1]).to_numpy()


def standard_errors(values: pd.DataFrame, expected) -> np.ndarray:
    """Distance of the mean over seeds (rows) from the expected value, in standard errors, per column."""
    return abs(values.mean() - expected) / (values.std() / len(values) ** 0.5)


def streams(placement, seeds, dtype, site) -> pd.DataFrame:
    """‖x‖²/d of the theorem's model at one token: one row per seed, one column per layer."""
    inputs = ln.Inputs(tokens=1, batch=32)
    table = ln.signal_norms(ln.ModelConfig.theorem(placement), seeds=seeds, inputs=inputs, dtype=dtype)
    return table[table["site"] == site].pivot(index="seed", columns="layer", values="value")


def lemma_2_pre(seeds, dtype):
    sizes = streams("pre", seeds, dtype, "out")
    return standard_errors(sizes, 1 + 1.5 * sizes.columns)


def last_layers(placement, depths, width, seeds, dtype):
    cfg = ln.ModelConfig.theorem(placement, max(depths), width)
    return ln.last_layer_gradients(cfg, depths, seeds=seeds, inputs=ONE, dtype=dtype)


def closed_form(seeds, dtype):
    """Measured over √(d/2q), in networks of one and two layers."""
    found = {p: last_layers(p, [1, 2], 256, seeds, dtype).groupby("depth")["value"].mean() for p in ("post", "pre")}
    sizes = {("post", 1): 1.5, ("post", 2): 1.5, ("pre", 1): 2.5, ("pre", 2): 4}
    return [found[p][depth] / (256 / (2 * q)) ** 0.5 - 1 for (p, depth), q in sizes.items()]


DEPTHS = [1, 2, 3, 4, 6, 8, 12, 16, 24]


def slopes(seeds, dtype):
    """Measured less predicted, mean over seeds, of Post-LN and Pre-LN."""
    off = []
    for placement in ("post", "pre"):
        by_seed = last_layers(placement, DEPTHS, 128, seeds, dtype).groupby("seed")
        found = [slope(t["depth"], t["value"]) for _, t in by_seed]
        line = ln.predict(ln.ModelConfig.theorem(placement, 24, 128), "last_layer", depths=DEPTHS, inputs=ONE)
        off.append(np.mean(found) - slope(line["depth"], line["value"]))
    return off


def bound_over_gradient(seeds, dtype):
    rows = [r for p in ("post", "pre") for r in last_layers(p, DEPTHS, 128, seeds, dtype).itertuples()]
    return [ln.theorem_bound(ln.ModelConfig.theorem(r.placement, r.depth, 128)) / r.value for r in rows]


def tokens_64_over_16(seeds, dtype):
    cfg = theorem("post")
    inputs = [ln.Inputs(tokens=n) for n in (64, 16)]
    many, few = (ln.last_layer_gradients(cfg, [6], seeds=seeds, inputs=i, dtype=dtype)["value"] for i in inputs)
    return [(many / few).mean() - 0.5]


def conserved(seeds, dtype):
    """‖∂L/∂x‖²·‖x‖²/d after every layer, mean over seeds, less 1."""
    off = []
    for placement in ("post", "pre"):
        cfg = theorem(placement)
        q, g = (f(cfg, seeds=seeds, inputs=ONE, dtype=dtype) for f in (ln.signal_norms, ln.backward_norms))
        product = q.assign(value=q["value"] * g["value"])
        off += (product[product["site"].isin(["in", "out"])].groupby("layer")["value"].mean() - 1).tolist()
    return off


def figure_3(placement, stack="encoder-decoder", depth=6):
    return ln.ModelConfig.figure3(placement).with_(width=128, ffn=256, stack=stack, depth=depth)


def alike(seeds, dtype):
    """The cosine between tokens after 12 layers: Post-LN's less Pre-LN's."""
    configs = [ln.ModelConfig.theorem(placement, 12) for placement in ("post", "pre")]
    found = [ln.token_similarity(cfg, seeds=seeds, inputs=ln.Inputs(tokens=32), dtype=dtype) for cfg in configs]
    post, pre = (t.query("layer == 12 and site == 'out'")["value"].mean() for t in found)
    return [post - pre]


def norm_and_rest(seeds, dtype):
    """What a layer's last LN does to the squared gradient, over 2/3, and the rest of the layer, over 3/2; less 1."""
    table = ln.backward_norms(theorem("post"), seeds=seeds, inputs=ONE, dtype=dtype)
    at = table.groupby(["layer", "site"])["value"].mean().unstack()
    factors = (at["sum"] / at["out"]).loc[2:].mean(), (at["out"].shift() / at["sum"]).loc[2:].mean()
    return [factors[0] / (2 / 3) - 1, factors[1] / (3 / 2) - 1]


def peri_over_pre(seeds, dtype):
    """The last decoder layer's gradient, seed by seed, at 6 layers."""
    configs = [ln.ModelConfig(p, width=64, ffn=256) for p in ("peri", "pre")]
    peri, pre = (ln.last_layer_gradients(cfg, [6], seeds=seeds, dtype=dtype)["value"] for cfg in configs)
    return peri / pre


def without_skips(seeds, dtype):
    """1 − cos between tokens after three layers."""
    cfg = ln.ModelConfig("no_residual", stack="encoder", depth=4, width=64, heads=4, ffn=256)
    return 1 - ln.token_similarity(cfg, seeds=seeds, dtype=dtype).query("site == 'out' and layer == 3")["value"]


# The table -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Claim:
    """Text of a notebook that states a tolerance: with so many seeds, all measured numbers lie between low and high."""

    notebook: str
    text: str
    measured: Callable
    low: float
    high: float
    seeds: int


INF = float("inf")
CLAIMS = {
    "Post-LN's decoder: the top layer has more than twice the gradient of the lowest, in every seed": Claim(
        "00", '(ends("post")[:, 1] > 2 * ends("post")[:, 0]).all()',
        lambda seeds, dtype: ratios(ln.ModelConfig("post"), seeds, dtype), 2, INF, 3),
    "Pre-LN's decoder: the lowest has more than 1.3 times the gradient of the top layer": Claim(
        "00", '(ends("pre")[:, 0] > 1.3 * ends("pre")[:, 1]).all()',
        lambda seeds, dtype: 1 / ratios(ln.ModelConfig("pre"), seeds, dtype), 1.3, INF, 3),
    "Lemma 2: Post-LN's last norm reads 3/2, to four standard errors": Claim(
        "03", "assert abs(values.mean() - 1.5) < 4 * values.std() / sqrt(len(values))",
        lambda seeds, dtype: standard_errors(streams("post", seeds, dtype, "sum").mean(axis=1).to_frame(), 1.5),
        0, 4, 8),
    "Lemma 2: Pre-LN's stream is 1 + 3l/2 at one token, to four standard errors": Claim(
        "03", '(abs(one_token["mean"] - one_token["derived"]) < 4 * one_token["std"]', lemma_2_pre, 0, 4, 8),
    "Tokens become alike, and more in Post-LN": Claim(
        "03", "it grows in both, and more in Post-LN", alike, 0, INF, 2),
    "The last layer's gradient is √(d/2q), within 6 %": Claim(
        "04", 'sizes_of["mean"], sizes_of["formula"], rtol=0.06', closed_form, -0.06, 0.06, 20),
    "Its slope over depth is the recursion's, within 0.05": Claim(
        "04", "all(abs(fitted[p].mean() - expected[p]) < 0.05 for p in runs)", slopes, -0.05, 0.05, 10),
    "Theorem 1's bound is more than 50 times the gradient": Claim(
        "04", "assert min(above.values()) > 50", bound_over_gradient, 50, INF, 10),
    "Four times the tokens, half the gradient, within 0.1": Claim(
        "05", "assert abs(ratio.mean() - 1 / 2) < 0.1", tokens_64_over_16, -0.1, 0.1, 4),
    "g·q is conserved at one token, within 0.5": Claim(
        "05", 'assert (abs(means["value"] - 1) < 0.5).all()', conserved, -0.5, 0.5, 30),
    "Pre-LN's lowest layer has twice the gradient of the top, within 0.25": Claim(
        "05", "assert abs(one.mean() - 2) < 0.25",
        lambda seeds, dtype: [(1 / ratios(theorem("pre"), seeds, dtype, tokens=1, loss="probe")).mean() - 2],
        -0.25, 0.25, 30),
    "Figure 3: Post-LN's decoder grows in every seed, and not 21 times": Claim(
        "05", "assert all(1 < value < 7 for value in decoder_10)",
        lambda seeds, dtype: ratios(figure_3("post"), seeds, dtype), 1, 7, 10),
    "Figure 3: Pre-LN's decoder falls in every seed": Claim(
        "05", 'assert ten_seeds("pre", "decoder").max() < 1',
        lambda seeds, dtype: ratios(figure_3("pre"), seeds, dtype), 0, 1, 10),
    "An encoder and a causal stack are flat": Claim(
        "05", "assert ((flat > 0.5) & (flat < 2.2)).all()",
        lambda seeds, dtype: [ratios(figure_3("post", s, 12), seeds, dtype).mean() for s in ("encoder", "decoder")],
        0.5, 2.2, 4),
    "A decoder of 12 layers is not": Claim(
        "05", 'assert causal_means["decoder of an encoder-decoder"] > 4',
        lambda seeds, dtype: [ratios(figure_3("post", depth=12), seeds, dtype).mean()], 4, INF, 4),
    "Appendix F: LN's 2/3 meets a 3/2, within 5 %": Claim(
        "07", 'mean_factors[["LN", "the rest"]], [2 / 3, 3 / 2], rtol=0.05', norm_and_rest, -0.05, 0.05, 40),
    "Cross-attention alone makes the gradient grow": Claim(
        "07", "assert 3.5 < cross.mean() < 8",
        lambda seeds, dtype: [ratios(theorem("post").with_(stack="encoder-decoder"), seeds, dtype).mean()], 3.5, 8, 10),
    "Peri-LN's last gradient is larger than Pre-LN's": Claim(
        "09", "Larger, by a factor between 1 and 2", peri_over_pre, 1, 2, 3),
    "Without skips tokens are one after three layers": Claim(
        "09", "assert (apart_by_layer[3] < 1e-3).all()", without_skips, -INF, 1e-3, 3),
}  # fmt: skip

PRECISIONS = ("float32", "float64")
ON_TWO_THREADS = ("The last layer's gradient", "Four times the tokens", "Without skips")  # few operations, see below


@contextmanager
def threads(count: int):
    """Run with so many torch threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_of_the_lessons_holds_on_other_seeds_threads_and_precisions(name):
    """Oracle: the bounds that the lesson states, on seeds that it has not seen.

    Two threads are slow beside other processes, so few claims try them: the next test and the report have them, too.
    """
    claim, counts = CLAIMS[name], (1, 2) if name.startswith(ON_TWO_THREADS) else (1,)
    for start, count, dtype in itertools.product(SEED_SETS, counts, PRECISIONS):
        with threads(count):
            found = np.asarray(claim.measured(range(start, start + claim.seeds), dtype), float)
        assert len(found)
        assert ((claim.low <= found) & (found <= claim.high)).all(), (start, count, dtype, found)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_the_bounds_are_those_that_the_lesson_states(claim):
    """Oracle: the notebook's own text; each bound other than 0 and infinity is a number in it."""
    cells = nbformat.read(NOTEBOOKS[claim.notebook], as_version=4).cells
    assert sum(claim.text in cell.source for cell in cells) == 1
    stated = {float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", claim.text)}
    assert {abs(bound) for bound in (claim.low, claim.high)} - {0, INF} <= stated


# One network, many ways ----------------------------------------------------------------------------------------

SETTINGS = [(key, 3, 64, "encoder-decoder") for key in ln.PLACEMENTS if key != "none"]  # of "none" the README speaks
SETTINGS += [("post", 24, 32, "encoder-decoder"), ("hybrid", 24, 32, "encoder-decoder")]
SETTINGS += [("post", 1, 256, "decoder"), ("pre", 2, 256, "encoder")]  # wide enough for two threads, few operations


@pytest.mark.parametrize(("placement", "depth", "width", "stack"), SETTINGS)
def test_a_network_has_the_same_numbers_on_one_thread_and_two_in_float32_and_float64(placement, depth, width, stack):
    """Oracle: float64 on one thread; `AGREEMENT`, of what is above `FAINT` times the largest and not flagged."""
    cfg, counts = ln.ModelConfig(placement, depth, width, ffn=2 * width, stack=stack), (1, 2) if width > 64 else (1,)
    inputs = ln.Inputs(tokens=8, vocab=128)
    for measure in (ln.signal_norms, ln.backward_norms, ln.gradient_norms, ln.token_similarity):
        tables = {}
        for way in itertools.product(counts, PRECISIONS):
            with threads(way[0]):
                tables[way] = measure(cfg, seeds=range(2), inputs=inputs, dtype=way[1])
        exact = tables[1, "float64"]["value"]
        faint = FAINT**2 if measure is ln.backward_norms else FAINT  # these are squares
        clear = exact.abs() > faint * exact.max()
        for way, table in tables.items():
            rows = clear & ~table.get("below_floor", pd.Series(False, table.index))
            assert rows.mean() > 0.3, way
            np.testing.assert_allclose(table["value"][rows], exact[rows], rtol=AGREEMENT, atol=1e-6, err_msg=str(way))


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_gradients_without_a_skip_below_cross_attention_are_flagged(dtype):
    """Oracle: float64, whose round-off is far smaller; all memory tokens are equal, so the exact gradient is 0."""
    cfg = ln.ModelConfig("no_residual", 6, 64, ffn=128)
    table, exact = (ln.gradient_norms(cfg, seeds=(0, 1), dtype=d) for d in (dtype, "float64"))
    lower = (table["side"] == "decoder") & (table["layer"] < 6)
    assert (exact["value"][lower] < 1e-10).all()
    assert table["below_floor"][lower].all()
    assert not table["below_floor"][(table["layer"] == 6) & (table["parameter"] == "W_2")].any()


# Other samples -------------------------------------------------------------------------------------------------


def test_an_environment_variable_draws_every_stream_anew(monkeypatch):
    """Oracle: a second process reads the variable; samples and cache keys change."""
    code = "from lntutor.model import random_streams as r; print(r.DRAWN, r.random_stream(0, 'a').integers(10**9))"
    printed = run_python(code, **{random_streams.SAMPLE: "b"}).split()

    def drawn() -> tuple:
        weights = WeightBank().samples(0, ("W",), 8, 8)
        return random_streams.random_stream(0, "a").integers(10**9), weights, store.key("a")

    here = drawn()
    monkeypatch.setattr(random_streams, "DRAWN", "b")
    there = drawn()
    assert printed == ["b", str(there[0])]
    assert here[0] != there[0]
    assert not (here[1] == there[1]).any()
    assert here[2] != there[2]


LESSON = [
    "import numpy as np\nimport torch\ntorch.set_num_threads(1)\nassert torch.get_num_threads() == 2",
    "import lntutor as ln\nassert ln.signal_norms.__kwdefaults__['dtype'] == 'float64'",
    "from lntutor.training.network import Learner\nassert Learner.__init__.__kwdefaults__['dtype'] is torch.float64",
    "from lntutor.curvature import lanczos\nfrom lntutor.model import random_streams\n"
    "assert lanczos.start_vector(4, 0).dtype is torch.float64",
    "assert random_streams.DRAWN == 'b'",
    "assert np.random.default_rng(0).random() != np.random.Generator(np.random.PCG64(0)).random()",
    "coins = torch.Generator().manual_seed(0)\nassert coins.initial_seed() != 0\ntorch.rand(2, generator=coins)",
    "print('no check')",
    "assert 1 == 2, 'this one fails'",
]


def test_a_lesson_on_its_way_has_other_samples_threads_and_precision_and_every_failure_is_listed(tmp_path):
    """Oracle: a notebook that checks its own settings, and fails once."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in LESSON])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, tmp_path / "lesson.ipynb")
    failed, count, found = travel.run(tmp_path / "lesson.ipynb", travel.Way("b", 2, "float64"))
    assert failed == [f"cell {len(LESSON)}: AssertionError this one fails"]
    assert count == len(LESSON) - 1
    assert found == {"answers": {}, "verdicts": {}}


def test_the_report_has_every_lesson_and_no_failure():
    """Oracle: the notebooks, the ways in which they travel, and the claims of the ledger."""
    lines = [line for line in travel.REPORT.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    ways = [(way.sample or travel.HOME, str(way.threads), way.dtype) for way in travel.WAYS.values()]
    gone = sorted((row["lesson"][:2], row["samples"], row["threads"], row["dtype"]) for row in rows)
    assert gone == sorted((number, *way) for number in NOTEBOOKS for way in ways)
    claims = stored()["notebook"].value_counts()
    for row in rows:
        assert {row[name] for name in ("failed", "changed", "other answers")} == {travel.NONE}, row
        assert int(row["verdicts"]) == claims.get(row["lesson"][:2], 0)
        assert int(row["checks"]) > 0


def test_the_readme_says_how_far_trained_numbers_are_apart():
    """Oracle: benchmarks/travel_training.csv, which `python tools/travel.py --training` wrote."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = pd.read_csv(travel.TRAINED, comment="#")
    assert len(table) == 16
    for placement, rows in table.query("rate == 0.01").groupby("placement"):
        losses, name = rows["val_loss"], ln.PLACEMENTS[placement].label
        assert re.search(rf"\| rate 0\.01, {name}.* \| {losses.min():.2f} to {losses.max():.2f} \|", readme)
    low = table.query("rate == 0.001").groupby("placement")
    apart = {name: (low[name].max() - low[name].min()).max() for name in ("val_loss", "bleu")}
    assert f"apart by {apart['val_loss']:.3f} nats | by {apart['bleu']:.1f} |" in readme
