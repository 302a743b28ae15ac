"""The lexical index answers as the reference does, over what the caller may see and nothing else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine

from zeus_runtime.memory import records
from zeus_runtime.memory.items import Caller, MemoryItem
from zeus_runtime.memory.permissions import may, reach
from zeus_runtime.memory.retrieval.analysis import search_tokens
from zeus_runtime.memory.retrieval.fusion import corpus, lexical_similarity
from zeus_runtime.memory.retrieval.lexical import Lexicon
from zeus_runtime.memory.retrieval.words import indexed_words
from zeus_runtime.store.memory_tables import create_memory_tables

NOW = records.from_ms(1_000_000)
ANN = Caller("ann", "apollo", "editor", "s1")
WORDS = (
    "user prefers dark light mode tea coffee Postgres 16 喜 欢 咖 啡 naïve Ⅷ under_score it's GPT-5.2".split()
)


def item(number: int, content: str, scope: str = "user", scope_id: str = "ann", **more: object) -> MemoryItem:
    values: dict[str, object] = {"created_by": "ann", "memory_type": "fact", **more}
    return MemoryItem(
        id=f"m{number}",
        content=content,
        scope=scope,  # type: ignore[arg-type]
        scope_id=scope_id,
        source="user",
        confidence=1.0,
        created_at=NOW,
        updated_at=NOW,
        **values,  # type: ignore[arg-type]
    )


def write(connection: Connection, *items: MemoryItem) -> None:
    for each in items:
        place = records.changed(connection, records.lock_place(connection, each.scope, each.scope_id))
        if records.exists(connection, each.id):
            records.rewrite(connection, each, place)
        else:
            records.write(connection, each, place)


def remove(connection: Connection, each: MemoryItem) -> None:
    place = records.changed(connection, records.lock_place(connection, each.scope, each.scope_id))
    records.remove(connection, [each.id], place)


def found(connection: Connection, lexicon: Lexicon, query: str, caller: Caller = ANN) -> dict[str, float]:
    parts = lexicon.find(
        connection, indexed_words(query), reach(caller, "read"), caller.user_id, now_ms=records.to_ms(NOW)
    )
    return {
        part.shelf.id(slot): float(part.lexical[slot])
        for part in parts
        for slot in range(len(part.shelf))
        if part.visible[slot] and part.lexical[slot]
    }


def expected(items: Sequence[MemoryItem], query: str, caller: Caller = ANN) -> dict[str, float]:
    seen = [each for each in items if may(caller, "read", each) and each.status == "active"]
    texts = {each.id: search_tokens(each.content) for each in seen}
    known = corpus(list(texts.values()))
    scores = {name: lexical_similarity(search_tokens(query), tokens, known) for name, tokens in texts.items()}
    return {name: score for name, score in scores.items() if score}


@pytest.fixture
def connection(tmp_path: Path):  # type: ignore[no-untyped-def]
    engine = create_engine(f"sqlite:///{tmp_path / 'm.db'}")
    with engine.connect() as opened, opened.begin():
        create_memory_tables(opened)
        yield opened
    engine.dispose()


texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join), min_size=1, max_size=9)


@settings(max_examples=30, deadline=None)
@given(contents=texts, query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join))
def test_scores_are_the_reference_s_in_every_script(contents: list[str], query: str) -> None:
    engine = create_engine("sqlite://")
    items = [item(number, content) for number, content in enumerate(contents)]
    with engine.connect() as connection, connection.begin():
        create_memory_tables(connection)
        write(connection, *items)
        assert found(connection, Lexicon(), query) == pytest.approx(expected(items, query))


def test_scores_follow_from_what_the_caller_may_see_alone(connection: Connection) -> None:
    items = [
        item(1, "tea in the morning"),
        item(2, "tea at work", "project", "apollo", created_by="bob"),
        item(3, "tea in secret", "project", "apollo", created_by="bob", visibility="owner_only"),
        item(4, "tea of ours", "session", "s1"),
        item(5, "coffee", "session", "s1"),
        *(item(10 + number, "tea tea tea", "user", "bob", created_by="bob") for number in range(20)),
        *(item(40 + number, "morning", "project", "gemini") for number in range(20)),
    ]
    write(connection, *items)
    lexicon = Lexicon()
    for caller in (
        ANN,
        Caller("bob", "apollo", "viewer"),
        Caller("eve", "apollo", "owner"),
        Caller("eve"),
        Caller("bob", "gemini", None),
    ):
        for query in ("tea", "morning tea", "coffee work"):
            assert found(connection, lexicon, query, caller) == pytest.approx(expected(items, query, caller))


@pytest.mark.parametrize("words_kept", [3, 4_096])
@pytest.mark.parametrize("small", [-1, 4_000])
def test_what_is_held_in_memory_follows_every_change(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, small: int, words_kept: int
) -> None:
    monkeypatch.setattr("zeus_runtime.memory.retrieval.cache._SMALL", small)
    monkeypatch.setattr("zeus_runtime.memory.retrieval.entries._WORDS_KEPT", words_kept)
    choose = random.Random(5)
    lexicon, late = Lexicon(), Lexicon()
    items: dict[int, MemoryItem] = {}
    for turn in range(60):
        number = choose.randrange(30)
        content = " ".join(choose.choices(WORDS, k=choose.randrange(1, 7)))
        known = items.get(number)
        if known is None:
            items[number] = item(number, content)
            write(connection, items[number])
        elif choose.random() < 0.3:
            remove(connection, items.pop(number))
        else:
            status = choose.choice(["active", "active", "archived"])
            items[number] = records.new_version(known, NOW, content=content, status=status)
            write(connection, items[number])
        query = " ".join(choose.choices(WORDS, k=2))
        there = list(items.values())
        assert found(connection, lexicon, query) == pytest.approx(expected(there, query))
        if turn % 25 == 24:
            assert found(connection, late, query) == pytest.approx(expected(there, query))
    connection.exec_driver_sql("INSERT INTO memory_words(memory_words, rank) VALUES ('integrity-check', 1)")


def test_a_word_that_was_read_before_a_change_is_not_found_where_it_stood(connection: Connection) -> None:
    lexicon = Lexicon()
    items = [item(1, "green tea"), item(2, "black tea"), item(3, "coffee")]
    write(connection, *items)
    assert found(connection, lexicon, "coffee").keys() == {"m3"}
    items[0] = records.new_version(items[0], NOW, content="oat milk")
    write(connection, items[0])
    remove(connection, items.pop(1))
    write(connection, items[-1])
    for query in ("tea", "green tea", "milk", "coffee tea", "black"):
        assert found(connection, lexicon, query) == pytest.approx(expected(items, query))


def test_a_place_that_changed_much_is_read_anew(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zeus_runtime.memory.retrieval.cache._STALE", 3)
    monkeypatch.setattr("zeus_runtime.memory.records.writing.GONE_KEPT", 3)
    lexicon = Lexicon()
    items = [item(number, f"tea {number}") for number in range(9)]
    write(connection, *items)
    assert len(found(connection, lexicon, "tea")) == 9
    for each in items[:8]:
        remove(connection, each)
    assert found(connection, lexicon, "tea").keys() == {"m8"}
    assert connection.exec_driver_sql("SELECT COUNT(*) FROM memory_gone").scalar_one() <= 4


def test_what_is_not_valid_now_is_not_found(connection: Connection) -> None:
    write(
        connection,
        item(1, "tea", valid_until=records.from_ms(999_999)),
        item(2, "tea", valid_from=records.from_ms(1_000_001)),
        item(3, "tea", valid_from=NOW, valid_until=records.from_ms(1_000_001)),
    )
    assert found(connection, Lexicon(), "tea").keys() == {"m3"}


def test_what_is_quarantined_or_superseded_has_no_words_in_the_index(connection: Connection) -> None:
    write(
        connection, item(1, "tea", trust="quarantined"), item(2, "tea", status="superseded"), item(3, "tea")
    )
    rows = connection.exec_driver_sql("SELECT term, doc FROM memory_word").all()
    assert len(rows) == 1


def test_a_removed_word_is_nowhere_in_the_stored_index(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'm.db'}")
    known = item(1, "quixotic zebra")
    # Each in a transaction of its own: what FTS5 keeps in memory until a commit is not what is stored.
    with engine.begin() as connection:
        create_memory_tables(connection)
        write(connection, known, item(2, "tea"))
    with engine.begin() as connection:
        assert b"quixot" in index_bytes(connection)
        remove(connection, known)
    with engine.begin() as connection:
        assert b"quixot" not in index_bytes(connection)
    engine.dispose()


def index_bytes(connection: Connection) -> bytes:
    return b"".join(connection.exec_driver_sql("SELECT block FROM memory_words_data").scalars())


def test_a_very_long_word_is_found_by_its_beginning(connection: Connection) -> None:
    write(connection, item(1, "x" * 1_500))
    assert found(connection, Lexicon(), "x" * 1_500).keys() == {"m1"}
