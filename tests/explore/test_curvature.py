"""The curvature explorer in process: its spectra are those of `hessian_spectrum`, at the pace of the test."""

import io
import platform

import numpy as np
import pandas as pd
import pytest

import lntutor as ln
from lntutor import figures
from lntutor.curvature import spectrum as curvature
from lntutor.experiments import stored as results
from lntutor.explore import CurvatureExplorer, curvature_plan
from lntutor.explore.curvature_plan import MeasuredSpectrum, SpectrumSetting
from lntutor.text import corpus
from tests.explore.explorers import CURVATURE, choose, finish, measured, same_spectrum, status_text, until
from tests.processes import run_python

COMMAND = "python -m lntutor results hessian --corpus captions"
STORED = [("post", 0, "hessian"), ("post", 1, "hessian"), ("pre", 0, "hessian"), ("pre", 0, "relative")]

pytestmark = pytest.mark.usefixtures("quick_work")


@pytest.fixture
def products(monkeypatch):
    """A list that grows by one with every product."""
    made, matvec = [], curvature.Operator.matvec
    monkeypatch.setattr(curvature.Operator, "matvec", lambda self, v: made.append(1) or matvec(self, v))
    return made


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A table of spectra as the course stores it, made here from small ones, in a folder of the test's own."""
    made = [measured(key, seed=seed, kind=kind) for key, seed, kind in STORED]
    table = pd.concat([spectrum.table() for spectrum in made], ignore_index=True)
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setitem(results.EXPERIMENTS, "hessian", None)
    results.write(table, results.file_of("hessian", "captions"), [COMMAND, "small"])
    return dict(zip(STORED, made, strict=True))


def line(explorer, uid: str):
    """A trace of the figure."""
    return next(trace for trace in explorer.figure.data if trace.uid == uid)


def test_run_measures_each_position_and_shows_densities_ends_and_numbers():
    """Oracle: `hessian_spectrum` with the same settings, and its numbers in table, figure and page."""
    e = CURVATURE.finished()
    assert list(e.spectra) == ["Post-LN", "Pre-LN"]
    direct = {"Post-LN": measured("post"), "Pre-LN": measured("pre")}
    for name, spectrum in direct.items():
        same_spectrum(e.spectra[name], spectrum)
        np.testing.assert_allclose(line(e, f"ends/{name}").x, [spectrum.lambda_min, spectrum.lambda_max])
    width = 0.01 * max(s.lambda_max - s.lambda_min for s in direct.values())
    drawn = line(e, "density/Pre-LN")
    seen = np.isfinite(drawn.y)
    curve = direct["Pre-LN"].smooth(width)
    curve = curve[curve["density"] > 0]
    np.testing.assert_allclose(drawn.x[seen], curve["x"][seen])
    np.testing.assert_allclose(drawn.y[seen], curve["density"][seen])
    pd.testing.assert_frame_equal(e.table(), pd.concat([s.table() for s in direct.values()], ignore_index=True))
    assert e.figure.layout.yaxis.type == "log"
    assert f"<td>{direct['Pre-LN'].loss:.3f}</td>" in e.results.value
    assert "1+1 layers, width 16, 10 pairs, captions, 1 probe, 10 products" in figures.alt_text(e.figure)


@pytest.mark.parametrize(
    ("kind", "axis"),
    [
        ("gauss_newton", "the Gauss–Newton matrix"),
        ("relative", "relative to the size of the weights"),
        ("adam", "as Adam's first step sees it"),
    ],
)
def test_other_kinds_of_curvature_and_several_probes_are_measured_as_asked(kind, axis):
    """Oracle: `hessian_spectrum`; the words on the axis."""
    e = CURVATURE.finished(kind=kind, placements=["pre"], probes=2)
    same_spectrum(e.spectra["Pre-LN"], measured("pre", kind=kind, probes=2))
    assert axis in e.figure.layout.xaxis2.title.text
    assert "<td>10 × 2</td>" in e.results.value


