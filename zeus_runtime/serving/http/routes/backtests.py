"""Backtests as jobs: sessions recomputed under other context policies, without a model and without a tool."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from zeus_runtime.agent.what_if import recomputed
from zeus_runtime.errors import UsageError
from zeus_runtime.serving.http.backtests import Play, Replay
from zeus_runtime.serving.http.parts import tell_unread
from zeus_runtime.serving.http.revalidation import RevalidatedRoute
from zeus_runtime.serving.http.routes.depends import Administrator, Key, service_of
from zeus_runtime.serving.http.turn_queue import run_of_key
from zeus_runtime.store.forks import with_policies

if TYPE_CHECKING:
    from zeus_runtime.plan.validated import Checked
    from zeus_runtime.serving.http.hosting import HostedAgent
    from zeus_runtime.serving.http.principals import Principal
    from zeus_runtime.serving.http.service import Service
    from zeus_runtime.store.backtests import StoredBacktest

router = APIRouter(prefix="/backtests", tags=["context"], route_class=RevalidatedRoute)

Name = Annotated[str, Field(min_length=1, max_length=100)]
PRESENT = "present"
"""The name of the policies that the session has now."""


class NewBacktest(BaseModel):
    """What to recompute."""

    model_config = ConfigDict(extra="forbid")
    sessions: list[str] = Field(min_length=1, max_length=20)
    policies: dict[Name, Annotated[str, Field(max_length=20_000)]] = Field(
        default_factory=dict,
        max_length=5,
        description="Candidates: a name to the value of `middlewares`, in YAML. The present ones are played too.",
    )
    needles: list[str] = Field(
        default_factory=list, max_length=50, description="Texts that the last request should still contain."
    )


@router.post("", status_code=202)
async def begin(
    request: Request, caller: Administrator, body: NewBacktest, key: Key = None
) -> dict[str, Any]:
    """Begin a backtest; it runs in the background. A repeated idempotency key gives the one that it began."""
    service = service_of(request)
    replays: list[Replay] = []
    agents: list[HostedAgent] = []
    places: set[str] = set()
    configs: dict[tuple[str, str | None], Checked] = {}
    for session in dict.fromkeys(body.sessions):
        hosted, agent = await service.of_session(caller, session)
        await agent.stored_session(session)
        agents.append(hosted)
        places.add((await agent.log()).database.place)
        _, own = await with_policies(await agent.log(), session, inner=False)
        for name, text in {PRESENT: own, **body.policies}.items():
            # Each config once: 20 sessions of an agent under 6 policies need 6 readings, not 120.
            if (hosted.name, text) not in configs:
                configs[hosted.name, text] = await hosted.with_middlewares(text, are_new=text != own)
            play = _play(service, caller, session, name, configs[hosted.name, text], body.needles)
            replays.append(Replay(session, agent.masked(name), play))
    if len(places) > 1:
        raise UsageError(
            "these sessions are in different databases", remedy="Begin a backtest for each of the databases."
        )
    if key is not None:
        names = sorted({each.name for each in agents})
        # With the agents' names: the same key for other agents is another backtest.
        key = run_of_key(caller.owner, "\0".join(("backtest", *names, key)))
    return as_json(await service.backtests.begin(agents[0], caller.owner, replays, key=key))


@router.get("")
async def listed(request: Request, response: Response, caller: Administrator) -> list[dict[str, Any]]:
    """The caller's backtests, oldest first: those of every process."""
    found, unread = await service_of(request).backtests.of(caller)
    tell_unread(response, unread)
    return [as_json(each) for each in found]


@router.get("/{backtest}")
async def one(request: Request, caller: Administrator, backtest: str) -> dict[str, Any]:
    """A backtest: its state, how far it is, and the outcome of each session under each policy."""
    return as_json(await service_of(request).backtests.find(caller, backtest))


@router.post("/{backtest}/cancel")
async def cancel(request: Request, caller: Administrator, backtest: str) -> dict[str, Any]:
    """End a backtest that runs; the outcomes that it has stay."""
    return as_json(await service_of(request).backtests.cancel(caller, backtest))


def _play(
    service: Service, caller: Principal, session: str, policy: str, checked: Checked, needles: list[str]
) -> Play:
    async def play() -> dict[str, Any]:
        # Asked for again: the job outlives the request, and an agent that it had may be closed.
        _, agent = await service.of_session(caller, session)
        recording = await agent.recording(session)
        async with service.replaying:
            found = await recomputed(checked, recording, policy=policy, needles=needles)
        told: dict[str, Any] = agent.masked(asdict(found))
        return told

    return play


def as_json(stored: StoredBacktest) -> dict[str, Any]:
    """A backtest as the API shows it."""
    return {
        "id": stored.id,
        "state": stored.state,
        "done": len(stored.outcomes),
        "total": stored.total,
        "created_ms": stored.created_ms,
        "outcomes": list(stored.outcomes),
        "problem": stored.problem,
    }
