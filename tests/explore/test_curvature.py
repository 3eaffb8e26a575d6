"""The curvature explorer in process: its spectra are those of `hessian_spectrum`, at the pace of the test."""

import html
import io
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest

import lntutor as ln
from lntutor import corpus, curvature, figures, results, training
from lntutor.explore import CurvatureExplorer, TrainingExplorer, spectra, working
from lntutor.explore.spectra import Measured, Setting

TINY = {"depth": 1, "width": 16, "pairs": 10, "products": 10}
COMMAND = "python -m lntutor results hessian --corpus captions"


pytestmark = pytest.mark.usefixtures("no_pause")


@pytest.fixture
def products(monkeypatch):
    """A list that grows by one with every product."""
    made, matvec = [], curvature.Operator.matvec
    monkeypatch.setattr(curvature.Operator, "matvec", lambda self, v: made.append(1) or matvec(self, v))
    return made


@pytest.fixture
def gate(monkeypatch):
    """In an explorer Lanczos goes on only as many products as the test lets through, and each is drawn."""
    gate, run = threading.Semaphore(0), curvature.Iteration.run

    def gated(self, steps):
        for progress in run(self, steps):
            assert threading.current_thread() is threading.main_thread() or gate.acquire(timeout=60)
            yield progress

    monkeypatch.setattr(working, "REDRAW", 0.0)
    monkeypatch.setattr(curvature.Iteration, "run", gated)
    return gate


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A table of spectra as the course stores it, made here from small ones, in a folder of the test's own."""
    made = [direct(key, seed=seed, kind=kind) for key, seed, kind in STORED]
    table = pd.concat([spectrum.table() for spectrum in made], ignore_index=True)
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setitem(results.EXPERIMENTS, "hessian", None)
    results.write(table, results.file_of("hessian", "captions"), [COMMAND, "small"])
    return dict(zip(STORED, made, strict=True))


STORED = [("post", 0, "hessian"), ("post", 1, "hessian"), ("pre", 0, "hessian"), ("pre", 0, "relative")]


def until(condition, seconds: float = 60) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def words(explorer) -> str:
    """The status line as it is read."""
    return html.unescape(explorer.status.value.split("</style>")[-1])


def finished(**state) -> CurvatureExplorer:
    """An explorer that has measured what it was asked for."""
    explorer = CurvatureExplorer(**{**TINY, **state})
    explorer.run()
    explorer.wait(120)
    return explorer


def direct(placement: str = "post", steps: int = 10, **how):
    """The same spectrum by `hessian_spectrum`."""
    cfg = ln.ModelConfig(placement, how.pop("depth", 1), 16, 4, 64)
    return ln.hessian_spectrum(cfg, corpus.load_corpus(), pairs=10, steps=steps, progress=False, **how)


def same(spectrum, other) -> None:
    """Equal in every number."""
    pd.testing.assert_frame_equal(spectrum.table(), other.table())


def line(explorer, uid: str):
    """A trace of the figure."""
    return next(trace for trace in explorer.figure.data if trace.uid == uid)


# Running ---------------------------------------------------------------------------------------------------------


def test_run_measures_each_position_and_shows_densities_ends_and_numbers():
    """Oracle: `hessian_spectrum` with the same settings, and its numbers in table, figure and page."""
    e = finished()
    assert list(e.spectra) == ["Post-LN", "Pre-LN"]
    whole = {"Post-LN": direct("post"), "Pre-LN": direct("pre")}
    for name, spectrum in whole.items():
        same(e.spectra[name], spectrum)
        np.testing.assert_allclose(line(e, f"ends/{name}").x, [spectrum.lambda_min, spectrum.lambda_max])
    width = 0.01 * max(s.lambda_max - s.lambda_min for s in whole.values())
    drawn = line(e, "density/Pre-LN")
    seen = np.isfinite(drawn.y)
    curve = whole["Pre-LN"].smooth(width)
    curve = curve[curve["density"] > 0]
    np.testing.assert_allclose(drawn.x[seen], curve["x"][seen])
    np.testing.assert_allclose(drawn.y[seen], curve["density"][seen])
    pd.testing.assert_frame_equal(e.table(), pd.concat([s.table() for s in whole.values()], ignore_index=True))
    assert e.figure.layout.yaxis.type == "log"
    assert f"<td>{whole['Pre-LN'].loss:.3f}</td>" in e.results.value
    assert "1+1 layers, width 16, 10 pairs, captions, 1 probe, 10 products" in figures.alt_text(e.figure)
    assert words(e).startswith("2 spectra done in")
    assert "All that Run would do is on screen" in words(e)
    assert e.buttons["run"].disabled
    assert e.bar.layout.visibility == "hidden"


