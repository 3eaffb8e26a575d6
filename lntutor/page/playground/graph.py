"""A placement's rule as a graph that the page can run: the rule's fourth reading.

The rule runs on registers, and every step that it takes is written down: `["sub", x, 0]` (the layer's first sub-layer,
of register x), `["norm", x]`, `["tanh", x]`, `["sum", x, y]`, `["scale", x, factor]`. A factor is a number, or an
expression in the variances that Admin measures. Steps are numbered on from the inputs, one per stream of the state.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby
from math import isfinite
from typing import Any

from lntutor.model.placements import STACKS, Arithmetic, Asked, Placement, SubLayers, blocks

DEEPEST = 48  # layers of a side in the page
PARAMETERS = ("W_Q", "W_K", "W_V", "W_O", "W_1", "W_2")


class Growth:
    """1 + Σ Var g over the sub-layers before one, and numbers made from it: known only once the network runs."""

    def __init__(self, expression: Any):
        self.expression = expression

    def _with(self, sign: str, other: Any, first: bool = True) -> Growth:
        given = other.expression if isinstance(other, Growth) else finite(other)
        return Growth([sign, self.expression, given] if first else [sign, given, self.expression])

    def __add__(self, other):
        return self._with("+", other)

    def __mul__(self, other):
        return other * self if isinstance(other, Register) else self._with("*", other)

    def __pow__(self, other):
        return self._with("**", other)

    def __radd__(self, other):
        return self._with("+", other, first=False)

    def __rmul__(self, other):
        return self._with("*", other, first=False)

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return other + -1.0 * self

    def __neg__(self):
        return -1.0 * self

    def __truediv__(self, other):
        return self * other**-1.0

    def __rtruediv__(self, other):
        return other * self**-1.0


def finite(number: Any) -> float:
    """A number as a float, or a TypeError or ValueError."""
    value = float(number)
    if not isfinite(value):
        raise ValueError(f"a factor must be a finite number, got {value}")
    return value


class Register(Arithmetic):
    """A signal of the page: a rule's steps on it are written to `steps`."""

    def __init__(self, steps: list, inputs: int, number: int | None = None, normed: bool = False):
        self.steps, self.inputs, self.normed = steps, inputs, normed  # normed: N made it, whatever its last step is
        self.number = inputs + len(steps) - 1 if number is None else number

    def then(self, kind: str, *details: Any) -> Register:
        self.steps.append([kind, self.number, *details])
        return Register(self.steps, self.inputs)

    def __add__(self, other: Register) -> Register:
        return self.then("sum", other.number)

    def __mul__(self, factor: Any) -> Register:
        return self.then("scale", factor.expression if isinstance(factor, Growth) else finite(factor))

    def tanh(self) -> Register:
        return self.then("tanh")

    def __bool__(self) -> bool:
        raise TypeError("a rule may not ask what is in a signal")


class SubLayer:
    """The f of a rule: its place in the layer, to be called with a register."""

    def __init__(self, place: int):
        self.place = place

    def __call__(self, x: Register) -> Register:
        return x.then("sub", self.place)


def growth(f: SubLayer) -> Growth:
    """What a rule is told of the sub-layers before f."""
    return Growth(["growth", f.place])


def written(rule: Callable, inputs: int, placement: Placement, at: Asked) -> dict[str, Any]:
    """The steps of rule(state, N), with the registers it returns, and of the last sum that a norm of it reads."""
    steps: list = []
    sums: list[int] = []

    def N(x: Register) -> Register:
        made = x.number - inputs
        if made >= 0 and steps[made][0] == "sum" and not x.normed:
            sums.append(x.number)
        y = placement.norm(x, at) if placement.norm else x.then("norm")
        return Register(steps, inputs, y.number, normed=True)

    state = tuple(Register(steps, inputs, i) for i in range(inputs))
    result = rule(state if inputs > 1 else state[0], N)
    out = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(x, Register) for x in out):
        raise TypeError("a rule must return the signals that it was given, or what it made of them")
    return {"inputs": inputs, "steps": steps, "out": [x.number for x in out], "sum": sums[-1] if sums else None}


