"""The search component `duckduckgo`."""
