"""The playground's engine in a real browser, its workers and its WebAssembly: the same numbers as Python's."""

import base64
import json
import os
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

import lntutor as ln
from lntutor.measure.recorder import AGREEMENT
from lntutor.model.placements import ALL_SLOTS, STACKS, in_slots
from lntutor.model.random_streams import SAMPLE, random_stream
from tests.browser.page_engine import MATRIX, SITE, Engine, compared, far, floors_of_seed, job, long_table, theories

STACKS_AND_ATTENTION = tuple(product(STACKS, ("softmax", "uniform")))


def check(engine: Engine, jobs: list, chaotic: float = 0.02) -> None:
    """All jobs agree; float32 may be chaotic in at most this share, where they are compared with float64 instead."""
    verdicts = [compared(*pair) for pair in zip(jobs, engine.run(jobs), strict=True)]
    assert not [f"{v.job} {v.wrong[:3]}" for v in verdicts if v.wrong]
    loose = [v.job for v in verdicts if not v.strict]
    assert len(loose) <= chaotic * len(jobs), loose


# Python's tables -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stack", STACKS)
def test_every_placement_agrees(engine, stack):
    """Oracle: gradient_norms, signal_norms and predict, for both kinds of attention and two seeds."""
    kinds = product(ln.PLACEMENTS, ("softmax", "uniform"))
    check(engine, [job(key, stack=stack, attention=kind, depth=3, width=64, seeds=2) for key, kind in kinds])


@pytest.mark.parametrize("depth", [1, 2, 6, 12, 24])
def test_every_depth_agrees(engine, depth):
    """Oracle: Python's tables. A deep stream without LN saturates the softmax: there float32 itself is chaotic."""
    width = {1: 64, 2: 48, 6: 128, 12: 64, 24: 32}[depth]
    check(engine, [job(key, depth=depth, width=width) for key in ln.PLACEMENTS], chaotic=1 / len(ln.PLACEMENTS))


def test_every_width_and_number_of_heads_agrees(engine):
    """Oracle: Python's tables, for widths that fill a tile of samples in part, whole, and more than one."""
    sizes = ((16, 1), (16, 8), (32, 4), (48, 2), (64, 8), (96, 8), (128, 1), (192, 4), (256, 8))
    kinds = product(("post", "pre", "hybrid", "admin", "dyt"), sizes)
    jobs = [job(key, width=width, heads=heads, depth=2, tokens=8) for key, (width, heads) in kinds]
    check(engine, [one for one in jobs if one.cfg.width > 2 * one.cfg.heads or one.cfg.placement.key != "hybrid"])


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 7, 16, 33, 64])
def test_every_number_of_tokens_agrees(engine, tokens):
    """Oracle: Python's tables; rows of the kernel come by fours."""
    rules = ("post", "peri", "normformer", "hybrid")
    kinds = product(rules, STACKS_AND_ATTENTION)
    check(engine, [job(key, tokens=tokens, stack=s, attention=a, depth=2, width=32) for key, (s, a) in kinds])


@pytest.mark.parametrize("init", ["xavier", "torch", "theory"])
def test_every_init_norm_and_inner_width_agrees(engine, init):
    """Oracle: Python's tables, with and without W_O."""
    rules = ("post", "pre", "deepnorm", "tfixup", "residual")
    kinds = product(rules, (True, False), (("layer", 1), ("rms", 2)), ("softmax", "uniform"))
    jobs = [
        job(key, init=init, output_projection=o, norm=norm, ffn=ffn, attention=a, depth=3, width=48)
        for key, o, (norm, ffn), a in kinds
    ]
    check(engine, jobs)


def test_every_choice_of_slots_agrees(engine):
    """Oracle: Python's tables, for the rule by slots."""
    check(engine, [job(in_slots(slots), depth=3, width=32, stack=stack) for slots in ALL_SLOTS for stack in STACKS])


def test_ten_seeds_agree(engine):
    """Oracle: Python's tables; each seed has a worker of its own."""
    check(engine, [job(key, depth=2, width=32, seeds=10) for key in ("post", "pre", "no_residual")])


