"""The readers of a session's events, where notices and rows come in any order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from zeus_runtime.serving.http.hub import Hub
from zeus_runtime.store.event_log import StoredEvent


def rows(*numbers: int) -> list[StoredEvent]:
    return [StoredEvent(each, "r", "{}") for each in numbers]


async def read_through(last: int, news: Sequence[tuple[str, int, int]]) -> list[int]:
    """The events that a reader of a database with ``last`` events gets, without the pause that makes it look again.

    Args:
        news: ``rows`` from one number to another that this process stored, a ``notice`` of the last, or a ``pause``.
    """
    hub, reads = Hub(), []

    async def read(after: int, most: int) -> Sequence[StoredEvent]:
        reads.append(after)
        return rows(*range(after + 1, stored + 1)[:most])

    stored, found = 0, list[int]()

    async def follow() -> None:
        async for some in hub.follow("s", 0, read):
            found.extend(each.seq for each in some)
            if found and found[-1] >= last:
                return

    reader = asyncio.create_task(follow())
    await asyncio.sleep(0)
    for kind, first, number in news:
        # Whatever tells of an event, it is committed by then.
        stored = max(stored, number)
        if kind == "rows":
            hub.stored("s", rows(*range(first, number + 1)))
        elif kind == "notice":
            hub.hear("s", number)
        else:
            await asyncio.sleep(0)
    async with asyncio.timeout(2):
        await reader
    return found


PAUSE = ("pause", 0, 0)


async def test_rows_that_come_after_the_notice_of_later_ones_keep_no_reader_waiting() -> None:
    assert await read_through(8, [("rows", 1, 5), PAUSE, ("notice", 0, 8), ("rows", 6, 6)]) == [*range(1, 9)]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_reader_gets_every_event_once_in_order_whoever_tells_of_it(data: st.DataObject) -> None:
    last = data.draw(st.integers(1, 12))
    ends = sorted({*data.draw(st.sets(st.integers(1, last))), last})
    news = []
    for first, end in zip([0, *ends], ends, strict=False):
        # This process stores them, or another one, whose notice may come at any time.
        if data.draw(st.booleans()):
            news.append(("rows", first + 1, end))
    for number in data.draw(st.lists(st.integers(1, last), max_size=3)):
        news.insert(data.draw(st.integers(0, len(news))), ("notice", 0, number))
    for _ in range(data.draw(st.integers(0, 6))):
        news.insert(data.draw(st.integers(0, len(news))), PAUSE)
    news.insert(data.draw(st.integers(0, len(news))), ("notice", 0, last))
    assert asyncio.run(read_through(last, news)) == [*range(1, last + 1)]
