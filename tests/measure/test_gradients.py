"""Measurements against plain float64 autograd on the same weights, closed forms, and each other's definitions."""

import gc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lntutor as ln
from lntutor.measure.gradients import frobenius_norms
from lntutor.measure.inputs import feed
from lntutor.measure.recorder import TOLERANCE
from lntutor.measure.signals import attention_weights
from lntutor.model.parameters import positions
from lntutor.model.placements import STACKS
from lntutor.model.transformer import Sequence, Transformer
from lntutor.model.weight_bank import BANK
from tests.reference import matrix_leaves, plain_gradients

SITES = ["placement", "depth", "width", "side", "layer", "site", "seed", "value"]
GRADIENTS = ["placement", "depth", "width", "side", "layer", "block", "parameter", "seed", "value", "below_floor"]
SMALL = ln.ModelConfig("post", depth=3, width=24, heads=3, ffn=40)


def model(heads, per_head, **fields):
    return ln.ModelConfig(heads=heads, width=heads * per_head, **fields)


CONFIGS = st.builds(
    model, heads=st.integers(1, 3), per_head=st.integers(12, 24),  # LN of very few features has next to no gradient
    depth=st.integers(1, 4), ffn=st.integers(12, 80), output_projection=st.booleans(),
    placement=st.sampled_from(sorted(ln.PLACEMENTS)), stack=st.sampled_from(STACKS),
    attention=st.sampled_from(["softmax", "uniform"]), init=st.sampled_from(["xavier", "torch", "theory"]),
    norm=st.sampled_from(["layer", "rms"]),
)  # fmt: skip
INPUTS = st.builds(
    ln.Inputs, st.sampled_from(["gaussian", "tokens"]), tokens=st.integers(1, 9), batch=st.integers(1, 3),
    loss=st.sampled_from(["cross_entropy", "probe"]), vocab=st.integers(27, 80), head=st.sampled_from([0.3, 1.0, 2.0]),
)  # fmt: skip


class Look:
    """What a plain float64 pass computes, with its gradients: streams by site, and (W, x, xW) by name."""

    def __init__(self, cfg, inputs, seed):
        self.sites, self.products = {}, {}
        fed, self.leaves = feed(cfg, inputs, (seed,), torch.float64), matrix_leaves(cfg, seed)
        sequences = [Sequence(s.x.clone().requires_grad_(), s.batch, s.real) for s in fed.sequences]
        fed.loss(Transformer(cfg, self.leaves, self)(*sequences)).backward()

    def site(self, side, layer, site, x):
        x.retain_grad()
        self.sites[side, layer, site] = x

    def matmul(self, name, x, y):
        if y.requires_grad:
            y.retain_grad()
        self.products[name] = self.leaves[name], x, y

    def attention(self, *_):
        pass


def size(x):
    """‖x‖, and 0 for a gradient that does not exist."""
    return 0.0 if x is None else float(x.detach().norm())


@settings(max_examples=120)
@given(CONFIGS, INPUTS, st.integers(0, 50))
def test_gradient_norms_equal_plain_autograd(cfg, fed, seed):
    """Oracle: float64 autograd of each matrix itself; error relative to ‖X‖‖G‖."""
    seeds = (seed, seed + 1)
    table = ln.gradient_norms(cfg, seeds=seeds, inputs=fed, dtype="float64")
    for s in seeds:
        products = Look(cfg, fed, s).products
        rows = table[table.seed == s]
        assert len(rows) == len(products)
        for row in rows.itertuples():
            W, x, y = products[row.side, row.layer, row.block, row.parameter]
            assert abs(row.value - size(W.grad)) <= TOLERANCE["float64"] * size(x) * size(y.grad), row


@settings(max_examples=60)
@given(CONFIGS, INPUTS, st.integers(0, 50))
def test_float32_gives_what_float64_gives_unless_it_is_flagged(cfg, fed, seed):
    """Oracle: float64. Norms and a softmax magnify rounding: single values may be 1 % off, most are not.

    What lies below the round-off of the largest gradient is not compared.
    """
    single, double = (ln.gradient_norms(cfg, seeds=seed, inputs=fed, dtype=dtype) for dtype in ("float32", "float64"))
    error = (single["value"] - double["value"]).abs() - 2.4e-7 * double["value"].max()
    drawn = ~single["below_floor"]
    assert (error[drawn] <= 0.01 * double["value"][drawn]).all()
    assert (error[drawn] <= 1e-5 * double["value"][drawn]).mean() > 0.5


