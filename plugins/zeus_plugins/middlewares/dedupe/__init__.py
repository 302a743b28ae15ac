"""The middleware component `dedupe`."""
