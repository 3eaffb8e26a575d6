"""lntutor: why does it matter where layer normalization goes in a Transformer?"""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {  # public name → the module that has it, imported when the name is first asked for (PEP 562)
    "ModelConfig": "config",
    "TrainConfig": "config",
    "Inputs": "config",
    "Batch": "config",
    "PLACEMENTS": "placements",
    "Placement": "placements",
    "signal_norms": "measure",
    "backward_norms": "measure",
    "gradient_norms": "measure",
    "last_layer_gradients": "measure",
    "token_similarity": "measure",
    "attention_entropy": "measure",
    "input_share": "measure",
    "predict": "theory",
    "broken_assumptions": "theory",
    "theorem_bound": "theory",
    "load_corpus": "corpus",
    "Corpus": "corpus",
    "CorpusError": "corpus",
    "train": "training",
    "Run": "training",
    "compare": "comparison",
    "sweep": "sweeps",
    "hessian_spectrum": "curvature",
    "hessian_blocks": "curvature",
    "Spectrum": "curvature",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module 'lntutor' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"lntutor.{_HOME[name]}"), name)
    return value


def __dir__():
    return sorted(__all__)
