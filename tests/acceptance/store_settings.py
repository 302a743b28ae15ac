"""Where sessions, originals, checkpoints and vectors are kept, and for how long."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from tests.acceptance import vectors_asked
from tests.acceptance.settings import Flip, Scene
from tests.acceptance.shared_settings import remembering
from tests.support.agents import script
from tests.support.ports import unused_port
from zeus_runtime import MissingError
from zeus_runtime.store import database as store_database
from zeus_runtime.store.transactions import PooledTransactions


async def databases(scene: Scene) -> list[str]:
    await scene.play("done")
    return sorted(file for file in scene.files() if file.endswith(".db"))


async def misses_its_database(scene: Scene) -> bool:
    """Whether the checkpointer says that the threads' database is none for it; no server runs here."""
    with pytest.raises(MissingError) as missing:
        await scene.play("done")
    return "storage.url names another" in missing.value.message


async def connections_at_most(scene: Scene) -> int:
    """How many connections for threads an agent may open; no server runs here."""
    allowed: list[int] = []

    def noted(*given: Any, most: int) -> PooledTransactions[Any]:
        allowed.append(most)
        return PooledTransactions(*given, most=most)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_database, "PooledTransactions", noted)
        with pytest.raises(MissingError):
            await scene.play("done")
    return allowed[0]


async def graph_is_asked(scene: Scene) -> tuple[bool, str | None]:
    """Whether pgvector asks its HNSW index where 25,000 vectors are in reach, and with which ef_search."""
    plan = scene.agent().plan
    assert plan.memory is not None
    return vectors_asked.asked(plan.memory.vector_store.create(plan.context))


async def vectors_are_kept(scene: Scene) -> bool:
    """Whether pgvector keeps in the process what is asked again."""
    plan = scene.agent().plan
    assert plan.memory is not None
    return vectors_asked.copied(plan.memory.vector_store.create(plan.context))


async def chroma_folder(scene: Scene) -> list[str]:
    """Where the vectors of a memory are."""
    memory = remembering(scene)
    await memory.add_explicit_memory("The user plays the piano")
    await memory.aclose()
    return [str(file.relative_to(scene.folder)) for file in scene.folder.rglob("zeus-vectors.json")]


