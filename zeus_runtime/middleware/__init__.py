"""The six methods by which a middleware changes a run, and the chain that calls them in order."""
