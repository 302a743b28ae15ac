"""Stored sessions: rollback, archive, restore, deletion, retention."""
