"""The routes of the native API, by subject."""
