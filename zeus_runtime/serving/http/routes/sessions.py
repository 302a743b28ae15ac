"""Agents, sessions, turns and their events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import StreamingResponse

from zeus_runtime.errors import NotFoundError
from zeus_runtime.escaping import utf8_text
from zeus_runtime.serving.http import streams
from zeus_runtime.serving.http.boundary import note_act
from zeus_runtime.serving.http.hub import Read
from zeus_runtime.serving.http.parts import Cursor, Limit, Place, part_of, place_of, tell_unread
from zeus_runtime.serving.http.revalidation import RevalidatedRoute
from zeus_runtime.serving.http.routes.depends import Key, Reader, Runner, service_of
from zeus_runtime.serving.http.service import as_json
from zeus_runtime.serving.http.turn_queue import session_of_key
from zeus_runtime.serving.http.visible_json import VisibleJSON
from zeus_runtime.sessions.stored import as_document, as_markdown
from zeus_runtime.store.branch import line_of
from zeus_runtime.store.event_log import MOST_NUMBER
from zeus_runtime.store.listing import BEFORE_ALL, SessionPlace
from zeus_runtime.store.rollbacks import rollbacks
from zeus_runtime.store.turns import turns_of
from zeus_runtime.strict_json import plain_json

if TYPE_CHECKING:
    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.serving.http.hosting import HostedAgent
    from zeus_runtime.serving.http.principals import Principal
    from zeus_runtime.sessions.message_search import FoundMessage
    from zeus_runtime.store.listing import SessionInfo

T = TypeVar("T")

router = APIRouter(route_class=RevalidatedRoute)

After = Annotated[int, Query(ge=0, le=MOST_NUMBER, description="The last event that the client has.")]
AsRead = Annotated[
    int | None, Query(ge=0, le=2**53, description="As it was read; if it is another now, the session stays.")
]


class NewSession(BaseModel):
    """A session to begin."""

    model_config = ConfigDict(extra="forbid")
    agent: str | None = Field(None, description="The agent's name; without one the only agent.")
    title: str = Field(
        "",
        description="Its beginning is shown. Send a prompt whole: of a secret that was cut, the service knows nothing.",
    )


class Attachment(BaseModel):
    """An uploaded file that goes with a prompt."""

    model_config = ConfigDict(extra="forbid")
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    name: str = Field("file", min_length=1, max_length=200, description="Its name for the model.")


class NewRun(BaseModel):
    """A turn to run: a prompt, or the last message again."""

    model_config = ConfigDict(extra="forbid")
    prompt: str | None = Field(None, description="The user's prompt.", min_length=1)
    attachments: list[Attachment] = Field(
        default_factory=list, max_length=20, description="Files of the user: PUT /v1/files/SHA256."
    )
    resume: bool = Field(
        False,
        description="Instead of a prompt: answer the last message again, after a rollback or in a fork.",
    )

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.prompt is None) is not self.resume:
            raise ValueError("send either a prompt or `resume`")
        if self.resume and self.attachments:
            raise ValueError("attachments go with a prompt")
        return self


class NewSessionRun(NewSession):
    """A turn to run in a session of its own."""

    prompt: str = Field(description="The user's prompt.", min_length=1)
    attachments: list[Attachment] = Field(
        default_factory=list, max_length=20, description="Files of the user: PUT /v1/files/SHA256."
    )


class NewFork(BaseModel):
    """Where another session begins."""

    model_config = ConfigDict(extra="forbid")
    step: int = Field(
        ge=1, le=MOST_NUMBER, description="The step that is asked again; also one that was set aside."
    )
    middlewares: str | None = Field(
        None,
        max_length=20_000,
        description="The value of `middlewares` for the new session, in YAML; needs the scope `admin`.",
    )


class NewRollback(BaseModel):
    """A message to go back to."""

    model_config = ConfigDict(extra="forbid")
    to: int = Field(ge=1, le=MOST_NUMBER, description="The message's place in the conversation, from 1.")
    before: bool = Field(False, description="Set the message itself aside too, to rephrase it.")


@router.get("/agents", tags=["agents"])
async def agents(request: Request, response: Response, caller: Reader) -> list[dict[str, Any]]:
    """The agents that the caller may use."""

    async def read(hosted: HostedAgent, of_caller: Agent) -> dict[str, Any]:
        plan = hosted.plan
        told = {
            "name": hosted.name,
            "description": plan.config.description or "",
            "model": plan.profile.name,
            "digest": plan.digest,
            "memory": plan.config.memory is not None,
            "knowledge": list(plan.config.knowledge),
        }
        # The config is read here and not the log: a variable in it may be a secret.
        return dict(of_caller.masked(told))

    found, unread = await service_of(request).read_each(caller, read)
    tell_unread(response, unread)
    return list(found)


@router.post("/sessions", status_code=201, tags=["sessions"])
async def begin(request: Request, caller: Runner, body: NewSession, key: Key = None) -> dict[str, Any]:
    """Begin a session. A repeated idempotency key gives the session that it made."""
    service = service_of(request)
    hosted = service.agent(caller, body.agent)
    begun = await service.turns.begin_session(hosted, caller.owner, title=body.title, key=key)
    note_act(request, agent=hosted.name, session=begun.session)
    return asdict(begun)


@router.get("/sessions", tags=["sessions"])
async def listed(
    request: Request,
    response: Response,
    caller: Reader,
    agent: str | None = None,
    archived: Annotated[bool, Query(description="Those that are archived.")] = False,
    limit: Limit = None,
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """The caller's sessions, last used first."""
    place = place_of(cursor, int, str)
    # A place ascends along its list, which has the last used first.
    after = BEFORE_ALL if place is None else SessionPlace(-place[0], place[1])
    # One more tells whether there is a next part. The first of all agents together are among the first of each.
    most = None if limit is None else limit + 1

    async def read(_hosted: HostedAgent, of_caller: Agent) -> Sequence[SessionInfo]:
        return await of_caller.sessions(every_agent=False, archived=archived, limit=most, after=after)

    found = await _of_each(request, response, caller, agent, read)

    def place_in_list(each: SessionInfo) -> Place:
        return -each.updated_ms, each.session

    found.sort(key=place_in_list)
    shown = part_of(request, response, found, place_in_list, after=place, limit=limit)
    return [asdict(each) for each in shown]


