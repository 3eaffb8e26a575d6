"""Figures: pure functions from tables to go.Figure, one look, titles that state the finding, and a text alternative.

Every function takes `lecture=True` for type that is read from the back row; without it, it follows the one switch of
lecture mode (`lntutor.figures.lecture_type`). Nothing of plotly's is changed. Names are imported when first asked for.
"""

from lntutor import lazy

_FIGURES = {  # module → what it draws
    "all_placements": ("against", "overview", "rank_correlation", "ranked"),
    "argument": ("assumptions", "seesaw", "transplant"),
    "attention": ("attention_map", "softmax_saturation"),
    "course": ("course_map",),
    "curvature": ("spectrum",),
    "depth_and_width": ("gradient_by_depth", "gradient_by_width", "slope", "values_by_row"),
    "diagram": ("block_diagram",),
    "diagram_layout": ("fewest_norms", "layout"),
    "drawing": ("alt_text",),
    "guesses": ("guess_on_curve", "guess_on_line", "votes"),
    "lanczos": ("block_map", "curvature_over_training", "descent", "ritz_values"),
    "layer_norm": (
        "gradient_through_norm", "jacobian_norm", "jacobian_spectrum", "layer_norm_before_after", "norm_reach",
    ),
    "layers": ("gradient_by_layer", "signal_by_layer", "similarity_by_layer"),
    "mean_field": ("bounded", "side_by_side", "theorem"),
    "optimizers": ("adam_by_step", "rate_by_step"),
    "stored_runs": ("run_map",),
    "style": ("LECTURE_TEMPLATE", "TEMPLATE", "fixed", "placement_style"),
    "training": ("training_curves", "warmup_heatmap"),
    "training_outcomes": ("gradient_over_training", "outcomes", "schedules"),
}  # fmt: skip
_HOMES = {name: f"figures.{module}" for module, names in _FIGURES.items() for name in names}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)
