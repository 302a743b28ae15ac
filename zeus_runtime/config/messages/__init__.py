"""Diagnostics and their wording."""
