"""Limits of one call: its time and the size of its result."""

from __future__ import annotations

from collections.abc import Callable

from zeus_plugins.tools.filesystem.options import Options


def countdown(options: Options) -> Callable[[], float]:
    """Start a call's time limit now; the function returned gives the seconds that are left."""
    from time import monotonic

    end = monotonic() + options.timeout_seconds
    return lambda: end - monotonic()


def within(lines: list[str], options: Options) -> list[str]:
    """The first lines that fit into ``max_result_chars`` together."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > options.max_result_chars:
            return lines[:number]
    return lines
