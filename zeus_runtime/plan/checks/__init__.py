"""Checks of a plan as a whole: the order of middlewares, conflicts, and options that do not fit the model."""
