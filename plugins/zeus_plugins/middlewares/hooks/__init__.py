"""The middleware component `hooks`."""
