"""What a server's tools are called: the server's prefix, two underscores, the tool's own name, within 64 characters."""

from __future__ import annotations

import hashlib
import re
from typing import Final

MAX_CHARACTERS: Final = 64
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]+")
_DIGEST_CHARACTERS: Final = 8


def tool_name(prefix: str, own: str) -> str:
    """The name the model sees; the same at every start.

    What providers allow in no name becomes ``_``. A name that is too long, or whose characters had to be replaced, ends
    in a digest of the whole, so that two tools never become one.

    Args:
        prefix: the server's; empty for none.
        own: the tool's own name.
    """
    whole = f"{prefix}__{own}" if prefix else own
    clean = _FOREIGN.sub("_", whole)
    if clean == whole and 0 < len(whole) <= MAX_CHARACTERS:
        return whole
    digest = hashlib.sha256(whole.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{clean[: MAX_CHARACTERS - _DIGEST_CHARACTERS - 1]}_{digest}"


def prefix_of(server: str) -> str:
    """A server's name as a prefix."""
    return _FOREIGN.sub("_", server).strip("_") or "server"
