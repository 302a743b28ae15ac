"""``zeus context``: what the model saw at any step of any session, and why; and what other policies would have cost."""

from zeus_runtime.cli.context.commands import command

__all__ = ["command"]