def test_placements_with_a_profile_and_with_a_norm_of_their_own_have_their_spectra():
    """Oracle: `hessian_spectrum` with the same settings."""
    e = finished(placements=["admin", "dyt"])
    same(e.spectra["Admin"], direct("admin"))
    same(e.spectra["Dynamic Tanh"], direct("dyt"))


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
    e = finished(kind=kind, placements=["pre"], probes=2)
    same(e.spectra["Pre-LN"], direct("pre", kind=kind, probes=2))
    assert axis in e.figure.layout.xaxis2.title.text
    assert "<td>10 × 2</td>" in e.results.value


def test_several_seeds_are_a_line_each_and_one_name_in_the_legend():
    """Oracle: `hessian_spectrum` with the second seed; the traces."""
    e = finished(placements=["pre"], seeds=2)
    assert list(e.spectra) == ["Pre-LN, seed 0", "Pre-LN, seed 1"]
    same(e.spectra["Pre-LN, seed 1"], direct("pre", seed=1))
    assert [t.name for t in e.figure.data if t.uid.startswith("density/")] == ["Pre-LN"]


def test_every_kind_of_curvature_has_a_name():
    """Oracle: the kinds of lntutor.curvature, which is not imported before it is needed."""
    assert list(spectra.KIND_NAMES) == list(spectra.MATRICES) == list(spectra.UNITS) == list(curvature.KINDS)
    code = "import sys, lntutor.explore as e; e.CurvatureExplorer(); print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name in ("torchtext", "lntutor.corpus", "lntutor.curvature", "lntutor.results"):
        assert f"'{name}'" not in modules


def test_the_spectrum_grows_while_the_page_stays_free(gate):
    """Oracle: the products let through; controls, table and code are answered meanwhile, and Run is not."""
    e = CurvatureExplorer(**TINY)
    assert "Press Run: 2 spectra of 10 products" in figures.alt_text(e.figure)
    assert "Run: 2 spectra of 10 products: Post-LN; Pre-LN. Each: Hessian, 1+1 layers" in words(e)
    e.run()
    gate.release(3)
    until(lambda: words(e).startswith("Post-LN: product 3 of 10, "))
    assert e.running
    assert words(e).endswith(" s left; 1 more to come.")
    until(lambda: (e.bar.value, e.bar.max) == (3, 20))
    same(e.spectra["Post-LN"], direct(steps=3))
    e.controls["depth"].value = 3
    e.controls["bandwidth"].value = 0.05
    e.buttons["table"].click()
    assert "<table" in e.shown.value
    assert e.code() == "CurvatureExplorer(depth=3, width=16, pairs=10, bandwidth=0.05, products=10)"
    assert e.buttons["run"].disabled
    assert e.buttons["more"].disabled
    with pytest.raises(ValueError, match="A measurement is under way"):
        e.run()
    gate.release(100)
    e.wait(60)
    assert {s.depth for s in e.spectra.values()} == {1}  # as it was when Run was pressed


def test_moving_a_control_measures_nothing_and_loses_nothing(products):
    """Oracle: the picture before, and counting products."""
    e = finished(placements=["pre"])
    before, made = e.figure.to_json(), len(products)
    moves = {"depth": 2, "width": 32, "pairs": 30, "placements": ("post",), "seeds": 2, "kind": "relative"}
    for name, value in moves.items():
        e.controls[name].value = value
        assert e.figure.to_json() == before
    assert "Run: 2 spectra of 10 products: Post-LN, relative to each weight's size, 2+2 layers" in words(e)
    e.buttons["reset"].click()
    assert e.figure.to_json() == before
    assert len(products) == made
    e.buttons["clear"].click()
    assert e.spectra == {}
    assert "Press Run" in figures.alt_text(e.figure)


