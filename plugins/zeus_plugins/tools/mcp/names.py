"""What a server's tools are called: the server's prefix, two underscores, the tool's own name, within 64 characters."""

from __future__ import annotations

import hashlib
import re
from typing import Final

MAX_CHARACTERS: Final = 64
MAX_PREFIX_CHARACTERS: Final = 40
_NO_FILE: Final = re.compile(r"[^A-Za-z0-9_.-]")
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
    return f"{clean[: MAX_CHARACTERS - _DIGEST_CHARACTERS - 1]}_{_digest(whole)}"


def prefix_of(server: str) -> str:
    """A server's name as a prefix: the last part of one with slashes (`owner/repository`), cut to 40 characters."""
    clean = _FOREIGN.sub("_", server.rpartition("/")[2]).strip("_")
    if 0 < len(clean) <= MAX_PREFIX_CHARACTERS:
        return clean
    room = MAX_PREFIX_CHARACTERS - _DIGEST_CHARACTERS - 1
    return f"{clean[:room] or 'server'}_{_digest(server)}"


def log_name(server: str) -> str:
    """The file that a server's standard error goes to; what a file's name may not have is `_`, and a digest follows."""
    clean = _NO_FILE.sub("_", server)
    return f"{clean}.log" if clean == server.replace(" ", "_") else f"{clean}_{_digest(server)}.log"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
