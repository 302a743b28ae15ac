"""``zeus sessions``: the stored conversations of a database: read them, take them back, put them away."""

from zeus_runtime.cli.sessions.group import command
from zeus_runtime.cli.sessions.reading import session_table

__all__ = ["command", "session_table"]