def test_spectra_stay_to_be_compared_and_are_not_made_twice(products):
    """Oracle: which spectra there are, by their names; counting products."""
    e = finished(placements=["post"])
    e.set(depth=2, placements=["post", "pre"])
    e.run()
    e.wait(60)
    assert list(e.spectra) == ["Post-LN, 1+1 layers", "Post-LN, 2+2 layers", "Pre-LN, 2+2 layers"]
    same(e.spectra["Pre-LN, 2+2 layers"], direct("pre", depth=2))
    made = len(products)
    e.set(depth=1)
    assert "Run: 1 spectrum of 10 products: Pre-LN, 1+1 layers (1 more is on screen already)." in words(e)
    e.run()
    e.wait(60)
    assert len(products) == made + 10


# Bandwidth, lines, units -----------------------------------------------------------------------------------------


def test_closing_keeps_the_spectra_and_lets_go_of_what_could_go_on():
    """Oracle: the spectra before, and no graph or basis behind them."""
    e = finished(placements=["pre"])
    before = e.spectra
    e.close()
    assert list(e.spectra) == list(before)
    same(e.spectra["Pre-LN"], before["Pre-LN"])
    assert [one.iteration for one in e._done] == [None]


def test_the_bandwidth_draws_anew_without_a_product(products):
    """Oracle: counting products; `smooth` with that share of the widest range."""
    e = finished()
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


def test_the_line_stands_at_two_over_the_rate_and_not_where_it_means_nothing():
    """Oracle: 2/η; the words of the status line."""
    e = finished(placements=["post"])
    assert not any(trace.uid == "two_over_eta" for trace in e.figure.data)
    for rate in (0.5, 0.001):
        e.controls["lr"].value = rate
        assert set(line(e, "two_over_eta").x) == {2 / rate}
        assert "above 2/η" in e.figure.layout.title.text
    e.set(kind="relative")
    e.run()
    e.wait(60)
    assert not any(trace.uid == "two_over_eta" for trace in e.figure.data)
    assert "2/η says nothing of relative changes" in words(e)


def test_curvatures_in_other_units_are_not_drawn_over_each_other_and_come_back():
    """Oracle: the kinds on screen."""
    e = finished(placements=["post"])
    e.set(kind="gauss_newton")
    e.run()
    e.wait(60)
    assert [s.kind for s in e.spectra.values()] == ["hessian", "gauss_newton"]
    e.set(kind="adam")
    assert [s.kind for s in e.spectra.values()] == ["hessian", "gauss_newton"]
    e.run()
    e.wait(60)
    assert [s.kind for s in e.spectra.values()] == ["adam"]
    assert "2 spectra in other units: choose their curvature to see them." in words(e)
    e.set(kind="hessian")
    assert [s.kind for s in e.spectra.values()] == ["hessian", "gauss_newton"]


# Stopping and going on -------------------------------------------------------------------------------------------


def test_stop_keeps_what_was_measured_and_run_goes_on_from_there(gate, products):
    """Oracle: `hessian_spectrum` with as many products; counting those made by the second Run."""
    e = CurvatureExplorer(**TINY)
    e.run()
    gate.release(4)
    until(lambda: len(e.table()) == 4)
    e.buttons["stop"].click()
    until(lambda: e.buttons["stop"].disabled)
    gate.release(1)
    e.wait(60)
    assert list(e.spectra) == ["Post-LN"]
    same(e.spectra["Post-LN"], direct(steps=5))
    assert words(e).startswith("Stopped. Run: 2 spectra of 10 products: Post-LN from product 5; Pre-LN.")
    made = len(products)
    gate.release(100)
    e.run()
    e.wait(60)
    assert len(products) == made + 5 + 10
    same(e.spectra["Post-LN"], direct("post"))
    same(e.spectra["Pre-LN"], direct("pre"))


