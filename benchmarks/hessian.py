"""Products with the Hessian: ours against PyHessian and curvlinops, on the same model and the same 1000 pairs.

Each runs in its own process and makes one product per request: they take turns, so that a busy machine slows all, and
peak memory is measured per process. All use our Lanczos (PyHessian's own needs torch.eig, which torch has removed), so
that the largest eigenvalues after equally many products can be compared. curvlinops is measured where it is installed;
its eigenvalues are shown and not compared: in float64 on a 2-2 twin of width 16, its product (3.0.1, torch 2.13) was
3 % away from that of a second backward pass, with which `torch.func.jvp` over `grad` agreed to 1e-15.
Ratio: the time of PyHessian with a padded loader over ours with memory=8e8.

    python benchmarks/hessian.py [--placement pre] [--depth 6] [--width 64] [--pairs 1000] [--products 25]
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks._timing import machine, options, peak_kilobytes, show, show_ratio
from lntutor.curvature.hessian import Operator, by_length
from lntutor.curvature.lanczos import Lanczos, start_vector
from lntutor.model.config import Batch, ModelConfig
from lntutor.text.corpus import PAD, load_corpus
from lntutor.training.network import Learner
from tests.reference import Twin

SIZE = 64  # sentences per batch, as a user would choose
GOALS = {"time": 2.0, "memory": 1.5}
LITTLE = 8e8  # bytes, so few that most graphs are built again for every product; the goals are for this setting
CONTENDERS = {  # name → (title, batches)
    "lntutor": ("lntutor", "sorted"),
    "lntutor_small": ("lntutor, memory=8e8", "sorted"),
    "pyhessian": ("PyHessian, padded loader", "padded"),
    "pyhessian_sorted": ("PyHessian, our batches", "sorted"),
    "pyhessian_one": ("PyHessian, one batch", "one"),
    "curvlinops": ("curvlinops, padded loader", "padded"),
}


# One process per contender -------------------------------------------------------------------------------------


def batches(args) -> list[Batch]:
    """The first pairs of the validation split: in their order and padded, sorted by length, or all in one batch."""
    corpus, kind = load_corpus("captions"), CONTENDERS[args.contender][1]
    if kind == "sorted":
        return by_length(corpus, "val", args.pairs)
    size = args.pairs if kind == "one" else SIZE
    return [corpus.batch("val", list(range(i, min(i + size, args.pairs)))) for i in range(0, args.pairs, size)]


class OneInput(torch.nn.Module):
    """The twin with source and target in one tensor of word numbers, as both peers need it."""

    def __init__(self, twin: Twin):
        super().__init__()
        self.twin = twin

    def forward(self, both):
        n = int(both[0, 0])  # the first column is the source's length
        return self.twin(both[:, 1 : n + 1], both[:, n + 1 :]).flatten(0, 1)


def as_tensors(parts: list[Batch]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(inputs, labels) of every batch; the first column is the source's length."""
    return [
        (torch.from_numpy(np.hstack([np.full((len(b.source), 1), b.source.shape[1]), b.source, b.target])),
         torch.from_numpy(b.labels))
        for b in parts
    ]  # fmt: skip


def peer(args, learner: Learner, parts: list[Batch]) -> tuple[Callable, int]:
    """A peer's product with a flat vector, and the size of one."""
    data, words = as_tensors(parts), sum(int((b.labels != PAD).sum()) for b in parts)
    model = OneInput(Twin(learner).float())

    def loss(out, labels):  # PyHessian weights by sentences; the sum is then the mean over words
        total = F.cross_entropy(out, labels.flatten(), ignore_index=PAD, reduction="sum")
        return total * (args.pairs / words / len(labels))

    shapes = [p.shape for p in model.parameters()]
    sizes = [s.numel() for s in shapes]

    def split(v):
        return [part.view(shape) for part, shape in zip(v.split(sizes), shapes, strict=True)]

    if args.contender == "curvlinops":
        from curvlinops import HessianLinearOperator

        params = [p for p in model.parameters() if p.requires_grad]
        operator = HessianLinearOperator(
            model, _SumOfWords(words), params, data, check_deterministic=False, num_data=args.pairs
        )
        return lambda v: torch.cat([p.reshape(-1) for p in operator @ split(v)]), sum(sizes)
    from pyhessian import hessian
    from pyhessian.utils import hessian_vector_product

    if args.contender == "pyhessian_one":
        one = hessian(model, loss, data=data[0], cuda=False)
        return (
            lambda v: torch.cat([p.reshape(-1) for p in hessian_vector_product(one.gradsH, one.params, split(v))]),
            sum(sizes),
        )
    model.zero_grad()
    for p in model.parameters():
        p.grad = torch.zeros_like(p)  # PyHessian's constructor reads gradients
    many = hessian(model, loss, dataloader=data, cuda=False)
    return lambda v: torch.cat([p.reshape(-1) for p in many.dataloader_hv_product(split(v))[1]]), sum(sizes)


