"""The middleware component `eviction`."""
