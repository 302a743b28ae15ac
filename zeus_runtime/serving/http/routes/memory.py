"""What an agent remembers of the caller, within the caller's role: memories, their history, profiles, batches."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from zeus_runtime.errors import NotFoundError, UsageError
from zeus_runtime.memory.drafts import ends_before_it_begins
from zeus_runtime.memory.items import MemoryType, Scope, Status, Visibility
from zeus_runtime.memory.outcomes import refuse_shown
from zeus_runtime.memory.profile.fields import CHOICES
from zeus_runtime.memory.shown import batch_json, found_json, item_json, profile_json
from zeus_runtime.serving.http.boundary import note_act
from zeus_runtime.serving.http.parts import Cursor, Limit, Place, place_of, tell_next
from zeus_runtime.serving.http.revalidation import IfMatch, RevalidatedRoute, refuse_changed
from zeus_runtime.serving.http.routes.depends import AgentName, Reader, Runner, service_of
from zeus_runtime.store.event_log import MOST_NUMBER
from zeus_runtime.strict_json import plain_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeus_runtime.agent.agent import Agent
    from zeus_runtime.memory.items import MemoryItem
    from zeus_runtime.memory.profile.fields import ProfileField
    from zeus_runtime.memory.service import MemoryService
    from zeus_runtime.serving.http.principals import Principal

router = APIRouter(tags=["memory"], route_class=RevalidatedRoute)

MOST_CHARACTERS: Final = 20_000
"""Of a text; the gate of each memory has its own, lower limit."""

ReadVersion = Annotated[
    int | None, Query(ge=1, le=MOST_NUMBER, description="That was read: another one is refused.")
]
OfSession = Annotated[
    str | None,
    Query(max_length=100, description="The memories of this session too; without it those of no session."),
]
Kind = Annotated[MemoryType | None, Query(alias="type")]
OfScope = Annotated[Scope | None, Query()]
Text = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Time = Annotated[AwareDatetime, AfterValidator(lambda at: at.astimezone(UTC))]
Profile = Literal["user", "project"]


class MemoryToSave(BaseModel):
    """A text to remember."""

    model_config = ConfigDict(extra="forbid")
    content: Text
    memory_type: MemoryType = "fact"
    scope: Scope = "user"
    visibility: Visibility = Field("members", description="Who of the project may read it.")
    subject: str | None = Field(None, max_length=500)
    valid_from: Time | None = None
    valid_until: Time | None = None
    replaces: list[str] | None = Field(
        None, max_length=50, description="Memories that are no longer true; without it rules decide."
    )


class MemoryReplacement(BaseModel):
    """What to change of a memory; a field that is left out stays."""

    model_config = ConfigDict(extra="forbid")
    content: Text | None = None
    memory_type: MemoryType | None = None
    confidence: float | None = Field(None, ge=0, le=1)
    visibility: Visibility | None = None
    status: Literal["active", "archived"] | None = None
    subject: str | None = Field(None, max_length=500)
    valid_from: Time | None = None
    valid_until: Time | None = None


class ProfileChange(BaseModel):
    """Fields to write by hand; an empty text gives a field back to the memories."""

    model_config = ConfigDict(extra="forbid")
    fields: dict[str, str | list[str]] = Field(min_length=1, max_length=50)


@router.get("/memories")
async def listed(
    request: Request,
    response: Response,
    caller: Reader,
    agent: AgentName = None,
    session: OfSession = None,
    scope: OfScope = None,
    kind: Kind = None,
    status: Annotated[Status | Literal["all"], Query()] = "active",
    limit: Limit = None,
    cursor: Cursor = None,
) -> dict[str, Any]:
    """Memories, last changed first, each with the ids of those near it.

    A project's owner and admins see in ``hidden``, which the first part has, that other members keep memories for
    themselves: whose and since when, not what they say.
    """
    owner, memory = await _memory(request, caller, agent, session)
    after, wanted = place_of(cursor, int, str, int), None if status == "all" else status
    found, more = await _part(memory, scope, kind, wanted, limit, after)
    if more:
        tell_next(request, response, (*_place(found[-1]), (0 if after is None else after[2]) + len(found)))
    hidden = (
        await memory.hidden_memories(scope=scope, status=wanted) if after is None and kind is None else ()
    )
    linked = await memory.linked_memories({each.id for each in found})
    return _told(
        owner,
        {"memories": [item_json(each, linked) for each in found], "hidden": hidden},
    )


@router.get("/memories/search")
async def search(
    request: Request,
    caller: Reader,
    query: Annotated[str, Query(min_length=1, max_length=2_000)],
    agent: AgentName = None,
    session: OfSession = None,
    scope: OfScope = None,
    kind: Kind = None,
    k: Annotated[int, Query(ge=1, le=100, description="The most memories.")] = 5,
    past: Annotated[bool, Query(description="Instead what was true before.")] = False,
) -> list[dict[str, Any]]:
    """The memories that fit a text best, as the agent would find them, each with its scores."""
    owner, memory = await _memory(request, caller, agent, session)
    find = memory.search_past if past else memory.search_memories
    found = await find(query, k=k, memory_type=kind, scope=scope)
    return [_told(owner, found_json(each)) for each in found]


@router.get("/memories/quarantine")
async def quarantined(
    request: Request, caller: Reader, agent: AgentName = None, session: OfSession = None
) -> list[dict[str, Any]]:
    """The memories that no model is shown, since they read like instructions: a person releases or deletes them."""
    owner, memory = await _memory(request, caller, agent, session)
    return [_told(owner, item_json(each, {})) for each in await memory.quarantined_memories()]


@router.get("/memories/stats")
async def stats(
    request: Request, caller: Reader, agent: AgentName = None, session: OfSession = None
) -> dict[str, Any]:
    """How many memories there are, by status, scope, kind, source and embedding model."""
    owner, memory = await _memory(request, caller, agent, session)
    return _told(owner, await memory.stats())


@router.get("/memories/batches")
async def batches(request: Request, caller: Reader, agent: AgentName = None) -> list[dict[str, Any]]:
    """The batches of changes that models made in the background, newest first; each can be undone."""
    owner, memory = await _memory(request, caller, agent)
    return [_told(owner, batch_json(each)) for each in await memory.batches.listed()]


@router.get("/memories/batches/{batch}")
async def undo_effect(
    request: Request, caller: Reader, batch: str, agent: AgentName = None
) -> dict[str, Any]:
    """The memories that an undo of a batch would remove and restore now."""
    owner, memory = await _memory(request, caller, agent)
    effect = await memory.batches.undo_effect(batch)
    return _told(
        owner, {name: [item_json(each, {}) for each in found] for name, found in effect._asdict().items()}
    )


@router.post("/memories/batches/{batch}/undo")
async def undo(request: Request, caller: Runner, batch: str, agent: AgentName = None) -> dict[str, Any]:
    """Remove the memories that a batch added, and restore those that it replaced."""
    owner, memory = await _memory(request, caller, agent)
    return _told(owner, (await memory.batches.undo(batch))._asdict())


@router.post("/memories", status_code=201, responses={200: {"description": "It was kept already."}})
async def add(
    request: Request,
    response: Response,
    caller: Runner,
    body: MemoryToSave,
    agent: AgentName = None,
    session: OfSession = None,
) -> dict[str, Any]:
    """Keep a text, as the same gate decides that decides for the agent. 200 if it was kept already."""
    if ends_before_it_begins(body.valid_from, body.valid_until):
        raise UsageError("valid_until is not after valid_from")
    owner, memory = await _memory(request, caller, agent, session)
    saved = await memory.add_explicit_memory(**body.model_dump())
    if saved.item is None:
        raise UsageError(f"not saved ({saved.code}): {saved.message}")
    if saved.outcome == "duplicate":
        response.status_code = 200
    return _told(
        owner,
        {
            "outcome": saved.outcome,
            "message": saved.message,
            "memory": item_json(saved.item, {saved.item.id: saved.near}),
            "replaced": [each.id for each in saved.all_replaced],
        },
    )


@router.get("/memories/{memory}")
async def one(
    request: Request, caller: Reader, memory: str, agent: AgentName = None, session: OfSession = None
) -> dict[str, Any]:
    """One memory: its content, when it is true, its source, and the ids of those near it."""
    owner, memories = await _memory(request, caller, agent, session)
    return await _one(owner, memories, memory)


@router.patch("/memories/{memory}")
async def change(
    request: Request,
    caller: Runner,
    memory: str,
    body: MemoryReplacement,
    agent: AgentName = None,
    session: OfSession = None,
    if_match: IfMatch = None,
) -> dict[str, Any]:
    """Write a memory's next version."""
    owner, memories = await _memory(request, caller, agent, session)
    version = None
    if if_match is not None:
        present = await _one(owner, memories, memory)
        refuse_changed(if_match, present)
        # The writer compares it again in its transaction: an edit between this look and the write is not lost.
        version = present["version"]
    wanted = body.model_dump(exclude_unset=True)
    if not wanted:
        raise UsageError("nothing says what to change")
    if any(
        wanted.get(name, "") is None
        for name in ("content", "memory_type", "confidence", "visibility", "status")
    ):
        raise UsageError("only subject, valid_from and valid_until can be null")
    await memories.update_memory(memory, version=version, **wanted)
    return await _one(owner, memories, memory)


