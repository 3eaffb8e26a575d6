"""What is handed to a figure is looked at before it is drawn: plotly would draw nonsense, or stop far away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from lntutor.config import shown


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _is_pinned(value: Any) -> bool:
    pairs = isinstance(value, tuple | list) and all(isinstance(part, tuple) and len(part) == 2 for part in value)
    return pairs and all(isinstance(table, pd.DataFrame) for _, table in value)


KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {  # as annotations of figures spell them
    "pd.DataFrame": (
        lambda value: value is None or isinstance(value, pd.DataFrame),
        "a table",
    ),  # None: one without rows
    "str": (lambda value: isinstance(value, str), "words"),
    "bool": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
    "int": (lambda value: isinstance(value, Integral) and not isinstance(value, bool), "a whole number"),
    "float": (lambda value: isinstance(value, Real) and not isinstance(value, bool), "a number"),
    "tuple[int, ...]": (lambda value: isinstance(value, tuple | list), "a list of whole numbers"),
    "tuple[str, str]": (_is_pair, "two words in a tuple"),
    "Pinned": (_is_pinned, "a list of (words, table)"),
    "Mapping[str, np.ndarray]": (lambda value: isinstance(value, Mapping), "a dict of vectors"),
    "dict[str, tuple[float, float]]": (lambda value: isinstance(value, Mapping), "a dict of pairs of numbers"),
    "None": (lambda value: value is None, "None"),
}


def checked(figure: Callable[..., go.Figure]) -> Callable[..., go.Figure]:
    """The same figure, which refuses an argument of another kind than its annotation with a ValueError."""
    found = signature(figure)
    wanted = {name: str(parameter.annotation).split(" | ") for name, parameter in found.parameters.items()}
    wanted = {name: [KINDS[word] for word in words] for name, words in wanted.items() if {*words} <= {*KINDS}}

    @wraps(figure)
    def draw(*args, **options) -> go.Figure:
        for name, value in found.bind(*args, **options).arguments.items():
            kinds = wanted.get(name, [])
            if kinds and not any(fits(value) for fits, _ in kinds):
                raise ValueError(f"{name} must be {' or '.join(words for _, words in kinds)}, got {shown(value)}")
        return figure(*args, **options)

    return draw
