"""The static site: what its pages are made of, and that nothing is half-written or lost."""

import gzip
import hashlib
import re
from pathlib import Path

import nbformat
import plotly.graph_objects as go
import pytest

from lntutor import explore
from lntutor.__main__ import main
from lntutor.explore import Playground
from lntutor.lesson import run_notebook as lessons
from lntutor.page import live
from lntutor.publish import gallery, site
from lntutor.publish.site import pages

VENDOR = Path(site.__file__).parent / "vendor"
HASHES = {  # of what was published, unpacked
    "temml.min.js.gz": "1ab19148afe0dbc836b7a74f344071b3f3a70a7a8259ae4049e76894fcdf8d95",
    "stix-two-math.woff2": "8b2a6834cfe1f4e0f3724ffa59fe92000013fc5a4c41e6a3f438006c26c60f0d",
}


# Files of others -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HASHES)
def test_files_of_others_are_as_they_were_published(name):
    """Oracle: SHA-256 of the files in the packages that vendor/README.md names."""
    content = (VENDOR / name).read_bytes()
    content = gzip.decompress(content) if name.endswith(".gz") else content
    assert hashlib.sha256(content).hexdigest() == HASHES[name]


# Pages ---------------------------------------------------------------------------------------------------------


def test_maths_links_folds_and_tables_of_a_cell_become_a_page():
    """Oracle: HTML written by hand."""
    text = (
        "# A $q_l < 1$ title\n\nSee [the next](02_layer_norm.ipynb#part), [numbers](../data/x.txt) and $\\|x\\|^2$."
        "\n\n$$\na & b\n$$\n\n"
        "<details><summary>Hint</summary>\n\nTry **this**.\n\n</details>\n\n| a | b |\n|---|---|\n| 1 | `x` |\n"
    )
    html = pages.markdown(text, {"02_layer_norm.ipynb": "02_layer_norm.html"})
    assert '<a href="02_layer_norm.html#part">the next</a>' in html
    assert "</a>, numbers and" in html  # a file that the site has not
    assert '<span class="math">\\|x\\|^2</span>' in html
    assert '<span class="math">q_l &lt; 1</span>' in html
    assert '<div class="math" data-display>a &amp; b</div>' in html
    assert "<strong>this</strong>" in html
    assert '<div class="output" tabindex="0"><table>' in html


