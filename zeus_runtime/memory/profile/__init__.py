"""Profiles of users and projects: their fields, their rows, how they are drawn from memories and written out."""
