"""Training, as tables with one row per step. Knows nothing of plots and widgets."""
