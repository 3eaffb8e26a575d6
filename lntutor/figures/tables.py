"""From tables to curves: which rows can be drawn, what is left out, and means over seeds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeGuard

import numpy as np
import pandas as pd

from lntutor.figures.style import in_order, placement_label
from lntutor.model.checks import short_repr

BLOCKS = {"self": "self-attention", "cross": "cross-attention", "ffn": "FFN"}
SIDES = ("encoder", "decoder")
Table = pd.DataFrame | None  # one row per number; None has no rows
NO_ROWS = pd.DataFrame(columns=["placement", "side", "layer", "block", "seed", "value"])


def has(table: Table, *columns: str) -> TypeGuard[pd.DataFrame]:
    """Whether a table has rows and these columns. None counts as an empty table; other types are a ValueError."""
    if table is not None and not isinstance(table, pd.DataFrame):
        raise ValueError(f"a figure draws a pandas table (or None for no rows), got {short_repr(table)}")
    return table is not None and len(table) > 0 and set(columns) <= set(table.columns)


# Which rows can be drawn ---------------------------------------------------------------------------------------


class LeftOut(NamedTuple):
    """How many rows are not drawn, and why."""

    zero: int = 0  # exactly 0, on a log axis
    round_off: int = 0
    other: int = 0  # not finite, or negative on a log axis

    def sentence(self) -> str:
        """Such as "12 values are left out: 6 exactly 0, 6 below round-off."; empty where none is."""
        count = sum(self)
        reasons = ", ".join(f"{n} {reason}" for n, reason in zip(self, REASONS, strict=True) if n)
        return f"{count} {'values are' if count > 1 else 'value is'} left out: {reasons}." if count else ""

    def why_empty(self, otherwise: str, what: str = "values") -> str:
        """Why no row can be drawn: all exactly 0, all below round-off, several reasons, or there are no rows."""
        if not any(self):
            return otherwise
        if sum(self) > max(self):
            return f"None of the {what} can be drawn. {self.sentence()}"
        log = ": a log axis cannot show them" if self.zero else ""
        return f"All {sum(self)} {what} are {REASONS[self.index(max(self))]}{log}."


REASONS = ("exactly 0", "below round-off", "not finite or negative")  # in the order of LeftOut


def drawable(table: Table, *, positive: bool = False) -> tuple[pd.DataFrame, LeftOut]:
    """The rows that can be drawn (finite, above the floor, `positive` for a log axis), and those left out."""
    if not has(table, "value"):
        return NO_ROWS, LeftOut()
    try:
        values = table["value"].to_numpy(float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the column value must hold numbers: {error}") from None
    low = table["below_floor"].to_numpy(bool) if "below_floor" in table.columns else np.zeros(len(table), bool)
    zero = ~low & (values == 0) & positive
    good = np.isfinite(values) & ~low & (values > 0 if positive else True)
    left = LeftOut(int(zero.sum()), int(low.sum()), int((~good & ~zero & ~low).sum()))
    return (table if good.all() else table[good]), left


# Curves --------------------------------------------------------------------------------------------------------


class Means(NamedTuple):
    """Mean, least and greatest value over seeds, at each place along an axis."""

    at: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def over_seeds(at: np.ndarray, values: np.ndarray) -> Means:
    """The values of each place put together. Arrays: a group-by takes longer than all else in a figure."""
    places, which = np.unique(at, return_inverse=True)
    low, high = np.full(len(places), np.inf), np.full(len(places), -np.inf)
    np.minimum.at(low, which, values)
    np.maximum.at(high, which, values)
    mean = np.bincount(which, values, len(places)) / np.bincount(which, minlength=len(places))
    return Means(places, mean, low, high)


def curves(table: pd.DataFrame, along: str, **only: str | int) -> list[tuple[str, str, Means]]:
    """(placement, block, means) of each curve, in a fixed order, of rows with these values, such as side="encoder".

    The block is "" where there are none.
    """
    if not len(table):
        return []
    columns = {name: table[name].to_numpy() for name in ("placement", along, "value", *only)}
    wanted = np.ones(len(table), bool)
    for name, value in only.items():
        wanted &= columns[name] == value
    blocks = table["block"].to_numpy() if "block" in table.columns else np.full(len(table), "")
    parts = []
    for key in in_order(columns["placement"]):
        for block in BLOCKS if "block" in table.columns else ("",):
            here = wanted & (columns["placement"] == key) & (blocks == block)
            if here.any():
                parts.append((key, block, over_seeds(columns[along][here], columns["value"][here].astype(float))))
    return parts


def curves_by_placement(table: pd.DataFrame, along: str) -> list[tuple[str, Means]]:
    """(placement, means): one curve per placement, whatever blocks the table has."""
    return [(key, means) for key, _, means in curves(table.drop(columns="block", errors="ignore"), along)]


def curve_name(key: str, block: str, with_block: bool) -> str:
    """A placement's label, with its block where there are several."""
    return placement_label(key) + (f", {BLOCKS[block]}" if with_block and block else "")


def sides_of(table: pd.DataFrame) -> list[str]:
    """The sides of a table, the encoder first."""
    return [side for side in SIDES if side in set(table["side"])]


def seed_count(table: pd.DataFrame) -> int:
    """How many seeds a table has."""
    return int(table["seed"].nunique()) if "seed" in table.columns else 1


def spread(table: pd.DataFrame) -> str:
    """What a mark and its bar are, for the title of an axis."""
    seeds = seed_count(table)
    return f"mean and range over {seeds} seeds" if seeds > 1 else "one seed"


def values_at(curves: Iterable[tuple], place: float) -> list[float]:
    """The mean of every curve that has this place; a curve's means stand last in its tuple."""
    return [float(means.mean[means.at == place][0]) for *_, means in curves if place in means.at]
