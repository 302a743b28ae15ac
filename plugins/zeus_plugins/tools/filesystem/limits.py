"""How long one call may take, and how much of what it found is shown."""

from __future__ import annotations

from collections.abc import Callable

from zeus_plugins.tools.filesystem.options import Options


def countdown(options: Options) -> Callable[[], float]:
    """The seconds left of a call that begins now."""
    from time import monotonic

    end = monotonic() + options.timeout_seconds
    return lambda: end - monotonic()


def within(lines: list[str], options: Options) -> list[str]:
    """As many of the lines as the model may be shown at once."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > options.max_result_chars:
            return lines[:number]
    return lines
