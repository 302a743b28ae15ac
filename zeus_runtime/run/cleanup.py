"""Clean up after a run; a failed step does not stop the others."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from zeus_runtime.errors import ZeusError, ends_process
from zeus_runtime.events import Event, Notice
from zeus_runtime.tools.worker_threads import in_thread

if TYPE_CHECKING:
    from zeus_runtime.context.archive import Archive
    from zeus_runtime.run.graph import Saver
    from zeus_runtime.store.database import Database

_log = logging.getLogger(__name__)

_CHECKPOINTS: Final = "older checkpoints were not removed"
_LOG: Final = "the write-ahead log was not moved into the database"


@dataclass
class Cleanup:
    """The cleanup steps of one run.

    Args:
        session: the session's id.
        saver: holds the session's checkpoints.
        database: holds the session's messages.
        emit: receives one notice per run for each step that fails.
    """

    session: str
    saver: Saver
    database: Database
    emit: Callable[[Event], None]
    _told: set[str] = field(default_factory=set)

    async def after(
        self,
        snapshot: Callable[[], Awaitable[object]],
        maintenance: Callable[[], Awaitable[object]],
        archive: Archive,
        *,
        is_complete: bool,
    ) -> None:
        """Clean up when the run has ended.

        Args:
            snapshot: writes the session's current state.
            maintenance: archives or deletes other sessions that are due.
            archive: holds the run's originals.
            is_complete: whether the run ended with an answer, so that it cannot be resumed.
        """
        # First, since the session's list and a resume go by it; the rest only saves space.
        await self._step("the snapshot of the turn was not written", snapshot)
        await self._step(_CHECKPOINTS, lambda: self._prune(is_complete=is_complete))
        await self._step(_LOG, self.database.checkpoint)
        await self._step("sessions beyond `retention` were not put away", maintenance)
        await self._step("free space was not given back", self.database.compact)
        if archive.written:
            await self._step(
                "archived files beyond `archive` were not removed", lambda: in_thread(archive.collect)
            )

    async def _prune(self, *, is_complete: bool) -> None:
        """Keep only the newest checkpoint.

        Some savers cannot prune. Then all checkpoints of a complete run are deleted, because the log holds the same
        facts.
        """
        try:
            await self.saver.aprune([self.session])
        except NotImplementedError:
            if is_complete:
                await self.saver.adelete_thread(self.session)

    async def _step(self, failed: str, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except (Exception, SystemExit) as error:
            # The next run cleans up again, so this run loses nothing.
            if ends_process(error):
                raise
            _log.debug("%s: %s", self.session, failed, exc_info=True)
            if failed not in self._told:
                self._told.add(failed)
                self.emit(Notice("not_tidied", f"{failed}: {cause_of(error)}. The next run tries again."))


def cause_of(error: BaseException) -> str:
    """An exception in one line: the message of a Zeus error, else the type and the message."""
    if isinstance(error, ZeusError):
        return error.message
    return f"{type(error).__name__}: {error}".removesuffix(": ")