@pytest.mark.parametrize(("stack", "attention"), STACKS_AND_ATTENTION)
def test_the_likeness_of_tokens_agrees(engine, stack, attention):
    """Oracle: token_similarity and predict("similarity"), whose cosines may be near 0."""
    jobs = [job(key, stack=stack, attention=attention, width=32, depth=3) for key in ("post", "pre", "none", "dyt")]
    for one, result in zip(jobs, engine.run(jobs), strict=True):
        python = ln.token_similarity(one.cfg, **one.measured).set_index([*SITE, "seed"])["value"]
        theory = ln.predict(one.cfg, "similarity", **one.measured).set_index(SITE)["value"]
        near = {"rel": AGREEMENT, "abs": 1e-5}
        page = long_table(result["cosines"], SITE)["value"]
        assert page.reindex(python.index).tolist() == pytest.approx(python.tolist(), **near), str(one)
        expected = theories(result["cosines"], SITE).reindex(theory.index)
        assert expected.tolist() == pytest.approx(theory.tolist(), **near), str(one)


def test_one_token_has_no_likeness(engine):
    """Oracle: there is no pair."""
    (result,) = engine.run([job("post", depth=1, width=16, heads=1, tokens=1)])
    assert result["cosines"] == []


@pytest.mark.parametrize("attention", ["softmax", "uniform"])
def test_the_last_layer_agrees_at_every_width(engine, attention):
    """Oracle: last_layer_gradients and predict("last_layer") of each width by itself."""
    widths = [16, 64, 128]
    jobs = [job(key, attention=attention, depth=2, along={"key": "width", "values": widths}) for key in ("post", "b2t")]
    for one, result in zip(jobs, engine.run(jobs), strict=True):
        found = [row for row in result["lastLayer"] if row["parameter"] == "W_1"]
        page, theory = long_table(found, ["at", "block"])["value"], theories(found, ["at", "block"])
        for width in widths:
            cfg = job(one.placement, **one.changes | {"width": width}).cfg
            asked = {"depths": [2], "parameter": "W_1", **one.measured}
            (python,) = ln.last_layer_gradients(cfg, **asked)["value"]
            (predicted,) = ln.predict(cfg, "last_layer", **asked)["value"]
            assert page[width].item() == pytest.approx(python, rel=AGREEMENT)
            assert theory[width].item() == pytest.approx(predicted, rel=AGREEMENT)
        assert sorted(page.index.unique("at")) == widths


@pytest.mark.parametrize(("stack", "attention"), STACKS_AND_ATTENTION)
def test_the_last_layer_agrees_at_every_depth(engine, stack, attention):
    """Oracle: last_layer_gradients and predict("last_layer")."""
    depths = [1, 2, 4, 8]
    jobs = [
        job(key, stack=stack, attention=attention, width=32, depth=2, along={"key": "depth", "values": depths})
        for key in ("post", "pre", "mix", "admin", "residual")
    ]
    for one, result in zip(jobs, engine.run(jobs), strict=True):
        keys = ["depth", *MATRIX[2:]]
        for row in result["lastLayer"]:
            row["depth"] = row["at"]
        page, theory = long_table(result["lastLayer"], keys), theories(result["lastLayer"], keys)
        for parameter in sorted({row["parameter"] for row in result["lastLayer"]}):
            asked = {"depths": depths, "parameter": parameter, **one.measured}
            python = ln.last_layer_gradients(one.cfg, **asked).set_index([*keys, "seed"])
            predicted = ln.predict(one.cfg, "last_layer", **asked).set_index(keys)["value"]
            shown = ~python["below_floor"]
            assert not far(page["value"], python["value"][shown]), str(one)
            assert not far(theory, predicted[shown.droplevel("seed")]), str(one)
            assert (page["below_floor"].reindex(python.index) == python["below_floor"]).all()
        assert sorted(page.index.unique("depth")) == depths


