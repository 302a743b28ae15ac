"""``zeus memory``: what the agent remembers, for people: look, add, delete, move, index, and the profiles."""

from zeus_runtime.cli.memory.commands import command

__all__ = ["command"]
