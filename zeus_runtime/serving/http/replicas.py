"""The other processes of a service on the same databases: what they stored, and which turns they were asked to cancel.

On PostgreSQL they tell each other by notices. A notice only says that there is something to read; the database is
still asked once in a while, and as often as without notices while they do not arrive.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from zeus_runtime.errors import ZeusError
from zeus_runtime.store.event_log import last_numbers
from zeus_runtime.store.notices import MOST_CHARACTERS, give_notice, notices
from zeus_runtime.tools.run_to_completion import all_tried

if TYPE_CHECKING:
    from zeus_runtime.serving.http.backtests import Backtests
    from zeus_runtime.serving.http.hosting import HostedAgent, Hosting
    from zeus_runtime.serving.http.hub import Hub
    from zeus_runtime.serving.http.turn_queue import TurnQueue
    from zeus_runtime.store.database import Database

_log = logging.getLogger(__name__)

ASK_SECONDS: Final = 20.0
"""How often a database is asked whose notices arrive: a process may be killed between its commit and its notice."""
SURE_SECONDS: Final = 2.5 * ASK_SECONDS
"""How long after an own notice came back others are expected to arrive."""
GATHER_SECONDS: Final = 0.1
"""How long after a notice the next one may be sent."""
RECONNECT_SECONDS: Final = 5.0
_AT_ONCE: Final = MOST_CHARACTERS // 40
"""Sessions that one notice names."""


@dataclass
class _Listening:
    """A connection that hears the notices of one database.

    Attributes:
        returned: when an own notice came back last, by the monotonic clock.
        asked: when the database was asked last.
    """

    task: asyncio.Task[None] | None = None
    returned: float = float("-inf")
    asked: float = float("-inf")
    problem: str = ""

    def is_due(self, now: float) -> bool:
        """Whether the database is to be asked."""
        return now - self.returned > SURE_SECONDS or now - self.asked >= ASK_SECONDS


@dataclass
class Replicas:
    """What this process and the others of a service tell each other.

    Args:
        hosting: the agents, whose databases they share.
        hub: the readers here.
        turns: the turns here.
        backtests: the backtests here.
    """

    hosting: Hosting
    hub: Hub
    turns: TurnQueue
    backtests: Backtests
    _name: str = field(init=False, default_factory=lambda: secrets.token_hex(8))
    _listening: dict[str, _Listening] = field(init=False, default_factory=dict)
    _last: dict[str, int] = field(init=False, default_factory=dict)
    _is_cancel: bool = field(init=False, default=False)
    _telling: asyncio.Task[None] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.hub.announce = self._note_events
        self.turns.tell_to_cancel = self.backtests.tell_to_cancel = self._note_cancel

    @property
    def are_heard(self) -> bool:
        """Whether notices arrive from every database, so that hardly any is asked."""
        now = time.monotonic()
        return bool(self._listening) and all(
            now - each.returned <= SURE_SECONDS for each in self._listening.values()
        )

    async def look(self) -> None:
        """Ask the databases whose notices do not arrive, and the others once in a while.

        Raises:
            ZeusError: a database cannot be read.
        """
        databases: dict[str, Database] = {}
        await all_tried(partial(self._find, databases), partial(self._look_at, databases))
        # Only here, where no agent's database is missing: a changed config may name another one.
        for name in self._listening.keys() - databases.keys():
            if (task := self._listening.pop(name).task) is not None:
                task.cancel()

    async def _look_at(self, databases: Mapping[str, Database]) -> None:
        self._listen(databases)
        now = time.monotonic()
        due = {name: each for name, each in databases.items() if self._is_due(name, now)}
        if due:
            asks = (partial(self._ask, name, due[name], now) for name in due)
            await all_tried(self._cancel_as_asked, *asks)

    async def _ask(self, name: str, database: Database, now: float) -> None:
        listening = self._listening.get(name)
        if listening is not None:
            # Before the question: if it comes back, it was heard from a moment on that the question covers.
            await give_notice(database, [json.dumps({"by": self._name, "returns": True})])
        # This process stores the events of turns that run here, so its readers have them.
        if sessions := [each for each in self.hub.sessions if each not in self.turns]:
            for session, number in (await last_numbers(database, sessions)).items():
                self.hub.hear(session, number)
        if listening is not None:
            # Not if the questions failed: the next look asks again.
            listening.asked = now

    def _is_due(self, name: str, now: float) -> bool:
        listening = self._listening.get(name)
        return listening is None or listening.is_due(now)

    async def aclose(self) -> None:
        """Send what is not sent yet, and listen no more."""
        tasks = [self._telling, *(each.task for each in self._listening.values())]
        for task in filter(None, tasks):
            task.cancel()
            await asyncio.wait((task,))
        with suppress(ZeusError):
            await self._tell()
        self._listening.clear()

    async def _find(self, databases: dict[str, Database]) -> None:
        """Add the databases of the agents, each once; those of others too if one cannot be opened."""

        async def find(hosted: HostedAgent) -> None:
            if hosted.away:  # nothing here uses it yet, and `TurnQueue.recover_rest` tries it
                return
            await hosted.prepare(None)
            database = (await hosted.of(None).log()).database
            databases[database.place] = database

        await all_tried(*(partial(find, each) for each in self.hosting))

    def _listen(self, databases: Mapping[str, Database]) -> None:
        for name, database in databases.items():
            if database.server is not None and name not in self._listening:
                listening = self._listening[name] = _Listening()
                listening.task = asyncio.create_task(
                    self._hear(database, listening), name=f"notices of {name}"
                )

    async def _hear(self, database: Database, listening: _Listening) -> None:
        while True:
            try:
                async with aclosing(notices(database)) as heard:
                    async for each in heard:
                        listening.problem = ""
                        await self._heard(each, listening)
            except Exception as error:  # noqa: BLE001 - no code awaits the task, and it listens as long as the service runs
                if str(error) != listening.problem:
                    is_known = isinstance(error, ZeusError)
                    words = "events of other processes are seen some seconds late: %s"
                    _log.warning(words, error, exc_info=not is_known)
                listening.problem = str(error)
            # Notices were lost meanwhile: until an own one comes back, `look` asks the database each time.
            listening.returned = float("-inf")
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _heard(self, notice: str, listening: _Listening) -> None:
        try:
            told = json.loads(notice)
        except (ValueError, RecursionError):  # any user of the database may send one
            return
        match told:
            # Also this process's own events: its readers had them from `Hub.stored`.
            case {"by": self._name}:
                if told.get("returns"):
                    listening.returned = time.monotonic()
            case {"events": dict(events)}:
                sessions = {_digest(each): each for each in self.hub.sessions}
                for digest in events.keys() & sessions.keys():
                    if isinstance(events[digest], int):
                        self.hub.hear(sessions[digest], events[digest])
            case {"cancel": True}:
                await self._cancel_as_asked()

    async def _cancel_as_asked(self) -> None:
        await all_tried(self.turns.cancel_as_asked, self.backtests.cancel_as_asked)

    def _note_events(self, session: str, last: int) -> None:
        if self._listening:
            # The last number tells all before it, so of many events in 0.1 s one notice remains.
            self._last[_digest(session)] = last
            self._tell_soon()

    def _note_cancel(self) -> None:
        if self._listening:
            self._is_cancel = True
            self._tell_soon()

    def _tell_soon(self) -> None:
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell_all(), name="notices to other processes")

    async def _tell_all(self) -> None:
        # No await follows the last look, so `_tell_soon` finds this task either still looking or done.
        while self._last or self._is_cancel:
            try:
                await self._tell()
            except Exception as error:  # noqa: BLE001 - no code awaits the task
                _log.warning(
                    "other processes see some events late: %s",
                    error,
                    exc_info=not isinstance(error, ZeusError),
                )
            await asyncio.sleep(GATHER_SECONDS)

    async def _tell(self) -> None:
        found = self._taken()
        if not found:
            return
        databases: dict[str, Database] = {}

        async def give() -> None:
            heard = [each for name, each in databases.items() if name in self._listening]
            await all_tried(*(partial(give_notice, each, found) for each in heard))

        await all_tried(partial(self._find, databases), give)

    def _taken(self) -> Sequence[str]:
        """What is to be told, as notices."""
        told: list[dict[str, Any]] = [{"cancel": True}] if self._is_cancel else []
        # Forgotten before they are sent: if that fails, the others find them when they ask the database.
        last, self._last, self._is_cancel = iter(self._last.items()), {}, False
        while some := dict(islice(last, _AT_ONCE)):
            told.append({"events": some})
        return [json.dumps({"by": self._name, **each}) for each in told]


@lru_cache(maxsize=4096)
def _digest(session: str) -> str:
    """Names a session to those who know it: any user of the database may listen."""
    return hashlib.sha256(session.encode()).hexdigest()[:16]
