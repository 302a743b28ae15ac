"""The vector store `chroma`: what every store does, one process at a time, and a process that is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from zeus_plugins import catalogue
from zeus_plugins.vector_stores.chroma.opening import open_server
from zeus_plugins.vector_stores.chroma.options import Options
from zeus_plugins.vector_stores.chroma.store import ChromaVectorStore, create

from tests.support.chroma_server import chroma_server
from tests.support.memory import HashingEmbedder, service
from zeus_runtime import MissingError, ZeusError
from zeus_runtime.memory.items import Caller, Embedding
from zeus_runtime.memory.service import MemoryService
from zeus_runtime.plugin.vector_store import CollectionEntries, Entry, VectorStore
from zeus_runtime.testing import VectorStoreConformance
from zeus_runtime.testing.store_in_use import digest_of, some_item, unit_vectors

pytest.importorskip("chromadb")
NOTHING: Any = None


class TestChromaVectorStore(VectorStoreConformance):
    def store(self, folder: Path) -> VectorStore:
        return ChromaVectorStore(folder / "vectors")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server; its tests are one group, or each worker would start one."""
    with chroma_server(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.mark.xdist_group("chroma")
class TestChromaServer(VectorStoreConformance):
    @pytest.fixture(autouse=True)
    def _empty(self, url: str) -> None:
        self.address = url
        client = open_server(url, {})
        for each in client.list_collections():
            client.delete_collection(each.name)
        client.close()

    def store(self, folder: Path) -> VectorStore:
        return ChromaVectorStore(self.address)


def test_more_than_a_page_of_a_collection_is_read_counted_and_yielded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zeus_plugins.vector_stores.chroma.collection.PAGE", 100)
    store = ChromaVectorStore(tmp_path)
    store.prepare(NOTHING)
    vectors = unit_vectors(450, dimension=8)
    of = store.collection("kb-first", 8)
    ids = list(range(1, 451))
    of.put(NOTHING, CollectionEntries(ids, [digest_of(each) for each in ids], vectors))
    assert of.digests(NOTHING) == {each: digest_of(each) for each in ids}
    found = list(of.nearest(NOTHING, vectors[7]))
    assert [each.id for each in found] == [int(each) + 1 for each in np.argsort(-(vectors @ vectors[7]))]
    store.put(NOTHING, [Entry(some_item(f"m{n}"), Embedding("m", 8), vectors[n]) for n in range(250)])
    assert len(store.ids(NOTHING)) == 250
    store.close()


@pytest.mark.xdist_group("chroma")
async def test_databases_that_share_a_server_keep_their_memories_apart(url: str, tmp_path: Path) -> None:
    for name, text in (("one", "The user plays the piano"), ("two", "The user prefers green tea")):
        memory = service(tmp_path / name, Caller("ann"), open_vectors=lambda: ChromaVectorStore(url))
        await memory.add_explicit_memory(text)
        await memory.aclose()
    for name, text in (("one", "The user plays the piano"), ("two", "The user prefers green tea")):
        memory = service(tmp_path / name, Caller("ann"), open_vectors=lambda: ChromaVectorStore(url))
        (found,) = await memory.search_memories(text, mode="vector")
        assert found.item.content == text
        await memory.check()
        await memory.aclose()


def memory_in(folder: Path, store: type[VectorStore] | None = None) -> MemoryService:
    kind = store or ChromaVectorStore
    return service(folder, Caller("ann"), open_vectors=lambda: kind(folder / "vectors"))  # type: ignore[call-arg]


def test_it_is_registered_as_chroma() -> None:
    (component,) = catalogue.vector_stores.chroma.register_vector_stores()
    assert component.name == "chroma"


def test_its_module_loads_no_chromadb() -> None:
    code = "import sys, zeus_plugins.vector_stores.chroma.store; print('chromadb' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_no_env_file_of_the_project_names_what_chroma_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    (tmp_path / ".env").write_text("CHROMA_API_IMPL=evil.Api\n")
    store = ChromaVectorStore(tmp_path / "vectors")
    try:
        store.prepare(NOTHING)
        assert store.ids(NOTHING) == set()
    finally:
        store.close()
    assert not (tmp_path / "ran").exists()


_HOLDING = """
import sys
from pathlib import Path
from zeus_plugins.vector_stores.chroma.store import ChromaVectorStore
store = ChromaVectorStore(Path(sys.argv[1]))
store.prepare(None)
print("open", flush=True)
sys.stdin.read()
store.close()
"""


def test_a_second_process_on_the_folder_is_refused_with_what_to_do(tmp_path: Path) -> None:
    holding = subprocess.Popen(
        [sys.executable, "-c", _HOLDING, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holding.stdout is not None
    assert holding.stdout.readline() == "open\n"
    store = ChromaVectorStore(tmp_path)
    with pytest.raises(MissingError) as caught:
        store.prepare(NOTHING)
    assert caught.value.exit_code == 4
    assert "another process" in caught.value.message
    assert "sqlite or pgvector" in str(caught.value.remedy)
    assert "{chroma: {url: ...}}" in str(caught.value.remedy)
    holding.communicate()
    store.prepare(NOTHING)
    store.close()


def test_the_stores_of_one_process_share_the_folder_and_the_last_one_gives_it_back(tmp_path: Path) -> None:
    first, second = ChromaVectorStore(tmp_path), ChromaVectorStore(tmp_path)
    first.prepare(NOTHING)
    second.prepare(NOTHING)
    entry = Entry(some_item("m1"), Embedding("m", 4), np.array([1, 0, 0, 0], np.float32))
    first.put(NOTHING, [entry])
    assert second.ids(NOTHING) == {"m1"}
    first.close()
    second.remove(NOTHING, ["m1"])
    second.close()
    third = ChromaVectorStore(tmp_path)
    third.prepare(NOTHING)
    assert third.made_from(NOTHING) == {}
    third.close()
    third.close()


def test_a_folder_that_is_spoilt_says_that_it_may_be_removed(tmp_path: Path) -> None:
    (tmp_path / "chroma.sqlite3").write_bytes(b"not a database" * 100)
    with pytest.raises(MissingError, match="cannot open the folder") as caught:
        ChromaVectorStore(tmp_path).prepare(NOTHING)
    assert "Remove the folder" in str(caught.value.remedy)


def test_what_was_kept_is_known_after_a_close_and_after_none(tmp_path: Path) -> None:
    store = ChromaVectorStore(tmp_path)
    store.prepare(NOTHING)
    embedding = Embedding("m", 4)
    item = replace(some_item("m1"), version=3)
    store.put(NOTHING, [Entry(item, embedding, np.array([1, 0, 0, 0], np.float32))])
    for leaves_a_state in (True, False):
        store.close()
        state = tmp_path / "zeus-vectors.json"
        assert state.exists()
        if not leaves_a_state:
            state.unlink()
        store = ChromaVectorStore(tmp_path)
        store.prepare(NOTHING)
        assert store.made_from(NOTHING) == {"m1": (embedding, 3)}
    store.remove(NOTHING, ["m1"])
    assert not (tmp_path / "zeus-vectors.json").exists()
    assert store.ids(NOTHING) == set()
    store.close()


@pytest.mark.parametrize("change", ["put", "remove"])
def test_after_a_change_that_failed_half_way_only_vectors_that_are_there_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    store = ChromaVectorStore(tmp_path)
    store.prepare(NOTHING)
    small, large = Embedding("m", 4), Embedding("m", 8)
    few = [Entry(some_item(f"m{n}"), small, vector) for n, vector in enumerate(unit_vectors(4, dimension=4))]
    store.put(NOTHING, few)
    store.put(NOTHING, [Entry(some_item("m9"), large, unit_vectors(1, dimension=8)[0])])
    monkeypatch.setattr("zeus_plugins.vector_stores.chroma.store.AT_ONCE", 2)
    collection = store._collections()[4]
    delete, calls = collection.delete, []

    def full(ids: list[str]) -> None:
        calls.append(ids)
        if len(calls) > 1:
            raise OSError("the disk is full")
        delete(ids=ids)

    monkeypatch.setattr(collection, "delete", full)
    names = [entry.item.id for entry in few]
    moved = [Entry(some_item(name), large, np.ones(8, np.float32)) for name in names]
    with pytest.raises(OSError, match="full"):
        store.remove(NOTHING, names) if change == "remove" else store.put(NOTHING, moved)
    assert set(store.made_from(NOTHING)) == store.ids(NOTHING) == {"m2", "m3", "m9"}
    store.close()
    store = ChromaVectorStore(tmp_path)
    store.prepare(NOTHING)
    assert set(store.made_from(NOTHING)) == {"m2", "m3", "m9"}
    store.close()


@pytest.mark.parametrize(
    "state",
    [
        *(b"", b'{"m1": ["m", 4', b"\xff\xfe"),
        *(
            b"[]",
            b"7",
            b'{"m1": null}',
            b'{"m1": ["m", 4]}',
            b'{"m1": ["m", "4", 1]}',
            b'{"m1": {"model": "m"}}',
        ),
    ],
)
def test_a_state_that_a_power_loss_damaged_is_read_from_the_vectors(tmp_path: Path, state: bytes) -> None:
    store = ChromaVectorStore(tmp_path)
    store.prepare(NOTHING)
    store.put(NOTHING, [Entry(some_item("m1"), Embedding("m", 4), unit_vectors(1, dimension=4)[0])])
    known = store.made_from(NOTHING)
    store.close()
    (tmp_path / "zeus-vectors.json").write_bytes(state)
    store = ChromaVectorStore(tmp_path)
    store.prepare(NOTHING)
    assert store.made_from(NOTHING) == known
    store.close()


def test_a_state_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ChromaVectorStore(tmp_path)
    store.prepare(NOTHING)
    store.put(NOTHING, [Entry(some_item("m1"), Embedding("m", 4), unit_vectors(1, dimension=4)[0])])
    synced: list[tuple[int, bool]] = []

    def noted(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_size, (tmp_path / "zeus-vectors.json").exists()))

    monkeypatch.setattr(os, "fsync", noted)
    store.close()
    assert synced == [((tmp_path / "zeus-vectors.json").stat().st_size, False)]


async def test_vectors_of_other_texts_and_models_are_made_anew(tmp_path: Path) -> None:
    memory = memory_in(tmp_path)
    piano = (await memory.add_explicit_memory("The user plays the piano")).item
    tea = (await memory.add_explicit_memory("The user prefers green tea")).item
    assert piano is not None
    assert tea is not None
    await memory.aclose()

    stale = ChromaVectorStore(tmp_path / "vectors")
    stale.prepare(NOTHING)
    embedding = Embedding("hashing", 64)
    wrong = HashingEmbedder().vector("something else")
    stale.put(NOTHING, [Entry(replace(piano, version=7), embedding, wrong)])
    stale.put(NOTHING, [Entry(tea, Embedding("another", 64), wrong)])
    stale.close()

    memory = memory_in(tmp_path)
    await memory.stats()
    await memory.aclose()
    memory = memory_in(tmp_path)
    (found, *_) = await memory.search_memories("The user plays the piano", mode="vector")
    assert found.item.id == piano.id
    assert found.similarity == pytest.approx(1, abs=1e-5)
    (found, *_) = await memory.search_memories("The user prefers green tea", mode="vector")
    assert found.item.id == tea.id
    await memory.check()
    await memory.aclose()


class Dying(ChromaVectorStore):
    """Its process is killed when the vector of the second memory, or the removal of the first, is asked for."""

    def put(self, connection: Any, entries: Any) -> None:
        if any("piano" in entry.item.content for entry in entries):
            os.kill(os.getpid(), signal.SIGKILL)
        super().put(connection, entries)

    def remove(self, connection: Any, ids: Any) -> None:
        if ids:
            os.kill(os.getpid(), signal.SIGKILL)


async def killed_between_row_and_vector(folder: Path) -> None:
    memory = memory_in(folder, Dying)
    await memory.add_explicit_memory("The user prefers green tea")
    await memory.add_explicit_memory("The user plays the piano")


async def killed_between_deleted_row_and_vector(folder: Path) -> None:
    memory = memory_in(folder, Dying)
    for item in await memory.list_memories():
        if "tea" in item.content:
            await memory.delete_memory(item.id)


def killed(what: str, folder: Path) -> None:
    command = [sys.executable, "-m", "tests.plugins_bundled.vector_stores.test_chroma", what, str(folder)]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], check=False)
    assert done.returncode == -signal.SIGKILL