@settings(max_examples=60)
@given(CONFIGS, INPUTS, st.sampled_from(["W_V", "W_1", "W_2"]), st.sets(st.integers(1, 5), min_size=1))
def test_last_layer_gradients_equal_one_model_per_depth(cfg, fed, parameter, depths):
    """Oracle: plain float64 autograd of a separate model for each depth."""
    table = ln.last_layer_gradients(cfg, depths, parameter=parameter, seeds=(3, 4), inputs=fed, dtype="float64")
    assert set(table.depth) == depths
    assert (table.depth == table.layer).all()
    for row in table.itertuples():
        gradients = plain_gradients(cfg.with_(depth=row.depth), row.seed, fed)
        value = float(torch.linalg.matrix_norm(gradients[row.side, row.layer, row.block, row.parameter]))
        assert row.value == pytest.approx(value, rel=1e-9, abs=1e-14)


@settings(max_examples=40)
@given(CONFIGS, INPUTS)
def test_signal_and_backward_norms_equal_hooks_on_a_plain_pass(cfg, fed):
    """Oracle: tensors caught in a plain float64 pass, norms taken in numpy."""
    caught = Look(cfg, fed, 0).sites
    signal = ln.signal_norms(cfg, seeds=0, inputs=fed, dtype="float64")
    back = ln.backward_norms(cfg, seeds=0, inputs=fed, dtype="float64")
    assert len(signal) == len(back) == len(caught)
    for a, b in zip(signal.itertuples(), back.itertuples(), strict=True):
        x = caught[a.side, a.layer, a.site]
        assert a.value == pytest.approx((x.detach().numpy() ** 2).sum(-1).mean() / cfg.width, rel=1e-10)
        g = np.zeros(1) if x.grad is None else x.grad.numpy()
        assert b.value == pytest.approx((g**2).sum(-1).mean(), rel=1e-9, abs=1e-30)


def test_what_is_left_of_the_input_is_a_squared_cosine():
    """Oracle: a stream that is the sum of its input and independent branches of size 1: 1/(1 + 2l) at one token."""
    cfg, one = ln.ModelConfig.theorem("peri", depth=4, width=512), ln.Inputs(tokens=1)
    table = ln.input_share(cfg, seeds=range(20), inputs=one)
    left = table[table["site"] == "out"].groupby("layer")["value"].mean()
    np.testing.assert_allclose(left, [1 / (1 + 2 * l) for l in range(1, 5)], rtol=0.1)
    assert table[table["site"] == "in"]["value"].to_numpy() == pytest.approx(1)
    final, out = (table[(table["site"] == site) & (table["layer"] == 4)]["value"] for site in ("final", "out"))
    np.testing.assert_allclose(final, out, rtol=0.05)  # a norm moves the mean only


def test_token_similarity_is_the_mean_cosine_of_pairs():
    """Oracle: every pair by hand, in numpy."""
    fed = ln.Inputs(tokens=5, batch=2)
    table = ln.token_similarity(SMALL, seeds=0, inputs=fed, dtype="float64")
    x = feed(SMALL, fed, (0,), torch.float64).sequences[1].x.numpy().reshape(2, 5, -1)
    unit = x / np.linalg.norm(x, axis=-1, keepdims=True)
    pairs = [unit[b, i] @ unit[b, j] for b in range(2) for i in range(5) for j in range(5) if i != j]
    row = table[(table.side == "decoder") & (table.site == "in")]
    assert row.value.item() == pytest.approx(np.mean(pairs))
    with pytest.raises(ValueError, match="needs two tokens, got tokens=1"):
        ln.token_similarity(SMALL, inputs=ln.Inputs(tokens=1))


def test_attention_entropy_is_that_of_the_weights_and_uniform_is_the_most():
    """Oracle: entropy in numpy; ln n for uniform attention, mean ln i for a causal one."""
    fed = ln.Inputs(tokens=7, batch=2)
    table = ln.attention_entropy(SMALL, seeds=(0, 1), inputs=fed)
    p = attention_weights(SMALL, seeds=(0, 1), inputs=fed)["decoder", 2, "cross"]
    entropy = -(p * np.log(p)).sum(-1).mean((1, 3))  # (seeds, heads)
    rows = table[(table.side == "decoder") & (table.layer == 2) & (table.block == "cross")]
    np.testing.assert_allclose(rows.value.to_numpy().reshape(2, 3), entropy, rtol=1e-5)
    assert (table.value <= table.uniform + 1e-6).all()
    causal = table[(table.side == "decoder") & (table.block == "self")].uniform
    np.testing.assert_allclose(causal, np.log(np.arange(1, 8)).mean())
    flat = ln.attention_entropy(SMALL.with_(attention="uniform"), seeds=0, inputs=fed)
    np.testing.assert_allclose(flat.value, flat.uniform)
    assert len(flat) == len(table) / 2


