"""The middleware component `skills`."""
