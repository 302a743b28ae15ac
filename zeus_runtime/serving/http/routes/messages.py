"""The messages of a session, and what belongs to one: its files, and the changes that its call made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from zeus_runtime.models.messages import from_payload, to_payload
from zeus_runtime.run.stored_thread import message_at, messages_after
from zeus_runtime.serving.http.parts import Cursor, Limit, place_of, tell_next
from zeus_runtime.serving.http.revalidation import RevalidatedRoute
from zeus_runtime.serving.http.routes.artifacts import to_save
from zeus_runtime.serving.http.routes.depends import Reader, service_of
from zeus_runtime.sessions.decisions import approvals_in, changed_arguments, decided_beside, decision_text
from zeus_runtime.store.rollbacks import rollbacks
from zeus_runtime.tools.kept_changes import CHANGES, changes_of
from zeus_runtime.tools.question import change_lines

if TYPE_CHECKING:
    from zeus_runtime.tools.approval import PendingApproval

router = APIRouter(prefix="/sessions/{session}/messages", tags=["sessions"], route_class=RevalidatedRoute)

Number = Annotated[
    int, Path(ge=1, le=2**31 - 1, description="The message's place in the conversation, from 1.")
]


@router.get("")
async def messages(
    request: Request,
    response: Response,
    caller: Reader,
    session: str,
    limit: Limit = None,
    cursor: Cursor = None,
) -> list[dict[str, Any]]:
    """Every message of the conversation, unchanged by any context policy; `number` is its place, from 1.

    The changes that a call made are here without their lines. `decisions` of a result are those about its call:
    `kind`, `text`, and in `changed` the arguments that the user wrote instead of the call's.
    """
    _, agent = await service_of(request).of_session(caller, session)
    log = await agent.masked_log()
    thread = await log.find(session)
    after = place_of(cursor, int)
    found = await messages_after(
        log, thread, 0 if after is None else after[0], None if limit is None else limit + 1
    )
    if limit is not None and len(found) > limit:
        found = found[:limit]
        tell_next(request, response, (found[-1][1].seq,))
    # Of this part's runs only: a long session has many.
    shown = None if limit is None else [each.id for _, each in found]
    approvals = await approvals_in(log, session, shown)
    beside = decided_beside(approvals, await rollbacks(log, thread))
    read = [(number, each, to_payload(from_payload(json.loads(each.payload)))) for number, each in found]
    return [
        {
            **_short(payload),
            "number": number,
            "created_ms": each.created_ms,
            **_decisions(beside(each.seq, each.id, payload)),
        }
        for number, each, payload in read
    ]


@router.get("/{number}/changes")
async def changes(request: Request, caller: Reader, session: str, number: Number) -> dict[str, Any]:
    """The changes that a call made, of its result's message; `lines` show them as those of a waiting call."""
    _, agent = await service_of(request).of_session(caller, session)
    log = await agent.masked_log()
    payload = json.loads((await message_at(log, await log.find(session), number)).payload)
    found = changes_of(payload)
    return {
        CHANGES: [each.as_json() for each in found],
        "lines": [line.as_json() for line in change_lines(found)],
    }


@router.get("/{number}/files", response_class=Response)
async def file(
    request: Request,
    caller: Reader,
    session: str,
    number: Number,
    path: Annotated[
        str,
        Query(max_length=1000, description="`copy` of a reference of the message, or `path` of a picture."),
    ],
) -> Response:
    """The bytes of a file or picture of the message; known secrets are masked in text."""
    async with service_of(request).for_owner(caller, session) as (_, agent, _owner):
        found = await agent.message_file(session, number, path)
    return to_save(found.data, found.name)


def _decisions(decided: Sequence[PendingApproval]) -> dict[str, Any]:
    told = [
        {"kind": each.kind, "text": decision_text(each), "changed": changed_arguments(each)}
        for each in decided
    ]
    return {"decisions": told} if told else {}


def _short(payload: dict[str, Any]) -> dict[str, Any]:
    """The message without the lines of its call's changes, which may be long."""
    if not changes_of(payload):
        return payload
    artifact = payload["artifact"]
    short = [{key: each[key] for key in each if key != "lines"} for each in artifact[CHANGES]]
    return {**payload, "artifact": {**artifact, CHANGES: short}}
