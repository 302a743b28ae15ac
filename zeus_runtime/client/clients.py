"""The clients: one for asyncio, one without, over the same requests."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import httpx

from zeus_runtime.client import calls, data_calls
from zeus_runtime.client.calls import ServiceAnswer, ServiceCall
from zeus_runtime.client.errors import (
    ServiceError,
    ServiceRequestError,
    ServiceUnauthorizedError,
    ServiceUnavailableError,
    error_of,
)
from zeus_runtime.client.results import InvalidAnswerError, ServiceEvent, ServiceFile, ServiceTurn
from zeus_runtime.client.sending import AsyncMethod, SyncMethod
from zeus_runtime.client.sse import EventLines
from zeus_runtime.config.secrets.masking import Redactor, secrets_of_environment
from zeus_runtime.cutting import cut_address, mask_before_cutting
from zeus_runtime.errors import masking_errors
from zeus_runtime.library_records import mask_library_records

T = TypeVar("T")

_SILENT_SECONDS: Final = 30.0
"""A stream is lost if it is silent for so long: the service sends a ping every 10 seconds."""
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 2.0


def _settings(url: str, token: str, timeout_seconds: float) -> dict[str, Any]:
    return {
        "base_url": _address(url),
        "headers": {"Authorization": f"Bearer {_checked(token)}"},
        "timeout": timeout_seconds,
    }


def _address(url: str) -> httpx.URL:
    """The address of a service.

    Raises:
        ServiceRequestError: it is not one.
    """
    try:
        address = httpx.URL(url.rstrip("/"))
        # `host` decodes an international name, and raises a ValueError if it is malformed.
        is_whole = bool(address.host) and address.scheme in ("http", "https")
        fits = is_whole and (address.port or 0) <= _LAST_PORT
    except (httpx.InvalidURL, ValueError):
        fits = False
    if not fits:
        # Not the address itself, which may have a password in it.
        raise ServiceRequestError(
            "the given URL is not an address of a service", remedy="Write one such as http://localhost:8700."
        )
    return address


def _checked(token: str) -> str:
    """A token that fits into a header.

    Raises:
        ServiceUnauthorizedError: it does not.
    """
    if not _TOKEN.fullmatch(token):
        raise ServiceUnauthorizedError(
            "the token of the service is empty, or has characters that no token has",
            remedy="Copy it again: it has only letters, digits and signs of ASCII.",
        )
    return token


# Takes `zk_a.b-1`, and neither `a b` nor `tokén`.
_TOKEN: Final = re.compile("[!-~]+")
_LAST_PORT: Final = 65535
_STREAM_TIMEOUT: Final = httpx.Timeout(10.0, read=_SILENT_SECONDS)


def _lost(error: httpx.HTTPError, url: httpx.URL) -> ServiceUnavailableError:
    said = str(error) or type(error).__name__
    return ServiceUnavailableError(
        f"the service at {cut_address(str(url))} does not answer: {said}",
        code="unavailable",
        remedy="Start it with `zeus serve`, or correct the address.",
    )


@dataclass
class _Service:
    """What a client knows of its service.

    Attributes:
        url: the address.
        secrets: the client's token, and the password in the address: an answer, such as a proxy's, may repeat them.
        patience_seconds: how long to try again to reach it.
        was_reached: whether it has answered this client.
    """

    url: httpx.URL
    secrets: Redactor
    patience_seconds: float
    was_reached: bool = False

    def masking(self) -> AbstractContextManager[None]:
        """Inside the block, an error leaves without the client's secrets."""
        return masking_errors(self.secrets)


def _service(
    http: httpx.Client | httpx.AsyncClient, url: str, token: str, patience_seconds: float
) -> _Service:
    secrets = secrets_of_environment({"ZEUS_TOKEN": token, "url": url})
    mask_before_cutting(secrets)
    mask_library_records()
    return _Service(http.base_url, secrets, patience_seconds)


