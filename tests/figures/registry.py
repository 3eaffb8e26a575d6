"""Every figure there is, by name, and the tables that they are made of: tests of all figures run over this list."""

from itertools import product

import numpy as np
import pandas as pd

from lntutor import figures
from lntutor.figures import style
from lntutor.model.placements import PLACEMENTS

KEYS = tuple(PLACEMENTS)
SIDES = ("encoder", "decoder")
GRADIENT = ["placement", "depth", "width", "side", "layer", "block", "parameter", "seed", "value"]
SURFACES = {"bowl: 8 and 1": (8, 1), "saddle": (8, -1)}
LOST = (("bold", "post", 1),)


def trace(fig, uid):
    """The trace of this name."""
    return next(t for t in fig.data if t.uid == uid)


def title(fig):
    """The finding, in one line without markup."""
    return style.plain((fig.layout.title.text or "").replace("<br>", " ").replace("\u00a0", " "))


def luminance(colour):
    """Relative luminance as WCAG 2 defines it."""
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


# Tables ------------------------------------------------------------------------------------------------------------


def gradients(placements=("post", "pre"), layers=6, seeds=3, sides=SIDES, parameter="W_2", **more):
    """A gradient table with known numbers: 2^(layer · i) times a factor per seed."""
    blocks = {"W_2": {side: ["ffn"] for side in SIDES}, "W_V": {"encoder": ["self"], "decoder": ["self", "cross"]}}
    rows = [
        (key, layers, 64, side, layer, block, parameter, seed, (1 + i) * 2.0 ** (layer * (i - 0.5)) * (1 + 0.1 * seed))
        for (i, key), side in product(enumerate(placements), sides)
        for block, layer, seed in product(blocks[parameter][side], range(1, layers + 1), range(seeds))
    ]
    return pd.DataFrame(rows, columns=GRADIENT).assign(below_floor=False, **more)


def sized(along="depth", placements=("post", "pre"), values=(1, 2, 4, 8), seeds=3):
    """The last layer's gradient in models of several sizes: about 3, and 3 over the root of the size."""
    rows = []
    for (i, key), v, seed in product(enumerate(placements), values, range(seeds)):
        depth, width = (v, 64) if along == "depth" else (6, v)
        value = 3.0 * v ** (-0.5 * i) * (1 + 0.05 * seed * v)
        rows.append((key, depth, width, "encoder", depth, "ffn", "W_2", seed, value))
    return pd.DataFrame(rows, columns=GRADIENT).assign(below_floor=False)


def power_laws(along="depth", values=(1, 2, 4, 8), seeds=3, noise=0.05):
    """Post-LN flat, Pre-LN a power law of exponent −½."""
    factor = {"post": 0, "pre": -0.5}
    table = sized(along, tuple(factor), values, seeds)
    exact = 3.0 * table[along].astype(float) ** table["placement"].map(factor)
    return table.assign(value=exact * (1 + noise * table["seed"])).drop(columns=["side", "layer", "parameter"])


def signals(placements=("post", "pre"), layers=4, seeds=2, top=1.0):
    """A signal table: flat for the first placement, growing with the layer for the others."""
    rows = []
    for (i, key), side, seed in product(enumerate(placements), SIDES, range(seeds)):
        for layer in range(layers + 1):
            value = top * (1 + i * layer) * (1 + 0.01 * seed)
            rows.append((key, layers, 64, side, layer, "out" if layer else "in", seed, value))
            if layer:
                rows.append((key, layers, 64, side, layer, "sum", seed, 1.5 * value))
        rows.append((key, layers, 64, side, layers, "final", seed, top))
    return pd.DataFrame(rows, columns=["placement", "depth", "width", "side", "layer", "site", "seed", "value"])


def softmaxes():
    """Without 1/√d, entropy and gradient fall as 1/d."""
    rows = [
        (d, s, 2.0 if s else 2.0 / d, 0.5 if s else 0.5 / d, seed)
        for d, s, seed in product((4, 64), (True, False), (0, 1))
    ]
    return pd.DataFrame(rows, columns=["d", "scaled", "entropy", "gradient", "seed"])


