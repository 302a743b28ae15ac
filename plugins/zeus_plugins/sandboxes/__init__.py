"""Sandboxes: where code that a model wrote runs."""
