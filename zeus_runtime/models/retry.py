"""A failed model call made again: when it is worth it, after how long, and how the stream says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from zeus_runtime.models.errors import ErrorClass, ModelError
from zeus_runtime.models.interface import Model, ModelPiece, ModelRequest, ModelResponse, Retrying

if TYPE_CHECKING:
    from zeus_runtime.config.model import Retry

RETRYABLE: Final[frozenset[ErrorClass]] = frozenset({"rate_limit", "server", "network", "timeout"})
"""Classes another try may cure. Not a refused credential or request, an overflow, or a diverging replay."""


def with_retry(
    model: Model,
    retry: Retry,
    *,
    sleep: Callable[[float], Awaitable[object]] | None = None,
    random: Callable[[], float] | None = None,
) -> Model:
    """``model``, its failed calls repeated as ``retry`` says.

    A repeated call yields ``Retrying``: the pieces before it are void. A stream that ends without a ``ModelResponse``
    counts as a lost connection. When the provider asks for a longer wait than ``retry.max_seconds``, its error is
    raised at once. A cancelled call is never repeated.

    Args:
        model: what is called.
        retry: attempts, waits in seconds, jitter.
        sleep: awaited with the seconds to wait; ``asyncio.sleep`` by default.
        random: a number in [0, 1) for the jitter.
    """
    from random import random as system_random

    return _Retried(model, retry, sleep or _sleep, random or system_random)


async def _sleep(seconds: float) -> None:
    import asyncio

    await asyncio.sleep(seconds)


class _Retried:
    def __init__(
        self,
        model: Model,
        retry: Retry,
        sleep: Callable[[float], Awaitable[object]],
        random: Callable[[], float],
    ) -> None:
        self._model = model
        self._retry = retry
        self._sleep = sleep
        self._random = random

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        from contextlib import aclosing

        for attempt in range(1, self._retry.attempts + 1):
            try:
                # Closed before the wait, so that a failed call holds no connection.
                async with aclosing(_complete(self._model, request)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except ModelError as error:
                # Python deletes `error` at the end of this block.
                failure = error
            wait = self._wait(failure, attempt)
            yield Retrying(attempt + 1, failure.message, wait)
            await self._sleep(wait)

    def _wait(self, error: ModelError, attempt: int) -> float:
        """Seconds before the next try; raises ``error`` when there is none."""
        retry = self._retry
        if error.kind not in RETRYABLE:
            raise error
        if attempt >= retry.attempts:
            raise error.adding(f"given up after {attempt} tries") if attempt > 1 else error
        asked = error.retry_after_seconds
        if asked is not None and asked > retry.max_seconds:
            raise error.adding(
                f"the provider asks to wait {asked:g} s, longer than retry.max_seconds ({retry.max_seconds:g} s)"
            )
        if asked is not None:
            return asked
        try:
            wait = min(retry.max_seconds, retry.initial_seconds * retry.factor ** (attempt - 1))
        # Of numbers of any size, since the schema sets no upper limit.
        except OverflowError:
            wait = retry.max_seconds if retry.initial_seconds else 0.0
        # Jitter only shortens the wait, which so stays within `retry.max_seconds`.
        return wait * (1 - retry.jitter * self._random())


async def _complete(model: Model, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
    """The model's stream up to its response, closed in every case."""
    pieces = model.stream(request)
    try:
        async for piece in pieces:
            yield piece
            if isinstance(piece, ModelResponse):
                return
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()
    raise ModelError("the provider's stream ended before the answer was complete", kind="network")
