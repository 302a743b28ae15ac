"""What can go wrong with a provider, classified so that retry, recovery and the user can act on it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from zeus_runtime.errors import RunError

ErrorClass: TypeAlias = Literal[
    "auth",
    "billing",
    "rate_limit",
    "context_overflow",
    "bad_request",
    "server",
    "network",
    "timeout",
    "divergence",
]


class ModelError(RunError):
    """A model call failed.

    Args:
        kind: the class; ``rate_limit``, ``server``, ``network`` and ``timeout`` are worth a retry.
        status: HTTP status where there was one.
        retry_after_seconds: what the provider asked for.
        input_tokens: the request's true size in tokens, where an overflow error states it.
        limit_tokens: the window in tokens, where an overflow error states it.
        whole: what the provider said, where the message has only its beginning.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorClass,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        input_tokens: int | None = None,
        limit_tokens: int | None = None,
        remedy: str | None = None,
        whole: str = "",
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.kind = kind
        self.code = f"model_{kind}"
        if kind == "auth":
            self.exit_code = 4
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.input_tokens = input_tokens
        self.limit_tokens = limit_tokens
        self.whole = whole

    def adding(self, why: str) -> ModelError:
        """The same error with more in its message; this one is its cause."""
        told = ModelError(
            f"{self.message} ({why})",
            kind=self.kind,
            status=self.status,
            retry_after_seconds=self.retry_after_seconds,
            input_tokens=self.input_tokens,
            limit_tokens=self.limit_tokens,
            remedy=self.remedy,
            whole=self.whole,
        )
        told.__cause__ = self
        return told
