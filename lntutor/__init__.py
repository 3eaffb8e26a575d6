"""lntutor: why does it matter where layer normalization goes in a Transformer?

One direction of flow; a room knows nothing of the rooms after it:

    model → measure → theory → text → training → curvature → experiments → figures → page → explore, lesson → publish

A placement is one line of maths, such as N(x + f(x)) (model/placements.py). The same line runs on tensors
(model/transformer.py), on mean-field streams (theory/mean_field.py), on boxes (figures/diagram.py) and, as a graph, in
the page (page/playground/). A config and a seed give weights, weights give a Transformer, a Transformer gives a table,
a table gives a figure, and an explorer puts sliders beside it.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

__version__ = "0.1.0"
ROOT = Path(__file__).resolve().parent.parent  # the clone: notebooks/ and data/ lie beside this package


def lazy(package: str, homes: Mapping[str, str]) -> tuple[Callable, Callable, list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose names are imported when first asked for (PEP 562).

    `homes` maps a public name to the module, below lntutor, that has it.
    """
    names = sorted(homes)

    def getattribute(name):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(package)
        value = getattr(import_module(f"lntutor.{homes[name]}"), name)
        setattr(module, name, value)
        return value

    return getattribute, lambda: names, names


_ROOMS = {  # where the names of this page live: whatever a lesson or a reader needs
    "model.config": "ModelConfig TrainConfig Inputs Batch",
    "model.placements": "PLACEMENTS Placement each final_norm At draw",
    "model.parameters": "positions",
    "model.random_streams": "random_stream",
    "model.weight_bank": "Weights",
    "model.transformer": "Sequence Transformer Watch normalise",
    "measure.inputs": "feed",
    "measure.recorder": "Recorder forward",
    "measure.signals": "signal_norms backward_norms token_similarity input_share"
    " attention_weights attention_entropy last_norm_inputs",
    "measure.gradients": "gradient_norms last_layer_gradients learned_gradients",
    "measure.attention": "entropy journey sentence_attention softmax softmax_saturation",
    "measure.layer_norm": "normalised DIVISORS jacobian jacobian_spectrum jacobian_norms",
    "theory.mean_field": "predict",
    "theory.paper": "lemma_1 lemma_2_post lemma_2_pre lemma_3 theorem_bound theorem_probability"
    " broken_assumptions least_delta probability_by_epsilon at_every_position",
    "text.corpus": "load_corpus Corpus CorpusError PAD",
    "training.network": "Learner Quick",
    "training.optimizers": "learning_rate",
    "training.trainer": "train Run Trainer",
    "training.decoding": "bleu",
    "curvature.hessian": "Operator Scaled adam_scale",
    "curvature.spectrum": "hessian_spectrum hessian_blocks Spectrum Iteration measurement ends",
    "curvature.lanczos": "Lanczos density start_vector",
    "experiments.sweep": "sweep",
    "experiments.compare": "compare curves finals",
    "experiments.stored": "stored_table transplanted SMALL_MODEL QUICK_TRAINING STORED_CORPORA",
    "experiments.stored_spectra": "SIX_LAYERS adam_squares",
    "page.live": "live_plot",
    "publish.doctor": "check_installation",
}
_HOMES = {name: module for module, names in _ROOMS.items() for name in names.split()}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
