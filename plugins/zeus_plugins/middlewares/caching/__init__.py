"""The middleware component `caching`."""