def test_more_steps_go_on_with_what_is_on_screen_and_equal_one_go(products):
    """Oracle: `hessian_spectrum` with all products at once; counting products."""
    e = finished(probes=2, placements=["post"])
    made = len(products)
    assert "More steps: 10 more products for 1 spectrum on screen" in words(e)
    e.controls["depth"].value = 2  # what is on screen goes on, not what the controls say
    e.buttons["more"].click()
    e.wait(60)
    assert len(products) == made + 2 * 10
    assert e.bar.max == 20
    same(e.spectra["Post-LN"], direct(steps=20, probes=2))
    e.set(depth=1, products=30)
    made = len(products)
    e.run()
    e.wait(60)
    assert len(products) == made + 2 * 10
    assert e.spectra["Post-LN"].steps == 30


def test_what_takes_too_much_memory_cannot_go_on_but_stays(monkeypatch):
    """Oracle: the limit; the oldest is let go first, and is measured from its start when more is asked for."""
    e = finished()
    post, pre = e._done
    one = pre.graphs + spectra.basis_bytes(pre.iteration)
    assert one > 11 * 4 * pre.iteration.operator.size
    kept = spectra.let_go([post, pre], 1.5 * one)
    assert [m.iteration is None for m in kept] == [True, False]
    assert kept[0].spectrum is post.spectrum
    e._done = kept
    e.set(products=20)
    assert [job.goes_on for job in e.wanted(e.state())] == [False, True]
    assert [job.setting.key for job in e.further(e.state())] == ["pre"]
    e.set(products=10)
    assert e.buttons["run"].disabled
    e.set(products=20)
    monkeypatch.setattr(spectra, "HELD", one)
    e.run()
    with pytest.raises(ValueError, match=r"It would hold 0\.0 GB, more than"):
        e.wait(60)
    assert list(e.spectra) == ["Pre-LN", "Post-LN"]  # the last one is what it was
    assert "ask for fewer products or probes" in words(e)


def test_a_new_start_that_is_stopped_soon_does_not_replace_what_has_more_products(gate):
    """Oracle: the spectrum before."""
    gate.release(10)
    e = finished(placements=["post"])
    before = e.spectra["Post-LN"]
    e._done = spectra.let_go(e._done, 0)
    assert e.buttons["more"].disabled or not e.further(e.state())
    e.set(products=20)
    e.run()
    gate.release(1)
    until(lambda: len(e.table()) == 1)
    e.stop()
    gate.release(1)
    e.wait(60)
    assert e.spectra["Post-LN"] is before


def test_only_the_last_spectra_are_kept(monkeypatch):
    """Oracle: the limit."""
    monkeypatch.setattr(CurvatureExplorer, "MOST", 2)
    assert list(finished(placements=["post", "pre", "peri"]).spectra) == ["Pre-LN", "Peri-LN"]


# Stored spectra --------------------------------------------------------------------------------------------------


def test_stored_spectra_are_one_click_away_and_say_who_made_them(stored, products):
    """Oracle: the spectra that were stored, to the digits of the file; the command; no product."""
    e = CurvatureExplorer()
    e.controls["stored"].value = True
    assert list(e.spectra) == ["Post-LN, seed 0", "Post-LN, seed 1", "Pre-LN, seed 0"]
    for name, key in zip(e.spectra, STORED, strict=False):
        pd.testing.assert_frame_equal(e.spectra[name].table(), stored[key].table(), rtol=1e-4, atol=1e-9)
    assert f"Stored spectra, made by <code>{COMMAND}</code>." in words(e)
    assert "1+1 layers, width 16, 10 pairs, captions" in figures.alt_text(e.figure)
    assert e.code() == "CurvatureExplorer(stored=True)"
    again = eval(e.code(), {"CurvatureExplorer": CurvatureExplorer})
    assert again.figure.to_json() == e.figure.to_json()
    e.controls["bandwidth"].value = 0.05
    e.controls["kind"].value = "relative"
    e.controls["placements"].value = ("pre",)
    assert [s.kind for s in e.spectra.values()] == ["relative"]
    e.controls["lr"].value = 0.1
    assert "2/η says nothing of relative changes" in words(e)
    assert not products
    e.controls["kind"].value = "adam"
    assert "Of 'as Adam sees it' nothing is stored; there is Hessian, relative" in words(e)
    e.set(kind="hessian", placements=["peri"])
    assert "Of these LN positions nothing is stored; there are Post-LN, Pre-LN. The last picture stays." in words(e)
    e.set(placements=[])
    assert "Pick at least one LN position." in words(e)