class _Patience:
    """How long one request or stream tries again to reach a service that was there."""

    def __init__(self, service: _Service) -> None:
        self._service = service
        self._since: float | None = None
        self._attempt = 0

    def reached(self) -> None:
        self._service.was_reached = True
        self._since, self._attempt = None, 0

    def pause(self, failed: httpx.TransportError | ServiceUnavailableError) -> float:
        """Seconds until the next attempt.

        Raises:
            ServiceUnavailableError: there is none.
        """
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._service.patience_seconds:
            raise self._ended_by(failed) from failed
        self._attempt += 1
        # Without the 10, a thousand attempts would overflow the float.
        return min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * float(2 ** min(self._attempt, 10)))

    def pause_before(
        self, call: ServiceCall[Any], failed: httpx.TransportError | ServiceUnavailableError
    ) -> float:
        """Seconds until a request is sent again.

        A service that this client never reached has a wrong address, more often than it is started again.

        Raises:
            ServiceUnavailableError: it is not sent again.
        """
        if isinstance(failed, ServiceUnavailableError):
            is_passing = self._service.was_reached and failed.code in _PASSING
        else:
            is_passing = self._service.was_reached or not isinstance(failed, httpx.ConnectError)
        # The service may have done a request whose answer was lost.
        if not (call.is_safe and is_passing):
            raise self._ended_by(failed) from failed
        return self.pause(failed)

    def _ended_by(self, failed: httpx.TransportError | ServiceUnavailableError) -> ServiceUnavailableError:
        return failed if isinstance(failed, ServiceUnavailableError) else _lost(failed, self._service.url)


_PASSING: Final = frozenset({"error", "stopping"})
"""The codes of a service that is started again: without words of Zeus, from a proxy before it, and from its end."""


