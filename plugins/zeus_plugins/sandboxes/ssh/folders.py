"""The sessions' folders on the other machine, and their removal."""

from __future__ import annotations

import logging
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from zeus_plugins.sandboxes.ssh.machine import Machine
from zeus_runtime.plugin.sandbox import SandboxError, SandboxUnavailableError, session_folder

if TYPE_CHECKING:
    from zeus_plugins.sandboxes.ssh.folder import FarFolder

_log = logging.getLogger(__name__)


class FarFolders:
    """The folders of all sessions.

    Args:
        machine: the machine with the folders.
        keep_days: folders of sessions that ran no program for this many days are removed. None keeps all; 0 removes a
            used folder when the agent is closed.
    """

    def __init__(self, machine: Machine, keep_days: float | None) -> None:
        self._machine = machine
        self._keep_days = keep_days
        self._used: set[str] = set()

    def at(self, session: str) -> FarFolder:
        from zeus_plugins.sandboxes.ssh.folder import FarFolder

        far, line = self._machine.reached()
        self._used.add(session)
        path = PurePosixPath(self._machine.root) / session_folder(Path(), session).name
        return FarFolder(far, line, session, str(path))

    async def remove(self, session: str) -> None:
        far, _ = self._machine.reached()
        await far.ask({"do": "remove", "session": session})

    async def remove_older(self, *, spare: str) -> None:
        if self._keep_days:
            far, _ = self._machine.reached()
            await far.ask({"do": "remove_older", "session": spare, "days": self._keep_days})

    async def aclose(self) -> None:
        try:
            if self._keep_days == 0:
                for session in sorted(self._used):
                    await self.remove(session)
        except (SandboxError, SandboxUnavailableError) as error:
            _log.warning("files of sessions were not removed from %s: %s", self._machine.name, error.message)
        finally:
            self._used.clear()
            await self._machine.aclose()
