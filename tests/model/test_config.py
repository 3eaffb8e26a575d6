"""Settings: defaults as documented, and every wrong value answered with its name, itself and what is allowed."""

import dataclasses

import numpy as np
import pytest

import lntutor as ln
from lntutor.model.checks import seed_list

WRONG = [
    (ln.ModelConfig, {"depth": 0}, r"depth .* 1\.\.64, got 0"),
    (ln.ModelConfig, {"depth": 65}, r"depth .* 1\.\.64, got 65"),
    (ln.ModelConfig, {"width": 1}, r"width .* 2\.\.4096, got 1"),
    (ln.ModelConfig, {"width": 100, "heads": 3}, r"heads must divide width.*allowed: 1, 2, 4, 5, 10"),
    (ln.ModelConfig, {"heads": 0}, r"heads .* got 0"),
    (ln.ModelConfig, {"ffn": 0}, r"ffn .* got 0"),
    (ln.ModelConfig, {"stack": "encoders"}, r"stack .* encoder-decoder, got 'encoders'"),
    (ln.ModelConfig, {"attention": 1}, r"attention .* softmax, uniform, got 1"),
    (ln.ModelConfig, {"init": "kaiming"}, r"init .* theory, got 'kaiming'"),
    (ln.ModelConfig, {"output_projection": 1}, r"output_projection .* True or False, got 1"),
    (ln.ModelConfig, {"norm": "batch"}, r"norm .* layer, rms, got 'batch'"),
    (ln.ModelConfig, {"placement": "prr"}, r"placement must be one of post, pre.*got 'prr'; did you mean 'pre'"),
    (ln.Inputs, {"kind": "uniform"}, r"kind .* gaussian, tokens, got 'uniform'"),
    (ln.Inputs, {"tokens": 0}, r"tokens .* got 0"),
    (ln.Inputs, {"batch": -1}, r"batch .* got -1"),
    (ln.Inputs, {"loss": "mse"}, r"loss .* cross_entropy, probe, got 'mse'"),
    (ln.Inputs, {"vocab": 1}, r"vocab .* 2\.\.65536, got 1"),
    (ln.Inputs, {"head": 0}, r"head .* above 0 .* got 0"),
    (ln.Inputs, {"tokens": 64, "batch": 32}, r"vocab must be at least batch × tokens = 2048.*got vocab=1024"),
    (ln.TrainConfig, {"optimizer": "adamw"}, r"optimizer .* gi_adam, got 'adamw'"),
    (ln.TrainConfig, {"lr": 0}, r"lr .* above 0 .* got 0"),
    (ln.TrainConfig, {"warmup": -1}, r"warmup .* got -1"),
    (ln.TrainConfig, {"schedule": "cosine"}, r"schedule .* linear, got 'cosine'"),
    (ln.TrainConfig, {"steps": 0}, r"steps .* got 0"),
    (ln.TrainConfig, {"batch": 0}, r"batch .* got 0"),
    (ln.TrainConfig, {"seed": -1}, r"seed .* got -1"),
    (ln.TrainConfig, {"task": "chess"}, r"task .* masked_words, got 'chess'"),
    (ln.TrainConfig, {"momentum": 1}, r"momentum .* got 1"),
    (ln.TrainConfig, {"dropout": 1.0}, r"dropout .* got 1.0"),
    (ln.TrainConfig, {"label_smoothing": -0.1}, r"label_smoothing .* got -0.1"),
    (ln.TrainConfig, {"clip": -1}, r"clip .* got -1"),
    (ln.TrainConfig, {"validate_every": 0}, r"validate_every .* got 0"),
    (ln.TrainConfig, {"warmup_only": ("middle",)}, r"warmup_only .* 'decoder.6', got 'middle'"),
    (ln.TrainConfig, {"warmup_except": ("decoder.x",)}, r"warmup_except .* got 'decoder.x'"),
    (ln.TrainConfig, {"warmup_only": "encoder", "warmup_except": "decoder"}, r"not both"),
]


