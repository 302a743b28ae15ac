"""The tool component `memory`."""
