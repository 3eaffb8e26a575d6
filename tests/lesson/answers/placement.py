"""What learners write in 03_placement: exercise → mistake → sources, in other words than the package's own."""

from tests.lesson.answers import template

STACK = """
def stack(x, subs, N, norm_first):
    h = x.clone()
    for i in range(len(subs)):
        if norm_first:
            h = {pre}
        else:
            h = {post}
    if norm_first:
        h = {top}
    else:
        h = {post_top}
    return h
"""
stack = template(STACK, pre="subs[i](N(h)) + h", post="N(subs[i](h) + h)", top="N(h)", post_top="h")
growth = template("def pre_growth(layers, attentions):\n    return {formula}", formula="")
kept = template("import math\n\n\ndef kept(slope):\n    return {formula}", formula="")


def which(*answers: str) -> list[str]:
    return [f"which_placement = {answer!r}" for answer in answers]


PAIRS = """
def stack(x, subs, N, norm_first):
    for attention, ffn in zip(subs[::2], subs[1::2]):
        if norm_first:
            x = x + attention(N(x))
            x = x + ffn(N(x))
        else:
            x = N(x + attention(x))
            x = N(x + ffn(x))
    return x
"""
LOOP = """
def pre_growth(layers, attentions):
    q = 1.0
    for _ in range(layers):
        q = q + attentions * q
        q = q + q / 2
    return q
"""

WRONG = {
    "stack": {
        "no final norm": [stack(top="h"), PAIRS],
        "normalises the skip": [
            stack(pre="(lambda y: y + subs[i](y))(N(h))"), stack(pre="N(h) + subs[i](N(h))", top="h"),
        ],
        "final norm after Post-LN": [stack(post_top="N(h)")],
        "norm on the branch only": [stack(post="h + N(subs[i](h))"), stack(post="N(subs[i](h)) + h", top="h")],
        "no skip": [
            stack(pre="subs[i](N(h))", post="N(subs[i](h))"), stack(post="N(subs[i](h))"), stack(pre="subs[i](N(h))"),
        ],
        "the two are swapped": [
            stack(pre="N(h + subs[i](h))", post="h + subs[i](N(h))", top="h", post_top="N(h)"),
            stack(pre="N(h + subs[i](h))", post="h + subs[i](N(h))"),
        ],
        "norm_first ignored": [
            "def stack(x, subs, N, norm_first):\n    for f in subs:\n        x = N(f(x) + x)\n    return x",
            "def stack(x, subs, N, norm_first):\n    for f in subs:\n        x = f(N(x)) + x\n    return N(x)",
        ],
    },
    "pre_growth": {
        "forgets the attention": [growth("(2 + layers) / 2")],
        "forgets the FFN": [growth("1 + sum(attentions for _ in range(layers))")],
        "one attention only": [growth("(2 + 3 * layers) / 2")],
        "forgets ReLU's half": [growth("1 + layers * attentions + layers")],
        "multiplies": [
            growth("(1 + attentions + 1 / 2) ** layers"), growth("2 ** (attentions * layers) * 1.5 ** layers"),
        ],
        "forgets the input": [growth("layers * attentions + layers / 2")],
        "the size, not its square": [growth("(1 + layers * (attentions + 1 / 2)) ** 0.5")],
    },
    "kept": {
        "the negative half is lost": [kept("1 / 2"), kept("0.5 + 0 * slope")],
        "slope not squared": [kept("0.5 + slope / 2")],
        "a variance, not a mean square": [kept("0.5 + slope**2 / 2 - ((1 - slope) / math.sqrt(2 * math.pi)) ** 2")],
        "not halved": [kept("slope * slope + 1")],
        "the size, not its square": [kept("math.sqrt(0.5 + slope**2 / 2)")],
    },
    "which_placement": {
        "believes the comment": which("Post-LN", "post", "Post-norm."),
        "sees only the clean skip": which("pre", "Pre-LN"), "one norm too many": which("Peri-LN", "sandwich"),
    },
}  # fmt: skip
