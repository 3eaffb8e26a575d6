"""A grid of settings → one table: the same from one process, many, or a cluster that loses a worker."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import product
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest

import lntutor as ln
from lntutor.__main__ import main
from lntutor.experiments import cache, cells, fingerprint
from lntutor.experiments.cells import CellError
from lntutor.experiments.compare import finals
from lntutor.experiments.stored_spectra import StoredSweep
from lntutor.model.placements import each
from tests.processes import run_python

CFG = ln.ModelConfig("post", depth=2, width=16, heads=2, ffn=16)
GRID = {"placement": ["post", "pre"], "depth": [2, 1], "seed": [0, 3]}
SAME = pd.testing.assert_frame_equal
pytestmark = pytest.mark.usefixtures("own_cache")


def sweep(*args, progress=False, **options):
    return ln.sweep(*args, progress=progress, **options)


def entries():
    return sorted(cache.folder().glob("*.json"))


def counted(folder: Path, cfg: ln.ModelConfig, seed: int) -> dict:
    """A function of a reader's own that leaves a trace of every call."""
    (folder / f"{cfg.placement.key} {cfg.depth} {seed} {time.time_ns()}").touch()
    return {"size": cfg.depth * cfg.width + seed / 3}


def calls(folder: Path) -> int:
    return len(list(folder.glob("* *")))


# From a grid to a table ----------------------------------------------------------------------------------------


def test_a_sweep_is_the_function_called_for_every_cell_in_the_grids_order():
    """Oracle: the calls, written out."""
    cells = product(("post", "pre"), (2, 1), (0, 3))
    direct = [ln.gradient_norms(CFG.with_(placement=key, depth=depth), seeds=[seed]) for key, depth, seed in cells]
    SAME(sweep(ln.gradient_norms, GRID, base=CFG), pd.concat(direct, ignore_index=True))


def test_a_key_sets_a_field_of_any_settings_or_a_keyword_and_is_told_in_front():
    """Oracle: one call for each cell, with its settings written out."""
    table = sweep(ln.signal_norms, {"tokens": [4, 8], "dtype": ["float64"]}, CFG, seeds=[1])
    fixed = {"seeds": [1], "dtype": "float64"}
    direct = [ln.signal_norms(CFG, inputs=ln.Inputs(tokens=n), **fixed).assign(tokens=n) for n in (4, 8)]
    SAME(table.drop(columns="dtype"), pd.concat(direct, ignore_index=True)[table.columns.drop("dtype")])
    assert list(table.columns[:2]) == ["tokens", "dtype"]


def test_a_sweep_of_trainings_has_the_rows_of_finals(corpus):
    """Oracle: `train` and `finals`, one run at a time."""
    how = ln.TrainConfig(steps=3, batch=4)
    grid = {"lr": [1e-3, 1e-2], "warmup": [2], "placement": ["pre"], "seed": [0, 1]}
    table = sweep(ln.train, grid, base=(CFG, how), corpus=corpus, pairs=2, jobs=1)
    hows = [how.with_(lr=lr, warmup=2, seed=seed) for lr, seed in product((1e-3, 1e-2), (0, 1))]
    runs = [ln.train(CFG.with_(placement="pre"), one, corpus, pairs=2, progress=False) for one in hows]
    SAME(table, finals({"": runs}).drop(columns="run"))


def test_a_column_of_another_meaning_keeps_its_numbers_under_the_functions_name():
    """Oracle: attention heads are counted from 1; the head's size is the grid's."""
    table = sweep(ln.attention_entropy, {"head": [0.5, 2.0]}, CFG, seeds=[0])
    assert sorted(table["head"].unique()) == [0.5, 2.0]
    assert sorted(table["attention_entropy_head"].unique()) == [1, 2]


