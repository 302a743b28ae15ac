"""How the MCP SDK is used: who we say that we are, and that it does not log what we tell."""

from __future__ import annotations

import logging
from typing import Any, Final

MAX_MESSAGE_BYTES: Final = 64_000_000
"""Of one message of a server, over whatever way it comes; the SDK has other limits, or none."""


def quieten() -> None:
    """What goes wrong is told in our words; the SDK would write tracebacks too. Who sets a level gets them."""
    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL + 1)


def client_info() -> Any:
    """What servers are told of their client."""
    from mcp.types import Implementation

    from zeus_runtime import __version__

    return Implementation(name="zeus-runtime", version=__version__)
