"""Settings for the MCP SDK: the client's name, its logging, and the largest message."""

from __future__ import annotations

import logging
from typing import Any, Final

MAX_MESSAGE_BYTES: Final = 64_000_000
"""Size of the largest message from a server, with every transport; the SDK has other limits, or none."""


def quieten() -> None:
    """Turn the SDK's logging off: Zeus reports failures itself, and the SDK would also log tracebacks.

    A logger whose level is set keeps it, so a user can turn the tracebacks on.
    """
    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL + 1)


def client_info() -> Any:
    """The name and version of the client, which servers get."""
    from mcp.types import Implementation

    from zeus_runtime import __version__

    return Implementation(name="zeus-runtime", version=__version__)