@pytest.mark.parametrize(
    ("result", "rows"),
    [
        (3, [{"value": 3}]),
        (np.float32(0.5), [{"value": 0.5}]),
        ({"a": 1, "b": "x"}, [{"a": 1, "b": "x"}]),
        ({"a": [1, 2]}, [{"a": 1}, {"a": 2}]),
        (pd.Series([1.5], pd.Index([2], name="layer")), [{"layer": 2, "value": 1.5}]),
        (pd.DataFrame({"a": []}), []),
    ],
)  # fmt: skip
def test_a_function_may_give_a_number_a_dict_or_a_table(result, rows):
    """Oracle: the rows, written out; read from the store the second time."""
    for _ in range(2):
        assert sweep(lambda x: result, {"x": [1]}).to_dict("records") == [{"x": 1} | row for row in rows]


def test_values_that_are_not_finite_are_remembered():
    """Oracle: the floating-point numbers that a loss may be."""
    wanted = [float("inf"), float("nan"), 0.1 + 0.2]
    for _ in range(2):
        np.testing.assert_array_equal(sweep(lambda i: wanted[i], {"i": range(3)})["value"], wanted)


def test_a_key_that_two_settings_have_is_asked_about():
    """Oracle: the sentence; an argument of that name would take it."""
    base = (ln.Inputs(), ln.TrainConfig())
    with pytest.raises(ValueError, match=r"'batch', which could set inputs\.batch and how\.batch; write a function"):
        sweep(lambda inputs, how: 0, {"batch": [1, 2]}, base)
    assert sweep(lambda inputs, how, batch: batch, {"batch": [1, 2]}, base, jobs=1)["value"].tolist() == [1, 2]


def test_a_stored_measurement_is_a_sweep_over_its_cells():
    """Oracle: its cells, measured one by one."""

    def cell(text, placement, seed):
        """Sizes of signals."""
        return ln.signal_norms(CFG.with_(placement=placement), seeds=[seed]).assign(text=text.name)

    text, over = ln.load_corpus("captions"), {"placement": ("post", "pre"), "seed": range(2)}
    table, setting = StoredSweep(cell, over, "small").make(text, 1)
    wanted = [cell(text, placement, seed) for placement in ("post", "pre") for seed in range(2)]
    SAME(table, pd.concat(wanted, ignore_index=True))
    assert setting == "small"


# Remembered ----------------------------------------------------------------------------------------------------


