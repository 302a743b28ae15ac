"""The middleware component `truncation`."""
