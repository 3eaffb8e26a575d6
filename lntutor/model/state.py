"""A flat dict of settings, as the playground holds them: name → value.

`ffn` is a multiple of the width, `seeds` is the number of networks.
"""

from __future__ import annotations

from typing import Any

from lntutor.model.config import Inputs, ModelConfig
from lntutor.model.placements import Placement

_CONFIG, _INPUTS = ModelConfig(), Inputs()
DEFAULTS: dict[str, Any] = {
    "depth": _CONFIG.depth,
    "width": _CONFIG.width,
    "stack": _CONFIG.stack,
    "heads": _CONFIG.heads,
    "tokens": _INPUTS.tokens,
    "attention": _CONFIG.attention,
    "init": _CONFIG.init,
    "ffn": _CONFIG.ffn // _CONFIG.width,
    "output_projection": _CONFIG.output_projection,
    "norm": _CONFIG.norm,
    "seeds": 3,
}


def model_config(state: dict[str, Any], placement: Placement | str, **changes: Any) -> ModelConfig:
    """The config that a state describes, for one placement; `changes` replaces depth or width."""
    size = {"depth": state["depth"], "width": state["width"]} | changes
    same = ("heads", "stack", "attention", "init", "output_projection", "norm")
    return ModelConfig(placement, ffn=state["ffn"] * size["width"], **size, **{name: state[name] for name in same})


def model_inputs(state: dict[str, Any]) -> Inputs:
    """The inputs that a state describes."""
    return Inputs(tokens=state["tokens"])
