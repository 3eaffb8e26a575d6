"""Stored tables: whole, made by the command that they name, and the numbers that it gives."""

import hashlib
import re
from itertools import product

import numpy as np
import pandas as pd
import pytest

from lntutor.experiments import stored
from lntutor.experiments.compare import finals
from lntutor.experiments.stored import EXPERIMENTS, FOLDER, Experiment, stored_table
from lntutor.experiments.stored_spectra import StoredSweep
from lntutor.model.config import ModelConfig, TrainConfig
from lntutor.text.corpus import load_corpus
from lntutor.training.trainer import train

STORED = sorted(FOLDER.glob("*_*.csv"))  # NAME_CORPUS; claims.csv is the ledger, see test_ledger
EXPECTED = {f"{name}_captions" for name in EXPERIMENTS} | {
    f"{name}_multi30k" for name in ("figure2", "figure4", "hessian")
}


def test_every_experiment_has_its_table():
    """Oracle: the list of experiments; on Multi30k the two figures on translation."""
    assert {path.stem for path in STORED} == EXPECTED


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_table_says_what_made_it_and_has_every_case_with_every_seed(path):
    """Oracle: the experiment's own list of cases, and the text that is here."""
    name, corpus = path.stem.rsplit("_", 1)
    table, experiment = stored_table(name, corpus), EXPERIMENTS[name]
    assert table.attrs["made by"] == f"python -m lntutor results {name} --corpus {corpus}"
    if isinstance(experiment, StoredSweep):
        found = table[list(experiment.over)].drop_duplicates()
        assert set(found.itertuples(index=False, name=None)) == set(product(*experiment.over.values()))
    else:
        assert set(table["run"]) == set(experiment.cases())
        assert table.groupby("run")["seed"].nunique().eq(experiment.seeds).all()
    if corpus == "captions":
        assert load_corpus(corpus).checksum in table.attrs["setting"][0]


def test_the_checksums_are_those_of_the_files():
    """Oracle: SHA-256 of every file."""
    listed = dict(reversed(line.split("  ")) for line in (FOLDER / "SHA256SUMS").read_text().splitlines())
    assert listed == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in FOLDER.glob("*.csv")}


@pytest.mark.notebook  # as long as one
def test_a_stored_number_is_what_training_gives_again():
    """Oracle: one run of the heat map, trained anew; at a low rate, where round-off does not grow."""
    name = "Pre-LN, adam 0.0003, warm-up 100"
    cfg, how = EXPERIMENTS["warmup"].cases()[name]
    run = train(cfg, how.with_(seed=1), load_corpus("captions"), pairs=200, progress=False)
    rows = stored_table("warmup").query(f"run == '{name}' and seed == 1")
    np.testing.assert_allclose(run.table["val_loss"].dropna(), rows["val_loss"], rtol=0.02)
    assert run.bleu == pytest.approx(rows["bleu"].iloc[-1], abs=2)


def test_an_experiment_is_trained_written_and_read_again(tmp_path, monkeypatch, own_cache):
    """Oracle: the runs themselves, trained one by one."""
    cfg = ModelConfig("pre", depth=1, width=16, heads=2, ffn=16)
    how = TrainConfig(lr=1e-3, steps=4, batch=8, validate_every=2)
    monkeypatch.setitem(EXPERIMENTS, "tiny", Experiment(lambda: {"a": (cfg, how)}, seeds=2, pairs=3))
    monkeypatch.setattr(stored, "FOLDER", tmp_path)
    stored.make("tiny", jobs=1, folder=tmp_path)
    table, corpus = stored_table("tiny"), load_corpus("captions")
    runs = [train(cfg, how.with_(seed=seed), corpus, pairs=3, progress=False) for seed in (0, 1)]
    wanted = pd.concat([run.table[["step", "val_loss"]].dropna() for run in runs])
    np.testing.assert_allclose(table[["step", "val_loss"]], wanted, rtol=1e-4)
    assert table["bleu"].unique().tolist() == pytest.approx(finals({"a": runs})["bleu"].unique().tolist(), rel=1e-4)
    assert re.fullmatch(r"[0-9a-f]{64}  tiny_captions\.csv\n", (tmp_path / "SHA256SUMS").read_text())
