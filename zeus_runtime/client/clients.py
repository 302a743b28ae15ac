"""The clients: one for asyncio, one without, over the same requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Any, Final, Self, TypeVar

import httpx

from zeus_runtime.client import calls
from zeus_runtime.client.calls import ServiceCall, Verdict
from zeus_runtime.client.errors import ServiceError, ServiceUnavailableError, error_of
from zeus_runtime.client.results import (
    ServiceAgent,
    ServiceApproval,
    ServiceEvent,
    ServiceSession,
    ServiceTurn,
)
from zeus_runtime.client.sse import EventLines

T = TypeVar("T")

_SILENT_SECONDS: Final = 30.0
"""A stream is lost if it is silent for so long: the service sends a ping every 10 seconds."""
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 2.0


def _settings(url: str, token: str, timeout_seconds: float) -> dict[str, Any]:
    return {
        "base_url": url.rstrip("/"),
        "headers": {"Authorization": f"Bearer {token}"},
        "timeout": timeout_seconds,
    }


_STREAM_TIMEOUT: Final = httpx.Timeout(10.0, read=_SILENT_SECONDS)


def _lost(error: httpx.HTTPError, url: httpx.URL) -> ServiceUnavailableError:
    said = str(error) or type(error).__name__
    return ServiceUnavailableError(
        f"the service at {url} does not answer: {said}",
        code="unavailable",
        remedy="Start it with `zeus serve`, or correct the address.",
    )


class _Patience:
    """How long to try again to reach a service that was there.

    Args:
        seconds: since the first attempt that failed.
        url: the service's.
    """

    def __init__(self, seconds: float, url: httpx.URL) -> None:
        self._seconds = seconds
        self._url = url
        self._since: float | None = None
        self._attempt = 0

    def reached(self) -> None:
        self._since, self._attempt = None, 0

    def pause(self, failed: httpx.TransportError | ServiceUnavailableError) -> float:
        """Seconds until the next attempt.

        Raises:
            ServiceUnavailableError: there is none.
        """
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._seconds:
            if isinstance(failed, ServiceUnavailableError):
                raise failed
            raise _lost(failed, self._url) from failed
        self._attempt += 1
        return min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * float(2 ** min(self._attempt, 10)))

    def pause_before(self, call: ServiceCall[Any], failed: httpx.TransportError) -> float:
        """Seconds until a request is sent again.

        A connection that was never made is an address that is wrong, more often than a service that is started again.

        Raises:
            ServiceUnavailableError: it is not sent again.
        """
        if not call.is_safe or isinstance(failed, httpx.ConnectError | httpx.UnsupportedProtocol):
            raise _lost(failed, self._url) from failed
        return self.pause(failed)


class AsyncServiceClient:
    """A client of a service, for asyncio. Use it as an async context manager, or call ``aclose``.

    Args:
        url: the service's address, such as ``http://localhost:8700``.
        token: a token of the service.
        timeout_seconds: how long one answer may take.
        patience_seconds: how long streams and safe requests try to reach a service that is not there, such as one that
            is started again.
    """

    def __init__(
        self, url: str, token: str, *, timeout_seconds: float = 30.0, patience_seconds: float = 60.0
    ) -> None:
        self._http = httpx.AsyncClient(**_settings(url, token, timeout_seconds))
        self._patience_seconds = patience_seconds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def agents(self) -> list[ServiceAgent]:
        """The agents that the token may use."""
        return await self._send(calls.agents())

    async def begin_session(
        self, agent: str | None = None, *, title: str = "", key: str | None = None
    ) -> ServiceSession:
        """Begin a session.

        Args:
            agent: the agent's name; None for the only agent.
            key: the same key gives the same session; a new one by default.
        """
        return await self._send(calls.begin_session(agent, title, key))

    async def sessions(self, agent: str | None = None) -> list[ServiceSession]:
        """The sessions, last used first."""
        return await self._send(calls.sessions(agent))

    async def session(self, name: str) -> ServiceSession:
        """One session."""
        return await self._send(calls.session(name))

    async def delete_session(self, name: str) -> None:
        """Delete a session with all its messages."""
        await self._send(calls.delete_session(name))

    async def messages(self, session: str) -> list[Mapping[str, Any]]:
        """Every message of a session as JSON."""
        return await self._send(calls.messages(session))

    async def begin_turn(
        self, session: str, prompt: str, *, queue: bool = False, key: str | None = None
    ) -> ServiceTurn:
        """Begin a turn; it continues without this client.

        Args:
            queue: whether it may wait for the session's other turns.
            key: the same key gives the same turn; a new one by default.

        Raises:
            ServiceBusyError: the session has a turn that is not over.
        """
        return await self._send(calls.begin_turn(session, prompt, queue, key))

    async def turns(self, session: str) -> list[ServiceTurn]:
        """The turns of a session, in order."""
        return await self._send(calls.turns(session))

    async def turn(self, run: str) -> ServiceTurn:
        """One turn."""
        return await self._send(calls.turn(run))

    async def cancel(self, run: str) -> ServiceTurn:
        """Cancel a turn."""
        return await self._send(calls.cancel(run))

    async def approvals(self) -> list[ServiceApproval]:
        """The calls that wait for a decision, oldest first."""
        return await self._send(calls.approvals())

    async def approval(self, name: str) -> ServiceApproval:
        """One waiting call, with the change that it would make now."""
        return await self._send(calls.approval(name))

    async def decide(
        self,
        approval: str,
        decision: Verdict,
        *,
        reason: str = "",
        changed: Mapping[str, Any] | None = None,
        instruction: str = "",
        always: bool = False,
        seen: str | None = None,
        automatic: bool = False,
    ) -> None:
        """Decide a waiting call; its turn continues once nothing else waits.

        Args:
            reason: why it is rejected, for the model.
            changed: arguments to run instead, or the answer to a question.
            instruction: a further text for the model.
            always: do not ask again about this tool with its present options.
            seen: ``ServiceApproval.seen`` of the call as the user saw it: an approval of another change is refused.
                Without it the approval counts for the change that was shown last, to whomever.
            automatic: no person looked at the call: it is not approved if only a person may (``needs_person``).
        """
        await self._send(
            calls.decide(approval, decision, reason, changed, instruction, always, seen, automatic)
        )

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
        patience = _Patience(self._patience_seconds, self._http.base_url)
        while True:
            try:
                async with self._http.stream(
                    "GET", path, headers={"Last-Event-ID": str(lines.last)}, timeout=_STREAM_TIMEOUT
                ) as answer:
                    if answer.status_code == 204:
                        return
                    if answer.status_code != 200:
                        raise error_of(answer.status_code, await answer.aread())
                    lines.begin()
                    async for line in answer.aiter_lines():
                        patience.reached()
                        event = lines.take(line)
                        if event is not None:
                            yield event
                            if run is not None and event.ends:
                                return
                failed: httpx.TransportError | ServiceUnavailableError = _ended()
            except (httpx.TransportError, ServiceUnavailableError) as error:
                failed = error
            await asyncio.sleep(patience.pause(failed))

    async def run(
        self, prompt: str, *, session: str | None = None, agent: str | None = None, key: str | None = None
    ) -> AsyncGenerator[ServiceEvent, None]:
        """Begin a turn and give its events until it is over or waits for a decision.

        Leaving the loop early does not cancel the turn.

        Args:
            session: the session to continue; a new one by default.
            agent: the agent of a new session.
            key: the same key gives the same turn.
        """
        name = session or (await self.begin_session(agent, title=prompt[:200])).session
        turn = await self.begin_turn(name, prompt, key=key)
        async for event in self.events(run=turn.run):
            yield event
            if event.waits:
                return

    async def _send(self, call: ServiceCall[T]) -> T:
        patience = _Patience(self._patience_seconds, self._http.base_url)
        while True:
            try:
                answer = await self._http.request(
                    call.method, call.path, json=call.body, params=call.query, headers=call.headers
                )
                return _result(call, answer)
            except httpx.TransportError as error:
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
        self._patience_seconds = patience_seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def agents(self) -> list[ServiceAgent]:
        return self._send(calls.agents())

    def begin_session(
        self, agent: str | None = None, *, title: str = "", key: str | None = None
    ) -> ServiceSession:
        return self._send(calls.begin_session(agent, title, key))

    def sessions(self, agent: str | None = None) -> list[ServiceSession]:
        return self._send(calls.sessions(agent))

    def session(self, name: str) -> ServiceSession:
        return self._send(calls.session(name))

    def delete_session(self, name: str) -> None:
        self._send(calls.delete_session(name))

    def messages(self, session: str) -> list[Mapping[str, Any]]:
        return self._send(calls.messages(session))

    def begin_turn(
        self, session: str, prompt: str, *, queue: bool = False, key: str | None = None
    ) -> ServiceTurn:
        return self._send(calls.begin_turn(session, prompt, queue, key))

    def turns(self, session: str) -> list[ServiceTurn]:
        return self._send(calls.turns(session))

    def turn(self, run: str) -> ServiceTurn:
        return self._send(calls.turn(run))

    def cancel(self, run: str) -> ServiceTurn:
        return self._send(calls.cancel(run))

    def approvals(self) -> list[ServiceApproval]:
        return self._send(calls.approvals())

    def approval(self, name: str) -> ServiceApproval:
        return self._send(calls.approval(name))

    def decide(
        self,
        approval: str,
        decision: Verdict,
        *,
        reason: str = "",
        changed: Mapping[str, Any] | None = None,
        instruction: str = "",
        always: bool = False,
        seen: str | None = None,
        automatic: bool = False,
    ) -> None:
        self._send(calls.decide(approval, decision, reason, changed, instruction, always, seen, automatic))

    def events(
        self, *, run: str | None = None, session: str | None = None, after: int = 0
    ) -> Generator[ServiceEvent, None, None]:
        path, lines = _events_path(run, session), EventLines(after)
        patience = _Patience(self._patience_seconds, self._http.base_url)
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
                        event = lines.take(line)
                        if event is not None:
                            yield event
                            if run is not None and event.ends:
                                return
                failed: httpx.TransportError | ServiceUnavailableError = _ended()
            except (httpx.TransportError, ServiceUnavailableError) as error:
                failed = error
            time.sleep(patience.pause(failed))

    def run(
        self, prompt: str, *, session: str | None = None, agent: str | None = None, key: str | None = None
    ) -> Generator[ServiceEvent, None, None]:
        name = session or self.begin_session(agent, title=prompt[:200]).session
        turn = self.begin_turn(name, prompt, key=key)
        for event in self.events(run=turn.run):
            yield event
            if event.waits:
                return

    def _send(self, call: ServiceCall[T]) -> T:
        patience = _Patience(self._patience_seconds, self._http.base_url)
        while True:
            try:
                answer = self._http.request(
                    call.method, call.path, json=call.body, params=call.query, headers=call.headers
                )
                return _result(call, answer)
            except httpx.TransportError as error:
                pause = patience.pause_before(call, error)
            time.sleep(pause)


def _ended() -> ServiceUnavailableError:
    return ServiceUnavailableError("the service ends the stream at once", code="unavailable")


def _events_path(run: str | None, session: str | None) -> str:
    if (run is None) == (session is None):
        raise ValueError("give either run or session")
    return f"/v1/runs/{run}/events" if run is not None else f"/v1/sessions/{session}/events"


def _result(call: ServiceCall[T], answer: httpx.Response) -> T:
    if not answer.is_success:
        raise error_of(answer.status_code, answer.content)
    if answer.status_code == 204 or not answer.content:
        return call.read(None)
    try:
        told = answer.json()
    except ValueError:
        raise ServiceError(
            f"{answer.url} does not answer as a service does",
            status=answer.status_code,
            remedy="Correct the address.",
        ) from None
    return call.read(told)