@router.delete("/memories/{memory}", status_code=204)
async def delete(
    request: Request,
    caller: Runner,
    memory: str,
    agent: AgentName = None,
    session: OfSession = None,
    version: ReadVersion = None,
) -> Response:
    """Delete a memory for good, with what it had replaced and the texts of its history."""
    _, memories = await _memory(request, caller, agent, session)
    await memories.delete_memory(memory, version=version)
    return Response(status_code=204)


@router.get("/memories/{memory}/history")
async def history(
    request: Request, caller: Reader, memory: str, agent: AgentName = None, session: OfSession = None
) -> list[dict[str, Any]]:
    """What happened to a memory, in order."""
    owner, memories = await _memory(request, caller, agent, session)
    return [_told(owner, each._asdict()) for each in await memories.memory_history(memory)]


@router.post("/memories/{memory}/release")
async def release(
    request: Request,
    caller: Runner,
    memory: str,
    agent: AgentName = None,
    session: OfSession = None,
    version: ReadVersion = None,
) -> dict[str, Any]:
    """Show a quarantined memory to models from now on."""
    owner, memories = await _memory(request, caller, agent, session)
    refuse_shown(await memories.get(memory))
    await memories.release_memory(memory, version=version)
    return await _one(owner, memories, memory)


@router.get("/profiles/{kind}")
async def profile(request: Request, caller: Reader, kind: Profile, agent: AgentName = None) -> dict[str, Any]:
    """What is known of the user or of the project: each field, who wrote it, the memories it comes from."""
    owner, memory = await _memory(request, caller, agent)
    return await _profile(owner, memory, kind)