def test_another_sample_is_another_sample_alike(engine):
    """Oracle: Python in a process of its own with LNTUTOR_SAMPLE set."""
    code = """
        import json, lntutor as ln
        from lntutor.page.playground.page import data
        norms = ln.gradient_norms(ln.ModelConfig(depth=2, width=32, ffn=128), seeds=1, inputs=ln.Inputs(tokens=16))
        print(json.dumps([data()["sample"], norms["value"].tolist()]))
    """
    program = "\n".join(line.strip() for line in code.splitlines())
    environment = os.environ | {SAMPLE: "it's another"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    sample, python = json.loads(done.stdout)
    asked = [job("post", depth=2, width=32, seeds=2, theory=False)]
    [ours], [usual] = engine.run(asked, sample), engine.run(asked)
    values = [row["values"][1] for row in ours["gradients"]]
    assert values == pytest.approx(python, rel=1e-3)
    assert values != pytest.approx([row["values"][1] for row in usual["gradients"]], rel=1e-2)


def test_only_seeds_that_were_asked_for_are_in_the_result(engine):
    """Oracle: the numbers asked for, after a request for more."""
    for seeds in (3, 1, 2):
        [result] = engine.run([job("post", depth=1, width=16, seeds=seeds)])
        assert result["seeds"] == seeds
        assert {len(row["values"]) for row in result["gradients"]} == {seeds}
        assert result["done"]


def test_a_floor_is_found_where_attention_cancels(engine):
    """Oracle: Python's flags, in a job where some are set; so the comparisons above compared flags, too."""
    one = job("no_residual", depth=6, width=128)
    [result] = engine.run([one])
    flags = long_table(result["gradients"], MATRIX)["below_floor"]
    assert 0 < flags.sum() < len(flags)
    assert not compared(one, result).wrong
    assert floors_of_seed(one, 0).gt(0).all()


# Random numbers ------------------------------------------------------------------------------------------------

DRAW = """async ([name, kind, count]) => {
    const { Memory, Bank } = (0, Function)(`${WORKER}; return { Memory, Bank }`)()
    const bytes = Uint8Array.from(atob(KERNEL), (letter) => letter.charCodeAt(0))
    const kernel = (await WebAssembly.instantiate(bytes, { math: Math })).instance.exports
    kernel.init()
    const memory = new Memory(kernel)
    const bank = new Bank(kernel, memory, "")
    const place = memory.keep(8 * count)
    kernel[kind](...bank.named(...name), place, count)
    const out = new Uint8Array(memory.memory.buffer, place, (kind === "normal_doubles" ? 8 : 4) * count)
    return await new Promise((resolve) => {
        const reader = new FileReader()
        reader.onload = () => resolve(reader.result.split(",")[1])
        reader.readAsDataURL(new Blob([out]))
    })
}"""
STREAMS = (("input", "encoder"), (0, "encoder", 1, "self", "W_Q", "3, 2"), (9, "labels"), ("overlap",), ("é" * 200,))


def drawn(engine: Engine, name: tuple, kind: str, count: int, dtype: type) -> np.ndarray:
    """Numbers that the kernel draws from the stream of this name."""
    text = engine.page.evaluate(DRAW, [[repr(part) for part in name], kind, count])
    return np.frombuffer(base64.b64decode(text), dtype)


@pytest.mark.parametrize("name", STREAMS, ids=lambda name: str(name)[:30])
def test_random_numbers_are_those_of_numpy(engine, name):
    """Oracle: numpy, to the bit; log1p of the browser rounds otherwise in the tail, 1 sample in 4,000."""
    count = 2**19
    floats = random_stream(*name).standard_normal(count, dtype=np.float32)
    doubles = random_stream(*name).standard_normal(count)
    ours = drawn(engine, name, "normals", count, np.float32)
    assert (ours != floats).sum() <= 10  # 0 to 3
    assert np.abs(ours - floats).max() < 3e-7  # the last bit
    ours = drawn(engine, name, "normal_doubles", count, np.float64)
    assert np.abs(ours / doubles - 1).max() < 5e-14  # the table is computed here; only theory's rare samples use it
    for size in (1, 2, 3, 1000, 1024):
        ours = drawn(engine, name, "permutation", size, np.uint32)
        assert ours.tolist() == random_stream(*name).permutation(size).tolist()
