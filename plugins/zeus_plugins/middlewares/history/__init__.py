"""The middleware component `history`."""