@router.patch("/profiles/{kind}")
async def edit_profile(
    request: Request,
    caller: Runner,
    kind: Profile,
    body: ProfileChange,
    agent: AgentName = None,
    if_match: IfMatch = None,
) -> dict[str, Any]:
    """Write fields by hand; what a hand wrote is never overwritten by what is drawn from memories."""
    import json

    owner, memory = await _memory(request, caller, agent)

    def refuse_late(present: Sequence[ProfileField]) -> None:
        refuse_changed(if_match, _profile_of(owner, kind, present))

    changes = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) if value else ""
        for name, value in body.fields.items()
    }
    # In the transaction that writes: an edit between a look and the write would be lost.
    await memory.profiles.edit(kind, changes, check=None if if_match is None else refuse_late)
    return await _profile(owner, memory, kind)


@router.post("/profiles/{kind}/draw")
async def draw(request: Request, caller: Runner, kind: Profile, agent: AgentName = None) -> dict[str, Any]:
    """Draw the profile anew from the memories, by the rules."""
    owner, memory = await _memory(request, caller, agent)
    await memory.profiles.draw(kind)
    return await _profile(owner, memory, kind)


async def _memory(
    request: Request, caller: Principal, name: str | None, session: str | None = None
) -> tuple[Agent, MemoryService]:
    """The agent of the caller, and its memory on the caller's behalf."""
    service = service_of(request)
    hosted = service.agent(caller, name)
    note_act(request, agent=hosted.name)
    agent = hosted.of(caller.owner)
    if session is None:
        return agent, agent.memory
    of_session, _ = await service.of_session(caller, session)
    if of_session is not hosted:
        raise NotFoundError(f"there is no session {session!r} of the agent {hosted.name!r}")
    return agent, agent.memory.for_session(session)


async def _one(agent: Agent, memory: MemoryService, name: str) -> dict[str, Any]:
    return _told(agent, item_json(await memory.get(name), await memory.linked_memories([name])))


async def _profile(agent: Agent, memory: MemoryService, kind: Profile) -> dict[str, Any]:
    return _profile_of(agent, kind, await memory.profiles.fields(kind))


def _profile_of(agent: Agent, kind: Profile, fields: Sequence[ProfileField]) -> dict[str, Any]:
    choices = {each.name: list(CHOICES[each.name]) for each in fields if each.name in CHOICES}
    return _told(agent, {"profile": kind, "fields": profile_json(fields), "choices": choices})


async def _part(
    memory: MemoryService,
    scope: Scope | None,
    kind: MemoryType | None,
    status: Status | None,
    limit: int | None,
    after: Place | None,
) -> tuple[Sequence[MemoryItem], bool]:
    """The memories after a place, and whether there are more.

    Args:
        after: the place of the last memory that the caller has, and how many these were.
    """

    async def read(offset: int, most: int | None) -> Sequence[MemoryItem]:
        return await memory.list_memories(
            scope=scope, memory_type=kind, status=status, offset=offset, limit=most
        )

    if after is None:
        found = await read(0, None if limit is None else limit + 1)
    else:
        # From the last memory that the caller has: if it is still at its place, the rest follows it.
        seen = after[2]
        # The count is the client's: a database refuses a negative offset.
        found = await read(max(0, seen - 1), None if limit is None else limit + 2)
        if found and _place(found[0]) == after[:2]:
            found = found[1:]
        else:
            # Memories were saved or deleted meanwhile, so the count no longer tells the place.
            found = [each for each in await read(0, None) if _place(each) > after[:2]]
    return found[:limit], limit is not None and len(found) > limit


def _place(item: MemoryItem) -> Place:
    return -_ms(item.updated_at), item.id


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _told(agent: Agent, value: Any) -> dict[str, Any]:
    """A value as a JSON object, with the secrets of the agent masked."""
    return dict(agent.masked(plain_json(value)))
