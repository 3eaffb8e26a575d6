"""The dot plot with one row per setting or layer."""

import numpy as np
import pandas as pd

from lntutor import figures
from lntutor.model.placements import PLACEMENTS
from tests.figures.registry import title, trace


def dots(row="setting", names=("first", "second <b>", "third"), placements=("post", "pre")):
    rows = [
        (key, name, seed, 2.0**i * (1 + j) * (1 + 0.1 * seed))
        for j, key in enumerate(placements)
        for i, name in enumerate(names)
        for seed in range(3)
    ]
    return pd.DataFrame(rows, columns=["placement", row, "seed", "value"])


def test_every_row_has_its_mean_and_range():
    """Oracle: pandas; names stand in the table's order, the first on top."""
    table = dots()
    figure = figures.values_by_row(table, row="setting", what="ratio")
    assert list(figure.layout.yaxis.ticktext) == ["third", "second &lt;b&gt;", "first"]
    for key in ("post", "pre"):
        drawn = trace(figure, f"measured/{key}")
        groups = table[table["placement"] == key].groupby("setting", sort=False)["value"]
        np.testing.assert_allclose(drawn.x, groups.mean()[::-1])
        np.testing.assert_allclose(np.add(drawn.x, drawn.error_x.array), groups.max()[::-1])
        np.testing.assert_array_equal(np.round(drawn.y), [0, 1, 2])


def test_layers_stand_with_the_input_at_the_bottom():
    """Oracle: the order of the ticks, whatever the table's."""
    figure = figures.values_by_row(dots("layer", (2, 0, 1)), row="layer", what="ratio")
    assert list(figure.layout.yaxis.ticktext) == ["0", "1", "2"]
    assert "input at the bottom" in figure.layout.yaxis.title.text


def test_title_and_text_alternative_have_the_least_and_the_greatest_mean():
    """Oracle: by hand: 1.1 to 4.4 for Post-LN, twice that for Pre-LN; and the sentence for values below 0."""
    figure = figures.values_by_row(dots(), row="setting", what="ratio", line=3.0)
    assert title(figure) == "ratio: Post-LN 1.1 to 4.4; Pre-LN 2.2 to 8.8"
    assert "2.2 (second <b>)" in figures.alt_text(figure)
    assert set(trace(figure, "line").x) == {3.0}
    negative = figures.values_by_row(dots().assign(value=-1.0), row="setting", what="ratio")
    assert "values are not finite or negative" in figures.alt_text(negative)


def test_marks_stand_in_their_rows_however_many_placements_there_are():
    """Oracle: the places of the rows; one placement per row stands on it, many stay within it, each with its label."""
    keys = [*list(PLACEMENTS)[:9], "mine"]
    alone = pd.concat([dots("name", [key], [key]) for key in keys])
    figure = figures.values_by_row(alone, row="name", what="ratio", line=None)
    assert {t.uid: t.y[0] for t in figure.data} == {f"measured/{key}": 9 - i for i, key in enumerate(keys)}
    together = figures.values_by_row(alone.assign(name="one"), row="name", what="ratio", line=None)
    assert max(abs(t.y[0]) for t in together.data) < 0.35
    assert [together.data[i].name for i in (0, 1, 2, -1)] == ["Post-LN", "Pre-LN", "no LN", "mine"]