@pytest.mark.parametrize(("settings", "fields", "message"), WRONG, ids=lambda v: str(v)[:40])
def test_a_wrong_value_is_answered_with_field_value_and_range(settings, fields, message):
    """Oracle: the message written down here."""
    with pytest.raises(ValueError, match=message):
        settings(**fields)


def test_every_field_has_a_wrong_value_above():
    """No field is accepted unseen."""
    for settings in (ln.ModelConfig, ln.Inputs, ln.TrainConfig):
        tried = {name for cls, fields, _ in WRONG if cls is settings for name in fields}
        assert tried >= {f.name for f in dataclasses.fields(settings)}, settings


def test_the_defaults_are_those_of_the_design():
    """Oracle: the values that README and notebooks rely on."""
    model = ("post", 6, 128, 4, 512, "encoder-decoder", "softmax", "xavier", True, "layer")
    assert ln.ModelConfig() == ln.ModelConfig(*model)
    assert ln.Inputs() == ln.Inputs("gaussian", 16, 1, "cross_entropy", 1024, 1.0)


def test_presets_are_the_settings_of_their_source():
    """Oracle: section 3.3 and the experiments of Xiong et al. 2020."""
    theorem = ln.ModelConfig("pre", 6, 256, 1, 256, "encoder", "uniform", "theory", output_projection=False)
    assert ln.ModelConfig.theorem(placement="pre", depth=6, width=256) == theorem
    assert ln.ModelConfig.figure3() == ln.ModelConfig(depth=6, width=512, heads=4, ffn=1024, init="torch")


def test_settings_are_frozen_hashable_and_rebuilt_from_their_text():
    """Oracle: Python's own eval of the printed text."""
    cfg = ln.ModelConfig(placement="peri", depth=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        cfg.depth = 4
    assert eval(repr(cfg), {"ModelConfig": ln.ModelConfig}) == cfg
    assert hash(cfg) == hash(ln.ModelConfig(placement="peri", depth=3))
    assert cfg.with_(depth=5).depth == 5
    with pytest.raises(ValueError, match="depth"):
        cfg.with_(depth=0)


def test_redefining_a_placement_changes_the_config_that_names_it(monkeypatch):
    """A config carries the rule itself, so no cache can meet a stale name."""
    monkeypatch.setitem(ln.PLACEMENTS, "mine", ln.Placement("Mine", "x ← x", lambda x, subs, N, at: x))
    old = ln.ModelConfig("mine")
    monkeypatch.setitem(ln.PLACEMENTS, "mine", ln.Placement("Mine", "x ← 2x", lambda x, subs, N, at: 2 * x))
    assert ln.ModelConfig("mine") != old
    assert ln.ModelConfig("mine").placement.key == "mine"


def test_seeds_may_be_a_number_a_range_or_a_list():
    """Oracle: the tuple written here."""
    assert seed_list(3) == (3,)
    assert seed_list(range(3)) == (0, 1, 2)
    assert seed_list([np.int64(7), 5]) == (7, 5)


def test_a_batch_of_words_is_checked_field_by_field():
    """Oracle: the messages written here."""
    ids = np.array([[3, 4, 0]])
    good = ln.Batch(ids, ids, ids, vocab=(5, 5))
    assert good.source.shape == (1, 3)
    for fields, message in [
        ({"source": ids.astype(float)}, "source must be whole numbers"),
        ({"source": ids[0]}, "source must be whole numbers"),
        ({"target": ids + 3}, r"target must hold word numbers in 0\.\.4, got 3\.\.7"),
        ({"labels": None}, "labels must be given"),
        ({"labels": ids[:, :2]}, "labels must be given"),
        ({"labels": ids * 0}, "at least one word"),
        ({"target": np.repeat(ids, 2, 0), "labels": np.repeat(ids, 2, 0)}, "must pair up, got 1 and 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(good, **fields)


def test_names_are_listed():
    """An unknown name is an AttributeError."""
    assert "gradient_norms" in dir(ln)
    with pytest.raises(AttributeError, match="no_such_name"):
        ln.no_such_name  # noqa: B018
