"""Protocols of the service: their interface, and their only way to agents, sessions, turns, events and approvals."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from zeus_runtime.config.ref import Ref
from zeus_runtime.errors import MissingError, NotFoundError, UsageError, ZeusError
from zeus_runtime.events import SubAgentEvent
from zeus_runtime.models.messages import to_payload
from zeus_runtime.serving.http.boundary import note_act
from zeus_runtime.serving.http.hub import AT_ONCE, EndWithoutEvent, StoppingError
from zeus_runtime.serving.http.routes.depends import principal_of
from zeus_runtime.store.approvals import DecidedError
from zeus_runtime.store.event_log import last_number
from zeus_runtime.store.turns import StoredTurn, marked_turns, set_mark, turns_of
from zeus_runtime.tools.approval import Decision, PendingApproval
from zeus_runtime.tools.client_tool import ClientTool, tools_of_client

if TYPE_CHECKING:
    from fastapi import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from zeus_runtime.registry import Registry
    from zeus_runtime.serving.http.hub import EndWithoutEvent, Read
    from zeus_runtime.serving.http.principals import Principal, Scope
    from zeus_runtime.serving.http.service import Service
    from zeus_runtime.store.event_log import StoredEvent
    from zeus_runtime.store.listing import SessionInfo

T = TypeVar("T")


class ServedProtocol(ABC):
    """Another form in which clients use the service, such as OpenAI's API or MCP."""

    @abstractmethod
    def routes(self) -> Sequence[BaseRoute]:
        """Starlette's routes. None may have a path of the service itself or of another protocol."""

    def refusal(self, path: str, status: int, code: str, message: str) -> Response | None:
        """The answer to a request that reached no route, in the protocol's own form; None if it is not one of its own.

        Args:
            path: the request's; perhaps one that no route has.
            status: the HTTP status, which the answer keeps.
            code: why: ``too_large``, ``wrong_host``, ``not_found`` or ``http``.
            message: for people; it has no secret.
        """
        del path, status, code, message
        return None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Entered while the service runs, for what the protocol opens."""
        yield


class AgentInfo(NamedTuple):
    """An agent that a caller may use.

    Args:
        name: its name.
        description: the config's; may be empty.
        model: its model's name; empty while the agent cannot be planned.
    """

    name: str
    description: str
    model: str


class ServedEvent(NamedTuple):
    """A stored event of a run.

    Args:
        number: counts within the session.
        event: the event as JSON, with its ``type``; docs/reference/events.md lists them.
        ends: whether the run ended with it, or waits for a decision.
    """

    number: int
    event: Mapping[str, Any]
    ends: bool


class ProtocolService:
    """The service, as a protocol sees it. Everything else is behind ``caller``."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def caller(self, request: Request, scope: Scope) -> ProtocolCaller:
        """The caller of a request. Ask for it in every request: it is how keys, users and limits apply.

        A request that asks again, for another scope, counts once.

        Args:
            scope: what the request does: ``read``, ``run`` or ``approve``.

        Raises:
            ZeusError: there is no valid token (code ``unauthorized``), or the caller may not do that (``forbidden``).
        """
        principal = await principal_of(request, scope)
        return ProtocolCaller(self._service, principal, partial(note_act, request))

    def mask(self, value: T) -> T:
        """A text or JSON value with known secrets masked, for errors that quote the client."""
        return self._service.mask(value)


