"""Explorers: drag a slider and the picture follows. `from lntutor.explore import GradientExplorer`."""

from lntutor import lazy

_HOMES = {
    "AttentionExplorer": "explore.attention",
    "BoundednessExplorer": "explore.theorem",
    "CurvatureExplorer": "explore.curvature",
    "GradientExplorer": "explore.gradient",
    "LayerNormExplorer": "explore.layer_norm",
    "PlacementExplorer": "explore.placement",
    "SignalExplorer": "explore.signal",
    "TheoremExplorer": "explore.theorem",
    "TrainingExplorer": "explore.training",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
