"""The clients of ``zeus --remote``: what they send and what they receive is without secrets of this machine.

The service does not know them, and its files may hold them, as of a repository that both have.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import replace
from typing import Any, Final, TypeVar, cast
from urllib.parse import unquote

from zeus_runtime.cli.output import as_json
from zeus_runtime.cli.remote.masked_events import MaskedEvents
from zeus_runtime.client.calls import ServiceAnswer, ServiceCall
from zeus_runtime.client.clients import AsyncServiceClient, ServiceClient
from zeus_runtime.client.data_calls import upload
from zeus_runtime.client.results import ServiceEvent, ServiceFile
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.errors import UsageError
from zeus_runtime.strict_json import read_json

T = TypeVar("T")

_NAMES: Final = frozenset(
    {"agent", "session", "sessions", "cursor", "path", "seen", "replaces", "attachments"}
)
"""The words of requests that name what the service has, as the path does. All others are a user's text."""


def masked_call(call: ServiceCall[T], secrets: Redactor) -> ServiceCall[T]:
    """A request without known secrets in its texts, its file and its answer.

    Raises:
        UsageError: the file is a picture that has one, or a name does. A masked name would be another one.
    """
    if call.content is not None:
        # An upload, whose path and result name its bytes.
        return cast("ServiceCall[T]", _masked_upload(call.content, call.read(ServiceAnswer(None)), secrets))

    names = [unquote(call.path), *_named(call.body or {}), *_named(call.query)]
    if held := next((shown for each in names for shown in secrets.masks(str(each))), None):
        raise UsageError(
            f"a name holds a secret of this machine, {held}, so it is not sent",
            remedy="Give the name or the id that the service shows. If the value is no secret, unset its variable.",
        )

    def masked(words: Any) -> dict[str, Any]:
        return {name: value if name in _NAMES else secrets.masked(value) for name, value in words.items()}

    def read(answer: ServiceAnswer) -> T:
        value = _masked_file(answer.value, secrets) if call.is_file else secrets.masked(answer.value)
        return call.read(replace(answer, value=value))

    return replace(call, body=call.body and masked(call.body), query=masked(call.query), read=read)


def _masked_file(data: bytes, secrets: Redactor) -> bytes:
    """A file as ``zeus`` writes one of this machine: each value of JSON by itself, so that it stays JSON."""
    # Bytes that are not UTF-8 stay as they are.
    text = data.decode("utf-8", "surrogateescape")
    try:
        value = read_json(text)
    except ValueError:
        return secrets(text).encode("utf-8", "surrogateescape")
    masked = secrets.json(value)
    return data if masked == value else as_json(masked).encode()


def _named(words: Mapping[str, Any]) -> Iterator[Any]:
    return (value for name, value in words.items() if name in _NAMES)


def _masked_upload(data: bytes, file: Any, secrets: Redactor) -> ServiceCall[ServiceFile]:
    from zeus_runtime.run.attachments import masked_file

    return upload(masked_file(file.name, data, secrets), secrets.text(file.name))


class MaskedServiceClient(ServiceClient):
    """A client that masks what it sends and receives.

    Args:
        secrets: masked, except in the token that is sent as a header.
    """

    def __init__(self, url: str, token: str, secrets: Redactor) -> None:
        super().__init__(url, token)
        self._masked = secrets

    def send(self, call: ServiceCall[T]) -> T:
        return super().send(masked_call(call, self._masked))

    def events(
        self, *, run: str | None = None, session: str | None = None, after: int = 0
    ) -> Generator[ServiceEvent, None, None]:
        masked = MaskedEvents(self._masked)
        with closing(super().events(run=run, session=session, after=after)) as events:
            for each in events:
                yield from masked.passed(each)
        yield from masked.rest()


class MaskedAsyncServiceClient(AsyncServiceClient):
    """As ``MaskedServiceClient``, for asyncio."""

    def __init__(self, url: str, token: str, secrets: Redactor) -> None:
        super().__init__(url, token)
        self._masked = secrets

    async def send(self, call: ServiceCall[T]) -> T:
        return await super().send(masked_call(call, self._masked))

    async def events(
        self, *, run: str | None = None, session: str | None = None, after: int = 0
    ) -> AsyncGenerator[ServiceEvent, None]:
        masked = MaskedEvents(self._masked)
        async with aclosing(super().events(run=run, session=session, after=after)) as events:
            async for each in events:
                for told in masked.passed(each):
                    yield told
        for told in masked.rest():
            yield told