class Export:
    """Everything that the page needs to build one placement at any depth; what is equal is written once."""

    def __init__(self, placement: Placement):
        self.placement = placement
        self.parts: list[Any] = []
        self._places: dict[str, int] = {}

    def part(self, value: Any) -> int:
        """The place of a program, or of a list of gains, in `parts`."""
        key = json.dumps(value, sort_keys=True)
        if key not in self._places:
            self._places[key] = len(self.parts)
            self.parts.append(value)
        return self._places[key]

    def graph(self) -> dict[str, Any]:
        """{"parts": …, "sides": {stack: {side: {depth: …}}}}; one depth, DEEPEST, stands for all if no rule asks."""
        sides = {stack: {side: self.side(stack, side) for side in stack.split("-")} for stack in STACKS}
        return {"deepest": DEEPEST, "parts": self.parts, "sides": sides}

    def side(self, stack: str, side: str) -> dict[str, Any]:
        """depth → start, layers, finish and the gain of the embedding."""
        known: dict[int, list] = {}  # layer → its parts, where they do not depend on the depth
        deepest, reads_depth = self.network(stack, side, DEEPEST, known)
        if not reads_depth:
            return {str(DEEPEST): deepest}
        return {str(depth): self.network(stack, side, depth, known)[0] for depth in range(1, DEEPEST + 1)}

    def network(self, stack: str, side: str, depth: int, known: dict) -> tuple[dict[str, Any], bool]:
        """One side at this depth, and whether anything in it asked for the depth."""
        placement = self.placement

        def at(layer):
            return Asked(side, layer, depth, stack, growth)

        first, last, asked, layers = at(0), at(depth + 1), set(), []
        start = written(lambda x, N: placement.start(x, N, first), 1, placement, first)
        streams, same = len(start["out"]), None  # same: the layer, where no layer asks which it is
        for layer in range(1, depth + 1):
            found = known.get(layer, same)
            if found is None:
                here = at(layer)
                found = self.layer(here, stack, streams)
                asked |= here.asked
                if not here.asked:
                    same = found
                elif "depth" not in here.asked:
                    known[layer] = found
                elif "layer" not in here.asked:
                    same = found
            layers.append(found)
        runs = [[len(list(run)), *parts] for parts, run in groupby(layers)]
        result = {
            "start": self.part(start),
            "embedding": finite(placement.gain(first, "embedding")),
            "layers": runs,
            "finish": self.part(written(lambda state, N: placement.finish(state, N, last), streams, placement, last)),
        }
        return result, "depth" in asked | first.asked or bool(last.asked)  # in `finish`, the layer tells the depth

    def layer(self, at: Asked, stack: str, streams: int) -> list[int]:
        """[program, gains, taps] of one layer, as places in `parts`."""
        placement = self.placement
        subs = SubLayers(SubLayer(i) for i in range(len(blocks(stack, at.side))))
        program = written(lambda state, N: placement.layer(state, subs, N, at), streams, placement, at)
        gains = [finite(placement.gain(at, parameter)) for parameter in PARAMETERS]
        taps = {
            name: self.part(written(lambda x, N, tap=tap: tap(x, N, at), 1, placement, at))
            for name, tap in placement.taps.items()
        }
        return [self.part(program), self.part(gains), self.part(taps)]


def exported(placement: Placement) -> dict[str, Any]:
    """The placement's graph, to be sent to the page as JSON; a ValueError says why a rule has none."""
    try:
        return Export(placement).graph()
    except Exception as error:
        raise ValueError(
            f"The page cannot run {placement.label}: its rule is more than sums, numbers, N(x), f(x) and tanh "
            f"({type(error).__name__}: {error}). Python can: ln.gradient_norms measures it"
        ) from error
