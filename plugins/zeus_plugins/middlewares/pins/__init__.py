"""The middleware component `pins`."""
