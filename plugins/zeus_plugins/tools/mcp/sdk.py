"""Settings for the MCP SDK: the client's name, its logging, its HTTP client, and the largest message."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ssl

    import httpx2

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


def http_client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
    event_hooks: Mapping[str, list[Callable[..., Any]]] | None = None,
) -> httpx2.AsyncClient:
    """An HTTP client whose TLS context is shared by all such clients of the process."""
    import httpx2

    # Each client would load the certificates again: 27 ms, in which the event loop does nothing else.
    context = _tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    return httpx2.AsyncClient(
        verify=context, headers=headers, timeout=timeout, auth=auth, event_hooks=event_hooks
    )


@lru_cache(maxsize=4)
def _tls_context(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    """The context for the certificates that the two variables name, or the system's."""
    import httpx2

    return httpx2.create_ssl_context()
