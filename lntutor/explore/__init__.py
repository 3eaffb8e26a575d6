"""The playground and the explorers: drag, and the picture follows. `from lntutor.explore import Playground`."""

from lntutor import lazy

_HOMES = {
    "AdamExplorer": "explore.optimizers",
    "AssumptionExplorer": "explore.assumptions",
    "AttentionExplorer": "explore.attention",
    "BoundednessExplorer": "explore.theorem",
    "CurvatureExplorer": "explore.curvature",
    "LayerNormExplorer": "explore.layer_norm",
    "PlacementExplorer": "explore.placement",
    "Playground": "explore.playground",
    "RatesExplorer": "explore.rates",
    "ScheduleExplorer": "explore.optimizers",
    "SeesawExplorer": "explore.seesaw",
    "TheoremExplorer": "explore.theorem",
    "TrainingExplorer": "explore.training",
    "TransplantExplorer": "explore.transplant",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
