"""The learning rate and Adam's step: two small views of what moves the weights, before any model."""

from __future__ import annotations

from typing import Any, ClassVar

from lntutor import figures
from lntutor.explore import controls as c
from lntutor.explore.base import Explorer
from lntutor.figures.style import number
from lntutor.model.config import TrainConfig
from lntutor.page.kit.handles import Handle
from lntutor.training.optimizers import adam_over_runs, noisy_gradients, rates, spread_of_noise

STEPS = (50, 100, 200, 300, 600, 1000, 2000, 5000, 10_000, 20_000)
RUNS = (3, 10, 30, 100, 300)
SCHEDULES = {"inverse_sqrt": "1/√t", "linear": "to zero", "constant": "constant"}


class ScheduleExplorer(Explorer):
    """The learning rate at every step: drag the end of warm-up and the peak, and read how far the weights may go."""

    FIRST = ("warmup", "lr", "schedule", "steps", "read")
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "as in the lesson": {},
        "the paper's": {"warmup": 4000, "lr": 5e-4, "steps": 20_000, "read": 10_000},
        "the paper's “none”": {"warmup": 1, "lr": 1e-2},
        "constant": {"warmup": 0, "schedule": "constant"},
    }

    def make_controls(self):
        """The schedule, and the step up to which it is read."""
        return {
            "warmup": c.count_slider("Warm-up T", 200, 10_000, "Steps in which the rate grows to its peak"),
            "lr": c.log_slider("Peak rate", 1e-2, 1e-4, 1e-1, "The highest rate, at the end of the warm-up"),
            "schedule": c.choice("After it", "inverse_sqrt", SCHEDULES,
                                 "How the rate goes on: falling as √(T/t), on a line to zero, or constant"),
            "steps": c.step_slider("Steps", 600, STEPS, "Steps of the run"),
            "read": c.count_slider("Read at step", 300, 20_000, "The step at which the rate is read", low=1),
            "lecture": c.lecture_switch(),
        }  # fmt: skip

    def make_handles(self):
        return {
            "the_end": Handle("End of warm-up", "warmup"),
            "the_peak": Handle("Peak of the schedule", "warmup", "lr"),
            "the_step": Handle("Step that is read", "read", edge="top"),
        }

    def measure(self, state, quick):
        """Columns: step, value, sum."""
        if state["read"] > state["steps"]:
            raise ValueError(f"Read at step must be at most Steps, {state['steps']}, got {state['read']}.")
        return rates(TrainConfig(**{name: state[name] for name in ("warmup", "lr", "schedule", "steps")}))

    def draw(self, state, tables):
        """The rate, with the area up to the step that is read."""
        more = {"warmup": state["warmup"], "peak": state["lr"], "at": state["read"], "lecture": state["lecture"]}
        return figures.rate_by_step(tables, **more)

    def label(self, state) -> str:
        words = f"warm-up {state['warmup']}, peak {number(state['lr'])}, {SCHEDULES[state['schedule']]} after it"
        if state["schedule"] == "inverse_sqrt" and not state["warmup"]:
            words += ": without warm-up the root has no scale, and the rate is constant"
        return f"{words}, {state['steps']} steps"


def gradient_text(state: dict[str, Any]) -> str:
    """The gradient of Adam's one weight as a formula."""
    return f"g = {number(state['scale'])} × ({state['mean']:g} + {state['noise']:g} × noise)"


class AdamExplorer(Explorer):
    """Adam's step of one weight whose gradient is a mean and noise, in many runs: large first, whatever its size."""

    FIRST = ("mean", "noise", "scale", "beta1", "beta2", "uncorrected", "warmup")
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "pure noise": {},
        "a little mean": {"mean": 0.3},
        "the same every step": {"mean": 1.0, "noise": 0.0},
        "a thousand times larger": {"scale": 1000.0},
        "with warm-up": {"warmup": 50},
    }

    def make_controls(self):
        """The gradient, Adam's two averages, and what is drawn."""
        return {
            "mean": c.float_slider("Mean", 0.0, 0.0, 2.0, 0.05, "The part of the gradient that is always the same"),
            "noise": c.float_slider("Noise", 1.0, 0.0, 2.0, 0.05, "Standard deviation of the gradient's noise"),
            "scale": c.log_slider("Scale", 1.0, 1e-9, 1e3, "Mean and noise are multiplied by this"),
            "beta1": c.float_slider("β₁", 0.9, 0.0, 0.99, 0.01, "How much of the mean of gradients is kept each step"),
            "beta2": c.float_slider("β₂", 0.98, 0.0, 0.999, 0.001, "How much of the mean of squares is kept each step"),
            "warmup": c.count_slider("Warm-up T", 0, 1000, "Steps in which the learning rate grows to its peak"),
            "uncorrected": c.switch("Also without correction", False, "The averages as they are: they start at 0"),
            "steps": c.step_slider("Steps", 100, STEPS[:6], "Steps that are drawn"),
            "runs": c.step_slider("Runs", 100, RUNS, "How many runs, each with noise of its own"),
            "lecture": c.lecture_switch(),
        }

    def measure(self, state, quick):
        """Columns: correction, step, low, mean, high, spread, first."""
        if not state["mean"] and not state["noise"]:
            raise ValueError("Mean and Noise are both 0, so that there is no gradient: raise one of them.")
        size = {name: state["scale"] * state[name] for name in ("mean", "noise")}
        gradients = noisy_gradients(**size, steps=state["steps"], runs=state["runs"])
        return adam_over_runs(gradients, TrainConfig(warmup=state["warmup"]), (state["beta1"], state["beta2"]))

    def draw(self, state, tables):
        """The step and its spread; for pure noise, the spread in the long run."""
        limit = None if state["mean"] else spread_of_noise(state["beta1"])
        more = {name: state[name] for name in ("uncorrected", "runs", "lecture")}
        return figures.adam_by_step(tables, limit=limit, note=gradient_text(state), **more)

    def label(self, state) -> str:
        warm = f", warm-up {state['warmup']}" if state["warmup"] else ""
        betas = f"β = ({state['beta1']:g}, {state['beta2']:g})"
        return f"one weight, {gradient_text(state)}, {betas}, {state['runs']} runs{warm}"