def test_run_leaves_the_stored_spectra_which_come_back(stored):
    """Oracle: the spectra before and after."""
    e = CurvatureExplorer(**TINY, placements=["post"], stored=True)
    assert len(e.spectra) == 2
    e.buttons["run"].click()
    e.wait(60)
    assert e.state()["stored"] is False
    same(e.spectra["Post-LN"], direct("post"))
    e.controls["stored"].value = True
    assert len(e.spectra) == 2
    e.controls["stored"].value = False
    assert len(e.spectra) == 1


def test_a_table_that_is_not_there_and_a_corpus_that_is_not_here_are_said_in_words(tmp_path, monkeypatch):
    """Oracle: the sentences; the last picture stays."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.delenv("LNTUTOR_MULTI30K", raising=False)
    e = CurvatureExplorer(**TINY)
    before = e.figure.to_json()
    e.controls["stored"].value = True
    assert "There is no stored table hessian_captions" in words(e)
    e.set(stored=False, corpus="multi30k")
    assert "multi30k is not on this computer" in words(e)
    assert e.figure.to_json() == before
    assert e.buttons["run"].disabled


# Turns and mistakes ----------------------------------------------------------------------------------------------


def test_explorers_of_both_kinds_take_turns(gate, monkeypatch):
    """Oracle: the words of those that wait; the spectrum and the run as if alone."""
    monkeypatch.setattr(training, "VALIDATION", 1)
    first, second = CurvatureExplorer(**TINY, placements=["post"]), CurvatureExplorer(**TINY, placements=["pre"])
    trains = TrainingExplorer(depth=1, width=16, steps=20, placements=["pre"], task="masked_words")
    first.run()
    gate.release(2)
    until(lambda: len(first.table()) == 2)
    trains.run()
    second.run()
    until(lambda: words(trains).startswith("Waiting for a measurement in this kernel to end."))
    until(lambda: words(second).startswith("Waiting for another measurement in this kernel to end."))
    until(lambda: second.buttons["other"].layout.display is None)
    trains.buttons["other"].click()
    gate.release(100)
    for explorer in (first, second, trains):
        explorer.wait(60)
    assert first.spectra["Post-LN"].steps == 3
    same(second.spectra["Pre-LN"], direct("pre"))
    assert trains.runs["Pre-LN"].status == "finished"


def test_mistakes_before_a_run_are_said_in_words():
    """Oracle: the sentences; Run is out of reach."""
    e = CurvatureExplorer(**TINY)
    e.controls["placements"].value = ()
    assert "Pick at least one LN position. The last picture stays." in words(e)
    assert e.buttons["run"].disabled
    e.set(placements=["post", "pre", "peri"], seeds=5)
    assert "At most 12 spectra at once, got 15: pick fewer LN positions or seeds." in words(e)
    e.set(seeds=4)
    assert e.error is None
    with pytest.raises(ValueError, match=r"bandwidth must be one of 0\.003"):
        CurvatureExplorer(bandwidth=0.2)


def test_a_setting_that_cannot_be_measured_gives_its_sentence_and_keeps_the_picture(monkeypatch):
    """Oracle: the sentence of `measurement`, without the name of an exception; what was measured is still there."""
    e = finished(placements=["post"])
    monkeypatch.setattr(corpus.Corpus, "pairs", lambda self, split: [None] * 20)
    e.set(pairs=30)
    e.run()
    with pytest.raises(ValueError, match="has no more; got 30"):
        e.wait(60)
    assert 'class="wrong">pairs must be 1..20, for captions' in words(e)
    assert "The measurement has ended." in words(e)
    assert list(e.spectra) == ["Post-LN"]
    assert isinstance(e.error, ValueError)


def test_an_error_in_the_middle_is_shown_and_keeps_the_products_before_it(monkeypatch):
    """Oracle: the message as text; `hessian_spectrum` with as many products."""
    matvec, made = curvature.Operator.matvec, []

    def breaks(self, v):
        made.append(1)
        if len(made) == 4:
            raise OSError("<i>no</i> memory")
        return matvec(self, v)

    e = CurvatureExplorer(**TINY)
    with monkeypatch.context() as patch:
        patch.setattr(curvature.Operator, "matvec", breaks)
        e.run()
        with pytest.raises(OSError, match="memory"):
            e.wait(60)
    assert "OSError: &lt;i&gt;no&lt;/i&gt; memory The measurement has ended." in e.status.value
    same(e.spectra["Post-LN"], direct(steps=3))
    e.run()
    e.wait(60)
    assert e.error is None
    same(e.spectra["Post-LN"], direct())


# The page --------------------------------------------------------------------------------------------------------


def test_code_rebuilds_the_view_and_the_file_has_every_eigenvalue(monkeypatch):
    """Oracle: Python's own evaluation of the line; `Spectrum.of_table` of the rows that were saved."""
    e = finished(placements=["pre"], lr=0.2, lecture=True)
    again = eval(e.code(), {"CurvatureExplorer": CurvatureExplorer})
    assert again.state() == e.state()
    again.run()
    again.wait(60)
    assert again.figure.to_json() == e.figure.to_json()
    sent = []
    monkeypatch.setattr(e.plot, "send", lambda content, buffers=None: sent.append(buffers))
    e.buttons["table"].click()
    assert e.shown.value.count("<tr") == 1 + 10
    e.buttons["csv"].click()
    back = ln.Spectrum.of_table(pd.read_csv(io.BytesIO(sent[0][0])))
    pd.testing.assert_frame_equal(back.table(), direct("pre").table(), check_exact=False)


