"""The tool component `subagents`."""
