"""Measurements at initialisation, as tidy tables. Knows nothing of plots and widgets."""
