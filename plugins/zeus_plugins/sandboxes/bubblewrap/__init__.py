"""The sandbox component `bubblewrap`."""
