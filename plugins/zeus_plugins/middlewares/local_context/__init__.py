"""The middleware component `local_context`."""
