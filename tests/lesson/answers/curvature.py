"""What learners write in 08_curvature, in other words than the package's own."""

from tests.lesson.answers import template

STEP = """
def lanczos_step(A, Q):
    w = {product}
    for q in {rows}:
        w = w - torch.dot(q, w) * q
    return {value}
"""
SHARE = """
def share_below(T, x):
    theta, U = torch.linalg.eigh(T)
    total = 0.0
    for j in range(len(theta)):
        if theta[j] {than} x:
            total = total + {weight}
    return {value}
"""
quotient = template("def rayleigh(v, Hv):\n    return {value}", value="")
step = template(STEP, product="A @ Q[-1]", rows="Q", value="w / torch.linalg.norm(w)")
share = template(SHARE, weight="U[0, j] ** 2", than="<", value="total")
rate = template(
    "def highest_rate(eigenvalues):\n    top = torch.sort(eigenvalues).values[-1]\n    return {value}", value=""
)
threshold = template("def stable_curvature(rate, beta):\n    return {value}", value="")
WRONG = {
    "rayleigh": {
        "not divided": [quotient("(v * Hv).sum()"), quotient("v.dot(Hv)")],
        "divided by the length": [quotient("(v * Hv).sum() / (v * v).sum() ** 0.5")],
        "size of the product": [quotient("torch.sqrt((Hv**2).sum() / (v**2).sum())")],
        "divided by the wrong length": [
            quotient("torch.cosine_similarity(v, Hv, dim=0)"), quotient("v @ Hv / torch.sqrt(Hv @ Hv)"),
        ],
        "upside down": [quotient("v.dot(v) / v.dot(Hv)")],
        "sign lost": [quotient("abs(v @ Hv / v.dot(v))")],
        "entry by entry": [quotient("torch.mean(Hv / v)")],
    },
    "lanczos_step": {
        "only the last two": [step(rows="Q[-2:]"), step(rows="reversed(Q[-2:])")],
        "forgets q_{k−1}": [step(rows="[Q[-1]]")],
        "forgets q_k": [step(rows="Q[:-1]")],
        "the power method": [step(rows="[]")],
        "not normalised": [step(value="w")],
        "normalised too early": [step(product="torch.nn.functional.normalize(A @ Q[-1], dim=0)", value="w")],
        "multiplies another row": [step(product="A @ Q[0]")],
        "turned around": [step(value="-w / w.norm()")],
    },
    "share_below": {
        "all counted alike": [
            share(weight="1 / len(theta)"), share(weight="(U[:, j] ** 2).sum()", value="total / len(T)"),
        ],
        "counted, not shared": [share(weight="1"), share(weight="(U[:, j] ** 2).sum()")],
        "not squared": [share(weight="U[0, j].abs()"), share(weight="U[0, j]")],
        "last entries": [share(weight="U[-1, j].square()")],
        "a column for a row": [share(weight="U[j, 0].square()")],
        "the share above": [share(than=">")],
    },
    "highest_rate": {
        "the best rate, not the highest": [rate("1 / top")],
        "upside down": [rate("top / 2"), rate("top")],
        "the farther end": [rate("2 / max(abs(x) for x in eigenvalues)"), rate("2 / eigenvalues.norm(p=float('inf'))")],
        "the lower end": [rate("2 / torch.sort(eigenvalues).values[0]"), rate("2 / abs(min(eigenvalues))")],
        "a typical curvature": [
            rate("2 * len(eigenvalues) / eigenvalues.sum()"), rate("2 / (eigenvalues**2).mean() ** 0.5"),
            rate("2 / torch.mean(torch.abs(eigenvalues))"),
        ],
    },
    "stable_curvature": {
        "no momentum": [threshold("2.0 / rate")],
        "the other momentum": [threshold("(2 + 2 * beta) / rate")],
        "upside down": [threshold("2 / rate * (1 - beta) / (1 + beta)"), threshold("(2 - 2 * beta) / rate")],
        "new gradient only": [threshold("2 / rate / (1 - beta)")],
        "the rate on the wrong side": [
            threshold("(2 + 2 * beta) * rate / (1 - beta)"), threshold("(2 + 2 * beta) / (1 - beta)"),
        ],
    },
}  # fmt: skip
