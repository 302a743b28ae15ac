"""What the model saw at each step of a session, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Query, Request

from zeus_runtime.context.inspection import (
    composition,
    difference,
    explanation,
    forecast,
    in_short,
    overview,
    why_missing,
)
from zeus_runtime.errors import UsageError
from zeus_runtime.models.content import whole_text
from zeus_runtime.serving.http.revalidation import RevalidatedRoute
from zeus_runtime.serving.http.routes.depends import Reader, service_of

if TYPE_CHECKING:
    from zeus_runtime.context.inspection import Trace
    from zeus_runtime.context.ledger import StepRecord

router = APIRouter(tags=["context"], route_class=RevalidatedRoute)

MOST_CHARACTERS: Final = 4000
"""Of each text in what a step sent."""

Step = Annotated[int | None, Query(ge=1, description="The step; the last one by default.")]


@router.get("/sessions/{session}/context/steps")
async def steps(request: Request, caller: Reader, session: str) -> dict[str, Any]:
    """Every step in short: tokens by source, policies' decisions, cache and cost; and what to expect."""
    return overview(await _trace(request, caller, session))


@router.get("/sessions/{session}/context")
async def one(request: Request, caller: Reader, session: str, step: Step = None) -> dict[str, Any]:
    """What one step sent, part by part, with the beginning of each text."""
    trace = await _trace(request, caller, session)
    found = composition(trace, step)
    return {
        "session": session,
        **asdict(found),
        "step": in_short(found.step, aside=found.step.number in trace.aside),
        "sent": [*_fixed(trace, found.step), *_messages(trace, found.step)],
    }


@router.get("/sessions/{session}/context/diff")
async def diff(
    request: Request,
    caller: Reader,
    session: str,
    a: Annotated[int, Query(ge=1)],
    b: Annotated[int, Query(ge=1)],
) -> dict[str, Any]:
    """The changes from step `a` to step `b`, and the edits that made them."""
    return asdict(difference(await _trace(request, caller, session), a, b))


@router.get("/sessions/{session}/context/why")
async def why(
    request: Request,
    caller: Reader,
    session: str,
    text: str | None = None,
    item: Annotated[
        str | None, Query(description="A message's number, a section, a tool, `summary`.")
    ] = None,
    step: Step = None,
) -> dict[str, Any]:
    """Why a text or an item is, or is not, part of what a step sent."""
    trace = await _trace(request, caller, session)
    at = trace.step(step)
    if item is not None and text is None:
        return {"session": session, "step": at.number, "item": _explained(trace, item, at.number)}
    if item is None and text is not None and text.strip():
        return {
            "session": session,
            "step": at.number,
            "found": [asdict(each) for each in why_missing(trace, text, at.number)],
        }
    raise UsageError("name either a text or an item", remedy="Send `?text=` or `?item=`.")


@router.get("/sessions/{session}/forecast")
async def expected(request: Request, caller: Reader, session: str) -> dict[str, Any]:
    """The steps until the next compaction and the cost of a step, from the session's own ledger."""
    found = forecast(_current(await _trace(request, caller, session)))
    return {} if found is None else asdict(found)


async def _trace(request: Request, caller: Reader, session: str) -> Trace:
    _, agent = await service_of(request).of_session(caller, session)
    return await agent.context_trace(session)


def _current(trace: Trace) -> list[StepRecord]:
    """The steps of the conversation as it is now."""
    return [each for each in trace.steps if each.number not in trace.aside]


def _fixed(trace: Trace, step: StepRecord) -> Iterator[Mapping[str, Any]]:
    fixed = trace.fixed(step)
    if fixed is None:
        return
    for part, parts in (("section", fixed.sections), ("tool schema", fixed.tools)):
        for name, each in parts.items():
            yield {
                "part": part,
                "name": name,
                "tokens": each.tokens,
                **_cut(trace.texts.get(each.digest, "")),
            }


def _messages(trace: Trace, step: StepRecord) -> Iterator[Mapping[str, Any]]:
    for item in trace.view(step).items():
        text = whole_text(item.message)
        yield {
            "part": "message" if item.seq else "summary",
            "name": str(item.seq) if item.seq else "summary",
            "source": item.source,
            "role": item.message.type,
            "tokens": item.tokens,
            **_cut(text),
        }


def _cut(text: str) -> Mapping[str, Any]:
    return {"text": text[:MOST_CHARACTERS], "characters": len(text)}


def _explained(trace: Trace, item: str, step: int) -> Mapping[str, Any]:
    """The explanation, and the whole text of a message as it was."""
    found = asdict(explanation(trace, item, step))
    history = trace.line_of(trace.step(step)).history
    if found["what"] == "message":
        found["text"] = whole_text(history[int(item) - 1])
    return found
