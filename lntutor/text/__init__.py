"""Sentences → batches of word numbers. Knows nothing of models."""
