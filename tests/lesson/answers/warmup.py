"""What learners write in 06_warmup, in other words than the package's own."""

from tests.lesson.answers import template

RATE = """
import math
def learning_rate(t, T, lr):
    if {first}:
        return {up}
    return {down}
"""
ADAM = """
import torch
def adam_step(g, m, v, t, lr, b1={b1}, b2={b2}, eps=1e-8):
    m = {m}
    v = {v}
    m_hat = {m_hat}
    v_hat = {v_hat}
    return {value}
"""
PRECISION = """
def modified_precision(candidate, reference, n):
    theirs = [{theirs} for i in range({windows_r})]
    left = list(theirs)
    hits = 0
    ours = [{ours} for i in range({windows_c})]
    for gram in ours:
        if gram in left:
            hits += 1
            {used}
    return {value}
"""
RUN = """
import lntutor as ln
model = ln.ModelConfig("{placement}", depth={depth}, width=64, heads=4, ffn=256)
how = ln.TrainConfig({how}, batch={batch}, schedule="{schedule}", validate_every=1000)
rescue = ln.train(model, how, ln.load_corpus("captions"), pairs=0, progress=False)
"""
rate = template(RATE, first="t < T", up="lr * t / T", down="lr * math.sqrt(T) / math.sqrt(t)")
adam = template(
    ADAM, b1="0.9", b2="0.98", m="m + (1 - b1) * (g - m)", v="v + (1 - b2) * (g.square() - v)",
    m_hat="m / (1 - pow(b1, t))", v_hat="v / (1 - pow(b2, t))", value="-lr * m_hat / (torch.sqrt(v_hat) + eps)",
)  # fmt: skip


def precision(
    gram="'{}'[i : i + n]", windows="len({}) - n + 1", used="left.remove(gram)", value="hits / len(ours)"
) -> str:
    """A learner's precision with one thing changed; {} stands for either sentence."""
    gram = gram.replace("'{}'", "{}")
    return PRECISION.format(
        theirs=gram.format("reference"), ours=gram.format("candidate"), windows_r=windows.format("reference"),
        windows_c=windows.format("candidate"), used=used, value=value,
    )  # fmt: skip


farther = template(
    "def times_farther(k):\n    sgd = {sgd}\n    adam = {adam}\n    return sgd, adam", sgd="k", adam="k**0.5"
)
run = template(RUN, how="", placement="post", depth=2, batch=1, schedule="constant")
# When a rate of 100 leads to NaN depends on the processor: so the run is only said to have diverged.
DIVERGED = (
    run("lr=100, warmup=2, steps=4")
    + "\nfrom dataclasses import replace\n\nrescue = replace(rescue, status='diverged')"
)
learning_rate = template("def learning_rate(t, T, lr):\n    return {value}", value="")

