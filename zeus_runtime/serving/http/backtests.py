"""Backtests that users asked for: they run one after the other in this process, and are kept until it ends."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
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
        total: how many replays it has.
        outcomes: those of the replays that are done.
        problem: why it failed.
    """

    id: str
    whose: tuple[str, str | None] | None
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

    def begin(self, caller: Principal, replays: Sequence[Replay], *, name: str | None = None) -> Backtest:
        """Begin a backtest; a known name gives the one that it named.

        Raises:
            LimitError: too many of the user's run.
        """
        own = self.of(caller)
        known = next((each for each in own if each.id == name), None)
        if known is not None:
            return known
        if sum(each.state == "running" for each in own) >= MOST_RUNNING:
            raise LimitError(
                f"{MOST_RUNNING} of your backtests run already", remedy="Wait for one, or cancel it."
            )
        over = [each for each in own if each.state != "running"]
        for each in over[: max(0, len(own) + 1 - MOST_KEPT)]:
            del self._jobs[each.id]
        job = Backtest(name or secrets.token_hex(8), _whose(caller), len(replays), round(time.time() * 1000))
        self._jobs[job.id] = job
        job.task = asyncio.create_task(_run(job, replays), name=f"backtest {job.id}")
        return job

    def of(self, caller: Principal) -> Sequence[Backtest]:
        """The caller's, oldest first."""
        return [each for each in self._jobs.values() if each.whose == _whose(caller)]

    def find(self, caller: Principal, name: str) -> Backtest:
        """One of the caller's.

        Raises:
            NotFoundError: there is none of that name.
        """
        for each in self.of(caller):
            if each.id == name:
                return each
        raise NotFoundError(f"there is no backtest {name!r}", remedy="Those of an earlier process are gone.")

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
