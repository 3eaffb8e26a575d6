"""Explorers: drag a slider and the picture follows. `from lntutor.explore import GradientExplorer`."""

from lntutor.explore.attention import AttentionExplorer
from lntutor.explore.gradient import GradientExplorer
from lntutor.explore.layer_norm import LayerNormExplorer
from lntutor.explore.signal import SignalExplorer

__all__ = ["AttentionExplorer", "GradientExplorer", "LayerNormExplorer", "SignalExplorer"]
