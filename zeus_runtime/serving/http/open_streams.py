"""The streams that a service sends now: they end when their caller may not read on, and when the service stops."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from zeus_runtime.serving.http.principals import Principal, UnknownPrincipalError
from zeus_runtime.tools.run_to_completion import all_tried

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

CHECK_SECONDS: Final = 2.0
"""How often the callers of open streams are looked up again."""

STOPPING: Final = b": the service stops\nretry: 1000\n\n"
"""The end of a stream that a client can continue; a browser tries again after these milliseconds."""
PARTING_SECONDS: Final = 2.0
"""How long a stream has to end by itself when the service stops, with words of its own."""
NOT_ALLOWED: Final = b": the key or token is not valid any more\n\n"


# By identity: two streams of one caller and token are two.
@dataclass(eq=False)
class OpenStream:
    """One stream.

    Args:
        limit: ends the request when it is due.
        caller: who reads it; None for nobody known.
        token: the caller's.

    Attributes:
        last: what the client is sent at the end, if the service ends it.
    """

    limit: asyncio.Timeout
    caller: Principal | None
    token: str | None
    last: bytes = b""

    def end(self, last: bytes, *, within_seconds: float = 0) -> None:
        """End it, at once unless it may take its time."""
        # The first reason stays: a second one must not put off the end.
        if not self.last:
            self.last = last
            self.limit.reschedule(asyncio.get_running_loop().time() + within_seconds)


@dataclass
class OpenStreams:
    """All open streams of a service.

    Args:
        caller_of: the caller with a token, as it is judged now.
    """

    caller_of: Callable[[str], Awaitable[Principal]]
    _open: set[OpenStream] = field(default_factory=set)
    _is_stopping: bool = False

    def __len__(self) -> int:
        return len(self._open)

    def add(self, stream: OpenStream) -> None:
        """Watch a stream that begins."""
        self._open.add(stream)
        if self._is_stopping:
            stream.end(STOPPING, within_seconds=PARTING_SECONDS)

    def remove(self, stream: OpenStream) -> None:
        """Forget a stream that ended."""
        self._open.discard(stream)

    def stop(self) -> None:
        """End all of them soon, and those that begin from now on: the service stops."""
        self._is_stopping = True
        for each in tuple(self._open):
            each.end(STOPPING, within_seconds=PARTING_SECONDS)

    async def check(self) -> None:
        """End the streams of callers who are unknown now, or may do less than when the stream began.

        Raises:
            ZeusError: a caller cannot be looked up, which ends no stream: the database or the issuer is away.
        """
        by_token: dict[str, list[OpenStream]] = {}
        for each in self._open:
            if each.token is not None and each.caller is not None and each.caller.id != "local":
                by_token.setdefault(each.token, []).append(each)
        # Not over `_open`: streams begin and end during the await. A token with many streams is looked up once.
        await all_tried(*(partial(self._check, *each) for each in by_token.items()))

    async def _check(self, token: str, streams: Sequence[OpenStream]) -> None:
        try:
            now: Principal | None = await self.caller_of(token)
        except UnknownPrincipalError:
            now = None
        for each in streams:
            assert each.caller is not None, "only streams with callers are checked"
            # One that ended during the await has no limit left to set.
            if each in self._open and (now is None or _is_less(now, each.caller)):
                each.end(NOT_ALLOWED)


def _is_less(now: Principal, before: Principal) -> bool:
    """Whether a caller may do less, or other things, than before."""
    fewer = now.agents is not None and (before.agents is None or not before.agents <= now.agents)
    return now.owner != before.owner or not before.scopes <= now.scopes or fewer