@dataclass(frozen=True)
class ProtocolCaller:
    """What one caller may do and see. A session or run of another user does not exist here (``NotFoundError``)."""

    _service: Service
    _principal: Principal
    _note: Callable[..., None] = lambda **_: None
    """Tells the audit log what the request is about."""

    @property
    def name(self) -> str:
        """The key's or the user's name, for logs."""
        return self._principal.name

    def agents(self) -> Sequence[AgentInfo]:
        """The agents that the caller may use; a turn of one that cannot be planned fails with the reason."""
        return [
            AgentInfo(
                each.name,
                each.masked(each.checked.config.description or ""),
                each.masked(each.plan.profile.name if each.is_planned else ""),
            )
            for each in self._service.agents_of(self._principal)
        ]

    async def begin_session(
        self, agent: str | None = None, *, title: str = "", key: str | None = None
    ) -> str:
        """Begin a session, and return its id.

        Args:
            agent: the agent's name; None for the only agent.
            title: a text such as the prompt, whole: it is cut here, once the secrets in it are masked.
            key: an idempotency key: the same key gives the same session.

        Raises:
            NotFoundError: there is no such agent.
        """
        self._principal.require("run")
        hosted = self._service.agent(self._principal, agent)
        owner = self._principal.owner
        begun = (await self._service.turns.begin_session(hosted, owner, title=title, key=key)).session
        self._note(agent=hosted.name, session=begun)
        return begun

    async def session(self, session: str) -> SessionInfo:
        """One session.

        Raises:
            NotFoundError: there is no such session.
        """
        self._principal.require("read")
        _, agent = await self._service.of_session(self._principal, session)
        log = await agent.masked_log()
        return await log.info(await log.find(session, archived=True))

    async def sessions(self, agent: str) -> Sequence[SessionInfo]:
        """The caller's sessions with an agent, last used first.

        Raises:
            NotFoundError: there is no such agent.
        """
        self._principal.require("read")
        hosted = self._service.agent(self._principal, agent)
        return await hosted.of(self._principal.owner).sessions(every_agent=False)

    async def delete_session(self, session: str) -> None:
        """Delete a session with all its messages.

        Raises:
            NotFoundError: there is no such session.
            BusyError: it is running.
        """
        self._principal.require("run")
        async with self._service.for_owner(self._principal, session) as (hosted, agent, _owner):
            self._note(agent=hosted.name, session=session)
            await agent.delete_session(session)

    async def messages(self, session: str) -> Sequence[Mapping[str, Any]]:
        """Every message of a session as JSON: ``role``, ``content``, ``tool_calls``.

        Raises:
            NotFoundError: there is no such session.
        """
        self._principal.require("read")
        _, agent = await self._service.of_session(self._principal, session)
        return [to_payload(each) for each in await agent.history(session)]

    async def turns(self, session: str) -> Sequence[StoredTurn]:
        """The turns of a session, in order.

        Raises:
            NotFoundError: there is no such session.
        """
        self._principal.require("read")
        _, agent = await self._service.of_session(self._principal, session)
        log = await agent.masked_log()
        return await turns_of(log, await log.find(session, archived=True))

    async def turn(self, run: str) -> StoredTurn:
        """One turn.

        Raises:
            NotFoundError: there is no such run.
        """
        self._principal.require("read")
        _, _, turn = await self._service.of_run(self._principal, run)
        return turn

    async def agent_of(self, session: str) -> str:
        """The name of a session's agent.

        Raises:
            NotFoundError: there is no such session.
        """
        self._principal.require("read")
        hosted, _ = await self._service.of_session(self._principal, session)
        return hosted.name

    def check_turn(self, agent: str, prompt: str, tools: Sequence[ClientTool] = ()) -> None:
        """Refuse a prompt or tools that ``begin_turn`` would refuse, before anything is changed for them.

        Raises:
            NotFoundError: there is no such agent.
            UsageError: the prompt is empty, or a tool is not possible.
        """
        self._principal.require("run")
        hosted = self._service.agent(self._principal, agent)
        if not prompt.strip():
            raise UsageError("the prompt is empty", remedy="Say what is to be done.")
        if tools:
            tools_of_client(tools, [each.tool.name for each in hosted.plan.tools])

    async def begin_turn(
        self,
        session: str,
        prompt: str,
        *,
        tools: Sequence[ClientTool] = (),
        key: str | None = None,
        queue: bool = False,
    ) -> StoredTurn:
        """Begin a turn; it continues without the request.

        Args:
            tools: the client's own; each of their calls waits for ``answer_tools``.
            key: an idempotency key: the same key gives the same turn.
            queue: whether it may wait for the session's other turns.

        Raises:
            NotFoundError: there is no such session.
            BusyError: the session has a turn that is not over, and ``queue`` is false.
            UsageError: the prompt is empty, or a tool is not possible.
        """
        self._principal.require("run")
        hosted, _ = await self._service.of_session(self._principal, session)
        self._note(agent=hosted.name, session=session)
        self.check_turn(hosted.name, prompt, tools)
        request = {"prompt": prompt, **({"tools": [each.as_json() for each in tools]} if tools else {})}
        return await self._service.add_turn(self._principal, session, request, key=key, queue=queue)

    async def last_number(self, session: str) -> int:
        """The number of the session's last event; 0 before the first.

        Raises:
            NotFoundError: there is no such session.
        """
        self._principal.require("read")
        _, agent = await self._service.of_session(self._principal, session)
        log = await agent.log()
        return await last_number(log.database, await log.find(session))

    async def events(
        self, run: str, after: int = 0, *, follow: bool = True
    ) -> AsyncGenerator[ServedEvent | None, None]:
        """The events of a run, in order and without gap, until it ends or waits; None after each 10 quiet seconds.

        They are stored first, so a reader that lost its connection continues after the last one that it has.

        Args:
            after: the number of the last event that the reader has.
            follow: whether to wait for events that are not there yet.

        Raises:
            NotFoundError: there is no such run.
            StoppingError: the service stops before the run ends; the next process resumes it.
        """
        self._principal.require("read")
        _, agent, turn = await self._service.of_run(self._principal, run)

        async def read(last: int, most: int) -> Any:
            return await agent.stored_events(turn.session, last, at_most=most)

        hub = self._service.hub
        # All events of a turn that is over are stored.
        follow = follow and not turn.is_over
        silent = EndWithoutEvent(run)
        following = hub.follow(turn.session, after, read) if follow else _stored(read, after)
        try:
            # `Hub.follow` counts its readers: without the closing, one that leaves early stays counted.
            async with aclosing(following) as batches:
                async for rows in batches:
                    for row in rows:
                        # The events are the session's, and its runs follow each other.
                        if row.run != run:
                            continue
                        event = json.loads(row.payload)
                        # A sub-agent's end is stored in its parent's session too, and ends no run there.
                        ends = row.ends and event["type"] != SubAgentEvent.type
                        yield ServedEvent(row.seq, event, ends)
                        if ends:
                            return
                    if silent.is_due(rows) and (await self.turn(run)).is_over:
                        return
                    if not rows:
                        yield None
        except StoppingError:
            raise StoppingError(
                f"the service stops before the run {run} of {turn.session} ends",
                remedy="The next process resumes it: ask there for the run, and do not send the prompt again.",
            ) from None

    async def cancel(self, run: str) -> StoredTurn:
        """Cancel a turn, and return it as it is now: one that runs is over once its ``error`` event is stored.

        Raises:
            NotFoundError: there is no such run.
        """
        self._principal.require("run")
        hosted, _, turn = await self._service.of_run(self._principal, run)
        self._note(agent=hosted.name, session=turn.session)
        await self._service.cancel(self._principal, turn)
        return await self.turn(run)

    async def waiting(self, session: str) -> Sequence[PendingApproval]:
        """The calls of a session and its sub-agents that wait: for a decision, an answer, or a result of the client.

        Raises:
            NotFoundError: there is no such session.
        """
        self._principal.require("read")
        _, agent = await self._service.of_session(self._principal, session)
        return await agent.pending_approvals(session)

    async def shown(self, session: str) -> Sequence[PendingApproval]:
        """``waiting``, for a person: each call with the change that it would make now, as ``preview``.

        ``decide`` with one of these as ``seen`` approves that change and no other.

        Raises:
            NotFoundError: there is no such session.
        """
        self._principal.require("read")
        found = []
        async with self._service.for_owner(self._principal, session) as (_, agent, _owner):
            for each in await agent.pending_approvals(session):
                with suppress(NotFoundError):  # decided meanwhile
                    found.append(await agent.previewed(each.id))
        return found

    async def decide(
        self, decisions: Mapping[str, Decision], *, seen: Iterable[PendingApproval] = ()
    ) -> None:
        """Decide waiting calls of one turn, all of them or none; the turn continues once nothing else waits.

        A call that is decided in the same way already stays so: a client may send a request again.

        Args:
            decisions: by the ids of the calls, all of one request of the client; at least one.
            seen: calls as the user saw them; of another, the decision counts for the change that was shown last.

        Raises:
            NotFoundError: there is no such call.
            UsageError: a decision is not possible, or a call is decided otherwise: the error says how.
        """
        self._principal.require("approve")
        shown, left = {each.id: each.shown for each in seen}, dict(decisions)
        while left:
            try:
                found, session, _ = await self._service.decide(self._principal, left, seen=shown)
            except DecidedError as error:
                if not error.is_same:
                    raise
                del left[error.approval]
            else:
                self._note(agent=found.hosted.name, session=session)
                return

    async def answer_tools(self, turn: StoredTurn, results: Mapping[str, tuple[str, bool]]) -> None:
        """Give the results of calls of the client's own tools; the turn continues once nothing else waits.

        Args:
            results: by the call's id: the text for the model, and whether the call failed.

        Raises:
            NotFoundError: no call of a client's tool with such an id waits.
        """
        self._principal.require("run")
        waiting = {each.call_id: each for each in await self.waiting(turn.session) if is_clients(turn, each)}
        if missing := [call for call in results if call not in waiting]:
            raise NotFoundError(f"no call with the id {missing[0]!r} waits for a result")
        decisions = {
            waiting[call].id: Decision("approve", arguments={"result": text, "is_error": is_error})
            for call, (text, is_error) in results.items()
        }
        shown = {waiting[call].id: waiting[call].shown for call in results}
        async with self._service.for_owner(self._principal, turn.session) as found:
            self._note(agent=found.hosted.name, session=turn.session)
            await self._service.settle(found, turn.session, decisions, seen=shown, by=None)

    async def set_mark(self, turn: StoredTurn, mark: str) -> None:
        """Name the conversation that ends with a turn, so that ``marked`` finds it."""
        self._principal.require("run")
        _, agent = await self._service.of_session(self._principal, turn.session)
        await set_mark(await agent.log(), turn, mark)

    async def marked(self, agent: str, mark: str) -> Sequence[StoredTurn]:
        """The turns with that mark that end sessions of the caller with an agent, newest first.

        Raises:
            NotFoundError: there is no such agent.
        """
        self._principal.require("read")
        hosted = self._service.agent(self._principal, agent)
        log = await hosted.of(self._principal.owner).masked_log()
        return await marked_turns(log, agent, mark)


