"""What a session would have sent under other context policies: recomputed from its record, no model is called."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from zeus_runtime.agent.backtest import Replayed, replay
from zeus_runtime.plan.listed_toolsets import listed_toolsets, recorded_tools
from zeus_runtime.plan.plan import make_plan

if TYPE_CHECKING:
    from zeus_runtime.context.replay.provider_simulator import SimulatedCost
    from zeus_runtime.context.replay.recordings import Recording
    from zeus_runtime.plan.validated import Checked


@dataclass(frozen=True)
class RecomputedStep:
    """One turn's request.

    Args:
        sources: its tokens by source.
        input_tokens, read_tokens, written_tokens: of the request: all, and those that the cache read and wrote.
        cost_usd: in US dollars; None where no price is known.
        compactions: the policies' admitted edits before it, as ``policy kind``.
    """

    sources: Mapping[str, int]
    input_tokens: int
    read_tokens: int
    written_tokens: int
    cost_usd: float | None
    compactions: Sequence[str]


@dataclass(frozen=True)
class Recomputed:
    """A session under one config.

    Args:
        outcome: the totals.
        steps: its turns.
    """

    outcome: SimulatedCost
    steps: Sequence[RecomputedStep]


async def recomputed(
    checked: Checked, recording: Recording, *, policy: str, needles: Sequence[str] = ()
) -> Recomputed:
    """Play ``recording`` under the config, in another thread, so that a service's other work continues.

    A cancelled one ends at the next step of the session that is played.

    Args:
        policy: the config's name in the outcome.
        needles: texts that the last request should still contain.
    """
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Recomputed]]] = []

    async def work() -> Recomputed:
        task = asyncio.create_task(_recomputed(checked, recording, policy, needles))
        # Known to the other thread from here on; it can cancel the task only through this loop.
        begun.append((asyncio.get_running_loop(), task))
        return await task

    # Another loop in another thread: planning and policies compute for long, and would hold up the service's loop.
    thread = asyncio.create_task(asyncio.to_thread(asyncio.run, work()))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        for loop, task in begun:
            with suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(task.cancel)
        with suppress(asyncio.CancelledError, Exception):
            # A thread cannot be stopped: this waits until it has seen the cancellation, so that no work outlives its
            # caller.
            await thread
        raise


async def _recomputed(
    checked: Checked, recording: Recording, policy: str, needles: Sequence[str]
) -> Recomputed:
    plan = make_plan(checked)
    listed = listed_toolsets(plan, recorded_tools(recording.tools)) if plan.opens else {}
    with TemporaryDirectory(prefix="zeus-what-if-") as folder:
        played = await replay(plan, recording, Path(folder), policy=policy, needles=needles, listed=listed)
    return Recomputed(played.outcome, _steps(played))


def _steps(played: Replayed) -> list[RecomputedStep]:
    turns = [call for call in played.calls if call.purpose == "turn" and not call.overflow]
    made = {
        number: list(dict.fromkeys(f"{each.policy} {each.kind}" for each in step.decisions if each.admitted))
        for number, step in enumerate(each for each in played.steps if each.cause != "compact")
    }
    return [
        RecomputedStep(
            dict(call.sources or {}),
            call.input_tokens,
            call.read_tokens,
            call.written_tokens,
            call.cost_usd,
            made.get(place, []),
        )
        for place, call in enumerate(turns)
    ]
