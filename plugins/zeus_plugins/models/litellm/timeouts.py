"""The timeouts of one call: for the whole call, and for the silence between pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from zeus_runtime.plugin.model import ModelError

if TYPE_CHECKING:
    from zeus_plugins.models.litellm.options import Options

T = TypeVar("T")


class Timeouts:
    """Begins with the call.

    Args:
        options: ``timeout_seconds`` and ``idle_seconds``.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._clock = asyncio.get_running_loop().time
        self._end = self._clock() + options.timeout_seconds

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """Return the result, or raise a ModelError (timeout) if it comes too late."""
        left = self._end - self._clock()
        silent = self._options.idle_seconds
        try:
            async with asyncio.timeout(max(0.0, min(left, silent))) as limit:
                return await awaitable
        except TimeoutError:
            # The awaited code raised it itself, and it has a class of its own for the retry.
            if not limit.expired():
                raise
        if silent < left:
            raise ModelError(f"the provider was silent for {silent:g} s (idle_seconds)", kind="timeout")
        seconds = self._options.timeout_seconds
        raise ModelError(f"the call took longer than {seconds:g} s (timeout_seconds)", kind="timeout")
