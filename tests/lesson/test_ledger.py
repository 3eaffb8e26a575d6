"""The whole ledger: one command runs the lessons and stores what they record, whatever happens on the way."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest

from lntutor.__main__ import main
from lntutor.experiments import stored as results
from lntutor.experiments.stored import EXPERIMENTS, STORED_CORPORA
from lntutor.lesson import ledger
from lntutor.lesson.claims import CLAIMS, FILE, NOT_YET, STORED, VERDICTS, stored

LESSONS = {path.stem[:2]: path for path in ledger.lessons()}
RECORD = "from lntutor.lesson.claims import record\n"
FIRST = f"""{RECORD}
import os

record("attention.variance", [63.0, 64.0, 65.0], verdict="holds", size="d = 64", tables=("warmup", "figure2_multi30k"))
record("attention.saturation", "revealed: " + os.environ["LNTUTOR_REVEAL"], verdict="open")
record("talk.rows", "a, \\"b\\" # c", spread="2 seeds", verdict="out of reach")
"""
SECOND = RECORD + 'record("talk.sigma", 8, verdict="does not hold here")\nrecord("lemma1", 1, verdict="holds")'


def lesson(folder: Path, name: str, *cells: str) -> Path:
    """A small notebook with a title and these code cells."""
    parts = [nbformat.v4.new_markdown_cell("# A lesson"), *map(nbformat.v4.new_code_cell, cells)]
    path = folder / f"{name}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=parts), path)
    return path


@pytest.fixture
def course(monkeypatch, tmp_path) -> Path:
    """A folder for small notebooks, and another for the ledger."""
    monkeypatch.setattr(ledger, "FOLDER", tmp_path / "notebooks")
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    monkeypatch.setenv("LNTUTOR_HOME", str(tmp_path / "home"))
    (tmp_path / "notebooks").mkdir()
    return tmp_path / "notebooks"


def test_one_command_writes_every_claim_with_what_its_notebook_recorded(course, capsys):
    """Oracle: two notebooks whose records are known; the list of claims; SHA-256; the reader's notes, left alone."""
    names = {"00_start_here": "1 / 0", "01_one": FIRST, "02_two": SECOND}
    paths = [lesson(course, name, code) for name, code in names.items()]
    before = [path.read_bytes() for path in paths]
    assert main(["claims"]) == 0
    file = results.FOLDER / FILE
    table = stored()
    assert [table.index.name, *table.columns] == STORED
    assert list(table.index) == list(CLAIMS)
    assert list(table["claim"]) == [claim.sentence for claim in CLAIMS.values()]
    assert table.loc["attention.variance"].to_dict() == {
        "notebook": "01",
        "source": "Vaswani et al. 2017",
        "where": "section 3.2.1, footnote",
        "claim": CLAIMS["attention.variance"].sentence,
        "measured": "64 (d = 64)",
        "spread": "± 1 over 3 seeds",
        "verdict": "holds",
        "command": "python -m lntutor results warmup; python -m lntutor results figure2 --corpus multi30k; "
        "python -m lntutor claims 01",
    }
    assert table.loc["attention.saturation", "measured"] == "revealed: 1"
    assert list(table.loc["talk.rows", ["measured", "verdict"]]) == ['a, "b" # c', "out of reach"]
    assert table.loc["talk.sigma", "measured"] == "8"
    assert set(table.loc["talk.per_layer":, "verdict"]) == {NOT_YET}  # lemma1 is not the second notebook's to record
    assert table.attrs["made by"] == "python -m lntutor claims"
    assert re.match(r"torch \d+\.\d+", table.attrs["setting"][0])
    assert (results.FOLDER / "SHA256SUMS").read_text() == f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {FILE}\n"
    assert [path.read_bytes() for path in paths] == before
    assert not (course.parent / "home").exists()
    printed = capsys.readouterr()
    assert "02_two recorded nothing for talk.per_layer, lemma3, paper.jacobian_power" in printed.out
    assert "written: data/results/claims.csv" in printed.out
    assert all(f"{name}: 100%" in printed.err for name in ("01_one", "02_two"))  # a bar for each notebook


