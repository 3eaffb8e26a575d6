"""What learners write in 05_gradients: exercise → mistake → sources, in other words than the package's own."""

from tests.lesson.answers import template

NORM = """
def gradient_norm(X, G):
    pairs = {pairs}
    return {value}
"""
FACTOR = """
def decoder_factor(v_a, p, rho):
    n, own = len(p), sum(w * w for w in p)
    A = {mean}
    return {value}
"""
norm = template(NORM, pairs="torch.einsum('ia,ja,ib,jb->ij', X, X, G, G)", value="torch.sqrt(pairs.sum())")
factor = template(FACTOR, mean="rho + (1 - rho) * own", value="(1 + v_a * A) ** -0.5")
WRONG = {
    "fall_per_layer": {
        "six steps": ["fall_per_layer = (1.55 / 3.96) ** (1 / 6)"],
        "upside down": ["fall_per_layer = 2.6 ** 0.2", "fall_per_layer = (3.96 / 1.55) ** 0.2"],
        "the whole fall": ["fall_per_layer = 1.55 / 3.96", "fall_per_layer = 2.6"],
        "an equal share": ["fall_per_layer = 2.55 / 5", "fall_per_layer = 1 - (1 - 0.39) / 5"],
        "read in the encoder": ["fall_per_layer = (3.29 / 3.58) ** 0.2", "fall_per_layer = (3.58 / 3.29) ** (1 / 5)"],
        "read off the paper": ["fall_per_layer = (0.06 / 1.3) ** 0.2"],
        "the paper's factor": ["fall_per_layer = (2 / 3) ** 0.5"],
    },
    "gradient_norm": {
        "forgets the root": [norm(value="pairs.sum()")],
        "forms the gradient": [
            norm("X.T @ G", "pairs.norm()"),
            norm("torch.einsum('ni,nj->ij', X, G)", "pairs.norm()"),
        ],
        "pairs of features": [
            norm("torch.einsum('ia,ib->ab', X, X) * torch.einsum('ia,ib->ab', G, G)", "pairs.sum().abs() ** 0.5"),
            norm("X.T.matmul(X).mul(G.T.matmul(G))", "pairs.sum()"),
        ],
        "tokens one by one": [norm("torch.linalg.norm(X, dim=1) * torch.linalg.norm(G, dim=1)", "pairs.norm()")],
        "product of norms": [norm("(X**2).sum() * (G**2).sum()", "pairs**0.5")],
        "matrix product": [
            norm("torch.einsum('ia,ja,jb,kb->ik', X, X, G, G)", "torch.sqrt(torch.abs(pairs.sum()))"),
            norm("torch.matmul(X.mm(X.T), G.mm(G.T))", "torch.sum(pairs)"),
        ],
    },
    "decoder_factor": {
        "squared": [factor(value="1 / (1 + v_a * A)")],
        "upside down": [factor(value="(1 + v_a * A) ** 0.5")],
        "attention taken as uniform": [factor(mean="1 / n + (n - 1) / n * rho")],
        "tokens counted as independent": [factor(mean="own")],
        "tokens counted as one": [factor(mean="1"), factor(mean="sum(p) ** 2")],
        "pairs counted with themselves": [factor(mean="own + rho * sum(p) ** 2")],
        "gain left out": [factor(value="(1 + A) ** -0.5")],
        "skip left out": [factor(value="(v_a * A) ** -0.5")],
        "the variance alone": [factor(value="A"), factor(value="v_a * A")],
        "gradient returned": [factor(value="((1 + v_a * A) / (1 + v_a * A)) ** 0.5")],
    },
    "why_decoder": {
        "the mask": ['why_decoder = "a"', 'why_decoder = "A."'],
        "distance from the loss": ['why_decoder = "c"', 'why_decoder = "(c)"'],
        "the norm alone": ['why_decoder = " D "'],
    },
    "pre_is_larger": {
        "Post-LN is larger": [
            'pre_is_larger = {"depth": 2, "width": 64}',
            'pre_is_larger = {"width": 64, "stack": "encoder", "init": "theory", "attention": "uniform"}',
        ],
        "larger, not ten times": ['pre_is_larger = {"depth": 6, "width": 64}'],
    },
}
