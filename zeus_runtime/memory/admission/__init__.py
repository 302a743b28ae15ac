"""Whether a statement may be kept, and what it replaces: the gate and the comparison of statements."""
