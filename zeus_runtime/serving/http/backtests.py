"""Backtests that users asked for: they run one after the other in this process, and are kept until it ends."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from zeus_runtime.errors import LimitError, NotFoundError, ZeusError

if TYPE_CHECKING:
    from zeus_runtime.serving.http.principals import Principal

State: TypeAlias = Literal["running", "complete", "failed", "cancelled"]
Replay: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]

MOST_RUNNING: Final = 3
"""Of one user."""
MOST_KEPT: Final = 20
"""Of one user; the oldest that is over goes first."""


@dataclass
class Backtest:
    """A job.

    Args:
        whose: the user and the project.
        agents: those whose sessions it replays.
        total: how many replays it has.
        outcomes: those of the replays that are done.
        problem: why it failed.
    """

    id: str
    whose: tuple[str, str | None] | None
    agents: frozenset[str]
    total: int
    created_ms: int
    state: State = "running"
    outcomes: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def as_json(self) -> dict[str, Any]:
        """The job as the API shows it."""
        return {
            "id": self.id,
            "state": self.state,
            "done": len(self.outcomes),
            "total": self.total,
            "created_ms": self.created_ms,
            "outcomes": list(self.outcomes),
            "problem": self.problem,
        }


class Backtests:
    """The backtests of a service."""

    def __init__(self) -> None:
        self._jobs: dict[str, Backtest] = {}
        self._process = secrets.token_hex(4)

    def begin(
        self,
        caller: Principal,
        replays: Sequence[Replay],
        *,
        agents: Collection[str],
        name: str | None = None,
    ) -> Backtest:
        """Begin a backtest; a known name gives the one that it named.

        Args:
            agents: those whose sessions it replays.
            name: tells it from the caller's others.

        Raises:
            LimitError: too many of the user's run.
        """
        own = [each for each in self._jobs.values() if each.whose == _whose(caller)]
        number = f"{self._process}_{name or secrets.token_hex(8)}"
        known = next((each for each in self.of(caller) if each.id == number), None)
        if known is not None:
            return known
        if sum(each.state == "running" for each in own) >= MOST_RUNNING:
            raise LimitError(
                f"{MOST_RUNNING} of your backtests run already", remedy="Wait for one, or cancel it."
            )
        over = [each for each in own if each.state != "running"]
        for each in over[: max(0, len(own) + 1 - MOST_KEPT)]:
            del self._jobs[each.id]
        job = Backtest(number, _whose(caller), frozenset(agents), len(replays), round(time.time() * 1000))
        self._jobs[job.id] = job
        job.task = asyncio.create_task(_run(job, replays), name=f"backtest {job.id}")
        return job

    def of(self, caller: Principal) -> Sequence[Backtest]:
        """The caller's, oldest first: those of agents that the caller may use."""
        return [
            each
            for each in self._jobs.values()
            if each.whose == _whose(caller) and all(map(caller.may_use, each.agents))
        ]

    def find(self, caller: Principal, name: str) -> Backtest:
        """One of the caller's.

        Raises:
            NotFoundError: there is none of that name.
        """
        for each in self.of(caller):
            if each.id == name:
                return each
        if name.partition("_")[0] != self._process:
            raise NotFoundError(
                f"this process has no backtest {name!r}: another one began it, or there was none",
                remedy="If the service was started again since, the backtest is lost: begin it again."
                " If several processes serve, ask the one that began it.",
            )
        raise NotFoundError(f"there is no backtest {name!r}", remedy="`GET /v1/backtests` lists them.")

    async def cancel(self, job: Backtest) -> None:
        """End a job that runs; what it has stays."""
        if job.task is not None and not job.task.done():
            job.task.cancel()
            await asyncio.wait([job.task])

    async def aclose(self) -> None:
        """End all jobs."""
        await asyncio.gather(*(self.cancel(each) for each in self._jobs.values()))


async def _run(job: Backtest, replays: Sequence[Replay]) -> None:
    try:
        for replay in replays:
            job.outcomes.append(await replay())
    except asyncio.CancelledError:
        job.state = "cancelled"
    except ZeusError as error:
        job.state, job.problem = "failed", str(error)
    except BaseException as error:
        job.state, job.problem = "failed", f"{type(error).__name__}: {error}"
        raise
    else:
        job.state = "complete"


def _whose(caller: Principal) -> tuple[str, str | None] | None:
    return None if caller.owner is None else (caller.owner.user, caller.owner.project)
