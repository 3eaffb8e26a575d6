"""Do the numbers travel? Run the lessons unchanged on other random numbers, on two threads and in float64.

    python tools/travel.py [NN …] [--ways …]
    python tools/travel.py --training

Each lesson runs as it is first, then with every random stream drawn anew. The report, benchmarks/travel.csv, has a row
for each run: how many cells check something, which of them failed, and which verdicts of the ledger and which measured
answers to a prediction came out otherwise. Tables in data/results are read, not made again.

With --training the README's training example runs on equal samples, on one thread and two, in float32 and float64:
benchmarks/travel_training.csv.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "benchmarks" / "travel.csv"
TRAINED = ROOT / "benchmarks" / "travel_training.csv"
SHIFT = 1000  # added to the seeds of numpy's and torch's own generators, where a cell makes one itself
COLUMNS = [
    "lesson",
    "samples",
    "threads",
    "dtype",
    "checks",
    "failed",
    "verdicts",
    "changed",
    "answers",
    "other answers",
]
NONE, HOME = "none", "as written"


@dataclass(frozen=True)
class Way:
    """How a lesson is run: the word that draws all samples anew (none: as written), threads, precision."""

    sample: str
    threads: int
    dtype: str


WAYS = {
    "home": Way("", 1, "float32"),
    "other": Way("b", 1, "float32"),
    "threads": Way("b", 2, "float32"),
    "double": Way("c", 1, "float64"),
}


# In the kernel -------------------------------------------------------------------------------------------------


def depart(sample: str, threads: int, dtype: str) -> None:
    """Before the first cell: set the number of threads and the precision, and draw what lntutor does not."""
    import numpy as np
    import torch

    torch.set_num_threads(threads)
    torch.set_num_threads = lambda wanted: None  # a lesson asks for one
    if dtype == "float64":
        _doubled()
    if sample:
        shift, fresh = SHIFT * ord(sample), np.random.default_rng

        class Generator(torch.Generator):
            def manual_seed(self, seed):
                return super().manual_seed(seed + shift)

        torch.Generator = Generator
        np.random.default_rng = lambda seed: fresh(seed + shift)


def _doubled() -> None:
    """The default float32 of measurements, of what learns and of the Hessian becomes float64, in this process."""
    import torch

    from lntutor.curvature import hessian, lanczos
    from lntutor.curvature import spectrum as curvature
    from lntutor.measure import gradients, signals
    from lntutor.training import network as learner

    twice = {"float32": "float64", torch.float32: torch.float64}
    for module in (curvature, gradients, hessian, lanczos, learner, signals):
        for thing in (thing for thing in vars(module).values() if getattr(thing, "__module__", "") == module.__name__):
            for function in (thing, getattr(thing, "__init__", None)):
                known = getattr(function, "__kwdefaults__", None) or {}
                known.update({name: twice[known[name]] for name in ("dtype",) if known.get(name) in twice})
                if "dtype" in getattr(getattr(function, "__code__", None), "co_varnames", ()):
                    function.__defaults__ = tuple(twice.get(value, value) for value in function.__defaults__ or ())


def arrive() -> str:
    """After the last cell: what was measured for each prediction, and what was recorded of each claim, as JSON."""
    from lntutor.lesson import question as page
    from lntutor.lesson.claims import CLAIMS
    from lntutor.lesson.notes import NOTES

    pages = {name: reference() for name, reference in page._ON_PAGE.items()}
    answers = {name: p._result[1] for name, p in pages.items() if getattr(p, "_result", None)}
    verdicts = {key: NOTES.get("records", key)["verdict"] for key in CLAIMS if NOTES.get("records", key)}
    chosen = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
    return json.dumps({"answers": chosen, "verdicts": verdicts})


# A run ---------------------------------------------------------------------------------------------------------


def checks(source: str) -> bool:
    """Whether a code cell asserts something."""
    return "assert" in source


def run(path: Path, way: Way) -> tuple[list[str], int, dict]:
    """(failed cells in words, how many check something, what `arrive` says) of a lesson; no cell is left out."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    first = f"from tools.travel import arrive, depart\ndepart{(way.sample, way.threads, way.dtype)}"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(first))
    notebook.cells.append(nbformat.v4.new_code_cell("print(arrive())"))
    how = {"kernel_name": "python3", "timeout": None, "allow_errors": True, "store_widget_state": False}
    client = NotebookClient(notebook, **how, resources={"metadata": {"path": str(path.parent)}})
    with tempfile.TemporaryDirectory(prefix="lntutor-", ignore_cleanup_errors=True) as home:
        own = {"LNTUTOR_HOME": home, "LNTUTOR_CACHE": home, "LNTUTOR_REVEAL": "1", "LNTUTOR_STRICT": "1"}
        own |= {"LNTUTOR_SAMPLE": way.sample} | ({"LOKY_MAX_CPU_COUNT": "1"} if way.dtype == "float64" else {})
        own["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        own |= {"OMP_NUM_THREADS": str(way.threads), "OMP_WAIT_POLICY": "passive"}  # others may have the cores
        client.execute(env={**os.environ, **own}, stderr=subprocess.DEVNULL)
    printed = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
    failed = [message for number, cell in enumerate(cells, 1) for message in _errors(number, cell)]
    failed += [message for cell in (notebook.cells[0], notebook.cells[-1]) for message in _errors(0, cell)]
    return failed, sum(checks(cell.source) for cell in cells), json.loads(printed or "{}")


def _errors(number: int, cell: dict) -> Iterator[str]:
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            yield f"cell {number}: {output.ename} {' '.join(output.evalue.split())[:300]}".strip()


def voyage(path: Path, way: Way, at_home: dict[str, str]) -> dict:
    """A row of the report; `at_home` has the measured choices of the lesson as it is written, where they are known."""
    from lntutor.lesson.claims import stored

    kept = stored().query("notebook == @path.stem[:2]")["verdict"].to_dict()
    failed, count, found = run(path, way)
    answers, verdicts = found.get("answers", {}), found.get("verdicts", {})
    changed = [
        f"{key}: {verdicts.get(key)}, not {verdict}" for key, verdict in kept.items() if verdicts.get(key) != verdict
    ]
    other = [
        f"{name}: {answers.get(name)}, not {stored_answer}"
        for name, stored_answer in at_home.items()
        if answers.get(name) != stored_answer
    ]
    results = (count, "; ".join(failed) or NONE, len(verdicts), "; ".join(changed) or NONE)
    spoken = json.dumps(answers, ensure_ascii=False)
    where = (path.stem, way.sample or HOME, way.threads, way.dtype)
    return dict(zip(COLUMNS, (*where, *results, spoken, "; ".join(other) or NONE), strict=True))


def report() -> list[dict]:
    """The rows that are there."""
    import pandas as pd

    return pd.read_csv(REPORT, comment="#").to_dict("records") if REPORT.is_file() else []


def keep(row: dict) -> None:
    """Put a row into the report, in place of an older one of the same lesson and way."""
    import pandas as pd

    others = [old for old in report() if any(old[name] != row[name] for name in COLUMNS[:4])]
    table = pd.DataFrame([*others, row], columns=COLUMNS).sort_values(COLUMNS[:4])
    write(table, REPORT, "python tools/travel.py")


def write(table, path: Path, command: str) -> None:
    """Put a table in its place whole, under the command that makes it."""
    import torch

    from lntutor.text import files

    head = f"# {command}\n# torch {torch.__version__.partition('+')[0]} at the last run\n"
    files.put(path, head + table.to_csv(index=False, lineterminator="\n", float_format="%.4g"))


# Training ------------------------------------------------------------------------------------------------------


def train() -> None:
    """The README's training example, at its rate and at a tenth of it: equal weights and text, each way."""
    import pandas as pd
    import torch

    rows = []
    for dtype, threads in itertools.product(("float32", "float64"), (1, 2)):  # there is no way back from float64
        torch.set_num_threads(threads)
        if dtype == "float64":
            _doubled()
        for placement, rate in itertools.product(("post", "pre"), (0.01, 0.001)):
            way = {"placement": placement, "rate": rate, "threads": threads, "dtype": dtype}
            rows.append(way | trained(placement, rate))
            print(rows[-1], flush=True)
    write(pd.DataFrame(rows), TRAINED, "python tools/travel.py --training")


def trained(placement: str, rate: float) -> dict[str, float]:
    """What is left of a run: the loss and BLEU on held-out text, and λmax at the start and at the end."""
    import lntutor as ln
    from lntutor.curvature import spectrum as curvature
    from lntutor.training import trainer as training

    corpus = ln.load_corpus("captions")
    how = ln.TrainConfig(lr=rate, warmup=0, schedule="constant", steps=300, batch=32)
    cfg, text = ln.ModelConfig(placement, depth=2, width=64, ffn=256), [corpus.batch("val", 50)]
    trainer = training.Trainer(cfg, how, corpus)
    first = curvature.ends(trainer.learner, text).lambda_max
    *_, last = training.steps(cfg, how, corpus)
    run = training.finish(last)
    top = curvature.ends(last.learner, text).lambda_max
    return {"val_loss": run.val_loss, "bleu": run.bleu, "λmax at the start": first, "λmax at the end": top}


def main(arguments: list[str]) -> int:
    """0 if every lesson's checks, verdicts and answers travel."""
    from lntutor.lesson.run_notebook import FOLDER, by_number

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("numbers", nargs="*", metavar="NN", help="numbers of notebooks, such as 04 (default: all)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="how (default: all)")
    parser.add_argument("--training", action="store_true", help="train instead: the README's example, each way")
    args, well = parser.parse_args(arguments), True
    if args.training:
        train()
        return 0
    for path, way in itertools.product(by_number(FOLDER.glob("*.ipynb"), args.numbers), args.ways):
        home = [row["answers"] for row in report() if (row["lesson"], row["samples"]) == (path.stem, HOME)]
        row = voyage(path, WAYS[way], json.loads(home[0]) if home and way != "home" else {})
        keep(row)
        found = {name: row[name] for name in ("failed", "changed", "other answers") if row[name] != NONE}
        print(*(row[name] for name in COLUMNS[:5]), found or "all hold", flush=True)
        well = well and not found
    return 0 if well else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
