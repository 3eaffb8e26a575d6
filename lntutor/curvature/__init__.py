"""Products with the Hessian → a spectrum. Knows nothing of plots and widgets."""