async def test_a_row_without_its_vector_is_found_by_its_words_and_healed_by_the_next_opening(
    tmp_path: Path,
) -> None:
    killed("killed_between_row_and_vector", tmp_path)

    without_model = service(
        tmp_path, Caller("ann"), words_only=True, open_vectors=lambda: ChromaVectorStore(tmp_path / "vectors")
    )
    (found,) = await without_model.search_memories("piano")
    assert found.item.content == "The user plays the piano"
    assert found.item.embedding is None
    await without_model.aclose()

    memory = memory_in(tmp_path)
    (found, *_) = await memory.search_memories("piano")
    assert found.item.content == "The user plays the piano"
    await memory.aclose()
    memory = memory_in(tmp_path)
    (found, *_) = await memory.search_memories("plays the piano", mode="vector")
    assert found.item.content == "The user plays the piano"
    assert found.item.embedding == Embedding("hashing", 64)
    await memory.check()
    await memory.aclose()


async def test_a_deleted_memory_does_not_come_back_with_the_vector_that_was_left(tmp_path: Path) -> None:
    memory = memory_in(tmp_path)
    tea = (await memory.add_explicit_memory("The user prefers green tea")).item
    await memory.add_explicit_memory("The user likes trail running")
    assert tea is not None
    await memory.aclose()
    killed("killed_between_deleted_row_and_vector", tmp_path)

    left = ChromaVectorStore(tmp_path / "vectors")
    left.prepare(NOTHING)
    assert tea.id in left.ids(NOTHING)
    left.close()
    memory = memory_in(tmp_path)
    for mode in ("fused", "vector"):
        found = await memory.search_memories("green tea", mode=mode)  # type: ignore[arg-type]
        assert tea.id not in {each.item.id for each in found}
    await memory.check()
    await memory.aclose()


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](Path(sys.argv[2])))


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("sqlite:///:memory:", ".zeus/chroma"),
        ("sqlite:///.zeus/zeus.db", ".zeus/zeus.db-chroma"),
        ("sqlite:///kept.db", "kept.db-chroma"),
    ],
)
def test_a_folder_that_is_a_link_is_not_used(url: str, link: str, tmp_path: Path) -> None:
    (tmp_path / ".zeus").mkdir()
    (tmp_path / link).symlink_to(tmp_path)
    context: Any = SimpleNamespace(
        directory=tmp_path, config=SimpleNamespace(storage=SimpleNamespace(url=url))
    )
    with pytest.raises(ZeusError, match="is a link"):
        create(Options(), context)


@pytest.mark.parametrize("link", ["zeus-vectors.json.new", "chroma.sqlite3", "segment/header.bin"])
def test_a_folder_with_a_link_in_it_is_refused_and_nothing_is_written_where_it_leads(
    link: str, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    folder = tmp_path / "vectors"
    (folder / link).parent.mkdir(parents=True)
    (folder / link).symlink_to(kept)
    with pytest.raises(MissingError, match="is a link") as caught:
        ChromaVectorStore(folder).prepare(NOTHING)
    assert "Remove the link" in str(caught.value.remedy)
    assert kept.read_text() == "mine"


def test_a_link_that_comes_later_is_not_written_through(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    store = ChromaVectorStore(tmp_path / "vectors")
    store.prepare(NOTHING)
    for name in ("zeus-vectors.json", "zeus-vectors.json.new"):
        (tmp_path / "vectors" / name).unlink(missing_ok=True)
        (tmp_path / "vectors" / name).symlink_to(kept)
    store.put(NOTHING, [Entry(some_item("m1"), Embedding("m", 4), np.array([1, 0, 0, 0], np.float32))])
    store.close()
    assert kept.read_text() == "mine"
