"""How figures look: colours that stand out, one look per placement, lines broken between words."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lntutor import figures
from lntutor.figures import style
from lntutor.model.placements import PLACEMENTS
from tests.figures.registry import KEYS, luminance
from tests.processes import run_python


@given(st.text("a \ue000\uf8ff\U000f0000\U000fffff\U0010ffff", max_size=40), st.integers(1, 20))
def test_lines_are_broken_between_words_whatever_their_characters(text, columns):
    """Oracle: Python's textwrap on text without markup; the same words remain when some are marked up."""
    broken = style.wrapped(text, columns)
    assert broken == "<br>".join(textwrap.wrap(text, columns, break_on_hyphens=False) or [""])
    assert style.wrapped(f"<b>{text}</b>&amp;", 1000) == "<b>" + " ".join(text.split(" ")) + "</b>&amp;"


@pytest.mark.parametrize("key", [*KEYS, *(f"mine_{i}" for i in range(40))])
def test_marks_stand_out_from_white(key):
    """Oracle: WCAG's contrast ratio, at least 3:1 for graphics."""
    assert 1.05 / (luminance(figures.placement_style(key)["color"]) + 0.05) >= 3


def test_every_built_in_placement_has_its_own_style_and_a_new_one_a_stable_style_unlike_them():
    """Oracle: no two are equal in colour, dash or marker; the same name in another process has the same style."""
    code = "from lntutor.figures import placement_style; print(placement_style('mine'))"
    assert run_python(code).strip() == str(figures.placement_style("mine"))
    built_in = [figures.placement_style(key) for key in KEYS]
    new = [figures.placement_style(f"mine_{i}") for i in range(20)]
    for part in ("color", "dash", "symbol"):
        assert len({s[part] for s in built_in}) == len(KEYS)
        assert not {s[part] for s in built_in} & {s[part] for s in new}
    assert len({tuple(s.values()) for s in new}) >= 18


def test_placements_of_a_reader_have_markers_of_their_own_and_keep_them(monkeypatch):
    """Oracle: eight names whose hash asks for one and the same marker; the first ones look as they did when alone."""
    names = (f"mine_{i}" for i in range(1000))
    alike = [name for name in names if figures.placement_style(name)["symbol"] == "bowtie"][:9]
    seen = []
    for name in alike:
        monkeypatch.setitem(PLACEMENTS, name, PLACEMENTS["post"])
        seen.append(figures.placement_style(name))
        assert [figures.placement_style(other) for other in alike[: len(seen)]] == seen
    assert len({style["symbol"] for style in seen[:8]}) == 8
    assert seen[8]["symbol"] == "bowtie"  # there are no more


def test_nothing_global_changes():
    """Oracle: plotly's templates in a fresh process."""
    code = """
import plotly.io as pio
before = pio.templates.default, set(pio.templates)
import lntutor.figures
assert before == (pio.templates.default, set(pio.templates))
"""
    run_python(code)
