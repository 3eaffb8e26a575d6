"""What learners write in 07_criticisms, in other words than the package's own."""

from tests.lesson.answers import template

ATTENTION = """
import torch
def zero_attention(X, W_V):
    n, d = X.shape
    V = torch.einsum("ia,ab->ib", X, W_V)
    return {value}
"""
KEYS = """
import math
import torch
def keys_in_use(P):
    safe = torch.where(P > 0, P, torch.ones_like(P))
    S = -(P * torch.log({logarithm})).sum(dim=1)
    return {value}
"""
VECTOR = """
import torch
from lntutor.lesson.exercises.criticisms import last_output
x = last_output()
no_gradient = {value}
"""
FACTORS = """
def layer_factors(v_a, c, v_f):
    below_ln = [1 / (1 + v) for v in (v_a, c, v_f)]
    return {value}
"""
attention = template(ATTENTION, value="")
keys = template(KEYS, value="torch.exp(S)", logarithm="safe")
vector = template(VECTOR, value="")
factors = template(FACTORS, value="")
WRONG = {
    "zero_attention": {
        "one over d": [attention("torch.stack([V.sum(0) / d] * n)"), attention("V.sum(dim=0) / d")],
        "one row": [attention("V.sum(0) / n"), attention("V.mean(dim=0)[None]")],
        "sum in place of mean": [attention("torch.stack([V.sum(0)] * n)"), attention("torch.ones(n, n).double() @ V")],
        "a linear layer": [attention("V"), attention("torch.eye(n).double() @ V")],
        "mean over features": [attention("V @ torch.ones(d, d).double() / d"), attention("V.sum(1) / d")],
        "W_V left out": [attention("torch.full((n, n), 1 / n).double() @ X"), attention("X.sum(0) / n")],
    },
    "keys_in_use": {
        "zero times a logarithm": [keys(logarithm="P")],
        "entropy itself": [keys("S")],
        "sign": [keys("torch.exp(-S)")],
        "two kinds of logarithm": [keys("torch.exp(S / math.log(2))"), keys("torch.pow(2.0, S)")],
        "a share": [keys("S.exp() / P.shape[-1]"), keys("S.exp() / torch.count_nonzero(P, dim=1)")],
        "all queries at once": [keys("S.mean().exp()"), keys("torch.exp(S).mean()"), keys("torch.exp(S.sum())")],
        "another count": [keys("(P * P).sum(1) ** -1.0"), keys("1 / P.max(dim=1).values")],
    },
    "no_gradient": {
        "not a vector": [vector("0"), vector("'x'"), vector("torch.zeros(3)")],
        "no loss at all": [vector("torch.zeros(64)")],
        "right direction, other length": [vector("x"), vector("torch.ones(64)")],
        "other length": [vector("1e-9 * torch.arange(64.0)"), vector("torch.eye(64)[0] * 3")],
        "an ordinary direction": [vector("torch.eye(64)[5]"), vector("x.flip(0) / x.norm()")],
        "smaller, not nothing": [
            vector("torch.nn.functional.normalize(x + 0.05 * torch.eye(64)[0] * x.norm(), dim=0)")
        ],
    },
    "layer_factors": {
        "appendix F": [factors("below_ln")],
        "LN left out": [factors("(1 + v_a, 1, 1 + v_f)"), factors("[1 / b for b in below_ln]")],
        "cross-attention returned": [factors("[1, 1, 1]"), factors("[b * (1 / b) for b in below_ln]")],
        "nothing through the skip": [
            factors("[1 - below_ln[0], 0, 1 - below_ln[2]]"),
            factors("[1 - b for b in below_ln]"),
        ],
        "norms in place of squares": [factors("[1, below_ln[1] ** 0.5, 1]")],
        "upside down": [factors("[1, 1 + c, 1]")],
        "one number": [factors("below_ln[1]"), factors("[below_ln[1]]")],
    },
    "convincing": {
        "true of every explanation": ['convincing = "b"', 'convincing = "B."'],
        "no control": ['convincing = "c"', 'convincing = "(c)"'],
        "two things changed": ['convincing = " D "'],
    },
}
