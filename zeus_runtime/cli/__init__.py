"""The command line: ``main`` is ``zeus``. Each verb is a separate module, imported when it is used."""

from zeus_runtime.cli.entry import main

__all__ = ["main"]
