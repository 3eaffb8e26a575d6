"""How fast is Fig. 3c? The last layer's gradient for every depth from 1 to 24, Post-LN and Pre-LN, theorem setting.

Ours: `ln.last_layer_gradients`, one forward pass for all depths. Peer: one torch model per depth: draw its weights,
forward, backward, norm of the last W_2. Same weights, same threads, in turns, in one process.
Ratio: the peer's time over ours, both placements together, with all threads.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from torch.nn import functional as F

import lntutor as ln
from benchmarks._timing import exponent, machine, medians, options, show, show_ratio
from lntutor.measure.inputs import feed
from lntutor.model.weight_bank import Weights

DEPTHS, WIDTH, INPUTS = range(1, 25), 256, ln.Inputs(tokens=16)


def peer(placement: str, depths=DEPTHS, width: int = WIDTH, draw: bool = True) -> list[float]:
    """One model per depth; with freshly drawn weights, or with ours to compare the answers."""
    norms = []
    for depth in depths:
        cfg = ln.ModelConfig.theorem(placement, depth, width)
        kept, fed = Weights(cfg, (0,)), feed(cfg, INPUTS, (0,), torch.float32)
        layers = [
            [
                (torch.randn(width, width) / width**0.5 if draw else kept["encoder", l, block, name]).requires_grad_()
                for block, name in (("self", "W_V"), ("ffn", "W_1"), ("ffn", "W_2"))
            ]
            for l in range(1, depth + 1)
        ]
        x, norm = fed.sequences[0].x, (width,)
        for value, first, second in layers:
            if placement == "post":
                x = F.layer_norm(x + x.mean(0) @ value, norm)
                x = F.layer_norm(x + (x @ first).relu() @ second, norm)
            else:
                x = x + F.layer_norm(x, norm).mean(0) @ value
                x = x + (F.layer_norm(x, norm) @ first).relu() @ second
        loss = fed.loss(x if placement == "post" else F.layer_norm(x, norm))
        loss.backward()
        norms.append(float(layers[-1][2].grad.norm()))
        for w in (w for layer in layers for w in layer):
            w.requires_grad_(False).grad = None  # the weight bank gets its own back unchanged
    return norms


def ours(placement: str, depths=DEPTHS, width: int = WIDTH) -> np.ndarray:
    """The same by the package."""
    return ln.last_layer_gradients(ln.ModelConfig.theorem(placement, 1, width), depths, seeds=0, inputs=INPUTS)["value"]


def main() -> None:
    """Print the tables and the ratio."""
    args = options(
        __doc__, rounds=(3, 1), calls=(3, 1), deepest=((6, 12, 24, 48), (2, 4)), widths=((64, 128, 256, 512), (32, 64))
    )
    print(machine())
    rows, given = [], torch.get_num_threads()
    for threads in sorted({1, given}):
        torch.set_num_threads(threads)
        one, other = medians(
            *(lambda f=f: [f(p) for p in ("post", "pre")] for f in (ours, peer)), rounds=args.rounds, calls=args.calls
        )
        rows.append((threads, f"{1e3 * one:.1f}", f"{1e3 * other:.1f}", f"{other / one:.1f}", 30))
    torch.set_num_threads(given)
    show(rows, ("threads", "ours ms", "peer ms", "ratio", "goal"))
    worst = max(np.abs(ours(p) / peer(p, draw=False) - 1).max() for p in ("post", "pre"))
    print(f"same weights: norms differ by at most {worst:.1e}")
    assert worst < 1e-3
    growth = []
    for name, sizes, work in (
        ("deepest", args.deepest, lambda n: ours("pre", range(1, n + 1))),
        ("width", args.widths, lambda w: ours("pre", width=w)),
    ):
        seconds = [medians(lambda n=n, f=work: f(n), rounds=args.rounds)[0] for n in sizes]
        growth.append((name, list(sizes), [f"{1e3 * s:.0f}" for s in seconds], f"{exponent(sizes, seconds):.2f}"))
    show(growth, ("cost grows with", "sizes", "ms", "exponent"))
    show_ratio(other / one)


if __name__ == "__main__":
    main()
