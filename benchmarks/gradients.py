"""How fast does a slider move answer? All gradient norms of a 6-6 model after the LN position changed.

Ours: `ln.gradient_norms`, weights kept, nothing else cached. Peer: what one would write with torch: build
`nn.Transformer`, forward, backward, norm of every matrix. Limit: the bare matrix products, which no method can avoid.
All take turns in one process, with the same threads. `--short` takes a few seconds.
"""

import sys
import warnings
from itertools import cycle
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import lntutor as ln
from benchmarks._timing import exponent, machine, medians, peak_flops, peak_memory, report_memory, show
from lntutor.measure.inputs import feed
from lntutor.model.parameters import matrices
from lntutor.model.weight_bank import Weights

SIZES = {  # name → config, inputs
    "large": (ln.ModelConfig(width=512, heads=8, ffn=2048), ln.Inputs(tokens=32)),
    "default": (ln.ModelConfig(), ln.Inputs(tokens=64)),
}
GOALS = {"large": 75, "default": 40}  # share of the limit in percent: time of the products / our time, one thread


def peer(cfg: ln.ModelConfig, inputs: ln.Inputs, norm_first: bool) -> list[float]:
    """A fresh nn.Transformer with a head: one forward and backward pass, then the norm of every matrix."""
    d, n = cfg.width, inputs.tokens
    model = nn.Transformer(
        d, cfg.heads, cfg.depth, cfg.depth, cfg.ffn, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    head = nn.Linear(d, inputs.vocab, bias=False)
    mask = nn.Transformer.generate_square_subsequent_mask(n)
    out = model(torch.randn(1, n, d), torch.randn(1, n, d), tgt_mask=mask)
    F.cross_entropy(head(out)[0], torch.randint(inputs.vocab, (n,))).backward()
    return [float(p.grad.norm()) for p in model.parameters() if p.dim() > 1]


def slider(cfg: ln.ModelConfig, inputs: ln.Inputs):
    """A function that moves the LN position to the other one and measures everything again."""
    positions = cycle(["post", "pre"])
    return lambda: ln.gradient_norms(cfg.with_(placement=next(positions)), seeds=0, inputs=inputs)


def disagreement(cfg: ln.ModelConfig, inputs: ln.Inputs) -> float:
    """Largest relative difference of a gradient norm between ours and nn.Transformer on the same weights."""
    weights, fed = Weights(cfg, (0,)), feed(cfg, inputs, (0,), torch.float32)
    norm_first = cfg.placement.key == "pre"
    model = nn.Transformer(
        cfg.width, cfg.heads, cfg.depth, cfg.depth, cfg.ffn, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    if not norm_first:
        model.encoder.norm = model.decoder.norm = None  # torch adds a norm on top that Post-LN does not have
    layers = {"encoder": model.encoder.layers, "decoder": model.decoder.layers}
    place = {}
    for m in matrices(cfg):
        layer = layers[m.side][m.layer - 1]
        attention = layer.multihead_attn if m.block == "cross" else layer.self_attn
        i = "QKV".find(m.parameter[-1])
        if m.block == "ffn":
            place[m.name] = (layer.linear1 if m.parameter == "W_1" else layer.linear2).weight, slice(None)
        elif i >= 0:
            place[m.name] = attention.in_proj_weight, slice(i * cfg.width, (i + 1) * cfg.width)
        else:
            place[m.name] = attention.out_proj.weight, slice(None)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_() if p.dim() == 1 else None
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                module.weight.fill_(1)
        for name, (p, rows) in place.items():
            p[rows] = weights[name].T
    mask = nn.Transformer.generate_square_subsequent_mask(inputs.tokens)
    fed.loss(model(*(s.x[None] for s in fed.sequences), tgt_mask=mask)[0]).backward()
    ours = ln.gradient_norms(cfg, seeds=0, inputs=inputs)
    theirs = [float(place[tuple(key)][0].grad[place[tuple(key)][1]].norm()) for key in ours.iloc[:, 3:7].to_numpy()]
    return float(np.abs(ours["value"] / theirs - 1).max())


def products(cfg: ln.ModelConfig, inputs: ln.Inputs):
    """A function that does only what no method can avoid: a product with every matrix, forward and back."""
    weights = Weights(cfg, (0,))
    kept = [weights[m.name] for m in matrices(cfg)]
    x = {width: torch.randn(inputs.tokens, width) for width in (cfg.width, cfg.ffn)}

    def run():
        for w in kept:
            x[w.shape[0]] @ w
        for w in reversed(kept):
            x[w.shape[1]] @ w.mT

    return run


def flops(cfg: ln.ModelConfig, inputs: ln.Inputs) -> float:
    """Multiplications and additions of `products`."""
    return 4 * inputs.tokens * sum(m.shape[0] * m.shape[1] for m in matrices(cfg))


def operators(cfg: ln.ModelConfig, inputs: ln.Inputs) -> int:
    """How many of torch's operators one answer calls, forward, back and for the norms."""
    move = slider(cfg, inputs)
    move()
    with torch.profiler.profile() as profile:
        move()
    return sum(event.count for event in profile.key_averages() if event.key.startswith("aten::"))


def growth() -> list[tuple]:
    """How the cost grows with depth and with width, fitted over the upper half of the sliders' range."""
    base, rows = ln.ModelConfig(), []
    for name, sizes in (("depth", [6, 12, 24, 48]), ("width", [128, 192, 256, 384, 512])):
        configs = [base.with_(**{name: size}, **({"ffn": 4 * size} if name == "width" else {})) for size in sizes]
        seconds = [medians(slider(cfg, ln.Inputs()), rounds=2)[0] for cfg in configs]
        rows.append((name, sizes, [f"{1e3 * s:.0f}" for s in seconds], f"{exponent(sizes, seconds):.2f}"))
    return rows


def main() -> None:
    """Print the tables; the last line is the ratio to the peer at the default size, with one thread."""
    if "--memory" in sys.argv:
        side, size = sys.argv[2:]
        cfg, inputs = SIZES[size]
        report_memory(slider(cfg, inputs) if side == "ours" else lambda: peer(cfg, inputs, False))
        return
    short = "--short" in sys.argv
    print(machine())
    warnings.filterwarnings("ignore", "enable_nested_tensor")  # nn.Transformer says so of every Pre-LN model
    rows, ratios, threads_given = [], {}, torch.get_num_threads()
    for name, (cfg, inputs) in SIZES.items():
        for threads in sorted({1} if short else {1, threads_given}):
            torch.set_num_threads(threads)
            norm_first = cycle([False, True])
            ours, theirs, least = medians(
                slider(cfg, inputs),
                lambda c=cfg, i=inputs, f=norm_first: peer(c, i, next(f)),
                products(cfg, inputs),
                rounds=2 if short else 4,
                calls=3 if short else 5,
            )
            ratios[name, threads] = theirs / ours
            numbers = [1e3 * ours, 1e3 * theirs, theirs / ours, 1e3 * least, 100 * least / ours, GOALS[name]]
            if not short:
                numbers.append(100 * flops(cfg, inputs) / ours / peak_flops())
                numbers += [peak_memory(__file__, side, name) for side in ("ours", "peer")]
            rows.append((name, threads, *(f"{n:.3g}" for n in numbers)))
    torch.set_num_threads(threads_given)
    names = ("size", "threads", "ours ms", "peer ms", "ratio", "products ms", "% of limit", "goal %")
    show(rows, names if short else (*names, "% of peak", "ours MB", "peer MB"))
    print("products: every weight matrix once forward and once back, nothing else; % of limit: their time / ours.")
    if short:
        print(f"ratio {ratios['default', 1]:.1f}")
        return
    for name, (cfg, inputs) in SIZES.items():
        traffic = 8 * sum(m.shape[0] * m.shape[1] for m in matrices(cfg)) / 1e6
        print(f"what sets our time, {name}: {operators(cfg, inputs)} operators, {traffic:.0f} MB of weights to read")
    worst = max(disagreement(c.with_(placement=p), i) for c, i in SIZES.values() for p in ("post", "pre"))
    print(f"same weights, both placements, both sizes: norms differ by at most {worst:.1e}")
    assert worst < 1e-3
    show(growth(), ("cost grows with", "sizes", "ms", "exponent"))
    print(f"ratio {ratios['default', 1]:.1f}")


if __name__ == "__main__":
    main()