async def chroma_request(scene: Scene) -> str | None:
    """What the ChromaDB server is asked, and with which header; None without a server."""
    asked: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path.partition('/api/')[1]} {self.headers.get('X-Team')}")
            self.send_error(503)

        def log_message(self, *_args: Any) -> None:
            return

    with HTTPServer(("127.0.0.1", CHROMA_PORT), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        memory = remembering(scene)
        with suppress(MissingError):
            await memory.add_explicit_memory("The user plays the piano")
            await memory.aclose()
        server.shutdown()
    return asked[0] if asked else None


CHROMA_PORT = unused_port()
CHROMA_URL = f"http://127.0.0.1:{CHROMA_PORT}"
PGVECTOR: dict[str, Any] = {"memory": {"embeddings": "static", "vector_store": {"pgvector": {"kept_mb": 0}}}}


async def keeps_checkpoints(scene: Scene) -> bool:
    """Whether the threads' database holds the checkpoints too."""
    await scene.play("done")
    with closing(sqlite3.connect(scene.folder / ".zeus/zeus.db")) as database:
        return bool(
            database.execute("SELECT 1 FROM sqlite_master WHERE name = 'checkpoint_write'").fetchall()
        )


EVICTING = {
    "plugins": {"files": ["probe.py"]},
    "tools": ["gauge"],
    "middlewares": [{"eviction": {"max_tokens": 50}}],
}


async def archived(scene: Scene) -> list[str]:
    """Which archived files are left after a run that archives one more."""
    for name, days in (("old", 40), ("new", 20)):
        scene.write(f".zeus/large_tool_results/{name}", "x" * 2_000)
        path = scene.folder / ".zeus/large_tool_results" / name
        moment = time.time() - days * 86_400
        os.utime(path, (moment, moment))
    given = [AIMessage("", tool_calls=[{"name": "speak", "args": {"words": 100}, "id": "s"}]), "done"]
    assert (await scene.play(*given)).ending == "complete"
    return sorted(path.name for path in (scene.folder / ".zeus/large_tool_results").iterdir())


async def kept_sessions(scene: Scene) -> tuple[list[str], list[str]]:
    """Which sessions are listed, and which are archived, when a third run ends and the first is from long ago."""
    for prompt in ("first", "second"):
        await scene.play("done", prompt=prompt)
    with closing(sqlite3.connect(scene.folder / ".zeus" / "zeus.db")) as stored, stored:
        stored.execute("DELETE FROM upkeep")
        stored.execute("UPDATE thread SET updated_ms = 1 WHERE title = 'first'")
    await scene.play("done", prompt="third")
    async with scene.agent() as agent:
        log = (await agent._open()).log
        listed, archived = await log.sessions(), await log.sessions(archived=True)
    return sorted(each.title for each in listed), sorted(each.title for each in archived)


async def old_archives(scene: Scene) -> list[str]:
    """Which archived sessions are left when a run ends and one was archived long ago."""
    await scene.play("done", prompt="first")
    async with scene.agent() as agent:
        (first,) = await agent.sessions()
        await agent.archive(first.session)
    with closing(sqlite3.connect(scene.folder / ".zeus" / "zeus.db")) as stored, stored:
        stored.execute("DELETE FROM upkeep")
        stored.execute("UPDATE checkpoint_archive SET archived_ms = 1")
    await scene.play("done", prompt="second")
    async with scene.agent() as agent:
        return [each.title for each in await (await agent._open()).log.sessions(archived=True)]


async def old_events(scene: Scene) -> int:
    """How many stored events of a session from long ago are left when a run of another session ends."""
    async with scene.agent(script("done")) as agent:
        agent.keep_events(lambda *_: None)
        (session,) = {each.to_wire()["session"] async for each in agent.stream("first")}
    with closing(sqlite3.connect(scene.folder / ".zeus" / "zeus.db")) as stored, stored:
        stored.execute("DELETE FROM upkeep")
        stored.execute("UPDATE run_event SET created_ms = 1")
    await scene.play("done", prompt="second")
    async with scene.agent() as agent:
        return min(len(await agent.stored_events(session)), 2)


STORES = (
    Flip("archive.max_age_days", None, archived, ["new", "s"], ["new", "old", "s"], EVICTING),
    Flip("archive.max_megabytes", 0.002, archived, ["new", "s"], ["s"], EVICTING),
    Flip("storage.url", "sqlite:///other.db", databases, [".zeus/zeus.db"], ["other.db"]),
    Flip(
        "storage.connections",
        2,
        connections_at_most,
        4,
        2,
        {"storage": {"url": "postgresql://zeus@127.0.0.1:1/zeus"}},
    ),
    Flip(
        "retention.max_age_days",
        30,
        kept_sessions,
        (["first", "second", "third"], []),
        (["second", "third"], ["first"]),
    ),
    Flip(
        "retention.max_sessions",
        1,
        kept_sessions,
        (["first", "second", "third"], []),
        (["third"], ["first", "second"]),
    ),
    Flip(
        "retention.archive",
        False,
        kept_sessions,
        (["second", "third"], ["first"]),
        (["second", "third"], []),
        {"retention": {"max_age_days": 30}},
    ),
    Flip("retention.archived_max_age_days", 30, old_archives, ["first"], []),
    Flip("retention.events_max_age_days", 30, old_events, 2, 1),
    Flip(
        "checkpointer",
        "memory",
        keeps_checkpoints,
        True,
        False,
    ),
    Flip(
        "checkpointer:postgres.url",
        "postgresql://zeus@127.0.0.1:1/zeus",
        misses_its_database,
        True,
        False,
        {"checkpointer": {"postgres": {}}},
    ),
    Flip(
        "checkpointer:sqlite.path",
        "check.db",
        databases,
        [".zeus/zeus.db"],
        [".zeus/zeus.db", "check.db"],
        {"checkpointer": {"sqlite": {}}},
    ),
    Flip("vector_store:pgvector.exact", "always", graph_is_asked, (True, "100"), (False, None), PGVECTOR),
    Flip("vector_store:pgvector.exact_up_to", 30_000, graph_is_asked, (True, "100"), (False, None), PGVECTOR),
    Flip("vector_store:pgvector.kept_mb", 64, vectors_are_kept, False, True, PGVECTOR),
    Flip("vector_store:pgvector.ef_search", 400, graph_is_asked, (True, "100"), (True, "400"), PGVECTOR),
    Flip(
        "vector_store:chroma.path",
        "vectors",
        chroma_folder,
        [".zeus/zeus.db-chroma/zeus-vectors.json"],
        ["vectors/zeus-vectors.json"],
        {"memory": {"embeddings": "static", "vector_store": {"chroma": {}}}},
    ),
    Flip(
        "vector_store:chroma.url",
        CHROMA_URL,
        chroma_request,
        None,
        "/api/ None",
        {"memory": {"embeddings": "static", "vector_store": {"chroma": {}}}},
    ),
    Flip(
        "vector_store:chroma.headers",
        {"X-Team": "argo"},
        chroma_request,
        "/api/ None",
        "/api/ argo",
        {"memory": {"embeddings": "static", "vector_store": {"chroma": {"url": CHROMA_URL}}}},
    ),
)
