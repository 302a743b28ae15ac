"""A small wiki for Zeus runtime: `plugin` is what Zeus imports; the rest is imported when it runs."""
