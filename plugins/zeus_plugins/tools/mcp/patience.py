"""How long a run waits for a server: learned from how long its last start took."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import Final

from zeus_plugins.tools.mcp.names import log_name
from zeus_runtime.plugin.files import own_path

SHORTEST_SECONDS: Final = 2.0
"""The wait for a server that has not started here yet; most of those on the machine take one second."""
LONGEST_SECONDS: Final = 10.0
"""The longest wait that is learned, and how long a call of its own tools waits for a server."""
_ROOM: Final = 2
"""A start takes at most so many times as long as the last one did; else the server counts as hung."""


def patience(seconds: float | None) -> float:
    """How long a run waits for a server whose last start took ``seconds``; None: it has not started yet. Pure."""
    if seconds is None:
        return SHORTEST_SECONDS
    return min(LONGEST_SECONDS, max(SHORTEST_SECONDS, _ROOM * seconds))


class Starts:
    """The last start of one server, kept in `.zeus/mcp` for the next process.

    It is a hint: where it cannot be read or written, the server counts as one that has not started yet.

    Args:
        directory: the agent's.
        server: its name.

    Raises:
        LinkedFolderError: a link leads there.
    """

    def __init__(self, directory: Path, server: str) -> None:
        self._file = own_path(directory / ".zeus" / "mcp" / Path(log_name(server)).with_suffix(".start"))

    def last_seconds(self) -> float | None:
        """How long the last start took; None if that is unknown, or if the server did not come."""
        try:
            seconds = float(self._file.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return seconds if math.isfinite(seconds) and seconds >= 0 else None

    def took(self, seconds: float) -> None:
        """Note a start."""
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(f"{seconds:.2f}\n", encoding="ascii")

    def missed(self) -> None:
        """Note that the server did not come in time: the next run waits for it no longer than for a new one."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)