def test_every_kind_of_curvature_has_a_name():
    """Oracle: the kinds of lntutor.curvature.spectrum."""
    for names in (curvature_plan.KIND_NAMES, curvature_plan.MATRICES, curvature_plan.UNITS):
        assert tuple(names) == curvature.SPECTRUM_KINDS


def test_the_bandwidth_draws_anew_without_a_product(products):
    """Oracle: counting products; `smooth` with that share of the widest range."""
    e = CURVATURE.finished()
    made = len(products)
    spread = max(s.lambda_max - s.lambda_min for s in e.spectra.values())
    for share in (0.003, 0.02, 0.05):
        e.controls["bandwidth"].value = share
        pd.testing.assert_frame_equal(
            e.tables.curves.query("placement == 'pre'").drop(columns="run").reset_index(drop=True),
            e.spectra["Pre-LN"].smooth(share * spread),
        )
        assert f"bells of width {share * spread:.2g}" in figures.alt_text(e.figure)
    assert len(products) == made


def test_the_line_stands_at_two_over_the_rate_and_curvatures_in_other_units_are_drawn_apart_and_come_back():
    """Oracle: 2/η, and no line where it means nothing; the kinds on screen; the words of the status line."""
    e = CURVATURE.finished(placements=["post"])
    assert not any(trace.uid == "two_over_eta" for trace in e.figure.data)
    for rate in (0.5, 0.001):
        e.controls["lr"].value = rate
        assert set(line(e, "two_over_eta").x) == {2 / rate}
        assert "above 2/η" in e.figure.layout.title.text
    e.set(kind="gauss_newton")
    finish(e)
    assert [s.kind for s in e.spectra.values()] == ["hessian", "gauss_newton"]
    e.set(kind="relative")
    assert len(e.spectra) == 2
    finish(e)
    assert [s.kind for s in e.spectra.values()] == ["relative"]
    assert "2 spectra in other units: choose their curvature to see them." in status_text(e)
    assert not any(trace.uid == "two_over_eta" for trace in e.figure.data)
    assert "2/η says nothing of relative changes" in status_text(e)
    e.set(kind="hessian")
    assert [s.kind for s in e.spectra.values()] == ["hessian", "gauss_newton"]


# Stopping and going on -------------------------------------------------------------------------------------------


def test_stop_keeps_what_was_measured_and_run_goes_on_from_there(gate, start, products):
    """Oracle: `hessian_spectrum` with as many products; counting those made by the second Run."""
    e = CURVATURE.new()
    start(e, 4)
    e.buttons["stop"].click()
    until(lambda: e.buttons["stop"].disabled)
    gate.release(1)
    e.wait(60)
    assert list(e.spectra) == ["Post-LN"]
    same_spectrum(e.spectra["Post-LN"], measured(steps=5))
    assert status_text(e).startswith("Stopped. Run: 2 spectra of 10 products: Post-LN from product 5; Pre-LN.")
    made = len(products)
    gate.release(100)
    finish(e)
    assert len(products) == made + 5 + 10
    same_spectrum(e.spectra["Post-LN"], measured("post"))
    same_spectrum(e.spectra["Pre-LN"], measured("pre"))


def test_more_steps_go_on_with_what_is_on_screen_and_equal_one_go(products):
    """Oracle: `hessian_spectrum` with all products at once; counting products."""
    e = CURVATURE.finished(probes=2, placements=["post"])
    made = len(products)
    assert "More steps: 10 more products for 1 spectrum on screen" in status_text(e)
    e.controls["depth"].value = 2  # what is on screen goes on, not what the controls say
    e.buttons["more"].click()
    e.wait(60)
    assert len(products) == made + 2 * 10
    assert e.bar.max == 20
    same_spectrum(e.spectra["Post-LN"], measured(steps=20, probes=2))
    e.set(depth=1, products=30)
    made = len(products)
    finish(e)
    assert len(products) == made + 2 * 10
    assert e.spectra["Post-LN"].steps == 30


