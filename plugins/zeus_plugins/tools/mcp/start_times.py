"""The time that a run waits for a server, learned from the duration of the server's last start."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from zeus_plugins.tools.mcp.names import log_name
from zeus_runtime.plugin.files import LinkedFolderError, open_own, own_path

SHORTEST_SECONDS: Final = 2.0
"""The wait for a server that has not started here yet; most local servers start within one second."""
LONGEST_SECONDS: Final = 10.0
"""The longest wait that is learned; also the time that a call to a server's own tool waits for the server."""
_ROOM: Final = 2
"""A server that takes longer than its last start times this factor counts as hung."""


def longest_wait(seconds: float | None) -> float:
    """The seconds that a run waits for a server whose last start took ``seconds``; None for no start yet. Pure."""
    if seconds is None:
        return SHORTEST_SECONDS
    return min(LONGEST_SECONDS, max(SHORTEST_SECONDS, _ROOM * seconds))


class Starts:
    """The duration of one server's last start, stored in `.zeus/mcp` for the next process.

    It is only a hint: if it cannot be read or written, the server counts as one that has not started yet.

    Args:
        directory: the agent's directory.
        server: the server's name.

    Raises:
        LinkedFolderError: the path contains a symbolic link.
    """

    def __init__(self, directory: Path, server: str) -> None:
        self._file = own_path(directory / ".zeus" / "mcp" / Path(log_name(server)).with_suffix(".start"))

    def last_seconds(self) -> float | None:
        """The duration of the last start; None if it is unknown, or if the server did not start in time."""
        try:
            with os.fdopen(open_own(self._file, os.O_RDONLY), encoding="ascii") as file:
                seconds = float(file.read())
        except (OSError, ValueError, LinkedFolderError):
            return None
        return seconds if math.isfinite(seconds) and seconds >= 0 else None

    def took(self, seconds: float) -> None:
        """Store the duration of a start."""
        with (
            suppress(OSError, LinkedFolderError),
            os.fdopen(
                open_own(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w", encoding="ascii"
            ) as file,
        ):
            file.write(f"{seconds:.2f}\n")

    def missed(self) -> None:
        """Record that the server did not start in time: the next run waits for it only as long as for a new server."""
        with suppress(OSError, LinkedFolderError):
            # Otherwise a server that hangs would make each run wait as long as its last good start. Emptied and not
            # removed: an empty file says nothing either.
            os.close(open_own(self._file, os.O_WRONLY | os.O_TRUNC))
