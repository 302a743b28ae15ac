"""The clients of ``zeus --remote``: what they send and what they receive is without secrets of this machine.

The service does not know them, and its files may hold them, as of a repository that both have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import replace
from typing import Any, Final, TypeVar, cast
from urllib.parse import unquote

from zeus_runtime.cli.output import as_json
from zeus_runtime.cli.remote.masked_events import MaskedEvents
from zeus_runtime.client import calls
from zeus_runtime.client.calls import ServiceAnswer, ServiceCall
from zeus_runtime.client.clients import AsyncServiceClient, ServiceClient
from zeus_runtime.client.data_calls import upload
from zeus_runtime.client.results import ServiceApproval, ServiceEvent, ServiceFile
from zeus_runtime.config.secrets.masking import Redactor
from zeus_runtime.config.secrets.placeholders import PLACEHOLDER, START
from zeus_runtime.errors import UsageError
from zeus_runtime.strict_json import read_json, texts_of
from zeus_runtime.tools.changed_arguments import as_meant

T = TypeVar("T")

_NAMES: Final = frozenset(
    {"agent", "session", "sessions", "cursor", "path", "seen", "replaces", "attachments"}
)
"""The words of requests that name what the service has, as the path does. All others are a user's text."""


def masked_call(
    call: ServiceCall[T], secrets: Redactor, asked: ServiceApproval | None = None
) -> ServiceCall[T]:
    """A request without known secrets in its texts, its file and its answer.

    Args:
        asked: the waiting call whose arguments the request changes, as the service sent it.

    Raises:
        UsageError: the file is a picture that has one, or a name does, or a changed argument has one that ``asked``
            does not have. A masked name would be another one, and a masked argument another text.
    """
    if call.content is not None:
        # An upload, whose path and result name its bytes.
        return cast("ServiceCall[T]", _masked_upload(call.content, call.read(ServiceAnswer(None)), secrets))

    _require_names(call, secrets)

    def masked(words: Any) -> dict[str, Any]:
        return {name: value if name in _NAMES else secrets.masked(value) for name, value in words.items()}

    def read(answer: ServiceAnswer) -> T:
        value = _masked_file(answer.value, secrets) if call.is_file else secrets.masked(answer.value)
        return call.read(replace(answer, value=value))

    body = call.body and masked(call.body)
    if asked is not None and body:
        changed = _changed(body["changed"], asked, secrets, _texts((call.body or {})["changed"]))
        body = {**body, "changed": changed}
    return replace(call, body=body, query=masked(call.query), read=read)


def _require_names(call: ServiceCall[Any], secrets: Redactor) -> None:
    names = [unquote(call.path), *_named(call.body or {}), *_named(call.query)]
    if held := next((shown for each in names for shown in secrets.masks(str(each))), None):
        raise UsageError(
            f"a name holds a secret of this machine, {held}, so it is not sent",
            remedy="Give the name or the id that the service shows. If the value is no secret, unset its variable.",
        )


def question_about(call: ServiceCall[Any], secrets: Redactor) -> ServiceCall[Any] | None:
    """The request for the waiting call whose arguments ``call`` changes, if one of them may have been shown masked."""
    body = call.body or {}
    if START not in _texts(secrets.masked(body.get("changed"))):
        return None
    _require_names(call, secrets)
    name = unquote(call.path.rpartition("/")[2])
    if body.get("seen"):
        # With its diff. The service takes that as shown, so a decision on what was shown last must not ask for it.
        return calls.approval(name)
    listed = calls.approvals()

    def read(answer: ServiceAnswer) -> ServiceApproval | None:
        return next((each for each in listed.read(answer) if each.id == name), None)

    return ServiceCall(listed.method, listed.path, read, query=listed.query)


def _changed(
    masked: Mapping[str, Any], asked: ServiceApproval, secrets: Redactor, written: str
) -> dict[str, Any]:
    """Changed arguments, in which what this client masked is what the service sent.

    Args:
        written: the texts that the person wrote.
    """
    given, told = asked.parameters, asked.parameters_told or asked.parameters
    # All of it is the service's already.
    held = _texts([given, [[each["path"], each["before"], each["after"]] for each in asked.changes]])
    sent = as_meant(masked, given, secrets.masked(given), secrets, schema=asked.answer_schema, held=held)
    typed = Counter(PLACEHOLDER.findall(_texts(masked))) - Counter(PLACEHOLDER.findall(written))
    lost = (each for each in PLACEHOLDER.findall(_texts(sent)) if each in typed and each not in _texts(told))
    if shown := next(lost, None):
        raise UsageError(
            f"a changed argument holds a secret of this machine, {shown}, which the call does not have, so it is not"
            " sent",
            remedy="Write the arguments without it. If the value is no secret, unset its variable.",
        )
    return sent


def _texts(value: Any) -> str:
    return "\n".join(texts_of(value))


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
        look: the secrets of now, asked for before each request: a chat may be open while its user edits ``.env``. They
            are masked, except in the token that is sent as a header.
    """

    def __init__(self, url: str, token: str, look: Callable[[], Redactor]) -> None:
        super().__init__(url, token)
        self._look = look

    def send(self, call: ServiceCall[T]) -> T:
        secrets = self._look()
        question = question_about(call, secrets)
        asked: ServiceApproval | None = None if question is None else super().send(question)
        return super().send(masked_call(call, secrets, asked))

    def events(
        self, *, run: str | None = None, session: str | None = None, after: int = 0
    ) -> Generator[ServiceEvent, None, None]:
        masked = MaskedEvents(self._look())
        with closing(super().events(run=run, session=session, after=after)) as events:
            for each in events:
                yield from masked.passed(each)
        yield from masked.rest()


class MaskedAsyncServiceClient(AsyncServiceClient):
    """As ``MaskedServiceClient``, for asyncio."""

    def __init__(self, url: str, token: str, look: Callable[[], Redactor]) -> None:
        super().__init__(url, token)
        self._look = look

    async def send(self, call: ServiceCall[T]) -> T:
        secrets = self._look()
        question = question_about(call, secrets)
        asked: ServiceApproval | None = None if question is None else await super().send(question)
        return await super().send(masked_call(call, secrets, asked))

    async def events(
        self, *, run: str | None = None, session: str | None = None, after: int = 0
    ) -> AsyncGenerator[ServiceEvent, None]:
        masked = MaskedEvents(self._look())
        async with aclosing(super().events(run=run, session=session, after=after)) as events:
            async for each in events:
                for told in masked.passed(each):
                    yield told
        for told in masked.rest():
            yield told
