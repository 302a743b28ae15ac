"""Stored sessions: the database, its tables and the append-only log."""