class AsyncServiceClient:
    """A client of a service, for asyncio. Use it as an async context manager, or call ``aclose``.

    Args:
        url: the service's address, such as ``http://localhost:8700``.
        token: a token of the service.
        timeout_seconds: how long one answer may take.
        patience_seconds: how long streams and safe requests try to reach a service that is not there, such as one that
            is started again.

    Raises:
        ServiceRequestError: ``url`` is not an address.
        ServiceUnauthorizedError: ``token`` is empty, or has characters that no token has.
    """

    def __init__(
        self, url: str, token: str, *, timeout_seconds: float = 30.0, patience_seconds: float = 60.0
    ) -> None:
        self._http = httpx.AsyncClient(**_settings(url, token, timeout_seconds))
        self._service = _service(self._http, url, token, patience_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    agents = AsyncMethod(calls.agents)
    plan = AsyncMethod(calls.plan)
    session_plan = AsyncMethod(calls.session_plan)
    validate = AsyncMethod(calls.validate)
    begin_session = AsyncMethod(calls.begin_session)
    sessions = AsyncMethod(calls.sessions)
    session = AsyncMethod(calls.session)
    search_sessions = AsyncMethod(calls.search_sessions)
    delete_session = AsyncMethod(calls.delete_session)
    roll_back = AsyncMethod(calls.roll_back)
    fork_session = AsyncMethod(calls.fork_session)
    archive_session = AsyncMethod(calls.archive_session)
    restore_session = AsyncMethod(calls.restore_session)
    export_session = AsyncMethod(calls.export_session)
    messages = AsyncMethod(calls.messages)
    begin_turn = AsyncMethod(calls.begin_turn)
    begin_in_new_session = AsyncMethod(calls.begin_in_new_session)
    resume_turn = AsyncMethod(calls.resume_turn)
    turns = AsyncMethod(calls.turns)
    turn = AsyncMethod(calls.turn)
    cancel = AsyncMethod(calls.cancel)
    approvals = AsyncMethod(calls.approvals)
    approval = AsyncMethod(calls.approval)
    decide = AsyncMethod(calls.decide)
    memories = AsyncMethod(data_calls.memories)
    search_memories = AsyncMethod(data_calls.search_memories)
    memory = AsyncMethod(data_calls.memory)
    add_memory = AsyncMethod(data_calls.add_memory)
    change_memory = AsyncMethod(data_calls.change_memory)
    delete_memory = AsyncMethod(data_calls.delete_memory)
    memory_history = AsyncMethod(data_calls.memory_history)
    memory_stats = AsyncMethod(data_calls.memory_stats)
    quarantined_memories = AsyncMethod(data_calls.quarantined_memories)
    release_memory = AsyncMethod(data_calls.release_memory)
    memory_batches = AsyncMethod(data_calls.memory_batches)
    memory_batch = AsyncMethod(data_calls.memory_batch)
    undo_memory_batch = AsyncMethod(data_calls.undo_memory_batch)
    profile = AsyncMethod(data_calls.profile)
    change_profile = AsyncMethod(data_calls.change_profile)
    knowledge_bases = AsyncMethod(data_calls.knowledge_bases)
    knowledge_base = AsyncMethod(data_calls.knowledge_base)
    search_knowledge = AsyncMethod(data_calls.search_knowledge)
    upload = AsyncMethod(data_calls.upload)
    artifacts = AsyncMethod(data_calls.artifacts)
    artifact = AsyncMethod(data_calls.artifact)
    message_changes = AsyncMethod(data_calls.message_changes)
    message_file = AsyncMethod(data_calls.message_file)
    context_steps = AsyncMethod(data_calls.context_steps)
    context = AsyncMethod(data_calls.context)
    context_diff = AsyncMethod(data_calls.context_diff)
    context_why = AsyncMethod(data_calls.context_why)
    begin_backtest = AsyncMethod(data_calls.begin_backtest)
    backtest = AsyncMethod(data_calls.backtest)
    cancel_backtest = AsyncMethod(data_calls.cancel_backtest)

    async def events(
        self, *, run: str | None = None, session: str | None = None, after: int = 0
    ) -> AsyncGenerator[ServiceEvent, None]:
        """The events of a run until it is over, or of a session for ever: in order, none twice, none left out.

        A lost connection is continued, also with a service that was started again. Exactly one of ``run`` and
        ``session`` is given.

        Args:
            after: the number of the last event that is known.

        Raises:
            ServiceError: the service refuses, or is not reached for ``patience_seconds``.
        """
        path, lines = _events_path(run, session), EventLines(after)
        patience = _Patience(self._service)
        with self._service.masking():
            while True:
                try:
                    async with self._http.stream(
                        "GET", path, headers={"Last-Event-ID": str(lines.last)}, timeout=_STREAM_TIMEOUT
                    ) as answer:
                        # The service answers so once nothing follows.
                        if answer.status_code == 204:
                            return
                        if answer.status_code != 200:
                            raise error_of(answer.status_code, await answer.aread())
                        # Only `last` stays: the service sends an event that was cut off again from its beginning.
                        lines.begin()
                        # httpx also ends a line at U+2028 and the like, which the service sends as escapes.
                        async for line in answer.aiter_lines():
                            # Any line counts, also a ping: the service is there.
                            patience.reached()
                            event = _event(lines, line, answer)
                            if event is not None:
                                yield event
                                if run is not None and event.ends:
                                    return
                    # A stream that ends before its run is continued, as one that is lost.
                    failed: httpx.TransportError | ServiceUnavailableError = _ended()
                # With 503, a service begins or ends; with 502 or 504, a proxy does not reach it. Others are final.
                except (httpx.TransportError, ServiceUnavailableError) as error:
                    failed = error
                await asyncio.sleep(patience.pause(failed))

    async def run(
        self,
        prompt: str,
        *,
        session: str | None = None,
        agent: str | None = None,
        attachments: Sequence[str | Path] = (),
        key: str | None = None,
    ) -> AsyncGenerator[ServiceEvent, None]:
        """Begin a turn and give its events until it is over or waits for a decision.

        Leaving the loop early does not cancel the turn.

        Args:
            session: the session to continue; a new one by default.
            agent: the agent of a new session.
            attachments: files that go with the prompt.
            key: the same key gives the same turn, without ``session`` in the same new session.
        """
        # No file is uploaded for a request that cannot be sent.
        _beginning(prompt, session, agent, [ServiceFile("", Path(each).name, 0) for each in attachments], key)
        files = [await self.upload(*_read(each)) for each in attachments]
        turn = await self.send(_beginning(prompt, session, agent, files, key))
        async for event in self.events(run=turn.run):
            yield event
            if event.waits:
                return

    async def send(self, call: ServiceCall[T]) -> T:
        """Send a request."""
        patience = _Patience(self._service)
        with self._service.masking():
            while True:
                try:
                    answer = await self._http.request(call.method, call.path, **_request(call))
                    return _result(call, answer, patience)
                except (httpx.TransportError, ServiceUnavailableError) as error:
                    pause = patience.pause_before(call, error)
                await asyncio.sleep(pause)


class ServiceClient:
    """A client of a service, without asyncio; its methods are those of ``AsyncServiceClient``.

    Use it as a context manager, or call ``close``.
    """

    def __init__(
        self, url: str, token: str, *, timeout_seconds: float = 30.0, patience_seconds: float = 60.0
    ) -> None:
        self._http = httpx.Client(**_settings(url, token, timeout_seconds))
        self._service = _service(self._http, url, token, patience_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    agents = SyncMethod(calls.agents)
    plan = SyncMethod(calls.plan)
    session_plan = SyncMethod(calls.session_plan)
    validate = SyncMethod(calls.validate)
    begin_session = SyncMethod(calls.begin_session)
    sessions = SyncMethod(calls.sessions)
    session = SyncMethod(calls.session)
    search_sessions = SyncMethod(calls.search_sessions)
    delete_session = SyncMethod(calls.delete_session)
    roll_back = SyncMethod(calls.roll_back)
    fork_session = SyncMethod(calls.fork_session)
    archive_session = SyncMethod(calls.archive_session)
    restore_session = SyncMethod(calls.restore_session)
    export_session = SyncMethod(calls.export_session)
    messages = SyncMethod(calls.messages)
    begin_turn = SyncMethod(calls.begin_turn)
    begin_in_new_session = SyncMethod(calls.begin_in_new_session)
    resume_turn = SyncMethod(calls.resume_turn)
    turns = SyncMethod(calls.turns)
    turn = SyncMethod(calls.turn)
    cancel = SyncMethod(calls.cancel)
    approvals = SyncMethod(calls.approvals)
    approval = SyncMethod(calls.approval)
    decide = SyncMethod(calls.decide)
    memories = SyncMethod(data_calls.memories)
    search_memories = SyncMethod(data_calls.search_memories)
    memory = SyncMethod(data_calls.memory)
    add_memory = SyncMethod(data_calls.add_memory)
    change_memory = SyncMethod(data_calls.change_memory)
    delete_memory = SyncMethod(data_calls.delete_memory)
    memory_history = SyncMethod(data_calls.memory_history)
    memory_stats = SyncMethod(data_calls.memory_stats)
    quarantined_memories = SyncMethod(data_calls.quarantined_memories)
    release_memory = SyncMethod(data_calls.release_memory)
    memory_batches = SyncMethod(data_calls.memory_batches)
    memory_batch = SyncMethod(data_calls.memory_batch)
    undo_memory_batch = SyncMethod(data_calls.undo_memory_batch)
    profile = SyncMethod(data_calls.profile)
    change_profile = SyncMethod(data_calls.change_profile)
    knowledge_bases = SyncMethod(data_calls.knowledge_bases)
    knowledge_base = SyncMethod(data_calls.knowledge_base)
    search_knowledge = SyncMethod(data_calls.search_knowledge)
    upload = SyncMethod(data_calls.upload)
    artifacts = SyncMethod(data_calls.artifacts)
    artifact = SyncMethod(data_calls.artifact)
    message_changes = SyncMethod(data_calls.message_changes)
    message_file = SyncMethod(data_calls.message_file)
    context_steps = SyncMethod(data_calls.context_steps)
    context = SyncMethod(data_calls.context)
    context_diff = SyncMethod(data_calls.context_diff)
    context_why = SyncMethod(data_calls.context_why)
    begin_backtest = SyncMethod(data_calls.begin_backtest)
    backtest = SyncMethod(data_calls.backtest)
    cancel_backtest = SyncMethod(data_calls.cancel_backtest)

    def events(
        self, *, run: str | None = None, session: str | None = None, after: int = 0
    ) -> Generator[ServiceEvent, None, None]:
        path, lines = _events_path(run, session), EventLines(after)
        patience = _Patience(self._service)
        with self._service.masking():
            while True:
                try:
                    with self._http.stream(
                        "GET", path, headers={"Last-Event-ID": str(lines.last)}, timeout=_STREAM_TIMEOUT
                    ) as answer:
                        if answer.status_code == 204:
                            return
                        if answer.status_code != 200:
                            raise error_of(answer.status_code, answer.read())
                        lines.begin()
                        for line in answer.iter_lines():
                            patience.reached()
                            event = _event(lines, line, answer)
                            if event is not None:
                                yield event
                                if run is not None and event.ends:
                                    return
                    failed: httpx.TransportError | ServiceUnavailableError = _ended()
                except (httpx.TransportError, ServiceUnavailableError) as error:
                    failed = error
                time.sleep(patience.pause(failed))

    def run(
        self,
        prompt: str,
        *,
        session: str | None = None,
        agent: str | None = None,
        attachments: Sequence[str | Path] = (),
        key: str | None = None,
    ) -> Generator[ServiceEvent, None, None]:
        _beginning(prompt, session, agent, [ServiceFile("", Path(each).name, 0) for each in attachments], key)
        files = [self.upload(*_read(each)) for each in attachments]
        turn = self.send(_beginning(prompt, session, agent, files, key))
        for event in self.events(run=turn.run):
            yield event
            if event.waits:
                return

    def send(self, call: ServiceCall[T]) -> T:
        """Send a request."""
        patience = _Patience(self._service)
        with self._service.masking():
            while True:
                try:
                    answer = self._http.request(call.method, call.path, **_request(call))
                    return _result(call, answer, patience)
                except (httpx.TransportError, ServiceUnavailableError) as error:
                    pause = patience.pause_before(call, error)
                time.sleep(pause)


def _read(file: str | Path) -> tuple[bytes, str]:
    path = Path(file)
    return path.read_bytes(), path.name


def _beginning(
    prompt: str, session: str | None, agent: str | None, files: Sequence[ServiceFile], key: str | None
) -> ServiceCall[ServiceTurn]:
    """The request that begins a turn, in a new session if none is given.

    Raises:
        ServiceRequestError: it cannot be sent.
    """
    if session is not None:
        return calls.begin_turn(session, prompt, attachments=files, key=key)
    return calls.begin_in_new_session(prompt, agent=agent, title=prompt, attachments=files, key=key)


def _ended() -> ServiceUnavailableError:
    return ServiceUnavailableError("the service ends the stream at once", code="unavailable")


def _events_path(run: str | None, session: str | None) -> str:
    if (run is None) == (session is None):
        raise ValueError("give either run or session")
    if run is not None:
        return f"/v1/runs/{calls.part(run)}/events"
    return calls.of_session(session or "", "events")


def _request(call: ServiceCall[Any]) -> dict[str, Any]:
    query = {name: value for name, value in call.query.items() if value is not None}
    is_json = call.body is not None
    return {
        "content": calls.json_of(call.body) if is_json else call.content,
        "params": query,
        "headers": {**call.headers, **({"Content-Type": "application/json"} if is_json else {})},
    }


def _result(call: ServiceCall[T], answer: httpx.Response, patience: _Patience) -> T:
    refused = None if answer.is_success else error_of(answer.status_code, answer.content)
    if not isinstance(refused, ServiceUnavailableError):
        patience.reached()
    if refused is not None:
        raise refused
    try:
        return call.read(_answer(call, answer))
    except InvalidAnswerError as error:
        raise _invalid(error, answer) from None


def _answer(call: ServiceCall[Any], answer: httpx.Response) -> ServiceAnswer:
    if call.is_file:
        return ServiceAnswer(answer.content)
    if answer.status_code == 204 or not answer.content:
        return ServiceAnswer(None)
    try:
        told = answer.json()
    except (ValueError, RecursionError):
        raise ServiceError(
            f"{cut_address(str(answer.url))} does not answer as a service does",
            status=answer.status_code,
            remedy="Correct the address.",
        ) from None
    try:
        following = answer.links.get("next", {}).get("url")
        cursor = None if following is None else httpx.URL(following).params.get("cursor")
    except httpx.InvalidURL:
        raise InvalidAnswerError("its link to the next part is not an address") from None
    return ServiceAnswer(told, answer.headers.get("etag", ""), cursor)


def _invalid(error: InvalidAnswerError, answer: httpx.Response) -> ServiceError:
    return ServiceError(
        f"the answer of {cut_address(str(answer.url))} is not valid: {error}",
        status=answer.status_code,
        code="invalid_answer",
        remedy="Correct the address, or use the version of Zeus that the service has.",
    )


def _event(lines: EventLines, line: str, answer: httpx.Response) -> ServiceEvent | None:
    try:
        return lines.take(line)
    except InvalidAnswerError as error:
        raise _invalid(error, answer) from None
