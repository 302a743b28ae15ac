"""The tool component `shell`: commands on the workspace."""
