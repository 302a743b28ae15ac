"""What every ``MemoryBackend`` must do, as tests that an author of a memory plugin inherits.

    class TestMyMemory(MemoryConformance):
        def backend(self, folder):
            return MyMemory(folder / "memories")

The tests need pytest, and nothing else: each runs its own event loop. They go through ``MemoryService``, so the gate
and the permissions are those of a real agent.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from zeus_runtime.memory.admission.decisions import Duplicate, StoredAlone
from zeus_runtime.memory.backend import MemoryBackend
from zeus_runtime.memory.database_memory import backend_of
from zeus_runtime.memory.items import ROLES, VISIBILITIES, Caller
from zeus_runtime.memory.opened import MemorySource
from zeus_runtime.memory.outcomes import UnknownMemoryError
from zeus_runtime.memory.permissions import PROJECT_GRANTS
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.memory.vectors import Entry, VectorQuery, VectorStore

if TYPE_CHECKING:
    from sqlalchemy import Connection

ANN = Caller("ann", session_id="s1")


class MemoryConformance:
    """Inherit it and say how to get the backend; each ``test_`` method is one thing a backend must do."""

    def backend(self, folder: Path) -> MemoryBackend:
        """The backend; asked again with the same folder, one that finds what the former stored."""
        raise NotImplementedError

    def test_a_saved_memory_is_found_listed_and_read(self) -> None:
        async def work(memory: MemoryService, _: _Clock) -> None:
            saved = await memory.add_explicit_memory(
                "The user plays the cello in an orchestra", subject="music"
            )
            assert saved.item is not None
            assert await memory.get(saved.item.id) == saved.item
            assert await memory.list_memories() == [saved.item]
            (found,) = await memory.search_memories("Who plays the cello?")
            assert found.item == saved.item
            assert await memory.search_memories("zzyzx") == []

        self._run(work)

    def test_every_field_comes_back_as_it_was(self) -> None:
        async def work(memory: MemoryService, clock: _Clock) -> None:
            saved = await memory.for_caller(Caller("a.b c/d", "p.q", "owner", "s.1")).add_explicit_memory(
                "Der Hafen öffnet um 6 Uhr 🚢 港口",
                scope="project",
                memory_type="event",
                source="knowledge_base",
                source_id="tides.md#2",
                confidence=0.75,
                visibility="owner_only",
                subject="the harbour",
                valid_from=clock.now - timedelta(days=3),
                valid_until=clock.now + timedelta(days=3),
            )
            assert saved.item is not None
            there = memory.for_caller(Caller("a.b c/d", "p.q", "owner"))
            assert (await there.get(saved.item.id), saved.item.trust) == (saved.item, "untrusted")

        self._run(work)

    def test_what_is_named_is_superseded_and_its_history_says_so(self) -> None:
        async def work(memory: MemoryService, clock: _Clock) -> None:
            old = await memory.add_explicit_memory("The user lives in Leipzig")
            assert old.item is not None
            clock.now += timedelta(days=30)
            new = await memory.add_explicit_memory("The user lives in Berlin", replaces=[old.item.id])
            assert (new.outcome, new.replaced) == ("superseded", old.item)
            assert [each.content for each in await memory.list_memories()] == ["The user lives in Berlin"]
            (gone,) = await memory.list_memories(status="superseded")
            assert (gone.superseded_by, gone.valid_until) == (new.item and new.item.id, clock.now)
            history = await memory.memory_history(old.item.id)
            if history:
                assert [each.action for each in history] == ["stored", "superseded"]
                assert [each.valid_until for each in history] == [None, clock.now]
            else:
                assert "history" in memory.lacks

        self._run(work)

    def test_the_same_text_is_kept_once(self) -> None:
        async def work(memory: MemoryService, _: _Clock) -> None:
            first = await memory.add_explicit_memory("The user drinks green tea in the morning")
            again = await memory.add_explicit_memory("the user drinks green tea in the morning.")
            assert (again.outcome, again.item) == ("duplicate", first.item)
            many = await asyncio.gather(
                *(memory.add_explicit_memory("The user owns a canoe") for _ in range(4))
            )
            assert sorted(each.outcome for each in many) == [*["duplicate"] * 3, "stored"]

        self._run(work)

    def test_a_change_is_the_next_version_and_comes_first(self) -> None:
        async def work(memory: MemoryService, clock: _Clock) -> None:
            ids = []
            for text in ("The user has a boat", "The user speaks Portuguese", "The user dislikes coriander"):
                clock.now += timedelta(minutes=1)
                saved = await memory.add_explicit_memory(text)
                ids.append(saved.item.id if saved.item else "")
            clock.now += timedelta(minutes=1)
            changed = await memory.update_memory(ids[0], content="The user has two boats")
            assert (changed.version, changed.content) == (2, "The user has two boats")
            assert [each.id for each in await memory.list_memories()] == [ids[0], ids[2], ids[1]]
            assert [each.id for each in await memory.list_memories(limit=1, offset=1)] == [ids[2]]
            await memory.update_memory(ids[1], status="archived")
            assert ids[1] not in {each.id for each in await memory.list_memories()}
            assert [each.id for each in await memory.list_memories(status="archived")] == [ids[1]]
            assert await memory.search_memories("Portuguese") == []

        self._run(work)

    def test_a_deleted_memory_is_gone_with_what_it_had_superseded(self) -> None:
        async def work(memory: MemoryService, _: _Clock) -> None:
            old = await memory.add_explicit_memory("The user works at the harbour")
            assert old.item is not None
            new = await memory.add_explicit_memory("The user works at the mill", replaces=[old.item.id])
            assert new.item is not None
            await memory.delete_memory(new.item.id)
            assert await memory.list_memories(status=None) == []
            assert await memory.current_memories([old.item.id, new.item.id]) == {}
            assert all(
                not each.content for each in await backend_of(memory._shared, ANN).history(old.item.id)
            )

        self._run(work)

    def test_two_users_cannot_read_each_other(self) -> None:
        async def work(memory: MemoryService, _: _Clock) -> None:
            bob = memory.for_caller(Caller("bob", session_id="s1"))
            for scope in ("user", "session"):
                saved = await memory.add_explicit_memory(f"Ann hides her diary in the {scope}", scope=scope)
                assert saved.item is not None
                await _refused(bob, saved.item.id)
            assert await bob.search_memories("Where is the diary?") == []
            assert await bob.list_memories(status=None) == []
            assert len(await memory.list_memories()) == 2

        self._run(work)

    def test_a_project_s_roles_hold(self) -> None:
        async def work(memory: MemoryService, _: _Clock) -> None:
            author = memory.for_caller(Caller("ann", "apollo", "editor"))
            for visibility in VISIBILITIES:
                saved = await author.add_explicit_memory(
                    f"The plan is {visibility} for the launch", scope="project", visibility=visibility
                )
                assert saved.item is not None
                for role in ROLES:
                    other = memory.for_caller(Caller("eve", "apollo", role))
                    allowed = any(
                        grant.covers(visibility, own=False) for grant in PROJECT_GRANTS[role]["read"]
                    )
                    assert (saved.item.id in await other.current_memories([saved.item.id])) == allowed
                    hidden = {each.id for each in await other.hidden_memories()}
                    assert (saved.item.id in hidden) == (not allowed and role in ("owner", "admin"))
                    if role in ("editor", "viewer"):
                        await _refused(other, saved.item.id, reads=allowed)
                await _refused(memory.for_caller(Caller("eve", "gemini", "owner")), saved.item.id)

        self._run(work)

    def test_a_session_s_memories_go_with_it(self) -> None:
        async def work(memory: MemoryService, _: _Clock) -> None:
            await memory.add_explicit_memory("The draft is called Heron", scope="session")
            kept = await memory.for_session("s2").add_explicit_memory(
                "The draft is called Egret", scope="session"
            )
            bob = memory.for_caller(Caller("bob", session_id="s1"))
            await bob.add_explicit_memory("Bob calls the draft Stork", scope="session")
            own = await bob.add_explicit_memory("Bob plays the harp")
            assert await memory.forget_sessions(["s1"]) == 2
            assert await memory.list_memories() == []
            assert await memory.for_session("s2").list_memories() == [kept.item]
            assert await bob.list_memories() == [own.item]

        self._run(work)

    def test_what_a_save_would_come_to_is_told_and_not_stored(self) -> None:
        async def work(memory: MemoryService, _: _Clock) -> None:
            await memory.add_explicit_memory("The user keeps three bees")
            said = await memory.check_duplicate("the user keeps three bees.")
            assert isinstance(said, Duplicate)
            assert isinstance(await memory.check_duplicate("The user plays the harp"), StoredAlone)
            assert [each.content for each in await memory.list_memories(status=None)] == [
                "The user keeps three bees"
            ]

        self._run(work)

    def test_the_limit_of_extractions_counts_what_was_stored(self) -> None:
        async def work(memory: MemoryService, _: _Clock) -> None:
            texts = ("The user sings bass", "The user sings bass", "The user sails", "The user bakes bread")
            outcomes = [
                (await memory.add_extracted_memory(each, confidence=0.9)).outcome
                for each in (*texts, "The user keeps bees")
            ]
            assert outcomes == ["stored", "duplicate", "stored", "stored", "rejected"]

        self._run(work)

    def test_an_import_brings_the_past_and_says_what_it_does_not(self) -> None:
        async def work(memory: MemoryService, clock: _Clock) -> None:
            since = clock.now - timedelta(days=90)
            changes = [
                {
                    "version": number + 1,
                    "action": action,
                    "by": "eve",
                    "at": (since + timedelta(days=number)).isoformat(),
                    "content": f"The user keeps {number + 2} bees",
                    "valid_from": since.isoformat(),
                    "valid_until": None,
                }
                for number, action in enumerate(("stored", "updated", "updated"))
            ]
            now = {"id": "mem_a", "content": "The user keeps 4 bees", "history": changes}
            before = {
                "id": "mem_b",
                "content": "The user keeps a canary",
                "status": "superseded",
                "superseded_by": "mem_a",
                "history": changes[:1],
            }
            done = await memory.import_memories([now, before])
            assert (done.outcomes["stored"], done.past) == (2, 1)
            (active,) = await memory.list_memories()
            (past,) = await memory.list_memories(status="superseded")
            assert (active.content, past.superseded_by) == ("The user keeps 4 bees", active.id)
            histories = [await memory.memory_history(each.id) for each in (active, past)]
            if done.lost:
                assert done.lost == {"histories": 2}
                assert "histories of an import" in memory.lacks or "history" in memory.lacks
            else:
                actions = [[each.action for each in history] for history in histories]
                assert actions == [["stored", "updated", "updated", "imported"], ["stored", "imported"]]
                assert [each.content for each in histories[0][:3]] == [each["content"] for each in changes]
                assert [each.at for each in histories[0][:3]] == [since + timedelta(days=n) for n in range(3)]
                assert {each.item for each in histories[0]} == {active.id}
            clock.now += timedelta(days=1)
            await memory.update_memory(active.id, content="The user keeps 5 bees")
            if not done.lost:
                assert [each.action for each in await memory.memory_history(active.id)][-2:] == [
                    "imported",
                    "updated",
                ]

        self._run(work)

    def test_what_was_stored_is_there_after_reopening(self) -> None:
        with tempfile.TemporaryDirectory() as name:

            async def save(memory: MemoryService, _: _Clock) -> None:
                await memory.add_explicit_memory("The user repairs clocks")
                await memory.aclose()
                assert len(await memory.list_memories()) == 1

            async def look(memory: MemoryService, _: _Clock) -> None:
                assert [each.content for each in await memory.list_memories()] == ["The user repairs clocks"]

            self._run(save, Path(name))
            self._run(look, Path(name))

    def _run(
        self, work: Callable[[MemoryService, _Clock], Awaitable[None]], folder: Path | None = None
    ) -> None:
        async def opened() -> None:
            with tempfile.TemporaryDirectory() as name:
                async with self._service(folder or Path(name)) as (memory, clock):
                    await work(memory, clock)

        asyncio.run(opened())

    @asynccontextmanager
    async def _service(self, folder: Path) -> AsyncIterator[tuple[MemoryService, _Clock]]:
        clock = _Clock()
        memory = MemoryService(self._source(folder, clock), ANN)
        try:
            yield memory, clock
        finally:
            await memory.aclose()

    def _source(self, folder: Path, clock: _Clock) -> MemorySource:
        """Profiles, members and the limit of extractions are in a database of the folder."""
        return MemorySource(
            "sqlite:///zeus.db", folder, _NoVectors, now=clock, open_backend=lambda: self.backend(folder)
        )


class _NoVectors(VectorStore):
    """The database has no memories, so it has no vectors."""

    def prepare(self, connection: Connection) -> None:
        return

    def put(self, connection: Connection, entries: Sequence[Entry]) -> None:
        raise AssertionError("a memory was written into the database")

    def remove(self, connection: Connection, ids: Collection[str]) -> None:
        return

    def nearest(self, connection: Connection, query: VectorQuery) -> Iterator[tuple[str, float]]:
        return iter(())

    def cosines(self, connection: Connection, query: VectorQuery, ids: Collection[str]) -> dict[str, float]:
        return {}

    def ids(self, connection: Connection) -> set[str]:
        return set()


class _Clock:
    """A clock that is told."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


async def _refused(memory: MemoryService, memory_id: str, *, reads: bool = False) -> None:
    """The caller may neither change nor delete a memory, and read it only if ``reads``."""
    for refused in (
        lambda: memory.update_memory(memory_id, confidence=0.9),
        lambda: memory.delete_memory(memory_id),
        *(() if reads else (lambda: memory.get(memory_id), lambda: memory.memory_history(memory_id))),
    ):
        try:
            await refused()
        except UnknownMemoryError:
            continue
        raise AssertionError(f"{memory.caller} was not refused")