def test_an_interrupt_is_not_lost_in_work_that_answers_it_with_what_it_has(tmp_path):
    """Oracle: a real SIGINT; a cell that was cut short is not remembered."""

    def patient(x):
        try:
            signal.raise_signal(signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt:
            return -x

    with pytest.raises(KeyboardInterrupt):
        sweep(patient, {"x": [1, 2]})
    assert not entries()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_larger_grid_measures_only_what_is_new(tmp_path):
    """Oracle: the calls counted; a field that is set in base or by the grid is the same cell."""
    sweep(counted, {"depth": [1, 2], "seed": [0]}, base=(tmp_path, CFG))
    sweep(counted, {"seed": [0, 1], "placement": ["post", "pre"], "depth": [2, 1]}, base=(tmp_path, CFG))
    assert calls(tmp_path) == 8


@pytest.mark.parametrize("damage", ["", "{", "[]", "3", '{"size": 3}', '{"size": [1, 2], "b": [1]}', "\x00"])
def test_an_entry_that_cannot_be_read_is_computed_again(tmp_path, damage):
    """Oracle: the calls counted, and the table before the damage."""
    table = sweep(counted, GRID, base=(tmp_path, CFG))
    for entry in entries()[:2]:
        entry.write_text(damage)
    SAME(sweep(counted, GRID, base=(tmp_path, CFG)), table)
    sweep(counted, GRID, base=(tmp_path, CFG))
    assert calls(tmp_path) == 10  # two anew, and remembered


def test_what_is_defined_anew_is_measured_anew(monkeypatch):
    """Oracle: each definition gives another number, in a namespace like that of a notebook."""
    notebook = {"ln": ln, "__name__": "__main__"}

    def value(cell, grid, base=()):
        exec(cell, notebook)
        return sweep(notebook["f"], grid, base)["value"].tolist()

    assert value("def f(x): return x", {"x": [2]}) == [2]
    assert value("def f(x): return 3 * x", {"x": [2]}) == [6]
    assert value("scale = 5\ndef helper(x): return scale * x\ndef f(x): return helper(x)", {"x": [2]}) == [10]
    assert value("scale = 7", {"x": [2]}) == [14]
    assert value("def helper(x): return -x", {"x": [2]}) == [-2]
    assert value("class A:\n  def m(self): return 1\ndef f(x): return A().m()", {"x": [2]}) == [1]
    assert value("class A:\n  def m(self): return 2", {"x": [2]}) == [2]
    monkeypatch.setitem(ln.PLACEMENTS, "mine", ln.Placement("mine", "a", each(lambda x, f, N, at: x + f(x))))
    by_name = "def f(placement, cfg=ln.ModelConfig(depth=1, width=16, heads=2, ffn=16)):\n"
    by_name += "  return ln.signal_norms(cfg.with_(placement=placement), seeds=[0])['value'].iloc[-1]"
    numbers = [value(by_name, {"placement": ["mine"]}), value("f = lambda cfg: 1.0", {"depth": [1]}, CFG)]
    table = sweep(ln.signal_norms, {"placement": ["mine"]}, CFG)
    monkeypatch.setitem(ln.PLACEMENTS, "mine", ln.Placement("mine", "b", each(lambda x, f, N, at: x + 2.0 * f(x))))
    assert value(by_name, {"placement": ["mine"]}) != numbers[0]
    assert (sweep(ln.signal_norms, {"placement": ["mine"]}, CFG)["value"] != table["value"]).any()


def test_a_module_of_the_readers_own_is_known_by_its_text(tmp_path, monkeypatch):
    """Oracle: the number that the module gives after it was changed and loaded again."""
    from importlib import import_module, invalidate_caches, reload

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "readers_own.py").write_text("def g(x): return x")
    module = import_module("readers_own")

    def f(x):
        return module.g(x)

    assert sweep(f, {"x": [2]})["value"].tolist() == [2]
    (tmp_path / "readers_own.py").write_text("def g(x): return  10 * x")
    invalidate_caches()
    reload(module)
    assert sweep(f, {"x": [2]})["value"].tolist() == [20]


def test_a_name_is_the_same_in_another_process():
    """Oracle: another process, whose strings hash otherwise, finds the cell and does not call the function."""
    code = "import sys, lntutor as ln\ndef f(x):\n  print('called')\n  return x in {'a', 'b', 'c'}\n"
    code += "table = ln.sweep(f, {'x': ['a', 'd']}, progress=False)"
    exec(code, {"__name__": "__main__"})
    assert run_python(f"{code}; print(table['value'].tolist())", PYTHONHASHSEED="1") == "[True, False]\n"


def test_a_folder_that_cannot_be_written_costs_only_the_memory(tmp_path, monkeypatch, capsys):
    """Oracle: the table, the words beside the bar, and a warning."""
    table = sweep(counted, GRID, base=(tmp_path, CFG))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LNTUTOR_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match=r"not remembered.*set LNTUTOR_CACHE to a folder of yours"):
        SAME(sweep(counted, GRID, base=(tmp_path, CFG), progress=True), table)
    assert "not remembered" in capsys.readouterr().err


def test_a_cell_that_fails_is_named_and_the_others_are_kept(tmp_path):
    """Oracle: the sentence, the error under it, and the calls counted."""

    def fails(folder, cfg, seed):
        if cfg.depth == 1:
            raise ArithmeticError("no depth of 1")
        return counted(folder, cfg, seed)

    message = r"The cell placement=post, depth=1, seed=0 failed with ArithmeticError: no depth of 1\. 2 of 8 cells"
    with pytest.raises(CellError, match=rf"{message} have ended and are remembered: leave it out") as caught:
        sweep(fails, GRID, base=(tmp_path, CFG))
    assert isinstance(caught.value.__cause__, ArithmeticError)
    sweep(fails, GRID | {"depth": [2]}, base=(tmp_path, CFG))
    assert calls(tmp_path) == 4
    with pytest.raises(CellError, match=r"must return a table, a dict or a number.* got a object"):
        sweep(lambda x: object(), {"x": [1]})