def runs():
    """Two runs of 20 steps; validation at steps 10 and 20."""
    steps = np.arange(1, 21)
    parts = [
        pd.DataFrame({"run": run, "step": steps, "loss": 5 - rate * steps, "lr": 0.01, "gradient": 1.0 + rate})
        for run, rate in (("post", 0.01), ("mine <b>", 0.2))
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(val_loss=np.where(table["step"] % 10 == 0, table["loss"] + 0.5, np.nan))


def grid():
    """Final losses over two rates and two warm-ups."""
    places = product(enumerate(("post", "pre")), (0.001, 0.01), (0, 100))
    rows = [(key, lr, warmup, 1 + i + lr * 10 + warmup / 100) for (i, key), lr, warmup in places]
    return pd.DataFrame(rows, columns=["placement", "lr", "warmup", "value"])


def spectra(placements=("post", "pre")):
    """Bell curves with ends at −2 and at 4 over the number of the placement, two seeds."""
    x = np.linspace(-5, 5, 41)
    parts = [
        pd.DataFrame({"placement": key, "seed": s, "x": x, "density": np.exp(-(x**2))}).assign(
            lambda_max=4.0 / (i + 1) + 0.1 * s, lambda_min=-2.0
        )
        for (i, key), s in product(enumerate(placements), range(2))
    ]
    return pd.concat(parts, ignore_index=True)


def jacobians():
    """Two of four directions get no gradient."""
    return pd.DataFrame({"name": ["LN"] * 4, "index": [1, 2, 3, 4], "value": [0.5, 0.5, 1e-17, 0.0]})


def jacobian_norms():
    """Half the norm for twice the size."""
    return pd.DataFrame({"size": [1.0, 2.0, 4.0], "value": [3.0, 1.5, 0.75], "predicted": [3.0, 1.5, 0.75]})


def vector_norms(keys=("post", "pre"), count=400):
    """Samples of χ², more degrees of freedom for each placement."""
    random = np.random.default_rng(0)
    parts = [pd.DataFrame({"placement": k, "value": random.chisquare(32 * (i + 1), count)}) for i, k in enumerate(keys)]
    return pd.concat(parts, ignore_index=True)


def paths():
    """Two rates on two surfaces, ten steps: one comes down in the bowl, the other does not."""
    rows = [
        (surface, run, step, (1 - rate * a) ** step, (1 - rate * b) ** step)
        for (surface, (a, b)), (run, rate), step in product(
            SURFACES.items(), {"short": 0.2, "long": 0.3}.items(), range(11)
        )
    ]
    return pd.DataFrame(rows, columns=["surface", "run", "step", "x", "y"])


def ritz(names=("",)):
    """One value more with each product, the largest at 10 from the second on; in the second run it comes twice."""
    rows = [(run, k, v) for run in names for k in (1, 2, 3) for v in ([1.0], [0.5, 10.0], [-1.0, 0.5, 10.0])[k - 1]]
    rows += [(run, 3, 9.9999) for run in names[1:]]
    return pd.DataFrame(rows, columns=["run", "products", "value"])


def hessian_blocks():
    """Both placements and sides, two layers, three matrices, two seeds."""
    places = product(("post", "pre"), SIDES, (1, 2), ("W_V", "W_1", "W_2"), (0, 1))
    rows = [
        (key, side, layer, matrix, seed, layer * (3 if key == "post" else 1) + (side == "decoder") + 0.1 * seed)
        for key, side, layer, matrix, seed in places
    ]
    return pd.DataFrame(rows, columns=["placement", "side", "layer", "parameter", "seed", "lambda_max"])


def curvatures(names=("one", "two", "three")):
    """Curvature 10, 20, 40 at three steps, 2/η at 25; the first step has no number yet; two seeds."""
    rows = [
        (run, "post", seed, step, 0.08, value + seed)
        for run, seed, (step, value) in product(names, (0, 1), ((0, np.nan), (5, 10.0), (10, 20.0), (20, 40.0)))
    ]
    return pd.DataFrame(rows, columns=["run", "placement", "seed", "step", "rate", "lambda_max"])


def ended(diverged=()):
    """Two cases, two placements, three seeds; runs named in `diverged` as (case, placement, seed) are lost."""
    rows = [
        (case, key, seed, np.inf if (case, key, seed) in diverged else 1.0 + 2 * i + j + 0.1 * seed, 50.0 - 20 * i)
        for (i, case), (j, key), seed in product(enumerate(("mild", "bold")), enumerate(("post", "pre")), range(3))
    ]
    return pd.DataFrame(rows, columns=["case", "placement", "seed", "val_loss", "bleu"])


def streams(placements=("post", "pre"), layers=6, seeds=3):
    """q grows as 1 + l for each but the first placement and g falls as much; a factor per seed."""
    rows = [
        (key, layer, kind, seed, (1 + i * layer) ** power * (1 + 0.1 * seed))
        for (i, key), layer, seed in product(enumerate(placements), range(layers + 1), range(seeds))
        for kind, power in (("q", 1), ("g", -1), ("qg", 0))
    ]
    return pd.DataFrame(rows, columns=["placement", "layer", "kind", "seed", "value"])


def transplants(diverged=()):
    """Losses 4, 2.5 and 1 with nothing, one layer and everything warmed up, two seeds, and a run of the reader's."""
    rows = [
        (case, "post", seed, np.inf if (case, seed) in diverged else loss + 0.1 * seed, False)
        for (case, loss), seed in product((("nothing", 4.0), ("decoder.2 alone", 2.5), ("everything", 1.0)), (0, 1))
    ]
    rows.append(("encoder.1", "post", 0, 3.0, True))
    return pd.DataFrame(rows, columns=["case", "placement", "seed", "val_loss", "here"])


def rates():
    """Two schedules over ten steps: constant, and a straight line."""
    rows = [(run, t, 0.5 if run == "constant" else t / 10) for run in ("constant", "line") for t in range(1, 11)]
    return pd.DataFrame(rows, columns=["run", "step", "value"])


def schedule():
    """A warm-up of four steps, then constant."""
    values = np.minimum(1, np.arange(1, 11) / 4)
    return pd.DataFrame({"step": np.arange(1, 11), "value": values, "sum": np.cumsum(values)})


def adam_steps():
    """Steps that shrink from ±1, and ones that grow."""
    t = np.arange(1, 6)
    return pd.concat(
        pd.DataFrame({"correction": name, "step": t, "low": -y, "mean": 0 * y, "high": y, "spread": y, "first": y})
        for name, y in {"with": 1 / t, "without": t / 5}.items()
    )


def stored_losses(steps=(100, 200)):
    """Losses of the runs of `grid`, two seeds."""
    places = product(grid().itertuples(index=False), steps, (0, 1))
    rows = [(key, lr, warm, seed, step, value * 100 / step + seed) for (key, lr, warm, value), step, seed in places]
    return pd.DataFrame(rows, columns=["placement", "lr", "warmup", "seed", "step", "loss"])


def trained(names=("one", "two")):
    """Gradients of three layers at three steps that fall by half each time; both sides, two matrices, two seeds."""
    places = product(names, (1, 50, 100), SIDES, (1, 2, 3), ("W_1", "W_2"), (0, 1))
    rows = [
        (run, step, "post" if run == "one" else "pre", side, layer, matrix, seed, layer / (1 + step // 50) + 0.1 * seed)
        for run, step, side, layer, matrix, seed in places
    ]
    return pd.DataFrame(rows, columns=["run", "step", "placement", "side", "layer", "parameter", "seed", "value"])


def measures(keys=("post", "pre", "peri", "none", "mine")):
    """Two measures; the first at two depths, with a value that overflows and one that is missing."""
    rows = [
        (key, "gradient", depth, seed, depth * (i + 1) + seed)
        for (i, key), depth, seed in product(enumerate(keys), (6, 48), (0, 1))
    ]
    rows += [(key, "rate", np.nan, 0, 0.001 * 2**i) for i, key in enumerate(keys)]
    table = pd.DataFrame(rows, columns=["placement", "measure", "depth", "seed", "value"])
    table.loc[(table["placement"] == "none") & (table["depth"] == 48), "value"] = np.inf
    table.loc[(table["placement"] == "mine") & (table["measure"] == "rate"), "value"] = np.nan
    return table


def expected():
    """Theory for one value of the first measure."""
    return pd.DataFrame([("post", "gradient", 48, 47.0)], columns=["placement", "measure", "depth", "value"])


# Figures -----------------------------------------------------------------------------------------------------------

TABLES = {  # figures of one table → that table
    figures.gradient_by_layer: gradients,
    figures.gradient_by_depth: sized,
    figures.gradient_by_width: lambda **more: sized("width", **more),
    figures.values_by_row: lambda: sized().assign(setting=lambda t: "depth " + t["depth"].astype(str)),
    figures.signal_by_layer: signals,
    figures.similarity_by_layer: lambda **more: signals(top=0.1, **more),
    figures.softmax_saturation: softmaxes,
    figures.jacobian_spectrum: jacobians,
    figures.jacobian_norm: jacobian_norms,
    figures.training_curves: runs,
    figures.warmup_heatmap: grid,
    figures.spectrum: spectra,
    figures.theorem: power_laws,
    figures.bounded: vector_norms,
    figures.assumptions: power_laws,
    figures.seesaw: streams,
    figures.transplant: transplants,
    figures.side_by_side: lambda: power_laws().rename(columns={"depth": "layer"}),
    figures.descent: paths,
    figures.ritz_values: ritz,
    figures.block_map: hessian_blocks,
    figures.curvature_over_training: curvatures,
    figures.outcomes: ended,
    figures.schedules: rates,
    figures.gradient_over_training: trained,
    figures.rate_by_step: schedule,
    figures.adam_by_step: adam_steps,
    figures.run_map: grid,
    figures.overview: measures,
    figures.against: measures,
}
MORE = {  # what else they need
    figures.values_by_row: {"row": "setting", "what": "Gradient"},
    figures.side_by_side: {
        "right": power_laws(), "names": ("one", "many"), "along": ("layer", "depth"),
        "value": "size", "title": "Same top",
    },
    figures.descent: {"curvatures": SURFACES},
    figures.against: {"x": "gradient", "y": "rate"},
}  # fmt: skip
BY_PLACEMENTS = (  # figures whose table may have any placements
    figures.gradient_by_layer, figures.gradient_by_depth, figures.gradient_by_width, figures.signal_by_layer,
    figures.similarity_by_layer, figures.spectrum,
)  # fmt: skip


def of_table(function, table=None, **more):
    """A figure of its own table, or of another."""
    return function(TABLES[function]() if table is None else table, **MORE.get(function, {}), **more)


def vector(**more):
    """A vector and two normalizations: the right one, and the talk's, whose variance is d."""
    x = np.array([1.0, 2.0, 4.0, 9.0])
    y = x - x.mean()
    outputs = {"right": y / x.std(), "the talk's σ": y / (np.sqrt((y**2).sum()) / 4)}
    return figures.layer_norm_before_after(x, outputs, **more)


def reach(**more):
    """Layer norm reads one token, batch norm one feature."""
    layer, batch = np.zeros((2, 2, 2, 4), bool)
    layer[0, 0], batch[:, :, 0] = True, True
    return figures.norm_reach({"layer norm": layer, "batch norm": batch}, **more)


def with_all_placements(function, **more):
    """All placements at once, with theory and a pinned curve where the figure takes them."""
    table = TABLES[function](placements=KEYS)
    more |= {} if function is figures.spectrum else {"theory": table, "pinned": [("before", table)]}
    return function(table, **more)


FIGURES = {f.__name__: lambda f=f, **more: of_table(f, **more) for f in TABLES}  # name → maker(note=, lecture=)
FIGURES |= {f"{f.__name__}, all placements": lambda f=f, **more: with_all_placements(f, **more) for f in BY_PLACEMENTS}
FIGURES |= {
    "attention_map": lambda **more: figures.attention_map(np.full((2, 3, 3), 1 / 3), ["a", "b", "c"], **more),
    "layer_norm_before_after": vector,
    "norm_reach": reach,
    "gradient_through_norm": lambda **more: figures.gradient_through_norm(
        (np.arange(3.0), np.arange(3.0)), (np.arange(3.0), np.arange(3.0) / 2), 2.0, **more
    ),
    "theory and a ring by depth": lambda **more: figures.gradient_by_depth(sized(), sized(seeds=1), depth=2, **more),
    "Lemma 2": lambda **more: figures.signal_by_layer(signals(), signals(seeds=1), lemma2=True, **more),
    "stable rate": lambda **more: figures.spectrum(spectra(), two_over_eta=1.0, **more),
    "your x": lambda **more: figures.jacobian_norm(jacobian_norms(), size=2, **more),
    "true eigenvalues": lambda **more: figures.ritz_values(ritz(("careful", "careless")), [-1, 0.5, 10], **more),
    "one run's curvature": lambda **more: figures.curvature_over_training(curvatures(("one",)), threshold=38, **more),
    "bound and closed form": lambda **more: figures.theorem(*[power_laws()] * 4, chosen=8, **more),
    "theorem by width": lambda **more: figures.theorem(power_laws("width"), along="width", **more),
    "assumptions by layer": lambda **more: figures.assumptions(
        *[power_laws().rename(columns={"depth": "layer"})] * 3, along="layer", **more
    ),
    "assumptions and the model": lambda **more: figures.assumptions(power_laws(), power_laws(seeds=1), **more),
    "seesaw with theory": lambda **more: figures.seesaw(streams(), streams(seeds=1), layer=2, **more),
    "seesaw of four": lambda **more: figures.seesaw(streams(("post", "pre", "peri", "none")), **more),
    "transplant of a layer": lambda **more: figures.transplant(
        transplants((("nothing", 1),)), chosen="decoder.2 alone", **more
    ),
    "ring in both columns": lambda **more: of_table(
        figures.side_by_side, left_theory=TABLES[figures.side_by_side](), chosen=8, **more
    ),
    "diverged": lambda **more: figures.outcomes(ended(LOST), line=2.0, **more),
    "BLEU": lambda **more: figures.outcomes(ended(), value="bleu", what="BLEU", lower_is_better=False, **more),
    "four runs": lambda **more: figures.gradient_over_training(trained(("one", "two", "three", "four")), **more),
    "a schedule read": lambda **more: figures.rate_by_step(schedule(), warmup=4, peak=1.0, at=6, **more),
    "Adam without correction": lambda **more: figures.adam_by_step(
        adam_steps(), uncorrected=True, limit=0.2, runs=10, **more
    ),
    "a run on the map": lambda **more: figures.run_map(
        grid(), stored_losses((10, 20)), stored_losses(), chosen=("pre", 0.01, 100), **more
    ),
    "overview with theory": lambda **more: figures.overview(measures(), expected(), **more),
}
UNTITLED = {  # figures without a title or a note of their own
    "course_map": figures.course_map,
    "block_diagram": lambda **more: figures.block_diagram("post", **more),
    "block_diagram of a decoder": lambda **more: figures.block_diagram("residual", stack="encoder-decoder", **more),
    "guess_on_line": lambda **more: figures.guess_on_line(2.0, 3.0, (0, 10), **more),
    "guess_on_line, logarithmic": lambda **more: figures.guess_on_line(None, 3.0, (1, 10), log=True, **more),
    "guess_on_curve": lambda **more: figures.guess_on_curve([1, 2], [1.0, 2.0], [2.0, 3.0], **more),
    "votes": lambda **more: figures.votes(["a", "b"], [[1, 2], [3, 0]], "a", **more),
}
EVERY = FIGURES | UNTITLED