WRONG = {
    "learning_rate": {
        "first step wasted": [
            rate(first="t <= T", up="lr * (t - 1) / T"), rate(first="t - 1 < T", up="lr * (t - 1) / T"),
            rate(first="t <= T", up="lr * (t - 1) / T", down="lr * math.sqrt(T / (t - 1))"),
        ],
        "one step ahead": [
            rate(first="t <= T", up="lr * (t + 1) / T"),
            "def learning_rate(t, T, lr):\n    s = t + 1\n    return lr * min(s / T, (T / s) ** 0.5)",
            rate(first="t < T", up="lr * (t + 1) / T"),
        ],
        "no decay": [rate(down="lr"), learning_rate("min(lr, t / T * lr)")],
        "jumps after T": [
            rate(first="t <= T", down="lr / math.sqrt(t)"), rate(first="t <= T", down="lr * t ** -0.5"),
            rate(first="t < T", down="lr / math.sqrt(t)"),
        ],
        "the clock starts anew": [
            rate(first="t <= T", down="lr / math.sqrt(t - T)"), rate(down="lr / math.sqrt(t - T + 1)"),
            rate(first="t <= T", down="lr * min(1, (T / (t - T)) ** 0.5)"),
            rate(first="t <= T", down="lr * (T / (t - T)) ** 0.5"),
        ],
        "no warm-up": [learning_rate("lr / t**0.5"), learning_rate("(T / t) ** 0.5 * lr"), rate(up="lr")],
        "decays from the start": [
            "def learning_rate(t, T, lr):\n    warm = t / T if t < T else 1\n    return lr * warm * t**-0.5",
            learning_rate("lr * (t / T) ** 0.5"), learning_rate("lr / T * t**0.5"),
        ],
        "without the root": [rate(down="lr * T / t")],
        "a straight line down": [rate(down="lr - lr * (t - T) / T"), rate(down="max(0, lr * (2 * T - t) / T)")],
        "grows after T": [rate(down="lr * math.sqrt(t) / math.sqrt(T)"), learning_rate("lr / T * t")],
        "the larger of the two": [rate(first="t > T"), rate(first="T < t")],
        "peak left out": [rate(up="t / T", down="math.sqrt(T / t)")],
    },
    "adam_step": {
        "no bias correction": [adam(m_hat="m", v_hat="v")],
        "v not corrected": [adam(v_hat="v")],
        "m not corrected": [adam(m_hat="m")],
        "forgets the root": [adam(value="-lr * m_hat / (v_hat + eps)")],
        "ε inside the root": [adam(value="-lr * m_hat / torch.sqrt(v_hat + eps)")],
        "ε left out": [adam(value="-lr * m_hat / v_hat.sqrt()")],
        "β₁ and β₂ exchanged": [adam(b1="0.98", b2="0.9"), adam(b1="0.98"), adam(b2="0.9")],
        "new and old exchanged": [adam(m="m + b1 * (g - m)", v="v + b2 * (g**2 - v)")],
        "the other way": [adam(value="lr * m_hat / (v_hat**0.5 + eps)")],
        "no momentum": [adam(value="-lr * g / (v_hat**0.5 + eps)")],
        "averages not updated": [adam(m="m", v="v")],
        "counts from 0": [adam(m_hat="m / (1 - b1 ** (t - 1))", v_hat="v / (1 - b2 ** (t - 1))")],
    },
    "modified_precision": {
        "no clipping": [precision(used="pass")],
        "sets": [
            precision(
                used="left = [other for other in left if other != gram]", value="hits / len({*map(tuple, ours)})",
            ),
        ],
        "clipped at one": [precision(used="left = [other for other in left if other != gram]")],
        "recall": [precision(value="hits / len(theirs)"), precision(value="hits / len(reference)")],
        "divides by words": [precision(value="hits / len(candidate)")],
        "n ignored": [precision(gram="'{}'[i]", windows="len({})")],
        "last one left out": [precision(windows="len({}) - n")],
        "order ignored": [precision(gram="sorted('{}'[i : i + n])")],
        "per cent": [precision(value="100 * hits / len(ours)")],
    },
    "times_farther": {
        "Adam moves all alike": [farther(adam="1")],
        "v left out": [farther(adam="1 / (1 / k)")],
        "rare ahead under Adam": [farther(adam="1 / k"), farther(adam="1 / k**0.5")],
        "upside down": [farther("1 / k", "1 / k**0.5")],
        "exchanged": [farther("k**0.5", "k")],
        "SGD moves all alike": [farther("1", "1"), farther("1"), farther("1", "k")],
        "a root under SGD": [farther("k**0.5"), farther("k**0.5", "1")],
    },
    "rescue": {
        "not a run": [
            "import lntutor as ln\nrescue = ln.TrainConfig(lr=1e-2, warmup=100)", "rescue = 2.1", "rescue = []",
        ],
        "another placement": [run("lr=1e-2, steps=3", placement="pre")],
        "another model": [run("lr=1e-2, steps=3", depth=1)],
        "another optimiser": [run("'radam', lr=1e-2, steps=3")],
        "a lower rate": [run("lr=5e-3, warmup=2, steps=3")],
        "the rate falls away": [run("lr=1e-2, warmup=1, steps=4", schedule="inverse_sqrt")],
        "diverged": [DIVERGED],
        "clipped in place of warmed up": [run("lr=1e-2, clip=1.0, steps=4")],
        "full rate from the first step": [run("lr=1e-2, steps=4")],
        "gets there too late": [run("lr=1e-2, warmup=300, steps=4")],
        "ended too soon": [run("lr=1e-2, warmup=4, steps=8")],
        "too short a warm-up": [run("lr=1e-2, warmup=10, steps=300")],
        "learns too slowly": [run("lr=1e-2, warmup=150, steps=300")],
    },
}  # fmt: skip
