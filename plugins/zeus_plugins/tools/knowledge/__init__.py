"""The tool component `knowledge`."""
