"""The view for an output: JSON, plain text or a terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from zeus_runtime.cli.streams import is_terminal
from zeus_runtime.cli.views import JsonView, NdjsonView, PlainView, StreamedView

if TYPE_CHECKING:
    from zeus_runtime.cli.views import RunView


def view_for(output: str, *, quiet: bool, structured: bool = False) -> RunView:
    """The view for ``--output``, by what standard output is.

    Args:
        output: ``text``, ``json`` or ``ndjson``.
        quiet: no journal but errors.
        structured: whether the answer is a JSON value, which is shown once it is whole and checked.
    """
    if output == "json":
        return JsonView()
    if output == "ndjson":
        return NdjsonView()
    if structured or not is_terminal(sys.stdout):
        return PlainView(quiet=quiet)
    if os.environ.get("TERM", "dumb") == "dumb":
        return StreamedView(quiet=quiet)
    from zeus_runtime.cli.terminal import TerminalView

    return TerminalView(quiet=quiet)
