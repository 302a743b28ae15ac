"""The sandbox component `docker`."""