def test_what_takes_too_much_memory_cannot_go_on_but_stays(monkeypatch):
    """Oracle: the limit; the oldest is let go first, and is measured from its start when more is asked for."""
    e = CURVATURE.finished()
    post, pre = e._done
    one = pre.graphs + curvature_plan.basis_bytes(pre.iteration)
    assert one > 11 * 4 * pre.iteration.operator.size
    kept = curvature_plan.let_go([post, pre], 1.5 * one)
    assert [m.iteration is None for m in kept] == [True, False]
    assert kept[0].spectrum is post.spectrum
    e._done = kept
    e.set(products=20)
    assert [job.begun is not None for job in e.wanted(e.state())] == [False, True]
    assert [job.setting.key for job in e.further(e.state())] == ["pre"]
    e.set(products=10)
    assert e.buttons["run"].disabled
    e.set(products=20)
    monkeypatch.setattr(curvature_plan, "HELD", one)
    e.run()
    with pytest.raises(ValueError, match=r"It would hold 0\.0 GB, more than"):
        e.wait(60)
    assert list(e.spectra) == ["Pre-LN", "Post-LN"]  # the last one is what it was
    assert "ask for fewer products or probes" in status_text(e)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library may not give memory back at once")
def test_the_memory_that_a_measurement_counts_is_what_the_system_gets_back():
    """Oracle: the operating system's count of a process's memory, before and after the kept graphs are let go."""
    code = """
import gc
import psutil
import lntutor as ln
from lntutor.curvature import spectrum as curvature
from lntutor.explore import base, curvature_plan

for kind in ("hessian", "gauss_newton"):
    cfg = ln.ModelConfig("pre", 2, 64, 4, 256)
    iteration = curvature.measurement(cfg, ln.load_corpus(), pairs=100, kind=kind, memory=1e9)
    counted, sizes = curvature_plan.graph_bytes(iteration), []
    for _ in range(2):
        gc.collect()
        base.release_memory()
        sizes.append(psutil.Process().memory_info().rss)
        iteration.operator._kept.clear()
    print(counted / (sizes[0] - sizes[1]))
"""
    assert [float(ratio) for ratio in run_python(code).split()] == pytest.approx([1, 1], rel=0.08)


def test_a_new_start_that_is_stopped_soon_does_not_replace_what_has_more_products(gate, start):
    """Oracle: the spectrum before."""
    gate.release(10)
    e = CURVATURE.finished(placements=["post"])
    before = e.spectra["Post-LN"]
    e._done = curvature_plan.let_go(e._done, 0)
    assert e.buttons["more"].disabled or not e.further(e.state())
    e.set(products=20)
    start(e, 1)
    e.stop()
    gate.release(1)
    e.wait(60)
    assert e.spectra["Post-LN"] is before


# Stored spectra --------------------------------------------------------------------------------------------------


def test_stored_spectra_are_one_click_away_and_say_who_made_them(stored, products):
    """Oracle: the spectra that were stored, to the digits of the file; the command; no product."""
    e = CurvatureExplorer()
    e.controls["stored"].value = True
    assert list(e.spectra) == ["Post-LN, seed 0", "Post-LN, seed 1", "Pre-LN, seed 0"]
    for name, key in zip(e.spectra, STORED, strict=False):
        pd.testing.assert_frame_equal(e.spectra[name].table(), stored[key].table(), rtol=1e-4, atol=1e-9)
    assert f"Stored spectra, made by <code>{COMMAND}</code>." in status_text(e)
    assert "1+1 layers, width 16, 10 pairs, captions" in figures.alt_text(e.figure)
    assert e.code() == "CurvatureExplorer(stored=True)"
    again = eval(e.code(), {"CurvatureExplorer": CurvatureExplorer})
    assert again.figure.to_json() == e.figure.to_json()
    e.controls["bandwidth"].value = 0.05
    e.controls["kind"].value = "relative"
    e.controls["placements"].value = ("pre",)
    assert [s.kind for s in e.spectra.values()] == ["relative"]
    e.controls["lr"].value = 0.1
    assert "2/η says nothing of relative changes" in status_text(e)
    assert not products
    e.controls["kind"].value = "adam"
    assert "Of 'as Adam sees it' nothing is stored; there is Hessian, relative" in status_text(e)
    e.set(kind="hessian", placements=["peri"])
    assert "Of these placements nothing is stored; there are Post-LN, Pre-LN. The last" in status_text(e)
    e.set(placements=[])
    assert "Choose at least one placement." in status_text(e)