class _SumOfWords(torch.nn.CrossEntropyLoss):
    """Cross-entropy over words, scaled so that curvlinops' sum over batches is the mean over all words."""

    def __init__(self, words: int):
        super().__init__(ignore_index=PAD, reduction="sum")
        self.words = words

    def forward(self, out, labels):
        return super().forward(out, labels.flatten()) / self.words


def child(args) -> None:
    """Build, then make one product per input line and print its seconds; at the end, print the other results."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    corpus = load_corpus("captions")
    cfg = ModelConfig(args.placement, depth=args.depth, width=args.width, heads=4, ffn=4 * args.width)
    learner, parts = Learner(cfg, (len(corpus.source), len(corpus.target)), pad=PAD), batches(args)
    before, started = peak_kilobytes(), time.perf_counter()
    with sdpa_kernel(SDPBackend.MATH):  # torch's fast attention has no second derivative
        if args.contender in ("lntutor", "lntutor_small"):
            operator = Operator(learner, parts, memory=args.memory if args.contender == "lntutor" else LITTLE)
            matvec, size = operator.matvec, operator.size
        else:
            learner = Learner(cfg, (len(corpus.source), len(corpus.target)), pad=PAD, dtype=torch.float64)
            matvec, size = peer(args, learner, parts)
        run = Lanczos(matvec, start_vector(size, 0))
        print(time.perf_counter() - started, flush=True)
        for _ in sys.stdin:
            started = time.perf_counter()
            run.step()
            print(time.perf_counter() - started, flush=True)
    ritz = run.ritz()
    ends = {"top": float(ritz.values[-1]), "error": float(ritz.residuals[-1]), "low": float(ritz.values[0])}
    print(json.dumps(ends | {"megabytes": (peak_kilobytes() - before) / 1024}))


# All contenders ------------------------------------------------------------------------------------------------


def compare(args) -> None:
    """Print seconds per product, peak memory and the extreme eigenvalues of all contenders, and the ratio."""
    names = [name for name in args.contenders if name != "curvlinops" or find_spec("curvlinops")]
    options = [f"--{name}={getattr(args, name)}" for name in ("placement", "depth", "width", "pairs", "memory")]
    command = [sys.executable, __file__, *options, "--contender"]
    children = {n: subprocess.Popen([*command, n], stdin=-1, stdout=-1, text=True) for n in names}
    seconds = {name: [] for name in names}
    for process in children.values():
        process.stdout.readline()  # it has built its operator
    for _ in range(args.products):
        for name, process in children.items():
            process.stdin.write("\n")
            process.stdin.flush()
            seconds[name].append(float(process.stdout.readline()))
    found = {name: json.loads(process.communicate()[0]) for name, process in children.items()}
    rows = []
    for n in names:
        times, of = np.array(seconds[n]), found[n]
        beside = []
        for our in ("lntutor", "lntutor_small"):
            beside.append(f"{np.median(times[1:] / np.array(seconds[our][1:])):.2f}×")
            beside.append(f"{found[our]['megabytes'] / of['megabytes']:.2f}×")
        ends = f"{of['top']:.5g} ± {of['error']:.1g}", f"{of['low']:.5g}"
        rows.append((CONTENDERS[n][0], f"{np.median(times):.2f}", f"{of['megabytes']:.0f}", *beside, *ends))
    print(machine())
    size = f"{args.depth}-{args.depth}, width {args.width}, {args.pairs} pairs of captions"
    print(f"{args.placement}, {size}, {args.products} products, one thread")
    show(rows, ("", "s", "MB", "× our s", "our MB ×", "× with 8e8", "MB ×", "λmax", "λmin"))
    tops = [found[n]["top"] for n in names if n != "curvlinops"]
    print(f"λmax of ours and PyHessian's differs by at most {max(tops) / min(tops) - 1:.1g}")
    goal = f"{GOALS['time']} times our time, at {GOALS['memory']} times the peer's memory or less"
    print(f"goals, both with memory=8e8: {goal}")
    show_ratio(float(np.median(np.array(seconds["pyhessian"][1:]) / np.array(seconds["lntutor_small"][1:]))))


def main() -> None:
    """Compare all contenders, or be one of them."""
    sizes = {"placement": ("pre", "pre"), "depth": (6, 1), "width": (64, 16), "pairs": (1000, 32), "products": (25, 3)}
    some = tuple(CONTENDERS), ("lntutor", "lntutor_small", "pyhessian")
    args = options(__doc__, **sizes, memory=(2e9, 2e9), contenders=some, contender=("", ""))
    child(args) if args.contender else compare(args)


if __name__ == "__main__":
    main()