@router.get("/sessions/search", tags=["sessions"])
async def search(
    request: Request,
    response: Response,
    caller: Reader,
    query: Annotated[
        str, Query(min_length=1, max_length=500, description="A text in any case of its letters.")
    ],
    agent: str | None = None,
    k: Annotated[int, Query(ge=1, le=100, description="The most messages.")] = 20,
) -> list[dict[str, Any]]:
    """The messages of the caller's sessions that contain a text, the newest first; not those of archived sessions."""

    async def read(_hosted: HostedAgent, of_caller: Agent) -> Sequence[FoundMessage]:
        return await of_caller.search_messages(query, limit=k)

    found = await _of_each(request, response, caller, agent, read)
    return [asdict(each) for each in sorted(found, key=lambda each: -each.created_ms)[:k]]


@router.get("/sessions/{session}", tags=["sessions"])
async def one(request: Request, caller: Reader, session: str) -> dict[str, Any]:
    """One session."""
    return await _info(request, caller, session)


@router.delete("/sessions/{session}", status_code=204, tags=["sessions"])
async def delete(
    request: Request,
    caller: Runner,
    session: str,
    messages: AsRead = None,
    updated_ms: AsRead = None,
) -> Response:
    """Delete a session with all its messages; with `messages` and `updated_ms`, only if they are as they were read."""
    async with service_of(request).for_owner(caller, session) as (_, agent, _owner):
        await agent.delete_session(session, messages=messages, updated_ms=updated_ms)
    return Response(status_code=204)


