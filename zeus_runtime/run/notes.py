"""The notes of one run: what its middlewares store, so that a resume finds it again."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from zeus_runtime.config.secrets.masking import Redactor

if TYPE_CHECKING:
    from zeus_runtime.store.thread_log import ThreadLog
    from zeus_runtime.store.threads import Thread


class RunNotes:
    """Notes in the session's database (``Notes``); a simulation, which begins no run, keeps them in memory.

    Args:
        secrets: masked in every note.
    """

    def __init__(self, secrets: Redactor) -> None:
        self._secrets = secrets
        self._log: ThreadLog | None = None
        self._thread: Thread | None = None
        self._run_id = ""
        self._known: dict[str, Any] | None = None
        self._reading = asyncio.Lock()

    def begin(self, log: ThreadLog, thread: Thread, run_id: str) -> None:
        """Set the session and the run."""
        self._log, self._thread, self._run_id = log, thread, run_id

    async def get(self, name: str) -> Any:
        return (await self._notes()).get(name)

    async def put(self, name: str, value: Any) -> None:
        notes = await self._notes()
        masked = self._secrets.masked(value)
        if self._log is not None and self._thread is not None:
            from zeus_runtime.store.run_notes import put_note

            # Escaped, since PostgreSQL cannot store NUL or lone surrogates.
            text = json.dumps(masked, ensure_ascii=True)
            await put_note(self._log, self._thread, self._run_id, name, text)
        # After the database, whose primary key refuses a second note of the name.
        notes[name] = masked

    async def _notes(self) -> dict[str, Any]:
        async with self._reading:  # once, also for parallel calls
            if self._known is None:
                known: dict[str, Any] = {}
                if self._log is not None and self._thread is not None:
                    from zeus_runtime.store.run_notes import notes_of

                    stored = await notes_of(self._log, self._thread, self._run_id)
                    known = {name: json.loads(text) for name, text in stored.items()}
                # Only now: a read that failed is tried again.
                self._known = known
            return self._known
