"""Imports httpx without its command line, which imports rich and pygments where they are installed: 30 ms."""

from __future__ import annotations

import sys

_COMMAND_LINE = "httpx._main"

if "httpx" not in sys.modules:
    # httpx does without it where it cannot be imported.
    sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment]

import httpx as httpx  # noqa: E402

if _COMMAND_LINE in sys.modules and sys.modules[_COMMAND_LINE] is None:
    del sys.modules[_COMMAND_LINE]
