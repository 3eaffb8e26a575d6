"""What learners write in 01_attention: exercise → mistake → sources, in other words than the package's own."""

from tests.lesson.answers import template

ATTENTION = """
def attention(q, k, v, mask=None):
    scores = torch.einsum("id,jd->ij", q, k) {scale}
    {before}
    weights = torch.exp(scores - scores.max()) / torch.exp(scores - scores.max()).sum({axis}, keepdim=True)
    {after}
    return weights @ v
"""
MASKED = "if mask is not None: scores = torch.where(mask, scores, torch.tensor(-1e9))"
attention = template(ATTENTION, scale="/ q.shape[1] ** 0.5", before=MASKED, axis=1, after="")
MULTI_HEAD = """
def multi_head(q, k, v, heads):
    n, d = q.shape
    def cut(x):
        return {cut}
    outs = torch.softmax(torch.matmul(cut(q), cut(k).transpose(-1, -2)) / {scale} ** 0.5, -1) @ cut(v)
    return {merge}
"""
CUT, MERGE = "x.reshape(n, heads, d // heads).permute(1, 0, 2)", "outs.permute(1, 0, 2).reshape(n, d)"
multi_head = template(MULTI_HEAD, cut=CUT, scale="(d // heads)", merge=MERGE)
causal_mask = template("def causal_mask(n):\n    return {value}", value="")
softmax_backward = template("def softmax_backward(p, g):\n    return {value}", value="")

WRONG = {
    "attention": {
        "missing √d": [attention(scale="")],
        "divided by d": [attention(scale="/ q.shape[1]")],
        "divided by √n": [attention(scale="/ len(q) ** 0.5")],
        "softmax over the wrong axis": [attention(axis=0)],
        "mask after the softmax": [
            attention(before="", after="if mask is not None: weights = weights * mask"),
            attention(before="", after="if mask is not None: weights[~mask] = float('-inf')"),
        ],
        "mask the wrong way round": [attention(before=MASKED.replace("mask, scores", "~mask, scores"))],
        "mask ignored": [attention(before="")],
    },
    "causal_mask": {
        "looks ahead": [causal_mask("torch.tensor([[j >= i for j in range(n)] for i in range(n)])")],
        "does not see itself": [causal_mask("torch.tensor([[j < i for j in range(n)] for i in range(n)])")],
        "True where hidden": [causal_mask("~torch.tril(torch.ones(n, n)).bool()")],
        "scores, not a mask": [
            "def causal_mask(n):\n    m = torch.zeros(n, n)\n    m[torch.triu(torch.ones(n, n), 1) > 0] = -torch.inf\n"
            "    return m"
        ],
        "nothing hidden": [causal_mask("torch.full((n, n), True)")],
    },
    "multi_head": {
        "tokens mixed into heads": [
            multi_head(cut="x.view(heads, n, d // heads)"),
            multi_head(cut="x.view(heads, n, d // heads)", merge="outs.view(n, d)"),
        ],
        "scaled by the whole width": [multi_head(scale="d")],
        "heads merged in the wrong order": [multi_head(merge="outs.reshape(n, d)")],
        "one head": [
            "def multi_head(q, k, v, heads):\n    return torch.softmax(q @ k.T / q.shape[1] ** 0.5, dim=1) @ v"
        ],
        "not merged": [multi_head(merge="outs"), multi_head(merge="outs.permute(1, 0, 2)")],
    },
    "softmax_backward": {
        "diagonal only": [softmax_backward("torch.einsum('ij,ij->ij', p, g)"), softmax_backward("(p - p**2) * g")],
        "a factor p is missing": [softmax_backward("g - torch.einsum('ij,ij->i', p, g)[:, None]")],
        "plain mean": [softmax_backward("p * g - p * g.sum(1, keepdim=True) / g.shape[1]")],
        "sum over the wrong axis": [
            softmax_backward("p * (g - torch.einsum('ij,ij->j', p, g))"),
            softmax_backward("p * g - p * torch.vdot(p.flatten(), g.flatten())"),
        ],
        "sign": [
            "def softmax_backward(p, g):\n    J = torch.einsum('ij,ik->ijk', p, p) - torch.diag_embed(p)\n"
            "    return torch.einsum('ijk,ik->ij', J, g)"
        ],
    },
}