TABLES = {
    "signal_norms": SITES, "backward_norms": SITES, "token_similarity": SITES, "input_share": SITES,
    "gradient_norms": GRADIENTS, "last_layer_gradients": GRADIENTS,
    "attention_entropy": [*GRADIENTS[:6], "head", "seed", "value", "uniform"],
    "signal": SITES, "backward": SITES, "similarity": SITES, "gradient": GRADIENTS, "last_layer": GRADIENTS,
}  # fmt: skip


@pytest.mark.parametrize(("name", "columns"), TABLES.items(), ids=TABLES)
def test_tables_are_tidy_with_fixed_columns(name, columns):
    """Oracle: the columns that the design fixes, of measurements and of theory; one row per key; values finite."""
    depths = {"depths": [1, 2]} if name.startswith("last_layer") else {}
    table = getattr(ln, name)(SMALL, **depths) if hasattr(ln, name) else ln.predict(SMALL, name, **depths)
    assert list(table.columns) == columns
    assert not table.duplicated([c for c in columns if c not in ("value", "below_floor", "uniform")]).any()
    assert np.isfinite(table.value).all()
    assert set(table.placement) == {"post"}
    assert set(table.width) == {24}
    assert set(table.side) <= {"encoder", "decoder"}
    if "site" in columns:
        assert set(table.site) == {"in", "sum", "out", "final"}
        assert (table[table.site == "in"].layer == 0).all()
        assert (table[table.site != "in"].layer >= 1).all()
    if "parameter" in columns:
        assert set(table.parameter) <= {"W_Q", "W_K", "W_V", "W_O", "W_1", "W_2"}
        assert set(table.block) <= {"self", "cross", "ffn"}
    assert table.seed.isna().all() or set(table.seed) == {0, 1, 2}


def test_a_call_gives_the_same_table_again_alone_or_with_other_seeds():
    """Oracle: the table of one seed by itself; round-off may differ with the size of the group."""
    together = ln.gradient_norms(SMALL, seeds=(5, 6))
    assert together.equals(ln.gradient_norms(SMALL, seeds=(5, 6)))
    alone = ln.gradient_norms(SMALL, seeds=6).value.to_numpy()
    np.testing.assert_allclose(together[together.seed == 6].value, alone, rtol=1e-4)
    BANK.clear()
    assert together.equals(ln.gradient_norms(SMALL, seeds=(5, 6)))


@torch.no_grad()
def test_gradients_are_taken_whatever_the_callers_grad_mode():
    """A cell under no_grad, or a callback in another thread, gets the same numbers."""
    inside = ln.gradient_norms(SMALL, seeds=0)
    last = ln.last_layer_gradients(SMALL, [2], seeds=0)
    with torch.enable_grad():
        assert inside.equals(ln.gradient_norms(SMALL, seeds=0))
        assert last.equals(ln.last_layer_gradients(SMALL, [2], seeds=0))


def test_collapsed_tokens_are_flagged_where_float32_shows_only_noise():
    """Oracle: float64. Deep Post-LN: tokens collapse, and W_Q, W_K have gradients that float32 cannot see."""
    cfg = ln.ModelConfig("post", depth=48, width=64, heads=1, ffn=64, stack="encoder", init="theory")
    fed = ln.Inputs(tokens=8)
    single = ln.gradient_norms(cfg, seeds=range(2), inputs=fed)
    double = ln.gradient_norms(cfg, seeds=range(2), inputs=fed, dtype="float64")
    error = (single.value / double.value - 1).abs()
    assert single.below_floor.sum() > 20
    assert set(single[single.below_floor].parameter) <= {"W_Q", "W_K"}
    assert error[~single.below_floor].max() < 0.05  # what is drawn is right
    assert error[single.below_floor].median() > 0.2  # what is flagged is noise
    assert not double.below_floor.any()


@given(
    st.integers(1, 3), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.booleans(), st.integers(0, 10**6)
)
def test_frobenius_norms_equal_the_product(seeds, n, d_in, d_out, single, seed):
    """Oracle: numpy's norm of xᵀg in float64, also where the product cancels almost to nothing."""
    random = np.random.default_rng(seed)
    x, g = random.standard_normal((seeds, n, d_in)), random.standard_normal((seeds, n, d_out))
    if n > 1:
        x[:, 1:] = x[:, :1]  # equal tokens …
        g -= (1 - 1e-3) * g.mean(1, keepdims=True)  # … with gradients that nearly cancel
    dtype = torch.float32 if single else torch.float64
    tx, tg = torch.from_numpy(x).to(dtype), torch.from_numpy(g).to(dtype)
    (value,), (size,) = frobenius_norms([(tx, tg)])
    exact = np.linalg.norm(np.einsum("sni,snj->sij", tx.double().numpy(), tg.double().numpy()), axis=(1, 2))
    tolerance = TOLERANCE["float32" if single else "float64"]
    assert (np.abs(value.numpy() - exact) <= tolerance * size.numpy()).all()
    np.testing.assert_allclose(size, np.linalg.norm(x, axis=(1, 2)) * np.linalg.norm(g, axis=(1, 2)), rtol=1e-5)


