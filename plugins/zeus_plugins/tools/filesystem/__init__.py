"""The tool component `filesystem`."""
