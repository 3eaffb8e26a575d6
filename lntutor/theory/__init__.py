"""The same tables without weights: the rule on mean-field streams, and the paper's lemmas. Knows nothing of torch."""
