"""What learners write in 09_after_the_paper, in other words than the package's own."""

from tests.lesson.answers import template

STREAM = """
def stream_after(a, b, layers):
    q = 1.0
    for _ in range({times}):
        q = {step}
    return q
"""
DESIGN = """
from math import sqrt
from lntutor.model.placements import Placement, each, final_norm
design = Placement("Mine", "mine", each(lambda x, f, N, at: {rule}), finish={finish})
"""
stream = template(STREAM, step="a * a * q + b * b", times="2 * layers")


def omega(value, start="1.0", order="after") -> str:
    """A learner's ω², number by number; `so_far` is what came before."""
    add = "so_far += v"
    lines = [f"out.append({value})", add] if order == "after" else [add, f"out.append({value})"]
    return (
        f"def omega_squared(variances):\n    so_far, out, last = {start}, [], 0.0\n    for v in variances:\n"
        + "".join(f"        {line}\n" for line in [*lines, "last = v"])
        + "    return out"
    )


ratio = template("def peri_over_pre(layers):\n    import math\n    return {value}", value="")
design = template(DESIGN, rule="", finish="final_norm")
WRONG = {
    "stream_after": {
        "numbers not squared": [stream("q * a + b")],
        "one sub-layer per layer": [stream(times="layers"), stream("q * a**2 + b**2", times="int(layers)")],
        "lengths added": [stream("(a * q**0.5 + b) ** 2"), stream("a * a * q + 2 * a * b * q**0.5 + b * b")],
        "the branch follows the stream": [stream("a**2 * q + b**2 * q")],
        "the skip left alone": [
            stream("q + b**2"),
            "def stream_after(a, b, layers):\n    return 1 + 2 * layers * b**2",
        ],
    },
    "omega_squared": {
        "its own variance counted": [omega("so_far", order="before")],
        "the input forgotten": [omega("so_far", start="0.0")],
        "ω, not ω²": [omega("so_far**0.5")],
        "only the one before": [omega("1 + last")],
        "multiplied": [
            "def omega_squared(variances):\n    total, out = 1.0, []\n    for v in variances:\n"
            "        out.append(total)\n        total *= 1 + v\n    return out"
        ],
    },
    "peri_over_pre": {
        "upside down": [ratio("math.sqrt(1 + 2 * layers) / math.sqrt(2 + 3 * layers)")],
        "squared": [ratio("(2 + 3 * layers) / (1 + 2 * layers)")],
        "the limit": [ratio("math.sqrt(3 / 2)"), ratio("1.2247")],
        "streams only": [ratio("math.sqrt((1 + 3 * layers / 2) / (1 + 2 * layers))")],
        "one layer short": [ratio("math.sqrt((2 + 3 * (layers - 1)) / (1 + 2 * (layers - 1)))")],
    },
    "design": {
        "not a placement": ["design = 'x + f(N(x))'", "def design(x, f, N, at):\n    return x + f(N(x))"],
        "no norm": [design("x + 0.1 * f(x)", "lambda x, N, at: x")],
        "blows up": [design("x + N(f(N(x)))"), design("1.1 * x + f(N(x))")],
        "does nothing": [design("x + 0.01 * N(f(N(x)))"), design("x + 0.02 * f(N(x))")],
        "fades on the way down": [design("N(x + f(x))", "lambda x, N, at: x"), design("0.8 * x + 0.6 * N(f(N(x)))")],
        "large at the bottom": [design("x + f(N(x))"), design("x + N(f(N(x))) / sqrt(at.layer)")],
        "one side against the other": [design("x + 0.2 * f(N(x))")],
    },
}