@router.post("/sessions/{session}/rollback", tags=["sessions"])
async def roll_back(request: Request, caller: Runner, session: str, body: NewRollback) -> dict[str, Any]:
    """Go back to an earlier message of the user; later messages are set aside, and stay in the database.

    A turn that waits is cancelled, and the next one in the queue begins.
    """
    service = service_of(request)
    async with service.for_owner(caller, session) as (hosted, agent, owner):
        log = await agent.log()
        thread = await log.find(session)
        line = line_of(await rollbacks(log, thread))
        # A client counts the messages that it sees: those that were set aside before have no place.
        numbers = [entry.seq for entry in await log.read(thread) if line.place(entry.seq) is not None]
        if body.to > len(numbers):
            raise NotFoundError(f"the session has {len(numbers)} messages, not {body.to}")
        set_aside = await agent.rollback(session, to=numbers[body.to - 1], before=body.before)
        service.turns.gave_up(hosted, owner, session)
        return {"set_aside": set_aside}


@router.post("/sessions/{session}/fork", status_code=201, tags=["sessions"])
async def fork(
    request: Request, caller: Runner, session: str, body: NewFork, key: Key = None
) -> dict[str, Any]:
    """Begin a session as this one was when a step was asked; a turn with `resume` asks that step again."""
    async with service_of(request).for_owner(caller, session) as (_, agent, _owner):
        if body.middlewares is not None:
            caller.require("admin")
        # Apart from the keys of `begin`, which a client may have used too.
        name = None if key is None else session_of_key(caller.owner, f"fork\0{session}\0{key}")
        made = await agent.fork(session, step=body.step, name=name, middlewares=body.middlewares)
    return await _info(request, caller, made)


@router.post("/sessions/{session}/archive", tags=["sessions"])
async def archive(request: Request, caller: Runner, session: str) -> dict[str, Any]:
    """Pack the session away: out of the lists, a fraction of the room."""
    async with service_of(request).for_owner(caller, session) as (_, agent, _owner):
        await agent.archive(session)
    return await _info(request, caller, session)


@router.post("/sessions/{session}/restore", tags=["sessions"])
async def restore(request: Request, caller: Runner, session: str) -> dict[str, Any]:
    """Bring an archived session back as it was."""
    async with service_of(request).for_owner(caller, session) as (_, agent, _owner):
        await agent.restore(session)
    return await _info(request, caller, session)


@router.get(
    "/sessions/{session}/export",
    tags=["sessions"],
    responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}},
)
async def export(
    request: Request,
    caller: Reader,
    session: str,
    form: Annotated[Literal["json", "markdown"], Query(alias="format")] = "json",
) -> Response:
    """Everything that is stored of the session and its sub-agents' sessions, to keep; Markdown is for reading."""
    _, agent = await service_of(request).of_session(caller, session)
    stored = await agent.stored_session(session)
    headers = {"Content-Disposition": f'attachment; filename="{session}.{_SUFFIXES[form]}"'}
    if form == "json":
        return VisibleJSON(agent.masked(plain_json(as_document(stored))), headers=headers)
    text = utf8_text(agent.masked(as_markdown(stored)))
    return Response(text, media_type="text/markdown; charset=utf-8", headers=headers)


_SUFFIXES = {"json": "json", "markdown": "md"}


@router.post("/sessions/{session}/runs", status_code=202, tags=["runs"])
async def run(
    request: Request,
    caller: Runner,
    session: str,
    body: NewRun,
    queue: bool = False,
    key: Key = None,
) -> dict[str, Any]:
    """Begin a turn. A busy session answers 409, or queues the turn with `queue=1`."""
    wanted = {"resume": True} if body.prompt is None else _request(body.prompt, body.attachments)
    turn = await service_of(request).add_turn(caller, session, wanted, key=key, queue=queue)
    return dict(as_json(turn))


@router.post("/runs", status_code=202, tags=["runs"])
async def run_in_new_session(
    request: Request, caller: Runner, body: NewSessionRun, key: Key = None
) -> dict[str, Any]:
    """Begin a session with a turn: both or none. A repeated idempotency key gives the turn that it began."""
    service = service_of(request)
    hosted = service.agent(caller, body.agent)
    wanted = _request(body.prompt, body.attachments)
    turn = await service.turns.begin(hosted, caller.owner, wanted, title=body.title, key=key)
    note_act(request, agent=hosted.name, session=turn.session)
    return dict(as_json(turn))


