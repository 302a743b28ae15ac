"""Names of servers' tools: the server's prefix, two underscores and the tool's own name, at most 64 characters."""

from __future__ import annotations

import hashlib
import re
from typing import Final

MAX_CHARACTERS: Final = 64
_NO_FILE: Final = re.compile(r"[^A-Za-z0-9_.-]")
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]+")
_DIGEST_CHARACTERS: Final = 8


def tool_name(prefix: str, own: str) -> str:
    """The tool's name for the model; the same at every start.

    Characters that providers do not allow become ``_``. A name that is too long, or in which characters were replaced,
    ends in a digest of the whole name, so that two tools never get the same name.

    Args:
        prefix: the server's prefix; empty for none.
        own: the tool's own name.
    """
    whole = f"{prefix}__{own}" if prefix else own
    clean = _FOREIGN.sub("_", whole)
    if clean == whole and 0 < len(whole) <= MAX_CHARACTERS:
        return whole
    # 64 is the providers' limit for a function's name; the digest keeps names apart that become equal.
    return f"{clean[: MAX_CHARACTERS - _DIGEST_CHARACTERS - 1]}_{_digest(whole)}"


def log_name(server: str) -> str:
    """The name of the log for a server's standard error. Characters that file names must not have become `_`, and then
    a digest is added."""
    clean = _NO_FILE.sub("_", server)
    return f"{clean}.log" if clean == server.replace(" ", "_") else f"{clean}_{_digest(server)}.log"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
