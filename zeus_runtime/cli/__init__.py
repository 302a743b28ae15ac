"""The command line: ``main`` is ``zeus``; each verb is a module of its own, imported when it is used."""

from zeus_runtime.cli.entry import main

__all__ = ["main"]
