"""The middleware component `resources`."""
