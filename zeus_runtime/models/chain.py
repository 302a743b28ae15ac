"""Parts of a chain of models: the circuit breaker of a model, and the time limit of an answer's first piece."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zeus_runtime.models.errors import ModelError
from zeus_runtime.models.interface import Model, ModelPiece, ModelRequest, Retrying

if TYPE_CHECKING:
    from zeus_runtime.config.model import Breaker


@dataclass
class Circuit:
    """The circuit breaker of a model: open after failures in a row, then tried by one call at a time.

    Args:
        breaker: how many failures open it, and for how long.
        clock: seconds that only grow.
    """

    breaker: Breaker
    clock: Callable[[], float] = time.monotonic
    _failures: int = 0
    _open_until: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether the model is passed over now."""
        return self._open_until is not None and self.clock() < self._open_until

    def admits(self) -> bool:
        """Whether a call may be made now; the one that tries the model again keeps others away meanwhile."""
        if self._open_until is None:
            return True
        if self.is_open:
            return False
        # Nothing to undo if that call is cancelled: the time passes again, and another call tries.
        self._open_until = self.clock() + self.breaker.seconds
        return True

    def failed(self) -> None:
        """Count a failed call."""
        self._failures += 1
        # The count stays when the time is over, so one failed trial opens it again.
        if self._failures >= self.breaker.failures:
            self._open_until = self.clock() + self.breaker.seconds

    def answered(self) -> None:
        """Close it: the model has answered."""
        self._failures, self._open_until = 0, None


class _PromptModel:
    def __init__(self, model: Model, seconds: float) -> None:
        self._model = model
        self._seconds = seconds

    @property
    def name(self) -> str:
        return self._model.name

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        import asyncio
        from contextlib import aclosing

        loop = asyncio.get_running_loop()
        deadline: float | None = loop.time() + self._seconds
        async with aclosing(self._model.stream(request)) as pieces:  # type: ignore[type-var]
            while True:
                # Not around the whole stream: the reader's own time between two pieces does not count.
                limit = asyncio.timeout_at(deadline)
                try:
                    async with limit:
                        piece = await anext(pieces, None)
                except TimeoutError as error:
                    if not limit.expired():
                        raise
                    raise ModelError(
                        f"the first piece of the answer took longer than {self._seconds:g} s"
                        " (model.first_token_seconds)",
                        kind="timeout",
                    ) from error
                if piece is None:
                    return
                # After `Retrying` the pieces so far are void, so the answer has no first one again.
                begins = isinstance(piece, Retrying)
                deadline = (deadline or loop.time() + self._seconds) if begins else None
                yield piece


def with_first_token(model: Model, seconds: float | None) -> Model:
    """``model``, whose calls fail with a timeout if the first piece of the answer takes longer than ``seconds``.

    A try after a failure that came before any piece does not begin the time anew.
    """
    return model if seconds is None else _PromptModel(model, seconds)
