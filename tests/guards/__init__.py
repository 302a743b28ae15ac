"""Guards of what users keep: it loads after any change of the code."""
