"""The vectors of knowledge bases in each vector store: found, repaired, moved, and what a killed process leaves."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection
from zeus_plugins.vector_stores.chroma.store import ChromaVectorStore
from zeus_plugins.vector_stores.pgvector.store import PgVectorStore
from zeus_plugins.vector_stores.sqlite.store import SqliteVectorStore

from tests.support.chroma_server import chroma_server
from tests.support.knowledge import Counting, knowledge, store_beside, write
from zeus_runtime.errors import MissingError
from zeus_runtime.knowledge.ingest import BATCH
from zeus_runtime.knowledge.service import KnowledgeService
from zeus_runtime.memory.vectors import CollectionEntries, VectorCollection, VectorStore

URL = "sqlite:///.zeus/zeus.db"
QUERIES = ("the cunning of Odysseus", "bread and wine", "part 17", "ships")


@dataclass(frozen=True)
class Place:
    """A database and a vector store beside it."""

    url: str
    folder: Path
    open_vectors: Callable[[], VectorStore]

    def service(self, **more: Any) -> Any:
        return knowledge(self.url, self.folder, **{"open_vectors": self.open_vectors, **more})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server that databases share; a collection's name has that of its database."""
    with chroma_server(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture(
    params=[
        "sqlite",
        "pgvector",
        "chroma",
        pytest.param("chroma server", marks=pytest.mark.xdist_group("chroma")),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    match request.param:
        case "sqlite":
            yield Place(URL, tmp_path, SqliteVectorStore)
        case "pgvector":
            yield Place(request.getfixturevalue("postgres_url"), tmp_path, PgVectorStore)
        case "chroma":
            yield Place(URL, tmp_path, lambda: ChromaVectorStore(tmp_path / "vectors"))
        case _:
            url = request.getfixturevalue("server")
            yield Place(URL, tmp_path, lambda: ChromaVectorStore(url))


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    write(
        folder,
        "heroes.md",
        "# Heroes\n\nOdysseus is a cunning man.\n\n# Food\n\nThey eat bread and drink wine.",
    )
    write(folder, "ships.md", "# Ships\n\nThe black ship sails from Ithaca to Pylos in three days.")
    parts = "\n\n".join(f"# Part {number}\n\nThe text of part {number} says it." for number in range(40))
    write(folder, "parts.md", parts)
    return folder


async def found(service: KnowledgeService, *, by_vector: bool = False) -> list[list[tuple[str, str]]]:
    """What each query finds; with ``by_vector``, what its vector finds."""
    hits = [(await service.search(query, names=["handbook"])).hits for query in QUERIES]
    return [
        [(hit.source, hit.content) for hit in some if hit.vector_rank is not None or not by_vector]
        for some in hits
    ]


@asynccontextmanager
async def collection(
    place: Place,
) -> AsyncIterator[Callable[[Callable[[VectorCollection, Connection], Any]], Any]]:
    """Runs something on the collection of the one base, beside the service."""
    async with place.service() as service:
        base = await service.base("handbook")
        assert base is not None
        database, store = await service._open(), await service._store()

        async def run(work: Callable[[VectorCollection, Connection], Any]) -> Any:
            of = store.collection(base.collection, base.dimension)
            return await database.run(lambda connection: work(of, connection))

        yield run  # type: ignore[misc]


async def test_each_store_finds_what_every_other_does_also_after_changes(
    place: Place, docs: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    exact = Place(URL, tmp_path_factory.mktemp("exact"), SqliteVectorStore)
    async with place.service() as service, exact.service() as reference:

        async def both(work: Callable[[KnowledgeService], Any]) -> None:
            one, other = await work(service), await work(reference)
            assert one == other
            assert await found(service, by_vector=True) == await found(reference, by_vector=True)
            assert await found(service) == await found(reference)

        await both(lambda each: each.add("handbook", [docs]))
        write(docs, "ships.md", "# Ships\n\nThe swift ships of the Phaeacians need no helmsman.")
        await both(lambda each: each.add("handbook", []))
        (docs / "heroes.md").unlink()
        await both(lambda each: each.add("handbook", []))
        await both(lambda each: each.remove("handbook", [docs]))
        assert [each for some in await found(service) for each in some] == []


async def test_a_removed_base_leaves_no_vector(place: Place, docs: Path) -> None:
    async with place.service() as service:
        await service.add("handbook", [docs])
        base = await service.base("handbook")
        assert base is not None
        database, store = await service._open(), await service._store()
        of = store.collection(base.collection, base.dimension)
        assert await database.run(of.size) == base.chunks
        await service.remove("handbook")
        assert await database.run(of.digests) == {}


async def test_a_vector_that_is_wrong_is_never_found_and_the_next_update_repairs_it_alone(
    place: Place, docs: Path
) -> None:
    async with place.service() as service:
        await service.add("handbook", [docs])
        before = await found(service, by_vector=True)
    async with collection(place) as run:
        digests = await run(lambda of, connection: dict(of.digests(connection)))
        lost, stale, *_ = sorted(digests)

        def spoil(of: VectorCollection, connection: Connection) -> None:
            vectors = of.read(connection, [stale]).vectors
            of.remove(connection, [lost])
            of.put(connection, CollectionEntries([stale, 2**50], [b"x" * 16, b"y" * 16], vectors[[0, 0]]))

        await run(spoil)
    async with place.service(embedder=(model := Counting())) as service:
        hits = [
            hit
            for query in QUERIES
            for hit in (await service.search(query, names=["handbook"], top_k=40)).hits
        ]
        assert not {hit.content for hit in hits if hit.vector_rank} & {
            "Odysseus is a cunning man.",
            "They eat bread and drink wine.",
        }
        assert {"Odysseus is a cunning man.", "They eat bread and drink wine."} <= {
            hit.content for hit in hits
        }
        model.texts.clear()
        done = await service.add("handbook", [])
        assert (done.unchanged, done.embedded, done.repaired, len(model.texts)) == (3, 2, 3, 2)
        assert await found(service, by_vector=True) == before
        assert (await service.add("handbook", [])).repaired == 0
    async with collection(place) as run:
        assert await run(lambda of, connection: dict(of.digests(connection))) == digests


async def test_a_search_says_how_many_vectors_are_missing(place: Place, docs: Path) -> None:
    async with place.service() as service:
        await service.add("handbook", [docs])
        assert (await service.search("ships", names=["handbook"])).notices == ()
    async with collection(place) as run:
        ids = sorted(await run(lambda of, connection: dict(of.digests(connection))))
        await run(lambda of, connection: of.remove(connection, ids[:2]))
    async with place.service() as service:
        (notice,) = (await service.search("ships", names=["handbook"], for_tool=False)).notices
        assert "2 passages of 'handbook' have no vector" in notice
        (told,) = (await service.search("ships", names=["handbook"])).notices
        assert "some passages of 'handbook' have no vector" in told
        assert "`zeus kb add handbook`" in notice
        await service.add("handbook", [])
        assert (await service.search("ships", names=["handbook"])).notices == ()


async def test_another_model_has_a_collection_of_its_own_and_the_former_is_dropped(
    place: Place, docs: Path
) -> None:
    async with place.service(embedder=Counting(model="first")) as service:
        await service.add("handbook", [docs])
        former = await service.base("handbook")
        assert former is not None
    async with place.service(embedder=Counting(model="second")) as service:
        done = await service.reindex("handbook")
        base = await service.base("handbook")
        assert base is not None
        assert (done.embedded, base.embedding) == (base.chunks, "second")
        assert base.collection != former.collection
        database, store = await service._open(), await service._store()
        assert await database.run(store.collection(former.collection, former.dimension).size) == 0
        assert await database.run(store.collection(base.collection, base.dimension).size) == base.chunks
        assert (await service.search("the cunning of Odysseus", names=["handbook"])).hits[0].vector_rank == 1


async def test_vectors_move_from_the_database_s_own_store_to_another_without_being_computed(
    docs: Path, tmp_path: Path
) -> None:
    async with knowledge(URL, tmp_path) as service:
        await service.add("handbook", [docs])
        before = await found(service, by_vector=True)
    place = Place(URL, tmp_path, lambda: ChromaVectorStore(tmp_path / "vectors"))
    async with place.service(embedder=(model := Counting()), open_former=store_beside(URL)) as service:
        (notice,) = (await service.search("ships", names=["handbook"])).notices
        assert "have no vector" in notice
        model.texts.clear()
        done = await service.add("handbook", [])
        assert (done.unchanged, done.embedded, model.texts) == (3, 0, [])
        assert await found(service, by_vector=True) == before
    async with collection(Place(URL, tmp_path, SqliteVectorStore)) as run:
        assert await run(lambda of, connection: of.size(connection)) == 0


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from zeus_plugins.vector_stores.chroma.collection import ChromaCollection
from zeus_plugins.vector_stores.chroma.store import ChromaVectorStore
from tests.support.knowledge import knowledge

after, puts = int(sys.argv[2]), []
real = ChromaCollection.put

def put(self, connection, entries):
    if len(puts) == after:
        os.kill(os.getpid(), signal.SIGKILL)
    puts.append(entries)
    real(self, connection, entries)

ChromaCollection.put = put

async def main():
    folder = Path(sys.argv[1])
    opens = lambda: ChromaVectorStore(folder / "vectors")
    async with knowledge("sqlite:///.zeus/zeus.db", folder, open_vectors=opens) as service:
        await service.add("handbook", [folder / "docs"])

asyncio.run(main())
"""


def killed_after(puts: int, folder: Path) -> int:
    command = [sys.executable, "-c", KILLED, str(folder), str(puts)]
    return subprocess.run(command, cwd=Path(__file__).parents[2], check=False).returncode


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_what_a_killed_process_did_not_bring_to_chroma_is_made_by_the_next_update_alone(
    after: int, tmp_path: Path
) -> None:
    for number in range(3):
        text = "\n\n".join(
            f"# Part {number}.{part}\n\nWhat {part} of {number} says." for part in range(BATCH)
        )
        write(tmp_path / "docs", f"{number}.md", text)
    assert killed_after(after, tmp_path) == -signal.SIGKILL
    place = Place(URL, tmp_path, lambda: ChromaVectorStore(tmp_path / "vectors"))
    async with place.service(embedder=(model := Counting())) as service:
        ingested = await service.add("handbook", [])
        # One batch had its rows and no vectors, the later ones neither.
        assert (ingested.repaired, len(model.texts)) == (BATCH, (3 - after) * BATCH)
        result = await service.search("What 17 of 1 says", names=["handbook"])
        assert result.notices == ()
        assert result.hits[0].vector_rank is not None
        assert (await service.add("handbook", [])).repaired == 0


FILLING = """
import asyncio, sys
from pathlib import Path
from zeus_plugins.vector_stores.chroma.store import ChromaVectorStore
from tests.support.knowledge import knowledge

async def main():
    folder, url, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    opens = lambda: ChromaVectorStore(url)
    async with knowledge("sqlite:///.zeus/zeus.db", folder, open_vectors=opens) as service:
        await service.add(name, [folder / "docs"])
        result = await service.search("What 17 of 1 says", names=[name])
        assert result.notices == () and result.hits[0].vector_rank is not None

asyncio.run(main())
"""


@pytest.mark.xdist_group("chroma")
async def test_two_processes_fill_and_search_one_server_and_lose_nothing(server: str, tmp_path: Path) -> None:
    for number in range(3):
        text = "\n\n".join(
            f"# Part {number}.{part}\n\nWhat {part} of {number} says." for part in range(BATCH)
        )
        write(tmp_path / "docs", f"{number}.md", text)
    command = [sys.executable, "-c", FILLING, str(tmp_path), server]
    running = [
        await asyncio.create_subprocess_exec(*command, name, cwd=Path(__file__).parents[2])
        for name in ("one", "two")
    ]
    assert [await each.wait() for each in running] == [0, 0]
    place = Place(URL, tmp_path, lambda: ChromaVectorStore(server))
    async with place.service(embedder=(model := Counting())) as service:
        for name in ("one", "two"):
            assert (await service.add(name, [])).repaired == 0
    assert model.texts == []


async def test_a_server_that_does_not_answer_is_named_with_what_to_do(docs: Path, tmp_path: Path) -> None:
    with chroma_server(tmp_path / "server") as url:
        place = Place(URL, tmp_path, lambda: ChromaVectorStore(url))
        async with place.service() as service:
            await service.add("handbook", [docs])
    async with place.service() as service:
        with pytest.raises(MissingError) as caught:
            await service.search("ships", names=["handbook"])
    assert url in caught.value.message
    assert "memory.vector_store.chroma.url" in str(caught.value.remedy)


async def test_a_store_of_memories_alone_says_so(docs: Path, tmp_path: Path) -> None:
    class Memories(SqliteVectorStore):
        collection = VectorStore.collection

    async with knowledge(URL, tmp_path, open_vectors=Memories) as service:
        with pytest.raises(MissingError) as caught:
            await service.add("handbook", [docs])
    assert "Memories stores vectors of memories only" in caught.value.message
    assert "memory.vector_store" in str(caught.value.remedy)


async def test_a_chunk_of_which_the_model_knows_no_word_is_found_by_its_words(
    place: Place, tmp_path: Path
) -> None:
    class Silent(Counting):
        async def embed(self, texts: Any, *, purpose: Any) -> Any:
            vectors = await super().embed(texts, purpose=purpose)
            vectors[["qwxyz" in text for text in texts]] = 0
            return np.asarray(vectors)

    write(tmp_path / "docs", "a.md", "# A\n\nqwxyz\n\n# B\n\nThe ship sails.")
    async with place.service(embedder=Silent()) as service:
        await service.add("handbook", [tmp_path / "docs"])
        result = await service.search("qwxyz", names=["handbook"])
        assert (result.hits[0].content, result.hits[0].vector_rank) == ("qwxyz", None)
        assert result.notices == ()
        assert (await service.add("handbook", [])).repaired == 0
