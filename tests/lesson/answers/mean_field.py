"""What learners write in 04_mean_field, in other words than the package's own."""

from tests.lesson.answers import template

W2 = """
def w2_gradients(placement, depth, width):
    q = 1.0
    ups = []
    for _ in range(depth):
        for gain in (1.0, {half_up}):
            q_in = 1.0 if placement == "post" else q
            ups.append((gain, q_in))
            q = q_in + gain
    g = 1.0
    if placement == "pre":
        {final}
    out = []
    for i in range(2 * depth - 1, -1, -1):
        gain, q_in = ups[i]
        if placement == "post":
            g = g / (q_in + gain)
        if i % 2 == 1:
            out.insert({where}, ({result}))
        back = {back}
        g = g * (1 + back / q_in)
    return {returned}
"""
w2 = template(
    W2, half_up="0.5", final="g = 1 / q", where="0", result="(width / 2 * g) ** 0.5", back="gain", returned="out"
)
closed = template(
    """
def w2_gradients(placement, depth, width):
    if placement == "post":
        return [(width / 3) ** 0.5] * depth
    return [(width / 2 / (1 + 3 * layer / 2)) ** 0.5 for layer in {layers}]
""",
    layers="",
)
SLOPE = """
import math
def log_slope(x, y):
    a = [{fx} for v in x]
    b = [{fy} for v in y]
    ma, mb = sum(a) / len(a), sum(b) / len(b)
    top = sum((p - ma) * (r - mb) for p, r in zip(a, b))
    return {result}
"""
slope = template(SLOPE, fx="math.log(v)", fy="math.log(v)", result="top / sum((p - ma) ** 2 for p in a)")
BOUND = """
import math
def last_layer_bound(placement, depth, width):
    hidden = 2 * {log}
    size = {alpha} * (3 / 2 if placement == "post" else {pre})
    return {result}
"""
bound = template(
    BOUND, log="math.log(100 * width)", alpha="1 / 10", pre="1 + depth / 2", result="width * math.sqrt(hidden / size)"
)
WRONG = {
    "post_blank": {
        "2/3 without 3/2": ["post_blank = 1 / 1.5", "post_blank = 0.667", "post_blank = (2 / 3) ** 0.5"],
        "3/2 without 2/3": ["post_blank = 1 + 1 / 2"],
        "branch without the skip": ["post_blank = 2 / 3 * 1 / 2"],
    },
    "w2_gradients": {
        "2/3 without 3/2": [
            w2(back="gain if placement == 'pre' or gain == 1 else 0"),
            w2(back="0 if gain == 0.5 else gain"),
            w2(back="0"),
            w2(back="gain if placement == 'pre' else 0"),
        ],
        "forgets the final LN": [w2(final="pass"), w2(final="pass", back="0 if placement == 'pre' else gain")],
        "off by one layer": [closed("range(depth)"), closed("range(2, depth + 2)")],
        "from the top down": [w2(where="len(out)")],
        "squared norms": [w2(result="width / 2 * g")],
        "ReLU keeps everything": [
            w2(result="(width * g) ** 0.5"),
            w2(back="1"),
            w2(back="1", result="(width * g) ** 0.5"),
        ],
        "width left out": [w2(result="(g / 2) ** 0.5")],
    },
    "log_slope": {
        "linear in place of log–log": [slope(fx="float(v)", fy="float(v)")],
        "one axis only": [slope(fx="float(v)"), slope(fy="float(v)"), slope(fx="float(v)", fy="math.log10(v)")],
        "two bases": [slope(fx="math.log10(v)"), slope(fy="math.log10(v)")],
        "first and last point only": [slope(result="(b[-1] - b[0]) / (a[-1] - a[0])")],
        "axes exchanged": [slope(result="top / sum((r - mb) ** 2 for r in b)")],
        "intercept and slope exchanged": [
            "import numpy as np\n\n\ndef log_slope(x, y):\n    slope, start = np.polyfit(np.log(x), np.log(y), 1)\n"
            "    return start"
        ],
    },
    "last_layer_bound": {
        "base-10 logarithm": [bound(log="math.log10(100 * width)")],
        "true size in place of the lower bound": [bound(pre="1 + 3 * depth / 2")],
        "off by one layer": [bound(pre="1 + (depth + 1) / 2"), bound(pre="(depth + 1) / 2")],
        "α₀ left out": [bound(alpha="1")],
        "α₀ on the other side": [bound(alpha="10")],
        "ln d in place of ln(100d)": [bound(log="math.log(width)")],
        "one row of entries": [bound(result="math.sqrt(width * hidden / size)")],
        "squared": [bound(result="width**2 * hidden / size")],
    },
}
