"""Figures: pure functions from tables to go.Figure, one look, titles that state the finding, and a text alternative.

Every function takes `lecture=True` for type that is read from the back row; without it, it follows the one switch of
lecture mode (`lntutor.lecturing`). Nothing of plotly's is changed.
"""

from lntutor.figures.attention import attention_map, softmax_saturation
from lntutor.figures.course import course_map
from lntutor.figures.curvature import spectrum
from lntutor.figures.diagram import block_diagram
from lntutor.figures.lanczos import block_map, curvature_over_training, descent, ritz_values
from lntutor.figures.layers import gradient_by_layer, signal_by_layer, similarity_by_layer
from lntutor.figures.mean_field import bounded, side_by_side, theorem
from lntutor.figures.norm import jacobian_norm, jacobian_spectrum, layer_norm_before_after
from lntutor.figures.overview import against, overview, rank_correlation, ranked
from lntutor.figures.parts import alt_text
from lntutor.figures.runs import gradient_over_training, outcomes, schedules
from lntutor.figures.scaling import gradient_by_depth, gradient_by_width, values_by_row
from lntutor.figures.style import LECTURE_TEMPLATE, TEMPLATE, placement_style
from lntutor.figures.training import training_curves, warmup_heatmap

__all__ = [
    "LECTURE_TEMPLATE",
    "TEMPLATE",
    "against",
    "alt_text",
    "attention_map",
    "block_diagram",
    "block_map",
    "bounded",
    "course_map",
    "curvature_over_training",
    "descent",
    "gradient_by_depth",
    "gradient_by_layer",
    "gradient_by_width",
    "gradient_over_training",
    "jacobian_norm",
    "jacobian_spectrum",
    "layer_norm_before_after",
    "outcomes",
    "overview",
    "placement_style",
    "rank_correlation",
    "ranked",
    "ritz_values",
    "schedules",
    "side_by_side",
    "signal_by_layer",
    "similarity_by_layer",
    "softmax_saturation",
    "spectrum",
    "theorem",
    "training_curves",
    "values_by_row",
    "warmup_heatmap",
]