def test_some_matrices_may_be_asked_for_alone():
    """Oracle: their rows in the whole table; a config without them gives no rows."""
    complete = ln.gradient_norms(SMALL, seeds=(0, 1))
    some = ln.gradient_norms(SMALL, seeds=(0, 1), parameters=("W_K", "W_2"))
    rows = complete[complete.parameter.isin(["W_K", "W_2"])].reset_index(drop=True)
    assert some.drop(columns="value").equals(rows.drop(columns="value"))
    np.testing.assert_allclose(some.value, rows.value, rtol=1e-5)
    assert len(ln.gradient_norms(SMALL.with_(attention="uniform"), parameters=["W_Q"])) == 0
    with pytest.raises(ValueError, match="got 'W_Q'"):
        ln.last_layer_gradients(SMALL.with_(attention="uniform"), [1], parameter="W_Q")


def test_a_padded_batch_measures_the_words_only():
    """Oracle: the same sentences one by one, weighted by their words; test_tape has their gradients."""
    cfg = SMALL.with_(placement="pre")
    source = np.array([[5, 6, 7, 8], [9, 3, 0, 0]])
    target = np.array([[4, 5, 0], [6, 7, 8]])
    labels = np.array([[5, 9, 0], [7, 8, 9]])
    batch = ln.Batch(source, target, labels, vocab=(12, 11))
    table = ln.signal_norms(cfg, seeds=0, inputs=ln.Inputs(batch), dtype="float64")
    one = ln.Batch(source[:1], target[:1, :2], labels[:1, :2], vocab=(12, 11))
    two = ln.Batch(source[1:, :2], target[1:], labels[1:], vocab=(12, 11))
    parts = [ln.signal_norms(cfg, seeds=0, inputs=ln.Inputs(b), dtype="float64").value for b in (one, two)]
    words = np.where(table.side == "encoder", 4 / 6, 2 / 5)
    np.testing.assert_allclose(table.value, words * parts[0] + (1 - words) * parts[1], rtol=1e-10)
    with pytest.raises(ValueError, match="stack='encoder' needs a batch without target"):
        ln.gradient_norms(cfg.with_(stack="encoder"), inputs=ln.Inputs(batch))


def test_words_are_embedded_scaled_placed_and_read_by_a_tied_head():
    """Oracle: the loss by hand from the same table: √d E[w] + positions, logits x Eᵀ."""
    cfg = ln.ModelConfig("pre", 2, 16, 2, 24, "decoder")
    batch = ln.Batch(np.array([[3, 1, 4]]), labels=np.array([[1, 4, 2]]), vocab=(6, 6))
    fed = feed(cfg, ln.Inputs(batch), (0,), torch.float64)
    embedding = BANK.samples(0, ("embedding", "decoder"), 6, 16).double() / 4  # variance 1/d
    x = 4 * embedding[[3, 1, 4]] + torch.from_numpy(positions(3, 16))
    torch.testing.assert_close(fed.sequences[0].x, x)
    out = Transformer(cfg, matrix_leaves(cfg, 0))(Sequence(x))
    expected = torch.nn.functional.cross_entropy(out @ embedding.T, torch.tensor([1, 4, 2]))
    torch.testing.assert_close(fed.loss(out), expected)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ln.gradient_norms(SMALL, seeds=0),
        lambda: ln.last_layer_gradients(SMALL, [1, 3], seeds=0),
        lambda: ln.signal_norms(SMALL, seeds=0),
        lambda: ln.predict(SMALL, "gradient", seeds=0),
        lambda: ln.predict(SMALL, "last_layer", depths=[1, 3], seeds=0),
    ],
    ids=["gradient", "last layer", "signal", "predict", "predict last layer"],
)
def test_a_call_leaves_nothing_for_the_garbage_collector(call):
    """Oracle: Python's own collector. A cycle would keep tensors alive, and memory would grow as sliders move."""
    call()
    gc.collect()
    gc.disable()
    try:
        call()
        assert gc.collect() == 0
    finally:
        gc.enable()