# Many processes ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "nice"), reason="Windows has no niceness")
def test_workers_give_way_to_the_page_and_this_process_does_not():
    """Oracle: the niceness that the system says, in the workers and here."""
    before = os.nice(0)
    table = ln.sweep(lambda seed: os.nice(0), {"seed": [1, 2, 3]}, jobs=2, keep=False)
    assert set(table["value"]) == {max(10, before)}
    assert os.nice(0) == before


def test_processes_give_what_one_process_gives():
    """Oracle: the same sweep in this process, exactly; a function from a notebook has no module to be found in."""
    notebook = {"ln": ln, "__name__": "__main__"}
    exec("def f(cfg, seed):\n  return ln.gradient_norms(cfg, seeds=[seed]).query('layer == 1')", notebook)
    alone = sweep(notebook["f"], GRID, CFG, keep=False, jobs=1)
    SAME(sweep(notebook["f"], GRID, CFG, jobs=2), alone)
    SAME(sweep(notebook["f"], GRID, CFG, jobs=1), alone)  # as remembered
    assert len(entries()) == 8

    def fails(x):
        raise ArithmeticError(f"not {x}")

    with pytest.raises(CellError, match=r"The cell x=\d failed with ArithmeticError: not \d") as caught:
        sweep(fails, {"x": range(4)}, jobs=2)
    assert "in fails" in caught.value.__notes__[0]


def test_few_short_cells_stay_in_this_process_and_long_ones_do_not(monkeypatch):
    """Oracle: the processes that the cells ran in; the limits are set so that time decides nothing."""

    def process(x):
        time.sleep(0.01)
        return os.getpid()

    monkeypatch.setattr(cells, "SMALL", 1e9)
    assert set(sweep(process, {"x": range(4)}, keep=False)["value"]) == {os.getpid()}
    monkeypatch.setattr(cells, "SMALL", 0.0)
    monkeypatch.setattr(cells, "ENOUGH", 0.0)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)
    first, *others = sweep(process, {"x": range(4)}, keep=False)["value"]
    assert first == os.getpid()
    assert os.getpid() not in others


def test_every_worker_has_one_thread_and_the_callers_stay_as_they_were():
    """Oracle: torch's own count."""
    import torch

    torch.set_num_threads(2)
    try:
        for jobs in (1, 2):
            threads = sweep(lambda x: torch.get_num_threads(), {"x": range(3)}, keep=False, jobs=jobs)["value"]
            assert (set(threads), torch.get_num_threads()) == ({1}, 2)
    finally:
        torch.set_num_threads(1)


def test_a_worker_with_other_code_is_refused(monkeypatch):
    """Oracle: the sentence; nothing of it is remembered."""
    monkeypatch.setattr(fingerprint, "package_code", lambda: "another")
    with pytest.raises(CellError, match="a worker that has another lntutor, torch or numpy"):
        sweep(lambda x: x, {"x": range(2)}, jobs=2)
    assert not entries()


# A cluster -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes and their scheduler on this machine."""
    from dask.distributed import Client, LocalCluster

    where = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(**where) as local, Client(local) as client:
        yield client


def test_a_cluster_that_loses_a_worker_gives_what_one_process_gives(cluster, tmp_path):
    """Oracle: the serial table, exactly. A worker is killed by its pid in the middle of a cell, which starts again."""
    alone = sweep(ln.gradient_norms, GRID, CFG, keep=False, jobs=1)
    killed = tmp_path / "killed"

    def awaited(cfg, seed):
        (tmp_path / f"{cfg.placement.key} {cfg.depth} {seed} {os.getpid()}").touch()
        while (cfg.depth, seed) == (1, 3) and not killed.exists():  # until this worker is no more
            time.sleep(0.02)
        return ln.gradient_norms(cfg, seeds=[seed])

    def kill():
        while len(started := list(tmp_path.glob("* 1 3 *"))) < 2 and (not started or calls(tmp_path) < 3):
            time.sleep(0.02)  # two: both workers wait, and no third cell will begin
        os.kill(int(started[0].name.split()[-1]), signal.SIGKILL)
        killed.touch()

    workers = cluster.run(os.getpid)
    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    table = sweep(awaited, GRID, CFG, client=cluster)
    killer.join()
    SAME(table, alone)
    assert len(entries()) == 8  # written by this process, not by the workers
    cut = {path.name.rpartition(" ")[0] for path in tmp_path.glob("* 1 3 *")}
    pids = [path.name.split()[-1] for path in tmp_path.glob("* * * *")]
    assert calls(tmp_path) > 8, f"no cell started again: {cut}"
    assert set(map(int, pids)) & set(workers.values())
    assert os.getpid() not in map(int, pids)


