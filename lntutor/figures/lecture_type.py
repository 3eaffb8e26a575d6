"""Whether type is large, for lectures: one switch for all figures, explorers and questions."""

from __future__ import annotations

import os

LECTURE = "LNTUTOR_LECTURE"  # set to 1: large type from the start
YES, NO = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")

_switch: list[bool] = []  # the last value given to `switch`; empty before


def lecturing(asked: bool | None = None) -> bool:
    """Whether type is large: as asked, else as the switch was last set, else as the environment says."""
    if asked is not None:
        return bool(asked)
    return _switch[0] if _switch else switched_on(LECTURE)


def switch(on: bool) -> None:
    """Set the switch for every figure from now on."""
    _switch[:] = [on]


def switched_on(variable: str) -> bool:
    """Whether a variable of the environment says yes; unset or empty means no."""
    value = os.environ.get(variable, "").lower()
    if value not in YES + NO:
        raise ValueError(f"{variable} must be 1 or 0 (or true, yes, on; false, no, off), got {value!r}")
    return value in YES
