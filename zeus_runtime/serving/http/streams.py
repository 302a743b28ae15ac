"""Server-sent events from stored ones: numbered, resumable, with a ping while nothing happens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import StreamingResponse

from zeus_runtime.escaping import json_text
from zeus_runtime.events import SubAgentEvent
from zeus_runtime.serving.http.hub import AT_ONCE, EndWithoutEvent, StoppingError
from zeus_runtime.serving.http.open_streams import STOPPING
from zeus_runtime.store.event_log import MOST_NUMBER

if TYPE_CHECKING:
    from fastapi import Request

    from zeus_runtime.serving.http.hub import Hub, Read
    from zeus_runtime.store.event_log import StoredEvent

_DIGITS: Final = 20
PING: Final = b": ping\n\n"
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def started_after(request: Request, after: int) -> int:
    """The last event that the client has: the header of a reconnecting client wins over the address."""
    given = request.headers.get("last-event-id", "")
    if not (given.isascii() and given.isdigit()):
        return after
    # Python refuses to read a very long number.
    return int(given) if len(given) < _DIGITS else MOST_NUMBER


@lru_cache(maxsize=512)
def encoded(event: StoredEvent) -> bytes:
    """One event as text of a stream, which a terminal may show; its JSON has no line break of any kind.

    Computed once for all readers: it takes as much CPU as sending it.
    """
    return f"id: {event.seq}\ndata: {json_text(event.payload)}\n\n".encode()


async def of_session(hub: Hub, session: str, after: int, read: Read) -> AsyncIterator[bytes]:
    """The stream of a session's events; it has no end."""
    try:
        async with aclosing(hub.follow(session, after, read)) as batches:
            async for rows in batches:
                yield b"".join(map(encoded, rows)) if rows else PING
    except StoppingError:
        yield STOPPING


async def of_run(
    hub: Hub, session: str, run: str, after: int, read: Read, is_over: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """The stream of one run's events; it ends with the run's terminal event.

    Args:
        is_over: asked as ``EndWithoutEvent`` says.
    """
    silent = EndWithoutEvent(run)
    try:
        async with aclosing(hub.follow(session, after, read)) as batches:
            async for rows in batches:
                own = [each for each in rows if each.run == run]
                # Also for another run's events: the reader sees that the connection lives.
                yield b"".join(map(encoded, own)) if own else PING
                if any(_is_end(each) for each in own) or (silent.is_due(rows) and await is_over()):
                    return
    except StoppingError:
        yield STOPPING


async def of_ended_run(run: str, after: int, read: Read) -> AsyncIterator[bytes]:
    """The stream of a run that is over: all its events are stored, and perhaps none says that it is over."""
    while rows := await read(after, AT_ONCE):
        if own := [each for each in rows if each.run == run]:
            yield b"".join(map(encoded, own))
        after = rows[-1].seq


def _is_end(event: StoredEvent) -> bool:
    """Whether the event ends its run; one that waits for a decision continues."""
    if not event.ends:
        return False
    told: dict[str, Any] = json.loads(event.payload)
    return bool(told["type"] != SubAgentEvent.type and told.get("code") != "approval_needed")


def response(events: AsyncIterator[bytes]) -> StreamingResponse:
    """The response with a stream."""
    return StreamingResponse(events, media_type="text/event-stream", headers=HEADERS)
