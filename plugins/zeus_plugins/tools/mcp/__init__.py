"""The tool component `mcp`."""
