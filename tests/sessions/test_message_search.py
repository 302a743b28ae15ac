"""Messages that contain a text, and sessions in parts, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.sessions.test_lifecycle import Counting, agent_in, talk
from zeus_runtime.sessions.message_search import _pattern
from zeus_runtime.store.listing import BEFORE_ALL, SessionPlace

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


async def test_messages_are_found_in_any_case_and_sessions_come_in_parts(
    tmp_path: Path, database_url: str
) -> None:
    async with agent_in(tmp_path, database_url, Counting().model) as agent:
        first = await talk(agent, 'Which "ÄPFEL" cost 100%?', "And 苹果?")
        others = [await talk(agent, "something else") for _ in range(3)]
        for text, number in (("äpfel", 1), ('which "äp', 1), ("100%", 1), ("苹果", 3), ("ANSWER 1", 2)):
            (found,) = [each for each in await agent.search_messages(text) if each.session == first]
            assert found.number == number, text
        assert await agent.search_messages("100_") == []
        newest = await agent.search_messages("something", limit=2)
        assert [each.session for each in newest] == others[:0:-1]
        read: list[str] = []
        after = BEFORE_ALL
        while part := await agent.sessions(limit=2, after=after):
            read += [each.session for each in part]
            after = SessionPlace(part[-1].updated_ms, part[-1].session)
        assert sorted(read) == sorted([first, *others])


@given(TEXT, TEXT, TEXT)
def test_the_pattern_fits_every_payload_with_the_text(text: str, before: str, after: str) -> None:
    """SQLite itself compares, as it does for a stored message."""
    with sqlite3.connect(":memory:") as connection:
        for shown in (text, text.upper(), text.lower()):
            if shown.casefold() != text.casefold() or len(shown) != len(text):
                continue
            payload = json.dumps({"content": before + shown + after}, ensure_ascii=False)
            query = "SELECT lower(?) LIKE lower(?) ESCAPE '\\'"
            assert connection.execute(query, (payload, _pattern(text))).fetchone() == (1,), payload
