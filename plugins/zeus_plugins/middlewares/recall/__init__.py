"""The middleware component `recall`."""