def test_the_page_without_a_kernel_has_the_picture_and_the_numbers():
    """Oracle: the twin in HTML."""
    e = CurvatureExplorer(**TINY, placements=["pre"])
    assert "Press Run: 1 spectrum of 10 products will be drawn here." in e._repr_mimebundle_()["text/html"]
    e.run()
    e.wait(60)
    twin = e._repr_mimebundle_()["text/html"]
    assert "density/Pre-LN" in twin
    assert "Both ends, with ±" in twin


def test_the_numbers_tell_an_error_only_where_it_shows_and_escape_every_word():
    """Oracle: the digits written here; the entities of HTML."""
    spectrum = ln.Spectrum(np.array([-2.0, 3.0]), np.array([0.5, 0.5]), 3.0, 0.04, -2.0, 1e-9, 1, 2, 0, size=1234)
    setting = Setting("<b>", None, 1, 16, 10, 1, 0, "hessian", "captions")
    said = spectra.summary({"<b>mine</b>": Measured(setting, spectrum)})
    assert "<td>−2</td><td>3 ± 0.04</td>" in said
    assert "<td>1,234</td>" in said
    assert "&lt;b&gt;mine" in said


def test_a_placement_that_is_assigned_anew_is_another_spectrum():
    """Oracle: two spectra of one name, told apart, with other ends."""
    rules = (lambda x, subs, N, at: N(x + subs[-1](x)), lambda x, subs, N, at: N(x + subs[-1](subs[0](x))))
    try:
        ln.PLACEMENTS["mine"] = ln.Placement("Mine", "x ← …", rules[0])
        e = finished(placements=["mine"])
        ln.PLACEMENTS["mine"] = ln.Placement("Mine", "x ← …", rules[1])
        e.run()
        e.wait(60)
        assert e.spectra["Mine"].lambda_max != e.spectra["Mine (2)"].lambda_max
    finally:
        ln.PLACEMENTS.pop("mine")