def test_outputs_are_shown_and_markup_in_text_is_not_run():
    """Oracle: what each kind of output looks like."""
    cell = nbformat.v4.new_code_cell("print(1 < 2)")
    cell.outputs = [
        nbformat.v4.new_output("stream", name="stdout", text="\x1b[31m<b>red</b>\x1b[0m\n"),
        nbformat.v4.new_output("execute_result", data={"text/html": "<p>kept</p>", "text/plain": "no"}),
        nbformat.v4.new_output("execute_result", data={"text/plain": "x < y"}),
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# T\n\n## Part <one>"), cell])
    html = pages.notebook_page(notebook, {}, [("All", "index.html")])
    assert "\x1b" not in html
    for part in ("&lt;b&gt;red&lt;/b&gt;", "<p>kept</p>", "x &lt; y", "<title>T · lntutor</title>"):
        assert part in html
    assert '<details class="code"><summary>Code</summary>' in html


def test_an_explorer_that_waits_for_run_is_shown_as_it_looks_after_run():
    """Oracle: the picture on its tile, in place of a plot with nothing in it; one with curves stays."""
    cells = []
    for data in ([], [{"type": "scatter", "x": [1], "y": [2]}]):
        cell = nbformat.v4.new_code_cell("TrainingExplorer()")
        html = live.static_twin(go.Figure(data), "Press Run")
        cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/html": html})]
        cells.append(cell)
    html = pages.notebook_page(nbformat.v4.new_notebook(cells=cells), {}, [])
    tile = next(tile for tile in gallery.EXPLORERS if tile.key == "TrainingExplorer")
    assert html.count(f'<img src="{tile.picture}"') == 1
    assert html.count("lntutor-static") == 1


def test_a_playground_is_shown_as_the_page_beside_the_lesson_with_its_state_in_the_address():
    """Oracle: the frame written by hand; an explorer of the same kind leads there."""
    cells = [nbformat.v4.new_code_cell("Playground()"), nbformat.v4.new_code_cell("PlacementExplorer()")]
    twins = Playground(placement="pre", depth=12)._twin(), live.static_twin(go.Figure([{"y": [1]}]), "A figure")
    for cell, html in zip(cells, twins, strict=True):
        cell.outputs = [nbformat.v4.new_output("execute_result", data={"text/html": html})]
    html = pages.notebook_page(nbformat.v4.new_notebook(cells=cells), {}, [])
    assert '<iframe class="playground" src="playground.html#placement=pre&amp;depth=12" title="The playground">' in html
    assert "python -m lntutor" not in html
    assert '<a href="playground.html">the playground</a>' in html


def test_two_headings_of_one_name_have_two_addresses():
    """Oracle: GitHub's way of naming headings."""
    html = pages.page("<h1>A</h1><h2>What if?</h2><h2>What if?</h2><h2>ε, and δ</h2>", [])
    assert re.findall(r'<h2 id="([^"]+)"', html) == ["what-if", "what-if-2", "ε-and-δ"]
    assert html.count('href="#what-if') == 2


def test_the_gallery_has_tiles_for_explorers_and_every_notebook_and_the_start_page_links_to_what_is_there():
    """Oracle: the explorers that can be imported and the notebooks that are there; the list of pages given."""
    assert gallery.TILES[0] is gallery.PLAYGROUND
    assert {tile.key for tile in (gallery.PLAYGROUND, *gallery.EXPLORERS)} <= set(explore.__all__)
    assert [tile.key for tile in gallery.NOTEBOOKS] == [path.stem for path in sorted(lessons.FOLDER.glob("*.ipynb"))]
    pages = {"playground.html", "04_mean_field.html", "ledger.html"}
    html = site.start_page(list(pages))
    assert set(re.findall(r'href="([^"]+)"', html)) == pages
    assert html.count("<img") == 1  # the playground's: of a lesson, it would give an answer away


# Building ------------------------------------------------------------------------------------------------------


@pytest.fixture
def course(monkeypatch, tmp_path, own_cache) -> Path:
    """A course of one small lesson, with a cache of its own."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    monkeypatch.setattr(lessons, "FOLDER", folder)
    write(folder, "print('ran')")
    return folder


def write(folder: Path, *cells: str) -> None:
    parts = [nbformat.v4.new_markdown_cell("# Start here"), *map(nbformat.v4.new_code_cell, cells)]
    nbformat.write(nbformat.v4.new_notebook(cells=parts), folder / "00_start_here.ipynb")


def test_a_site_is_put_in_place_whole_and_replaces_the_one_before(course, tmp_path):
    """Oracle: the files that are there after two builds."""
    out = tmp_path / "out" / "site"
    names = site.build(out)
    assert {"index.html", "00_start_here.html", "playground.html", "ledger.html"} <= set(names)
    assert "ran" in (out / "00_start_here.html").read_text(encoding="utf-8")
    for name in names:
        text = (out / name).read_text(encoding="utf-8")
        for address in re.findall(r'(?:src|href)="((?!https?:|data:|#|mailto:)[^"#]+)', text):
            known = (out / address).exists() or address.endswith(".html")  # this course has one lesson of ten
            assert known, f"{name}: {address}"
    (out / "stale.html").write_text("old")
    write(course, "print('ran anew')")
    site.build(out)
    assert "ran anew" in (out / "00_start_here.html").read_text(encoding="utf-8")
    assert not (out / "stale.html").exists()
    assert [path.name for path in out.parent.iterdir()] == ["site"]


def test_the_page_with_the_answers_to_the_votes_is_left_out_unless_it_is_asked_for(course, tmp_path, capsys):
    """Oracle: the files that are there, and the links of the start page."""
    out = tmp_path / "site"
    for options, there in ([], False), (["--teaching"], True):
        assert main(["site", "--out", str(out), *options]) == 0
        assert (out / "teaching.html").is_file() is there
        assert ("teaching.html" in (out / "index.html").read_text(encoding="utf-8")) is there
        assert (out / "server.html").is_file()


def test_a_notebook_of_the_reader_is_left_out_and_breaks_nothing(course, tmp_path, capsys):
    """Oracle: the pages of the course alone, and one line per notebook that is not part of it."""
    for name in ("Untitled", "00_start_here-Copy1", "00_zz"):
        (course / f"{name}.ipynb").write_text("not even a notebook")
    assert main(["site", "--out", str(tmp_path / "site")]) == 0
    pages = {path.stem for path in (tmp_path / "site").glob("*.html")}
    assert pages & {path.stem for path in course.iterdir()} == {"00_start_here"}
    assert capsys.readouterr().out.splitlines()[:-1] == [
        f"left out: {name}.ipynb, not a notebook of the course" for name in ("00_start_here-Copy1", "00_zz", "Untitled")
    ]


def test_a_lesson_that_fails_leaves_the_site_as_it_was(course, tmp_path, capsys):
    """Oracle: the files from before, and a sentence that names the cell."""
    out = tmp_path / "site"
    assert main(["site", "--out", str(out)]) == 0
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    write(course, "1 / 0")
    assert main(["site", "--out", str(out)]) == 1
    printed = capsys.readouterr().err
    assert "00_start_here failed in code cell 1" in printed
    assert "No page was written" in printed
    assert before == {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}


def test_a_folder_of_somebody_else_is_not_touched(course, tmp_path, capsys):
    """Oracle: the file that was there, and a sentence that says what to do."""
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "chapter.txt").write_text("mine")
    assert main(["site", "--out", str(out)]) == 2
    assert "did not make" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["chapter.txt"]