def _request(prompt: str, attachments: Sequence[Attachment]) -> dict[str, Any]:
    attached = [each.model_dump() for each in attachments]
    return {"prompt": prompt, **({"attachments": attached} if attached else {})}


@router.get("/sessions/{session}/runs", tags=["runs"])
async def runs(
    request: Request,
    response: Response,
    caller: Reader,
    session: str,
    limit: Limit = None,
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """The turns that the service was asked for in a session, in order."""
    _, agent = await service_of(request).of_session(caller, session)
    log = await agent.masked_log()
    found = await turns_of(log, await log.find(session, archived=True))
    after = place_of(cursor, int)
    shown = part_of(request, response, found, lambda each: (each.number,), after=after, limit=limit)
    return [dict(as_json(each)) for each in shown]


@router.get("/sessions/{session}/events", tags=["events"], response_class=StreamingResponse)
async def session_events(
    request: Request, caller: Reader, session: str, after: After = 0
) -> StreamingResponse:
    """The events of a session as server-sent events, for ever. `Last-Event-ID` continues a stream."""
    service = service_of(request)
    _, agent = await service.of_session(caller, session)
    start = streams.started_after(request, after)

    async def read(last: int, most: int) -> Any:
        return await agent.stored_events(session, last, at_most=most)

    return streams.response(streams.of_session(service.hub, session, start, read))


@router.get("/runs/{run}", tags=["runs"])
async def one_run(request: Request, caller: Reader, run: str) -> dict[str, Any]:
    """One turn and its state."""
    _, _, turn = await service_of(request).of_run(caller, run)
    return dict(as_json(turn))


@router.get("/runs/{run}/events", tags=["events"], response_class=StreamingResponse)
async def run_events(request: Request, caller: Reader, run: str, after: After = 0) -> Response:
    """The events of one turn as server-sent events. 204 if the client has all of them: a browser stops then."""
    service = service_of(request)
    _, agent, turn = await service.of_run(caller, run)
    start = streams.started_after(request, after)

    async def read(last: int, most: int) -> Any:
        return await agent.stored_events(turn.session, last, at_most=most)

    if turn.is_over:
        if not await _has_more(read, run, start):
            return Response(status_code=204)
        return streams.response(streams.of_ended_run(run, start, read))

    async def is_over() -> bool:
        _, _, now = await service.of_run(caller, run)
        return now.is_over

    return streams.response(streams.of_run(service.hub, turn.session, run, start, read, is_over))


async def _has_more(read: Read, run: str, after: int) -> bool:
    while rows := await read(after, 500):
        if any(each.run == run for each in rows):
            return True
        after = rows[-1].seq
    return False


@router.post("/runs/{run}/cancel", status_code=202, tags=["runs"])
async def cancel(request: Request, caller: Runner, run: str) -> dict[str, Any]:
    """Cancel a turn. One that runs is over with its `error` event, one that waits at once and without an event."""
    service = service_of(request)
    _, _, turn = await service.of_run(caller, run)
    await service.cancel(caller, turn)
    _, _, turn = await service.of_run(caller, run)
    return dict(as_json(turn))


async def _of_each(
    request: Request,
    response: Response,
    caller: Principal,
    agent: str | None,
    read: Callable[[HostedAgent, Agent], Awaitable[Sequence[T]]],
) -> list[T]:
    """The items of one agent, or of all; the response names those that could not be read."""
    service = service_of(request)
    found, unread = await service.read_each(caller, read, [service.agent(caller, agent)] if agent else None)
    tell_unread(response, unread)
    return [each for items in found for each in items]


async def _info(request: Request, caller: Reader, session: str) -> dict[str, Any]:
    _, agent = await service_of(request).of_session(caller, session)
    found = await (await agent.masked_log()).seek(session)
    if found is None:
        raise NotFoundError(f"there is no session {session!r}")
    return asdict(found)
