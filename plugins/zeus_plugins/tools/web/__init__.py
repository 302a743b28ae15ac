"""The tool component `web`."""
