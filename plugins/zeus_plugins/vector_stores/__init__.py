"""Bundled vector stores."""