async def _stored(read: Read, after: int) -> AsyncGenerator[Sequence[StoredEvent], None]:
    while rows := await read(after, AT_ONCE):
        yield rows
        after = rows[-1].seq


def is_clients(turn: StoredTurn, pending: PendingApproval) -> bool:
    """Whether a waiting call is one of the client's own tools, which waits for the client's result."""
    names = {each["name"] for each in turn.request.get("tools", ())}
    return pending.is_question and pending.session == turn.session and pending.tool in names


def protocols_of(registry: Registry, named: Iterable[Ref], service: Service) -> Sequence[ServedProtocol]:
    """The protocols that the service is started with.

    Raises:
        UsageError: one is named twice, or its options are not valid.
        MissingError: no plugin registers one, or its code fails.
    """
    made: dict[str, ServedProtocol] = {}
    for ref in named:
        if ref.name in made:
            raise UsageError(f"--protocol names {ref.name!r} twice", remedy="Name each protocol once.")
        made[ref.name] = _created(registry, ref, service)
    _refuse_common_paths(made)
    return list(made.values())


def _created(registry: Registry, ref: Ref, service: Service) -> ServedProtocol:
    from zeus_runtime.config.schema.construct import BuildError, build
    from zeus_runtime.registry import load_create, load_options
    from zeus_runtime.registry.importing import FAILURES, brief

    registered = registry.get("protocol", ref.name)
    kind = load_options(registered)
    try:
        if kind is None and ref.options:
            raise BuildError("it takes no options", ())
        options = None if kind is None else build(kind, dict(ref.options))
    except BuildError as error:
        place = ".".join(map(str, (ref.name, *error.path)))
        raise UsageError(f"--protocol {place}: {error.message}") from None
    create = load_create(registered)
    try:
        protocol = create(options, ProtocolService(service))
    # It tells the user what is wrong; any other error is a fault of the plugin.
    except ZeusError:
        raise
    except FAILURES as error:
        raise MissingError(
            f"the protocol {ref.name!r} of plugin {registered.plugin} raised {brief(error)}",
            remedy=registered.plugin.remedy,
        ) from error
    if not isinstance(protocol, ServedProtocol):
        raise MissingError(
            f"the protocol {ref.name!r} of plugin {registered.plugin} is no ServedProtocol",
            remedy=registered.plugin.remedy,
        )
    return protocol


def _refuse_common_paths(protocols: Mapping[str, ServedProtocol]) -> None:
    taken: dict[str, str] = {}
    for name, protocol in protocols.items():
        for path in {str(getattr(each, "path", "")) for each in protocol.routes()}:
            if path in taken:
                raise MissingError(
                    f"the protocols {taken[path]!r} and {name!r} both serve {path}",
                    remedy="Serve one of them.",
                )
            taken[path] = name


@asynccontextmanager
async def all_running(protocols: Iterable[ServedProtocol]) -> AsyncIterator[None]:
    """Inside, the protocols run."""
    async with AsyncExitStack() as stack:
        for each in protocols:
            await stack.enter_async_context(each.running())
        yield


__all__ = [
    "AgentInfo",
    "ProtocolCaller",
    "ProtocolService",
    "ServedEvent",
    "ServedProtocol",
    "all_running",
    "is_clients",
    "protocols_of",
]