def test_a_notebook_that_fails_is_named_with_its_cell_and_the_others_are_kept(course, capsys):
    """Oracle: the third code cell raises; what the first had recorded before is not taken from a run that failed."""
    ledger.write({"attention.variance": {"measured": "as before", "verdict": "open"}})
    lesson(course, "01_one", FIRST, "", "x = 0", "\ny = 2\n1 / x")
    lesson(course, "02_two", SECOND)
    assert main(["claims"]) == 1
    table = stored()
    assert list(table.loc["attention.variance", ["measured", "verdict"]]) == ["as before", "open"]
    assert table.loc["attention.saturation", "verdict"] == NOT_YET
    assert table.loc["talk.sigma", "verdict"] == "does not hold here"
    message = "01_one failed in code cell 3, which begins `y = 2`: ZeroDivisionError: division by zero. Its rows stay"
    assert message in capsys.readouterr().err


def test_a_kernel_that_dies_and_a_file_that_is_no_notebook_are_failures_too(course, capsys):
    """Oracle: the sentences; nothing is written."""
    lesson(course, "01_one", "import os\nos._exit(1)")
    (course / "02_two.ipynb").write_text("<<<<<<< ours\n")
    assert main(["claims"]) == 1
    printed = capsys.readouterr()
    assert "01_one failed in code cell 1, which begins `import os`: its kernel died" in printed.err
    assert "02_two is not a notebook" in printed.err
    assert "written" not in printed.out
    assert not results.FOLDER.exists()


def test_some_notebooks_alone_leave_the_rows_of_the_others(course):
    """Oracle: the rows before; words of a claim come from the list, not from the file."""
    lesson(course, "01_one", FIRST)
    lesson(course, "02_two", SECOND)
    old = {"measured": "as before", "spread": "± 1", "verdict": "open", "command": "python -m lntutor claims 03"}
    ledger.write({"lemma1": old, "talk.sigma": old, "talk.per_layer": old})
    text = (results.FOLDER / FILE).read_text().replace(CLAIMS["lemma1"].sentence.split(",")[0], "For all X")
    (results.FOLDER / FILE).write_text(text)
    assert main(["claims", "2"]) == 0
    table = stored()
    assert table.loc["lemma1"].to_dict().items() >= (old | {"claim": CLAIMS["lemma1"].sentence}).items()
    assert table.loc["talk.sigma", "verdict"] == "does not hold here"
    assert set(table["verdict"].drop(["lemma1", "talk.sigma"])) == {NOT_YET}  # 02 recorded nothing of talk.per_layer


@pytest.mark.parametrize("number", ["09", "00", "12", "six"])
def test_a_notebook_that_is_not_here_or_has_no_claims_is_refused(course, number, capsys):
    """Oracle: exit code 2 and the sentence, which lists those that are here."""
    for name in ("00_start_here", "01_one", "02_two"):
        lesson(course, name, "1 / 0")
    assert main(["claims", "01", number]) == 2
    assert f"there is no notebook '{number}' with claims; there are 01, 02" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="sends a signal to one process")
