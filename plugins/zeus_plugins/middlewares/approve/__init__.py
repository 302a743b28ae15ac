"""The middleware component `approve`."""
