"""The middleware component `memory`."""