def test_run_leaves_the_stored_spectra_which_come_back(stored):
    """Oracle: the spectra before and after."""
    e = CURVATURE.new(placements=["post"], stored=True)
    assert len(e.spectra) == 2
    e.buttons["run"].click()
    e.wait(60)
    assert e.state()["stored"] is False
    same_spectrum(e.spectra["Post-LN"], measured("post"))
    for on, count in ((True, 2), (False, 1)):
        e.controls["stored"].value = on
        assert len(e.spectra) == count


def test_a_table_that_is_not_there_and_a_corpus_that_is_not_here_are_said_in_words(tmp_path, monkeypatch):
    """Oracle: the sentences; the last picture stays."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.delenv("LNTUTOR_MULTI30K", raising=False)
    e = CURVATURE.new()
    before = e.figure.to_json()
    e.controls["stored"].value = True
    assert "There is no stored table hessian_captions" in status_text(e)
    e.set(stored=False, corpus="multi30k")
    assert "multi30k is not on this computer" in status_text(e)
    assert e.figure.to_json() == before
    assert e.buttons["run"].disabled


def test_a_setting_that_cannot_be_measured_gives_its_sentence_and_keeps_the_picture(monkeypatch):
    """Oracle: the sentence of `measurement`, without the name of an exception; what was measured is still there."""
    e = CURVATURE.finished(placements=["post"])
    monkeypatch.setattr(corpus.Corpus, "pairs", lambda self, split: [None] * 20)
    e.set(pairs=30)
    e.run()
    with pytest.raises(ValueError, match="has no more; got 30"):
        e.wait(60)
    assert 'class="wrong">pairs must be 1..20, for captions' in status_text(e)
    assert "The measurement has ended." in status_text(e)
    assert list(e.spectra) == ["Post-LN"]
    assert isinstance(e.error, ValueError)


def test_code_rebuilds_the_view_the_file_has_every_eigenvalue_and_closing_keeps_the_spectra(monkeypatch):
    """Oracle: Python's evaluation of the line; `Spectrum.of_table` of the file; after closing no graph or basis."""
    e = CURVATURE.finished(placements=["pre"], lr=0.2, lecture=True)
    again = eval(e.code(), {"CurvatureExplorer": CurvatureExplorer})
    assert again.state() == e.state()
    finish(again)
    assert again.figure.to_json() == e.figure.to_json()
    sent = []
    monkeypatch.setattr(e.plot, "send", lambda content, buffers=None: sent.append(buffers))
    choose(e, "Show or hide the table")
    assert e.table_area.value.count("<tr") == 1 + 10
    choose(e, "Save numbers (CSV)")
    back = ln.Spectrum.of_table(pd.read_csv(io.BytesIO(sent[0][0])))
    pd.testing.assert_frame_equal(back.table(), measured("pre").table(), check_exact=False)
    e.close()
    assert list(e.spectra) == ["Pre-LN"]
    same_spectrum(e.spectra["Pre-LN"], again.spectra["Pre-LN"])
    assert [one.iteration for one in e._done] == [None]


def test_the_numbers_tell_an_error_only_where_it_shows_and_escape_every_word():
    """Oracle: the digits written here; the entities of HTML."""
    spectrum = ln.Spectrum(np.array([-2.0, 3.0]), np.array([0.5, 0.5]), 3.0, 0.04, -2.0, 1e-9, 1, 2, 0, size=1234)
    setting = SpectrumSetting("<b>", None, 1, 16, 10, 1, 0, "hessian", "captions")
    page = curvature_plan.summary({"<b>mine</b>": MeasuredSpectrum(setting, spectrum)})
    for part in ("<td>−2</td><td>3 ± 0.04</td>", "<td>1,234</td>", "&lt;b&gt;mine"):
        assert part in page
