"""The sandbox component `ssh`."""
