"""Measurements beside peers, each in a process of its own, printed as ratios."""