@pytest.mark.notebook  # as long as one
def test_an_interrupt_keeps_what_has_ended_and_leaves_no_kernel_behind(course):
    """Oracle: a process of its own that is interrupted in its second notebook; exit code 130."""
    mark = course.parent / "mark"
    lesson(course, "01_one", FIRST)
    sleep = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(250)"
    lesson(course, "02_two", SECOND, sleep)
    code = (
        "import pathlib, signal, sys\nfrom lntutor import __main__\nfrom lntutor.lesson import ledger\n"
        "from lntutor.experiments import stored as results\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        f"ledger.FOLDER, results.FOLDER = pathlib.Path({str(course)!r}), pathlib.Path({str(results.FOLDER)!r})\n"
        "sys.exit(__main__.main(['claims']))"
    )
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (mark.exists() and mark.read_text()):
        assert run.poll() is None, run.communicate()
        time.sleep(0.1)
    with run:
        run.send_signal(signal.SIGINT)
        try:
            out, err = run.communicate(timeout=120)
        finally:
            run.kill()
    assert run.returncode == 130, out
    assert "Stopped. data/results/claims.csv has the rows of the notebooks that ended." in err
    assert "Traceback" not in err
    table = stored()
    assert table.loc["attention.variance", "verdict"] == "holds"
    assert table.loc["talk.sigma", "verdict"] == NOT_YET
    assert sorted(path.name for path in results.FOLDER.iterdir()) == ["SHA256SUMS", FILE]
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_a_ledger_that_is_missing_or_makes_no_sense_is_said_in_a_sentence_and_begun_anew(course):
    """Oracle: the sentences; the command writes the file all the same."""
    with pytest.raises(ValueError, match=r"There is no data/results/claims\.csv: `python -m lntutor claims` runs"):
        stored()
    results.FOLDER.mkdir()
    (results.FOLDER / FILE).write_text("<<<<<<< ours\n# python -m lntutor claims\nkey,verdict\na,b,c,d\n")
    with pytest.raises(ValueError, match=r"claims\.csv is not a table with the columns key, notebook, source"):
        stored()
    lesson(course, "01_one", FIRST)
    assert main(["claims", "1"]) == 0
    assert stored().loc["attention.variance", "verdict"] == "holds"


def test_the_stored_ledger_has_every_claim_as_the_list_words_it_measured_and_judged():
    """Oracle: the list of claims; the verdicts there are; a number or a sentence for each that has a notebook here."""
    table = stored()
    assert list(table.index) == list(CLAIMS)
    for name, field in {"notebook": "notebook", "source": "source", "where": "where", "claim": "sentence"}.items():
        assert list(table[name]) == [getattr(claim, field) for claim in CLAIMS.values()]
    assert table.attrs["made by"] == "python -m lntutor claims"
    here = table[table["notebook"].isin(LESSONS)]
    assert set(here["verdict"]) <= set(VERDICTS)
    assert (here["measured"] != NOT_YET).all()
    assert here["measured"].str.strip().str.len().gt(0).all()
    assert set(table["verdict"].drop(here.index)) <= {NOT_YET}


def test_the_command_of_every_row_makes_tables_that_exist_and_then_runs_its_own_notebook():
    """Oracle: the experiments, the texts and the claim's notebook; the tables that the command makes are stored."""
    for key, line in stored()["command"].items():
        *makes, last = line.split("; ")
        assert last == f"python -m lntutor claims {CLAIMS[key].notebook}"
        for make in makes:
            names, text = re.fullmatch(r"python -m lntutor results ([\w ]+?)(?: --corpus (\w+))?", make).groups()
            assert text is None or text in STORED_CORPORA[1:]
            assert set(names.split()) <= set(EXPERIMENTS)
            assert all(results.file_of(name, text or STORED_CORPORA[0]).is_file() for name in names.split())


@pytest.mark.parametrize("path", LESSONS.values(), ids=lambda path: path.stem)
def test_a_claim_rests_on_tables_that_its_notebook_reads(path):
    """Oracle: the names of stored tables in the notebook's code; one that reads none rests on none."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    read = {name for name in EXPERIMENTS if f'"{name}"' in code and "stored_table(" in code}
    rows = stored().query("notebook == @path.stem[:2]")
    made = {name for line in rows["command"] for part in re.findall(r"results ([\w ]+)", line) for name in part.split()}
    assert made <= read
    assert bool(made) == bool(read)


def test_the_stored_ledger_is_a_page_of_its_own(tmp_path, capsys):
    """Oracle: Python's own HTML parser: one row per claim, in its words, and nothing from elsewhere."""
    file = tmp_path / "ledger.html"
    assert main(["claims", "--page", str(file)]) == 0
    assert f"written: {file}" in capsys.readouterr().out
    text = file.read_text(encoding="utf-8")
    tags, headers, parser = [], [], HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, dict(attributes).get("scope")))
    parser.handle_data = lambda data: headers.append(data) if tags[-1:] == [("th", "row")] else None
    parser.feed(text)
    assert headers == [claim.sentence for claim in CLAIMS.values()]
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags}
    assert "http" not in text
    assert main(["claims", "--page", str(file / "below" / "a file.html")]) == 1
    assert str(file) in capsys.readouterr().err
