"""Checks of a plan as a whole: the order of middlewares, conflicts, what does not fit the model."""
