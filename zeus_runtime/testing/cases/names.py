"""File names of recordings, one for each case, agent, model and repeat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_MOST: Final = 60
_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9-]*( [a-z0-9-]+)*")
_OTHER: Final = re.compile(r"[^a-z0-9]+")


def recording_name(parts: Sequence[str], number: int) -> str:
    """The name of a recording, without its ending; other parts or another number have another name.

    Args:
        parts: the case's name, and the agent and the model if there are several.
        number: which of the repeats, from 1.
    """
    name = "@".join(map(_file_name, parts))
    return name if number == 1 else f"{name}+{number}"


def _file_name(text: str) -> str:
    if len(text) <= _MOST and _PLAIN.fullmatch(text):
        return text.replace(" ", "_")
    from hashlib import sha256

    words = _OTHER.sub("_", text.lower()).strip("_")[:_MOST]
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{words}_{digest}" if words else digest
