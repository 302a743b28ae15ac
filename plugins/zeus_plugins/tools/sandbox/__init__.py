"""The tool component `sandbox`."""
