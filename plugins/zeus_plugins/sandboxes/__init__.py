"""Sandboxes, in which code from a model runs."""
