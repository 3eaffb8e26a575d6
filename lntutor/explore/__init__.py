"""Explorers: drag a slider and the picture follows. `from lntutor.explore import GradientExplorer`."""

from lntutor.explore.attention import AttentionExplorer
from lntutor.explore.curvature import CurvatureExplorer
from lntutor.explore.gradient import GradientExplorer
from lntutor.explore.layer_norm import LayerNormExplorer
from lntutor.explore.placement import PlacementExplorer
from lntutor.explore.signal import SignalExplorer
from lntutor.explore.theorem import BoundednessExplorer, TheoremExplorer
from lntutor.explore.training import TrainingExplorer

__all__ = [
    "AttentionExplorer",
    "BoundednessExplorer",
    "CurvatureExplorer",
    "GradientExplorer",
    "LayerNormExplorer",
    "PlacementExplorer",
    "SignalExplorer",
    "TheoremExplorer",
    "TrainingExplorer",
]
