"""Protocols of `zeus serve`."""
