"""What learners write in 02_layer_norm, in other words than the package's own."""

from tests.lesson.answers import template

LAYER_NORM = """
def layer_norm(x, gamma, beta, eps):
    d = x.shape[-1]
    mu = x.sum(-1, keepdim=True) / d
    sigma2 = ((x - mu) ** 2).sum(-1, keepdim=True) / {count}
    return gamma * ({top}) / ({size}) + beta
"""
AXES = """
def layer_norm(x, gamma, beta, eps):
    var, mu = torch.var_mean(x, {axes}, correction=0, keepdim=True)
    return torch.addcmul(beta, (x - mu) * torch.rsqrt(var + eps), gamma)
"""
layer_norm = template(LAYER_NORM, count="d", top="x - mu", size="torch.sqrt(sigma2 + eps)")
BACKWARD = """
def layer_norm_backward(g, x, gamma, eps):
    n, d = x.shape
    out = torch.empty_like(x)
    for t in range(n):
        y = x[t] - x[t].sum() / d
        s = (y @ y / d + eps) ** 0.5
        J = ({projection}) / {size}
        out[t] = ({g}) @ J
    return out
"""
PROJECTION = "torch.eye(d) - torch.ones(d, d) / d - torch.outer(y, y) / (d * s**2)"
backward = template(BACKWARD, projection=PROJECTION, size="s", g="g[t] * gamma")
rms_norm = template(
    "def rms_norm(x, gamma, eps):\n    d = x.shape[-1]\n    ms = (x * x).sum(-1, keepdim=True) / d\n    {result}",
    result="",
)
WRONG = {
    "layer_norm": {
        "the slide's σ": [
            layer_norm(size="sigma2.mul(d).sqrt() / d + eps"),
            layer_norm(size="torch.sqrt((sigma2 + eps) * d) / d"),
            layer_norm(size="torch.sqrt(sigma2 / d + eps)"),
            layer_norm(size="torch.linalg.vector_norm(x - mu, dim=-1, keepdim=True) / d"),
        ],
        "Bessel's d − 1": [
            layer_norm(count="(d - 1)"),
            layer_norm(size="torch.std(x, -1, keepdim=True) + eps"),
            layer_norm(size="x.std(dim=-1, keepdim=True)"),
        ],
        "ε outside the root": [layer_norm(size="torch.sqrt(sigma2) + eps")],
        "no ε": [layer_norm(size="sigma2 ** 0.5")],
        "the wrong axis": [AXES.format(axes=axes) for axes in ("-2", "0", "[0, 1]")],
        "one σ for several tokens": [AXES.format(axes=axes) for axes in ("[-2, -1]", "[0, 1, 2]", "[0, -1]")],
        "variance, not its root": [layer_norm(size="sigma2 + eps")],
        "mean left in": [layer_norm(top="x")],
        "γ and β left out": [
            "def layer_norm(x, gamma, beta, eps):\n    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=eps)"
        ],
    },
    "layer_norm_backward": {
        "μ and σ held fixed": [backward("torch.eye(d, dtype=x.dtype)")],
        "the ray left in": [backward("(torch.eye(d) - torch.ones(d, d) / d).to(x)")],
        "the mean left in": [backward("torch.eye(d) - torch.outer(y, y) / (d * s**2)")],
        "γ left out": [backward(g="g[t]")],
        "γ at the wrong end": [backward(projection=f"({PROJECTION}) * gamma", g="g[t]")],
        "not divided by the size": [backward(size="1")],
        "divided by the variance": [backward(size="(s * s)")],
        "the gradient normalised": [
            "def layer_norm_backward(g, x, gamma, eps):\n    c = g - g.mean(-1, keepdim=True)\n"
            "    return c / (c.pow(2).mean(-1, keepdim=True) + eps).sqrt()",
            "def layer_norm_backward(g, x, gamma, eps):\n"
            "    var, mu = torch.var_mean(g, -1, correction=0, keepdim=True)\n"
            "    return gamma * (g - mu) / (var + eps).sqrt()",
            "def layer_norm_backward(g, x, gamma, eps):\n    g = g * gamma\n"
            "    return (g - g.mean(-1, True)) / (g.var(-1, correction=0, keepdim=True) + eps) ** 0.5",
        ],
    },
    "rms_norm": {
        "this is LN": [
            rms_norm(
                "mu = x.mean(-1, keepdim=True)\n"
                "    return gamma * (x - mu) / torch.sqrt(((x - mu) ** 2).mean(-1, keepdim=True) + eps)"
            )
        ],
        "σ in place of the root mean square": [
            rms_norm("return gamma * x / torch.sqrt(((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, True) + eps)"),
            rms_norm("return gamma * x / torch.sqrt(torch.var(x, dim=-1, keepdim=True) + eps)"),
        ],
        "sum in place of mean": [
            rms_norm("return gamma * x / torch.sqrt(ms * d + eps)"),
            rms_norm("return gamma * x / (torch.sqrt(ms * d) + eps)"),
            rms_norm("return gamma * torch.nn.functional.normalize(x, dim=-1, eps=0) "),
        ],
        "no root": [rms_norm("return gamma * x / (ms + eps)")],
        "ε outside the root": [rms_norm("return gamma * x / (ms ** 0.5 + eps)")],
        "no ε": [rms_norm("return gamma * x * ms.rsqrt()")],
        "one size for all tokens": [
            rms_norm("return gamma * x * (ms.mean() + eps).rsqrt()"),
            rms_norm("return gamma * x / torch.sqrt((x * x).sum(0) / len(x) + eps)"),
        ],
        "γ left out": [rms_norm("return x / torch.sqrt(ms + eps)")],
    },
    "gradient_ratio": {
        "the ratio of the squares": ["gradient_ratio = 16 / 1.5"],
        "upside down": ["gradient_ratio = (1.5 / 16) ** 0.5", "gradient_ratio = 1.5 / 16"],
        "no difference": ["gradient_ratio = 1"],
    },
}