def test_a_cell_that_kills_every_worker_ends_the_sweep_with_a_sentence(cluster, tmp_path, monkeypatch):
    """Oracle: joblib alone waits for such a cell for ever; the others are kept. One death is enough here."""
    monkeypatch.setattr(cluster.cluster.scheduler, "allowed_failures", 0)

    def deadly(x):
        while x == 2 and len(list((tmp_path / "cache" / "runs").glob("*.json"))) < 2:
            time.sleep(0.02)
        return os.kill(os.getpid(), signal.SIGKILL) if x == 2 and os.getpid() != here else x

    here = os.getpid()
    with (
        joblib.parallel_config(backend="dask"),
        pytest.raises(CellError, match=r"ended on its own.*KilledWorker.* cells have ended and are remembered"),
    ):
        sweep(deadly, {"x": range(4)})
    assert entries()


def test_the_command_line_computes_on_the_cluster_that_it_names(cluster, capsys):
    """Oracle: the table of one process; a text that all cells share arrives whole."""
    arguments = "sweep train --depth 1 --width 16 --heads 2 --ffn 16 --steps 2 --batch 4 --pairs 2 --seed 0 1"
    assert main([*arguments.split(), "--dask", cluster.scheduler.address]) == 0
    on_cluster, kept = capsys.readouterr().out, entries()
    for entry in kept:
        entry.unlink()
    assert main([*arguments.split(), "--jobs", "1"]) == 0
    assert (capsys.readouterr().out, entries()) == (on_cluster, kept)


# The command line ----------------------------------------------------------------------------------------------


def test_the_command_line_writes_the_table_of_a_sweep(tmp_path, capsys):
    """Oracle: `ln.sweep` on the same grid, and nothing else in the folder; without a file, the same is printed."""
    out = tmp_path / "table.csv"
    small = "--width 16 --heads 2 --ffn 16 --seed 0 1 --placement post pre --depth 1 2"
    arguments = ["sweep", "gradient_norms", *small.split()]
    assert main([*arguments, "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"written: {out}, 192 rows\n"
    grid = {"placement": ["post", "pre"], "depth": [1, 2], "width": 16, "heads": 2, "ffn": 16, "seed": [0, 1]}
    SAME(pd.read_csv(out), sweep(ln.gradient_norms, grid, ln.ModelConfig(), keep=False), rtol=1e-12)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "table.csv"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == out.read_text()


@pytest.mark.notebook  # as long as one
def test_an_interrupted_command_goes_on_where_it_was(tmp_path):
    """Oracle: SIGINT as the keyboard sends it, to all processes; exit code 130, whole entries, then the whole table."""
    small = {"depth": 1, "width": 16, "heads": 2, "ffn": 16}
    arguments = ["gradient_norms", "--jobs", 2, *(word for name in small for word in (f"--{name}", small[name]))]
    script = [sys.executable, "-m", "lntutor", "sweep", *map(str, arguments), "--seed", *map(str, range(3000))]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(script, start_new_session=True, **pipes)
    while len(entries()) < 5 and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "goes on from there" in errors
    kept = entries()
    assert 5 <= len(kept) < 3000
    assert all(isinstance(json.loads(entry.read_text()), dict) for entry in kept)
    before = {entry: entry.stat().st_mtime_ns for entry in kept}
    table = sweep(ln.gradient_norms, {"seed": range(20)}, ln.ModelConfig(**small))
    assert table["seed"].nunique() == 20
    assert before == {entry: entry.stat().st_mtime_ns for entry in kept}
