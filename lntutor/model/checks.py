"""Checks of arguments: the value itself, or a ValueError that says what was given and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from numbers import Integral, Real
from reprlib import Repr
from typing import Any

import numpy as np

MOST_SEEDS = 10_000
_BRIEF = Repr()
_BRIEF.maxstring = _BRIEF.maxlong = _BRIEF.maxother = 80


def short_repr(value: Any) -> str:
    """repr(value), shortened, for a message."""
    try:
        return _BRIEF.repr(value)
    except Exception:  # Python writes no number of more than 4300 digits
        return f"a {type(value).__name__}"


def check_type(name: str, value: Any, kind: type, advice: str = "") -> Any:
    """`value` if it is of this type, or a ValueError."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ValueError(f"{name} must be {article} {kind.__name__}, got {short_repr(value)}{advice}")
    return value


def as_tuple(name: str, values: Any, example: str) -> tuple:
    """The values of an iterable, where a str counts as one value; or a ValueError."""
    try:
        return (values,) if isinstance(values, str) else tuple(values)
    except TypeError:
        raise ValueError(f"{name} must be a list such as {example}, got {short_repr(values)}") from None


def as_numbers(name: str, values: Any, *dimensions: int, most: float = 1e308) -> np.ndarray:
    """A float array of at most `most` in size, with one of these numbers of axes; or a ValueError."""
    try:
        plain = values.tolist() if hasattr(values, "tolist") else values  # numpy warns of tensors, or refuses them
        found = None if np.iscomplexobj(plain) else np.array(plain, dtype=float)
    except Exception:  # an object of the reader's own class may raise anything
        found = None
    if found is None or found.ndim not in dimensions or not (abs(found) <= most).all():
        axes = " or ".join(map(str, dimensions))
        raise ValueError(f"{name} must be numbers up to {most:g}, with {axes} axes, got {short_repr(values)}")
    return found


def check_int(name: str, value: Any, low: int, high: int) -> int:
    """`value` as an int in low..high, or a ValueError."""
    good = isinstance(value, Integral) and not isinstance(value, bool)
    if not (good and low <= value <= high):  # pyright: ignore[reportOperatorIssue] - the stubs give Integral no order
        raise ValueError(f"{name} must be a whole number in {low}..{high}, got {short_repr(value)}")
    return int(value)


def check_one_of(name: str, value: Any, allowed: tuple[int, ...]) -> int:
    """`value` as an int if it is one of these, or a ValueError that lists them."""
    good = isinstance(value, Integral) and not isinstance(value, bool)
    if not good or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}, got {short_repr(value)}")
    return int(value)


def megabytes(variable: str, default: int, environ: Mapping[str, str]) -> int:
    """An environment variable in MB, as bytes, or a ValueError."""
    given = environ.get(variable) or str(default)
    if not (given.isdecimal() and int(given)):
        raise ValueError(f"{variable} must be a whole number of MB from 1 on, such as 512, got {given!r}")
    return int(given) * 2**20


def check_number(name: str, value: Any, low: float, high: float, above: bool = False) -> float:
    """`value` as a finite float in low..high (without low if `above`), or a ValueError."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    good = real and low <= value <= high  # false for NaN  # pyright: ignore[reportOperatorIssue] - as above
    if not good or (above and value == low):
        start = "above" if above else "from"
        raise ValueError(f"{name} must be a number {start} {low:g} up to {high:g}, got {short_repr(value)}")
    return float(value)


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """`value` if it is one of the allowed strings, or a ValueError that lists them."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {short_repr(value)}")
    return value


def check_flag(name: str, value: Any) -> bool:
    """`value` if it is True or False, or a ValueError."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {short_repr(value)}")
    return bool(value)


def seed_list(seeds: Any) -> tuple[int, ...]:
    """`seeds`, one number or up to MOST_SEEDS different ones, as a tuple; or a ValueError."""
    if isinstance(seeds, Integral):
        seeds = (seeds,)
    try:
        found = tuple(check_int("seed", seed, 0, 2**31 - 1) for seed in islice(seeds, MOST_SEEDS + 1))
    except TypeError:
        raise ValueError(f"seeds must be whole numbers such as range(3), got {short_repr(seeds)}") from None
    if not 1 <= len(found) <= MOST_SEEDS or len(set(found)) < len(found):
        wanted = f"one or more different whole numbers, up to {MOST_SEEDS}"
        raise ValueError(f"seeds must be {wanted}, got {short_repr(seeds)}")
    return found


def depth_list(depths: Any) -> list[int]:
    """`depths` sorted, each once, or a ValueError."""
    try:
        depths = sorted({check_int("depth", depth, 1, 64) for depth in depths})
    except TypeError:
        given = short_repr(depths)
        raise ValueError(f"depths must be several whole numbers such as range(1, 25), got {given}") from None
    if not depths:
        raise ValueError("depths must name at least one depth, got none")
    return depths
