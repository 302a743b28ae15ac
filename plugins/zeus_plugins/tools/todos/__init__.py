"""The tool component `todos`."""
